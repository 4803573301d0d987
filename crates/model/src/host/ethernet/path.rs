//! A command's path over an Ethernet link, hop by hop.

use super::frames::{Message, Shape};
use super::line::{Sent, Transfer};
use super::packets::Leg;
use super::{Counted, DOWN, End, Ethernet, Hop, Load, Passage, UP};
use crate::drive::{Drive, InputError, Policies};
use crate::host::command::Command;
use crate::io::{Operation, QueueKind, Request, Status};
use crate::kernel::event::Event;
use crate::kernel::pool::PoolIndex;
use crate::number::CommandIndex;
use crate::observe::stats::Resource;
use mynah_stamp::{Stage, Time};

/// A capsule on the bus, and a response.
const COMMAND_BYTES: u32 = 64;
const RESPONSE_BYTES: u32 = 16;
/// A range of a Dataset Management command, in its capsule (NVM Command Set, section 3.2.3).
const RANGE_BYTES: u32 = 16;

fn moves_data(operation: Operation) -> bool {
    operation == Operation::Read || writes(operation)
}

fn writes(operation: Operation) -> bool {
    matches!(operation, Operation::Write | Operation::WriteThrough)
}

/// The bytes that a command moves.
fn data_bytes(request: &Request) -> u32 {
    if moves_data(request.operation) { request.sectors.saturating_mul(512) } else { 0 }
}

impl Ethernet {
    /// The bytes that come within the capsule.
    fn inline_bytes(&self, request: &Request) -> u32 {
        match request.operation {
            Operation::Trim => RANGE_BYTES,
            operation if writes(operation) && !self.fetches_data(request) => data_bytes(request),
            _ => 0,
        }
    }

    /// Whether a write's data are asked for.
    fn fetches_data(&self, request: &Request) -> bool {
        writes(request.operation) && data_bytes(request) > self.config.in_capsule_bytes
    }

    fn is_too_large(&self, request: &Request) -> bool {
        data_bytes(request) > self.config.max_transfer_bytes
    }

    fn shape(&self, leg: Leg, c: &Command) -> Shape {
        let (request, bytes) = (&c.request, data_bytes(&c.request));
        self.frames.shape(match leg {
            Leg::Capsule => Message::Capsule(self.inline_bytes(request)),
            Leg::DataRequest => Message::DataRequest,
            Leg::WriteData => Message::WriteData(bytes),
            Leg::ReadReply => Message::ReadReply(bytes),
            Leg::Reply => {
                let keyed = self.fetches_data(request) || request.operation == Operation::Read;
                Message::Reply { keyed }
            }
        })
    }

    /// The time since the hop before `hop` began goes to its stage.
    fn attribute(&mut self, c: &mut Command, command: CommandIndex, hop: u16, now: Time) {
        let span = now.since(c.mark);
        let passage = &mut self.passages[command.index()];
        c.mark = now;
        match self.hops[usize::from(hop) - 1] {
            Hop::Line(leg) => {
                let nic = std::mem::take(&mut passage.nic).min(span);
                let close = std::mem::take(&mut passage.close).min(span - nic);
                passage.spans.add(Stage::Nic, nic);
                let (stages, wire) = (&mut c.completion.stages, span - nic - close);
                stages.add(leg.stage(), wire);
                stages.add(Stage::Completion, close);
            }
            Hop::Bus(_) => passage.spans.add(Stage::Axi, span),
            Hop::Take(_) => passage.spans.add(Stage::BufferWait, span),
            Hop::Layers { group, outward } => {
                // The first has the wait.
                let mut left = span;
                let mut first = None;
                for (layer, time) in self.layers.times(group, outward, sectors(c)) {
                    let time = time.min(left);
                    passage.spans.add(layer.stage(), time);
                    left = left - time;
                    first.get_or_insert(layer);
                }
                if let Some(layer) = first {
                    passage.spans.add(layer.stage(), left);
                }
            }
            Hop::Hold => c.completion.stages.add(Stage::DataIn, span),
            Hop::Give(_) | Hop::Goto(_) | Hop::End(_) => debug_assert!(span.is_zero()),
        }
    }

    fn counted(&mut self, what: Counted, queue: u16) -> Option<&mut super::Buffers> {
        match what {
            Counted::Receive => self.receive.as_mut(),
            Counted::Data => self.data.as_mut(),
            Counted::RdmaRead => self.rdma_reads.get_mut(usize::from(queue)),
        }
    }
}

impl Leg {
    fn is_up(self) -> bool {
        matches!(self, Leg::DataRequest | Leg::ReadReply | Leg::Reply)
    }

    /// What its time on the wire counts as.
    fn stage(self) -> Stage {
        match self {
            Leg::Capsule => Stage::CommandFetch,
            Leg::DataRequest | Leg::WriteData => Stage::DataIn,
            Leg::ReadReply => Stage::DataOut,
            Leg::Reply => Stage::Completion,
        }
    }
}

fn sectors(c: &Command) -> u32 {
    if moves_data(c.request.operation) { c.request.sectors } else { 0 }
}

impl<P: Policies> Drive<P> {
    /// The host sends a command over the network.
    #[inline]
    pub(in crate::host) fn send_over_network(
        &mut self,
        at: Time,
        queue: u16,
        request: Request,
    ) -> Result<(), InputError> {
        P::send_over_network(self, at, queue, request)
    }

    #[inline(never)]
    pub(crate) fn send_over_network_here(
        &mut self,
        at: Time,
        queue: u16,
        request: Request,
    ) -> Result<(), InputError> {
        let pair = &self.host.interface.queues[usize::from(queue)];
        let (id, flow) = (pair.queue.id, pair.flow);
        if !self.is_on_the_network(queue) {
            return Err(InputError::OtherLink(id));
        }
        let command = self.host.commands.insert_any();
        let powered = self.host.powered;
        let c = &mut self.host.commands[command];
        c.begin(request, queue, id, flow, at);
        (c.linked, c.network, c.done) = (false, true, false);
        (c.orphan, c.aside) = (!powered, !powered);
        self.host.interface.enter(queue);
        let Some(ethernet) = &mut self.host.ethernet else { return Ok(()) };
        let at = command.index();
        if at >= ethernet.passages.len() {
            ethernet.passages.resize(at + 1, Passage::default());
        }
        ethernet.passages[at] = Passage::default();
        self.go_on(command, 0);
        self.settle();
        Ok(())
    }

    /// Whether a queue pair comes over the network.
    pub(in crate::host) fn is_on_the_network(&self, queue: u16) -> bool {
        let pair = &self.host.interface.queues[usize::from(queue)];
        matches!(pair.queue.kind, QueueKind::Network { .. })
    }

    /// A hop of a command has ended; `hop` is the next.
    #[cold]
    #[inline(never)]
    pub(crate) fn hop(&mut self, command: CommandIndex, hop: u16) {
        let now = self.kernel.now;
        let Some(ethernet) = &mut self.host.ethernet else { return };
        let c = &mut self.host.commands[command];
        if c.orphan {
            return self.drop_on_the_way(command);
        }
        ethernet.attribute(c, command, hop, now);
        if let Hop::Line(leg) = ethernet.hops[usize::from(hop) - 1] {
            self.acknowledge(command, leg);
        }
        self.go_on(command, hop);
    }

    /// Goes on from `hop` until something takes time.
    fn go_on(&mut self, command: CommandIndex, mut hop: u16) {
        let now = self.kernel.now;
        loop {
            let Some(ethernet) = &mut self.host.ethernet else { return };
            let c = &self.host.commands[command];
            let (flow, queue) = (c.flow, c.queue);
            let this = ethernet.hops[usize::from(hop)];
            hop += 1;
            let end = match this {
                Hop::Goto(there) => {
                    hop = there;
                    continue;
                }
                Hop::End(end) => return self.end_way(command, end),
                Hop::Line(leg) => {
                    let shape = ethernet.shape(leg, c);
                    return self.offer(queue, leg.is_up(), Transfer::new(command, hop, shape));
                }
                Hop::Bus(load) => {
                    let bytes = match load {
                        Load::Capsule => COMMAND_BYTES + ethernet.inline_bytes(&c.request),
                        Load::Data => data_bytes(&c.request),
                        Load::Response => RESPONSE_BYTES,
                        // It was booked as it came.
                        Load::Flash => continue,
                    };
                    let blame = self.kernel.observe.blame();
                    ethernet.cross_bus(now, bytes, flow, |holder, wait| {
                        blame.add(flow, Resource::Axi, holder, wait);
                    })
                }
                Hop::Layers { group, outward } => {
                    let blame = self.kernel.observe.blame();
                    let waits = |holder, wait| blame.add(flow, Resource::TargetCores, holder, wait);
                    let sectors = sectors(c);
                    ethernet.layers.book(now, group, outward, sectors, flow, waits).end
                }
                Hop::Take(what) => {
                    let waiter = (command, hop);
                    if ethernet.counted(what, queue).is_none_or(|it| it.take(waiter)) {
                        ethernet.passages[command.index()].holds |= what as u8;
                        continue;
                    }
                    return;
                }
                Hop::Give(what) => {
                    self.give_back(command, what);
                    continue;
                }
                Hop::Hold if ethernet.holds_data => {
                    ethernet.passages[command.index()].held = true;
                    return self.await_data(command);
                }
                Hop::Hold => continue,
            };
            if end > now {
                return self.kernel.events.push(end, Event::Hop { command, hop });
            }
        }
    }

    /// The data of a command that was held are at the port; false if it was not held.
    pub(in crate::host) fn data_at_port(&mut self, command: CommandIndex) -> bool {
        let Some(ethernet) = &mut self.host.ethernet else { return false };
        let Some(passage) = ethernet.passages.get_mut(command.index()) else { return false };
        if !std::mem::take(&mut passage.held) || self.host.commands[command].orphan {
            return false;
        }
        let hop = ethernet.starts.arrived;
        self.hop(command, hop);
        true
    }

    /// A command gives back what it holds of something; who waited for it goes on.
    fn give_back(&mut self, command: CommandIndex, what: Counted) {
        let now = self.kernel.now;
        let c = &self.host.commands[command];
        let (flow, queue) = (c.flow, c.queue);
        let Some(ethernet) = &mut self.host.ethernet else { return };
        let holds = &mut ethernet.passages[command.index()].holds;
        if *holds & what as u8 == 0 {
            return;
        }
        *holds &= !(what as u8);
        let next = ethernet.counted(what, queue).and_then(|counted| counted.give_back());
        let Some((waiter, hop)) = next else { return };
        ethernet.passages[waiter.index()].holds |= what as u8;
        let waited = &self.host.commands[waiter];
        let resource = match what {
            Counted::RdmaRead => Resource::RdmaReads,
            Counted::Receive | Counted::Data => Resource::Buffers,
        };
        // Whoever gave it back is who had it.
        let blame = self.kernel.observe.blame();
        blame.add(waited.flow, resource, flow, now.since(waited.mark));
        self.kernel.events.push(now, Event::Hop { command: waiter, hop });
    }

    /// Gives a message to its line.
    fn offer(&mut self, queue: u16, is_up: bool, transfer: Transfer) {
        let now = self.kernel.now;
        let flow = self.host.commands[transfer.command].flow;
        let Some(ethernet) = &mut self.host.ethernet else { return };
        let port = ethernet.ports[usize::from(queue)];
        let direction = if is_up { UP } else { DOWN };
        let line = &mut ethernet.lines[usize::from(port)][direction];
        let blame = self.kernel.observe.blame();
        let sent = line.offer(now, queue, flow, transfer, &ethernet.frames, blame);
        self.after_turn(port, direction, sent);
    }

    /// A line may have its next turn.
    #[cold]
    #[inline(never)]
    pub(crate) fn line_turn(&mut self, line: u16) {
        let now = self.kernel.now;
        let (port, direction) = ((line / 2) as u8, usize::from(line % 2));
        let Some(ethernet) = &mut self.host.ethernet else { return };
        let blame = self.kernel.observe.blame();
        let sent = ethernet.lines[usize::from(port)][direction].turn(now, &ethernet.frames, blame);
        self.after_turn(port, direction, sent);
    }

    fn after_turn(&mut self, port: u8, direction: usize, sent: Option<Sent>) {
        let now = self.kernel.now;
        let Some(ethernet) = &mut self.host.ethernet else { return };
        let line = &mut ethernet.lines[usize::from(port)][direction];
        if let Some(at) = line.watch() {
            let line = u16::from(port) * 2 + direction as u16;
            self.kernel.events.push(at.max(now), Event::LineTurn { line });
        }
        if ethernet.recorded.is_some() {
            ethernet.keep_burst(port, direction, |command| &self.host.commands[command]);
        }
        let Some(Sent { transfer, at, nic, close }) = sent else { return };
        let Transfer { command, hop, .. } = transfer;
        let passage = &mut ethernet.passages[command.index()];
        (passage.nic, passage.close) = (nic, close);
        self.kernel.events.push(at, Event::Hop { command, hop });
    }

    /// A message has come through: whoever has it acknowledges it.
    fn acknowledge(&mut self, command: CommandIndex, leg: Leg) {
        let now = self.kernel.now;
        let Some(ethernet) = &mut self.host.ethernet else { return };
        let c = &self.host.commands[command];
        let acks = ethernet.shape(leg, c).acks;
        if acks > 0 {
            let port = ethernet.ports[usize::from(c.queue)];
            let back = if leg.is_up() { DOWN } else { UP };
            let line = &mut ethernet.lines[usize::from(port)][back];
            let blame = self.kernel.observe.blame();
            line.acknowledge(now, acks, &ethernet.frames, blame);
            if ethernet.recorded.is_some() {
                ethernet.keep_acks(c, leg, (port, back), acks);
            }
        }
    }

    fn end_way(&mut self, command: CommandIndex, end: End) {
        let Some(ethernet) = &self.host.ethernet else { return };
        let starts = ethernet.starts;
        match end {
            End::Parsed => {
                let request = &self.host.commands[command].request;
                if ethernet.is_too_large(request) {
                    self.host.commands[command].completion.status = Status::InvalidField;
                    return self.refuse(command);
                }
                let start = if ethernet.fetches_data(request) {
                    starts.data
                } else if request.operation == Operation::Read {
                    starts.read
                } else {
                    starts.execute
                };
                self.go_on(command, start);
            }
            End::Controller => {
                self.begin_command(command);
            }
            End::Complete => self.completion_visible(command),
        }
    }

    /// A command that the target does not pass on.
    fn refuse(&mut self, command: CommandIndex) {
        let queue = self.host.commands[command].queue;
        self.host.interface.release(queue);
        self.answer_over_network(command);
    }

    /// Data of a read have come from the flash into DRAM.
    pub(in crate::host) fn data_into_dram(&mut self, command: CommandIndex, sectors: u32) {
        let now = self.kernel.now;
        let flow = self.host.commands[command].flow;
        let Some(ethernet) = &mut self.host.ethernet else { return };
        let blame = self.kernel.observe.blame();
        let ready = ethernet.cross_bus(now, sectors * 512, flow, |holder, wait| {
            blame.add(flow, Resource::Axi, holder, wait);
        });
        ethernet.passages[command.index()].ready = ready;
    }

    /// The drive has done what the command asked: the answer begins its way.
    pub(in crate::host) fn answer_over_network(&mut self, command: CommandIndex) {
        let now = self.kernel.now;
        let Some(ethernet) = &mut self.host.ethernet else { return };
        let c = &self.host.commands[command];
        let has_data =
            c.request.operation == Operation::Read && c.completion.status == Status::Success;
        let passage = &mut ethernet.passages[command.index()];
        passage.answered = true;
        let ready = passage.ready;
        let starts = ethernet.starts;
        if !has_data {
            self.go_on(command, starts.reply);
        } else if ready > now {
            let hop = starts.reply_with_data;
            self.kernel.events.push(ready, Event::Hop { command, hop });
        } else {
            self.go_on(command, starts.reply_with_data);
        }
    }

    /// What a command of a queue that is gone has held is free.
    pub(in crate::host) fn give_back_all(&mut self, command: CommandIndex) {
        for what in [Counted::Receive, Counted::Data, Counted::RdmaRead] {
            self.give_back(command, what);
        }
    }

    /// A command whose queue has gone ends on its way.
    fn drop_on_the_way(&mut self, command: CommandIndex) {
        let queue = self.host.commands[command].queue;
        let Some(ethernet) = &self.host.ethernet else { return };
        if !ethernet.passages[command.index()].answered {
            self.host.interface.release(queue);
        }
        self.give_back_all(command);
        self.host.orphans_ended += 1;
        self.host.commands.remove(command);
    }
}
