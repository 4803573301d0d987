//! Whether what a drive offers to the host fits its flash.

use super::*;

impl Check<'_> {
    /// Whether what the host may write, the translation pages, the open blocks and the
    /// reserve fit each plane, and whether collection can ever reach its goal.
    pub(super) fn room(&mut self, file: &File, config: &Config) {
        let config = &config.with_joined_planes();
        let geometry = &config.geometry;
        let unit = u64::from(config.mapping.unit_bytes);
        let block = u64::from(geometry.pages_per_block) * (u64::from(geometry.page_bytes) / unit);
        let blocks = u64::from(config.native_blocks());
        let offered = ((block * blocks) as f64 * (1.0 - config.over_provisioning)) as u64;
        let Some(logical) = self.logical_units(file, config, offered) else { return };
        let translation = translation_units(config, logical);
        let tables = u64::from(matches!(config.mapping.table, MappingTable::Cached(_)));
        let open = match config.gc.frontiers {
            WriteFrontiers::One => config.open_blocks(0) + tables,
            _ => config.open_blocks(tables),
        };
        let used = (logical + translation).div_ceil(block);
        let kept = config.slc.map_or(0, |slc| slc.kept_blocks(geometry.blocks_per_plane));
        let reserve = u64::from(config.gc.reserve_blocks + kept);
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
                 {} of {blocks}{} in each plane",
                if translation > 0 { " and its translation pages" } else { "" },
                used + open + needed,
                if blocks < geometry.blocks_per_plane.into() { " native ones" } else { "" },
            )
        };
        let lowest = |needed: u64| {
            // Smallest over-provisioning, in tenths of a percent, that leaves enough room. Beside an SLC
            // cache one more block is kept, and another stands for what blocks lose to padding.
            let spare = open + needed + translation.div_ceil(block) + if kept > 0 { 3 } else { 1 };
            let share = spare as f64 / blocks as f64;
            (share < 0.95).then(|| Fraction((share * 1000.0).ceil() / 1000.0))
        };
        let lower = if kept > 0 { "`slc.keep_free`" } else { "`gc.reserve_blocks`" };
        if used + open + reserve > blocks {
            let help = match lowest(reserve) {
                Some(share) => format!(
                    "{}\nraise `over_provisioning` to {share} or more, or lower {lower}",
                    account(reserve, "in reserve")
                ),
                None => format!(
                    "{}\nlower {lower} or raise `geometry.blocks_per_plane`",
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

    /// Whether data blocks, log blocks and a block to merge to fit each plane.
    pub(super) fn room_for_logs(&mut self, file: &File, config: &Config) {
        let pages = config.geometry.pages() / u64::from(config.geometry.planes());
        let offered = (pages as f64 * (1.0 - config.over_provisioning)) as u64;
        if self.logical_units(file, config, offered).is_none() {
            return;
        }
        let Err(error) = config.check() else { return };
        let place = [&file.over_provisioning.as_ref().map(At::span)]
            .into_iter()
            .chain([&file.mapping.log_blocks.as_ref().map(At::span)])
            .flatten()
            .max_by_key(|span| (self.document.layer(span), span.start))
            .cloned();
        self.at(
            place.unwrap_or_else(|| file.geometry.span()),
            "the drive cannot hold what it offers to the host and its log".to_owned(),
            "too little room",
            Some(error.problem),
        );
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

/// Blocks of a plane that `share` of them amounts to, rounded up.
fn blocks_of(share: f64, blocks: u32) -> u64 {
    // The tolerance keeps 5 % of 100 blocks at 5.
    (share * f64::from(blocks) - 1e-9).ceil().max(0.0) as u64
}
