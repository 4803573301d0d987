"""Drives served in real time, by the command in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from mynah._command import command
from mynah._drive import Drive
from mynah._errors import Error, RunError, Untrusted, UsageError
from mynah._options import BenchOptions, ServeOptions
from mynah._result import Result
from mynah._words import Set, assignments, shown, text

if TYPE_CHECKING:
    from typing import Unpack

_READY_S = 30.0
"""A drive that is not ready by then is not served: it may be large, but not that large."""
_READY_MOST_S = 86400.0
_END_S = 30.0
"""How long a server may take to end in order: it writes what it keeps."""
_LOOK_S = 0.005
_LINES = 20
"""Lines of a server's log in an error."""


def _arguments(options: Mapping[str, object]) -> list[str]:
    """Options of the command. A list is an option given several times, True one without a value."""
    made = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        items: Sequence[object] = [value]
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
            items = value
        for item in items:
            if item is True:
                made.append(option)
            elif item is not None and item is not False:
                made.append(f"{option}={text(name, item)}")
    return made


def _refused(error: Exception) -> UsageError:
    """What the system says of arguments that it gives to no process: a zero byte, or too long."""
    return UsageError(f"the command cannot be started with these options: {error}")


def _failure(code: int | None, message: str) -> Error:
    return UsageError(message) if code == 2 else RunError(message)


class Server:
    """A drive that is served. Ends with its `with` block, and with this process at the latest."""

    addresses: tuple[str, ...]
    """Where hosts reach it over NVMe/TCP, `ADDRESS:PORT` each."""
    nqn: str
    """The subsystem's name."""
    vfio_user: tuple[str, ...]
    """Sockets for clients of vfio-user."""
    pid: int
    """The server's process."""
    ready: Mapping[str, Any]
    """All that the command says when it is ready."""

    def __init__(
        self,
        arguments: list[str],
        drive: str | None,
        wait_s: float,
        sockets: tempfile.TemporaryDirectory[str] | None,
    ) -> None:
        self._sockets = sockets
        self._folder = tempfile.TemporaryDirectory(prefix="mynah-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        self._result: Result | None = None
        self._ended = False
        self._log_text = ""
        if drive is not None:
            place = folder / "drive.toml"
            place.write_text(drive, encoding="utf-8")
            arguments = [f"--drive={place}", *arguments]
        self._json = folder / "result.json"
        self._log = folder / "log"
        self._out = folder / "out"
        said = [command(), "serve", "--until-closed", f"--json={self._json}", *arguments]
        try:
            with self._log.open("wb") as log, self._out.open("wb") as out:
                # In a session of its own, Ctrl-C does not reach it before its tests have ended.
                self._process = subprocess.Popen(
                    said, stdin=subprocess.PIPE, stdout=out, stderr=log, start_new_session=True
                )
        except (OSError, ValueError) as error:
            self._folder.cleanup()
            if sockets is not None:
                sockets.cleanup()
            raise _refused(error) from error
        try:
            self._await(wait_s)
        except BaseException:
            self._kill()
            raise

    def _await(self, wait_s: float) -> None:
        until = time.monotonic() + wait_s
        while True:
            code = self._process.poll()
            for line in self._out.read_text(encoding="utf-8", errors="replace").splitlines(True):
                if line.startswith("ready ") and line.endswith("\n"):
                    self._said(json.loads(line.removeprefix("ready ")))
                    return
            if code is not None:
                raise _failure(code, f"the drive is not served:\n{self._tail()}")
            if time.monotonic() > until:
                raise RunError(f"the drive is not ready after {wait_s:g} s:\n{self._tail()}")
            time.sleep(_LOOK_S)

    def _said(self, ready: dict[str, Any]) -> None:
        self.ready = ready
        self.addresses = tuple(ready["addresses"])
        self.nqn = ready["nqn"]
        self.vfio_user = tuple(ready.get("vfio_user", ()))
        self.pid = ready["pid"]

    @property
    def address(self) -> str:
        """The first address, without its port."""
        return self._first().rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port of the first address."""
        return int(self._first().rpartition(":")[2])

    def _first(self) -> str:
        if not self.addresses:
            raise UsageError("this drive is served over vfio-user alone; tcp=... gives an address")
        return self.addresses[0]

    @property
    def log(self) -> str:
        """What the server has said."""
        if self._ended:
            return self._log_text
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _tail(self) -> str:
        return "\n".join(self.log.splitlines()[-_LINES:])

    @property
    def result(self) -> Result:
        """What was measured; known when the server has ended."""
        if self._result is None:
            raise UsageError("the result is known when the server has ended: after stop()")
        return self._result

    def bench(self, **options: Unpack[BenchOptions]) -> Result:
        """Loads the drive with one flow, by `mynah bench`. Options are those of that command."""
        if self.addresses:
            target = f"tcp://{self._first()}/{self.nqn}"
        else:
            target = f"vfio-user:{os.path.dirname(self.vfio_user[0])}"
        return bench(target, **options)

    def stop(self) -> None:
        """Ends the server in order. A server that has ended badly by itself is a `RunError`."""
        if self._ended:
            return
        assert self._process.stdin is not None
        died = self._process.poll()
        self._process.stdin.close()
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            tail = self._tail()
            self._kill()
            raise RunError(f"the server did not end within {_END_S:g} s:\n{tail}") from None
        tail = self._tail()
        try:
            self._result = Result.load(self._json) if self._json.exists() else None
        finally:
            self._close()
        if self._result is None:
            # Killed a moment ago, it may not have been over when it was looked at.
            by_itself = died is not None or code < 0
            how = "has ended by itself" if by_itself else "has no result"
            raise RunError(f"the server {how} (exit code {code}):\n{tail}")
        if self._result.failures:
            raise RunError(f"the drive lost something: {'; '.join(self._result.failures)}")
        if self._result.untrusted is not None and not self._result.functional:
            reason = f"times are not trustworthy: {self._result.untrusted}"
            warnings.warn(Untrusted(reason), stacklevel=2)

    def _kill(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        if not self._ended:
            self._log_text = self.log
            self._ended = True
            self._folder.cleanup()
            if self._sockets is not None:
                self._sockets.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        except RunError as own:
            if error is None:
                raise
            # The block's error is the one to be seen.
            error.add_note(str(own))

    def __repr__(self) -> str:
        return f"<Server of {self.nqn} at {', '.join(self.addresses + self.vfio_user)}>"


def serve(
    drive: str | os.PathLike[str] | Drive = "enterprise-tlc",
    *,
    set: Set | None = None,
    tcp: str | list[str] | None = None,
    vfio_user: bool | str | os.PathLike[str] = False,
    ready_s: float = _READY_S,
    **options: Unpack[ServeOptions],
) -> Server:
    """Serves a drive until the `with` block ends, on a free port of this machine.

    The options are those of `mynah serve`, with `_` for `-`: `speed="max"`, `functional=True`,
    `namespace=["1g", "2g,4096"]`. With `vfio_user=True` it is a PCIe function, at a socket in a
    folder of its own. A server ends with this process, however that ends.
    """
    if not isinstance(ready_s, (int, float)) or not 0 <= ready_s <= _READY_MOST_S:
        said = shown(ready_s)
        raise UsageError(f"ready_s={said}: a time from 0 to {_READY_MOST_S:g} seconds belongs here")
    text_of_drive = None
    arguments = []
    if isinstance(drive, Drive):
        text_of_drive = drive.toml()
    else:
        arguments.append(f"--drive={os.fspath(drive)}")
    arguments += [f"--set={change}" for change in assignments(set)]
    folder = None
    if vfio_user is True:
        folder = tempfile.TemporaryDirectory(prefix="mynah-", ignore_cleanup_errors=True)
        arguments.append(f"--vfio-user={folder.name}")
    elif vfio_user:
        arguments.append(f"--vfio-user={os.fspath(vfio_user)}")
    elif tcp is None:
        tcp = "127.0.0.1:0"
    arguments += _arguments({"tcp": tcp, **options})
    return Server(arguments, text_of_drive, ready_s, folder)


def bench(target: str, **options: Unpack[BenchOptions]) -> Result:
    """Loads the target at `tcp://HOST:PORT/NQN` or `vfio-user:DIR`, as `mynah bench` does."""
    said = [command(), "bench", target, "--json=-", "--quiet", *_arguments({**options})]
    try:
        done = subprocess.run(said, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except (OSError, ValueError) as error:
        raise _refused(error) from error
    if not done.stdout:
        raise _failure(done.returncode, done.stderr.strip())
    result = Result.from_json(done.stdout, "what `mynah bench` writes")
    if result.untrusted is not None:
        warnings.warn(Untrusted(f"not trustworthy: {result.untrusted}"), stacklevel=2)
    elif done.returncode != 0:
        raise RunError(done.stderr.strip())
    return result
