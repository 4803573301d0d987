//! The host's side of the controller: queues and arbitration, the link, and a command's life from
//! its doorbell to its completion.

pub(crate) mod command;
pub(crate) mod ethernet;
pub(crate) mod front;
mod inputs;
pub(crate) mod key;
pub(crate) mod link;
mod managers;
pub(crate) mod queues;
pub(crate) mod read;

use crate::config::Config;
use crate::io::{Completed, Tag};
use crate::kernel::fifo::Fifo;
use crate::kernel::pool::Pool;
use crate::kernel::ring::Ring;
use crate::number::CommandIndex;
use crate::observe::blame::HolderIndex;
use command::{Command, Piece};
use ethernet::Ethernet;
use front::{Pending, Step};
use hashbrown::HashMap;
use key::KeyCommands;
use link::Link;
use mynah_stamp::{Span, Time};
use queues::HostInterface;
use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

/// Queues, link and firmware, and the commands in the controller.
#[derive(Serialize, Deserialize)]
pub(crate) struct Host {
    /// Outputs that have not been polled, and steps not taken, of the present instant.
    pending: Ring<Pending>,
    report_moves: bool,
    interface: HostInterface,
    link: Link,
    /// In place of the link, of an Ethernet drive; whether it has a bus.
    ethernet: Option<Box<Ethernet>>,
    has_bus: bool,
    cores: Vec<Fifo>,
    commands: Pool<Command>,
    /// Read data on its way to the host whose arrival is reported.
    pieces_out: Pool<Piece>,
    /// Key-value commands, and who handles them.
    keys: KeyCommands,
    awaiting_data: HashMap<Tag, CommandIndex, FxBuildHasher>,
    /// Commands that have ended after their queue had gone, and commands that were answered when it
    /// went, before they had ended.
    orphans_ended: u64,
    orphans_answered: u64,
    /// False between a power cut and the end of the recovery.
    powered: bool,
}

impl Host {
    pub(crate) fn new(config: &Config, handling: Xoshiro256PlusPlus) -> Host {
        Host {
            pending: Ring::default(),
            report_moves: false,
            interface: HostInterface::new(config.queues),
            link: Link::new(config.link),
            ethernet: config.ethernet.as_ref().map(|it| Box::new(Ethernet::new(it))),
            has_bus: config.ethernet.as_ref().is_some_and(|it| it.axi.is_some()),
            cores: (0..config.firmware.cores).map(|_| Fifo::default()).collect(),
            commands: Pool::default(),
            pieces_out: Pool::default(),
            keys: KeyCommands::new(config, handling),
            awaiting_data: HashMap::default(),
            orphans_ended: 0,
            orphans_answered: 0,
            powered: true,
        }
    }

    /// An output was polled, of an Ethernet drive: a completion, or something else.
    #[inline]
    pub(crate) fn note_polled(&mut self, completed: Option<Completed>) {
        if let Some(ethernet) = &mut self.ethernet {
            ethernet.polled = completed;
        }
    }

    /// The one that was polled last.
    pub(crate) fn polled(&self) -> Option<Completed> {
        self.ethernet.as_ref()?.polled
    }

    /// Whether data cross a bus on their way from DRAM to the flash.
    #[inline(always)]
    pub(crate) fn has_bus(&self) -> bool {
        self.has_bus
    }

    /// Books that bus for data on their way; returns until when.
    pub(crate) fn cross_bus(&mut self, now: Time, bytes: u32, holder: HolderIndex) -> Time {
        match &mut self.ethernet {
            Some(ethernet) => ethernet.cross_bus(now, bytes, holder, |_, _| {}),
            None => now,
        }
    }

    /// Everything is dropped that is on the link or in the controller.
    pub(crate) fn stop(&mut self, now: Time) {
        self.pending.clear();
        self.interface.power_cut();
        self.commands.clear();
        self.pieces_out.clear();
        self.keys.stop();
        self.awaiting_data.clear();
        self.clear(now);
    }

    /// Nothing is under way on the link or in the firmware at `now`.
    pub(crate) fn clear(&mut self, now: Time) {
        self.link.clear(now);
        if let Some(ethernet) = &mut self.ethernet {
            ethernet.clear(now);
        }
        self.cores.iter_mut().for_each(|core| core.clear(now));
    }

    /// Whether no output or step of the present instant is left.
    #[inline]
    pub(crate) fn has_nothing_pending(&self) -> bool {
        self.pending.is_empty()
    }

    /// What the drive does next by itself at the present instant, if that is what is next.
    #[inline]
    pub(crate) fn pending_step(&mut self) -> Option<Step> {
        let Some(Pending::Step(step)) = self.pending.front() else { return None };
        self.pending.pop();
        Some(step)
    }

    /// Commands in the controller, and those whose entries the drive reads by itself.
    pub(crate) fn commands_inside(&self) -> usize {
        self.commands.len()
    }

    /// Whether commands are accepted: not between a power cut and the end of the recovery.
    #[inline]
    pub(crate) fn is_powered(&self) -> bool {
        self.powered
    }

    pub(crate) fn set_powered(&mut self, powered: bool) {
        self.powered = powered;
    }

    #[inline]
    pub(crate) fn command(&self, index: CommandIndex) -> &Command {
        &self.commands[index]
    }

    #[inline]
    pub(crate) fn command_mut(&mut self, index: CommandIndex) -> &mut Command {
        &mut self.commands[index]
    }

    /// Whether nothing is inside, on the link or in the firmware, and nothing pending.
    pub(crate) fn is_at_rest(&self, now: Time) -> bool {
        let mut first_come = self.cores.iter().chain([&self.link.down, &self.link.up]);
        first_come.all(|fifo| fifo.free_at() <= now)
            && self.ethernet.as_ref().is_none_or(|ethernet| ethernet.is_at_rest(now))
            && self.commands.len() == 0
            && self.pending.is_empty()
            && self.powered
    }

    /// What of the link's time has been booked up to `now`, down and up.
    pub(crate) fn link_booked(&self, now: Time) -> [Span; 2] {
        match &self.ethernet {
            Some(ethernet) => ethernet.busy(now),
            None => [self.link.down.booked(now), self.link.up.booked(now)],
        }
    }

    /// Commands that have ended since the drive was built beside those whose completion was seen,
    /// and commands that are being worked at.
    pub(crate) fn progress(&self) -> (i64, u64) {
        let inside = match self.powered {
            true => u64::from(self.interface.commands_inside()),
            false => 0,
        };
        let orphans = self.orphans_ended as i64 - self.orphans_answered as i64;
        (orphans, inside.saturating_sub(self.awaiting_data.len() as u64))
    }

    pub(crate) fn grow(&mut self, holders: usize) {
        self.link.grow(holders);
        if let Some(ethernet) = &mut self.ethernet {
            ethernet.grow(holders);
        }
        for core in &mut self.cores {
            core.grow(holders);
        }
    }
}
