//! Hosts that behave.

use crate::client::{Client, Target};
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
