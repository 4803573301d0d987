//! TLS 1.3 with pre-shared keys, where the program is built with it.

use crate::serving::support::*;
use std::process::Output;

const HOST: &str = "nqn.2026-11.test:host";
const KEY: &str = include_str!("../../../../../fuzz/corpus/keys/tls-sha256");
#[cfg(feature = "tls")]
const LONG_KEY: &str = include_str!("../../../../../fuzz/corpus/keys/tls-sha384");

/// A drive that is quickly built and answers at once.
const SMALL: [&str; 7] = [
    "serve",
    "--speed=max",
    "--set=geometry.blocks_per_plane=48",
    "--set=over_provisioning=20%",
    "--precondition=none",
    "--tcp",
    "127.0.0.1:0",
];

fn bench(address: &str, args: &[&str]) -> Output {
    run_bench(&format!("tcp://{address}"), &[&["--host-nqn", HOST], args].concat())
}

#[cfg(not(feature = "tls"))]
#[test]
fn without_it_keys_are_refused() {
    let of_host = format!("{HOST}={}", KEY.trim());
    let serve = mynah(&SMALL).args(["--tls-psk", &of_host]).output().unwrap();
    for output in [serve, bench("127.0.0.1:1", &["--tls-psk", KEY.trim()])] {
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("--features tls"), "{}", text(&output.stderr));
    }
}

#[cfg(feature = "tls")]
#[test]
fn everything_written_comes_back_encrypted() {
    for key in [KEY.trim(), LONG_KEY.trim()] {
        let of_host = format!("{HOST}={key}");
        let more = ["--tls-psk", &of_host, "--fault", "connection-cut:rate=5e-4"];
        let served = Served::start(mynah(&SMALL).args(more));
        let load = ["--verify", "--rw", "randrw", "--size", "8m", "--fsync", "20"];
        let more = ["--bsrange", "512-128k", "--iodepth", "16", "--numjobs", "2"];
        let more = [&load[..], &more, &["--number_ios", "3000", "--tls-psk", key]].concat();
        let host = &result(&bench(served.address(), &more), 0)["host"];
        assert_eq!((&host["failed"], &host["unknown"]), (&0.into(), &0.into()), "{host}");
        assert!(host["checked_blocks"].as_u64().unwrap() > 0, "{host}");
        assert!(host["reconnects"].as_u64().unwrap() > 0, "{host}");
        let (code, said, errors) = served.stop();
        assert_eq!(code, 0, "{said}{errors}");
    }
}

#[cfg(feature = "tls")]
#[test]
fn without_the_right_key_nothing_is_served() {
    let of_host = format!("{HOST}={}", KEY.trim());
    let served = Served::start(mynah(&SMALL).args(["--tls-psk", &of_host]));
    let few = ["--number_ios", "10"];
    for args in [&[][..], &["--tls-psk", LONG_KEY.trim()]] {
        let output = bench(served.address(), &[&few, args].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    }
    let other = ["--host-nqn", "nqn.2026-11.test:other", "--tls-psk", KEY.trim()];
    let target = format!("tcp://{}", served.address());
    let output = run_bench(&target, &[&few[..], &other].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    // The one that has it is not disturbed by those who have not.
    let good = bench(served.address(), &[&few[..], &["--tls-psk", KEY.trim()]].concat());
    assert_eq!(result(&good, 0)["requests"], 10);
}
