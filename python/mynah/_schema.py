"""The classes of results. Made by python/generate; changes here are lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

from mynah._named import Named

_Data = Mapping[str, Any]
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameEntry:
    """The time that one flow's requests waited for a resource while someone had it. Parts that
    wait side by side add up.
    """

    holder: str
    """Who had it: a flow's name, `gc` or `mapping`; with several reclaim unit handles `gc for
    handle 1`, the one whose writes needed the room. Of a served drive also `admin commands`:
    what Format, Sanitize and Namespace Management left the drive to do.
    """
    resource: str
    """What it waited for."""
    victim: str
    """The flow that waited."""
    wait_ns: float
    """For how long."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            holder=data["holder"],
            resource=data["resource"],
            victim=data["victim"],
            wait_ns=data["wait_ns"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """What repeated runs of one experiment, with different seeds, say together."""

    level: float
    """The probability with which a true mean lies in its interval."""
    metrics: tuple[Metric, ...]
    """The quantities that all of them measured."""
    point: Mapping[str, str]
    """Of a sweep: what was varied, and its value in these runs."""
    precision: JointPrecision | None
    """Of runs that last until something is known: how well it is."""
    runs: int
    """How many runs."""
    steadiness: Mapping[str, int]
    """How many of the runs found the drive steady, not steady, or were too short to say."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            level=data["level"],
            metrics=tuple(Metric._read(item) for item in data["metrics"]),
            point=(MappingProxyType(data["point"])) if "point" in data else _NOTHING,
            precision=(None if data["precision"] is None else JointPrecision._read(data["precision"])) if "precision" in data else None,
            runs=data["runs"],
            steadiness=(MappingProxyType(data["steadiness"])) if "steadiness" in data else _NOTHING,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlacement:
    """Data placement during the measurement, of a drive that has it. The first three are what the
    FDP statistics log counts.
    """

    erased_bytes: int
    """Bytes erased (MBE), in whole reclaim units."""
    handles: tuple[HandleCost, ...]
    """By reclaim unit handle, from 0."""
    host_bytes: int
    """Bytes that hosts wrote (HBMW)."""
    media_bytes: int
    """Bytes programmed, whatever they were (MBMW): `host_bytes` times `waf`."""
    reclaim_unit_bytes: int
    """Bytes of a reclaim unit."""
    unknown_writes: int
    """Writes that named no placement handle of their namespace, and went to its first."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            erased_bytes=data["erased_bytes"],
            handles=tuple(HandleCost._read(item) for item in data["handles"]),
            host_bytes=data["host_bytes"],
            media_bytes=data["media_bytes"],
            reclaim_unit_bytes=data["reclaim_unit_bytes"],
            unknown_writes=data["unknown_writes"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What the drive counted during the measurement."""

    block_erases_max: int
    """Erases of the most often erased block since the drive was built."""
    cache_hit_ratio: float | None
    """Hits in the data cache; null without look-ups."""
    cache_lookups: int
    """Look-ups in the data cache."""
    channel_utilisation: tuple[float, ...]
    """Busy time of each channel over the measured time."""
    cmt_hit_ratio: float | None
    """Hits in the cached mapping table; null without look-ups."""
    cmt_lookups: int
    """Look-ups in the cached mapping table."""
    copybacks: int
    """Flash pages that garbage collection moved without crossing a channel."""
    die_utilisation: tuple[float, ...]
    """Busy time of each die over the measured time."""
    dram_row_hit_ratio: float | None
    """Accesses to the DRAM's rows that found them open; null where rows do not stay open."""
    dram_utilisation: float
    """Busy time of the cache's DRAM over the measured time."""
    energy_j: float | None
    """Energy spent in the measurement on flash operations, channels and idling, in joules; null
    unless the drive says what they cost.
    """
    erase_suspensions: int
    """Erases suspended for reads or programs, each time."""
    erases: int
    """Blocks erased."""
    flash_programs: int
    """Flash pages programmed, all causes."""
    flash_reads: int
    """Flash pages read, all causes."""
    flash_units_programmed: int
    """Mapping units programmed with user data, relocations included."""
    full_merges: int
    """Those that copied a logical block to another block."""
    gc_programs: int
    """Flash pages programmed for garbage collection."""
    gc_reads: int
    """Flash pages read for garbage collection."""
    gc_runs: int
    """Blocks that garbage collection has finished."""
    gc_units_moved: int
    """Mapping units that garbage collection moved."""
    host_bytes_written: int
    """Bytes that hosts wrote: a write of a part of a unit counts as that part."""
    host_units_written: int
    """Mapping units that hosts wrote."""
    key_value: KeyValueCounts | None
    """What key-value namespaces hold and did, if there are any."""
    link_utilisation: tuple[float, ...]
    """Busy time of the link, towards the drive and towards the host."""
    mapping_programs: int
    """Translation pages programmed."""
    mapping_reads: int
    """Translation pages read."""
    media_errors: int
    """Media operations that failed by injected faults."""
    merge_reads: int
    """Flash pages read to complete partly overwritten units."""
    multi_plane_operations: int
    """Multi-plane operations."""
    own_policies: OwnPolicies | None
    """Policies that were not the drive's own; null where it decided by itself."""
    padded_units: int
    """Units a programmed page had room for but did not get."""
    partial_merges: int
    """Those that copied what a log block lacked to become a data block."""
    placement: DataPlacement | None
    """What data placement did; null on drives without it."""
    program_suspensions: int
    """Programs suspended for reads, each time."""
    read_retries: int
    """Retries of page reads."""
    retired_blocks: int
    """Blocks retired after failures."""
    slc: SlcCacheUse | None
    """What became of writes in a pSLC cache; null on drives without one."""
    switch_merges: int
    """Merges of hybrid mapping that copied nothing: a log block became a data block."""
    units_lost: int
    """Units whose latest data were lost: in a power cut, or because no flash took them."""
    units_lost_written: int
    """Of these, units whose latest data were written in this run, its ramp included. Others were
    dirty in the data cache before it began.
    """
    waf: float | None
    """Write amplification: bytes programmed, translation pages and padding included, for each byte
    written by hosts; null without writes.
    """
    waf_parts: WafParts | None
    """What it is made of; null without writes."""
    wear: Wear | None
    """How worn the blocks are, and what follows; null where that is not known."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            block_erases_max=data["block_erases_max"],
            cache_hit_ratio=data["cache_hit_ratio"],
            cache_lookups=data["cache_lookups"],
            channel_utilisation=tuple(data["channel_utilisation"]),
            cmt_hit_ratio=data["cmt_hit_ratio"],
            cmt_lookups=data["cmt_lookups"],
            copybacks=(data["copybacks"]) if "copybacks" in data else 0,
            die_utilisation=tuple(data["die_utilisation"]),
            dram_row_hit_ratio=(data["dram_row_hit_ratio"]) if "dram_row_hit_ratio" in data else None,
            dram_utilisation=(data["dram_utilisation"]) if "dram_utilisation" in data else 0.0,
            energy_j=(data["energy_j"]) if "energy_j" in data else None,
            erase_suspensions=(data["erase_suspensions"]) if "erase_suspensions" in data else 0,
            erases=data["erases"],
            flash_programs=data["flash_programs"],
            flash_reads=data["flash_reads"],
            flash_units_programmed=data["flash_units_programmed"],
            full_merges=(data["full_merges"]) if "full_merges" in data else 0,
            gc_programs=data["gc_programs"],
            gc_reads=data["gc_reads"],
            gc_runs=data["gc_runs"],
            gc_units_moved=data["gc_units_moved"],
            host_bytes_written=(data["host_bytes_written"]) if "host_bytes_written" in data else 0,
            host_units_written=data["host_units_written"],
            key_value=(None if data["key_value"] is None else KeyValueCounts._read(data["key_value"])) if "key_value" in data else None,
            link_utilisation=tuple(data["link_utilisation"]),
            mapping_programs=data["mapping_programs"],
            mapping_reads=data["mapping_reads"],
            media_errors=data["media_errors"],
            merge_reads=data["merge_reads"],
            multi_plane_operations=data["multi_plane_operations"],
            own_policies=(None if data["own_policies"] is None else OwnPolicies._read(data["own_policies"])) if "own_policies" in data else None,
            padded_units=data["padded_units"],
            partial_merges=(data["partial_merges"]) if "partial_merges" in data else 0,
            placement=(None if data["placement"] is None else DataPlacement._read(data["placement"])) if "placement" in data else None,
            program_suspensions=(data["program_suspensions"]) if "program_suspensions" in data else 0,
            read_retries=(data["read_retries"]) if "read_retries" in data else 0,
            retired_blocks=data["retired_blocks"],
            slc=(None if data["slc"] is None else SlcCacheUse._read(data["slc"])) if "slc" in data else None,
            switch_merges=(data["switch_merges"]) if "switch_merges" in data else 0,
            units_lost=data["units_lost"],
            units_lost_written=(data["units_lost_written"]) if "units_lost_written" in data else 0,
            waf=data["waf"],
            waf_parts=(None if data["waf_parts"] is None else WafParts._read(data["waf_parts"])) if "waf_parts" in data else None,
            wear=(None if data["wear"] is None else Wear._read(data["wear"])) if "wear" in data else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How well a quantity is known."""

    half_width: float | None
    """Half its interval; null where the batches are not independent, or collected too few blocks
    to say.
    """
    name: str
    """Which, by flow, kind of command and key of the result."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            half_width=data["half_width"],
            name=data["name"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowResult:
    """What one flow saw. Commands that failed are in `errors` only."""

    delete: Side | None
    """Deletes."""
    exist: Side | None
    """Exists."""
    flush: Side
    """Its flushes."""
    list: Side | None
    """Lists."""
    name: str
    """The flow's name. Of a served drive: the NQN of a host that had an I/O queue, with its
    identifier where that is needed to tell it from another.
    """
    read: Side
    """Its reads."""
    retrieve: Side | None
    """Retrieves, of keys that there were not as well."""
    slowdown: float | None
    """Mean latency shared over mean latency alone."""
    store: Side | None
    """Stores of new keys."""
    trim: Side
    """Its trims."""
    update: Side | None
    """Stores to keys that existed."""
    write: Side
    """Its writes."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            delete=(Side._read(data["delete"])) if "delete" in data else None,
            exist=(Side._read(data["exist"])) if "exist" in data else None,
            flush=Side._read(data["flush"]),
            list=(Side._read(data["list"])) if "list" in data else None,
            name=data["name"],
            read=Side._read(data["read"]),
            retrieve=(Side._read(data["retrieve"])) if "retrieve" in data else None,
            slowdown=data["slowdown"],
            store=(Side._read(data["store"])) if "store" in data else None,
            trim=Side._read(data["trim"]),
            update=(Side._read(data["update"])) if "update" in data else None,
            write=Side._read(data["write"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A guest whose instructions were the clock."""

    busy_instructions: int
    """Those of them outside loops around PAUSE in the kernel, where a processor waits."""
    instruction_ns: int
    """An instruction takes so long."""
    instructions: int
    """Instructions of all processors, which take turns, up to the guest's last access to the
    drive.
    """
    marks: tuple[GuestMark, ...]
    """What the guest has marked: the difference of two is what lies between them."""
    marks_lost: int | None
    """Marks that were too many to be kept."""
    processors: tuple[GuestProcessor, ...]
    """By processor."""
    wait: GuestWait
    """What it executed while it had I/O under way."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            busy_instructions=data["busy_instructions"],
            instruction_ns=data["instruction_ns"],
            instructions=data["instructions"],
            marks=tuple(GuestMark._read(item) for item in data["marks"]),
            marks_lost=(data["marks_lost"]) if "marks_lost" in data else None,
            processors=tuple(GuestProcessor._read(item) for item in data["processors"]),
            wait=GuestWait._read(data["wait"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestMark:
    """A mark that a guest has set."""

    at_ns: int
    """When."""
    number: int
    """What it wrote."""
    processors: tuple[GuestProcessor, ...]
    """What its processors had executed by then."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            at_ns=data["at_ns"],
            number=data["number"],
            processors=tuple(GuestProcessor._read(item) for item in data["processors"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestProcessor:
    """A guest's processor."""

    idle_instructions: int
    """Those of them in loops around PAUSE in the kernel."""
    instructions: int
    """Instructions."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            idle_instructions=data["idle_instructions"],
            instructions=data["instructions"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestWait:
    """What a guest executed while it had I/O under way."""

    commands: int
    """I/O commands that were completed."""
    idle_instructions: int
    """Those of them in which processors waited."""
    idle_per_command: float | None
    """Of those in which processors waited, for each command."""
    instructions: int
    """Instructions while at least one was under way."""
    instructions_per_command: float | None
    """Of all, for each command."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            commands=data["commands"],
            idle_instructions=data["idle_instructions"],
            idle_per_command=data["idle_per_command"],
            instructions=data["instructions"],
            instructions_per_command=data["instructions_per_command"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HandleCost:
    """What the data of one reclaim unit handle have cost."""

    host_bytes: int
    """Bytes that hosts wrote."""
    moved_bytes: int
    """Bytes that collection moved."""
    moved_for_bytes: tuple[int, ...]
    """Of the bytes moved: for the writes of which handle room was made."""
    programmed_bytes: int
    """Bytes programmed for what hosts wrote, pages that were not full as a whole: less than was
    written where the cache absorbed rewrites.
    """
    units_closed: int
    """And filled, or closed before they were full."""
    units_opened: int
    """Reclaim units that its writes have opened."""
    waf: float | None
    """Bytes programmed and moved for each byte written; null without writes."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            host_bytes=data["host_bytes"],
            moved_bytes=data["moved_bytes"],
            moved_for_bytes=tuple(data["moved_for_bytes"]),
            programmed_bytes=data["programmed_bytes"],
            units_closed=data["units_closed"],
            units_opened=data["units_opened"],
            waf=data["waf"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a host counted that used a drive over a network: over the whole run, whatever part of
    it was measured.
    """

    checked_blocks: int | None
    """Blocks whose contents were checked; null if that was not asked for."""
    checked_values: int | None
    """Values that were checked; absent if that was not asked for."""
    completed: int
    """Commands that succeeded."""
    failed: int
    """Commands that failed."""
    lost_connections: int
    """Connections of I/O queues that were lost."""
    mismatched_blocks: int
    """Blocks that had other contents than they should."""
    mismatched_values: int | None
    """Keys that had other values than they should, or none, or one in spite of a Delete."""
    misses: int | None
    """Commands that found no such key; absent on a namespace of blocks."""
    not_issued_ns: float
    """The end of the runtime whose I/Os were not issued, because the target did not keep up with
    the rate at which they were to come.
    """
    queues: int
    """I/O queues, each with a connection of its own."""
    reconnects: int
    """How often a controller was connected anew."""
    retried: int
    """Commands that were issued again because their connection was lost, or because the access
    state of the namespace (ANA) did not allow them before.
    """
    target: str
    """Where the drive was."""
    unknown: int
    """Commands whose end is not known."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            checked_blocks=data["checked_blocks"],
            checked_values=(data["checked_values"]) if "checked_values" in data else None,
            completed=data["completed"],
            failed=data["failed"],
            lost_connections=data["lost_connections"],
            mismatched_blocks=data["mismatched_blocks"],
            mismatched_values=(data["mismatched_values"]) if "mismatched_values" in data else None,
            misses=(data["misses"]) if "misses" in data else None,
            not_issued_ns=data["not_issued_ns"],
            queues=data["queues"],
            reconnects=data["reconnects"],
            retried=data["retried"],
            target=data["target"],
            unknown=data["unknown"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JointPrecision:
    """The same of several runs that differ in their seed only: of their means."""

    asked: float
    """What was asked for."""
    half_width: float | None
    """The widest interval of all means, from the intervals of the runs; null where one is not
    known at all.
    """
    known: bool
    """Whether the mean of every quantity is known so well."""
    limiting: str | None
    """Which quantity has it; null if nothing was looked at."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            asked=data["asked"],
            half_width=data["half_width"],
            known=data["known"],
            limiting=data["limiting"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValueCounts:
    """The key-value namespaces of a drive, all together, at the end of the measurement, and what
    their index and request managers did in it.
    """

    allocated_bytes: int
    """Bytes of the mapping units that they take."""
    capacity_bytes: int
    """Bytes of the mapping units that they may take."""
    flash_reads_per_retrieve: float | None
    """Flash pages read for hosts and for the index, for each Retrieve; null without Retrieves, and
    where other commands read as well an upper bound.
    """
    index_dram_pages: int | None
    """Of these, how many fit into its DRAM; null: all."""
    index_hit_ratio: float | None
    """Those that found their page in DRAM; null without any."""
    index_lookups: int
    """Looks at pages of the index."""
    index_pages: int
    """Pages of the index."""
    keys: int
    """Pairs that there are."""
    live_bytes: int | None
    """Bytes of their keys and values; null where that is not known."""
    manager_utilisation: float
    """Busy time of the request managers over the measured time, of all of them 1."""
    misses: int
    """Commands that found no such key: Retrieves, Exists, Deletes and Lists of none."""
    space_amplification: float | None
    """Allocated bytes over live ones; null without any."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            allocated_bytes=data["allocated_bytes"],
            capacity_bytes=data["capacity_bytes"],
            flash_reads_per_retrieve=data["flash_reads_per_retrieve"],
            index_dram_pages=data["index_dram_pages"],
            index_hit_ratio=data["index_hit_ratio"],
            index_lookups=data["index_lookups"],
            index_pages=data["index_pages"],
            keys=data["keys"],
            live_bytes=data["live_bytes"],
            manager_utilisation=data["manager_utilisation"],
            misses=data["misses"],
            space_amplification=data["space_amplification"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """A distribution of durations."""

    max: float
    """The longest."""
    mean: float
    """The mean."""
    min: float
    """The shortest."""
    percentiles: Percentiles
    """What so many per cent do not exceed; within 1/256."""
    stddev: float
    """The standard deviation."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            max=data["max"],
            mean=data["mean"],
            min=data["min"],
            percentiles=Percentiles._read(data["percentiles"]),
            stddev=data["stddev"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestStage:
    """The stage in which a command was for longest."""

    ns: float
    """Time in it."""
    stage: str
    """The stage's name."""
    waited_for: LongestWait | None
    """If it waited there: for what. Null where that is not known, as of a drive that is served,
    and where no single wait was long.
    """

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            ns=data["ns"],
            stage=data["stage"],
            waited_for=None if data["waited_for"] is None else LongestWait._read(data["waited_for"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestWait:
    """The longest wait of a command's parts."""

    held_ns: float
    """How long that was."""
    holder: str
    """Who had that for the longest part of the wait: a flow, or `gc`, `mapping`, `index`,
    `compaction`.
    """
    ns: float
    """How long."""
    resource: str
    """What it waited for."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            held_ns=data["held_ns"],
            holder=data["holder"],
            ns=data["ns"],
            resource=data["resource"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A quantity over several runs. The true mean lies within `half_width` of `mean`."""

    half_width: float | None
    """Half the width of the confidence interval of the mean; null for one run."""
    mean: float
    """The mean over the runs."""
    name: str
    """Which, by flow, kind of command and key of the result."""
    stddev: float | None
    """The standard deviation of a run; null for one run."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            half_width=data["half_width"],
            mean=data["mean"],
            name=data["name"],
            stddev=data["stddev"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPolicies:
    """Policies that decided in the drive's stead."""

    hash: str
    """A hash of their name, of what they replace and of the text that they are known by: 16
    hexadecimal digits.
    """
    name: str
    """What they are called."""
    replaced: tuple[str, ...]
    """What they decided: `victims`, `placement`, `heat`, `admission`, `scheduling`."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            hash=data["hash"],
            name=data["name"],
            replaced=tuple(data["replaced"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PathCredit:
    """What of the modelled time the real path between host and drive was credited with: answers
    left so long before their modelled end.
    """

    commands: int
    """Commands that were modelled."""
    credit_ns: float
    """The credit, as it was last."""
    held: int
    """Those that came sooner after another's answer than the model could still take them: their
    latency is longer by what follows.
    """
    held_mean_ns: float
    """By how much, on average over all."""
    short: int
    """Those that take less on the modelled drive than the credit: they were answered late."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            commands=data["commands"],
            credit_ns=data["credit_ns"],
            held=data["held"],
            held_mean_ns=data["held_mean_ns"],
            short=data["short"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Selected percentiles."""

    p50: float
    """The median."""
    p90: float
    """The 90th."""
    p95: float
    """The 95th."""
    p99: float
    """The 99th."""
    p99_9: float
    """The 99.9th."""
    p99_99: float
    """The 99.99th."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            p50=data["50"],
            p90=data["90"],
            p95=data["95"],
            p99=data["99"],
            p99_9=data["99.9"],
            p99_99=data["99.99"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How precisely what is asked for was known when a run ended by itself (`runtime = "auto"`).
    Shares are half confidence intervals of 95 %, relative to the mean.
    """

    allowed: float
    """What this run may lie off: more than that by the root of the number of runs."""
    asked: float
    """What was asked for; of a repetition, of the mean over its runs."""
    batch_ns: float
    """How long a batch is."""
    batches: int
    """Batches of equal time that the intervals are taken from."""
    bound_reached: bool
    """Whether the run ended because very much was simulated, and not because it was known."""
    estimates: tuple[Estimate, ...]
    """Every quantity."""
    half_width: float | None
    """The widest interval of all quantities; null where one is not known at all."""
    known: bool
    """Whether every quantity was known so well."""
    limiting: str | None
    """Which quantity has it, by flow, kind of command and key of the result; null if nothing was
    looked at.
    """
    requests: int
    """Commands completed when it was looked at last."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            allowed=data["allowed"],
            asked=data["asked"],
            batch_ns=data["batch_ns"],
            batches=data["batches"],
            bound_reached=data["bound_reached"],
            estimates=tuple(Estimate._read(item) for item in data["estimates"]),
            half_width=data["half_width"],
            known=data["known"],
            limiting=data["limiting"],
            requests=data["requests"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFields:
    """The result of one run."""

    arrival_uncertainty_ns: Latency | None
    """Real time only: the gap between two looks at a queue."""
    blame: tuple[BlameEntry, ...]
    """Who waited for whom."""
    _device: Device | None
    """What the drive counted; null where only a host's side is known."""
    drive: str
    """The drive's name."""
    drive_hash: str
    """A hash over everything that describes the drive."""
    events: int
    """Events that the model processed in that time."""
    failures: tuple[str, ...]
    """What went wrong with what the drive keeps: writes that were refused or lost, a state that
    was not saved. Each kind once, as it happened.
    """
    fairness: float | None
    """The smallest slowdown of a flow over the largest (equation 1)."""
    flows: Named[FlowResult]
    """Every flow of the workload."""
    functional: bool
    """Whether only what the drive does was asked for (`serve --functional`), and not when: then a
    result that must not be trusted is no failure.
    """
    guest: Guest | None
    """Of a drive in lock-step with a guest (`serve --clock guest`): what that has executed."""
    host: Host | None
    """What a host counted that used the drive over a network."""
    lateness_ns: Latency | None
    """Real time only: how late completions became visible."""
    notes: tuple[str, ...]
    """Remarks about the run: what was assumed, and what ended it early."""
    path_credit: PathCredit | None
    """Real time only, of a drive whose link is the network: what of the modelled time the real
    path was credited with.
    """
    point: Mapping[str, str]
    """Of a sweep: what was varied, and its value in this run."""
    precision: Precision | None
    """Of a run that lasts until something is known: how well it is; null of others."""
    requests: int
    """Commands completed in that time, failed ones included."""
    run: Run = field(compare=False)
    """What depends on the machine."""
    schema: str
    """Which version of this document."""
    seed: int
    """The seed of all randomness."""
    settled: Settling | None
    """How the drive settled before the measurement; null if it did not."""
    simulated_ns: float
    """From the start of the measurement to its end: the last completion, the end of the runtime,
    or what ended the run before its time, whichever is later. Of a served drive, how long it
    was served.
    """
    slowest: tuple[SlowCommand, ...]
    """The slowest commands that succeeded, the slowest first."""
    stages: tuple[StageTime, ...]
    """Where the time of all successful commands of all flows went."""
    steadiness: Steadiness | None
    """Whether what was measured is of a drive at rest; null where nothing was turned over, or that
    is not known.
    """
    steady: Steady | None
    """Of a run until the steady state: how that was found. All else is about its window."""
    trace_writes: tuple[TraceWrites, ...]
    """What the drive was taken to have been written by each trace before the run, where it starts
    from the steady state of the flows' own writes.
    """
    untrusted: str | None
    """Why the result must not be trusted, if it must not."""
    weighted_speedup: float | None
    """Sum over the flows of the mean latency alone over the mean latency shared (equation 2)."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            arrival_uncertainty_ns=None if data["arrival_uncertainty_ns"] is None else Latency._read(data["arrival_uncertainty_ns"]),
            blame=tuple(BlameEntry._read(item) for item in data["blame"]),
            _device=None if data["device"] is None else Device._read(data["device"]),
            drive=data["drive"],
            drive_hash=data["drive_hash"],
            events=data["events"],
            failures=(tuple(data["failures"])) if "failures" in data else (),
            fairness=data["fairness"],
            flows=Named(tuple(FlowResult._read(item) for item in data["flows"])),
            functional=(data["functional"]) if "functional" in data else False,
            guest=(None if data["guest"] is None else Guest._read(data["guest"])) if "guest" in data else None,
            host=(None if data["host"] is None else Host._read(data["host"])) if "host" in data else None,
            lateness_ns=None if data["lateness_ns"] is None else Latency._read(data["lateness_ns"]),
            notes=(tuple(data["notes"])) if "notes" in data else (),
            path_credit=(None if data["path_credit"] is None else PathCredit._read(data["path_credit"])) if "path_credit" in data else None,
            point=(MappingProxyType(data["point"])) if "point" in data else _NOTHING,
            precision=(None if data["precision"] is None else Precision._read(data["precision"])) if "precision" in data else None,
            requests=data["requests"],
            run=Run._read(data["run"]),
            schema=data["schema"],
            seed=data["seed"],
            settled=(None if data["settled"] is None else Settling._read(data["settled"])) if "settled" in data else None,
            simulated_ns=data["simulated_ns"],
            slowest=(tuple(SlowCommand._read(item) for item in data["slowest"])) if "slowest" in data else (),
            stages=tuple(StageTime._read(item) for item in data["stages"]),
            steadiness=(None if data["steadiness"] is None else Steadiness._read(data["steadiness"])) if "steadiness" in data else None,
            steady=(None if data["steady"] is None else Steady._read(data["steady"])) if "steady" in data else None,
            trace_writes=(tuple(TraceWrites._read(item) for item in data["trace_writes"])) if "trace_writes" in data else (),
            untrusted=data["untrusted"],
            weighted_speedup=data["weighted_speedup"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What depends on the machine that ran the experiment."""

    command: str
    """The command line."""
    cpu_s: float
    """Processor time of the run itself."""
    max_rss_bytes: int
    """The process's largest resident set."""
    setup_cpu_s: float
    """Processor time of building and preconditioning the drive."""
    version: str
    """Mynah's version."""
    wall_s: float
    """Wall time of the run."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            command=data["command"],
            cpu_s=data["cpu_s"],
            max_rss_bytes=data["max_rss_bytes"],
            setup_cpu_s=data["setup_cpu_s"],
            version=data["version"],
            wall_s=data["wall_s"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """How a drive settled before a measurement: the same load, or random writes, timed and not
    measured.
    """

    events: int
    """Events that the model processed in that time."""
    ns: float
    """For how long on the drive's clock."""
    random_writes: bool
    """Whether it was random writes that it settled under (`steady:random`), and not the run's own
    flows.
    """
    reason: str | None
    """Why it was not, or why that could not be said; null if it was."""
    requests: int
    """Commands completed in that time."""
    verdict: str
    """Whether the drive was at rest when the measurement began."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            events=data["events"],
            ns=data["ns"],
            random_writes=(data["random_writes"]) if "random_writes" in data else False,
            reason=data["reason"],
            requests=data["requests"],
            verdict=data["verdict"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One kind of command of one flow."""

    bw_bytes_per_s: float
    """Bytes a second over the same time."""
    bytes: int
    """Bytes that they moved or trimmed."""
    e2e_ns: Latency | None
    """From the request's creation to the completion seen by the host."""
    errors: Mapping[str, int]
    """Commands that failed, by the name of their status; `sct_1h_sc_83h` (type and code) where it
    has none.
    """
    iops: float
    """Commands a second, from the flow's first request in the measurement to the end of its load:
    its last completion, or the end of its runtime, or what ended the run before its time.
    """
    ios: int
    """Commands that succeeded."""
    lat_hdr: str | None
    """The distribution of `lat_ns`: a compressed HdrHistogram of version 2 in Base64, as its
    libraries decode it. Values are nanoseconds, to three digits.
    """
    lat_ns: Latency | None
    """From insertion into the submission queue to the completion seen by the host."""
    stages: tuple[StageTime, ...]
    """Where that time went."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            bw_bytes_per_s=data["bw_bytes_per_s"],
            bytes=data["bytes"],
            e2e_ns=None if data["e2e_ns"] is None else Latency._read(data["e2e_ns"]),
            errors=(MappingProxyType(data["errors"])) if "errors" in data else _NOTHING,
            iops=data["iops"],
            ios=data["ios"],
            lat_hdr=(data["lat_hdr"]) if "lat_hdr" in data else None,
            lat_ns=None if data["lat_ns"] is None else Latency._read(data["lat_ns"]),
            stages=(tuple(StageTime._read(item) for item in data["stages"])) if "stages" in data else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlcCacheUse:
    """A pSLC write cache during the measurement, and how full it is at the end."""

    cached_bytes: int
    """Bytes of hosts that were programmed into the cache, and past it to native blocks."""
    direct_bytes: int
    empty_room_bytes: int
    erases: int
    """Blocks of it that were erased."""
    filled_bytes: int
    """What its blocks hold at the end, valid or not, and what of it is valid."""
    folded_bytes: int
    """Bytes that were folded, that is moved from it to native blocks."""
    idle_to_empty_ns: float | None
    """After how much idle time it is empty, what its open blocks hold apart; null if nothing is
    folded in idle time.
    """
    room_bytes: int
    """The burst that fits at the end, if nothing is folded meanwhile, and the one that fits when
    it is empty.
    """
    valid_bytes: int

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            cached_bytes=data["cached_bytes"],
            direct_bytes=data["direct_bytes"],
            empty_room_bytes=data["empty_room_bytes"],
            erases=data["erases"],
            filled_bytes=data["filled_bytes"],
            folded_bytes=data["folded_bytes"],
            idle_to_empty_ns=data["idle_to_empty_ns"],
            room_bytes=data["room_bytes"],
            valid_bytes=data["valid_bytes"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowCommand:
    """One of the slowest commands."""

    bytes: int
    """Bytes that it moved or trimmed."""
    created_ns: float
    """When it was created, on the drive's clock: the time that `--timeline-window` takes."""
    flow: str
    """Whose it was."""
    kind: str
    """What kind of command: read, write, …"""
    lat_ns: float
    """From its creation to the completion seen by the host."""
    longest: LongestStage | None
    """Where most of that time went."""
    stages: tuple[SlowStage, ...]
    """The stages that it spent time in, in the order in which an I/O passes them."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            bytes=data["bytes"],
            created_ns=data["created_ns"],
            flow=data["flow"],
            kind=data["kind"],
            lat_ns=data["lat_ns"],
            longest=None if data["longest"] is None else LongestStage._read(data["longest"]),
            stages=tuple(SlowStage._read(item) for item in data["stages"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStage:
    """How long a command was in a stage."""

    ns: float
    """Time in it."""
    stage: str
    """The stage's name."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            ns=data["ns"],
            stage=data["stage"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """How much time commands spent in one stage. Means and percentile are over all commands, also
    those that did not pass the stage, so that the means add up to the mean latency.
    """

    count: int
    """Commands that spent any time in it."""
    mean_ns: float
    """Mean time of a command in it."""
    p99_ns: float
    """What 99 % of the commands do not exceed; within 1/128."""
    share: float
    """Its share of the mean latency from creation to completion."""
    stage: str
    """The stage's name."""
    tail_mean_ns: float
    """Mean time in it of the slowest 1 % of the commands."""
    tail_share: float
    """Its share of their mean latency."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            count=data["count"],
            mean_ns=data["mean_ns"],
            p99_ns=data["p99_ns"],
            share=data["share"],
            stage=data["stage"],
            tail_mean_ns=data["tail_mean_ns"],
            tail_share=data["tail_share"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Steadiness:
    """The turnover of a drive's blocks during a measurement, and what it says."""

    blocks_collected: int
    """Blocks that were emptied and erased."""
    blocks_filled: int
    """Blocks that were opened to be filled."""
    free_blocks: tuple[int, ...]
    """Free blocks when the measurement began, and when it ended."""
    reason: str | None
    """Why it was not, or why that cannot be said; null if it was."""
    verdict: str
    """Whether the drive was at rest."""
    waf_collection: float | None
    """The same as it was measured; null without programs."""
    waf_expected: float | None
    """Write amplification of garbage collection alone that was computed for these writes: units
    programmed for each that was not moved; null if none was computed.
    """

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            blocks_collected=data["blocks_collected"],
            blocks_filled=data["blocks_filled"],
            free_blocks=tuple(data["free_blocks"]),
            reason=data["reason"],
            verdict=data["verdict"],
            waf_collection=data["waf_collection"],
            waf_expected=data["waf_expected"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """A search for the steady state by SNIA's rule."""

    even: bool
    """Whether the rounds of the window are even: excursion and slope."""
    excursion: float
    """How far the rounds of the window lie apart, relative to their mean; at most 0.2."""
    iops: tuple[float, ...]
    """I/Os a second of every round."""
    reached: bool
    """Whether it was found: the rounds of the window are even, and the drive was at rest in them.
    """
    round_ns: float
    """How long a round is."""
    rounds: int
    """Rounds that were run; the last five are the window."""
    slope: float
    """By how much the linear fit over the window changes, relative to their mean; at most 0.1."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            even=(data["even"]) if "even" in data else False,
            excursion=data["excursion"],
            iops=tuple(data["iops"]),
            reached=data["reached"],
            round_ns=data["round_ns"],
            rounds=data["rounds"],
            slope=data["slope"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceWrites:
    """What preconditioning took the writes of a trace to be."""

    assumed: str | None
    """The distribution that was assumed, over all of the namespace (`trace_distribution`); null if
    the trace was read.
    """
    bytes: int | None
    """How much of the namespace it writes, in whole mapping units; null if it was not read for
    that.
    """
    flow: str
    """The flow that replays it."""
    namespace: int
    """The namespace that it writes."""
    share: float | None
    """The share of the namespace that this is."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            assumed=data["assumed"],
            bytes=data["bytes"],
            flow=data["flow"],
            namespace=data["namespace"],
            share=data["share"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WafParts:
    """Write amplification by cause: bytes programmed for each byte that hosts wrote. The parts add
    up to `waf`.
    """

    collection: float
    """What garbage collection moved, and room in its pages."""
    folding: float | None
    """What was folded out of a pSLC write cache, and room in its pages."""
    host: float
    """What hosts wrote. Below 1 where the cache absorbed rewrites."""
    padding: float
    """Room in hosts' pages that stayed empty."""
    rest_of_units: float
    """The rest of mapping units that hosts wrote in part."""
    tables: float
    """Translation pages."""
    wear_levelling: float
    """What was moved to level wear."""

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            collection=data["collection"],
            folding=(data["folding"]) if "folding" in data else None,
            host=data["host"],
            padding=data["padding"],
            rest_of_units=data["rest_of_units"],
            tables=data["tables"],
            wear_levelling=data["wear_levelling"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wear:
    """How worn a drive's blocks are, since it was built."""

    erases_mean: float
    """Mean erases of a block."""
    erases_min: int
    """Erases of the least worn block in use."""
    levelling_runs: int
    """Blocks whose data was moved to level wear, in the measurement."""
    life_used: float | None
    """Mean erases over the rated ones; null unless the drive says what blocks endure."""
    lifetime_left_s: float | None
    """The same as a time, at the measurement's rate of writes."""
    spare_blocks: int
    """Blocks that may still be retired before the drive takes no more writes, in the plane that
    has the fewest left.
    """
    spread: int
    """The largest difference between two blocks in use of one plane."""
    write_protected: bool
    """Whether the drive takes no more writes."""
    writes_left_bytes: float | None
    """An estimate of what hosts can still write until blocks have had their rated erases on
    average, at the write amplification of the measurement; null without rating or writes.
    """

    @classmethod
    def _read(cls, data: _Data) -> Self:
        return cls(
            erases_mean=data["erases_mean"],
            erases_min=data["erases_min"],
            levelling_runs=data["levelling_runs"],
            life_used=data["life_used"],
            lifetime_left_s=data["lifetime_left_s"],
            spare_blocks=data["spare_blocks"],
            spread=data["spread"],
            write_protected=data["write_protected"],
            writes_left_bytes=data["writes_left_bytes"],
        )
