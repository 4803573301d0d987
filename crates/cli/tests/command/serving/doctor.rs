//! What works on this machine, whatever it is.

use crate::serving::support::*;
use serde_json::Value;

#[test]
fn it_says_what_works_and_how_to_get_the_rest() {
    let told = mynah(&["doctor", "--json"]).output().expect("it runs");
    assert!(told.status.success());
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let checks = told["checks"].as_array().expect("checks");
    for what in ["processors", "huge pages", "QEMU", "kernel tracing", "NBD clients", "RDMA"] {
        assert!(checks.iter().any(|check| check["what"] == what), "{what}");
    }
    for check in checks {
        let state = str_of(&check["state"]);
        assert!(["yes", "limited", "no"].contains(&state), "{check}");
        // What does not work says what would help.
        assert_eq!(check["help"].is_null(), state == "yes", "{check}");
    }
    // Without a path there are no programs.
    let bare = mynah(&["doctor"]).env("PATH", "").output().expect("it runs");
    let text = String::from_utf8(bare.stdout).expect("text");
    let fio = text.lines().find(|line| line.starts_with("fio ")).expect("fio");
    assert!(fio.contains(" no "), "{text}");
}
