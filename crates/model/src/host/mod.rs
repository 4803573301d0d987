//! The host's side of the controller: queues and arbitration, the link, and a command's life from
//! its doorbell to its completion.

pub(crate) mod command;
pub(crate) mod front;
pub(crate) mod link;
pub(crate) mod queues;
pub(crate) mod read;

use crate::config::Config;
use crate::io::Tag;
use crate::kernel::fifo::Fifo;
use crate::kernel::pool::Pool;
use crate::kernel::ring::Ring;
use command::{Command, Piece};
use front::Said;
use hashbrown::HashMap;
use link::Link;
use queues::HostInterface;
use rustc_hash::FxBuildHasher;

/// Queues, link and firmware, and the commands in the controller.
pub(crate) struct Host {
    /// What the host has not taken of what the drive says at the present instant.
    pub(crate) outputs: Ring<Said>,
    pub(crate) report_moves: bool,
    pub(crate) interface: HostInterface,
    pub(crate) link: Link,
    pub(crate) cores: Vec<Fifo>,
    pub(crate) commands: Pool<Command>,
    /// Read data on its way to the host whose arrival is reported.
    pub(crate) pieces_out: Pool<Piece>,
    pub(crate) awaiting_data: HashMap<Tag, u32, FxBuildHasher>,
    /// Commands that have ended after their queue had gone, and commands that were answered when it
    /// went, before they had ended.
    pub(crate) orphans_ended: u64,
    pub(crate) orphans_answered: u64,
    /// False between a power cut and the end of the recovery.
    pub(crate) powered: bool,
}

impl Host {
    pub(crate) fn new(config: &Config) -> Host {
        Host {
            outputs: Ring::default(),
            report_moves: false,
            interface: HostInterface::new(config.queues),
            link: Link::new(config.link),
            cores: (0..config.firmware.cores).map(|_| Fifo::default()).collect(),
            commands: Pool::default(),
            pieces_out: Pool::default(),
            awaiting_data: HashMap::default(),
            orphans_ended: 0,
            orphans_answered: 0,
            powered: true,
        }
    }

    pub(crate) fn grow(&mut self, holders: usize) {
        self.link.grow(holders);
        for core in &mut self.cores {
            core.grow(holders);
        }
    }
}
