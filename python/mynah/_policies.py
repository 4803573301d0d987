"""Policies of one's own, in a drive's place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from mynah._errors import UsageError

if TYPE_CHECKING:
    from mynah import _native

Victims = Callable[["_native.Blocks"], "int | None"]
Placement = Callable[["_native.Planes"], "int | Iterable[int]"]


class Policies:
    """What decides in a drive's stead: which block is collected, where a write goes, or both.

    `victims` is given the `Blocks` of a plane that may be collected, and returns the number of one,
    or None for none now. `ages` says what their age counts from, in pages that the drive has
    programmed: when a block was `filled`, or when it was `changed`, a unit of it invalidated. Without
    it all are 0. `placement` is given the `Planes` that a write may go to, and returns the place of
    one among them, or a list: those of as many pages, after which it is asked again.

    Results name them, with a hash of their source or of `text`.
    """

    def __init__(
        self,
        name: str,
        *,
        victims: Victims | None = None,
        ages: Literal["filled", "changed"] | None = None,
        placement: Placement | None = None,
        text: str | None = None,
    ) -> None:
        if victims is None and placement is None:
            raise UsageError("Policies: neither victims nor placement is given")
        if ages is not None and (victims is None or ages not in ("filled", "changed")):
            raise UsageError(f"ages={ages!r}: 'filled' or 'changed', of victims")
        calls = [call for call in (victims, placement) if call is not None]
        if text is None:
            text = "".join(map(_source, calls)) + f" {ages}"
        self._said: _native._Policies = {
            "name": name,
            "text": text,
            "victims": victims,
            "ages": ages,
            "placement": placement,
        }


def _source(call: object) -> str:
    of = call if inspect.isroutine(call) else type(call)
    try:
        return inspect.getsource(of)
    except (OSError, TypeError):
        raise UsageError(
            "text: results know policies by their source, and here there is none: give a version"
        ) from None
