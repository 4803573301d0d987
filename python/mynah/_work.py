"""What is done on a worker, wherever that is."""

from __future__ import annotations

import json
import pickle
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mynah import _native
from mynah._errors import Error, Unfit

if TYPE_CHECKING:
    from mynah._simulation import Simulation

Call = Callable[["Simulation"], Mapping[str, Any]]

Outcome = tuple[str, str]
"""What became of a run: `done`, `failed`, `value` as a ledger has it, or `refused` by a worker."""

Task = tuple[str, str, bytes, int, Call | None, str]
"""The build, the run's key, the simulation, of how many runs it is one, what to call, by whom."""


def work(task: Task) -> Outcome:
    """Does a run. What goes wrong with the run is its outcome; errors are the engine's."""
    build, key, packed, runs, call, command = task
    here = f"on {socket.gethostname()}"
    if build != _native.__build__:
        return (
            "refused",
            f"{here} is Mynah {_native.__build__}, and this is {build}: install the same on both",
        )
    try:
        simulation: Simulation = pickle.loads(packed)
        made = simulation._ready().of_runs(runs)
        if _native.run_key(made) != key:
            return "refused", f"{here} this is another run than it was: a file that it reads differs"
        if call is not None:
            return "value", called(call, simulation)
        return "done", _native.run(made, command, NOTHING, False).json()
    except Unfit as error:
        return "refused", f"{here}: {error}"
    except Error as error:
        return "failed", error.message
    except CallError as error:
        return "failed", str(error)


class CallError(Exception):
    """What was called has failed."""


def called(call: Call, simulation: Simulation) -> str:
    """What `call` makes of a simulation, as JSON."""
    try:
        value = call(simulation)
    except Error:
        raise
    except Exception as error:
        raise CallError(f"{type(error).__name__}: {error}") from error
    if not isinstance(value, Mapping):
        raise CallError(f"call: a dict belongs here, not a {type(value).__name__}")
    try:
        return json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CallError(f"call: this is no plain data: {error}") from error


NOTHING: _native._Outputs = {
    "request_log": None,
    "profile": None,
    "record": None,
    "pcap": None,
    "save_state": None,
    "report": None,
    "intervals": None,
    "interval": None,
    "timeline": None,
    "timeline_window": None,
}
