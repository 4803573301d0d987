//! MQSim's files: what is read from them, and what is said about those that cannot be used.

use mynah_lab::experiment::Precondition;
use mynah_lab::mqsim::{self, Import, MqsimError};
use mynah_lab::runner::Runner;
use mynah_lab::simulation::Simulation;
use mynah_model::config::*;
use mynah_stamp::Span;
use mynah_workload::{
    Addresses, Arrivals, BlockSize, Extent, Limits, Mix, Mode, Positions, Source, Start,
};
use proptest::prelude::*;
use std::path::Path;

const DRIVE: &str = "<Execution_Parameter_Set>
<Host_Parameter_Set><PCIe_Lane_Bandwidth>1.0</PCIe_Lane_Bandwidth></Host_Parameter_Set>
<Device_Parameter_Set>
<Enabled_Preconditioning>false</Enabled_Preconditioning>
<Preemptible_GC_Enabled>false</Preemptible_GC_Enabled>
<Flash_Channel_Count>2</Flash_Channel_Count>
<Flash_Parameter_Set>
<CMD_Suspension_Support>NONE</CMD_Suspension_Support>
</Flash_Parameter_Set>
</Device_Parameter_Set>
</Execution_Parameter_Set>
";

const WORKLOAD: &str = "<?xml version=\"1.0\" encoding=\"us-ascii\"?>
<MQSim_IO_Scenarios>
<IO_Scenario>
<!-- one flow -->
<IO_Flow_Parameter_Set_Synthetic>
<Priority_Class>low</Priority_Class>
<Device_Level_Data_Caching_Mode>WRITE_CACHE</Device_Level_Data_Caching_Mode>
<Channel_IDs>1</Channel_IDs>
<Chip_IDs>0,1,2,3</Chip_IDs>
<Initial_Occupancy_Percentage>75</Initial_Occupancy_Percentage>
<Working_Set_Percentage>50</Working_Set_Percentage>
<Synthetic_Generator_Type>QUEUE_DEPTH</Synthetic_Generator_Type>
<Read_Percentage>70</Read_Percentage>
<Address_Distribution>RANDOM_HOTCOLD</Address_Distribution>
<Percentage_of_Hot_Region>20</Percentage_of_Hot_Region>
<Generated_Aligned_Addresses>true</Generated_Aligned_Addresses>
<Address_Alignment_Unit>16</Address_Alignment_Unit>
<Request_Size_Distribution>NORMAL</Request_Size_Distribution>
<Average_Request_Size>8</Average_Request_Size>
<Variance_Request_Size>2</Variance_Request_Size>
<Seed>-7</Seed>
<Average_No_of_Reqs_in_Queue>32</Average_No_of_Reqs_in_Queue>
<Stop_Time>1000000</Stop_Time>
<Total_Requests_To_Generate>0</Total_Requests_To_Generate>
</IO_Flow_Parameter_Set_Synthetic>
</IO_Scenario>
</MQSim_IO_Scenarios>
";

fn parse(drive: &str, workload: &str, as_mqsim: bool) -> Result<Import, MqsimError> {
    let (drive, workload) = (drive.as_bytes(), workload.as_bytes());
    mqsim::parse(("ssdconfig.xml", drive), ("workload.xml", workload), as_mqsim)
}

/// `text` with the value of the first element `tag` replaced, or the element put before
/// `before` if there is none.
fn with(text: &str, tag: &str, value: &str, before: &str) -> String {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let element = format!("{open}{value}{close}");
    match (text.find(&open), text.find(&close)) {
        (Some(start), Some(end)) => {
            format!("{}{element}{}", &text[..start], &text[end + close.len()..])
        }
        _ => text.replacen(before, &format!("{element}\n{before}"), 1),
    }
}

fn drive_with(tag: &str, value: &str) -> String {
    with(DRIVE, tag, value, "<Flash_Parameter_Set>")
}

fn flow_with(tag: &str, value: &str) -> String {
    with(WORKLOAD, tag, value, "</IO_Flow_Parameter_Set_Synthetic>")
}

fn read_only() -> String {
    flow_with("Read_Percentage", "100")
}

#[test]
fn a_flow_is_read() {
    let import = parse(DRIVE, WORKLOAD, false).unwrap();
    assert_eq!(import.scenarios.len(), 1);
    let scenario = &import.scenarios[0];
    assert_eq!(scenario.precondition, Precondition::None);
    let [flow] = &scenario.flows[..] else { panic!("one flow") };
    assert_eq!(flow.name, "flow-1");
    assert_eq!(flow.namespace.0, 1);
    assert_eq!(flow.priority, Priority::Low);
    assert_eq!(flow.seed, Some(-7i64 as u64));
    assert_eq!(flow.occupancy, Some(0.75));
    assert_eq!(flow.limits, Limits { runtime: Some(Span::from_ms(1)), ..Limits::default() });
    let Source::Synthetic(synthetic) = &flow.source else { panic!("a synthetic flow") };
    assert_eq!(synthetic.mode, Mode::Closed { depth: 32 });
    assert_eq!(synthetic.mix, Mix { read: 0.7, trim: 0.0 });
    assert_eq!(synthetic.addresses, Addresses::HotCold { hot_access: 0.8, hot_space: 0.2 });
    assert_eq!(synthetic.block, BlockSize::Normal { mean: 8.0, deviation: 2.0 });
    assert_eq!(synthetic.align_sectors, 16);
    assert_eq!(synthetic.size, Extent::Share(0.5));
    // One channel of 4 chips, 2 dies and 2 planes, none shared.
    let pages = 16 * ((2048.0 * 256.0 * 0.93) as u64);
    assert_eq!(
        scenario.config.namespaces,
        [Namespace { units: Some(pages), channels: vec![1], ..Namespace::whole_drive() }]
    );
    assert!(flow.generator(pages * 16, 1, 0, 0).is_ok());
}

#[test]
fn the_drive_is_read() {
    let config = parse(DRIVE, WORKLOAD, false).unwrap().scenarios.remove(0).config;
    assert_eq!(config.geometry.channels, 2);
    assert_eq!(config.geometry.dies(), 16);
    assert_eq!(config.link.bytes_per_s, 4_000_000_000);
    assert_eq!(config.link.submission_entry_bytes, 64);
    assert_eq!(config.bus.rounding, BusRounding::Exact);
    assert_eq!(config.bus.arbitration, BusArbitration::CommandFirst);
    assert_eq!(config.mapping.unmapped_reads, UnmappedReads::Zeroes);
    assert_eq!(config.mapping.unit_bytes, 8192);
    let MappingTable::Cached(table) = config.mapping.table else { panic!("a cached table") };
    assert_eq!((table.sharing, table.write_back), (CmtSharing::Shared, true));
    assert_eq!((table.load_bytes, table.entry_bytes), (512, None));
    assert!(config.scheduler.die_interleaving && !config.scheduler.priority_classes);
    assert_eq!(config.gc.victim, VictimPolicy::DChoices { d: 11 });
    assert_eq!(config.gc.start * 2048.0, 102.0);
    assert!(!config.gc.preemptible && !config.gc.copyback);
    assert_eq!(config.flash.read_ready_delay, Span::from_ns(20));
    let cache = config.cache.unwrap();
    assert_eq!((cache.bytes, cache.write_back), (512 << 20, WriteBack::Eager));
}

#[test]
fn as_mqsim_it_has_mqsims_defects() {
    let drive = drive_with("Ideal_Mapping_Table", "FALSE");
    let config = parse(&drive, &read_only(), true).unwrap().scenarios.remove(0).config;
    assert!(!config.scheduler.die_interleaving);
    assert_eq!(config.scheduler.multi_plane_window, u32::MAX);
    let MappingTable::Cached(table) = config.mapping.table else { panic!("a cached table") };
    assert_eq!((table.sharing, table.write_back), (CmtSharing::Private, false));
    assert_eq!(config.bus.rounding, BusRounding::TruncatedNs);
    assert_eq!(config.bus.arbitration, BusArbitration::DataFirst);
    assert_eq!(config.mapping.unmapped_reads, UnmappedReads::Allocate);
    assert!(config.link.truncate_ns && !config.link.fetch_prp_lists);
    assert_eq!(config.link.submission_entry_bytes, 72);
    assert_eq!(config.cache, None, "a flow that only reads has no use for it");
    let drive = drive_with("CMT_Sharing_Mode", "EQUAL_PARTITIONING");
    let config = parse(&drive, &read_only(), true).unwrap().scenarios.remove(0).config;
    let MappingTable::Cached(table) = config.mapping.table else { panic!("a cached table") };
    assert_eq!(table.sharing, CmtSharing::Partitioned);
}

#[test]
fn settings_reach_the_model() {
    let config = |tag, value| {
        parse(&drive_with(tag, value), WORKLOAD, false).unwrap().scenarios.remove(0).config
    };
    assert!(
        config("Transaction_Scheduling_Policy", "PRIORITY_OUT_OF_ORDER").scheduler.priority_classes
    );
    assert_eq!(config("Ideal_Mapping_Table", "true").mapping.table, MappingTable::Ideal);
    for (name, victim) in [
        ("greedy", VictimPolicy::Greedy),
        ("RGA", VictimPolicy::DChoices { d: 11 }),
        ("RANDOM", VictimPolicy::Random),
        ("RANDOM_P", VictimPolicy::RandomP { pages: 1 }),
        ("RANDOM_PP", VictimPolicy::RandomPlusPlus),
        ("FIFO", VictimPolicy::Fifo),
    ] {
        assert_eq!(config("GC_Block_Selection_Policy", name).gc.victim, victim);
    }
    assert!(config("Use_Copyback_for_GC", "true").gc.copyback);
    assert_eq!(
        config("Plane_Allocation_Scheme", "PDWC").plane_order.0,
        [Dimension::Plane, Dimension::Die, Dimension::Chip, Dimension::Channel]
    );
    let gc = config("Preemptible_GC_Enabled", "true").gc;
    assert!(gc.preemptible);
    assert_eq!(gc.urgent * 2048.0, 10.0);
    assert_eq!(config("GC_Exec_Threshold", "0.0001").gc.start * 2048.0, 10.0);
    assert_eq!(config("Seed", "99").seed, 99);
    assert_eq!(config("Queue_Fetch_Size", "16").queues.fetch_size, 16);
}

#[test]
fn flows_that_share_planes_share_their_capacity() {
    let start = WORKLOAD.find("<IO_Flow").unwrap();
    let end = WORKLOAD.find("</IO_Scenario>").unwrap();
    let second = with(&WORKLOAD[start..end], "Channel_IDs", "0,1", "");
    let both = format!("{}{second}{}", &WORKLOAD[..end], &WORKLOAD[end..]);
    let import = parse(DRIVE, &both, false).unwrap();
    let scenario = &import.scenarios[0];
    let pages = 2048.0 * 256.0 * 0.93;
    let (whole, half) = (16 * (pages as u64), 16 * ((pages / 2.0) as u64));
    let units: Vec<_> = scenario.config.namespaces.iter().map(|n| n.units.unwrap()).collect();
    assert_eq!(units, [half, half + whole]);
    assert_eq!(scenario.flows[1].namespace.0, 2);
    assert!(scenario.config.namespaces[1].channels.is_empty(), "all of them");
}

#[test]
fn other_flows() {
    let streaming = flow_with("Address_Distribution", "STREAMING");
    let flow = parse(DRIVE, &streaming, false).unwrap().scenarios.remove(0).flows.remove(0);
    let Source::Synthetic(synthetic) = flow.source else { panic!("a synthetic flow") };
    assert_eq!(
        synthetic.addresses,
        Addresses::Sequential { start: Start::Random, positions: Positions::Shared }
    );

    let mean = |bandwidth, as_mqsim| {
        let text = flow_with("Synthetic_Generator_Type", "BANDWIDTH");
        let text = with(&text, "Bandwidth", bandwidth, "<Stop_Time>");
        let flow = parse(DRIVE, &text, as_mqsim).unwrap().scenarios.remove(0).flows.remove(0);
        match flow.source {
            Source::Synthetic(s) => s.mode,
            Source::Trace(_) | Source::KeyValue(_) | Source::Front(_) => panic!("a synthetic flow"),
        }
    };
    let exponential = |mean| Mode::Open { arrivals: Arrivals::Exponential { mean }, depth: None };
    assert_eq!(mean("12288", false), exponential(Span::from_ps(333_333_333_333)));
    assert_eq!(mean("12288", true), exponential(Span::from_ns(333_333_333)));
    assert_eq!(mean("14000", true), exponential(Span::from_ns(333_333_333)));

    let count = flow_with("Stop_Time", "0");
    let count = with(&count, "Total_Requests_To_Generate", "500", "");
    let flow = parse(DRIVE, &count, false).unwrap().scenarios.remove(0).flows.remove(0);
    assert_eq!(flow.limits, Limits { requests: Some(500), ..Limits::default() });

    let trace = "<MQSim_IO_Scenarios><IO_Scenario><IO_Flow_Parameter_Set_Trace_Based>
        <File_Path>a&amp;b.trace</File_Path><Percentage_To_Be_Executed>50</Percentage_To_Be_Executed>
        <Relay_Count>3</Relay_Count><Time_Unit>MICROSECOND</Time_Unit>
        </IO_Flow_Parameter_Set_Trace_Based></IO_Scenario></MQSim_IO_Scenarios>";
    for (as_mqsim, share, tick) in [(false, 0.5, 1000), (true, 1.0, 1)] {
        let import = parse(DRIVE, trace, as_mqsim).unwrap();
        let Source::Trace(trace) = &import.scenarios[0].flows[0].source else { panic!("a trace") };
        assert_eq!(trace.path, Path::new("a&b.trace"));
        assert_eq!((trace.share, trace.repeat, trace.tick), (share, 3, Span::from_ns(tick)));
        let ignored = import.warnings.iter().filter(|text| text.contains("so does this run"));
        assert_eq!(ignored.count(), if as_mqsim { 2 } else { 0 });
    }
}

#[test]
fn what_cannot_be_used_is_named_with_its_place() {
    let drives = [
        ("HostInterface_Type", "SCSI"),
        ("Address_Mapping", "HYBRID"),
        ("Transaction_Scheduling_Policy", "FIFO"),
        ("GC_Block_Selection_Policy", "LRU"),
        ("Use_Copyback_for_GC", "perhaps"),
        ("CMD_Suspension_Support", "ALWAYS"),
        ("Memory_Type", "PCM"),
        ("Flash_Comm_Protocol", "NVDDR3"),
        ("Plane_Allocation_Scheme", "CWDC"),
        ("Flash_Channel_Count", "0"),
        ("Flash_Channel_Count", "4000000000"),
        ("Flash_Channel_Count", "eight"),
        ("Flash_Channel_Count", ""),
        ("Overprovisioning_Ratio", "1.5"),
        ("Overprovisioning_Ratio", "NaN"),
        ("PCIe_Lane_Bandwidth", "-1"),
        ("Enabled_Preconditioning", "maybe"),
        ("Data_Cache_Capacity", "<b>1</b>"),
    ];
    let flows = [
        ("Read_Percentage", "101"),
        ("Address_Distribution", "MIXED_STREAMING_RANDOM"),
        ("Percentage_of_Hot_Region", "0"),
        ("Average_Request_Size", "0"),
        ("Address_Alignment_Unit", "0"),
        ("Average_No_of_Reqs_in_Queue", "0"),
        ("Stop_Time", "0"),
        ("Stop_Time", "99999999999999999999"),
        ("Channel_IDs", "0,2"),
        ("Channel_IDs", ","),
        ("Device_Level_Data_Caching_Mode", "CACHE"),
        ("Priority_Class", "TOP"),
        ("Initial_Occupancy_Percentage", "101"),
    ];
    let mut said = String::new();
    let mut say = |result: Result<Import, MqsimError>| {
        said += &format!("{}\n", result.expect_err("an error"));
    };
    for (tag, value) in drives {
        say(parse(&drive_with(tag, value), WORKLOAD, false));
    }
    for (tag, value) in flows {
        say(parse(DRIVE, &flow_with(tag, value), false));
    }
    let few = with(DRIVE, "Block_No_Per_Plane", "8", "</Flash_Parameter_Set>");
    say(parse(&few, WORKLOAD, false));
    let odd = with(DRIVE, "Page_Capacity", "4000", "</Flash_Parameter_Set>");
    say(parse(&odd, WORKLOAD, false));
    let simple = drive_with("Caching_Mechanism", "SIMPLE");
    say(parse(&simple, &flow_with("Device_Level_Data_Caching_Mode", "READ_CACHE"), false));
    say(parse(&simple, &flow_with("Device_Level_Data_Caching_Mode", "WRITE_CACHE"), true));
    say(parse(DRIVE, &WORKLOAD.replace("<Read_Percentage>70</Read_Percentage>", ""), false));
    say(parse(DRIVE, "<MQSim_IO_Scenarios></MQSim_IO_Scenarios>", false));
    say(parse(DRIVE, "<MQSim_IO_Scenarios><IO_Scenario/></MQSim_IO_Scenarios>", false));
    say(parse(WORKLOAD, WORKLOAD, false));
    say(parse(DRIVE, DRIVE, false));
    say(parse("", WORKLOAD, false));
    say(parse("USE_INTERNAL_PARAMS\n", WORKLOAD, false));
    say(parse(DRIVE, "<MQSim_IO_Scenarios>\n<<<<<<< HEAD\n<IO_Scenario>", false));
    say(parse(DRIVE, &WORKLOAD.replace("</Seed>", "</</Seed>"), false));
    say(parse(DRIVE, &WORKLOAD.replace("</Seed>", "</Sead>"), false));
    say(parse(DRIVE, &WORKLOAD.replace("-7", "&seed;"), false));
    say(parse(&"<a>".repeat(100), WORKLOAD, false));
    say(mqsim::parse(("ssdconfig.xml", b"<a>\n\xff</a>"), ("w", b""), false));
    say(mqsim::load(Path::new("no.xml"), Path::new("such.xml"), false));
    insta::assert_snapshot!("errors", said);
}

#[test]
fn what_changes_nothing_is_let_through_with_a_warning() {
    let inert = [
        ("GC_Block_Selection_Policy", "RANDOM_PP"),
        ("Caching_Mechanism", "SIMPLE"),
        ("Data_Cache_Sharing_Mode", "EQUAL_PARTITIONING"),
        ("CMD_Suspension_Support", "ERASE"),
        ("Static_Wearleveling_Threshold", "100"),
        ("Preferred_suspend_erase_time_for_read", "700000"),
        ("Data_Cache_Capacitty", "100"),
        ("Dynamic_Wearleveling_Enabled", "false"),
        ("Use_Copyback_for_GC", "true"),
        ("Ideal_Mapping_Table", "true"),
        ("GC_Hard_Threshold", "0.1"),
        ("SATA_Processing_Delay", "5"),
        ("CMT_Sharing_Mode", "SHARED"),
    ];
    let mut said = String::new();
    for (tag, value) in inert {
        let import = parse(&drive_with(tag, value), &read_only(), true).unwrap();
        said += &format!("{}\n", import.warnings.join("\n"));
    }
    // MQSim never suspends; a drive does.
    let scheduler = |tag, value, as_mqsim| {
        let import = parse(&drive_with(tag, value), WORKLOAD, as_mqsim).unwrap();
        import.scenarios[0].config.scheduler
    };
    assert_eq!(scheduler("CMD_Suspension_Support", "ERASE", true).suspend_erase, None);
    let suspending = scheduler("CMD_Suspension_Support", "PROGRAM_ERASE", false);
    assert_eq!(suspending.suspend_erase, None, "its collections are not interrupted");
    let drive = drive_with("CMD_Suspension_Support", "PROGRAM_ERASE");
    let drive = with(&drive, "Preemptible_GC_Enabled", "true", "");
    let suspending = parse(&drive, WORKLOAD, false).unwrap().scenarios[0].config.scheduler;
    let erase = suspending.suspend_erase.unwrap();
    assert_eq!(erase.latency, mynah_stamp::Span::from_us(700));
    assert_eq!(suspending.suspend_program.unwrap().least_left, mynah_stamp::Span::from_us(100));
    assert_eq!(suspending.suspend_erase_for_writes, Some(mynah_stamp::Span::from_us(700)));
    // MQSim's SATA is its PCIe behind an adapter; a drive's is SATA with 32 tags.
    let sata = |as_mqsim| {
        let import = parse(&drive_with("HostInterface_Type", "SATA"), WORKLOAD, as_mqsim).unwrap();
        let config = &import.scenarios[0].config;
        (config.link.protocol, config.queues.command_slots)
    };
    assert_eq!(sata(false), (LinkProtocol::Sata, 32));
    assert_eq!(sata(true).0, LinkProtocol::Pcie);
    // MQSim stops at FLIN; a drive has it.
    assert!(parse(&drive_with("Transaction_Scheduling_Policy", "FLIN"), WORKLOAD, true).is_err());
    assert!(scheduler("Transaction_Scheduling_Policy", "FLIN", false).flin.is_some());
    let write_only = flow_with("Read_Percentage", "0");
    let read_cache = with(&write_only, "Device_Level_Data_Caching_Mode", "READ_CACHE", "");
    let import = parse(DRIVE, &read_cache, false).unwrap();
    assert_eq!(import.scenarios[0].config.cache, None);
    for (drive, workload, as_mqsim) in [
        (DRIVE.to_owned(), read_only(), false),
        (DRIVE.to_owned(), flow_with("Intensity", "32768"), true),
        (drive_with("Channel_Transfer_Rate", "1200"), read_only(), true),
    ] {
        let import = parse(&drive, &workload, as_mqsim).unwrap();
        said += &format!("{}\n", import.warnings.join("\n"));
    }
    insta::assert_snapshot!("warnings", said);
}

#[test]
fn mqsims_own_files_are_read_unchanged() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/mqsim/configs");
    let mut runs = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let run = entry.unwrap().path();
        for as_mqsim in [true, false] {
            let (drive, workload) = (run.join("ssdconfig.xml"), run.join("workload.xml"));
            let import = mqsim::load(&drive, &workload, as_mqsim).unwrap();
            let figure = run.to_str().unwrap().contains("fig12")
                && !run.ends_with("fig12_qfs1024_flow-1_alone");
            assert!(import.scenarios.len() >= if figure { 4 } else { 1 }, "{run:?}");
            for scenario in &import.scenarios {
                assert_eq!(scenario.flows.len(), scenario.config.namespaces.len());
                assert_eq!(import.seed, 321);
            }
            runs += 1;
        }
    }
    assert_eq!(runs, 24);
}

#[test]
fn files_converted_describe_the_same_simulation() {
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/mqsim/configs");
    let mut imports = Vec::new();
    for entry in std::fs::read_dir(configs).unwrap() {
        let run = entry.unwrap().path();
        for as_mqsim in [true, false] {
            let (drive, workload) = (run.join("ssdconfig.xml"), run.join("workload.xml"));
            imports.push(mqsim::load(&drive, &workload, as_mqsim).unwrap());
        }
    }
    let bandwidth = flow_with("Synthetic_Generator_Type", "BANDWIDTH");
    let trace = "<MQSim_IO_Scenarios><IO_Scenario><IO_Flow_Parameter_Set_Trace_Based>
        <Priority_Class>URGENT</Priority_Class><Die_IDs>1</Die_IDs>
        <File_Path>a&amp;b.trace</File_Path><Percentage_To_Be_Executed>50</Percentage_To_Be_Executed>
        <Relay_Count>3</Relay_Count><Time_Unit>MICROSECOND</Time_Unit>
        </IO_Flow_Parameter_Set_Trace_Based></IO_Scenario></MQSim_IO_Scenarios>";
    for (drive, workload) in [
        (drive_with("Seed", "-7"), WORKLOAD.to_owned()),
        (drive_with("Flash_Channel_Count", "3"), flow_with("Address_Distribution", "STREAMING")),
        (
            drive_with("Queue_Fetch_Size", "77"),
            with(&bandwidth, "Bandwidth", "12345", "<Stop_Time>"),
        ),
        (drive_with("HostInterface_Type", "SATA"), read_only()),
        (drive_with("Overprovisioning_Ratio", "0.123456"), trace.to_owned()),
        (drive_with("GC_Exec_Threshold", "0.0333"), flow_with("Working_Set_Percentage", "7")),
        (with(DRIVE, "CMD_Suspension_Support", "PROGRAM_ERASE", ""), WORKLOAD.to_owned()),
        (with(DRIVE, "Block_No_Per_Plane", "64", "</Flash_Parameter_Set>"), read_only()),
    ] {
        for as_mqsim in [true, false] {
            imports.push(parse(&drive, &workload, as_mqsim).unwrap());
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (drive, experiment) = (folder.path().join("it.toml"), folder.path().join("it-work.toml"));
    for simulation in imports.into_iter().flat_map(Simulation::from_mqsim) {
        let files = simulation.to_files("From a test", &drive, &experiment).unwrap();
        std::fs::write(&drive, files.drive).unwrap();
        std::fs::write(&experiment, files.experiment).unwrap();
        let read = Simulation::from_experiment(&experiment, &[]).unwrap();
        assert_eq!((&read.name, &read.config), (&simulation.name, &simulation.config));
        assert_eq!(read.options.seed, simulation.options.seed);
        assert_eq!(read.options.precondition, simulation.options.precondition);
        let mut flows = simulation.flows;
        for flow in &mut flows {
            if let Source::Trace(trace) = &mut flow.source {
                trace.path = std::path::absolute(&trace.path).unwrap();
            }
        }
        assert_eq!(read.flows, flows);
    }
}

#[test]
fn truncation_at_any_byte_is_an_error() {
    for (text, other) in [(DRIVE, WORKLOAD), (WORKLOAD, DRIVE)] {
        let whole = text.trim_end().len();
        for cut in 0..whole {
            let (drive, workload) =
                if text == DRIVE { (&text[..cut], other) } else { (other, &text[..cut]) };
            let error = parse(drive, workload, false).expect_err("a truncated file");
            assert!(error.line().is_some(), "{error}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = mqsim::parse(("d", &bytes), ("w", WORKLOAD.as_bytes()), false);
        let _ = mqsim::parse(("d", DRIVE.as_bytes()), ("w", &bytes), true);
    }

    #[test]
    fn no_edit_makes_it_panic(
        cut in 0usize..2000, length in 0usize..60, paste in "[<>/&;a-zA-Z_0-9 !\\[\\]-]{0,12}", which: bool,
    ) {
        let text = if which { DRIVE } else { WORKLOAD };
        let start = cut.min(text.len());
        let end = (start + length).min(text.len());
        let edited = format!("{}{paste}{}", &text[..start], &text[end..]);
        let (drive, workload) = if which { (&*edited, WORKLOAD) } else { (DRIVE, &*edited) };
        if let Ok(import) = parse(drive, workload, which) {
            for scenario in import.scenarios {
                for flow in &scenario.flows {
                    let _ = flow.generator(1 << 20, 1, 0, 0).map(|mut g| g.next());
                }
            }
        }
    }
}

/// Two flows that read and write, with these modes.
fn two_flows(modes: [&str; 2]) -> String {
    let flow = |mode| {
        let one = flow_with("Device_Level_Data_Caching_Mode", mode);
        let (from, to) = (one.find("<IO_Flow").unwrap(), one.find("</IO_Scenario>").unwrap());
        one[from..to].to_owned()
    };
    let [first, second] = modes.map(flow);
    format!("<MQSim_IO_Scenarios><IO_Scenario>{first}{second}</IO_Scenario></MQSim_IO_Scenarios>")
}

#[test]
fn caching_modes_and_partitions_are_what_the_flows_ask_for() {
    use mynah_model::config::{CacheMode, CacheSharing, Caching};
    let config = |drive: &str, modes| {
        parse(drive, &two_flows(modes), false).unwrap().scenarios.remove(0).config
    };
    let modes = |modes| {
        let config = config(DRIVE, modes);
        let caching = [0, 1].map(|flow| config.namespaces[flow].caching);
        (config.cache.map(|cache| cache.mode), caching)
    };
    use Caching::{Cache, Only};
    assert_eq!(modes(["TURNED_OFF", "TURNED_OFF"]), (None, [Cache, Cache]));
    assert_eq!(modes(["WRITE_CACHE", "WRITE_CACHE"]), (Some(CacheMode::Write), [Cache, Cache]));
    assert_eq!(modes(["READ_CACHE", "READ_CACHE"]), (Some(CacheMode::Read), [Cache, Cache]));
    let (mode, caching) = modes(["WRITE_READ_CACHE", "TURNED_OFF"]);
    assert_eq!((mode, caching), (Some(CacheMode::Both), [Cache, Only(None)]));
    let (mode, caching) = modes(["WRITE_CACHE", "READ_CACHE"]);
    assert_eq!(mode, Some(CacheMode::Both));
    assert_eq!(caching, [Only(Some(CacheMode::Write)), Only(Some(CacheMode::Read))]);
    let parted = drive_with("Data_Cache_Sharing_Mode", "EQUAL_PARTITIONING");
    let sharing = |drive: &str| config(drive, ["WRITE_CACHE"; 2]).cache.unwrap().sharing;
    assert_eq!(sharing(DRIVE), CacheSharing::Shared);
    assert_eq!(sharing(&parted), CacheSharing::PerNamespace);
    // One flow has all of it either way.
    let alone = parse(&parted, WORKLOAD, false).unwrap().scenarios.remove(0).config;
    assert_eq!(alone.cache.unwrap().sharing, CacheSharing::Shared);
    // SIMPLE is the same cache, for writes of flows that share it.
    let simple = drive_with("Caching_Mechanism", "SIMPLE");
    assert_eq!(config(&simple, ["WRITE_CACHE"; 2]), config(DRIVE, ["WRITE_CACHE"; 2]));
}

/// Every form of a value, as MQSim reads it (`IO_Flow_Parameter_Set.cpp`, `Device_Parameter_Set.cpp`;
/// RapidXML without trimming, whose blanks around words it does not take, and this reader does).
#[test]
fn forms_of_values() {
    let read = |text: String| parse(DRIVE, &text, false);
    let taken = |text: String, check: &dyn Fn(&mqsim::Scenario) -> bool| {
        let import = read(text.clone()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(check(&import.scenarios[0]), "{text}");
    };
    // Words, in any case.
    for word in ["LOW", "low", "Low", " LOW ", "<![CDATA[LOW]]>", "LO<!-- c -->W", "&#76;OW"] {
        let text = flow_with("Priority_Class", word);
        taken(text, &|scenario| scenario.flows[0].priority == Priority::Low);
    }
    // What is true or false.
    let align = |scenario: &mqsim::Scenario| match &scenario.flows[0].source {
        Source::Synthetic(synthetic) => synthetic.align_sectors,
        Source::Trace(_) | Source::KeyValue(_) | Source::Front(_) => panic!("drawn"),
    };
    for (word, sectors) in
        [("true", 16), ("TRUE", 16), ("True", 16), ("1", 16), ("false", 1), ("FALSE", 1)]
    {
        let text = flow_with("Generated_Aligned_Addresses", word);
        taken(text, &|scenario| align(scenario) == sectors);
    }
    for word in ["0", "no", "", "flase"] {
        let error = read(flow_with("Generated_Aligned_Addresses", word)).unwrap_err();
        assert_eq!(error.tag(), Some("Generated_Aligned_Addresses"), "{word}");
    }
    // Numbers.
    for number in ["75", " 75 ", "+75", "075", "\n75\t"] {
        let text = flow_with("Initial_Occupancy_Percentage", number);
        taken(text, &|scenario| scenario.flows[0].occupancy == Some(0.75));
    }
    for number in ["0x4b", "75%", "75.5", "-1", "101", ""] {
        assert!(read(flow_with("Initial_Occupancy_Percentage", number)).is_err(), "{number}");
    }
    // Lists.
    for list in ["1", " 1 ", "1,", ",1", "1,,1", "1, 1"] {
        let text = flow_with("Channel_IDs", list);
        taken(text, &|scenario| scenario.config.namespaces[0].channels == [1]);
    }
    for list in ["", ",", "1;0", "2", "a"] {
        assert!(read(flow_with("Channel_IDs", list)).is_err(), "{list}");
    }
    // What stands around them: tags that are not known, attributes, comments, the order.
    let text =
        flow_with("Power_Budget", "7").replace("<IO_Scenario>", "<!-- x --><IO_Scenario n='1'>");
    let import = read(text).unwrap();
    assert!(import.warnings.iter().any(|warning| warning.contains("Power_Budget")));
    assert!(read(WORKLOAD.replace("Seed", "seed")).unwrap().scenarios[0].flows[0].seed.is_none());
}

#[test]
fn an_occupancy_of_nothing_is_an_empty_drive() {
    let workload = with(
        &flow_with("Initial_Occupancy_Percentage", "0"),
        "Stop_Time",
        "200000",
        "<Total_Requests_To_Generate>",
    );
    let ran = |drive: &str| {
        let import = parse(drive, &workload, false).unwrap();
        let mut simulations = Simulation::from_mqsim(import);
        simulations.remove(0).run().unwrap()
    };
    // Without preconditioning the number is not used.
    assert!(ran(DRIVE).result.requests > 0);
    let conditioned = drive_with("Enabled_Preconditioning", "true");
    let measured = ran(&conditioned);
    assert!(measured.result.requests > 0);
    let units = |workload: &str| {
        let import = parse(&conditioned, workload, false).unwrap();
        let simulation = Simulation::from_mqsim(import).remove(0);
        let runner =
            Runner::new(simulation.config.clone(), &simulation.flows, &simulation.options).unwrap();
        let classes = runner.occupancy().iter().flat_map(|occupancy| &occupancy.classes);
        classes.map(|class| class.units).sum::<u64>()
    };
    assert_eq!(units(&workload), 0);
    assert!(units(WORKLOAD) > 0);
}
