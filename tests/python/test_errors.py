"""What goes wrong is said as the caller wrote it."""

from __future__ import annotations

import pickle
import threading

import pytest

import mynah
from mynah import _native


def refused(make):
    with pytest.raises(mynah.UsageError) as caught:
        make()
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, mynah.Error)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.help == caught.value.help
    return caught.value


def test_options():
    error = refused(lambda: mynah.Flow(iodept=8))
    assert error.message == "`iodept` is not an option of a flow"
    assert error.help.startswith("did you mean `iodepth`?")
    assert "did you mean `iodepth`?" in str(error)
    assert refused(lambda: mynah.Flow(bs="4x")).message.startswith('bs="4x": ')
    assert "--" not in str(refused(lambda: mynah.Flow(iodepth=0)))
    assert refused(lambda: mynah.Flow(rw=object())).message.startswith("rw=<object")
    assert refused(lambda: mynah.Flow(rwmixread=float("nan"), rw="rw")).message.startswith("rwmix")
    assert "this has no effect" in refused(lambda: mynah.Flow(rw="read", keys=3)).message
    assert "standard input" in refused(lambda: mynah.Flow(trace="-")).message


def test_simulations():
    flow = mynah.Flow("a", rw="randread", number_ios=1)

    def make(**settings):
        return lambda: mynah.Simulation("mqsim", flow, **settings)

    assert refused(make(sed=1)).help.startswith("did you mean `seed`?")
    assert refused(make(seed=-1)).message.startswith('seed="-1": ')
    assert refused(make(settle="soon")).message.startswith('settle="soon": ')
    assert refused(make(precision="2%")).message.startswith('precision="2%": ')
    assert "not a mynah.Flow" in refused(lambda: mynah.Simulation("mqsim", ["x"])).message
    two = refused(lambda: mynah.Simulation("mqsim", [flow, flow]))
    assert two.message == "two flows are called `a`"
    assert "no flows" in refused(mynah.Simulation("mqsim").run).message
    assert "without timeline" in refused(lambda: make()().run(timeline_window="1ms-2ms")).message


def test_drives():
    assert "did you mean `mqsim`" in refused(lambda: mynah.Drive("mqsm")).help
    error = refused(lambda: mynah.Drive("mqsim", {"flash.raed": "30us"}))
    assert "set:1:" in str(error) and "--set" not in str(error), str(error)
    assert (error.line, error.column) != (None, None)
    error = refused(lambda: mynah.Drive("mqsim", {"flash.read": "30 parsecs"}))
    assert (error.line, error.column) == (1, 12), str(error)
    assert "set={" in refused(lambda: mynah.Drive("mqsim", ["a=1"])).message or True
    text = mynah.Drive("mqsim").toml().replace("read =", "raed =", 1)
    error = refused(lambda: mynah.Drive.parse(text, "mine"))
    assert f"mine:{error.line}:" in str(error)
    refused(lambda: mynah.Drive("mqsim", fault="sloth"))
    refused(lambda: mynah.Drive(7))


BEYOND = [2**64, 2**70, -(2**63) - 1, 10**5000, -(10**5000)]
"""No option takes these."""


def test_numbers_that_nothing_takes(small):
    flow = mynah.Flow("a", rw="randread", number_ios=1)
    base = mynah.Simulation("mqsim", flow, set=small)
    for number in BEYOND:
        for name in ("iodepth", "numjobs", "number_ios", "randseed", "bs", "offset", "runtime", "namespace"):
            assert name in refused(lambda: mynah.Flow(**{name: number})).message
        for name in ("seed", "settle", "ramp_time", "precision", "drives", "until_steady", "latency"):
            assert name in refused(lambda: base.replace(**{name: number})).message
        for value in (number, [number]):
            error = refused(lambda: base.replace(set={"geometry.channels": value}))
            assert "geometry" in str(error) and "channels" in str(error)
        for key in ("seed", "flow.a.iodepth", "set.geometry.channels"):
            assert key.removeprefix("set.") in str(refused(lambda: base.sweep({key: [1, number]})))
        assert refused(lambda: base.sweep({"seed": [1]}, repeat=number)).message.startswith("repeat=")
        assert refused(lambda: base.sweep({"seed": [1]}).run(on=number)).message.startswith("on=")
        assert "interval" in refused(lambda: base.run(interval=number)).message
        assert refused(lambda: mynah.serve("mqsim", ready_s=number)).message.startswith("ready_s=")
    for given in (-1, 2**40):
        assert "iodepth" in refused(lambda: mynah.Flow(iodepth=given)).message
    for ready_s in (-1, float("nan"), float("inf"), "soon"):
        assert refused(lambda: mynah.serve("mqsim", ready_s=ready_s)).message.startswith("ready_s=")


def test_every_option_takes_numbers_or_says_why_not():
    for name in _native.flow_options():
        for number in (*BEYOND, -1, 0, 2**63):
            try:
                mynah.Flow(**{name: number})
            except mynah.UsageError as error:
                assert name in error.message


def test_what_is_no_text():
    assert "rw" in refused(lambda: mynah.Flow(rw="\ud800")).message
    assert "bs" in refused(lambda: mynah.Flow(bs=b"4k")).message
    for changes in ({7: 1}, {"\ud800": 1}, {"flash.read": [object()]}, {"flash.read": [float("nan")]}):
        assert refused(lambda: mynah.Drive("mqsim", changes)).message.startswith("set")
    with pytest.raises(mynah.UsageError, match="cannot be started"):
        mynah.bench("tcp://127.0.0.1:1/nqn\0x")


def test_files(tmp_path):
    path = tmp_path / "x.toml"
    error = refused(lambda: mynah.load(path))
    assert str(path) in error.message
    path.write_text('schema = "mynah.experiment/1"\ndrive = "mqsim"\n[[flow]]\nbss = 1\n')
    error = refused(lambda: mynah.load(path))
    assert (error.line, error.column) == (4, 1) and "bss" in error.message
    assert str(path) in str(refused(lambda: mynah.Result.load(path)))
    path.write_bytes(b"\xff")
    refused(lambda: mynah.Result.load(path))
    refused(lambda: mynah.load_fio(path))
    refused(lambda: mynah.load_mqsim(path, path))


def test_outputs(tmp_path, small):
    flow = mynah.Flow("a", rw="randread", number_ios=1)
    base = mynah.Simulation("mqsim", flow, set=small)
    missing = tmp_path / "missing" / "x"
    for name in ("request_log", "report", "record", "intervals", "timeline", "save_state"):
        assert "missing" in refused(lambda: base.run(**{name: missing})).message
    assert "interval" in refused(lambda: base.run(intervals=tmp_path / "i", interval=0)).message
    refused(lambda: base.run(timeline=tmp_path / "i", timeline_window="x"))
    assert "no Ethernet link" in refused(lambda: base.run(pcap=tmp_path / "p")).message


def test_a_bug_does_not_end_the_interpreter(capfd):
    with pytest.raises(mynah.InternalError, match="a bug in Mynah: this is a test"):
        _native.fail()
    thread = threading.Thread(target=lambda: pytest.raises(mynah.InternalError, _native.fail))
    thread.start()
    thread.join()
    assert "this is a test" in capfd.readouterr().err


def test_a_state_that_cannot_be_saved(small):
    flow = mynah.Flow("a", rw="randwrite", number_ios=50)
    base = mynah.Simulation("mqsim", flow, set=small, settle="off", precondition="none")
    with pytest.raises(mynah.RunError) as caught:
        base.run(save_state="/dev/full")
    # All of the run was measured.
    assert caught.value.result.requests == 50
    assert "the drive's state was not saved" in caught.value.result.notes
    assert mynah.RunError("x").result is None


def test_untrusted(small):
    flow = mynah.Flow("a", rw="randwrite", number_ios=50)
    base = mynah.Simulation("mqsim", flow, set=small, settle="off", require_steady=True)
    with pytest.warns(mynah.Untrusted, match="too short"):
        result = base.run()
    assert result.untrusted.startswith("too short")
    with pytest.raises(mynah.RunError, match="too short"):
        base.run(check=True)
