//! Hosts over RDMA: the ports' part of a turn.

use super::Engine;
use crate::hub::{Id, Reason};
use crate::rdma::Port;
use mynah_stamp::Time;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io;

/// What epoll says for the ports: of each first its listener, then its device.
pub(super) const RDMA: u64 = 1 << 45;

impl Engine {
    /// Serves hosts that come over RDMA, too.
    pub fn add_rdma(&mut self, ports: Vec<Port>) -> io::Result<()> {
        for port in ports {
            let data = RDMA + 2 * self.rdma.len() as u64;
            epoll::add(&self.epoll, port.listener(), EventData::new_u64(data), EventFlags::IN)?;
            epoll::add(&self.epoll, port.device(), EventData::new_u64(data + 1), EventFlags::IN)?;
            self.rdma.push(port);
        }
        Ok(())
    }

    /// A descriptor of a port is readable.
    pub(super) fn hear_rdma(&mut self, which: u64) {
        let now = self.clock.now();
        let Some(port) = self.rdma.get_mut((which / 2) as usize) else { return };
        match which % 2 {
            0 => port.hear(now, &mut self.hub, self.draining.is_some()),
            _ => port.silence(),
        }
    }

    /// Looks at every queue pair; whether something had come. The look before was then, and perhaps
    /// the engine has slept since.
    pub(super) fn receive_rdma(&mut self, before: Time, slept: bool) -> bool {
        let mut worked = false;
        for port in &mut self.rdma {
            let gap = self.clock.wall().saturating_since(before);
            // What came has woken the engine.
            let gap = if slept { gap.min(self.pacing.wake()) } else { gap };
            worked |= port.receive(&self.clock, &mut self.hub, gap);
        }
        worked
    }

    /// Sends what there is to send to hosts over RDMA; whether there was something.
    pub(super) fn send_rdma(&mut self) -> bool {
        let mut worked = false;
        while let Some((id, completion)) = self.hub.next_handed() {
            let mut left = Some(completion);
            for port in &mut self.rdma {
                left = left.and_then(|completion| port.reply(id, completion));
            }
            if let Some(completion) = left {
                self.hub.discard_elsewhere(completion);
            }
            worked = true;
        }
        for port in &mut self.rdma {
            worked |= port.send(&self.clock, &mut self.hub);
        }
        worked
    }

    /// The hub ends a connection, which may be one of these.
    pub(super) fn end_rdma(&mut self, now: Time, id: Id, reason: &Reason) {
        let at_once = *reason == Reason::Fault;
        self.rdma.iter_mut().for_each(|port| port.end(now, id, at_once));
    }

    /// Handles timeouts.
    pub(super) fn sweep_rdma(&mut self) {
        let now = self.clock.now();
        let times = (self.limits.half_open_time, self.limits.authentication_time);
        self.rdma.iter_mut().for_each(|port| port.sweep(now, &mut self.hub, times));
    }

    /// Whether the queue pairs have work, now that nobody will look for a while.
    pub(super) fn rdma_before_sleep(&mut self) -> bool {
        let mut has_work = false;
        for port in &mut self.rdma {
            // Each is to tell, whatever the others say.
            has_work |= port.before_sleep();
        }
        has_work
    }

    pub(super) fn close_rdma(&mut self) {
        let now = self.clock.now();
        self.rdma.iter_mut().for_each(|port| port.close_all(now, &mut self.hub));
    }
}

/// The sum of what the ports count.
pub(super) fn sum<T: std::iter::Sum>(ports: &[Port], count: impl Fn(&Port) -> T) -> T {
    ports.iter().map(count).sum()
}
