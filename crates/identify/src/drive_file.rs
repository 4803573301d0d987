//! What was found, as a drive file whose every number says what it rests on.

use crate::finding::{Findings, Outcome, Value};
use std::fmt::Write;

/// What a drive file needs and was not found is what is usual, and says so.
struct Lines<'a> {
    findings: &'a Findings,
    text: String,
    sources: String,
}

impl Lines<'_> {
    fn section(&mut self, name: &str) {
        let _ = writeln!(self.text, "\n[{name}]");
    }

    /// A key with a value, and where that comes from.
    fn put(&mut self, key: &str, value: &str, source: &str) {
        let (_, own) = key.rsplit_once('.').unwrap_or(("", key));
        let _ = writeln!(self.text, "{own} = {value}");
        let source = source.replace('\\', "\\\\").replace('"', "'");
        let _ = writeln!(self.sources, "\"{key}\" = \"{source}\"");
    }

    /// A key as it was found, or what is usual.
    fn key(&mut self, key: &str, show: impl Fn(&Value) -> String, usual: &str) {
        let (value, source) = self.findings.said(key, show, usual);
        self.put(key, &value, &source);
    }
}

impl Findings {
    /// A parameter's value and where it comes from.
    fn said(&self, key: &str, show: impl Fn(&Value) -> String, usual: &str) -> (String, String) {
        match self.get(key).map(|finding| (&finding.outcome, &finding.evidence)) {
            Some((Outcome::Found { value, .. }, evidence)) => {
                (show(value), format!("mynah identify: {evidence}"))
            }
            Some((Outcome::NotDetermined { because }, _)) => {
                (usual.to_owned(), format!("estimate: usual; not determined, because {because}"))
            }
            None => (usual.to_owned(), "estimate: usual; it was not asked".to_owned()),
        }
    }
}

/// Time in us as drive files write it.
fn us(us: f64) -> String {
    format!("\"{us:.2}us\"")
}

fn time(value: &Value) -> String {
    match value {
        Value::Time(time) => us(*time),
        other => other.to_string(),
    }
}

fn bytes(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => format!("\"{bytes}B\""),
        other => other.to_string(),
    }
}

/// Programs take longer than this, us, but of memories that are no flash.
const PROGRAM_LEAST: f64 = 50.0;
/// What drives usually keep to themselves, as a share.
const SPARE: f64 = 0.07;
/// Pages of a block, for want of better; fewer where a plane had fewer blocks than so many, of which collection
/// keeps some free.
const PAGES: u64 = 256;
const PAGES_LEAST: u64 = 8;
const BLOCKS_LEAST: u64 = 512;
/// A write cache whose size is not known.
const CACHE: &str = "\"64MiB\"";

/// A drive file called `name`, of a drive with so many bytes. It can be simulated as it is; what was
/// not determined in it is an estimate, which its source says.
pub fn drive_file(findings: &Findings, name: &str, capacity: u64) -> String {
    let head = format!(
        "# What mynah identify found of {name}. What it could not determine is an estimate, and says so\n\
         # in [sources].\n\nschema = \"mynah.drive/1\"\nname = \"{name}\"\n\
         description = \"A drive as mynah identify found it.\"\n"
    );
    let mut lines = Lines { findings, text: head, sources: String::new() };
    let spare = spare(&mut lines, capacity);
    geometry(&mut lines, (capacity, spare));
    flash(&mut lines);
    around(&mut lines);
    slc(&mut lines);
    format!("{}\n[sources]\n{}", lines.text, lines.sources)
}

/// The over-provisioning, as a share: what is usual, or the bound that was found if it is higher.
fn spare(lines: &mut Lines<'_>, capacity: u64) -> f64 {
    let findings = lines.findings;
    let least = findings.count("spare.least").map_or(0.0, |least| least as f64);
    let share = least / (least + capacity as f64);
    let (_, source) = findings.said("spare.least", ToString::to_string, "");
    let source = match (share > SPARE, least > 0.0) {
        (true, _) => format!("estimate: the least that it may be; {source}"),
        (false, true) => format!("estimate: usual, and no less than was found; {source}"),
        (false, false) => source,
    };
    let share = (share.max(SPARE) * 1e4).round() / 1e4;
    lines.put("over_provisioning", &format!("\"{:.2}%\"", share * 100.0), &source);
    share
}

fn geometry(lines: &mut Lines<'_>, (capacity, spare): (u64, f64)) {
    let findings = lines.findings;
    let dies = findings.count("dies");
    let channels = findings.count("geometry.channels");
    let planes = findings.count("geometry.planes_per_die").unwrap_or(1);
    let page = findings.count("geometry.page_size").unwrap_or(16 << 10);
    let (channels, ways, source) = match (channels, dies) {
        (Some(channels), Some(dies)) if dies % channels == 0 => {
            let source = format!("mynah identify: {dies} dies on {channels} channels");
            (channels, dies / channels, source)
        }
        (_, Some(dies)) => {
            (dies, 1, "estimate: not determined which dies share a channel".to_owned())
        }
        _ => (8, 4, "estimate: usual; not determined".to_owned()),
    };
    lines.section("geometry");
    lines.key("geometry.channels", ToString::to_string, &channels.to_string());
    lines.put("geometry.chips_per_channel", &ways.to_string(), &source);
    let dies = "estimate: whether dies share a chip cannot be seen from outside";
    lines.put("geometry.dies_per_chip", "1", dies);
    lines.key("geometry.planes_per_die", ToString::to_string, "1");
    let row = channels * ways * planes * page;
    let blocks_of =
        |pages: u64| (capacity as f64 / (1.0 - spare) / (row * pages) as f64).ceil() as u64;
    let mut pages = PAGES;
    while pages > PAGES_LEAST && blocks_of(pages) < BLOCKS_LEAST {
        pages /= 2;
    }
    let blocks = blocks_of(pages).max(8);
    let source = "estimate: so many as give the capacity with the over-provisioning";
    lines.put("geometry.blocks_per_plane", &blocks.to_string(), source);
    let source = "estimate: the size of a block was not asked for";
    lines.put("geometry.pages_per_block", &pages.to_string(), source);
    lines.key("geometry.page_size", bytes, "\"16KiB\"");
}

fn flash(lines: &mut Lines<'_>) {
    const TYPES: [&str; 5] = ["lsb", "csb", "msb", "fourth", "fifth"];
    let reads = match lines.findings.value("flash.read") {
        Some(Value::Times(times)) => times.clone(),
        _ => vec![],
    };
    let cell = match reads.len() {
        2 => "mlc",
        4 => "qlc",
        5 => "plc",
        _ => "tlc",
    };
    lines.section("flash");
    let source = match reads.len() {
        2..=5 => format!(
            "estimate: reads come in {} levels, of which one may be of several types of pages",
            reads.len()
        ),
        _ => "estimate: reads do not tell types of pages apart".to_owned(),
    };
    lines.put("flash.cell", &format!("\"{cell}\""), &source);
    let show = |value: &Value| match value {
        Value::Times(times) if (2..=5).contains(&times.len()) => {
            let two = ["lsb", "msb"];
            let names = if times.len() == 2 { &two[..] } else { &TYPES[..] };
            let each =
                names.iter().zip(times).map(|(name, time)| format!("{name} = {}", us(*time)));
            format!("{{ {} }}", each.collect::<Vec<_>>().join(", "))
        }
        Value::Times(times) => us(times.iter().sum::<f64>() / times.len().max(1) as f64),
        other => time(other),
    };
    lines.key("flash.read", show, "\"60us\"");
    // Page types are those that reads show.
    let program = |value: &Value| match value {
        Value::Times(times) if times.len() != reads.len() => {
            us(times.iter().sum::<f64>() / times.len() as f64)
        }
        other => show(other),
    };
    lines.key("flash.program", program, "\"600us\"");
    lines.key("flash.erase", time, "\"5ms\"");
}

fn around(lines: &mut Lines<'_>) {
    let rate = |value: &Value| match value {
        // One byte a transfer.
        Value::Rate(rate) => format!("\"{:.0}MT/s\"", rate / 1e6),
        other => other.to_string(),
    };
    lines.section("bus");
    lines.key("bus.rate", rate, "\"1200MT/s\"");
    lines.section("link");
    let rate = |value: &Value| match value {
        Value::Rate(rate) => format!("\"{:.0}MB/s\"", rate / 1e6),
        other => other.to_string(),
    };
    lines.key("link.bandwidth", rate, "\"3.5GB/s\"");
    lines.put(
        "link.packet_overhead",
        "\"0B\"",
        "estimate: the rate of the link is that of user data",
    );
    lines.section("firmware");
    match lines.findings.value("fixed_latency") {
        Some(Value::Time(fixed)) if lines.findings.count("firmware.cores").is_none() => {
            let source = "mynah identify: what a read takes beside the flash; estimate: all of it is \
                          the front end's, where commands do not wait for one another";
            lines.put("firmware.cores", "32", source);
            lines.put("firmware.read", &us(*fixed), source);
        }
        _ => {
            lines.key("firmware.cores", ToString::to_string, "32");
            lines.key("firmware.read", time, "\"8us\"");
        }
    }
    let cached = cached_write(lines.findings);
    if let Some(write) = cached {
        let source =
            "mynah identify: what a cached write takes, less what reads take beside the front end";
        lines.put("firmware.write", &us(write), source);
    }
    if lines.findings.count("cache.size").is_some() || cached.is_some() {
        lines.section("cache");
        lines.key("cache.size", bytes, CACHE);
    }
    if let Some(Value::Bytes(_)) = lines.findings.value("mapping.unit") {
        lines.section("mapping");
        lines.key("mapping.unit", bytes, "\"4KiB\"");
    }
}

/// What the front end takes for a write, us, if writes are answered before they can be on the flash.
fn cached_write(findings: &Findings) -> Option<f64> {
    let time = |key: &str| match findings.get(key)?.value()? {
        Value::Time(time) => Some(*time),
        Value::Times(all) => all.iter().copied().reduce(f64::min),
        _ => None,
    };
    let write = time("write_latency")?;
    // No program of several bits takes so little; an SLC cache's may.
    let program = time("slc.program").or(time("flash.program")).unwrap_or(PROGRAM_LEAST);
    let fixed = time("fixed_latency")?;
    let read = match findings.count("firmware.cores") {
        Some(_) => time("firmware.read").unwrap_or(fixed),
        None => fixed,
    };
    (write < program).then_some((write - (fixed - read)).max(0.1))
}

/// The SLC cache, if there is one and cells have several bits.
fn slc(lines: &mut Lines<'_>) {
    let is_slc = lines.findings.value("slc") == Some(&Value::Yes(true));
    if !is_slc {
        return;
    }
    lines.section("slc");
    lines.key("slc.read", time, "\"25us\"");
    lines.key("slc.program", time, "\"200us\"");
}
