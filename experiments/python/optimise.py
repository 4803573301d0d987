"""Which over-provisioning and which victim policy are worth their price: optuna asks, a ledger answers.

A share of spare flash costs money, write amplification costs endurance. The ledger is the search's
memory: what was run once, by this search or by another, is not run again.

    python optimise.py --trials 40 --folder results/optimise
"""

from __future__ import annotations

import argparse

import optuna

import mynah

VICTIMS = ("greedy", "cost-benefit", "fifo", "random")
SMALL = {
    "geometry.channels": 2,
    "geometry.chips_per_channel": 1,
    "geometry.dies_per_chip": 1,
    "geometry.blocks_per_plane": 128,
    "geometry.pages_per_block": 64,
    "cache.size": "1MiB",
    "over_provisioning": "20%",
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--trials", type=int, default=40)
    options.add_argument("--ios", type=int, default=40_000, help="writes of each run")
    options.add_argument("--folder", default="results/optimise", help="where finished runs are kept")
    options.add_argument("--price", type=float, default=0.05, help="what a percent of spare flash costs")
    given = options.parse_args()

    writer = mynah.Flow(
        "writer", rw="randwrite", bs="8k", iodepth=8, number_ios=given.ios,
        random_distribution="hotcold:90/10",
    )
    base = mynah.Simulation("mqsim", writer, set=SMALL, precondition="steady", settle="off")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    with mynah.Runs(given.folder) as runs:

        def cost(trial: optuna.Trial) -> float:
            spare = trial.suggest_int("spare", 10, 40)
            victim = trial.suggest_categorical("victim", VICTIMS)
            changes = {"over_provisioning": f"{spare}%", "gc.victim": victim}
            result = runs.run(base.replace(set=changes))
            trial.set_user_attr("waf", result.device.waf)
            return result.device.waf + given.price * spare

        known = len(runs)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
        # A setting that cannot be is a failed trial, and not the end.
        study.optimize(cost, n_trials=given.trials, catch=(mynah.UsageError,))
        print(f"{given.trials} trials, {len(runs) - known} of them run, the others known")

    best = study.best_trial
    print(f"spare {best.params['spare']} %, victims by {best.params['victim']}: "
          f"write amplification {best.user_attrs['waf']:.3f}, cost {best.value:.3f}")


if __name__ == "__main__":
    main()
