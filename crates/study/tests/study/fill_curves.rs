//! Throughput over what was written: that a drive with fewer blocks has the same curve.

use mynah_lab::runner::SharedStates;
use mynah_study::evidence::{Evidence, Figure};
use std::collections::BTreeMap;

/// Figures of the Atom 50, written from end to end with so many blocks a plane.
fn figures(blocks: u32) -> BTreeMap<Figure, f64> {
    let name = "xpg-atom-50";
    let evidence = Evidence::of(name).expect("it ships");
    // What the DRAM takes at the beginning does not scale.
    let changes = [
        format!("geometry.blocks_per_plane={blocks}"),
        "geometry.pages_per_block=48".to_owned(),
        "cache.size=4MiB".to_owned(),
    ];
    let states = SharedStates::at_once();
    let compared = evidence.check(&evidence.measurements[0], name, &changes, &states);
    let compared = compared.expect("a run");
    compared.iter().map(|one| (one.figure, one.here)).collect()
}

#[test]
fn the_curve_of_a_smaller_drive_is_the_same() {
    let (small, large) = (figures(200), figures(500));
    for (figure, large) in large {
        let off = small[&figure] / large - 1.0;
        println!("{}: {:+.1} %", figure.name(), off * 100.0);
        assert!(off.abs() < 0.05, "{}: {} and {large}", figure.name(), small[&figure]);
    }
}
