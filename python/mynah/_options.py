"""The options of flows, and of drives that are served. Made by python/generate; changes here are
lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from mynah._words import Place, Share, Size, Time

Precondition = Literal["none", "fill", "steady", "steady:random"]


class ServedFlowOptions(TypedDict, total=False):
    """The options of a flow on a served drive, with the names of fio and of the command."""

    kv: str | None
    """Makes it a flow of key-value commands: `ycsb-a` to `ycsb-f`, `store`, `update`, `retrieve`,
    `read-modify-write`, `delete`, `exist`, `list`, `retrieve-miss`, or shares of them such as
    `retrieve=95,update=5`.
    """
    keys: Size | None
    """With `kv`: keys on the drive when the flow begins (of a flow that only stores: that it
    stores), as in `2.6m`; k, m and g are powers of 1000. Default: 100k.
    """
    key_size: Size | None
    """With `kv`: bytes of a key, or `MIN-MAX`. Default: 16."""
    value_size: Size | None
    """With `kv`: size of a value, `MIN-MAX`, `SIZE/PERCENT:…`, `normal:MEAN/DEVIATION`, or
    `zipf:THETA/MIN-MAX`. Default: 4k.
    """
    key_distribution: str | None
    """With `kv`: which keys are chosen, `uniform`, `zipf:THETA`, `latest` or `sequential`.
    Default: uniform; zipf:0.99 in YCSB's mixes, latest in ycsb-d.
    """
    misses: Share | None
    """With `kv`: the percentage of Retrieves, Exists and Deletes that go to keys that there are
    not. Default: 0.
    """
    list_keys: Size | None
    """With `kv`: keys that a List asks for, or `MIN-MAX`. Default: 100; 1-100 in ycsb-e."""
    rw: (
        Literal["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw", "trim", "randtrim"]
        | None
    )
    """`read`, `write`, `randread`, `randwrite`, `rw`, `randrw`, `trim` or `randtrim`. Default:
    read; on the command line randread.
    """
    bs: Size | None
    """Block size. `4k,64k,1m` are those of reads, writes and trims; what is not given is as the
    one before. Default: 4k.
    """
    bsrange: str | None
    """Block sizes from MIN to MAX, multiples of MIN; of each kind of request as in `bs`."""
    bssplit: str | None
    """Block sizes with their percentages: `4k/60:64k/40`; of each kind of request as in `bs`."""
    blockalign: Size | None
    """Addresses are multiples of this. Default: the smallest block size."""
    iodepth: int | None
    """Requests that each job keeps outstanding. Default: 1; on the command line 32 if rw is not
    given either.
    """
    numjobs: int | None
    """Queue pairs, each with its own stream and limits; of a served drive, each with its own
    connection and thread. Default: 1.
    """
    rate_iops: int | None
    """Requests a second of each job, evenly spaced whatever the drive does. With `iodepth`, no
    more than that are outstanding, and the others wait in the host. Latencies also count from
    the moment at which a request was meant to be issued.
    """
    fsync: int | None
    """A flush follows so many writes of each job; limits do not count it. With `--verify` of
    `mynah bench`, what was not flushed may be gone after a lost connection, which without this
    may not be.
    """
    sync: bool | None
    """Writes are done when they are on flash (Force Unit Access)."""
    rwmixread: Share | None
    """Percentage of reads in `rw` and `randrw`. Default: half of what trims leave."""
    rwmixtrim: Share | None
    """Percentage of trims in `rw` and `randrw`. Default: 0."""
    random_distribution: str | None
    """`random`, `once` (each block once before any comes again, as fio's random map; a request
    ends before one that has been used), `zipf:THETA`, `hotcold:ACCESS/SPACE` (percentages:
    90/10 sends 90 % of the requests to the first 10 % of the working set) or
    `zoned:ACCESS/SPACE:ACCESS/SPACE…` (one part after the other: 50/5:30/15:20/80). Default:
    random.
    """
    offset: Share | None
    """Where the working set starts, in bytes or percent of the namespace. Default: 0."""
    size: Share | None
    """The working set's length, in bytes or percent of the namespace. It is also what each job
    issues, unless `io_size`, `number_ios` or `runtime` says that. Default: all of it.
    """
    number_ios: int | None
    """Requests that each job issues."""
    io_size: Share | None
    """Bytes that each job issues, or the percentage of the working set."""
    kb_base: int | None
    """What `k`, `kb`, `m`, `mb` and so on are powers of in sizes, 1024 or 1000. `KiB` and `MiB`
    are powers of 1024. Default: 1024.
    """
    runtime: Time | None
    """How long the flow runs, a simulated one on the drive's clock; a bare number counts seconds.
    `auto`, of simulated flows: until their figures are known as precisely as the run asks for.
    """
    time_based: bool | None
    """As in fio: run until `runtime` is over, which it needs. A flow never ends merely because it
    has been through its working set.
    """
    fdp: bool | None
    """Writes say which data they belong with (NVMe FDP): they name the placement handles of the
    namespace, all of them in turn. The drive needs `[placement]`.
    """
    dataplacement: Literal["none", "fdp", "streams"] | None
    """The same: `none`, `fdp`, or `streams`, where `plids` are Linux's write streams, from 1.
    Default: none.
    """
    plids: str | int | None
    """With `fdp`: the numbers of the placement handles that writes name, from 0, as in `0,2,4-6`.
    Default: all.
    """
    plid_select: Literal["roundrobin", "random", "scheme", "size"] | None
    """With `fdp`: which of them each write names, in turn, at random, by its address (`scheme`) or
    by its size. Default: roundrobin.
    """
    dp_scheme: Place | None
    """With `plid_select=scheme`: a file with a line `START, END, NUMBER` for each range of bytes
    of the namespace, with `plid_select=size` of the bytes of a write; what is in none names 0.
    """
    randseed: int | None
    """Seed of this flow's streams. Default: from the run's seed."""


class FlowOptions(ServedFlowOptions, total=False):
    """The options of a flow, with the names of fio and of the command."""

    front: Literal["cachelib", "objects"] | None
    """With `kv`, or a trace of a cache: a cache of objects between the commands and the drive,
    which has blocks. `cachelib`: small objects in buckets of 4 KiB by their hash, large ones in
    regions written as a log; with `fdp` the first of `plids` is that of small objects, the
    second that of large ones. `objects`: each in chunks of its own, the least recently used
    make room; with `fdp` each power of two from 1 MiB on has the next of `plids`.
    """
    front_small: Share | None
    """With `front=cachelib`: the share of the namespace that has the buckets of small objects.
    Default: 4.
    """
    front_small_max: Size | None
    """With `front=cachelib`: the largest small object, its key included. Default: 640."""
    front_region: Size | None
    """With `front`: a region of large objects, or a chunk of `objects`. Default: 16m; 1m of
    objects.
    """
    front_trim: bool | None
    """With `front=objects`: what is given up is trimmed. Default: false."""
    front_ram: Size | None
    """With `front`: the objects that are in DRAM. Default: 64m; 0 of mlperf-kv."""
    front_admit: Share | None
    """With `front`: how much of what leaves DRAM goes to the drive; the rest is dropped, at
    random. Default: 100.
    """
    front_full: bool | None
    """With `front`: whether the cache is full when the flow begins, as one that has run for long.
    Default: true.
    """
    bsnormal: str | None
    """Normally distributed block sizes, `MEAN/DEVIATION`."""
    rate_interval: Time | None
    """In place of `rate_iops`, the time between two requests of a job, as in `35us`."""
    rate_process: Literal["linear", "poisson"] | None
    """How requests arrive with `rate_iops` or `rate_interval`: `linear` (evenly), or `poisson`,
    with exponentially distributed intervals. Default: linear.
    """
    startdelay: Time | None
    """When the flow begins, after the run; a bare number counts seconds. Default: 0."""
    wait_for_previous: bool | None
    """As in fio: the flow, and those after it, begin when all before it have ended."""
    burst: str | None
    """Requests are issued for a time and then not for a time, by turns, as in `10ms/90ms`."""
    thinktime: Time | None
    """A pause after every `thinktime_blocks` requests of a job."""
    thinktime_blocks: int | None
    """Requests between two pauses. Default: 1."""
    percentage_random: Share | None
    """Percentage of the requests of a random flow that are random; the others are sequential."""
    random_turn: int | None
    """In turns of so many requests the first ones are random, and the rest is sequential."""
    sequential_start: Literal["beginning", "random"] | None
    """Where a sequential flow starts in its working set: at the `beginning`, or at a `random`
    place of it, each job at another. Default: beginning.
    """
    sequential_positions: Literal["each", "shared"] | None
    """In a sequential flow of several kinds of requests, whether `each` kind goes on where its
    last request ended, as in fio, or all of them together (`shared`). Default: each.
    """
    trace: Place | None
    """A trace file to replay in place of drawn requests, or `-` for standard input."""
    trace_format: (
        Literal["mqsim", "msr", "blkparse", "fio", "alibaba", "tencent", "systor17", "fiu", "spc"]
        | None
    )
    """The trace's format: `mqsim` (arrival, device, first sector, sectors, type), `msr` (CSV of
    MSR Cambridge), `blkparse` (its text), `fio` (iolog), `alibaba`, `tencent`, `systor17`,
    `fiu` or `spc` (the traces of these names). Default: mqsim.
    """
    trace_columns: str | None
    """The columns of a trace of another format, in their order, as `time:us,op,offset,size`:
    separated as in the trace, by commas or by spaces. `time` (`:s`, `:ms`, `:us`, `:ns` or
    `:100ns`; seconds if not said), `op` (words, or `:0=read`, `:0=write`), `offset` and `size`
    (bytes, `:sectors`, or bytes of a unit), `-` for a column that says nothing, `*` at the end
    for any more.
    """
    trace_action: Literal["D", "Q", "C"] | None
    """Which events of a blkparse trace are replayed: `D` (issued), `Q` (queued) or `C`
    (completed). Default: D.
    """
    trace_speed: Share | None
    """The trace is replayed at this percentage of the speed at which it was recorded. Default:
    100.
    """
    trace_no_stall: bool | None
    """The trace is replayed as fast as the drive takes it, with `iodepth` outstanding."""
    trace_distribution: str | None
    """How the trace's writes are distributed, for preconditioning, as `random_distribution`.
    Default: the trace is read twice; of one that is piped in, this or another preconditioning
    is needed.
    """
    trace_time_unit: Literal["ps", "ns", "us", "ms", "s"] | None
    """What one tick of the trace's clock is: `ps`, `ns`, `us`, `ms` or `s`. Default: ns; msr 100
    ns.
    """
    trace_remap: Literal["none", "modulo"] | None
    """`modulo`: addresses outside the namespace are folded into it. Default: none, they are
    errors.
    """
    trace_percent: Share | None
    """The percentage of the trace that is replayed, from its start. Default: 100."""
    trace_token_bytes: Size | None
    """With `front` and a trace of requests to a language model: bytes that a token takes. Default:
    320k.
    """
    trace_repeat: int | None
    """How many times the trace is replayed. Default: 1."""
    namespace: int | None
    """The namespace, from 1. Default: 1."""
    priority: Literal["urgent", "high", "medium", "low"] | None
    """Priority class of the flow's queues: `urgent`, `high`, `medium` or `low`."""
    port: Literal[1, 2] | None
    """The port of an Ethernet drive that the flow's queues use, 1 or 2. Default: in turn."""
    occupancy: Share | None
    """The percentage of the namespace that preconditioning fills. Default: 100."""
    channels: str | int | Sequence[int] | None
    """Gives the flow a namespace of its own, on these channels."""
    chips: str | int | Sequence[int] | None
    """The same, on these chips of each channel."""
    dies: str | int | Sequence[int] | None
    """The same, on these dies of each chip."""
    planes: str | int | Sequence[int] | None
    """The same, on these planes of each die."""


class ServeOptions(TypedDict, total=False):
    """The options of `mynah serve`, but for those that `serve` gives it itself."""

    fault: str | Sequence[str] | None
    """Inject a fault, as in read-error:rate=1e-5 or power-cut:at=2s; may be repeated."""
    precondition: Literal["none", "fill", "steady", "steady:random"] | None
    """The drive's state at the start: none (empty), fill (written once), steady (as after a long
    time of the flows' writes; of a served drive, of reads and writes all over it) or
    steady:random (sim only: as after a long time of random writes all over it, whatever the
    flows do, for traces that are piped in or write little of it); with ,slc=empty, half, full
    or rested (as after idle time) behind it: what is in the SLC cache then. Default: steady.
    """
    state_cache: Place | None
    """Where prepared drives are kept, so that the next run with the same begins at once; off:
    nowhere. Default: mynah/states in $XDG_CACHE_HOME or ~/.cache.
    """
    state_cache_size: Size | None
    """What that folder holds at most; what was not used for longest goes. Default: 2GiB, or a
    tenth of what is free, if that is less.
    """
    seed: int | None
    """Seed of the drive; each further drive or shard has the next one. Default: 1."""
    speed: str | float | None
    """How fast the drive's clock goes, or max: answer at once, without the model."""
    store: str | None
    """Where the bytes are: ram (as far as written), file:PATH, or pattern (nowhere). Several
    drives or shards have PATH.0, PATH.1 and so on. Pairs of key-value namespaces are in the
    folder PATH.pairs. A drive that ends in order leaves its own state in PATH.state and goes on
    from there; otherwise it is preconditioned anew, and says why (see docs/serving.md).
    """
    namespace: str | Sequence[str] | None
    """A namespace, with blocks of 512 or 4096 bytes or with pairs of keys and values (kv, or
    kv-samsung for Samsung's command set over vfio-user); may be repeated. The shards of a drive
    take turns. On a drive with data placement, its reclaim unit handles are handles=0:3:5, by
    default all. Default: one over the whole drive or shard, 512.
    """
    name: str | Sequence[str] | None
    """The subsystem's name, the end of its NQN or all of it; given several times, there are as
    many drives. Default: the drive's; of several drives followed by -0, -1, ….
    """
    drives: int | None
    """Serve so many drives, alike but for name, serial number and seed: each with a thread, a
    model, a store and sockets of its own. Default: as many as --name.
    """
    shards: int | None
    """Divide the drive into so many shards, each with its share of channels, firmware cores, cache
    and link bandwidth: a controller and a namespace of the one subsystem, on a thread of its
    own (see docs/scale-out.md).
    """
    rdma: str | Sequence[str] | None
    """Where to listen over RDMA: an address of an RDMA device; may be repeated, and alone. The
    second of several drives or shards listens one port higher, and so on (needs a build with
    the feature rdma).
    """
    nbd: str | Sequence[str] | None
    """Export namespaces as network block devices, for qemu-img, nbdcopy, nbd-client, fio's nbd
    engine: at a socket (unix:PATH) or an address (10809 is usual); may be repeated. Exports are
    named by their namespace: 1, 2, …; the empty name is the first. Of several drives or shards,
    the next is one port higher, or at PATH.1. Without --tcp, nothing listens there (see
    docs/nbd.md).
    """
    doorbells: Literal["mapped", "trapped"] | None
    """How guests ring doorbells: mapped (into memory that is looked at all the time) or trapped
    (each is a message, and the drive sleeps until one comes). Default: mapped.
    """
    clock: Literal["host", "guest"] | None
    """Whose time the drive has: this machine's, or that of the one guest of --vfio-user, which is
    what it has executed. Guest and drive then run in lock-step, and every run is the same (see
    docs/full-system.md).
    """
    quantum: Time | None
    """With --clock guest: so long the guest runs without the drive, if nothing happens there. No
    result depends on it. Default: 1ms.
    """
    clock_socket: Place | None
    """With --clock guest: where the guest's clock, a plugin of QEMU's, connects. Default:
    DIR/clock.
    """
    allow_host: str | Sequence[str] | None
    """A host that may connect; may be repeated. Default: any host."""
    host_key: str | Sequence[str] | None
    """A host's secret (DHHC-1:…), or any host's without an NQN: hosts then have to prove who they
    are; may be repeated (make one with `nvme gen-dhchap-key`). @FILE reads it from a file:
    others can see a command line.
    """
    controller_key: str | None
    """The subsystem's own secret, for hosts that want a proof in turn."""
    auth_hash: (
        Literal["sha256", "sha384", "sha512"]
        | Sequence[Literal["sha256", "sha384", "sha512"]]
        | None
    )
    """A hash function of authentications: sha256, sha384 or sha512; may be repeated, the preferred
    one first. Default: all.
    """
    auth_group: (
        Literal["null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"]
        | Sequence[Literal["null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"]]
        | None
    )
    """A Diffie-Hellman group of authentications: null, or ffdhe2048, 3072, 4096, 6144 or 8192; may
    be repeated, the preferred one first. Large ones cost either end much time, and with null a
    listener can try secrets at leisure. Default: ffdhe3072, ffdhe4096, ffdhe2048.
    """
    tls_psk: str | Sequence[str] | None
    """A host's TLS key (NVMeTLSkey-1:…), or any host's without an NQN: connections are then
    encrypted; may be repeated (make one with `nvme gen-tls-key`).
    """
    record: Place | None
    """Record everything that goes into the drive, for sim --replay and compare. Several drives or
    shards have FILE.0, FILE.1 and so on.
    """
    profile: Place | None
    """Write a profile, the latest records of I/Os with their stages (8 MiB), for `mynah profile
    show`; it can be read while the drive is served. Several drives or shards have FILE.0 and so
    on.
    """
    profile_sample: str | None
    """Only one I/O in so many is in the profile: 1/1000. A host that counts its commands chooses
    the same ones.
    """
    profile_every: Time | None
    """Only one I/O in each such span of time: 10ms."""
    profile_filter: str | Sequence[str] | None
    """Only I/Os like this, before sampling: 'read size>=32KiB queue=1..4' (io, size, namespace,
    queue, block, status); may be repeated: any of them is enough.
    """
    profile_keep_above: Time | None
    """Those beside the sample that are slower: than the running 99.9th percentile, or a time; or
    none.
    """
    profile_scope: Literal["own", "all"] | None
    """Of whose I/Os hosts are told that ask for a profile: of those of the same host, or of all.
    Default: all if every address is a loopback one, own otherwise.
    """
    late_bound: Time | None
    """What real time may be missed by before the result is not trusted (p99). Default: 50us or a
    tenth of the median latency, whichever is more.
    """
    path_credit: Time | None
    """What of an Ethernet drive's modelled time the real path takes: answers leave so much before
    their modelled end. auto is the least round trip that the kernel has seen on a connection,
    so that no answer is early; a time, as measured; or off (see docs/serving.md). Default:
    auto.
    """
    functional: bool | None
    """Only what the drive does matters, not when, as in tests of functions on busy machines: a
    result that is not trusted because real time was missed says so, but is no failure (exit
    code 0). Writes that are lost and the like still are (exit code 1).
    """
    poll: Literal["adaptive", "always"] | None
    """How to look for work: adaptive sleeps when spinning does not pay, and is late by some 50 us
    then (with mapped doorbells, which nobody tells of, by the rest of a nap of 20 to 250 us);
    always takes a processor.
    """
    cpus_allowed: str | int | None
    """Processors on which the drive may be served, as in 1 or 0,2-3: one of its own keeps lateness
    low. Several drives or shards get one each, in turn (as with fio's
    cpus_allowed_policy=split). Default: any.
    """
    status_interval: Time | None
    """Print a line with what goes on every so often; a bare number counts seconds."""
    metrics: str | None
    """Serve metrics for Prometheus there, under /metrics."""
    verbose: bool | None
    """Show all stages, waits and devices, the slowest I/Os and a histogram of latencies at the
    end, too.
    """
    quiet: bool | None
    """Print no summary."""


class BenchOptions(ServedFlowOptions, total=False):
    """The options of `mynah bench`."""

    name: str | None
    """What results call the flow."""
    fio: Place | None
    """In place of these, a fio job file: each of its jobs is a flow, with a controller of its own.
    """
    nsid: int | None
    """The namespace. Default: 1, or the only key-value one."""
    host_nqn: str | None
    """Who connects. Default: /etc/nvme/hostnqn, or a name made from the machine's identifier."""
    host_key: str | None
    """The host's secret (DHHC-1:…), to prove who it is; @FILE reads it from a file: others can see
    a command line.
    """
    controller_key: str | None
    """The subsystem's secret: it has to prove who it is, too."""
    auth_hash: (
        Literal["sha256", "sha384", "sha512"]
        | Sequence[Literal["sha256", "sha384", "sha512"]]
        | None
    )
    """A hash function of authentications: sha256, sha384 or sha512; may be repeated, the preferred
    one first. Default: all.
    """
    auth_group: (
        Literal["null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"]
        | Sequence[Literal["null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"]]
        | None
    )
    """A Diffie-Hellman group of authentications: null, or ffdhe2048, 3072, 4096, 6144 or 8192; may
    be repeated, the preferred one first. Large ones cost either end much time, and with null a
    listener can try secrets at leisure. Default: ffdhe3072, ffdhe4096, ffdhe2048.
    """
    tls_psk: str | None
    """Encrypt connections with this TLS key (NVMeTLSkey-1:…)."""
    header_digest: bool | None
    """Protect headers with a CRC."""
    data_digest: bool | None
    """Protect data with a CRC."""
    interrupts: bool | None
    """Wait for interrupts instead of looking for completions all the time (vfio-user)."""
    keep_alive: Time | None
    """The target drops a host that it has not heard of for so long; 0: never. Default: 10s."""
    timeout: Time | None
    """An answer that takes longer is taken for a lost connection. Default: 30s."""
    wait: Time | None
    """How long a target that is not there yet is tried; 0: once. Default: 5s."""
    queue_size: int | None
    """Entries of each queue; one is always free. Default: as many as the iodepth needs; 1024 with
    --rate_iops.
    """
    reconnect: Time | None
    """How long a lost target is tried again; 0: not at all. Default: 60s."""
    seed: int | None
    """Seed of the workload. Default: 1."""
    ramp_time: Time | None
    """Time before results are taken, which makes --runtime so much longer; a bare number counts
    seconds.
    """
    cpus_allowed: str | int | None
    """Processors that the jobs may use, as in 1 or 0,2-3. Default: any."""
    verify: bool | None
    """Write blocks that carry their address, generation and a checksum, or values with key,
    version and checksum; check what is read, and all that was written at the end.
    """
    destroy: str | None
    """TARGET once more: the device or file is written over, and what is there is lost. Without it
    devices and files are only read.
    """
    load: Literal["yes", "no"] | None
    """With --kv: whether the keys that the mix finds are stored first, which is not measured.
    Default: yes.
    """
    hgrm: Place | None
    """Write the distribution of latencies as HdrHistogram's plotter reads it; of several flows or
    kinds of I/O into files of their own, FILE-FLOW-KIND.hgrm.
    """
    profile: bool | Place | None
    """Show where the time of I/Os went, on both sides if the target answers, and keep the profile
    in FILE for `mynah profile show` [default of --profile-sample: 1/10, and of
    --profile-keep-above: p99.9].
    """
    profile_sample: str | None
    """Only one I/O in so many is in the profile: 1/1000. A host that counts its commands chooses
    the same ones.
    """
    profile_every: Time | None
    """Only one I/O in each such span of time: 10ms."""
    profile_filter: str | Sequence[str] | None
    """Only I/Os like this, before sampling: 'read size>=32KiB queue=1..4' (io, size, namespace,
    queue, block, status); may be repeated: any of them is enough.
    """
    profile_keep_above: Time | None
    """Those beside the sample that are slower: than the running 99.9th percentile, or a time; or
    none.
    """
    verbose: bool | None
    """Show a histogram of latencies, too."""
