//! The life of a controller: enabled, shut down, failed, reset (CC and CSTS; Base 2.0, sections 3.1.3
//! and 3.5 to 3.7), and for how long its host may be silent.

use super::controller::{Controller, Role};
use super::features::Features;
use crate::slots::NONE;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::property::{Configuration, status};

/// How long a controller that is not ready waits to hear of its host, at least, if the host wants
/// it to be given up at all: as long as Linux's target waits for a proof where there is no
/// keep-alive timeout (nvmet_execute_auth_send in drivers/nvme/target/fabrics-cmd-auth.c).
const UNREADY_PATIENCE: Span = Span::from_secs(120);
/// How long a discovery controller without a keep-alive timeout waits to hear of its host: anybody
/// can have one, and may forget it. As long as with Linux's target (NVMET_DISC_KATO_MS in
/// drivers/nvme/target/nvmet.h, nvmet_alloc_ctrl in core.c).
const DISCOVERY_PATIENCE: Span = Span::from_secs(120);

/// What a controller had before it was reset, and somebody else has to end.
#[derive(Debug)]
pub(crate) struct Reset {
    pub(crate) features: Features,
    /// Transport queues of I/O queues.
    pub(crate) io_queues: Vec<u32>,
    /// Requests for events that are gone.
    pub(crate) requests: usize,
}

impl Controller {
    /// CC.
    pub(crate) fn configuration(&self) -> Configuration {
        self.configuration
    }

    /// CSTS.
    #[inline]
    pub(crate) fn status(&self) -> u32 {
        self.status
    }

    /// Whether commands are processed.
    pub(crate) fn is_ready(&self) -> bool {
        self.status & status::READY != 0
    }

    #[inline]
    pub(crate) fn is_fatal(&self) -> bool {
        self.status & status::FATAL != 0
    }

    /// Sets controller fatal status (CSTS.CFS).
    pub(crate) fn fail(&mut self) {
        self.status |= status::FATAL;
    }

    /// The host sets CC; returns what it was before.
    pub(crate) fn set_configuration(&mut self, new: Configuration) -> Configuration {
        std::mem::replace(&mut self.configuration, new)
    }

    /// CC.EN becomes 1; whether the controller is ready then. With a bad configuration it never
    /// becomes that.
    pub(crate) fn enable(&mut self) -> bool {
        let new = self.configuration;
        let fits_io = self.role == Role::Discovery
            || (new.submission_entry() == 6 && new.completion_entry() == 4)
            || (new.submission_entry() == 0 && new.completion_entry() == 0);
        let fits_set = matches!(new.command_sets(), 0 | 6 | 7);
        let is_ready = fits_io && fits_set && new.page_shift() == 0 && !self.is_fatal();
        if is_ready {
            self.status |= status::READY;
            self.status &= !status::SHUTDOWN;
            self.shutdown = NONE;
        }
        is_ready
    }

    /// Makes the controller ready with a configuration that its PCI function has checked.
    pub(crate) fn enable_with(&mut self, configuration: Configuration) {
        self.configuration = configuration;
        self.status = status::READY;
    }

    /// The host shuts the controller down, which takes a while.
    pub(crate) fn begin_shutdown(&mut self) {
        self.status &= !status::SHUTDOWN;
        self.status |= status::SHUTDOWN_OCCURRING;
    }

    /// The command whose end makes the shutdown complete.
    pub(crate) fn shut_down_by(&mut self, command: u32) {
        self.shutdown = command;
    }

    /// Whether that is this command.
    pub(crate) fn is_shut_down_by(&self, command: u32) -> bool {
        self.shutdown == command
    }

    pub(crate) fn end_shutdown(&mut self) {
        self.shutdown = NONE;
        self.status &= !status::SHUTDOWN;
        self.status |= status::SHUTDOWN_COMPLETE;
    }

    /// Controller level reset: features and events are as in the beginning.
    pub(crate) fn reset(&mut self, defaults: Features) -> Reset {
        self.status = 0;
        self.shutdown = NONE;
        self.queues_granted = self.queues_max;
        self.completion_queues_granted = self.queues_max;
        Reset {
            features: std::mem::replace(&mut self.features, defaults),
            io_queues: self.take_io_queues(),
            requests: self.events.reset(),
        }
    }

    /// CC.EN becomes 0 in a function: nothing is known of its host any more.
    pub(crate) fn forget_host(&mut self) {
        self.admin_queue = NONE;
        self.configuration = Configuration::default();
        self.host_id = [0; 16];
        self.completions.clear();
    }

    /// Keep-alive timeout; zero: none.
    pub(crate) fn keep_alive(&self) -> Span {
        self.keep_alive
    }

    pub(crate) fn set_keep_alive(&mut self, keep_alive: Span) {
        self.keep_alive = keep_alive;
    }

    /// Restarts the keep-alive timer.
    #[inline]
    pub(crate) fn heard_of(&mut self, now: Time) {
        self.last_seen = now;
    }

    /// When the host is given up unless it is heard of. A controller that is not ready is not held
    /// to its keep-alive timeout, and its host may have to work out who it is; but one that dies
    /// then must not leave it behind (so Linux's target, nvmet_start_ctrl in
    /// drivers/nvme/target/core.c).
    pub(crate) fn expires(&self) -> Option<Time> {
        let time = match (self.keep_alive.is_zero(), self.is_ready()) {
            (true, _) if self.role == Role::Discovery => DISCOVERY_PATIENCE,
            (true, _) => return None,
            (false, true) => self.keep_alive,
            (false, false) => self.keep_alive.max(UNREADY_PATIENCE),
        };
        Some(self.last_seen + time)
    }
}
