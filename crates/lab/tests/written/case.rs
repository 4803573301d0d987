//! One drive under one load: written, prepared, asked.

use crate::drives::Cut;
use crate::loads::Load;
use crate::probes;
use crate::table::{Row, Values};
use mynah_lab::Simulation;
use mynah_lab::experiment::{Precondition, Settle};
use mynah_model::Drive;
use mynah_model::layout::Layout;
use mynah_result::{Latency, Result as RunResult, Side};
use mynah_stamp::Span;
use std::path::{Path, PathBuf};

/// A run that only shows how fast the drive is written.
const FIRST_MS: f64 = 50.0;

pub(crate) struct Case<'a> {
    pub(crate) cut: &'a Cut,
    pub(crate) load: &'a Load,
}

impl Case<'_> {
    fn drive(&self) -> Simulation {
        Simulation::on_changed(self.cut.drive, &self.cut.changes).unwrap().seed(11)
    }

    fn with_load(&self, end: &str) -> Simulation {
        let mut simulation = self.drive();
        for (at, flow) in self.load.flows.iter().enumerate() {
            // A trace goes on until something else ends it.
            let end = match flow.starts_with("trace=") {
                true => "trace_repeat=100000",
                false => end,
            };
            simulation = simulation.flow(&format!("flow-{at}"), &format!("{flow} {end}")).unwrap();
        }
        simulation
    }

    /// The load for so long.
    fn for_ms(&self, ms: f64) -> Simulation {
        let ns = (ms * 1e6) as u64;
        let mut simulation = self.with_load(&format!("runtime={ns}ns"));
        simulation.options.stop_at = self.is_trace().then(|| mynah_stamp::Time::from_ps(ns * 1000));
        simulation
    }

    fn is_trace(&self) -> bool {
        self.load.flows.iter().any(|flow| flow.starts_with("trace="))
    }

    fn run(&self, simulation: &Simulation) -> RunResult {
        let ran = simulation.run();
        ran.unwrap_or_else(|e| panic!("{} {}: {e}", self.cut.name, self.load.name)).result
    }

    /// Fills the drive and writes it; how long a part of the load takes that writes it once over.
    fn write(&self, state: &Path) -> f64 {
        let drive = Drive::new(self.drive().config).unwrap();
        let sectors = drive.namespace_sectors(mynah_model::io::NamespaceId(1)).unwrap();
        let turn = sectors as f64 * 512.0;
        let wanted = self.load.turns * turn;
        let (mut ms, mut written, mut turn_ms) = (FIRST_MS, 0.0, 0.0);
        let mut part_number = 0;
        while written < wanted {
            let mut part = self.for_ms(ms);
            part.options.settle = Settle::Off;
            // Other requests each time: who writes the same in the same order again finds it together.
            part_number += 1;
            part.options.seed = 1000 + part_number;
            match part_number {
                1 => part.options.precondition = Precondition::Fill,
                _ => part.options.load_state = Some(state.to_owned()),
            }
            part.save_state = Some(state.to_owned());
            let result = self.run(&part);
            let bytes = result.device.as_ref().unwrap().host_bytes_written as f64;
            written += bytes;
            if bytes < turn / 1000.0 {
                // A trace may begin late.
                ms *= 4.0;
                continue;
            }
            turn_ms = ms * turn / bytes;
            ms = (turn_ms * (wanted - written).max(0.0) / turn * 1.05).max(10.0);
        }
        turn_ms
    }

    /// Figures of the written drive that goes on, over so many times that it is written over.
    pub(crate) fn in_the_long_run(&self, turns: f64) -> Values {
        let folder = tempfile::tempdir().unwrap();
        let written = folder.path().join("written");
        let ms = self.write(&written) * turns;
        let mut goes_on = self.for_ms(ms);
        goes_on.options.load_state = Some(written);
        goes_on.options.ramp_time = Span::from_ps((ms * 1e9 / 16.0) as u64);
        goes_on.options.seed = 2000;
        of_result(&self.run(&goes_on))
    }

    /// A run that ends when its figures are known, as users start one.
    pub(crate) fn until_known(&self, seed: u64) -> RunResult {
        let mut simulation = self.with_load("runtime=auto");
        simulation.options.seed = seed;
        self.run(&simulation)
    }

    pub(crate) fn compare(&self) -> Vec<Row> {
        let folder = tempfile::tempdir().unwrap();
        let [written, computed] = ["written", "computed"].map(|name| folder.path().join(name));
        let turn_ms = self.write(&written);
        // As every simulation starts, and what it says of that.
        let part_ms = turn_ms / 2.0;
        let start = self.run(&self.for_ms(part_ms));
        let verdict = start.steadiness.as_ref().map_or("none", |judged| judged.verdict.name());
        let mut little = self.for_ms(part_ms / 1000.0);
        little.save_state = Some(computed.clone());
        self.run(&little);
        let mut rows = vec![];
        let mut row = |probe: String, written: [Values; 2], computed: Values| {
            let (drive, load) = (self.cut.name.clone(), self.load.name.to_owned());
            let verdict = verdict.to_owned();
            rows.push(Row { drive, load, probe, written, computed, verdict });
        };
        // Twice with other requests: so far apart are runs by chance.
        let seeds = [2000, 2001];
        // The written drive has come to rest between: it is measured when it is under way again.
        let goes_on = seeds.map(|seed| {
            let mut goes_on = self.for_ms(part_ms);
            goes_on.options.load_state = Some(written.clone());
            goes_on.options.ramp_time = Span::from_ps((part_ms * 1e9 / 4.0) as u64);
            goes_on.options.seed = seed;
            of_result(&self.run(&goes_on))
        });
        row("goes on".into(), goes_on, of_result(&start));
        for (name, flow) in probes::all() {
            let ask = |state: &Path, seed| {
                let mut probe = self.drive().flow("probe", &flow).unwrap();
                probe.options.load_state = Some(PathBuf::from(state));
                probe.options.seed = seed;
                of_result(&self.run(&probe))
            };
            let one = seeds.map(|seed| ask(&written, seed));
            row(name, one, Values::mean(seeds.map(|seed| ask(&computed, seed))));
        }
        let [one, other] = [&written, &computed].map(|state| self.layout(state));
        row("layout".into(), [one.clone(), one], other);
        rows
    }

    fn layout(&self, state: &Path) -> Values {
        let mut drive = Drive::new(self.drive().config).unwrap();
        mynah_lab::saved_state::load(&mut drive, state).unwrap();
        let layout = drive.layout();
        let Layout { free_blocks, valid_units, valid_deviation, plane_deviation, .. } = layout;
        let mut values = vec![
            ("free blocks".to_owned(), free_blocks),
            ("valid units".to_owned(), valid_units),
            ("valid deviation".to_owned(), valid_deviation),
            ("plane deviation".to_owned(), plane_deviation),
        ];
        for of in layout.neighbours {
            values.push((format!("planes of {}", of.units), of.planes));
            values.push((format!("pages of {}", of.units), of.pages));
        }
        Values(values)
    }
}

/// What a probe says: WAF where it wrote much, I/Os a second, mean latency and p99.
pub(crate) fn of_result(result: &RunResult) -> Values {
    let sides = || result.flows.iter().flat_map(|flow| [&flow.read, &flow.write, &flow.trim]);
    let ios: f64 = sides().map(|side: &Side| side.ios as f64).sum();
    let of = |value: fn(&Latency) -> f64| {
        let each = sides().filter_map(|side| Some(side.ios as f64 * value(side.lat_ns.as_ref()?)));
        each.sum::<f64>() / ios / 1000.0
    };
    let mut values = vec![
        ("IOPS".to_owned(), sides().map(|side| side.iops).sum()),
        ("mean".to_owned(), of(|latency| latency.mean)),
        ("p99".to_owned(), of(|latency| latency.percentiles.p99)),
    ];
    let collected = result.steadiness.as_ref().map_or(0, |judged| judged.blocks_collected);
    if let Some(waf) =
        result.device.as_ref().and_then(|device| device.waf).filter(|_| collected > 0)
    {
        values.insert(0, ("WAF".to_owned(), waf));
    }
    Values(values)
}
