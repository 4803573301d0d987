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
    """With `kv`: keys on the drive when the flow begins (of a flow that only stores: that it
    stores), as in `2.6m`; k, m and g are powers of 1000. Default: 100k.
    """
    key_size: Value
    """With `kv`: bytes of a key, or `MIN-MAX`. Default: 16."""
    value_size: Value
    """With `kv`: size of a value, `MIN-MAX`, `SIZE/PERCENT:…`, `normal:MEAN/DEVIATION`, or
    `zipf:THETA/MIN-MAX`. Default: 4k.
    """
    key_distribution: Value
    """With `kv`: which keys are chosen, `uniform`, `zipf:THETA`, `latest` or `sequential`.
    Default: uniform; zipf:0.99 in YCSB's mixes, latest in ycsb-d.
    """
    misses: Value
    """With `kv`: the percentage of Retrieves, Exists and Deletes that go to keys that there are
    not. Default: 0.
    """
    list_keys: Value
    """With `kv`: keys that a List asks for, or `MIN-MAX`. Default: 100; 1-100 in ycsb-e."""
    rw: Value
    """`read`, `write`, `randread`, `randwrite`, `rw`, `randrw`, `trim` or `randtrim`. Default:
    read; on the command line randread.
    """
    bs: Value
    """Block size. `4k,64k,1m` are those of reads, writes and trims; what is not given is as the
    one before. Default: 4k.
    """
    bsrange: Value
    """Block sizes from MIN to MAX, multiples of MIN; of each kind of request as in `bs`."""
    bssplit: Value
    """Block sizes with their percentages: `4k/60:64k/40`; of each kind of request as in `bs`."""
    bsnormal: Value
    """Normally distributed block sizes, `MEAN/DEVIATION`."""
    blockalign: Value
    """Addresses are multiples of this. Default: the smallest block size."""
    iodepth: Value
    """Requests that each job keeps outstanding. Default: 1; on the command line 32 if rw is not
    given either.
    """
    numjobs: Value
    """Queue pairs, each with its own stream and limits; of a served drive, each with its own
    connection and thread. Default: 1.
    """
    rate_iops: Value
    """Requests a second of each job, evenly spaced whatever the drive does. With `iodepth`, no
    more than that are outstanding, and the others wait in the host. Latencies also count from
    the moment at which a request was meant to be issued.
    """
    rate_interval: Value
    """In place of `rate_iops`, the time between two requests of a job, as in `35us`."""
    rate_process: Value
    """How requests arrive with `rate_iops` or `rate_interval`: `linear` (evenly), or `poisson`,
    with exponentially distributed intervals. Default: linear.
    """
    startdelay: Value
    """When the flow begins, after the run; a bare number counts seconds. Default: 0."""
    wait_for_previous: Value
    """As in fio: the flow, and those after it, begin when all before it have ended."""
    fsync: Value
    """A flush follows so many writes of each job; limits do not count it. With `--verify` of
    `mynah bench`, what was not flushed may be gone after a lost connection, which without this
    may not be.
    """
    sync: Value
    """Writes are done when they are on flash (Force Unit Access)."""
    burst: Value
    """Requests are issued for a time and then not for a time, by turns, as in `10ms/90ms`."""
    thinktime: Value
    """A pause after every `thinktime_blocks` requests of a job."""
    thinktime_blocks: Value
    """Requests between two pauses. Default: 1."""
    rwmixread: Value
    """Percentage of reads in `rw` and `randrw`. Default: half of what trims leave."""
    rwmixtrim: Value
    """Percentage of trims in `rw` and `randrw`. Default: 0."""
    random_distribution: Value
    """`random`, `once` (each block once before any comes again, as fio's random map; a request
    ends before one that has been used), `zipf:THETA`, `hotcold:ACCESS/SPACE` (percentages:
    90/10 sends 90 % of the requests to the first 10 % of the working set) or
    `zoned:ACCESS/SPACE:ACCESS/SPACE…` (one part after the other: 50/5:30/15:20/80). Default:
    random.
    """
    percentage_random: Value
    """Percentage of the requests of a random flow that are random; the others are sequential."""
    random_turn: Value
    """In turns of so many requests the first ones are random, and the rest is sequential."""
    sequential_start: Value
    """Where a sequential flow starts in its working set: at the `beginning`, or at a `random`
    place of it, each job at another. Default: beginning.
    """
    sequential_positions: Value
    """In a sequential flow of several kinds of requests, whether `each` kind goes on where its
    last request ended, as in fio, or all of them together (`shared`). Default: each.
    """
    offset: Value
    """Where the working set starts, in bytes or percent of the namespace. Default: 0."""
    size: Value
    """The working set's length, in bytes or percent of the namespace. It is also what each job
    issues, unless `io_size`, `number_ios` or `runtime` says that. Default: all of it.
    """
    number_ios: Value
    """Requests that each job issues."""
    io_size: Value
    """Bytes that each job issues, or the percentage of the working set."""
    kb_base: Value
    """What `k`, `kb`, `m`, `mb` and so on are powers of in sizes, 1024 or 1000. `KiB` and `MiB`
    are powers of 1024. Default: 1024.
    """
    runtime: Value
    """How long the flow runs, a simulated one on the drive's clock; a bare number counts seconds.
    `auto`, of simulated flows: until their figures are known as precisely as the run asks for.
    """
    time_based: Value
    """As in fio: run until `runtime` is over, which it needs. A flow never ends merely because it
    has been through its working set.
    """
    trace: Value
    """A trace file to replay in place of drawn requests, or `-` for standard input."""
    trace_format: Value
    """The trace's format: `mqsim` (arrival, device, first sector, sectors, type), `msr` (CSV of
    MSR Cambridge), `blkparse` (its text), `fio` (iolog), `alibaba`, `tencent`, `systor17`,
    `fiu` or `spc` (the traces of these names). Default: mqsim.
    """
    trace_columns: Value
    """The columns of a trace of another format, in their order, as `time:us,op,offset,size`:
    separated as in the trace, by commas or by spaces. `time` (`:s`, `:ms`, `:us`, `:ns` or
    `:100ns`; seconds if not said), `op` (words, or `:0=read`, `:0=write`), `offset` and `size`
    (bytes, `:sectors`, or bytes of a unit), `-` for a column that says nothing, `*` at the end
    for any more.
    """
    trace_action: Value
    """Which events of a blkparse trace are replayed: `D` (issued), `Q` (queued) or `C`
    (completed). Default: D.
    """
    trace_speed: Value
    """The trace is replayed at this percentage of the speed at which it was recorded. Default:
    100.
    """
    trace_no_stall: Value
    """The trace is replayed as fast as the drive takes it, with `iodepth` outstanding."""
    trace_distribution: Value
    """How the trace's writes are distributed, for preconditioning, as `random_distribution`.
    Default: the trace is read twice; of one that is piped in, this or another preconditioning
    is needed.
    """
    trace_time_unit: Value
    """What one tick of the trace's clock is: `ps`, `ns`, `us`, `ms` or `s`. Default: ns; msr 100
    ns.
    """
    trace_remap: Value
    """`modulo`: addresses outside the namespace are folded into it. Default: none, they are
    errors.
    """
    trace_percent: Value
    """The percentage of the trace that is replayed, from its start. Default: 100."""
    trace_repeat: Value
    """How many times the trace is replayed. Default: 1."""
    namespace: Value
    """The namespace, from 1. Default: 1."""
    priority: Value
    """Priority class of the flow's queues: `urgent`, `high`, `medium` or `low`."""
    port: Value
    """The port of an Ethernet drive that the flow's queues use, 1 or 2. Default: in turn."""
    randseed: Value
    """Seed of this flow's streams. Default: from the run's seed."""
    occupancy: Value
    """The percentage of the namespace that preconditioning fills. Default: 100."""
    channels: Value
    """Gives the flow a namespace of its own, on these channels."""
    chips: Value
    """The same, on these chips of each channel."""
    dies: Value
    """The same, on these dies of each chip."""
    planes: Value
    """The same, on these planes of each die."""
