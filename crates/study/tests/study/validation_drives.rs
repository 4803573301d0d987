//! The shipped drives beside what was published and measured of the drives that they are named
//! after (`drives/evidence/`).
//!
//! A sample of it each time, of at most a minute. All of it is `mynah drives check --evidence`,
//! whose table is that of `docs/evidence.md`; with `MYNAH_UPDATE_DOCS=1` that is written here, with
//! the picture of `docs/validation.md`.

use mynah_drive_file::shipped;
use mynah_lab::runner::SharedStates;
use mynah_study::evidence::{Checks, Compared, Evidence, Measurement, Paint, picture, text};
use std::fs;
use std::sync::Once;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
/// Between these the page has the command's table.
const BEGIN: &str = "<!-- mynah drives check --evidence -->\n";
const END: &str = "<!-- end -->\n";

fn check(
    name: &'static str,
    wanted: impl Fn(&Measurement) -> bool,
) -> (Evidence, Vec<Vec<Compared>>) {
    let mut evidence = Evidence::of(name).expect("it ships");
    evidence.measurements.retain(wanted);
    let states = SharedStates::at_once();
    let each =
        |m| evidence.check(m, name, &[], &states).unwrap_or_else(|error| panic!("{error:?}"));
    let compared = evidence.measurements.iter().map(each).collect();
    (evidence, compared)
}

fn checks<'a>(name: &'a str, evidence: &'a Evidence, compared: Vec<Vec<Compared>>) -> Checks<'a> {
    Checks { drive: name, evidence, rows: evidence.measurements.iter().zip(compared).collect() }
}

/// A table's row with one space in place of many, as widths depend on what else is there.
fn narrow(row: &str) -> String {
    row.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a line of a table is of a load.
fn is_measurement(line: &str) -> bool {
    line.starts_with("| rw=") || line.starts_with("| kv=")
}

/// The page, which is written first if that is wanted.
fn page() -> String {
    static WRITTEN: Once = Once::new();
    WRITTEN.call_once(|| {
        if std::env::var_os("MYNAH_UPDATE_DOCS").is_some() {
            write();
        }
    });
    fs::read_to_string(format!("{DOCS}/evidence.md")).unwrap()
}

#[test]
fn drives_do_what_is_known_of_the_real_ones() {
    let page = page();
    let page: Vec<String> = page.lines().map(narrow).collect();
    let mut sampled = 0;
    for drive in shipped() {
        let (evidence, compared) = check(drive.name, |measurement| measurement.sample);
        sampled += compared.len();
        let checks = checks(drive.name, &evidence, compared);
        let missed: Vec<_> = checks.unexplained().collect();
        assert!(missed.is_empty(), "{}: {missed:?}", drive.name);
        let table = text(&checks, Paint::default());
        println!("{table}");
        for row in table.lines().filter(|line| is_measurement(line)) {
            assert!(
                page.contains(&narrow(row)),
                "docs/evidence.md lacks this row of {}; MYNAH_UPDATE_DOCS=1 writes it:\n{row}",
                drive.name
            );
        }
    }
    assert!(sampled >= 10, "{sampled} measurements");
}

#[test]
fn the_page_has_every_measurement() {
    let page = page();
    for drive in shipped() {
        let evidence = Evidence::of(drive.name).expect("it ships");
        let (_, after) = page.split_once(&format!("### {}\n", drive.name)).expect(drive.name);
        let section = after.split("### ").next().unwrap();
        let rows = section.lines().filter(|line| is_measurement(line)).count();
        let figures: usize = evidence.measurements.iter().map(|m| m.figures.len()).sum();
        assert_eq!(rows, figures, "{}: MYNAH_UPDATE_DOCS=1 writes the page", drive.name);
    }
    let svg = fs::read_to_string(format!("{DOCS}/samsung-980-pro.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("samsung-980-pro measured and predicted"));
}

/// Writes the page's tables and the picture.
fn write() {
    let path = format!("{DOCS}/evidence.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the tables");
    let (_, after) = rest.split_once(END).expect("which has an end");
    let tables: String = shipped()
        .iter()
        .map(|drive| {
            let (evidence, compared) = check(drive.name, |_| true);
            text(&checks(drive.name, &evidence, compared), Paint::default())
        })
        .collect();
    fs::write(&path, format!("{before}{BEGIN}\n{tables}{END}{after}")).unwrap();
    let name = "samsung-980-pro";
    let drawn = picture(&Evidence::of(name).unwrap(), name, &[]).unwrap().unwrap();
    fs::write(format!("{DOCS}/{name}.svg"), drawn.svg()).unwrap();
}
