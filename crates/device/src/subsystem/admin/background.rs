//! What takes its time: formats, sanitizes, self-tests. Their time is the host's.

use super::self_test::SelfTest;
use crate::config::Timing;
use crate::subsystem::Subsystem;
use mynah_model::config::CellType;
use mynah_model::io::{Control, QueueKind};
use mynah_stamp::{Span, Time};

/// How long a drive takes to forget its mapping, or its key. An estimate.
const FORGET: Span = Span::from_ms(10);

/// An admin operation that ends at a time on the host's clock.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) began: Time,
    pub(crate) ends: Time,
    pub(crate) kind: TaskKind,
}

#[derive(Debug)]
pub(crate) enum TaskKind {
    Format { command: u32, namespaces: Vec<u32> },
    Sanitize,
    SelfTest(SelfTest),
}

impl Task {
    /// How much of it is done, in parts of `whole`.
    pub(crate) fn progress(&self, now: Time, whole: u64) -> u64 {
        let total = self.ends.saturating_since(self.began).as_ps().max(1);
        let passed = now.saturating_since(self.began).as_ps();
        ((u128::from(passed) * u128::from(whole) / u128::from(total)) as u64).min(whole)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Erasure {
    /// Mapping or key are forgotten.
    Forget,
    /// Every block is erased.
    Blocks,
    /// Every page is programmed this many times, with an erase before.
    Overwrite(u32),
}

impl Subsystem {
    /// How long an erasure of the whole drive takes: all planes work side by side.
    pub(crate) fn erasure_time(&self, erasure: Erasure) -> Span {
        if self.config.timing == Timing::Immediate {
            return Span::ZERO;
        }
        let config = self.model.config();
        let geometry = config.geometry;
        let blocks = u64::from(geometry.blocks_per_plane);
        let erase = config.flash.erase.times(blocks);
        match erasure {
            Erasure::Forget => FORGET,
            Erasure::Blocks => erase,
            Erasure::Overwrite(passes) => {
                let times = config.flash.program;
                let kinds = config.flash.cell.bits();
                let sum: Span = match (config.flash.cell, config.flash.one_shot) {
                    (CellType::Mlc, false) => times.lsb + times.msb,
                    (_, false) => times.in_order().into_iter().take(kinds as usize).sum(),
                    // A word line of pages in one program.
                    (_, true) => times.lsb.max(times.msb).max(times.fifth),
                };
                let kinds = u64::from(kinds);
                let pages = blocks * u64::from(geometry.pages_per_block);
                let programs = Span::from_ps(sum.times(pages).as_ps() / kinds);
                (erase + programs).times(u64::from(passes))
            }
        }
    }

    /// Makes sure that the model has a queue for the subsystem's own work.
    pub(crate) fn need_own_queue(&mut self) {
        if !self.model.had_own_queue() {
            let flow = self.controllers.admin_flow();
            self.control(Control::CreateQueue(mynah_model::io::Queue {
                id: crate::model::OWN_QUEUE,
                kind: QueueKind::Fetched,
                flow,
                priority: Default::default(),
                completion_entries: 65_536,
            }));
        }
    }
}
