//! A drive for which the system has no descriptors left. One test, alone in its process: the limit
//! is the process's.

#[allow(dead_code)]
#[path = "target/client.rs"]
mod client;

use client::{Client, Target};
use mynah_runtime::server::{ServeOptions, Speed};
use mynah_runtime::vfio_user::socket_path;
use mynah_wire::nvme::Status;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Between two looks at a listener that could let nobody in.
const PAUSE: Duration = Duration::from_millis(100);

fn socket_of(family: AddressFamily) -> OwnedFd {
    socket(family, SocketType::STREAM, None).expect("a socket")
}

/// Takes every descriptor there is, of a hundred more than are in use.
fn take_all() -> Vec<File> {
    let in_use = std::fs::read_dir("/proc/self/fd").expect("Linux").count() as u64;
    let limit = Rlimit { current: Some(in_use + 100), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("a lower limit");
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// Waits until the drive has found nothing left for a newcomer, and then for a while: it has to
/// look for descriptors again now and then, and not all the time.
fn starves_patiently(target: &Target, before: u64) {
    let count = || target.control.snapshot().expect("the engine answers").starvations;
    let began = Instant::now();
    while count() == before {
        assert!(began.elapsed() < Duration::from_secs(60), "it has not noticed");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(5 * PAUSE);
    while count() < before + 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not look again");
        std::thread::sleep(PAUSE);
    }
    let (looks, pauses) = (count() - before, began.elapsed().as_secs_f64() / PAUSE.as_secs_f64());
    assert!(looks as f64 <= pauses + 2.0, "{looks} looks in {pauses} pauses");
}

#[test]
fn without_descriptors_newcomers_wait_and_nothing_spins() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = || ServeOptions {
        speed: Speed::Max,
        vfio_user: vec![folder.path().join("function")],
        ..ServeOptions::default()
    };
    let target = Target::start(options());
    let (id, _admin) = Client::admin(target.address, 0).expect("a controller");
    let mut queue = Client::io(target.address, 0, id).expect("a queue");
    let (lucky, newcomer) = (socket_of(AddressFamily::INET), socket_of(AddressFamily::INET));
    let guest = socket_of(AddressFamily::UNIX);
    let path = SocketAddrUnix::new(socket_path(&folder.path().join("function"))).expect("short");
    let mut all = take_all();
    // The last descriptor is somebody's, and stays his: nobody waits for it.
    drop(all.pop());
    connect(&lucky, &target.address).expect("the system makes the connection");
    let mut lucky = Client::over(TcpStream::from(lucky), 0).expect("it is let in");
    assert!(lucky.connect(0, 0xffff, 31).expect("an answer").status().is_success());
    connect(&newcomer, &target.address).expect("the system makes the connection");
    starves_patiently(&target, 0);
    let before = target.control.snapshot().expect("the engine answers").starvations;
    connect(&guest, &path).expect("the system makes the connection");
    while target.control.snapshot().expect("the engine answers").starvations < before + 4 {
        std::thread::sleep(PAUSE);
    }
    // Who is there is served.
    assert_eq!(queue.write(0, &[7; 4096]).expect("served"), Status::SUCCESS);
    drop(all);
    let mut late = Client::over(TcpStream::from(newcomer), 0).expect("it is let in");
    assert!(late.connect(0, 0xffff, 31).expect("an answer").status().is_success());
    target.stop();
    encrypted();
}

#[cfg(not(feature = "tls"))]
fn encrypted() {}

/// The same where the thread that encrypts lets hosts in.
#[cfg(feature = "tls")]
fn encrypted() {
    use mynah_runtime::host::{Controller, Encryption, Options};
    use mynah_wire::tcp::digest::Digests;
    use mynah_wire::tls_key::TlsKey;
    let key = TlsKey::generate(false, &mut mynah_runtime::random::fill);
    let target = Target::start(ServeOptions {
        tls: vec![(None, key.clone())],
        speed: Speed::Max,
        ..ServeOptions::default()
    });
    let options = Options {
        address: target.address.to_string(),
        subsystem_nqn: client::NQN.to_owned(),
        host_nqn: client::HOST.to_owned(),
        credentials: None,
        tls: Some(Encryption::new(key).expect("a thread")),
        digests: Digests { header: false, data: false },
        keep_alive: Duration::ZERO,
        timeout: Duration::from_secs(60),
    };
    let mut good = Controller::connect(&options).expect("a controller");
    let newcomer = socket_of(AddressFamily::INET);
    let all = take_all();
    connect(&newcomer, &target.address).expect("the system makes the connection");
    starves_patiently(&target, 0);
    assert_eq!(good.namespaces().expect("served"), [1]);
    drop((all, newcomer));
    Controller::connect(&options).expect("it is let in");
    target.stop();
}
