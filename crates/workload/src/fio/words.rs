//! fio's options, each with what becomes of it here, and engines that do no I/O to a drive.
//!
//! [`TABLE`] is the one list of them: job files are read by it, and the table in
//! `docs/fio-options.md` is written from it. It has every option of fio 3.41, and some of versions
//! before and after it.

use mynah_stamp::Span;

/// The engines that have one request outstanding (fio's `FIO_SYNCIO`).
pub(super) const SYNCHRONOUS: &[&str] = &[
    "dev-dax",
    "falloc",
    "ftruncate",
    "gfapi",
    "http",
    "ime_psync",
    "ime_psyncv",
    "libcufile",
    "libhdfs",
    "libhipfile",
    "libpmem",
    "libzbc",
    "mmap",
    "mtd",
    "psync",
    "pvsync",
    "pvsync2",
    "splice",
    "sync",
    "vsync",
];

/// Engines whose jobs do no I/O to a drive, and what they do.
pub(super) const NOT_STORAGE: &[(&str, &str)] = &[
    ("cpuio", "only computes"),
    ("dircreate", "measures metadata of a file system"),
    ("dirdelete", "measures metadata of a file system"),
    ("dirstat", "measures metadata of a file system"),
    ("e4defrag", "moves extents within a file system"),
    ("exec", "runs another program"),
    ("filecreate", "measures metadata of a file system"),
    ("filedelete", "measures metadata of a file system"),
    ("filestat", "measures metadata of a file system"),
    ("net", "is about a network"),
    ("netsplice", "is about a network"),
    ("rdma", "is about a network"),
];

/// How fio parses an option's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    /// A whole number with a unit.
    Number,
    /// A whole number with a unit, or a percentage.
    Extent,
    /// A time; the span is the unit of a bare number.
    Time(Span),
    /// A flag that is set by its presence.
    Set,
    /// A boolean: 0, or another number.
    Bool,
    /// Separate values for reads, writes and trims.
    Each(Each),
}

/// Values that are given for reads, writes and trims separately.
#[derive(Clone, Copy, Debug)]
pub(super) enum Each {
    Number,
    /// `MIN-MAX` or `MIN:MAX`.
    Range,
    /// `SIZE/PERCENT:…`.
    Split,
}

const SECONDS: Kind = Kind::Time(Span::from_secs(1));

/// How an option of fio is handled.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "the docs' table is written from all of it, by a test")]
pub(super) enum Meaning {
    /// It becomes the option of the flow with this name.
    Flow(&'static str, Kind),
    /// The job reader handles it itself; the text is for the docs.
    Taken(&'static str),
    /// It has no effect on a drive, for this reason.
    NoEffect(&'static str),
    /// It has a small effect on a drive that is not modelled; the job runs without it.
    LeftOut(&'static str),
    /// It is refused, for the load would be another without it; the text says what is missing.
    Refused(&'static str),
}

/// Handling of every option of fio.
const TABLE: &[(Meaning, &[&str])] = &[
    (Meaning::Flow("blockalign", Kind::Each(Each::Number)), &["ba", "blockalign"]),
    (Meaning::Flow("bs", Kind::Each(Each::Number)), &["blocksize", "bs"]),
    (Meaning::Flow("bsrange", Kind::Each(Each::Range)), &["blocksize_range", "bsrange"]),
    (Meaning::Flow("bssplit", Kind::Each(Each::Split)), &["bssplit"]),
    (Meaning::Flow("dataplacement", Kind::Text), &["dataplacement"]),
    (Meaning::Flow("dp_scheme", Kind::Text), &["dp_scheme"]),
    (Meaning::Flow("fdp", Kind::Bool), &["fdp"]),
    (Meaning::Flow("plid_select", Kind::Text), &["fdp_pli_select", "plid_select"]),
    (Meaning::Flow("plids", Kind::Text), &["fdp_pli", "plids"]),
    (Meaning::Flow("io_size", Kind::Extent), &["io_limit", "io_size"]),
    (Meaning::Flow("iodepth", Kind::Number), &["iodepth"]),
    (Meaning::Flow("name", Kind::Text), &["name"]),
    (Meaning::Flow("number_ios", Kind::Number), &["number_ios"]),
    (Meaning::Flow("numjobs", Kind::Number), &["numjobs"]),
    (Meaning::Flow("offset", Kind::Extent), &["fileoffset", "offset"]),
    (Meaning::Flow("percentage_random", Kind::Each(Each::Number)), &["percentage_random"]),
    (Meaning::Flow("random_distribution", Kind::Text), &["random_distribution"]),
    (Meaning::Flow("randseed", Kind::Number), &["randseed"]),
    (Meaning::Flow("rate", Kind::Each(Each::Number)), &["rate"]),
    (Meaning::Flow("rate_iops", Kind::Each(Each::Number)), &["rate_iops"]),
    (Meaning::Flow("rate_process", Kind::Text), &["rate_process"]),
    (Meaning::Flow("runtime", SECONDS), &["runtime", "timeout"]),
    (Meaning::Flow("rw", Kind::Text), &["readwrite", "rw"]),
    (Meaning::Flow("rwmixread", Kind::Number), &["rwmixread"]),
    (Meaning::Flow("size", Kind::Extent), &["size"]),
    (Meaning::Flow("startdelay", SECONDS), &["startdelay"]),
    (Meaning::Flow("thinktime", Kind::Time(Span::from_us(1))), &["thinktime"]),
    (Meaning::Flow("thinktime_blocks", Kind::Number), &["thinktime_blocks"]),
    (Meaning::Flow("time_based", Kind::Set), &["time_based"]),
    (Meaning::Flow("trace", Kind::Text), &["read_iolog"]),
    (Meaning::Flow("trace_no_stall", Kind::Bool), &["replay_no_stall"]),
    (Meaning::Flow("trace_speed", Kind::Number), &["replay_time_scale"]),
    (Meaning::Flow("wait_for_previous", Kind::Set), &["stonewall", "wait_for_previous"]),
    (
        Meaning::Taken(
            "`0` or `none`, or `1`, `sync` or `dsync`: writes are done when they are on flash (FUA); under a synchronous ioengine a flush follows each, as Linux sends it",
        ),
        &["sync"],
    ),
    (
        Meaning::Taken(
            "with requests of several sizes; of one size a random job may come to a block again \
             before it has come to all, either way",
        ),
        &["norandommap"],
    ),
    (
        Meaning::Taken("a job with it lays out files and does no I/O to them: it is left out"),
        &["create_only"],
    ),
    (
        Meaning::Taken("a flush after so many writes; to a drive both are one"),
        &["fsync", "fdatasync"],
    ),
    (
        Meaning::Taken(
            "which engine: whether iodepth counts, and whether the job does I/O to a drive at all",
        ),
        &["ioengine"],
    ),
    (
        Meaning::Taken("`filesize` times `nrfiles` is the size, if that is not given"),
        &["filesize", "nrfiles", "nr_files"],
    ),
    (Meaning::Taken("of sizes"), &["kb_base"]),
    (Meaning::Taken("as often"), &["loops"]),
    (Meaning::Taken("time before what is measured, one for all jobs"), &["ramp_time"]),
    (Meaning::Taken("the rest are reads"), &["rwmixwrite"]),
    (Meaning::Taken("in `mynah bench`, in its own way"), &["verify"]),
    (
        Meaning::Taken(
            "the job begins when those of that name have ended, as far as that makes stages of jobs",
        ),
        &["wait_for"],
    ),
    (
        Meaning::Taken("a job is added for each of `numjobs`, so much further on"),
        &["offset_increment"],
    ),
    (Meaning::Taken("FUA, as of `sync`, without its flushes"), &["writefua"]),
    (Meaning::Taken("with one job it does nothing"), &["exitall"]),
    (
        Meaning::NoEffect("it is about what is in the bytes"),
        &[
            "buffer_compress_chunk",
            "buffer_compress_percentage",
            "buffer_pattern",
            "dedupe_global",
            "dedupe_mode",
            "dedupe_percentage",
            "dedupe_working_set_percentage",
            "refill_buffers",
            "scramble_buffers",
            "zero_buffers",
        ],
    ),
    (
        Meaning::NoEffect("it is about what is printed or logged"),
        &[
            "aggr_percentiles",
            "block_error_percentiles",
            "bwavgtime",
            "clat_percentiles",
            "clocksource",
            "description",
            "disable_bw",
            "disable_bw_measurement",
            "disable_clat",
            "disable_lat",
            "disable_slat",
            "disk_util",
            "error_dump",
            "eta",
            "group_reporting",
            "gtod_cpu",
            "gtod_reduce",
            "iopsavgtime",
            "job_start_clock_id",
            "lat_percentiles",
            "log_alternate_epoch",
            "log_alternate_epoch_clock_id",
            "log_avg_msec",
            "log_compression",
            "log_compression_cpus",
            "log_entries",
            "log_hist_coarseness",
            "log_hist_msec",
            "log_issue_time",
            "log_max_value",
            "log_offset",
            "log_prio",
            "log_store_compressed",
            "log_unix_epoch",
            "log_window_value",
            "new_group",
            "per_job_logs",
            "percentile_list",
            "significant_figures",
            "slat_percentiles",
            "stats",
            "unified_rw_reporting",
            "unit_base",
            "write_bw_log",
            "write_hist_log",
            "write_iolog",
            "write_iops_log",
            "write_lat_log",
        ],
    ),
    (
        Meaning::NoEffect("it is about an engine, or what it reaches"),
        &[
            "arguments",
            "bindname",
            "brick",
            "busy_poll",
            "chunck_size",
            "chunk_size",
            "clientname",
            "cluster_name",
            "clustername",
            "conf",
            "cont",
            "cpuchunks",
            "cpuload",
            "cpumode",
            "cuda_io",
            "donorname",
            "exit_on_io_done",
            "gpu_dev_id",
            "gpu_dev_ids",
            "grace_time",
            "hdfs_use_direct",
            "hdfsdirectory",
            "host",
            "hostname",
            "http_host",
            "http_mode",
            "http_object_mode",
            "http_pass",
            "http_s3_key",
            "http_s3_keyid",
            "http_s3_region",
            "http_s3_security_token",
            "http_s3_sse_customer_algorithm",
            "http_s3_sse_customer_key",
            "http_s3_storage_class",
            "http_swift_auth_token",
            "http_user",
            "http_verbose",
            "https",
            "initiator",
            "inplace",
            "interface",
            "libblkio_driver",
            "libblkio_force_enable_completion_eventfd",
            "libblkio_num_entries",
            "libblkio_path",
            "libblkio_pre_connect_props",
            "libblkio_pre_start_props",
            "libblkio_queue_size",
            "libblkio_vectored",
            "libblkio_wait_mode",
            "listen",
            "mss",
            "namenode",
            "nfs_url",
            "nodelay",
            "object_class",
            "pass",
            "pingpong",
            "pool",
            "port",
            "program",
            "proto",
            "protocol",
            "rados_namespace",
            "rbdname",
            "rocm_io",
            "skip_bad",
            "stat_type",
            "std_redirect",
            "svcl",
            "svrname",
            "touch_objects",
            "ttl",
            "uri",
            "verb",
            "volume",
            "window_size",
            "xnvme_async",
            "xnvme_be",
            "xnvme_dev_nsid",
            "xnvme_dev_subnqn",
            "xnvme_iovec",
            "xnvme_mem",
            "xnvme_sync",
        ],
    ),
    (Meaning::NoEffect("fio itself ignores it"), &["dummy", "percentage_sequential", "rwmixcycle"]),
    (
        Meaning::NoEffect(
            "it is about files, memory, processes or threads of the machine that fio runs on",
        ),
        &[
            "allow_file_create",
            "allow_mounted_write",
            "allrandrepeat",
            "buffered",
            "cgroup",
            "cgroup_nodelete",
            "cgroup_weight",
            "continue_on_error",
            "cpumask",
            "cpus_allowed",
            "cpus_allowed_policy",
            "create_on_open",
            "create_serialize",
            "direct",
            "directory",
            "exec_postrun",
            "exec_prerun",
            "exit_what",
            "exitall_on_error",
            "fadvise_hint",
            "fallocate",
            "file_append",
            "file_service_type",
            "filename",
            "filename_format",
            "filetype",
            "fixedbufs",
            "force_async",
            "gid",
            "hipri",
            "hipri_percentage",
            "hugepage-size",
            "ignore_error",
            "invalidate",
            "iomem",
            "iomem_align",
            "ioscheduler",
            "libaio_vectored",
            "lockfile",
            "lockmem",
            "mem",
            "mem_align",
            "nice",
            "no_completion_thread",
            "nonvectored",
            "nowait",
            "numa_cpu_nodes",
            "numa_mem_policy",
            "opendir",
            "openfiles",
            "overwrite",
            "pre_read",
            "prio",
            "prioclass",
            "profile",
            "random_generator",
            "randrepeat",
            "read_beyond_wp",
            "read_iolog_chunked",
            "registerfiles",
            "single-instance",
            "single_instance",
            "softrandommap",
            "sqthread_poll",
            "sqthread_poll_cpu",
            "sync_file_range",
            "thinktime_spin",
            "thp",
            "thread",
            "threads",
            "uid",
            "uncached",
            "unique_filename",
            "unlink",
            "unlink_each_loop",
            "use_cached_bufs",
            "userspace_reap",
        ],
    ),
    (
        Meaning::LeftOut(
            "there are no bytes to compare in a simulation, and `mynah bench` has a way of its own \
         (--verify)",
        ),
        &[
            "do_verify",
            "verify_async",
            "verify_async_cpus",
            "verify_backlog",
            "verify_backlog_batch",
            "verify_dump",
            "verify_fatal",
            "verify_interval",
            "verify_offset",
            "verify_only",
            "verify_pattern",
            "verify_pattern_interval",
            "verify_state_load",
            "verify_state_save",
            "verify_write_sequence",
            "verify_header_seed",
            "verifysort",
            "verifysort_nr",
            "trim_backlog",
            "trim_backlog_batch",
            "trim_percentage",
            "trim_verify_zero",
            "experimental_verify",
            "verify_mode",
        ],
    ),
    (
        Meaning::LeftOut(
            "each request is submitted, and its completion taken, as soon as that can be",
        ),
        &[
            "iodepth_batch",
            "iodepth_batch_complete",
            "iodepth_batch_complete_max",
            "iodepth_batch_complete_min",
            "iodepth_batch_submit",
            "iodepth_low",
            "serialize_overlap",
        ],
    ),
    (
        Meaning::LeftOut(
            "requests with a rate are submitted when they are due, as far as iodepth lets them",
        ),
        &["io_submit_mode"],
    ),
    (
        Meaning::LeftOut("no job is ended for being slow"),
        &[
            "rate_min",
            "ratemin",
            "rate_iops_min",
            "rate_cycle",
            "ratecycle",
            "rate_ignore_thinktime",
            "max_latency",
        ],
    ),
    (
        Meaning::LeftOut("the depth stays what iodepth says: `mynah sim` has sweeps for that"),
        &["latency_target", "latency_window", "latency_percentile", "latency_run"],
    ),
    (
        Meaning::LeftOut(
            "a job runs until its own end: `--precondition` begins at rest, and `runtime=auto` ends when \
         the figures are known",
        ),
        &[
            "steadystate",
            "ss",
            "steadystate_duration",
            "ss_dur",
            "steadystate_ramp_time",
            "ss_ramp",
            "steadystate_check_interval",
            "ss_interval",
            "ss_check_interval",
        ],
    ),
    (
        Meaning::LeftOut("the drive's queues have priorities (`priority`), and its commands none"),
        &[
            "cmdprio",
            "cmdprio_bssplit",
            "cmdprio_class",
            "cmdprio_hint",
            "cmdprio_percentage",
            "priohint",
        ],
    ),
    (
        Meaning::LeftOut("a job without size goes through the namespace once"),
        &["fill_device", "fill_fs"],
    ),
    (Meaning::LeftOut("Mynah's own host sends NVMe commands"), &["cmd_type"]),
    (
        Meaning::LeftOut("blocks have no metadata in a simulation"),
        &["pi_act", "pi_chk", "apptag", "apptag_mask", "md_per_io_size"],
    ),
    (Meaning::LeftOut("no write is torn in a simulation"), &["atomic"]),
    (
        Meaning::LeftOut("it would be one flush, when the job is over or its files are laid out"),
        &["create_fsync", "end_fsync", "fsync_on_close"],
    ),
    (
        Meaning::Refused("zoned namespaces are not modelled"),
        &[
            "ignore_zone_limits",
            "job_max_open_zones",
            "max_open_zones",
            "recover_zbd_write_error",
            "zone_reset_frequency",
            "zone_reset_threshold",
            "zonecapacity",
            "zonemode",
            "zonerange",
            "zonesize",
            "zoneskip",
        ],
    ),
    (
        Meaning::Refused(
            "hints of lifetime are not modelled; fdp=1 and plids say which data belong together",
        ),
        &["data_placement", "stream_id", "write_hint"],
    ),
    (
        Meaning::Refused("such commands are not simulated"),
        &[
            "deac",
            "libblkio_write_zeroes_on_trim",
            "num_range",
            "readfua",
            "sg_write_mode",
            "write_barrier",
            "write_mode",
            "xnvme_admin",
        ],
    ),
    (
        Meaning::Refused("jobs do not keep step with one another; rate_iops gives each its share"),
        &["flow", "flow_id", "flow_sleep", "flow_watermark"],
    ),
    (
        Meaning::Refused("sizes of sequential and of random requests are not told apart"),
        &["bs_is_seq_rand"],
    ),
    (
        Meaning::Refused("requests are whole multiples of the smallest size"),
        &["blocksize_unaligned", "bs_unaligned"],
    ),
    (Meaning::Refused("skips between requests are not simulated"), &["rw_sequencer"]),
    (
        Meaning::Refused(
            "a pause is so long, after so many requests that were issued: thinktime and thinktime_blocks say that",
        ),
        &["thinkcycles", "thinktime_blocks_type", "thinktime_iotime"],
    ),
    (
        Meaning::Refused(
            "traces are replayed as they are: --trace-remap, --trace-percent and the like say how",
        ),
        &[
            "merge_blktrace_file",
            "merge_blktrace_iters",
            "merge_blktrace_scalars",
            "replay_align",
            "replay_redirect",
            "replay_scale",
            "replay_skip",
        ],
    ),
    (
        Meaning::Refused(
            "a drive starts as --precondition says, which computes what such writes lead to",
        ),
        &["spr_num_regions", "spr_op", "sprandom"],
    ),
    (Meaning::Refused("offset says where each job begins"), &["offset_align"]),
];

/// Handling of the option `name`; `None` if fio has no such option.
pub(super) fn meaning(name: &str) -> Option<Meaning> {
    TABLE.iter().find(|(_, names)| names.contains(&name)).map(|(meaning, _)| *meaning)
}

/// Whether this value of a refused option asks for nothing, as fio's default does.
pub(super) fn is_off(name: &str, value: &str) -> bool {
    matches!(
        (name, value),
        (_, "0" | "none")
            | ("write_mode" | "sg_write_mode", "write")
            | ("num_range", "1")
            | ("rw_sequencer", "sequential")
            | ("thinktime_blocks_type", "complete" | "issue")
    )
}

/// The option of fio's that was probably meant.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let all: Vec<&str> = TABLE.iter().flat_map(|(_, names)| *names).copied().collect();
    mynah_drive_file::nearest(name, &all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the table stands in `docs/fio-options.md`.
    const BEGIN: &str = "<!-- fio's options: written by `MYNAH_UPDATE_DOCS=1 cargo test -p mynah-workload --lib fio::words` -->\n";
    const END: &str = "<!-- end of fio's options -->\n";

    /// The options of fio 3.41, aliases included.
    fn of_fio() -> impl Iterator<Item = &'static str> {
        let lines = include_str!("../../../../tests/data/fio/options-3.41.txt").lines();
        lines.filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace)
    }

    #[test]
    fn every_option_of_fio_has_its_place() {
        let mut all: Vec<&str> = TABLE.iter().flat_map(|(_, names)| *names).copied().collect();
        all.sort_unstable();
        let twice: Vec<_> = all.windows(2).filter(|two| two[0] == two[1]).collect();
        assert!(twice.is_empty(), "{twice:?}");
        let missing: Vec<&str> = of_fio().filter(|name| meaning(name).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn the_table_stands_in_the_docs() {
        let of_fio: Vec<&str> = of_fio().collect();
        let mut table = String::from("| fio's options | here |\n|---|---|\n");
        for (meaning, names) in TABLE {
            let name = |name: &&str| match of_fio.contains(name) {
                true => format!("`{name}`"),
                false => format!("`{name}` (not in 3.41)"),
            };
            let names: Vec<String> = names.iter().map(name).collect();
            let said = match meaning {
                Meaning::Flow(option, _) => format!("taken: `{option}` of the flow"),
                Meaning::Taken(what) => format!("taken: {what}"),
                Meaning::NoEffect(why) => format!("no effect, with a warning: {why}"),
                Meaning::LeftOut(why) => format!("left out, with a warning: {why}"),
                Meaning::Refused(what) => {
                    format!("refused, unless it is 0, none or what fio takes anyway: {what}")
                }
            };
            table += &format!("| {} | {said} |\n", names.join(", "));
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fio-options.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (before, rest) = text.split_once(BEGIN).expect("the table has its place");
        let (found, after) = rest.split_once(END).expect("the table has its end");
        if std::env::var_os("MYNAH_UPDATE_DOCS").is_some() {
            std::fs::write(path, format!("{before}{BEGIN}\n{table}\n{END}{after}")).unwrap();
        } else {
            assert_eq!(found.trim(), table.trim(), "{BEGIN}");
        }
    }
}
