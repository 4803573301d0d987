//! Flows with placement handles on drives that begin at rest.

use mynah_lab::simulation::Simulation;
use mynah_result::Result;

/// A small drive with eight handles, under these flows.
fn run(flows: &[String]) -> std::result::Result<Result, String> {
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
    simulation.run().map(|run| run.result).map_err(|error| error.to_string())
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
