//! The sections `[mapping]` and `[allocation]`: where data may be on flash.

use super::declare::{Need, section};
use super::needs::{BLOCKS, ERASED, HYBRID, is_page_mapped, page_mapped};
use super::value::quoted;
use super::{
    File, GranularityName, MappingName, PlacementName, SharingName, TableName, UnmappedReadsName,
};
use crate::at::{At, Maybe};
use crate::check::{Check, or};
use crate::units::Bytes;
use mynah_model::config::{
    self, CachedTable, CmtGranularity, Config, Dimension, Geometry, MappingScheme, MappingTable,
    PlaneOrder,
};

static SMALL_TABLES: Need = page_mapped("the tables of hybrid mapping are small");
static CACHED: Need = page_mapped("the tables of hybrid mapping are not cached");
static ANY_PAGE: Need = page_mapped("hybrid mapping has no page for what was never written");
static ANY_PLANE: Need = page_mapped("with hybrid mapping an address says its plane");

static IN_PART: Need = Need {
    holds: |config| matches!(config.mapping.table, MappingTable::Cached(_)),
    cause: |file| file.mapping.table.as_ref().map(At::span),
    why: "the whole table is in DRAM",
    help: "remove it, or use `table = \"cached\"`",
};

static BY_ENTRY: Need = Need {
    holds: |config| match &config.mapping.table {
        MappingTable::Cached(table) => table.granularity == CmtGranularity::Entry,
        MappingTable::Ideal => true,
    },
    cause: |file| file.mapping.cmt.as_ref()?.get().granularity.as_ref().map(At::span),
    why: "whole translation pages are loaded and cached",
    help: "use it with `granularity = \"entry\"`",
};

fn is_page_mapped_flash(config: &Config) -> bool {
    !config.flash.rewritable && is_page_mapped(config)
}

section! {
    /// Logical to physical mapping.
    #[derive(Default)]
    Mapping => config::Mapping {
        /// Bytes that one mapping entry covers: the page, the page divided by a power of two, or a
        /// page in each of a power of two of planes of a die. Default: 4KiB, or the page if it is
        /// smaller, or no 4KiB times a power of two; with `kind = "hybrid"` and `flash.rewritable`
        /// the page.
        unit: Maybe<Bytes>, shows |mapping, _| Some(mapping.unit_bytes);
        /// What may be where on flash.
        kind: Maybe<MappingName> = "page", writes |mapping, _| Some(quoted(match mapping.scheme {
            MappingScheme::Page => MappingName::Page,
            MappingScheme::Hybrid { .. } => MappingName::Hybrid,
        }));
        /// With `kind = "hybrid"`: log blocks of each plane, at least 2, of which one is for
        /// sequential writes.
        log_blocks: Maybe<u32> = "8", when HYBRID, shows |mapping, _| match mapping.scheme {
            MappingScheme::Hybrid { log_blocks } => Some(log_blocks),
            MappingScheme::Page => None,
        };
        /// Where the table lives. Default: cached if there is a `[mapping.cmt]`, else ideal.
        table: Maybe<TableName>,
            when SMALL_TABLES | ERASED | BLOCKS if |it| *it == TableName::Cached,
            writes |mapping, _| (mapping.scheme == MappingScheme::Page).then(|| {
                quoted(match mapping.table {
                    MappingTable::Ideal => TableName::Ideal,
                    MappingTable::Cached(_) => TableName::Cached,
                })
            });
        /// What a read of an address that was never written does.
        unmapped_reads: Maybe<UnmappedReadsName> = "zeroes",
            when ANY_PAGE | ERASED | BLOCKS if |it| *it == UnmappedReadsName::Allocate,
            shows |mapping, config| is_page_mapped_flash(config).then_some(mapping.unmapped_reads);
        /// The cached mapping table.
        cmt: Maybe<Cmt>, when CACHED | ERASED | BLOCKS | IN_PART,
            inner |mapping, _| match &mapping.table {
                MappingTable::Cached(table) => Some(table),
                MappingTable::Ideal => None,
            };
    }
}

section! {
    /// The cached mapping table (CMT).
    Cmt => CachedTable {
        /// Capacity.
        size: At<Bytes>, is bytes;
        /// What is loaded and evicted.
        granularity: Maybe<GranularityName> = "entry", is granularity;
        /// How flows share the capacity.
        sharing: Maybe<SharingName> = "shared", is sharing;
        /// Size of a cached entry. Default: from the number of pages, as MQSim computes it.
        entry: Maybe<Bytes>, in "1B" to "1KiB", when BY_ENTRY, is entry_bytes;
        /// Size of an entry in a translation page. Default: from the number of pages, as MQSim
        /// computes it.
        translation_entry: Maybe<Bytes>, in "1B" to "1KiB", is translation_entry_bytes;
        /// Bytes read from flash to load an entry, with `granularity = "entry"`: a multiple of 512B up to
        /// the page.
        load: Maybe<Bytes> = "512B", when BY_ENTRY, is load_bytes;
        /// Whether evicted dirty entries are written to flash.
        write_back: Maybe<bool> = "true", is write_back;
    }
    with |cmt, check, _file| {}
}

/// The mapping unit of a drive file that gives none, where data may be anywhere: 4 KiB, or the
/// page if that is less or cannot be divided so.
pub(crate) fn usual_unit(page_bytes: u32) -> u32 {
    const USUAL: u32 = 4096;
    let divides = page_bytes.is_multiple_of(USUAL) && (page_bytes / USUAL).is_power_of_two();
    if divides { USUAL } else { page_bytes }
}

impl Mapping {
    /// The mapping unit, which everything else is counted in.
    pub(crate) fn unit_bytes(
        &self,
        check: &mut Check<'_>,
        file: &File,
        geometry: &Geometry,
    ) -> u32 {
        let page = u64::from(geometry.page_bytes);
        let is_hybrid = self.kind(check) == MappingName::Hybrid;
        let Some(unit) = &self.unit else {
            let whole = is_hybrid || or(&file.flash.get().rewritable, false);
            return if whole { geometry.page_bytes } else { usual_unit(geometry.page_bytes) };
        };
        let bytes = unit.get().0;
        if or(&file.flash.get().rewritable, false) {
            return geometry.page_bytes;
        }
        if is_hybrid {
            if bytes != page {
                check.without_effect(
                    unit.span(),
                    self.kind.as_ref().map(At::span),
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
            check.wrong(
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
            check.wrong(
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
            across_planes(check, file);
        }
        u32::try_from(bytes).unwrap_or(geometry.page_bytes)
    }

    pub(crate) fn lower(
        &self,
        check: &mut Check<'_>,
        file: &File,
        geometry: &Geometry,
        unit_bytes: u32,
    ) -> config::Mapping {
        let table = match (self.table.as_ref().map(|at| (at, *at.get())), &self.cmt) {
            (Some((_, TableName::Ideal)), _) | (None, None) => MappingTable::Ideal,
            (Some((_, TableName::Cached)) | None, Some(cmt)) => {
                cmt.get().check(check, file, geometry);
                MappingTable::Cached(cmt.get().lower(check, file))
            }
            (Some((table, TableName::Cached)), None) => {
                check.wrong(
                    "a cached mapping table needs a capacity",
                    table,
                    "cached in how many bytes?",
                    Some("add `[mapping.cmt]` with `size = \"2MiB\"`".to_owned()),
                );
                MappingTable::Ideal
            }
        };
        let scheme = match self.kind(check) {
            MappingName::Page => MappingScheme::Page,
            MappingName::Hybrid => {
                let most = geometry.blocks_per_plane;
                if let Some(at) = &self.log_blocks {
                    check.count(at, 2..=most);
                }
                MappingScheme::Hybrid { log_blocks: self.log_blocks(check) }
            }
        };
        let unmapped_reads = self.unmapped_reads(check);
        config::Mapping { unit_bytes, scheme, table, unmapped_reads }
    }
}

/// What a drive cannot have whose mapping units lie across planes.
fn across_planes(check: &mut Check<'_>, file: &File) {
    let multi_plane = file.scheduler.multi_plane.as_ref().filter(|at| !*at.get());
    let multi_plane = multi_plane.map(|at| (at.span(), "`scheduler.multi_plane` must be on"));
    let planes = file.namespace.iter().filter_map(|at| at.get().planes.first());
    let planes = planes.map(|at| (at.span(), "a namespace cannot have some planes of a die"));
    for (span, message) in multi_plane.into_iter().chain(planes) {
        check.at(
            span,
            format!("{message}: mapping units lie across planes"),
            "not with units larger than a page",
            Some("remove it, or use `mapping.unit` of a page or less".to_owned()),
        );
    }
}

impl Cmt {
    /// Notes what does not fit the flash, or the capacity.
    fn check(&self, check: &mut Check<'_>, file: &File, geometry: &Geometry) {
        let page = u64::from(geometry.page_bytes);
        let granularity: GranularityName = self.granularity(check);
        let by_page = granularity == GranularityName::Page;
        let is_load = |load: u64| load > 0 && load <= page && load.is_multiple_of(512);
        if let Some(load) = self.load.as_ref().filter(|at| !by_page && !is_load(at.get().0)) {
            let message = format!(
                "`mapping.cmt.load` must be a multiple of 512B up to the page, not {}",
                load.get()
            );
            check.wrong(message, load, "out of range", None);
        }
        let parts = match or(&self.sharing, SharingName::Shared) {
            SharingName::Partitioned => file.namespace.len().max(1) as u64,
            SharingName::Shared | SharingName::Private => 1,
        };
        let (least, what) = if by_page {
            (page, "translation page")
        } else {
            (self.entry.as_ref().map_or(16, |at| at.get().0), "entry")
        };
        if self.size.get().0 < least.saturating_mul(parts) {
            let each = if parts > 1 { " for each namespace" } else { "" };
            check.wrong(
                format!("a mapping cache of {} cannot hold one {what}{each}", self.size.get()),
                &self.size,
                "too small",
                Some(format!("at least {}", Bytes(least * parts))),
            );
        }
    }
}

section! {
    /// How writes are spread over the flash.
    #[derive(Default)]
    Allocation => Config {
        /// The order in which consecutive pages are spread, fastest first: a permutation of C
        /// (channel), W (way, the chip), D (die) and P (plane). Default: CWDP.
        #[schemars(regex(pattern = r"^[CWDPcwdp]{4}$"))]
        order: Maybe<String>, writes |config, _| Some(quoted(print_order(config.plane_order)));
        /// Which plane a host write goes to. With `[placement]` the default is striped.
        placement: Maybe<PlacementName> = "static",
            when ANY_PLANE if |it| *it != PlacementName::Static,
            shows |config, _| Some(config.placement);
    }
}

impl Allocation {
    pub(crate) fn plane_order(&self, check: &mut Check<'_>) -> PlaneOrder {
        let Some(order) = &self.order else { return CWDP };
        parse_order(order.get()).unwrap_or_else(|| {
            let valid =
                "each of C (channel), W (way, the chip), D (die) and P (plane) once, such as CWDP";
            check.wrong(
                format!("`allocation.order` cannot be `{}`", order.get()),
                order,
                "not a permutation of C, W, D and P",
                Some(valid.to_owned()),
            );
            CWDP
        })
    }
}

/// Channel, way, die, plane.
const CWDP: PlaneOrder =
    PlaneOrder([Dimension::Channel, Dimension::Chip, Dimension::Die, Dimension::Plane]);

/// Reads a plane order such as `CWDP`; `None` if it is not a permutation.
fn parse_order(text: &str) -> Option<PlaneOrder> {
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
fn print_order(order: PlaneOrder) -> String {
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
