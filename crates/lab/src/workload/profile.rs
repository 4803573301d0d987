//! What a flow's writes look like in the long run, for whoever prepares the drive's state.

use super::{Addresses, FlowSpec, Source, WorkloadError};

/// Which units of a namespace a flow overwrites, and how often each. Units are the mapping
/// units of the drive; a unit that a request only touches in part counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WriteProfile {
    /// It never writes.
    None,
    /// In order, over and over.
    Sequential {
        /// First unit.
        first_unit: u64,
        /// How many.
        units: u64,
    },
    /// All of a range equally often.
    Uniform {
        /// First unit.
        first_unit: u64,
        /// How many.
        units: u64,
    },
    /// Partly in order, partly all of a range equally often.
    Mixed {
        /// First unit.
        first_unit: u64,
        /// How many.
        units: u64,
    },
    /// Two ranges, the hot one first.
    HotCold {
        /// First unit, of the hot range.
        first_unit: u64,
        /// Units of both ranges.
        units: u64,
        /// Units of the hot range.
        hot_units: u64,
        /// Share of the writes that go to the hot range.
        hot_access: f64,
    },
    /// The `k`-th most popular unit in proportion to `k` to the power of `-theta`, in no
    /// particular place.
    Zipf {
        /// First unit.
        first_unit: u64,
        /// How many.
        units: u64,
        /// The exponent.
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
            Source::Trace(_) => {
                let units = capacity_sectors / unit;
                return Ok(WriteProfile::Uniform { first_unit: 0, units });
            }
            Source::Synthetic(synthetic) => synthetic,
        };
        let (offset, size) = self.working_set(synthetic, capacity_sectors)?;
        if synthetic.mix.write() <= 0.0 {
            return Ok(WriteProfile::None);
        }
        let first_unit = offset / unit;
        let units = (offset + size).div_ceil(unit) - first_unit;
        Ok(match synthetic.addresses {
            Addresses::Sequential { .. } => WriteProfile::Sequential { first_unit, units },
            Addresses::Mixed { .. } => WriteProfile::Mixed { first_unit, units },
            Addresses::Uniform => WriteProfile::Uniform { first_unit, units },
            Addresses::HotCold { hot_access, hot_space } => WriteProfile::HotCold {
                first_unit,
                units,
                hot_units: ((units as f64 * hot_space) as u64).clamp(1, units),
                hot_access,
            },
            Addresses::Zipf { theta } => WriteProfile::Zipf { first_unit, units, theta },
        })
    }
}
