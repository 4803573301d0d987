//! Runs that are watched: intervals, timelines. Watching changes nothing, and what the
//! watchers write agrees with the result.

use crate::pftrace::field;
use crate::small;
use mynah_lab::Measured;
use mynah_lab::experiment::Precondition;
use mynah_lab::simulation::Simulation;
use mynah_result::Result as RunResult;
use mynah_result::timeline::Window;
use mynah_stamp::{Span, Time};
use std::collections::BTreeMap;
use std::path::Path;

fn simulation() -> Simulation {
    small::simulation()
        .flow("reader", "rw=randread bs=4k iodepth=8 number_ios=3000")
        .unwrap()
        .flow("a, writer", "rw=randrw bs=16k iodepth=4 number_ios=3000")
        .unwrap()
}

fn json(measured: &Measured) -> String {
    RunResult { run: Default::default(), ..measured.result.clone() }.to_json()
}

/// The rows of a CSV, each by its columns' names.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let names: Vec<_> = lines.next().unwrap().split(',').map(str::to_owned).collect();
    lines
        .map(|line| {
            let line = line.replace("\"a, writer\"", "writer");
            let fields: Vec<_> = line.split(',').map(str::to_owned).collect();
            assert_eq!(fields.len(), names.len(), "{line}");
            names.iter().cloned().zip(fields).collect()
        })
        .collect()
}

#[test]
fn watching_changes_nothing_and_intervals_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let plain = simulation();
    let alone = json(&plain.run().unwrap());
    let csv = folder.path().join("i.csv");
    let mut watched = plain;
    watched.intervals = Some((csv.clone(), Span::from_us(700)));
    watched.timeline = Some((folder.path().join("t.pftrace"), Window::ALL));
    let measured = watched.run().unwrap();
    assert_eq!(json(&measured), alone);

    let rows = rows(&csv);
    let number = |row: &BTreeMap<String, String>, name: &str| -> f64 { row[name].parse().unwrap() };
    let sum = |flow: &str, rate: &str| -> f64 {
        let each = rows.iter().filter(|row| row["flow"] == flow);
        each.map(|row| number(row, rate) * (number(row, "end_ns") - number(row, "start_ns")) / 1e9)
            .sum()
    };
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-3 * b.max(1.0), "{a} {b}");
    let flows = &measured.result.flows;
    near(sum("reader", "read_iops"), flows[0].read.ios as f64);
    near(sum("writer", "write_iops"), flows[1].write.ios as f64);
    near(sum("*", "read_iops"), (flows[0].read.ios + flows[1].read.ios) as f64);
    near(sum("*", "write_bytes_per_s"), flows[1].write.bytes as f64);
    let drive = || rows.iter().filter(|row| row["flow"] == "*");
    let device = measured.result.device.as_ref().unwrap();
    let total = |name: &str| drive().map(|row| number(row, name)).sum::<f64>();
    assert_eq!(total("units_written") as u64, device.host_units_written);
    assert_eq!(total("units_programmed") as u64, device.flash_units_programmed);
    assert_eq!(total("erases") as u64, device.erases);
    // While both closed loops run, 12 I/Os are outstanding.
    let middle = drive().nth(3).unwrap();
    near(number(middle, "queue_depth"), 12.0);
    assert_eq!(middle["measured"], "1");
    let mut ends = drive().map(|row| number(row, "end_ns"));
    assert_eq!(ends.next(), Some(700_000.0));
    assert_eq!(ends.next(), Some(1_400_000.0));
    // Rows follow one another without gaps.
    let edges: Vec<_> = drive().map(|r| (r["start_ns"].clone(), r["end_ns"].clone())).collect();
    assert!(edges.windows(2).all(|pair| pair[0].1 == pair[1].0));
    assert!(number(middle, "flash_queue_depth") > 0.1);
    assert!(number(middle, "free_blocks") > 0.0);
    assert!(number(middle, "read_p99_ns") >= number(middle, "read_p50_ns"));
}

/// Of a drive without a cache there are no such columns, and no such pictures.
#[test]
fn an_slc_cache_is_seen_over_time() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("i.csv");
    let mut changes = small::changes().to_vec();
    let mut run = |with: &[&str]| {
        changes.extend(with.iter().map(ToString::to_string));
        let mut simulation = Simulation::on_changed(small::DRIVE, &changes)
            .unwrap()
            .flow("writer", "rw=write bs=64k iodepth=8 size=5%")
            .unwrap();
        simulation.options.precondition = Precondition::None;
        simulation.intervals = Some((csv.clone(), Span::from_ms(1)));
        let measured = simulation.run().unwrap();
        (rows(&csv), measured.html(), measured.result.device.unwrap().slc)
    };
    let (plain, html, slc) = run(&[]);
    assert!(slc.is_none() && !html.contains("SLC cache"));
    assert!(!plain[0].keys().any(|name| name.starts_with("slc_")));
    let slc = ["slc.static=5%", "slc.dynamic=0%", "slc.program=100us", "slc.when_full=direct"];
    let (rows, html, slc) = run(&slc);
    let slc = slc.unwrap();
    assert!(html.contains("Held by the SLC cache") && html.contains("Room in the SLC cache"));
    let (drive, flows): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row["flow"] == "*");
    assert!(flows.iter().all(|row| row["slc_filled_bytes"].is_empty()));
    let each =
        |name: &str| drive.iter().map(|row| row[name].parse().unwrap()).collect::<Vec<u64>>();
    let [filled, room] = ["slc_filled_bytes", "slc_room_bytes"].map(each);
    assert_eq!((filled.last(), room.last()), (Some(&slc.filled_bytes), Some(&slc.room_bytes)));
    for (name, all) in [
        ("slc_cached_bytes", slc.cached_bytes),
        ("slc_direct_bytes", slc.direct_bytes),
        ("slc_folded_bytes", slc.folded_bytes),
    ] {
        assert_eq!(each(name).iter().sum::<u64>(), all, "{name}");
    }
    // All of it is in the cache until nothing fits: 2 blocks of 48 in 64 planes, of a third of the pages.
    let full = 2 * 64 * 96 / 3 * (32 << 10);
    let cliff = room.iter().position(|&room| room == 0).unwrap();
    assert!(cliff > 1 && filled[..cliff].windows(2).all(|pair| pair[0] < pair[1]), "{filled:?}");
    assert!(filled[..cliff].iter().zip(&room).all(|(filled, room)| filled + room == full));
}

#[test]
fn the_ramp_ends_an_interval_and_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("i.csv");
    let mut watched = simulation();
    watched.options.ramp_time = Span::from_us(1500);
    watched.intervals = Some((csv.clone(), Span::from_ms(1)));
    let measured = watched.run().unwrap();
    let rows = rows(&csv);
    let drive: Vec<_> = rows.iter().filter(|row| row["flow"] == "*").collect();
    let ramp = drive.iter().take_while(|row| row["measured"] == "0").count();
    assert_eq!(ramp, 2, "one whole interval, and one that the end of the ramp cut");
    assert!(drive[ramp..].iter().all(|row| row["measured"] == "1"));
    let written: u64 =
        drive[ramp..].iter().map(|row| row["units_written"].parse::<u64>().unwrap()).sum();
    assert_eq!(written, measured.result.device.unwrap().host_units_written);
}

#[test]
fn pictures_have_a_bounded_number_of_points() {
    let mut watched = simulation();
    watched.over_time = true;
    watched.flows.iter_mut().for_each(|flow| flow.limits.requests = Some(60_000));
    let measured = watched.run().unwrap();
    let html = measured.html();
    let series = measured.curves.series.unwrap();
    assert!(series.points.len() > 50 && series.points.len() <= mynah_result::series::POINTS_MAX);
    let ios: u64 = series.points.iter().flat_map(|point| &point.flows).map(|flow| flow.ios).sum();
    assert_eq!(ios, 120_000);
    assert!(series.points.windows(2).all(|pair| pair[0].end == pair[1].start));
    assert!(html.contains("Over time") && html.contains("Write amplification"));
    assert!(html.contains("channel 0 die 1"));
}

#[test]
fn a_timeline_has_every_io_and_nests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.pftrace");
    let mut watched = simulation();
    watched.timeline = Some((path.clone(), Window::ALL));
    let measured = watched.run().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let (mut names, mut tracks) = (BTreeMap::new(), BTreeMap::new());
    // Of each track: the slices that are open, and the last time seen.
    let mut open: BTreeMap<u64, (Vec<String>, u64)> = BTreeMap::new();
    let mut begun: BTreeMap<String, u64> = BTreeMap::new();
    let mut counters = 0;
    let mut rest = &bytes[..];
    while let Some((number, _, mut packet)) = field(&mut rest) {
        assert_eq!(number, 1, "a trace has nothing but packets");
        let mut time = 0;
        while let Some((number, value, inner)) = field(&mut packet) {
            let mut inner = inner;
            match number {
                8 => time = value,
                12 => {
                    while let Some((kind, _, mut entry)) = field(&mut inner) {
                        let id = field(&mut entry).unwrap().1;
                        let name = field(&mut entry).unwrap().2;
                        let name = String::from_utf8(name.to_vec()).unwrap();
                        assert!(names.insert((kind, id), name).is_none());
                    }
                }
                60 => {
                    let id = field(&mut inner).unwrap().1;
                    assert!(tracks.insert(id, ()).is_none(), "a track is described once");
                }
                11 => {
                    let (mut kind, mut name, mut track) = (0, 0, 0);
                    while let Some((number, value, _)) = field(&mut inner) {
                        match number {
                            9 => kind = value,
                            10 => name = value,
                            11 => track = value,
                            _ => {}
                        }
                    }
                    assert!(tracks.contains_key(&track), "{track}");
                    let (stack, last) = open.entry(track).or_default();
                    assert!(time >= *last, "a track's events are in order");
                    *last = time;
                    match kind {
                        1 => {
                            let name = names[&(2, name)].clone();
                            *begun.entry(name.clone()).or_default() += 1;
                            stack.push(name);
                        }
                        2 => assert!(stack.pop().is_some()),
                        _ => counters += 1,
                    }
                }
                _ => {}
            }
        }
    }
    assert!(open.values().all(|(stack, _)| stack.is_empty()), "every slice ends");
    let flows = &measured.result.flows;
    assert_eq!(begun["read"], flows[0].read.ios + flows[1].read.ios);
    assert_eq!(begun["write"], flows[1].write.ios);
    let reads = flows[0].read.stages.iter().find(|stage| stage.stage == "flash_array").unwrap();
    assert!(begun["flash_array"] >= reads.count);
    assert!(begun["read: reader"] > 0 && begun["transfer: a, writer"] > 0);
    let device = measured.result.device.unwrap();
    // A multi-plane operation of a die is one slice, and what a die does may outlast the run.
    let programs = begun["program: a, writer"] + begun.get("program: gc").unwrap_or(&0);
    let ended = device.flash_programs + device.die_utilisation.len() as u64;
    assert!(programs > 0 && programs <= ended, "{programs} {}", device.flash_programs);
    assert!(counters > 10);
}

#[test]
fn a_window_bounds_a_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let size = |window| {
        let path = folder.path().join("t.pftrace");
        let mut watched = simulation();
        watched.timeline = Some((path.clone(), window));
        watched.run().unwrap();
        std::fs::metadata(path).unwrap().len()
    };
    let window = Window { from: Time::from_ns(1_000_000), to: Time::from_ns(1_500_000) };
    assert_eq!(Window::parse("1ms-1500us"), Ok(window));
    assert!(Window::parse("2ms-1ms").is_err() && Window::parse("2ms").is_err());
    assert!(size(window) * 4 < size(Window::ALL));
}
