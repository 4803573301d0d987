//! See `mynah_device::fuzzing`.
#![no_main]

use mynah_model::Drive;
use mynah_model::config::Config;
use std::sync::OnceLock;

/// One die with few and short blocks, all of it for pairs.
fn drive() -> Drive {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let overrides = [
            "geometry.channels=1",
            "geometry.chips_per_channel=1",
            "geometry.blocks_per_plane=64",
            "geometry.pages_per_block=24",
            "kv.managers=2",
            "kv.value_max=64KiB",
        ];
        let drive = mynah_drive_file::load("enterprise-tlc", &overrides.map(String::from));
        drive.expect("a small drive").config
    });
    Drive::new(config.clone()).expect("a small drive")
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = mynah_device::fuzzing::key_value(drive(), data);
});
