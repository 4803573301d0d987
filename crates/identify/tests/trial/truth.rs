//! The truth about a drive, what of it can be known from outside, and how a finding is judged.

use mynah_identify::{Findings, Outcome, Value};
use mynah_model::config::{CellType, Config, MappingTable};

/// A parameter as the drive file has it.
pub(crate) struct Truth {
    /// As findings call it.
    pub(crate) key: &'static str,
    /// What the drive file says.
    pub(crate) value: Value,
    /// Why it cannot be known from outside, if so.
    pub(crate) hidden: Option<&'static str>,
}

/// How a finding is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A whole number that is exact, or another within 5 %.
    Right,
    /// Not a whole number, within 10 %.
    Near,
    /// It was not determined, and could have been.
    Missed,
    /// It was not determined, and could not have been.
    Hidden,
    /// It is something else.
    Wrong,
}

/// All that findings are judged by.
pub(crate) fn truths(config: &Config, destroys: bool) -> Vec<Truth> {
    let mut all = structure(config);
    all.extend(timing(config));
    if destroys {
        all.extend(writing(config));
        all.extend(stored(config));
    }
    // The layers of an NVMe-oF target are its front end, and have keys of their own.
    if config.ethernet.is_some() {
        all.retain(|truth| !truth.key.starts_with("firmware."));
    }
    all
}

fn structure(config: &Config) -> Vec<Truth> {
    let g = config.geometry;
    let truth = |key, value, hidden| Truth { key, value, hidden };
    let joined = config.scheduler.multi_plane && g.planes_per_die > 1;
    let planes = (!joined).then_some("reads of several planes are not joined, or there is one");
    vec![
        truth("dies", Value::Count(u64::from(g.dies())), None),
        truth("geometry.channels", Value::Count(u64::from(g.channels)), slow_front(config)),
        truth("geometry.page_size", Value::Bytes(u64::from(g.page_bytes)), None),
        truth("geometry.planes_per_die", Value::Count(u64::from(g.planes_per_die)), planes),
    ]
}

/// Two reads are never on a bus at once if one core of the front end takes longer for a command than a
/// page is on the bus.
fn slow_front(config: &Config) -> Option<&'static str> {
    let page = f64::from(config.geometry.page_bytes) / bus_rate(config) * 1e6;
    let core = config.firmware.read.as_ps() as f64 * 1e-6;
    let one = config.firmware.cores == 1;
    (one && core > page)
        .then_some("the front end takes longer for a command than a page is on the bus")
}

/// Bytes of user data that a bus carries in a second.
fn bus_rate(config: &Config) -> f64 {
    let g = config.geometry;
    let spare = f64::from(g.page_spare_bytes) / f64::from(g.page_bytes);
    let raw = f64::from(config.bus.rate_mts) * 1e6 * f64::from(config.bus.width_bytes);
    if config.bus.transfer_spare { raw / (1.0 + spare) } else { raw }
}

fn timing(config: &Config) -> Vec<Truth> {
    let truth = |key, value, hidden| Truth { key, value, hidden };
    let cell = config.flash.cell;
    let reads = config.flash.read.in_order();
    let mut reads: Vec<f64> = match cell {
        CellType::Mlc => vec![reads[0], reads[2]],
        _ => reads[..cell.bits() as usize].to_vec(),
    }
    .iter()
    .map(|read| (*read + config.flash.read_ready_delay).as_ps() as f64 * 1e-6)
    .collect();
    reads.sort_by(f64::total_cmp);
    reads.dedup_by(|a, b| (*a - *b).abs() < 0.005 * *b);
    vec![
        truth("flash.read", Value::Times(reads), None),
        truth("bus.rate", Value::Rate(bus_rate(config)), None),
        truth("link.bandwidth", Value::Rate(link_rate(config)), hidden_link(config)),
    ]
}

/// Bytes of user data that the link carries in a second.
fn link_rate(config: &Config) -> f64 {
    if let Some(ethernet) = &config.ethernet {
        // Preamble, header, check and gap of Ethernet, IPv4, UDP, BTH and ICRC (IEEE 802.3; IBTA A17).
        let packet = f64::from(ethernet.mtu_bytes) + 38.0 + 20.0 + 8.0 + 12.0 + 4.0;
        return ethernet.rate_bits_per_s as f64 / 8.0 * f64::from(ethernet.mtu_bytes) / packet;
    }
    let payload = f64::from(config.link.max_payload_bytes);
    let packet = payload + f64::from(config.link.packet_overhead_bytes);
    config.link.bytes_per_s as f64 * payload / packet
}

fn hidden_link(config: &Config) -> Option<&'static str> {
    let page = f64::from(config.geometry.page_bytes) / link_rate(config) * 1e6;
    let core = config.firmware.read.as_ps() as f64 * 1e-6;
    let slow = config.firmware.cores == 1 && core > page;
    if slow {
        return Some("the front end takes longer for a command than a page is on the link");
    }
    slow_front(config).or((config.geometry.channels == 1).then_some("all dies share a bus"))
}

fn writing(config: &Config) -> Vec<Truth> {
    let truth = |key, value, hidden| Truth { key, value, hidden };
    let cores = config.firmware.cores;
    let core = config.firmware.read.as_ps() as f64 * 1e-6;
    // A submission queue entry and its packet, which are fetched one after another; a piece of data.
    let block = f64::from(config.link.submission_entry_bytes + config.link.packet_overhead_bytes);
    let fetch = block / config.link.bytes_per_s as f64 * 1e6;
    let data = 512.0 / link_rate(config) * 1e6;
    let idle = core / f64::from(cores) <= fetch.max(data);
    let front = idle.then_some("commands are fetched no faster than cores take them");
    let size = config.cache.as_ref().map_or(0, |cache| cache.bytes);
    let cache = config.cache.is_none().then_some("there is none").or(hidden_cache(config));
    vec![
        truth("trims", Value::Yes(true), None),
        truth("firmware.cores", Value::Count(u64::from(cores)), front),
        truth("firmware.read", Value::Time(core), front),
        truth("cache.size", Value::Bytes(size), cache),
    ]
}

/// What shows when writes are on the flash.
fn stored(config: &Config) -> Vec<Truth> {
    let truth = |key, value, hidden| Truth { key, value, hidden };
    let us = |span: mynah_stamp::Span| span.as_ps() as f64 * 1e-6;
    let flash = &config.flash;
    let programs = flash.program.in_order();
    let mut programs: Vec<f64> = match flash.cell {
        CellType::Mlc => vec![programs[0], programs[2]],
        _ => programs[..flash.cell.bits() as usize].to_vec(),
    }
    .into_iter()
    .map(us)
    .collect();
    programs.sort_by(f64::total_cmp);
    if flash.one_shot {
        programs.drain(..programs.len() - 1);
    }
    programs.dedup_by(|a, b| (*a - *b).abs() < 0.005 * *b);
    let program = match programs[..] {
        [program] => Value::Time(program),
        _ => Value::Times(programs),
    };
    let mut all = vec![
        truth(
            "mapping.unit",
            Value::Bytes(u64::from(config.mapping.unit_bytes)),
            hidden_unit(config),
        ),
        truth("flash.program", program, hidden_program(config)),
        truth("slc", Value::Yes(config.slc.is_some()), stays(config)),
    ];
    let g = config.geometry;
    let planes = u64::from(g.dies()) * u64::from(g.planes_per_die);
    let pages = planes * u64::from(g.blocks_per_plane) * u64::from(g.pages_per_block);
    let raw = (pages * u64::from(g.page_bytes)) as f64;
    let spare = Value::Bytes((raw * config.over_provisioning) as u64);
    all.push(truth("spare.least", spare, hidden_spare(config, raw)));
    if let Some(slc) = &config.slc {
        let read = us(slc.read + flash.read_ready_delay);
        all.push(truth("slc.read", Value::Time(read), stays(config)));
        all.push(truth("slc.program", Value::Time(us(slc.program)), stays(config)));
        // What a dynamic one takes depends on how many blocks are erased.
        if slc.dynamic == 0.0 {
            let cache = config.cache.as_ref().map_or(0, |cache| cache.bytes);
            let size = slc_size(config);
            let hidden = (size < 2 * cache)
                .then_some("the write cache is nearly as large")
                .or(stays(config));
            all.push(truth("slc.burst", Value::Bytes(size), hidden));
        }
    }
    all
}

/// What the blocks hold that only ever serve the SLC cache.
fn slc_size(config: &Config) -> u64 {
    let Some(slc) = &config.slc else { return 0 };
    let g = config.geometry;
    let blocks = u64::from(slc.static_blocks(g.blocks_per_plane));
    let pages = g.pages_per_block / config.flash.cell.bits();
    let planes = u64::from(g.dies()) * u64::from(g.planes_per_die);
    blocks * planes * u64::from(pages) * u64::from(g.page_bytes)
}

/// What is written stays in a protected cache that is emptied only when it is nearly full.
fn stays(config: &Config) -> Option<&'static str> {
    let cache = config.cache.as_ref()?;
    let lazy = !matches!(cache.write_back, mynah_model::config::WriteBack::Eager);
    (lazy && cache.power_loss_protection).then_some("what is written stays in the cache")
}

/// Whether nothing says when a write is on the flash.
fn is_silent(config: &Config) -> bool {
    let Some(cache) = &config.cache else { return false };
    let leaves = matches!(cache.write_back, mynah_model::config::WriteBack::Eager);
    let shows = cache.mode == mynah_model::config::CacheMode::Write && leaves;
    cache.power_loss_protection && (!shows || config.flash.one_shot)
}

fn hidden_program(config: &Config) -> Option<&'static str> {
    if is_silent(config) {
        return Some(
            "a flush does not wait for the flash, and reads do not show when a write is there",
        );
    }
    if config.flash.rewritable {
        return Some("a program takes no longer than what is around it");
    }
    let direct = |slc: &mynah_model::config::SlcCache| {
        slc.when_full == mynah_model::config::WhenFull::Direct
    };
    if config.slc.as_ref().is_some_and(|slc| direct(slc) && slc.fold_beside > 0.0) {
        return Some("what is written past the SLC cache waits for what is folded beside it");
    }
    let folds = config.slc.as_ref().is_some_and(|slc| !direct(slc));
    folds.then_some("whatever is written goes to the SLC cache")
}

/// What is written until collection begins: the whole drive, and the spare blocks.
fn hidden_spare(config: &Config, raw: f64) -> Option<&'static str> {
    const MOST: f64 = (16u64 << 30) as f64;
    if config.flash.rewritable {
        return Some("nothing is collected");
    }
    if config.slc.is_some() {
        return Some("the SLC cache fills first");
    }
    (raw > MOST).then_some("so much is not written")
}

fn hidden_unit(config: &Config) -> Option<&'static str> {
    if config.flash.rewritable {
        return Some("data are overwritten in place");
    }
    let us = |span: mynah_stamp::Span| span.as_ps() as f64 * 1e-6;
    let firmware = &config.firmware;
    let read = us(config.flash.read.in_order()[0]);
    let silent = config.cache.as_ref().is_some_and(|cache| cache.power_loss_protection);
    let quick = read < 1.5 * (us(firmware.flush) + us(config.link.interrupt));
    // As many as the flash takes, and as hosts bring.
    let units = f64::from((config.geometry.page_bytes / config.mapping.unit_bytes).max(1));
    let flash =
        f64::from(config.geometry.dies()) / (read + us(config.flash.program.in_order()[0]) / units);
    let front = f64::from(firmware.cores) / us(firmware.write).max(1e-3);
    let link = link_rate(config) * 1e-6 / f64::from(config.mapping.unit_bytes / 2);
    let fast = flash > 0.8 * front.min(link);
    ((silent || quick) && fast).then_some("reads before writes take no time that shows")
}

/// A cache that the flash empties as fast as hosts fill it does not show.
fn hidden_cache(config: &Config) -> Option<&'static str> {
    const WRITE: f64 = 65536.0;
    if matches!(config.mapping.table, MappingTable::Cached { .. }) {
        return Some("writes wait for the cached mapping table before the cache is full");
    }
    if let Some(because) = stays(config) {
        return Some(because);
    }
    if config.cache.as_ref().is_some_and(|cache| cache.bytes < 32 * 65536) {
        return Some("it is smaller than what has to be outstanding to fill it");
    }
    let g = config.geometry;
    let programs = config.flash.program.in_order();
    let program = match config.flash.cell {
        CellType::Slc => programs[0],
        CellType::Mlc if config.flash.one_shot => programs[2],
        _ if config.flash.one_shot => {
            programs[..config.flash.cell.bits() as usize].iter().max().copied().unwrap_or_default()
        }
        _ => programs[0],
    };
    let program = config.slc.as_ref().map_or(program, |slc| slc.program);
    let pages =
        if config.flash.one_shot && config.slc.is_none() { config.flash.cell.bits() } else { 1 };
    let page = f64::from(g.page_bytes * pages * g.planes_per_die);
    let transfer = page / bus_rate(config);
    let die = page / (program.as_ps() as f64 * 1e-12 + transfer);
    let channel = (f64::from(g.dies() / g.channels) * die).min(bus_rate(config));
    let flash = channel * f64::from(g.channels);
    let core = config.firmware.write.as_ps() as f64 * 1e-12;
    let front =
        if core > 0.0 { f64::from(config.firmware.cores) * WRITE / core } else { f64::INFINITY };
    let host = front.min(link_rate(config));
    (flash > 0.3 * host).then_some("the flash empties it nearly as fast as hosts can fill it")
}

/// A size is near if its interval holds it.
fn within(value: &Value, (low, high): (&Value, &Value), truth: &Value) -> Verdict {
    let (Value::Bytes(value), Value::Bytes(low), Value::Bytes(high), Value::Bytes(truth)) =
        (value, low, high, truth)
    else {
        return Verdict::Wrong;
    };
    let off = (*value as f64 / *truth as f64 - 1.0).abs();
    match (low..=high).contains(&truth) {
        _ if off <= 0.05 => Verdict::Right,
        _ if off <= 0.10 => Verdict::Near,
        true => Verdict::Near,
        false => Verdict::Wrong,
    }
}

/// A lower bound is right if it is one; if it is below half of the truth it is only near.
fn at_least(least: u64, truth: &Value) -> Verdict {
    match truth {
        Value::Bytes(truth) if least > *truth => Verdict::Wrong,
        Value::Bytes(truth) if 2 * least < *truth => Verdict::Near,
        Value::Bytes(_) => Verdict::Right,
        _ => Verdict::Wrong,
    }
}

/// Judges what was found of one parameter.
pub(crate) fn judge(truth: &Truth, findings: &Findings) -> Verdict {
    let finding = findings.get(truth.key);
    let found = match finding.map(|finding| &finding.outcome) {
        Some(Outcome::Found { value, between: Some((low, high)) })
            if matches!(truth.key, "cache.size" | "slc.burst") =>
        {
            return within(value, (low, high), &truth.value);
        }
        Some(Outcome::Found { value: Value::Bytes(least), .. }) if truth.key == "spare.least" => {
            return at_least(*least, &truth.value);
        }
        Some(Outcome::Found { value, .. }) => value,
        _ if truth.hidden.is_some() => return Verdict::Hidden,
        _ => return Verdict::Missed,
    };
    let off = match (found, &truth.value) {
        (Value::Time(a), Value::Time(b)) | (Value::Rate(a), Value::Rate(b)) => (a / b - 1.0).abs(),
        (Value::Times(a), Value::Times(b)) if a.len() == b.len() => {
            a.iter().zip(b).map(|(a, b)| (a / b - 1.0).abs()).fold(0.0, f64::max)
        }
        (a, b) if a == b => 0.0,
        _ => return Verdict::Wrong,
    };
    match off {
        off if off <= 0.05 => Verdict::Right,
        off if off <= 0.10 => Verdict::Near,
        _ => Verdict::Wrong,
    }
}
