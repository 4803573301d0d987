//! See `mynah_analysis::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mynah_analysis::fuzzing::kernel_trace(data));
