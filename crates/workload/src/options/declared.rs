//! The options of a flow, each declared once: what it is, what its value looks like, its default,
//! and which flows have it.
//!
//! Experiment files, `--flow`, the command line, its help and what shells complete, the reference
//! and Python's package follow from here; what a value means is read in [`super`]'s functions, and
//! which of fio's options it is stands in [`fio`](crate::fio).

/// An option of a flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowOption {
    /// Its name, with underscores as fio's have them.
    pub name: &'static str,
    /// What it is: one or more sentences, words of values between backticks.
    pub about: &'static str,
    /// What stands for its value in help, such as `SIZE`. `BOOL`: it may be given without one.
    pub value: &'static str,
    /// Values that shells complete, or their beginnings.
    pub words: &'static [&'static str],
    /// What it is if not given, where that is short to say.
    pub default: Option<&'static str>,
    /// Which flows have it.
    pub kind: Kind,
    /// Whether flows on served drives have it, too.
    pub served: bool,
}

/// Which flows have an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Any,
    /// Key-value flows.
    Keys,
    /// Flows that draw requests for blocks.
    Blocks,
    /// Flows that replay a trace.
    Traces,
    /// Flows among others in a file.
    Several,
}

macro_rules! flow_options {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident: $value:literal $([$($word:literal),+])? $(= $default:literal)?
            $(for $kind:ident)? $(, $served:ident)?;
    )+) => {
        /// The options of one flow, not yet read. `None`: not given. Names and meaning
        /// follow fio where fio has the option.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct FlowOptions {
            $($(#[doc = $doc])+ pub $name: Option<String>,)+
        }

        impl FlowOptions {
            /// Every option's name.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            /// What there is to know of each option.
            pub const DECLARED: &'static [FlowOption] = &[$(FlowOption {
                name: stringify!($name),
                about: concat!($($doc,)+),
                value: $value,
                words: &[$($($word),+)?],
                default: flow_options!(@default $($default)?),
                kind: flow_options!(@kind $($kind)?),
                served: flow_options!(@served $($served)?),
            }),+];

            /// Gives option `name` a value. False if there is no such option.
            pub fn set(&mut self, name: &str, value: impl Into<String>) -> bool {
                match name {
                    $(stringify!($name) => self.$name = Some(value.into()),)+
                    _ => return false,
                }
                true
            }

            /// Takes the value of option `name` back, as if it had not been given.
            pub fn unset(&mut self, name: &str) {
                match name {
                    $(stringify!($name) => self.$name = None,)+
                    _ => {}
                }
            }

            /// The value of option `name`.
            pub fn get(&self, name: &str) -> Option<&str> {
                match name {
                    $(stringify!($name) => self.$name.as_deref(),)+
                    _ => None,
                }
            }
        }
    };
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
    (@kind) => { Kind::Any };
    (@kind $kind:ident) => { Kind::$kind };
    (@served) => { false };
    (@served served) => { true };
}

flow_options! {
    /// What results call the flow.
    name: "NAME", served;
    /// Makes it a flow of key-value commands: `ycsb-a` to `ycsb-f`, `store`, `update`, `retrieve`,
    /// `read-modify-write`, `delete`, `exist`, `list`, `retrieve-miss`, or shares of them such as
    /// `retrieve=95,update=5`.
    kv: "MIX" ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f", "store", "update", "retrieve", "read-modify-write", "delete", "exist", "list", "retrieve-miss", "retrieve="],
        served;
    /// With `kv`: keys on the drive when the flow begins (of a flow that only stores: that it
    /// stores), as in `2.6m`; k, m and g are powers of 1000.
    keys: "N" = "100k" for Keys, served;
    /// With `kv`: bytes of a key, or `MIN-MAX`.
    key_size: "BYTES" = "16" for Keys, served;
    /// With `kv`: size of a value, `MIN-MAX`, `SIZE/PERCENT:…`, `normal:MEAN/DEVIATION`, or
    /// `zipf:THETA/MIN-MAX`.
    value_size: "SIZE" ["normal:", "zipf:"] = "4k" for Keys, served;
    /// With `kv`: which keys are chosen, `uniform`, `zipf:THETA`, `latest` or `sequential`.
    key_distribution: "DIST" ["uniform", "zipf:", "latest", "sequential"]
        = "uniform; zipf:0.99 in YCSB's mixes, latest in ycsb-d" for Keys, served;
    /// With `kv`: the percentage of Retrieves, Exists and Deletes that go to keys that there are not.
    misses: "PERCENT" = "0" for Keys, served;
    /// With `kv`: keys that a List asks for, or `MIN-MAX`.
    list_keys: "N" = "100; 1-100 in ycsb-e" for Keys, served;
    /// With `kv`, or a trace of a cache: a cache of objects between the commands and the drive, which
    /// has blocks. `cachelib`: small objects in buckets of 4 KiB by their hash, large ones in regions
    /// written as a log; with `fdp` the first of `plids` is that of small objects, the second that of
    /// large ones. `objects`: each in chunks of its own, the least recently used make room; with `fdp`
    /// each power of two from 1 MiB on has the next of `plids`.
    front: "KIND" ["cachelib", "objects"];
    /// With `front=cachelib`: the share of the namespace that has the buckets of small objects.
    front_small: "PERCENT" = "4";
    /// With `front=cachelib`: the largest small object, its key included.
    front_small_max: "SIZE" = "640";
    /// With `front`: a region of large objects, or a chunk of `objects`.
    front_region: "SIZE" = "16m; 1m of objects";
    /// With `front=objects`: what is given up is trimmed.
    front_trim: "BOOL" = "false";
    /// With `front`: the objects that are in DRAM.
    front_ram: "SIZE" = "64m; 0 of mlperf-kv";
    /// With `front`: how much of what leaves DRAM goes to the drive; the rest is dropped, at random.
    front_admit: "PERCENT" = "100";
    /// With `front`: whether the cache is full when the flow begins, as one that has run for long.
    front_full: "BOOL" = "true";
    /// `read`, `write`, `randread`, `randwrite`, `rw`, `randrw`, `trim` or `randtrim`.
    rw: "KIND" ["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw", "trim", "randtrim"]
        = "read; on the command line randread" for Blocks, served;
    /// Block size. `4k,64k,1m` are those of reads, writes and trims; what is not given is as the one
    /// before.
    bs: "SIZE" = "4k" for Blocks, served;
    /// Block sizes from MIN to MAX, multiples of MIN; of each kind of request as in `bs`.
    bsrange: "MIN-MAX" for Blocks, served;
    /// Block sizes with their percentages: `4k/60:64k/40`; of each kind of request as in `bs`.
    bssplit: "SIZE/PERCENT:…" for Blocks, served;
    /// Normally distributed block sizes, `MEAN/DEVIATION`.
    bsnormal: "MEAN/DEVIATION" for Blocks;
    /// Addresses are multiples of this.
    blockalign: "SIZE" = "the smallest block size" for Blocks, served;
    /// Requests that each job keeps outstanding.
    iodepth: "N" = "1; on the command line 32 if rw is not given either", served;
    /// Queue pairs, each with its own stream and limits; of a served drive, each with its own
    /// connection and thread.
    numjobs: "N" = "1", served;
    /// Requests a second of each job, evenly spaced whatever the drive does. With `iodepth`, no
    /// more than that are outstanding, and the others wait in the host. Latencies also count from
    /// the moment at which a request was meant to be issued.
    rate_iops: "N", served;
    /// In place of `rate_iops`, the time between two requests of a job, as in `35us`.
    rate_interval: "TIME";
    /// How requests arrive with `rate_iops` or `rate_interval`: `linear` (evenly), or `poisson`, with
    /// exponentially distributed intervals.
    rate_process: "HOW" ["linear", "poisson"] = "linear";
    /// When the flow begins, after the run; a bare number counts seconds.
    startdelay: "TIME" = "0";
    /// As in fio: the flow, and those after it, begin when all before it have ended.
    wait_for_previous: "BOOL" for Several;
    /// A flush follows so many writes of each job; limits do not count it. With `--verify` of `mynah
    /// bench`, what was not flushed may be gone after a lost connection, which without this may not
    /// be.
    fsync: "N", served;
    /// Writes are done when they are on flash (Force Unit Access).
    sync: "BOOL", served;
    /// Requests are issued for a time and then not for a time, by turns, as in `10ms/90ms`.
    burst: "ON/OFF";
    /// A pause after every `thinktime_blocks` requests of a job.
    thinktime: "TIME";
    /// Requests between two pauses.
    thinktime_blocks: "N" = "1";
    /// Percentage of reads in `rw` and `randrw`.
    rwmixread: "PERCENT" = "half of what trims leave" for Blocks, served;
    /// Percentage of trims in `rw` and `randrw`.
    rwmixtrim: "PERCENT" = "0" for Blocks, served;
    /// `random`, `once` (each block once before any comes again, as fio's random map; a request ends
    /// before one that has been used), `zipf:THETA`, `hotcold:ACCESS/SPACE` (percentages: 90/10 sends
    /// 90 % of the requests to the first 10 % of the working set) or
    /// `zoned:ACCESS/SPACE:ACCESS/SPACE…` (one part after the other: 50/5:30/15:20/80).
    random_distribution: "DIST" ["random", "once", "zipf:", "hotcold:", "zoned:"] = "random"
        for Blocks, served;
    /// Percentage of the requests of a random flow that are random; the others are sequential.
    percentage_random: "PERCENT" for Blocks;
    /// In turns of so many requests the first ones are random, and the rest is sequential.
    random_turn: "N" for Blocks;
    /// Where a sequential flow starts in its working set: at the `beginning`, or at a `random`
    /// place of it, each job at another.
    sequential_start: "WHERE" ["beginning", "random"] = "beginning" for Blocks;
    /// In a sequential flow of several kinds of requests, whether `each` kind goes on where its
    /// last request ended, as in fio, or all of them together (`shared`).
    sequential_positions: "HOW" ["each", "shared"] = "each" for Blocks;
    /// Where the working set starts, in bytes or percent of the namespace.
    offset: "SIZE|PERCENT" = "0" for Blocks, served;
    /// The working set's length, in bytes or percent of the namespace. It is also what each job
    /// issues, unless `io_size`, `number_ios` or `runtime` says that.
    size: "SIZE|PERCENT" = "all of it" for Blocks, served;
    /// Requests that each job issues.
    number_ios: "N", served;
    /// Bytes that each job issues, or the percentage of the working set.
    io_size: "SIZE|PERCENT" for Blocks, served;
    /// What `k`, `kb`, `m`, `mb` and so on are powers of in sizes, 1024 or 1000. `KiB` and `MiB` are
    /// powers of 1024.
    kb_base: "N" = "1024", served;
    /// How long the flow runs, a simulated one on the drive's clock; a bare number counts seconds.
    /// `auto`, of simulated flows: until their figures are known as precisely as the run asks for.
    runtime: "TIME" ["auto"], served;
    /// As in fio: run until `runtime` is over, which it needs. A flow never ends merely because it has
    /// been through its working set.
    time_based: "BOOL", served;
    /// A trace file to replay in place of drawn requests, or `-` for standard input.
    trace: "FILE" for Traces;
    /// The trace's format: `mqsim` (arrival, device, first sector, sectors, type), `msr` (CSV of MSR
    /// Cambridge), `blkparse` (its text), `fio` (iolog), `alibaba`, `tencent`, `systor17`, `fiu` or
    /// `spc` (the traces of these names).
    trace_format: "FORMAT" ["mqsim", "msr", "blkparse", "fio", "alibaba", "tencent", "systor17", "fiu", "spc"]
        = "mqsim" for Traces;
    /// The columns of a trace of another format, in their order, as `time:us,op,offset,size`: separated
    /// as in the trace, by commas or by spaces. `time` (`:s`, `:ms`, `:us`, `:ns` or `:100ns`; seconds
    /// if not said), `op` (words, or `:0=read`, `:0=write`), `offset` and `size` (bytes, `:sectors`, or
    /// bytes of a unit), `-` for a column that says nothing, `*` at the end for any more.
    trace_columns: "COLUMNS" for Traces;
    /// Which events of a blkparse trace are replayed: `D` (issued), `Q` (queued) or `C` (completed).
    trace_action: "ACTION" ["D", "Q", "C"] = "D" for Traces;
    /// The trace is replayed at this percentage of the speed at which it was recorded.
    trace_speed: "PERCENT" = "100" for Traces;
    /// The trace is replayed as fast as the drive takes it, with `iodepth` outstanding.
    trace_no_stall: "BOOL" for Traces;
    /// How the trace's writes are distributed, for preconditioning, as `random_distribution`.
    trace_distribution: "DIST" ["random", "zipf:", "hotcold:", "zoned:"]
        = "the trace is read twice; of one that is piped in, this or another preconditioning is needed"
        for Traces;
    /// What one tick of the trace's clock is: `ps`, `ns`, `us`, `ms` or `s`.
    trace_time_unit: "UNIT" ["ps", "ns", "us", "ms", "s"] = "ns; msr 100 ns" for Traces;
    /// `modulo`: addresses outside the namespace are folded into it.
    trace_remap: "HOW" ["none", "modulo"] = "none, they are errors" for Traces;
    /// The percentage of the trace that is replayed, from its start.
    trace_percent: "PERCENT" = "100" for Traces;
    /// With `front` and a trace of requests to a language model: bytes that a token takes.
    trace_token_bytes: "SIZE" = "320k" for Traces;
    /// How many times the trace is replayed.
    trace_repeat: "N" = "1" for Traces;
    /// Writes say which data they belong with (NVMe FDP): they name the placement handles of the
    /// namespace, all of them in turn. The drive needs `[placement]`.
    fdp: "BOOL", served;
    /// The same: `none`, `fdp`, or `streams`, where `plids` are Linux's write streams, from 1.
    dataplacement: "HOW" ["none", "fdp", "streams"] = "none", served;
    /// With `fdp`: the numbers of the placement handles that writes name, from 0, as in `0,2,4-6`.
    plids: "LIST" = "all", served;
    /// With `fdp`: which of them each write names, in turn, at random, by its address (`scheme`) or by
    /// its size.
    plid_select: "HOW" ["roundrobin", "random", "scheme", "size"] = "roundrobin", served;
    /// With `plid_select=scheme`: a file with a line `START, END, NUMBER` for each range of bytes of
    /// the namespace, with `plid_select=size` of the bytes of a write; what is in none names 0.
    dp_scheme: "FILE", served;
    /// The namespace, from 1.
    namespace: "N" = "1";
    /// Priority class of the flow's queues: `urgent`, `high`, `medium` or `low`.
    priority: "CLASS" ["urgent", "high", "medium", "low"];
    /// The port of an Ethernet drive that the flow's queues use, 1 or 2.
    port: "N" ["1", "2"] = "in turn";
    /// Seed of this flow's streams.
    randseed: "N" = "from the run's seed", served;
    /// The percentage of the namespace that preconditioning fills.
    occupancy: "PERCENT" = "100" for Blocks;
}
