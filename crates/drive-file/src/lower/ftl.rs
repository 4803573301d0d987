//! The translation layer's sections: mapping, allocation, garbage collection, scheduler and
//! namespaces.

use super::*;
use mynah_model::config::{CacheMode, Caching, CollectionUnit, HotData, NamespaceKind, thresholds};
use schema::{FrontiersName, NamespaceCacheName};

/// Over-provisioning of a drive that says nothing of it.
const SPARE: Fraction = Fraction(0.07);
/// Free blocks that only collection may use, of a drive that says nothing of them.
const RESERVE_BLOCKS: u32 = 2;
/// When collection starts without a pace.
pub(crate) const UNPACED_START: Fraction = Fraction(0.05);

/// At how many free blocks collection starts and is urgent, and whether it keeps pace with writes
/// in between.
struct Thresholds {
    start: Fraction,
    urgent: Fraction,
    paced: bool,
}

impl Thresholds {
    /// What `gc` says, and what it leaves out. `spare` is the over-provisioning of a drive whose
    /// collection can keep pace.
    ///
    /// Without a pace collection is left behind by the host until it is urgent, so that it hardly
    /// matters when it starts. Collection at a pace keeps as many blocks free as `start` says, and
    /// they are lost to the data that became invalid: with 5 % of 7 % WAF would be 24. So it
    /// starts late, but as much before it is urgent as it takes to keep the pace: two blocks, of
    /// which one is being won back while the host fills the other. Planes that have no such two
    /// blocks among their spare ones collect without a pace.
    fn of(
        gc: &schema::Gc,
        geometry: &Geometry,
        reserve_blocks: u32,
        spare: Option<Fraction>,
    ) -> Thresholds {
        let blocks = geometry.blocks_per_plane;
        let urgent_at = |start: Fraction| or(&gc.urgent, Fraction(start.0.min(0.005)));
        let unpaced = || {
            let start = or(&gc.start, UNPACED_START);
            Thresholds { start, urgent: urgent_at(start), paced: false }
        };
        let Some(spare) = spare else { return unpaced() };
        let late = || {
            let two_more = u64::from(reserve_blocks) + 3;
            // In hundredths of a percent, which is short in print.
            let two_more = (two_more * 10_000).div_ceil(u64::from(blocks)) as f64 / 10_000.0;
            let twice = 2.0 * gc.urgent.as_ref().map_or(0.0, |at| at.get().0);
            Fraction(two_more.max(twice).max(0.01).min(spare.0 / 2.0))
        };
        let start = or(&gc.start, late());
        let paced = Thresholds { start, urgent: urgent_at(start), paced: true };
        match gc.paced.as_ref().map(At::get) {
            Some(false) => unpaced(),
            _ if paced.blocks_between(blocks, reserve_blocks) >= 2 => paced,
            Some(true) => Thresholds { paced: true, ..unpaced() },
            None => unpaced(),
        }
    }

    /// By how many blocks collection starts before it is urgent.
    fn blocks_between(&self, blocks_per_plane: u32, reserve_blocks: u32) -> u32 {
        let (start, urgent) =
            thresholds(self.start.0, self.urgent.0, reserve_blocks, blocks_per_plane);
        start.saturating_sub(urgent)
    }
}

impl Check<'_> {
    pub(super) fn mapping(&mut self, file: &File, geometry: &Geometry, unit_bytes: u32) -> Mapping {
        let mapping = &file.mapping;
        let table = match (&mapping.table, &mapping.cmt) {
            (Some(table), cmt) => match (*table.get(), cmt) {
                (TableName::Ideal, None) => MappingTable::Ideal,
                (TableName::Ideal, Some(cmt)) => {
                    let place = cmt.get().size.span();
                    self.without_effect(
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
        let scheme = match or(&mapping.kind, MappingName::Page) {
            MappingName::Page => {
                if let Some(log_blocks) = &mapping.log_blocks {
                    self.without_effect(
                        log_blocks.span(),
                        mapping.kind.as_ref().map(At::span),
                        "`mapping.log_blocks` has no effect: there is no log",
                        "use it with `kind = \"hybrid\"`",
                    );
                }
                return Mapping { unit_bytes, scheme: MappingScheme::Page, table, unmapped_reads };
            }
            MappingName::Hybrid => {
                let most = geometry.blocks_per_plane;
                let log_blocks = mapping.log_blocks.as_ref();
                let log_blocks =
                    log_blocks.map_or(8, |at| self.count("mapping.log_blocks", at, 2..=most));
                MappingScheme::Hybrid { log_blocks }
            }
        };
        // What else it says has been refused, or an override has taken its effect.
        let (table, unmapped_reads) = (MappingTable::Ideal, UnmappedReads::Zeroes);
        Mapping { unit_bytes, scheme, table, unmapped_reads }
    }

    /// What a drive with hybrid mapping cannot have.
    pub(super) fn hybrid(&mut self, file: &File) {
        let flash = file.flash.get();
        for (set, message) in [
            (&flash.rewritable, "rewritable memory needs no log blocks"),
            (
                &flash.one_shot,
                "hybrid mapping programs each page alone, in its place: a word line at once \
                 would use up the places of pages that have not come",
            ),
        ] {
            if let Some(set) = set.as_ref().filter(|set| *set.get()) {
                let help = "remove it, or use `mapping.kind = \"page\"`".to_owned();
                self.wrong(message, set, "not with hybrid mapping", Some(help));
            }
        }
        let cause = file.mapping.kind.as_ref().map(At::span);
        let (mapping, gc) = (&file.mapping, &file.gc);
        let table = mapping.table.as_ref().filter(|table| *table.get() == TableName::Cached);
        let reads = mapping.unmapped_reads.as_ref();
        let reads = reads.filter(|reads| *reads.get() != schema::UnmappedReadsName::Zeroes);
        let placement = file.allocation.placement.as_ref();
        let placement = placement.filter(|at| *at.get() != schema::PlacementName::Static);
        for (span, message) in [
            (table.map(At::span), "this has no effect: the tables of hybrid mapping are small"),
            (mapping.cmt.as_ref().map(At::span), "the tables of hybrid mapping are not cached"),
            (reads.map(At::span), "hybrid mapping has no page for what was never written"),
            (placement.map(At::span), "with hybrid mapping an address says its plane"),
            (
                file.wear.static_threshold.as_ref().map(At::span),
                "data blocks of hybrid mapping are not moved to level wear",
            ),
        ] {
            if let Some(span) = span {
                self.without_effect(
                    span,
                    cause.clone(),
                    message,
                    "remove it, or use `kind = \"page\"`",
                );
            }
        }
        for span in [
            gc.victim.as_ref().map(At::span),
            gc.unit.as_ref().map(At::span),
            gc.d.as_ref().map(At::span),
            gc.invalid_pages.as_ref().map(At::span),
            gc.start.as_ref().map(At::span),
            gc.urgent.as_ref().map(At::span),
            gc.paced.as_ref().map(At::span),
            gc.reserve_blocks.as_ref().map(At::span),
            gc.write_frontiers.as_ref().map(At::span),
            gc.hot.as_ref().map(At::span),
            gc.idle_after.as_ref().map(At::span),
            gc.idle_target.as_ref().map(At::span),
        ]
        .into_iter()
        .flatten()
        {
            self.without_effect(
                span,
                cause.clone(),
                "this has no effect: hybrid mapping merges log blocks instead of collecting",
                "remove it: of `[gc]` only `preemptible` and `copyback` act",
            );
        }
    }

    /// What merges take from the section on collection.
    pub(super) fn gc_of_merges(&mut self, file: &File, geometry: &Geometry) -> Gc {
        let gc = schema::Gc {
            preemptible: file.gc.preemptible.clone(),
            copyback: file.gc.copyback.clone(),
            ..schema::Gc::default()
        };
        self.gc(&gc, geometry, None)
    }

    /// What page mapping takes from it; memory that is never erased is not collected.
    pub(super) fn gc_of_pages(&mut self, file: &File, geometry: &Geometry) -> Gc {
        let erased = !or(&file.flash.get().rewritable, false);
        let spare = erased.then(|| or(&file.over_provisioning, SPARE));
        self.gc(&file.gc, geometry, spare)
    }

    fn cmt(&mut self, file: &File, cmt: &schema::Cmt, geometry: &Geometry) -> CachedTable {
        let page = geometry.page_bytes;
        let granularity = or(&cmt.granularity, schema::GranularityName::Entry);
        let by_page = granularity == schema::GranularityName::Page;
        if let Some(load) = cmt.load.as_ref().filter(|_| by_page) {
            self.without_effect(
                load.span(),
                cmt.granularity.as_ref().map(At::span),
                "`mapping.cmt.load` has no effect: whole translation pages are loaded",
                "use it with `granularity = \"entry\"`",
            );
        }
        if let Some(entry) = cmt.entry.as_ref().filter(|_| by_page) {
            self.without_effect(
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

    pub(super) fn order(&mut self, allocation: &schema::Allocation) -> PlaneOrder {
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

    pub(super) fn over_provisioning(&mut self, file: &File) -> f64 {
        let rewritable = or(&file.flash.get().rewritable, false);
        let default = if rewritable { 0.0 } else { SPARE.0 };
        let Some(share) = &file.over_provisioning else { return default };
        if (share.get().0 <= 0.0 && !rewritable) || share.get().0 >= 1.0 {
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

    /// `spare` is the over-provisioning of a drive whose collection can keep pace with writes.
    fn gc(&mut self, gc: &schema::Gc, geometry: &Geometry, spare: Option<Fraction>) -> Gc {
        let victim = self.victim(gc, geometry);
        let preemptible = or(&gc.preemptible, true);
        if let Some(paced) = gc.paced.as_ref().filter(|paced| *paced.get() && !preemptible) {
            self.without_effect(
                paced.span(),
                gc.preemptible.as_ref().map(At::span),
                "`gc.paced` has no effect: a collection is not interrupted once it has begun",
                "use it with `preemptible = true`",
            );
        }
        let reserve_blocks = gc
            .reserve_blocks
            .as_ref()
            .map_or(RESERVE_BLOCKS, |at| self.count("gc.reserve_blocks", at, 1..=u32::MAX));
        let Thresholds { start, urgent, paced } =
            Thresholds::of(gc, geometry, reserve_blocks, spare.filter(|_| preemptible));
        self.check_thresholds(gc, start, urgent);
        let idle_after = gc.idle_after.as_ref().map(|at| self.span("gc.idle_after", at));
        self.check_idle_target(gc, start, idle_after.is_some());
        Gc {
            victim,
            unit: gc.unit.as_ref().map_or(CollectionUnit::Block, |at| (*at.get()).into()),
            start: start.0,
            urgent: urgent.0,
            preemptible,
            copyback: or(&gc.copyback, false),
            paced,
            reserve_blocks,
            frontiers: self.frontiers(gc),
            idle_after,
            idle_target: or(&gc.idle_target, start).0,
        }
    }

    fn victim(&mut self, gc: &schema::Gc, geometry: &Geometry) -> VictimPolicy {
        let name = or(&gc.victim, VictimName::Greedy);
        if let Some(d) = gc.d.as_ref().filter(|_| name != VictimName::DChoices) {
            let message = match name {
                VictimName::Greedy => {
                    "`gc.d` has no effect: the greedy policy looks at every block"
                }
                _ => "`gc.d` has no effect: the victim policy is another",
            };
            let other = gc.victim.as_ref().map(At::span);
            self.without_effect(d.span(), other, message, "use it with `victim = \"d-choices\"`");
        }
        if let Some(pages) = gc.invalid_pages.as_ref().filter(|_| name != VictimName::RandomP) {
            self.without_effect(
                pages.span(),
                gc.victim.as_ref().map(At::span),
                "`gc.invalid_pages` has no effect: the victim policy is another",
                "use it with `victim = \"random-p\"`",
            );
        }
        match name {
            VictimName::Greedy => VictimPolicy::Greedy,
            VictimName::DChoices => {
                let blocks = geometry.blocks_per_plane;
                let d = gc.d.as_ref().map_or(10.min(blocks), |d| self.count("gc.d", d, 1..=blocks));
                VictimPolicy::DChoices { d }
            }
            VictimName::Random => VictimPolicy::Random,
            VictimName::RandomP => {
                let most = geometry.pages_per_block;
                let pages = gc.invalid_pages.as_ref();
                let pages = pages.map_or(1, |at| self.count("gc.invalid_pages", at, 1..=most));
                VictimPolicy::RandomP { pages }
            }
            VictimName::RandomPlusPlus => VictimPolicy::RandomPlusPlus,
            VictimName::Fifo => VictimPolicy::Fifo,
            VictimName::CostBenefit => VictimPolicy::CostBenefit,
        }
    }

    /// Collection starts and becomes urgent at shares of free blocks that can be.
    fn check_thresholds(&mut self, gc: &schema::Gc, start: Fraction, urgent: Fraction) {
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
    }

    /// What idle collection collects up to needs one, and is more than what starts any.
    fn check_idle_target(&mut self, gc: &schema::Gc, start: Fraction, is_idle_collected: bool) {
        if let Some(target) = &gc.idle_target {
            if !is_idle_collected {
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
    }

    fn frontiers(&mut self, gc: &schema::Gc) -> WriteFrontiers {
        let name = or(&gc.write_frontiers, FrontiersName::Separate);
        if let Some(hot) = gc.hot.as_ref().filter(|_| name != FrontiersName::HotCold) {
            self.without_effect(
                hot.span(),
                gc.write_frontiers.as_ref().map(At::span),
                "`[gc.hot]` has no effect: hot and cold data are not told apart",
                "use it with `write_frontiers = \"hot-cold\"`",
            );
        }
        match name {
            FrontiersName::One => WriteFrontiers::One,
            FrontiersName::Separate => WriteFrontiers::Separate,
            FrontiersName::HotCold => {
                let hot = gc.hot.as_ref().map(|at| at.get().clone()).unwrap_or_default();
                let least = |name, at: &Maybe<u32>, least| (name, at.clone(), least);
                let [counters, decay] = [
                    least("gc.hot.counters", &hot.counters, 16),
                    least("gc.hot.decay", &hot.decay, 1),
                ]
                .map(|(name, at, least)| at.map(|at| self.count(name, &at, least..=u32::MAX)));
                let threshold =
                    hot.threshold.as_ref().map_or(HotData::DEFAULT.threshold.into(), |at| {
                        self.count("gc.hot.threshold", at, 1..=15)
                    });
                WriteFrontiers::HotCold(HotData { counters, decay, threshold: threshold as u8 })
            }
        }
    }

    /// What a drive that tells hot from cold data cannot have.
    pub(super) fn hot_data(&mut self, file: &File, config: &Config) {
        let WriteFrontiers::HotCold(_) = config.gc.frontiers else { return };
        if let (Some(flin), Some(frontiers)) = (&file.scheduler.flin, &file.gc.write_frontiers) {
            let (message, label) =
                ("FLIN orders the writes of a plane in one queue", "not with hot and cold data");
            let later = self.document.layer(&flin.span()) > self.document.layer(&frontiers.span());
            let span = if later { flin.span() } else { frontiers.span() };
            let help = "remove it, or use `gc.write_frontiers = \"separate\"`".to_owned();
            self.at(span, message.to_owned(), label, Some(help));
            return;
        }
        let Err(error) = config.check() else { return };
        let hot = file.gc.hot.as_ref().map(At::get);
        let place = match error.key {
            "gc.hot.counters" => hot.and_then(|hot| hot.counters.as_ref()),
            "gc.hot.decay" => hot.and_then(|hot| hot.decay.as_ref()),
            _ => None,
        };
        if let Some(place) = place {
            self.wrong(format!("`{}`: {}", error.key, error.problem), place, "out of range", None);
        }
    }

    /// Where superblocks cannot be: they have a block in every plane.
    pub(super) fn superblocks(&mut self, file: &File, config: &Config) {
        let Some(unit) = &file.gc.unit else { return };
        if config.gc.unit == CollectionUnit::Block {
            return;
        }
        if config.with_joined_planes().geometry.planes() == 1 {
            let message = "`gc.unit` has no effect: a superblock of one plane is a block";
            return self.without_effect(
                unit.span(),
                Some(file.geometry.span()),
                message,
                "remove it",
            );
        }
        let parts = file.namespace.iter().map(At::get).flat_map(|namespace| {
            [&namespace.channels, &namespace.chips, &namespace.dies, &namespace.planes]
        });
        if let Some(part) = parts.flatten().next() {
            let later = self.document.layer(&part.span()) > self.document.layer(&unit.span());
            self.at(
                if later { part.span() } else { unit.span() },
                "a superblock has a block in every plane, and a namespace has planes of its own"
                    .to_owned(),
                "not both",
                Some("use `gc.unit = \"block\"`, or give every namespace all planes".to_owned()),
            );
        }
    }

    pub(super) fn scheduler(&mut self, file: &File) -> Scheduler {
        let (scheduler, planes) = (&file.scheduler, &file.geometry.get().planes_per_die);
        let multi_plane = or(&scheduler.multi_plane, true);
        if let Some(window) = &scheduler.multi_plane_window {
            if !multi_plane {
                self.without_effect(
                    window.span(),
                    scheduler.multi_plane.as_ref().map(At::span),
                    "`scheduler.multi_plane_window` has no effect: operations are not joined",
                    "use it with `multi_plane = true`",
                );
            } else if *planes.get() == 1 {
                self.without_effect(
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
            precedence: self.precedence(scheduler),
            write_deadline: scheduler
                .write_deadline
                .as_ref()
                .map(|at| self.span("scheduler.write_deadline", at)),
            suspend_program: scheduler.suspend_program.as_ref().map(|at| {
                let schema::Suspension { latency, resume, least_left, limit, longest } = at.get();
                self.suspension("suspend_program", latency, resume, least_left, limit, longest)
            }),
            suspend_erase: scheduler.suspend_erase.as_ref().map(|at| {
                if !or(&file.gc.preemptible, true) {
                    self.without_effect(
                        at.span(),
                        file.gc.preemptible.as_ref().map(At::span),
                        "`scheduler.suspend_erase` has no effect: erases are part of collections, \
                         and these are not interrupted",
                        "remove it, or use it with `gc.preemptible = true`",
                    );
                }
                let schema::EraseSuspension { latency, resume, least_left, limit, longest, .. } =
                    at.get();
                self.suspension("suspend_erase", latency, resume, least_left, limit, longest)
            }),
            suspend_erase_for_writes: scheduler
                .suspend_erase
                .as_ref()
                .and_then(|at| at.get().for_writes.as_ref())
                .map(|at| self.span("scheduler.suspend_erase.for_writes", at)),
            cache_program: or(&scheduler.cache_program, false),
            flin: scheduler.flin.as_ref().map(|at| self.flin(file, at.get())),
        }
    }

    fn precedence(&mut self, scheduler: &schema::Scheduler) -> Precedence {
        let Some(precedence) = &scheduler.precedence else { return Precedence::ReadFirst };
        if let Some(flin) = &scheduler.flin {
            self.without_effect(
                precedence.span(),
                Some(flin.span()),
                "`scheduler.precedence` has no effect: FLIN weighs reads and programs itself",
                "remove it, or `[scheduler.flin]`",
            );
        }
        (*precedence.get()).into()
    }

    fn suspension(
        &mut self,
        section: &str,
        latency: &At<Duration>,
        resume: &Maybe<Duration>,
        least_left: &Maybe<Duration>,
        limit: &Maybe<u32>,
        longest: &Maybe<Duration>,
    ) -> Suspension {
        let key = |key: &str| format!("scheduler.{section}.{key}");
        let latency = self.span(&key("latency"), latency);
        Suspension {
            latency,
            resume: self.span_or(&key("resume"), resume, Span::ZERO),
            least_left: self.span_or(&key("least_left"), least_left, latency),
            limit: limit.as_ref().map_or(8, |at| self.count(&key("limit"), at, 1..=10_000)),
            longest: self.span_or(&key("longest"), longest, Span::from_ms(10)),
        }
    }

    fn flin(&mut self, file: &File, flin: &schema::Flin) -> Flin {
        let epoch = self.span_or("scheduler.flin.epoch", &flin.epoch, FLIN.epoch);
        if let Some(at) = flin.epoch.as_ref().filter(|_| epoch.is_zero()) {
            self.wrong("`scheduler.flin.epoch` must be longer than 0", at, "too short", None);
        }
        Flin {
            epoch,
            read_bytes_per_s: flin
                .read_threshold
                .as_ref()
                .map_or(FLIN.read_bytes_per_s, |at| at.get().0),
            write_bytes_per_s: flin
                .write_threshold
                .as_ref()
                .map_or(FLIN.write_bytes_per_s, |at| at.get().0),
            fairness: or(&flin.fairness, Fraction(FLIN.fairness)).0,
            divides_collection: self.divides_collection(file, flin),
        }
    }

    fn divides_collection(&mut self, file: &File, flin: &schema::Flin) -> bool {
        let Some(divides) = &flin.divides_collection else { return FLIN.divides_collection };
        let exclusive = file.gc.preemptible.as_ref().filter(|preemptible| !preemptible.get());
        let rewritable = file.flash.get().rewritable.as_ref().filter(|at| *at.get());
        let hybrid = file.mapping.kind.as_ref().filter(|at| *at.get() == MappingName::Hybrid);
        let reasons = [
            (exclusive.map(At::span), "a collection is not interrupted once it has begun"),
            (rewritable.map(At::span), "rewritable memory needs no collection"),
            (hybrid.map(At::span), "log blocks are merged, not collected"),
        ];
        for (reason, why) in reasons {
            if reason.is_some() {
                self.without_effect(
                    divides.span(),
                    reason,
                    &format!("`scheduler.flin.divides_collection` has no effect: {why}"),
                    "remove it",
                );
                return FLIN.divides_collection;
            }
        }
        *divides.get()
    }

    pub(super) fn namespaces(
        &mut self,
        file: &File,
        geometry: &Geometry,
        unit: u32,
    ) -> Vec<Namespace> {
        if file.namespace.is_empty() {
            let kind = if file.kv.is_some() { NamespaceKind::Pairs } else { NamespaceKind::Blocks };
            return vec![Namespace { kind, ..Namespace::whole_drive() }];
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
            let caching = namespace
                .cache
                .as_ref()
                .map_or(Caching::Cache, |asked| self.namespace_cache(file, asked, &name("cache")));
            let g = geometry;
            namespaces.push(Namespace {
                units,
                channels: self.indices(&name("channels"), &namespace.channels, g.channels),
                chips: self.indices(&name("chips"), &namespace.chips, g.chips_per_channel),
                dies: self.indices(&name("dies"), &namespace.dies, g.dies_per_chip),
                planes: self.indices(&name("planes"), &namespace.planes, g.planes_per_die),
                caching,
                kind: Self::namespace_kind(&namespace.kind),
            });
        }
        namespaces
    }

    /// What of a namespace the cache holds: some of what it holds at all.
    fn namespace_cache(
        &mut self,
        file: &File,
        asked: &At<NamespaceCacheName>,
        name: &str,
    ) -> Caching {
        let only = match asked.get() {
            NamespaceCacheName::Off => None,
            NamespaceCacheName::Write => Some(CacheMode::Write),
            NamespaceCacheName::Read => Some(CacheMode::Read),
            NamespaceCacheName::Both => Some(CacheMode::Both),
        };
        let cache = file.cache.as_ref().map(At::get).filter(|cache| cache.size.get().0 > 0);
        let Some(cache) = cache else {
            let help = Some("remove it, or give the cache a size".to_owned());
            self.wrong(format!("`{name}` has no effect: there is no cache"), asked, "this", help);
            return Caching::Cache;
        };
        let mode: CacheMode = or(&cache.mode, schema::CacheModeName::Write).into();
        if only.is_some_and(|only| !mode.includes(only)) {
            self.wrong(
                format!("`{name}` asks for more than the cache holds"),
                asked,
                "more than `cache.mode`",
                Some("`cache.mode = \"both\"` allows all".to_owned()),
            );
            return Caching::Cache;
        }
        Caching::Only(only)
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
}
