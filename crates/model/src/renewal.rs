//! A drive at work begins anew: it stops in the middle of what it does, keeps what is on flash and
//! in DRAM, and stands at time zero, without queues or counts. So a run can begin at a moment of
//! another, with planes that are in the middle of their collections.
//!
//! Unlike a power cut it loses nothing but commands; unlike a saved state it waits for nothing:
//! victims that are half empty stay so, and collection goes on with them.

use crate::config::Fault;
use crate::drive::{Drive, Policies};
use crate::fault::Keep;
use crate::flash::work::UNSET;
use crate::kernel::event::EventQueue;
use mynah_stamp::Time;

impl<P: Policies> Drive<P> {
    /// Drops all commands and everything that is under way, and begins anew at time zero, with
    /// these faults in place of those it had. What it does by itself goes on at once. What was
    /// being programmed is where it was before; with a write cache it is dirty there.
    #[inline]
    pub fn begin_anew(&mut self, faults: Vec<Fault>) {
        P::begin_anew(self, faults)
    }

    pub(crate) fn begin_anew_here(&mut self, faults: Vec<Fault>) {
        self.stop(Keep::Everything);
        // Of that nobody is told.
        self.take_activity();
        self.kernel.now = Time::ZERO;
        self.kernel.events = EventQueue::new();
        self.host.clear(Time::ZERO);
        if let Some(cache) = &mut self.cache {
            cache.clear_dram(self.kernel.now);
        }
        self.flash.begin_anew();
        let cached = self.cache.iter().flat_map(|cache| cache.contents());
        for (_, at) in cached.collect::<Vec<_>>() {
            let unit = self.ftl.unit_mut(at);
            unit.created = UNSET;
            for time in [&mut unit.queued, &mut unit.started, &mut unit.array] {
                *time = Time::ZERO;
            }
        }
        self.ftl.begin_anew();
        self.config.faults = faults;
        self.host.set_powered(true);
        self.ftl.renew_faults(&self.config);
        self.schedule_faults();
        self.restart_counters();
        self.resume_work();
        self.settle();
    }
}
