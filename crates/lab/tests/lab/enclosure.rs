//! Drives behind a switch: one alone is as without, an uplink carries what its rate says, and the
//! same run is the same run.

use mynah_lab::enclosure::Enclosure;
use mynah_lab::experiment::Precondition;
use mynah_lab::simulation::Simulation;
use mynah_model::ceilings::{Asked, wire_bytes};
use mynah_model::config::Fault;
use mynah_result::Result;
use mynah_stamp::{Span, Time};

fn run(enclosure: Option<Enclosure>, load: &str) -> Result {
    let smaller = ["geometry.blocks_per_plane=16", "over_provisioning=50%"].map(str::to_owned);
    let mut simulation = Simulation::on_changed("samsung-ethernet", &smaller)
        .unwrap()
        .precondition(Precondition::Fill)
        .flow("load", load)
        .unwrap();
    simulation.enclosure = enclosure;
    simulation.run().unwrap().result
}

fn of(drives: u32, gbits: Option<u64>, latency_ns: u64) -> Option<Enclosure> {
    let uplink_bits_per_s = gbits.map(|rate| rate * 1_000_000_000);
    Some(Enclosure { drives, uplink_bits_per_s, latency: Span::from_ns(latency_ns) })
}

#[track_caller]
fn near(what: &str, found: f64, expected: f64, within: f64) {
    let off = found / expected - 1.0;
    assert!(off.abs() <= within, "{what}: {found} is {:+.2} % off {expected}", 100.0 * off);
}

#[test]
fn one_drive_behind_nothing_is_a_drive() {
    for load in [
        "rw=randread bs=4k iodepth=32 numjobs=2 number_ios=4000",
        "rw=randrw bs=16k iodepth=8 number_ios=2000",
    ] {
        let (alone, behind) = (run(None, load), run(of(1, None, 0), load));
        let (alone, behind) = (&alone.flows[0].read, &behind.flows[0].read);
        assert_eq!(alone.ios, behind.ios);
        near(load, behind.iops, alone.iops, 0.002);
        near(load, behind.lat_ns.unwrap().mean, alone.lat_ns.unwrap().mean, 0.002);
    }
}

#[test]
fn an_uplink_carries_its_rate() {
    let config = Simulation::on("samsung-ethernet").unwrap().config;
    let ethernet = config.ethernet.unwrap();
    for (bs, bytes, ios) in [("4k", 4096, 3000), ("128k", 131_072, 300)] {
        let load = format!("rw=randread bs={bs} iodepth=32 numjobs=2 number_ios={ios}");
        let sizes = wire_bytes(&ethernet, Asked { writes: false, bytes });
        let limit = 50e9 / 8.0 / f64::from(sizes.answer);
        near(bs, run(of(6, Some(50), 300), &load).flows[0].read.iops, limit, 0.02);
        // Of an uplink that is fast enough each drive has what it would have alone.
        let alone = run(None, &load).flows[0].read.iops;
        near(bs, run(of(4, Some(800), 300), &load).flows[0].read.iops, 4.0 * alone, 0.03);
    }
}

#[test]
fn the_switch_is_passed_each_way() {
    // A read passes it twice; a write whose data are asked for four times.
    for (load, passes) in [("rw=randread bs=4k", 2.0), ("rw=randwrite bs=64k", 4.0)] {
        let load = format!("{load} iodepth=1 number_ios=300");
        let mean = |latency: u64| {
            let result = run(of(2, None, latency), &load);
            let flow = &result.flows[0];
            let side = if flow.read.ios > 0 { &flow.read } else { &flow.write };
            let stages: f64 = side.stages.iter().map(|stage| stage.mean_ns).sum();
            let mean = side.lat_ns.unwrap().mean;
            near("the breakdown", stages, mean, 1e-6);
            mean
        };
        near(&load, mean(5000) - mean(0), passes * 5000.0, 0.02);
    }
}

/// Every command of every drive has a row in the request log and a record in the profile, which say the
/// same; and what each says of its stages adds up to its latency.
#[test]
fn each_command_is_logged_with_its_drive() {
    let folder = tempfile::tempdir().unwrap();
    let (log, profile) = (folder.path().join("log.csv"), folder.path().join("run.profile"));
    let smaller = ["geometry.blocks_per_plane=16", "over_provisioning=50%"].map(str::to_owned);
    let mut simulation = Simulation::on_changed("samsung-ethernet", &smaller)
        .unwrap()
        .precondition(Precondition::Fill)
        .flow("small", "rw=randread bs=4k iodepth=2 number_ios=100")
        .unwrap()
        .flow("large", "rw=randwrite bs=32k iodepth=1 number_ios=50")
        .unwrap();
    simulation.enclosure = of(3, Some(50), 700);
    (simulation.request_log, simulation.profile) = (Some(log.clone()), Some(profile.clone()));
    let result = simulation.run().unwrap().result;

    let text = std::fs::read_to_string(log).unwrap();
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let place = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let ps = |cell: &str| (cell.parse::<f64>().unwrap() * 1000.0).round() as u64;
    let (first, last) = (place("latency_ns") + 1, place("drive"));
    let mut logged = std::collections::BTreeMap::new();
    for row in rows {
        let latency = ps(row[place("latency_ns")]);
        let stages = row[first..last].iter().map(|cell| ps(cell)).sum::<u64>();
        assert_eq!(latency, stages, "{row:?}");
        let session = format!("{} of drive {}", row[place("flow")], row[last]);
        logged.entry(session).or_insert_with(Vec::new).push(latency);
    }
    let means = |flow: &str| {
        let of_flow = logged.iter().filter(|(session, _)| session.starts_with(flow));
        let all: Vec<u64> = of_flow.flat_map(|(_, all)| all.iter().copied()).collect();
        all.iter().sum::<u64>() as f64 / all.len() as f64 / 1000.0
    };
    near("small", means("small"), result.flows[0].read.lat_ns.unwrap().mean, 1e-9);
    near("large", means("large"), result.flows[1].write.lat_ns.unwrap().mean, 1e-9);

    let profile = mynah_profile::Profile::open(&profile).unwrap();
    let header = profile.header().clone();
    let mut recorded = std::collections::BTreeMap::new();
    let mut records = profile.records();
    while let Some(record) = records.next_record().unwrap() {
        assert_eq!(record.residual(), 0);
        let session = header.sessions[usize::from(record.head.connection)].clone();
        recorded.entry(session).or_insert_with(Vec::new).push(record.head.total.as_ps());
    }
    assert_eq!(logged, recorded);
    assert_eq!(logged.len(), 6);
    assert_eq!(logged.values().map(Vec::len).sum::<usize>(), 3 * 150);
}

#[test]
fn the_same_run_is_the_same_run() {
    let load = "rw=randrw bs=8k iodepth=16 numjobs=2 number_ios=500";
    let json = || {
        let result = run(of(5, Some(100), 600), load);
        Result { run: Default::default(), ..result }.to_json()
    };
    assert_eq!(json(), json());
}

#[test]
fn what_an_enclosure_cannot_be_is_refused() {
    let other = Simulation::on("samsung-pm9a3").unwrap();
    let mut other = other.flow("load", "rw=randread number_ios=10").unwrap();
    other.enclosure = of(2, None, 0);
    let Err(error) = other.run() else { panic!("it is no Ethernet drive") };
    let error = error.to_string();
    assert!(error.contains("another link"), "{error}");
    let open = Simulation::on("samsung-ethernet").unwrap();
    let mut open = open.flow("load", "rw=randread rate_iops=100 number_ios=10").unwrap();
    open.enclosure = of(2, None, 0);
    assert!(open.run().is_err());
    let cut = Simulation::on("samsung-ethernet").unwrap();
    let mut cut = cut.flow("load", "rw=randread number_ios=10").unwrap();
    cut.enclosure = of(2, None, 0);
    let (at, recovery) = (Time::ZERO + Span::from_us(100), Span::from_ms(1));
    cut.config.faults.push(Fault::PowerCut { at, recovery });
    let Err(error) = cut.run() else { panic!("the others would go on") };
    assert!(error.to_string().contains("a power cut is of one drive"), "{error}");
}
