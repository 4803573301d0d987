//! The section `[geometry]`: the flash array's shape.

use super::declare::section;
use crate::at::{At, Maybe};
use crate::check::Check;
use crate::units::Bytes;
use mynah_model::config;

/// Dies that may share a channel.
const MAX_DIES_PER_CHANNEL: u32 = 64;

section! {
    /// The flash array's shape.
    Geometry => config::Geometry {
        /// Buses between the controller and the chips.
        channels: At<u32>, in "1" to "1024", is channels;
        /// Chips (packages, targets) on each channel.
        chips_per_channel: At<u32>, in "1", is chips_per_channel;
        /// Dies (LUNs) in each chip; at most 64 on a channel.
        dies_per_chip: At<u32>, in "1", is dies_per_chip;
        /// Planes in each die.
        planes_per_die: At<u32>, in "1" to "8", is planes_per_die;
        /// Blocks in each plane, up to 1048576.
        blocks_per_plane: At<u32>, in "4", is blocks_per_plane;
        /// Pages in each block, up to 32768.
        pages_per_block: At<u32>, in "1", is pages_per_block;
        /// User bytes in a page; a multiple of 512.
        page_size: At<Bytes>, in "512B" to "1MiB", is page_bytes;
        /// Spare bytes in a page (ECC, metadata).
        page_spare: Maybe<Bytes> = "0B", is page_spare_bytes;
    }
    with |geometry, check, _file| {}
}

impl Geometry {
    /// Notes what its counts cannot be together.
    pub(crate) fn check(&self, check: &mut Check<'_>) {
        let (chips, dies) = (*self.chips_per_channel.get(), *self.dies_per_chip.get());
        let on_channel = u64::from(chips) * u64::from(dies);
        if on_channel > u64::from(MAX_DIES_PER_CHANNEL) {
            check.wrong(
                format!(
                    "{on_channel} dies on a channel ({chips} chips of {dies} dies), but at most \
                     {MAX_DIES_PER_CHANNEL} can share one"
                ),
                [&self.chips_per_channel, &self.dies_per_chip]
                    .into_iter()
                    .max_by_key(|at| check.document.layer(&at.span()))
                    .unwrap_or(&self.dies_per_chip),
                "too many",
                Some("use more channels, or fewer chips or dies".to_owned()),
            );
        }
        let Bytes(page) = *self.page_size.get();
        if !page.is_multiple_of(512) {
            let below = Bytes(page / 512 * 512);
            let above = Bytes((page / 512 + 1).saturating_mul(512));
            let help = match below.0 {
                0 => format!("for example {above}"),
                _ => format!("for example {below} or {above}"),
            };
            check.wrong(
                format!("`geometry.page_size` must be a multiple of 512B, not {}", Bytes(page)),
                &self.page_size,
                "not a multiple of a sector",
                Some(help),
            );
        }
    }
}
