"""What the tests share."""

from __future__ import annotations

import concurrent.futures.process  # noqa: F401
import json
import subprocess
from pathlib import Path

import pytest

from mynah import Flow, Simulation
from mynah._command import command

try:
    # Pytester forgets what is imported while it runs, and to import this twice breaks pickling.
    import distributed  # noqa: F401
except ModuleNotFoundError:
    pass

ROOT = Path(__file__).resolve().parents[2]


def mynah(*arguments: object, code: int | None = 0) -> str:
    """What the command writes."""
    said = [command(), *map(str, arguments)]
    done = subprocess.run(said, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert code is None or done.returncode == code, (said, done.returncode, done.stderr)
    return done.stdout


def without_run(text: str) -> str:
    """A result without what depends on the machine, otherwise as it is."""
    run = json.loads(text)["run"]
    start = text.index('  "run": {')
    assert start > 0 and json.loads("{" + text[start:].rstrip()[:-1] + "}") == {"run": run}
    return text[:start]


@pytest.fixture
def small() -> dict[str, object]:
    """Changes that make a drive small, so that runs take no time."""
    return {"geometry.blocks_per_plane": 64, "over_provisioning": "30%"}


@pytest.fixture
def base(small):
    flows = [
        Flow("a", rw="randread", number_ios=60, channels=[0, 1, 2, 3]),
        Flow("b", rw="randwrite", bs="8k", number_ios=30, channels=[4, 5, 6, 7]),
    ]
    return Simulation("mqsim", flows, set=small, settle="off", precondition="none")


def measured(document):
    """A document of results without what depends on the machine."""
    made = json.loads(document)
    for result in made["results"]:
        del result["run"]
    return made


def lines(folder):
    with open(folder / "runs.jsonl") as file:
        return file.readlines()[1:]


def each_once(folder, runs):
    keys = [json.loads(line)["key"] for line in lines(folder)]
    assert len(keys) == len(set(keys)) == runs


def cluster(workers=2):
    distributed = pytest.importorskip("distributed")
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None,
        silence_logs=50,
    )


def pytest_addoption(parser):
    parser.addoption("--rounds", type=int, default=0, help="how often tests of kills kill")


@pytest.fixture
def rounds(request):
    """How often a test kills: as it is told, or as often as it does by itself."""
    told = request.config.getoption("--rounds")
    return lambda otherwise: told or otherwise
