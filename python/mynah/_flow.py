"""Flows."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from mynah import _native
from mynah._options import FlowOptions
from mynah._words import arguments, words

if TYPE_CHECKING:
    from typing import Unpack


class Flow:
    """What one tenant does to a drive, by the names and with the values of fio and the command.

    A flow is a value: it does not change, is equal to one that says the same, and can be
    pickled. One that does not say its end ends when its figures are known (`runtime="auto"`).
    """

    __slots__ = ("_options",)
    _options: tuple[tuple[str, str], ...]

    def __init__(self, name: str | None = None, **options: Unpack[FlowOptions]) -> None:
        given: dict[str, object] = {"name": name, **options}
        trace = given.get("trace")
        if isinstance(trace, (str, os.PathLike)) and trace != "-":
            given["trace"] = os.path.abspath(trace)
        object.__setattr__(self, "_options", tuple(_native.flow(words(given))))

    @classmethod
    def _of(cls, options: Iterable[tuple[str, str]]) -> Flow:
        """The flow that says this in words."""
        return cls(**dict(options))  # type: ignore[arg-type]

    @property
    def name(self) -> str | None:
        """What results call the flow; without a name it is `flow-1` and so on."""
        return dict(self._options).get("name")

    @property
    def options(self) -> Mapping[str, str]:
        """What it says, as experiment files write it; what is at its default is left out."""
        return MappingProxyType(dict(self._options))

    def replace(self, **options: Unpack[FlowOptions]) -> Flow:
        """The same flow with other options; those that are None are taken back."""
        merged: dict[str, object] = {**dict(self._options), **options}
        return Flow(**merged)  # type: ignore[arg-type]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Flow does not change; replace() makes another")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Flow does not change; replace() makes another")

    def __eq__(self, other: object) -> bool:
        return self._options == other._options if isinstance(other, Flow) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._options)

    def __repr__(self) -> str:
        return f"Flow({arguments(dict(self._options))})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Flow._of, (self._options,))


_PARAMETERS = [
    inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=None)
    for option in FlowOptions.__annotations__
]
Flow.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)] + _PARAMETERS
)
