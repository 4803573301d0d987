//! What a comparison says of two runs that are known to differ, or not to.

use mynah_lab::Simulation;
use mynah_report::comparison::Comparison;
use mynah_result::Result;

fn run(program: &str) -> Result {
    let simulation = Simulation::on("enterprise-tlc").unwrap();
    let simulation = simulation
        .set("geometry.blocks_per_plane=64")
        .and_then(|s| s.set(program))
        .and_then(|s| s.flow("reader", "rw=randread bs=4k iodepth=1 number_ios=50"))
        .unwrap();
    simulation.run().unwrap().result
}

#[test]
fn a_slower_flash_shows_where_it_is_slower() {
    let [fast, slow] = ["flash.read=50us", "flash.read=100us"].map(run);
    let comparison = Comparison::new(["fast", "slow"], [&fast, &slow]);
    let find = |group: &str, name: &str| {
        let mut found = comparison.figures.iter();
        found.find(|figure| figure.group == group && figure.name == name).unwrap()
    };
    let mean = find("reader read", "latency mean");
    let [a, b] = mean.values.map(Option::unwrap);
    assert!((b - a - 50_000.0).abs() < 1.0, "{a} {b}");
    let array = find("stage, mean of all I/O", "flash_array");
    assert_eq!(array.ratio, Some(2.0));
    assert!(find("reader read", "IOPS").ratio.unwrap() < 1.0);
    let text = comparison.text();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("flash_array"), "{text}");
    let back: Comparison = serde_json::from_str(&comparison.to_json()).unwrap();
    assert_eq!(back, comparison);
}

#[test]
fn the_same_twice_differs_in_nothing() {
    let [a, b] = ["flash.read=50us"; 2].map(run);
    let comparison = Comparison::new(["a", "b"], [&a, &b]);
    assert!(comparison.figures.len() > 8);
    assert!(comparison.figures.iter().all(|f| f.ratio.is_none_or(|ratio| ratio == 1.0)));
}
