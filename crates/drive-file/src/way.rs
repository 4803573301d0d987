//! The way of a command to an Ethernet drive, drawn, and what each resource allows: the next
//! bottleneck at a glance.

use crate::units::{BitRate, Bytes, Duration};
use mynah_model::ceilings::{Asked, ceilings};
use mynah_model::config::{CellType, Config, Cost, Ethernet, Framing, PageTimes, TargetLayer};
use mynah_stamp::Span;
use std::fmt::Write;

/// What the table is of: writes or not, bytes, its heading.
const ASKED: [(bool, u32, &str); 4] = [
    (false, 4096, "4KiB read"),
    (true, 4096, "4KiB write"),
    (false, 131_072, "128KiB read"),
    (true, 131_072, "128KiB write"),
];

/// The drawing and the table, for drives with an Ethernet link.
pub(super) fn show(config: &Config) -> Option<String> {
    let ethernet = config.ethernet.as_ref()?;
    let mut out = String::from("the way of a command\n");
    for (number, (name, costs)) in stations(ethernet).into_iter().enumerate() {
        let arrow = if number == 0 { "  " } else { "  ─▶ " };
        let width = 16 - arrow.chars().count();
        let line = format!("{arrow}{name:<width$} {costs}");
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out.push('\n');
    out.push_str(&table(config));
    Some(out)
}

/// What a command passes, and what each costs.
fn stations(ethernet: &Ethernet) -> Vec<(&'static str, String)> {
    let framing = match ethernet.framing {
        Framing::RoceV2 { rdma_reads, .. } => {
            format!("RoCEv2, {rdma_reads} RDMA READs a queue pair")
        }
        Framing::Tcp { .. } => "NVMe/TCP".to_owned(),
    };
    let mut wire = format!(
        "{} x {}, {framing}, MTU {}, {} within a command",
        ethernet.ports,
        BitRate(ethernet.rate_bits_per_s),
        Bytes(ethernet.mtu_bytes.into()),
        Bytes(ethernet.in_capsule_bytes.into()),
    );
    if !ethernet.gap.is_zero() {
        let _ = write!(wire, ", {} behind each packet", Duration(ethernet.gap));
    }
    let mut all = vec![("host", String::new()), ("wire", wire)];
    let nic = &ethernet.nic;
    if !(nic.receive + nic.transmit + nic.message).is_zero() {
        let how = if nic.serial { "before or after the wire" } else { "beside the wire" };
        let times = [nic.receive, nic.transmit, nic.message].map(Duration);
        let [receive, transmit, message] = times;
        let costs =
            format!("{receive} a packet in, {transmit} a packet out, {message} a message, {how}");
        all.push(("nic", costs));
    }
    if let Some(axi) = &ethernet.axi {
        let bits = axi.width_bytes * 8;
        let clock = crate::units::Frequency(axi.clock_hz);
        all.push(("axi", format!("{bits} bit x {clock}, shared with the flash")));
    }
    let target = &ethernet.target;
    for (layer, costs) in TargetLayer::ALL.into_iter().zip(&target.layers) {
        let text = match costs {
            None => "bypassed".to_owned(),
            Some(layer) => {
                let who = match (layer.merged, layer.engines, target.cores) {
                    (true, ..) => "with the layer before".to_owned(),
                    (_, Some(1), _) | (_, None, None) => "1 engine".to_owned(),
                    (_, Some(engines), _) => format!("{engines} engines"),
                    (_, None, Some(1)) => "the core".to_owned(),
                    (_, None, Some(cores)) => format!("the {cores} cores"),
                };
                format!("{} in, {} out, {who}", cost(&layer.input), cost(&layer.output))
            }
        };
        all.push((layer.name(), text));
    }
    all.push(("drive", "controller, cache, flash".to_owned()));
    all
}

/// What a layer costs, in few words.
fn cost(cost: &Cost) -> String {
    // To the nearest nanosecond.
    let near = |span: Span| Span::from_ns((span.as_ps() + 500) / 1000);
    let shown = |bytes| Duration(near(cost.of(bytes))).to_string();
    match (shown(4096), shown(131_072)) {
        (small, large) if small == large => small,
        (small, large) => format!("{small} (4KiB), {large} (128KiB)"),
    }
}

/// What each resource allows, in commands a second; the least of each column is marked.
fn table(config: &Config) -> String {
    let mut rows: Vec<(String, [Option<f64>; 4])> = vec![];
    for (column, &(writes, bytes, _)) in ASKED.iter().enumerate() {
        let link = ceilings(config, Asked { writes, bytes });
        let link = link.into_iter().map(|it| (it.resource.clone(), it.per_s()));
        for (name, per_s) in link.chain(flash(config, writes, bytes)) {
            let at = match rows.iter().position(|row| row.0 == name) {
                Some(at) => at,
                None => {
                    rows.push((name, [None; 4]));
                    rows.len() - 1
                }
            };
            rows[at].1[column] = Some(per_s);
        }
    }
    let least: [f64; 4] = std::array::from_fn(|column| {
        rows.iter().filter_map(|row| row.1[column]).fold(f64::INFINITY, f64::min)
    });
    let width = rows.iter().map(|row| row.0.len()).max().unwrap_or(0);
    let mut out = format!("{:<width$}", "at most, a second");
    for (_, _, heading) in ASKED {
        let _ = write!(out, " {heading:>13}");
    }
    out.push('\n');
    for (name, values) in rows {
        let _ = write!(out, "{name:<width$}");
        for (column, value) in values.into_iter().enumerate() {
            let text = value.map_or_else(
                || "-".to_owned(),
                |value| {
                    let mark = if value <= least[column] { "▶ " } else { "" };
                    format!("{mark}{}", count(value))
                },
            );
            let _ = write!(out, " {text:>13}");
        }
        out.push('\n');
    }
    out
}

/// Three digits.
fn count(per_s: f64) -> String {
    let (value, unit) = match per_s {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$}{unit}")
}

/// What dies and channels allow, without the commands on the channels and without collection.
fn flash(config: &Config, writes: bool, bytes: u32) -> [(String, f64); 2] {
    let geometry = &config.geometry;
    let page = f64::from(geometry.page_bytes);
    let pages = if writes { f64::from(bytes) / page } else { (f64::from(bytes) / page).max(1.0) };
    let time =
        mean(config.flash.cell, if writes { config.flash.program } else { config.flash.read });
    let planes = if writes { f64::from(geometry.planes_per_die) } else { 1.0 };
    let dies = f64::from(geometry.dies()) * planes / (pages * time.as_secs_f64());
    let spare = f64::from(geometry.page_spare_bytes) / page;
    let spare = if config.bus.transfer_spare { 1.0 + spare } else { 1.0 };
    let rate = f64::from(config.bus.rate_mts) * 1e6 * f64::from(config.bus.width_bytes);
    let channels = f64::from(geometry.channels) * rate / (f64::from(bytes) * spare);
    [("dies, without collection".to_owned(), dies), ("flash channels".to_owned(), channels)]
}

fn mean(cell: CellType, times: PageTimes) -> Span {
    let PageTimes { lsb, csb, msb, fourth, fifth } = times;
    let all: &[Span] = match cell {
        CellType::Slc => &[lsb],
        CellType::Mlc => &[lsb, msb],
        CellType::Tlc => &[lsb, csb, msb],
        CellType::Qlc => &[lsb, csb, msb, fourth],
        CellType::Plc => &[lsb, csb, msb, fourth, fifth],
    };
    let sum: Span = all.iter().copied().sum();
    Span::from_ps(sum.as_ps() / all.len() as u64)
}
