//! The steady state of hot and cold data: how often every unit has been written lately, and so
//! what of each class is taken for hot.

use super::{DriveClass, Heat, random_share};
use crate::config::WriteFrontiers;
use crate::drive::{Drive, Policies};
use crate::ftl::hotness::{counts, decay, hot_shares};
use crate::io::NamespaceId;
use crate::steady::pool::HotShare;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

impl<P: Policies> Drive<P> {
    /// Gives every unit of `classes` as many counted writes as a long history of theirs leaves,
    /// and notes what of each class is hot: as if no unit shared a counter with another.
    pub(super) fn count_writes(
        &mut self,
        classes: &mut [DriveClass],
        heats: &[(NamespaceId, Heat)],
    ) {
        let WriteFrontiers::HotCold(data) = self.config.gc.frontiers else { return };
        let writes = f64::from(decay(&data, self.ftl.mapping.table.units()));
        let total: f64 = classes.iter().map(|class| class.class.weight).sum();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.config.seed ^ 0x6865_6174);
        for of in classes {
            let range = of.first.run(of.class.units as u32);
            let units = match of.heat {
                None => of.class.units,
                Some(_) => {
                    range.clone().filter(|&lpn| self.is_of(lpn, of.heat, heats)).count() as u64
                }
            };
            if units == 0 || of.class.weight == 0.0 {
                continue;
            }
            let counts = counts(of.class.weight / total * writes / units as f64);
            let (of_writes, of_units) = hot_shares(&counts, data.threshold);
            of.hot = HotShare { of_writes, of_units };
            let upto: Vec<f64> = counts
                .iter()
                .scan(0.0, |sum, share| {
                    *sum += share;
                    Some(*sum)
                })
                .collect();
            for lpn in range {
                if self.is_of(lpn, of.heat, heats) {
                    let share = random_share(&mut random);
                    let count = upto.partition_point(|&sum| sum <= share).min(upto.len() - 1);
                    if let Some(hotness) = &mut self.ftl.hotness {
                        hotness.start_with(lpn, count as u8);
                    }
                }
            }
        }
    }
}
