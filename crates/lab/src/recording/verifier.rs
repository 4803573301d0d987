//! A recorded run on the drive that it was made with: every completion has to be the recorded one.

use super::key::KeysReplayed;
use super::{FeedError, Kind, RING_MAX, Record, Replayed, feed};
use mynah_model::Drive;
use mynah_model::io::{Completion, FlowId, NamespaceId, Output, Request};
use mynah_stamp::{LinkSpans, Time};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Checks a replay on the recorded drive: each completion has to match its record.
#[derive(Default)]
pub(super) struct Verifier {
    /// Completions of the drive that have not been compared with a record yet.
    completions: VecDeque<(Completion, Option<LinkSpans>)>,
    /// By queue: its flow, and whether its commands arrive complete, without a fetch.
    flows: FxHashMap<u16, (FlowId, bool)>,
    /// Commands under way that are hosts' I/O, by tag.
    requests: FxHashMap<u32, Request>,
}

impl Verifier {
    /// Runs the drive to a record's time.
    pub(super) fn run_to(&mut self, drive: &mut Drive, at: Time) {
        loop {
            while let Some(output) = drive.poll() {
                if let Output::Complete(completion) = output {
                    let link = drive.polled_link_spans().copied();
                    self.completions.push_back((completion, link));
                }
            }
            if drive.now() >= at {
                return;
            }
            let before = drive.now();
            drive.advance(at);
            if drive.now() == before && drive.next_at().is_none() {
                return;
            }
        }
    }

    /// Takes the drive's next completion, which has to match `record`, or says how it differs.
    pub(super) fn completion(
        &mut self,
        record: &Record,
    ) -> Result<(Completion, Option<LinkSpans>), String> {
        let (completion, link) = self
            .completions
            .pop_front()
            .ok_or_else(|| format!("tag {} does not complete at {}", record.tag, record.at))?;
        let same = completion.at == record.at
            && completion.tag.0 == record.tag
            && completion.queue.0 == record.queue
            && completion.rung.as_ps() == record.sector
            && completion.status as u8 == record.code;
        match same {
            true => Ok((completion, link)),
            false => Err(format!(
                "tag {} completes at {}ps, recorded was tag {} at {}ps",
                completion.tag.0,
                completion.at.as_ps(),
                record.tag,
                record.at.as_ps()
            )),
        }
    }

    /// Reports a completion, with the request and the flow that it belongs to.
    pub(super) fn completed<'a>(
        &mut self,
        keys: &mut KeysReplayed,
        record: &Record,
        completion: &'a Completion,
        link: Option<&'a LinkSpans>,
    ) -> Replayed<'a> {
        let created = u64::from(record.sectors) << 32 | u64::from(record.namespace);
        let created = Time::from_ps(created);
        let flow = self.flows.get(&record.queue).map(|(flow, _)| *flow);
        let request = self.requests.remove(&record.tag);
        match keys.completed(record.tag) {
            Some(done) => Replayed::CompletedKey { completion, done, created, flow },
            None => Replayed::Completed { completion, link, request, created, flow },
        }
    }

    /// Checks at the end of the recording that nothing else has completed before.
    pub(super) fn ends(&mut self, record: &Record) -> Result<(), String> {
        // The run may have ended before it looked at this instant's outputs.
        match self.completions.pop_front() {
            Some((completion, _)) if completion.at < record.at => {
                Err(format!("tag {} completes, which was not recorded", completion.tag.0))
            }
            _ => Ok(()),
        }
    }

    /// Gives a recorded input to the drive.
    pub(super) fn give(
        &mut self,
        keys: &mut KeysReplayed,
        drive: &mut Drive,
        record: &Record,
        watch: &mut impl FnMut(&mut Drive, Replayed<'_>) -> bool,
    ) -> Result<(), FeedError> {
        match record.kind {
            Kind::CreateQueue => {
                let flow = record.flow();
                self.flows.insert(record.queue, (flow, record.is_fetched()));
                watch(drive, Replayed::Flow(flow));
            }
            Kind::Ring => {
                for _ in 0..record.tag.min(RING_MAX) {
                    watch(drive, Replayed::Issued(record.at));
                }
            }
            Kind::Format => keys.pairs.clear(NamespaceId(record.namespace)),
            _ => {}
        }
        match record.kind {
            Kind::KeyCommand => {
                keys.command(drive, record)?;
                self.requests.remove(&record.tag);
                self.issued(drive, record, watch);
            }
            Kind::Decided => keys.decided(drive, record)?,
            _ => {
                let fed = feed(drive, record)?;
                if record.kind == Kind::PowerCut {
                    keys.pairs.lose(&drive.take_lost_pairs());
                }
                let Some(request) = fed else { return Ok(()) };
                keys.completed(record.tag);
                if !record.is_nobodys() {
                    self.requests.insert(request.tag.0, request);
                }
                self.issued(drive, record, watch);
            }
        }
        Ok(())
    }

    /// A command was handed over.
    fn issued(
        &self,
        drive: &mut Drive,
        record: &Record,
        watch: &mut impl FnMut(&mut Drive, Replayed<'_>) -> bool,
    ) {
        if self.flows.get(&record.queue).is_some_and(|(_, fetched)| *fetched) {
            watch(drive, Replayed::Issued(record.at));
        }
    }
}
