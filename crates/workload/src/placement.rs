//! Which data the writes of a flow belong with, on a drive with data placement: fio's `dataplacement`.

use super::{FlowSpec, SECTOR_BYTES, Source, WorkloadError};
use crate::random::Bounded;
use mynah_model::io::{Operation, PlacementId};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::{Path, PathBuf};

/// Most lines of a scheme, as in fio.
pub(crate) const SCHEME_MAX: usize = 32;
/// Most identifiers of a flow, as in fio.
pub(crate) const IDS_MAX: usize = 128;

/// How the writes of a flow say which data they belong with.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementChoice {
    /// Numbers of placement handles of its namespace; empty: all.
    pub ids: Vec<u16>,
    /// Which of them each write names.
    pub select: Select,
}

/// Which placement handle a write names.
#[derive(Clone, Debug, PartialEq)]
pub enum Select {
    /// One after the other, in each job.
    RoundRobin,
    /// Any, at random.
    Random,
    /// By its address, or its size.
    Scheme {
        by: By,
        /// The file that says so.
        path: PathBuf,
        ranges: Vec<SchemeRange>,
    },
}

/// What of a write a scheme goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Address,
    Size,
}

/// Addresses or sizes of a scheme, and what such a write belongs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemeRange {
    /// First byte of the namespace and the one behind the last; or least bytes of a write, and more
    /// than the most.
    pub start: u64,
    pub end: u64,
    /// Number of the placement handle.
    pub id: u16,
}

/// Reads a list of numbers and ranges of them, as in `0,2,4-6`.
pub(crate) fn parse_ids(text: &str) -> Result<Vec<u16>, String> {
    const HELP: &str = "write numbers from 0 with commas between, or ranges, as in 0,2,4-6";
    let number = |text: &str| text.trim().parse::<u16>().map_err(|_| HELP.to_owned());
    let mut ids = vec![];
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if last < first {
            return Err(HELP.to_owned());
        }
        if ids.len() + usize::from(last - first) >= IDS_MAX {
            return Err(format!("at most {IDS_MAX} of them"));
        }
        ids.extend(first..=last);
    }
    Ok(ids)
}

/// The numbers as [`parse_ids`] reads them.
pub(crate) fn ids_text(ids: &[u16]) -> String {
    ids.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

/// Reads a scheme: a line for each range, `start, end, number`, in bytes.
pub(crate) fn read_scheme(path: &Path) -> Result<Vec<SchemeRange>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    parse_scheme(&text).map_err(|problem| format!("{}: {problem}", path.display()))
}

fn parse_scheme(text: &str) -> Result<Vec<SchemeRange>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let mut ranges = vec![];
    for (at, line) in lines {
        let problem = || {
            let line = line.chars().take(40).collect::<String>();
            format!("line {}: `{line}` is not START, END, NUMBER, in bytes", at + 1)
        };
        let parts: Vec<&str> = line.split(',').map(str::trim).collect();
        let [start, end, id] = parts[..] else { return Err(problem()) };
        let range = SchemeRange {
            start: start.parse().map_err(|_| problem())?,
            end: end.parse().map_err(|_| problem())?,
            id: id.parse().map_err(|_| problem())?,
        };
        if range.end <= range.start {
            return Err(problem());
        }
        ranges.push(range);
    }
    match ranges.len() {
        0 => Err("it has no lines of START, END, NUMBER".into()),
        1..=SCHEME_MAX => Ok(ranges),
        count => Err(format!("it has {count} ranges; at most {SCHEME_MAX}, as in fio")),
    }
}

impl PlacementChoice {
    /// The placement handle for a write of so many sectors there, if these alone say it.
    pub fn of_write(&self, sector: u64, sectors: u32) -> Option<PlacementId> {
        match (&self.select, &self.ids[..]) {
            (Select::Scheme { by: By::Address, ranges, .. }, _) => Some(scheme_at(ranges, sector)),
            (Select::Scheme { by: By::Size, ranges, .. }, _) => {
                Some(scheme_at(ranges, sectors.into()))
            }
            (_, &[id]) => Some(PlacementId(id)),
            _ => None,
        }
    }

    /// The one that its first write there names, if it is as large.
    fn first_at(&self, sector: u64, sectors: u32) -> PlacementId {
        let first = || PlacementId(self.ids.first().copied().unwrap_or(0));
        self.of_write(sector, sectors).unwrap_or_else(first)
    }

    /// Every placement handle that its writes may name.
    fn named(&self) -> Vec<u16> {
        match &self.select {
            Select::Scheme { ranges, .. } => ranges.iter().map(|range| range.id).collect(),
            Select::RoundRobin | Select::Random => self.ids.clone(),
        }
    }
}

/// What no range says goes to the first placement handle, as in fio.
fn scheme_at(ranges: &[SchemeRange], sectors: u64) -> PlacementId {
    let bytes = sectors * SECTOR_BYTES;
    let found = ranges.iter().find(|range| (range.start..range.end).contains(&bytes));
    PlacementId(found.map_or(0, |range| range.id))
}

impl FlowSpec {
    /// What its first write there belongs with, if it is as large as others on average.
    pub fn placement_at(&self, sector: u64) -> PlacementId {
        let sectors = match &self.source {
            Source::Synthetic(synthetic) => {
                synthetic.block.of(Operation::Write).mean_sectors() as u32
            }
            Source::Trace(_) | Source::KeyValue(_) | Source::Front(_) => 0,
        };
        let choice = self.data_placement.as_ref();
        choice.map_or(PlacementId::default(), |choice| choice.first_at(sector, sectors))
    }

    /// The flow on a namespace with so many placement handles; `None`: the drive has no data
    /// placement.
    ///
    /// # Errors
    /// If it names one that there is not.
    pub fn with_handles(self, handles: Option<usize>) -> Result<FlowSpec, WorkloadError> {
        let Some(choice) = &self.data_placement else { return Ok(self) };
        let Some(handles) = handles else {
            return Err(self.error(
                "it places data (fdp), and the drive does not: give its file [placement], or \
                 `--set placement.handles=4`",
            ));
        };
        if let Some(id) = choice.named().into_iter().find(|&id| usize::from(id) >= handles) {
            let has = match handles {
                1 => "0 alone".to_owned(),
                _ => format!("0 to {}", handles - 1),
            };
            return Err(self.error(format!(
                "its writes name placement handle {id}; namespace {} has {has}",
                self.namespace.0
            )));
        }
        let mut flow = self;
        if let Some(choice) = flow.data_placement.as_mut().filter(|choice| choice.ids.is_empty()) {
            choice.ids = (0..handles as u16).collect();
        }
        Ok(flow)
    }
}

/// The placement handles that one job's writes name, one after the other.
#[derive(Debug)]
pub(crate) struct Placing {
    choice: PlacementChoice,
    next: usize,
    any: Option<Bounded>,
    random: Xoshiro256PlusPlus,
}

impl Placing {
    pub(crate) fn new(choice: &PlacementChoice, random: Xoshiro256PlusPlus) -> Placing {
        let any = matches!(choice.select, Select::Random) && !choice.ids.is_empty();
        let any = any.then(|| Bounded::new(choice.ids.len() as u64));
        Placing { choice: choice.clone(), next: 0, any, random }
    }

    /// The one for the next write, which is there and as large.
    pub(crate) fn next(&mut self, sector: u64, sectors: u32) -> PlacementId {
        if let Some(id) = self.choice.of_write(sector, sectors) {
            return id;
        }
        let ids = &self.choice.ids;
        let at = match self.any {
            Some(any) => any.draw(&mut self.random) as usize,
            None => {
                let at = self.next;
                self.next = (at + 1) % ids.len().max(1);
                at
            }
        };
        PlacementId(ids.get(at).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed;

    #[test]
    fn lists_are_read_as_fio_does() {
        assert_eq!(parse_ids("3"), Ok(vec![3]));
        assert_eq!(parse_ids("0, 2,4-6"), Ok(vec![0, 2, 4, 5, 6]));
        for wrong in ["", "a", "1,", "3-1", "-1", "0-128", "70000"] {
            assert!(parse_ids(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn schemes_say_by_address_or_size() {
        let ranges = parse_scheme("0, 131072, 0\n131072,262144,2\n\n262144, 300000, 1\n").unwrap();
        let choice = |by| {
            let select = Select::Scheme { by, path: "a".into(), ranges: ranges.clone() };
            PlacementChoice { ids: vec![], select }
        };
        let numbers = [0, 255, 256, 511, 512, 600];
        let by_address = choice(By::Address);
        assert_eq!(numbers.map(|at| by_address.first_at(at, 512).0), [0, 0, 2, 2, 1, 0]);
        let by_size = choice(By::Size);
        assert_eq!(numbers.map(|size| by_size.first_at(512, size as u32).0), [0, 0, 2, 2, 1, 0]);
        for wrong in ["", "1,2", "5,5,0", "9,5,0", "0,1,70000", "0,1,2,3", "a,b,c"] {
            assert!(parse_scheme(wrong).is_err(), "{wrong}");
        }
        assert!(parse_scheme(&"0,1,0\n".repeat(33)).is_err());
    }

    #[test]
    fn turns_go_round_and_draws_are_even() {
        let ids = vec![1, 5, 2];
        let choice = PlacementChoice { ids: ids.clone(), select: Select::RoundRobin };
        let mut turns = Placing::new(&choice, seed::stream(1));
        let named: Vec<u16> = (0..5).map(|_| turns.next(0, 8).0).collect();
        assert_eq!(named, [1, 5, 2, 1, 5]);
        let choice = PlacementChoice { select: Select::Random, ..choice };
        let mut draws = Placing::new(&choice, seed::stream(1));
        let named: Vec<u16> = (0..3000).map(|_| draws.next(0, 8).0).collect();
        for id in ids {
            let count = named.iter().filter(|&&it| it == id).count();
            assert!((900..1100).contains(&count), "{id}: {count}");
        }
    }
}
