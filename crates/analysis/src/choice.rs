//! Which I/Os get a record, as people write it: `read size>=32KiB`, `1/1000`, `p99.9`.

use mynah_drive_file::units::{Bytes, Duration};
use mynah_profile::{Choice, Filter, KeepAbove, OTHER_KIND, Ranges, Sampling, io_kinds};

/// The percentile that [`KeepAbove::Running`] is.
const RUNNING: &str = "p99.9";

/// A part of a choice that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is no {wanted}; valid is {valid}")]
pub struct ChoiceTextError {
    /// The text that cannot be read.
    pub found: String,
    /// What was expected there, such as "kind of I/O".
    pub wanted: &'static str,
    /// What would be accepted.
    pub valid: String,
}

fn wrong(found: &str, wanted: &'static str, valid: impl Into<String>) -> ChoiceTextError {
    ChoiceTextError { found: found.to_owned(), wanted, valid: valid.into() }
}

/// Reads kinds of I/O, separated by commas: `read`, `write,flush`, `other` for all that is neither
/// read nor write, `all`.
///
/// # Errors
/// If there is no such kind.
pub fn parse_kinds(text: &str) -> Result<Vec<String>, ChoiceTextError> {
    let all = io_kinds();
    let mut kinds: Vec<String> = vec![];
    for name in text.split(',').map(str::trim) {
        match name {
            "all" => return Ok(vec![]),
            OTHER_KIND => kinds.extend(all.iter().skip(2).cloned()),
            _ if all.iter().any(|it| it == name) => kinds.push(name.to_owned()),
            _ => return Err(wrong(name, "kind of I/O", format!("{}, all", all.join(", ")))),
        }
    }
    let in_order = all.into_iter().filter(|kind| kinds.contains(kind));
    Ok(in_order.collect())
}

/// Reads values, separated by commas, each of them exact (`4`), from one to another (`4..8`, both
/// included), or from or up to one (`>=4`, `>4`, `<=8`, `<8`).
fn parse_ranges(
    text: &str,
    wanted: &'static str,
    valid: &str,
    value: impl Fn(&str) -> Option<u64>,
) -> Result<Ranges, ChoiceTextError> {
    let one = |part: &str| {
        let value = |text: &str| value(text.trim());
        let found = if let Some(rest) = part.strip_prefix(">=") {
            (value(rest)?, u64::MAX)
        } else if let Some(rest) = part.strip_prefix('>') {
            (value(rest)?.checked_add(1)?, u64::MAX)
        } else if let Some(rest) = part.strip_prefix("<=") {
            (0, value(rest)?)
        } else if let Some(rest) = part.strip_prefix('<') {
            (0, value(rest)?.checked_sub(1)?)
        } else if let Some((first, last)) = part.split_once("..") {
            (value(first)?, value(last)?)
        } else {
            (value(part)?, value(part)?)
        };
        (found.0 <= found.1).then_some(found)
    };
    let parts = text.split(',').map(str::trim);
    let ranges = parts.map(|part| one(part).ok_or_else(|| wrong(part, wanted, valid)));
    Ok(Ranges(ranges.collect::<Result<_, _>>()?))
}

/// Reads sizes: `4KiB`, `>=32KiB`, `4KiB..64KiB`, `4k,8k`.
///
/// # Errors
/// If they are none.
pub fn parse_sizes(text: &str) -> Result<Ranges, ChoiceTextError> {
    let valid =
        "a size such as 4KiB, a range such as 4KiB..64KiB or >=32KiB, or several with commas";
    parse_ranges(text, "size or range of sizes", valid, |it| Some(it.parse::<Bytes>().ok()?.0))
}

/// Reads numbers of queues, namespaces or blocks: `1`, `1..4`, `>=1000`, `1,3`.
///
/// # Errors
/// If they are none.
pub fn parse_numbers(text: &str) -> Result<Ranges, ChoiceTextError> {
    let valid = "a number, a range such as 1..4 or >=8, or several with commas";
    parse_ranges(text, "number or range of numbers", valid, |it| it.parse().ok())
}

/// Reads statuses: `success`, `failed`, or code type and code as `0x281`.
///
/// # Errors
/// If they are none.
pub fn parse_statuses(text: &str) -> Result<Ranges, ChoiceTextError> {
    let one = |text: &str| match text {
        "success" => Some((0, 0)),
        "failed" => Some((1, 0x7ff)),
        _ => {
            let code = u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
            (code < 0x800).then_some((code, code))
        }
    };
    let valid = "success, failed, or code type and code such as 0x281, or several with commas";
    let parts = text.split(',').map(str::trim);
    let ranges = parts.map(|part| one(part).ok_or_else(|| wrong(part, "status", valid)));
    Ok(Ranges(ranges.collect::<Result<_, _>>()?))
}

/// Parses a filter, its conditions separated by spaces: `read size>=32KiB queue=1..4`.
///
/// # Errors
/// If it says nothing of I/Os.
pub fn parse_filter(text: &str) -> Result<Filter, ChoiceTextError> {
    let mut filter = Filter::default();
    let mut named = vec![];
    for term in text.split_whitespace() {
        let at = term.find(['=', '<', '>']).unwrap_or(0);
        let (key, value) = term.split_at(at);
        let value = value.strip_prefix('=').unwrap_or(value);
        let key = if at == 0 { "io" } else { key };
        if named.contains(&key) {
            let valid = "each part once; commas are between several values, and several filters \
                         beside each other";
            return Err(wrong(term, "new part of the filter", valid));
        }
        match key {
            "io" => filter.kinds = parse_kinds(value)?,
            "size" => filter.bytes = parse_sizes(value)?,
            "namespace" => filter.namespaces = parse_numbers(value)?,
            "queue" => filter.queues = parse_numbers(value)?,
            "block" => filter.blocks = parse_numbers(value)?,
            "status" => filter.statuses = parse_statuses(value)?,
            _ => {
                let valid =
                    "io, size, namespace, queue, block, status, as in `io=read size>=32KiB`";
                return Err(wrong(key, "part of a filter", valid));
            }
        }
        named.push(key);
    }
    match named.is_empty() {
        true => Err(wrong(text, "filter", "something like `read size>=32KiB queue=1..4`")),
        false => Ok(filter),
    }
}

/// Reads how many I/Os are taken: `1/1000`, or `1` for all.
///
/// # Errors
/// If it is no such share.
pub fn parse_sampling(text: &str) -> Result<Sampling, ChoiceTextError> {
    let n = text.trim().strip_prefix('1').and_then(|rest| match rest.trim().strip_prefix('/') {
        Some(n) => n.trim().parse::<u32>().ok(),
        None => rest.is_empty().then_some(1),
    });
    match n {
        Some(1) => Ok(Sampling::All),
        Some(n) if n > 1 => Ok(Sampling::OneIn(n)),
        _ => Err(wrong(text, "sample", "one in so many, such as 1/1000, or 1 for every I/O")),
    }
}

/// Reads of which span of time one I/O is taken: `10ms`.
///
/// # Errors
/// If it is none.
pub fn parse_every(text: &str) -> Result<Sampling, ChoiceTextError> {
    match text.parse::<Duration>() {
        Ok(Duration(span)) if !span.is_zero() => Ok(Sampling::EveryPs(span.as_ps())),
        _ => Err(wrong(text, "span of time", "one such as 10ms")),
    }
}

/// Parses which slow I/Os are kept beside the sample: `p99.9`, or a time.
///
/// # Errors
/// If it is neither.
pub fn parse_keep_above(text: &str) -> Result<KeepAbove, ChoiceTextError> {
    if text.trim() == RUNNING {
        return Ok(KeepAbove::Running);
    }
    match text.parse::<Duration>() {
        Ok(Duration(span)) => Ok(KeepAbove::Ps(span.as_ps())),
        Err(_) => Err(wrong(text, "bound for slow I/Os", "p99.9, or a time such as 5ms")),
    }
}

/// What a choice is, in the words that it is read from.
pub fn choice_text(choice: &Choice) -> String {
    let mut parts = vec![match choice.sampling {
        Sampling::All => "every I/O".to_owned(),
        Sampling::OneIn(n) => format!("1 in {n}"),
        Sampling::EveryPs(ps) => format!("1 every {}", Duration(mynah_stamp::Span::from_ps(ps))),
    }];
    match choice.keep_above {
        KeepAbove::Nothing => {}
        KeepAbove::Running => parts.push(format!("all above the running {RUNNING}")),
        KeepAbove::Ps(ps) => {
            parts.push(format!("all above {}", Duration(mynah_stamp::Span::from_ps(ps))));
        }
    }
    let filters: Vec<String> = choice.filters.iter().map(filter_text).collect();
    let taken = parts.join(" and ");
    match filters.is_empty() {
        true => taken,
        false => format!("{taken} of {}", filters.join(", or ")),
    }
}

/// A filter in the words that it is read from.
pub fn filter_text(filter: &Filter) -> String {
    let plain = |number: u64| number.to_string();
    let status = |number: u64| format!("{number:#x}");
    let mut terms = vec![];
    if !filter.kinds.is_empty() {
        terms.push(format!("io={}", filter.kinds.join(",")));
    }
    terms.extend(ranges_text("size", &filter.bytes, |number| Bytes(number).to_string()));
    terms.extend(ranges_text("namespace", &filter.namespaces, plain));
    terms.extend(ranges_text("queue", &filter.queues, plain));
    terms.extend(ranges_text("block", &filter.blocks, plain));
    let named = match filter.statuses.0[..] {
        [(0, 0)] => Some("status=success".to_owned()),
        [(1, 0x7ff)] => Some("status=failed".to_owned()),
        _ => ranges_text("status", &filter.statuses, status),
    };
    terms.extend(named);
    match terms.is_empty() {
        true => "io=all".to_owned(),
        false => terms.join(" "),
    }
}

fn ranges_text(key: &str, ranges: &Ranges, value: impl Fn(u64) -> String) -> Option<String> {
    let one = |&(first, last): &(u64, u64)| match (first, last) {
        (first, u64::MAX) => format!(">={}", value(first)),
        (first, last) if first == last => value(first),
        (first, last) => format!("{}..{}", value(first), value(last)),
    };
    let parts: Vec<String> = ranges.0.iter().map(one).collect();
    (!parts.is_empty()).then(|| format!("{key}={}", parts.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_result::kind::Kind;
    use proptest::prelude::*;

    fn kinds(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn filters_are_read() {
        let ranges = |list: &[(u64, u64)]| Ranges(list.to_vec());
        let sizes = |text| parse_sizes(text).expect(text);
        assert_eq!(sizes("4KiB"), ranges(&[(4096, 4096)]));
        assert_eq!(sizes(">=32KiB"), ranges(&[(32768, u64::MAX)]));
        assert_eq!(sizes(">32KiB"), ranges(&[(32769, u64::MAX)]));
        assert_eq!(sizes("<8k, 4KiB..64KiB"), ranges(&[(0, 8191), (4096, 65536)]));
        assert_eq!(parse_numbers("1,3..4,>=9"), Ok(ranges(&[(1, 1), (3, 4), (9, u64::MAX)])));
        assert_eq!(parse_statuses("success,0x281"), Ok(ranges(&[(0, 0), (0x281, 0x281)])));
        assert_eq!(parse_kinds("write,read"), Ok(kinds(&["read", "write"])));
        assert_eq!(parse_kinds("all"), Ok(vec![]));
        let others = parse_kinds("other").expect("kinds");
        assert!(others.contains(&"flush".to_owned()) && others.contains(&"other".to_owned()));
        assert!(!others.contains(&"read".to_owned()));
        let filter =
            parse_filter("read size>=32KiB queue=1,2 namespace=1 block<1000 status=failed");
        let expected = Filter {
            kinds: kinds(&["read"]),
            bytes: ranges(&[(32768, u64::MAX)]),
            namespaces: ranges(&[(1, 1)]),
            queues: ranges(&[(1, 1), (2, 2)]),
            blocks: ranges(&[(0, 999)]),
            statuses: ranges(&[(1, 0x7ff)]),
        };
        assert_eq!(filter, Ok(expected));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| parse_filter(text).expect_err(text).to_string();
        assert_eq!(
            error("raed"),
            "`raed` is no kind of I/O; valid is read, write, trim, flush, store, update, retrieve, \
             delete, exist, list, other, all"
        );
        assert_eq!(
            error("size=4x"),
            "`4x` is no size or range of sizes; valid is a size such as 4KiB, a range such as \
             4KiB..64KiB or >=32KiB, or several with commas"
        );
        assert!(error("size=8k..4k").starts_with("`8k..4k` is no size or range"));
        assert!(error("queue<0").starts_with("`<0` is no number"));
        assert!(error("colour=red").starts_with("`colour` is no part of a filter"));
        assert!(error("size=4k size=8k").starts_with("`size=8k` is no new part"));
        assert!(error(" ").contains("is no filter"));
        for text in ["0/1", "1/0", "1/", "2/3", "", "1/5000000000"] {
            assert!(parse_sampling(text).is_err(), "{text}");
        }
        assert!(parse_every("0").is_err() && parse_every("fast").is_err());
        assert!(parse_keep_above("p99").is_err() && parse_statuses("0x800").is_err());
    }

    #[test]
    fn kinds_are_those_of_results() {
        let kinds = io_kinds();
        assert_eq!(kinds.len(), Kind::ALL.len() + 1);
        for kind in Kind::ALL {
            assert_eq!(kinds[kind as usize], kind.name());
        }
    }

    #[test]
    fn samples_are_read() {
        assert_eq!(parse_sampling("1"), Ok(Sampling::All));
        assert_eq!(parse_sampling("1/1"), Ok(Sampling::All));
        assert_eq!(parse_sampling("1/1000"), Ok(Sampling::OneIn(1000)));
        assert_eq!(parse_every("10ms"), Ok(Sampling::EveryPs(10_000_000_000)));
        assert_eq!(parse_keep_above("p99.9"), Ok(KeepAbove::Running));
        assert_eq!(parse_keep_above("5us"), Ok(KeepAbove::Ps(5_000_000)));
        let choice = Choice {
            filters: vec![parse_filter("read").expect("a filter")],
            sampling: Sampling::OneIn(100),
            keep_above: KeepAbove::Running,
        };
        assert_eq!(choice_text(&choice), "1 in 100 and all above the running p99.9 of io=read");
    }

    fn ranges(most: u64) -> impl Strategy<Value = Ranges> {
        let last = prop_oneof![3 => 0..most, 1 => Just(u64::MAX)];
        let range = (0..most, last).prop_map(|(a, b)| (a.min(b), a.max(b)));
        prop::collection::vec(range, 0..3).prop_map(Ranges)
    }

    proptest! {
        #[test]
        fn what_is_said_is_read_again(
            picked in prop::sample::subsequence(io_kinds(), 0..4),
            parts in (ranges(1 << 20), ranges(9), ranges(9), ranges(1 << 50)),
            status in prop::collection::vec(0u64..0x800, 0..3),
        ) {
            let (bytes, namespaces, queues, blocks) = parts;
            // `other` is a kind and stands for several.
            let kinds = picked.into_iter().filter(|kind| kind != OTHER_KIND).collect();
            let statuses = Ranges(status.into_iter().map(|code| (code, code)).collect());
            let filter = Filter { kinds, bytes, namespaces, queues, blocks, statuses };
            prop_assert_eq!(parse_filter(&filter_text(&filter)), Ok(filter));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = (parse_filter(&text), parse_sampling(&text), parse_every(&text));
            let _ = (parse_keep_above(&text), parse_sizes(&text), parse_statuses(&text));
        }
    }
}
