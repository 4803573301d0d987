//! What can be built: the checks behind [`Config::check`], and the layout of the logical
//! space that follows from a valid configuration.

use crate::config::{
    Arbitration, CacheMode, Caching, CellType, CollectionUnit, Config, ConfigError, Fault,
    FaultExtent, FoldWay, HANDLES_MAX, HotData, Isolation, KeyIndex, KeyIndexKind, MappingScheme,
    MappingTable, MediaOperation, Namespace, NamespaceKind, PageTimes, Placement, RowPolicy,
    SlcCache, UnmappedReads, WriteBack, WriteFrontiers,
};
use crate::flash::timing::PLANES_MAX;
use crate::ftl::blocks::UNITS_PER_BLOCK_MAX;
use crate::ftl::hotness::COUNTERS_PER_WORD;
use crate::ftl::pairs::index::Index;
use crate::number::{Lpn, Mvpn, Plane};
use crate::pair_index::OwnIndex;
use crate::policy::{
    CacheAdmission, Heat, PlaneScheduling, PolicySet, VictimChoice, WritePlacement,
};
use crate::space::{NamespaceSpace, PairRoom, Plan, pages_per_program, planes_in_order};

/// Units of raw flash and of mapping that fit the tables' 32-bit entries.
const UNITS_MAX: u64 = (1 << 32) - 2;

fn fail<T>(key: &'static str, problem: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError { key, problem: problem.into() })
}

/// Indices of others have names that are none of Mynah's, and settings that have an effect.
fn validate_own_index(own: OwnIndex, index: &KeyIndex) -> Result<(), ConfigError> {
    let name = own.0.name();
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_word) {
        let problem = format!("`{name}`: up to 64 of a to z, 0 to 9 and `-` make a name");
        return fail("kv.index.kind", problem);
    }
    if ["dynamic-hash", "hash", "lsm"].contains(&name) {
        let problem = format!("`{name}` is the name of an index of Mynah's; take another");
        return fail("kv.index.kind", problem);
    }
    if index.signature_bits > 0 && !own.0.is_hashed() {
        let problem = format!("the pages of `{name}` are not hashed: 0 is valid");
        return fail("kv.index.signature", problem);
    }
    Ok(())
}

fn within(
    key: &'static str,
    value: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    fail(key, format!("{value} is not within {} to {}", range.start(), range.end()))
}

impl Config {
    /// Checks that the drive can be built.
    ///
    /// # Errors
    /// Names the first setting that does not fit, and what would.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.validate().map(|_| ())
    }

    /// Capacities of the namespaces in mapping units.
    ///
    /// # Errors
    /// See [`Config::check`].
    pub fn capacities(&self) -> Result<Vec<u64>, ConfigError> {
        let capacity = |it: &NamespaceSpace| it.pairs.map_or(it.units, |room| room.capacity);
        Ok(self.validate()?.namespaces.iter().map(|it| capacity(it).into()).collect())
    }

    /// First logical unit of each namespace; empty for a configuration that is not valid.
    pub(crate) fn namespace_bases(&self) -> Vec<Lpn> {
        self.validate()
            .map(|plan| plan.namespaces.iter().map(|space| space.base).collect())
            .unwrap_or_default()
    }

    pub(crate) fn validate(&self) -> Result<Plan, ConfigError> {
        self.validate_geometry()?;
        self.validate_parts()?;
        let plan = self.with_joined_planes().lay_out()?;
        if let WriteFrontiers::HotCold(HotData { counters, decay, .. }) = self.gc.frontiers {
            let counters = counters.unwrap_or(plan.units);
            if counters > plan.units {
                let problem = format!("{counters}: the drive has {} mapping units", plan.units);
                return fail("gc.hot.counters", problem);
            }
            let least = counters.div_ceil(COUNTERS_PER_WORD);
            within("gc.hot.decay", decay.unwrap_or(least).into(), least.into()..=u32::MAX.into())?;
        }
        for fault in &self.faults {
            if let Fault::Media { extent: FaultExtent::Units { namespace, last, .. }, .. } = *fault
            {
                let units = plan.namespaces[namespace as usize - 1].units;
                if units == 0 {
                    let problem = "a namespace of pairs has no addresses: give a rate";
                    return fail("fault.units", problem);
                }
                if last >= u64::from(units) {
                    let problem = format!("unit {last}: the last is {}", units - 1);
                    return fail("fault.units", problem);
                }
            }
        }
        Ok(plan)
    }

    fn validate_geometry(&self) -> Result<(), ConfigError> {
        let g = &self.geometry;
        within("geometry.channels", g.channels.into(), 1..=1024)?;
        within("geometry.chips_per_channel", g.chips_per_channel.into(), 1..=64)?;
        within("geometry.dies_per_chip", g.dies_per_chip.into(), 1..=64)?;
        within("geometry.planes_per_die", g.planes_per_die.into(), 1..=PLANES_MAX as u64)?;
        within("geometry.blocks_per_plane", g.blocks_per_plane.into(), 4..=1 << 20)?;
        within("geometry.pages_per_block", g.pages_per_block.into(), 1..=1 << 15)?;
        within("geometry.page_size", g.page_bytes.into(), 512..=1 << 20)?;
        if !g.page_bytes.is_multiple_of(512) {
            return fail("geometry.page_size", "a page is a whole number of 512-byte sectors");
        }
        if g.chips_per_channel * g.dies_per_chip > 64 {
            return fail(
                "geometry.dies_per_chip",
                format!(
                    "{} dies share a channel; at most 64 can",
                    g.chips_per_channel * g.dies_per_chip
                ),
            );
        }
        let unit = self.mapping.unit_bytes;
        let (larger, smaller) = (unit.max(g.page_bytes), unit.min(g.page_bytes));
        let planes = larger / g.page_bytes;
        if unit == 0
            || !unit.is_multiple_of(512)
            || !larger.is_multiple_of(smaller)
            || !(larger / smaller).is_power_of_two()
            || !g.planes_per_die.is_multiple_of(planes)
        {
            return fail(
                "mapping.unit",
                format!(
                    "{unit} is neither the page ({} bytes), nor the page divided by a power of \
                     two, nor pages of a power of two of planes that divides a die's {}",
                    g.page_bytes, g.planes_per_die
                ),
            );
        }
        if planes > 1 && !self.scheduler.multi_plane {
            return fail("scheduler.multi_plane", "a mapping unit lies across several planes");
        }
        if planes > 1 && self.namespaces.iter().any(|namespace| !namespace.planes.is_empty()) {
            return fail("namespace.planes", "a mapping unit lies across several planes");
        }
        let g = &self.with_joined_planes().geometry;
        let units_per_block = g.page_bytes / unit * g.pages_per_block;
        if units_per_block > UNITS_PER_BLOCK_MAX {
            return fail(
                "mapping.unit",
                format!(
                    "a block has {units_per_block} mapping units; at most {UNITS_PER_BLOCK_MAX} \
                     can be counted: use a larger mapping unit"
                ),
            );
        }
        let planes = u64::from(g.channels)
            * u64::from(g.chips_per_channel)
            * u64::from(g.dies_per_chip)
            * u64::from(g.planes_per_die);
        let units =
            u128::from(planes) * u128::from(g.blocks_per_plane) * u128::from(units_per_block);
        if units > u128::from(UNITS_MAX) {
            return fail(
                "geometry",
                format!(
                    "{units} mapping units of raw flash are more than the {UNITS_MAX} that can be \
                     mapped: use a larger mapping unit or less flash"
                ),
            );
        }
        Ok(())
    }

    fn validate_parts(&self) -> Result<(), ConfigError> {
        let g = &self.geometry;
        within("bus.width_bits", u64::from(self.bus.width_bytes) * 8, 8..=64)?;
        within("bus.rate", self.bus.rate_mts.into(), 1..=10_000)?;
        within("link.lanes", self.link.lanes.into(), 1..=32)?;
        within("link.bandwidth", self.link.bytes_per_s, 1_000_000..=1_000_000_000_000)?;
        within("link.max_payload", self.link.max_payload_bytes.into(), 16..=8192)?;
        within("link.packet_overhead", self.link.packet_overhead_bytes.into(), 0..=256)?;
        within("link.submission_entry", self.link.submission_entry_bytes.into(), 16..=256)?;
        if let Some(ethernet) = &self.ethernet {
            ethernet.check()?;
            if self.namespaces.iter().any(|space| space.kind == NamespaceKind::Pairs) {
                let problem = "key-value namespaces are not reached over an Ethernet link";
                return fail("link", problem);
            }
        }
        within("queues.fetch_size", self.queues.fetch_size.into(), 1..=65_536)?;
        within("queues.entries", self.queues.entries.into(), 2..=65_536)?;
        within("queues.arbitration_burst", self.queues.arbitration_burst.into(), 1..=64)?;
        if let Arbitration::Weighted(weights) = self.queues.arbitration {
            for weight in [weights.high, weights.medium, weights.low] {
                within("queues.arbitration", weight.into(), 1..=256)?;
            }
        }
        within("queues.command_slots", self.queues.command_slots.into(), 1..=u32::MAX.into())?;
        within("firmware.cores", self.firmware.cores.into(), 1..=1024)?;
        let least = if self.flash.rewritable { 0.0 } else { f64::MIN_POSITIVE };
        if !(least..1.0).contains(&self.over_provisioning) {
            return fail(
                "over_provisioning",
                format!("{} is not between 0 and 1", self.over_provisioning),
            );
        }
        if let Some(cache) = &self.cache {
            let least = u64::from(g.planes()) * u64::from(g.page_bytes);
            if cache.bytes < least {
                return fail(
                    "cache.size",
                    format!("{} is less than one page for each plane ({least} bytes)", cache.bytes),
                );
            }
            within("cache.size", cache.bytes / u64::from(self.mapping.unit_bytes), 1..=1 << 28)?;
            if cache.power_loss_protection && !cache.mode.writes() {
                return fail(
                    "cache.power_loss_protection",
                    "a cache of reads holds nothing that is not on flash",
                );
            }
            within("cache.dram.row", cache.dram.row_bytes.into(), 64..=1 << 20)?;
            within("cache.dram.width_bits", u64::from(cache.dram.width_bytes) * 8, 8..=8192)?;
            within("cache.dram.rate", cache.dram.rate_mts.into(), 1..=100_000)?;
            within("cache.dram.burst_length", cache.dram.burst_length.into(), 1..=64)?;
            if let RowPolicy::Open { banks } = cache.dram.rows {
                within("cache.dram.banks", banks.into(), 1..=1024)?;
            }
            if let WriteBack::Lru { high } = cache.write_back
                && !(0.0..1.0).contains(&high)
            {
                return fail("cache.high", format!("{high} is not within 0 to 1"));
            }
            if let Some(bytes) = cache.write_back_max {
                within("cache.write_back_max", bytes / 512, 1..=u64::from(u32::MAX) / 2)?;
                if cache.write_back != WriteBack::Eager || !cache.mode.writes() {
                    let problem = "only data that leaves the cache at once is bounded";
                    return fail("cache.write_back_max", problem);
                }
            }
        }
        let order = self.plane_order.0;
        if (1..4).any(|at| order[..at].contains(&order[at])) {
            return fail("allocation.order", "each of channel, chip, die and plane comes once");
        }
        let (blocks, pages) = (g.blocks_per_plane, g.pages_per_block);
        if let Some((key, number, max)) = self.gc.victim.parameter(blocks, pages) {
            within(key, number.into(), 1..=max.into())?;
        }
        within(
            "gc.reserve_blocks",
            self.gc.reserve_blocks.into(),
            1..=u64::from(g.blocks_per_plane) / 2,
        )?;
        for (key, share) in [
            ("gc.start", self.gc.start),
            ("gc.urgent", self.gc.urgent),
            ("gc.idle_target", self.gc.idle_target),
        ] {
            if !(0.0..1.0).contains(&share) {
                return fail(key, format!("{share} is not within 0 to 1"));
            }
        }
        self.validate_hot_data()?;
        self.validate_collection()?;
        self.validate_placement()?;
        self.validate_wear()?;
        self.validate_scheduler()?;
        self.validate_rewritable()?;
        self.validate_hybrid()?;
        self.validate_pairs()?;
        self.validate_faults()
    }

    fn validate_hot_data(&self) -> Result<(), ConfigError> {
        let WriteFrontiers::HotCold(data) = self.gc.frontiers else { return Ok(()) };
        let refuse =
            |problem: &str| fail("gc.write_frontiers", format!("hot and cold data: {problem}"));
        within("gc.hot.threshold", data.threshold.into(), 1..=15)?;
        let least = COUNTERS_PER_WORD;
        if let Some(counters) = data.counters {
            within("gc.hot.counters", counters.into(), least.into()..=u32::MAX.into())?;
        }
        if self.flash.rewritable || self.mapping.scheme != MappingScheme::Page {
            return refuse("every unit has its place");
        }
        if self.scheduler.flin.is_some() {
            return refuse("FLIN orders the writes of a plane in one queue");
        }
        Ok(())
    }

    fn validate_data_placement(&self) -> Result<(), ConfigError> {
        let lists = || self.namespaces.iter().map(|namespace| &namespace.handles);
        let Some(placement) = self.data_placement else {
            return match lists().all(Vec::is_empty) {
                true => Ok(()),
                false => fail(
                    "namespace.handles",
                    "the drive has no reclaim unit handles; `placement.handles=4` gives it four",
                ),
            };
        };
        let handles = placement.handles;
        within("placement.handles", handles.into(), 1..=HANDLES_MAX.into())?;
        within("placement.superblocks", placement.superblocks.into(), 1..=1024)?;
        if self.gc.unit == CollectionUnit::Block {
            return fail("gc.unit", "reclaim units are superblocks");
        }
        if let WriteFrontiers::HotCold(_) = self.gc.frontiers {
            return fail("gc.write_frontiers", "hosts say which data belong together");
        }
        if self.scheduler.flin.is_some() {
            return fail("scheduler.flin", "FLIN orders the writes of a plane in one queue");
        }
        if self.mapping.unmapped_reads == UnmappedReads::Allocate {
            return fail("mapping.unmapped_reads", "what is read has no reclaim unit handle");
        }
        if self.namespaces.iter().any(|namespace| namespace.kind == NamespaceKind::Pairs) {
            return fail(
                "namespace.kind",
                "a drive with reclaim unit handles (placement) has blocks alone, no pairs",
            );
        }
        for list in lists() {
            if list.iter().any(|&handle| handle >= handles) {
                let problem = match handles {
                    1 => "the drive has reclaim unit handle 0 alone".to_owned(),
                    _ => format!("the drive's reclaim unit handles are 0 to {}", handles - 1),
                };
                return fail("namespace.handles", problem);
            }
            if (1..list.len()).any(|at| list[..at].contains(&list[at])) {
                return fail("namespace.handles", "one is there twice");
            }
        }
        if u64::from(placement.superblocks) * 4 > u64::from(self.geometry.blocks_per_plane) {
            let blocks = self.geometry.blocks_per_plane;
            let problem = format!("a plane has {blocks} blocks, at most a quarter are one unit's");
            return fail("placement.superblocks", problem);
        }
        Ok(())
    }

    /// Whether the drive asks for what policies of others would decide.
    pub(crate) fn validate_policies<P: PolicySet>(&self) -> Result<(), ConfigError> {
        let asks = [
            (
                P::Victims::OWN && self.gc.unit == CollectionUnit::Superblock,
                "gc.unit",
                "a policy of one's own chooses blocks, not superblocks",
            ),
            (
                P::Victims::OWN
                    && (self.flash.rewritable || self.mapping.scheme != MappingScheme::Page),
                "mapping.kind",
                "a policy of one's own chooses victims, and here blocks are not collected",
            ),
            (
                P::Placement::OWN && self.placement == Placement::Static,
                "allocation.placement",
                "a policy of one's own places writes, and here the address says the plane",
            ),
            (
                P::Heat::OWN && !matches!(self.gc.frontiers, WriteFrontiers::HotCold(_)),
                "gc.write_frontiers",
                "a policy of one's own says what is hot, and here nobody asks",
            ),
            (
                P::Admission::OWN && self.slc.is_none_or(|slc| slc.sequential_cutoff.is_none()),
                "slc.sequential_cutoff",
                "a policy of one's own says what goes past the cache, and here nobody asks",
            ),
            (
                P::Scheduling::OWN && self.scheduler.flin.is_some(),
                "scheduler.flin",
                "a policy of one's own orders reads and programs, which FLIN does here",
            ),
        ];
        match asks.into_iter().find(|(refused, ..)| *refused) {
            Some((_, key, problem)) => fail(key, problem),
            None => Ok(()),
        }
    }

    /// Which blocks what hosts write may go to.
    fn validate_placement(&self) -> Result<(), ConfigError> {
        self.validate_data_placement()?;
        self.validate_slc()
    }

    fn validate_slc(&self) -> Result<(), ConfigError> {
        let Some(slc) = self.slc else { return Ok(()) };
        let unsupported = [
            (
                self.flash.rewritable,
                "flash.rewritable",
                "what is overwritten in place is not folded",
            ),
            (
                self.mapping.scheme != MappingScheme::Page,
                "mapping.kind",
                "an SLC cache goes with page mapping; hybrid mapping has its log blocks",
            ),
            (
                self.data_placement.is_some(),
                "placement",
                "an SLC cache does not tell reclaim unit handles apart yet: leave one of both out",
            ),
            (
                self.namespaces.iter().any(|it| it.kind == NamespaceKind::Pairs),
                "namespace.kind",
                "an SLC cache takes writes of blocks alone, no pairs",
            ),
            (
                matches!(self.gc.frontiers, WriteFrontiers::HotCold(_)),
                "gc.write_frontiers",
                "an SLC cache takes what hosts write, hot or cold: `separate` or `one`",
            ),
            (
                self.gc.unit == CollectionUnit::Superblock,
                "gc.unit",
                "an SLC cache is folded block by block: `block`",
            ),
            (self.scheduler.flin.is_some(), "scheduler.flin", "FLIN does not know of folding"),
            (
                self.mapping.unmapped_reads == UnmappedReads::Allocate,
                "mapping.unmapped_reads",
                "what is read without having been written has no place in an SLC cache",
            ),
        ];
        if let Some((_, key, problem)) = unsupported.into_iter().find(|(holds, ..)| *holds) {
            return fail(key, problem);
        }
        let shares = [
            ("slc.static", slc.static_share),
            ("slc.dynamic", slc.dynamic),
            ("slc.dynamic_max", slc.dynamic_max),
            ("slc.fold_from", slc.fold_from),
            ("slc.fold_beside", slc.fold_beside),
            ("slc.idle_share", slc.idle_share),
            ("slc.keep_free", slc.keep_free),
        ];
        if let Some((key, share)) = shares.into_iter().find(|(_, it)| !(0.0..=1.0).contains(it)) {
            return fail(key, format!("{share} is not within 0 to 1"));
        }
        if self.flash.one_shot && slc.fold == FoldWay::Copyback {
            let problem = "one-shot programs take whole word lines, copyback a page: `copy`";
            return fail("slc.fold", problem);
        }
        if slc.sequential_cutoff == Some(0) {
            return fail("slc.sequential_cutoff", "a stream in order has written something");
        }
        if slc.fold_blocks == Some(0) {
            return fail("slc.fold_blocks", "at least one block is folded at a time");
        }
        self.validate_slc_blocks(&slc)?;
        let longest = |times: PageTimes| times.in_order().into_iter().max().unwrap_or_default();
        for (key, slc, native) in [
            ("slc.program", slc.program, longest(self.flash.program)),
            ("slc.read", slc.read, longest(self.flash.read)),
        ] {
            if slc > native {
                let problem = format!(
                    "{slc} is longer than that of native pages ({native}): one bit a cell is \
                     the faster of the two"
                );
                return fail(key, problem);
            }
        }
        Ok(())
    }

    /// Which blocks serve an SLC cache.
    fn validate_slc_blocks(&self, slc: &SlcCache) -> Result<(), ConfigError> {
        let blocks = self.geometry.blocks_per_plane;
        if self.flash.cell == CellType::Slc {
            return fail("slc", "the flash has one bit a cell already (`flash.cell`)");
        }
        if self.flash.cell.bits() > self.geometry.pages_per_block {
            return fail("slc", "a block has less than a page for each bit of a cell");
        }
        if slc.static_blocks(blocks) == 0 && (slc.dynamic == 0.0 || slc.dynamic_max == 0.0) {
            let problem = match slc.static_share > 0.0 {
                true => format!(
                    "of a plane's {blocks} blocks `slc.static` is less than half of one, and \
                     none are dynamic: a larger share, at least {:.2}%",
                    (5000.0 / f64::from(blocks)).ceil() / 100.0
                ),
                false => {
                    "there are no blocks for the cache: `slc.static` or `slc.dynamic` gives it \
                          some"
                        .to_owned()
                }
            };
            return fail("slc", problem);
        }
        if slc.static_blocks(blocks) > blocks / 2 {
            return fail("slc.static", "at most half of a plane's blocks can be static ones");
        }
        if slc.keep_free <= 0.0 {
            let problem = "folding needs native blocks to fold to: above 0%, for example 2%";
            return fail("slc.keep_free", problem);
        }
        if slc.keep_free > 0.25 {
            return fail("slc.keep_free", "at most a quarter of the blocks can be kept free");
        }
        Ok(())
    }

    fn validate_collection(&self) -> Result<(), ConfigError> {
        if !(0.0..1.0).contains(&self.gc.least_invalid) {
            let problem = format!("{} is not within 0 to below 1", self.gc.least_invalid);
            return fail("gc.least_invalid", problem);
        }
        if self.gc.unit == CollectionUnit::Block {
            return Ok(());
        }
        if self.flash.rewritable || self.mapping.scheme != MappingScheme::Page {
            return fail("gc.unit", "superblocks are collected, and here nothing is");
        }
        let all = |namespace: &Namespace| {
            let Namespace { channels, chips, dies, planes, .. } = namespace;
            [channels, chips, dies, planes].iter().all(|list| list.is_empty())
        };
        if !self.namespaces.iter().all(all) {
            return fail("gc.unit", "a superblock has a block in every plane, a namespace not");
        }
        Ok(())
    }

    fn validate_wear(&self) -> Result<(), ConfigError> {
        let wear = &self.wear;
        let any = 1..=u64::from(u32::MAX / 2);
        if let Some(threshold) = wear.static_threshold {
            within("wear.static_threshold", threshold.into(), 2..=u64::from(u32::MAX / 2))?;
        }
        within("wear.initial_cycles", wear.initial.into(), 0..=u64::from(u32::MAX / 2))?;
        if let Some(endurance) = wear.endurance {
            within("wear.endurance", endurance.into(), any)?;
        }
        if !(0.0..=0.2).contains(&wear.endurance_deviation) {
            let problem = format!("{} is not within 0 to 0.2", wear.endurance_deviation);
            return fail("wear.endurance_deviation", problem);
        }
        if let Some(reads) = &wear.reads {
            let ascends = |cycles: &mut dyn Iterator<Item = u32>| {
                let cycles: Vec<u32> = cycles.collect();
                cycles.windows(2).all(|pair| pair[0] < pair[1])
            };
            if !ascends(&mut reads.retries.iter().map(|(cycles, _)| *cycles))
                || !reads.retries.iter().all(|(_, mean)| (0.0..=100.0).contains(mean))
            {
                return fail("wear.retries", "erases ascend, and means are within 0 to 100");
            }
            if !ascends(&mut reads.decode.iter().map(|(cycles, _)| *cycles)) {
                return fail("wear.decode", "erases ascend");
            }
        }
        if let Some(energy) = self.energy {
            for (key, value) in [
                ("energy.read", energy.read_nj),
                ("energy.program", energy.program_nj),
                ("energy.erase", energy.erase_nj),
                ("energy.channel", energy.channel_mw),
                ("energy.idle", energy.idle_mw),
            ] {
                within(key, value, 0..=1_000_000_000)?;
            }
        }
        Ok(())
    }

    fn validate_rewritable(&self) -> Result<(), ConfigError> {
        if !self.flash.rewritable {
            return Ok(());
        }
        let refuse =
            |key, what: &str| fail(key, format!("memory that is overwritten in place has {what}"));
        if self.mapping.unit_bytes != self.geometry.page_bytes {
            return refuse("mapping.unit", "mapping units of a page");
        }
        if self.mapping.table != MappingTable::Ideal {
            return refuse("mapping.table", "no table that could miss");
        }
        if self.mapping.unmapped_reads != UnmappedReads::Zeroes {
            return refuse("mapping.unmapped_reads", "a place for every address");
        }
        if self.gc.idle_after.is_some() {
            return refuse("gc.idle_after", "nothing to collect");
        }
        if self.flash.one_shot {
            return refuse("flash.one_shot", "no word lines");
        }
        if self.placement != Placement::Static {
            return refuse("allocation.placement", "a place for every address");
        }
        if self.gc.copyback || self.gc.paced || self.wear.static_threshold.is_some() {
            return refuse("gc", "nothing to collect");
        }
        Ok(())
    }

    fn validate_hybrid(&self) -> Result<(), ConfigError> {
        let MappingScheme::Hybrid { log_blocks } = self.mapping.scheme else { return Ok(()) };
        let refuse = |key, what: &str| fail(key, format!("hybrid mapping has {what}"));
        within("mapping.log_blocks", log_blocks.into(), 2..=self.geometry.blocks_per_plane.into())?;
        if self.mapping.unit_bytes != self.geometry.page_bytes {
            return refuse("mapping.unit", "mapping units of a page");
        }
        if self.flash.rewritable {
            return refuse("flash.rewritable", "logs, which memory without erase does not need");
        }
        if self.flash.one_shot {
            return refuse(
                "flash.one_shot",
                "a place for each page: a word line programmed whole would use up the places of \
                 pages that have not come",
            );
        }
        if self.mapping.table != MappingTable::Ideal {
            return refuse("mapping.table", "tables so small that they are in DRAM");
        }
        if self.mapping.unmapped_reads != UnmappedReads::Zeroes {
            return refuse("mapping.unmapped_reads", "no place for what was never written");
        }
        if self.placement != Placement::Static {
            return refuse("allocation.placement", "a plane for every address");
        }
        if self.gc.paced || self.gc.idle_after.is_some() {
            return refuse("gc", "merges instead of collection");
        }
        if self.wear.static_threshold.is_some() {
            return refuse("wear.static_threshold", "a place for each page, so data are not moved");
        }
        Ok(())
    }

    fn validate_pairs(&self) -> Result<(), ConfigError> {
        if !self.namespaces.iter().any(|namespace| namespace.kind == NamespaceKind::Pairs) {
            return Ok(());
        }
        let Some(kv) = &self.key_value else {
            return fail("kv", "a namespace of pairs needs to know how pairs are kept");
        };
        let refuse = |key, what: &str| fail(key, format!("a namespace of pairs has {what}"));
        within("kv.managers", kv.managers.into(), 1..=64)?;
        within("kv.header", kv.header_bytes.into(), 0..=4096)?;
        within("kv.key_max", kv.key_max.into(), 1..=255)?;
        within("kv.key_inline", kv.key_inline.into(), 0..=255)?;
        within("kv.value_max", kv.value_max.into(), 0..=32 << 20)?;
        let round_trip = kv.key_round_trip.as_ps();
        within("kv.key_round_trip", round_trip, 0..=mynah_stamp::Span::from_secs(1).as_ps())?;
        for (key, time) in kv.times.each() {
            let sum: f64 = time.fixed.iter().map(|(probability, _)| probability).sum();
            let each = time.fixed.iter().all(|(probability, _)| (0.0..=1.0).contains(probability));
            if !each || (sum - 1.0).abs() > 1e-9 {
                let problem = format!("{key}: the probabilities add up to {sum}, not to 1");
                return fail("kv.time", problem);
            }
        }
        let page = u64::from(self.geometry.page_bytes.max(self.mapping.unit_bytes));
        // Fewer entries to a page, and a page could be too small for keys that happen to be alike.
        within("kv.index.entry", kv.index.entry_bytes.into(), 1..=page / 16)?;
        if let Some(bytes) = kv.index.dram_bytes {
            within("kv.index.dram", bytes, page..=1 << 40)?;
        }
        if let KeyIndexKind::Hash { pages } = kv.index.kind {
            within("kv.index.pages", pages.into(), 1..=1 << 30)?;
        }
        if let KeyIndexKind::Own(own) = kv.index.kind {
            validate_own_index(own, &kv.index)?;
        }
        if matches!(kv.index.kind, KeyIndexKind::Lsm { .. }) && kv.index.signature_bits > 0 {
            let problem = "runs are in the order of their keys, and hold whole keys";
            return fail("kv.index.signature", problem);
        }
        if let KeyIndexKind::Lsm { memtable_bytes, fanout, pinned_levels } = kv.index.kind {
            let entry = u64::from(kv.index.entry_bytes);
            within("kv.index.memtable", memtable_bytes, entry..=1 << 36)?;
            within("kv.index.fanout", fanout.into(), 2..=64)?;
            within("kv.index.pinned", pinned_levels.into(), 0..=32)?;
        }
        within("kv.index.filter", kv.index.filter_bits.into(), 0..=64)?;
        within("kv.index.signature", kv.index.signature_bits.into(), 0..=64)?;
        if kv.index.keys_max == Some(0) {
            return fail("kv.index.keys", "0 keys are none");
        }
        if self.flash.rewritable {
            return refuse("flash.rewritable", "pairs that are appended, never overwritten");
        }
        if self.mapping.scheme != MappingScheme::Page {
            return refuse("mapping.kind", "pairs at any place: page mapping");
        }
        if self.placement == Placement::Static {
            return refuse(
                "allocation.placement",
                "no addresses that could say in which plane data belong",
            );
        }
        if self.mapping.unmapped_reads != UnmappedReads::Zeroes {
            return refuse("mapping.unmapped_reads", "nothing to read where nothing was stored");
        }
        Ok(())
    }

    /// Whether only a part of an index of keys is in DRAM.
    fn has_index_on_flash(&self) -> bool {
        let pairs = self.namespaces.iter().any(|it| it.kind == NamespaceKind::Pairs);
        pairs
            && self.key_value.as_ref().is_some_and(|kv| {
                let has_jobs = match kv.index.kind {
                    KeyIndexKind::DynamicHash | KeyIndexKind::Hash { .. } => false,
                    KeyIndexKind::Lsm { .. } => true,
                    KeyIndexKind::Own(own) => own.0.has_jobs(),
                };
                kv.index.dram_bytes.is_some() || has_jobs
            })
    }

    /// Translation pages of a block namespace: numbered, and on flash.
    fn tables_of_blocks(&self, units: u64, entries_per_page: u32) -> (u64, u64) {
        let tables = match self.mapping.table {
            MappingTable::Ideal => 0,
            MappingTable::Cached(_) => units.div_ceil(u64::from(entries_per_page)),
        };
        (tables, tables)
    }

    /// What a namespace of pairs with a capacity of `units` has room for, and how many pages its
    /// index has at most.
    fn room_for_pairs(&self, units: u64) -> Result<(PairRoom, (u64, u64)), ConfigError> {
        let Some(kv) = &self.key_value else {
            return fail("kv", "a namespace of pairs needs to know how pairs are kept");
        };
        let largest = kv.units(self.mapping.unit_bytes, kv.key_max, kv.value_max);
        if u64::from(largest) > units {
            let problem = format!(
                "the largest pair takes {largest} mapping units, the namespace has {units}"
            );
            return fail("kv.value_max", problem);
        }
        // A pair that is stored again has two runs for a while. Where runs are of several lengths,
        // half of the numbers are enough for one to be found, unless sizes change all the time.
        // What is only in the cache has two, too.
        let cached = self.cache.map_or(0, |cache| cache.bytes / u64::from(self.mapping.unit_bytes));
        let cells = cached
            + match largest {
                1 => units + units / 8 + 1024,
                _ => 2 * units + 4 * u64::from(largest),
            };
        let entries = self.geometry.page_bytes.max(self.mapping.unit_bytes) / kv.index.entry_bytes;
        let keys = kv.index.keys_max.unwrap_or(u64::MAX).min(units);
        let pages = Index::pages_max(&kv.index, keys, entries);
        if cells.saturating_add(pages.0) > UNITS_MAX {
            return fail("namespace", "the namespaces are larger than the drive");
        }
        Ok((PairRoom { capacity: units as u32, cells: cells as u32, keys }, pages))
    }

    fn validate_scheduler(&self) -> Result<(), ConfigError> {
        let s = &self.scheduler;
        for (key, suspension) in [
            ("scheduler.suspend_program", s.suspend_program),
            ("scheduler.suspend_erase", s.suspend_erase),
        ] {
            if let Some(suspension) = suspension {
                // More could outrun the numbers that tell their ends apart.
                within(key, suspension.limit.into(), 1..=10_000)?;
            }
        }
        if s.suspend_erase_for_writes.is_some() && s.suspend_erase.is_none() {
            return fail("scheduler.suspend_erase.for_writes", "erases are not suspended");
        }
        if let Some(flin) = &s.flin {
            if flin.epoch.is_zero() {
                return fail("scheduler.flin.epoch", "an epoch takes time");
            }
            if !(0.0..=1.0).contains(&flin.fairness) {
                let problem = format!("{} is not within 0 to 1", flin.fairness);
                return fail("scheduler.flin.fairness", problem);
            }
        }
        if self.flash.one_shot && self.gc.copyback {
            return fail("gc.copyback", "one-shot programs take whole word lines, copyback a page");
        }
        let pages = self.flash.cell.bits();
        if self.flash.one_shot && !self.geometry.pages_per_block.is_multiple_of(pages) {
            return fail(
                "geometry.pages_per_block",
                format!(
                    "{} pages are not whole word lines of {pages} pages, which one-shot programs \
                     take",
                    self.geometry.pages_per_block
                ),
            );
        }
        Ok(())
    }

    fn validate_faults(&self) -> Result<(), ConfigError> {
        let dies = self.geometry.dies();
        for fault in &self.faults {
            match *fault {
                Fault::Media { extent: FaultExtent::Rate(rate), .. } => {
                    if !(0.0..=1.0).contains(&rate) {
                        return fail("fault.rate", format!("{rate} is not within 0 to 1"));
                    }
                }
                Fault::Media { operation: MediaOperation::Erase, .. } => {
                    return fail("fault.units", "an erase has no logical address: give a rate");
                }
                Fault::Media { extent: FaultExtent::Units { namespace, first, last }, .. } => {
                    if namespace == 0 || namespace as usize > self.namespaces.len() {
                        return fail(
                            "fault.namespace",
                            format!("there is no namespace {namespace}"),
                        );
                    }
                    if first > last || last > UNITS_MAX / 2 {
                        return fail("fault.units", format!("{first} to {last} is not a range"));
                    }
                }
                Fault::SlowDie { die, factor } => {
                    within("fault.die", die.into(), 0..=u64::from(dies) - 1)?;
                    if !(1.0..=1e6).contains(&factor) {
                        return fail("fault.factor", format!("{factor} is not within 1 to 1e6"));
                    }
                }
                Fault::DeadDie { die, .. } => {
                    within("fault.die", die.into(), 0..=u64::from(dies) - 1)?;
                }
                Fault::PowerCut { .. } => {}
            }
        }
        Ok(())
    }

    /// Bits that tell `n` things apart.
    fn bits(n: u64) -> u32 {
        64 - n.saturating_sub(1).leading_zeros()
    }

    /// The planes that each namespace may use, in order, and how many namespaces may use each plane.
    fn planes_of_namespaces(&self) -> Result<(Vec<Vec<Plane>>, Vec<u32>), ConfigError> {
        let g = &self.geometry;
        let mut orders = Vec::new();
        let mut sharing = vec![0u32; g.planes() as usize];
        for namespace in &self.namespaces {
            for (key, ids, count) in [
                ("namespace.channels", &namespace.channels, g.channels),
                ("namespace.chips", &namespace.chips, g.chips_per_channel),
                ("namespace.dies", &namespace.dies, g.dies_per_chip),
                ("namespace.planes", &namespace.planes, g.planes_per_die),
            ] {
                let mut sorted = ids.clone();
                sorted.sort_unstable();
                if let Some(id) = sorted.iter().find(|&&id| id >= count) {
                    return fail(key, format!("{id} does not exist: the last is {}", count - 1));
                }
                if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
                    return fail(key, "a number is given twice");
                }
            }
            if let Caching::Only(requested) = namespace.caching {
                let mode = self.cache.map(|cache| cache.mode);
                let part = |requested| mode.is_some_and(|mode| mode.includes(requested));
                if mode.is_none() || !requested.is_none_or(part) {
                    let problem = "the cache does not hold that: see its mode";
                    return fail("namespace.cache", problem);
                }
            }
            let planes = planes_in_order(self, namespace);
            planes.iter().for_each(|&plane| sharing[plane] += 1);
            orders.push(planes);
        }
        Ok((orders, sharing))
    }

    /// Bytes of a cached mapping entry, and entries in a translation page.
    fn entry_sizes(&self, units_per_plane: u64) -> Result<(u32, u32), ConfigError> {
        let g = &self.geometry;
        // Like MQSim's entries: two physical addresses and a bit for each sector when
        // cached, one address and the bits in a translation page.
        Ok(match self.mapping.table {
            MappingTable::Ideal => (0, 1),
            MappingTable::Cached(cached) => {
                let slots = u64::from(g.planes()) * units_per_plane;
                let sectors = self.mapping.unit_bytes / 512;
                let address = Self::bits(slots);
                let entry = cached.entry_bytes.unwrap_or((2 * address + sectors).div_ceil(8));
                let stored =
                    cached.translation_entry_bytes.unwrap_or((address + sectors).div_ceil(8));
                if entry == 0 || stored == 0 || stored > g.page_bytes {
                    return fail("mapping.cmt.entry", "an entry has at least one byte");
                }
                if cached.bytes < u64::from(g.page_bytes) {
                    return fail(
                        "mapping.cmt.size",
                        format!("{} is less than one flash page ({})", cached.bytes, g.page_bytes),
                    );
                }
                within("mapping.cmt.size", cached.bytes, 1..=1 << 40)?;
                if cached.load_bytes == 0 || cached.load_bytes > g.page_bytes {
                    return fail(
                        "mapping.cmt.load",
                        format!("{} is not within 1 to a page", cached.load_bytes),
                    );
                }
                (entry, g.page_bytes / stored)
            }
        })
    }

    fn lay_out(&self) -> Result<Plan, ConfigError> {
        let g = &self.geometry;
        if self.namespaces.is_empty() || self.namespaces.len() > 1024 {
            return fail("namespace", "a drive has 1 to 1024 namespaces");
        }
        let units_per_page = u64::from(g.page_bytes / self.mapping.unit_bytes);
        let units_per_plane =
            u64::from(self.native_blocks()) * u64::from(g.pages_per_block) * units_per_page;
        let (orders, sharing) = self.planes_of_namespaces()?;
        let (entry_bytes, entries_per_page) = self.entry_sizes(units_per_plane)?;
        let (mut base, mut translation_base) = (0u64, 0u64);
        let mut index_pages = Vec::new();
        let mut load = vec![0u64; g.planes() as usize];
        let mut namespaces = Vec::new();
        let rewritable = self.flash.rewritable;
        let hybrid = matches!(self.mapping.scheme, MappingScheme::Hybrid { .. });
        for (namespace, planes) in self.namespaces.iter().zip(orders) {
            // The paper's and MQSim's rule: each plane's visible share, divided by those who
            // share the plane, in whole pages.
            let pages_of = |plane: Plane| {
                let pages = (units_per_plane / units_per_page) as f64;
                (pages * (1.0 - self.over_provisioning) / f64::from(sharing[plane])) as u64
            };
            let pages: u64 = planes.iter().map(|&plane| pages_of(plane)).sum();
            let units = namespace.units.unwrap_or(pages * units_per_page);
            if units == 0 {
                return fail("namespace", "a namespace has at least one mapping unit");
            }
            let groups = units.div_ceil(units_per_page);
            let stripe = groups.div_ceil(planes.len() as u64);
            let pairs = match namespace.kind {
                NamespaceKind::Blocks => None,
                NamespaceKind::Pairs => Some(self.room_for_pairs(units)?),
            };
            // Translation pages that are numbered, and that are on flash.
            let (tables, tables_on_flash) = match &pairs {
                Some((_, index)) => *index,
                None => self.tables_of_blocks(units, entries_per_page),
            };
            let table_stripe = tables_on_flash.div_ceil(planes.len() as u64);
            let mut offsets = Vec::new();
            for &plane in &planes {
                let load = &mut load[plane];
                if rewritable || hybrid {
                    offsets.push(u32::try_from(*load).unwrap_or(u32::MAX));
                }
                *load += (stripe + table_stripe) * units_per_page;
                if hybrid {
                    // A logical block belongs to one namespace.
                    *load = load.next_multiple_of(g.pages_per_block.into());
                }
            }
            let numbered = pairs.as_ref().map_or(units, |(room, _)| room.cells.into());
            if base + numbered + translation_base + tables > UNITS_MAX {
                return fail("namespace", "the namespaces are larger than the drive");
            }
            let mode = self.cache.map(|cache| cache.mode);
            let cached = match namespace.caching {
                Caching::Cache => mode,
                Caching::Only(mode) => mode,
            };
            namespaces.push(NamespaceSpace {
                caches_writes: cached.is_some_and(CacheMode::writes),
                caches_reads: cached.is_some_and(CacheMode::reads),
                base: Lpn(base as u32),
                units: if pairs.is_some() { 0 } else { units as u32 },
                translation_base: Mvpn(translation_base as u32),
                translation_pages: tables as u32,
                pairs: pairs.map(|(room, _)| room),
                planes,
                offsets,
            });
            base += numbered;
            match pairs {
                None => translation_base += tables,
                Some(_) => index_pages.push((namespaces.len() - 1, tables)),
            }
        }
        let first_index_page = Mvpn(translation_base as u32);
        for (namespace, pages) in index_pages {
            namespaces[namespace].translation_base = Mvpn(translation_base as u32);
            translation_base += pages;
        }
        if base + translation_base > UNITS_MAX {
            return fail("namespace", "the namespaces are larger than the drive");
        }
        let (spare_blocks, plane_room) =
            if let MappingScheme::Hybrid { log_blocks } = self.mapping.scheme {
                (self.check_room_for_logs(&load, log_blocks)?, 0)
            } else if rewritable {
                if load.iter().any(|&load| load > units_per_plane) {
                    return fail("namespace", "the namespaces are larger than the drive");
                }
                let none = vec![0; g.planes() as usize];
                (none, 0)
            } else {
                self.check_room(&load)?
            };
        Ok(Plan {
            namespaces,
            units: base as u32,
            translation_pages: translation_base as u32,
            first_index_page,
            entries_per_page,
            entry_bytes,
            spare_blocks,
            plane_room,
        })
    }

    /// Every plane has to hold a data block for each of its logical blocks, the log blocks,
    /// and one block to merge to. Returns how many blocks each could do without.
    fn check_room_for_logs(&self, load: &[u64], log_blocks: u32) -> Result<Vec<u32>, ConfigError> {
        let g = &self.geometry;
        let needed = |load: &u64| load / u64::from(g.pages_per_block) + u64::from(log_blocks) + 1;
        let blocks = u64::from(g.blocks_per_plane);
        if let Some(most) = load.iter().map(needed).max()
            && most > blocks
        {
            return fail(
                "over_provisioning",
                format!(
                    "a plane would need {most} blocks and has {blocks}: one for each {} pages of \
                     the logical space, {log_blocks} log blocks and one to merge to: raise the \
                     over-provisioning or the number of blocks, make the namespaces smaller or \
                     the log shorter",
                    g.pages_per_block
                ),
            );
        }
        Ok(load.iter().map(|load| (blocks - needed(load)) as u32).collect())
    }

    /// Blocks of a plane that are being filled, of which `tables` take those of mapping tables, where
    /// they have their own.
    pub fn open_blocks(&self, tables: u64) -> u64 {
        let hosts = u64::from(self.reclaim_unit_handles());
        let persistent =
            self.data_placement.is_some_and(|it| it.isolation == Isolation::Persistent);
        match self.gc.frontiers {
            WriteFrontiers::One => hosts,
            WriteFrontiers::Separate if persistent => 2 * hosts + tables,
            WriteFrontiers::Separate => hosts + 1 + tables,
            WriteFrontiers::HotCold(_) => 2 + tables,
        }
    }

    /// Blocks of a plane that may hold as many bits a cell as the flash has.
    pub fn native_blocks(&self) -> u32 {
        let blocks = self.geometry.blocks_per_plane;
        blocks - self.slc.map_or(0, |slc| slc.static_blocks(blocks)).min(blocks)
    }

    /// Every plane has to hold its share and still be able to collect garbage. Returns how
    /// many blocks each could do without, and how many units any of them can hold.
    fn check_room(&self, load: &[u64]) -> Result<(Vec<u32>, u32), ConfigError> {
        let g = &self.geometry;
        let (start, _) = self.gc.thresholds(g.blocks_per_plane);
        let start = match self.slc {
            Some(slc) => {
                start.max(self.gc.reserve_blocks + slc.kept_blocks(g.blocks_per_plane) + 1)
            }
            None => start,
        };
        let tables = match self.mapping.table {
            MappingTable::Ideal if !self.has_index_on_flash() => 0,
            MappingTable::Ideal | MappingTable::Cached(_) => 1,
        };
        let open = self.open_blocks(tables);
        // Free blocks that collection keeps, blocks being filled, and one block's worth of
        // garbage, without which nothing could be won back.
        let kept = self.slc.map_or(0, |slc| slc.kept_blocks(g.blocks_per_plane));
        let reserved = u64::from(self.gc.reserve_blocks) + 1 + open + 1 + u64::from(kept);
        let units_per_page = u64::from(g.page_bytes / self.mapping.unit_bytes);
        // A block is worth collecting when it has a program's worth of garbage, so as many
        // units less one may be lost in each.
        let program = pages_per_program(self).min(g.pages_per_block);
        let usable = u64::from(g.pages_per_block - program) * units_per_page + 1;
        let native = self.native_blocks();
        let room = u64::from(native).saturating_sub(reserved) * usable;
        if let Some(&most) = load.iter().max()
            && most > room
        {
            return fail(
                "over_provisioning",
                format!(
                    "a plane would have to hold {most} valid mapping units, but of its {native} blocks \
                     {reserved} have to stay free, open or collectable, which leaves room for \
                     {room}: raise the over-provisioning or the number of blocks, or make the \
                     namespaces smaller"
                ),
            );
        }
        if u64::from(start) >= u64::from(native).saturating_sub(open) {
            return fail(
                "gc.start",
                format!(
                    "collection would start below {start} free blocks of {}: nothing could be \
                     written without it",
                    g.blocks_per_plane
                ),
            );
        }
        let blocks = u64::from(native);
        let spare = |load: &u64| (blocks - reserved - load.div_ceil(usable)) as u32;
        Ok((load.iter().map(spare).collect(), room as u32))
    }
}
