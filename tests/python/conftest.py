"""What the tests share."""

from __future__ import annotations

import concurrent.futures.process  # noqa: F401
import json
import subprocess
from pathlib import Path

import pytest

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
