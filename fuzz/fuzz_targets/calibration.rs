//! See `mynah_calibrate::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mynah_calibrate::fuzzing::calibration(data));
