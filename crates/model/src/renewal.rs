//! A drive at work begins anew: it stops in the middle of what it does, keeps what is on flash and
//! in DRAM, and stands at time zero, without queues or counts. So a run can begin at a moment of
//! another, with planes that are in the middle of their collections.
//!
//! Unlike a power cut it loses nothing but commands; unlike a saved state it waits for nothing:
//! victims that are half empty stay so, and collection goes on with them.

use crate::config::Fault;
use crate::drive::Drive;
use crate::fault::Keep;
use crate::flash::work::UNSET;
use crate::kernel::event::EventQueue;
use mynah_stamp::Time;

impl Drive {
    /// Drops all commands and everything that is under way, and begins anew at time zero, with
    /// these faults in place of those it had. What it does by itself goes on at once. What was
    /// being programmed is where it was before; with a write cache it is dirty there.
    pub fn begin_anew(&mut self, faults: Vec<Fault>) {
        self.stop(Keep::Everything);
        // Of that nobody is told.
        self.take_activity();
        self.kernel.now = Time::ZERO;
        self.kernel.events = EventQueue::new();
        self.host.link.clear(self.kernel.now);
        self.host.cores.iter_mut().for_each(|core| core.clear(Time::ZERO));
        if let Some(cache) = &mut self.cache {
            cache.dram.power_cut(self.kernel.now);
        }
        self.flash.begin_anew();
        let cached = self.cache.iter().flat_map(|cache| cache.contents());
        for (_, at) in cached.collect::<Vec<_>>() {
            let unit = &mut self.ftl.units[at];
            unit.created = UNSET;
            for time in [&mut unit.queued, &mut unit.started, &mut unit.array] {
                *time = Time::ZERO;
            }
        }
        // The pages that were being put together are in the cache again.
        self.ftl.stripes.iter_mut().for_each(|stripe| stripe.left = 0);
        // Who lost data in the stop has been answered by nobody.
        self.ftl.lost_units.clear();
        self.config.faults = faults;
        self.host.powered = true;
        self.ftl.faults.renew(&self.config);
        self.schedule_faults();
        self.restart_counters();
        self.resume_work();
        self.settle();
    }
}
