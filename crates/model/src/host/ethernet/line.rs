//! One direction of a port: queue pairs take turns on it, a burst at a time, and the network
//! interface works on each packet before it goes or after it has come.
//!
//! Interface and wire are two first-come servers behind one another, so the end of a burst is known
//! when it begins. Of n packets that take `a` in the interface and `w` on the wire, the last is
//! through after a + w + (n - 1) max(a, w) if both were idle; where they follow one another
//! (`serial`), after n (a + w).

use super::frames::{Burst, Frames, Shape};
use super::packets::Part;
use crate::config::Ethernet;
use crate::number::CommandIndex;
use crate::observe::blame::{BlameMatrix, HolderIndex};
use crate::observe::stats::Resource;
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A message that waits for its turn, or what is left of it.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Transfer {
    pub(super) command: CommandIndex,
    /// Where its command goes on when it is through.
    pub(super) hop: u16,
    pub(super) shape: Shape,
    rest: u32,
    /// Of the time since it was offered, what the interface took.
    nic: Span,
}

impl Transfer {
    pub(super) fn new(command: CommandIndex, hop: u16, shape: Shape) -> Transfer {
        Transfer { command, hop, shape, rest: shape.payload, nic: Span::ZERO }
    }
}

/// The last burst of a message is on its way.
pub(super) struct Sent {
    pub(super) transfer: Transfer,
    /// When its last byte is through.
    pub(super) at: Time,
    /// Of the time since it was offered, what the interface took.
    pub(super) nic: Span,
    /// Of it, what the packet took that closes the message.
    pub(super) close: Span,
}

/// A packet that was put on the wire.
#[derive(Serialize, Deserialize)]
pub(super) struct OnWire {
    pub(super) command: CommandIndex,
    pub(super) hop: u16,
    /// When its last byte is on the wire.
    pub(super) at: Time,
    pub(super) part: Part,
    pub(super) bytes: u32,
}

/// Times of a burst that has been booked on interface and wire.
struct Booked {
    at: Time,
    /// What it waited for wire and interface, both of which it had got its turn for.
    wire_wait: Span,
    nic_wait: Span,
    /// Of its time, what it would not have taken on the wire alone.
    nic: Span,
}

/// The messages of a queue pair, in order.
#[derive(Default, Serialize, Deserialize)]
struct Pair {
    waiting: VecDeque<Transfer>,
    holder: HolderIndex,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Line {
    /// Whether it carries what the drive sends: the interface comes before the wire then.
    sends: bool,
    serial: bool,
    packet: Span,
    message: Span,
    gap: Span,
    /// How long before the wire is free the next burst may go to the interface: it works ahead by
    /// two bursts, so that the wire need not wait for it.
    ahead: Span,
    ack: u32,
    wire_free: Time,
    nic_free: Time,
    wire_busy: Span,
    nic_busy: Span,
    /// Whose burst was given its turn last.
    holder: HolderIndex,
    pairs: Vec<Pair>,
    /// Queue pairs with something to send, in the order of their turns.
    turns: VecDeque<u16>,
    /// Whether someone looks when the next turn can be.
    watched: bool,
    /// The packets of the last bursts, if anybody wants them.
    recorded: Option<Vec<OnWire>>,
}

impl Line {
    pub(super) fn new(config: &Ethernet, frames: &Frames, sends: bool) -> Line {
        let packet = if sends { config.nic.transmit } else { config.nic.receive };
        let is_worked_at = !(packet + config.nic.message).is_zero();
        let works_ahead = sends && !config.nic.serial && is_worked_at;
        Line {
            sends,
            serial: config.nic.serial,
            packet,
            message: config.nic.message,
            gap: config.gap,
            ahead: if works_ahead { frames.turn_time(config.gap).times(2) } else { Span::ZERO },
            ack: frames.ack_bytes(),
            wire_free: Time::ZERO,
            nic_free: Time::ZERO,
            wire_busy: Span::ZERO,
            nic_busy: Span::ZERO,
            holder: 0,
            pairs: vec![],
            turns: VecDeque::new(),
            watched: false,
            recorded: None,
        }
    }

    /// Keeps packets from now on, or no more.
    pub(super) fn keep(&mut self, keep: bool) {
        self.recorded = keep.then(Vec::new);
    }

    /// What has been kept since this was last asked.
    pub(super) fn take(&mut self) -> Vec<OnWire> {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn resource(&self) -> Resource {
        if self.sends { Resource::LinkUp } else { Resource::LinkDown }
    }

    /// When the next burst can begin, and whether it is the interface that it waits for.
    fn ready(&self) -> (Time, bool) {
        let wire = earlier(self.wire_free, self.ahead);
        // What has come cannot be held up: the interface's queue is behind the wire.
        match self.sends && self.nic_free > wire {
            true => (self.nic_free, true),
            false => (wire, false),
        }
    }

    /// When someone has to call [`Line::turn`], if nobody looks yet.
    pub(super) fn watch(&mut self) -> Option<Time> {
        if self.watched || self.turns.is_empty() {
            return None;
        }
        self.watched = true;
        Some(self.ready().0)
    }

    /// A queue pair has a message. Says so if its last burst can go at once.
    pub(super) fn offer(
        &mut self,
        now: Time,
        pair: u16,
        holder: HolderIndex,
        transfer: Transfer,
        frames: &Frames,
        blame: &mut BlameMatrix,
    ) -> Option<Sent> {
        let (ready, by_nic) = self.ready();
        if self.turns.is_empty() && ready <= now {
            return self.begin(now, pair, holder, transfer, frames, blame);
        }
        let mut transfer = transfer;
        let wait = ready.saturating_since(now);
        self.charge(&mut transfer, holder, by_nic, wait, blame);
        self.put(pair, holder, transfer, false);
        None
    }

    fn charge(
        &self,
        transfer: &mut Transfer,
        victim: HolderIndex,
        by_nic: bool,
        wait: Span,
        blame: &mut BlameMatrix,
    ) {
        let resource = if by_nic { Resource::Nic } else { self.resource() };
        blame.add(victim, resource, self.holder, wait);
        if by_nic {
            transfer.nic += wait;
        }
    }

    fn put(&mut self, pair: u16, holder: HolderIndex, transfer: Transfer, goes_on: bool) {
        let at = usize::from(pair);
        if at >= self.pairs.len() {
            self.pairs.resize_with(at + 1, Pair::default);
        }
        let queue = &mut self.pairs[at];
        queue.holder = holder;
        if queue.waiting.is_empty() {
            self.turns.push_back(pair);
        }
        match goes_on {
            true => queue.waiting.push_front(transfer),
            false => queue.waiting.push_back(transfer),
        }
    }

    /// The next queue pair has its turn, if it can be yet. Says so if that was the last of a
    /// message.
    pub(super) fn turn(
        &mut self,
        now: Time,
        frames: &Frames,
        blame: &mut BlameMatrix,
    ) -> Option<Sent> {
        self.watched = false;
        if self.ready().0 > now {
            return None;
        }
        let pair = self.turns.pop_front()?;
        let queue = &mut self.pairs[usize::from(pair)];
        let holder = queue.holder;
        let transfer = queue.waiting.pop_front()?;
        if !queue.waiting.is_empty() {
            self.turns.push_back(pair);
        }
        self.begin(now, pair, holder, transfer, frames, blame)
    }

    /// A burst begins. All that wait on wait for it.
    fn begin(
        &mut self,
        now: Time,
        pair: u16,
        holder: HolderIndex,
        mut transfer: Transfer,
        frames: &Frames,
        blame: &mut BlameMatrix,
    ) -> Option<Sent> {
        let burst = frames.burst(&transfer.shape, transfer.rest);
        let is_last = burst.payload == transfer.rest;
        let starts = transfer.rest == transfer.shape.payload;
        let before = self.holder;
        let wire_free = self.wire_free;
        let booked = self.book(now, &burst, starts, is_last, frames);
        if self.recorded.is_some() {
            self.keep_burst(now.max(wire_free), wire_free, &transfer, &burst, booked.at, frames);
        }
        // What a message waits for itself is its own time.
        if starts || before != holder {
            blame.add(holder, self.resource(), before, booked.wire_wait);
            blame.add(holder, Resource::Nic, before, booked.nic_wait);
        }
        self.holder = holder;
        self.charge_waiting(now, blame);
        transfer.rest -= burst.payload;
        transfer.nic += booked.nic;
        if !is_last {
            // What other queue pairs have goes first.
            self.put(pair, holder, transfer, true);
            return None;
        }
        let close = if burst.close > 0 { frames.time(burst.close) + self.gap } else { Span::ZERO };
        Some(Sent { transfer, at: booked.at, nic: transfer.nic, close })
    }

    /// Everything that waits is charged until the next turn can be.
    fn charge_waiting(&mut self, now: Time, blame: &mut BlameMatrix) {
        if self.turns.is_empty() {
            return;
        }
        let (ready, by_nic) = self.ready();
        self.charge_span(ready.saturating_since(now), by_nic, blame);
    }

    fn charge_span(&mut self, wait: Span, by_nic: bool, blame: &mut BlameMatrix) {
        if wait.is_zero() {
            return;
        }
        let resource = if by_nic { Resource::Nic } else { self.resource() };
        for &pair in &self.turns {
            let queue = &mut self.pairs[usize::from(pair)];
            let waiting = queue.waiting.len() as u64;
            blame.add(queue.holder, resource, self.holder, wait.times(waiting));
            if by_nic {
                queue.waiting.iter_mut().for_each(|transfer| transfer.nic += wait);
            }
        }
    }

    fn book(
        &mut self,
        now: Time,
        burst: &Burst,
        starts: bool,
        ends: bool,
        frames: &Frames,
    ) -> Booked {
        let packets = u64::from(burst.packets);
        // The gap behind the last packet passes when it is through.
        let wire = frames.time(burst.bytes) + self.gap.times(packets - 1);
        let work = self.packet.times(packets);
        let wire_start = self.wire_free.max(now);
        let message = |applies: bool| if applies { self.message } else { Span::ZERO };
        self.wire_busy += wire + self.gap;
        if self.serial {
            let control = message(ends);
            let at = wire_start + wire + work + control;
            self.wire_free = at + self.gap;
            self.nic_busy += work + control;
            let wire_wait = wire_start.since(now);
            return Booked { at, wire_wait, nic_wait: Span::ZERO, nic: work + control };
        }
        if self.sends {
            let control = message(starts);
            let start = self.nic_free.max(now);
            // The first packet leads the wire, or the wire leads the last packet.
            let alone = control + (self.packet + wire).max(work + frames.time(burst.last));
            let by_nic = start + alone;
            let at = by_nic.max(self.wire_free + wire);
            self.nic_free = start + control + work;
            self.nic_busy += control + work;
            self.wire_free = at + self.gap;
            return Booked {
                at,
                wire_wait: at.since(by_nic),
                nic_wait: Span::ZERO,
                nic: at.since(wire_start + wire),
            };
        }
        let control = message(ends);
        let end = wire_start + wire;
        self.wire_free = end + self.gap;
        let wire_wait = wire_start.since(now);
        if (work + control).is_zero() {
            return Booked { at: end, wire_wait, nic_wait: Span::ZERO, nic: Span::ZERO };
        }
        let free = (end + self.packet).max(wire_start + frames.time(burst.first) + work);
        let done = free.max(self.nic_free + work);
        self.nic_free = done + control;
        self.nic_busy += work + control;
        let at = done + control;
        // Of a message, what the interface adds to its last burst is what it adds.
        let nic = if ends { at.since(end) } else { Span::ZERO };
        Booked { at, wire_wait, nic_wait: done.since(free), nic }
    }

    /// The other end of the line has to be told that a message came: packets that nobody waits
    /// for, ahead of what waits.
    pub(super) fn acknowledge(
        &mut self,
        now: Time,
        packets: u32,
        frames: &Frames,
        blame: &mut BlameMatrix,
    ) {
        let before = self.ready().0.max(now);
        let length = (frames.time(self.ack) + self.gap).times(packets.into());
        let work = self.packet.times(packets.into());
        self.wire_busy += length;
        self.nic_busy += work;
        match self.serial {
            true => self.wire_free = self.wire_free.max(now) + length + work,
            false if self.sends => {
                self.nic_free = self.nic_free.max(now) + work;
                self.wire_free = self.wire_free.max(self.nic_free) + length;
            }
            false => {
                self.wire_free = self.wire_free.max(now) + length;
                self.nic_free = (self.nic_free + work).max(self.wire_free + self.packet);
            }
        }
        let (ready, by_nic) = self.ready();
        self.charge_span(ready.saturating_since(before), by_nic, blame);
    }

    /// Keeps the packets of a burst that has been booked, on a wire that was free at `wire_free`.
    /// The last is through at `at`.
    #[cold]
    #[inline(never)]
    fn keep_burst(
        &mut self,
        wire_start: Time,
        wire_free: Time,
        transfer: &Transfer,
        burst: &Burst,
        at: Time,
        frames: &Frames,
    ) {
        let packets = u64::from(burst.packets);
        let (ends, shape) = (burst.payload == transfer.rest, &transfer.shape);
        // When the wire can take the next, and when the interface has it ready.
        let mut free = if self.sends && !self.serial { wire_free } else { wire_start };
        let mut ready = match (self.sends, self.serial) {
            (true, false) => earlier(self.nic_free, self.packet.times(packets)),
            // The control plane's part is before the last burst, as the host has that at its end.
            (true, true) if ends => free + self.message,
            _ => free,
        };
        let mut offset = shape.payload - transfer.rest;
        let mut bytes_before = 0;
        for number in 1..=packets {
            let closes = burst.close > 0 && number == packets;
            let (part, bytes) = if closes {
                (Part::Closing, burst.close)
            } else {
                let (length, bytes) = frames.packet(shape, offset);
                let part = Part::Payload { offset, length, of: shape.payload };
                offset += length;
                (part, bytes)
            };
            // So that rounded times add up to that of the burst.
            let before = frames.time(bytes_before);
            bytes_before += bytes;
            let length = frames.time(bytes_before) - before;
            if self.sends {
                ready = if self.serial { ready.max(free) } else { ready } + self.packet;
            }
            let end = (ready.max(free) + length).min(at);
            free = end + self.gap;
            if self.serial && !self.sends {
                free += self.packet;
            }
            let (command, hop) = (transfer.command, transfer.hop);
            let on_wire = OnWire { command, hop, at: end, part, bytes };
            self.recorded.get_or_insert_default().push(on_wire);
        }
    }

    /// When the acknowledgements are on the wire that were put on it last.
    pub(super) fn times_of_acks(
        &self,
        packets: u32,
        frames: &Frames,
    ) -> impl Iterator<Item = Time> {
        let work = if self.serial { self.packet } else { Span::ZERO };
        let length = frames.time(self.ack);
        let each = length + self.gap + work;
        let start = earlier(self.wire_free, each.times(packets.into()));
        let first = start + length + if self.sends { work } else { Span::ZERO };
        (0..u64::from(packets)).map(move |number| first + each.times(number))
    }

    /// How long the wire was busy up to `now`, and the interface.
    pub(super) fn busy(&self, now: Time) -> [Span; 2] {
        [
            self.wire_busy.saturating_sub(self.wire_free.saturating_since(now)),
            self.nic_busy.saturating_sub(self.nic_free.saturating_since(now)),
        ]
    }

    pub(super) fn is_at_rest(&self, now: Time) -> bool {
        self.turns.is_empty() && self.wire_free <= now && self.nic_free <= now
    }

    /// Drops what is on its way and what waits.
    pub(super) fn clear(&mut self, now: Time) {
        [self.wire_busy, self.nic_busy] = self.busy(now);
        (self.wire_free, self.nic_free) = (now, now);
        self.pairs.iter_mut().for_each(|pair| pair.waiting.clear());
        self.turns.clear();
        self.watched = false;
    }
}

/// A moment so long before another.
fn earlier(time: Time, by: Span) -> Time {
    Time::from_ps(time.as_ps().saturating_sub(by.as_ps()))
}
