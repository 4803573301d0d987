//! How a run's one seed becomes the seed of each stream.
//!
//! The rule is part of Mynah's interface: a run that is repeated with a later version must
//! see the same requests. With `mix` the output function of SplitMix64 (the state advanced
//! by the golden ratio, then mixed),
//!
//! ```text
//! h = mix(run_seed)
//! h = mix(h ^ kind)      kind 1: the flow's index, 2: its own seed
//! h = mix(h ^ flow)      the index, or the seed
//! h = mix(h ^ job)       the job's index, or u64::MAX for what all jobs share
//! ```
//!
//! and the stream's generator is Xoshiro256++ seeded with `h` by SplitMix64.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// What all jobs of a flow have in common is derived with this in place of a job's index.
pub const ALL_JOBS: u64 = u64::MAX;

/// The output of SplitMix64 in state `word`.
pub(crate) fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The seed of job `job` of the flow that has index `flow_index`, and maybe a seed of its own.
pub fn derive(run_seed: u64, flow_index: u64, flow_seed: Option<u64>, job: u64) -> u64 {
    let (kind, flow) = match flow_seed {
        None => (1, flow_index),
        Some(seed) => (2, seed),
    };
    [kind, flow, job].into_iter().fold(mix(run_seed), |h, word| mix(h ^ word))
}

/// The generator of random numbers for a derived seed.
pub(crate) fn stream(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}
