//! What makes the results of a possible drive other than people expect.
//!
//! A drive file that can be built may still describe a drive that nobody sells: each caution names
//! the setting, what it does to results, and what would change that.

use super::DriveFile;
use crate::units::{Bytes, Fraction};
use mynah_model::config::{
    CachedTable, CmtGranularity, Config, MappingScheme, MappingTable, Placement, VictimPolicy,
};
use mynah_model::steady::analytic::mean_field;

/// A setting of which results suffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caution {
    /// Its key in the drive file.
    pub setting: &'static str,
    /// What it does, and what would be better.
    pub text: String,
}

/// What operating systems write at least; larger mapping units are written in part.
const HOST_WRITE_BYTES: u32 = 4096;
/// Write amplification of uniform writes above which over-provisioning is called small: that of
/// consumer drives (7 % and some) lies below.
const WAF_MAX: f64 = 10.0;
/// Share of the mapping table below which the cached part is called small.
const CMT_SHARE_MIN: f64 = 0.1;
/// Blocks of a plane below which its thresholds are of a few blocks only.
const BLOCKS_MIN: u32 = 64;

impl DriveFile {
    /// What makes this drive's results other than people expect, the worst first.
    pub fn cautions(&self) -> Vec<Caution> {
        cautions(&self.config)
    }
}

fn cautions(config: &Config) -> Vec<Caution> {
    let mut found = vec![];
    let mut add = |setting, text| found.push(Caution { setting, text });
    let pages = matches!(config.mapping.scheme, MappingScheme::Page);
    let collects = pages && !config.flash.rewritable;
    let joined = config.with_joined_planes();
    let geometry = &joined.geometry;
    let (unit, page) = (config.mapping.unit_bytes, geometry.page_bytes);
    if collects && unit > HOST_WRITE_BYTES {
        let text = format!(
            "a write of 4 KiB programs a unit of {}: WAF is {} and more under such writes; 4KiB is \
             usual",
            Bytes(unit.into()),
            unit / HOST_WRITE_BYTES
        );
        add("mapping.unit", text);
    }
    if collects && !config.gc.paced {
        let text = "planes collect only when they run out of free blocks, and writes wait \
                    meanwhile: they come in waves, and short runs measure one of them; `paced = \
                    true` collects in step with writes, as firmware does"
            .to_owned();
        add("gc.paced", text);
    }
    let blocks = f64::from(geometry.blocks_per_plane);
    let kept = |share: f64| (share * blocks - 1e-9).ceil();
    if collects && config.gc.paced && kept(config.gc.start) - kept(config.gc.urgent) < 2.0 {
        let text = format!(
            "collection starts at {} free blocks and is urgent at {}, which leaves no room for a \
             pace: writes come in waves; more blocks or a higher start give it some",
            kept(config.gc.start),
            kept(config.gc.urgent)
        );
        add("gc.start", text);
    }
    if config.cache.is_none() && unit < page && pages {
        let text = format!(
            "without a cache every write programs a page of its own: one of 4 KiB takes {}",
            Bytes(page.into())
        );
        add("cache.size", text);
    }
    if collects
        && config.placement != Placement::Static
        && geometry.planes_per_die > 1
        && config.scheduler.multi_plane
    {
        let text = format!(
            "writes choose a plane each, so the {} planes of a die hardly ever program together: \
             random writes at rest take up to {} times as long as on drives that write them as \
             one; describe those by one plane with pages of {}",
            geometry.planes_per_die,
            geometry.planes_per_die,
            Bytes(u64::from(page) * u64::from(geometry.planes_per_die))
        );
        add("geometry.planes_per_die", text);
    }
    if collects && let Some(waf) = uniform_waf(&joined).filter(|waf| *waf > WAF_MAX) {
        let text = format!(
            "WAF is about {waf:.0} under random writes to all of it, since collection keeps {} of \
             the {} spare",
            Fraction(config.gc.start),
            Fraction(config.over_provisioning)
        );
        add("over_provisioning", text);
    }
    if let MappingTable::Cached(table) = &config.mapping.table {
        let share = cmt_share(config, table);
        if share < CMT_SHARE_MIN {
            let text = format!(
                "{} hold {} of the table: random I/O to all of the drive reads a translation page \
                 each time",
                Bytes(table.bytes),
                Fraction(libm::round(share * 1e3) / 1e3)
            );
            add("mapping.cmt.size", text);
        }
    }
    let firmware = &config.firmware;
    if firmware.read.is_zero() && firmware.write.is_zero() {
        let text =
            "commands take no time in the controller, whose cores bound IOPS: in the shipped \
                    samsung-pm9a3 and samsung-980-pro a read takes 8.7 and 21.5 us there"
                .to_owned();
        add("firmware", text);
    }
    if collects && geometry.blocks_per_plane < BLOCKS_MIN {
        let text = format!(
            "{} blocks in a plane are few: thresholds are of whole blocks, and WAF is above that \
             of larger drives",
            geometry.blocks_per_plane
        );
        add("geometry.blocks_per_plane", text);
    }
    found
}

/// The share of the mapping table that its cached part holds. Entries are as the model has them: two
/// physical addresses and a bit for each sector where they are cached one by one, one address and
/// the bits in a translation page (as in MQSim).
fn cmt_share(config: &Config, table: &CachedTable) -> f64 {
    let units = config.geometry.raw_bytes() / u64::from(config.mapping.unit_bytes);
    let address = 64 - units.saturating_sub(1).leading_zeros();
    let sectors = config.mapping.unit_bytes / 512;
    let (addresses, given) = match table.granularity {
        CmtGranularity::Entry => (2 * address, table.entry_bytes),
        CmtGranularity::Page => (address, table.translation_entry_bytes),
    };
    let entry = given.unwrap_or((addresses + sectors).div_ceil(8));
    let offered = units as f64 * (1.0 - config.over_provisioning);
    table.bytes as f64 / (offered * f64::from(entry))
}

/// Write amplification under uniform writes, about.
fn uniform_waf(config: &Config) -> Option<f64> {
    let geometry = &config.geometry;
    let units = geometry.pages_per_block * (geometry.page_bytes / config.mapping.unit_bytes);
    let kept_free = (config.gc.start * f64::from(geometry.blocks_per_plane)).ceil()
        / f64::from(geometry.blocks_per_plane);
    let rho = (1.0 - config.over_provisioning) / (1.0 - kept_free);
    // Larger blocks amplify a little more, and take long to compute.
    Some(mean_field(units.min(256), rho, VictimPolicy::Greedy).ok()?.waf)
}

#[cfg(test)]
mod tests {
    use crate as drive;

    fn named(drive: &str, set: &[&str]) -> Vec<&'static str> {
        let set: Vec<String> = set.iter().map(|&set| set.to_owned()).collect();
        let file = drive::load(drive, &set).unwrap();
        file.cautions().into_iter().map(|caution| caution.setting).collect()
    }

    #[test]
    fn each_setting_is_named_where_it_matters() {
        let drive = "samsung-pm9a3";
        assert!(named(drive, &[]).is_empty(), "{:?}", named(drive, &[]));
        assert_eq!(named(drive, &["mapping.unit=16KiB"]), ["mapping.unit"]);
        assert_eq!(named(drive, &["gc.paced=false"]), ["gc.paced"]);
        assert_eq!(named(drive, &["geometry.blocks_per_plane=70", "gc.start=3%"]), ["gc.start"]);
        assert_eq!(named(drive, &["cache.size=0"]), ["cache.size"]);
        let two =
            ["geometry.planes_per_die=2", "geometry.page_size=16KiB", "scheduler.multi_plane=true"];
        assert_eq!(named(drive, &two), ["geometry.planes_per_die"]);
        let small = ["over_provisioning=7%", "gc.start=3%"];
        assert_eq!(named(drive, &small), ["over_provisioning"]);
        assert_eq!(named(drive, &["firmware.read=0us", "firmware.write=0us"]), ["firmware"]);
        let few = ["geometry.blocks_per_plane=60", "gc.start=8%"];
        assert_eq!(named(drive, &few), ["geometry.blocks_per_plane"]);
    }

    #[test]
    fn files_of_mqsim_are_what_they_are() {
        let found = named("mqsim", &[]);
        for setting in ["mapping.unit", "gc.paced", "mapping.cmt.size", "firmware"] {
            assert!(found.contains(&setting), "{found:?}");
        }
        // What is overwritten in place, and what has logs, has no collection to speak of.
        assert!(!named("optane-p4800x", &[]).contains(&"gc.paced"));
        // Half of its entries and more are cached; those of whole pages are half as large.
        let half = |more: &str| named("mqsim", &["mapping.cmt.size=256MiB", more]);
        assert!(!half("seed=1").contains(&"mapping.cmt.size"));
        assert!(!half("mapping.cmt.granularity=page").contains(&"mapping.cmt.size"));
    }
}
