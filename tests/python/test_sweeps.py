"""Sweeps give what the command gives, wherever they run, and however often they are stopped."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import time

import pytest

import mynah
from mynah import _native
from conftest import ROOT, cluster, each_once, lines, measured, mynah as command


AXES = {"flow.a.iodepth": [1, 4, 16], "set.over_provisioning": ["30%", "45%"]}


def test_a_sweep_is_the_commands(base, tmp_path):
    sweep = base.sweep(AXES, repeat=2)
    assert len(sweep) == 12 and sweep.axes == list(AXES) and sweep[-1].settings["seed"] == "2"
    found = sweep.run(tmp_path / "ours", on=2, quiet=True)
    # The folder has an experiment file, and the command has nothing to do.
    experiment = tmp_path / "ours/experiment.toml"
    assert "--resume . --repeat 2" in experiment.read_text().splitlines()[0]
    options = ("--repeat=2", "--resume", tmp_path / "ours", "--json=-", "--quiet")
    before = (tmp_path / "ours/runs.jsonl").read_bytes()
    again = command("sim", experiment, *options)
    assert again == found.json()
    assert (tmp_path / "ours/runs.jsonl").read_bytes() == before
    # Run by the command from the beginning it is the same.
    theirs = command("sim", experiment, "--repeat=2", "--json=-", "--quiet",
                     f"--table={tmp_path}/table.csv", f"--report={tmp_path}/report.html")
    assert measured(theirs) == measured(found.json())
    assert (tmp_path / "table.csv").read_text() == found.csv()
    assert str(found) == command("sim", experiment, *options[:3])
    assert found[0].point == {"flow.a.iodepth": "1", "set.over_provisioning": "30%"}
    assert "<svg" in found.html() and len(found) == 12 and found.failed == []


def test_words_and_files_have_the_same_keys(base, tmp_path):
    sweep = base.replace(flows=base.flows + (mynah.Flow("c", rw="read", runtime="1ms"),)).sweep(
        {("flow.a.bs", "flow.b.bs"): [("4k", "8k"), ("8k", 4096)], "seed": [3, 4]}, repeat=2
    )
    for name, text in sweep.files():
        (tmp_path / name).write_text(text)
    loaded = mynah.Sweep.load(tmp_path / "experiment.toml", repeat=2)
    keys = sweep._made.keys()
    assert loaded._made.keys() == keys and len(set(keys)) == len(keys) == 8
    for key, run in zip(keys, sweep):
        sent = pickle.loads(pickle.dumps(run))
        assert _native.run_key(sent._ready().of_runs(2)) == key
        assert sent.point == run.point


def test_a_seed_that_is_said_is_kept(small):
    # The drive's own seed is another than the default.
    flow = mynah.Flow("a", rw="randwrite", number_ios=200)
    own = mynah.Simulation("mqsim", flow, set=small, settle="off")
    said = own.replace(seed=1)
    assert said.settings["seed"] == "1" and said != own
    assert pickle.loads(pickle.dumps(said)) == said and said.replace(seed=None) == own
    keys = {_native.run_key(each._ready()) for each in (own, said)}
    assert len(keys) == 2
    swept = own.sweep({"seed": [1]})
    assert swept._made.keys() != [_native.run_key(said._ready())]
    assert swept[0].settings == said.settings


def test_every_engine_gives_the_same(base, tmp_path):
    sweep = base.sweep(AXES)
    expected = measured(sweep.run().json())
    assert measured(sweep.run(on=1).json()) == expected
    with concurrent.futures.ProcessPoolExecutor(
        2, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        found = sweep.run(tmp_path / "pool", on=pool, quiet=True)
    assert measured(found.json()) == expected
    each_once(tmp_path / "pool", 6)
    # In any order, and from any beginning.
    text = (tmp_path / "pool/runs.jsonl").read_text().splitlines(keepends=True)
    rows = text[1:]
    for seed in range(6):
        some = random.Random(seed).sample(rows, k=seed)
        folder = tmp_path / f"some-{seed}"
        folder.mkdir()
        (folder / "runs.jsonl").write_text(text[0] + "".join(some))
        assert measured(sweep.run(folder, on=3, quiet=True).json()) == expected
        each_once(folder, 6)
        assert [line for line in lines(folder) if line in some] == some


@pytest.mark.filterwarnings("default")
def test_dask(base, tmp_path):
    sweep = base.sweep(AXES)
    expected = measured(sweep.run().json())
    with cluster() as local, local.get_client() as client:
        found = sweep.run(tmp_path / "dask", on=client, quiet=True)
        assert measured(found.json()) == expected
        each_once(tmp_path / "dask", 6)
        values = sweep.run(on=client, call=size_of, version="1").values
        assert values == [{"requests": 90, "depth": float(run.point["flow.a.iodepth"])} for run in sweep]


def size_of(simulation):
    return {"requests": simulation.run().requests, "depth": float(simulation.point["flow.a.iodepth"])}


def breaks(simulation):
    if simulation.point["flow.a.iodepth"] == "4":
        raise ValueError("four")
    return {"depth": 1}


INTERRUPTED = """
import sys, mynah
sweep = mynah.Sweep.load(sys.argv[1], repeat=2)
try:
    sweep.run(sys.argv[2], on=2)
except mynah.Interrupted as error:
    print(error.__notes__[0], flush=True)
"""


def test_ctrl_c_says_how_to_go_on(base, tmp_path):
    flows = [flow.replace(number_ios=None, runtime="1000s") for flow in base.flows]
    sweep = base.replace(flows=flows).sweep({"seed": [1, 2, 3]})
    for name, text in sweep.files():
        (tmp_path / name).write_text(text)
    run = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "experiment.toml"), str(tmp_path / "led")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    assert run.stderr.readline() == "6 runs, 0 already done\n"
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    assert run.stdout.readline() == f"0 of 6 runs are in {tmp_path}/led: the same call goes on from there\n"
    assert run.wait() == 0
    run.stdout.close(), run.stderr.close()


def test_what_a_ledger_is_not_of(base, tmp_path):
    sweep = base.sweep({"seed": [1, 2]})
    sweep.run(tmp_path, quiet=True)
    with pytest.raises(mynah.UsageError, match=r"has 2 runs varying seed \(sweep .*and this is 3 runs varying seed"):
        base.sweep({"seed": [1, 2, 3]}).run(tmp_path)
    with pytest.raises(mynah.UsageError, match="and this is runs of all kinds"):
        mynah.Runs(tmp_path)
    path = tmp_path / "runs.jsonl"
    text = path.read_text()
    for old, new, said in [
        (mynah.__build__, "0.0.1+x", rf"of Mynah 0\.0\.1\+x, and this is {mynah.__build__}".replace("0.1.0+", r"0\.1\.0\+")),
        ("mynah.ledger/2", "mynah.ledger/1", "`mynah.ledger/1`"),
    ]:
        path.write_text(text.replace(old, new))
        with pytest.raises(mynah.UsageError, match=said):
            sweep.run(tmp_path)
    path.write_text(text)
    holding = "import sys, mynah; r = mynah.Runs(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", holding, str(tmp_path / "held")], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    with pytest.raises(mynah.UsageError, match=rf"in use by python -c \(process {other.pid} on .*; this is"):
        mynah.Runs(tmp_path / "held")
    other.kill()
    other.wait()
    other.stdin.close(), other.stdout.close()
    with mynah.Runs(tmp_path / "held"):
        with pytest.raises(mynah.UsageError, match=f"process {os.getpid()} on"):
            mynah.Runs(tmp_path / "held")
    mynah.Runs(tmp_path / "held").close()


def test_workers_that_outlive_their_driver_do_not_hold_the_lock(tmp_path):
    holding = (
        "import os, sys, time, mynah\n"
        "r = mynah.Runs(sys.argv[1])\n"
        "if os.fork() == 0:\n    time.sleep(60)\n    os._exit(0)\n"
        "print('held', flush=True); os.kill(os.getpid(), 9)"
    )
    other = subprocess.Popen([sys.executable, "-c", holding, str(tmp_path)], stdout=subprocess.PIPE,
                             text=True, start_new_session=True)
    assert other.stdout.readline() == "held\n"
    other.wait()
    mynah.Runs(tmp_path).close()
    os.killpg(other.pid, signal.SIGKILL)
    other.stdout.close()


def test_failed_runs_are_kept(base, tmp_path, capsys):
    # One point's queues are too short for it.
    sweep = base.sweep({"flow.a.iodepth": [64], "set.queues.entries": [16, 1024]})
    found = sweep.run(tmp_path / "led")
    ((point, _, why),) = found.failed
    assert point == {"flow.a.iodepth": "64", "set.queues.entries": "16"} and why and len(found) == 1
    assert sweep.run(tmp_path / "led").failed == found.failed
    each_once(tmp_path / "led", 2)
    assert "2 runs, 2 already done" in capsys.readouterr().err
    assert sweep.run(tmp_path / "led", retry_failed=True).failed == found.failed
    assert len(lines(tmp_path / "led")) == 3


def test_a_function_in_place_of_run(base, tmp_path):
    sweep = base.sweep(AXES)
    found = sweep.run(tmp_path / "led", call=size_of, version="1", quiet=True)
    assert [value["depth"] for value in found.values] == [1, 1, 4, 4, 16, 16]
    assert sweep.run(tmp_path / "led", call=size_of, version="1", quiet=True).values == found.values
    each_once(tmp_path / "led", 6)
    with pytest.raises(mynah.UsageError, match="sweep"):
        sweep.run(tmp_path / "led", call=size_of, version="2", quiet=True)
    broken = sweep.run(call=breaks, version="1")
    assert broken.values == [{"depth": 1}] * 2 + [None] * 2 + [{"depth": 1}] * 2
    assert [why for _, _, why in broken.failed] == ["ValueError: four"] * 2
    for wrong in ({"call": lambda s: {}, "version": "1"}, {"call": size_of}, {"version": "1"}):
        with pytest.raises(mynah.UsageError):
            sweep.run(**wrong)


def test_runs(base, tmp_path):
    with mynah.Runs(tmp_path) as runs:
        first = runs.run(base)
        assert base in runs and base.replace(seed=2) not in runs
        # The very same, down to what it cost.
        assert runs.run(base).json() == first.json()
        assert runs.run(base.replace(seed=2)) != first and len(runs) == 2
        with pytest.raises(mynah.UsageError):
            runs.run(base.replace(flows=[]))
    with pytest.raises(mynah.UsageError, match="closed"):
        runs.run(base)
    with mynah.Runs(tmp_path) as runs:
        assert runs.run(base).json() == first.json()


def test_a_list_of_simulations(base):
    found = mynah.Sweep([base, base.replace(seed=5)]).run()
    assert [result.point for result in found] == [{"simulation": "1"}, {"simulation": "2"}]
    assert found[1].seed == 5


def test_mistakes_in_sweeps(base):
    def refused(axes, **more):
        with pytest.raises(mynah.UsageError) as caught:
            base.sweep(axes, **more)
        return str(caught.value)

    said = refused({"flow.a.iodept": [1]})
    assert "did you mean" in said or "`iodept` is not an option" in said
    assert "no flow is called `c`" in refused({"flow.c.iodepth": [1]})
    assert "a list of values belongs here" in refused({"seed": 3})
    assert "a list of values belongs here" in refused({"seed": []})
    assert "cannot be varied" in refused({"sed": [1]})
    assert "repeat=0" in refused({"seed": [1]}, repeat=0)
    sweep = base.sweep({"seed": [1]})
    for on in (0, "threads", 2.5):
        with pytest.raises(mynah.UsageError, match="on="):
            sweep.run(on=on)
    with pytest.raises(mynah.UsageError, match="for 10000000 runs at a time"):
        sweep._made.check_memory([0], 10_000_000)
    with pytest.raises(mynah.UsageError):
        mynah.Sweep([])


def test_a_worker_that_is_another(base, tmp_path):
    from mynah import _work

    path = tmp_path / "t.trace"
    path.write_text("0 0 0 8 1\n")
    traced = base.replace(flows=mynah.Flow("t", trace=path, trace_remap="modulo"))
    sweep = mynah.Sweep([traced])
    (key,) = sweep._made.keys()
    task = (mynah.__build__, key, pickle.dumps(sweep[0]), 1, None, "x")
    assert _work.work(task)[0] == "done"
    kind, said = _work.work(("0.0.1+x", *task[1:]))
    assert kind == "refused" and "0.0.1+x" in said and os.uname().nodename in said
    path.write_text("0 0 0 8 0\n")
    kind, said = _work.work(task)
    assert kind == "refused" and "is another than the simulation was made for" in said
    path.unlink()
    kind, said = _work.work(task)
    assert kind == "refused" and "is missing on" in said


class Broken(concurrent.futures.Executor):
    def __init__(self, error):
        self.error = error

    def submit(self, *_):
        future = concurrent.futures.Future()
        future.set_exception(self.error)
        return future


def test_errors_of_engines_are_not_the_runs(base, tmp_path):
    sweep = base.sweep({"seed": [1, 2]})
    for error, said in [
        (RuntimeError("no such host"), "the engine failed, and not the run: builtins.RuntimeError: no such"),
        (ModuleNotFoundError("No module named 'mynah'", name="mynah"), "install mynah-ssd"),
        (concurrent.futures.BrokenExecutor("gone"), "a worker of the executor has died"),
    ]:
        with pytest.raises(mynah.RunError, match=said) as caught:
            sweep.run(tmp_path / "led", on=Broken(error), quiet=True)
        assert "0 of 2 runs are in" in caught.value.__notes__[0]
    assert len(lines(tmp_path / "led")) == 0
    assert len(sweep.run(tmp_path / "led", quiet=True)) == 2


def test_a_full_disk_keeps_whole_lines(base, tmp_path):
    # A limit of the file's size is the disk; the system says so as of a full one.
    script = (
        "import resource, signal, sys, mynah\n"
        "sweep = mynah.Sweep.load(sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (25000, 25000))\n"
        "try:\n    sweep.run(sys.argv[2], on=1, quiet=True)\n"
        "except mynah.RunError as error:\n    print(error.message)\n"
    )
    sweep = base.sweep({"seed": list(range(1, 9))})
    for name, text in sweep.files():
        (tmp_path / name).write_text(text)
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "experiment.toml"), str(tmp_path / "led")],
        capture_output=True, text=True,
    )
    assert "takes no more" in run.stdout, run
    kept = lines(tmp_path / "led")
    assert 0 < len(kept) < 8 and f"{len(kept)} finished runs are kept" in run.stdout
    assert all(line.endswith("\n") for line in kept)
    assert len(sweep.run(tmp_path / "led", quiet=True)) == 8
    assert lines(tmp_path / "led")[: len(kept)] == kept
