//! Key-value flows in simulations: what latencies are made of, what is counted, what is refused.

use mynah_lab::experiment::Precondition;
use mynah_lab::simulation::Simulation;
use mynah_result::{KeySides, Result, Side};

/// A small drive of pairs, with these changes.
fn drive(changes: &[&str]) -> Simulation {
    let small = [
        "geometry.channels=2",
        "geometry.chips_per_channel=2",
        "geometry.dies_per_chip=1",
        "geometry.blocks_per_plane=64",
        "geometry.pages_per_block=48",
        "cache.size=1MiB",
        "over_provisioning=25%",
        "kv.value_max=64KiB",
        "kv.index.dram=all",
    ];
    let changes: Vec<String> = small.iter().chain(changes).map(|set| set.to_string()).collect();
    Simulation::on_changed("kv-tlc", &changes).unwrap().precondition(Precondition::Fill)
}

fn run(simulation: Simulation, flow: &str) -> Result {
    simulation.flow("it", flow).unwrap().run().unwrap().result
}

fn sides(result: &Result) -> &KeySides {
    result.flows[0].key_value.as_ref().expect("its commands are of keys")
}

fn mean_us(side: &Side) -> f64 {
    side.lat_ns.expect("there were some").mean / 1000.0
}

/// What stages of this name took in the mean.
fn stage_us(side: &Side, name: &str) -> f64 {
    let found = side.stages.iter().find(|stage| stage.stage == name);
    found.map_or(0.0, |stage| stage.mean_ns / 1000.0)
}

#[test]
fn commands_take_what_their_parts_take() {
    let times = [
        "kv.time.store=10us",
        "kv.time.update=20us",
        "kv.time.retrieve={fixed=\"30us\", per_kib=\"1us\"}",
        "kv.time.delete=40us",
        "kv.time.exist=50us",
        "kv.time.list=60us",
        "flash.read=45us",
    ];
    let on = || drive(&times);
    let rest = "keys=2k value_size=2000 iodepth=1 number_ios=500";
    for (mix, pick, firmware, flash) in [
        ("store=100", (|it| &it.store) as fn(&KeySides) -> &Side, 10.0, 0.0),
        ("update", |it| &it.update, 20.0, 0.0),
        ("retrieve", |it| &it.retrieve, 30.0 + 2000.0 / 1024.0, 45.0),
        ("delete", |it| &it.delete, 40.0, 0.0),
        ("exist", |it| &it.exist, 50.0, 0.0),
        ("list", |it| &it.list, 60.0, 0.0),
        ("retrieve-miss", |it| &it.retrieve, 30.0, 0.0),
    ] {
        let result = run(on(), &format!("kv={mix} {rest}"));
        let side = pick(sides(&result));
        assert_eq!(side.ios, 500, "{mix}");
        let all: u64 = sides(&result).each().iter().map(|(_, side)| side.ios).sum();
        assert_eq!(all, 500, "{mix}: nothing else was done");
        assert!((stage_us(side, "firmware") - firmware).abs() < 1e-3, "{mix}");
        // A pair of three units lies in two pages now and then, which are read side by side.
        let array = stage_us(side, "flash_array");
        assert!((array - flash).abs() < 1e-3, "{mix}: {array}");
        let sum: f64 = side.stages.iter().map(|stage| stage.mean_ns / 1000.0).sum();
        assert!((sum - mean_us(side)).abs() < 1e-6);
        let misses = result.device.unwrap().key_value.unwrap().misses;
        assert_eq!(misses, if mix == "retrieve-miss" { 500 } else { 0 }, "{mix}");
    }
}

#[test]
fn space_is_counted_to_the_byte() {
    // Header 16 B, key 20 B: 988 B of value are a unit, 989 B are two.
    for (value, units) in [(0, 1), (988, 1), (989, 2), (10_000, 10)] {
        let flow = format!("kv=exist keys=1k key_size=20 value_size={value} number_ios=10");
        let held = run(drive(&[]), &flow).device.unwrap().key_value.unwrap();
        assert_eq!(held.keys, 1000);
        assert_eq!(held.live_bytes, Some(1000 * (20 + value)));
        assert_eq!(held.allocated_bytes, 1000 * units * 1024);
        let amplification = (units * 1024) as f64 / (20 + value) as f64;
        assert!((held.space_amplification.unwrap() - amplification).abs() < 1e-12);
    }
    // What is stored anew takes no more, and what is deleted nothing.
    let updated = run(drive(&[]), "kv=update keys=1k value_size=900 number_ios=3000 iodepth=4");
    assert_eq!(updated.device.unwrap().key_value.unwrap().allocated_bytes, 1000 * 1024);
    let deleted = run(drive(&[]), "kv=delete keys=1k number_ios=400 iodepth=4");
    assert_eq!(deleted.device.unwrap().key_value.unwrap().keys, 600);
    let stored = run(drive(&[]), "kv=store keys=700 value_size=900 iodepth=8");
    assert_eq!(sides(&stored).store.ios, 700);
    assert_eq!(stored.device.unwrap().key_value.unwrap().keys, 700);
}

#[test]
fn managers_bound_the_rate_and_a_cold_index_costs_reads() {
    for managers in [1, 4] {
        let on = drive(&[&format!("kv.managers={managers}"), "kv.time.retrieve=100us"]);
        let result = run(on, "kv=retrieve keys=5k value_size=500 iodepth=32 number_ios=5000");
        let rate = sides(&result).retrieve.iops;
        let most = f64::from(managers) / 100e-6;
        assert!(rate <= most && rate > 0.98 * most, "{rate} of {most}");
        let busy = result.device.unwrap().key_value.unwrap().manager_utilisation;
        assert!((0.97..=1.0).contains(&busy), "{busy}");
    }
    let flow = "kv=retrieve keys=60k value_size=500 iodepth=8 number_ios=10000";
    let reads = |dram: &str| {
        let set = ["kv.index.kind=hash", &format!("kv.index.dram={dram}"), "cache.mode=write"];
        let held = run(drive(&set), flow).device.unwrap().key_value.unwrap();
        (held.flash_reads_per_retrieve.unwrap(), held.index_hit_ratio.unwrap())
    };
    let (warm, hits) = reads("all");
    assert!((warm - 1.0).abs() < 1e-9 && hits == 1.0, "{warm} {hits}");
    let (cold, hits) = reads("512KiB");
    assert!(hits < 0.9 && (cold - (2.0 - hits)).abs() < 0.02, "{cold} {hits}");
}

#[test]
fn what_is_read_and_modified_is_stored_then() {
    let result = run(drive(&[]), "kv=ycsb-f keys=2k value_size=1k iodepth=4 number_ios=4000");
    let sides = sides(&result);
    assert_eq!(sides.retrieve.ios, 4000);
    let share = sides.update.ios as f64 / 4000.0;
    assert!((share - 0.5).abs() < 0.03, "{share}");
    assert_eq!(sides.store.ios, 0);
    let list = run(drive(&[]), "kv=ycsb-e keys=2k number_ios=1000");
    let KeySides { list, store, .. } = list.flows[0].key_value.as_deref().unwrap();
    assert_eq!(list.ios + store.ios, 1000);
    // 1 to 100 keys of 20 bytes each, and 4 bytes.
    let mean = list.bytes as f64 / list.ios as f64;
    assert!((900.0..1130.0).contains(&mean), "{mean}");
}

#[test]
fn runs_are_the_same_again_and_settle() {
    let flow = "kv=retrieve=50,store=20,update=20,delete=10 keys=5k value_size=100-4k iodepth=16 \
                number_ios=20000 misses=5% numjobs=2";
    let json = || run(drive(&[]), flow).to_json();
    let first = json();
    assert_eq!(first, json());
    assert!(first.contains("\"store\"") && first.contains("\"space_amplification\""));
    // A full drive under updates is at rest before it is measured.
    let steady = drive(&[]).precondition(Precondition::Steady);
    let flow = "kv=update keys=250k value_size=900 iodepth=32 number_ios=20000";
    let result = run(steady, flow);
    assert!(result.settled.is_some());
    let device = result.device.unwrap();
    assert!(device.gc_runs > 0 && device.waf.unwrap() > 1.1, "{:?}", device.waf);
    assert_eq!(device.key_value.unwrap().keys, 250_000);
}

#[test]
fn a_full_drive_refuses_what_does_not_fit() {
    let result = run(
        drive(&[]).precondition(Precondition::None),
        "kv=store keys=600k value_size=900 iodepth=32",
    );
    let store = &sides(&result).store;
    let held = result.device.as_ref().unwrap().key_value.as_ref().unwrap();
    assert!(store.errors["capacity_exceeded"] > 0);
    assert_eq!(store.ios + store.errors["capacity_exceeded"], 600_000);
    assert_eq!(held.keys, store.ios, "what was refused is not there");
    assert!(held.allocated_bytes <= held.capacity_bytes);
}

#[test]
fn blocks_and_pairs_share_a_drive() {
    let on =
        || drive(&["namespace.0.kind=kv", "namespace.0.size=64MiB", "namespace.1.channels=[]"]);
    let both = on()
        .flow("pairs", "kv=ycsb-a keys=10k value_size=900 iodepth=4 number_ios=5000")
        .and_then(|it| it.flow("blocks", "rw=randrw bs=4k iodepth=4 number_ios=5000 namespace=2"));
    let result = both.unwrap().run().unwrap().result;
    assert_eq!(result.requests, 10_000);
    assert!(result.flows[0].key_value.is_some() && result.flows[1].key_value.is_none());
    assert!(result.flows[1].read.ios > 0);
    let json = result.to_json();
    assert!(!json.contains("null,\n      \"store\""));
}

fn refused(simulation: Simulation, flow: &str) -> String {
    let error = simulation.flow("it", flow).and_then(|it| it.run()).map(|_| ()).unwrap_err();
    assert!(error.is_usage(), "{error}");
    let help = miette::Diagnostic::help(&error).map(|help| help.to_string());
    format!("{error}\n  {}\n", help.unwrap_or_default())
}

#[test]
fn what_does_not_fit_is_refused() {
    let blocks = || Simulation::on("samsung-48l-tlc").unwrap();
    let mixed = || drive(&["namespace.0.size=64MiB", "namespace.1.kind=kv"]);
    let two = drive(&[]).flow("first", "kv=retrieve runtime=1ms").unwrap();
    let texts = [
        refused(blocks(), "kv=retrieve number_ios=1"),
        refused(mixed(), "kv=retrieve number_ios=1"),
        refused(mixed(), "rw=randread namespace=2 number_ios=1"),
        refused(drive(&[]), "rw=randread number_ios=1"),
        refused(drive(&["kv.key_max=16"]), "kv=retrieve key_size=17 number_ios=1"),
        refused(drive(&[]), "kv=retrieve value_size=65k number_ios=1"),
        refused(drive(&[]), "kv=retrieve keys=10m number_ios=1"),
        refused(drive(&[]).precondition(Precondition::None), "kv=delete keys=900g number_ios=1"),
        refused(drive(&[]), "kv=retrieve keys=200k number_ios=1"),
        refused(drive(&[]).precondition(Precondition::SteadyRandom), "kv=update number_ios=1"),
        refused(two, "kv=update number_ios=1 key_size=20"),
        refused(drive(&[]), "kv=update bs=4k number_ios=1"),
        refused(drive(&[]), "kv=update number_ios=1 numjobs=0"),
    ];
    insta::assert_snapshot!(texts.join("\n"));
}
