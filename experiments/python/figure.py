"""MoKE's figure 1d: the latency of Retrieves over the queue depth, with one request manager and with eight.

The runs are those of experiments/moke/queue-depth.toml, which says what the paper says of them. A
manager that takes 4.8 us for each Retrieve bounds latency from below, at 4.8 us for each command that
is outstanding.

    python figure.py --folder results/moke --out figure.svg
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

import mynah

EXPERIMENT = Path(__file__).resolve().parents[1] / "moke" / "queue-depth.toml"
MANAGER_US = 4.8


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--folder", default="results/moke", help="where finished runs are kept")
    options.add_argument("--out", default="figure.svg")
    options.add_argument("--ios", type=int, help="Retrieves of each run, if not as in the file")
    options.add_argument("--keys", help="keys on the drive, if not as in the file")
    given = options.parse_args()

    points = mynah.load_points(EXPERIMENT)
    said = {"number_ios": given.ios, "keys": given.keys}
    changes = {name: value for name, value in said.items() if value is not None}
    runs = [point.replace(flows=[flow.replace(**changes) for flow in point.flows]) for point in points]
    found = mynah.Sweep(runs).run(given.folder)
    assert not found.failed, found.failed

    curves: dict[int, list[tuple[int, float]]] = {}
    for simulation, result in zip(points, found):
        managers = int(simulation.point["set.kv.managers"])
        depth = int(simulation.point["flow.retrieve.iodepth"])
        mean_us = result.flows["retrieve"].retrieve.lat_ns.mean / 1e3
        curves.setdefault(managers, []).append((depth, mean_us))

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "mynah"
    figure, axes = plt.subplots(figsize=(6, 4))
    for managers, curve in sorted(curves.items()):
        depths, means = zip(*sorted(curve))
        label = f"{managers} request manager{'s' * (managers > 1)}"
        axes.plot(depths, means, marker="o", label=label)
        print(label + ":", ", ".join(f"{depth} {mean:.1f} us" for depth, mean in sorted(curve)))
    depths = sorted(depth for depth, _ in curves[1])
    axes.plot(depths, [MANAGER_US * depth for depth in depths], "k--", label="one manager, the least")
    axes.set_xlabel("queue depth")
    axes.set_ylabel("mean latency of a Retrieve, us")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.tight_layout()
    figure.savefig(given.out, metadata={"Date": None})
    print(given.out)


if __name__ == "__main__":
    main()
