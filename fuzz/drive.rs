//! A small drive, for targets that need a new one in every run. Included by them.

use mynah_model::Drive;
use mynah_model::config::{
    CollectionUnit, Config, DataPlacement, Isolation, Placement, Victims, WriteFrontiers,
};
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

/// The same, placing data by four handles, where the first byte of the data has bit 2.
#[allow(dead_code)]
pub fn small_for(data: &[u8]) -> Option<Drive> {
    let drive = small()?;
    if data.first().is_none_or(|first| first & 4 == 0) {
        return Some(drive);
    }
    let mut config = drive.config().clone();
    config.gc.unit = CollectionUnit::Superblock;
    config.gc.frontiers = WriteFrontiers::Separate;
    config.placement = Placement::Striped;
    let (isolation, victims) = (Isolation::Initial, Victims::All);
    config.data_placement = Some(DataPlacement { handles: 4, isolation, victims, superblocks: 1 });
    Drive::new(config).ok().or(Some(drive))
}
