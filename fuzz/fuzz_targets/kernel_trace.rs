//! See `mynah_profile::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mynah_profile::fuzzing::kernel_trace(data));
