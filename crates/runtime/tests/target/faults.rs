//! Faults between host and drive.

use crate::client::{Client, Target, fabrics};
use mynah_runtime::fault::{ConnectionFault, parse};
use mynah_runtime::server::{ServeOptions, Speed};
use mynah_stamp::Time;
use mynah_wire::nvme::{Status, opcode};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

fn target(specs: &[&str]) -> Target {
    let faults = specs.iter().map(|spec| parse(spec).expect("it is known").expect("it is read"));
    let faults: Vec<ConnectionFault> = faults.collect();
    Target::start(ServeOptions { speed: Speed::Max, faults, ..ServeOptions::default() })
}

#[test]
fn completions_are_dropped_delayed_and_cut_off() {
    let dropping = target(&["connection-drop:rate=1"]);
    let (id, _admin) = Client::admin(dropping.address, 0).unwrap();
    let mut io = Client::io(dropping.address, 0, id).unwrap();
    io.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let error = io.read(0, 1).unwrap_err().kind();
    assert!(matches!(error, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error:?}");
    dropping.stop();

    let delaying = target(&["connection-delay:rate=1,by=50ms"]);
    let (id, _admin) = Client::admin(delaying.address, 0).unwrap();
    let mut io = Client::io(delaying.address, 0, id).unwrap();
    let before = Instant::now();
    assert_eq!(io.read(0, 1).unwrap().0, Status::SUCCESS);
    assert!(before.elapsed() >= Duration::from_millis(50));
    delaying.stop();

    let cutting = target(&["connection-cut:rate=1"]);
    let (id, mut admin) = Client::admin(cutting.address, 0).unwrap();
    let mut io = Client::io(cutting.address, 0, id).unwrap();
    assert!(io.read(0, 1).is_err());
    // The controller and new connections are as before.
    assert!(admin.command(fabrics(opcode::fabrics::PROPERTY_GET), &[]).is_ok());
    assert!(Client::admin(cutting.address, 0).is_ok());
    cutting.stop();
}

#[test]
fn controllers_fail_when_they_should() {
    let target = target(&["controller-fatal:at=300ms"]);
    let (_, mut admin) = Client::admin(target.address, 0).unwrap();
    // CSTS: ready (bit 0), fatal status (bit 1).
    let mut status = || {
        let mut get = fabrics(opcode::fabrics::PROPERTY_GET);
        get.dword11.set(0x1c);
        admin.command(get, &[]).unwrap().0.result.get()
    };
    while status() & 2 == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let snapshot = target.control.snapshot().unwrap();
    assert!(snapshot.now.model >= Time::from_ns(300_000_000));
    target.stop();
}
