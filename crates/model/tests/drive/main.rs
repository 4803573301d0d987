//! Tests of the drive through its public contract.
//!
//! - `contract`: what the host may rely on, and what it may not do;
//! - `closed_forms`: latencies that are exact sums of their parts;
//! - `ceilings`: throughput against its bounds and queueing formulas;
//! - `laws`: what holds on every run, over random drives, workloads and faults;
//! - `knobs`: every field of the configuration has an effect, in the stated direction;
//! - `collection`: when and how garbage is collected;
//! - `wear`: levelling, the end of blocks, and reads of worn ones;
//! - `allocation`: where writes go, and the steady states that policies lead to;
//! - `amplification`: garbage collection against theory;
//! - `scheduling`, `media`, `host`: what the rules of the scheduler, the kinds of memory and
//!   the host's side do, in numbers;
//! - `ethernet`: an Ethernet link: closed forms, ceilings, the effect of each of its fields;
//! - `packets`: what is said of an Ethernet link's packets, against what is booked for them;
//! - `cache`, `warm_partial`: the cache and its DRAM, in numbers; as it is found;
//! - `hybrid`, `large_units`: mappings other than by page;
//! - `pairs`: key-value namespaces: exact times, the index, capacity, and any sequence of commands;
//! - `slc`: a write cache of blocks with one bit a cell: cliffs, plateaus, what it costs;
//! - `policies`: the drive's own decisions as policies of others, and what those may not choose;
//! - `refused`: drives that cannot be built;
//! - `saved_state`: a drive that is saved and restored goes on as it was;
//! - `lints`: what clippy has to find, when it runs.

#![allow(unreachable_pub)]

mod allocation;
mod amplification;
mod cache;
mod ceilings;
mod closed_forms;
mod collection;
mod contract;
mod data_placement;
mod ethernet;
mod host;
mod hot_cold;
mod hybrid;
mod knobs;
mod large_units;
mod laws;
mod lints;
mod media;
mod packets;
mod pairs;
mod policies;
mod refused;
mod renewal;
mod saved_state;
mod scheduling;
mod sequential;
mod slc;
mod superblocks;
mod support;
mod warm_partial;
mod wear;
