"""The options of a flow. Made by python/generate; changes here are lost."""

from __future__ import annotations

from typing import TypedDict

from mynah._words import Value


class FlowOptions(TypedDict, total=False):
    """The options of a flow, with the names of fio and of the command."""

    kv: Value
    """Makes it a flow of key-value commands: `ycsb-a` to `ycsb-f`, `store`, `update`, `retrieve`,
    `read-modify-write`, `delete`, `exist`, `list`, `retrieve-miss`, or shares of them such as
    `retrieve=95,update=5`.
    """
    keys: Value
    """Keys on the drive when the flow begins (of a flow that only stores: that it stores), as in
    `2.6m`; k, m and g are powers of 1000. 100k if not given.
    """
    key_size: Value
    """Bytes of a key, or `MIN-MAX`; 16 if not given."""
    value_size: Value
    """Size of a value, `MIN-MAX`, `SIZE/PERCENT:…`, `normal:MEAN/DEVIATION`, or
    `zipf:THETA/MIN-MAX`; 4k if not given.
    """
    key_distribution: Value
    """Which keys are chosen: `uniform`, `zipf:THETA`, `latest` or `sequential`; if not given
    `uniform`, but `zipf:0.99` in YCSB's mixes, and `latest` in `ycsb-d`.
    """
    misses: Value
    """The percentage of Retrieves, Exists and Deletes that go to keys that there are not; 0 if not
    given.
    """
    list_keys: Value
    """Keys that a List asks for, or `MIN-MAX`; 100 if not given, and 1-100 in `ycsb-e`."""
    rw: Value
    """`read`, `write`, `randread`, `randwrite`, `rw`, `randrw`, `trim` or `randtrim`; `read` if
    not given.
    """
    bs: Value
    """Block size; 4k if not given. `4k,64k,1m` are those of reads, writes and trims; what is not
    given is as the one before.
    """
    bsrange: Value
    """Block sizes from `MIN-MAX`, multiples of MIN; of each kind of request as in `bs`."""
    bssplit: Value
    """Block sizes with their percentages: `4k/60:64k/40`; of each kind of request as in `bs`."""
    bsnormal: Value
    """Normally distributed block sizes, `MEAN/DEVIATION`."""
    blockalign: Value
    """Addresses are multiples of this; the smallest block size if not given."""
    iodepth: Value
    """Requests each job keeps outstanding; 1 if not given."""
    numjobs: Value
    """Queue pairs, each with its own stream and limits; 1 if not given."""
    rate_iops: Value
    """Requests a second of each job, evenly spaced whatever the drive does. With `iodepth`, no
    more than that are outstanding, and the others wait in the host.
    """
    rate_interval: Value
    """In place of `rate_iops`, the time between two requests of a job."""
    rate_process: Value
    """`linear`, or `poisson`: with exponentially distributed intervals; needs `rate_iops` or
    `rate_interval`.
    """
    startdelay: Value
    """When the flow begins, after the run; a bare number counts seconds."""
    wait_for_previous: Value
    """As in fio: the flow, and those after it, begin when all before it have ended."""
    fsync: Value
    """A flush follows so many writes of each job; limits do not count it."""
    sync: Value
    """Writes are done when they are on flash (Force Unit Access)."""
    burst: Value
    """Requests are issued for a time and then not for a time, by turns: `ON/OFF`."""
    thinktime: Value
    """A pause after every `thinktime_blocks` requests of a job."""
    thinktime_blocks: Value
    """Requests between two pauses; 1 if not given."""
    rwmixread: Value
    """Percentage of reads in `rw` and `randrw`; half of what trims leave if not given."""
    rwmixtrim: Value
    """Percentage of trims in `rw` and `randrw`; 0 if not given."""
    random_distribution: Value
    """`random`, `once` (each block once before any comes again, as fio's random map; a request
    ends before one that has been used), `zipf:THETA`, `hotcold:ACCESS/SPACE` (percentages:
    90/10 sends 90 % of the requests to the first 10 % of the working set) or
    `zoned:ACCESS/SPACE:ACCESS/SPACE…` (one part after the other: 50/5:30/15:20/80).
    """
    percentage_random: Value
    """Percentage of the requests of a random flow that are random; the others are sequential."""
    random_turn: Value
    """In turns of so many requests the first ones are random, and the rest is sequential."""
    sequential_start: Value
    """Where a sequential flow starts in its working set: at the `beginning`, or at a `random`
    place of it, each job at another.
    """
    sequential_positions: Value
    """In a sequential flow of several kinds of requests, whether `each` kind goes on where its
    last request ended, as in fio, or all of them together (`shared`).
    """
    offset: Value
    """Where the working set starts, in bytes or percent of the namespace."""
    size: Value
    """The working set's length, in bytes or percent of the namespace; all of it if not given. It
    is also what each job issues, unless `io_size`, `number_ios` or `runtime` says that.
    """
    number_ios: Value
    """Requests each job issues."""
    io_size: Value
    """Bytes each job issues, or the percentage of the working set."""
    kb_base: Value
    """What `k`, `kb`, `m`, `mb` and so on are powers of in sizes: 1024, or 1000; 1024 if not
    given. `KiB` and `MiB` are powers of 1024.
    """
    runtime: Value
    """How long the flow runs, on the drive's clock; a bare number counts seconds. `auto`: until
    its figures are known as precisely as the run asks for.
    """
    time_based: Value
    """As in fio; needs `runtime`. A flow never ends merely because it has been through its working
    set.
    """
    trace: Value
    """A trace file to replay, or `-` for standard input."""
    trace_format: Value
    """The trace's format: `mqsim`, `msr`, `blkparse`, `fio`, `alibaba`, `tencent`, `systor17`,
    `fiu` or `spc`.
    """
    trace_columns: Value
    """The columns of a trace of another format, in their order, as `time:us,op,offset,size`:
    separated as in the trace, by commas or by spaces. `time` (`:s`, `:ms`, `:us`, `:ns` or
    `:100ns`; seconds if not said), `op` (words, or `:0=read`, `:0=write`), `offset` and `size`
    (bytes, `:sectors`, or bytes of a unit), `-` for a column that says nothing, `*` at the end
    for any more.
    """
    trace_action: Value
    """Which events of a blkparse trace are replayed: `D`, `Q` or `C`; `D` if not given."""
    trace_speed: Value
    """The trace is replayed at this percentage of the speed at which it was recorded."""
    trace_no_stall: Value
    """The trace is replayed as fast as the drive takes it, with `iodepth` outstanding."""
    trace_distribution: Value
    """How the trace's writes are distributed, for preconditioning, as `random_distribution`; if
    not given, the trace is read for that.
    """
    trace_time_unit: Value
    """What one tick of the trace's clock is: `ps`, `ns`, `us`, `ms` or `s`; that of the format if
    not given (`mqsim` `ns`, `msr` 100 ns).
    """
    trace_remap: Value
    """`modulo`: addresses outside the namespace are folded into it."""
    trace_percent: Value
    """The percentage of the trace that is replayed, from its start."""
    trace_repeat: Value
    """How many times the trace is replayed."""
    namespace: Value
    """The namespace, from 1."""
    priority: Value
    """Priority class of the flow's queues: `urgent`, `high`, `medium` or `low`."""
    port: Value
    """The port of an Ethernet drive that the flow's queues use, 1 or 2; they take them in turn
    otherwise.
    """
    randseed: Value
    """Seed of this flow's streams."""
    occupancy: Value
    """The percentage of the namespace that preconditioning fills."""
    channels: Value
    """Gives the flow a namespace of its own, on these channels."""
    chips: Value
    """The same, on these chips of each channel."""
    dies: Value
    """The same, on these dies of each chip."""
    planes: Value
    """The same, on these planes of each die."""
