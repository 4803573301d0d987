//! A flow's options. They carry fio's names; what they mean is
//! [`mynah_workload::FlowOptions`].

use super::suggest;
use clap::{Args, ValueHint};
use mynah_workload::FlowOptions;

/// Declares options of a flow and their way into [`FlowOptions`].
macro_rules! flow_args {
    ($(#[$about:meta])* $flow_args:ident: $($(#[$attribute:meta])* $name:ident),+ $(,)?) => {
        $(#[$about])*
        #[derive(Args)]
        #[command(next_help_heading = "Workload (names and units as in fio)")]
        pub(crate) struct $flow_args {
            $($(#[$attribute])* pub(crate) $name: Option<String>,)+
        }

        impl $flow_args {
            /// Hands on what was given.
            fn give(&self, options: &mut FlowOptions) {
                $(options.$name = self.$name.clone();)+
            }
        }
    };
}

flow_args! {
    /// What every flow has, simulated or not.
    CommonFlowArgs:
    /// What results call the flow
    #[arg(long, value_name = "NAME")]
    name,
    /// read, write, randread, randwrite, rw, randrw, trim or randtrim [default: randread]
    #[arg(long, value_name = "KIND")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw", "trim", "randtrim"]))]
    rw,
    /// Key-value commands: ycsb-a to ycsb-f, store, update, retrieve, read-modify-write, delete,
    /// exist, list, retrieve-miss, or shares of them such as retrieve=95,update=5
    #[arg(long, value_name = "MIX")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f", "store", "update", "retrieve", "read-modify-write", "delete", "exist", "list", "retrieve-miss", "retrieve="]))]
    kv,
    /// With --kv: keys on the drive when the flow begins (with only stores: that it stores), as in
    /// 2.6m; k, m and g are powers of 1000 [default: 100k]
    #[arg(long, value_name = "N")]
    keys,
    /// With --kv: bytes of a key, or MIN-MAX [default: 16]
    #[arg(long = "key_size", alias = "key-size", value_name = "BYTES")]
    key_size,
    /// With --kv: size of a value, MIN-MAX, SIZE/PERCENT:…, normal:MEAN/DEVIATION or
    /// zipf:THETA/MIN-MAX [default: 4k]
    #[arg(long = "value_size", alias = "value-size", value_name = "SIZE")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["normal:", "zipf:"]))]
    value_size,
    /// With --kv: which keys are chosen, uniform, zipf:THETA, latest or sequential [default:
    /// uniform; YCSB's: zipf:0.99, ycsb-d latest]
    #[arg(long = "key_distribution", alias = "key-distribution", value_name = "DIST")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["uniform", "zipf:", "latest", "sequential"]))]
    key_distribution,
    /// With --kv: the percentage of Retrieves, Exists and Deletes that go to keys that there are
    /// not [default: 0]
    #[arg(long, value_name = "PERCENT")]
    misses,
    /// With --kv: keys that a List asks for, or MIN-MAX [default: 100; ycsb-e: 1-100]
    #[arg(long = "list_keys", alias = "list-keys", value_name = "N")]
    list_keys,
    /// Block size, or those of reads, writes and trims, as in 4k,64k [default: 4k]
    #[arg(long, value_name = "SIZE")]
    bs,
    /// Block sizes from MIN to MAX, multiples of MIN
    #[arg(long, value_name = "MIN-MAX")]
    bsrange,
    /// Block sizes with their percentages: 4k/60:64k/40
    #[arg(long, value_name = "SIZE/PERCENT:…")]
    bssplit,
    /// Addresses are multiples of this [default: the smallest block size]
    #[arg(long, value_name = "SIZE")]
    blockalign,
    /// I/Os outstanding, of each job [default: 1; 32 if --rw is not given either]
    #[arg(long, value_name = "N")]
    iodepth,
    /// I/O queues, each with its own stream and limits; of a served drive, each with its own
    /// connection and thread [default: 1]
    #[arg(long, value_name = "N")]
    numjobs,
    /// I/Os a second of each job, evenly spaced whatever the drive does; with --iodepth, no more
    /// than that are outstanding. Latencies also count from the moment at which an I/O was meant
    /// to be issued
    #[arg(long = "rate_iops", alias = "rate-iops", value_name = "N")]
    rate_iops,
    /// Percentage of reads in rw and randrw [default: half of what trims leave]
    #[arg(long, value_name = "PERCENT")]
    rwmixread,
    /// Percentage of trims in rw and randrw [default: 0]
    #[arg(long, value_name = "PERCENT")]
    rwmixtrim,
    /// random, once (each block once before any again), zipf:THETA, zoned:ACCESS/SPACE:ACCESS/SPACE… (50/5:30/15:20/80: one part after the
    /// other) or hotcold:ACCESS/SPACE (90/10: 90 % of the requests go to the first
    /// 10 %) [default: random]
    #[arg(long = "random_distribution", alias = "random-distribution", value_name = "DIST")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["random", "once", "zipf:", "hotcold:", "zoned:"]))]
    random_distribution,
    /// Where the working set starts, in bytes or percent of the namespace [default: 0]
    #[arg(long, value_name = "SIZE|PERCENT")]
    offset,
    /// The working set's length, in bytes or percent of the namespace [default: all of it]; also
    /// what each job issues, unless --io_size, --number_ios or --runtime says that
    #[arg(long, value_name = "SIZE|PERCENT")]
    size,
    /// Bytes each job issues, or the percentage of the working set
    #[arg(long = "io_size", alias = "io-size", value_name = "SIZE|PERCENT")]
    io_size,
    /// What k, kb, m, mb and so on are powers of in sizes, 1024 or 1000; KiB and MiB are powers of
    /// 1024 [default: 1024]
    #[arg(long = "kb_base", alias = "kb-base", value_name = "N")]
    kb_base,
    /// Flush after so many writes of a job. With --verify of mynah bench, what was not flushed may be
    /// gone after a lost connection, which without this may not be
    #[arg(long, value_name = "N")]
    fsync,
    /// Writes are done when they are on flash (Force Unit Access)
    #[arg(long, value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    sync,
    /// Seed of this flow's streams [default: from --seed]
    #[arg(long, value_name = "N")]
    randseed,
}

impl CommonFlowArgs {
    /// What was given here.
    fn options(&self, time_based: bool) -> FlowOptions {
        let time_based = time_based.then(|| "true".to_owned());
        let mut options = FlowOptions { time_based, ..FlowOptions::default() };
        self.give(&mut options);
        options
    }
}

flow_args! {
    /// What only a flow on a served drive has.
    LoadOnlyArgs:
    /// I/Os each job issues
    #[arg(long = "number_ios", alias = "number-ios", value_name = "N")]
    number_ios,
    /// How long the load lasts; a bare number counts seconds [default: 10s if there is no other
    /// limit]
    #[arg(long, value_name = "TIME")]
    runtime,
}

/// One flow on a served drive.
#[derive(Args)]
#[command(next_help_heading = "Workload (names and units as in fio)")]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    common: CommonFlowArgs,
    #[command(flatten)]
    own: LoadOnlyArgs,
    /// Run until runtime is over, as in fio; needs --runtime
    #[arg(long = "time_based", alias = "time-based")]
    time_based: bool,
}

impl LoadArgs {
    /// What was given.
    pub(crate) fn options(&self) -> FlowOptions {
        let mut options = self.common.options(self.time_based);
        self.own.give(&mut options);
        options
    }
}

flow_args! {
    /// What only a simulated flow has.
    SimulatedOnlyArgs:
    /// Requests each job issues [default: 100000 if nothing else ends it]
    #[arg(long = "number_ios", alias = "number-ios", value_name = "N")]
    number_ios,
    /// How long the flow runs on the drive's clock; a bare number counts seconds. auto: until its
    /// figures are known (--precision), which is the default beside --precision and --repeat
    #[arg(long, value_name = "TIME|auto")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["auto"]))]
    runtime,
    /// Normally distributed block sizes
    #[arg(long, value_name = "MEAN/DEVIATION")]
    bsnormal,
    /// In place of --rate_iops, the time between two requests of a job, as in 35us
    #[arg(long = "rate_interval", alias = "rate-interval", value_name = "TIME")]
    rate_interval,
    /// How requests arrive with --rate_iops or --rate_interval: linear (evenly) or poisson
    /// [default: linear]
    #[arg(long = "rate_process", alias = "rate-process", value_name = "HOW")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["linear", "poisson"]))]
    rate_process,
    /// When the flow begins, after the run; a bare number counts seconds [default: 0]
    #[arg(long, value_name = "TIME")]
    startdelay,
    /// Issue requests for a time and none for a time, by turns, as in 10ms/90ms
    #[arg(long, value_name = "ON/OFF")]
    burst,
    /// Pause each job so long after every --thinktime_blocks requests
    #[arg(long, value_name = "TIME")]
    thinktime,
    /// Requests between two pauses [default: 1]
    #[arg(long = "thinktime_blocks", alias = "thinktime-blocks", value_name = "N")]
    thinktime_blocks,
    /// Percentage of the requests of a random flow that are random, the others being sequential
    #[arg(long = "percentage_random", alias = "percentage-random", value_name = "PERCENT")]
    percentage_random,
    /// In turns of so many requests the first ones are random and the rest is sequential
    #[arg(long = "random_turn", alias = "random-turn", value_name = "N")]
    random_turn,
    /// Where a sequential flow starts: beginning, or random [default: beginning]
    #[arg(long = "sequential_start", alias = "sequential-start", value_name = "WHERE")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["beginning", "random"]))]
    sequential_start,
    /// In a sequential flow of reads and writes, whether each go on from their own last request
    /// (each) or all from the last one (shared) [default: each]
    #[arg(long = "sequential_positions", alias = "sequential-positions", value_name = "HOW")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["each", "shared"]))]
    sequential_positions,
    /// The namespace, from 1 [default: 1]
    #[arg(long, value_name = "N")]
    namespace,
    /// Priority class of the flow's queues: urgent, high, medium or low
    #[arg(long, value_name = "CLASS")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["urgent", "high", "medium", "low"]))]
    priority,
    /// The port of an Ethernet drive that the flow's queues use, 1 or 2 [default: in turn]
    #[arg(long, value_name = "N")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["1", "2"]))]
    port,
    /// The percentage of the namespace that preconditioning fills [default: 100]
    #[arg(long, value_name = "PERCENT")]
    occupancy,
    /// A trace to replay in place of a drawn workload; - is standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    trace,
    /// The trace's format: mqsim (arrival, device, first sector, sectors, type), msr (CSV of MSR
    /// Cambridge), blkparse (its text), fio (iolog), alibaba, tencent, systor17, fiu or spc (the
    /// traces of these names) [default: mqsim]
    #[arg(long = "trace-format", alias = "trace_format", value_name = "FORMAT")]
    #[arg(hide_possible_values = true, value_parser = suggest::trace_formats())]
    trace_format,
    /// The columns of a trace of another format, as in time:us,op,offset,size or "time:ns - op
    /// offset:sectors size:sectors *": - says nothing, * is any more
    #[arg(long = "trace-columns", alias = "trace_columns", value_name = "COLUMNS")]
    trace_columns,
    /// Which events of a blkparse trace are replayed: D (issued), Q (queued) or C (completed)
    /// [default: D]
    #[arg(long = "trace-action", alias = "trace_action", value_name = "ACTION")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["D", "Q", "C"]))]
    trace_action,
    /// Replay the trace at this percentage of the speed at which it was recorded [default: 100]
    #[arg(long = "trace-speed", alias = "trace_speed", value_name = "PERCENT")]
    trace_speed,
    /// Replay the trace as fast as the drive takes it, with --iodepth outstanding
    #[arg(long = "trace-no-stall", alias = "trace_no_stall", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    trace_no_stall,
    /// How the trace's writes are distributed, for --precondition steady, as --random_distribution
    /// [default: the trace is read twice; of one that is piped in, this or another --precondition
    /// is needed]
    #[arg(long = "trace-distribution", alias = "trace_distribution", value_name = "DIST")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["random", "zipf:", "hotcold:", "zoned:"]))]
    trace_distribution,
    /// What a tick of the trace's clock is: ps, ns, us, ms or s [default: ns; msr: 100 ns]
    #[arg(long = "trace-time-unit", alias = "trace_time_unit", value_name = "UNIT")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["ps", "ns", "us", "ms", "s"]))]
    trace_time_unit,
    /// modulo: fold addresses outside the namespace into it [default: none, they are errors]
    #[arg(long = "trace-remap", alias = "trace_remap", value_name = "HOW")]
    #[arg(hide_possible_values = true, value_parser = suggest::values(&["none", "modulo"]))]
    trace_remap,
    /// The percentage of the trace that is replayed, from its start [default: 100]
    #[arg(long = "trace-percent", alias = "trace_percent", value_name = "PERCENT")]
    trace_percent,
    /// How many times the trace is replayed [default: 1]
    #[arg(long = "trace-repeat", alias = "trace_repeat", value_name = "N")]
    trace_repeat,
}

/// One simulated flow.
#[derive(Args)]
#[command(next_help_heading = "Workload (names and units as in fio)")]
pub(crate) struct FlowArgs {
    #[command(flatten)]
    common: CommonFlowArgs,
    #[command(flatten)]
    own: SimulatedOnlyArgs,
    /// Run until runtime is over, as in fio; needs --runtime
    #[arg(long = "time_based", alias = "time-based")]
    time_based: bool,
}

impl FlowArgs {
    /// What was given.
    pub(crate) fn options(&self) -> FlowOptions {
        let mut options = self.common.options(self.time_based);
        self.own.give(&mut options);
        options
    }
}
