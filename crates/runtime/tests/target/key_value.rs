//! Hosts of key-value namespaces, over both transports, and beside hosts of blocks.

use crate::client::HOST;
use mynah_drive_file::default_key_value;
use mynah_lab::emulation::Emulation;
use mynah_model::config::KeyValue;
use mynah_runtime::clock::Rate;
use mynah_runtime::group::{Group, Plan, Up};
use mynah_runtime::host::key_value::{Client, Keys, Needs, Request};
use mynah_runtime::host::load::Where;
use mynah_runtime::host::{Options, VfioUserOptions};
use mynah_runtime::server::{Namespace, NamespaceContent, ServeOptions, Speed};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::StoreCondition;
use mynah_wire::nvme::key::Key;
use mynah_wire::tcp::digest::Digests;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(30);

fn plan(options: ServeOptions) -> Plan {
    let small = ["geometry.blocks_per_plane=32", "geometry.channels=2", "over_provisioning=50%"];
    let emulation = Emulation::on("enterprise-tlc", &small.map(String::from)).expect("a drive");
    Plan {
        name: "test".into(),
        emulation,
        options: ServeOptions { name: Some("test".into()), functional: true, ..options },
        record: None,
        status: None,
        complain: |problem| eprintln!("{problem}"),
        alarm: |problem| eprintln!("{problem}"),
    }
}

fn namespaces() -> Vec<Namespace> {
    let namespace = |bytes, content| Namespace { bytes, content, handles: vec![] };
    vec![
        namespace(Some(64 << 20), NamespaceContent::Pairs),
        namespace(Some(16 << 20), NamespaceContent::Blocks(4096)),
    ]
}

/// Serves a drive with namespaces of both kinds while `work` is at work.
pub(crate) fn served(options: ServeOptions, work: impl FnOnce(&Up)) {
    let group = Group::start(vec![plan(ServeOptions { namespaces: namespaces(), ..options })]);
    let group = group.expect("it can be served");
    let up = group.drives().next().expect("one").clone();
    let serving = std::thread::spawn(|| group.serve());
    work(&up);
    up.control.stop();
    for result in serving.join().expect("it ends in order") {
        result.expect("it was served");
    }
}

fn over_tcp(up: &Up) -> Where {
    Where::Tcp(Box::new(Options {
        address: up.addresses[0].to_string(),
        subsystem_nqn: up.nqn.clone(),
        host_nqn: HOST.into(),
        credentials: None,
        #[cfg(feature = "tls")]
        tls: None,
        digests: Digests::default(),
        keep_alive: Duration::ZERO,
        timeout: WAIT,
    }))
}

fn over_vfio_user(folder: &Path) -> Where {
    Where::VfioUser(VfioUserOptions { folder: folder.into(), interrupts: false, timeout: WAIT })
}

fn key(name: &str) -> Key {
    Key::new(name.as_bytes()).expect("a short name")
}

fn value(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(31) ^ at >> 8 ^ seed.wrapping_mul(7)) as u8).collect()
}

fn store(name: &str, value: Vec<u8>) -> Request {
    Request::Store { key: key(name), value, condition: StoreCondition::Always }
}

/// What every host can rely on.
fn use_it(target: &Where) {
    let needs = Needs { requests: 64, bytes: None };
    let mut client = Client::connect(target, None, needs, WAIT).expect("a key-value namespace");
    assert_eq!(client.value_bytes_max(), 2 << 20);
    for bytes in [0, 1, 511, 512, 4096, 70_000, 1 << 20, 2 << 20] {
        let wanted = value(bytes, bytes);
        let done = client.perform(store("k", wanted.clone())).expect("connected");
        assert!(done.status.is_success(), "{bytes}: {}", done.outcome());
        for room in [0, 100, 2 << 20] {
            let asked = Request::Retrieve { key: key("k"), bytes: room };
            let done = client.perform(asked).and_then(|it| it.succeeded()).expect("it is there");
            assert_eq!(done.size as usize, bytes);
            assert_eq!(done.data, wanted[..bytes.min(room as usize)], "{bytes} {room}");
        }
    }
    let done = client.perform(Request::Delete(key("k"))).expect("connected");
    assert!(done.status.is_success());
    let done = client.perform(Request::Exist(key("k"))).expect("connected");
    assert!(done.is(Status::KEY_DOES_NOT_EXIST), "{}", done.outcome());
    let asked = Request::Retrieve { key: key("k"), bytes: 100 };
    let done = client.perform(asked).expect("connected");
    assert!(done.is(Status::KEY_DOES_NOT_EXIST) && done.data.is_empty());
    deep(&mut client);
    client.close();
}

/// Many at once.
fn deep(client: &mut Client) {
    let name = |at: usize| format!("user:{at:05}");
    let mut expected = BTreeMap::new();
    let mut at = 0;
    while at < 2000 || expected.len() < 2000 {
        while at < 2000 && client.can_submit() {
            client.submit(store(&name(at), value(at, at % 1500)));
            at += 1;
        }
        let Some(done) = client.next().expect("connected") else { break };
        assert!(done.status.is_success(), "{}", done.outcome());
        if let Request::Store { key, value, .. } = done.request {
            expected.insert(key, value);
        }
    }
    assert_eq!(expected.len(), 2000);
    let mut wanted = expected.keys();
    let mut left = expected.len();
    while left > 0 {
        while client.can_submit()
            && let Some(&key) = wanted.next()
        {
            client.submit(Request::Retrieve { key, bytes: 2000 });
        }
        let done = client.next().expect("connected").expect("under way");
        let key = done.request.key().expect("a key");
        assert_eq!(done.data, expected[&key]);
        left -= 1;
    }
    let mut keys = Keys::new(client, Key::EMPTY);
    let mut listed = vec![];
    while let Some(page) = keys.next_page(client).expect("connected") {
        listed.extend(page);
    }
    assert!(listed.into_iter().eq(expected.keys().copied()));
    assert!(client.perform(Request::Flush).expect("connected").status.is_success());
}

#[test]
fn pairs_are_kept_over_both_transports_and_with_both_timings() {
    for speed in [Speed::Max, Speed::Modelled(Rate::REAL)] {
        let folder = tempfile::tempdir().expect("a folder");
        let vfio_user = vec![folder.path().to_owned()];
        served(ServeOptions { speed, vfio_user, ..ServeOptions::default() }, |up| {
            use_it(&over_tcp(up));
            use_it(&over_vfio_user(folder.path()));
        });
    }
}

#[test]
fn the_largest_values_are_moved_by_one_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ServeOptions {
        speed: Speed::Max,
        vfio_user: vec![folder.path().to_owned()],
        namespaces: vec![Namespace {
            bytes: None,
            content: NamespaceContent::Pairs,
            handles: vec![],
        }],
        ..ServeOptions::default()
    };
    let mut plan = plan(options);
    let config = &mut plan.emulation.config;
    let usual = default_key_value(config);
    config.key_value = Some(KeyValue { value_max: 32 << 20, ..usual });
    let group = Group::start(vec![plan]).expect("it can be served");
    let up = group.drives().next().expect("one").clone();
    let serving = std::thread::spawn(|| group.serve());
    let needs = Needs { requests: 4, bytes: None };
    for (seed, target) in [over_tcp(&up), over_vfio_user(folder.path())].iter().enumerate() {
        let mut client = Client::connect(target, None, needs, WAIT).expect("a namespace");
        assert_eq!(client.value_bytes_max(), 32 << 20);
        let wanted = value(seed, 32 << 20);
        let done = client.perform(store("k", wanted.clone())).expect("connected");
        assert!(done.status.is_success(), "{}", done.outcome());
        let asked = Request::Retrieve { key: key("k"), bytes: 32 << 20 };
        let done = client.perform(asked).and_then(|it| it.succeeded()).expect("it is there");
        assert!(done.data == wanted, "another value");
        client.close();
    }
    up.control.stop();
    serving.join().expect("it ends in order").into_iter().for_each(|it| drop(it.expect("served")));
}
