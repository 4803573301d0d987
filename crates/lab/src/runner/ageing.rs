//! Random writes in place of a run's flows: what has aged a drive that starts from
//! [`Precondition::SteadyRandom`](crate::experiment::Precondition::SteadyRandom).
//!
//! Each flow has a stand-in on its namespace: uniform writes of a mapping unit each, all over what
//! is occupied there, as fast as the drive takes them. Nothing of what the flows themselves do
//! goes into them, so a trace that is piped in finds the very drive that its file would find. A
//! namespace that no flow uses was written once.

use super::settling::FOR_EVER;
use mynah_model::config::{Config, Priority};
use mynah_workload::{
    Addresses, BlockSize, Extent, FlowSpec, Limits, Mix, Mode, Schedule, Source, Synthetic,
};

/// Writes that the stand-ins of a namespace keep outstanding together.
const DEPTH: u32 = 32;
/// Their streams are no flow's: these seeds and those that follow stand for them.
const FIRST_SEED: u64 = 1 << 62;

/// The stand-ins of `flows` on a drive, in their order.
pub(crate) fn random_writes(config: &Config, flows: &[FlowSpec]) -> Vec<FlowSpec> {
    let unit_sectors = config.mapping.unit_bytes / 512;
    let stand_in = |(index, flow): (usize, &FlowSpec)| {
        let ours = || flows.iter().filter(|other| other.namespace == flow.namespace);
        let depth = (DEPTH / ours().count() as u32).clamp(1, config.queues.entries - 1);
        // As preconditioning has it: the most that one of them says, or all.
        let occupancy = ours().filter_map(|flow| flow.occupancy).reduce(f64::max);
        let synthetic = Synthetic {
            mode: Mode::Closed { depth },
            mix: Mix::WRITE,
            addresses: Addresses::Uniform,
            block: BlockSize::Fixed(unit_sectors),
            align_sectors: unit_sectors.into(),
            offset: Extent::ZERO,
            size: occupancy.map_or(Extent::ALL, Extent::Share),
        };
        FlowSpec {
            data_placement: None,
            name: format!("random-writes-{}", index + 1),
            namespace: flow.namespace,
            priority: Priority::default(),
            port: 0,
            jobs: 1,
            source: Source::Synthetic(synthetic),
            limits: Limits { runtime: Some(FOR_EVER), ..Limits::default() },
            schedule: Schedule::default(),
            after_previous: false,
            flush_every: 0,
            write_through: false,
            seed: Some(FIRST_SEED + index as u64),
            occupancy,
        }
    };
    flows.iter().enumerate().map(stand_in).collect()
}
