//! The drive's state as bytes: saved, and restored into a drive of the same configuration,
//! which then goes on exactly as the first would.
//!
//! What is saved is what outlives a quiet moment: the mapping tables, what is cached of them,
//! blocks with their erases, free lists and frontiers, whose turn it is, the data cache with
//! what is dirty in it, and what FLIN knows of flows. Queues of the host, counters and time are
//! not: a restored drive is at time zero and has no queues. Random numbers begin anew from a
//! number that is part of the state, in the saved drive as well, and so do the waits of what is
//! on its way from the cache but does not fill a page yet.
//!
//! The bytes are little-endian numbers without names; whoever keeps them adds what they
//! belong to, and a checksum. Bytes that do not fit are refused, and the drive that was to
//! take them must not be used any more.

use crate::drive::{Drive, FLOW_MAX, Policies};
use crate::io::FlowId;
use crate::kernel::bytes::{LAYOUT, Reader, StateError, Writer};
use mynah_stamp::Time;

impl<P: Policies> Drive<P> {
    /// Whether nothing goes on inside: no commands, nothing that is being written or collected,
    /// nothing on the link. The cache may hold what is dirty, as long as nobody waits for it.
    pub fn is_at_rest(&self) -> bool {
        self.host.is_at_rest(self.kernel.now)
            && self.ftl.is_at_rest()
            && self.flash.is_at_rest()
            && self.is_cache_at_rest()
    }

    /// Events that the model has processed since the drive was built.
    pub fn events_processed(&self) -> u64 {
        self.kernel.observe.counted().events
    }

    /// Pages programmed since the drive was built.
    pub fn pages_programmed(&self) -> u64 {
        self.kernel.observe.counted().flash_programs
    }

    /// Pages that a drive programs by itself after its last command, if it comes to rest at all.
    /// Collection moves what is valid once, perhaps twice; what is dirty in a cache needs room
    /// that has to be won, too.
    pub fn tidying_pages_max(&self) -> u64 {
        self.config.geometry.pages().saturating_mul(8)
    }
    /// Hands the state to `sink`, piece by piece.
    ///
    /// # Errors
    /// [`StateError::Busy`] if the drive is not at rest ([`Drive::is_at_rest`]);
    /// [`StateError::Policies`] if it decides by policies of others, whose knowledge has no bytes.
    #[inline]
    pub fn save_state(&mut self, sink: &mut dyn FnMut(&[u8])) -> Result<(), StateError> {
        P::save_state(self, sink)
    }

    pub(crate) fn save_state_here(
        &mut self,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(), StateError> {
        self.decides_by_itself()?;
        if !self.is_at_rest() {
            return Err(StateError::Busy);
        }
        let out = &mut Writer { sink };
        out.number(LAYOUT.into());
        self.ftl.save_tables(out);
        self.flash.save(out);
        self.ftl.save_work(self.kernel.observe.counted().host_units_written, out);
        out.number(self.kernel.observe.holders() as u64);
        out.number(self.kernel.order());
        self.ftl.save_kinds(out);
        self.save_cache(out);
        Ok(())
    }

    /// Takes the state that `source` gives: it fills what it is given and says whether it
    /// could.
    ///
    /// # Errors
    /// See [`StateError`]. The drive must not be used any more then.
    #[inline]
    pub fn restore_state(
        &mut self,
        source: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), StateError> {
        P::restore_state(self, source)
    }

    fn decides_by_itself(&self) -> Result<(), StateError> {
        match self.policies.identity() {
            Some(own) => Err(StateError::Policies(own.name)),
            None => Ok(()),
        }
    }

    pub(crate) fn restore_state_here(
        &mut self,
        source: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), StateError> {
        self.decides_by_itself()?;
        if self.kernel.now != Time::ZERO
            || self.kernel.observe.counted().commands > 0
            || self.host.commands_inside() > 0
        {
            return Err(StateError::Used);
        }
        let input = &mut Reader { source };
        match input.number()? {
            layout if layout == u64::from(LAYOUT) => {}
            layout => return Err(StateError::Layout(layout)),
        }
        self.ftl.restore_tables(input)?;
        self.flash.restore(input)?;
        self.ftl.restore_work(input)?;
        // Whoever had a flow has his part of the cache.
        let holders = input.number()?;
        let most = usize::from(self.kernel.observe.flows().holder_of(FlowId(FLOW_MAX))) + 1;
        if !(self.kernel.observe.holders() as u64..=most as u64).contains(&holders) {
            return Err(StateError::Damaged(format!("{holders} flows")));
        }
        self.grow_holders(holders as usize);
        let order = input.number()?;
        self.restore_order(order)?;
        self.ftl.restore_kinds(input)?;
        self.restore_cache(input)?;
        self.check().map_err(|broken| StateError::Damaged(broken.to_string()))?;
        self.settle();
        if !self.is_at_rest() {
            return Err(StateError::Damaged("something is under way".into()));
        }
        self.await_idleness();
        self.restart_counters();
        Ok(())
    }
}
