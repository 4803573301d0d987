//! See `mynah_wire::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mynah_wire::fuzzing::nbd_server(data));
