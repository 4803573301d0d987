//! The `mynah` command: parse, call, print.

fn main() {}
