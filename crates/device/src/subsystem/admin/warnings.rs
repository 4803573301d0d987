//! How worn the media are, and who is told.

use crate::Condition;
use crate::subsystem::Subsystem;
use mynah_model::stats::{ModeWear, WearState};

/// Below this share of spare blocks, in percent, a warning is given.
pub(super) const SPARE_THRESHOLD: u8 = 10;
/// Erases that a block is taken to endure where the drive's description does not say. An
/// estimate: what TLC is rated for.
const ENDURED_ERASES: u32 = 3000;

/// Bits of SMART's critical warning (Base 2.0, section 5.16.1.3).
mod warning {
    pub(super) const SPARE: u8 = 1;
    pub(super) const RELIABILITY: u8 = 1 << 2;
    pub(super) const READ_ONLY: u8 = 1 << 3;
}

/// How worn the media are, as logs say it.
pub(super) struct Wear {
    /// Blocks that may still be retired, in percent of those of a new drive.
    pub(super) spare: u8,
    /// The mean block's erases, in percent of those that it endures; 255 stands for more. Of blocks
    /// that are used with one bit, too, where that is limited: whichever is nearest to its end.
    pub(super) used: u8,
    /// Erases that a block endures.
    pub(super) endured: u32,
    /// Bits of the critical warning.
    pub(super) warning: u8,
}

impl Wear {
    fn new(wear: &WearState) -> Wear {
        let endured = wear.endurance.unwrap_or(ENDURED_ERASES).max(1);
        let used = |mode: ModeWear| {
            let endured = mode.endurance.unwrap_or(endured).max(1);
            let most = u128::from(mode.blocks.max(1)) * u128::from(endured);
            (u128::from(mode.erases) * 100 / most).min(255) as u8
        };
        let limited = wear.slc.into_iter().flatten().filter(|mode| mode.endurance.is_some());
        let used = limited.map(used).fold(used(wear.native()), u8::max);
        let spare = match wear.spare_blocks_new {
            0 if wear.write_protected => 0,
            0 => 100,
            new => (u64::from(wear.spare_blocks) * 100 / u64::from(new)) as u8,
        };
        let when = |condition, warning| if condition { warning } else { 0 };
        let warning = when(spare < SPARE_THRESHOLD, warning::SPARE)
            | when(used >= 100 || wear.write_protected, warning::RELIABILITY)
            | when(wear.write_protected, warning::READ_ONLY);
        Wear { spare, used, endured, warning }
    }
}

impl Subsystem {
    /// The media as hosts see them: the drive's, and the store that holds their bytes.
    pub(super) fn wear(&self) -> Wear {
        let mut wear = Wear::new(&self.model.drive().counters().wear);
        wear.warning |= match self.media.condition() {
            Condition::Good => 0,
            Condition::Full => warning::READ_ONLY,
            Condition::Failed => warning::READ_ONLY | warning::RELIABILITY,
        };
        wear
    }

    /// Tells hosts when the media have crossed a threshold. Looked at once a minute, and when the
    /// store can do less than before. That the media are read only is an event of the subsystem's
    /// reliability (Base 2.0, section 5.2.1, SMART / health status).
    pub(crate) fn check_media(&mut self) {
        let new = self.health.crosses(self.wear().warning);
        for id in self.controllers.ids() {
            if new & warning::SPARE != 0 {
                self.raise(id, crate::controllers::events::SPARE);
            }
            if new & (warning::RELIABILITY | warning::READ_ONLY) != 0 {
                self.raise(id, crate::controllers::events::RELIABILITY);
            }
        }
    }

    /// Tells hosts when the store can do less than it could.
    pub(crate) fn watch_store(&mut self) {
        let Some(condition) = self.media.changed_condition() else { return };
        // What was answered and then lost is an error of the media.
        if condition == Condition::Failed {
            self.health.media_error();
        }
        self.check_media();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 blocks, of which 10 only serve the cache.
    #[test]
    fn the_use_that_is_nearest_to_its_end_counts() {
        let used = |native: u64, apart: u64, others: u64, endurance| {
            let mode = |erases, blocks| ModeWear { erases, blocks, block_bytes: 1, endurance };
            Wear::new(&WearState {
                blocks: 100,
                erases: native + apart + others,
                endurance: Some(100),
                slc: Some([mode(apart, 10), mode(others, 90)]),
                ..WearState::default()
            })
            .used
        };
        // 10 of 100 on average, 100 of 1,000, and 20 of 1,000.
        assert_eq!(used(900, 1_000, 1_800, Some(1_000)), 10);
        assert_eq!(used(900, 5_000, 0, Some(1_000)), 50);
        assert_eq!(used(900, 0, 54_000, Some(1_000)), 60);
        assert_eq!(used(900, 5_000, 54_000, None), 10, "there is no end to the others");
        assert_eq!(used(9_900, 5_000, 0, Some(1_000)), 110);
    }
}
