//! Single I/Os on targets of all four kinds: each ends once, at a time that can be, and what does not fit is
//! refused before it is sent.

use crate::client::HOST;
use mynah_lab::emulation::Emulation;
use mynah_runtime::group::{Group, Plan, Up};
use mynah_runtime::host::load::Where;
use mynah_runtime::host::{
    Disk, DiskOptions, NbdOptions, Options, ProbeDone, ProbeOp, Prober, VfioUserOptions,
};
use mynah_runtime::nbd::NbdAddress;
use mynah_runtime::server::{ServeOptions, Speed};
use std::io::{Read, Write};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(30);
const BYTES_MAX: u32 = 256 << 10;

/// Serves a small drive in these ways while `work` is at work.
fn served(options: ServeOptions, work: impl FnOnce(&Up)) {
    let small = ["geometry.blocks_per_plane=32", "geometry.channels=2", "over_provisioning=50%"];
    let emulation = Emulation::on("enterprise-tlc", &small.map(String::from)).expect("a drive");
    let options =
        ServeOptions { name: Some("test".into()), functional: true, speed: Speed::Max, ..options };
    let plan = Plan {
        name: "test".into(),
        emulation,
        options,
        record: None,
        status: None,
        complain: |problem| eprintln!("{problem}"),
        alarm: |problem| eprintln!("{problem}"),
    };
    let group = Group::start(vec![plan]).expect("it can be served");
    let up = group.drives().next().expect("one").clone();
    let serving = std::thread::spawn(|| group.serve());
    work(&up);
    up.control.stop();
    for result in serving.join().expect("it ends in order") {
        result.expect("it was served");
    }
}

fn connect(place: &Where, depth: u32, writes: bool) -> Prober {
    Prober::connect(place, depth, writes, BYTES_MAX, 1, WAIT).expect("a target")
}

/// The next answer, which has to come.
fn next(prober: &mut Prober) -> ProbeDone {
    prober.next(WAIT).expect("it is there").expect("an answer")
}

/// What every target has to do.
fn probe(place: &Where) {
    let mut prober = connect(place, 8, true);
    let block = prober.block_bytes();
    assert!(block.is_power_of_two() && prober.bytes() >= 4 << 20, "{place}: {block}");
    assert_eq!(prober.max_transfer_bytes(), BYTES_MAX, "{place}");
    assert!(!prober.model().is_empty() && prober.can_trim() && prober.can_flush(), "{place}");
    assert_eq!(prober.next(WAIT).unwrap(), None, "nothing is outstanding");
    // One by one.
    for (op, bytes) in [
        (ProbeOp::Write, block),
        (ProbeOp::Read, block),
        (ProbeOp::Write, BYTES_MAX),
        (ProbeOp::Read, BYTES_MAX),
        (ProbeOp::Trim, 1 << 20),
        (ProbeOp::Read, 4 * block),
        (ProbeOp::Flush, 0),
    ] {
        let before = prober.now();
        let tag = prober.submit(op, 1 << 20, bytes).expect("it fits");
        let done = next(&mut prober);
        let after = prober.now();
        assert!(done.ok && done.tag == tag, "{place} {op:?}: {done:?}");
        let times = [before, done.submitted, done.completed, after];
        assert!(times.is_sorted(), "{place} {op:?}: {times:?}");
    }
    // Several that leave together have one moment; each ends once.
    let mut tags: Vec<u64> = (0..8)
        .map(|at| prober.hold(ProbeOp::Read, at * u64::from(block), block).expect("it fits"))
        .collect();
    let full = prober.submit(ProbeOp::Read, 0, block).unwrap_err();
    assert!(full.to_string().contains("outstanding"), "{full}");
    prober.flush_sends().expect("it is there");
    let mut moments = Vec::new();
    while let Some(done) = prober.next(WAIT).expect("it is there") {
        assert!(done.ok && done.completed >= done.submitted, "{place}: {done:?}");
        tags.remove(tags.iter().position(|tag| *tag == done.tag).expect("once"));
        moments.push(done.submitted);
    }
    assert!(tags.is_empty() && prober.outstanding() == 0, "{place}: {tags:?}");
    assert!(moments.iter().all(|moment| *moment == moments[0]), "{place}: {moments:?}");
    // What does not fit.
    let end = prober.bytes();
    for (op, offset, bytes) in [
        (ProbeOp::Read, 0, 0),
        (ProbeOp::Read, 1, block),
        (ProbeOp::Read, 0, block - 1),
        (ProbeOp::Read, end, block),
        (ProbeOp::Write, end - u64::from(block), 2 * block),
        (ProbeOp::Read, u64::MAX - u64::from(block) + 1, block),
        (ProbeOp::Write, 0, BYTES_MAX + block),
    ] {
        assert!(prober.submit(op, offset, bytes).is_err(), "{place} {op:?} {offset} {bytes}");
    }
    prober.end().expect("it is there");
    // Who only reads writes nothing.
    let mut reader = connect(place, 1, false);
    assert!(!reader.can_trim());
    for op in [ProbeOp::Write, ProbeOp::Trim] {
        assert!(reader.submit(op, 0, block).is_err(), "{place} {op:?}");
    }
    reader.submit(ProbeOp::Read, 0, block).expect("it fits");
    assert!(next(&mut reader).ok, "{place}");
    drop(reader);
    assert!(Prober::connect(place, 0, false, BYTES_MAX, 1, WAIT).is_err());
    let deep = Prober::connect(place, 1 << 20, false, BYTES_MAX, 1, WAIT).expect("a target");
    assert!((1..1 << 12).contains(&deep.depth()), "{place} takes {}", deep.depth());
}

#[test]
fn io_by_io_over_tcp() {
    let options =
        ServeOptions { tcp: vec!["127.0.0.1:0".parse().unwrap()], ..ServeOptions::default() };
    served(options, |up| {
        let address = up.addresses[0].to_string();
        let mut options = Options::plain(address, up.nqn.clone(), Duration::ZERO, WAIT);
        options.host_nqn = HOST.into();
        probe(&Where::Tcp(Box::new(options)));
    });
}

#[test]
fn io_by_io_over_vfio_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let options = ServeOptions { vfio_user: vec![path.clone()], ..ServeOptions::default() };
    served(options, |_| {
        probe(&Where::VfioUser(VfioUserOptions {
            folder: path.clone(),
            interrupts: false,
            timeout: WAIT,
        }));
    });
}

#[test]
fn io_by_io_over_nbd() {
    let folder = tempfile::tempdir().unwrap();
    let local = NbdAddress::Local(folder.path().join("drive.sock"));
    let tcp = NbdAddress::Tcp("127.0.0.1:0".parse().unwrap());
    let options = ServeOptions { nbd: vec![local, tcp], ..ServeOptions::default() };
    served(options, |up| {
        for (address, structured) in up.nbd.iter().flat_map(|it| [(it, false), (it, true)]) {
            let place = address.to_string().parse().expect("a URI");
            let options = NbdOptions { place, structured, several: false, timeout: WAIT };
            probe(&Where::Nbd(options));
        }
    });
}

#[test]
fn io_by_io_on_a_file() {
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    file.write_all(&vec![0; 8 << 20]).expect("room");
    let options = match Disk::open(file.path(), true) {
        Ok(disk) => DiskOptions { disk, timeout: WAIT },
        Err(error) => return eprintln!("not tested: {error}"),
    };
    probe(&Where::Disk(options.clone()));
    // What is written does not compress: bytes are as frequent as of chance, and no two sectors are the same.
    let mut prober = connect(&Where::Disk(options), 4, true);
    for at in 0..16 {
        prober.submit(ProbeOp::Write, at * u64::from(BYTES_MAX), BYTES_MAX).expect("it fits");
        assert!(next(&mut prober).ok);
    }
    prober.submit(ProbeOp::Flush, 0, 0).expect("it takes flushes");
    assert!(next(&mut prober).ok);
    let mut bytes = vec![0; 16 * BYTES_MAX as usize];
    file.reopen().expect("it is there").read_exact(&mut bytes).expect("as long");
    let sectors: std::collections::HashSet<&[u8]> = bytes.chunks(512).collect();
    assert_eq!(sectors.len(), bytes.len() / 512);
    let mut counts = [0u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let mean = bytes.len() as u32 / 256;
    assert!(counts.iter().all(|count| count.abs_diff(mean) < mean / 4), "{counts:?}");
    // A disk that was opened to be read is not written.
    let reads = DiskOptions { disk: Disk::open(file.path(), false).unwrap(), timeout: WAIT };
    let error = Prober::connect(&Where::Disk(reads), 1, true, BYTES_MAX, 1, WAIT);
    assert!(error.is_err_and(|error| error.to_string().contains("read-only")));
}
