//! Faults between host and drive.

use crate::client::{Client, Target, blocks_of, drive, fabrics};
use mynah_runtime::fault::{ConnectionFault, parse};
use mynah_runtime::server::{ServeError, ServeOptions, Server, Speed};
use mynah_stamp::Time;
use mynah_wire::nvme::log::page;
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

#[test]
fn paths_go_and_come_back() {
    let gone = "ana-change:state=inaccessible,at=300ms,for=300ms,controller=1";
    let lost = "ana-change:state=persistent-loss,at=900ms,controller=2";
    let target = target(&[gone, lost]);
    let (first, mut admin) = Client::admin(target.address, 0).unwrap();
    let (second, _other_admin) = Client::admin(target.address, 0).unwrap();
    assert_eq!((first, second), (1, 2));
    let mut io = Client::io(target.address, 0, first).unwrap();
    let mut other = Client::io(target.address, 0, second).unwrap();
    while other.read(0, 1).unwrap().0.is_success() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let refused = other.read(0, 1).unwrap().0;
    let lost = Status::ANA_PERSISTENT_LOSS;
    assert_eq!((refused.code_type(), refused.code()), (lost.code_type(), lost.code()));
    let snapshot = target.control.snapshot().unwrap();
    assert!(snapshot.now.model >= Time::from_ns(900_000_000));
    // By then the first has been away, and is back: two changes, optimized.
    assert_eq!(io.read(0, 1).unwrap().0, Status::SUCCESS);
    let mut get = blocks_of(opcode::admin::GET_LOG_PAGE, 0, 1);
    get.dword10.set(15 << 16 | u32::from(page::ANA));
    get.dword12.set(0);
    get.data.length.set(64);
    let log = admin.command(get, &[]).unwrap().1;
    assert_eq!((log[0], log[16 + 8], log[16 + 16]), (2, 2, 1));
    target.stop();
}

#[test]
fn a_fault_of_a_controller_that_there_cannot_be_is_refused() {
    let fault = parse("ana-change:state=change,at=1s,controller=60000").unwrap().unwrap();
    let options = ServeOptions { faults: vec![fault], ..ServeOptions::default() };
    let error = Server::new(drive(), options).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("no controller 60000"), "{error}");
    let ServeError::Fault(error) = error else { panic!("{error}") };
    assert!(error.help.contains("1 to 2048"), "{error:?}");
}
