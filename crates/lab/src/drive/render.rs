//! A configuration as keys and values of a drive file: for `show`, and to write drive files
//! from configurations that came from elsewhere.

use std::fmt::Write;

use mynah_model::config::{
    Arbitration, Caching, CellType, CollectionUnit, Config, Fault, FaultExtent, LinkProtocol,
    MappingScheme, MappingTable, MediaOperation, Namespace, PageTimes, RowPolicy, VictimPolicy,
    WriteBack, WriteFrontiers,
};
use mynah_stamp::{Span, Time};

use super::lower::{MAX_UNITS, print_order};
use super::schema::{
    BusArbitrationName, CacheModeName, CacheSharingName, CellName, CollectionUnitName,
    GranularityName, PlacementName, PrecedenceName, RoundingName, SharingName, TrafficName,
    UnmappedReadsName,
};
use crate::units::{Bandwidth, Bytes, Duration, Energy, Fraction, Power, TransferRate};

/// A key of a drive file and its value as TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// Dotted path; elements of arrays are numbered.
    pub(super) path: String,
    /// As TOML writes it, quotes included.
    pub(super) value: String,
}

pub(super) fn quoted(value: impl std::fmt::Display) -> String {
    toml::Value::String(value.to_string()).to_string()
}

fn span(value: Span) -> String {
    quoted(Duration(value))
}

pub(super) fn bytes(value: u64) -> String {
    quoted(Bytes(value))
}

fn page_times(cell: CellType, times: PageTimes) -> String {
    let PageTimes { lsb, csb, msb, fourth, fifth } = times;
    let named: &[(&str, Span)] = match cell {
        CellType::Slc => &[("lsb", lsb)],
        CellType::Mlc => &[("lsb", lsb), ("msb", msb)],
        CellType::Tlc => &[("lsb", lsb), ("csb", csb), ("msb", msb)],
        CellType::Qlc => &[("lsb", lsb), ("csb", csb), ("msb", msb), ("fourth", fourth)],
        CellType::Plc => {
            &[("lsb", lsb), ("csb", csb), ("msb", msb), ("fourth", fourth), ("fifth", fifth)]
        }
    };
    if named.iter().all(|&(_, time)| time == lsb) {
        return span(lsb);
    }
    let each: Vec<String> =
        named.iter().map(|&(name, time)| format!("{name} = {}", span(time))).collect();
    format!("{{ {} }}", each.join(", "))
}

/// Every setting of `config`, in the order of a drive file.
pub(super) fn settings(config: &Config) -> Vec<Setting> {
    let mut all = Vec::new();
    let mut put = |path: &str, value: String| {
        all.push(Setting { path: path.to_owned(), value });
    };
    put("over_provisioning", quoted(Fraction(config.over_provisioning)));
    put("seed", config.seed.to_string());

    let g = &config.geometry;
    put("geometry.channels", g.channels.to_string());
    put("geometry.chips_per_channel", g.chips_per_channel.to_string());
    put("geometry.dies_per_chip", g.dies_per_chip.to_string());
    put("geometry.planes_per_die", g.planes_per_die.to_string());
    put("geometry.blocks_per_plane", g.blocks_per_plane.to_string());
    put("geometry.pages_per_block", g.pages_per_block.to_string());
    put("geometry.page_size", bytes(g.page_bytes.into()));
    put("geometry.page_spare", bytes(g.page_spare_bytes.into()));

    let f = &config.flash;
    put("flash.cell", quoted(CellName::from(f.cell).text()));
    put("flash.read", page_times(f.cell, f.read));
    put("flash.program", page_times(f.cell, f.program));
    if f.rewritable {
        put("flash.rewritable", "true".to_owned());
    } else {
        put("flash.erase", span(f.erase));
    }
    if f.one_shot {
        put("flash.one_shot", "true".to_owned());
    }
    put("flash.read_ready_delay", span(f.read_ready_delay));

    let b = &config.bus;
    put("bus.width_bits", (b.width_bytes * 8).to_string());
    put("bus.rate", quoted(TransferRate(b.rate_mts)));
    put("bus.rounding", quoted(RoundingName::from(b.rounding).text()));
    put("bus.transfer_spare", b.transfer_spare.to_string());
    put("bus.arbitration", quoted(BusArbitrationName::from(b.arbitration).text()));
    let c = &b.cycles;
    put("bus.cycles.t_cs", span(c.t_cs));
    put("bus.cycles.t_wc", span(c.t_wc));
    put("bus.cycles.t_wb", span(c.t_wb));
    put("bus.cycles.t_rr", span(c.t_rr));
    put("bus.cycles.t_adl", span(c.t_adl));
    put("bus.cycles.t_dbsy", span(c.t_dbsy));
    put("bus.cycles.t_cals", span(c.t_cals));
    put("bus.cycles.t_wpst", span(c.t_wpst));
    put("bus.cycles.t_wpsth", span(c.t_wpsth));

    let l = &config.link;
    if l.protocol == LinkProtocol::Sata {
        put("link.protocol", quoted("sata"));
        // 150 MB/s and its doubles.
        put("link.generation", ((l.bytes_per_s / 150_000_000).max(1).ilog2() + 1).to_string());
        put("link.packet_overhead", bytes(l.packet_overhead_bytes.into()));
    } else {
        put("link.bandwidth", quoted(Bandwidth(l.bytes_per_s)));
        put("link.lanes", l.lanes.to_string());
        put("link.max_payload", bytes(l.max_payload_bytes.into()));
        put("link.packet_overhead", bytes(l.packet_overhead_bytes.into()));
        put("link.submission_entry", bytes(l.submission_entry_bytes.into()));
        put("link.fetch_prp_lists", l.fetch_prp_lists.to_string());
    }
    put("link.stream_data", l.stream_data.to_string());
    put("link.interrupt", span(l.interrupt));
    put("link.adapter", span(l.adapter));
    if l.protocol == LinkProtocol::Pcie {
        let rounding = if l.truncate_ns { RoundingName::TruncatedNs } else { RoundingName::Exact };
        put("link.rounding", quoted(rounding.text()));
    }

    let q = &config.queues;
    put("queues.fetch_size", q.fetch_size.to_string());
    put("queues.entries", q.entries.to_string());
    if let Arbitration::Weighted(weights) = q.arbitration {
        put("queues.arbitration", quoted("weighted"));
        put("queues.high_weight", weights.high.to_string());
        put("queues.medium_weight", weights.medium.to_string());
        put("queues.low_weight", weights.low.to_string());
    }
    put("queues.arbitration_burst", q.arbitration_burst.to_string());
    put("queues.command_slots", q.command_slots.to_string());

    let w = &config.firmware;
    if [w.read, w.write, w.trim, w.flush].iter().any(|cost| !cost.is_zero()) {
        put("firmware.cores", w.cores.to_string());
    }
    put("firmware.read", span(w.read));
    put("firmware.write", span(w.write));
    put("firmware.trim", span(w.trim));
    put("firmware.flush", span(w.flush));

    match &config.cache {
        None => put("cache.size", bytes(0)),
        Some(cache) => {
            put("cache.size", bytes(cache.bytes));
            put("cache.mode", quoted(CacheModeName::from(cache.mode).text()));
            put("cache.sharing", quoted(CacheSharingName::from(cache.sharing).text()));
            if cache.mode.writes() {
                let protected = cache.power_loss_protection.to_string();
                put("cache.power_loss_protection", protected);
            }
            match cache.write_back {
                _ if !cache.mode.writes() => {}
                WriteBack::Eager => {
                    put("cache.write_back", quoted("eager"));
                    if let Some(most) = cache.write_back_max {
                        put("cache.write_back_max", bytes(most));
                    }
                }
                WriteBack::Lru { high } => {
                    put("cache.write_back", quoted("lru"));
                    put("cache.high", quoted(Fraction(high)));
                }
            }
            let d = &cache.dram;
            put("cache.dram.row", bytes(d.row_bytes.into()));
            put("cache.dram.width_bits", (d.width_bytes * 8).to_string());
            put("cache.dram.rate", quoted(TransferRate(d.rate_mts)));
            put("cache.dram.burst_length", d.burst_length.to_string());
            match d.rows {
                RowPolicy::Closed => put("cache.dram.rows", quoted("closed")),
                RowPolicy::Open { banks } => {
                    put("cache.dram.rows", quoted("open"));
                    put("cache.dram.banks", banks.to_string());
                }
            }
            put("cache.dram.traffic", quoted(TrafficName::from(d.traffic).text()));
            put("cache.dram.t_rcd", span(d.t_rcd));
            put("cache.dram.t_cl", span(d.t_cl));
            put("cache.dram.t_rp", span(d.t_rp));
        }
    }

    let m = &config.mapping;
    put("mapping.unit", bytes(m.unit_bytes.into()));
    let hybrid = match m.scheme {
        MappingScheme::Page => {
            put("mapping.kind", quoted("page"));
            let table = if matches!(m.table, MappingTable::Ideal) { "ideal" } else { "cached" };
            put("mapping.table", quoted(table));
            false
        }
        MappingScheme::Hybrid { log_blocks } => {
            put("mapping.kind", quoted("hybrid"));
            put("mapping.log_blocks", log_blocks.to_string());
            true
        }
    };
    if !config.flash.rewritable && !hybrid {
        put("mapping.unmapped_reads", quoted(UnmappedReadsName::from(m.unmapped_reads).text()));
    }
    if let MappingTable::Cached(cmt) = &m.table {
        let granularity = GranularityName::from(cmt.granularity);
        put("mapping.cmt.size", bytes(cmt.bytes));
        put("mapping.cmt.granularity", quoted(granularity.text()));
        put("mapping.cmt.sharing", quoted(SharingName::from(cmt.sharing).text()));
        if let Some(entry) = cmt.entry_bytes {
            put("mapping.cmt.entry", bytes(entry.into()));
        }
        if let Some(entry) = cmt.translation_entry_bytes {
            put("mapping.cmt.translation_entry", bytes(entry.into()));
        }
        if granularity == GranularityName::Entry {
            put("mapping.cmt.load", bytes(cmt.load_bytes.into()));
        }
        put("mapping.cmt.write_back", cmt.write_back.to_string());
    }

    put("allocation.order", quoted(print_order(config.plane_order)));
    put("allocation.placement", quoted(PlacementName::from(config.placement).text()));

    if hybrid {
        put("gc.preemptible", config.gc.preemptible.to_string());
        // Left out where it is the default, as drives described before it was there have it.
        if config.gc.copyback {
            put("gc.copyback", config.gc.copyback.to_string());
        }
    } else if !f.rewritable {
        let gc = &config.gc;
        match gc.victim {
            VictimPolicy::Greedy => put("gc.victim", quoted("greedy")),
            VictimPolicy::DChoices { d } => {
                put("gc.victim", quoted("d-choices"));
                put("gc.d", d.to_string());
            }
            VictimPolicy::Random => put("gc.victim", quoted("random")),
            VictimPolicy::RandomP { pages } => {
                put("gc.victim", quoted("random-p"));
                put("gc.invalid_pages", pages.to_string());
            }
            VictimPolicy::RandomPlusPlus => put("gc.victim", quoted("random++")),
            VictimPolicy::Fifo => put("gc.victim", quoted("fifo")),
            VictimPolicy::CostBenefit => put("gc.victim", quoted("cost-benefit")),
        }
        // Left out where it is the default, as drives described before it was there have it.
        if gc.unit != CollectionUnit::Block {
            put("gc.unit", quoted(CollectionUnitName::from(gc.unit).text()));
        }
        put("gc.start", quoted(Fraction(gc.start)));
        put("gc.urgent", quoted(Fraction(gc.urgent)));
        put("gc.preemptible", gc.preemptible.to_string());
        put("gc.copyback", gc.copyback.to_string());
        put("gc.paced", gc.paced.to_string());
        put("gc.reserve_blocks", gc.reserve_blocks.to_string());
        match gc.frontiers {
            WriteFrontiers::One => put("gc.write_frontiers", quoted("one")),
            WriteFrontiers::Separate => put("gc.write_frontiers", quoted("separate")),
            WriteFrontiers::HotCold(hot) => {
                put("gc.write_frontiers", quoted("hot-cold"));
                if let Some(counters) = hot.counters {
                    put("gc.hot.counters", counters.to_string());
                }
                if let Some(decay) = hot.decay {
                    put("gc.hot.decay", decay.to_string());
                }
                put("gc.hot.threshold", hot.threshold.to_string());
            }
        }
        if let Some(after) = gc.idle_after {
            put("gc.idle_after", span(after));
            put("gc.idle_target", quoted(Fraction(gc.idle_target)));
        }
    }

    let w = &config.wear;
    put("wear.dynamic", w.dynamic.to_string());
    if let Some(threshold) = w.static_threshold {
        put("wear.static_threshold", threshold.to_string());
    }
    put("wear.initial_cycles", w.initial.to_string());
    if let Some(endurance) = w.endurance {
        put("wear.endurance", endurance.to_string());
        put("wear.endurance_deviation", quoted(Fraction(w.endurance_deviation)));
    }
    if let Some(reads) = &w.reads {
        let list = |points: Vec<String>| format!("[{}]", points.join(", "));
        if !reads.retries.is_empty() {
            let point =
                |(cycles, mean): &(u32, f64)| format!("{{ cycles = {cycles}, mean = {mean:?} }}");
            put("wear.retries", list(reads.retries.iter().map(point).collect()));
            put("wear.retry", span(reads.retry));
        }
        if !reads.decode.is_empty() {
            let point = |(cycles, time): &(u32, Span)| {
                format!("{{ cycles = {cycles}, time = {} }}", span(*time))
            };
            put("wear.decode", list(reads.decode.iter().map(point).collect()));
        }
    }
    if let Some(energy) = &config.energy {
        let joules = |nj: u64| quoted(Energy(nj));
        let watts = |mw: u64| quoted(Power(mw));
        put("energy.read", joules(energy.read_nj));
        put("energy.program", joules(energy.program_nj));
        put("energy.erase", joules(energy.erase_nj));
        put("energy.channel", watts(energy.channel_mw));
        put("energy.idle", watts(energy.idle_mw));
    }

    let s = &config.scheduler;
    put("scheduler.die_interleaving", s.die_interleaving.to_string());
    put("scheduler.multi_plane", s.multi_plane.to_string());
    if s.multi_plane && g.planes_per_die > 1 {
        put("scheduler.multi_plane_window", s.multi_plane_window.to_string());
    }
    put("scheduler.priority_classes", s.priority_classes.to_string());
    if s.flin.is_none() {
        put("scheduler.precedence", quoted(PrecedenceName::from(s.precedence).text()));
    }
    if let Some(deadline) = s.write_deadline {
        put("scheduler.write_deadline", span(deadline));
    }
    put("scheduler.cache_program", s.cache_program.to_string());
    for (section, suspension) in
        [("suspend_program", s.suspend_program), ("suspend_erase", s.suspend_erase)]
    {
        if let Some(suspension) = suspension {
            let path = |key: &str| format!("scheduler.{section}.{key}");
            put(&path("latency"), span(suspension.latency));
            put(&path("resume"), span(suspension.resume));
            put(&path("least_left"), span(suspension.least_left));
            put(&path("limit"), suspension.limit.to_string());
            put(&path("longest"), span(suspension.longest));
        }
    }
    if let Some(least) = s.suspend_erase_for_writes {
        put("scheduler.suspend_erase.for_writes", span(least));
    }
    if let Some(flin) = s.flin {
        put("scheduler.flin.epoch", span(flin.epoch));
        put("scheduler.flin.read_threshold", quoted(Bandwidth(flin.read_bytes_per_s)));
        put("scheduler.flin.write_threshold", quoted(Bandwidth(flin.write_bytes_per_s)));
        put("scheduler.flin.fairness", quoted(Fraction(flin.fairness)));
        if config.gc.preemptible && !hybrid && !f.rewritable {
            put("scheduler.flin.divides_collection", flin.divides_collection.to_string());
        }
    }

    if config.namespaces != [Namespace::whole_drive()] {
        for (index, namespace) in config.namespaces.iter().enumerate() {
            let path = |key: &str| format!("namespace.{index}.{key}");
            if let Some(units) = namespace.units {
                put(&path("size"), bytes(units * u64::from(m.unit_bytes)));
            }
            put(&path("channels"), format!("{:?}", namespace.channels));
            put(&path("chips"), format!("{:?}", namespace.chips));
            put(&path("dies"), format!("{:?}", namespace.dies));
            put(&path("planes"), format!("{:?}", namespace.planes));
            if let Caching::Only(only) = namespace.caching {
                let only = only.map_or("off", |mode| CacheModeName::from(mode).text());
                put(&path("cache"), quoted(only));
            }
        }
    }
    for (index, fault) in config.faults.iter().enumerate() {
        for (key, value) in fault_settings(fault) {
            put(&format!("fault.{index}.{key}"), value);
        }
    }
    all
}

fn fault_settings(fault: &Fault) -> Vec<(&'static str, String)> {
    let after = |at: Time| span(Span::from_ps(at.as_ps()));
    match *fault {
        Fault::Media { operation, extent } => {
            let kind = match operation {
                MediaOperation::Read => "read-error",
                MediaOperation::Program => "program-error",
                MediaOperation::Erase => "erase-error",
            };
            let kind = ("kind", quoted(kind));
            match extent {
                FaultExtent::Rate(rate) => vec![kind, ("rate", quoted(Fraction(rate)))],
                FaultExtent::Units { namespace, first, last } => vec![
                    kind,
                    ("units", quoted(format!("{first}-{last}"))),
                    ("namespace", namespace.to_string()),
                ],
            }
        }
        Fault::SlowDie { die, factor } => {
            vec![("kind", quoted("slow-die")), ("die", die.to_string()), ("factor", quoted(factor))]
        }
        Fault::DeadDie { die, at } => {
            vec![("kind", quoted("dead-die")), ("die", die.to_string()), ("at", after(at))]
        }
        Fault::PowerCut { at, recovery } => {
            vec![("kind", quoted("power-cut")), ("at", after(at)), ("recovery", span(recovery))]
        }
    }
}

/// Writes a drive file that loads as `config`, for configurations that came from elsewhere.
/// `sources` are pairs of a key or section and where its numbers come from.
///
/// What drive files cannot say (a submission queue entry of less than 64 bytes, say) is
/// refused when the file is loaded, not here.
pub fn to_toml(name: &str, description: &str, config: &Config, sources: &[(&str, &str)]) -> String {
    let mut text = String::from("schema = \"mynah.drive/1\"\n");
    let _ = writeln!(text, "name = {}", quoted(name));
    if !description.is_empty() {
        let _ = writeln!(text, "description = {}", quoted(description));
    }
    let mut section = "";
    let settings = settings(config);
    for Setting { path, value } in &settings {
        let (own, key) = path.rsplit_once('.').unwrap_or(("", path));
        if own != section {
            let _ = match own.split_once('.') {
                Some((array @ ("namespace" | "fault"), _)) => writeln!(text, "\n[[{array}]]"),
                _ => writeln!(text, "\n[{own}]"),
            };
            section = own;
        }
        let _ = writeln!(text, "{key} = {value}");
    }
    if !sources.is_empty() {
        text.push_str("\n[sources]\n");
        for (key, source) in sources {
            let _ = writeln!(text, "{} = {}", quoted(key), quoted(source));
        }
    }
    text
}

/// Facts that follow from the configuration, as pairs of a name and a value.
pub(super) fn derived(config: &Config) -> Vec<(&'static str, String)> {
    let geometry = &config.geometry;
    let raw = geometry.raw_bytes();
    let unit = u64::from(config.mapping.unit_bytes);
    let user_units = ((raw / unit) as f64 * (1.0 - config.over_provisioning)) as u64;
    let user = user_units * unit;
    let size = |bytes: u64| {
        format!(
            "{} ({:.1} GiB)",
            super::lower::approximate(u128::from(bytes)),
            bytes as f64 / (1u64 << 30) as f64
        )
    };
    let channel = u64::from(config.bus.rate_mts) * 1_000_000 * u64::from(config.bus.width_bytes);
    let payload = u64::from(config.link.max_payload_bytes);
    let packet = payload + u64::from(config.link.packet_overhead_bytes);
    let link = u128::from(config.link.bytes_per_s) * u128::from(payload) / u128::from(packet);
    let rate = |bytes: u128| format!("{}/s", super::lower::approximate(bytes));
    vec![
        ("raw capacity", size(raw)),
        ("user capacity", size(user)),
        (
            "spare over user capacity",
            format!("{:.1}%", (raw as f64 / user.max(1) as f64 - 1.0) * 100.0),
        ),
        (
            "mapping units",
            format!(
                "{} ({:.2}% of the model's limit)",
                raw / unit,
                (raw / unit) as f64 / MAX_UNITS as f64 * 100.0
            ),
        ),
        (
            "dies, planes, blocks",
            format!(
                "{}, {}, {}",
                geometry.dies(),
                geometry.planes(),
                u64::from(geometry.planes()) * u64::from(geometry.blocks_per_plane)
            ),
        ),
        (
            "peak bandwidth of a channel",
            format!(
                "{}, {} in all",
                rate(channel.into()),
                rate(u128::from(channel) * u128::from(geometry.channels))
            ),
        ),
        ("peak payload of the link", format!("{} in each direction", rate(link))),
    ]
}
