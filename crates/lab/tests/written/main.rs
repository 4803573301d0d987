//! What a drive's computed steady state says, against a drive that was really written.
//!
//! The oracle fills the drive in order, runs the load itself on it until twice its capacity has been
//! written, and keeps that state. The other drive starts as every simulation does. Both are asked
//! the same: reads of several sizes, sequential reads, writes, mixes, two traces, and to go on with
//! the load. Nothing of how a steady state is computed goes into the first.
//!
//! A sample runs with the tests. The whole, one CPU hour, which goes on where it was broken
//! off:
//!
//! ```text
//! MYNAH_WRITTEN=FILE cargo test --release -p mynah-lab --test written -- --ignored --nocapture
//! ```
//!
//! The same command runs what is said of verdicts (`verdicts`). `MYNAH_DRIVES=a,b` and `MYNAH_LOADS=c,d` take some of them. Results: `docs/validation.md`.

mod case;
mod drives;
mod loads;
mod probes;
mod table;
mod verdicts;

use case::Case;
use drives::Cut;
use loads::Load;

/// Every drive under every load, what is on record left out.
fn matrix(cases: impl Iterator<Item = (Cut, Load)>) {
    let mut table = table::Table::open();
    for (cut, load) in cases {
        if !table.wants(&cut, &load) {
            continue;
        }
        let rows = Case { cut: &cut, load: &load }.compare();
        table.add(rows);
    }
    table.judge();
}

#[test]
fn computed_states_are_those_of_written_drives() {
    let few = ["uniform", "trims", "sizes", "gaps"];
    let loads = || loads::all().into_iter().filter(|load| few.contains(&load.name));
    let all = drives::sample().into_iter();
    matrix(all.flat_map(|cut| loads().map(move |load| (cut.clone(), load))));
}

/// A run of flows with handles, as users start one, beside the drive that was written and goes on.
#[test]
fn drives_with_handles_go_on_as_written_ones() {
    let load = loads::placed();
    for isolation in ["initial", "persistent"] {
        let cut = drives::placed(isolation);
        let case = Case { cut: &cut, load: &load };
        let waf = |values: &table::Values| {
            let found = values.0.iter().find(|(name, _)| name == "WAF");
            found.unwrap_or_else(|| panic!("{values:?}")).1
        };
        let (truth, found) = (case.in_the_long_run(4.0), case.until_known(5));
        let steady = found.steadiness.is_some_and(|judged| judged.verdict.name() == "steady");
        let (truth, found) = (waf(&truth), found.device.and_then(|device| device.waf).unwrap());
        println!("{isolation}: WAF {truth:.3} written, {found:.3} from the start");
        assert!(steady && (found / truth - 1.0).abs() < 0.1, "{isolation}: {truth} {found}");
    }
}

#[test]
#[ignore = "one CPU hour"]
fn all_drives_under_all_loads() {
    let shipped = drives::shipped().into_iter();
    let shipped =
        shipped.flat_map(|cut| loads::all().into_iter().map(move |load| (cut.clone(), load)));
    let random = (1..=20).map(Cut::random);
    let random = random.flat_map(|(cut, drawn)| {
        let all = loads::all();
        drawn.map(|at| (cut.clone(), all[at % all.len()].clone()))
    });
    matrix(shipped.chain(random));
}

#[test]
#[ignore = "some minutes"]
fn verdicts_can_be_relied_on() {
    verdicts::judge();
}
