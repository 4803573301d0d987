//! What ARCHITECTURE.md says, as far as it can be held to the code.

use crate::source;

/// Its path.
pub(crate) const PATH: &str = "ARCHITECTURE.md";

/// The crates that have a row, by their folders in `crates/`.
pub(crate) fn crates() -> Vec<String> {
    rows(&source::read(PATH))
}

fn rows(text: &str) -> Vec<String> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `crates/"));
    cells.filter_map(|rest| Some(rest.split_once("` |")?.0.to_owned())).collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// The arrows of the sentence about dependencies, each crate with one that it depends on.
pub(crate) fn dependencies() -> Vec<(String, String)> {
    arrows(&sentence("Dependencies point one way: "))
}

/// The crates that may allow `unsafe`.
pub(crate) fn unsafe_crates() -> Vec<String> {
    quoted(&sentence("`unsafe` is forbidden in all of them but ")).collect()
}

/// What follows `begin` until a full stop or comma, in one line.
fn sentence(begin: &str) -> String {
    let text = source::read(PATH).replace('\n', " ");
    let (_, rest) =
        text.split_once(begin).unwrap_or_else(|| panic!("{PATH} has no \"{begin}...\""));
    rest.split(". ").next().unwrap_or(rest).to_owned()
}

/// The arrows of "a → b → c; a and d, e → f".
fn arrows(text: &str) -> Vec<(String, String)> {
    let mut arrows = Vec::new();
    for chain in text.split(';') {
        let ends: Vec<Vec<&str>> = chain.split('→').map(names).collect();
        for pair in ends.windows(2) {
            for from in &pair[0] {
                arrows.extend(pair[1].iter().map(|to| ((*from).to_owned(), (*to).to_owned())));
            }
        }
    }
    arrows
}

fn names(list: &str) -> Vec<&str> {
    list.split([',', ' ', '.']).filter(|word| !word.is_empty() && *word != "and").collect()
}

#[test]
fn arrows_are_read() {
    let arrow = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let read = arrows("a → b → c; a, d and e → f");
    let expected = [("a", "b"), ("b", "c"), ("a", "f"), ("d", "f"), ("e", "f")];
    assert_eq!(read, expected.map(|(from, to)| arrow(from, to)));
}

#[test]
fn rows_are_read() {
    let text =
        "| crate | what |\n|---|---|\n| `crates/a` | one (`x.rs`) |\n| a part | `crates/b` |\n";
    assert_eq!(rows(text), ["a"]);
}
