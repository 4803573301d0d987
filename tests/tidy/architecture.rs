//! What ARCHITECTURE.md says, as far as it can be held to the code.

use crate::source;

/// Its path.
pub(crate) const PATH: &str = "ARCHITECTURE.md";

/// A row of a table of the code map.
pub(crate) struct Row {
    pub(crate) line: usize,
    /// The crate's folder in `crates/`.
    pub(crate) krate: String,
    /// The files and folders it names, as they stand there; folders end in a slash.
    pub(crate) names: Vec<String>,
}

/// The code map: the rows of the crates' own tables, and of the table of crates for those that
/// have none.
pub(crate) fn code_map() -> Vec<Row> {
    rows(&source::read(PATH))
}

fn rows(text: &str) -> Vec<Row> {
    let lines = text.lines().enumerate();
    let lines = lines.skip_while(|(_, line)| *line != "## Code map").skip(1);
    let lines = lines.take_while(|(_, line)| !line.starts_with("## "));
    let mut krate = None;
    let (mut own, mut of_crates) = (vec![], vec![]);
    for (n, text) in lines {
        let line = n + 1;
        if let Some(heading) = text.strip_prefix("### ") {
            let name = heading.trim_matches('`').strip_prefix("crates/");
            krate = Some(name.unwrap_or_else(|| panic!("{PATH}:{line}: no crate")).to_owned());
        } else if let Some(cells) = text.strip_prefix('|') {
            let cells: Vec<&str> = cells.split('|').collect();
            match &krate {
                Some(krate) => {
                    let names = quoted(cells[0]).filter(|name| is_file_or_folder(name)).collect();
                    own.push(Row { line, krate: krate.clone(), names });
                }
                None => {
                    let name = quoted(cells[0])
                        .find_map(|it| it.strip_prefix("crates/").map(str::to_owned));
                    let names = quoted(cells[1]).filter(|name| is_file_or_folder(name)).collect();
                    of_crates.extend(name.map(|krate| Row { line, krate, names }));
                }
            }
        }
    }
    of_crates.retain(|row| own.iter().all(|it| it.krate != row.krate));
    own.retain(|row| !row.names.is_empty());
    own.append(&mut of_crates);
    own
}

fn is_file_or_folder(name: &str) -> bool {
    name.ends_with(".rs") || name.ends_with('/')
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
    let text = "## Code map\n| `crates/a` | one (`x.rs`) |\n|---|---|\n\
                | `crates/b` | `no.rs` |\n### `crates/b`\n\
                | file | idea |\n|---|---|\n| `y.rs`, `z/` | `not.rs` |\n## Next\n| `n.rs` | no |\n";
    let rows = rows(text).into_iter().map(|row| (row.line, row.krate, row.names));
    let expected = [(8, "b", vec!["y.rs", "z/"]), (2, "a", vec!["x.rs"])];
    let expected = expected.map(|(line, krate, names)| {
        (line, krate.to_owned(), names.into_iter().map(str::to_owned).collect::<Vec<_>>())
    });
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}
