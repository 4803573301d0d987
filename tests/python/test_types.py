"""What a type checker says of programs that use the package."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import mynah
from conftest import ROOT
from conftest import mynah as command
from mynah._options import BenchOptions, FlowOptions, ServeOptions

RIGHT = """
from datetime import timedelta
from pathlib import Path

import mynah
import polars

small: dict[str, object] = {"geometry.blocks_per_plane": 64, "over_provisioning": "30%"}
flow = mynah.Flow("a", rw="randread", bs=4096, iodepth=8, runtime=timedelta(milliseconds=3))
flow = flow.replace(bs="4k", size="10%", offset=0.5, iodepth=None, priority="urgent", port=2)
traced = mynah.Flow(trace=Path("a.trace"), trace_format="msr", trace_no_stall=True, channels=[0, 1])
keys = mynah.Flow(kv="ycsb-b", keys="2.6m", key_size="16-32", list_keys=100)
base = mynah.Simulation("mqsim", flow, set=small, seed=7, settle="off", precondition="steady:random")
other = base.replace(flows=[flow, traced], ramp_time=0.5, precision="1%", alone=True, drives=2)
with mynah.Runs("kept") as runs:
    waf: float | None = runs.run(base.replace(set={"over_provisioning": "35%"})).device.waf
result = base.run(requests=True, interval="1ms")
read = result.flows["a"].read
worst: float = read.lat_ns.max if read is not None and read.lat_ns is not None else 0
frame: polars.DataFrame = result.tables.requests.to_polars()
frame = base.sweep({"flow.a.iodepth": [1, 4]}, repeat=2).run(on=2).to_polars()
lowest: object = frame["latency_ps"].min()
with mynah.serve("mqsim", speed="max", functional=True, namespace=["1g", "2g,4096"], drives=2,
                 auth_hash=["sha256"], cpus_allowed=1, state_cache="off", poll="always") as drive:
    requests: int = drive.bench(rw="randread", number_ios=1000, verify=True, name="b").requests
    mynah.bench(f"tcp://{drive.addresses[0]}", kv="retrieve=95,update=5", load="no", wait="1s")
ssd = mynah.Stepper("mqsim", flows={"fg": "urgent", "bg": "low"}, state="steady")
ssd.submit("read", offset=0, size=4096, flow="fg")
latency: int = max(done.latency_ps for done in ssd.advance(10**12))
"""

WRONG = """
import mynah

flow = mynah.Flow("a", rw="randraed")
flow = mynah.Flow("a", iodepth="many")
flow = mynah.Flow("a", iodept=8)
flow = mynah.Flow("a", number_ios=0.5)
flow = mynah.Flow("a", trace_format="msrc")
flow = flow.replace(priority="highest")
flow = flow.replace(port=3)
flow = mynah.Flow("a", time_based="yes")
base = mynah.Simulation("mqsim", flow, sed=7)
base = mynah.Simulation("mqsim", flow, precondition="stead")
base = base.replace(seed="seven")
base.run(request=True)
base.run().device.wav
base.run().tables.requests.to_polars().latency
base.sweep({"seed": [1, 2]}).run().to_polars().latency
drive = mynah.serve("mqsim", sped="max")
drive = mynah.serve("mqsim", poll="adaptiv")
drive = mynah.serve("mqsim", functional="max")
drive.bench(rw="randred")
drive.bench(verfy=True)
mynah.bench("tcp://127.0.0.1", trace="a.trace")
mynah.bench("tcp://127.0.0.1", load=3)
"""


def complained(said: set[int], text: str) -> None:
    """The lines with errors are those that have one: all but the import and those that are empty."""
    lines = enumerate(text.splitlines(), 1)
    wrong = {number for number, line in lines if line and not line.startswith("import")}
    assert said == wrong


def test_mypy_knows_right_from_wrong(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    said = [sys.executable, "-m", "mypy", "--strict", "right.py", "wrong.py"]
    said += ["--cache-dir", str(ROOT / "target/python/mypy-of-users")]
    done = subprocess.run(said, cwd=tmp_path, capture_output=True, text=True)
    errors = re.findall(r"^(\w+)\.py:(\d+): error: (.*)", done.stdout, re.M)
    assert [error for error in errors if error[0] == "right"] == [], done.stdout + done.stderr
    complained({int(line) for _, line, _ in errors}, WRONG)


@pytest.mark.long
def test_basedpyright_knows_right_from_wrong(tmp_path):
    pytest.importorskip("basedpyright")
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    said = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(said, cwd=tmp_path, capture_output=True, text=True)
    each = json.loads(done.stdout)["generalDiagnostics"]
    errors = [error for error in each if error["severity"] == "error"]
    right = [error for error in errors if error["file"].endswith("right.py")]
    assert right == []
    complained({error["range"]["start"]["line"] + 1 for error in errors}, WRONG)


@pytest.mark.parametrize(
    ("verb", "options", "given"),
    [
        ("serve", ServeOptions, {"drive", "set", "tcp", "vfio_user", "until_closed", "json"}),
        ("bench", BenchOptions, {"json", "quiet"}),
    ],
)
def test_keywords_are_the_commands_options(verb, options, given):
    said = command(verb, "--help")
    names = {name.replace("-", "_") for name in re.findall(r"^ +(?:-\w, )?--([\w-]+)", said, re.M)}
    assert names - {"help"} - given == set(get_type_hints(options))


TRACE = {"trace": "a.trace"}
WRITES = {"rw": "randwrite", "number_ios": 1}
NEEDS = {
    "dataplacement": WRITES,
    ("dataplacement", "streams"): {**WRITES, "plids": 1},
    "front": {"kv": "update=50,retrieve=50", "keys": 1000, "number_ios": 1},
    "plid_select": {**WRITES, "fdp": True},
    ("plid_select", "scheme"): {**WRITES, "fdp": True, "dp_scheme": "scheme"},
    ("plid_select", "size"): {**WRITES, "fdp": True, "dp_scheme": "scheme"},
    "rate_process": {"rate_iops": 100, "number_ios": 1},
    "sequential_positions": {"rw": "rw", "number_ios": 1},
    "trace_action": {**TRACE, "trace_format": "blkparse"},
    "trace_format": TRACE,
    "trace_remap": TRACE,
    "trace_time_unit": TRACE,
}


def test_words_are_all_that_there_are(tmp_path, monkeypatch):
    """A literal's words are taken, and nothing else is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scheme").write_text("0,1048576,0\n")
    seen = 0
    for name, kind in get_type_hints(FlowOptions).items():
        words = [word for each in get_args(kind) if get_origin(each) is Literal for word in get_args(each)]
        # Any drive has one port; that there are two is said of a drive that has them.
        drive = "samsung-ethernet" if name == "port" else "mqsim"
        placement = {"placement.handles": 2} if name in ("dataplacement", "plid_select") else {}
        needs = NEEDS.get(name, {"number_ios": 1})
        for word in words:
            given = {**NEEDS.get((name, word), needs), name: word}
            mynah.Simulation(drive, mynah.Flow("a", **given), set=placement)
            seen += 1
        if words:
            with pytest.raises(mynah.UsageError, match=name):
                mynah.Simulation(drive, mynah.Flow("a", **{**needs, name: "nothing"}))
    assert seen > 30
