//! What a flow's writes look like in the long run, for whoever prepares the drive's state.

use super::{
    Addresses, BlockSize, Extent, FlowSpec, Positions, SECTOR_BYTES, Source, Synthetic,
    WorkloadError, Zones, heat,
};
use mynah_model::io::Operation;

/// Which units of a namespace a flow overwrites, and how often each. Units are the mapping
/// units of the drive; a unit that a request only touches in part counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WriteProfile {
    /// The flow writes nothing.
    None,
    /// In order from the first unit to the last, again and again.
    Sequential {
        first_unit: u64,
        units: u64,
        /// The share of the units that each round leaves as they are, at random: requests that
        /// advance with its writes are no writes there.
        passed_over: f64,
    },
    /// Uniform over a range.
    Uniform { first_unit: u64, units: u64 },
    /// Partly sequential, partly uniform over a range.
    Mixed {
        first_unit: u64,
        units: u64,
        /// Share of random writes, 0 to 1.
        random: f64,
        /// The share of the units that each round leaves as they are.
        passed_over: f64,
    },
    /// Two ranges, the hot one first.
    HotCold {
        /// First unit, of the hot range.
        first_unit: u64,
        /// Number of units of both ranges together.
        units: u64,
        /// Number of units of the hot range.
        hot_units: u64,
        /// Share of the writes that go to the hot range.
        hot_access: f64,
    },
    /// Several adjacent ranges, uniform within each.
    Zoned {
        first_unit: u64,
        /// Number of units of all zones together.
        units: u64,
        /// Their shares of the writes and of the units.
        zones: Zones,
    },
    /// The `k`-th most popular unit in proportion to `k` to the power of `-theta`, in no
    /// particular place.
    Zipf {
        first_unit: u64,
        units: u64,
        /// Exponent of the Zipf distribution.
        theta: f64,
    },
}

impl FlowSpec {
    /// How this flow's writes are distributed over a namespace of `capacity_sectors` on a
    /// drive with mapping units of `unit_sectors`. How much of the namespace holds data is
    /// said by [`FlowSpec::occupancy`].
    pub fn write_profile(
        &self,
        capacity_sectors: u64,
        unit_sectors: u32,
    ) -> Result<WriteProfile, WorkloadError> {
        let unit = u64::from(unit_sectors.max(1));
        let synthetic = match &self.source {
            Source::Trace(_) | Source::Front(_) => {
                let units = capacity_sectors / unit;
                return Ok(WriteProfile::Uniform { first_unit: 0, units });
            }
            // Pairs lie anywhere.
            Source::KeyValue(_) => return Ok(WriteProfile::None),
            Source::Synthetic(synthetic) => synthetic,
        };
        let (offset, size) = self.working_set(synthetic, capacity_sectors)?;
        if synthetic.mix.write() <= 0.0 {
            return Ok(WriteProfile::None);
        }
        let first_unit = offset / unit;
        let units = (offset + size).div_ceil(unit) - first_unit;
        Ok(match synthetic.addresses {
            Addresses::Sequential { positions, .. } => WriteProfile::Sequential {
                first_unit,
                units,
                passed_over: match positions {
                    Positions::EachOperation => 0.0,
                    Positions::Shared => passed_over(synthetic, unit),
                },
            },
            Addresses::Mixed { random, .. } => WriteProfile::Mixed {
                first_unit,
                units,
                random,
                passed_over: passed_over(synthetic, unit),
            },
            Addresses::Uniform | Addresses::Once => WriteProfile::Uniform { first_unit, units },
            Addresses::HotCold { hot_access, hot_space } => WriteProfile::HotCold {
                first_unit,
                units,
                hot_units: ((units as f64 * hot_space) as u64).clamp(1, units),
                hot_access,
            },
            Addresses::Zoned(zones) => WriteProfile::Zoned { first_unit, units, zones },
            Addresses::Zipf { theta } => WriteProfile::Zipf { first_unit, units, theta },
        })
    }
}

impl FlowSpec {
    /// Units that this flow's writes leave together: those of one request, if all requests are of
    /// the same power of two of whole units and begin at a multiple of it. Otherwise 1: each unit
    /// by itself.
    pub fn written_together(&self, unit_sectors: u32) -> u32 {
        let Source::Synthetic(Synthetic { block, align_sectors, offset, .. }) = &self.source else {
            return 1;
        };
        let BlockSize::Fixed(sectors) = *block.of(Operation::Write) else { return 1 };
        let units = sectors / unit_sectors;
        let begins = match *offset {
            Extent::Bytes(bytes) => bytes % (u64::from(sectors) * SECTOR_BYTES) == 0,
            // Such ranges begin at a multiple of what requests are aligned to.
            Extent::Share(_) => true,
        };
        let whole = sectors % unit_sectors == 0 && *align_sectors == u64::from(sectors);
        if whole && begins && units.is_power_of_two() { units } else { 1 }
    }

    /// Units that it trims for each that it writes.
    pub fn trims_per_write(&self) -> f64 {
        match &self.source {
            Source::Synthetic(synthetic) if synthetic.mix.write() > 0.0 => {
                synthetic.mix.trim / synthetic.mix.write()
            }
            _ => 0.0,
        }
    }
}

/// The share of the units that no write touches when requests of all kinds go over them.
fn passed_over(synthetic: &Synthetic, unit_sectors: u64) -> f64 {
    let requests = (unit_sectors / heat::mean_sectors(synthetic)).max(1);
    libm::pow(1.0 - synthetic.mix.write(), requests as f64)
}
