//! The quantities that the table for people has. Where no point has two kinds of command of a flow (some
//! read, others write), these share a column, so that no row is empty.

/// What stands in a column: the name over it, and the quantities it takes its cells from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown<'a> {
    pub(super) name: String,
    pub(super) of: Vec<&'a str>,
}

/// A quantity of one kind of a flow's commands: the flow, and what is said of it.
fn of_a_kind(name: &str) -> Option<(&str, &str)> {
    [" read ", " write ", " trim "].iter().find_map(|kind| name.rsplit_once(kind))
}

/// The columns of these quantities, in their order. `has` says whether a point has one.
pub(super) fn shown<'a, Row>(
    names: &[&'a str],
    rows: &[Row],
    has: impl Fn(&Row, &str) -> bool,
) -> Vec<Shown<'a>> {
    let mut columns: Vec<Shown> = Vec::new();
    for &name in names {
        let alone = Shown { name: name.to_owned(), of: vec![name] };
        let Some(of) = of_a_kind(name) else {
            columns.push(alone);
            continue;
        };
        let alike: Vec<&str> =
            names.iter().copied().filter(|other| of_a_kind(other) == Some(of)).collect();
        let kinds = |row: &Row| alike.iter().filter(|name| has(row, name)).count();
        if alike.len() == 1 || rows.iter().any(|row| kinds(row) > 1) {
            columns.push(alone);
        } else if alike[0] == name {
            columns.push(Shown { name: format!("{} {}", of.0, of.1), of: alike });
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_no_point_has_together_share_a_column() {
        let names = ["a read iops", "a write iops", "b read iops", "waf", "a write lat_ns mean"];
        let of = |rows: &[&[&str]]| {
            let columns = shown(&names, rows, |row, name| row.contains(&name));
            columns.into_iter().map(|column| column.name).collect::<Vec<_>>()
        };
        let apart: [&[&str]; 2] = [&names[..1], &names[1..]];
        assert_eq!(of(&apart), ["a iops", "b read iops", "waf", "a write lat_ns mean"]);
        assert_eq!(of(&[&names]), names);
        let columns = shown(&names, &apart, |row, name| row.contains(&name));
        assert_eq!(columns[0].of, names[..2]);
    }
}
