"""Drivers, commands and workers that are killed lose nothing, and leave nothing behind."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

import mynah
from conftest import cluster, each_once, lines, measured
from mynah._command import command

DRIVER = """
import sys, mynah
sweep = mynah.Sweep.load(sys.argv[1], repeat=2)
sweep.run(sys.argv[2], on=2, quiet=True)
"""


def slow(base, tmp_path):
    """A sweep that takes a while, as a file."""
    flows = [flow.replace(number_ios=30_000) for flow in base.flows]
    sweep = base.replace(flows=flows, precondition="steady").sweep({"seed": [1, 11, 21, 31]}, repeat=2)
    for name, text in sweep.files():
        (tmp_path / name).write_text(text)
    return sweep, tmp_path / "experiment.toml"


def drivers(experiment, folder):
    ours = [sys.executable, "-c", DRIVER, experiment, folder]
    theirs = [command(), "sim", experiment, "--resume", folder, "--repeat=2", "--quiet"]
    return {"ours": ours, "theirs": theirs}


def of_session(session):
    """The processes of a session that are alive."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(name))
    return found


def stopped(driver, end, wait_s):
    """Starts a driver and ends it; its exit code, or None if it was over before."""
    run = subprocess.Popen(list(map(str, driver)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           start_new_session=True)
    try:
        run.wait(wait_s)
        return None
    except subprocess.TimeoutExpired:
        run.send_signal(end)
    code = run.wait()
    assert of_session(run.pid) == []
    return code


def killed_and_resumed(base, tmp_path, rounds, turns, ends=(signal.SIGKILL,)):
    """So often is a sweep begun, and its drivers, one of `turns` after the other, are stopped; then
    it is ended. How many were stopped."""
    sweep, experiment = slow(base, tmp_path)
    expected = measured(sweep.run(quiet=True).json())
    chance = random.Random(7)
    killed = 0
    whole_s = {}
    for name in turns:
        start = time.monotonic()
        assert stopped(drivers(experiment, tmp_path / f"whole-{name}")[name], signal.SIGKILL, None) is None
        whole_s[name] = time.monotonic() - start
    for number in range(rounds):
        folder = tmp_path / f"led-{number}"
        kept: list[str] = []
        for turn in range(30):
            name = turns[(number + turn) % len(turns)]
            wait_s = chance.uniform(0.1, 0.8) * whole_s[name]
            code = stopped(drivers(experiment, folder)[name], chance.choice(ends), wait_s)
            killed += code is not None
            if (folder / "runs.jsonl").exists():
                now = [line for line in lines(folder) if line.endswith("\n")]
                assert now[: len(kept)] == kept
                kept = now
            if code is None or len(kept) == 8:
                break
        found = sweep.run(folder, quiet=True)
        assert measured(found.json()) == expected
        each_once(folder, 8)
        assert lines(folder)[: len(kept)] == kept
    return killed


def test_either_front_end_goes_on_where_the_other_was_killed(base, tmp_path):
    killed_and_resumed(base, tmp_path, 1, ["ours", "theirs"])


ENDS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)


@pytest.mark.long
@pytest.mark.kills
@pytest.mark.parametrize(
    ("turns", "ends"),
    [(["ours"], ENDS[:1]), (["theirs"], ENDS[:1]), (["ours", "theirs"], ENDS)],
    ids=["ours", "theirs", "either"],
)
def test_front_ends_are_killed_often(base, tmp_path, rounds, turns, ends):
    rounds = rounds(5)
    assert killed_and_resumed(base, tmp_path, rounds, turns, ends) >= rounds // 2


def killing(sweep, on, victims, count, tmp_path, expected):
    """Runs a sweep over and over while one of `victims()` is killed now and then, so often."""
    chance = random.Random(1)
    over = threading.Event()
    killed: list[int] = []

    def kill():
        while len(killed) < count and not over.wait(chance.uniform(0.5, 1.5)):
            if pids := victims():
                pid = chance.choice(pids)
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        for number in range(20 * count):
            folder = tmp_path / str(number)
            found = sweep.run(folder, on=on, quiet=True)
            assert found.failed == [] and measured(found.json()) == expected
            each_once(folder, len(sweep))
            if len(killed) >= count:
                break
    finally:
        over.set()
        thread.join()
    assert len(killed) == count


@pytest.mark.long
@pytest.mark.kills
@pytest.mark.filterwarnings("default")
def test_dask_workers_are_killed(base, tmp_path, rounds):
    sweep = base.sweep({"seed": list(range(1, 41))})
    expected = measured(sweep.run(quiet=True).json())
    with cluster() as local, local.get_client() as client:

        alone_since = None

        def victims():
            nonlocal alone_since
            pids = [worker.pid for worker in local.workers.values() if worker.pid]
            if len(pids) == len(local.scheduler.workers) == 2:
                alone_since = None
                return pids
            # A nanny whose worker dies while it starts gives up, and that is Dask's affair: others take
            # their place.
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since > 20:
                local.scale(len(local.worker_spec) + 2 - len(local.scheduler.workers))
                alone_since = None
            return []

        killing(sweep, client, victims, rounds(5), tmp_path, expected)


def poison(simulation):
    if simulation.point["seed"] == "17":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"seed": simulation.point["seed"]}


def one_is_poison(sweep, on, folder, said):
    found = sweep.run(folder, on=on, call=poison, version="1")
    (bad,) = [run for run, value in enumerate(found.values) if value is None]
    assert sweep[bad].point == {"seed": "17"}
    ((point, seed, why),) = found.failed
    assert (point, seed) == ({"seed": "17"}, 17) and "in the end with no other run beside it" in why
    each_once(folder, 29)
    assert "a worker is lost" in said.readouterr().err


@pytest.mark.long
@pytest.mark.filterwarnings("default")
def test_a_poison_run_takes_none_with_it(base, tmp_path, capsys):
    sweep = base.sweep({"seed": list(range(1, 31))})
    with cluster() as local, local.get_client() as client:
        one_is_poison(sweep, client, tmp_path / "led", capsys)


@pytest.fixture
def ray(monkeypatch):
    """Ray, with two workers of this process."""
    module = pytest.importorskip("ray")
    # What is called is found by its name.
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    module.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
                object_store_memory=100 << 20)
    yield module
    module.shutdown()
    # What Ray leaves of its processes' objects is Ray's affair, and belongs to this test.
    gc.collect()


def of_ray():
    """Workers of Ray that do a task, below this process."""
    parents, names = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{name}/cmdline") as file:
                names[int(name)] = file.read()
        except OSError:
            continue

    def ours(pid):
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return [pid for pid, name in names.items() if name.startswith("ray::work") and ours(pid)]


@pytest.mark.long
@pytest.mark.filterwarnings("default")
def test_ray(base, tmp_path, ray):
    sweep = base.sweep({"flow.a.iodepth": [1, 4, 16], "set.over_provisioning": ["30%", "45%"]}, repeat=2)
    expected = measured(sweep.run(quiet=True).json())
    assert measured(sweep.run(tmp_path / "ray", on=ray, quiet=True).json()) == expected
    each_once(tmp_path / "ray", 12)


@pytest.mark.long
@pytest.mark.kills
@pytest.mark.filterwarnings("default")
def test_workers_of_ray_are_killed(base, tmp_path, ray, rounds):
    flows = [flow.replace(number_ios=3000) for flow in base.flows]
    sweep = base.replace(flows=flows, precondition="steady").sweep({"seed": list(range(1, 25))})
    expected = measured(sweep.run(quiet=True).json())
    killing(sweep, ray, of_ray, min(5, rounds(2)), tmp_path, expected)


@pytest.mark.long
@pytest.mark.filterwarnings("default")
def test_a_poison_run_of_rays(base, tmp_path, ray, capsys):
    one_is_poison(base.sweep({"seed": list(range(1, 31))}), ray, tmp_path / "led", capsys)
