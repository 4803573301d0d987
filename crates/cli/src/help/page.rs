//! Pages in Markdown as text on a terminal: as much of it as `docs/` uses.

/// How a page, or a section of it, begins: at most so many lines and columns.
pub(super) fn beginning(page: &str, section: &str, width: usize, lines: usize) -> String {
    let mut out: Vec<String> = Vec::new();
    for block in blocks(part(page, section)) {
        let block = block.text(width);
        let gap = usize::from(!out.is_empty());
        let room = lines.saturating_sub(out.len() + gap);
        // What is long may break off between two of its rows, but not before the third.
        let whole = block.iter().map(Vec::len).sum::<usize>() <= room;
        let mut taken: Vec<String> = Vec::new();
        for row in block {
            if !whole && taken.len() + row.len() + 1 > room {
                break;
            }
            taken.extend(row);
        }
        if !whole && taken.len() < 3 {
            break;
        }
        out.extend((gap == 1).then(String::new));
        out.extend(taken);
        if !whole {
            out.push("  …".to_owned());
            break;
        }
    }
    // A heading says nothing without what stands below it.
    while out.last().is_some_and(|line| line.is_empty() || is_heading(line)) {
        out.pop();
    }
    out.iter().map(|line| format!("{line}\n")).collect()
}

fn is_heading(line: &str) -> bool {
    line.chars().any(char::is_alphabetic) && line == line.to_uppercase()
}

/// From the section's heading to the next one that is no deeper; without a section all.
fn part<'a>(page: &'a str, section: &str) -> &'a str {
    if section.is_empty() {
        return page;
    }
    let mut at = 0;
    let mut begin = None;
    for line in page.split_inclusive('\n') {
        let depth = line.bytes().take_while(|byte| *byte == b'#').count();
        match begin {
            None if depth > 0 && line[depth..].trim() == section => begin = Some((at, depth)),
            Some((from, of)) if (1..=of).contains(&depth) => return &page[from..at],
            _ => {}
        }
        at += line.len();
    }
    begin.map_or("", |(from, _)| &page[from..])
}

/// A part of a page that lines are not joined across.
enum Block {
    Heading(String),
    Paragraph(String),
    Items(Vec<String>),
    Code(Vec<String>),
    /// Rows of cells, without the row of dashes.
    Table(Vec<Vec<String>>),
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with("<!--") || line.starts_with("![") {
            // Neither pictures nor remarks are text.
        } else if line.starts_with("```") {
            let code = lines.by_ref().take_while(|line| !line.starts_with("```"));
            blocks.push(Block::Code(code.map(str::to_owned).collect()));
        } else if line.starts_with('#') {
            blocks.push(Block::Heading(plain(line.trim_start_matches('#').trim())));
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(line) = lines.next_if(|line| line.starts_with('|')) {
                rows.extend((!line.starts_with("|---")).then(|| cells(line)));
            }
            blocks.push(Block::Table(rows));
        } else {
            let mut text = vec![line.to_owned()];
            let goes_on = |line: &&str| {
                !(line.is_empty() || line.starts_with(['#', '|', '`']) && line.starts_with("```"))
            };
            while let Some(line) = lines.next_if(goes_on) {
                match line.strip_prefix("- ") {
                    Some(_) => text.push(line.to_owned()),
                    None => {
                        let last = text.last_mut().expect("it has a line");
                        *last = format!("{last} {}", line.trim());
                    }
                }
            }
            blocks.push(match text[0].starts_with("- ") {
                true => Block::Items(text.iter().map(|item| plain(&item[2..])).collect()),
                false => Block::Paragraph(plain(&text.join(" "))),
            });
        }
    }
    blocks
}

/// The cells of a row; a bar behind a backslash is text.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|').trim_end_matches('|').replace("\\|", "\0");
    row.split('|').map(|cell| plain(cell.trim()).replace('\0', "|")).collect()
}

/// Text without the marks of links, code and weight.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['[', '`', '*']) {
        out.push_str(&rest[..at]);
        let found = &rest[at..];
        rest = &found[1..];
        match found.as_bytes()[0] {
            b'`' => {
                // Within code nothing else is a mark.
                let end = rest.find('`').unwrap_or(rest.len());
                out.push_str(&rest[..end]);
                rest = rest.get(end + 1..).unwrap_or("");
            }
            b'*' if found.starts_with("**") => rest = &found[2..],
            b'*' => out.push('*'),
            _ => match found
                .split_once("](")
                .and_then(|(text, rest)| Some((text.get(1..)?, rest.split_once(')')?.1)))
            {
                Some((text, after)) if !text.contains(']') => {
                    out.push_str(&plain(text));
                    rest = after;
                }
                _ => out.push('['),
            },
        }
    }
    out + rest
}

impl Block {
    /// Its rows, each of one line or several.
    fn text(self, width: usize) -> Vec<Vec<String>> {
        match self {
            Block::Heading(text) => vec![vec![text.to_uppercase()]],
            Block::Paragraph(text) => vec![wrapped("", "", &text, width)],
            Block::Items(items) => {
                items.iter().map(|item| wrapped("- ", "  ", item, width)).collect()
            }
            Block::Code(lines) => lines
                .into_iter()
                .map(|line| vec![format!("  {line}").trim_end().to_owned()])
                .collect(),
            Block::Table(rows) => table(&rows, width),
        }
    }
}

/// The widest that a column but the last is.
const COLUMN: usize = 30;

fn table(rows: &[Vec<String>], width: usize) -> Vec<Vec<String>> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let of = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..columns).map(|at| of(at).min(COLUMN)).collect();
    let taken: usize = widths.iter().rev().skip(1).map(|width| width + 2).sum();
    if let Some(last) = widths.last_mut() {
        *last = width.saturating_sub(taken + 2).max(20);
    }
    let row = |cells: &Vec<String>| -> Vec<String> {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| wrapped("", "", cell, *width));
        let cells: Vec<Vec<String>> = cells.collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let line = |at: usize| {
            let parts = cells.iter().zip(&widths).map(|(cell, width)| {
                let part = cell.get(at).map_or("", String::as_str);
                format!("{part:<width$}")
            });
            format!("  {}", parts.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
        };
        (0..height).map(line).collect()
    };
    rows.iter().map(row).collect()
}

/// Text on lines of at most so many columns, the first after `start`, the others after `next`.
fn wrapped(start: &str, next: &str, text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![start.to_owned()];
    let mut is_begun = false;
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        let room = width.saturating_sub(line.chars().count() + 1);
        if is_begun && word.chars().count() > room {
            lines.push(format!("{next}{word}"));
        } else {
            if is_begun {
                line.push(' ');
            }
            line.push_str(word);
        }
        is_begun = true;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# A page

Of **drives**, with a
[link](drives.md#a) and `a[0](b)`.

## First

| option | meaning |
|---|---|
| `a`, `b\\|c` | what [this](x.md) does, and in so many words that a line is not enough for it |
| d | e |

- one, which
  goes on
- two

## Second

```
mynah sim   # as it is: **no mark**
```
";

    #[test]
    fn marks_become_text() {
        let text = beginning(PAGE, "", 60, 40);
        assert_eq!(
            text,
            "A PAGE\n\nOf drives, with a link and a[0](b).\n\nFIRST\n\n  option  meaning\n  a, b|c  \
             what this does, and in so many words that a line\n          is not enough for it\n  d       \
             e\n\n- one, which goes on\n- two\n\nSECOND\n\n  mynah sim   # as it is: **no mark**\n"
        );
    }

    #[test]
    fn a_section_is_shown_alone_and_what_is_long_breaks_off() {
        let text = beginning(PAGE, "First", 60, 40);
        assert!(text.starts_with("FIRST\n") && text.ends_with("- two\n"), "{text}");
        let text = beginning(PAGE, "First", 60, 6);
        assert!(text.ends_with("d       e\n"), "{text}");
        let rows = "| a | b |\n|---|---|\n".to_owned() + &"| c | d |\n".repeat(6);
        let text = beginning(&rows, "", 60, 5);
        assert_eq!(text, "  a  b\n  c  d\n  c  d\n  c  d\n  …\n");
        // A heading does not stand last.
        let text = beginning(PAGE, "", 60, 6);
        assert!(text.ends_with("a[0](b).\n"), "{text}");
    }
}
