//! The slowest commands of a result are those of the request log, and what they waited for is what the
//! log says they waited.

use crate::small;
use std::collections::BTreeMap;

#[test]
fn the_slowest_are_those_of_the_log_and_say_what_they_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut simulation = small::simulation()
        .flow("reader", "rw=randread iodepth=16 number_ios=4000")
        .unwrap()
        .flow("writer", "rw=randwrite bs=16k iodepth=8 number_ios=1500")
        .unwrap();
    let log = folder.path().join("log.csv");
    simulation.request_log = Some(log.clone());
    let slowest = simulation.run().unwrap().result.slowest;
    assert_eq!(slowest.len(), 10);

    let text = std::fs::read_to_string(log).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<BTreeMap<&str, &str>> =
        lines.map(|line| names.iter().copied().zip(line.split(',')).collect()).collect();
    let ns = |row: &BTreeMap<&str, &str>, name: &str| row[name].parse::<f64>().unwrap();
    let all = |row: &BTreeMap<&str, &str>| ns(row, "completed_ns") - ns(row, "created_ns");
    let mut latencies: Vec<f64> = rows.iter().map(all).collect();
    latencies.sort_by(|a, b| b.total_cmp(a));
    let mut explained = 0;
    for (slow, latency) in slowest.iter().zip(&latencies) {
        assert!((slow.lat_ns - latency).abs() < 0.01, "{} and {latency}", slow.lat_ns);
        let row = rows.iter().find(|row| {
            row["flow"] == slow.flow
                && (ns(row, "created_ns") - slow.created_ns).abs() < 0.01
                && (all(row) - slow.lat_ns).abs() < 0.01
        });
        let row = row.expect("a row of the log");
        let sum: f64 = slow.stages.iter().map(|stage| stage.ns).sum();
        assert!((sum - slow.lat_ns).abs() < 0.01, "{sum} and {}", slow.lat_ns);
        let longest = slow.longest.as_ref().unwrap();
        assert!((ns(row, &format!("{}_ns", longest.stage)) - longest.ns).abs() < 0.01);
        if let Some(wait) = &longest.waited_for {
            assert!(wait.ns <= longest.ns + 0.01 && wait.held_ns <= wait.ns + 0.01);
            assert!(["gc", "reader", "writer"].contains(&&*wait.holder), "{}", wait.holder);
            explained += 1;
        }
    }
    assert!(explained >= 8, "{explained} of ten");
}
