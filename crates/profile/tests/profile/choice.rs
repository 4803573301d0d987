//! Which I/Os get a record: laws of filters and of sampling.

use mynah_profile::{
    Choice, ChoiceError, Chooser, Decision, FILTERS_MAX, Filter, Head, KeepAbove, Ranges, Sampling,
    hash,
};
use mynah_stamp::{Span, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

const KINDS: [&str; 3] = ["read", "write", "other"];

fn kinds() -> Vec<String> {
    KINDS.map(str::to_owned).to_vec()
}

fn chooser(choice: Choice) -> Chooser {
    Chooser::new(choice, &kinds()).expect("a choice")
}

fn ranges(most: u64) -> impl Strategy<Value = Ranges> {
    let range = (0..most, 0..most).prop_map(|(a, b)| (a.min(b), a.max(b)));
    prop::collection::vec(range, 0..3).prop_map(Ranges)
}

fn filter() -> impl Strategy<Value = Filter> {
    let kinds = prop::sample::subsequence(kinds(), 0..3);
    (kinds, ranges(9), ranges(3), ranges(3), ranges(9), ranges(3)).prop_map(
        |(kinds, bytes, namespaces, queues, blocks, statuses)| Filter {
            kinds,
            bytes,
            namespaces,
            queues,
            blocks,
            statuses,
        },
    )
}

fn head() -> impl Strategy<Value = Head> {
    (0u8..3, 0u32..9, 0u16..3, 0u16..3, 0u64..9, 0u16..3, 0u64..99, any::<u32>()).prop_map(
        |(kind, bytes, namespace, queue, block, status, total, nth)| Head {
            kind,
            bytes,
            namespace,
            queue,
            block,
            status,
            nth,
            total: Span::from_ps(total),
            ..Head::default()
        },
    )
}

/// What a filter says, word for word.
fn passes(filter: &Filter, head: &Head) -> bool {
    let within = |ranges: &Ranges, value: u64| {
        ranges.0.is_empty() || ranges.0.iter().any(|&(a, b)| a <= value && value <= b)
    };
    let kind = KINDS[usize::from(head.kind)];
    (filter.kinds.is_empty() || filter.kinds.iter().any(|it| it == kind))
        && within(&filter.bytes, head.bytes.into())
        && within(&filter.namespaces, head.namespace.into())
        && within(&filter.queues, head.queue.into())
        && within(&filter.blocks, head.block)
        && within(&filter.statuses, head.status.into())
}

proptest! {
    #[test]
    fn filters_come_first_and_any_of_them_is_enough(
        filters in prop::collection::vec(filter(), 0..4),
        heads in prop::collection::vec(head(), 1..60),
        one_in in 1u32..5,
        above in prop::option::of(0u64..99),
    ) {
        let keep_above = match above {
            Some(ps) if one_in > 1 => KeepAbove::Ps(ps),
            _ => KeepAbove::Nothing,
        };
        let sampling = Sampling::OneIn(one_in);
        let mut chooser = chooser(Choice { filters: filters.clone(), sampling, keep_above });
        for head in heads {
            let passes = filters.is_empty() || filters.iter().any(|it| passes(it, &head));
            let limit = (1u64 << 32) / u64::from(one_in);
            let picked = u64::from(hash(head.queue, head.nth)) < limit;
            let slow = matches!(keep_above, KeepAbove::Ps(ps) if head.total.as_ps() > ps);
            let expected = match (passes, picked, slow) {
                (false, ..) => Decision::Filtered,
                (_, true, _) => Decision::Record,
                (_, _, true) => Decision::Slow,
                _ => Decision::SampledOut,
            };
            prop_assert_eq!(chooser.decide(&head), expected);
        }
    }

    /// Whoever counts alike chooses alike, whatever else is known of the I/Os and whatever came
    /// between: that is what joins two sides.
    #[test]
    fn both_ends_choose_the_same(one_in in 1u32..300, begins in any::<u32>(), queue in any::<u16>()) {
        let sample = |totals: u64, step: usize| {
            let keep_above = if one_in == 1 { KeepAbove::Nothing } else { KeepAbove::Running };
            let sampling = Sampling::OneIn(one_in);
            let mut chooser = chooser(Choice { sampling, keep_above, ..Choice::default() });
            let mut chosen = BTreeMap::new();
            for n in (0..3000u32).step_by(step) {
                let nth = begins.wrapping_add(n);
                let total = Span::from_ps(u64::from(n) % totals);
                let head = Head { queue, nth, total, ..Head::default() };
                chosen.insert(n, chooser.decide(&head) == Decision::Record);
            }
            chosen
        };
        let (host, target) = (sample(1000, 1), sample(7, 3));
        for (n, chosen) in target {
            prop_assert_eq!(host[&n], chosen);
        }
    }

    /// One in N, of any stretch that a load might be periodic in.
    #[test]
    fn a_sample_is_one_in_so_many(one_in in 2u32..100, stride in 1u32..70, queue in 0u16..64) {
        let count = 40_000 * one_in / 10;
        let limit = (1u64 << 32) / u64::from(one_in);
        let chosen = (0..count).filter(|n| u64::from(hash(queue, n * stride)) < limit).count();
        let expected = f64::from(count / one_in);
        let deviations = (chosen as f64 - expected) / expected.sqrt();
        prop_assert!(deviations.abs() < 6.0, "{chosen} for {expected}");
    }

    #[test]
    fn one_in_each_span_of_time(
        gaps in prop::collection::vec(0u64..40, 1..200),
        every in 1u64..100,
    ) {
        let sampling = Sampling::EveryPs(every);
        let mut chooser = chooser(Choice { sampling, ..Choice::default() });
        let mut at = 5;
        let mut last: Option<u64> = None;
        for gap in gaps {
            at += gap;
            let head = Head { begin: Time::from_ps(at - 5), total: Span::from_ps(5), ..Head::default() };
            let due = last.is_none_or(|last| at - last >= every);
            prop_assert_eq!(chooser.decide(&head) == Decision::Record, due);
            if due {
                last = Some(at);
            }
        }
    }
}

/// Latencies of an exponential distribution, and what of them is kept.
struct Load {
    chooser: Chooser,
    random: u64,
    nth: u32,
}

impl Load {
    fn new(one_in: u32) -> Load {
        let keep_above = KeepAbove::Running;
        let sampling = Sampling::OneIn(one_in);
        let chooser = chooser(Choice { sampling, keep_above, ..Choice::default() });
        Load { chooser, random: 1, nth: 0 }
    }

    /// Of `count` I/Os of a mean latency: how many were kept since they were slow, and how many of
    /// them were among the slowest hundredth.
    fn run(&mut self, count: u32, mean_ps: f64) -> (u32, u32) {
        let (mut kept, mut right) = (0, 0);
        for _ in 0..count {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let uniform = ((self.random >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
            let total = Span::from_ps((-uniform.ln() * mean_ps) as u64);
            let head = Head { nth: self.nth, total, ..Head::default() };
            self.nth += 1;
            if self.chooser.decide(&head) == Decision::Slow {
                kept += 1;
                right += u32::from(uniform < 0.01);
            }
        }
        (kept, right)
    }
}

/// The slowest thousandth is kept, however coarse the sample, and the threshold follows a drive that
/// becomes ten times slower or faster without keeping everything meanwhile.
#[test]
fn the_slowest_thousandth_is_kept() {
    for one_in in [2, 10, 100, 1000] {
        let mut load = Load::new(one_in);
        for mean in [1e6, 1e7, 1e5] {
            let (meanwhile, _) = load.run(100_000, mean);
            assert!(meanwhile < 2_000, "1 in {one_in}: {meanwhile} while it learns {mean}");
            let (kept, right) = load.run(500_000, mean);
            assert!((250..=1000).contains(&kept), "1 in {one_in}, {mean}: {kept} of 500");
            assert_eq!(kept, right, "1 in {one_in}, {mean}");
        }
    }
}

/// I/Os that all take as long have no slow ones among them.
#[test]
fn none_is_slow_where_all_are_alike() {
    let mut load = Load::new(10);
    let mut slow = 0;
    for nth in 0..100_000 {
        let head = Head { nth, total: Span::from_us(52), ..Head::default() };
        slow += u32::from(load.chooser.decide(&head) == Decision::Slow);
    }
    assert_eq!(slow, 0);
    assert_eq!(load.chooser.keeps_above(), Some(Span::from_us(52)));
}

#[test]
fn what_cannot_be_chosen_is_refused() {
    let refused = |choice: Choice| Chooser::new(choice, &kinds()).expect_err("no choice");
    let filtered = |filter| Choice { filters: vec![filter], ..Choice::default() };
    let error = refused(filtered(Filter { kinds: vec!["raed".into()], ..Filter::default() }));
    assert_eq!(error.to_string(), "`raed` is no kind of I/O; there are read, write, other");
    let error = refused(filtered(Filter { bytes: Ranges(vec![(9, 3)]), ..Filter::default() }));
    assert_eq!(error, ChoiceError::Range(9, 3));
    let many = Choice { filters: vec![Filter::default(); FILTERS_MAX + 1], ..Choice::default() };
    assert_eq!(refused(many), ChoiceError::TooMany);
    let long = Filter { blocks: Ranges(vec![(1 << 60, u64::MAX); 16]), ..Filter::default() };
    assert_eq!(
        refused(Choice { filters: vec![long; 3], ..Choice::default() }),
        ChoiceError::TooLong
    );
    let sampled = |sampling| Choice { sampling, ..Choice::default() };
    assert_eq!(refused(sampled(Sampling::OneIn(0))), ChoiceError::Nothing);
    assert_eq!(refused(sampled(Sampling::EveryPs(0))), ChoiceError::Nothing);
    let keeps = Choice { keep_above: KeepAbove::Running, ..Choice::default() };
    assert_eq!(refused(keeps), ChoiceError::KeepsAll);
}

/// A choice is said in a header as it was made.
#[test]
fn a_choice_is_json() {
    let filter = Filter {
        kinds: vec!["read".into()],
        bytes: Ranges(vec![(4096, 65536)]),
        ..Filter::default()
    };
    let choice = Choice {
        filters: vec![filter],
        sampling: Sampling::OneIn(100),
        keep_above: KeepAbove::Running,
    };
    let text = serde_json::to_string(&choice).expect("JSON");
    let expected = r#"{"filters":[{"kinds":["read"],"bytes":[[4096,65536]]}],"sampling":{"one-in":100},"keep_above":"running"}"#;
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<Choice>(&text).expect("a choice"), choice);
    assert_eq!(serde_json::from_str::<Choice>("{}").expect("a choice"), Choice::default());
}
