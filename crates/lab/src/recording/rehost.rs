//! The host of a recorded run, in front of another drive: commands come when they did,
//! however long this drive takes.

use super::{FeedError, Kind, Record, Recording, RecordingError, Replayed, feed};
use mynah_model::Drive;
use mynah_model::io::{Completion, FlowId, Operation, Output, QueueId, Request, Tag};
use mynah_stamp::Time;
use std::collections::VecDeque;

/// That host.
#[derive(Default)]
pub(super) struct Rehost {
    queues: hashbrown::HashMap<u16, Requeue>,
    /// Records read before their time, in search of the command that a queue fetches.
    pub(super) ahead: VecDeque<Record>,
    /// Commands by the tag that they have here: tags of the recording are free again when
    /// the recorded drive has answered, which this one may not have done.
    commands: hashbrown::HashMap<u32, Reissued>,
    next_tag: u32,
}

/// A queue of the recorded run.
struct Requeue {
    flow: FlowId,
    fetched: bool,
    /// Commands that were read and have not been fetched.
    waiting: VecDeque<Record>,
}

/// A command given to the other drive.
struct Reissued {
    recorded_tag: u32,
    queue: u16,
    flow: FlowId,
    request: Request,
}

impl Rehost {
    pub(super) fn outstanding(&self) -> usize {
        self.commands.len()
    }

    /// Runs the drive to `to`, or at the latest instant that anything happens. Returns
    /// whether to go on.
    pub(super) fn run_to(
        &mut self,
        recording: &mut Recording,
        drive: &mut Drive,
        to: Time,
        watch: &mut impl FnMut(&mut Drive, Replayed<'_>) -> bool,
    ) -> Result<bool, RecordingError> {
        loop {
            while let Some(output) = drive.poll() {
                match output {
                    Output::Fetch { at, queue } => self.answer(recording, drive, at, queue)?,
                    Output::Move { .. } => {}
                    Output::Complete(completion) => {
                        if !self.completed(drive, &completion, watch) {
                            return Ok(false);
                        }
                    }
                }
            }
            if drive.now() >= to || to == Time::MAX && self.outstanding() == 0 {
                return Ok(true);
            }
            let before = drive.now();
            drive.advance(to);
            if drive.now() == before && drive.next_at().is_none() {
                return Ok(true);
            }
        }
    }

    /// Keeps a command until its queue fetches it; whether it is one of those.
    pub(super) fn keep(&mut self, record: &Record) -> bool {
        match self.queues.get_mut(&record.queue) {
            Some(queue) if record.kind == Kind::Command && !queue.fetched => {
                queue.waiting.push_back(*record);
                true
            }
            _ => false,
        }
    }

    /// Hands over the command that `queue` fetches, reading ahead for it.
    fn answer(
        &mut self,
        recording: &mut Recording,
        drive: &mut Drive,
        at: Time,
        queue: QueueId,
    ) -> Result<(), RecordingError> {
        loop {
            let next = self.queues.get_mut(&queue.0).and_then(|queue| queue.waiting.pop_front());
            if let Some(record) = next {
                return self
                    .issue(drive, at, &record)
                    .map_err(|error| recording.unfit(&record, &error));
            }
            // The recording may end with entries that were never fetched.
            let ended = self.ahead.back().is_some_and(|record| record.kind == Kind::End);
            if ended {
                return Ok(());
            }
            let record = recording.next_record(0)?;
            if !self.keep(&record) {
                self.ahead.push_back(record);
            }
        }
    }

    fn issue(&mut self, drive: &mut Drive, at: Time, record: &Record) -> Result<(), FeedError> {
        let tag = self.next_tag;
        self.next_tag = self.next_tag.wrapping_add(1);
        let request = Request { tag: Tag(tag), ..record.request()? };
        let capacity = drive.namespace_sectors(request.namespace).unwrap_or(0);
        let end = request.sector.saturating_add(request.sectors.into());
        if end > capacity && request.operation != Operation::Other {
            return Err(FeedError::TooSmall { end: end * 512, capacity: capacity * 512 });
        }
        let flow = self.queues.get(&record.queue).map_or(FlowId(0), |queue| queue.flow);
        let reissued = Reissued { recorded_tag: record.tag, queue: record.queue, flow, request };
        drive.command(at, QueueId(record.queue), request)?;
        self.commands.insert(tag, reissued);
        if request.operation == Operation::Other {
            // What it stands for comes by itself, and takes as long as it takes here.
            drive.data_arrived(at, Tag(tag))?;
        }
        Ok(())
    }

    fn completed(
        &mut self,
        drive: &mut Drive,
        completion: &Completion,
        watch: &mut impl FnMut(&mut Drive, Replayed<'_>) -> bool,
    ) -> bool {
        // Fails only where the queue has gone, and its completion queue with it.
        let _ = drive.cq_freed(completion.at, completion.queue, 1);
        let Some(command) = self.commands.remove(&completion.tag.0) else {
            return true;
        };
        let replayed = Replayed::Completed {
            completion,
            request: Some(command.request),
            created: completion.rung,
            flow: Some(command.flow),
        };
        watch(drive, replayed)
    }

    /// Gives one recorded input to the drive.
    pub(super) fn give(
        &mut self,
        drive: &mut Drive,
        record: &Record,
        watch: &mut impl FnMut(&mut Drive, Replayed<'_>) -> bool,
    ) -> Result<(), FeedError> {
        match record.kind {
            Kind::CreateQueue => {
                let (flow, fetched) = (record.flow(), record.is_fetched());
                let queue = Requeue { flow, fetched, waiting: VecDeque::new() };
                self.queues.insert(record.queue, queue);
                watch(drive, Replayed::Flow(flow));
                feed(drive, record)?;
            }
            Kind::Ring => {
                feed(drive, record)?;
                for _ in 0..record.tag {
                    watch(drive, Replayed::Issued(record.at));
                }
            }
            Kind::Command => {
                watch(drive, Replayed::Issued(record.at));
                self.issue(drive, record.at, record)?;
            }
            Kind::Abort => {
                let of = |(_, command): &(&u32, &Reissued)| {
                    command.recorded_tag == record.tag && command.queue == record.queue
                };
                if let Some((&tag, _)) = self.commands.iter().find(of) {
                    feed(drive, &Record { tag, ..*record })?;
                }
            }
            Kind::DeleteQueue
            | Kind::Reset
            | Kind::Format
            | Kind::PowerCut
            | Kind::Arbitration
            | Kind::WriteBack
            | Kind::Past => {
                feed(drive, record)?;
            }
            // What this drive does itself, or has no need of.
            Kind::DataArrived | Kind::CqFreed | Kind::Completed => {}
            Kind::RampEnds | Kind::RampOf | Kind::Offered | Kind::End => {}
        }
        Ok(())
    }
}
