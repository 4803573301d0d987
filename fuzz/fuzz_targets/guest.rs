//! See `mynah_device::fuzzing`.
#![no_main]

#[path = "../drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    mynah_device::fuzzing::guest(drive::small_for(data).expect("a small drive"), data);
});
