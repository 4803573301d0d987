//! Every setting of a configuration, as key and value of a drive file.

use mynah_model::config::{
    Arbitration, AxiCounting, Bus, CachedTable, Caching, CellType, CollectionUnit, Config, Cost,
    DataCache, Dram, Energy as EnergyModel, Ethernet, Fault, FaultExtent, Firmware, FlashTiming,
    Framing, Gc, Geometry, KeyIndexKind, KeyTime, KeyValue, Link, LinkProtocol, MappingScheme,
    MappingTable, MediaOperation, Namespace, NamespaceKind, PageTimes, Queues, RowPolicy,
    Scheduler, TargetLayer, VictimPolicy, Wear, WornReads, WriteBack, WriteFrontiers,
};
use mynah_stamp::{Span, Time};

use crate::lower::print_order;
use crate::schema::{
    BusArbitrationName, CacheModeName, CacheSharingName, CellName, CollectionUnitName,
    GranularityName, NamespaceKindName, PlacementName, PrecedenceName, RoundingName, SharingName,
    TrafficName, UnmappedReadsName,
};
use crate::units::{
    Bandwidth, BitRate, Bytes, Duration, Energy, Fraction, Frequency, Power, TransferRate,
};

/// A key of a drive file and its value as TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Dotted path; elements of arrays are numbered.
    pub(crate) path: String,
    /// As TOML writes it, quotes included.
    pub(crate) value: String,
}

pub(crate) fn quoted(value: impl std::fmt::Display) -> String {
    toml::Value::String(value.to_string()).to_string()
}

fn span(value: Span) -> String {
    quoted(Duration(value))
}

pub(crate) fn bytes(value: u64) -> String {
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

/// The settings so far, in the order of a drive file.
struct Settings(Vec<Setting>);

impl Settings {
    fn put(&mut self, path: &str, value: String) {
        self.0.push(Setting { path: path.to_owned(), value });
    }
}

/// Every setting of `config`, in the order of a drive file.
pub(crate) fn settings(config: &Config) -> Vec<Setting> {
    let mut all = Settings(Vec::new());
    all.put("over_provisioning", quoted(Fraction(config.over_provisioning)));
    all.put("seed", config.seed.to_string());
    geometry(&mut all, &config.geometry);
    flash_timing(&mut all, &config.flash);
    bus(&mut all, &config.bus);
    match &config.ethernet {
        Some(link) => {
            ethernet(&mut all, link);
            all.put("queues.entries", config.queues.entries.to_string());
        }
        None => {
            link(&mut all, &config.link);
            queues(&mut all, &config.queues);
        }
    }
    firmware(&mut all, &config.firmware);
    match &config.cache {
        None => all.put("cache.size", bytes(0)),
        Some(cache) => data_cache(&mut all, cache),
    }
    mapping(&mut all, config);
    all.put("allocation.order", quoted(print_order(config.plane_order)));
    all.put("allocation.placement", quoted(PlacementName::from(config.placement).text()));
    if is_hybrid(config) {
        collection_for_merges(&mut all, &config.gc);
    } else if is_page_mapped_flash(config) {
        collection(&mut all, &config.gc);
    }
    wear(&mut all, &config.wear);
    if let Some(model) = &config.energy {
        energy(&mut all, model);
    }
    scheduler(&mut all, config);
    suspension(&mut all, &config.scheduler);
    flin(&mut all, config);
    if let Some(kv) = &config.key_value {
        key_value(&mut all, kv);
    }
    namespaces(&mut all, config);
    for (index, fault) in config.faults.iter().enumerate() {
        for (key, value) in fault_settings(fault) {
            all.put(&format!("fault.{index}.{key}"), value);
        }
    }
    all.0
}

fn is_hybrid(config: &Config) -> bool {
    matches!(config.mapping.scheme, MappingScheme::Hybrid { .. })
}

/// Whether each page is mapped by itself, and blocks are collected as `[gc]` has it.
fn is_page_mapped_flash(config: &Config) -> bool {
    !config.flash.rewritable && !is_hybrid(config)
}

fn geometry(all: &mut Settings, g: &Geometry) {
    all.put("geometry.channels", g.channels.to_string());
    all.put("geometry.chips_per_channel", g.chips_per_channel.to_string());
    all.put("geometry.dies_per_chip", g.dies_per_chip.to_string());
    all.put("geometry.planes_per_die", g.planes_per_die.to_string());
    all.put("geometry.blocks_per_plane", g.blocks_per_plane.to_string());
    all.put("geometry.pages_per_block", g.pages_per_block.to_string());
    all.put("geometry.page_size", bytes(g.page_bytes.into()));
    all.put("geometry.page_spare", bytes(g.page_spare_bytes.into()));
}

fn flash_timing(all: &mut Settings, f: &FlashTiming) {
    all.put("flash.cell", quoted(CellName::from(f.cell).text()));
    all.put("flash.read", page_times(f.cell, f.read));
    all.put("flash.program", page_times(f.cell, f.program));
    if f.rewritable {
        all.put("flash.rewritable", "true".to_owned());
    } else {
        all.put("flash.erase", span(f.erase));
    }
    if f.one_shot {
        all.put("flash.one_shot", "true".to_owned());
    }
    all.put("flash.read_ready_delay", span(f.read_ready_delay));
}

fn bus(all: &mut Settings, b: &Bus) {
    all.put("bus.width_bits", (b.width_bytes * 8).to_string());
    all.put("bus.rate", quoted(TransferRate(b.rate_mts)));
    all.put("bus.rounding", quoted(RoundingName::from(b.rounding).text()));
    all.put("bus.transfer_spare", b.transfer_spare.to_string());
    all.put("bus.arbitration", quoted(BusArbitrationName::from(b.arbitration).text()));
    let c = &b.cycles;
    all.put("bus.cycles.t_cs", span(c.t_cs));
    all.put("bus.cycles.t_wc", span(c.t_wc));
    all.put("bus.cycles.t_wb", span(c.t_wb));
    all.put("bus.cycles.t_rr", span(c.t_rr));
    all.put("bus.cycles.t_adl", span(c.t_adl));
    all.put("bus.cycles.t_dbsy", span(c.t_dbsy));
    all.put("bus.cycles.t_cals", span(c.t_cals));
    all.put("bus.cycles.t_wpst", span(c.t_wpst));
    all.put("bus.cycles.t_wpsth", span(c.t_wpsth));
}

fn ethernet(all: &mut Settings, l: &Ethernet) {
    all.put("link.protocol", quoted("ethernet"));
    all.put("link.rate", quoted(BitRate(l.rate_bits_per_s)));
    all.put("link.ports", l.ports.to_string());
    all.put("link.mtu", bytes(l.mtu_bytes.into()));
    all.put("link.vlan", l.vlan.to_string());
    all.put("link.ipv6", l.ipv6.to_string());
    match l.framing {
        Framing::RoceV2 { acks, invalidate, rdma_reads } => {
            all.put("link.framing", quoted("rocev2"));
            all.put("link.acks", acks.to_string());
            all.put("link.invalidate", invalidate.to_string());
            all.put("link.rdma_reads", rdma_reads.to_string());
        }
        Framing::Tcp { success_flag } => {
            all.put("link.framing", quoted("tcp"));
            all.put("link.success_flag", success_flag.to_string());
        }
    }
    all.put("link.in_capsule", bytes(l.in_capsule_bytes.into()));
    all.put("link.burst", bytes(l.burst_bytes.into()));
    all.put("link.max_transfer", bytes(l.max_transfer_bytes.into()));
    all.put("link.gap", span(l.gap));
    all.put("link.nic.receive", span(l.nic.receive));
    all.put("link.nic.transmit", span(l.nic.transmit));
    all.put("link.nic.message", span(l.nic.message));
    if l.nic.receive + l.nic.transmit + l.nic.message > Span::ZERO {
        let how = if l.nic.serial { "serial" } else { "overlapped" };
        all.put("link.nic.pipelining", quoted(how));
    }
    if let Some(axi) = &l.axi {
        all.put("link.axi.width_bits", (axi.width_bytes * 8).to_string());
        all.put("link.axi.clock", quoted(Frequency(axi.clock_hz)));
        match axi.counting {
            AxiCounting::SimpleSsd => all.put("link.axi.counting", quoted("simplessd")),
            AxiCounting::Bursts { beats, boundary_bytes, setup } => {
                all.put("link.axi.counting", quoted("bursts"));
                all.put("link.axi.beats", beats.to_string());
                all.put("link.axi.boundary", bytes(boundary_bytes.unwrap_or(0).into()));
                all.put("link.axi.setup", span(setup));
            }
        }
        all.put("link.axi.arbitration", span(axi.arbitration));
    }
    let t = &l.target;
    let counts = [
        ("cores", t.cores),
        ("receive_buffers", t.receive_buffers),
        ("data_buffers", t.data_buffers),
    ];
    for (key, count) in counts {
        if let Some(count) = count {
            all.put(&format!("link.target.{key}"), count.to_string());
        }
    }
    for (layer, config) in TargetLayer::ALL.into_iter().zip(&t.layers) {
        let Some(config) = config else { continue };
        let put = |all: &mut Settings, key: &str, value: String| {
            all.put(&format!("link.target.{}.{key}", layer.name()), value);
        };
        put(all, "in", cost(&config.input));
        put(all, "out", cost(&config.output));
        if let Some(engines) = config.engines {
            put(all, "engines", engines.to_string());
        }
        if config.merged {
            put(all, "merge", "true".to_owned());
        }
    }
}

/// What a layer costs, as it is written.
fn cost(cost: &Cost) -> String {
    match cost {
        Cost::Affine { fixed, per_byte } if per_byte.is_zero() => span(*fixed),
        Cost::Affine { fixed, per_byte } => {
            format!("{{ fixed = {}, per_byte = {} }}", span(*fixed), span(*per_byte))
        }
        Cost::Table(table) => {
            let sizes: Vec<_> = table.iter().map(|&(size, _)| size.to_string()).collect();
            let times: Vec<_> = table.iter().map(|&(_, time)| span(time)).collect();
            format!("{{ bytes = [{}], times = [{}] }}", sizes.join(", "), times.join(", "))
        }
    }
}

fn link(all: &mut Settings, l: &Link) {
    if l.protocol == LinkProtocol::Sata {
        all.put("link.protocol", quoted("sata"));
        // 150 MB/s and its doubles.
        all.put("link.generation", ((l.bytes_per_s / 150_000_000).max(1).ilog2() + 1).to_string());
        all.put("link.packet_overhead", bytes(l.packet_overhead_bytes.into()));
    } else {
        all.put("link.bandwidth", quoted(Bandwidth(l.bytes_per_s)));
        all.put("link.lanes", l.lanes.to_string());
        all.put("link.max_payload", bytes(l.max_payload_bytes.into()));
        all.put("link.packet_overhead", bytes(l.packet_overhead_bytes.into()));
        all.put("link.submission_entry", bytes(l.submission_entry_bytes.into()));
        all.put("link.fetch_prp_lists", l.fetch_prp_lists.to_string());
    }
    all.put("link.stream_data", l.stream_data.to_string());
    all.put("link.interrupt", span(l.interrupt));
    all.put("link.adapter", span(l.adapter));
    if l.protocol == LinkProtocol::Pcie {
        let rounding = if l.truncate_ns { RoundingName::TruncatedNs } else { RoundingName::Exact };
        all.put("link.rounding", quoted(rounding.text()));
    }
}

fn queues(all: &mut Settings, q: &Queues) {
    all.put("queues.fetch_size", q.fetch_size.to_string());
    all.put("queues.entries", q.entries.to_string());
    if let Arbitration::Weighted(weights) = q.arbitration {
        all.put("queues.arbitration", quoted("weighted"));
        all.put("queues.high_weight", weights.high.to_string());
        all.put("queues.medium_weight", weights.medium.to_string());
        all.put("queues.low_weight", weights.low.to_string());
    }
    all.put("queues.arbitration_burst", q.arbitration_burst.to_string());
    all.put("queues.command_slots", q.command_slots.to_string());
}

fn firmware(all: &mut Settings, w: &Firmware) {
    if [w.read, w.write, w.trim, w.flush].iter().any(|cost| !cost.is_zero()) {
        all.put("firmware.cores", w.cores.to_string());
    }
    all.put("firmware.read", span(w.read));
    all.put("firmware.write", span(w.write));
    all.put("firmware.trim", span(w.trim));
    all.put("firmware.flush", span(w.flush));
}

fn data_cache(all: &mut Settings, cache: &DataCache) {
    all.put("cache.size", bytes(cache.bytes));
    all.put("cache.mode", quoted(CacheModeName::from(cache.mode).text()));
    all.put("cache.sharing", quoted(CacheSharingName::from(cache.sharing).text()));
    if cache.mode.writes() {
        let protected = cache.power_loss_protection.to_string();
        all.put("cache.power_loss_protection", protected);
    }
    match cache.write_back {
        _ if !cache.mode.writes() => {}
        WriteBack::Eager => {
            all.put("cache.write_back", quoted("eager"));
            if let Some(most) = cache.write_back_max {
                all.put("cache.write_back_max", bytes(most));
            }
        }
        WriteBack::Lru { high } => {
            all.put("cache.write_back", quoted("lru"));
            all.put("cache.high", quoted(Fraction(high)));
        }
    }
    dram(all, &cache.dram);
}

fn dram(all: &mut Settings, d: &Dram) {
    all.put("cache.dram.row", bytes(d.row_bytes.into()));
    all.put("cache.dram.width_bits", (d.width_bytes * 8).to_string());
    all.put("cache.dram.rate", quoted(TransferRate(d.rate_mts)));
    all.put("cache.dram.burst_length", d.burst_length.to_string());
    match d.rows {
        RowPolicy::Closed => all.put("cache.dram.rows", quoted("closed")),
        RowPolicy::Open { banks } => {
            all.put("cache.dram.rows", quoted("open"));
            all.put("cache.dram.banks", banks.to_string());
        }
    }
    all.put("cache.dram.traffic", quoted(TrafficName::from(d.traffic).text()));
    all.put("cache.dram.t_rcd", span(d.t_rcd));
    all.put("cache.dram.t_cl", span(d.t_cl));
    all.put("cache.dram.t_rp", span(d.t_rp));
}

fn mapping(all: &mut Settings, config: &Config) {
    let m = &config.mapping;
    all.put("mapping.unit", bytes(m.unit_bytes.into()));
    match m.scheme {
        MappingScheme::Page => {
            all.put("mapping.kind", quoted("page"));
            let table = if matches!(m.table, MappingTable::Ideal) { "ideal" } else { "cached" };
            all.put("mapping.table", quoted(table));
        }
        MappingScheme::Hybrid { log_blocks } => {
            all.put("mapping.kind", quoted("hybrid"));
            all.put("mapping.log_blocks", log_blocks.to_string());
        }
    }
    if is_page_mapped_flash(config) {
        all.put("mapping.unmapped_reads", quoted(UnmappedReadsName::from(m.unmapped_reads).text()));
    }
    if let MappingTable::Cached(table) = &m.table {
        cmt(all, table);
    }
}

fn cmt(all: &mut Settings, cmt: &CachedTable) {
    let granularity = GranularityName::from(cmt.granularity);
    all.put("mapping.cmt.size", bytes(cmt.bytes));
    all.put("mapping.cmt.granularity", quoted(granularity.text()));
    all.put("mapping.cmt.sharing", quoted(SharingName::from(cmt.sharing).text()));
    if let Some(entry) = cmt.entry_bytes {
        all.put("mapping.cmt.entry", bytes(entry.into()));
    }
    if let Some(entry) = cmt.translation_entry_bytes {
        all.put("mapping.cmt.translation_entry", bytes(entry.into()));
    }
    if granularity == GranularityName::Entry {
        all.put("mapping.cmt.load", bytes(cmt.load_bytes.into()));
    }
    all.put("mapping.cmt.write_back", cmt.write_back.to_string());
}

/// What a drive with hybrid mapping has of `[gc]`.
fn collection_for_merges(all: &mut Settings, gc: &Gc) {
    all.put("gc.preemptible", gc.preemptible.to_string());
    // Left out where it is the default, as drives described before it was there have it.
    if gc.copyback {
        all.put("gc.copyback", gc.copyback.to_string());
    }
}

fn collection(all: &mut Settings, gc: &Gc) {
    victim(all, gc.victim);
    // Left out where it is the default, as drives described before it was there have it.
    if gc.unit != CollectionUnit::Block {
        all.put("gc.unit", quoted(CollectionUnitName::from(gc.unit).text()));
    }
    all.put("gc.start", quoted(Fraction(gc.start)));
    all.put("gc.urgent", quoted(Fraction(gc.urgent)));
    all.put("gc.preemptible", gc.preemptible.to_string());
    all.put("gc.copyback", gc.copyback.to_string());
    all.put("gc.paced", gc.paced.to_string());
    all.put("gc.reserve_blocks", gc.reserve_blocks.to_string());
    write_frontiers(all, gc.frontiers);
    if let Some(after) = gc.idle_after {
        all.put("gc.idle_after", span(after));
        all.put("gc.idle_target", quoted(Fraction(gc.idle_target)));
    }
}

fn victim(all: &mut Settings, policy: VictimPolicy) {
    match policy {
        VictimPolicy::Greedy => all.put("gc.victim", quoted("greedy")),
        VictimPolicy::DChoices { d } => {
            all.put("gc.victim", quoted("d-choices"));
            all.put("gc.d", d.to_string());
        }
        VictimPolicy::Random => all.put("gc.victim", quoted("random")),
        VictimPolicy::RandomP { pages } => {
            all.put("gc.victim", quoted("random-p"));
            all.put("gc.invalid_pages", pages.to_string());
        }
        VictimPolicy::RandomPlusPlus => all.put("gc.victim", quoted("random++")),
        VictimPolicy::Fifo => all.put("gc.victim", quoted("fifo")),
        VictimPolicy::CostBenefit => all.put("gc.victim", quoted("cost-benefit")),
    }
}

fn write_frontiers(all: &mut Settings, frontiers: WriteFrontiers) {
    match frontiers {
        WriteFrontiers::One => all.put("gc.write_frontiers", quoted("one")),
        WriteFrontiers::Separate => all.put("gc.write_frontiers", quoted("separate")),
        WriteFrontiers::HotCold(hot) => {
            all.put("gc.write_frontiers", quoted("hot-cold"));
            if let Some(counters) = hot.counters {
                all.put("gc.hot.counters", counters.to_string());
            }
            if let Some(decay) = hot.decay {
                all.put("gc.hot.decay", decay.to_string());
            }
            all.put("gc.hot.threshold", hot.threshold.to_string());
        }
    }
}

fn wear(all: &mut Settings, w: &Wear) {
    all.put("wear.dynamic", w.dynamic.to_string());
    if let Some(threshold) = w.static_threshold {
        all.put("wear.static_threshold", threshold.to_string());
    }
    all.put("wear.initial_cycles", w.initial.to_string());
    if let Some(endurance) = w.endurance {
        all.put("wear.endurance", endurance.to_string());
        all.put("wear.endurance_deviation", quoted(Fraction(w.endurance_deviation)));
    }
    if let Some(reads) = &w.reads {
        worn_reads(all, reads);
    }
}

fn worn_reads(all: &mut Settings, reads: &WornReads) {
    let list = |points: Vec<String>| format!("[{}]", points.join(", "));
    if !reads.retries.is_empty() {
        let point =
            |(cycles, mean): &(u32, f64)| format!("{{ cycles = {cycles}, mean = {mean:?} }}");
        all.put("wear.retries", list(reads.retries.iter().map(point).collect()));
        all.put("wear.retry", span(reads.retry));
    }
    if !reads.decode.is_empty() {
        let point = |(cycles, time): &(u32, Span)| {
            format!("{{ cycles = {cycles}, time = {} }}", span(*time))
        };
        all.put("wear.decode", list(reads.decode.iter().map(point).collect()));
    }
}

fn energy(all: &mut Settings, energy: &EnergyModel) {
    let joules = |nj: u64| quoted(Energy(nj));
    let watts = |mw: u64| quoted(Power(mw));
    all.put("energy.read", joules(energy.read_nj));
    all.put("energy.program", joules(energy.program_nj));
    all.put("energy.erase", joules(energy.erase_nj));
    all.put("energy.channel", watts(energy.channel_mw));
    all.put("energy.idle", watts(energy.idle_mw));
}

fn scheduler(all: &mut Settings, config: &Config) {
    let s = &config.scheduler;
    all.put("scheduler.die_interleaving", s.die_interleaving.to_string());
    all.put("scheduler.multi_plane", s.multi_plane.to_string());
    if s.multi_plane && config.geometry.planes_per_die > 1 {
        all.put("scheduler.multi_plane_window", s.multi_plane_window.to_string());
    }
    all.put("scheduler.priority_classes", s.priority_classes.to_string());
    if s.flin.is_none() {
        all.put("scheduler.precedence", quoted(PrecedenceName::from(s.precedence).text()));
    }
    if let Some(deadline) = s.write_deadline {
        all.put("scheduler.write_deadline", span(deadline));
    }
    all.put("scheduler.cache_program", s.cache_program.to_string());
}

fn suspension(all: &mut Settings, s: &Scheduler) {
    for (section, suspension) in
        [("suspend_program", s.suspend_program), ("suspend_erase", s.suspend_erase)]
    {
        if let Some(suspension) = suspension {
            let path = |key: &str| format!("scheduler.{section}.{key}");
            all.put(&path("latency"), span(suspension.latency));
            all.put(&path("resume"), span(suspension.resume));
            all.put(&path("least_left"), span(suspension.least_left));
            all.put(&path("limit"), suspension.limit.to_string());
            all.put(&path("longest"), span(suspension.longest));
        }
    }
    if let Some(least) = s.suspend_erase_for_writes {
        all.put("scheduler.suspend_erase.for_writes", span(least));
    }
}

fn flin(all: &mut Settings, config: &Config) {
    if let Some(flin) = config.scheduler.flin {
        all.put("scheduler.flin.epoch", span(flin.epoch));
        all.put("scheduler.flin.read_threshold", quoted(Bandwidth(flin.read_bytes_per_s)));
        all.put("scheduler.flin.write_threshold", quoted(Bandwidth(flin.write_bytes_per_s)));
        all.put("scheduler.flin.fairness", quoted(Fraction(flin.fairness)));
        if config.gc.preemptible && is_page_mapped_flash(config) {
            all.put("scheduler.flin.divides_collection", flin.divides_collection.to_string());
        }
    }
}

fn key_value(all: &mut Settings, kv: &KeyValue) {
    all.put("kv.managers", kv.managers.to_string());
    all.put("kv.header", bytes(kv.header_bytes.into()));
    all.put("kv.key_max", bytes(kv.key_max.into()));
    all.put("kv.value_max", bytes(kv.value_max.into()));
    all.put("kv.key_inline", bytes(kv.key_inline.into()));
    if kv.key_inline < kv.key_max {
        let fetch = if kv.key_fetch_holds { "waits" } else { "overlaps" };
        all.put("kv.key_fetch", quoted(fetch));
        all.put("kv.key_round_trip", span(kv.key_round_trip));
    }
    for (command, time) in kv.times.each() {
        all.put(&format!("kv.time.{command}"), key_time(time));
    }
    let index = &kv.index;
    let kind = match index.kind {
        KeyIndexKind::DynamicHash => "dynamic-hash",
        KeyIndexKind::Hash { .. } => "hash",
        KeyIndexKind::Lsm { .. } => "lsm",
    };
    all.put("kv.index.kind", quoted(kind));
    all.put("kv.index.dram", index.dram_bytes.map_or_else(|| quoted("all"), bytes));
    all.put("kv.index.entry", bytes(index.entry_bytes.into()));
    if let Some(keys) = index.keys_max {
        all.put("kv.index.keys", keys.to_string());
    }
    if let KeyIndexKind::Hash { pages } = index.kind {
        all.put("kv.index.pages", pages.to_string());
    }
    all.put("kv.index.filter", index.filter_bits.to_string());
    match index.kind {
        KeyIndexKind::Lsm { memtable_bytes, fanout, pinned_levels } => {
            all.put("kv.index.memtable", bytes(memtable_bytes));
            all.put("kv.index.fanout", fanout.to_string());
            all.put("kv.index.pinned", pinned_levels.to_string());
        }
        _ => all.put("kv.index.signature", index.signature_bits.to_string()),
    }
}

fn key_time(time: &KeyTime) -> String {
    let fixed = match time.fixed[..] {
        [(_, only)] => span(only),
        _ => {
            let one = |(share, time): &(f64, Span)| format!("[{share:?}, {}]", span(*time));
            let all: Vec<String> = time.fixed.iter().map(one).collect();
            format!("[{}]", all.join(", "))
        }
    };
    match time.per_kib {
        Span::ZERO => fixed,
        more => format!("{{ fixed = {fixed}, per_kib = {} }}", span(more)),
    }
}

fn namespaces(all: &mut Settings, config: &Config) {
    if config.namespaces != [Namespace::whole_drive()] {
        for (index, namespace) in config.namespaces.iter().enumerate() {
            let path = |key: &str| format!("namespace.{index}.{key}");
            if let Some(units) = namespace.units {
                all.put(&path("size"), bytes(units * u64::from(config.mapping.unit_bytes)));
            }
            all.put(&path("channels"), format!("{:?}", namespace.channels));
            all.put(&path("chips"), format!("{:?}", namespace.chips));
            all.put(&path("dies"), format!("{:?}", namespace.dies));
            all.put(&path("planes"), format!("{:?}", namespace.planes));
            if let Caching::Only(only) = namespace.caching {
                let only = only.map_or("off", |mode| CacheModeName::from(mode).text());
                all.put(&path("cache"), quoted(only));
            }
            if namespace.kind == NamespaceKind::Pairs {
                all.put(&path("kind"), quoted(NamespaceKindName::Pairs.text()));
            }
        }
    }
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
