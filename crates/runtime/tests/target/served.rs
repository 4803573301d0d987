//! Hosts that behave.

use crate::client::{Client, Target};
use mynah_lab::{Emulation, Precondition};
use mynah_runtime::clock::Rate;
use mynah_runtime::metrics::Format;
use mynah_runtime::server::{ServeOptions, Speed};
use mynah_wire::nvme::Status;

fn pattern(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u8).wrapping_mul(7) ^ (at >> 8) as u8 ^ seed).collect()
}

#[test]
fn what_is_written_is_read_with_and_without_digests() {
    for (digests, speed) in [(0, Speed::Max), (3, Speed::Modelled(Rate::REAL))] {
        let target = Target::start(ServeOptions { speed, ..ServeOptions::default() });
        let (id, _admin) = Client::admin(target.address, digests).unwrap();
        let mut io = Client::io(target.address, digests, id).unwrap();
        for (number, bytes) in [512, 4096, 8192, 8704, 131_072, 1 << 20].into_iter().enumerate() {
            let data = pattern(number as u8, bytes);
            let block = 5_000 * number as u64;
            assert_eq!(io.write(block, &data).unwrap(), Status::SUCCESS, "{bytes} bytes");
            let blocks = (bytes / 512) as u32;
            assert_eq!(io.read(block, blocks).unwrap(), (Status::SUCCESS, data), "{bytes} bytes");
        }
        let (status, _) = io.read(1 << 60, 1).unwrap();
        assert_eq!(status.do_not_retry().code(), Status::LBA_OUT_OF_RANGE.code());
        let snapshot = target.control.snapshot().expect("the engine answers");
        assert_eq!((snapshot.connections, snapshot.half_open), (2, 0));
        assert_eq!((snapshot.totals.reads, snapshot.totals.writes), (7, 6));
        let drives = vec![("a".to_owned(), snapshot)];
        let (text, _) = mynah_runtime::metrics::text(drives, Format::OpenMetrics);
        assert!(text.contains("mynah_commands_total{drive=\"a\",kind=\"write\"} 6"), "{text}");
        let result = target.stop();
        assert_eq!((result.flows[0].read.ios, result.flows[0].write.ios), (6, 6));
        let modelled = speed != Speed::Max;
        assert_eq!(result.lateness_ns.is_some(), modelled);
        assert!(result.arrival_uncertainty_ns.is_some());
        if modelled {
            let read = &result.flows[0].read;
            let sum: f64 = read.stages.iter().map(|stage| stage.mean_ns).sum();
            assert!((sum - read.lat_ns.unwrap().mean).abs() < 1.0, "stages add up: {read:?}");
        }
    }
}

/// What metrics say of a drive's SLC cache, beside a drive that has none.
#[test]
fn metrics_tell_how_full_an_slc_cache_is() {
    let cached = Target::start_on(
        || {
            // 2 blocks of 48 in each of 64 planes, with 32 pages of 32 KiB: 128 MiB.
            let changes = ["geometry.pages_per_block=96", "geometry.blocks_per_plane=48"];
            let slc = ["slc.static=5%", "slc.dynamic=0%", "over_provisioning=20%"];
            // Writes complete when they are programmed.
            let cache = ["cache.mode=read", "cache.size=2MiB"];
            let changes = [changes.as_slice(), &slc, &cache].concat();
            let changes: Vec<String> = changes.into_iter().map(String::from).collect();
            let mut emulation = Emulation::on("enterprise-tlc", &changes).expect("a drive");
            emulation.start.precondition = Precondition::None;
            emulation.prepare().expect("a drive")
        },
        ServeOptions { speed: Speed::Modelled(Rate::REAL), ..ServeOptions::default() },
    );
    let plain = Target::start(ServeOptions { speed: Speed::Max, ..ServeOptions::default() });
    let (id, _admin) = Client::admin(cached.address, 0).unwrap();
    let mut io = Client::io(cached.address, 0, id).unwrap();
    assert_eq!(io.write(0, &pattern(1, 1 << 20)).unwrap(), Status::SUCCESS);
    let snapshot = |target: &Target| target.control.snapshot().expect("the engine answers");
    let of_cached = snapshot(&cached);
    let alone = vec![("b".to_owned(), snapshot(&plain))];
    let (text, mut drives) = mynah_runtime::metrics::text(alone, Format::OpenMetrics);
    assert!(!text.contains("slc"), "{text}");
    drives.push(("a".to_owned(), of_cached));
    let (text, _) = mynah_runtime::metrics::text(drives, Format::OpenMetrics);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("mynah_slc_")).collect();
    assert_eq!(
        lines,
        [
            "mynah_slc_cached_bytes_total{drive=\"a\"} 1048576",
            "mynah_slc_direct_bytes_total{drive=\"a\"} 0",
            "mynah_slc_folded_bytes_total{drive=\"a\"} 0",
            "mynah_slc_filled_bytes{drive=\"a\"} 1048576.0",
            "mynah_slc_valid_bytes{drive=\"a\"} 1048576.0",
            "mynah_slc_room_bytes{drive=\"a\"} 133169152.0",
        ]
    );
    cached.stop();
    plain.stop();
}

#[test]
fn a_thousand_connections_are_served_at_once() {
    let target = Target::start(ServeOptions { speed: Speed::Max, ..ServeOptions::default() });
    let (mut admins, mut queues) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let (id, admin) = Client::admin(target.address, 0).unwrap();
        queues.push(Client::io(target.address, 0, id).unwrap());
        admins.push(admin);
    }
    for (number, queue) in queues.iter_mut().enumerate() {
        let data = pattern(number as u8, 512);
        assert_eq!(queue.write(number as u64, &data).unwrap(), Status::SUCCESS);
    }
    for (number, queue) in queues.iter_mut().rev().enumerate() {
        let data = pattern(499u64.wrapping_sub(number as u64) as u8, 512);
        assert_eq!(queue.read(499 - number as u64, 1).unwrap(), (Status::SUCCESS, data));
    }
    let snapshot = target.control.snapshot().expect("the engine answers");
    assert_eq!((snapshot.connections, snapshot.half_open), (1000, 0));
    target.stop();
}
