//! Runs in a state that was shared, beside those that prepare their drive themselves.

use super::*;
use crate::Simulation;
use crate::experiment::Precondition;
use crate::runner::{Runner, Settle};
use mynah_drive_file::{Shapes, shaping, shipped};
use std::collections::{BTreeMap, BTreeSet};

/// The result of a run, all of it that is measured.
fn result(
    (drive, set, precondition, load): (&str, &[&str], Precondition, &str),
    times: &[&str],
    shared: Option<&SharedStates>,
) -> String {
    let small = ["geometry.blocks_per_plane=48", "geometry.pages_per_block=16"];
    let all: Vec<String> = small.iter().chain(set).chain(times).map(|s| (*s).to_owned()).collect();
    let mut simulation = Simulation::on_changed(drive, &all).unwrap();
    simulation = simulation.precondition(precondition).flow("f", load).unwrap();
    simulation.options.shared = shared.cloned();
    simulation.run().unwrap().result.to_json()
}

/// Whatever the drive and the load: a run is the same, to the last digit, whether its drive was prepared
/// for it or for another with other times.
#[test]
fn runs_in_shared_states_are_the_same() {
    let op: &[&str] = &["over_provisioning=20%"];
    let reads = "rw=randread bs=4k iodepth=8 number_ios=300";
    let writes = "rw=randwrite bs=4k iodepth=8 number_ios=600";
    let mixed = "rw=randrw bs=16k iodepth=4 number_ios=400";
    let fill = Precondition::Fill;
    let roomy: &[&str] = &["over_provisioning=45%", "seed=7"];
    let of_flash =
        ["flash.read=31us", "flash.program=611us", "flash.erase=2ms", "firmware.read=3us"];
    let other = ["flash.read=55us", "flash.program=455us", "flash.erase=4ms", "firmware.read=9us"];
    let of_host = ["firmware.read=3us", "firmware.write=2us"];
    let other_host = ["firmware.read=9us", "firmware.write=5us"];
    for (case, times) in [
        (("samsung-980-pro", op, fill, reads), [of_flash, other]),
        (("samsung-980-pro", op, fill, writes), [of_flash, other]),
        (("samsung-970-pro", op, fill, mixed), [of_flash, other]),
        (("mqsim", roomy, fill, mixed), [of_flash, other]),
        (("eemu-samsung", roomy, fill, mixed), [of_flash, other]),
    ] {
        // Drives that derive more than times from these do not share, which is as good.
        let least = if case.0 == "samsung-980-pro" { 2 } else { 1 };
        share(case, [&times[0], &times[1]], least..=2);
    }
    for case in [
        ("samsung-980-pro", op, Precondition::Steady, reads),
        ("samsung-980-pro", op, Precondition::Steady, writes),
        ("mqsim", roomy, Precondition::Steady, mixed),
    ] {
        let least = if case.0 == "samsung-980-pro" { 2 } else { 1 };
        share(case, [&of_host, &other_host], least..=2);
        // That of a drive that is written knows how long the flash takes, and is not shared beyond.
        let taken = if case.3 == reads { 2 } else { 1 };
        share(case, [&of_flash, &other], taken..=taken);
    }
}

/// Two drives that differ in times run twice each, in states that they share; `taken` of the last two
/// runs find one.
fn share(
    case: (&str, &[&str], Precondition, &str),
    times: [&[&str]; 2],
    taken: std::ops::RangeInclusive<u64>,
) {
    let shared = SharedStates::new();
    let alone = times.map(|times| result(case, times, None));
    assert_ne!(alone[0], alone[1], "{case:?}");
    // Once is not worth its memory; the second time it is kept.
    for _ in 0..2 {
        assert_eq!(result(case, times[0], Some(&shared)), alone[0], "{case:?}");
    }
    assert_eq!(shared.taken(), 0, "{case:?}");
    for (times, alone) in times.iter().zip(&alone) {
        assert_eq!(&result(case, times, Some(&shared)), alone, "{case:?}");
    }
    assert!(taken.contains(&shared.taken()), "{case:?}: {}", shared.taken());
}

/// What shapes the state is not shared: the geometry, the mapping, over-provisioning, the seed, what is
/// occupied, and how it was prepared.
#[test]
fn other_states_are_not_shared() {
    let reads = "rw=randread bs=4k iodepth=8 number_ios=100";
    let base: (&str, &[&str], _, _) =
        ("samsung-980-pro", &["over_provisioning=20%"], Precondition::Fill, reads);
    let shared = SharedStates::new();
    for _ in 0..3 {
        result(base, &[], Some(&shared));
    }
    assert_eq!(shared.taken(), 1);
    for changed in ["over_provisioning=25%", "seed=2", "geometry.pages_per_block=32"] {
        let changed = [changed];
        assert_eq!(result(base, &changed, Some(&shared)), result(base, &changed, None));
    }
    let (drive, set, ..) = base;
    for (how, load) in [(Precondition::Steady, reads), (Precondition::None, reads)] {
        let case = (drive, set, how, load);
        assert_eq!(result(case, &[], Some(&shared)), result(case, &[], None));
    }
    assert_eq!(shared.taken(), 1);
}

/// Values near `text`, a setting's, that a drive may have as well: numbers that are larger and smaller, and
/// what other drives say.
fn others(path: &str, text: &str, words: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let scaled = |by: f64| {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            out.push_str(&rest[..at]);
            let number = &rest[at..];
            let end =
                number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
            let value = number[..end].parse::<f64>().unwrap_or(1.0) * by;
            out.push_str(&format!("{}", if value >= 2.0 { value.round() } else { value }));
            rest = &number[end..];
        }
        out + rest
    };
    let mut all = vec![];
    if text.bytes().any(|byte| byte.is_ascii_digit()) {
        all.extend([2.0, 0.5, 1.25, 0.75].map(scaled));
    }
    match text {
        "true" => all.push("false".into()),
        "false" => all.push("true".into()),
        _ => {}
    }
    all.extend(words.get(path).into_iter().flatten().cloned());
    all.retain(|other| other != text);
    all.into_iter().map(|other| format!("{path}={}", other.trim_matches('"'))).collect()
}

/// How a drive is prepared, its load, and whether it is known how fast that writes.
type Way = (Precondition, Settle, &'static str, bool);
/// Drives on which a key is changed.
const DRIVES_OF_KEY: usize = 2;

/// What a drive is prepared into, all of it; `None` if it cannot be.
fn state(drive: &str, set: &[String], (precondition, settle, load, _): Way) -> Option<Vec<u8>> {
    let simulation = Simulation::on_changed(drive, set).ok()?;
    let mut simulation = simulation.precondition(precondition).flow("f", load).ok()?;
    simulation.options.settle = settle;
    let runner = Runner::new(simulation.config, &simulation.flows, &simulation.options).ok()?;
    let prepared = runner.drive.prepared().map(|state| postcard::to_stdvec(&state).unwrap());
    Some(prepared.unwrap())
}

/// What the declarations of keys say of what depends on them: each key of each shipped drive that is said
/// to shape no state is changed, and the state is compared.
#[test]
fn keys_shape_what_their_declarations_say() {
    let small = ["geometry.blocks_per_plane=48", "geometry.pages_per_block=16"];
    let tight: Vec<String> = small.map(str::to_owned).to_vec();
    let roomy: Vec<String> =
        small.iter().chain(&["over_provisioning=45%"]).map(|&text| text.to_owned()).collect();
    let writes = "rw=randwrite bs=4k iodepth=8";
    let ways: [Way; 4] = [
        (Precondition::Fill, Settle::Auto, "rw=randrw bs=16k iodepth=4", false),
        (Precondition::Steady, Settle::Auto, "rw=randread bs=4k iodepth=8", false),
        (Precondition::Steady, Settle::Auto, writes, true),
        (Precondition::Steady, Settle::Off, "rw=randwrite bs=4k rate_iops=2000", true),
    ];
    // The drives that have blocks, as small as they can be.
    let mut drives = vec![];
    for shipped in shipped() {
        let is_there = |set: &&Vec<String>| state(shipped.name, set, ways[2]).is_some();
        if let Some(set) = [&tight, &roomy].into_iter().find(is_there) {
            let config = Simulation::on_changed(shipped.name, set).unwrap().config;
            drives.push((shipped.name, set, shaping(&config)));
        }
    }
    assert!(drives.len() >= 12, "{}", drives.len());
    let mut words: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, value, _) in drives.iter().flat_map(|(.., settings)| settings) {
        words.entry(path.clone()).or_default().insert(value.clone());
    }
    let (mut varied, mut fixed) = (BTreeMap::<String, usize>::new(), BTreeSet::new());
    let (mut compared, mut paces) = (0, 0);
    for (drive, set, settings) in &drives {
        let base = ways.map(|way| state(drive, set, way));
        for (path, value, shapes) in settings {
            let on = varied.entry(path.clone()).or_default();
            if *shapes == Shapes::Always || *on == DRIVES_OF_KEY {
                continue;
            }
            let mut found = false;
            for other in others(path, value, &words) {
                let set: Vec<String> = set.iter().cloned().chain([other]).collect();
                let Ok(changed) = Simulation::on_changed(drive, &set) else { continue };
                // What else follows from it is told apart by itself.
                let is_alone = shaping(&changed.config).iter().all(|(key, text, of)| {
                    *of != Shapes::Always || settings.iter().any(|(k, t, _)| (k, t) == (key, text))
                });
                if !is_alone {
                    continue;
                }
                found = true;
                for (way, base) in ways.into_iter().zip(&base) {
                    let Some(state) = state(drive, &set, way) else { continue };
                    let same = base.as_ref() == Some(&state);
                    if *shapes == Shapes::Never || !way.3 {
                        assert!(same, "{drive}: {set:?} {way:?}");
                        compared += 1;
                    } else if !same {
                        paces += 1;
                    }
                }
                break;
            }
            *on += usize::from(found);
            if !found {
                fixed.insert(path.clone());
            }
        }
    }
    varied.retain(|_, on| *on > 0);
    fixed.retain(|path| !varied.contains_key(path));
    eprintln!(
        "{compared} states of {} keys; {paces} differ by pace; not varied: {fixed:?}",
        varied.len()
    );
    assert!(
        compared > 300 && varied.len() > 60 && paces > 0,
        "{compared} {} {paces}",
        varied.len()
    );
    assert!(fixed.len() < varied.len() / 5, "not varied: {fixed:?}");
}
