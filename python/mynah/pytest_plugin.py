"""The fixture `mynah_serve`, for tests of hosts.

```python
def test_reconnect(mynah_serve):
    drive = mynah_serve("enterprise-tlc", speed="max")
    my_host.connect(drive.address, drive.port, drive.nqn)
```
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mynah import Drive, Server

_SERVERS = pytest.StashKey[list["Server"]]()


@pytest.fixture
def mynah_serve(request: pytest.FixtureRequest) -> Generator[Callable[..., Server]]:
    """Serves drives that end with the test: takes what `mynah.serve` takes.

    `functional=True` unless something else is said: that real time was missed on a busy machine is
    no reason for a test of functions to fail. What the servers said goes with a failure.
    """
    import mynah

    servers: list[Server] = request.node.stash.setdefault(_SERVERS, [])

    def start(drive: str | os.PathLike[str] | Drive = "enterprise-tlc", **options: Any) -> Server:
        options.setdefault("functional", True)
        server = mynah.serve(drive, **options)
        servers.append(server)
        return server

    yield start
    errors = []
    for server in reversed(servers):
        try:
            server.stop()
        except mynah.RunError as error:
            errors.append(error)
    if errors:
        raise errors[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attaches the servers' logs to failures."""
    report = yield
    if report.failed:
        for server in item.stash.get(_SERVERS, []):
            report.sections.append((f"mynah serve, {server.nqn}", server.log))
    return report
