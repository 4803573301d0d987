//! From a drive file to the model's configuration, checking everything on the way.
//!
//! All mistakes of a file are reported together, each at its place. A key that would change
//! nothing is a mistake too, unless it stands in the file and an override has taken its effect: then
//! it is taken out, and the rest read again.

mod room;

use std::ops::Range;

use mynah_model::config::{
    CellType, CollectionUnit, Config, Geometry, MappingTable, Namespace, Placement, WriteFrontiers,
};

use crate::at::At;
use crate::check::{Check, or};
use crate::document::{Document, Problem};
use crate::keys::declare::take_without_effect;
use crate::keys::{File, SPARE, is_hybrid, key_value, namespace, placement};
use crate::units::{Bytes, Fraction};

/// Mapping units of raw flash that the model can hold.
pub(crate) const MAX_UNITS: u64 = (1 << 32) - 2;

/// The configuration that `file` describes, or everything that is wrong with it.
pub(super) fn lower(document: &Document<'_>, file: &File) -> Result<Config, Vec<Problem>> {
    let mut file = file.clone();
    let mut refused = vec![];
    loop {
        let mut check = Check { document, problems: Vec::new() };
        let Some(config) = check.config(&file) else {
            check.problems.append(&mut refused);
            return Err(check.problems);
        };
        let (taken, idle) = take_without_effect(document, &mut file, &config);
        for (place, need) in idle {
            let message = format!("`{}` has no effect: {}", document.path_at(&place), need.why);
            let (label, help) = ("this changes nothing", Some(need.help.to_owned()));
            refused.push(document.problem(message, place, label, help));
        }
        if !taken {
            check.problems.append(&mut refused);
            check.whole(&file, &config);
            let faults = match check.problems.is_empty() {
                true => namespace::faults(&mut check, &file, &config),
                false => vec![],
            };
            let is_right = check.problems.is_empty();
            return if is_right { Ok(Config { faults, ..config }) } else { Err(check.problems) };
        }
    }
}

impl Check<'_> {
    /// The configuration, key by key; `None` if not even sizes can be computed.
    fn config(&mut self, file: &File) -> Option<Config> {
        if file.name.get().trim().is_empty() {
            self.wrong("`name` is empty", &file.name, "name the drive", None);
        }
        let geometry = file.geometry.get().lower(self, file);
        file.geometry.get().check(self);
        if !self.problems.is_empty() {
            return None;
        }
        let unit_bytes = file.mapping.unit_bytes(self, file, &geometry);
        if !self.problems.is_empty() {
            // Everything below divides by these.
            return None;
        }
        self.capacity(file, &geometry, unit_bytes);
        if !self.problems.is_empty() {
            return None;
        }
        file.flash.get().check(file, self);
        file.bus.get().check(self);
        file.wear.check(self);
        Some(Config {
            geometry,
            flash: file.flash.get().lower(self, file),
            bus: file.bus.get().lower(self, file),
            link: file.link.get().lower_pci(self, file),
            ethernet: file.link.get().lower_ethernet(self, file),
            queues: file.queues.lower(self, file),
            firmware: file.firmware.lower(self, file),
            cache: match &file.cache {
                Some(cache) => cache.get().lower_with(self, file, &geometry),
                None => None,
            },
            mapping: file.mapping.lower(self, file, &geometry, unit_bytes),
            plane_order: file.allocation.plane_order(self),
            placement: match file.allocation.placement.is_none() && placement::is_asked(file) {
                true => Placement::Striped,
                false => file.allocation.placement(self),
            },
            slc: file.slc.as_ref().map(|it| it.get().lower(self, file)),
            data_placement: file.placement.as_ref().map(|it| it.get().lower(self, file)),
            over_provisioning: self.over_provisioning(file),
            gc: file.gc.lower(self, file, &geometry),
            wear: file.wear.lower(self, file),
            energy: file.energy.as_ref().map(|costs| costs.get().lower(self, file)),
            scheduler: file.scheduler.lower(self, file),
            namespaces: namespace::namespaces(self, file, &geometry, unit_bytes),
            key_value: key_value::of_file(self, file, &geometry, unit_bytes),
            faults: Vec::new(),
            seed: file.seed(self),
        })
    }

    /// Notes what sections cannot be together.
    fn whole(&mut self, file: &File, config: &Config) {
        self.hybrid(file);
        if !self.problems.is_empty() {
            return;
        }
        if is_hybrid(file) {
            self.room_for_logs(file, config);
        } else if !config.flash.rewritable {
            self.room(file, config);
            self.hot_data(file, config);
            self.superblocks(file, config);
            self.data_placement(file, config);
            self.slc(file, config);
        }
    }

    /// What a drive with hybrid mapping cannot have.
    fn hybrid(&mut self, file: &File) {
        if !is_hybrid(file) {
            return;
        }
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
        if let Some(slc) = &file.slc {
            let message = "an SLC cache goes with page mapping: hybrid mapping has its log blocks";
            let help = "remove `[slc]`, or use `mapping.kind = \"page\"`".to_owned();
            self.wrong(message, slc, "not with hybrid mapping", Some(help));
        }
    }

    fn over_provisioning(&mut self, file: &File) -> f64 {
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

    /// What a drive that tells hot from cold data cannot have.
    fn hot_data(&mut self, file: &File, config: &Config) {
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
    fn superblocks(&mut self, file: &File, config: &Config) {
        let Some(unit) = &file.gc.unit else { return };
        if config.gc.unit == CollectionUnit::Block {
            return;
        }
        // With placement there is nothing else.
        if config.data_placement.is_none() && config.with_joined_planes().geometry.planes() == 1 {
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

    /// What a drive that places data cannot have.
    fn data_placement(&mut self, file: &File, config: &Config) {
        if config.data_placement.is_none() || !self.problems.is_empty() {
            return;
        }
        let Err(error) = config.check() else { return };
        let of_placement = file.placement.as_ref();
        let (place, help) = match error.key {
            "gc.unit" => (file.gc.unit.as_ref().map(At::span), "remove `gc.unit`"),
            "gc.write_frontiers" => (
                file.gc.write_frontiers.as_ref().map(At::span),
                "use `gc.write_frontiers = \"separate\"`",
            ),
            "mapping.unmapped_reads" => {
                (file.mapping.unmapped_reads.as_ref().map(At::span), "use \"zeroes\"")
            }
            "scheduler.flin" => (file.scheduler.flin.as_ref().map(At::span), "remove it"),
            "namespace.kind" => (
                file.namespace.iter().find_map(|it| it.get().kind.as_ref()).map(At::span),
                "use a drive without `[placement]` for them",
            ),
            "placement.superblocks" => (
                of_placement.and_then(|it| it.get().superblocks.as_ref()).map(At::span),
                "use fewer, or raise `geometry.blocks_per_plane`",
            ),
            _ => return,
        };
        // What a default or an override has brought is at fault where nothing else was written.
        let Some(place) = place.or_else(|| of_placement.map(At::span)) else { return };
        let message = format!("with `[placement]`: `{}`: {}", error.key, error.problem);
        self.at(place, message, "not with data placement", Some(help.to_owned()));
    }

    /// What a drive with an SLC cache cannot have.
    fn slc(&mut self, file: &File, config: &Config) {
        let Some(section) = file.slc.as_ref().filter(|_| self.problems.is_empty()) else { return };
        let Err(error) = config.check() else { return };
        let slc = section.get();
        let (place, help) = match error.key {
            "slc" if config.flash.cell == CellType::Slc => {
                (None, "remove `[slc]`, or choose another `flash.cell`")
            }
            "slc" => (None, "give it blocks that can hold it"),
            "slc.static" => (slc.fixed.as_ref().map(At::span), "use a smaller share"),
            "slc.keep_free" => (slc.keep_free.as_ref().map(At::span), "use `2%`"),
            "slc.fold" => (slc.fold.as_ref().map(At::span), "use `fold = \"copy\"`"),
            "slc.program" => (
                slc.program.as_ref().map(At::span),
                "use a time below `flash.program`, or remove `[slc]`",
            ),
            "slc.read" => (
                slc.read.as_ref().map(At::span),
                "use a time that is not above `flash.read`, or remove `[slc]`",
            ),
            "placement" => (file.placement.as_ref().map(At::span), "remove one of both sections"),
            "gc.unit" => (file.gc.unit.as_ref().map(At::span), "remove `gc.unit`"),
            "gc.write_frontiers" => (
                file.gc.write_frontiers.as_ref().map(At::span),
                "use `gc.write_frontiers = \"separate\"`",
            ),
            "scheduler.flin" => (file.scheduler.flin.as_ref().map(At::span), "remove it"),
            "mapping.unmapped_reads" => {
                (file.mapping.unmapped_reads.as_ref().map(At::span), "use \"zeroes\"")
            }
            "namespace.kind" => (
                file.namespace.iter().find_map(|it| it.get().kind.as_ref()).map(At::span),
                "use a drive without `[slc]` for them",
            ),
            _ => return,
        };
        let place = place.unwrap_or_else(|| section.span());
        let message = format!("with `[slc]`: `{}`: {}", error.key, error.problem);
        self.at(place, message, "not with an SLC cache", Some(help.to_owned()));
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
