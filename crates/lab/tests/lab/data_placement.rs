//! Flows with placement handles on drives that begin at rest.

use mynah_lab::experiment::Settle;
use mynah_lab::replay;
use mynah_lab::simulation::Simulation;
use mynah_result::Result;

/// A small drive with eight handles, under these flows.
fn simulation(flows: &[String]) -> Simulation {
    let changes = [
        "geometry.channels=2",
        "geometry.chips_per_channel=2",
        "geometry.pages_per_block=16",
        "geometry.blocks_per_plane=128",
        "over_provisioning=30%",
        "cache.size=512KiB",
        "placement.handles=8",
    ];
    let changes = changes.map(str::to_owned);
    let mut simulation = Simulation::on_changed("enterprise-tlc", &changes).unwrap();
    for (at, flow) in flows.iter().enumerate() {
        simulation = simulation.flow(&format!("flow-{at}"), flow).unwrap();
    }
    simulation
}

fn run(flows: &[String]) -> std::result::Result<Result, String> {
    simulation(flows).run().map(|run| run.result).map_err(|error| error.to_string())
}

/// The default start of streams that are written in order, each with its handle, is one in which
/// nothing ever is moved, however different their rates.
#[test]
fn streams_apart_begin_apart() {
    let stream = |at: usize, bs: &str| {
        let offset = 25 * at;
        format!("rw=write bs={bs} offset={offset}% size=25% runtime=500ms fdp=1 plids={at}")
    };
    let sizes = ["16k", "64k", "128k", "4k"];
    let flows: Vec<String> = (0..).zip(sizes).map(|(at, bs)| stream(at, bs)).collect();
    let device = run(&flows).unwrap().device.unwrap();
    let placement = device.placement.unwrap();
    assert!(placement.host_bytes > 0);
    let moved: Vec<u64> = placement.handles.iter().map(|of| of.moved_bytes).collect();
    assert_eq!(moved, [0; 8], "{:?}", placement.handles);
}

/// More kinds of data than a pool can be computed of.
#[test]
fn each_of_eight_flows_has_its_handle() {
    let flow = |at: usize| {
        let rw = if at.is_multiple_of(2) { "write" } else { "randwrite" };
        let offset = 12 * at;
        format!("rw={rw} bs=16k offset={offset}% size=12% number_ios=200 fdp=1 plids={at}")
    };
    let flows: Vec<String> = (0..8).map(flow).collect();
    let placement = run(&flows).unwrap().device.unwrap().placement.unwrap();
    let host: Vec<u64> = placement.handles.iter().map(|of| of.host_bytes).collect();
    assert_eq!(host, [200 * 16_384; 8]);
    assert!(placement.handles.iter().all(|of| of.units_closed < 1000), "{placement:?}");
}

/// A cache of which nothing reaches the drive has an end, and says so.
#[test]
fn a_front_that_needs_no_drive_is_an_error() {
    let flow = "kv=update=30,retrieve=70 keys=1k value_size=300 front=cachelib front_region=256k \
                number_ios=100";
    let error = run(&[flow.to_owned()]).unwrap_err();
    assert!(error.contains("none needs the drive"), "{error}");
}

/// Where flows only read, nothing is written before them.
#[test]
fn flows_that_only_read_need_no_handle() {
    let result = run(&["rw=randread number_ios=500".to_owned()]).unwrap();
    assert_eq!(result.flows[0].read.ios, 500);
    assert_eq!(result.device.unwrap().placement.unwrap().host_bytes, 0);
}

/// Whatever readied a drive and its cache before a recorded run is done again before its replay.
#[test]
fn what_readied_a_drive_is_replayed() {
    let folder = std::env::temp_dir().join(format!("mynah-placement-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let recording = folder.join("readied.rec");
    for (flow, settle) in [
        ("rw=randtrim bs=16k number_ios=300", Settle::Auto),
        ("rw=randwrite bs=32k number_ios=300 fdp=1", Settle::Auto),
        ("rw=randwrite bs=32k number_ios=300 fdp=1", Settle::Off),
    ] {
        let mut simulation = simulation(&[flow.to_owned()]);
        simulation.options.settle = settle;
        simulation.record = Some(recording.clone());
        let recorded = simulation.run().unwrap().result;
        let watch = &mut |_: mynah_lab::simulation::Step<'_>| true;
        let again = replay::replay(&recording, None, &[], &[], None, None, watch).unwrap();
        assert_eq!(again.result.to_json(), recorded.to_json(), "{flow}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A trace says nothing of handles: what it writes is told apart by size.
#[test]
fn traces_are_placed_by_size() {
    let folder = std::env::temp_dir().join(format!("mynah-sizes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (scheme, trace) = (folder.join("sizes"), folder.join("trace"));
    std::fs::write(&scheme, "0, 16384, 1\n16384, 1000000, 2\n").unwrap();
    // Time, device, address and size in sectors, 0 for writes: 8, 8, 64, 1 and 2048 sectors.
    std::fs::write(&trace, "0 0 0 8 0\n1 0 8 8 0\n2 0 64 64 0\n3 0 200 1 0\n4 0 4096 2048 0\n")
        .unwrap();
    let (scheme, trace) = (scheme.display(), trace.display());
    let flow = format!("trace={trace} fdp=1 plid_select=size dp_scheme={scheme}");
    let placement = run(&[flow]).unwrap().device.unwrap().placement.unwrap();
    let host: Vec<u64> = placement.handles.iter().map(|of| of.host_bytes / 512).collect();
    assert_eq!(host, [2048, 17, 64, 0, 0, 0, 0, 0]);
    std::fs::remove_dir_all(&folder).unwrap();
}
