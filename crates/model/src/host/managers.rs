//! Request managers: each handles one key-value command at a time. How long is only known when it is
//! known what the command finds, so the end of a command's wait is not known when it begins.

use crate::config::KeyTime;
use crate::number::CommandIndex;
use mynah_stamp::{Span, Time};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

#[derive(Serialize, Deserialize)]
pub(super) struct Managers {
    count: u32,
    busy: u32,
    /// Commands that wait for one, and since when.
    waiting: VecDeque<(CommandIndex, Time)>,
    random: Xoshiro256PlusPlus,
}

impl Managers {
    pub(super) fn new(count: u32, random: Xoshiro256PlusPlus) -> Managers {
        Managers { count, busy: 0, waiting: VecDeque::new(), random }
    }

    /// Whether a manager takes the command at once; otherwise it waits for one.
    pub(super) fn take(&mut self, command: CommandIndex, now: Time) -> bool {
        let free = self.busy < self.count;
        match free {
            true => self.busy += 1,
            false => self.waiting.push_back((command, now)),
        }
        free
    }

    /// A manager is done with a command. It takes the one that has waited longest: that, and how
    /// long.
    pub(super) fn next(&mut self, now: Time) -> Option<(CommandIndex, Span)> {
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.busy -= 1;
        }
        next.map(|(command, since)| (command, now.since(since)))
    }

    /// How long a command takes whose value has so many bytes.
    pub(super) fn time(&mut self, time: &KeyTime, bytes: u32) -> Span {
        let fixed = match &time.fixed[..] {
            [] => Span::ZERO,
            [(_, only)] => *only,
            [first @ .., (_, last)] => {
                let mut drawn = self.random.random::<f64>();
                let found = first.iter().find(|(probability, _)| {
                    drawn -= probability;
                    drawn < 0.0
                });
                found.map_or(*last, |(_, span)| *span)
            }
        };
        let for_value = u128::from(time.per_kib.as_ps()) * u128::from(bytes) / 1024;
        fixed + Span::from_ps(for_value as u64)
    }

    /// Nobody handles anything, or waits.
    pub(super) fn stop(&mut self) {
        self.busy = 0;
        self.waiting.clear();
    }
}
