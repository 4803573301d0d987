//! What drives are written by.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::io::Write;
use std::sync::OnceLock;

/// A load: its name, its flows without an end.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) flows: Vec<String>,
    /// How often it writes the drive's capacity: until hardly a unit lies where it was put down
    /// first.
    pub(crate) turns: f64,
}

fn load(name: &'static str, flows: &[&str]) -> Load {
    Load { name, flows: flows.iter().map(|&flow| flow.to_owned()).collect(), turns: 3.0 }
}

impl Load {
    fn turned(self, turns: f64) -> Load {
        Load { turns, ..self }
    }
}

/// A trace beside the tests, over and over.
pub(crate) fn trace(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/traces");
    format!("trace={folder}/{name}.trace trace_format=mqsim trace_remap=modulo")
}

/// A trace of random writes to a fifth of a drive of half a gibibyte, which lies all over it.
fn scattered() -> String {
    static FILE: OnceLock<tempfile::NamedTempFile> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut draw = |below: u64| rng.next_u64() % below;
        let units: Vec<u64> = (0..30_000).map(|_| draw(125_000)).collect();
        let mut file = tempfile::NamedTempFile::with_suffix(".trace").unwrap();
        for at in 0..45_000u64 {
            let unit = units[draw(30_000) as usize];
            let read = u64::from(draw(10) < 3);
            writeln!(file, "{} 0 {} 8 {read}", at * 400_000, unit * 8).unwrap();
        }
        file
    });
    format!("trace={} trace_format=mqsim trace_remap=modulo", file.path().display())
}

/// Three streams with a handle each, for drives with data placement: in order, and at random in parts
/// of two sizes.
pub(crate) fn placed() -> Load {
    let flows = [
        "rw=write bs=64k iodepth=2 size=50% fdp=1 plids=0",
        "rw=randwrite bs=4k iodepth=8 offset=50% size=30% fdp=1 plids=1",
        "rw=randwrite bs=16k iodepth=2 offset=80% size=20% fdp=1 plids=2",
    ];
    load("placed", &flows).turned(8.0)
}

/// Thirteen loads.
pub(crate) fn all() -> [Load; 13] {
    [
        load("uniform", &["rw=randwrite bs=4k iodepth=32"]),
        load("zipf", &["rw=randwrite bs=4k iodepth=32 random_distribution=zipf:0.8"]).turned(12.0),
        load("hot-cold", &["rw=randwrite bs=4k iodepth=32 random_distribution=hotcold:90/10"])
            .turned(20.0),
        load("half", &["rw=randwrite bs=4k iodepth=32 size=50%"]),
        load("occupancy", &["rw=randwrite bs=4k iodepth=32 occupancy=60"]).turned(7.0),
        load("trims", &["rw=randrw rwmixread=0 rwmixtrim=20 bs=4k iodepth=32"]),
        load("mixed", &["rw=randrw rwmixread=70 bs=4k iodepth=16"]),
        load("16k", &["rw=randwrite bs=16k iodepth=8"]),
        load("sizes", &["rw=randwrite bssplit=4k/50:16k/30:64k/20 blockalign=4k iodepth=16"]),
        load("sequential", &["rw=write bs=128k iodepth=8"]),
        load(
            "two-flows",
            &[
                "rw=randwrite bs=4k iodepth=8 size=50%",
                "rw=randrw rwmixread=70 bs=16k iodepth=8 offset=50% size=50%",
            ],
        ),
        Load { name: "trace", flows: vec![trace("tpcc-part")], turns: 2.0 },
        Load { name: "gaps", flows: vec![scattered()], turns: 3.0 },
    ]
}
