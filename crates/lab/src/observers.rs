//! Whoever looks at a run while it goes on, beside the recorder: the request log, the profile, the
//! intervals, the timeline, the capture, the rounds of a search for the steady state. Most runs have none.

use crate::profile_log::ProfileLog;
use crate::run_error::RunError;
use mynah_model::io::{Completion, Request, Status};
use mynah_model::stats::Blame;
use mynah_model::{Drive, Policies};
use mynah_report::capture::Capture;
use mynah_result::output::OutputError;
use mynah_result::request_log::RequestLog;
use mynah_result::rows::RequestRows;
use mynah_result::series::{Sampler, Series};
use mynah_result::timeline::Timeline;
use mynah_result::{kind::Kind, recorder::Completed};
use mynah_stamp::Time;

/// Outputs that are written during a run, each only if it was asked for.
#[derive(Default)]
pub(crate) struct Observers {
    pub(crate) log: Option<RequestLog>,
    pub(crate) rows: Option<RequestRows>,
    pub(crate) profile: Option<ProfileLog>,
    pub(crate) sampler: Option<Sampler>,
    pub(crate) timeline: Option<Timeline>,
    pub(crate) capture: Option<Capture>,
}

impl Observers {
    /// When the next output is due to sample the drive; [`Time::MAX`] if none is.
    pub(crate) fn next(&self) -> Time {
        let sampler = self.sampler.as_ref().map(Sampler::next);
        let timeline = self.timeline.as_ref().map(Timeline::next);
        let capture = self.capture.as_ref().map(Capture::next);
        [sampler, timeline, capture].into_iter().flatten().min().unwrap_or(Time::MAX)
    }

    /// Called when the drive's clock has reached [`Observers::next`].
    pub(crate) fn reached(&mut self, drive: &mut Drive<impl Policies>) -> Result<(), OutputError> {
        let now = drive.now();
        if let Some(sampler) = &mut self.sampler {
            while sampler.next() <= now {
                sampler.reached(drive)?;
            }
        }
        if let Some(timeline) = &mut self.timeline
            && timeline.next() <= now
        {
            timeline.reached(drive);
        }
        if let Some(capture) = &mut self.capture
            && capture.next() <= now
        {
            capture.reached(drive)?;
        }
        Ok(())
    }

    /// What completes next is of this drive, of several.
    pub(crate) fn on_drive(&mut self, drive: u32) {
        if let Some(profile) = &mut self.profile {
            profile.set_drive(drive);
        }
        if let Some(log) = &mut self.log {
            log.set_drive(drive);
        }
    }

    /// A command of `flow` was issued.
    #[inline(never)]
    pub(crate) fn issued(&mut self, flow: usize, now: Time) {
        if let Some(sampler) = &mut self.sampler {
            sampler.issued(flow, now);
        }
    }

    /// A command of `flow` has completed.
    #[inline(never)]
    pub(crate) fn completed(
        &mut self,
        flow: usize,
        request: &Request,
        created: Time,
        (completion, link): Completed<'_>,
    ) -> Result<(), RunError> {
        if let Some(sampler) = &mut self.sampler {
            let succeeded = completion.status == Status::Success;
            let (kind, bytes) = (Kind::from(request.operation), u64::from(request.sectors) * 512);
            let latency = completion.at.since(completion.rung);
            sampler.completed(flow, kind, bytes, latency, succeeded, completion.at);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.completed(flow, request, created, (completion, link));
        }
        if let Some(profile) = &mut self.profile {
            let (kind, bytes) = (Kind::from(request.operation), request.sectors * 512);
            profile.record(flow, kind, bytes, request, created, (completion, link))?;
        }
        if let Some(log) = &mut self.log {
            log.record(flow, request, created, (completion, link))?;
        }
        if let Some(rows) = &mut self.rows {
            rows.record(flow, request, created, (completion, link));
        }
        Ok(())
    }

    /// A key-value command of `flow` has completed, and moved `bytes`. `shown` has the number of its
    /// key and the bytes of its value where a request has sectors.
    pub(crate) fn completed_key(
        &mut self,
        flow: usize,
        kind: Kind,
        bytes: u32,
        shown: &Request,
        created: Time,
        completion: &Completion,
    ) -> Result<(), RunError> {
        if let Some(sampler) = &mut self.sampler {
            let succeeded = completion.status == Status::Success;
            let latency = completion.at.since(completion.rung);
            sampler.completed(flow, kind, bytes.into(), latency, succeeded, completion.at);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.completed_key(flow, kind, (shown.sector, bytes), created, completion);
        }
        if let Some(profile) = &mut self.profile {
            profile.record(flow, kind, bytes, shown, created, (completion, None))?;
        }
        if let Some(log) = &mut self.log {
            log.record_key(flow, kind, shown, created, completion)?;
        }
        if let Some(rows) = &mut self.rows {
            rows.record_key(flow, kind, shown, created, completion);
        }
        Ok(())
    }

    /// Called at the end of the ramp, before the drive's counters restart.
    pub(crate) fn ramp_ends(
        &mut self,
        drive: &Drive<impl Policies>,
        now: Time,
    ) -> Result<(), OutputError> {
        match &mut self.sampler {
            Some(sampler) => sampler.ramp_ends(drive, now),
            None => Ok(()),
        }
    }

    /// Completes what is written of commands alone; `blame` is for whom they waited.
    pub(crate) fn finish_logs(&mut self, blame: &[Blame]) -> Result<(), RunError> {
        if let Some(log) = self.log.take() {
            log.finish()?;
        }
        if let Some(rows) = self.rows.take() {
            rows.finish();
        }
        if let Some(profile) = self.profile.take() {
            profile.finish(blame)?;
        }
        Ok(())
    }

    /// Completes all outputs at the end of the run.
    pub(crate) fn finish(
        mut self,
        drive: &mut Drive<impl Policies>,
    ) -> Result<Option<Series>, RunError> {
        self.finish_logs(&drive.blame())?;
        if let Some(timeline) = self.timeline {
            timeline.finish(drive)?;
        }
        if let Some(capture) = self.capture {
            capture.finish(drive)?;
        }
        let now = drive.now();
        Ok(self.sampler.map(|sampler| sampler.finish(drive, now)).transpose()?)
    }
}
