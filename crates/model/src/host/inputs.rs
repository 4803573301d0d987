//! What the host gives the drive and takes from it: doorbells, commands, data, completions.

use super::front::{Pending, Step};
use crate::drive::{Drive, FLOW_MAX, InputError, Policies};
use crate::io::{Brief, Completed, Completion, Control, QueueId, QueueKind, Request, Tag};
use crate::kernel::event::Event;
use crate::observe::stats::Resource;
use mynah_stamp::{LinkSpans, Span, Stage, Time};
use std::hint::cold_path;

impl<P: Policies> Drive<P> {
    /// Asks for [`Output::Move`](crate::io::Output::Move) outputs, which say when data crosses.
    /// Without them data from the host counts as moved at its time. Ask before the first input.
    pub fn report_moves(&mut self, report: bool) {
        self.host.report_moves = report;
    }

    /// Of a drive with an Ethernet link: what write data the drive asks for takes a way to its port
    /// that is not modelled here, a switch say. The drive says so with
    /// [`Output::Move`](crate::io::Output::Move) when the request has left the port; the answer,
    /// [`Drive::data_arrived`], may come later, and the data are on the port's wire from then on.
    pub fn hold_data(&mut self, hold: bool) {
        if let Some(ethernet) = &mut self.host.ethernet {
            ethernet.holds_data = hold;
        }
    }

    /// Whether [`Output::Move`](crate::io::Output::Move) outputs were asked for.
    pub fn reports_moves(&self) -> bool {
        self.host.report_moves
    }

    /// The host has written a submission queue doorbell: `count` more commands wait in
    /// memory queue `queue`.
    ///
    /// # Errors
    /// See [`InputError`].
    #[inline]
    pub fn ring(&mut self, at: Time, queue: QueueId, count: u32) -> Result<(), InputError> {
        self.reach(at)?;
        let index = self.host.interface.find(queue).ok_or(InputError::NoSuchQueue(queue))?;
        if count == 0 {
            return Ok(());
        }
        if self.host.interface.is_submitted_to(index) {
            return Err(InputError::Mixed(queue));
        }
        self.host.interface.rung(index, at, count);
        self.send_doorbell(index, count);
        Ok(())
    }

    /// The host has put `request` into memory queue `queue`, where the drive can read it, and
    /// has written the doorbell. The same as [`Drive::ring`] and, when asked for it with
    /// [`Output::Fetch`](crate::io::Output::Fetch), [`Drive::command`], but that the drive does not
    /// ask: the command begins when the outputs before it have been polled. Answer each output
    /// before polling the next.
    ///
    /// # Errors
    /// See [`InputError`].
    #[inline(always)]
    pub fn submit(&mut self, at: Time, queue: QueueId, request: Request) -> Result<(), InputError> {
        self.reach(at)?;
        let index = self.host.interface.find(queue).ok_or(InputError::NoSuchQueue(queue))?;
        if self.host.interface.is_rung(index) {
            return Err(InputError::Mixed(queue));
        }
        let flow = self.host.interface.queues[usize::from(index)].flow;
        if self.host.ethernet.is_some() {
            cold_path();
            return self.send_over_network(at, index, request);
        }
        let command = self.host.commands.insert_any();
        self.host.commands[command].begin(request, index, queue, flow, at);
        self.host.interface.submit(index, &mut self.host.commands, command);
        self.send_doorbell(index, 1);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn send_doorbell(&mut self, queue: u16, count: u32) {
        let flow = self.host.interface.queues[usize::from(queue)].flow;
        if self.host.link.adapter.is_some() {
            return self.send_through_adapter(queue, count, flow);
        }
        let booking = self.book_down(self.host.link.doorbell, flow);
        self.kernel.events.push(booking.end, Event::Doorbell { queue, count });
    }

    /// The host hands over a command: the answer to
    /// [`Output::Fetch`](crate::io::Output::Fetch) for a memory queue, unasked for a fetched one
    /// (then with its write data).
    ///
    /// # Errors
    /// See [`InputError`].
    #[inline]
    pub fn command(
        &mut self,
        at: Time,
        queue: QueueId,
        request: Request,
    ) -> Result<(), InputError> {
        P::command(self, at, queue, request)
    }

    pub(crate) fn command_here(
        &mut self,
        at: Time,
        queue: QueueId,
        request: Request,
    ) -> Result<(), InputError> {
        self.reach(at)?;
        let index = self.host.interface.find(queue).ok_or(InputError::NoSuchQueue(queue))?;
        if self.host.ethernet.is_some() && self.is_on_the_network(index) {
            return self.send_over_network(at, index, request);
        }
        let (rung, fetched) =
            self.host.interface.accept(index, at).ok_or(InputError::NotFetched(queue))?;
        let flow = self.host.interface.queues[usize::from(index)].flow;
        let command = self.host.commands.insert_any();
        let c = &mut self.host.commands[command];
        c.begin(request, index, queue, flow, rung);
        c.end_stage(Stage::SubmissionQueue, fetched);
        self.begin_command(command);
        self.settle();
        Ok(())
    }

    /// The data of a write has been taken from host memory: the answer to
    /// [`Output::Move`](crate::io::Output::Move) from the host.
    ///
    /// # Errors
    /// See [`InputError`].
    #[inline]
    pub fn data_arrived(&mut self, at: Time, tag: Tag) -> Result<(), InputError> {
        P::data_arrived(self, at, tag)
    }

    pub(crate) fn data_arrived_here(&mut self, at: Time, tag: Tag) -> Result<(), InputError> {
        self.reach(at)?;
        let command =
            self.host.awaiting_data.remove(&tag).ok_or(InputError::NoDataExpected(tag))?;
        self.data_is_here(command);
        self.settle();
        Ok(())
    }

    /// The host has taken `count` entries off `queue`'s completion queue.
    ///
    /// # Errors
    /// See [`InputError`].
    #[inline(always)]
    pub fn cq_freed(&mut self, at: Time, queue: QueueId, count: u32) -> Result<(), InputError> {
        self.reach(at)?;
        let index = self.host.interface.find(queue).ok_or(InputError::NoSuchQueue(queue))?;
        let pair = &mut self.host.interface.queues[usize::from(index)];
        if count == 0 || pair.queue.kind != QueueKind::Memory {
            return Ok(());
        }
        let flow = pair.flow;
        let blame = self.kernel.observe.blame();
        let booking =
            self.host.link.down.book(at, self.host.link.doorbell, flow, |holder, wait| {
                blame.add(flow, Resource::LinkDown, holder, wait);
            });
        pair.add_free(at, booking.end, count);
        self.watch_frees(index);
        Ok(())
    }

    /// Something happens to a queue, a namespace or the whole drive.
    ///
    /// # Errors
    /// See [`InputError`].
    #[inline]
    pub fn control(&mut self, at: Time, control: Control) -> Result<(), InputError> {
        P::control(self, at, control)
    }

    pub(crate) fn control_here(&mut self, at: Time, control: Control) -> Result<(), InputError> {
        self.reach(at)?;
        match control {
            Control::CreateQueue(queue) => {
                if queue.flow.0 > FLOW_MAX {
                    return Err(InputError::TooManyFlows { max: FLOW_MAX });
                }
                let over_network = matches!(queue.kind, QueueKind::Network { .. });
                let linked = queue.kind != QueueKind::Fetched;
                if linked && over_network != self.host.ethernet.is_some() {
                    return Err(InputError::OtherLink(queue.id));
                }
                let holder = self.kernel.observe.flows().holder_of(queue.flow);
                self.grow_holders(usize::from(holder) + 1);
                if !self.host.interface.create(queue, holder) {
                    return Err(InputError::QueueExists(queue.id));
                }
                if let (QueueKind::Network { port }, Some(ethernet), Some(index)) =
                    (queue.kind, &mut self.host.ethernet, self.host.interface.find(queue.id))
                {
                    ethernet.connect(index, port);
                }
            }
            Control::DeleteQueue(id) => {
                let index = self
                    .host
                    .interface
                    .delete(id, &mut self.host.commands)
                    .ok_or(InputError::NoSuchQueue(id))?;
                self.orphan_commands(Some(index), true);
            }
            Control::Arbitration { burst, weights } => {
                self.host.interface.set_arbitration(burst, weights)
            }
            Control::Reset => {
                self.host.interface.reset(&mut self.host.commands);
                self.orphan_commands(None, false);
            }
            Control::Abort(queue, tag) => self.abort(queue, tag),
            Control::Format(namespace) => self.format(namespace),
            Control::WriteBack => self.write_back(),
            Control::UpdateHandle(namespace, placement) => self.update_handle(namespace, placement),
            Control::PowerCut => self.power_cut(Span::ZERO),
        }
        self.settle();
        Ok(())
    }

    /// Returns the next output of the present instant; a completion stays here, to be looked
    /// at with [`Drive::completion`].
    #[inline]
    pub fn poll_brief(&mut self) -> Option<Brief> {
        loop {
            match self.host.pending.pop()? {
                Pending::Output(brief) => {
                    if let Brief::Complete(Completed(command)) = brief {
                        self.host.commands.remove(command);
                    }
                    return Some(brief);
                }
                Pending::Step(step) => {
                    self.take_late(step);
                }
            }
        }
    }

    /// Goes on by itself after an answer of the host.
    #[inline]
    fn take_late(&mut self, step: Step) {
        P::take_late(self, step)
    }

    #[inline(never)]
    pub(crate) fn take_late_here(&mut self, step: Step) {
        if self.kernel.events.is_due(self.kernel.now) {
            self.advance(self.kernel.now);
        }
        self.take(step);
        self.settle();
    }

    /// Where the time of the completion that was polled last went on an Ethernet link, beside the
    /// stages that all links have: together they are its latency. `None` on another link, and of
    /// commands that did not come over the network.
    #[inline]
    pub fn link_spans(&self, completed: Completed) -> Option<&LinkSpans> {
        let ethernet = self.host.ethernet.as_ref()?;
        let came = self.host.commands[completed.0].network;
        came.then(|| ethernet.spans(completed.0)).flatten()
    }

    /// The completion that was polled last, as long as nothing has been done to the drive
    /// since.
    #[inline]
    pub fn completion(&self, completed: Completed) -> &Completion {
        &self.host.commands[completed.0].completion
    }
}
