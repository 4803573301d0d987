//! See `mynah_lab::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mynah_lab::fuzzing::ledger(data));
