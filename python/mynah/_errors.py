"""What goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mynah import _native
    from mynah._result import Result


class Error(Exception):
    """Anything that Mynah refuses or fails at.

    As text it is what the command shows: the message, and the place of the mistake.
    """

    message: str
    """What is wrong."""
    help: str | None
    """What would be valid, or may help."""
    line: int | None
    """The line of the text it stands in, from 1."""
    column: int | None
    """The column there, from 1."""

    def __init__(
        self,
        text: str,
        message: str | None = None,
        help: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(text)
        self.message = text if message is None else message
        self.help = help
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (str(self), self.message, self.help, self.line, self.column))


class UsageError(Error, ValueError):
    """What was given cannot be used. The command ends with exit code 2."""


class RunError(Error):
    """What was run has failed. The command ends with exit code 1."""

    _measured: _native.Measured | None = None

    @property
    def result(self) -> Result | None:
        """What was measured all the same, where only the drive's state could not be saved."""
        from mynah._result import Result

        return None if self._measured is None else Result._measured(self._measured)


class Unfit(UsageError):
    """This machine cannot do it: no room, or a file that is missing. Another may."""


class InternalError(Error):
    """A bug in Mynah. The interpreter goes on."""


class Interrupted(KeyboardInterrupt):
    """Somebody pressed Ctrl-C."""

    result: Result | None
    """What was measured until then; None while the drive was still being prepared."""

    def __init__(self, measured: _native.Measured | None = None) -> None:
        super().__init__("interrupted")
        self.result = None
        if measured is not None:
            from mynah._result import Result

            self.result = Result._measured(measured)


class Untrusted(UserWarning):
    """A result says of itself that it must not be trusted."""
