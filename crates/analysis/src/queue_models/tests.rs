use super::*;
use crate::analyse;
use crate::group::GroupBy;
use mynah_profile::{Head, Header, Side as Whose, TimeBase, Writer};
use mynah_stamp::{Span, Time};
use proptest::prelude::*;
use servers::Job;

fn unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// A profile of one stage that really is such a queue: service takes a microsecond times `slow`, and
/// so much load comes as a server without it could just take.
fn profile(stage: &str, load: f64, slow: f64, seed: u64) -> Analysis {
    let station = stations::ALL.iter().find(|it| it.stage == stage).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut now = 0.0;
    let exponential = |rng: &mut Xoshiro256PlusPlus| -libm::log(unit(rng)) * 1e6;
    let jobs: Vec<Job> = (0..40_000)
        .map(|_| {
            now += exponential(&mut rng) / load;
            let service = (0.5e6 + exponential(&mut rng) / 2.0) * slow;
            Job { arrival: now as u64, service, queue: 0 }
        })
        .collect();
    let times = match station.discipline {
        Discipline::Sharing => sharing(&jobs),
        _ => central(&jobs, 1),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.profile");
    let mut header = Header::new(Whose::Path, "a queue", TimeBase::Virtual);
    header.kinds = vec!["read".into()];
    header.stages = vec![stage.into()];
    let out = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    let mut writer = Writer::new(out, header).unwrap();
    for (job, time) in jobs.iter().zip(times) {
        let total = Span::from_ps(time as u64);
        let begin = Time::from_ps(job.arrival);
        writer.record(Head { begin, total, bytes: 4096, ..Head::default() }, [total], &[]).unwrap();
    }
    writer.finish().unwrap();
    analyse(&path, &GroupBy::default()).unwrap()
}

fn model(base: &Analysis, now: &Analysis) -> StageModel {
    let predicted = predict(base, now);
    assert_eq!(predicted.len(), 1);
    predicted[0].model(|_| true, |_| true).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// More load is not called a slower server.
    #[test]
    fn more_load_is_more_load(low in 0.1..0.4f64, high in 0.7..0.85f64, seed in any::<u64>(), which in 0..4usize) {
        let stage = ["host_submit", "network_response", "late", "output"][which];
        let (base, now) = (profile(stage, low, 1.0, seed), profile(stage, high, 1.0, seed ^ 1));
        let model = model(&base, &now);
        let grown = model.measured_ns - model.base_ns;
        prop_assert!(model.more_load_ns > 0.6 * grown, "{model:?}");
        prop_assert!(model.slower_server_ns < 0.4 * grown, "{model:?}");
    }

    /// A slower server is not called more load.
    #[test]
    fn a_slower_server_is_a_slower_server(load in 0.1..0.3f64, slow in 1.5..3.0f64, seed in any::<u64>(), which in 0..4usize) {
        let stage = ["host_submit", "network_response", "late", "output"][which];
        let (base, now) = (profile(stage, load, 1.0, seed), profile(stage, load, slow, seed ^ 1));
        let model = model(&base, &now);
        let grown = model.measured_ns - model.base_ns;
        prop_assert!(model.slower_server_ns > 0.6 * grown, "{model:?}");
        prop_assert!(model.more_load_ns.abs() < 0.4 * grown, "{model:?}");
    }
}

/// A stage that I/Os pass side by side is no queue.
#[test]
fn a_delay_is_no_queue() {
    let delayed = |load: f64, delay: u64| {
        let mut analysis = profile("network_request", 0.1, 1.0, 3);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut trace = Trace::new(1);
        let mut now = 0.0;
        for sequence in 0..5000 {
            now += -libm::log(unit(&mut rng)) * 1e6 / load;
            let begin = Time::from_ps(now as u64);
            trace.add(&Head { begin, sequence, ..Head::default() }, &[Span::from_ps(delay)]);
        }
        trace.sort();
        analysis.trace = trace;
        analysis
    };
    let found = model(&delayed(0.2, 1_000_000), &delayed(3.0, 1_000_000));
    assert_eq!((found.model.as_str(), found.servers), ("delay", None));
    assert!(found.more_load_ns.abs() < 1.0 && found.slower_server_ns.abs() < 1.0, "{found:?}");
    let found = model(&delayed(0.2, 1_000_000), &delayed(0.2, 3_000_000));
    assert!(found.slower_server_ns > 1900.0, "{found:?}");
}

#[test]
fn samples_have_no_models() {
    let base = profile("late", 0.3, 1.0, 1);
    let mut now = profile("late", 0.3, 1.0, 2);
    assert_eq!(obstacle(&base, &now), None);
    now.counts.sampled_out = now.counts.recorded;
    now.counts.completed *= 2;
    assert!(obstacle(&base, &now).is_some_and(|why| why.contains("arrivals")));
    assert!(predict(&base, &now).is_empty());
    assert!(obstacle(&now, &base).is_some());
}
