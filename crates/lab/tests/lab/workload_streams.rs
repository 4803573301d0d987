//! What the streams of synthetic flows look like.

use mynah_model::io::Operation;
use mynah_stamp::{Span, Time};
use mynah_workload::{
    Addresses, Arrivals, FlowOptions, FlowSpec, Mode, Planned, Source, WriteProfile,
};
use std::collections::BTreeMap;

/// 1 GiB.
const CAPACITY: u64 = 1 << 21;

fn flow(options: &[(&str, &str)]) -> FlowSpec {
    let mut flow = FlowOptions::default();
    for &(name, value) in options {
        assert!(flow.set(name, value), "no option {name}");
    }
    flow.flow("flow").unwrap()
}

fn draw(flow: &FlowSpec, seed: u64, count: usize) -> Vec<Planned> {
    draw_job(flow, seed, 0, count)
}

fn draw_job(flow: &FlowSpec, seed: u64, job: u32, count: usize) -> Vec<Planned> {
    let mut generator = flow.generator(CAPACITY, seed, 0, job).unwrap();
    std::iter::from_fn(|| generator.next()).take(count).collect()
}

fn why_not(options: &[(&str, &str)]) -> String {
    let mut flow = FlowOptions::default();
    for &(name, value) in options {
        assert!(flow.set(name, value), "no option {name}");
    }
    match flow.flow("flow") {
        Err(error) => error.to_string(),
        Ok(flow) => flow.generator(CAPACITY, 1, 0, 0).unwrap_err().to_string(),
    }
}

#[test]
fn uniform_addresses_are_uniform_and_aligned() {
    let flow = flow(&[("rw", "randread"), ("number_ios", "1000000")]);
    let mut counts = [0f64; 256];
    for planned in draw(&flow, 1, 256_000) {
        assert_eq!(planned.sector % 8, 0);
        assert_eq!(planned.sectors, 8);
        assert_eq!(planned.operation, Operation::Read);
        assert!(planned.sector + 8 <= CAPACITY);
        counts[(planned.sector * 256 / CAPACITY) as usize] += 1.0;
    }
    let chi: f64 = counts.iter().map(|seen| (seen - 1000.0) * (seen - 1000.0) / 1000.0).sum();
    // 255 degrees of freedom: 330 is passed once in a thousand.
    assert!(chi < 330.0, "chi-square {chi}");
}

#[test]
fn hot_part_gets_its_share() {
    let flow = flow(&[
        ("rw", "randwrite"),
        ("random_distribution", "hotcold:90/10"),
        ("number_ios", "1000000"),
    ]);
    let planned = draw(&flow, 3, 100_000);
    let hot = planned.iter().filter(|p| p.sector < CAPACITY / 10).count();
    assert!((89_500..90_500).contains(&hot), "{hot} of 100,000");
    let last = planned.iter().map(|p| p.sector).max().unwrap();
    assert!(last > CAPACITY * 99 / 100);
}

#[test]
fn zipf_places_are_few_hot_ones_anywhere() {
    let flow =
        flow(&[("rw", "randread"), ("random_distribution", "zipf:1.1"), ("number_ios", "1000000")]);
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for planned in draw(&flow, 3, 100_000) {
        assert_eq!(planned.sector % 8, 0);
        assert!(planned.sector + 8 <= CAPACITY);
        *counts.entry(planned.sector / 8).or_default() += 1;
    }
    let mut ranked: Vec<(u64, u64)> = counts.into_iter().map(|(place, n)| (n, place)).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    let total: f64 = (1..=CAPACITY / 8).map(|k| libm::pow(k as f64, -1.1)).sum();
    for (rank, &(seen, _)) in ranked.iter().take(5).enumerate() {
        let expected = 100_000.0 * libm::pow((rank + 1) as f64, -1.1) / total;
        assert!((seen as f64 - expected).abs() < 6.0 * expected.sqrt(), "{rank}: {seen}");
    }
    assert!(ranked[0].1.abs_diff(ranked[1].1) > 1);
    // All jobs of a flow share their hot places.
    let jobs = FlowSpec { jobs: 2, ..flow };
    let mut other: BTreeMap<u64, u64> = BTreeMap::new();
    for planned in draw_job(&jobs, 3, 1, 100_000) {
        *other.entry(planned.sector / 8).or_default() += 1;
    }
    assert_eq!(other.iter().max_by_key(|(_, n)| **n).unwrap().0, &ranked[0].1);
}

#[test]
fn sequential_wraps_at_the_end_of_the_working_set() {
    let flow = flow(&[("offset", "8k"), ("size", "20k"), ("bs", "8k"), ("number_ios", "9")]);
    let sectors: Vec<u64> = draw(&flow, 1, 100).iter().map(|p| p.sector).collect();
    assert_eq!(sectors, [16, 32, 16, 32, 16, 32, 16, 32, 16]);
}

#[test]
fn mixed_sequential_reads_and_writes_advance_apart() {
    let flow = flow(&[("rw", "rw"), ("rwmixread", "70"), ("number_ios", "10000")]);
    let mut next = [0, 0];
    let planned = draw(&flow, 5, 10_000);
    for p in &planned {
        let next = &mut next[usize::from(p.operation == Operation::Write)];
        assert_eq!(p.sector, *next);
        *next += 8;
    }
    let reads = planned.iter().filter(|p| p.operation == Operation::Read).count();
    assert!((6_800..7_200).contains(&reads), "{reads}");
}

#[test]
fn trims_have_their_share() {
    let flow = flow(&[
        ("rw", "randrw"),
        ("rwmixread", "60"),
        ("rwmixtrim", "10"),
        ("number_ios", "20000"),
    ]);
    let planned = draw(&flow, 5, 20_000);
    let count = |operation| planned.iter().filter(|p| p.operation == operation).count();
    assert!((11_700..12_300).contains(&count(Operation::Read)));
    assert!((1_800..2_200).contains(&count(Operation::Trim)));
    assert!((5_700..6_300).contains(&count(Operation::Write)));
}

#[test]
fn alignment_may_exceed_the_block() {
    let flow = flow(&[
        ("rw", "randread"),
        ("bs", "4k"),
        ("blockalign", "8k"),
        ("size", "24k"),
        ("number_ios", "3000"),
    ]);
    let mut seen: Vec<u64> = draw(&flow, 1, 3000).iter().map(|p| p.sector).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [0, 16, 32]);
}

#[test]
fn block_sizes_vary_as_asked_and_stay_inside() {
    let sizes = |option: (&str, &str)| {
        let flow = flow(&[("rw", "randread"), ("size", "64k"), option, ("number_ios", "40000")]);
        let planned = draw(&flow, 1, 40_000);
        for p in &planned {
            assert!(p.sector + u64::from(p.sectors) <= 128 && p.sectors > 0);
        }
        planned.into_iter().map(|p| p.sectors).collect::<Vec<_>>()
    };
    let split = sizes(("bssplit", "4k/60:64k/40"));
    let small = split.iter().filter(|&&s| s == 8).count();
    assert_eq!(small + split.iter().filter(|&&s| s == 128).count(), 40_000);
    assert!((23_500..24_500).contains(&small), "{small}");
    let range = sizes(("bsrange", "4k-16k"));
    for length in [8, 16, 24, 32] {
        let seen = range.iter().filter(|&&s| s == length).count();
        assert!((9_600..10_400).contains(&seen), "{length}: {seen}");
    }
    let normal = sizes(("bsnormal", "16k/2k"));
    let mean = normal.iter().map(|&s| f64::from(s)).sum::<f64>() / 40_000.0;
    assert!((32.4..32.6).contains(&mean), "rounding up adds half a sector: {mean}");
}

#[test]
fn open_loop_requests_arrive_at_their_times() {
    let even = flow(&[("rate_iops", "3"), ("number_ios", "7")]);
    let arrivals: Vec<u64> =
        draw(&even, 1, 100).iter().map(|p| p.arrival.unwrap().as_ps()).collect();
    let expected: Vec<u64> = (0..7).map(|k| k * 1_000_000_000_000 / 3).collect();
    assert_eq!(arrivals, expected);

    let second = flow(&[("rate_iops", "1000"), ("runtime", "1s")]);
    assert_eq!(draw(&second, 1, 10_000).len(), 1000);

    let mut random = flow(&[("number_ios", "100000")]);
    if let Source::Synthetic(synthetic) = &mut random.source {
        synthetic.mode =
            Mode::Open { arrivals: Arrivals::Exponential { mean: Span::from_us(10) }, depth: None };
    }
    let planned = draw(&random, 1, 100_000);
    let mean = planned.last().unwrap().arrival.unwrap().as_ns_f64() / 100_000.0;
    assert!((9_900.0..10_100.0).contains(&mean), "{mean}");
    assert!(planned.windows(2).all(|pair| pair[0].arrival <= pair[1].arrival));
    assert_eq!(draw(&flow(&[("number_ios", "1")]), 1, 1)[0].arrival, None);
}

#[test]
fn limits_end_the_stream() {
    assert_eq!(draw(&flow(&[("number_ios", "5")]), 1, 100).len(), 5);
    assert_eq!(draw(&flow(&[("io_size", "17k")]), 1, 100).len(), 5);
    assert_eq!(draw(&flow(&[("io_size", "17k"), ("number_ios", "3")]), 1, 100).len(), 3);
    assert_eq!(draw(&flow(&[("runtime", "1s")]), 1, 100).len(), 100);
}

#[test]
fn a_seed_is_a_stream_for_ever() {
    let first = |options: &[(&str, &str)]| {
        let mut all = vec![("number_ios", "100")];
        all.extend(options);
        draw(&flow(&all), 42, 3).iter().map(|p| (p.sector, p.sectors)).collect::<Vec<_>>()
    };
    insta::assert_debug_snapshot!(
        "seed_42",
        [
            first(&[("rw", "randread")]),
            first(&[("rw", "randread"), ("random_distribution", "zipf:1.1")]),
            first(&[("rw", "randread"), ("random_distribution", "hotcold:80/20")]),
            first(&[("rw", "randwrite"), ("bsnormal", "16k/4k")]),
            first(&[("rw", "randwrite"), ("bssplit", "4k/50:8k/50")]),
            first(&[("rw", "randrw"), ("randseed", "7")]),
        ]
    );
    let mut open = flow(&[("number_ios", "100")]);
    if let Source::Synthetic(synthetic) = &mut open.source {
        synthetic.mode =
            Mode::Open { arrivals: Arrivals::Exponential { mean: Span::from_us(10) }, depth: None };
    }
    let arrivals: Vec<Time> = draw(&open, 42, 3).iter().map(|p| p.arrival.unwrap()).collect();
    insta::assert_debug_snapshot!("seed_42_arrivals", arrivals);
}

#[test]
fn streams_of_flows_jobs_and_seeds_differ() {
    let flow = flow(&[("rw", "randread"), ("numjobs", "2"), ("number_ios", "100")]);
    let stream = |seed, index, job| {
        let mut generator = flow.generator(CAPACITY, seed, index, job).unwrap();
        std::iter::from_fn(|| generator.next()).collect::<Vec<_>>()
    };
    assert_eq!(stream(1, 0, 0), stream(1, 0, 0));
    assert_ne!(stream(1, 0, 0), stream(2, 0, 0));
    assert_ne!(stream(1, 0, 0), stream(1, 1, 0));
    assert_ne!(stream(1, 0, 0), stream(1, 0, 1));
}

#[test]
fn what_cannot_run_says_why() {
    let cases: &[&[(&str, &str)]] = &[
        &[("rw", "randread")],
        &[("rw", "random")],
        &[("bs", "1000")],
        &[("bs", "4x")],
        &[("bs", "4k"), ("bsrange", "4k-8k")],
        &[("bssplit", "4k/60:8k/30")],
        &[("iodepth", "0")],
        &[("rate_interval", "8us"), ("rate_iops", "100")],
        &[("rate_interval", "0s")],
        &[("rate_iops", "2000000000000")],
        &[("rw", "read"), ("sequential_positions", "shared")],
        &[("rw", "randread"), ("sequential_start", "random")],
        &[("rwmixread", "70")],
        &[("rw", "randrw"), ("rwmixread", "70"), ("rwmixtrim", "40")],
        &[("random_distribution", "zipf:1.1")],
        &[("rw", "randread"), ("random_distribution", "pareto:0.9")],
        &[("rw", "randread"), ("random_distribution", "zipf:0")],
        &[("rw", "randread"), ("random_distribution", "hotcold:90/0")],
        &[("runtime", "0")],
        &[("runtime", "5parsecs")],
        &[("time_based", "1"), ("number_ios", "3")],
        &[("size", "2g"), ("number_ios", "1")],
        &[("offset", "100%"), ("number_ios", "1")],
        &[("size", "4k"), ("bs", "8k"), ("number_ios", "1")],
        &[("rate_iops", "1"), ("number_ios", "1000000000")],
        &[("priority", "best"), ("number_ios", "1")],
        &[("trace", "x.trace"), ("bs", "4k")],
        &[("trace", "no/such.trace")],
        &[("trace_remap", "modulo"), ("number_ios", "1")],
        &[("namespace", "0"), ("number_ios", "1")],
    ];
    let said: Vec<String> = cases.iter().map(|case| why_not(case)).collect();
    insta::assert_snapshot!("messages", said.join("\n"));
}

#[test]
fn write_profiles_tell_where_writes_go() {
    let profile = |options: &[(&str, &str)]| {
        let mut all = vec![("number_ios", "1")];
        all.extend(options);
        flow(&all).write_profile(CAPACITY, 8).unwrap()
    };
    let units = CAPACITY / 8;
    assert_eq!(profile(&[("rw", "randread")]), WriteProfile::None);
    assert_eq!(profile(&[("rw", "randtrim")]), WriteProfile::None);
    assert_eq!(
        profile(&[("rw", "write"), ("size", "50%")]),
        WriteProfile::Sequential { first_unit: 0, units: units / 2, passed_over: 0.0 }
    );
    assert_eq!(
        profile(&[("rw", "randrw"), ("offset", "50%")]),
        WriteProfile::Uniform { first_unit: units / 2, units: units / 2 }
    );
    assert_eq!(
        profile(&[("rw", "randwrite"), ("random_distribution", "hotcold:90/25")]),
        WriteProfile::HotCold { first_unit: 0, units, hot_units: units / 4, hot_access: 0.9 }
    );
    assert_eq!(
        profile(&[("rw", "randwrite"), ("random_distribution", "zipf:1.1")]),
        WriteProfile::Zipf { first_unit: 0, units, theta: 1.1 }
    );
}

proptest::proptest! {
    #[test]
    fn every_request_lies_in_its_working_set(
        seed: u64,
        capacity in 64u64..10_000,
        offset in 0u64..32,
        bs in 1u64..16,
        align in 1u64..20,
        rw in 0usize..8,
        distribution in 0usize..3,
    ) {
        let rw = ["read", "write", "randread", "randwrite", "rw", "randrw", "trim", "randtrim"][rw];
        let mut options = FlowOptions::default();
        options.set("rw", rw);
        options.set("bs", (bs * 512).to_string());
        options.set("blockalign", (align * 512).to_string());
        options.set("offset", (offset * 512).to_string());
        options.set("number_ios", "200");
        if rw.starts_with("rand") {
            let distribution = ["random", "zipf:0.9", "hotcold:80/20"][distribution];
            options.set("random_distribution", distribution);
        }
        let flow = options.flow("flow").unwrap();
        if let Ok(mut generator) = flow.generator(capacity, seed, 0, 0) {
            let base = offset / align * align;
            let mut count = 0;
            while let Some(planned) = generator.next() {
                proptest::prop_assert!(planned.sector >= base);
                proptest::prop_assert!(planned.sector + u64::from(planned.sectors) <= capacity);
                proptest::prop_assert_eq!((planned.sector - base) % align, 0);
                count += 1;
            }
            proptest::prop_assert_eq!(count, 200);
        }
    }
}

/// Prints nanoseconds per draw: `cargo test --release -p mynah-lab --test lab workload_streams
/// -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn time_per_draw() {
    const DRAWS: u64 = 20_000_000;
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("sequential read", &[("rw", "read")]),
        ("uniform read", &[("rw", "randread")]),
        ("uniform 70/30", &[("rw", "randrw"), ("rwmixread", "70")]),
        ("hot/cold read", &[("rw", "randread"), ("random_distribution", "hotcold:90/10")]),
        ("zipf:1.1 read", &[("rw", "randread"), ("random_distribution", "zipf:1.1")]),
        ("zipf:0.9 read", &[("rw", "randread"), ("random_distribution", "zipf:0.9")]),
        ("uniform bssplit", &[("rw", "randread"), ("bssplit", "4k/60:64k/40")]),
        ("uniform normal", &[("rw", "randread"), ("bsnormal", "16k/4k")]),
        ("uniform open loop", &[("rw", "randread"), ("rate_iops", "100000")]),
    ];
    for (name, options) in cases {
        let mut all = vec![("number_ios", "1000000000")];
        all.extend(*options);
        // 512 GiB.
        let mut generator = flow(&all).generator(1 << 30, 1, 0, 0).unwrap();
        let begin = std::time::Instant::now();
        let mut sum = 0u64;
        for _ in 0..DRAWS {
            let planned = generator.next().unwrap();
            sum = sum.wrapping_add(planned.sector);
        }
        let ns = begin.elapsed().as_nanos() as f64 / DRAWS as f64;
        println!("{name:18} {ns:6.2} ns  ({sum:x})");
    }
}

#[test]
fn zipf_addresses_are_what_options_say() {
    let flow =
        flow(&[("rw", "randread"), ("random_distribution", "zipf:1.2"), ("number_ios", "1")]);
    let Source::Synthetic(synthetic) = flow.source else { panic!("a synthetic flow") };
    assert_eq!(synthetic.addresses, Addresses::Zipf { theta: 1.2 });
}
