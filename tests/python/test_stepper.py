"""Steppers do what a drive does, however they are driven."""

from __future__ import annotations

import array
import os
import pickle
import threading

import pytest

import mynah

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings, strategies as some  # noqa: E402

SMALL = {"geometry.blocks_per_plane": 64, "over_provisioning": "30%"}
DRIVE = mynah.Drive("mqsim", SMALL)
FLOWS = {"fg": "urgent", "bg": "low"}


def seen(done):
    return (done.tag, done.flow, done.op, done.offset, done.size, done.status,
            done.submitted_ps, done.completed_ps, done.stages_ps)


def test_requests_complete():
    ssd = mynah.Stepper(DRIVE, FLOWS, state="steady")
    assert ssd.flows == ["fg", "bg"] and ssd.now_ps == 0 and ssd.capacity() > 1 << 20
    assert ssd.step() is None
    first = ssd.submit("read", 0, 4096, "fg")
    second = ssd.submit("write", offset=8192, size=16384, flow="bg")
    assert (first, second, ssd.outstanding) == (0, 1, 2)
    done = {done.tag: done for done in (ssd.step(), ssd.step())}
    read, write = done[first], done[second]
    assert (read.op, read.flow, read.status, read.size) == ("read", "fg", "success", 4096)
    assert (write.op, write.flow, write.offset) == ("write", "bg", 8192)
    for each in (read, write):
        assert each.latency_ps == each.completed_ps - each.submitted_ps > 0
        assert sum(each.stages_ps.values()) == each.latency_ps
    assert ssd.outstanding == 0 and ssd.step() is None
    counters = ssd.counters()
    assert counters["commands"] == 2 and counters["host_bytes_written"] == 16384
    assert counters["free_blocks"] > 0
    beyond = ssd.submit("read", ssd.capacity(), 4096)
    assert ssd.step().status == "lba_out_of_range" and beyond == 2


def test_time_goes_where_it_is_told():
    ssd = mynah.Stepper(DRIVE)
    assert ssd.advance(5_000_000) == [] and ssd.now_ps == 5_000_000
    tag = ssd.submit("read")
    assert ssd.next_event_ps >= ssd.now_ps
    (done,) = ssd.advance(1_000_000_000)
    assert done.tag == tag and done.submitted_ps == 5_000_000 and ssd.now_ps == 1_000_000_000
    assert ssd.advance(10) == [] and ssd.now_ps == 1_000_000_000
    # A hundred days are nothing where nothing happens.
    ssd.advance(100 * 86400 * 10**12)


def test_states(tmp_path):
    flow = mynah.Flow("a", rw="randwrite", number_ios=300)
    path = tmp_path / "a.state"
    mynah.Simulation(DRIVE, flow, settle="off").run(save_state=path)
    free = lambda **more: mynah.Stepper(DRIVE, **more).counters()["free_blocks"]  # noqa: E731
    assert free(state=path) == free(state=path.read_bytes()) < free(state="empty")
    assert free(state="steady") < free(state="empty")
    for wrong in (b"", path.read_bytes()[:-1], b"x" * 1000, "stead", tmp_path / "none"):
        with pytest.raises(mynah.UsageError):
            mynah.Stepper(DRIVE, state=wrong)
    with pytest.raises(mynah.UsageError, match="another"):
        mynah.Stepper("enterprise-tlc", state=path)


programs = some.lists(
    some.tuples(
        some.sampled_from(["submit", "submit", "submit", "step", "advance", "many"]),
        some.sampled_from(mynah.OPS),
        some.integers(0, 20_000),
        some.integers(1, 64),
        some.sampled_from(list(FLOWS)),
    ),
    max_size=40,
)


def one_by_one(program):
    ssd = mynah.Stepper(DRIVE, FLOWS)
    out = []
    for what, op, at, sectors, flow in program:
        if what == "submit":
            ssd.submit(op, at * 512, sectors * 512, flow)
        elif what == "many":
            for n in range(sectors):
                ssd.submit(op, (at + n) * 512, 4096, flow)
        elif what == "step":
            done = ssd.step()
            out += [] if done is None else [seen(done)]
        else:
            out += map(seen, ssd.advance(ssd.now_ps + at * 1000))
    while (done := ssd.step()) is not None:
        out.append(seen(done))
    return out, ssd.counters(), ssd.now_ps


def in_batches(program):
    ssd = mynah.Stepper(DRIVE, FLOWS)
    rows = []

    def take(table):
        frame = table.to_polars()
        stages = [name for name in frame.columns if name.endswith("_ps")][4:]
        for row in frame.iter_rows(named=True):
            spent = {name[:-3]: row[name] for name in stages if row[name]}
            rows.append((row["id"], row["flow"], row["op"], row["sector"] * 512, row["sectors"] * 512,
                         row["status"], row["created_ps"], row["completed_ps"], spent))

    for what, op, at, sectors, flow in program:
        if what == "submit":
            kind = bytes([mynah.OPS.index(op)])
            ssd.submit_table(kind, array.array("q", [at * 512]), array.array("I", [sectors * 512]), flow=flow)
        elif what == "many":
            offsets = array.array("Q", ((at + n) * 512 for n in range(sectors)))
            assert len(ssd.submit_table(op, offsets, 4096, flow=flow)) == sectors
        elif what == "step":
            take(ssd.step_table(1))
        else:
            rows.extend(map(seen, ssd.advance(ssd.now_ps + at * 1000)))
    take(ssd.step_table())
    return rows, ssd.counters(), ssd.now_ps


@settings(max_examples=25, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))
@given(programs)
def test_batches_are_the_same(program):
    pytest.importorskip("polars")
    assert one_by_one(program) == in_batches(program)


def test_it_is_the_drive_that_runs_are_on():
    # A closed loop of one request at a time is a run of iodepth 1, to the picosecond.
    polars = pytest.importorskip("polars")
    flow = mynah.Flow("a", rw="randread", number_ios=100)
    table = mynah.Simulation(DRIVE, flow, precondition="none").run(requests=True).tables.requests
    rows = table.to_polars()
    ssd = mynah.Stepper(DRIVE)
    for sector, sectors, created, completed in rows.select(
        polars.col("sector", "sectors", "created_ps", "completed_ps")
    ).iter_rows():
        ssd.advance(created)
        ssd.submit("read", sector * 512, sectors * 512)
        done = ssd.step()
        assert (done.submitted_ps, done.completed_ps) == (created, completed)


def test_mistakes():
    ssd = mynah.Stepper(DRIVE, FLOWS)
    for arguments, said in [
        (("raed",), "there is no such operation"),
        (("read", 100), "not a multiple of 512"),
        (("read", 0, 100), "size=100"),
        (("read", 0, 1 << 50), "at most"),
        (("read", 0, 4096, "gb"), "there are fg, bg"),
    ]:
        with pytest.raises(mynah.UsageError, match=said):
            ssd.submit(*arguments)
    for arguments, said in [
        (("read", array.array("q", [-512])), "below 0"),
        (("read", array.array("d", [1.0])), "a buffer of whole numbers"),
        ((bytes([9]), 0), "9 is no operation"),
        ((bytes([0, 1]), array.array("Q", [0])), "values where others have"),
    ]:
        with pytest.raises(mynah.UsageError, match=said):
            ssd.submit_table(*arguments)
    for number in (-1, 2**64, 10**5000, "7", 1.5):
        for call, name in [
            (lambda: ssd.submit("read", number), "offset"),
            (lambda: ssd.submit("read", 0, number), "size"),
            (lambda: ssd.submit("read", namespace=number), "namespace"),
            (lambda: ssd.submit_table("read", number), "offset"),
            (lambda: ssd.submit_table("read", 0, number), "size"),
            (lambda: ssd.submit_table("read", 0, namespace=number), "namespace"),
            (lambda: ssd.capacity(number), "namespace"),
            (lambda: ssd.step_table(number), "count"),
            (lambda: ssd.advance(number), "until_ps"),
        ]:
            with pytest.raises(mynah.UsageError, match=f"^{name}: "):
                call()
    assert ssd.outstanding == 0
    for flows, said in [({"a": "highest"}, "valid are urgent"), ([], "no flows"), (["a", 3], "int")]:
        with pytest.raises((mynah.UsageError, TypeError), match=said):
            mynah.Stepper(DRIVE, flows)
    with pytest.raises(mynah.UsageError):
        pickle.dumps(ssd)
    with pytest.raises(mynah.UsageError, match="the drive has 1"):
        ssd.capacity(2)


def test_two_threads_are_told():
    ssd = mynah.Stepper(DRIVE)
    offsets = array.array("Q", (n * 4096 for n in range(50_000)))
    said = 0
    # On a busy machine this thread may sleep while the other works.
    for _ in range(100):
        ssd.submit_table("read", offsets)
        thread = threading.Thread(target=ssd.step_table)
        thread.start()
        while thread.is_alive():
            try:
                ssd.now_ps
            except mynah.UsageError as error:
                assert "another thread" in str(error)
                said += 1
        thread.join()
        assert ssd.outstanding == 0
        if said:
            break
    assert said


@pytest.mark.long
def test_simpys_processes():
    simpy = pytest.importorskip("simpy")
    env, ssd, answered = simpy.Environment(), mynah.Stepper(DRIVE), {}

    # As docs/python.md has it.
    def drive():
        while True:
            for done in ssd.advance(env.now):
                answered.pop(done.tag).succeed(done)
            at = ssd.next_event_ps
            yield env.timeout(1_000_000 if at is None else max(1, at - env.now))

    seen = []

    def host():
        for number in range(50):
            tag = ssd.submit("read", number * 4096)
            answered[tag] = env.event()
            done = yield answered[tag]
            assert env.now >= done.completed_ps
            seen.append(done)

    env.process(drive())
    env.run(env.process(host()))
    assert len(seen) == 50 and ssd.outstanding == 0
    assert all(a.completed_ps <= b.submitted_ps for a, b in zip(seen, seen[1:]))


@pytest.mark.long
def test_steppers_leave_nothing():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def once():
        ssd = mynah.Stepper(DRIVE)
        ssd.submit("write")
        ssd.step_table()

    for _ in range(300):
        once()
    before = resident()
    for _ in range(10_000):
        once()
    assert resident() - before < 5 << 20
