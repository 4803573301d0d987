//! What can go wrong with a run.

use crate::saved_state::SavedStateError;
use mynah_drive_file::units::Bytes;
use mynah_model::policy::PolicyError;
use mynah_model::precondition::PreconditionError;
use mynah_model::{ConfigError, InputError};
use mynah_result::output::OutputError;
use mynah_result::request_log::RequestLogError;
use mynah_stamp::{Span, Time};
use mynah_workload::WorkloadError;

/// Why a drive completes nothing though it programs page after page.
pub const NO_GAIN: &str = "what is collected makes as much garbage as it wins back";
/// What helps where collection does not keep up.
pub const MORE_ROOM: &str = "more over-provisioning, or a larger mapping.cmt.size, lets collection \
                         keep up; smaller namespaces or --precondition none leave more free";

fn where_to_change(key: &str) -> String {
    let served =
        if key.starts_with("namespace.") { ", or --namespace of `mynah serve`" } else { "" };
    format!("change `{key}` in the drive file, or with --set{served}")
}

/// Why a run could not start or go on.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum RunError {
    /// Several drives cannot be run so.
    #[error("several drives behind a switch: {0}")]
    #[diagnostic(help("leave `drives` and `[switch]` out for one drive alone"))]
    Enclosure(String),
    /// Somebody has ended it while the drive was being made ready.
    #[error(
        "interrupted before the run began, while the drive was made ready: nothing was measured"
    )]
    Interrupted,
    /// The drive cannot be built.
    #[error("the drive cannot be built: {0}")]
    #[diagnostic(help("{}", where_to_change(.0.key)))]
    Drive(#[from] ConfigError),
    /// The drive cannot be preconditioned.
    #[error("the drive cannot be preconditioned: {0}")]
    #[diagnostic(help(
        "give it more spare flash (over_provisioning, gc.start), fill less of it (occupancy), or \
         start from an empty drive (--precondition none)"
    ))]
    Precondition(#[from] PreconditionError),
    /// A policy that is not the drive's own has chosen what cannot be chosen.
    #[error(transparent)]
    #[diagnostic(help("what can be chosen is what the policy is given to choose from"))]
    Policy(#[from] PolicyError),
    /// With policies that are not the drive's own, something cannot be done.
    #[error("the policies `{name}` are not the drive's own: {problem}")]
    OwnPolicies {
        /// What they are called.
        name: String,
        /// What cannot be done, and why.
        problem: &'static str,
    },
    /// A flow does not fit the drive, or its trace is faulty.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Workload(#[from] WorkloadError),
    /// A flow names a namespace that does not exist.
    #[error("flow `{flow}` wants namespace {namespace}, but the drive has {count}")]
    #[diagnostic(help(
        "namespaces count from 1; a drive gets more with [[namespace]] in its file"
    ))]
    NoSuchNamespace {
        /// The flow's name.
        flow: String,
        /// Its namespace identifier.
        namespace: u32,
        /// Number of namespaces of the drive.
        count: usize,
    },
    /// Blocks are read or written where pairs are.
    #[error("flow `{flow}` is of blocks, and namespace {namespace} holds pairs")]
    #[diagnostic(help("give it kv=retrieve, say, or a namespace of blocks (kind = \"block\")"))]
    BlocksOnPairs {
        /// The flow's name.
        flow: String,
        /// Its namespace identifier.
        namespace: u32,
    },
    /// Pairs are stored or asked for where blocks are.
    #[error("flow `{flow}` is of key-value commands, and namespace {namespace} holds blocks")]
    #[diagnostic(help(
        "{}", match fits.as_str() {
            "" => "a drive file with [kv] has key-value namespaces: the shipped kv-tlc, say".to_owned(),
            fits => format!("of pairs: {fits} (namespace)"),
        }
    ))]
    PairsOnBlocks {
        /// The flow's name.
        flow: String,
        /// Its namespace identifier.
        namespace: u32,
        /// Namespaces of pairs that the drive has, separated by commas; empty if it has none.
        fits: String,
    },
    /// Keys or values that the drive does not take.
    #[error("flow `{flow}` has {what} of {is} bytes, and the drive takes {most} at most")]
    #[diagnostic(help("lower key_size or value_size, or raise kv.key_max or kv.value_max"))]
    PairTooLarge {
        /// The flow's name.
        flow: String,
        /// `keys` or `values`.
        what: &'static str,
        /// Its longest key or value in bytes.
        is: u32,
        /// The drive's limit in bytes.
        most: u32,
    },
    /// More keys than the namespace has mapping units.
    #[error("flow `{flow}` has {keys} keys, and its namespace has room for {room} pairs at most")]
    #[diagnostic(help("lower keys, or make mapping.unit smaller or the namespace larger"))]
    TooManyKeys {
        /// The flow's name.
        flow: String,
        /// Keys of the flow.
        keys: u64,
        /// Pairs that the namespace has room for.
        room: u64,
    },
    /// Flows of one namespace whose keys are of several lengths.
    #[error(
        "flow `{flow}` has keys of another length than a flow before it on namespace {namespace}"
    )]
    #[diagnostic(help("give them the same key_size: flows of one namespace share its keys"))]
    KeySizes {
        /// The flow's name.
        flow: String,
        /// Namespace identifier.
        namespace: u32,
    },
    /// Random writes in place of key-value commands.
    #[error("flow `{0}` is of key-value commands, which random writes of blocks do not age")]
    #[diagnostic(help("use --precondition steady, which runs the flow itself, or fill"))]
    KeyPrecondition(String),
    /// A state of the pSLC cache is given, and there is none.
    #[error("slc={0}: the drive has no SLC cache (section `slc` of its file), so leave this out")]
    NoSlcCache(&'static str),
    /// A saved state has pairs, and does not say what their keys are.
    #[error(
        "the saved state has pairs in namespace {namespace} whose keys it does not say, so flows of \
         key-value commands cannot use it"
    )]
    #[diagnostic(help(
        "`mynah sim --save-state FILE` says them; --precondition fill stores keys in no time"
    ))]
    KeysInState {
        /// Namespace identifier.
        namespace: u32,
    },
    /// A saved state has keys of another length.
    #[error("flow `{flow}` has keys of {here} bytes, and those in the saved state have {saved}")]
    #[diagnostic(help("give it key_size={saved}"))]
    OtherKeysInState {
        /// The flow's name.
        flow: String,
        /// Key length in the saved state, as `key_size` takes it.
        saved: String,
        /// Key length of the flow, as `key_size` takes it.
        here: String,
    },
    /// A power cut has taken values back.
    #[error(
        "the state cannot be saved: the power cut has brought back values of {pairs} pairs from \
         before, of which a run does not know how large they were"
    )]
    #[diagnostic(help("leave out --save-state, or the power cut"))]
    ValuesBack {
        /// Number of pairs whose earlier values the power cut has brought back.
        pairs: usize,
    },
    /// A search for the steady state of flows of which some begin when others end.
    #[error("flow `{0}` waits for those before it, and such a run has no steady state")]
    #[diagnostic(help("leave out wait_for_previous (stonewall), or --until-steady"))]
    SteadyInStages(String),
    /// Two things that say when a run ends.
    #[error(
        "flow `{0}` runs until its figures are known (runtime=auto), and so does not end when a \
         steady state is found"
    )]
    #[diagnostic(help("give it a runtime, or leave out --until-steady"))]
    TwoEnds(String),
    /// A run that is to last until something is known, of which parts begin when others end.
    #[error(
        "flow `{0}` waits for those before it, and which part of such a run is to be known is not \
         clear (runtime=auto)"
    )]
    #[diagnostic(help(
        "give every flow a runtime, number_ios, io_size or size, or leave out wait_for_previous"
    ))]
    AutoInStages(String),
    /// More queues than identifiers.
    #[error("the flows need {0} queues; a drive has at most 65,535")]
    #[diagnostic(help("every job has a queue pair of its own: lower numjobs"))]
    TooManyQueues(u64),
    /// A queue depth that the drive's queues cannot hold.
    #[error(
        "flow `{flow}`: an iodepth of {depth} does not fit a queue of {entries} entries, one of which stays empty"
    )]
    #[diagnostic(help(
        "lower iodepth, spread it over numjobs, or raise the drive's queues.entries"
    ))]
    TooDeep {
        /// The flow's name.
        flow: String,
        /// Its queue depth.
        depth: u32,
        /// Entries of the drive's queues.
        entries: u32,
    },
    /// A flow names a port that the drive does not have.
    #[error("flow `{flow}` wants port {port}, but the drive has {}", match ports {
        0 => "no Ethernet link".to_owned(),
        ports => format!("{ports}"),
    })]
    #[diagnostic(help("leave `port` out: queues take the ports in turn"))]
    NoSuchPort {
        /// The flow's name.
        flow: String,
        /// The port it asks for, from 1.
        port: u8,
        /// Number of ports of the drive; 0 if its link is not Ethernet.
        ports: u32,
    },
    /// A flow's requests are larger than an Ethernet drive takes.
    #[error("flow `{flow}` has requests of {bytes}, and the drive's largest transfer is {most}")]
    #[diagnostic(help(
        "a smaller bs, as a host would cut them, or raise the drive's link.max_transfer"
    ))]
    TooLarge {
        /// The flow's name.
        flow: String,
        /// Its largest request.
        bytes: Bytes,
        /// The largest transfer of the drive's link.
        most: Bytes,
    },
    /// The request log could not be written.
    #[error(transparent)]
    RequestLog(#[from] RequestLogError),
    /// A saved state could not be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    State(#[from] SavedStateError),
    /// The intervals, the timeline or the capture could not be written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Output(#[from] OutputError),
    /// The recording could not be written.
    #[error("the recording cannot be written: {0}")]
    Recording(std::io::Error),
    /// The simulated time came near its end, 213 days.
    #[error("the simulated time passed {0}; a run ends at 213 days at the latest")]
    TooLong(Time),
    /// Nothing has been completed for very long, though the drive is busy.
    #[error(
        "{outstanding} I/Os wait, and none has been completed for {waited} of the drive's time, in \
         which it has programmed {programmed} pages: {}",
        NO_GAIN
    )]
    #[diagnostic(help("{}", MORE_ROOM))]
    NeverDone {
        /// I/Os outstanding.
        outstanding: u64,
        /// Time since the last completion.
        waited: Span,
        /// Pages programmed in that time.
        programmed: u64,
    },
    /// The load has stopped a drive that was to settle under it.
    #[error("the drive has no steady state under this load: {0}")]
    #[diagnostic(help(
        "{}; --settle off runs the load all the same, until the drive stops",
        MORE_ROOM
    ))]
    NoSteadyState(Box<RunError>),
    /// The drive does not come to rest, so its state cannot be saved.
    #[error(
        "the state cannot be saved: since the last I/O the drive, which has {pages} pages, has \
         programmed {programmed} and does not come to rest: {}",
        NO_GAIN
    )]
    #[diagnostic(help("{}", MORE_ROOM))]
    NeverAtRest {
        /// Pages programmed since the last I/O.
        programmed: u64,
        /// Number of pages of the drive.
        pages: u64,
    },
    /// Commands are outstanding, and nothing will ever happen: a fault of the model.
    #[error(
        "{0} commands are outstanding, but nothing more happens (seed {1}); please report this"
    )]
    Stuck(u64, u64),
    /// The drive refused an input: a fault of the runner.
    #[error("the drive refused an input: {0} (seed {1}); please report this")]
    Input(InputError, u64),
}

/// Errors are large and rare: on the way of a request they are boxed, as `?` does by itself.
impl From<Box<RunError>> for RunError {
    fn from(error: Box<RunError>) -> RunError {
        *error
    }
}
