"""Values as the texts that experiment files and the command have."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal

from mynah._errors import UsageError

Size = str | int
"""Bytes, or text such as `"16k"`."""
Share = str | float
"""Percent, or text such as `"10%"`; of some options bytes."""
Time = str | float | timedelta
"""Seconds, text such as `"200ms"`, or a `timedelta`."""
Place = str | os.PathLike[str]
"""The path of a file or a folder."""

Words = list[tuple[str, str]]


def text(name: str, value: object) -> str:
    """The text of an option's value."""
    if isinstance(value, str):
        return _encodable(name, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _whole(name, value)
    if isinstance(value, float):
        return _decimal(name, value)
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    if isinstance(value, os.PathLike):
        path: object = os.fspath(value)
        return _encodable(name, path if isinstance(path, str) else os.fsdecode(value))
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        if all(isinstance(item, int) for item in value):
            return ",".join(_whole(name, item) for item in value)
    # numpy's numbers.
    number = _of_numpy(value)
    if number is not None:
        return text(name, number)
    wanted = "text, a number, a timedelta, a path or a list of whole numbers"
    raise UsageError(f"{name}={shown(value)}: {wanted} belongs here, not a {type(value).__name__}")


def shown(value: object) -> str:
    """A value in a message."""
    if isinstance(value, int) and not -_MOST < value < _MOST:
        return f"(a number of {value.bit_length()} bits)"
    try:
        said = repr(value)
    except ValueError:
        # It has such a number in it.
        return f"a {type(value).__name__}"
    return said if len(said) <= 100 else f"{said[:100]}…"


_MOST = 1 << 128
"""No whole number that is an option is as large: the largest are of 64 bits."""


def _whole(name: str, value: int) -> str:
    number = int(value)
    if -_MOST < number < _MOST:
        return str(number)
    raise UsageError(f"{name}={shown(number)}: whole numbers here have at most 64 bits")


def _encodable(name: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name}={value!r}: this is no text: {error.reason}") from None
    return value


def _of_numpy(value: object) -> int | float | None:
    """The number that one of numpy's is; None of what is no number."""
    item = getattr(value, "item", None)
    if not callable(item) or getattr(value, "ndim", None) != 0:
        return None
    number = item()
    return number if isinstance(number, (int, float)) else None


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
        raise UsageError(f"set={shown(changes)}: a dict belongs here, as in {{'flash.read': '75us'}}")
    made: list[str] = []
    for key, value in changes.items():
        if not isinstance(key, str):
            raise UsageError(f"set: {shown(key)} is no key of a drive; keys are texts")
        place = f"set[{prefix + key!r}]"
        key = _encodable("set", key)
        if isinstance(value, Mapping):
            made.extend(assignments(value, f"{prefix}{key}."))
        elif isinstance(value, (list, tuple)):
            made.append(f"{prefix}{key}={_list(place, value)}")
        else:
            made.append(f"{prefix}{key}={text(place, value)}")
    return made


def _list(place: str, values: Sequence[object]) -> str:
    """A list as drive files have it."""
    made: list[str] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            made.append(_list(place, value))
        elif isinstance(value, (str, timedelta)):
            made.append(json.dumps(text(place, value), ensure_ascii=False))
        else:
            made.append(text(place, value))
    return f"[{', '.join(made)}]"


def several(name: str, given: str | Iterable[str]) -> tuple[str, ...]:
    """One text, or some."""
    if isinstance(given, str):
        return (given,)
    all_of_them = tuple(given)
    for item in all_of_them:
        if not isinstance(item, str):
            raise UsageError(f"{name}={shown(item)}: a text belongs here")
    return all_of_them


def arguments(options: Mapping[str, object]) -> str:
    """Options as Python writes them."""
    return ", ".join(f"{name}={value!r}" for name, value in options.items())
