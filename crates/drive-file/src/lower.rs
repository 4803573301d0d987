//! From a drive file to the model's configuration, checking everything on the way.
//!
//! All mistakes of a file are reported together, each at its place. A key that would change
//! nothing is a mistake too, unless it stands in the file and an override has taken its effect.

mod controller;
mod ethernet;
mod ftl;
mod key_value;
mod room;
mod wear;

use std::ops::Range;

pub(super) use ftl::UNPACED_START;
pub use key_value::{default_key_value, takes_pairs};

use mynah_model::config::{
    Bus, BusCycles, BusRounding, CachedTable, CellType, Config, DataCache, Dimension, Dram, Fault,
    Firmware, FlashTiming, Flin, Gc, Geometry, Link, Mapping, MappingScheme, MappingTable,
    Namespace, NamespaceKind, PageTimes, Placement, PlaneOrder, Precedence, Queues, Scheduler,
    Suspension, UnmappedReads, VictimPolicy, WriteBack, WriteFrontiers,
};
use mynah_stamp::Span;

use super::document::{Document, Problem};
use super::schema::{
    self, At, File, MappingName, Maybe, Protocol, TableName, VictimName, WriteBackName,
};
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

/// FLIN with the parameters that MQSim's `SSD_Device.cpp` gives it (7ec40e3).
pub const FLIN: Flin = Flin {
    epoch: Span::from_ms(10),
    read_bytes_per_s: 33_554_432,
    write_bytes_per_s: 262_144,
    fairness: 0.6,
    divides_collection: true,
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
    let mut mapping = check.mapping(file, &geometry, unit_bytes);
    let namespaces = check.namespaces(file, &geometry, unit_bytes);
    if namespaces.iter().all(|namespace| namespace.kind == NamespaceKind::Pairs) {
        // What else it says has been refused, or an override has taken its effect.
        mapping.table = MappingTable::Ideal;
        mapping.unmapped_reads = UnmappedReads::Zeroes;
    }
    let hybrid = mapping.scheme != MappingScheme::Page;
    if hybrid {
        check.hybrid(file);
    }
    let config = Config {
        geometry,
        flash: check.flash(file),
        bus: check.bus(file, &geometry),
        link: check.link(file),
        ethernet: check.ethernet(file),
        queues: check.queues(file),
        firmware: check.firmware(&file.firmware),
        cache: check.cache(file, &geometry),
        mapping,
        plane_order: check.order(&file.allocation),
        placement: match &file.allocation.placement {
            Some(placement) if !hybrid => (*placement.get()).into(),
            _ => Placement::Static,
        },
        over_provisioning: check.over_provisioning(file),
        gc: match hybrid {
            true => check.gc_of_merges(file, &geometry),
            false => check.gc_of_pages(file, &geometry),
        },
        wear: match hybrid {
            true => mynah_model::config::Wear { static_threshold: None, ..check.wear(&file.wear) },
            false => check.wear(&file.wear),
        },
        energy: check.energy(file),
        scheduler: check.scheduler(file),
        namespaces,
        key_value: check.key_value(file, &geometry, unit_bytes),
        faults: Vec::new(),
        seed: or(&file.seed, 1),
    };
    if check.problems.is_empty() && hybrid {
        check.room_for_logs(file, &config);
    } else if check.problems.is_empty() && !config.flash.rewritable {
        check.room(file, &config);
        check.hot_data(file, &config);
        check.superblocks(file, &config);
    }
    let faults = check.faults(file, &config);
    if check.problems.is_empty() { Ok(Config { faults, ..config }) } else { Err(check.problems) }
}

/// The mapping unit of a drive file that gives none, where data may be anywhere: 4 KiB, or the
/// page if that is less or cannot be divided so.
pub(super) fn usual_unit(page_bytes: u32) -> u32 {
    const USUAL: u32 = 4096;
    let divides = page_bytes.is_multiple_of(USUAL) && (page_bytes / USUAL).is_power_of_two();
    if divides { USUAL } else { page_bytes }
}

/// The value, or the default if it was left out.
fn or<T: Clone>(value: &Maybe<T>, default: T) -> T {
    value.as_ref().map_or(default, |at| at.get().clone())
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
    fn without_effect(
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
        let page = u64::from(geometry.page_bytes);
        let hybrid = or(&file.mapping.kind, MappingName::Page) == MappingName::Hybrid;
        let Some(unit) = &file.mapping.unit else {
            let whole = hybrid || or(&file.flash.get().rewritable, false);
            return if whole { geometry.page_bytes } else { usual_unit(geometry.page_bytes) };
        };
        let bytes = unit.get().0;
        if hybrid {
            if bytes != page {
                self.without_effect(
                    unit.span(),
                    file.mapping.kind.as_ref().map(At::span),
                    "hybrid mapping has mapping units of a page",
                    &format!("remove it, or use `unit = \"{}\"`", Bytes(page)),
                );
            }
            return geometry.page_bytes;
        }
        let sizes: Vec<String> = std::iter::successors(Some(page), |size| Some(size / 2))
            .take_while(|size| *size >= 512 && size.is_multiple_of(512))
            .map(|size| Bytes(size).to_string())
            .collect();
        let across: Vec<String> = std::iter::successors(Some(2), |planes| Some(planes * 2))
            .take_while(|planes| *planes <= u64::from(geometry.planes_per_die))
            .filter(|planes| u64::from(geometry.planes_per_die).is_multiple_of(*planes))
            .map(|planes| Bytes(page * planes).to_string())
            .collect();
        let valid = [across.iter().rev().cloned().collect(), sizes].concat().join(", ");
        let help = Some(format!("valid units for this page size and these planes: {valid}"));
        let (larger, smaller) = (bytes.max(page), bytes.min(page));
        let divides = bytes > 0 && bytes.is_multiple_of(512) && larger.is_multiple_of(smaller);
        let power = divides && (larger / smaller).is_power_of_two();
        let planes = larger / page;
        if bytes > page && !(power && u64::from(geometry.planes_per_die).is_multiple_of(planes)) {
            self.wrong(
                format!(
                    "a mapping unit larger than the page ({}) has a page in each of a power of two \
                     of a die's {} planes, so it cannot be {}",
                    Bytes(page),
                    geometry.planes_per_die,
                    unit.get()
                ),
                unit,
                "does not lie evenly across planes",
                help,
            );
        } else if !power {
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
        } else if planes > 1 {
            self.across_planes(file);
        }
        u32::try_from(bytes).unwrap_or(geometry.page_bytes)
    }

    /// What a drive cannot have whose mapping units lie across planes.
    fn across_planes(&mut self, file: &File) {
        let multi_plane = file.scheduler.multi_plane.as_ref().filter(|at| !*at.get());
        let multi_plane = multi_plane.map(|at| (at.span(), "`scheduler.multi_plane` must be on"));
        let planes = file.namespace.iter().filter_map(|at| at.get().planes.first());
        let planes = planes.map(|at| (at.span(), "a namespace cannot have some planes of a die"));
        let refused: Vec<_> = multi_plane.into_iter().chain(planes).collect();
        for (span, message) in refused {
            self.at(
                span,
                format!("{message}: mapping units lie across planes"),
                "not with units larger than a page",
                Some("remove it, or use `mapping.unit` of a page or less".to_owned()),
            );
        }
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

    fn flash(&mut self, file: &File) -> FlashTiming {
        let flash = file.flash.get();
        let cell: CellType = (*flash.cell.get()).into();
        let rewritable = or(&flash.rewritable, false);
        let erase = match (&flash.erase, rewritable) {
            (Some(erase), false) => self.span("flash.erase", erase),
            (Some(erase), true) => {
                self.without_effect(
                    erase.span(),
                    flash.rewritable.as_ref().map(At::span),
                    "`flash.erase` has no effect: rewritable memory is never erased",
                    "remove it",
                );
                Span::ZERO
            }
            (None, true) => Span::ZERO,
            (None, false) => {
                self.wrong(
                    "`flash.erase` is missing",
                    &file.flash,
                    "it belongs here",
                    Some("add `erase = …`, or `rewritable = true`".to_owned()),
                );
                Span::ZERO
            }
        };
        if rewritable {
            self.rewritable(file);
        }
        FlashTiming {
            cell,
            read: self.page_times("flash.read", &flash.cell, &flash.read),
            program: self.page_times("flash.program", &flash.cell, &flash.program),
            erase,
            read_ready_delay: self.span_or(
                "flash.read_ready_delay",
                &flash.read_ready_delay,
                Span::ZERO,
            ),
            rewritable,
            one_shot: self.one_shot(file, cell, rewritable),
        }
    }

    fn one_shot(&mut self, file: &File, cell: CellType, rewritable: bool) -> bool {
        let flash = file.flash.get();
        let Some(one_shot) = flash.one_shot.as_ref().filter(|at| *at.get()) else { return false };
        if rewritable || cell == CellType::Slc {
            self.without_effect(
                one_shot.span(),
                Some(flash.cell.span()),
                "`flash.one_shot` has no effect: a word line is one page",
                "remove it, or choose another `flash.cell`",
            );
            return false;
        }
        if matches!(flash.program.get(), schema::PageTimes::Each(_)) {
            self.wrong(
                "one-shot programs take all pages of a word line in one time",
                &flash.program,
                "a time for each page",
                Some("give one time for the word line: `program = \"…\"`".to_owned()),
            );
        }
        let pages = file.geometry.get().pages_per_block.get();
        if !pages.is_multiple_of(cell.bits()) {
            self.wrong(
                format!("{pages} pages are not whole word lines of {}", cell_name(cell)),
                &file.geometry.get().pages_per_block,
                "one-shot programs take whole word lines",
                Some(format!("use a multiple of {}", cell.bits())),
            );
        }
        true
    }

    /// What memory that is overwritten in place cannot have.
    fn rewritable(&mut self, file: &File) {
        let page = file.geometry.get().page_size.get().0;
        if let Some(unit) = file.mapping.unit.as_ref().filter(|unit| unit.get().0 != page) {
            self.wrong(
                "rewritable memory has mapping units of a page",
                unit,
                "not the page",
                Some("remove it".to_owned()),
            );
        }
        let cause = file.flash.get().rewritable.as_ref().map(At::span);
        let pointless = [
            file.mapping.cmt.as_ref().map(|cmt| cmt.get().size.span()),
            file.mapping.unmapped_reads.as_ref().map(At::span),
            file.gc.victim.as_ref().map(At::span),
            file.gc.unit.as_ref().map(At::span),
            file.gc.d.as_ref().map(At::span),
            file.gc.start.as_ref().map(At::span),
            file.gc.urgent.as_ref().map(At::span),
            file.gc.paced.as_ref().filter(|paced| *paced.get()).map(At::span),
            file.gc.reserve_blocks.as_ref().map(At::span),
            file.gc.write_frontiers.as_ref().map(At::span),
            file.gc.hot.as_ref().map(At::span),
            file.gc.idle_after.as_ref().map(At::span),
            file.scheduler.suspend_erase.as_ref().map(At::span),
        ];
        for span in pointless.into_iter().flatten() {
            self.without_effect(
                span,
                cause.clone(),
                "this has no effect: rewritable memory needs no table, no collection and no erase",
                "remove it",
            );
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
                return PageTimes::all(time.0);
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
                self.without_effect(
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
        let bits = cell.bits();
        let csb = other("csb", &each.csb, bits >= 3).unwrap_or(lsb);
        let msb = other("msb", &each.msb, bits >= 2).unwrap_or(lsb);
        let fourth = other("fourth", &each.fourth, bits >= 4).unwrap_or(msb);
        let fifth = other("fifth", &each.fifth, bits >= 5).unwrap_or(msb);
        PageTimes { lsb, csb, msb, fourth, fifth }
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
            self.without_effect(
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
        CellType::Qlc => "QLC",
        CellType::Plc => "PLC",
    }
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
