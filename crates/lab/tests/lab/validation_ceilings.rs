//! The shipped drives at their limits: large sequential reads come near the channels' or the
//! link's rate, and one small read at a time takes what its parts take.

use mynah_drive_file as drive;
use mynah_lab::experiment::Precondition;
use mynah_lab::runner::{Outcome, RunOptions, Runner};
use mynah_model::config::Config;
use mynah_result::kind::Kind;
use mynah_workload::FlowOptions;

const DRIVES: [&str; 4] = ["mqsim", "mqsim-table3", "enterprise-tlc", "samsung-970-pro"];

fn run(config: &Config, flow: &[(&str, &str)]) -> Outcome {
    let mut options = FlowOptions::default();
    for (name, value) in flow {
        assert!(options.set(name, *value), "{name}");
    }
    let flow = options.flow("flow").unwrap();
    let options = RunOptions { precondition: Precondition::Fill, ..RunOptions::default() };
    let outcome = Runner::new(config.clone(), &[flow], &options).unwrap().run(|_| true).unwrap();
    let recorder = &outcome.recorder;
    let (watched, by_law) = (recorder.mean_outstanding(), recorder.littles_law_outstanding());
    assert!((watched / by_law - 1.0).abs() < 1e-9, "{watched} {by_law}");
    outcome
}

/// A drive with fewer blocks, which change nothing here but the time to build it.
fn small(name: &str) -> Config {
    let blocks = ["geometry.blocks_per_plane=64".to_owned(), "over_provisioning=35%".to_owned()];
    drive::load(name, &blocks).unwrap_or_else(|e| panic!("{e:?}")).config
}

#[test]
fn sequential_reads_come_near_a_ceiling() {
    println!("{:<18}{:>12}{:>12}{:>12}{:>8}  GB/s", "drive", "read", "link", "channels", "share");
    for name in DRIVES {
        let config = small(name);
        let outcome = run(
            &config,
            &[("rw", "read"), ("bs", "128k"), ("iodepth", "64"), ("number_ios", "20000")],
        );
        let bytes = outcome.recorder.completions() as f64 * 131_072.0;
        let measured = bytes / outcome.recorder.interval().as_secs_f64() / 1e9;
        let payload = f64::from(config.link.max_payload_bytes);
        let packet = payload + f64::from(config.link.packet_overhead_bytes);
        let link = config.link.bytes_per_s as f64 * payload / packet / 1e9;
        let page = f64::from(config.geometry.page_bytes);
        let spare = match config.bus.transfer_spare {
            true => f64::from(config.geometry.page_spare_bytes),
            false => 0.0,
        };
        let channels = f64::from(config.geometry.channels)
            * f64::from(config.bus.width_bytes)
            * f64::from(config.bus.rate_mts)
            * page
            / (page + spare)
            / 1e3;
        let share = measured / link.min(channels);
        println!("{name:<18}{measured:>12.3}{link:>12.3}{channels:>12.3}{share:>8.3}");
        // Commands take channel time too, and completions link time.
        assert!((0.9..=1.0).contains(&share), "{name}: {share}");
    }
}

#[test]
fn one_small_read_at_a_time() {
    println!("{:<18}{:>10}{:>10}{:>10}  us, 4 KiB reads at QD 1", "drive", "min", "mean", "max");
    for name in DRIVES {
        let config = small(name);
        let flow = [("rw", "randread"), ("bs", "4k"), ("iodepth", "1"), ("number_ios", "2000")];
        let outcome = run(&config, &flow);
        let latencies = outcome.recorder.latencies(0, Kind::Read).unwrap();
        let [min, max] = [latencies.min(), latencies.max()].map(|l| l.unwrap().as_ns_f64() / 1e3);
        let mean = latencies.mean_ns().unwrap() / 1e3;
        println!("{name:<18}{min:>10.3}{mean:>10.3}{max:>10.3}");
        let array = [config.flash.read.lsb, config.flash.read.csb, config.flash.read.msb];
        let least = array.iter().min().unwrap().as_ns_f64() / 1e3;
        let most = array.iter().max().unwrap().as_ns_f64() / 1e3;
        // Two flash reads at the most, if the mapping table misses.
        assert!(min > least && max < 2.0 * most + 40.0, "{name}");
    }
}
