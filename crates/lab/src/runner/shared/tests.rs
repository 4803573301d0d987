//! Runs in a state that was shared, beside those that prepare their drive themselves.

use super::*;
use crate::Simulation;
use crate::experiment::Precondition;

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
