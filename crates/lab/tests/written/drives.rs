//! The drives that are written: shipped ones, cut so that some CPU seconds turn them over, and
//! drawn ones.

use mynah_lab::Simulation;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A drive, small enough to be written.
#[derive(Clone)]
pub(crate) struct Cut {
    pub(crate) name: String,
    pub(crate) drive: &'static str,
    pub(crate) changes: Vec<String>,
}

impl Cut {
    fn new(drive: &'static str, changes: &[&str]) -> Cut {
        let changes = changes.iter().map(|&change| change.to_owned()).collect();
        Cut { name: drive.to_owned(), drive, changes }
    }

    /// A valid drive with settings drawn from `seed`, and three loads, by number.
    pub(crate) fn random(seed: u64) -> (Cut, [usize; 3]) {
        const DRIVE: &str = "samsung-pm9a3";
        let choices: [(&str, &[&str]); 16] = [
            ("geometry.channels", &["2", "4"]),
            ("geometry.chips_per_channel", &["1", "2"]),
            ("geometry.dies_per_chip", &["1", "2"]),
            ("geometry.planes_per_die", &["1", "2"]),
            ("geometry.blocks_per_plane", &["64", "96", "160"]),
            ("geometry.pages_per_block", &["48", "64", "96"]),
            ("geometry.page_size", &["8KiB", "16KiB", "32KiB"]),
            ("mapping.unit", &["4KiB", "4KiB", "8KiB"]),
            ("over_provisioning", &["12%", "16%", "20%", "28%"]),
            ("gc.victim", &["greedy", "greedy", "fifo", "cost-benefit", "random++"]),
            ("gc.write_frontiers", &["one", "separate"]),
            ("gc.paced", &["true", "true", "false"]),
            ("gc.preemptible", &["true", "false"]),
            ("cache.size", &["2MiB", "8MiB"]),
            ("allocation.placement", &["static", "striped", "least-loaded"]),
            ("scheduler.multi_plane", &["true", "false"]),
        ];
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        loop {
            let draw = |(key, values): &(&str, &[&str])| {
                format!("{key}={}", values[rng.next_u64() as usize % values.len()])
            };
            let changes: Vec<String> = choices.iter().map(draw).collect();
            if Simulation::on_changed(DRIVE, &changes).is_ok() {
                let loads = std::array::from_fn(|_| rng.next_u64() as usize % 1024);
                return (Cut { name: format!("random-{seed}"), drive: DRIVE, changes }, loads);
            }
        }
    }
}

/// Two for every run of the tests: one that places writes where there is room, one by address.
pub(crate) fn sample() -> [Cut; 2] {
    [
        Cut::new(
            "samsung-980-pro",
            &[
                "geometry.channels=2",
                "geometry.blocks_per_plane=80",
                "geometry.pages_per_block=24",
                "over_provisioning=14%",
                "cache.size=2MiB",
            ],
        ),
        Cut::new(
            "sata-850-pro",
            &[
                "geometry.channels=2",
                "geometry.chips_per_channel=2",
                "geometry.blocks_per_plane=80",
                "geometry.pages_per_block=48",
                "over_provisioning=14%",
                "cache.size=2MiB",
            ],
        ),
    ]
}

/// One of them with reclaim unit handles.
pub(crate) fn placed(isolation: &str) -> Cut {
    let [mut cut, _] = sample();
    cut.name = format!("980-pro-{isolation}");
    // Each handle has blocks open.
    cut.changes.push("over_provisioning=25%".to_owned());
    cut.changes.push(format!("placement={{handles=4,isolation=\"{isolation}\"}}"));
    cut
}

/// Two dies with few blocks.
pub(crate) fn small() -> Cut {
    let changes = [
        "geometry.channels=2",
        "geometry.chips_per_channel=1",
        "geometry.dies_per_chip=1",
        "geometry.blocks_per_plane=200",
        "geometry.pages_per_block=48",
        "cache.size=2MiB",
    ];
    Cut { name: "small".to_owned(), ..Cut::new("enterprise-tlc", &changes) }
}

/// The shipped drive of this name, cut.
pub(crate) fn of(name: &str) -> Cut {
    shipped().into_iter().find(|cut| cut.name == name).unwrap()
}

/// The shipped drives of flash.
pub(crate) fn shipped() -> Vec<Cut> {
    vec![
        Cut::new(
            "enterprise-tlc",
            &[
                "geometry.channels=4",
                "geometry.blocks_per_plane=100",
                "geometry.pages_per_block=48",
                "cache.size=8MiB",
            ],
        ),
        Cut::new(
            "samsung-pm9a3",
            &[
                "geometry.channels=4",
                "geometry.blocks_per_plane=100",
                "geometry.pages_per_block=48",
                "cache.size=8MiB",
            ],
        ),
        Cut::new(
            "samsung-980-pro",
            &["geometry.channels=4", "geometry.pages_per_block=24", "cache.size=8MiB"],
        ),
        Cut::new(
            "samsung-970-pro",
            &[
                "geometry.channels=4",
                "geometry.blocks_per_plane=120",
                "geometry.pages_per_block=64",
                "cache.size=8MiB",
            ],
        ),
        Cut::new("samsung-48l-tlc", &["geometry.channels=2", "geometry.pages_per_block=48"]),
        Cut::new(
            "qlc-p4320",
            &["geometry.channels=2", "geometry.pages_per_block=192", "cache.size=8MiB"],
        ),
        Cut::new(
            "sata-850-pro",
            &[
                "geometry.channels=4",
                "geometry.blocks_per_plane=160",
                "geometry.pages_per_block=64",
                "cache.size=8MiB",
            ],
        ),
        Cut::new(
            "z-nand-sz985",
            &["geometry.channels=4", "geometry.blocks_per_plane=120", "cache.size=8MiB"],
        ),
        Cut::new(
            "mqsim",
            &[
                "geometry.channels=2",
                "geometry.chips_per_channel=2",
                "geometry.blocks_per_plane=256",
                "geometry.pages_per_block=64",
                "cache.size=8MiB",
            ],
        ),
        Cut::new(
            "mqsim-table3",
            &[
                "geometry.channels=2",
                "geometry.chips_per_channel=2",
                "geometry.blocks_per_plane=256",
                "geometry.pages_per_block=64",
                "cache.size=8MiB",
            ],
        ),
        Cut::new(
            "eemu-baseline",
            &[
                "geometry.channels=4",
                "geometry.blocks_per_plane=100",
                "geometry.pages_per_block=48",
                "cache.size=8MiB",
            ],
        ),
    ]
}
