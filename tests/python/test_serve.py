"""Drives in real time."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

import mynah
from conftest import mynah as command

pytest_plugins = ["pytester"]
SMALL = {"geometry.blocks_per_plane": 64, "over_provisioning": "30%"}
QUICK = {"speed": "max", "precondition": "none", "set": SMALL}


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(what, seconds=60.0):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "this takes too long"
        time.sleep(0.01)


def test_the_commands_are_one():
    text = command("--version")
    done = subprocess.run([sys.executable, "-m", "mynah", "--version"], capture_output=True, text=True)
    assert done.stdout == text
    assert text.startswith(f"mynah {mynah.__version__}\nbuild {mynah.__build__}\nprofile ")
    done = subprocess.run([sys.executable, "-m", "mynah", "sim", "--nonsense"], capture_output=True)
    assert done.returncode == 2


def test_a_drive_is_served_and_ends():
    with mynah.serve("mqsim", functional=True, **QUICK) as drive:
        assert drive.address == "127.0.0.1" and drive.port > 0 and alive(drive.pid)
        assert drive.nqn.endswith(":mqsim")
        loaded = drive.bench(rw="randread", iodepth=4, number_ios=200)
        assert loaded.host.completed == 200 and loaded.flows[0].read.ios == 200
        with pytest.raises(mynah.UsageError, match="after stop"):
            drive.result
    assert not alive(drive.pid)
    assert drive.result.functional and drive.result.requests == 200
    drive.stop()
    with pytest.raises(OSError):
        socket.create_connection((drive.address, drive.port)).close()


def test_a_drive_of_ones_own():
    mine = mynah.Drive("mqsim", SMALL)
    with mynah.serve(mine, functional=True, speed="max", precondition="none",
                     namespace=["4m", "8m,4096"], name="archive") as drive:
        assert drive.nqn.endswith(":archive")
    assert drive.result.drive_hash and drive.result.drive == "mqsim"


def test_vfio_user():
    with mynah.serve("mqsim", functional=True, vfio_user=True, **QUICK) as drive:
        (path,) = drive.vfio_user
        assert os.path.exists(path)
        assert drive.bench(rw="randread", number_ios=20).host.completed == 20
        with pytest.raises(mynah.UsageError, match="vfio-user alone"):
            drive.port
    assert not os.path.exists(path)


def test_what_cannot_be_served_is_said():
    with pytest.raises(mynah.UsageError, match="--nonsense"):
        mynah.serve("mqsim", nonsense=1, **QUICK)
    with pytest.raises(mynah.UsageError, match="did you mean `mqsim`"):
        mynah.serve("mqsm")
    with mynah.serve("mqsim", functional=True, **QUICK) as drive:
        with pytest.raises(mynah.Error, match=str(drive.port)):
            mynah.serve("mqsim", tcp=f"127.0.0.1:{drive.port}", **QUICK)
        with pytest.raises(mynah.UsageError, match="iodepth"):
            drive.bench(iodepth="x")
    with pytest.raises(mynah.RunError, match="not ready after 0 s"):
        mynah.serve("enterprise-tlc", ready_s=0.0)


def test_a_server_that_dies_is_an_error():
    with pytest.raises(mynah.RunError, match="has ended by itself"):
        with mynah.serve("mqsim", functional=True, **QUICK) as drive:
            os.kill(drive.pid, signal.SIGKILL)
            wait_for(lambda: not alive(drive.pid))
    with pytest.raises(ZeroDivisionError) as caught:
        with mynah.serve("mqsim", functional=True, **QUICK) as drive:
            os.kill(drive.pid, signal.SIGKILL)
            wait_for(lambda: not alive(drive.pid))
            1 / 0
    assert "has ended by itself" in caught.value.__notes__[0]


ORPHAN = """
import sys, time
import mynah
drive = mynah.serve("mqsim", functional=True, speed="max", precondition="none",
                    set={"geometry.blocks_per_plane": 64, "over_provisioning": "30%"})
print(drive.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_server_outlives_its_python(end):
    parent = subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL)
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.send_signal(end)
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not alive(pid))


def test_the_fixture(pytester):
    pytester.makepyfile(
        """
        small = {"geometry.blocks_per_plane": 64, "over_provisioning": "30%"}
        quick = {"speed": "max", "precondition": "none", "set": small}

        def test_passes(mynah_serve):
            drive = mynah_serve("mqsim", **quick)
            other = mynah_serve("mqsim", name="other", **quick)
            assert drive.port != other.port
            print("pids", drive.pid, other.pid)

        def test_fails(mynah_serve):
            drive = mynah_serve("mqsim", status_interval="10ms", **quick)
            assert drive.bench(number_ios=10).host.completed == 11
        """
    )
    done = pytester.runpytest_subprocess("-rP")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*mynah serve, nqn.*:mqsim*"])
    (line,) = [line for line in done.outlines if line.startswith("pids ")]
    assert not any(alive(int(pid)) for pid in line.split()[1:])
