//! Figures of running drives for Prometheus: which there are, and how they are written.
//!
//! [`serve`] has them served over HTTP, on a thread of its own (`http.rs`). What is measured of a
//! drive has its name as the label `drive`.

mod format;
mod http;

pub use format::Format;
pub use http::serve;

use crate::engine::{Distributions, Snapshot};
use mynah_model::{SlcCounters, SlcState};
use mynah_result::histogram::Histogram;
use mynah_stamp::Span;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;

/// Upper ends of the buckets of latencies, in seconds.
const BOUNDS: [f64; 22] = [
    1e-6,
    2e-6,
    5e-6,
    1e-5,
    2e-5,
    5e-5,
    7.5e-5,
    1e-4,
    1.5e-4,
    2e-4,
    3e-4,
    5e-4,
    1e-3,
    2e-3,
    5e-3,
    1e-2,
    2e-2,
    5e-2,
    1e-1,
    1.0,
    10.0,
    f64::INFINITY,
];

/// Drives by name, with what was measured of them.
pub type Drives = Vec<(String, Snapshot)>;

/// What was measured, in a format; and the snapshots again.
pub fn text(drives: Drives, format: Format) -> (String, Drives) {
    let figures = Arc::new(Figures(drives));
    let mut registry = Registry::with_prefix("mynah");
    registry.register_collector(Box::new(figures.clone()));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)
        .expect("a string takes everything");
    drop(registry);
    let figures = Arc::into_inner(figures).expect("only the registry had it");
    (format.adapt(text), figures.0)
}

/// What is counted: name, meaning, value.
type Count = (&'static str, &'static str, fn(&Snapshot) -> u64);
/// A value of now: name, meaning, unit, value.
type Level = (&'static str, &'static str, Option<Unit>, fn(&Snapshot) -> f64);
/// Sums of times: name, meaning, the times.
type Busy = (&'static str, &'static str, fn(&Snapshot) -> &[Span]);
/// Mapping units that an SLC cache has counted: name of their bytes, meaning, value.
type SlcCount = (&'static str, &'static str, fn(&SlcCounters) -> u64);
/// Bytes of an SLC cache now: name, meaning, value.
type SlcLevel = (&'static str, &'static str, fn(&SlcState) -> u64);
/// Latencies: name, meaning, value.
type Distribution = (&'static str, &'static str, fn(&Distributions) -> &Histogram);

const COUNTS: [Count; 18] = [
    ("failed_commands", "Commands that failed", |it| it.totals.failed),
    ("refused_connections", "Connections ended for misbehaviour, or refused", |it| it.refused),
    ("starvations", "Times that the system had no descriptors left for a connection", |it| {
        it.starvations
    }),
    (
        "stalls",
        "Times that the drive completed nothing for a second though commands waited",
        |it| it.stalls,
    ),
    ("flash_reads", "Flash pages read, all causes", |it| it.counters.flash_reads),
    ("flash_programs", "Flash pages programmed, all causes", |it| it.counters.flash_programs),
    ("flash_erases", "Blocks erased", |it| it.counters.erases),
    ("gc_runs", "Blocks that garbage collection has finished", |it| it.counters.gc_runs),
    ("gc_units_moved", "Mapping units that garbage collection moved", |it| {
        it.counters.gc_units_moved
    }),
    ("host_units_written", "Mapping units that hosts wrote", |it| it.counters.host_units_written),
    ("host_bytes_written", "Bytes that hosts wrote", |it| it.counters.host_bytes_written),
    ("flash_units_programmed", "Mapping units programmed with user data", |it| {
        it.counters.flash_units_programmed
    }),
    ("cmt_lookups", "Look-ups in the cached mapping table", |it| it.counters.cmt_lookups),
    ("cmt_hits", "Hits in the cached mapping table", |it| it.counters.cmt_hits),
    ("cache_lookups", "Look-ups in the data cache", |it| it.counters.cache_lookups),
    ("cache_hits", "Hits in the data cache", |it| it.counters.cache_hits),
    ("media_errors", "Media operations that failed", |it| it.counters.media_errors),
    ("model_events", "Events that the model processed", |it| it.counters.events),
];

const BUSY: [Busy; 2] = [
    ("die_busy", "Time the dies were busy, added up", |it| &it.counters.die_busy),
    ("channel_busy", "Time the channels were busy, added up", |it| &it.counters.channel_busy),
];

const LEVELS: [Level; 8] = [
    ("connections", "Connections that are open", None, |it| it.connections as f64),
    ("half_open_connections", "Connections that are not queues of a controller", None, |it| {
        it.half_open as f64
    }),
    ("outstanding_commands", "Commands under way", None, |it| it.outstanding as f64),
    (
        "stall",
        "The drive's time since it last completed a command while some wait, else 0",
        Some(Unit::Seconds),
        |it| it.stall.map_or(0.0, |stall| stall.lasts.as_secs_f64()),
    ),
    ("dies", "Dies of the drive", None, |it| it.counters.die_busy.len() as f64),
    ("channels", "Channels of the drive", None, |it| it.counters.channel_busy.len() as f64),
    ("uptime", "Time since the target began", Some(Unit::Seconds), |it| it.now.wall.as_secs_f64()),
    ("model_time", "The drive's clock", Some(Unit::Seconds), |it| it.now.model.as_secs_f64()),
];

const SLC_COUNTS: [SlcCount; 3] = [
    ("slc_cached", "Bytes of hosts programmed into the SLC cache", |it| it.units_cached),
    ("slc_direct", "Bytes of hosts programmed past the SLC cache", |it| it.units_direct),
    ("slc_folded", "Bytes folded from the SLC cache to native blocks", |it| it.units_folded),
];

const SLC_LEVELS: [SlcLevel; 3] = [
    ("slc_filled", "Bytes in blocks of the SLC cache, valid or not", |it| it.filled_bytes),
    ("slc_valid", "Valid bytes in blocks of the SLC cache", |it| it.valid_bytes),
    ("slc_room", "Bytes that fit into the SLC cache if nothing is folded", |it| it.room_bytes),
];

const DISTRIBUTIONS: [Distribution; 3] = [
    ("latency", "Latency of reads and writes on the drive's clock", |it| &it.latencies),
    ("lateness", "How late completions were visible", |it| it.lateness.late_histogram()),
    ("arrival_uncertainty", "How long before it was seen a command may have come", |it| {
        it.lateness.uncertain_histogram()
    }),
];

/// Snapshots with the names of their drives.
#[derive(Debug)]
struct Figures(Drives);

impl Figures {
    /// A metric with a value of every drive, which `value` writes.
    fn metric(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help, unit): (&str, &str, Option<&Unit>),
        kind: MetricType,
        mut value: impl FnMut(MetricEncoder<'_>, &Snapshot) -> fmt::Result,
    ) -> fmt::Result {
        let mut encoder = encoder.encode_descriptor(name, help, unit, kind)?;
        for (drive, snapshot) in &self.0 {
            let labels = [("drive", drive.as_str())];
            value(encoder.encode_family(&labels)?, snapshot)?;
        }
        Ok(())
    }

    /// What there is to say of SLC caches, of drives that have one.
    fn slc(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.0.iter().all(|(_, it)| it.counters.slc_state.is_none()) {
            return Ok(());
        }
        for (name, help, units) in SLC_COUNTS {
            let what = (name, help, Some(&Unit::Bytes));
            self.metric(encoder, what, MetricType::Counter, |mut encoder, it| {
                let counters = &it.counters;
                match counters.slc_state {
                    Some(_) => encoder.encode_counter::<NoLabelSet, _, u64>(
                        &(units(&counters.slc) * counters.wear.unit_bytes),
                        None,
                    ),
                    None => Ok(()),
                }
            })?;
        }
        for (name, help, bytes) in SLC_LEVELS {
            let what = (name, help, Some(&Unit::Bytes));
            self.metric(encoder, what, MetricType::Gauge, |mut encoder, it| {
                match &it.counters.slc_state {
                    Some(state) => encoder.encode_gauge(&(bytes(state) as f64)),
                    None => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    /// A counter for every drive and each of these kinds.
    fn family<const KINDS: usize>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help, unit): (&str, &str, Option<&Unit>),
        label: &str,
        values: impl Fn(&Snapshot) -> [(&'static str, u64); KINDS],
    ) -> fmt::Result {
        let mut encoder = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
        for (drive, snapshot) in &self.0 {
            for (value, count) in values(snapshot) {
                let labels = [("drive", drive.as_str()), (label, value)];
                let mut encoder = encoder.encode_family(&labels)?;
                encoder.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }
        Ok(())
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.family(encoder, ("commands", "Commands completed", None), "kind", |it| {
            let totals = &it.totals;
            [
                ("read", totals.reads),
                ("write", totals.writes),
                ("other_io", totals.others),
                ("admin", totals.admin),
            ]
        })?;
        let moved = ("data", "Bytes moved", Some(&Unit::Bytes));
        self.family(encoder, moved, "direction", |it| {
            [("read", it.totals.read_bytes), ("write", it.totals.written_bytes)]
        })?;
        for (name, help, value) in COUNTS {
            let what = (name, help, None);
            self.metric(encoder, what, MetricType::Counter, |mut encoder, it| {
                encoder.encode_counter::<NoLabelSet, _, u64>(&value(it), None)
            })?;
        }
        for (name, help, spans) in BUSY {
            let what = (name, help, Some(&Unit::Seconds));
            self.metric(encoder, what, MetricType::Counter, |mut encoder, it| {
                let seconds: f64 = spans(it).iter().map(|span| span.as_secs_f64()).sum();
                encoder.encode_counter::<NoLabelSet, _, f64>(&seconds, None)
            })?;
        }
        for (name, help, unit, value) in LEVELS {
            let what = (name, help, unit.as_ref());
            self.metric(encoder, what, MetricType::Gauge, |mut encoder, it| {
                encoder.encode_gauge(&value(it))
            })?;
        }
        let what = ("quota_refusals", "Times that peers could have no more of something", None);
        self.family(encoder, what, "quantity", |it| it.refusals)?;
        let amplification = |it: &Snapshot| it.counters.write_amplification();
        if self.0.iter().any(|(_, it)| amplification(it).is_some()) {
            let what =
                ("write_amplification", "Bytes programmed for each byte written by hosts", None);
            self.metric(encoder, what, MetricType::Gauge, |mut encoder, it| {
                match amplification(it) {
                    Some(waf) => encoder.encode_gauge(&waf),
                    None => Ok(()),
                }
            })?;
        }
        self.slc(encoder)?;
        for (name, help, of) in DISTRIBUTIONS {
            let what = (name, help, Some(&Unit::Seconds));
            self.metric(encoder, what, MetricType::Histogram, |encoder, it| {
                it.distributions.as_ref().map_or(Ok(()), |all| histogram(encoder, of(all)))
            })?;
        }
        Ok(())
    }
}

fn histogram(mut encoder: MetricEncoder<'_>, histogram: &Histogram) -> fmt::Result {
    let count = histogram.count();
    let mut buckets = BOUNDS.map(|bound| (bound, 0));
    let mut before = 0;
    for (end, share) in histogram.cdf() {
        let until = (share * count as f64).round() as u64;
        let bucket = buckets.iter_mut().find(|(bound, _)| end.as_secs_f64() <= *bound);
        bucket.expect("the last bound is infinite").1 += until - before;
        before = until;
    }
    let sum = histogram.sum_ps() as f64 / 1e12;
    encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
}
