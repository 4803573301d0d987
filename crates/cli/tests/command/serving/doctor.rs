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
    let kvm = checks.iter().find(|check| check["what"] == "KVM").expect("KVM");
    assert_ne!(str_of(&kvm["found"]), "/dev/kvm can be used", "it was not tried");
    // Without a path there are no programs.
    let bare = mynah(&["doctor"]).env("PATH", "").output().expect("it runs");
    let text = String::from_utf8(bare.stdout).expect("text");
    let fio = text.lines().find(|line| line.starts_with("fio ")).expect("fio");
    assert!(fio.contains(" no "), "{text}");
}

/// What it says works, it has tried: here with programs that are called QEMU.
#[test]
fn kvm_works_when_a_guest_got_somewhere_with_it() {
    use std::os::unix::fs::PermissionsExt;
    if std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_err() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let qemu = folder.path().join("qemu-system-x86_64");
    let state = |script: &str| {
        std::fs::write(&qemu, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&qemu, PermissionsExt::from_mode(0o700)).unwrap();
        let told = mynah(&["doctor", "--json"]).env("PATH", folder.path()).output().unwrap();
        let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
        let checks = told["checks"].as_array().expect("checks");
        let kvm = checks.iter().find(|check| check["what"] == "KVM").expect("KVM");
        (str_of(&kvm["state"]).to_owned(), str_of(&kvm["found"]).to_owned())
    };
    // The last argument is the firmware, of which QEMU asks for whole 64 KiB.
    let reads = r#"[ "$1" = -accel ] || exit 0
        for last; do :; done
        [ "$(/usr/bin/wc -c < "$last")" = 65536 ] && exit 85"#;
    assert_eq!(state(reads).0, "yes");
    let (state_told, found) = state("[ \"$1\" = -accel ] || exit 0; echo no such luck >&2; exit 1");
    assert_eq!(state_told, "limited");
    assert!(found.contains("no guest runs with it: no such luck"), "{found}");
    let (state_told, found) = state("[ \"$1\" = -accel ] || exit 0; exec /bin/sleep 60");
    assert_eq!(state_told, "limited");
    assert!(found.contains("came to no end in 5s"), "{found}");
}
