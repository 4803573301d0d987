use super::super::trace::Trace;
use super::*;
use mynah_profile::Head;
use mynah_stamp::{Span, Time};
use proptest::prelude::*;

/// I/Os of two stages, by party: when they begin, and what they spend in each.
fn trace(ios: &[(u64, u64, u64, u16)]) -> (Trace, Vec<usize>) {
    let mut trace = Trace::new(2);
    for (sequence, &(begin, a, b, party)) in ios.iter().enumerate() {
        let (begin, sequence) = (Time::from_ps(begin), sequence as u64);
        let head = Head { begin, sequence, connection: party, ..Head::default() };
        trace.add(&head, &[Span::from_ps(a), Span::from_ps(b)]);
    }
    trace.sort();
    let of = trace.ios().iter().map(|io| usize::from(io.connection)).collect();
    (trace, of)
}

fn met(trace: &Trace, of: &[usize], last: usize, waits: bool) -> Met {
    let mut met = Met::new(3);
    stays(trace, 0, last, Scope::All).iter().for_each(|stays| met.sweep(stays, of, waits));
    met
}

fn in_order(trace: &Trace, of: &[usize]) -> Met {
    let mut met = Met::new(3);
    stays(trace, 0, 0, Scope::All).iter().for_each(|stays| met.sweep_in_order(stays, of));
    met
}

proptest! {
    /// All that a party spent in a stage is somebody's, and nothing is anybody's twice.
    #[test]
    fn parts_add_up(
        ios in prop::collection::vec((0..300u64, 0..60u64, 0..60u64, 0..3u16), 1..80),
        waits in any::<bool>(),
    ) {
        let (trace, of) = trace(&ios);
        let found = met(&trace, &of, usize::from(waits), waits);
        for victim in 0..3 {
            let ours = ios.iter().filter(|io| usize::from(io.3) == victim);
            let spent: u64 = ours.map(|io| io.1).sum();
            let parts = found.alone[victim] + found.with[victim].iter().sum::<f64>();
            prop_assert!((parts - spent as f64).abs() < 1e-6 * (1.0 + spent as f64), "{parts} {spent}");
            let found = in_order(&trace, &of);
            let parts = found.alone[victim] + found.with[victim].iter().sum::<f64>();
            prop_assert!((parts - spent as f64).abs() < 1e-6 * (1.0 + spent as f64), "{parts} {spent}");
        }
    }
}

#[test]
fn moments_are_divided_by_hand() {
    // 0: from 0 to 10. 1: from 4 to 8, and again from 6 to 12.
    let (trace, of) = trace(&[(0, 10, 0, 0), (4, 4, 0, 1), (6, 6, 0, 1)]);
    let found = met(&trace, &of, 0, false);
    assert_eq!(found.alone, [4.0, 2.0, 0.0]);
    assert_eq!(found.with[0], [0.0, 6.0, 0.0]);
    // Of the first: 2 beside 0, then 2 beside two; of the second 2 beside two, 2 beside 0.
    assert_eq!(found.with[1], [2.0 + 1.0 + 1.0 + 2.0, 1.0 + 1.0, 0.0]);
    // In order, all is that of 0 until 10; then the last is served.
    let found = in_order(&trace, &of);
    assert_eq!(found.alone, [10.0, 2.0, 0.0]);
    assert_eq!(found.with[1], [4.0 + 4.0, 0.0, 0.0]);
}

#[test]
fn who_waits_for_whom() {
    // 0 is served from 0 to 20; 1 waits for it from 5 to 20, and meanwhile 2 waits as well, from 10.
    let (trace, of) = trace(&[(0, 0, 20, 0), (5, 15, 5, 1), (10, 15, 5, 2)]);
    let found = met(&trace, &of, 1, true);
    assert_eq!(found.with[1], [5.0 + 5.0, 0.0, 5.0]);
    assert_eq!(found.alone, [0.0; 3]);
}
