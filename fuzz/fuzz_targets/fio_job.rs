//! See `mynah_workload::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mynah_workload::fuzzing::fio_job(data));
