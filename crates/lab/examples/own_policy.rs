//! A victim policy of one's own: Cost-Age-Times (Chiang and Chang, Journal of Systems and Software 48(3),
//! 1999) beside greedy collection, under the same writes. A crate that depends on `mynah-lab` can hold all
//! of it; Mynah is not changed.
//!
//! `cargo run --release -p mynah-lab --example own_policy`

use mynah_lab::policy::{Candidate, Candidates, Dated, Own, VictimChoice};
use mynah_lab::{Device, Precondition, Simulation, SimulationError};

/// The block with the least `u / (1 - u)`, the cost of cleaning it, over its age, times its erases.
pub(crate) struct CostAgeTimes;

impl VictimChoice for CostAgeTimes {
    fn dated(&self) -> Dated {
        Dated::Filled
    }

    fn choose(&mut self, blocks: &mut Candidates<'_>) -> Result<Option<u32>, String> {
        let units = f64::from(blocks.units_per_block());
        let cost = |it: &Candidate| {
            let u = f64::from(it.valid) / units;
            u / (1.0 - u) / (it.age + 1) as f64 * f64::from(it.erases + 1)
        };
        let paying = blocks.in_turn().filter(|it| blocks.pays(it.valid));
        let best = paying.min_by(|a, b| cost(a).total_cmp(&cost(b)));
        Ok(best.map(|it| it.block))
    }
}

/// A small drive, most of whose writes go to a tenth of it.
pub(crate) fn simulation(number: u32) -> Result<Simulation, SimulationError> {
    let settings = [
        "geometry.channels=2",
        "geometry.chips_per_channel=1",
        "geometry.blocks_per_plane=64",
        "geometry.pages_per_block=64",
        "over_provisioning=20%",
        "gc.reserve_blocks=2",
        "gc.victim=greedy",
        "cache.size=4MiB",
    ];
    let settings: Vec<String> = settings.iter().map(|set| set.to_string()).collect();
    let flow = format!(
        "rw=randwrite bs=16k iodepth=32 random_distribution=zoned:90/10:10/90 number_ios={number}"
    );
    let simulation = Simulation::on_changed("mqsim", &settings)?;
    simulation.precondition(Precondition::Fill).flow("writer", &flow)
}

/// Greedy collection, and Cost-Age-Times.
pub(crate) fn compare(number: u32) -> Result<[Device; 2], SimulationError> {
    let simulation = simulation(number)?;
    let own = Own::named("cost-age-times", include_str!("own_policy.rs")).victims(CostAgeTimes);
    let ran = [simulation.run()?, simulation.run_with(own)?];
    Ok(ran.map(|measured| measured.result.device.expect("one drive ran")))
}

#[allow(dead_code)]
fn main() -> Result<(), SimulationError> {
    for (name, device) in ["greedy", "cost-age-times"].into_iter().zip(compare(800_000)?) {
        let wear = device.wear.expect("blocks wear");
        let (least, mean, most) = (wear.erases_min, wear.erases_mean, device.block_erases_max);
        let waf = device.waf.expect("it was written");
        println!("{name}: WAF {waf:.3}, erases of a block {least} to {most}, mean {mean:.1}");
    }
    Ok(())
}
