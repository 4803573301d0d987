//! From a drive file to the model's configuration, checking everything on the way.
//!
//! All mistakes of a file are reported together, each at its place. A key that would change
//! nothing is a mistake too, unless it stands in the file and an override made it moot.

use std::ops::Range;

use mynah_model::config::{
    Bus, BusCycles, BusRounding, CachedTable, CellType, Config, Dimension, Dram, Fault, Firmware,
    FlashTiming, Gc, Geometry, Link, Mapping, MappingTable, Namespace, PageTimes, PlaneOrder,
    Queues, Scheduler, UnmappedReads, VictimPolicy, WriteBack, WriteCache, WriteFrontiers,
};
use mynah_stamp::Span;

use super::document::{Document, Problem};
use super::schema::{self, At, File, Maybe, Protocol, TableName, VictimName, WriteBackName};
use crate::fault;
use crate::units::{Bandwidth, Bytes, Duration, Fraction, TransferRate};

/// Mapping units of raw flash that the model can hold.
pub const MAX_UNITS: u64 = (1 << 32) - 2;
/// Channels that a drive may have.
pub const MAX_CHANNELS: u32 = 1024;
/// Dies that may share a channel.
pub const MAX_DIES_PER_CHANNEL: u32 = 64;
/// Planes that a die may have.
pub const MAX_PLANES_PER_DIE: u32 = 8;
/// The longest time that any one step of the drive may take.
pub const MAX_STEP: Span = Span::from_secs(10);

/// NV-DDR2 command and address cycles, with the values that MQSim uses.
pub const NV_DDR2_CYCLES: BusCycles = BusCycles {
    t_cs: Span::from_ns(20),
    t_wc: Span::from_ns(25),
    t_wb: Span::from_ns(100),
    t_rr: Span::from_ns(20),
    t_adl: Span::from_ns(70),
    t_dbsy: Span::from_ns(500),
    t_cals: Span::from_ns(15),
    t_wpst: Span::from_ns(6),
    t_wpsth: Span::from_ns(15),
};

/// The configuration that `file` describes, or everything that is wrong with it.
pub(super) fn lower(document: &Document<'_>, file: &File) -> Result<Config, Vec<Problem>> {
    let mut check = Check { document, problems: Vec::new() };
    let name = file.name.get();
    if name.trim().is_empty() {
        check.wrong("`name` is empty", &file.name, "name the drive", None);
    }
    let geometry = check.geometry(file.geometry.get());
    if !check.problems.is_empty() {
        return Err(check.problems);
    }
    let unit_bytes = check.unit(file, &geometry);
    if !check.problems.is_empty() {
        // Everything below divides by these.
        return Err(check.problems);
    }
    check.capacity(file, &geometry, unit_bytes);
    if !check.problems.is_empty() {
        return Err(check.problems);
    }
    let mapping = check.mapping(file, &geometry, unit_bytes);
    let config = Config {
        geometry,
        flash: check.flash(file.flash.get()),
        bus: check.bus(file, &geometry),
        link: check.link(file),
        queues: check.queues(&file.queues),
        firmware: check.firmware(&file.firmware),
        cache: check.cache(file, &geometry),
        mapping,
        plane_order: check.order(&file.allocation),
        over_provisioning: check.over_provisioning(file),
        gc: check.gc(file, &geometry),
        scheduler: check.scheduler(file),
        namespaces: check.namespaces(file, &geometry, unit_bytes),
        faults: Vec::new(),
        seed: or(&file.seed, 1),
    };
    if check.problems.is_empty() {
        check.room(file, &config);
    }
    let faults = check.faults(file, &config);
    if check.problems.is_empty() { Ok(Config { faults, ..config }) } else { Err(check.problems) }
}

/// The value, or the default if it was left out.
fn or<T: Clone>(value: &Maybe<T>, default: T) -> T {
    value.as_ref().map_or(default, |at| at.get().clone())
}

/// Blocks of a plane that `share` of them amounts to, rounded up.
fn blocks_of(share: f64, blocks: u32) -> u64 {
    // The tolerance keeps 5 % of 100 blocks at 5.
    (share * f64::from(blocks) - 1e-9).ceil().max(0.0) as u64
}

struct Check<'a> {
    document: &'a Document<'a>,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn at(&mut self, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        let problem = self.document.problem(message, span, label, help);
        self.problems.push(problem);
    }

    fn wrong<T>(
        &mut self,
        message: impl Into<String>,
        place: &At<T>,
        label: &str,
        help: Option<String>,
    ) {
        self.at(place.span(), message.into(), label, help);
    }

    /// Refuses `place` because `other` makes it pointless, unless `other` comes from an
    /// override and so was put above it on purpose.
    fn moot(
        &mut self,
        place: Range<usize>,
        other: Option<Range<usize>>,
        message: &str,
        help: &str,
    ) {
        let later = |other: &Range<usize>| self.document.layer(other) > self.document.layer(&place);
        if other.as_ref().is_some_and(later) {
            return;
        }
        self.at(place, message.to_owned(), "this changes nothing", Some(help.to_owned()));
    }

    /// Refuses a count outside `range`.
    fn count(&mut self, name: &str, value: &At<u32>, range: std::ops::RangeInclusive<u32>) -> u32 {
        let count = *value.get();
        if !range.contains(&count) {
            let message = if *range.end() == u32::MAX {
                format!("`{name}` must be at least {}, not {count}", range.start())
            } else {
                format!("`{name}` must be from {} to {}, not {count}", range.start(), range.end())
            };
            self.wrong(message, value, "out of range", None);
        }
        count
    }

    /// A size that the model holds in 32 bits.
    fn small(&mut self, name: &str, value: &At<Bytes>) -> u32 {
        u32::try_from(value.get().0).unwrap_or_else(|_| {
            let message = format!("`{name}` must be less than 4GiB, not {}", value.get());
            self.wrong(message, value, "too large", None);
            u32::MAX
        })
    }

    fn small_or(&mut self, name: &str, value: &Maybe<Bytes>, default: u32) -> u32 {
        value.as_ref().map_or(default, |value| self.small(name, value))
    }

    fn span(&mut self, name: &str, value: &At<Duration>) -> Span {
        if value.get().0 > MAX_STEP {
            let limit = Duration(MAX_STEP);
            self.wrong(
                format!("`{name}` is {}, which no drive takes", value.get()),
                value,
                "too long",
                Some(format!("the longest time is {limit}")),
            );
        }
        value.get().0
    }

    fn span_or(&mut self, name: &str, value: &Maybe<Duration>, default: Span) -> Span {
        value.as_ref().map_or(default, |value| self.span(name, value))
    }

    fn geometry(&mut self, geometry: &schema::Geometry) -> Geometry {
        let any = 1..=u32::MAX;
        let channels = self.count("geometry.channels", &geometry.channels, 1..=MAX_CHANNELS);
        let chips =
            self.count("geometry.chips_per_channel", &geometry.chips_per_channel, any.clone());
        let dies = self.count("geometry.dies_per_chip", &geometry.dies_per_chip, any.clone());
        let planes =
            self.count("geometry.planes_per_die", &geometry.planes_per_die, 1..=MAX_PLANES_PER_DIE);
        let blocks =
            self.count("geometry.blocks_per_plane", &geometry.blocks_per_plane, any.clone());
        let pages = self.count("geometry.pages_per_block", &geometry.pages_per_block, any);
        let on_channel = u64::from(chips) * u64::from(dies);
        if on_channel > u64::from(MAX_DIES_PER_CHANNEL) {
            self.wrong(
                format!(
                    "{on_channel} dies on a channel ({chips} chips of {dies} dies), but at most \
                     {MAX_DIES_PER_CHANNEL} can share one"
                ),
                &geometry.dies_per_chip,
                "too many",
                Some("use more channels, or fewer chips or dies".to_owned()),
            );
        }
        let page_bytes = self.small("geometry.page_size", &geometry.page_size);
        if page_bytes == 0 || !page_bytes.is_multiple_of(512) {
            let below = Bytes(u64::from(page_bytes) / 512 * 512);
            let above = Bytes((u64::from(page_bytes) / 512 + 1) * 512);
            let help = match below.0 {
                0 => format!("for example {above}"),
                _ => format!("for example {below} or {above}"),
            };
            self.wrong(
                format!(
                    "`geometry.page_size` must be a multiple of 512B, not {}",
                    geometry.page_size.get()
                ),
                &geometry.page_size,
                "not a multiple of a sector",
                Some(help),
            );
        }
        Geometry {
            channels,
            chips_per_channel: chips,
            dies_per_chip: dies,
            planes_per_die: planes,
            blocks_per_plane: blocks,
            pages_per_block: pages,
            page_bytes,
            page_spare_bytes: self.small_or("geometry.page_spare", &geometry.page_spare, 0),
        }
    }

    /// The mapping unit, which everything else is counted in.
    fn unit(&mut self, file: &File, geometry: &Geometry) -> u32 {
        let Some(unit) = &file.mapping.unit else { return geometry.page_bytes };
        let (bytes, page) = (unit.get().0, u64::from(geometry.page_bytes));
        let sizes: Vec<String> = std::iter::successors(Some(page), |size| Some(size / 2))
            .take_while(|size| *size >= 512 && size.is_multiple_of(512))
            .map(|size| Bytes(size).to_string())
            .collect();
        let help = Some(format!("valid units for this page size: {}", sizes.join(", ")));
        if bytes > page {
            self.wrong(
                format!(
                    "a mapping unit of {} larger than the page is not supported yet",
                    unit.get()
                ),
                unit,
                &format!("the page is {}", Bytes(page)),
                help,
            );
        } else if bytes == 0
            || !bytes.is_multiple_of(512)
            || !page.is_multiple_of(bytes)
            || !(page / bytes).is_power_of_two()
        {
            self.wrong(
                format!(
                    "`mapping.unit` must be the page ({}) divided by a power of two, not {}",
                    Bytes(page),
                    unit.get()
                ),
                unit,
                "does not divide the page",
                help,
            );
        }
        u32::try_from(bytes).unwrap_or(geometry.page_bytes)
    }

    /// Whether the model can number every mapping unit of the flash.
    fn capacity(&mut self, file: &File, geometry: &Geometry, unit: u32) {
        let g = geometry;
        let pages = [
            g.channels,
            g.chips_per_channel,
            g.dies_per_chip,
            g.planes_per_die,
            g.blocks_per_plane,
            g.pages_per_block,
        ]
        .into_iter()
        .fold(1u128, |product, count| product.saturating_mul(u128::from(count)));
        let bytes = pages.saturating_mul(u128::from(g.page_bytes));
        if bytes / u128::from(unit) <= u128::from(MAX_UNITS) {
            return;
        }
        let fits = |unit: u32| bytes / u128::from(unit) <= u128::from(MAX_UNITS);
        let larger = std::iter::successors(Some(unit), |unit| unit.checked_mul(2))
            .take_while(|unit| *unit <= g.page_bytes)
            .find(|unit| fits(*unit));
        // An override that made it so large, or the section.
        let counts = file.geometry.get();
        let overridden = [
            &counts.channels,
            &counts.chips_per_channel,
            &counts.dies_per_chip,
            &counts.planes_per_die,
            &counts.blocks_per_plane,
            &counts.pages_per_block,
        ]
        .into_iter()
        .map(At::span)
        .filter(|span| self.document.layer(span) > 0)
        .max_by_key(|span| span.start);
        let place = overridden.unwrap_or_else(|| file.geometry.span());
        let help = match larger {
            Some(unit) => format!(
                "map larger units: `mapping.unit = \"{}\"` is enough",
                Bytes(u64::from(unit))
            ),
            None => format!(
                "even with a mapping unit as large as the page ({}) it does not fit: make the \
                 drive smaller, at most {} with this page",
                Bytes(u64::from(g.page_bytes)),
                approximate(u128::from(MAX_UNITS) * u128::from(g.page_bytes)),
            ),
        };
        self.at(
            place,
            format!(
                "the drive is too large: {} of flash are more than {MAX_UNITS} mapping units of {}, \
                 the model's limit",
                approximate(bytes),
                Bytes(u64::from(unit)),
            ),
            "too much flash",
            Some(help),
        );
    }

    fn flash(&mut self, flash: &schema::Flash) -> FlashTiming {
        let cell: CellType = (*flash.cell.get()).into();
        FlashTiming {
            cell,
            read: self.page_times("flash.read", &flash.cell, &flash.read),
            program: self.page_times("flash.program", &flash.cell, &flash.program),
            erase: self.span("flash.erase", &flash.erase),
            read_ready_delay: self.span_or(
                "flash.read_ready_delay",
                &flash.read_ready_delay,
                Span::ZERO,
            ),
        }
    }

    fn page_times(
        &mut self,
        name: &str,
        cell_at: &At<schema::CellName>,
        times: &At<schema::PageTimes>,
    ) -> PageTimes {
        let cell: CellType = (*cell_at.get()).into();
        let each = match times.get() {
            schema::PageTimes::All(time) => {
                self.page_time(name, time.0, times.span());
                return PageTimes { lsb: time.0, csb: time.0, msb: time.0 };
            }
            schema::PageTimes::Each(each) => each,
        };
        let lsb = each.lsb.get().0;
        self.page_time(&format!("{name}.lsb"), lsb, each.lsb.span());
        let mut other = |key: &str, value: &Maybe<Duration>, wanted: bool| match value {
            Some(value) if wanted => {
                self.page_time(&format!("{name}.{key}"), value.get().0, value.span());
                Some(value.get().0)
            }
            Some(value) => {
                self.moot(
                    value.span(),
                    Some(cell_at.span()),
                    &format!("`{name}.{key}` has no effect: {} has no such page", cell_name(cell)),
                    "remove it, or choose another `flash.cell`",
                );
                None
            }
            None if wanted => {
                self.wrong(
                    format!("`{name}.{key}` is missing: {} has such pages", cell_name(cell)),
                    times,
                    "incomplete",
                    Some(format!("add `{key} = …`, or give one time for all pages")),
                );
                None
            }
            None => None,
        };
        let csb = other("csb", &each.csb, cell == CellType::Tlc);
        let msb = other("msb", &each.msb, cell != CellType::Slc);
        PageTimes { lsb, csb: csb.unwrap_or(lsb), msb: msb.unwrap_or(lsb) }
    }

    fn page_time(&mut self, name: &str, time: Span, place: Range<usize>) {
        if time.is_zero() || time > MAX_STEP {
            let message =
                format!("`{name}` must be longer than 0 and at most {}", Duration(MAX_STEP));
            self.at(place, message, "no flash is like this", None);
        }
    }

    fn bus(&mut self, file: &File, geometry: &Geometry) -> Bus {
        let (bus, page_spare) = (file.bus.get(), &file.geometry.get().page_spare);
        let protocol = or(&bus.protocol, Protocol::Toggle);
        let highest = match protocol {
            Protocol::NvDdr2 => 533,
            Protocol::NvDdr3 => 1600,
            Protocol::Toggle => 4800,
        };
        let rate = *bus.rate.get();
        if !(200..=highest).contains(&rate.0) {
            let faster = match protocol {
                Protocol::NvDdr2 if rate.0 > 533 && rate.0 <= 1600 => "nv-ddr3",
                Protocol::NvDdr2 | Protocol::NvDdr3 if rate.0 > 533 && rate.0 <= 4800 => "toggle",
                _ => "",
            };
            let help =
                (!faster.is_empty()).then(|| format!("`protocol = \"{faster}\"` reaches {rate}"));
            self.wrong(
                format!(
                    "`bus.rate` must be from {} to {} with {}, not {rate}",
                    TransferRate(200),
                    TransferRate(highest),
                    protocol_name(protocol),
                ),
                &bus.rate,
                "out of range",
                help,
            );
        }
        let rounding = bus.rounding.as_ref().map_or(BusRounding::Exact, |r| (*r.get()).into());
        if rounding == BusRounding::TruncatedNs && rate.0 > 1000 {
            self.at(
                bus.rounding.as_ref().map_or(bus.rate.span(), At::span),
                format!("at {rate}, times truncated to whole nanoseconds would all be 0"),
                "makes transfers free",
                Some("use `rounding = \"exact\"`, or at most 1000MT/s".to_owned()),
            );
        }
        let width_bits = or(&bus.width_bits, 8);
        if let Some(width) = bus.width_bits.as_ref().filter(|w| ![8, 16].contains(w.get())) {
            self.wrong(
                format!("`bus.width_bits` must be 8 or 16, not {width_bits}"),
                width,
                "no such bus",
                None,
            );
        }
        if let Some(spare) = bus.transfer_spare.as_ref().filter(|spare| *spare.get())
            && geometry.page_spare_bytes == 0
        {
            self.moot(
                spare.span(),
                page_spare.as_ref().map(At::span),
                "`bus.transfer_spare` has no effect: pages have no spare bytes",
                "give `geometry.page_spare`",
            );
        }
        let defaults = NV_DDR2_CYCLES;
        let cycles = &bus.cycles;
        Bus {
            width_bytes: width_bits / 8,
            rate_mts: rate.0,
            cycles: BusCycles {
                t_cs: self.span_or("bus.cycles.t_cs", &cycles.t_cs, defaults.t_cs),
                t_wc: self.span_or("bus.cycles.t_wc", &cycles.t_wc, defaults.t_wc),
                t_wb: self.span_or("bus.cycles.t_wb", &cycles.t_wb, defaults.t_wb),
                t_rr: self.span_or("bus.cycles.t_rr", &cycles.t_rr, defaults.t_rr),
                t_adl: self.span_or("bus.cycles.t_adl", &cycles.t_adl, defaults.t_adl),
                t_dbsy: self.span_or("bus.cycles.t_dbsy", &cycles.t_dbsy, defaults.t_dbsy),
                t_cals: self.span_or("bus.cycles.t_cals", &cycles.t_cals, defaults.t_cals),
                t_wpst: self.span_or("bus.cycles.t_wpst", &cycles.t_wpst, defaults.t_wpst),
                t_wpsth: self.span_or("bus.cycles.t_wpsth", &cycles.t_wpsth, defaults.t_wpsth),
            },
            rounding,
            transfer_spare: or(&bus.transfer_spare, false),
            arbitration: or(&bus.arbitration, schema::BusArbitrationName::CommandFirst).into(),
        }
    }

    fn link(&mut self, file: &File) -> Link {
        let link = file.link.get();
        let lanes = or(&link.lanes, 4);
        if let Some(at) = link.lanes.as_ref()
            && ![1, 2, 4, 8, 12, 16, 32].contains(&lanes)
        {
            self.wrong(
                format!("a PCIe link cannot have {lanes} lanes"),
                at,
                "no such link",
                Some("valid: 1, 2, 4, 8, 12, 16, 32".to_owned()),
            );
        }
        let bytes_per_s = self.bandwidth(file, lanes);
        let max_payload_bytes = self.small_or("link.max_payload", &link.max_payload, 256);
        if let Some(at) = &link.max_payload
            && (!max_payload_bytes.is_power_of_two() || !(128..=4096).contains(&max_payload_bytes))
        {
            self.wrong(
                format!("`link.max_payload` cannot be {}", at.get()),
                at,
                "no such payload",
                Some("valid: 128B, 256B, 512B, 1KiB, 2KiB, 4KiB".to_owned()),
            );
        }
        let packet_overhead_bytes =
            self.small_or("link.packet_overhead", &link.packet_overhead, 24);
        if let Some(at) = link.packet_overhead.as_ref().filter(|at| at.get().0 > 4096) {
            self.wrong("`link.packet_overhead` must be at most 4KiB", at, "too large", None);
        }
        let submission_entry_bytes =
            self.small_or("link.submission_entry", &link.submission_entry, 64);
        if let Some(at) = &link.submission_entry
            && !(64..=4096).contains(&at.get().0)
        {
            self.wrong(
                "`link.submission_entry` must be from 64B (the NVMe specification's) to 4KiB",
                at,
                "out of range",
                None,
            );
        }
        let rounding = or(&link.rounding, schema::RoundingName::Exact);
        Link {
            bytes_per_s,
            lanes,
            max_payload_bytes,
            packet_overhead_bytes,
            submission_entry_bytes,
            fetch_prp_lists: or(&link.fetch_prp_lists, true),
            interrupt: self.span_or("link.interrupt", &link.interrupt, Span::ZERO),
            truncate_ns: rounding == schema::RoundingName::TruncatedNs,
        }
    }

    /// Bytes a second, from the bandwidth or from the generation and the lanes; the one that
    /// was given later if both were.
    fn bandwidth(&mut self, file: &File, lanes: u32) -> u64 {
        let link = file.link.get();
        let layer = |span: Range<usize>| self.document.layer(&span);
        let by_generation = match (&link.generation, &link.bandwidth) {
            (Some(generation), Some(bandwidth)) => {
                let (generation_layer, bandwidth_layer) =
                    (layer(generation.span()), layer(bandwidth.span()));
                if generation_layer == bandwidth_layer {
                    self.wrong(
                        "`link.bandwidth` contradicts `link.generation`",
                        bandwidth,
                        "given twice",
                        Some("give one of them".to_owned()),
                    );
                }
                generation_layer > bandwidth_layer
            }
            (generation, _) => generation.is_some(),
        };
        if by_generation {
            let generation = link.generation.as_ref().expect("it was just seen");
            let lane_bytes_per_s: u128 = match generation.get() {
                1 => 250_000_000,
                2 => 500_000_000,
                // 8 GT/s and its doubles with 128b/130b coding, in 130ths of a byte.
                g @ 3..=5 => {
                    let gts = 8_000_000_000u128 << (g - 3);
                    return (gts * 128 * u128::from(lanes) / (130 * 8)) as u64;
                }
                other => {
                    let message = format!("there is no PCIe generation {other} here");
                    self.wrong(
                        message,
                        generation,
                        "not known",
                        Some(
                            "valid: 1 to 5; later ones send fixed-size units: give `bandwidth`"
                                .to_owned(),
                        ),
                    );
                    1
                }
            };
            return (lane_bytes_per_s * u128::from(lanes)) as u64;
        }
        match &link.bandwidth {
            Some(bandwidth) => {
                let bytes = bandwidth.get().0;
                if !(1_000_000..=1_000_000_000_000).contains(&bytes) {
                    self.wrong(
                        format!(
                            "`link.bandwidth` must be from {} to {}, not {}",
                            Bandwidth(1_000_000),
                            Bandwidth(1_000_000_000_000),
                            bandwidth.get()
                        ),
                        bandwidth,
                        "out of range",
                        None,
                    );
                }
                bytes
            }
            None => {
                self.at(
                    file.link.span(),
                    "the link has no bandwidth".to_owned(),
                    "it belongs here",
                    Some("add `generation = 4` and `lanes = 4`, or `bandwidth = \"…\"`".to_owned()),
                );
                0
            }
        }
    }

    fn queues(&mut self, queues: &schema::Queues) -> Queues {
        let mut count = |name, value: &Maybe<u32>, range, default| {
            value.as_ref().map_or(default, |value| self.count(name, value, range))
        };
        Queues {
            fetch_size: count("queues.fetch_size", &queues.fetch_size, 1..=u32::MAX, 512),
            entries: count("queues.entries", &queues.entries, 2..=65_536, 1024),
            arbitration_burst: count(
                "queues.arbitration_burst",
                &queues.arbitration_burst,
                1..=65_536,
                1,
            ),
        }
    }

    fn firmware(&mut self, firmware: &schema::Firmware) -> Firmware {
        let lowered = Firmware {
            cores: firmware
                .cores
                .as_ref()
                .map_or(1, |cores| self.count("firmware.cores", cores, 1..=1024)),
            read: self.span_or("firmware.read", &firmware.read, Span::ZERO),
            write: self.span_or("firmware.write", &firmware.write, Span::ZERO),
            trim: self.span_or("firmware.trim", &firmware.trim, Span::ZERO),
            flush: self.span_or("firmware.flush", &firmware.flush, Span::ZERO),
        };
        let costs = [
            (lowered.read, &firmware.read),
            (lowered.write, &firmware.write),
            (lowered.trim, &firmware.trim),
            (lowered.flush, &firmware.flush),
        ];
        if let Some(cores) = &firmware.cores
            && costs.iter().all(|(cost, _)| cost.is_zero())
        {
            let latest = costs
                .iter()
                .filter_map(|(_, at)| at.as_ref().map(At::span))
                .max_by_key(|span| span.start);
            self.moot(
                cores.span(),
                latest,
                "`firmware.cores` has no effect: no command takes time on a core",
                "give `firmware.read`, `write`, `trim` or `flush`",
            );
        }
        lowered
    }

    fn cache(&mut self, file: &File, geometry: &Geometry) -> Option<WriteCache> {
        let cache = file.cache.as_ref()?.get();
        let bytes = cache.size.get().0;
        let spans = [
            cache.write_back.as_ref().map(At::span),
            cache.high.as_ref().map(At::span),
            cache.dram.as_ref().map(At::span),
        ];
        if bytes == 0 {
            for span in spans.into_iter().flatten() {
                self.moot(
                    span,
                    Some(cache.size.span()),
                    "this has no effect: the cache has no capacity",
                    "remove it, or give the cache a size",
                );
            }
            return None;
        }
        let least = u64::from(geometry.planes()) * u64::from(geometry.page_bytes);
        if bytes < least {
            self.wrong(
                format!(
                    "a write cache of {} cannot hold one flash page for each plane",
                    cache.size.get()
                ),
                &cache.size,
                "too small",
                Some(format!(
                    "at least {} ({} planes of {} pages), or 0 for none",
                    Bytes(least),
                    geometry.planes(),
                    Bytes(u64::from(geometry.page_bytes))
                )),
            );
        }
        let write_back = match or(&cache.write_back, WriteBackName::Eager) {
            WriteBackName::Eager => {
                if let Some(high) = &cache.high {
                    self.moot(
                        high.span(),
                        cache.write_back.as_ref().map(At::span),
                        "`cache.high` has no effect: dirty data leaves at once",
                        "use it with `write_back = \"lru\"`",
                    );
                }
                WriteBack::Eager
            }
            WriteBackName::Lru => {
                let high = or(&cache.high, Fraction(0.8)).0;
                if high <= 0.0
                    && let Some(at) = &cache.high
                {
                    self.wrong("`cache.high` must be more than 0", at, "out of range", None);
                }
                WriteBack::Lru { high }
            }
        };
        Some(WriteCache { bytes, dram: self.dram(cache.dram.as_ref()), write_back })
    }

    fn dram(&mut self, dram: Option<&At<schema::Dram>>) -> Dram {
        let ns13 = Span::from_ns(13);
        let mut lowered = Dram {
            row_bytes: 8192,
            width_bytes: 4,
            rate_mts: 1600,
            t_rcd: ns13,
            t_cl: ns13,
            t_rp: ns13,
        };
        let Some(dram) = dram.map(At::get) else { return lowered };
        if let Some(width) = &dram.width_bits {
            let bits = *width.get();
            if bits == 0 || !bits.is_multiple_of(8) || bits > 4096 {
                self.wrong(
                    format!(
                        "`cache.dram.width_bits` must be a multiple of 8 up to 4096, not {bits}"
                    ),
                    width,
                    "no such bus",
                    None,
                );
            }
            lowered.width_bytes = (bits / 8).max(1);
        }
        if let Some(rate) = &dram.rate {
            if !(1..=100_000).contains(&rate.get().0) {
                self.wrong(
                    format!(
                        "`cache.dram.rate` must be from 1MT/s to 100000MT/s, not {}",
                        rate.get()
                    ),
                    rate,
                    "out of range",
                    None,
                );
            }
            lowered.rate_mts = rate.get().0;
        }
        if let Some(row) = &dram.row {
            lowered.row_bytes = self.small("cache.dram.row", row);
            if lowered.row_bytes < lowered.width_bytes {
                self.wrong(
                    format!("a DRAM row of {} is narrower than one transfer", row.get()),
                    row,
                    "too small",
                    None,
                );
            }
        }
        lowered.t_rcd = self.span_or("cache.dram.t_rcd", &dram.t_rcd, ns13);
        lowered.t_cl = self.span_or("cache.dram.t_cl", &dram.t_cl, ns13);
        lowered.t_rp = self.span_or("cache.dram.t_rp", &dram.t_rp, ns13);
        lowered
    }

    fn mapping(&mut self, file: &File, geometry: &Geometry, unit_bytes: u32) -> Mapping {
        let mapping = &file.mapping;
        let table = match (&mapping.table, &mapping.cmt) {
            (Some(table), cmt) => match (*table.get(), cmt) {
                (TableName::Ideal, None) => MappingTable::Ideal,
                (TableName::Ideal, Some(cmt)) => {
                    let place = cmt.get().size.span();
                    self.moot(
                        place,
                        Some(table.span()),
                        "`[mapping.cmt]` has no effect: the whole table is in DRAM",
                        "remove it, or use `table = \"cached\"`",
                    );
                    MappingTable::Ideal
                }
                (TableName::Cached, Some(cmt)) => {
                    MappingTable::Cached(self.cmt(file, cmt.get(), geometry))
                }
                (TableName::Cached, None) => {
                    self.wrong(
                        "a cached mapping table needs a capacity",
                        table,
                        "cached in how many bytes?",
                        Some("add `[mapping.cmt]` with `size = \"2MiB\"`".to_owned()),
                    );
                    MappingTable::Ideal
                }
            },
            (None, Some(cmt)) => MappingTable::Cached(self.cmt(file, cmt.get(), geometry)),
            (None, None) => MappingTable::Ideal,
        };
        let unmapped_reads =
            mapping.unmapped_reads.as_ref().map_or(UnmappedReads::Zeroes, |u| (*u.get()).into());
        Mapping { unit_bytes, table, unmapped_reads }
    }

    fn cmt(&mut self, file: &File, cmt: &schema::Cmt, geometry: &Geometry) -> CachedTable {
        let page = geometry.page_bytes;
        let granularity = or(&cmt.granularity, schema::GranularityName::Entry);
        let by_page = granularity == schema::GranularityName::Page;
        if let Some(load) = cmt.load.as_ref().filter(|_| by_page) {
            self.moot(
                load.span(),
                cmt.granularity.as_ref().map(At::span),
                "`mapping.cmt.load` has no effect: whole translation pages are loaded",
                "use it with `granularity = \"entry\"`",
            );
        }
        if let Some(entry) = cmt.entry.as_ref().filter(|_| by_page) {
            self.moot(
                entry.span(),
                cmt.granularity.as_ref().map(At::span),
                "`mapping.cmt.entry` has no effect: whole translation pages are cached",
                "use it with `granularity = \"entry\"`",
            );
        }
        let mut size = |name: &str, value: &Maybe<Bytes>| {
            let at = value.as_ref()?;
            if !(1..=1024).contains(&at.get().0) {
                self.wrong(
                    format!("`{name}` must be from 1B to 1KiB, not {}", at.get()),
                    at,
                    "no such entry",
                    None,
                );
            }
            Some(at.get().0 as u32)
        };
        let entry_bytes = size("mapping.cmt.entry", &cmt.entry);
        let translation_entry_bytes = size("mapping.cmt.translation_entry", &cmt.translation_entry);
        let load_bytes = self.small_or("mapping.cmt.load", &cmt.load, 512);
        if let Some(load) = cmt.load.as_ref().filter(|_| !by_page)
            && (load_bytes == 0 || load_bytes > page || !load_bytes.is_multiple_of(512))
        {
            self.wrong(
                format!(
                    "`mapping.cmt.load` must be a multiple of 512B up to the page, not {}",
                    load.get()
                ),
                load,
                "out of range",
                None,
            );
        }
        let sharing = or(&cmt.sharing, schema::SharingName::Shared);
        let parts = match sharing {
            schema::SharingName::Partitioned => file.namespace.len().max(1) as u64,
            _ => 1,
        };
        let (least, what) = if by_page {
            (u64::from(page), "translation page")
        } else {
            (u64::from(entry_bytes.unwrap_or(16)), "entry")
        };
        if cmt.size.get().0 < least * parts {
            let each = if parts > 1 { " for each namespace" } else { "" };
            self.wrong(
                format!("a mapping cache of {} cannot hold one {what}{each}", cmt.size.get()),
                &cmt.size,
                "too small",
                Some(format!("at least {}", Bytes(least * parts))),
            );
        }
        CachedTable {
            bytes: cmt.size.get().0,
            granularity: granularity.into(),
            sharing: sharing.into(),
            entry_bytes,
            translation_entry_bytes,
            load_bytes,
            write_back: or(&cmt.write_back, true),
        }
    }

    fn order(&mut self, allocation: &schema::Allocation) -> PlaneOrder {
        let Some(order) = &allocation.order else { return CWDP };
        parse_order(order.get()).unwrap_or_else(|| {
            self.wrong(
                format!("`allocation.order` cannot be `{}`", order.get()),
                order,
                "not a permutation of C, W, D and P",
                Some(
                    "each of C (channel), W (way, the chip), D (die) and P (plane) once, such as CWDP"
                        .to_owned(),
                ),
            );
            CWDP
        })
    }

    fn over_provisioning(&mut self, file: &File) -> f64 {
        let Some(share) = &file.over_provisioning else { return 0.07 };
        if share.get().0 <= 0.0 || share.get().0 >= 1.0 {
            self.wrong(
                format!("`over_provisioning` must be between 0% and 100%, not {}", share.get()),
                share,
                "out of range",
                Some(
                    "it is the share of the raw pages that the host does not see; 7% is usual"
                        .to_owned(),
                ),
            );
        }
        share.get().0
    }

    fn gc(&mut self, file: &File, geometry: &Geometry) -> Gc {
        let gc = &file.gc;
        let victim = match or(&gc.victim, VictimName::Greedy) {
            VictimName::Greedy => {
                if let Some(d) = &gc.d {
                    self.moot(
                        d.span(),
                        gc.victim.as_ref().map(At::span),
                        "`gc.d` has no effect: the greedy policy looks at every block",
                        "use it with `victim = \"d-choices\"`",
                    );
                }
                VictimPolicy::Greedy
            }
            VictimName::DChoices => {
                let blocks = geometry.blocks_per_plane;
                let d = gc.d.as_ref().map_or(10.min(blocks), |d| self.count("gc.d", d, 1..=blocks));
                VictimPolicy::DChoices { d }
            }
        };
        let start = or(&gc.start, Fraction(0.05));
        let urgent = or(&gc.urgent, Fraction(start.0.min(0.005)));
        if let Some(at) = gc.start.as_ref().filter(|at| at.get().0 <= 0.0 || at.get().0 >= 1.0) {
            self.wrong(
                format!("`gc.start` must be between 0% and 100%, not {start}"),
                at,
                "out of range",
                None,
            );
        }
        if let Some(at) = gc.urgent.as_ref().filter(|_| urgent.0 > start.0) {
            self.wrong(
                format!("`gc.urgent` ({urgent}) is above `gc.start` ({start})"),
                at,
                "collection must start before it is urgent",
                Some(format!("at most {start}")),
            );
        }
        let reserve_blocks = gc
            .reserve_blocks
            .as_ref()
            .map_or(2, |at| self.count("gc.reserve_blocks", at, 1..=u32::MAX));
        let idle_after = gc.idle_after.as_ref().map(|at| self.span("gc.idle_after", at));
        if let Some(target) = &gc.idle_target {
            if idle_after.is_none() {
                self.wrong(
                    "`gc.idle_target` has no effect: there is no idle collection",
                    target,
                    "this changes nothing",
                    Some("add `gc.idle_after`, for example \"10ms\"".to_owned()),
                );
            } else if target.get().0 < start.0 || target.get().0 >= 1.0 {
                self.wrong(
                    format!(
                        "`gc.idle_target` must be from `gc.start` ({start}) to below 100%, not {}",
                        target.get()
                    ),
                    target,
                    "out of range",
                    None,
                );
            }
        }
        Gc {
            victim,
            start: start.0,
            urgent: urgent.0,
            reserve_blocks,
            frontiers: gc
                .write_frontiers
                .as_ref()
                .map_or(WriteFrontiers::Separate, |at| (*at.get()).into()),
            idle_after,
            idle_target: or(&gc.idle_target, start).0,
        }
    }

    fn scheduler(&mut self, file: &File) -> Scheduler {
        let (scheduler, planes) = (&file.scheduler, &file.geometry.get().planes_per_die);
        let multi_plane = or(&scheduler.multi_plane, true);
        if let Some(window) = &scheduler.multi_plane_window {
            if !multi_plane {
                self.moot(
                    window.span(),
                    scheduler.multi_plane.as_ref().map(At::span),
                    "`scheduler.multi_plane_window` has no effect: operations are not joined",
                    "use it with `multi_plane = true`",
                );
            } else if *planes.get() == 1 {
                self.moot(
                    window.span(),
                    Some(planes.span()),
                    "`scheduler.multi_plane_window` has no effect: a die has one plane",
                    "remove it",
                );
            }
            self.count("scheduler.multi_plane_window", window, 1..=u32::MAX);
        }
        Scheduler {
            die_interleaving: or(&scheduler.die_interleaving, true),
            multi_plane,
            multi_plane_window: or(&scheduler.multi_plane_window, 32),
            priority_classes: or(&scheduler.priority_classes, false),
        }
    }

    fn namespaces(&mut self, file: &File, geometry: &Geometry, unit: u32) -> Vec<Namespace> {
        if file.namespace.is_empty() {
            return vec![Namespace::whole_drive()];
        }
        let mut namespaces = Vec::new();
        for (index, at) in file.namespace.iter().enumerate() {
            let namespace = at.get();
            let name = |key: &str| format!("namespace.{index}.{key}");
            let units = namespace.size.as_ref().map(|size| {
                let bytes = size.get().0;
                if bytes == 0 || !bytes.is_multiple_of(u64::from(unit)) {
                    self.wrong(
                        format!(
                            "`{}` must be a multiple of the mapping unit, not {}",
                            name("size"),
                            size.get()
                        ),
                        size,
                        &format!("not a multiple of {}", Bytes(u64::from(unit))),
                        None,
                    );
                }
                bytes / u64::from(unit)
            });
            let g = geometry;
            namespaces.push(Namespace {
                units,
                channels: self.indices(&name("channels"), &namespace.channels, g.channels),
                chips: self.indices(&name("chips"), &namespace.chips, g.chips_per_channel),
                dies: self.indices(&name("dies"), &namespace.dies, g.dies_per_chip),
                planes: self.indices(&name("planes"), &namespace.planes, g.planes_per_die),
            });
        }
        namespaces
    }

    fn indices(&mut self, name: &str, list: &[At<u32>], count: u32) -> Vec<u32> {
        let mut seen = Vec::new();
        for at in list {
            let index = *at.get();
            if index >= count {
                let help = Some(format!("valid: 0 to {}", count - 1));
                self.wrong(format!("`{name}` has no {index}"), at, "there is none", help);
            } else if seen.contains(&index) {
                self.wrong(format!("`{name}` names {index} twice"), at, "again", None);
            }
            seen.push(index);
        }
        seen
    }

    /// Whether what the host may write, the translation pages, the open blocks and the
    /// reserve fit each plane, and whether collection can ever reach its goal.
    fn room(&mut self, file: &File, config: &Config) {
        let geometry = &config.geometry;
        let unit = u64::from(config.mapping.unit_bytes);
        let block = u64::from(geometry.pages_per_block) * (u64::from(geometry.page_bytes) / unit);
        let blocks = u64::from(geometry.blocks_per_plane);
        let offered = ((block * blocks) as f64 * (1.0 - config.over_provisioning)) as u64;
        let Some(logical) = self.logical_units(file, config, offered) else { return };
        let translation = translation_units(config, logical);
        let frontiers = match config.gc.frontiers {
            WriteFrontiers::One => 1,
            WriteFrontiers::Separate => 2,
        };
        let open = frontiers + u64::from(matches!(config.mapping.table, MappingTable::Cached(_)));
        let used = (logical + translation).div_ceil(block);
        let reserve = u64::from(config.gc.reserve_blocks);
        let start = blocks_of(config.gc.start, geometry.blocks_per_plane);
        // The one of them that was given last, which is probably the cause.
        let cause = |other: Option<Range<usize>>| {
            [file.over_provisioning.as_ref().map(At::span), other]
                .into_iter()
                .flatten()
                .max_by_key(|span| (self.document.layer(span), span.start))
                .unwrap_or_else(|| file.geometry.span())
        };
        let account = |needed: u64, what: &str| {
            format!(
                "{used} blocks for what the host may write{}, {open} open, {needed} {what}: \
                 {} of {blocks} in each plane",
                if translation > 0 { " and its translation pages" } else { "" },
                used + open + needed,
            )
        };
        let lowest = |needed: u64| {
            // Smallest over-provisioning, in tenths of a percent, that leaves enough room.
            let spare = open + needed + translation.div_ceil(block) + 1;
            let share = spare as f64 / blocks as f64;
            (share < 0.95).then(|| Fraction((share * 1000.0).ceil() / 1000.0))
        };
        if used + open + reserve > blocks {
            let help = match lowest(reserve) {
                Some(share) => format!(
                    "{}\nraise `over_provisioning` to {share} or more, or lower `gc.reserve_blocks`",
                    account(reserve, "in reserve")
                ),
                None => format!(
                    "{}\nlower `gc.reserve_blocks` or raise `geometry.blocks_per_plane`",
                    account(reserve, "in reserve")
                ),
            };
            let place = cause(file.gc.reserve_blocks.as_ref().map(At::span));
            self.at(
                place,
                "the drive cannot hold what it offers to the host".to_owned(),
                "too little room",
                Some(help),
            );
        } else if used + open + start > blocks {
            let reachable = blocks - used - open;
            let help = format!(
                "{}\n{}lower `gc.start` to {} or less",
                account(start, "to be kept free"),
                lowest(start).map_or_else(String::new, |share| format!(
                    "raise `over_provisioning` to {share} or more, or "
                )),
                Fraction((reachable as f64 / blocks as f64 * 1000.0).floor() / 1000.0),
            );
            let place = cause(file.gc.start.as_ref().map(At::span));
            self.at(
                place,
                format!(
                    "collection could never end: a full drive cannot keep {} of its blocks free",
                    Fraction(config.gc.start)
                ),
                "cannot be reached",
                Some(help),
            );
        }
    }

    /// Mapping units of the fullest plane that the host can write, or `None` when the
    /// namespaces do not fit (and that was said).
    fn logical_units(&mut self, file: &File, config: &Config, offered: u64) -> Option<u64> {
        let geometry = &config.geometry;
        let mut demand = vec![0u64; geometry.planes() as usize];
        let mut shared = vec![false; demand.len()];
        for (index, namespace) in config.namespaces.iter().enumerate() {
            let planes = planes_of(namespace, geometry);
            let each = namespace.units.map(|units| units.div_ceil(planes.len() as u64));
            for plane in &planes {
                match each {
                    Some(each) => demand[*plane] = demand[*plane].saturating_add(each),
                    None => shared[*plane] = true,
                }
            }
            let Some(at) = file.namespace.get(index) else { continue };
            let over = planes.iter().any(|plane| demand[*plane] > offered);
            if over {
                let size = at.get().size.as_ref().map_or_else(|| at.span(), At::span);
                let room =
                    Bytes(offered * planes.len() as u64 * u64::from(config.mapping.unit_bytes));
                self.at(
                    size,
                    format!("namespace {} does not fit", index + 1),
                    "too large",
                    Some(format!(
                        "its planes offer {room} ({}) in all, to all namespaces on them",
                        approximate(u128::from(room.0))
                    )),
                );
                return None;
            }
        }
        for (index, namespace) in config.namespaces.iter().enumerate() {
            let planes = planes_of(namespace, geometry);
            if namespace.units.is_none() && planes.iter().any(|plane| demand[*plane] >= offered) {
                let place = file.namespace.get(index).map_or_else(|| 0..0, At::span);
                self.at(
                    place,
                    format!("nothing is left for namespace {}", index + 1),
                    "has no size",
                    Some("make the others smaller".to_owned()),
                );
                return None;
            }
        }
        let full = demand.iter().zip(&shared).map(|(units, shared)| match shared {
            true => offered,
            false => *units,
        });
        full.max()
    }

    fn faults(&mut self, file: &File, config: &Config) -> Vec<Fault> {
        let mut faults = Vec::new();
        for at in &file.fault {
            let entry = at.get();
            let keys = [
                ("rate", &entry.rate),
                ("units", &entry.units),
                ("namespace", &entry.namespace),
                ("die", &entry.die),
                ("factor", &entry.factor),
                ("at", &entry.at),
                ("recovery", &entry.recovery),
            ];
            let settings: Vec<(&str, &str)> = keys
                .iter()
                .filter_map(|(key, value)| Some((*key, value.as_ref()?.get().0.as_str())))
                .collect();
            let parsed = fault::from_parts(entry.kind.get(), &settings)
                .and_then(|fault| fault::check(&fault, config).map(|()| fault));
            match parsed {
                Ok(fault) => faults.push(fault),
                Err(error) => {
                    let place = error
                        .key
                        .as_deref()
                        .and_then(|key| keys.iter().find(|(k, _)| *k == key))
                        .and_then(|(_, value)| value.as_ref().map(At::span))
                        .unwrap_or_else(|| entry.kind.span());
                    self.at(place, error.message, "here", Some(error.help));
                }
            }
        }
        faults
    }
}

/// Channel, way, die, plane.
const CWDP: PlaneOrder =
    PlaneOrder([Dimension::Channel, Dimension::Chip, Dimension::Die, Dimension::Plane]);

/// Reads a plane order such as `CWDP`; `None` if it is not a permutation.
pub fn parse_order(text: &str) -> Option<PlaneOrder> {
    let letters: Vec<Dimension> = text
        .chars()
        .map(|letter| match letter.to_ascii_uppercase() {
            'C' => Some(Dimension::Channel),
            'W' => Some(Dimension::Chip),
            'D' => Some(Dimension::Die),
            'P' => Some(Dimension::Plane),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let order: [Dimension; 4] = letters.try_into().ok()?;
    let distinct = (0..4).all(|i| !order[..i].contains(&order[i]));
    distinct.then_some(PlaneOrder(order))
}

/// Prints a plane order as [`parse_order`] reads it.
pub fn print_order(order: PlaneOrder) -> String {
    order
        .0
        .into_iter()
        .map(|dimension| match dimension {
            Dimension::Channel => 'C',
            Dimension::Chip => 'W',
            Dimension::Die => 'D',
            Dimension::Plane => 'P',
        })
        .collect()
}

fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::NvDdr2 => "NV-DDR2",
        Protocol::NvDdr3 => "NV-DDR3",
        Protocol::Toggle => "Toggle DDR",
    }
}

fn cell_name(cell: CellType) -> &'static str {
    match cell {
        CellType::Slc => "SLC",
        CellType::Mlc => "MLC",
        CellType::Tlc => "TLC",
    }
}

/// Indices of the planes that `namespace` may use, channel first.
fn planes_of(namespace: &Namespace, geometry: &Geometry) -> Vec<usize> {
    let all = |list: &[u32], count: u32| -> Vec<u32> {
        if list.is_empty() { (0..count).collect() } else { list.to_vec() }
    };
    let (chips, dies, planes) =
        (geometry.chips_per_channel, geometry.dies_per_chip, geometry.planes_per_die);
    let mut indices = Vec::new();
    for channel in all(&namespace.channels, geometry.channels) {
        for chip in all(&namespace.chips, chips) {
            for die in all(&namespace.dies, dies) {
                for plane in all(&namespace.planes, planes) {
                    let index = ((channel * chips + chip) * dies + die) * planes + plane;
                    indices.push(index as usize);
                }
            }
        }
    }
    indices
}

/// Mapping units of flash in each plane that hold the translation pages for `logical` units
/// in each plane; 0 when the table is in DRAM.
fn translation_units(config: &Config, logical: u64) -> u64 {
    let MappingTable::Cached(table) = &config.mapping.table else { return 0 };
    let page = u64::from(config.geometry.page_bytes);
    let unit = u64::from(config.mapping.unit_bytes);
    // An address of a raw unit and a bit for each of its sectors.
    let address_bits = 64 - (config.geometry.raw_bytes() / unit).saturating_sub(1).leading_zeros();
    let computed = (u64::from(address_bits) + unit / 512).div_ceil(8);
    let entry = table.translation_entry_bytes.map_or(computed, u64::from);
    logical.div_ceil((page / entry).max(1)) * (page / unit)
}

/// A size in the largest decimal unit, rounded, for messages.
pub(super) fn approximate(bytes: u128) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = if value < 10.0 { 2 } else { 1 };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    };
    format!("{text} {}", units[unit])
}
