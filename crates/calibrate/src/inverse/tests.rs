//! Searches on figures that a known drive makes.

use super::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A drive that is simulated in no time.
const SMALL: [&str; 3] =
    ["geometry.blocks_per_plane=48", "geometry.pages_per_block=16", "over_provisioning=20%"];

fn small() -> Vec<String> {
    SMALL.map(String::from).to_vec()
}

/// What the drive with `settings` does under 4 KiB reads at each depth, with noise on all figures.
fn made(settings: &[&str], depths: &[u32], noise: f64) -> Input {
    made_of("samsung-980-pro", settings, depths, noise)
}

fn made_of(drive: &str, settings: &[&str], depths: &[u32], noise: f64) -> Input {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let mut text = "rw,bs,iodepth,numjobs,iops,lat_mean_us\n".to_owned();
    let changes: Vec<String> =
        small().into_iter().chain(settings.iter().map(|s| (*s).into())).collect();
    for depth in depths {
        let simulation = mynah_lab::Simulation::on_changed(drive, &changes).unwrap();
        let load = format!("rw=randread bs=4k iodepth={depth} number_ios=30000");
        let simulation = simulation.precondition(Precondition::Fill).flow("f", &load).unwrap();
        let read = simulation.run().unwrap().result.flows[0].read.clone();
        // Of a normal distribution (Box and Muller).
        let error = noise
            * (-2.0 * libm::log(1.0 - uniform())).sqrt()
            * libm::cos(2.0 * std::f64::consts::PI * uniform());
        // The figures of a closed loop belong together.
        let (iops, mean) = (read.iops * (1.0 - error), read.lat_ns.unwrap().mean * (1.0 + error));
        text.push_str(&format!("randread,4k,{depth},1,{iops},{}\n", mean / 1000.0));
    }
    Input::of_text("made.csv", text)
}

fn inverse(input: Input, vary: &[&str]) -> Inverse {
    Inverse {
        drive: "samsung-980-pro".to_owned(),
        set: small(),
        inputs: vec![input],
        vary: vary.iter().map(|vary| Vary::parse(vary).unwrap()).collect(),
        within: 0.05,
        evaluations: 80,
        requests: 4000,
        seed: None,
        precondition: Precondition::Fill,
        threads: 2,
        share: true,
    }
}

fn ns(text: &str) -> f64 {
    text.parse::<mynah_drive_file::units::Duration>().unwrap().0.as_ns_f64()
}

#[test]
fn a_stage_and_the_flash_come_back() {
    let truth = ["firmware.read=45us", "flash.read=37us"];
    let input = made(&truth, &[1, 2, 4, 8, 16, 32, 64, 128], 0.005);
    let search = inverse(input, &["firmware.read=5us..100us", "flash.read=10us..120us"]);
    let fitted = search.fit(&|_, _| true).unwrap().unwrap();
    assert!(fitted.holds(), "{}", fitted.told());
    for (parameter, truth) in fitted.parameters.iter().zip([45_000.0, 37_000.0]) {
        let off = ns(&parameter.value) / truth - 1.0;
        assert!(off.abs() < 0.02, "{}: {off}\n{}", parameter.key, fitted.told());
        let interval = parameter.interval.as_ref().unwrap();
        assert!(interval.determined && ns(&interval.low) < ns(&interval.high));
        assert!(parameter.sensitivity.abs() > 0.1, "{}", fitted.told());
    }
    assert!(fitted.undetermined.is_empty(), "{}", fitted.told());
    // The file is the drive, and says where its numbers are from.
    let file = mynah_drive_file::parse("f.toml", &fitted.text, &[]).unwrap();
    assert_eq!(file.hash, fitted.drive_hash);
    assert!(file.show().contains("fitted to made.csv, sha256 "), "{}", file.show());
    assert!(fitted.html().contains("Measured and modelled"));
}

/// A stage of an Ethernet drive, which bounds it, and its flash come back; a gap of 4 ns a packet does
/// not.
#[test]
fn a_gap_of_a_few_ns_is_not_determined() {
    let truth = ["flash.read=20us", "link.target.transport.in=12us", "link.gap=4ns"];
    let input = made_of("eemu-samsung", &truth, &[1, 2, 4, 8, 16, 64, 256], 0.005);
    let vary = ["flash.read=5us..80us", "link.target.transport.in=1us..40us", "link.gap=0ns..50ns"];
    let drive = "eemu-samsung".to_owned();
    let search = Inverse { drive, evaluations: 100, ..inverse(input, &vary) };
    let fitted = search.fit(&|_, _| true).unwrap().unwrap();
    assert!(fitted.holds(), "{}", fitted.told());
    for (parameter, truth) in fitted.parameters.iter().zip([20_000.0, 12_000.0]) {
        let off = ns(&parameter.value) / truth - 1.0;
        assert!(off.abs() < 0.02, "{}: {off}\n{}", parameter.key, fitted.told());
        assert!(parameter.interval.as_ref().unwrap().determined, "{}", fitted.told());
    }
    let gap = fitted.parameters[2].interval.as_ref().unwrap();
    assert!(!gap.determined && ns(&gap.low) <= 4.0 && ns(&gap.high) >= 4.0, "{}", fitted.told());
    let named = fitted.undetermined.iter().filter(|it| it.keys.contains(&"link.gap".to_owned()));
    assert_eq!(named.count(), 1, "{}", fitted.told());
}

#[test]
fn what_the_data_do_not_tell_apart_is_named() {
    // At a depth of one only the sum of these is seen, and erases are not at all.
    let input = made(&["firmware.read=13us", "flash.read=37us"], &[1], 0.0);
    let vary = ["firmware.read=2us..60us", "flash.read=10us..120us", "flash.erase=1ms..5ms"];
    let search = Inverse { evaluations: 40, ..inverse(input, &vary) };
    let fitted = search.fit(&|_, _| true).unwrap().unwrap();
    let named: Vec<Vec<String>> = fitted.undetermined.iter().map(|it| it.keys.clone()).collect();
    assert!(named.contains(&vec!["flash.erase".to_owned()]), "{}", fitted.told());
    assert!(named.iter().any(|keys| keys.len() == 2), "{}", fitted.told());
    let interval = |index: usize| fitted.parameters[index].interval.as_ref().unwrap();
    assert!((0..3).all(|index| !interval(index).determined), "{}", fitted.told());
    assert_eq!((interval(2).low.as_str(), interval(2).high.as_str()), ("1ms", "5ms"));
    assert!(fitted.told().contains("not determined: flash.erase"), "{}", fitted.told());
    // The same again is the same.
    assert_eq!(search.fit(&|_, _| true).unwrap().unwrap().to_json(), fitted.to_json());
}

#[test]
fn what_cannot_be_reached_is_said_first() {
    let input = made(&["firmware.read=13us", "flash.read=37us"], &[1, 8], 0.0);
    let search = Inverse { evaluations: 20, ..inverse(input, &["firmware.read=1us..3us"]) };
    let fitted = search.fit(&|_, _| true).unwrap().unwrap();
    assert!(!fitted.holds());
    assert!(fitted.told().starts_with("NOT within 5 %"), "{}", fitted.told());
    assert_eq!(fitted.parameters[0].interval.as_ref().unwrap().at_end, Some(true));
    assert!(fitted.told().contains("at the upper end of what was searched"));
}

#[test]
fn an_ended_search_keeps_the_best() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let input = made(&["firmware.read=13us"], &[1], 0.0);
    let search = inverse(input, &["firmware.read=2us..60us"]);
    let ended = AtomicUsize::new(0);
    let after = |most: usize| {
        ended.store(0, Ordering::Relaxed);
        search.fit(&|_, points| ended.fetch_add(points, Ordering::Relaxed) + points < most)
    };
    assert!(after(0).unwrap().is_none());
    let fitted = after(12).unwrap().unwrap();
    assert!(fitted.interrupted && fitted.told().contains("this is the best until then"));
    assert!(fitted.evaluations <= 13 && mynah_drive_file::parse("f", &fitted.text, &[]).is_ok());
}

#[test]
fn what_the_drive_refuses_is_refused_before_the_search() {
    let input = || Input::of_text("t.csv", "rw,bs,iops\nrandread,4k,16000\n");
    let said = |vary: &str| {
        let error = inverse(input(), &[vary]).fit(&|_, _| panic!("nothing is simulated"));
        let error = error.unwrap_err();
        assert!(error.is_usage());
        error.to_string()
    };
    assert!(said("flash.raed=1us..2us").contains("raed"));
    assert!(said("flash.read=1KiB..2KiB").contains("time"));
    assert!(said("geometry.channels=1..100000").contains("channels"));
}

/// What fio says before its JSON, into the same file, is read past with a warning; its words on the load
/// hold here as in job files.
#[test]
fn notes_before_and_behind_a_result_are_read_past() {
    let fio = r#"{
 "fio version": "fio-3.33",
 "jobs": [{
   "jobname": "qd1",
   "job options": {"rw": "randread", "bs": "4k", "iodepth": "8", "ioengine": "psync"},
   "read": {"total_ios": 300000, "iops": 10000.0, "lat_ns": {"mean": 98000.0}}
 }]
}"#;
    let note = "note: both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be \
                capped at 1";
    let read = |text: String| {
        let search = inverse(Input::of_text("q.json", text), &["flash.read=20us..60us"]);
        search.targets()
    };
    let (plain, own) = read(fio.to_owned()).unwrap();
    let (targets, warnings) = read(format!("{note}\n{fio}\nfio: terminating\n")).unwrap();
    assert_eq!(targets, plain);
    assert!(warnings.contains(&format!("q.json:1: read past `{note}`")), "{warnings:?}");
    assert!(
        warnings.contains(&"q.json:10: read past `fio: terminating`".to_owned()),
        "{warnings:?}"
    );
    // One outstanding: 10,000 a second of 98 us.
    assert_eq!((targets[0].contradiction(), warnings.len()), (None, own.len() + 2));
    let second = read(format!("{fio}\n{fio}\n")).unwrap_err().to_string();
    assert_eq!(second, "q.json:9: a second result begins here");
    let broken = read(format!("{note}\n{}", &fio[..60])).unwrap_err().to_string();
    assert!(broken.starts_with("q.json:") && broken.contains("this is no JSON"), "{broken}");
}

/// A value that `--set` has replaced does not keep the source of the old one, and contradictory figures
/// are named in the fit.
#[test]
fn sources_and_contradictions_are_said() {
    let text = "rw,bs,iodepth,iops,lat_mean_us\nrandread,4k,8,16000,60\n".to_owned();
    let input = Input::of_text("t.csv", text);
    let search = Inverse { evaluations: 2, ..inverse(input, &["firmware.read=5us..40us"]) };
    let search = Inverse { requests: 100, precondition: Precondition::None, ..search };
    let fitted = search.fit(&|_, _| true).unwrap().unwrap();
    let [warning] = &fitted.warnings[..] else { panic!("{:?}", fitted.warnings) };
    assert!(warning.contains("are 0.96 commands outstanding"), "{warning}");
    assert_eq!(search.warnings().unwrap(), fitted.warnings);
    assert!(fitted.html().contains("Little") && fitted.to_json().contains("0.96 commands"));
    let file = mynah_drive_file::parse("f.toml", &fitted.text, &[]).unwrap().show();
    let line = |key: &str| file.lines().find(|line| line.contains(key)).unwrap().to_owned();
    for key in ["blocks_per_plane", "pages_per_block", "over_provisioning"] {
        assert!(fitted.text.contains("set on the command line"), "{}", fitted.text);
        assert!(line(key).contains("set on the command line"), "{}", line(key));
    }
}

/// A search whose runs share states is the same search, to the last digit.
#[test]
fn shared_states_change_nothing() {
    let input = made(&["firmware.read=13us", "flash.read=37us"], &[1, 8], 0.0);
    for (precondition, vary) in [
        (Precondition::Fill, ["firmware.read=2us..60us", "flash.read=10us..120us"]),
        (Precondition::Steady, ["firmware.read=2us..60us", "flash.read=10us..120us"]),
        // Of which one shapes the state.
        (Precondition::Fill, ["over_provisioning=20%..30%", "flash.read=10us..120us"]),
    ] {
        let search = Inverse {
            evaluations: 6,
            requests: 400,
            precondition,
            ..inverse(input.clone(), &vary)
        };
        let alone = Inverse { share: false, ..search.clone() };
        let [shared, alone] = [&search, &alone].map(|it| it.fit(&|_, _| true).unwrap().unwrap());
        assert_eq!(shared.to_json(), alone.to_json());
        assert_eq!(shared.text, alone.text);
    }
}

/// A link that the file gives by its generation.
#[test]
fn a_link_is_fitted_by_its_bandwidth() {
    let input = made(&["link.bandwidth=3GB/s"], &[1, 64], 0.0);
    let search = Inverse {
        evaluations: 4,
        requests: 400,
        ..inverse(input, &["link.bandwidth=1GB/s..6GB/s"])
    };
    let fitted = search.fit(&|_, _| true).unwrap().unwrap();
    assert!(fitted.text.contains("bandwidth = ") && !fitted.text.contains("generation = "));
    let file = mynah_drive_file::parse("f.toml", &fitted.text, &[]).unwrap();
    assert_eq!(file.hash, fitted.drive_hash);
}
