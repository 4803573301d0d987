//! What a job's I/Os came to.

use super::access::State;
use super::verify::Mismatch;
use mynah_result::histogram::Histogram;
use mynah_result::kind::Kind;
use mynah_result::{Flow, KeySides, Side};
use mynah_stamp::{Span, Time};
use std::collections::BTreeMap;

#[derive(Clone, Default)]
struct Record {
    ios: u64,
    bytes: u64,
    lat: Histogram,
    e2e: Histogram,
}

/// What a job's I/Os came to.
#[derive(Default)]
pub(super) struct Tally {
    records: [Option<Box<Record>>; Kind::ALL.len()],
    errors: [BTreeMap<String, u64>; Kind::ALL.len()],
    /// When the measurement began, and until when load was offered: the last measured I/O, or what
    /// [`Tally::offered_until`] has said if that is later.
    start: Time,
    end: Time,
    /// I/Os that succeeded and failed, whenever that was.
    succeeded: u64,
    failed: u64,
    /// I/Os that were issued again.
    pub(super) retried: u64,
    /// I/Os for which no completion came.
    pub(super) unknown: u64,
    pub(super) lost_connections: u64,
    /// The end of the runtime whose I/Os were given up.
    pub(super) not_issued: Span,
    pub(super) last_error: Option<String>,
    /// How long the namespace's access state did not allow I/Os.
    pub(super) inaccessible: Span,
    /// The state that ended the load.
    pub(super) barred: Option<State>,
    /// Commands that found no such key.
    pub(super) missed: u64,
    /// Why the keys that the load finds could not be stored.
    pub(super) not_loaded: Option<String>,
    pub(super) checked: u64,
    pub(super) mismatched: u64,
    pub(super) mismatches: Vec<Mismatch>,
}

impl Tally {
    /// The measurement begins at `now`.
    pub(super) fn start(&mut self, now: Time) {
        (self.start, self.end) = (now, now);
    }

    /// Load was offered until `at`, whether its I/Os have ended or not.
    #[inline]
    pub(super) fn offered_until(&mut self, at: Time) {
        self.end = self.end.max(at);
    }

    pub(super) fn completed(&self) -> u64 {
        self.succeeded + self.failed
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        (self.succeeded, self.failed)
    }

    #[inline]
    pub(super) fn succeeded(
        &mut self,
        kind: Kind,
        measured: bool,
        bytes: u64,
        created: Time,
        submitted: Time,
        now: Time,
    ) {
        self.succeeded += 1;
        if !measured {
            return;
        }
        self.offered_until(now);
        let record = self.records[kind as usize].get_or_insert_default();
        record.ios += 1;
        record.bytes += bytes;
        record.lat.record(now.saturating_since(submitted));
        record.e2e.record(now.saturating_since(created));
    }

    pub(super) fn failed(
        &mut self,
        kind: Kind,
        measured: bool,
        now: Time,
        status: impl FnOnce() -> String,
    ) {
        self.failed += 1;
        if measured {
            self.offered_until(now);
            *self.errors[kind as usize].entry(status()).or_default() += 1;
        }
    }

    /// What came before the load, whose commands do not count.
    pub(super) fn prepared(&mut self, before: Tally) {
        self.retried += before.retried;
        self.unknown += before.unknown;
        self.lost_connections += before.lost_connections;
        self.last_error = before.last_error;
        self.barred = before.barred;
    }

    /// From the start of the measurement to the end of the load.
    pub(super) fn interval(&self) -> Span {
        self.end.saturating_since(self.start)
    }

    /// I/Os measured, failed ones included.
    pub(super) fn measured(&self) -> u64 {
        let succeeded: u64 = self.records.iter().flatten().map(|record| record.ios).sum();
        succeeded + self.errors.iter().flat_map(|errors| errors.values()).sum::<u64>()
    }

    /// Adds what another job has counted.
    pub(super) fn merge(&mut self, other: Tally) {
        for (mine, other) in self.records.iter_mut().zip(other.records) {
            let Some(other) = other else { continue };
            let mine = mine.get_or_insert_default();
            mine.ios += other.ios;
            mine.bytes += other.bytes;
            mine.lat.merge(&other.lat);
            mine.e2e.merge(&other.e2e);
        }
        for (mine, other) in self.errors.iter_mut().zip(other.errors) {
            for (status, count) in other {
                *mine.entry(status).or_default() += count;
            }
        }
        self.end = self.end.max(other.end);
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.retried += other.retried;
        self.unknown += other.unknown;
        self.lost_connections += other.lost_connections;
        self.not_issued = self.not_issued.max(other.not_issued);
        self.inaccessible = self.inaccessible.max(other.inaccessible);
        self.barred = self.barred.or(other.barred);
        self.last_error = other.last_error.or(self.last_error.take());
        self.missed += other.missed;
        self.not_loaded = self.not_loaded.take().or(other.not_loaded);
        self.checked += other.checked;
        self.mismatched += other.mismatched;
        self.mismatches.extend(other.mismatches);
    }

    /// Figures as a flow of a result document.
    pub(super) fn flow(&self, name: &str, has_keys: bool) -> Flow {
        let seconds = self.interval().as_secs_f64();
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let side = |kind: Kind| {
            let errors = self.errors[kind as usize].clone();
            let Some(record) = &self.records[kind as usize] else {
                return Side { errors, ..Side::default() };
            };
            Side {
                ios: record.ios,
                bytes: record.bytes,
                iops: rate(record.ios),
                bw_bytes_per_s: rate(record.bytes),
                lat_ns: record.lat.latency(),
                e2e_ns: record.e2e.latency(),
                stages: Vec::new(),
                lat_hdr: (record.ios > 0).then(|| record.lat.to_hdr()),
                errors,
            }
        };
        Flow {
            name: name.to_owned(),
            read: side(Kind::Read),
            write: side(Kind::Write),
            trim: side(Kind::Trim),
            flush: side(Kind::Flush),
            key_value: has_keys.then(|| Box::new(KeySides::from_kinds(side))),
            slowdown: None,
        }
    }
}
