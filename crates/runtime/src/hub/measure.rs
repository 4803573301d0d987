//! What is measured while commands go through: what results, status lines and metrics say.

use super::credit::{Credit, Credited};
use super::stall::Stalls;
use crate::clock::Rate;
use crate::fault::Delivery;
use crate::lateness::Lateness;
use mynah_device::{CommandKind, Completion, Now};
use mynah_model::Progress;
use mynah_model::io::{self, FlowId, Operation, QueueId, Status as ModelStatus, Tag};
use mynah_result::histogram::Histogram;
use mynah_result::recorder::Recorder;
use mynah_stamp::{Span, Stage, Time};

/// What has been done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    /// I/O commands that are neither reads nor writes.
    pub others: u64,
    /// Admin and Fabrics commands.
    pub admin: u64,
    /// Commands that failed, of any kind.
    pub failed: u64,
}

/// Counts commands, and how long they took, of all hosts.
pub struct Measure {
    rate: Rate,
    recorder: Recorder,
    lateness: Lateness,
    totals: Totals,
    /// Latencies of reads and writes since the interval began.
    interval: Histogram,
    /// Lateness of the same commands.
    interval_late: Histogram,
    latencies: Histogram,
    credit: Credit,
    credited: Credited,
    stalls: Stalls,
    /// Rates of faults that were never drawn, known at the end.
    pub(crate) idle_faults: Vec<Delivery>,
}

impl std::fmt::Debug for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Measure").field("totals", &self.totals).finish_non_exhaustive()
    }
}

impl Measure {
    /// Empty, for a drive whose clock has this rate.
    pub fn new(rate: Rate) -> Measure {
        Measure {
            rate,
            recorder: Recorder::new(Vec::new()),
            lateness: Lateness::default(),
            totals: Totals::default(),
            interval: Histogram::default(),
            interval_late: Histogram::default(),
            latencies: Histogram::default(),
            credit: Credit::default(),
            credited: Credited::default(),
            stalls: Stalls::default(),
            idle_faults: Vec::new(),
        }
    }

    pub(super) fn set_credit(&mut self, credit: Credit) {
        self.credit = credit;
    }

    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Names the flows as the subsystem does ([`mynah_device::Subsystem::flow_names`]).
    pub fn name_flows(&mut self, names: Vec<String>) {
        self.recorder.name_flows(names);
    }

    /// How well real time was kept.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// What was credited to the real path.
    pub fn credited(&self) -> &Credited {
        &self.credited
    }

    /// When and how often the drive has stopped.
    pub fn stalls(&self) -> &Stalls {
        &self.stalls
    }

    /// The drive has come so far at `at` on its clock; what there is to be told.
    pub(super) fn look_for_stall(
        &mut self,
        wall: Time,
        at: Time,
        progress: Progress,
    ) -> Option<String> {
        self.stalls.look(wall, at, progress)
    }

    /// Latencies of reads and writes, on the model's clock.
    pub fn latencies(&self) -> &Histogram {
        &self.latencies
    }

    /// The median latency of reads and writes, in the host's time.
    pub fn median_latency(&self) -> Option<Span> {
        self.latencies.percentile(50.0).map(|span| self.rate.wall_span(span))
    }

    /// Latencies and lateness of reads and writes since this was last called.
    pub fn take_interval(&mut self) -> (Histogram, Histogram) {
        (std::mem::take(&mut self.interval), std::mem::take(&mut self.interval_late))
    }

    /// A host has gone, or serving ends, while commands of its flow were not answered: they were
    /// waited for until `at`, on the model's clock.
    pub(crate) fn waited_for(&mut self, flow: FlowId, at: Time) {
        self.recorder.expect_flow(flow.0.into());
        self.recorder.offered_until(flow.0.into(), at);
    }

    /// Serving has ended, on the model's clock.
    pub(crate) fn ended(&mut self, at: Time) {
        self.recorder.lasted_until(at);
    }

    #[inline]
    pub(crate) fn arrived(&mut self, gap: Span) {
        self.lateness.arrived(gap);
    }

    /// So many reads or writes came, within this gap, and were answered by `at`, so long after they
    /// were seen. Nothing of that was modelled.
    pub(crate) fn answered_at_once(
        &mut self,
        flow: FlowId,
        kind: CommandKind,
        commands: u64,
        bytes: u64,
        gap: Span,
        (latency, at): (Span, Time),
    ) {
        let operation = match kind {
            CommandKind::Read => {
                self.totals.reads += commands;
                self.totals.read_bytes += bytes;
                Operation::Read
            }
            _ => {
                self.totals.writes += commands;
                self.totals.written_bytes += bytes;
                Operation::Write
            }
        };
        self.lateness.arrived_many(gap, commands);
        self.interval.record_many(latency, commands);
        self.latencies.record_many(latency, commands);
        let flow = usize::from(flow.0);
        self.recorder.expect_flow(flow);
        self.recorder.record_many(flow, operation, commands, bytes, latency, at);
    }

    /// So many other commands came, and were answered at once.
    pub(crate) fn answered_others(&mut self, commands: u64) {
        self.totals.others += commands;
    }

    /// A completion is visible to the host; how late, if it was modelled.
    #[inline]
    pub(crate) fn visible(
        &mut self,
        now: Now,
        completion: &Completion,
        asked: Option<Time>,
    ) -> Option<Span> {
        let status = completion.entry.status();
        self.totals.failed += u64::from(!status.is_success());
        let operation = match completion.kind {
            CommandKind::Read => Operation::Read,
            CommandKind::Write => Operation::Write,
            CommandKind::Flush => Operation::Flush,
            CommandKind::Trim => Operation::Trim,
            // Of pairs: what a flow does is counted as what it moves.
            CommandKind::Store => Operation::Write,
            CommandKind::Retrieve => Operation::Read,
            CommandKind::OtherIo | CommandKind::Delete | CommandKind::Exist | CommandKind::List => {
                self.totals.others += 1;
                return None;
            }
            CommandKind::Fabrics | CommandKind::Admin => {
                self.totals.admin += 1;
                return None;
            }
        };
        let bytes = u64::from(completion.bytes);
        match operation {
            Operation::Read => {
                self.totals.reads += 1;
                self.totals.read_bytes += bytes;
            }
            Operation::Write | Operation::WriteThrough => {
                self.totals.writes += 1;
                self.totals.written_bytes += bytes;
            }
            _ => self.totals.others += 1,
        }
        let mut stages = completion.stages;
        // The host has it, as far as the path is credited.
        let credit = completion.due.map_or(Span::ZERO, |_| self.credit.model);
        let at = (now.model + credit).max(completion.arrival);
        let late = completion.due.map(|due| {
            let late = at.saturating_since(due);
            stages.add(Stage::Late, late);
            let late = self.rate.wall_span(late);
            self.lateness.completed(late);
            self.interval_late.record(late);
            late
        });
        let rung = asked.unwrap_or(completion.arrival).min(completion.arrival);
        if !self.credit.model.is_zero() {
            self.credit(completion, rung);
        }
        stages.add(Stage::NetworkRequest, completion.arrival.since(rung));
        if status.is_success() && matches!(operation, Operation::Read | Operation::Write) {
            self.interval.record(at.since(rung));
            self.latencies.record(at.since(rung));
        }
        let flow = usize::from(completion.flow.0);
        self.recorder.expect_flow(flow);
        if !status.is_success() {
            self.recorder.record_failed(flow, operation, rung, at, status.result_name());
            return late;
        }
        let modelled = io::Completion {
            at,
            tag: Tag(0),
            queue: QueueId(0),
            status: ModelStatus::Success,
            rung,
            stages,
        };
        self.recorder.record(flow, operation, completion.bytes, rung, &modelled);
        if let Some(link) = &completion.link {
            self.recorder.record_link(flow, operation, rung, &modelled, link);
        }
        if self.recorder.is_slow(rung, &modelled) {
            // What it waited for is the drive's, and not asked here.
            let what = (flow, operation.into(), completion.bytes);
            let completed = (&modelled, completion.link.as_deref());
            self.recorder.record_slow(what, rung, completed, std::iter::empty());
        }
        late
    }

    /// Counts what became of the credit of a command that came at `came`.
    #[cold]
    fn credit(&mut self, completion: &Completion, came: Time) {
        let Some(due) = completion.due else { return };
        self.credited.last = self.credit.wall;
        self.credited.commands += 1;
        self.credited.short += u64::from(due.saturating_since(came) < self.credit.model);
        let held = self.rate.wall_span(completion.arrival.since(came));
        if !held.is_zero() {
            self.credited.held += 1;
            self.credited.held_by += held;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_result::kind::status_name;
    use mynah_wire::nvme::Status;

    /// A status has one name, whether a drive was simulated or served.
    #[test]
    fn the_models_statuses_have_the_names_that_they_have_in_nvme() {
        for (of_model, of_nvme) in [
            (ModelStatus::Success, Status::SUCCESS),
            (ModelStatus::InvalidNamespace, Status::INVALID_NAMESPACE),
            (ModelStatus::LbaOutOfRange, Status::LBA_OUT_OF_RANGE),
            (ModelStatus::InvalidField, Status::INVALID_FIELD),
            (ModelStatus::UnrecoveredReadError, Status::UNRECOVERED_READ_ERROR),
            (ModelStatus::WriteFault, Status::WRITE_FAULT),
            (ModelStatus::Aborted, Status::ABORT_REQUESTED),
            (ModelStatus::WriteProtected, Status::NAMESPACE_WRITE_PROTECTED),
        ] {
            assert_eq!(status_name(of_model), of_nvme.do_not_retry().result_name());
        }
    }
}
