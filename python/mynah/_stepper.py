"""A drive, request by request."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from mynah import _native
from mynah._drive import Drive
from mynah._errors import UsageError
from mynah._table import Table

OPS = ("read", "write", "write_through", "trim", "flush")
"""The operations, by their numbers in buffers."""


class Stepper(_native.Stepper):
    """A drive and a host that does what it is told, for closed loops of your own.

    Time moves only in `step`, `step_table` and `advance`. `flows` are the names of the flows, each
    with a queue of its own, or a mapping from names to priorities (`urgent`, `high`, `medium`,
    `low`). The drive starts `empty`, `steady` (as uniform random writes leave it), or in the state
    that `mynah sim --save-state` or `run(save_state=…)` saved: its path, or its bytes. One thread
    at a time may use it.
    """

    def __new__(
        cls,
        drive: str | os.PathLike[str] | Drive,
        flows: Iterable[str] | Mapping[str, str] = ("host",),
        *,
        state: str | os.PathLike[str] | bytes = "empty",
        set: Mapping[str, object] | None = None,
    ) -> Stepper:
        if not isinstance(drive, Drive):
            drive = Drive(drive, set)
        elif set is not None:
            drive = drive.replace(set)
        if isinstance(flows, str):
            flows = (flows,)
        named = dict(flows) if isinstance(flows, Mapping) else {name: "high" for name in flows}
        queues = list(named.items())
        if not isinstance(flows, Mapping) and not queues:
            raise UsageError("flows=[]: there are no flows, so nothing could be asked")
        saved = None
        if isinstance(state, bytes):
            saved = state
        elif state not in ("empty", "steady"):
            try:
                saved = Path(state).read_bytes()
            except OSError as error:
                raise UsageError(
                    f"state={os.fspath(state)!r}: neither empty, steady nor a saved state: {error}"
                ) from error
        word = state if isinstance(state, str) else ""
        return super().__new__(cls, drive._made, queues, word, saved)

    def submit_table(
        self,
        op: object,
        offset: object,
        size: object = 4096,
        *,
        flow: str | None = None,
        namespace: int = 1,
    ) -> range:
        """Submits many requests now, in order; their tags.

        `op` is a name, or a buffer of numbers in `OPS`; `offset` and `size` are one number for all
        or a buffer of them, such as an array.
        """
        first, count = self.submit_many(op, offset, size, flow, namespace)
        return range(first, first + count)

    def step_table(self, count: int | None = None) -> Table:
        """Runs until `count` requests have completed, or all of them; those, as a table.

        Its columns are those of the request log; `id` is the tag.
        """
        return Table(self.step_many(count))

    def __reduce__(self) -> tuple[object, ...]:
        raise UsageError("a Stepper is a drive at work, and cannot be pickled; save and start anew")
