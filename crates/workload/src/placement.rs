//! Which data the writes of a flow belong with, on a drive with data placement: fio's `dataplacement`.

use super::{FlowSpec, SECTOR_BYTES, WorkloadError};
use crate::random::Bounded;
use mynah_model::io::PlacementId;
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
    /// By its address.
    Scheme {
        /// The file that says so.
        path: PathBuf,
        ranges: Vec<SchemeRange>,
    },
}

/// Addresses of a scheme, and what is written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemeRange {
    /// First and end byte of the namespace.
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
    /// The placement handle for a write there, if the address alone says it.
    pub fn by_address(&self, sector: u64) -> Option<PlacementId> {
        match (&self.select, &self.ids[..]) {
            (Select::Scheme { ranges, .. }, _) => Some(scheme_at(ranges, sector)),
            (_, &[id]) => Some(PlacementId(id)),
            _ => None,
        }
    }

    /// The one that its first write there names.
    fn first_at(&self, sector: u64) -> PlacementId {
        let first = || PlacementId(self.ids.first().copied().unwrap_or(0));
        self.by_address(sector).unwrap_or_else(first)
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
fn scheme_at(ranges: &[SchemeRange], sector: u64) -> PlacementId {
    let byte = sector * SECTOR_BYTES;
    let found = ranges.iter().find(|range| (range.start..range.end).contains(&byte));
    PlacementId(found.map_or(0, |range| range.id))
}

impl FlowSpec {
    /// What its first write there belongs with.
    pub fn placement_at(&self, sector: u64) -> PlacementId {
        let choice = self.data_placement.as_ref();
        choice.map_or(PlacementId::default(), |choice| choice.first_at(sector))
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

    /// The one for the next write, which is there.
    pub(crate) fn next(&mut self, sector: u64) -> PlacementId {
        if let Some(id) = self.choice.by_address(sector) {
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
    fn schemes_say_by_address() {
        let ranges = parse_scheme("0, 131072, 0\n131072,262144,2\n\n262144, 300000, 1\n").unwrap();
        let select = Select::Scheme { path: "a".into(), ranges };
        let choice = PlacementChoice { ids: vec![], select };
        let ids: Vec<u16> = [0, 255, 256, 511, 512, 600].map(|at| choice.first_at(at).0).to_vec();
        assert_eq!(ids, [0, 0, 2, 2, 1, 0]);
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
        let named: Vec<u16> = (0..5).map(|_| turns.next(0).0).collect();
        assert_eq!(named, [1, 5, 2, 1, 5]);
        let choice = PlacementChoice { select: Select::Random, ..choice };
        let mut draws = Placing::new(&choice, seed::stream(1));
        let named: Vec<u16> = (0..3000).map(|_| draws.next(0).0).collect();
        for id in ids {
            let count = named.iter().filter(|&&it| it == id).count();
            assert!((900..1100).contains(&count), "{id}: {count}");
        }
    }
}
