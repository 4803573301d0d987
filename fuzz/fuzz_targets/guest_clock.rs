//! See `mynah_guest_protocol::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mynah_guest_protocol::fuzz(data));
