//! fio's `zoned` distribution: requests fall as it says, and the drive starts as its writes leave it.

use mynah_workload::{FlowOptions, WriteProfile};

fn flow(distribution: &str) -> mynah_workload::FlowSpec {
    let options = FlowOptions {
        rw: Some("randwrite".into()),
        bs: Some("4k".into()),
        number_ios: Some("100000".into()),
        random_distribution: Some(distribution.into()),
        ..FlowOptions::default()
    };
    options.flow("zoned").unwrap()
}

#[test]
fn requests_fall_where_it_says() {
    let flow = flow("zoned:50/5:30/15:20/80");
    let sectors = 8_000_000u64;
    let mut generator = flow.generator(sectors, 1, 0, 0).unwrap();
    let mut counts = [0f64; 3];
    while let Some(planned) = generator.next() {
        let share = planned.sector as f64 / sectors as f64;
        counts[usize::from(share >= 0.05) + usize::from(share >= 0.2)] += 1.0;
    }
    // Five standard deviations of a binomial of 100,000.
    for (count, expected) in counts.into_iter().zip([50_000.0, 30_000.0, 20_000.0]) {
        assert!((count - expected).abs() < 800.0, "{counts:?}");
    }
}

#[test]
fn its_writes_are_classes_of_the_steady_state() {
    let profile = flow("zoned:50/5:30/15:20/80").write_profile(8_000_000, 8).unwrap();
    let WriteProfile::Zoned { first_unit: 0, units: 1_000_000, zones } = profile else {
        panic!("{profile:?}");
    };
    assert_eq!(zones.iter().count(), 3);
}
