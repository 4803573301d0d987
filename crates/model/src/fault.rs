//! Injected media errors: which operations fail; and what a stop of the drive keeps.

use crate::config::{Config, Fault, FaultExtent, MediaOperation};
use crate::number::Lpn;
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Faults {
    media: Vec<(MediaOperation, Extent)>,
    pub(crate) any_reads: bool,
    pub(crate) any_programs: bool,
    pub(crate) any_erases: bool,
    random: Xoshiro256PlusPlus,
}

/// How many numbers of 64 bits there are.
const DRAWS: f64 = 18_446_744_073_709_551_616.0;

#[derive(Clone, Serialize, Deserialize)]
enum Extent {
    /// An operation fails if a random 64-bit number is below this.
    Below(u64),
    /// First and last logical unit, numbered over the whole drive.
    Units(Lpn, Lpn),
}

impl Faults {
    /// Begins random numbers anew, from `seed` or from one that is drawn; which.
    pub(crate) fn reseed(&mut self, seed: Option<u64>) -> u64 {
        let seed = seed.unwrap_or_else(|| self.random.next_u64());
        self.random = crate::kernel::bytes::generator(seed);
        seed
    }

    /// Takes the faults of `config` in place of those that there were.
    pub(crate) fn renew(&mut self, config: &Config) {
        *self = Faults::new(config, self.random.clone());
    }

    pub(crate) fn new(config: &Config, random: Xoshiro256PlusPlus) -> Faults {
        let bases = config.namespace_bases();
        let media: Vec<_> = config
            .faults
            .iter()
            .filter_map(|fault| match *fault {
                Fault::Media { operation, extent: FaultExtent::Rate(rate) } => {
                    // Rates of 1 and above: always.
                    Some((operation, Extent::Below((rate * DRAWS) as u64)))
                }
                Fault::Media {
                    operation,
                    extent: FaultExtent::Units { namespace, first, last },
                } => {
                    let base = *bases.get(namespace as usize - 1)?;
                    Some((operation, Extent::Units(base + first as u32, base + last as u32)))
                }
                _ => None,
            })
            .collect();
        let any = |which| media.iter().any(|(operation, _)| *operation == which);
        Faults {
            any_reads: any(MediaOperation::Read),
            any_programs: any(MediaOperation::Program),
            any_erases: any(MediaOperation::Erase),
            media,
            random,
        }
    }

    /// Whether an operation fails. `touches(first, last)` says whether it concerns one of
    /// these logical units.
    pub(crate) fn strikes(
        &mut self,
        operation: MediaOperation,
        touches: impl Fn(Lpn, Lpn) -> bool,
    ) -> bool {
        let mut strikes = false;
        for (which, extent) in &self.media {
            if *which == operation {
                strikes |= match extent {
                    Extent::Below(bound) => self.random.next_u64() < *bound,
                    Extent::Units(first, last) => touches(*first, *last),
                };
            }
        }
        strikes
    }
}

/// What outlives a stop, beside what is on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Keep {
    /// Nothing: the power has failed.
    Flash,
    /// What is dirty in the cache: the power has failed, and the cache is protected.
    WriteCache,
    /// Everything in DRAM.
    Everything,
}
