"""Values as the texts that experiment files and the command have."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal

from mynah._errors import UsageError

Value = str | int | float | bool | timedelta | os.PathLike[str] | Sequence[int] | None
"""What options take: text as the command has it, numbers, times; None is not given."""

Words = list[tuple[str, str]]


def text(name: str, value: object) -> str:
    """The text of an option's value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _decimal(name, value)
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, Sequence) and all(isinstance(item, int) for item in value):
        return ",".join(str(int(item)) for item in value)
    # numpy's numbers.
    item = getattr(value, "item", None)
    if callable(item):
        return text(name, item())
    wanted = "text, a number, a timedelta, a path or a list of whole numbers"
    raise UsageError(f"{name}={value!r}: {wanted} belongs here, not a {type(value).__name__}")


def _decimal(name: str, value: float) -> str:
    number = Decimal(repr(float(value)))
    if not number.is_finite():
        raise UsageError(f"{name}={value!r}: this is no number that can be used")
    return format(number, "f")


def words(options: Mapping[str, object]) -> Words:
    """Options as words; those that are None are left out."""
    return [(name, text(name, value)) for name, value in options.items() if value is not None]


Set = Mapping[str, object]
"""Changes to a drive by dotted key, as in `set={"flash.read": "75us"}`."""


def assignments(changes: Set | None, prefix: str = "") -> list[str]:
    """Changes to a drive, `KEY=VALUE` each."""
    if changes is None:
        return []
    if not isinstance(changes, Mapping):
        raise UsageError(f"set={changes!r}: a dict belongs here, as in {{'flash.read': '75us'}}")
    made: list[str] = []
    for key, value in changes.items():
        if isinstance(value, Mapping):
            made.extend(assignments(value, f"{prefix}{key}."))
        elif isinstance(value, (list, tuple)):
            made.append(f"{prefix}{key}={json.dumps(value)}")
        else:
            made.append(f"{prefix}{key}={text(f'set[{key!r}]', value)}")
    return made


def several(name: str, given: str | Iterable[str]) -> tuple[str, ...]:
    """One text, or some."""
    if isinstance(given, str):
        return (given,)
    all_of_them = tuple(given)
    for item in all_of_them:
        if not isinstance(item, str):
            raise UsageError(f"{name}={item!r}: a text belongs here")
    return all_of_them


def arguments(options: Mapping[str, object]) -> str:
    """Options as Python writes them."""
    return ", ".join(f"{name}={value!r}" for name, value in options.items())
