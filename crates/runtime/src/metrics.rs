//! Figures of a running target for Prometheus, over a small HTTP server on its own thread.
//!
//! Every request asks the engine for a snapshot ([`Control::snapshot`]); nothing is gathered
//! while nobody asks. One client is served at a time, in bounded time and memory.

use crate::engine::{Control, Snapshot};
use mynah_lab::histogram::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// The longest request that is read.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// How long a client may take for each step.
const PATIENCE: Duration = Duration::from_secs(2);
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

/// Serves metrics on `listener` until the process ends.
pub fn serve(listener: TcpListener, control: Arc<Control>) -> io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    std::thread::Builder::new().name("mynah-metrics".to_owned()).spawn(move || {
        for client in listener.incoming() {
            match client {
                // A client that goes away or sends rubbish is its own affair.
                Ok(client) => drop(answer(client, &control)),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    })?;
    Ok(address)
}

fn answer(mut client: TcpStream, control: &Control) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let bytes = client.read(&mut part)?;
        if bytes == 0 || request.len() + bytes > REQUEST_BYTES_MAX {
            return respond(&mut client, "400 Bad Request", "text/plain", "not a request\n");
        }
        request.extend_from_slice(&part[..bytes]);
    }
    let mut words = request.split(|&byte| byte == b' ' || byte == b'\r');
    match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/metrics" | b"/")) => {}
        (Some(b"GET"), _) => {
            return respond(&mut client, "404 Not Found", "text/plain", "see /metrics\n");
        }
        _ => return respond(&mut client, "405 Method Not Allowed", "text/plain", "use GET\n"),
    }
    let Some(snapshot) = control.snapshot() else {
        let text = "the target is busy\n";
        return respond(&mut client, "503 Service Unavailable", "text/plain", text);
    };
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    respond(&mut client, "200 OK", kind, &text(snapshot))
}

fn respond(client: &mut TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    client.write_all(body.as_bytes())
}

/// A snapshot in the OpenMetrics text format.
pub fn text(snapshot: Snapshot) -> String {
    let mut registry = Registry::with_prefix("mynah");
    registry.register_collector(Box::new(Figures(snapshot)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)
        .expect("a string takes everything");
    text
}

#[derive(Debug)]
struct Figures(Snapshot);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Figures(it) = self;
        let totals = &it.totals;
        let counters = &it.counters;
        family(
            &mut encoder,
            "commands",
            "Commands completed",
            None,
            "kind",
            &[
                ("read", totals.reads),
                ("write", totals.writes),
                ("other_io", totals.others),
                ("admin", totals.admin),
            ],
        )?;
        family(
            &mut encoder,
            "data",
            "Bytes moved",
            Some(&Unit::Bytes),
            "direction",
            &[("read", totals.read_bytes), ("write", totals.written_bytes)],
        )?;
        for (name, help, value) in [
            ("failed_commands", "Commands that failed", totals.failed),
            ("refused_connections", "Connections ended for misbehaviour, or refused", it.refused),
            ("flash_reads", "Flash pages read, all causes", counters.flash_reads),
            ("flash_programs", "Flash pages programmed, all causes", counters.flash_programs),
            ("flash_erases", "Blocks erased", counters.erases),
            ("gc_runs", "Blocks that garbage collection has finished", counters.gc_runs),
            (
                "gc_units_moved",
                "Mapping units that garbage collection moved",
                counters.gc_units_moved,
            ),
            ("host_units_written", "Mapping units that hosts wrote", counters.host_units_written),
            (
                "flash_units_programmed",
                "Mapping units programmed with user data",
                counters.flash_units_programmed,
            ),
            ("cmt_lookups", "Look-ups in the cached mapping table", counters.cmt_lookups),
            ("cmt_hits", "Hits in the cached mapping table", counters.cmt_hits),
            ("cache_lookups", "Look-ups in the data cache", counters.cache_lookups),
            ("cache_hits", "Hits in the data cache", counters.cache_hits),
            ("media_errors", "Media operations that failed", counters.media_errors),
            ("model_events", "Events that the model processed", counters.events),
        ] {
            counter(&mut encoder, name, help, value)?;
        }
        let seconds = Some(&Unit::Seconds);
        busy(&mut encoder, "die_busy", "Time the dies were busy, added up", &counters.die_busy)?;
        busy(
            &mut encoder,
            "channel_busy",
            "Time the channels were busy, added up",
            &counters.channel_busy,
        )?;
        for (name, help, unit, value) in [
            ("connections", "Connections that are open", None, it.connections as f64),
            (
                "half_open_connections",
                "Connections that are not queues of a controller",
                None,
                it.half_open as f64,
            ),
            ("outstanding_commands", "Commands under way", None, it.outstanding as f64),
            ("dies", "Dies of the drive", None, counters.die_busy.len() as f64),
            ("channels", "Channels of the drive", None, counters.channel_busy.len() as f64),
            ("uptime", "Time since the target began", seconds, it.now.wall.as_secs_f64()),
            ("model_time", "The drive's clock", seconds, it.now.model.as_secs_f64()),
        ] {
            let mut encoder = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            encoder.encode_gauge(&value)?;
        }
        if let Some(waf) = counters.write_amplification() {
            let help = "Units programmed for each unit written by hosts";
            let mut encoder =
                encoder.encode_descriptor("write_amplification", help, None, MetricType::Gauge)?;
            encoder.encode_gauge(&waf)?;
        }
        for (name, help, of) in [
            ("latency", "Latency of reads and writes on the drive's clock", &it.latencies),
            ("lateness", "How late completions were visible", it.lateness.late_histogram()),
            (
                "arrival_uncertainty",
                "How long before it was seen a command may have come",
                it.lateness.uncertain_histogram(),
            ),
        ] {
            histogram(&mut encoder, name, help, of)?;
        }
        Ok(())
    }
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let mut encoder = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn busy(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    spans: &[mynah_stamp::Span],
) -> fmt::Result {
    let seconds: f64 = spans.iter().map(|span| span.as_secs_f64()).sum();
    let unit = Some(&Unit::Seconds);
    let mut encoder = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
    encoder.encode_counter::<NoLabelSet, _, f64>(&seconds, None)
}

fn family(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    label: &str,
    values: &[(&str, u64)],
) -> fmt::Result {
    let mut encoder = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
    for (value, count) in values {
        let labels = [(label, *value)];
        let mut encoder = encoder.encode_family(&labels)?;
        encoder.encode_counter::<NoLabelSet, _, u64>(count, None)?;
    }
    Ok(())
}

fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    histogram: &Histogram,
) -> fmt::Result {
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
    let unit = Some(&Unit::Seconds);
    let mut encoder = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
    encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
}
