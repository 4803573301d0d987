//! A small drive, for targets that need a new one in every run. Included by them.

use mynah_model::Drive;
use mynah_model::config::Config;
use std::sync::OnceLock;

/// One die with few and short blocks, or nothing if the shipped file no longer allows that.
pub fn small() -> Option<Drive> {
    static CONFIG: OnceLock<Option<Config>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let overrides = [
            "geometry.channels=1",
            "geometry.chips_per_channel=1",
            "geometry.blocks_per_plane=64",
            "geometry.pages_per_block=24",
        ];
        let drive = mynah_drive_file::load("enterprise-tlc", &overrides.map(String::from));
        drive.ok().map(|drive| drive.config)
    });
    Drive::new(config.clone()?).ok()
}
