//! Hosts that prove who they are, and what for.

use crate::serving::support::*;

const HOST: &str = "nqn.2026-11.test:host";
const KEY: &str = include_str!("../../../../../fuzz/corpus/keys/secret-none");

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

/// The null group and the large ones are used where both ends have been told to, and not else.
#[test]
fn groups_out_of_the_ordinary_are_for_who_asks_for_them() {
    let key = KEY.trim();
    let of_host = format!("{HOST}={key}");
    for (target, host, code) in [
        (&[][..], &[][..], 0),
        (&["--auth-group", "null"], &[], 1),
        (&[], &["--auth-group", "null"], 1),
        (&["--auth-group", "null"], &["--auth-group", "null"], 0),
        (&[], &["--auth-group", "ffdhe8192"], 1),
        (&["--auth-group", "ffdhe8192"], &["--auth-group", "ffdhe8192"], 0),
        (&[], &["--auth-group", "ffdhe8192", "--auth-group", "ffdhe2048"], 0),
        (&["--auth-hash", "sha384"], &["--auth-hash", "sha512"], 1),
    ] {
        let served = Served::start(mynah(&SMALL).args(["--host-key", &of_host]).args(target));
        let who = ["--host-nqn", HOST, "--host-key", key, "--number_ios", "10"];
        let output = run_bench(&format!("tcp://{}", served.address()), &[&who, host].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{target:?} {host:?}: {said}");
        if code == 0 {
            assert_eq!(result(&output, 0)["requests"], 10);
        } else {
            assert!(said.contains("in common") && said.contains("--auth-group"), "{said}");
        }
    }
}
