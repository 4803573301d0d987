//! See `mynah_study::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mynah_study::fuzzing::ledger(data));
