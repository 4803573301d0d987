"""Simulations."""

from __future__ import annotations

import os
import shlex
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypedDict

from mynah import _native
from mynah._drive import Drive
from mynah._errors import RunError, Unfit, Untrusted, UsageError
from mynah._flow import Flow
from mynah._options import Precondition
from mynah._result import Result
from mynah._words import (
    Place,
    Set,
    Share,
    Time,
    Words,
    arguments,
    assignments,
    several,
    shown,
    words,
)

if TYPE_CHECKING:
    from typing import Unpack

    from mynah._policies import Policies
    from mynah._sweep import Axes, Sweep
    from mynah._table import Table

_Path = Place


class Settings(TypedDict, total=False):
    """What a run as a whole has, named as in experiment files and as the options of `mynah sim`."""

    seed: int | None
    """Seeds the drive and the workloads; 1 if not given."""
    precondition: Precondition | None
    """The state the drive starts in: `none`, `fill`, `steady` or `steady:random`."""
    settle: Time | None
    """How long it runs unmeasured then: `auto`, `off` or a time."""
    ramp_time: Time | None
    """Simulated time before results are taken."""
    precision: Share | None
    """How precisely figures are to be known where the runtime is `auto`."""
    until_steady: Time | bool | None
    """Ends the run when it is steady by SNIA's rule, in rounds of this length."""
    load_state: Place | None
    """A file with a saved state to start from."""
    alone: bool | None
    """Whether each flow also runs by itself, for slowdown and fairness."""
    require_steady: bool | None
    """Whether a result of a drive that is not at rest is not to be trusted."""
    drives: int | None
    """So many drives behind a switch."""
    uplink: str | None
    """What the switch carries to hosts, each way, as in `400Gbit/s`."""
    latency: Time | None
    """What the switch takes, each way."""


class Simulation:
    """A drive, the flows in front of it, and how they are run.

    It is a value: it does not change, is equal to one that says the same, and can be pickled
    whole. The drive's text goes with it; traces go by path and digest.
    """

    __slots__ = ("_digests", "_drive", "_flows", "_made", "_settings", "point")
    _digests: tuple[tuple[str, str], ...]
    _drive: Drive
    _flows: tuple[Flow, ...]
    _made: _native.Simulation | None
    _settings: tuple[tuple[str, str], ...]
    point: Mapping[str, str]
    """Of a sweep: what was varied, and its value here."""

    def __init__(
        self,
        drive: _Path | Drive,
        flows: Flow | Iterable[Flow] = (),
        *,
        set: Set | None = None,
        fault: str | Iterable[str] = (),
        **settings: Unpack[Settings],
    ) -> None:
        if not isinstance(drive, Drive):
            drive = Drive(drive, set, fault=fault)
        elif set is not None or fault:
            drive = drive.replace(set, fault=fault)
        said: dict[str, object] = {**settings}
        state = said.get("load_state")
        if isinstance(state, (str, os.PathLike)):
            said["load_state"] = os.path.abspath(state)
        self._fill(drive, _flows(flows), tuple(words(said)))

    def _fill(
        self,
        drive: Drive,
        flows: tuple[Flow, ...],
        settings: tuple[tuple[str, str], ...],
        point: Mapping[str, str] | None = None,
    ) -> None:
        made = None
        said = dict(point or {})
        if flows:
            each = [list(flow.options.items()) for flow in flows]
            made = _native.Simulation(drive._made, each, list(settings), list(said.items()))
            canonical = made.words()[1]
            # The default seed is another than none: drives have seeds of their own.
            seeds = [word for word in settings if word[0] == "seed"]
            if seeds and not any(name == "seed" for name, _ in canonical):
                canonical = [("seed", "1"), *canonical]
            settings = tuple(canonical)
        else:
            # Without flows nothing runs, but names and values are checked.
            idle = [("rw", "read")]
            _native.Simulation(drive._made, [idle], list(settings), [])
        put = object.__setattr__
        put(self, "_drive", drive)
        put(self, "_flows", flows)
        put(self, "_settings", settings)
        put(self, "_made", made)
        put(self, "_digests", ())
        put(self, "point", MappingProxyType(said))

    @classmethod
    def _of(
        cls,
        drive: Drive,
        flows: Iterable[Flow],
        settings: Iterable[tuple[str, str]],
        digests: Iterable[tuple[str, str]] = (),
        point: Mapping[str, str] | None = None,
    ) -> Simulation:
        simulation = cls.__new__(cls)
        simulation._fill(drive, tuple(flows), tuple(settings), point)
        object.__setattr__(simulation, "_digests", tuple(digests))
        return simulation

    def _at(self, point: Mapping[str, str]) -> Simulation:
        """The same as a point of a sweep."""
        return Simulation._of(self._drive, self._flows, self._settings, self._digests, point)

    def _saying(
        self,
    ) -> tuple[tuple[str, str, list[str], list[str]], list[Words], Words]:
        """It in words: the drive (its name, text, changes and faults), flows and settings."""
        source, text, changes, faults = self._drive._given
        flows = [list(flow.options.items()) for flow in self._flows]
        drive = (source, text or "", list(changes), list(faults))
        return drive, flows, list(self._settings)

    @property
    def drive(self) -> Drive:
        """The drive, with what is changed about it."""
        return self._drive

    @property
    def flows(self) -> tuple[Flow, ...]:
        """The flows."""
        return self._flows

    @property
    def settings(self) -> Mapping[str, str]:
        """What the run as a whole has; what is at its default is left out."""
        return MappingProxyType(dict(self._settings))

    def replace(
        self,
        *,
        drive: _Path | Drive | None = None,
        flows: Flow | Iterable[Flow] | None = None,
        set: Set | None = None,
        fault: str | Iterable[str] = (),
        **settings: Unpack[Settings],
    ) -> Simulation:
        """The same simulation with another drive, other flows or settings.

        `set` and `fault` add to the drive's; a setting that is None is taken back.
        """
        base = self._drive if drive is None else drive
        base = base if isinstance(base, Drive) else Drive(base)
        if assignments(set) or several("fault", fault):
            base = base.replace(set, fault=fault)
        kept = dict(self._settings)
        merged: dict[str, object] = {**kept, **settings}
        return Simulation._of(
            base, self._flows if flows is None else _flows(flows), words(merged)
        )

    def _ready(self) -> _native.Simulation:
        if self._made is None:
            raise UsageError("flows=[]: there are no flows, so nothing would be done")
        _check_traces(self._digests)
        return self._made

    def describe(self) -> str:
        """What would be run: the drive, the flows, and what preconditioning assumes."""
        return self._ready().describe()

    def run(
        self,
        *,
        alone: bool | None = None,
        check: bool = False,
        requests: bool = False,
        report: _Path | None = None,
        request_log: _Path | None = None,
        intervals: _Path | None = None,
        interval: Time | None = None,
        timeline: _Path | None = None,
        timeline_window: str | None = None,
        profile: _Path | None = None,
        record: _Path | None = None,
        pcap: _Path | None = None,
        save_state: _Path | None = None,
        policies: Policies | None = None,
    ) -> Result:
        """Runs it.

        With `requests`, the result has them all as a table, `result.tables.requests`; with an
        `interval` and no file for `intervals`, those as `result.tables.intervals`.
        Other threads go on meanwhile. Ctrl-C raises `Interrupted`, with what was measured. A
        result that is not to be trusted is a warning, or, with `check`, a `RunError`. The files
        are those of the command's options. `policies` decide in the drive's stead.
        """
        if alone is not None:
            return self.replace(alone=alone)._keeping(self).run(
                check=check,
                requests=requests,
                report=report,
                request_log=request_log,
                intervals=intervals,
                interval=interval,
                timeline=timeline,
                timeline_window=timeline_window,
                profile=profile,
                record=record,
                pcap=pcap,
                save_state=save_state,
                policies=policies,
            )
        if timeline_window is not None and timeline is None:
            raise UsageError("timeline_window: without timeline this has no effect")
        with tempfile.TemporaryDirectory(prefix="mynah-") as folder:
            table = None
            if interval is not None and intervals is None:
                intervals = table = os.path.join(folder, "intervals.csv")
            measured = _native.run(
                self._ready(),
                _command(),
                {
                    "request_log": _path(request_log),
                    "profile": _path(profile),
                    "record": _path(record),
                    "pcap": _path(pcap),
                    "save_state": _path(save_state),
                    "report": _path(report),
                    "intervals": _path(intervals),
                    "interval": words({"interval": interval})[0][1] if interval is not None else None,
                    "timeline": _path(timeline),
                    "timeline_window": timeline_window,
                },
                requests,
                policies._said if policies is not None else None,
            )
            of_intervals = None
            if table is not None:
                of_intervals = _native.intervals(Path(table).read_text(encoding="utf-8"))
        result = Result._measured(measured, of_intervals)
        if result.untrusted is not None:
            if check:
                error = RunError(f"not trustworthy: {result.untrusted}")
                error.add_note("check=False warns instead, and gives the result")
                raise error
            warnings.warn(Untrusted(f"not trustworthy: {result.untrusted}"), stacklevel=2)
        return result

    def _keeping(self, other: Simulation) -> Simulation:
        """The same, at the point and with the traces of another."""
        return Simulation._of(
            self._drive, self._flows, self._settings, other._digests, other.point
        )

    def stream(self) -> Stream:
        """Runs it, and gives its requests as tables while it runs, a batch at a time.

        The run waits when it is four batches ahead. When all were taken, `result` has the result.
        """
        return Stream(_native.Stream(self._ready(), _command()))

    def sweep(self, axes: Axes, repeat: int = 1) -> Sweep:
        """A run for every combination of some values, as a `[sweep]` of an experiment file.

        `axes` has the keys of that: `flow.NAME.OPTION`, `set.KEY`, `seed` and so on, and the values
        of each; keys that change together are a tuple, and so are their values.
        """
        from mynah._sweep import sweep_of

        return sweep_of(self, axes, repeat)

    def write(self, path: _Path) -> tuple[Path, Path]:
        """Writes it as an experiment file, with a drive file `…-drive.toml` beside it.

        Returns both paths; `mynah sim` runs the first.
        """
        experiment = Path(path)
        drive = experiment.with_name(f"{experiment.stem}-drive.toml")
        texts = self._ready().files(drive, experiment)
        for place, text in zip((drive, experiment), texts, strict=True):
            place.write_text(text, encoding="utf-8")
        return experiment, drive

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Simulation does not change; replace() makes another")

    def _key(self) -> tuple[object, ...]:
        if self._made is None:
            return (self._drive, (), self._settings)
        flows, _ = self._made.words()
        return (
            self._drive,
            tuple(tuple(flow) for flow in flows),
            tuple(flow.options.get(name) for flow in self._flows for name in _RESOURCES),
            self._settings,
        )

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Simulation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        rest = arguments(dict(self._settings))
        return f"Simulation({self._drive!r}, flows={list(self._flows)!r}{', ' * bool(rest)}{rest})"

    def __reduce__(self) -> tuple[object, ...]:
        traces = self._made.traces() if self._made is not None else []
        digests = self._digests or tuple((str(path), _digest(path)) for path in traces)
        point = dict(self.point)
        return (Simulation._of, (self._drive, self._flows, self._settings, digests, point))


class Stream:
    """The requests of a run, as tables, while it goes on."""

    def __init__(self, made: _native.Stream) -> None:
        self._made = made
        self._result: Result | None = None

    @property
    def result(self) -> Result:
        """What was measured, when all requests were taken."""
        if self._result is None:
            raise UsageError("result: the run goes on until its requests have been taken")
        return self._result

    def close(self) -> None:
        """Ends the run."""
        self._made.close()

    def __iter__(self) -> Iterator[Table]:
        return self

    def __next__(self) -> Table:
        from mynah._table import Table

        batch, measured = self._made.next()
        if batch is not None:
            return Table(batch)
        if measured is not None:
            self._result = Result._measured(measured)
        raise StopIteration

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_RESOURCES = ("channels", "chips", "dies", "planes")


def _flows(flows: Flow | Iterable[Flow]) -> tuple[Flow, ...]:
    if isinstance(flows, Flow):
        return (flows,)
    all_of_them = tuple(flows)
    for flow in all_of_them:
        if not isinstance(flow, Flow):
            raise UsageError(f"flows: {shown(flow)} is a {type(flow).__name__}, not a mynah.Flow")
    return all_of_them


def _path(path: _Path | None) -> Path | None:
    return None if path is None else Path(path)


def _command() -> str:
    """What a result says of who ran it. Arguments may hold what is nobody's business."""
    return shlex.join(["python", *sys.argv[:1]])


def _digest(path: Path) -> str:
    return _native.digest(path)


def _check_traces(digests: Iterable[tuple[str, str]]) -> None:
    """Whether a simulation from elsewhere finds its traces here."""
    for path, digest in digests:
        where = f"on {socket.gethostname()}"
        if not os.path.exists(path):
            raise Unfit(f"the trace {path} is missing {where}; copy it there, or run where it is")
        if _digest(Path(path)) != digest:
            raise Unfit(f"the trace {path} {where} is another than the simulation was made for")


def _of_saying(said: _native._Saying, base: Simulation) -> Simulation:
    """A point of a sweep of `base`."""
    (source, text, changes, faults), flows, settings, point = said
    drive = Drive._of(source, text, changes, faults)
    made = [Flow._of(flow) for flow in flows]
    return Simulation._of(drive, made, settings, base._digests, dict(point))


def _in_words(said: tuple[str, str | None, list[str], list[Words], Words]) -> Simulation:
    source, text, changes, flows, settings = said
    drive = Drive._of(source, text, changes, ())
    return Simulation._of(drive, [Flow._of(flow) for flow in flows], settings)


def load(path: _Path) -> Simulation:
    """The simulation that an experiment file describes."""
    said = _native.load_experiment(Path(path))
    if len(said) != 1 or said[0][1]:
        raise UsageError(f"{path}: this is a sweep of {len(said)} points; load_points() has them")
    return _in_words(said[0][0])


def load_points(path: _Path) -> list[Simulation]:
    """The simulations of an experiment file, one for each point of its sweep."""
    made = []
    for said, point in _native.load_experiment(Path(path)):
        made.append(_in_words(said)._at(dict(point)))
    return made


def load_fio(path: _Path, drive: _Path | Drive = "enterprise-tlc") -> Simulation:
    """The flows of a fio job file, in front of a drive. What has no effect there is a warning."""
    drive = drive if isinstance(drive, Drive) else Drive(drive)
    flows, settings, remarks = _native.load_fio(drive._made, Path(path))
    for remark in remarks:
        warnings.warn(remark, stacklevel=2)
    return Simulation._of(drive, [Flow._of(flow) for flow in flows], settings)


def load_mqsim(config: _Path, workload: _Path) -> list[Simulation]:
    """The scenarios of a pair of MQSim's XML files. What has no effect is a warning."""
    said, remarks = _native.load_mqsim(Path(config), Path(workload))
    for remark in remarks:
        warnings.warn(remark, stacklevel=2)
    return [_in_words(each) for each in said]
