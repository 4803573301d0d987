//! A drive that is served as long as somebody holds its standard input open.

use crate::serving::support::*;
use std::io::Write;
use std::process::Stdio;

const QUICK: [&str; 10] = [
    "serve",
    "--functional",
    "--until-closed",
    "--tcp",
    "127.0.0.1:0",
    "--precondition=none",
    "--set",
    "geometry.blocks_per_plane=64",
    "--set",
    "over_provisioning=30%",
];

#[test]
fn it_ends_in_order_with_its_input() {
    let mut served = Served::start(mynah(&QUICK).stdin(Stdio::piped()));
    let mut input = served.child.stdin.take().unwrap();
    // What comes says nothing.
    input.write_all(b"quit\n\0\n").unwrap();
    let target = format!("tcp://{}", served.address());
    let load = ["--rw", "randwrite", "--number_ios", "100"];
    assert_eq!(result(&run_bench(&target, &load), 0)["host"]["completed"], 100);
    assert!(served.child.try_wait().unwrap().is_none());
    drop(input);
    let (code, said, errors) = served.ended();
    assert_eq!(code, 0, "{errors}");
    assert!(said.contains("100"), "{said}");
}

#[test]
fn without_an_input_it_ends_at_once() {
    let served = Served::start(mynah(&QUICK).stdin(Stdio::null()));
    let (code, _, errors) = served.ended();
    assert_eq!(code, 0, "{errors}");
}
