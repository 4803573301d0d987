//! A table for terminals: headers wrap, so that columns are as wide as their values, and what does not
//! fit is left to the files.

use std::fmt::Write;

/// Width of the terminal, in characters.
const WIDTH: usize = 80;
/// Spaces between two columns.
const GAP: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) header: String,
    pub(super) cells: Vec<String>,
    /// Whether the column is never left out.
    pub(super) needed: bool,
}

impl Column {
    /// As wide as its widest value, or the longest piece of its header.
    fn width(&self) -> usize {
        let pieces = pieces(&self.header).into_iter().map(|piece| length(piece.trim_end()));
        let cells = self.cells.iter().map(|cell| length(cell));
        pieces.chain(cells).max().unwrap_or(0)
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Where a header may be broken: after spaces, dots and underscores.
fn pieces(header: &str) -> Vec<&str> {
    header.split_inclusive([' ', '.', '_']).collect()
}

/// A header in lines of at most so many characters.
fn wrapped(header: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in pieces(header) {
        let line = lines.last_mut().expect("one at least");
        match length(line) + length(piece.trim_end()) <= width {
            true => line.push_str(piece),
            false => lines.push(piece.to_owned()),
        }
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

/// The table, with a bar of this share behind each row; the headers of the columns that did not fit.
pub(super) fn text(mut columns: Vec<Column>, bars: &[String]) -> (String, Vec<String>) {
    let mut left_out = vec![];
    let all = |columns: &[Column]| {
        columns.iter().map(|column| column.width() + GAP).sum::<usize>().saturating_sub(GAP)
    };
    while all(&columns) > WIDTH {
        let Some(at) = columns.iter().rposition(|column| !column.needed) else { break };
        left_out.insert(0, columns.remove(at).header);
    }
    let widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let headers: Vec<Vec<String>> = columns
        .iter()
        .zip(&widths)
        .map(|(column, width)| wrapped(&column.header, *width))
        .collect();
    let height = headers.iter().map(Vec::len).max().unwrap_or(0);
    let room = WIDTH.saturating_sub(all(&columns) + GAP);
    let mut text = String::new();
    for line in 0..height {
        // Headers stand on their values.
        let cells = headers.iter().map(|lines| {
            (line + lines.len()).checked_sub(height).map_or("", |at| lines[at].as_str())
        });
        row(&mut text, cells, &widths, "");
    }
    for at in 0..columns.first().map_or(0, |column| column.cells.len()) {
        let cells = columns.iter().map(|column| column.cells[at].as_str());
        let bar = bars.get(at).map_or("", String::as_str);
        // A bar that is cut would say something else.
        let bar = if bars.iter().all(|bar| length(bar) <= room) { bar } else { "" };
        row(&mut text, cells, &widths, bar);
    }
    (text, left_out)
}

fn row<'a>(out: &mut String, cells: impl Iterator<Item = &'a str>, widths: &[usize], bar: &str) {
    let fields = cells.zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
    let fields = fields.collect::<Vec<_>>().join(&" ".repeat(GAP));
    let _ = writeln!(out, "{}", format!("{fields}{}{bar}", " ".repeat(GAP)).trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn column(header: &str, cells: &[&str], needed: bool) -> Column {
        Column {
            header: header.into(),
            cells: cells.iter().map(|&cell| cell.into()).collect(),
            needed,
        }
    }

    #[test]
    fn headers_stand_on_their_values() {
        let columns = vec![
            column("set.over_provisioning", &["7%", "28%"], true),
            column("log write IOPS", &["65.1k", "435k"], true),
        ];
        let (text, left_out) = text(columns, &["██".into(), "████".into()]);
        let expected = [
            "                log",
            "   set.over_  write",
            "provisioning   IOPS",
            "          7%  65.1k  ██",
            "         28%   435k  ████",
        ];
        assert!(left_out.is_empty());
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    proptest! {
        #[test]
        fn rows_fit(
            headers in prop::collection::vec("[a-z_. ]{1,30}", 1..14),
            cell in "[0-9]{1,9}",
            bar in 0usize..30,
        ) {
            let needed = |n: usize| n < 2;
            let all = headers.iter().enumerate();
            let columns: Vec<_> = all.map(|(n, header)| column(header, &[&cell], needed(n))).collect();
            let (text, left_out) = text(columns.clone(), &["█".repeat(bar)]);
            prop_assert!(text.lines().all(|line| length(line) <= WIDTH), "{}", text);
            prop_assert!(left_out.len() + 2 <= headers.len().max(2));
            for column in columns.iter().filter(|column| column.needed) {
                for piece in pieces(&column.header) {
                    prop_assert!(text.contains(piece.trim()), "{:?} in {}", piece, text);
                }
            }
        }
    }
}
