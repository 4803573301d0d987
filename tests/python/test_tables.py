"""Tables hold what the files of the command hold, to the picosecond."""

from __future__ import annotations

import csv
import gc
import subprocess
import sys

import pytest

import mynah

polars = pytest.importorskip("polars")


@pytest.fixture
def two(small):
    flows = [
        mynah.Flow("a, \"quoted\"", rw="randrw", iodepth=8, number_ios=300),
        mynah.Flow("b", rw="randwrite", bs="16k", number_ios=100),
    ]
    return mynah.Simulation("mqsim", flows, set=small, settle="off", ramp_time="20us")


def ps(ns):
    whole, part = ns.split(".")
    assert len(part) == 3
    return int(whole) * 1000 + int(part)


def same_as_the_file(table, path):
    frame = table.to_polars()
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(table) == frame.height
    names = [name.replace("_ns", "_ps") for name in rows[0]]
    assert names == table.columns == frame.columns
    for name in rows[0]:
        column = frame[name.replace("_ns", "_ps")].to_list()
        for row, value in zip(rows, column):
            text = row[name]
            if text == "":
                assert value is None
            elif name.endswith("_ns"):
                assert type(value) is int and value == ps(text), name
            elif isinstance(value, bool):
                assert value == (text == "1")
            elif isinstance(value, (int, float)):
                assert value == type(value)(text), name
            else:
                assert value == text
    return frame


def test_requests_are_the_log(two, tmp_path):
    result = two.run(requests=True, request_log=tmp_path / "log.csv")
    frame = same_as_the_file(result.tables.requests, tmp_path / "log.csv")
    # The log has the ramp as well.
    assert frame.height == 400 >= result.requests
    stages = [name for name in frame.columns[11:]]
    spent = sum(frame[name] for name in stages)
    assert (spent == frame["completed_ps"] - frame["created_ps"]).all()
    with pytest.raises(mynah.UsageError, match=r"run\(requests=True\)"):
        two.run().tables.requests


@pytest.mark.parametrize("drive", ["samsung-ethernet", "kv-tlc"])
def test_requests_of_other_links_and_of_pairs(drive, tmp_path):
    flow = {"rw": "randread", "number_ios": 200}
    if drive == "kv-tlc":
        flow = {"kv": "ycsb-a", "keys": "2k", "value_size": "1k", "number_ios": 200}
    base = mynah.Simulation(drive, mynah.Flow("a", **flow), precondition="none")
    result = base.run(requests=True, request_log=tmp_path / "log.csv")
    same_as_the_file(result.tables.requests, tmp_path / "log.csv")


def test_intervals_are_the_file(two, tmp_path):
    both = two.run(intervals=tmp_path / "i.csv", interval="100us")
    with pytest.raises(mynah.UsageError, match=r"run\(interval="):
        both.tables.intervals
    result = two.run(interval="100us")
    assert same_as_the_file(result.tables.intervals, tmp_path / "i.csv").height > 3


def test_stages_and_blame(two):
    result = two.run()
    stages = result.tables.stages.to_polars()
    assert set(stages["flow"]) == {"*", "a, \"quoted\"", "b"} and set(stages["op"]) == {"*", "read", "write"}
    whole = stages.filter(polars.col("flow") == "*")
    assert whole["stage"].to_list() == [stage.stage for stage in result.stages]
    assert whole["mean_ps"].to_list() == [round(stage.mean_ns * 1000) for stage in result.stages]
    blame = result.tables.blame.to_polars()
    assert blame["wait_ps"].to_list() == [round(entry.wait_ns * 1000) for entry in result.blame]
    # A result that was read has them, too.
    again = mynah.Result.from_json(result.json())
    assert again.tables.stages.to_polars().equals(stages)


def test_a_sweeps_table_is_its_csv(two):
    found = two.sweep({"flow.b.iodepth": [1, 2], "set.over_provisioning": ["30%", "40%"]}, repeat=2).run()
    frame = found.to_polars()
    assert frame["flow.b.iodepth"].to_list() == [1, 1, 2, 2]
    rows = list(csv.reader(found.csv().splitlines()))
    assert frame.columns == rows[0]
    for row, values in zip(frame.rows(), rows[1:]):
        assert ["" if value is None else value for value in row] == [
            type(value)(text) if value is not None else text for value, text in zip(row, values)
        ]


def test_a_stream_is_the_table(small):
    flow = mynah.Flow("a", rw="randread", iodepth=8, number_ios=200_000)
    base = mynah.Simulation("mqsim", flow, set=small, precondition="none")
    with base.stream() as stream:
        with pytest.raises(mynah.UsageError, match="goes on"):
            stream.result
        batches = [batch.to_polars() for batch in stream]
    assert [batch.height for batch in batches] == [65536, 65536, 65536, 200_000 - 3 * 65536]
    whole = base.run(requests=True)
    assert stream.result == whole
    parts = polars.concat([batch["completed_ps"] for batch in batches])
    assert parts.equals(whole.tables.requests.to_polars()["completed_ps"])
    # One that nobody takes is no more.
    for _ in range(3):
        base.stream()
    gc.collect()
    half = base.stream()
    next(half)
    half.close()
    assert list(half) == []


def test_tables_outlive_their_results(two):
    table = two.run(requests=True).tables.requests
    gc.collect()
    first, second = table.to_polars(), table.to_polars()
    del table
    gc.collect()
    assert first.equals(second) and "<Table of 0" not in repr(first)


READERS = """
import sys, mynah
import duckdb, pandas, polars, pyarrow
flow = mynah.Flow("a", rw="randread", number_ios=100)
small = {"geometry.blocks_per_plane": 64, "over_provisioning": "30%"}
result = mynah.Simulation("mqsim", flow, set=small, precondition="none").run(requests=True, interval="1ms")
log = result.tables.requests
read = pyarrow.table(log)
assert read.num_rows == 100 and str(read.schema.field("completed_ps").type) == "uint64", read.schema
expected = read["latency_ps"].to_pylist()
frame = log.to_pandas()
assert len(frame) == 100 and list(frame["op"])[0] == "read"
for made in (frame, pandas.DataFrame.from_arrow(log), polars.DataFrame(log)):
    assert list(made["latency_ps"]) == expected
(row,) = duckdb.sql("select op, count(*), max(latency_ps) from log group by op").fetchall()
assert row == ("read", 100, max(expected)), row
for made in (result.tables.intervals, result.tables.stages, result.tables.blame):
    read = pyarrow.table(made)
    assert read.num_rows == len(made) and read.column_names == made.columns
    assert duckdb.sql("select * from made").fetchall() == [tuple(row.values()) for row in read.to_pylist()]
    assert len(pandas.DataFrame.from_arrow(made)) == len(polars.DataFrame(made)) == len(made)
"""


@pytest.mark.long
def test_other_readers():
    for package in ("duckdb", "pandas", "pyarrow"):
        pytest.importorskip(package)
    subprocess.run([sys.executable, "-c", READERS], check=True)
