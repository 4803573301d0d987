"""Policies that are written in Python decide in the drive's stead."""

from __future__ import annotations

import pytest

import mynah

SMALL = {
    "geometry.channels": 2, "geometry.chips_per_channel": 1, "geometry.blocks_per_plane": 64,
    "geometry.pages_per_block": 64, "over_provisioning": "20%", "gc.reserve_blocks": 2,
    "gc.victim": "greedy", "cache.size": "4MiB",
}
WRITER = mynah.Flow("writer", rw="randwrite", bs="16k", iodepth=32, number_ios=20_000)
WRITES = mynah.Simulation("mqsim", WRITER, set=SMALL, precondition="fill")


def greedy(blocks):
    after = [(valid, block < blocks.turn, block) for valid, block in zip(blocks.valid, blocks.block)]
    return min(after)[2]


def measured(result):
    """A result without what says whose policies it had, and what depends on the machine."""
    counts = {name: getattr(result.device, name) for name in ("waf", "erases", "gc_runs", "wear")}
    return counts, result.flows["writer"].write.lat_ns


def test_a_built_in_policy_in_python_has_the_same_result():
    result = WRITES.run(policies=mynah.Policies("greedy", victims=greedy))
    said = result.device.own_policies
    assert (said.name, said.replaced, len(said.hash)) == ("greedy", ("victims",), 16)
    plain = WRITES.run()
    assert plain.device.own_policies is None
    assert measured(plain) == measured(result)


def test_placement_is_asked_for_as_many_pages_as_it_answered():
    asked = []

    def stripe(planes):
        asked.append(planes.last)
        count = len(planes.held)
        assert len(planes.has_room) == len(planes.is_idle) == len(planes.waiting) == count
        return [(planes.last + step) % count for step in range(1, count + 1)]

    striped = WRITES.replace(set={"allocation.placement": "striped"})
    result = striped.run(policies=mynah.Policies("stripe", placement=stripe))
    assert measured(result) == measured(striped.run())
    assert 0 < len(asked) < result.device.host_units_written / 8


def test_what_cannot_be_chosen_ends_the_run():
    wrong = {
        "which is not among": lambda blocks: 64,
        "which is not among the": lambda blocks: -1,
        "could not choose: KeyError: 'age'": lambda blocks: {}["age"],
        "could not choose: TypeError": lambda blocks: "the first",
    }
    for said, victims in wrong.items():
        with pytest.raises(mynah.RunError, match=said):
            WRITES.run(policies=mynah.Policies("wrong", victims=victims))
    striped = WRITES.replace(set={"allocation.placement": "striped"})
    with pytest.raises(mynah.RunError, match="put a write into plane 99 of"):
        striped.run(policies=mynah.Policies("wrong", placement=lambda planes: 99))


def test_what_goes_with_the_drives_own_policies_alone_is_refused(tmp_path):
    own = mynah.Policies("greedy", victims=greedy)
    with pytest.raises(mynah.Error, match="the policies `greedy` are not the drive's own"):
        WRITES.run(policies=own, save_state=tmp_path / "state")
    with pytest.raises(mynah.UsageError, match="neither victims nor placement"):
        mynah.Policies("nothing")
    with pytest.raises(mynah.UsageError, match="ages='filled'"):
        mynah.Policies("ages", placement=lambda planes: 0, ages="filled")
