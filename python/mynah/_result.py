"""Results."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from mynah import _native
from mynah._schema import Device, ResultFields
from mynah._table import Tables

if TYPE_CHECKING:
    from typing import Self


class Result(ResultFields):
    """The result of one run, by the keys of `docs/result.schema.json`.

    As text it is the summary that the command prints. Two results are equal if they are but for
    `run`, which is what depends on the machine.
    """

    __slots__ = ("_intervals", "_report", "_text")
    _intervals: _native.Table | None
    _report: _native.Measured | None
    _text: str

    @classmethod
    def _made(
        cls,
        text: str,
        measured: _native.Measured | None,
        intervals: _native.Table | None = None,
    ) -> Self:
        result = cls._read(json.loads(text))
        object.__setattr__(result, "_text", text)
        object.__setattr__(result, "_report", measured)
        object.__setattr__(result, "_intervals", intervals)
        return result

    @classmethod
    def _measured(
        cls, measured: _native.Measured, intervals: _native.Table | None = None
    ) -> Self:
        return cls._made(measured.json(), measured, intervals)

    @classmethod
    def from_json(cls, text: str, name: str = "this") -> Result:
        """The result in a text; messages call the text `name`."""
        from mynah._errors import UsageError

        texts = _texts(text, name)
        if len(texts) != 1:
            raise UsageError(f"{name} holds {len(texts)} results; load_results() reads them all")
        return cls._made(texts[0], None)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """The result in a file, as `--json` and `write` write it."""
        return cls.from_json(_text_of(path), os.fspath(path))

    def json(self) -> str:
        """The result as the command writes it, byte for byte but for `run`."""
        return self._text

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file."""
        Path(path).write_text(self._text, encoding="utf-8")

    def compare(self, other: Result, names: tuple[str, str] = ("this", "other")) -> Comparison:
        """This result and another side by side."""
        return Comparison(names, (self._text, other._text))

    @property
    def device(self) -> Device:
        """What the drive counted. Of an enclosure, and where only a host's side is known, a
        `UsageError`.
        """
        if self._device is None:
            from mynah._errors import UsageError

            why = "it is of a host that loaded a target" if self.host else "it is of several drives"
            raise UsageError(f"device: no drive's counters belong to this result: {why}")
        return self._device

    @property
    def tables(self) -> Tables:
        """What it holds, as tables: `stages`, `blame`; `requests` and `intervals` if asked for."""
        return Tables(self._text, self._report, self._intervals)

    def html(self) -> str | None:
        """The report, an HTML document; None of a result that was read or sent."""
        return None if self._report is None else self._report.html()

    def _repr_html_(self) -> str:
        import html

        report = self.html()
        if report is None:
            return f"<pre>{html.escape(str(self))}</pre>"
        style = "width:100%;height:48em;border:0"
        return f'<iframe style="{style}" srcdoc="{html.escape(report)}"></iframe>'

    def __str__(self) -> str:
        return _native.summary(self._text)

    def __repr__(self) -> str:
        return f"<Result of {self.drive}: {self.requests} requests>"

    def __reduce__(self) -> tuple[object, ...]:
        return (Result.from_json, (self._text,))


def _texts(text: str, name: str) -> list[str]:
    """The results in a document, each as JSON. The only one is the document as it is."""
    _native.results(name, text)
    document = json.loads(text)
    if "results" not in document:
        return [text]
    return [json.dumps(each, indent=2, ensure_ascii=False) + "\n" for each in document["results"]]


class Comparison:
    """Two results side by side; as text the table that `mynah compare` prints."""

    def __init__(self, names: tuple[str, str], texts: tuple[str, str]) -> None:
        self._names = names
        self._texts = texts

    def json(self) -> str:
        """The comparison as `mynah compare --json` writes it."""
        return _native.compare_json(self._names, self._texts)

    def __str__(self) -> str:
        return _native.compare(self._names, self._texts)


def _text_of(path: str | os.PathLike[str]) -> str:
    from mynah._errors import UsageError

    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{os.fspath(path)} cannot be read: {error}") from error


def load_results(path: str | os.PathLike[str]) -> list[Result]:
    """All results in a file: of scenarios, of a sweep, or the only one."""
    return [Result._made(text, None) for text in _texts(_text_of(path), os.fspath(path))]


def compare(first: Result, second: Result, names: tuple[str, str] = ("a", "b")) -> Comparison:
    """Two results side by side."""
    return first.compare(second, names)
