//! A command's way through the controller's front end: doorbell, fetch, PRP list, write
//! data, firmware, and at the end read data and completion over the host link.

use crate::drive::{Drive, Policies};
use crate::flash::queues::CLASS_HOST;
use crate::host::command::{Command, Piece};
use crate::io::{
    Brief, Completed, Completion, Direction, NamespaceId, Operation, QueueId, QueueKind, Status,
    Tag,
};
use crate::kernel::event::Event;
use crate::kernel::fifo::Booking;
use crate::number::{CommandIndex, KeyCommandIndex, PieceIndex};
use crate::observe::blame::HolderIndex;
use crate::observe::stats::Resource;
use crate::space::{NamespaceSpace, Shape};
use mynah_stamp::{Span, Stage, StageSpans, Time};
use serde::{Deserialize, Serialize};
use std::hint::cold_path;

/// Largest request: 4 GiB less a sector would fit the sector count, but a request of more
/// than this many sectors (1 GiB) is refused as a field error. TRIM has no limit.
pub(crate) const SECTORS_MAX: u32 = 1 << 21;

/// Something of the present instant that waits for its turn among the host's inputs.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Pending {
    /// An output, until it is polled.
    Output(Brief),
    /// A step that the drive takes by itself, where a host could have had a say.
    Step(Step),
}

/// What stands for a host's answer.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Step {
    /// A command whose entry the drive has read itself begins.
    Begin { queue: u16 },
    /// The data of a write are here, and nobody wants to see them.
    Data { command: CommandIndex },
}

/// Translates the address of a command; says why not if it cannot.
#[inline]
fn place(
    command: &mut Command,
    namespaces: &[NamespaceSpace],
    shape: &Shape,
) -> Result<(), Status> {
    let request = command.request;
    let Some(space) = namespaces.get((request.namespace.0 as usize).wrapping_sub(1)) else {
        return Err(Status::InvalidNamespace);
    };
    let capacity = u64::from(space.units) * u64::from(shape.unit_sectors);
    let sectors = u64::from(request.sectors);
    if matches!(request.operation, Operation::Flush | Operation::Other) {
        return Ok(());
    }
    if sectors == 0 || (request.sectors > SECTORS_MAX && request.operation != Operation::Trim) {
        return Err(Status::InvalidField);
    }
    if request.sector >= capacity || sectors > capacity - request.sector {
        return Err(Status::LbaOutOfRange);
    }
    let end = request.sector + sectors;
    let (first, into_first) = shape.split_sectors(request.sector);
    let (last, into_last) = shape.split_sectors(end);
    let (first, last) = match request.operation {
        // Only units that lie wholly within a TRIM's range.
        Operation::Trim => {
            let first = first + u64::from(into_first > 0);
            (first, last.max(first))
        }
        _ => (first, last + u64::from(into_last > 0)),
    };
    command.first_unit = space.base + first as u32;
    command.end_unit = space.base + last as u32;
    command.into_first = into_first as u32;
    command.cursor = command.first_unit;
    Ok(())
}

impl<P: Policies> Drive<P> {
    #[inline(always)]
    pub(super) fn book_down(&mut self, length: Span, flow: HolderIndex) -> Booking {
        let blame = self.kernel.observe.blame();
        self.host.link.down.book(self.kernel.now, length, flow, |holder, wait| {
            blame.add(flow, Resource::LinkDown, holder, wait);
        })
    }

    #[inline(always)]
    pub(super) fn book_up(&mut self, length: Span, flow: HolderIndex) -> Booking {
        let blame = self.kernel.observe.blame();
        self.host.link.towards_host().book(self.kernel.now, length, flow, |holder, wait| {
            blame.add(flow, Resource::LinkUp, holder, wait);
        })
    }

    /// Lets the fetch unit start its next fetch.
    #[inline(always)]
    pub(crate) fn fetch(&mut self) {
        if self.host.interface.may_fetch() {
            self.fetch_next();
        }
    }

    /// A doorbell has crossed the link.
    #[inline(always)]
    pub(crate) fn doorbell(&mut self, queue: u16, count: u32) {
        self.host.interface.doorbell(queue, count);
        self.fetch();
    }

    #[inline(always)]
    fn fetch_next(&mut self) {
        if let Some((queue, count)) =
            self.host.interface.next_fetch(self.kernel.now, &mut self.host.commands)
        {
            let flow = self.host.interface.queues[usize::from(queue)].flow;
            let booking = self.book_up(self.host.link.read_request, flow);
            self.kernel.events.push(booking.end, Event::EntryRequestAtHost { queue, count });
        }
    }

    #[inline]
    pub(crate) fn return_entries(&mut self, queue: u16, count: u32) {
        let flow = self.host.interface.queues[usize::from(queue)].flow;
        let length = self.host.link.submission_entries(count);
        let booking = self.book_down(length, flow);
        self.kernel.events.push(booking.end, Event::EntriesArrived { queue, count });
    }

    #[inline]
    pub(crate) fn entries_arrived(&mut self, queue: u16, count: u32) {
        self.host.interface.fetched(queue, count, &mut self.host.commands);
        let pair = &self.host.interface.queues[usize::from(queue)];
        if !pair.deleted && self.host.powered {
            let id = pair.queue.id;
            let known = self.host.interface.is_submitted_to(queue);
            if known && count == 1 && self.host.pending.is_empty() {
                self.fetch();
                return self.begin_if_next(queue);
            }
            for _ in 0..count {
                self.host.pending.push(match known {
                    true => Pending::Step(Step::Begin { queue }),
                    false => Pending::Output(Brief::Fetch { queue: id }),
                });
            }
        }
        self.fetch();
    }

    /// Begins a command whose entry the drive has read itself, unless something else happens at
    /// this instant: that comes first.
    #[inline(always)]
    fn begin_if_next(&mut self, queue: u16) {
        let step = Step::Begin { queue };
        if !self.flash.is_settled() || self.kernel.events.is_due(self.kernel.now) {
            self.host.pending.push(Pending::Step(step));
        } else {
            self.kernel.events.end_instant();
            self.take(step);
        }
    }

    /// A command is in the controller.
    #[inline(always)]
    pub(crate) fn begin_command(&mut self, index: CommandIndex) {
        let now = self.kernel.now;
        let c = &mut self.host.commands[index];
        let pair = &self.host.interface.queues[usize::from(c.queue)];
        let linked = pair.queue.kind == QueueKind::Memory;
        let priority = if self.config.scheduler.priority_classes {
            pair.queue.priority
        } else {
            Default::default()
        };
        let request = c.request;
        c.class = CLASS_HOST + priority as u8;
        c.linked = linked;
        c.done = false;
        c.orphan = !self.host.powered;
        c.aside = c.orphan;
        c.end_stage(Stage::CommandFetch, now);
        if let Err(status) = place(c, self.ftl.namespaces(), &self.shape) {
            cold_path();
            c.completion.status = status;
            self.finish(index);
            return;
        }
        let moves_data = matches!(
            request.operation,
            Operation::Read | Operation::Write | Operation::WriteThrough
        );
        let has_prp_list = linked
            && moves_data
            && self.host.link.prp_list_bytes(self.host.commands[index].bytes()) > 0;
        if has_prp_list {
            self.request_prp_list(index);
        } else {
            self.take_data(index);
        }
    }

    #[inline(never)]
    pub(super) fn request_prp_list(&mut self, command: CommandIndex) {
        let flow = self.host.commands[command].flow;
        let booking = self.book_up(self.host.link.read_request, flow);
        self.kernel.events.push(booking.end, Event::PrpRequestAtHost { command });
    }

    #[inline(never)]
    pub(crate) fn return_prp_list(&mut self, command: CommandIndex) {
        let c = &self.host.commands[command];
        let length = self.host.link.data(self.host.link.prp_list_bytes(c.bytes()));
        let booking = self.book_down(length, c.flow);
        self.kernel.events.push(booking.end, Event::PrpArrived { command });
    }

    #[inline(never)]
    pub(crate) fn prp_list_arrived(&mut self, command: CommandIndex) {
        let now = self.kernel.now;
        self.host.commands[command].end_stage(Stage::CommandFetch, now);
        self.take_data(command);
        self.settle();
    }

    /// Fetches a write's data; everything else goes straight to the firmware.
    #[inline(always)]
    fn take_data(&mut self, command: CommandIndex) {
        let c = &self.host.commands[command];
        let writes = matches!(c.request.operation, Operation::Write | Operation::WriteThrough);
        if c.linked && writes {
            let booking = self.book_up(self.host.link.data_request, c.flow);
            self.kernel.events.push(booking.end, Event::DataRequestAtHost { command });
        } else {
            self.process(command);
        }
    }

    pub(crate) fn return_data(&mut self, command: CommandIndex) {
        let c = &self.host.commands[command];
        let length = self.host.link.sectors(c.request.sectors);
        let booking = self.book_down(length, c.flow);
        self.kernel.events.push(booking.end, Event::DataInArrived { command });
    }

    pub(crate) fn data_in_arrived(&mut self, command: CommandIndex) {
        let c = &self.host.commands[command];
        if self.host.report_moves && !c.orphan {
            self.await_data(command);
        } else if c.orphan {
            self.data_is_here(command);
        } else {
            self.host.pending.push(Pending::Step(Step::Data { command }));
        }
    }

    /// The host is asked for the data of a write, and says when they are there.
    pub(super) fn await_data(&mut self, command: CommandIndex) {
        let c = &self.host.commands[command];
        let (tag, sectors) = (c.request.tag, c.request.sectors);
        let queue = self.queue_id(c.queue);
        self.host.awaiting_data.insert(tag, command);
        self.host.pending.push(Pending::Output(Brief::Move {
            tag,
            queue,
            first_sector: 0,
            sectors,
            direction: Direction::FromHost,
        }));
    }

    /// Takes a step that was left for the present instant.
    #[inline(always)]
    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Begin { queue } => {
                if let Some(command) =
                    self.host.interface.take_submitted(queue, &mut self.host.commands)
                {
                    self.begin_command(command);
                }
            }
            Step::Data { command } if self.host.commands[command].orphan => self.finish(command),
            Step::Data { command } => self.data_is_here(command),
        }
    }

    pub(crate) fn data_is_here(&mut self, command: CommandIndex) {
        if self.host.commands[command].network && self.data_at_port(command) {
            return;
        }
        let now = self.kernel.now;
        self.host.commands[command].end_stage(Stage::DataIn, now);
        match self.host.commands[command].request.operation {
            Operation::Other => self.other_data_is_here(command),
            _ => self.process(command),
        }
    }

    /// What the command stands for has been done elsewhere, or the value of a key-value command is
    /// here.
    #[cold]
    fn other_data_is_here(&mut self, command: CommandIndex) {
        match self.host.commands[command].key {
            KeyCommandIndex::NONE => self.finish(command),
            _ => self.process(command),
        }
    }

    /// What the command stands for is done elsewhere, or it is a key-value command.
    #[inline(never)]
    fn wait_for_host(&mut self, command: CommandIndex) {
        let c = &self.host.commands[command];
        if c.key != KeyCommandIndex::NONE {
            return self.key_goes_on(command);
        }
        if c.orphan {
            return self.finish(command);
        }
        self.host.awaiting_data.insert(c.request.tag, command);
    }

    /// Runs the firmware on a command.
    #[inline(always)]
    fn process(&mut self, command: CommandIndex) {
        let c = &self.host.commands[command];
        let cost = match c.request.operation {
            Operation::Read => self.config.firmware.read,
            Operation::Write | Operation::WriteThrough => self.config.firmware.write,
            Operation::Trim => self.config.firmware.trim,
            Operation::Flush => self.config.firmware.flush,
            Operation::Other => return self.wait_for_host(command),
        };
        if cost.is_zero() {
            self.execute(command);
            return;
        }
        self.book_firmware(command, cost);
    }

    fn book_firmware(&mut self, command: CommandIndex, cost: Span) {
        let flow = self.host.commands[command].flow;
        // Of those that are free, it does not matter which.
        let free = self.host.cores.iter().position(|core| core.free_at() <= self.kernel.now);
        let core = match free {
            Some(free) => &mut self.host.cores[free],
            None => self.host.cores.iter_mut().min_by_key(|core| core.free_at()).expect("a core"),
        };
        let blame = self.kernel.observe.blame();
        let booking = core.book(self.kernel.now, cost, flow, |holder, wait| {
            blame.add(flow, Resource::Firmware, holder, wait);
        });
        self.kernel.events.push(booking.end, Event::FirmwareDone { command });
    }

    #[inline(never)]
    pub(crate) fn firmware_done(&mut self, command: CommandIndex) {
        let now = self.kernel.now;
        self.host.commands[command].end_stage(Stage::Firmware, now);
        self.execute(command);
    }

    #[inline(always)]
    fn execute(&mut self, command: CommandIndex) {
        self.ftl.note_command(self.kernel.now);
        match self.host.commands[command].request.operation {
            Operation::Read => self.begin_read(command),
            Operation::Write | Operation::WriteThrough => self.begin_write(command),
            Operation::Trim => self.begin_trim(command),
            Operation::Flush => self.begin_flush(command),
            Operation::Other => {}
        }
    }

    /// One part of a command is done; `add` adds where its time went since the parts began.
    /// The last part's way is the command's.
    #[inline(always)]
    pub(crate) fn part_done(&mut self, command: CommandIndex, add: impl FnOnce(&mut StageSpans)) {
        let now = self.kernel.now;
        let c = &mut self.host.commands[command];
        c.parts -= 1;
        if c.parts == 0 {
            let stages = &mut c.completion.stages;
            let before = if cfg!(debug_assertions) { stages.total() } else { Span::ZERO };
            add(stages);
            debug_assert_eq!(
                stages.total(),
                before + now.since(c.mark),
                "the stages of the last part do not fill its time"
            );
            c.mark = now;
            self.finish_here(command);
        }
    }

    /// Sends read data that has come out of the flash or the cache to the host, if it goes
    /// piece by piece.
    #[inline(always)]
    pub(crate) fn send_piece(&mut self, command: CommandIndex, first_sector: u32, sectors: u32) {
        if self.config.link.stream_data || !self.host.commands[command].linked {
            self.send_data(command, first_sector, sectors, true);
        }
    }

    /// As [`Drive::send_piece`], for data that are in DRAM already, or nowhere.
    #[inline(always)]
    pub(crate) fn send_cached_piece(
        &mut self,
        command: CommandIndex,
        first_sector: u32,
        sectors: u32,
    ) {
        if self.config.link.stream_data || !self.host.commands[command].linked {
            self.send_data(command, first_sector, sectors, false);
        }
    }

    /// Moves read data to the host; returns when it is there.
    #[inline(always)]
    fn send_data(
        &mut self,
        command: CommandIndex,
        first_sector: u32,
        sectors: u32,
        from_flash: bool,
    ) -> Time {
        let c = &self.host.commands[command];
        if sectors == 0 || c.aside {
            cold_path();
            return self.send_otherwise(command, first_sector, sectors);
        }
        if !c.linked {
            cold_path();
            if from_flash && c.network {
                self.data_into_dram(command, sectors);
            }
            if self.host.report_moves {
                self.report_data_out(command, first_sector, sectors);
            }
            return self.kernel.now;
        }
        let length = self.host.link.data_setup + self.host.link.sectors(sectors);
        let booking = self.book_up(length, c.flow);
        if self.host.report_moves {
            cold_path();
            let piece = self.host.pieces_out.insert(Piece { command, first_sector, sectors });
            self.kernel.events.push(booking.end, Event::DataOutArrived { piece });
        } else {
            self.kernel.events.skip_sequence();
        }
        booking.end
    }

    /// Read data has reached the host, who wants to know.
    #[cold]
    pub(crate) fn data_out_arrived(&mut self, piece: PieceIndex) {
        let Piece { command, first_sector, sectors } = self.host.pieces_out[piece];
        self.host.pieces_out.remove(piece);
        self.report_data_out(command, first_sector, sectors);
    }

    pub(crate) fn report_data_out(
        &mut self,
        command: CommandIndex,
        first_sector: u32,
        sectors: u32,
    ) {
        let c = &self.host.commands[command];
        if c.orphan || c.done {
            return;
        }
        let queue = self.queue_id(c.queue);
        self.host.pending.push(Pending::Output(Brief::Move {
            tag: c.request.tag,
            queue,
            first_sector,
            sectors,
            direction: Direction::ToHost,
        }));
    }

    /// The drive has done what the command asked: it leaves the controller and its
    /// completion goes out.
    #[inline(never)]
    pub(crate) fn finish(&mut self, command: CommandIndex) {
        self.finish_here(command);
    }

    /// [`Drive::finish`], inlined into hot callers.
    #[inline(always)]
    fn finish_here(&mut self, command: CommandIndex) {
        let now = self.kernel.now;
        let c = &mut self.host.commands[command];
        self.host.interface.release(c.queue);
        if c.aside || !c.linked {
            cold_path();
            return self.finish_otherwise(command);
        }
        let has_data =
            c.request.operation == Operation::Read && c.completion.status == Status::Success;
        if has_data {
            let arrived = if self.config.link.stream_data {
                self.host.link.towards_host().free_at().max(now)
            } else {
                let sectors = c.request.sectors;
                self.send_data(command, 0, sectors, false)
            };
            self.host.commands[command].end_stage(Stage::DataOut, arrived);
        }
        // What goes before it is what its data waited for, and they themselves.
        self.complete(command, !has_data);
    }

    /// Sends the completion when there is a place for it; whether what it waits for is charged to
    /// its flow.
    #[inline(always)]
    pub(super) fn complete(&mut self, command: CommandIndex, charged: bool) {
        let now = self.kernel.now;
        let queue = self.host.commands[command].queue;
        let pair = &mut self.host.interface.queues[usize::from(queue)];
        if pair.blocked.is_empty() && pair.take_completion_place(now) {
            self.post_completion(command, charged);
        } else {
            cold_path();
            pair.blocked.push_back(command);
            self.watch_frees(queue);
        }
        self.fetch();
    }

    /// The end of a command that nobody waits for any more, or whose completion does not
    /// cross the link.
    #[inline(never)]
    fn finish_otherwise(&mut self, command: CommandIndex) {
        if self.host.commands[command].key != KeyCommandIndex::NONE {
            return self.finish_key(command);
        }
        self.finish_off_the_link(command);
    }

    pub(super) fn finish_off_the_link(&mut self, command: CommandIndex) {
        let c = &mut self.host.commands[command];
        if c.network {
            match c.orphan {
                true => self.give_back_all(command),
                false => {
                    self.answer_over_network(command);
                    return self.fetch();
                }
            }
        }
        let c = &mut self.host.commands[command];
        c.done = c.orphan;
        if c.orphan {
            self.host.orphans_ended += 1;
            self.host.commands.remove(command);
        } else {
            self.completion_visible(command);
        }
        self.fetch();
    }

    /// Sends the completion; whether what it waits for is charged to its flow.
    #[inline(always)]
    fn post_completion(&mut self, command: CommandIndex, charged: bool) {
        let flow = self.host.commands[command].flow;
        let entry = self.host.link.completion_entry;
        let booking = match charged {
            true => self.book_up(entry, flow),
            false => self.host.link.towards_host().book(self.kernel.now, entry, flow, |_, _| ()),
        };
        let visible = booking.end + self.config.link.interrupt;
        let (at, event) = match self.host.link.adapter.is_none() {
            true => (visible, Event::CompletionVisible { command }),
            false => (booking.end, Event::CompletionAtAdapter { command }),
        };
        self.kernel.events.push(at, event);
    }

    /// The host bus adapter works for a command before it is sent (`side` 0), or after it is
    /// completed (1); returns until when.
    #[inline(never)]
    pub(crate) fn book_adapter(&mut self, flow: HolderIndex, side: usize) -> Time {
        let (now, blame, length) =
            (self.kernel.now, self.kernel.observe.blame(), self.config.link.adapter);
        let Some(adapter) = &mut self.host.link.adapter else { return now };
        let booking = adapter[side].book(now, length, flow, |holder, wait| {
            blame.add(flow, Resource::HostAdapter, holder, wait);
        });
        booking.end
    }

    /// Commands go through the host bus adapter before anything crosses the link.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_through_adapter(&mut self, queue: u16, count: u32, flow: HolderIndex) {
        let mut sent = self.kernel.now;
        for _ in 0..count {
            sent = self.book_adapter(flow, 0);
        }
        self.kernel.events.push(sent, Event::DoorbellAtHost { queue, count });
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn completion_at_adapter(&mut self, command: CommandIndex) {
        let flow = self.host.commands[command].flow;
        let visible = self.book_adapter(flow, 1) + self.config.link.interrupt;
        self.kernel.events.push(visible, Event::CompletionVisible { command });
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn doorbell_at_host(&mut self, queue: u16, count: u32) {
        let flow = self.host.interface.queues[usize::from(queue)].flow;
        let booking = self.book_down(self.host.link.doorbell, flow);
        self.kernel.events.push(booking.end, Event::Doorbell { queue, count });
    }

    /// Makes sure that someone looks when the next free of a completion queue arrives, if
    /// completions wait for it.
    #[inline]
    pub(crate) fn watch_frees(&mut self, queue: u16) {
        let pair = &mut self.host.interface.queues[usize::from(queue)];
        if !pair.watching_frees
            && !pair.blocked.is_empty()
            && let Some(at) = pair.next_free()
        {
            pair.watching_frees = true;
            self.kernel.events.push(at.max(self.kernel.now), Event::CompletionDoorbell { queue });
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn completion_doorbell(&mut self, queue: u16) {
        let now = self.kernel.now;
        self.host.interface.queues[usize::from(queue)].watching_frees = false;
        loop {
            let pair = &mut self.host.interface.queues[usize::from(queue)];
            let Some(&command) = pair.blocked.front() else { break };
            if !pair.take_completion_place(now) {
                break;
            }
            pair.blocked.pop_front();
            self.post_completion(command, true);
        }
        self.watch_frees(queue);
    }

    #[inline(always)]
    pub(crate) fn completion_visible(&mut self, command: CommandIndex) {
        let now = self.kernel.now;
        let c = &mut self.host.commands[command];
        c.end_stage(Stage::Completion, now);
        c.done = true;
        if c.orphan {
            cold_path();
            self.host.orphans_ended += 1;
            self.host.commands.remove(command);
        } else {
            c.completion.at = now;
            self.kernel.observe.count().commands += 1;
            self.host.pending.push(Pending::Output(Brief::Complete(Completed(command))));
        }
    }

    #[inline]
    pub(super) fn queue_id(&self, queue: u16) -> QueueId {
        self.host.interface.queues[usize::from(queue)].queue.id
    }

    /// Commands of a deleted queue (or of all) go on inside but are heard of no more; with
    /// `answer` they complete as aborted now.
    pub(crate) fn orphan_commands(&mut self, queue: Option<u16>, answer: bool) {
        let now = self.kernel.now;
        let (mut waiting_for_data, mut undecided) = (vec![], vec![]);
        for index in self.host.commands.indices() {
            let c = &mut self.host.commands[index];
            if c.orphan || c.done || queue.is_some_and(|queue| c.queue != queue) {
                continue;
            }
            (c.orphan, c.aside) = (true, true);
            let network = c.network;
            if self.host.awaiting_data.remove(&c.request.tag).is_some() {
                waiting_for_data.push(index);
            }
            if self.host.keys.forget_decision(c.request.tag, index) {
                undecided.push(index);
            }
            if answer {
                let mut stages = c.completion.stages;
                // The present stage ends here, whatever it was; data on its way to the host
                // does not arrive.
                match now >= c.mark {
                    true => stages.add(Stage::Completion, now.since(c.mark)),
                    false => stages.shorten(Stage::DataOut, c.mark.since(now)),
                }
                let completion =
                    Completion { at: now, status: Status::Aborted, stages, ..c.completion };
                self.kernel.observe.count().commands += 1;
                self.host.orphans_answered += 1;
                // The command itself goes on: its completion needs a place of its own.
                let answer = self.host.commands.insert_any();
                if let Some(ethernet) = self.host.ethernet.as_mut().filter(|_| network) {
                    ethernet.copy_spans(index, answer);
                }
                let c = &mut self.host.commands[answer];
                (c.completion, c.network, c.done) = (completion, network, true);
                self.host.pending.push(Pending::Output(Brief::Complete(Completed(answer))));
            }
        }
        for command in waiting_for_data {
            self.finish(command);
        }
        for command in undecided {
            self.leave_undecided(command);
        }
        // Completions that wait for room in a queue that is gone have nowhere to go.
        for pair in self.host.interface.queues.iter_mut().filter(|pair| pair.deleted) {
            for command in std::mem::take(&mut pair.blocked) {
                self.host.orphans_ended += 1;
                self.host.commands.remove(command);
            }
        }
        self.fetch();
    }

    /// Aborts a command that still waits for room in the cache; nothing else can be called
    /// back.
    pub(crate) fn abort(&mut self, queue: QueueId, tag: Tag) {
        let Some(queue) = self.host.interface.find(queue) else { return };
        let commands = &self.host.commands;
        let found = self.cache.as_mut().and_then(|cache| {
            cache.abandon_wait(|index| {
                let c = &commands[index];
                // What a Store stores is decided: it cannot be called back.
                let store = c.key != KeyCommandIndex::NONE;
                c.queue == queue && c.request.tag == tag && c.cursor == c.first_unit && !store
            })
        });
        if let Some((command, part)) = found {
            let now = self.kernel.now;
            let c = &mut self.host.commands[command];
            c.end_stage(Stage::CacheWait, now);
            c.completion.status = Status::Aborted;
            self.finish(command);
            self.update_write_pressure(part);
        }
    }

    /// Deallocates a whole namespace at once.
    pub(crate) fn format(&mut self, namespace: NamespaceId) {
        let Some(space) = self.ftl.namespace((namespace.0 as usize).wrapping_sub(1)) else {
            return;
        };
        if space.pairs.is_some() {
            return self.drop_all_pairs(namespace.0 as usize - 1);
        }
        for lpn in space.base.run(space.units) {
            self.trim_unit(lpn);
        }
    }
}
