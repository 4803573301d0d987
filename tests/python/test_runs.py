"""Runs give what the command gives, and leave the interpreter alone."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest

import mynah
from conftest import ROOT, mynah as command, without_run

WORKLOADS = {
    "reads": {"rw": "randread", "iodepth": 8, "number_ios": 300},
    "writes": {"rw": "randwrite", "bs": "16k", "iodepth": 4, "number_ios": 200},
    "sequential": {"rw": "write", "bs": "128k", "number_ios": 60, "numjobs": 2},
    "mixed": {"rw": "randrw", "rwmixread": 70, "bssplit": "4k/60:64k/40", "number_ios": 200},
    "zipf": {"rw": "randwrite", "random_distribution": "zipf:1.1", "number_ios": 200},
    "hot": {"rw": "randrw", "random_distribution": "hotcold:90/10", "number_ios": 200},
    "open": {"rw": "randread", "rate_iops": 20000, "rate_process": "poisson", "runtime": "5ms"},
    "bursts": {"rw": "read", "burst": "1ms/1ms", "runtime": "4ms", "iodepth": 2},
    "thinking": {"rw": "randwrite", "thinktime": "50us", "thinktime_blocks": 4, "number_ios": 80},
    "trims": {"rw": "randtrim", "bs": "32k", "number_ios": 100, "size": "10%"},
    "traces": {
        "trace": str(ROOT / "tests/data/sample.trace"),
        "trace_remap": "modulo",
    },
}
PAIRS = {"kv": "ycsb-a", "keys": "2k", "value_size": "1k", "number_ios": 200}


def options(workload):
    return [f"--{name}={value}" for name, value in workload.items()]


def same_as_the_command(drive, workload, precondition="steady", set=None):
    flow = mynah.Flow(workload.get("rw") or workload.get("kv") or "trace", **workload)
    settings = {"seed": 3, "settle": "off", "precondition": precondition}
    result = mynah.Simulation(drive, flow, set=set, **settings).run()
    sets = [f"--set={key}={value}" for key, value in (set or {}).items()]
    text = command("sim", f"--drive={drive}", *sets, *options(workload), *options(settings),
                   "--json=-", "--quiet")
    assert without_run(result.json()) == without_run(text)
    return result


def has_pairs(drive):
    return drive in ("kv-tlc", "samsung-kv")


@pytest.mark.long
@pytest.mark.parametrize("drive", mynah.drives())
def test_results_are_the_commands(drive):
    for workload in [PAIRS] if has_pairs(drive) else WORKLOADS.values():
        same_as_the_command(drive, workload)


@pytest.mark.parametrize("drive", ["enterprise-tlc", "kv-tlc", "samsung-ethernet", "sata-850-pro"])
def test_some_results_are_the_commands(drive):
    workload = PAIRS if has_pairs(drive) else WORKLOADS["mixed"]
    same_as_the_command(drive, workload, precondition="none")


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_workload_is_the_commands(workload, small):
    assert same_as_the_command("mqsim", WORKLOADS[workload], set=small).requests > 0


def test_input_formats(tmp_path, small):
    data = ROOT / "tests/data"
    quiet = ("--json=-", "--quiet")
    sets = [f"--set={key}={value}" for key, value in small.items()]
    # fio's job files.
    with pytest.warns(UserWarning) as said:
        job = mynah.load_fio(data / "two-tenants.fio", mynah.Drive("mqsim", small))
        result = job.replace(settle="off").run()
    assert said
    job = data / "two-tenants.fio"
    text = command("sim", "--drive=mqsim", *sets, "--fio", job, "--settle=off", *quiet)
    assert without_run(result.json()) == without_run(text)
    # Experiment files, theirs and ours.
    flows = [
        mynah.Flow("a", rw="randread", iodepth=8, runtime="2ms", channels=[0, 1]),
        mynah.Flow("b", rw="randwrite", bs="16k", number_ios=100, startdelay="1ms", channels=[2]),
    ]
    settings = {"seed": 5, "ramp_time": "100us", "precondition": "fill"}
    base = mynah.Simulation("mqsim", flows, set=small, **settings)
    experiment, _ = base.write(tmp_path / "x.toml")
    text = without_run(command("sim", experiment, *quiet))
    assert without_run(mynah.load(experiment).run().json()) == text
    ours = json.loads(base.run().json())
    theirs = json.loads(command("sim", experiment, *quiet))
    for result in (ours, theirs):
        del result["run"]
    assert ours == theirs


@pytest.mark.long
def test_mqsims_files():
    folder = ROOT / "tests/data/mqsim/configs/v_rate333_randread_qd1"
    config, workload = folder / "ssdconfig.xml", folder / "workload.xml"
    with warnings.catch_warnings():
        # What MQSim reads and Mynah does not need.
        warnings.simplefilter("ignore")
        (scenario,) = mynah.load_mqsim(config, workload)
    shorter = scenario.replace(flows=[flow.replace(number_ios=200) for flow in scenario.flows])
    assert shorter.run().requests == 200
    text = command("sim", "--mqsim-config", config, "--mqsim-workload", workload, "--json=-",
                   "--quiet")
    assert without_run(scenario.run().json()) == without_run(text)


def base(small, **settings):
    flow = mynah.Flow("a", rw="randwrite", iodepth=8, number_ios=500)
    return mynah.Simulation("mqsim", flow, set=small, settle="off", **settings)


def test_results(small, tmp_path):
    result = base(small).run(alone=True)
    a = result.flows["a"]
    assert a is result.flows[0] and a.write.ios == 500 == result.requests
    assert a.write.lat_ns.percentiles.p99 >= a.write.lat_ns.percentiles.p50 > 0
    assert a.read.ios == 0 and a.read.lat_ns is None and a.store is None
    assert a.slowdown == pytest.approx(1) and result.device.waf >= 1
    assert result.run.version == mynah.__version__ and result.run.cpu_s > 0
    with pytest.raises(KeyError, match="there are a"):
        result.flows["b"]
    path = tmp_path / "r.json"
    result.write(path)
    again = mynah.Result.load(path)
    assert again == result == pickle.loads(pickle.dumps(result))
    assert again.json() == result.json() == path.read_text()
    assert str(result) == str(again) and "randwrite" not in repr(result)
    assert result.html().startswith("<!") and again.html() is None
    assert "<iframe" in result._repr_html_() and "<pre>" in again._repr_html_()
    assert [r for r in mynah.load_results(path)] == [result]
    other = base(small, seed=9).run()
    assert other != result
    other.write(tmp_path / "s.json")
    text = command("compare", path, tmp_path / "s.json")
    names = (str(path), str(tmp_path / "s.json"))
    assert str(result.compare(other, names)) == text == str(mynah.compare(result, other, names))
    assert json.loads(result.compare(other).json())["names"] == ["this", "other"]


def test_the_summary_is_the_commands(small):
    result = base(small).run()
    sets = [f"--set={key}={value}" for key, value in small.items()]
    text = command("sim", "--drive=mqsim", *sets, "--name=a", "--rw=randwrite", "--iodepth=8",
                   "--number_ios=500", "--settle=off")
    lines = [str(t).splitlines() for t in (result, text)]
    # The command knows what it was asked; the last line is about the machine.
    assert lines[1][0] == "a: 100% write, random, 4KiB, iodepth 8, namespace 1, 500 requests"
    lines[1][0] = "a:"
    assert [line for line in lines[0] if "CPU" not in line] == [
        line for line in lines[1] if "CPU" not in line
    ]


def test_files_beside(small, tmp_path):
    base(small).run(
        request_log=tmp_path / "log.csv",
        intervals=tmp_path / "i.csv",
        interval="1ms",
        timeline=tmp_path / "t.json",
        record=tmp_path / "r.rec",
        profile=tmp_path / "p.profile",
        report=tmp_path / "r.html",
        save_state=tmp_path / "s.state",
    )
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 501
    assert all(path.stat().st_size for path in tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) == 7
    command("sim", "--replay", tmp_path / "r.rec", "--quiet")
    later = base(small, load_state=tmp_path / "s.state")
    assert later.run().requests == 500


def test_threads_run_beside_one_another(small):
    gaps = []
    over = threading.Event()

    def tick():
        last = time.monotonic()
        while not over.is_set():
            time.sleep(0.001)
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    ticking = threading.Thread(target=tick)
    ticking.start()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda seed: base(small, seed=seed).run(), [1, 2, 1, 2]))
    over.set()
    ticking.join()
    assert results[0] == results[2] != results[1] == results[3]
    # Another thread went on all the time; how fast is the machine's affair.
    assert len(gaps) > 3


def run_and_say(simulation):
    return without_run(simulation.run().json())


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_processes(small, how):
    simulation = base(small)
    expected = run_and_say(simulation)
    with multiprocessing.get_context(how).Pool(2) as pool:
        assert pool.map(run_and_say, [simulation] * 3) == [expected] * 3


LONG = """
import signal, sys, time
import mynah
flow = mynah.Flow("a", rw="randwrite", iodepth=8, runtime="1000s")
small = {"geometry.blocks_per_plane": 64, "over_provisioning": "30%"} if sys.argv[1] == "small" else {}
base = mynah.Simulation("mqsim", flow, set=small, settle="off")
try:
    print("runs", flush=True)
    base.run()
except KeyboardInterrupt as error:
    # One that comes before the run is Python's own.
    result = getattr(error, "result", None)
    print("none" if result is None else result.requests, flush=True)
    if result is not None:
        assert any("interrupted" in note for note in result.notes), result.notes
# The interpreter goes on, and runs again.
after = base.replace(flows=mynah.Flow("b", rw="randread", number_ios=10), precondition="none")
print(after.run().requests, flush=True)
"""


@pytest.mark.parametrize(("drive", "wait_s"), [("small", 3.0), ("whole", 0.0)])
def test_ctrl_c(drive, wait_s):
    # The whole drive is being prepared when the signal comes, as far as that can be said.
    run = subprocess.Popen([sys.executable, "-c", LONG, drive], stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "runs\n"
    time.sleep(wait_s)
    run.send_signal(signal.SIGINT)
    measured = run.stdout.readline().strip()
    assert measured == "none" or int(measured) > 0
    assert run.stdout.readline() == "10\n"
    assert run.wait() == 0
    run.stdout.close()


def test_handlers_of_signals_are_left_alone(small):
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        flow = mynah.Flow("a", rw="randwrite", iodepth=8, runtime="1000s")
        endless = mynah.Simulation("mqsim", flow, set=small, settle="off")
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(Alarm):
            endless.run()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_the_drive_of_an_enclosure(small):
    flow = mynah.Flow("a", rw="randread", number_ios=20)
    one = mynah.Simulation("samsung-ethernet", flow, set=small, precondition="fill")
    assert one.run().device.flash_reads > 0
    both = one.replace(drives=2, uplink="400Gbit/s").run()
    with pytest.raises(mynah.UsageError, match="of several drives"):
        both.device
    assert mynah.Result.from_json(both.json()) == both


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.long
def test_memory_does_not_grow(small):
    flow = mynah.Flow("a", rw="randread", number_ios=1)
    one = mynah.Simulation("mqsim", flow, set=small, settle="off", precondition="none")
    for _ in range(300):
        one.run()
    before = resident_bytes()
    for _ in range(10_000):
        one.run()
    assert resident_bytes() - before < 5 << 20
