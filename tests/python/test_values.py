"""Flows, drives and simulations are values."""

from __future__ import annotations

import copy
import inspect
import pickle
from datetime import timedelta
from pathlib import Path

import pytest

import mynah
from mynah import _native
from mynah._options import FlowOptions
from mynah._simulation import Settings
from conftest import ROOT


def simulation(**settings):
    flows = [
        mynah.Flow("reader", rw="randread", iodepth=8, runtime="2ms", channels=[1, 0]),
        mynah.Flow("writer", rw="randwrite", bs="16k", number_ios=50, channels=[2]),
    ]
    return mynah.Simulation("mqsim", flows, seed=7, settle="off", **settings)


def test_flows_have_the_options_of_the_crates():
    names = set(_native.flow_options()) - {"name"} | {"channels", "chips", "dies", "planes"}
    assert set(FlowOptions.__annotations__) == names
    assert set(inspect.signature(mynah.Flow).parameters) == names | {"name"}
    assert set(Settings.__annotations__) == set(_native.settings())


def test_versions_are_the_crates():
    manifest = (ROOT / "Cargo.toml").read_text()
    assert f'version = "{mynah.__version__}"' in manifest
    from importlib.metadata import version

    assert version("mynah-ssd") == mynah.__version__


def test_values_are_text_numbers_and_times():
    flow = mynah.Flow("a", rw="randread", bs=4096, runtime=timedelta(milliseconds=3))
    assert flow == mynah.Flow("a", rw="randread", bs="4k", runtime="3ms")
    assert hash(flow) == hash(mynah.Flow("a", rw="randread", runtime="3000us"))
    assert flow != flow.replace(iodepth=2)
    assert flow.replace(iodepth=2).replace(iodepth=None) == flow
    assert mynah.Flow(rw="rw", rwmixread=0.5e2) == mynah.Flow(rw="rw", rwmixread="50")
    assert mynah.Flow(trace="a.trace", trace_no_stall=True).options["trace_no_stall"] == "true"
    assert Path(mynah.Flow(trace="a.trace").options["trace"]).is_absolute()
    assert flow.name == "a" and mynah.Flow(rw="read").name is None
    assert eval(repr(flow), {"Flow": mynah.Flow}) == flow


def test_nothing_changes():
    for value in (mynah.Flow(rw="read"), mynah.Drive("mqsim"), simulation()):
        with pytest.raises(AttributeError):
            value.name = "x"


def test_everything_can_be_pickled():
    base = simulation(fault="slow-die:die=0,factor=2")
    for value in (*base.flows, base.drive, base, mynah.Simulation("mqsim")):
        again = pickle.loads(pickle.dumps(value))
        assert again == value and hash(again) == hash(value) and type(again) is type(value)
        assert copy.deepcopy(value) == value
    assert base != simulation()
    assert base.replace(seed=8) != base and base.replace(seed=8).replace(seed=7) == base


def test_replace_adds():
    base = simulation(set={"flash.read": "30us"})
    more = base.replace(set={"over_provisioning": "28%"}, seed=None)
    assert more.drive["flash.read"].value == base.drive["flash.read"].value
    assert more.drive["over_provisioning"].origin == "set"
    assert more.settings == {"settle": "off"}
    assert base.replace(drive="enterprise-tlc").drive == mynah.Drive("enterprise-tlc")
    nested = mynah.Drive("mqsim", {"flash": {"read": "30us"}})
    assert nested == base.drive != mynah.Drive("mqsim")


def test_drives_say_where_they_have_it_from():
    assert "enterprise-tlc" in mynah.drives()
    for name in mynah.drives():
        drive = mynah.Drive(name)
        assert drive.name == name and mynah.Drive.parse(drive.toml()).hash == drive.hash
    drive = mynah.Drive("samsung-970-pro")
    setting = drive["geometry.channels"]
    assert setting.origin == "file" and setting.source and int(setting.value)
    assert any(setting.is_estimate for setting in drive.values())
    assert "geometry.channels" in drive.show()
    with pytest.raises(KeyError):
        drive["geometry.chanels"]


def test_a_drive_is_its_text(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(mynah.Drive("mqsim").toml())
    drive = mynah.Drive(path)
    path.unlink()
    assert pickle.loads(pickle.dumps(drive)) == drive
    assert drive.replace({"flash.read": "30us"}).hash != drive.hash


def test_files_say_the_same(tmp_path):
    base = simulation()
    experiment, drive = base.write(tmp_path / "two.toml")
    assert drive.name == "two-drive.toml"
    assert mynah.load(experiment)._key()[1:2] == base._key()[1:2]
    again = mynah.load(experiment)
    assert again.settings == base.settings and again.drive.hash != mynah.Drive("mqsim").hash
    again.write(tmp_path / "three.toml")
    text = (tmp_path / "three.toml").read_text()
    assert text == experiment.read_text().replace("two-drive", "three-drive")
    with pytest.raises(mynah.UsageError, match="an experiment file cannot say alone"):
        base.replace(alone=True).write(tmp_path / "four.toml")


def test_points_of_a_sweep(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(
        'schema = "mynah.experiment/1"\ndrive = "mqsim"\n[[flow]]\nname = "a"\nrw = "randread"\n'
        'number_ios = 10\n[sweep]\n"flow.a.iodepth" = [1, 4]\n'
    )
    points = mynah.load_points(path)
    assert [point.point for point in points] == [{"flow.a.iodepth": "1"}, {"flow.a.iodepth": "4"}]
    assert points[1].flows[0].options["iodepth"] == "4"
    assert pickle.loads(pickle.dumps(points[1])).point == points[1].point
    with pytest.raises(mynah.UsageError, match="sweep of 2 points"):
        mynah.load(path)


def test_traces_go_by_digest(tmp_path):
    path = tmp_path / "a.trace"
    path.write_bytes((ROOT / "tests/data/sample.trace").read_bytes())
    base = mynah.Simulation("mqsim", mynah.Flow("t", trace=path, trace_remap="modulo"))
    sent = pickle.loads(pickle.dumps(base))
    assert sent == base
    sent.describe()
    path.write_text("0 0 0 8 1\n")
    with pytest.raises(mynah.UsageError, match="is another than the simulation was made for"):
        sent.run()
    path.unlink()
    with pytest.raises(mynah.UsageError, match="is missing on "):
        pickle.loads(pickle.dumps(sent)).run()
