"""Sweeps: many runs, kept in a ledger, done by whatever there is."""

from __future__ import annotations

import json
import os
import pickle
import shlex
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from mynah import _native
from mynah._engines import Engine, Lost, engine
from mynah._errors import Interrupted, RunError, Unfit, UsageError
from mynah._result import Result
from mynah._simulation import Simulation, _command, _of_saying
from mynah._table import Table
from mynah._words import shown, text
from mynah._work import Call, Outcome, Task

if TYPE_CHECKING:
    import polars

Axes = Mapping[str | tuple[str, ...], Iterable[object]]
"""What is varied, by the keys of `[sweep]`; of several keys that change together, tuples."""

TRIES = 3
"""How often a run is tried that was lost with its worker."""
PATIENCE_S = 30.0
"""How long nothing may come back until it is asked why."""


class Sweep:
    """Every run of some points: what `simulation.sweep({...})` makes, or of a list of simulations.

    It has the keys, the order, the checks, the repeats and the table of `[sweep]`; as a sequence it
    is its runs.
    """

    __slots__ = ("_base", "_made", "_points", "_repeat")

    def __init__(
        self,
        points: Iterable[Simulation],
        repeat: int = 1,
        _base: tuple[Simulation, _native._Axes] | None = None,
    ) -> None:
        all_of_them = list(points)
        for point in all_of_them:
            if not isinstance(point, Simulation):
                kind = type(point).__name__
                raise UsageError(f"points: {shown(point)} is a {kind}, not a mynah.Simulation")
        if not all_of_them:
            raise UsageError("points=[]: there are none, so nothing would be done")
        if type(repeat) is not int or not 1 <= repeat <= 10_000:
            raise UsageError(f"repeat={shown(repeat)}: it is a whole number from 1 to 10000")
        if len(all_of_them) > 1 and not any(point.point for point in all_of_them):
            all_of_them = [
                point._at({"simulation": str(number)})
                for number, point in enumerate(all_of_them, 1)
            ]
        self._points = all_of_them
        self._repeat = repeat
        self._base = _base
        self._made = _native.Sweep([point._ready() for point in all_of_them], repeat)

    @classmethod
    def load(cls, path: str | os.PathLike[str], repeat: int = 1) -> Sweep:
        """The sweep of an experiment file."""
        from mynah._simulation import load_points

        return cls(load_points(path), repeat)

    @property
    def axes(self) -> list[str]:
        """What varies."""
        return self._made.axes()

    @property
    def repeat(self) -> int:
        """How often each point runs, with seeds that follow one another."""
        return self._repeat

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, run: int) -> Simulation:
        if not -len(self) <= run < len(self):
            raise IndexError(f"there are {len(self)} runs")
        run %= len(self)
        point = self._points[run // self._repeat]
        if self._repeat == 1:
            return point
        seed = self._made.point(run)[1]
        return point.replace(seed=seed)._keeping(point)

    def __iter__(self) -> Iterator[Simulation]:
        return (self[run] for run in range(len(self)))

    def __repr__(self) -> str:
        return f"<Sweep of {self._made.title()}>"

    def files(self) -> list[tuple[str, str]]:
        """It as the texts of an experiment file and its drive's; empty if they cannot say it."""
        if self._base is None:
            return []
        base, axes = self._base
        drive, flows, settings = base._saying()
        name = drive[0] if drive[0] in _native.shipped() else "drive.toml"
        how = ["mynah", "sim", "experiment.toml", "--resume", "."]
        how += ["--repeat", str(self._repeat)] * (self._repeat > 1)
        unsaid = [f"--fault {fault}" for fault in drive[3]]
        flags = {"alone": "--alone", "require_steady": "--require-steady"}
        unsaid += [flags[key] for key in flags if base.settings.get(key) == "true"]
        valued = {"until_steady": "--until-steady", "load_state": "--load-state"}
        unsaid += [f"{valued[key]}={base.settings[key]}" for key in valued if key in base.settings]
        remark = f"# {shlex.join(how + unsaid)}\n"
        made = [("experiment.toml", remark + _native.sweep_text(drive, flows, settings, axes, name))]
        if name == "drive.toml":
            made.append((name, drive[1]))
        return made

    def run(
        self,
        folder: str | os.PathLike[str] | None = None,
        on: object = None,
        *,
        retry_failed: bool = False,
        call: Call | None = None,
        version: str | None = None,
        quiet: bool = False,
    ) -> SweepResult:
        """Does the runs that the ledger in `folder` does not have; what all of them come to.

        `on` says where: a number of threads (without it, one for each processor), an executor of
        `concurrent.futures`, a Dask client, or `ray`. With `call`, that is called with each
        simulation in place of `run`; the dict that it returns is kept, by its name and `version`.
        Stopped in any way, the same call goes on where it was. What has failed is not tried again,
        unless with `retry_failed`.
        """
        what = _what(call, version)
        keys = self._made.keys()
        if what is not None:
            keys = [_native.value_key(key, what) for key in keys]
        ledger = None
        if folder is not None:
            files = self.files()
            ledger = self._made.ledger(Path(folder), _us(), files, keys)
        try:
            return _Driver(self, ledger, keys, call, retry_failed, quiet).run(on, folder)
        finally:
            if ledger is not None:
                ledger.close()


def _us() -> str:
    return shlex.join(["python", *sys.argv[:1]])


def _what(call: Call | None, version: str | None) -> str | None:
    if call is None:
        if version is not None:
            raise UsageError("version: without call this has no effect")
        return None
    name = getattr(call, "__qualname__", None)
    if name is None or "<lambda>" in name:
        raise UsageError(f"call={shown(call)}: a function with a name belongs here: it is kept by that")
    if not isinstance(version, str):
        raise UsageError("call: give it a version, as in version='1': what it makes is kept by that")
    return f"{call.__module__}.{name} {version}"


class _Driver:
    """Does the runs of a sweep, and keeps them."""

    def __init__(
        self,
        sweep: Sweep,
        ledger: _native.Ledger | None,
        keys: list[str],
        call: Call | None,
        retry_failed: bool,
        quiet: bool,
    ) -> None:
        self.sweep = sweep
        self.ledger = ledger
        self.keys = keys
        self.run_keys = sweep._made.keys()
        self.call = call
        self.quiet = quiet
        self.command = _command()
        self.ends: list[Outcome | None] = [None] * len(sweep)
        if ledger is not None:
            for run, key in enumerate(keys):
                found = ledger.get(key)
                if found is not None and not (retry_failed and found[0] == "failed"):
                    self.ends[run] = found
        self.packed: dict[int, bytes] = {}

    def say(self, message: str) -> None:
        if not self.quiet:
            print(message, file=sys.stderr)

    def task(self, run: int) -> Task:
        packed = pickle.dumps(self.sweep[run])
        runs = self.sweep.repeat
        return (
            _native.__build__,
            self.run_keys[run],
            packed,
            runs,
            self.call,
            self.command,
        )

    def named(self, run: int) -> str:
        point, seed = self.sweep._made.point(run)
        varied = (f"{key} {value}" for key, value in point if key != "seed")
        return ", ".join([*varied, f"seed {seed}"])

    def run(self, on: object, folder: str | os.PathLike[str] | None) -> SweepResult:
        todo = [run for run, end in enumerate(self.ends) if end is None]
        try:
            if self.ledger is not None:
                self.say(f"{len(self.ends)} runs, {len(self.ends) - len(todo)} already done")
            if todo:
                self.start(engine(on, self.sweep, self.command, self.call), todo)
        except KeyboardInterrupt as signal:
            error = Interrupted()
            error.add_note(self.how_to_go_on(folder))
            raise error from signal
        except UsageError:
            raise
        except Exception as error:
            error.add_note(self.how_to_go_on(folder))
            raise
        return SweepResult(self.sweep, self.ends)

    def start(self, made: Engine, todo: list[int]) -> None:
        try:
            if made.local:
                self.sweep._made.check_memory(todo, min(made.slots(), len(todo)))
            self.drive(made, todo)
        finally:
            made.close()

    def how_to_go_on(self, folder: str | os.PathLike[str] | None) -> str:
        runs = len(self.ends)
        done = runs - self.ends.count(None)
        if folder is None:
            return f"{done} of {runs} runs were done; with a folder they would be kept"
        return f"{done} of {runs} runs are in {os.fspath(folder)}: the same call goes on from there"

    def drive(self, made: Engine, todo: list[int]) -> None:
        """Keeps the engine busy until every run is over. The ones that were lost with their workers
        are tried again at last, each with no other beside it: the one that kills its worker is known
        then, and takes none with it.
        """
        over: SimpleQueue[tuple[int, Callable[[], Outcome]]] = SimpleQueue()
        waiting, suspects = deque(todo), deque[int]()
        tries: dict[int, int] = {}
        pending: set[int] = set()

        def ended(run: int, outcome: Callable[[], Outcome]) -> None:
            over.put((run, outcome))

        while waiting or suspects or pending:
            alone = not waiting and bool(suspects) and not pending
            most = made.slots() if made.local else 2 * made.slots()
            while (waiting and len(pending) < most and not (pending & tries.keys())) or alone:
                run = suspects.popleft() if alone else waiting.popleft()
                pending.add(run)
                made.submit(run, lambda run=run: self.task(run), ended)  # type: ignore[misc]
                alone = False
            try:
                run, outcome = over.get(timeout=PATIENCE_S)
            except Empty:
                if (trouble := made.trouble()) is not None:
                    self.say(trouble)
                continue
            was_alone = run in tries
            pending.discard(run)
            try:
                end = outcome()
            except Lost as error:
                tries[run] = tries.get(run, 0) + error.workers
                if tries[run] < TRIES or not was_alone:
                    self.say(f"a worker is lost ({error}); its run is tried again: {self.named(run)}")
                    suspects.append(run)
                    continue
                end = ("failed", f"its worker died {tries[run]} times, in the end with no other run beside it")
                # Which says much of the run, but not for certain: it is not kept.
                self.ends[run] = end
                self.say(f"{self.named(run)}: {end[1]}")
                continue
            except Exception as error:
                raise self.unable(run, error) from error
            if end[0] == "refused":
                raise Unfit(f"{self.named(run)}: {end[1]}")
            self.keep(run, end)

    def unable(self, run: int, error: Exception) -> Exception:
        """What an engine's error becomes."""
        if isinstance(error, (RunError, Unfit)):
            return error
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("mynah"):
            version = _native.__version__
            return RunError(
                f"{self.named(run)}: a worker has no mynah, or another: {error}; install mynah-ssd "
                f"{version} there"
            )
        kind = f"{type(error).__module__}.{type(error).__name__}"
        return RunError(f"{self.named(run)}: the engine failed, and not the run: {kind}: {error}")

    def keep(self, run: int, end: Outcome) -> None:
        if self.ledger is not None:
            self.ledger.add(self.keys[run], end[0], end[1], self.sweep._made.point(run))
        self.ends[run] = end


class SweepResult(Sequence[Result]):
    """What a sweep found: a table for each point, and the results of those that are done."""

    __slots__ = ("_axes", "_collected", "_results", "values")
    values: list[dict[str, Any] | None]
    """With `call`, what it made of each run, in order; None of one that failed."""

    def __init__(self, sweep: Sweep, ends: list[Outcome | None]) -> None:
        self._axes = sweep.axes
        self.values = []
        if any(end is not None and end[0] == "value" for end in ends):
            self.values = [
                json.loads(end[1]) if end is not None and end[0] == "value" else None
                for end in ends
            ]
            ends = [None if end is None or end[0] == "value" else end for end in ends]
        self._collected = sweep._made.finish(ends)
        self._results: list[Result] | None = None

    def _all(self) -> list[Result]:
        if self._results is None:
            self._results = [Result._made(text, None) for text in self._collected.results()]
        return self._results

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]

    @property
    def failed(self) -> list[tuple[dict[str, str], int, str]]:
        """The runs that failed: the point, the seed and why."""
        each = self._collected.failed()
        return [(dict(point), seed, error) for point, seed, error in each]

    @property
    def table(self) -> Table:
        """A row for each point: means over its runs, and half their confidence intervals."""
        return Table(self._collected.table())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_polars(self) -> polars.DataFrame:
        """The table as a `polars.DataFrame`."""
        return self.table.to_polars()

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`."""
        return self.table.to_pandas()

    def json(self) -> str:
        """All results, as `mynah sim --json` writes them."""
        return self._collected.json()

    def csv(self) -> str:
        """The table, as `mynah sim --table` writes it."""
        return self._collected.csv()

    def html(self, title: str = "sweep") -> str:
        """The report, as `mynah sim --report` writes it."""
        return self._collected.html(title)

    def __str__(self) -> str:
        return self._collected.text()

    def __repr__(self) -> str:
        return f"<SweepResult: {len(self)} results, {len(self.failed)} failed>"


class Runs:
    """A ledger of any runs: what is in it is not run again."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._ledger = _native.Ledger(self._folder, _us())

    def run(self, simulation: Simulation, *, retry_failed: bool = False) -> Result:
        """The simulation's result: the one that is kept, or that of a run now."""
        made = simulation._ready()
        key = _native.run_key(made)
        found = self._ledger.get(key)
        if found is not None and not (retry_failed and found[0] == "failed"):
            kind, said = found
            if kind == "failed":
                raise RunError(f"{said} (it failed before; retry_failed=True runs it again)")
            return Result._made(said, None)
        try:
            result = simulation.run()
        except RunError as error:
            self._ledger.add(key, "failed", error.message, _point(simulation))
            raise
        self._ledger.add(key, "done", result.json(), _point(simulation))
        return result

    def __contains__(self, simulation: object) -> bool:
        if not isinstance(simulation, Simulation):
            return False
        return self._ledger.has_failed(_native.run_key(simulation._ready())) is not None

    def __len__(self) -> int:
        return len(self._ledger)

    def close(self) -> None:
        """Lets go of the folder."""
        self._ledger.close()

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Runs in {self._folder}>"


def _point(simulation: Simulation) -> tuple[list[tuple[str, str]], int]:
    return list(simulation.point.items()), int(simulation.settings.get("seed", "1"))


def sweep_of(base: Simulation, axes: Axes, repeat: int) -> Sweep:
    """The sweep of `base` over `axes`."""
    if not isinstance(axes, Mapping):
        raise UsageError(f"sweep: {shown(axes)}: a dict belongs here, as in {{'seed': [1, 2]}}")
    said: _native._Axes = []
    for key, values in axes.items():
        keys = [key] if isinstance(key, str) else list(key)
        name = ", ".join(keys)
        several = "," in name
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise UsageError(f"{name}: a list of values belongs here, not {shown(values)}")
        each: list[list[str]] = []
        for value in values:
            parts = list(value) if several and isinstance(value, (list, tuple)) else [value]
            each.append([text(name, part) for part in parts])
        said.append((name, each))
    drive, flows, settings = base._saying()
    points = [_of_saying(point, base) for point in _native.vary(drive, flows, settings, said)]
    return Sweep(points, repeat, (base, said))
