"""Tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mynah._errors import UsageError

if TYPE_CHECKING:
    import polars

    from mynah import _native


class Table:
    """Columns of the same length, for whoever reads Arrow: polars, pandas, pyarrow, DuckDB.

    Times are whole picoseconds. `polars.DataFrame(table)`, `pyarrow.table(table)` and
    `pandas.DataFrame.from_arrow(table)` take it as it is.
    """

    __slots__ = ("_made",)
    _made: _native.Table

    def __init__(self, made: _native.Table) -> None:
        self._made = made

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._made.__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._made.columns()

    @property
    def nbytes(self) -> int:
        """The bytes that the columns take."""
        return self._made.nbytes()

    def to_polars(self) -> polars.DataFrame:
        """The table as a `polars.DataFrame`."""
        return _module("polars").DataFrame(self)  # type: ignore[no-any-return]

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`."""
        frame = _module("pandas").DataFrame
        if not hasattr(frame, "from_arrow"):
            return _module("pyarrow").table(self).to_pandas()
        return frame.from_arrow(self)

    def __len__(self) -> int:
        return len(self._made)

    def __repr__(self) -> str:
        return f"<Table of {len(self)} rows: {', '.join(self.columns)}>"


def _module(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UsageError(f"{name} is not installed; any reader of Arrow takes the table") from error


class Tables:
    """What a result holds, as tables."""

    __slots__ = ("_intervals", "_measured", "_text")

    def __init__(
        self, text: str, measured: _native.Measured | None, intervals: _native.Table | None
    ) -> None:
        self._text = text
        self._measured = measured
        self._intervals = intervals

    @property
    def requests(self) -> Table:
        """Every completed request, of `run(requests=True)`; the columns of the request log."""
        made = None if self._measured is None else self._measured.requests()
        if made is None:
            raise UsageError("requests: run(requests=True) keeps them")
        return Table(made)

    @property
    def intervals(self) -> Table:
        """What happened in each interval, of `run(interval=…)`; the columns of its file."""
        if self._intervals is None:
            raise UsageError("intervals: run(interval='10ms') keeps them")
        return Table(self._intervals)

    @property
    def stages(self) -> Table:
        """Where the time went: of all requests (`*`), and of each flow's kinds of commands."""
        from mynah import _native

        return Table(_native.stages(self._text))

    @property
    def blame(self) -> Table:
        """Who waited for whom."""
        from mynah import _native

        return Table(_native.blame(self._text))
