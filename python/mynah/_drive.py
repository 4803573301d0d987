"""Drives."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from mynah import _native
from mynah._errors import UsageError
from mynah._words import Set, assignments, several, shown


class Setting(NamedTuple):
    """A setting of a drive."""

    value: str
    """Its value, as drive files have it."""
    origin: str
    """`file`, `set` or `default`."""
    source: str | None
    """Where the file has it from."""

    @property
    def is_estimate(self) -> bool:
        """Whether the file says that nobody has published it."""
        return self.source is not None and self.source.startswith("estimate")


class Drive(Mapping[str, Setting]):
    """A drive: a shipped one by name or a drive file, with what is changed about it.

    It is a value, with the file's text in it: what becomes of the file later does not matter.
    As a mapping it has every setting by its dotted key.
    """

    __slots__ = ("_given", "_made", "_settings", "_toml")
    _given: tuple[str, str | None, tuple[str, ...], tuple[str, ...]]
    _made: _native.Drive
    _settings: dict[str, Setting] | None
    _toml: str | None

    def __init__(
        self,
        source: str | os.PathLike[str],
        set: Set | None = None,
        *,
        fault: str | Iterable[str] = (),
    ) -> None:
        if not isinstance(source, (str, os.PathLike)):
            raise UsageError(f"drive={shown(source)}: a name, the path of a drive file or a Drive")
        changes = tuple(assignments(set))
        self._fill((os.fspath(source), None, changes, several("fault", fault)))

    def _fill(self, given: tuple[str, str | None, tuple[str, ...], tuple[str, ...]]) -> None:
        source, text, changes, faults = given
        made = _native.Drive(source, text, list(changes), list(faults))
        put = object.__setattr__
        put(self, "_given", (source, made.text, changes, faults))
        put(self, "_made", made)
        put(self, "_settings", None)
        put(self, "_toml", None)

    @classmethod
    def _of(
        cls, source: str, text: str | None, changes: Iterable[str], faults: Iterable[str]
    ) -> Drive:
        drive = cls.__new__(cls)
        drive._fill((source, text, tuple(changes), tuple(faults)))
        return drive

    @classmethod
    def parse(cls, text: str, name: str = "drive") -> Drive:
        """The drive that the text of a drive file describes; messages call it `name`."""
        return cls._of(name, text, (), ())

    def replace(self, set: Set | None = None, *, fault: str | Iterable[str] = ()) -> Drive:
        """The same drive with more changes and faults."""
        source, text, changes, faults = self._given
        more = tuple(assignments(set))
        return Drive._of(source, text, changes + more, faults + several("fault", fault))

    @property
    def name(self) -> str:
        """Its short name, as results show it."""
        return self._made.name

    @property
    def description(self) -> str:
        """What drive this is."""
        return self._made.description

    @property
    def hash(self) -> str:
        """Identifies it by what it does, as `drive_hash` in results."""
        return self._made.hash

    def toml(self) -> str:
        """The drive as a drive file, changes included."""
        if self._toml is None:
            object.__setattr__(self, "_toml", self._made.toml())
        assert self._toml is not None
        return self._toml

    def show(self) -> str:
        """The drive as a table: what follows from it, and where each number comes from."""
        return self._made.show()

    def _all(self) -> dict[str, Setting]:
        if self._settings is None:
            each = self._made.settings()
            made = {key: Setting(value, origin, source) for key, value, origin, source in each}
            object.__setattr__(self, "_settings", made)
        assert self._settings is not None
        return self._settings

    def __getitem__(self, key: str) -> Setting:
        return self._all()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Drive does not change; replace() makes another")

    def __eq__(self, other: object) -> bool:
        return self.toml() == other.toml() if isinstance(other, Drive) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._made.hash)

    def __repr__(self) -> str:
        return f"<Drive {self.name} {self.hash}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (Drive._of, self._given)


def drives() -> tuple[str, ...]:
    """The names of the shipped drives."""
    return tuple(_native.shipped())
