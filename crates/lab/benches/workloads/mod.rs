//! The workloads whose speed is promised, and how to run one.

// Each benchmark uses a part of this.
#![allow(dead_code)]

use mynah_drive_file as drive;
use mynah_lab::experiment::Precondition;
use mynah_lab::mqsim;
use mynah_lab::runner::{Outcome, RunOptions, Runner};
use mynah_model::config::{Config, Namespace};
use mynah_model::io::NamespaceId;
use mynah_workload::{FlowOptions, FlowSpec};

/// A workload on MQSim's drive, 512 GiB unless said otherwise.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) overrides: &'static [&'static str],
    /// Options of each flow. Several flows have a namespace each.
    pub(crate) flows: &'static [&'static [(&'static str, &'static str)]],
    pub(crate) precondition: Precondition,
    /// Requests of each flow in the speed benchmark. 0: only the drive is prepared.
    pub(crate) requests: u64,
}

/// Small, so that both begin as they go on: a turn of its units takes 300,000 requests.
const PLACED: &[&str] = &[
    "mapping.table=ideal",
    "over_provisioning=28%",
    "placement.handles=4",
    "geometry.channels=2",
    "geometry.chips_per_channel=1",
];

pub(crate) const WORKLOADS: [Workload; 10] = [
    Workload {
        name: "random-reads",
        about: "4 KiB random reads, QD 32, ideal table",
        overrides: &["mapping.table=ideal"],
        flows: &[&[("rw", "randread"), ("bs", "4k"), ("iodepth", "32")]],
        precondition: Precondition::Fill,
        requests: 4_000_000,
    },
    Workload {
        name: "cmt-misses",
        about: "4 KiB random reads, QD 32, 2 MiB CMT",
        overrides: &[],
        flows: &[&[("rw", "randread"), ("bs", "4k"), ("iodepth", "32")]],
        precondition: Precondition::Fill,
        requests: 2_000_000,
    },
    Workload {
        name: "steady-writes",
        about: "8 KiB random writes, QD 32, steady, OP 7 %, 75 % occupied, ideal table",
        overrides: &["mapping.table=ideal"],
        flows: &[&[
            ("rw", "randwrite"),
            ("bs", "8k"),
            ("iodepth", "32"),
            ("size", "75%"),
            ("occupancy", "75"),
        ]],
        precondition: Precondition::Steady,
        requests: 3_000_000,
    },
    Workload {
        name: "one-handle",
        about: "8 KiB random writes, QD 32, OP 28 %, ideal table, one of four handles",
        overrides: PLACED,
        flows: &[&[
            ("rw", "randwrite"),
            ("bs", "8k"),
            ("iodepth", "32"),
            ("fdp", "1"),
            ("plids", "0"),
        ]],
        precondition: Precondition::Steady,
        requests: 2_000_000,
    },
    Workload {
        name: "four-handles",
        about: "the same, of four handles in turn",
        overrides: PLACED,
        flows: &[&[
            ("rw", "randwrite"),
            ("bs", "8k"),
            ("iodepth", "32"),
            ("fdp", "1"),
            ("plids", "0-3"),
        ]],
        precondition: Precondition::Steady,
        requests: 2_000_000,
    },
    Workload {
        name: "two-sequential",
        about: "8 KiB sequential reads, two flows of QD 8 and 256, ideal table",
        overrides: &["mapping.table=ideal"],
        flows: &[
            &[("rw", "read"), ("bs", "8k"), ("iodepth", "8")],
            &[("rw", "read"), ("bs", "8k"), ("iodepth", "256")],
        ],
        precondition: Precondition::Fill,
        requests: 2_000_000,
    },
    Workload {
        name: "everything-on",
        about: "8 KiB random, 70 % reads, QD 32, steady, 75 % occupied, every policy on, CMT hits",
        overrides: &EVERYTHING,
        flows: &[&[
            ("rw", "randrw"),
            ("rwmixread", "70"),
            ("bs", "8k"),
            ("iodepth", "32"),
            ("size", "75%"),
            ("occupancy", "75"),
        ]],
        precondition: Precondition::Steady,
        requests: 2_000_000,
    },
    Workload {
        name: "ethernet-bypass",
        about: "random-reads over an Ethernet link as eemu-samsung's",
        overrides: &[
            "mapping.table=ideal",
            "link.protocol=ethernet",
            "link.gap=4ns",
            "link.axi={width_bits=1024,clock=\"500MHz\",boundary=0}",
            "link.target.transport={in=\"500ns\",out=\"500ns\",engines=4}",
        ],
        flows: &[&[("rw", "randread"), ("bs", "4k"), ("iodepth", "32")]],
        precondition: Precondition::Fill,
        requests: 2_000_000,
    },
    Workload {
        name: "ethernet-layers",
        about: "random-reads over an Ethernet link as eemu-baseline's, with all layers",
        overrides: &[
            "mapping.table=ideal",
            "link.protocol=ethernet",
            "link.axi={width_bits=1024,clock=\"500MHz\",boundary=0}",
            "link.target.cores=4",
            "link.target.transport={in=\"5us\",out=\"4us\"}",
            "link.target.capsule={in=\"2us\",out=\"1us\"}",
            "link.target.block_layer={in=\"3us\",out=\"2us\"}",
            "link.target.nvme_layer={in=\"2us\",out=\"1us\"}",
        ],
        flows: &[&[("rw", "randread"), ("bs", "4k"), ("iodepth", "32")]],
        precondition: Precondition::Fill,
        requests: 2_000_000,
    },
    Workload {
        name: "preconditioning",
        about: "preconditioning for 8 KiB random writes, 75 % occupied",
        overrides: &["mapping.table=ideal"],
        flows: &[&[("rw", "randwrite"), ("bs", "8k"), ("size", "75%"), ("occupancy", "75")]],
        precondition: Precondition::Steady,
        requests: 0,
    },
];

/// What costs time on the way of a request and does not exclude something else here.
const EVERYTHING: [&str; 33] = [
    "mapping.cmt.size=1GiB",
    "mapping.cmt.granularity=page",
    "cache.dram.rows=open",
    "cache.dram.traffic=all",
    "queues.arbitration=weighted",
    "queues.high_weight=8",
    "queues.medium_weight=4",
    "queues.low_weight=2",
    "firmware.cores=16",
    "firmware.read=500ns",
    "firmware.write=500ns",
    "link.fetch_prp_lists=true",
    "gc.victim=cost-benefit",
    "gc.paced=true",
    "gc.idle_after=1ms",
    "allocation.placement=least-loaded",
    "wear.dynamic=true",
    "wear.static_threshold=100",
    "wear.endurance=3000",
    "wear.endurance_deviation=5%",
    "wear.retries=[{cycles=0,mean=0.01},{cycles=3000,mean=0.5}]",
    "wear.retry=60us",
    "wear.decode=[{cycles=0,time=\"1us\"},{cycles=3000,time=\"5us\"}]",
    "scheduler.suspend_program={latency=\"20us\"}",
    "scheduler.suspend_erase={latency=\"30us\"}",
    "scheduler.write_deadline=5ms",
    "scheduler.cache_program=true",
    "scheduler.flin={}",
    "energy.read=50uJ",
    "energy.program=300uJ",
    "energy.erase=2mJ",
    "energy.channel=100mW",
    "energy.idle=1W",
];

/// What a run cost.
pub(crate) struct Cost {
    pub(crate) setup_s: f64,
    pub(crate) run_s: f64,
    pub(crate) outcome: Option<Outcome>,
}

/// Tells the CPU seconds this process has taken. Handed in, since rustix looks for its clock
/// in a way that valgrind does not survive.
pub(crate) type Clock = fn() -> f64;

/// Runs a workload on a drive with `blocks` blocks a plane, `requests` of each flow.
pub(crate) fn run(workload: &Workload, blocks: u32, requests: u64, cpu: Clock) -> Cost {
    let mut overrides: Vec<String> = workload.overrides.iter().map(|&text| text.into()).collect();
    overrides.push(format!("geometry.blocks_per_plane={blocks}"));
    let mut config = drive::load("mqsim", &overrides).unwrap_or_else(|e| panic!("{e}")).config;
    let mut flows: Vec<FlowSpec> = vec![];
    for (index, flow) in workload.flows.iter().enumerate() {
        let mut options = FlowOptions::default();
        for (name, value) in *flow {
            assert!(options.set(name, *value), "{name}");
        }
        options.set("number_ios", requests.max(1).to_string());
        let mut spec = options.flow(&format!("flow-{}", index + 1)).unwrap();
        spec.namespace = NamespaceId(index as u32 + 1);
        flows.push(spec);
    }
    if flows.len() > 1 {
        let planes = u64::from(config.geometry.planes());
        let pages = u64::from(blocks) * u64::from(config.geometry.pages_per_block);
        let units = planes * (pages as f64 * 0.93) as u64 / flows.len() as u64;
        let half = Namespace { units: Some(units), ..Namespace::whole_drive() };
        config.namespaces = vec![half; flows.len()];
    }
    measure(config, &flows, workload.precondition, 1, requests > 0, cpu)
}

/// Runs the first scenario of MQSim's files. Without `as_mqsim` the drive is filled first, if
/// it would be empty, so that reads reach its flash.
pub(crate) fn run_mqsim(config: &str, workload: &str, as_mqsim: bool, cpu: Clock) -> Cost {
    let mut import =
        mqsim::load(config.as_ref(), workload.as_ref(), as_mqsim).unwrap_or_else(|e| panic!("{e}"));
    let scenario = import.scenarios.remove(0);
    let precondition = match scenario.precondition {
        Precondition::None if !as_mqsim => Precondition::Fill,
        other => other,
    };
    measure(scenario.config, &scenario.flows, precondition, import.seed, true, cpu)
}

fn measure(
    config: Config,
    flows: &[FlowSpec],
    precondition: Precondition,
    seed: u64,
    go: bool,
    cpu: Clock,
) -> Cost {
    let start = cpu();
    let options = RunOptions { seed, precondition, ..RunOptions::default() };
    let runner = Runner::new(config, flows, &options).unwrap_or_else(|e| panic!("{e}"));
    let ready = cpu();
    let outcome = go.then(|| runner.run(|_| true).unwrap());
    Cost { setup_s: ready - start, run_s: cpu() - ready, outcome }
}
