//! See `mynah_drive_file::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mynah_drive_file::fuzzing::drive_file(data));
