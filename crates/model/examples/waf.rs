//! Write amplification of a simulated pool beside what theory says, as in `docs/steady-state.md`.
//! An argument picks one pool, to time it from outside: `cargo run --release -p mynah-model
//! --example waf -- uniform|hotcold|separate|skewed|large|large-hotcold|table`.

use mynah_model::config::{HotData, VictimPolicy, WriteFrontiers};
use mynah_model::steady::analytic::{mean_field, waf_fifo};
use mynah_model::steady::pool::{Class, HotShare, Order, Pool, PoolState};

fn pool(blocks: u32, units_per_block: u32, shares: &[(f64, f64)], rho: f64) -> Pool {
    let keep_free = 8;
    let valid = f64::from(blocks - keep_free) * f64::from(units_per_block) * rho;
    let class = |&(space, weight): &(f64, f64)| Class {
        units: (valid * space) as u64,
        weight,
        order: Order::UNIFORM,
        hot: HotShare::default(),
        trims_per_write: 0.0,
    };
    Pool {
        blocks,
        units_per_block,
        classes: shares.iter().map(class).collect(),
        victim: VictimPolicy::Greedy,
        frontiers: WriteFrontiers::One,
        collect_below: keep_free,
        keep_free,
        units_per_program: 1,
        paced: false,
        seed: 1,
    }
}

fn settle(pool: &Pool) -> PoolState {
    pool.settle().expect("the example's pools are valid")
}

fn report(name: &str, pool: &Pool) {
    let state = settle(pool);
    println!(
        "{name}: WAF {:.3}, steady {}, {} host writes, {} copies, {} blocks simulated",
        state.waf, state.steady, state.host_writes, state.copied, state.pool_blocks
    );
}

fn table() {
    let policies = [
        ("greedy", VictimPolicy::Greedy),
        ("d = 30", VictimPolicy::DChoices { d: 30 }),
        ("d = 11", VictimPolicy::DChoices { d: 11 }),
        ("d = 5", VictimPolicy::DChoices { d: 5 }),
        ("d = 2", VictimPolicy::DChoices { d: 2 }),
        ("d = 1", VictimPolicy::DChoices { d: 1 }),
    ];
    println!("| rho | FIFO | {} |", policies.map(|policy| policy.0).join(" | "));
    println!("|---|---|{}", "---|".repeat(policies.len()));
    for rho in [0.6, 0.7, 0.8, 0.9] {
        print!("| {rho} | {:.3} |", waf_fifo(rho));
        for (_, victim) in policies {
            let state = settle(&Pool { victim, ..pool(2048, 256, &[(1.0, 1.0)], rho) });
            let theory = mean_field(256, rho, victim).expect("in the domain").waf;
            print!(
                " {:.3} / {theory:.3} ({:+.2} %) |",
                state.waf,
                (state.waf / theory - 1.0) * 100.0
            );
        }
        println!();
    }
    println!();
    frontiers("greedy, 2,048 x 256", |shares| pool(2048, 256, shares, 0.8));
    frontiers("greedy, 1,024 x 64", |shares| pool(1024, 64, shares, 0.8));
    frontiers("cost-benefit, 1,024 x 64", |shares| Pool {
        victim: VictimPolicy::CostBenefit,
        ..pool(1024, 64, shares, 0.8)
    });
}

fn frontiers(name: &str, pool: impl Fn(&[(f64, f64)]) -> Pool) {
    println!("| {name}: hot space / writes | one | separate | hot and cold |");
    println!("|---|---|---|---|");
    for (space, writes) in [(0.5, 0.5), (0.2, 0.8), (0.1, 0.9), (0.05, 0.95)] {
        let shares = [(space, writes), (1.0 - space, 1.0 - writes)];
        print!("| {space} / {writes} |");
        let told_apart = WriteFrontiers::HotCold(HotData::DEFAULT);
        for frontiers in [WriteFrontiers::One, WriteFrontiers::Separate, told_apart] {
            let mut pool = Pool { frontiers, ..pool(&shares) };
            pool.classes[0].hot = HotShare { of_writes: 1.0, of_units: 1.0 };
            let state = settle(&pool);
            print!(" {:.3}{} |", state.waf, if state.steady { "" } else { " (not steady)" });
        }
        println!();
    }
}

fn main() {
    let hot_cold = [(0.2, 0.8), (0.8, 0.2)];
    match std::env::args().nth(1).as_deref() {
        Some("uniform") => report("uniform", &pool(2048, 256, &[(1.0, 1.0)], 0.7)),
        Some("hotcold") => report("hot/cold", &pool(2048, 256, &hot_cold, 0.7)),
        Some("separate") => report(
            "hot/cold, separate frontiers",
            &Pool { frontiers: WriteFrontiers::Separate, ..pool(2048, 256, &hot_cold, 0.7) },
        ),
        Some("skewed") => report("1 % hot", &pool(2048, 256, &[(0.01, 0.99), (0.99, 0.01)], 0.7)),
        Some("large-hotcold") => {
            report("large hot/cold", &pool(4096, 12_288, &hot_cold, 0.8));
        }
        Some("large") => report("large", &pool(4096, 12_288, &[(1.0, 1.0)], 0.8)),
        _ => table(),
    }
}
