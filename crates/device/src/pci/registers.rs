//! The controller's registers (Base 2.0, section 3.1.3): reads and writes of any length and
//! place are defined, and those that the specification does not allow do nothing.

use super::memory::set_doorbell;
use super::queue::{Completions, Submission};
use super::{DOORBELL_BYTES, DOORBELLS_AT, Function};
use crate::controllers::READY_TIMEOUT;
use crate::controllers::events as event;
use crate::subsystem::Subsystem;
use mynah_wire::nvme::property::{
    CAP_WEIGHTED_ROUND_ROBIN, Capabilities, Configuration, VERSION_2_0, offset, status,
};
use std::sync::atomic::AtomicU32;

/// Bits of CC that have a meaning: all up to CRIME but EN's neighbours.
const CONFIGURATION_BITS: u32 = 0x00ff_fff1;
/// The bits of AQA that are not reserved.
const ADMIN_SIZES_BITS: u32 = 0x0fff_0fff;
/// Addresses of queues are those of memory pages.
const PAGE_BITS: u64 = !0xfff;

impl Function {
    fn capabilities(&self) -> u64 {
        let capabilities =
            Capabilities { queue_entries_max: self.queue_entries_max, timeout: READY_TIMEOUT };
        let weighted = if self.has_priorities { CAP_WEIGHTED_ROUND_ROBIN } else { 0 };
        capabilities.to_bits() | weighted
    }

    /// A register, by the place of one of its words.
    fn register(&self, subsystem: &Subsystem, at: u32) -> u32 {
        let half = |value: u64| (value >> (at % 8 * 8)) as u32;
        match at {
            offset::CAP | 0x04 => half(self.capabilities()),
            offset::VS => VERSION_2_0,
            offset::INTMS | offset::INTMC => self.msix.mask,
            offset::CC => self.configuration.0,
            offset::CSTS => subsystem.guest_status(self.controller),
            offset::AQA => self.admin_sizes,
            offset::ASQ | 0x2c => half(self.admin_submission),
            offset::ACQ | 0x34 => half(self.admin_completion),
            // Ready with media within the same time as CAP.TO says.
            offset::CRTO => READY_TIMEOUT.into(),
            _ => 0,
        }
    }

    pub(super) fn read_registers(&self, subsystem: &Subsystem, at: u32, into: &mut [u8]) {
        for (at, byte) in (at..).zip(into) {
            let word = self.register(subsystem, at & !3);
            *byte = word.to_le_bytes()[(at & 3) as usize];
        }
    }

    /// Writes whole words; anything else is ignored.
    pub(super) fn write_registers(
        &mut self,
        subsystem: &mut Subsystem,
        doorbells: &[AtomicU32],
        at: u32,
        from: &[u8],
    ) {
        let (words, rest) = from.as_chunks();
        if !at.is_multiple_of(4) || !rest.is_empty() {
            return;
        }
        for (at, word) in (at..).step_by(4).zip(words) {
            let value = u32::from_le_bytes(*word);
            match u64::from(at).checked_sub(DOORBELLS_AT) {
                None => self.write_register(subsystem, doorbells, at, value),
                Some(at) if at < DOORBELL_BYTES => {
                    self.write_doorbell(subsystem, doorbells, at as usize / 4, value);
                }
                Some(_) => {}
            }
        }
    }

    fn write_register(
        &mut self,
        subsystem: &mut Subsystem,
        doorbells: &[AtomicU32],
        at: u32,
        value: u32,
    ) {
        let low = |old: u64| (old & !0xffff_ffff | u64::from(value)) & PAGE_BITS;
        let high = |old: u64| old & 0xffff_ffff | u64::from(value) << 32;
        match at {
            offset::INTMS => self.msix.set_mask(self.msix.mask | value),
            offset::INTMC => self.msix.set_mask(self.msix.mask & !value),
            offset::CC => self.configure(subsystem, doorbells, value),
            // The admin queues are what they were when the controller was enabled.
            offset::AQA => self.admin_sizes = value & ADMIN_SIZES_BITS,
            offset::ASQ => self.admin_submission = low(self.admin_submission),
            0x2c => self.admin_submission = high(self.admin_submission),
            offset::ACQ => self.admin_completion = low(self.admin_completion),
            0x34 => self.admin_completion = high(self.admin_completion),
            _ => {}
        }
    }

    fn write_doorbell(
        &mut self,
        subsystem: &mut Subsystem,
        doorbells: &[AtomicU32],
        index: usize,
        value: u32,
    ) {
        let exists = match index % 2 {
            0 => self.submissions.get(index / 2).is_some_and(Option::is_some),
            _ => self.completions.get(index / 2).is_some_and(Option::is_some),
        };
        if exists {
            set_doorbell(doorbells, index, value);
        } else {
            subsystem.raise(self.controller, event::INVALID_DOORBELL);
        }
    }

    fn configure(&mut self, subsystem: &mut Subsystem, doorbells: &[AtomicU32], value: u32) {
        let new = Configuration(value & CONFIGURATION_BITS);
        let old = std::mem::replace(&mut self.configuration, new);
        if new.shutdown() != 0 && old.shutdown() == 0 {
            subsystem.shut_down(self.controller);
        }
        match (old.enabled(), new.enabled()) {
            (false, true) => {
                self.wants_enable = true;
                self.enable(subsystem, doorbells);
            }
            (true, false) => self.disable(subsystem, doorbells),
            _ => {}
        }
    }

    /// Makes the controller ready, unless its configuration is bad: then it never is.
    pub(super) fn enable(&mut self, subsystem: &mut Subsystem, doorbells: &[AtomicU32]) {
        let configuration = self.configuration;
        let (submissions, completions) =
            ((self.admin_sizes & 0xfff) + 1, (self.admin_sizes >> 16) + 1);
        let fits = matches!(configuration.submission_entry(), 0 | 6)
            && matches!(configuration.completion_entry(), 0 | 4)
            && matches!(configuration.command_sets(), 0 | 6 | 7)
            && configuration.page_shift() == 0
            && (configuration.arbitration() == 0
                || configuration.arbitration() == 1 && self.has_priorities)
            && submissions >= 2
            && completions >= 2;
        if !fits {
            self.wants_enable = false;
            return;
        }
        if !subsystem.enable_guest(self.controller, configuration) {
            return;
        }
        self.wants_enable = false;
        let slot = subsystem.guest_admin_queue(self.controller);
        let mut admin = Completions::new(self.admin_completion, completions, Some(0));
        admin.users = 1;
        self.submissions[0] =
            Some(Box::new(Submission::new(slot, self.admin_submission, submissions, 0)));
        self.completions[0] = Some(Box::new(admin));
        self.active_completions.push(0);
        for index in 0..2 {
            set_doorbell(doorbells, index, 0);
        }
    }

    /// Controller reset: all queues go.
    pub(super) fn disable(&mut self, subsystem: &mut Subsystem, doorbells: &[AtomicU32]) {
        subsystem.disable_guest(self.controller);
        self.wants_enable = false;
        self.shadow = None;
        self.next_at = None;
        self.held_until = None;
        for queue in self.submissions.iter_mut() {
            *queue = None;
        }
        for queue in self.completions.iter_mut() {
            if let Some(queue) = queue.take() {
                for waiting in queue.backlog {
                    subsystem.discard(waiting.completion);
                }
            }
        }
        self.active.clear();
        self.active_completions.clear();
        let all: Vec<u32> = self.transfers.iter().map(|(index, _)| index).collect();
        for transfer in all {
            self.forget(transfer);
        }
        for index in 0..doorbells.len() {
            set_doorbell(doorbells, index, 0);
        }
    }

    /// The controller cannot go on: a queue's memory is gone, say.
    pub(super) fn fail(&mut self, subsystem: &mut Subsystem) {
        subsystem.fail_guest(self.controller);
    }

    /// Whether commands are processed.
    pub(super) fn is_running(&self, subsystem: &Subsystem) -> bool {
        let status = subsystem.guest_status(self.controller);
        status & (status::READY | status::FATAL) == status::READY && self.submissions[0].is_some()
    }
}
