//! See `mynah_wire::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mynah_wire::fuzzing::rdma_pair(data));
