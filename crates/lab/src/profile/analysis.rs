//! A profile's I/Os in groups: how many there are, how long they took, and how long each of their
//! stages.

use super::group::GroupBy;
use crate::histogram::Histogram;
use mynah_profile::{Counts, Head, Header, Problem, Profile, ReadError};
use mynah_stamp::{Span, Time};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// I/Os that are alike.
pub(super) struct Group {
    pub(super) bytes: u64,
    pub(super) total: Histogram,
    /// By stage, in the header's order. An I/O counts with nothing in a stage that it did not pass.
    pub(super) stages: Vec<Histogram>,
    /// Those that failed, which are in nothing else, by status.
    pub(super) failed: BTreeMap<u16, u64>,
}

impl Group {
    fn new(stages: usize) -> Group {
        Group {
            bytes: 0,
            total: Histogram::default(),
            stages: vec![Histogram::default(); stages],
            failed: BTreeMap::new(),
        }
    }

    fn add(&mut self, head: &Head, stages: &[Span]) {
        if head.status != 0 {
            *self.failed.entry(head.status).or_default() += 1;
            return;
        }
        self.bytes += u64::from(head.bytes);
        self.total.record(head.total);
        for (stage, &span) in self.stages.iter_mut().zip(stages) {
            stage.record(span);
        }
    }
}

/// What a profile comes to.
pub struct Analysis {
    pub(super) path: PathBuf,
    pub(super) header: Header,
    pub(super) counts: Counts,
    pub(super) by: GroupBy,
    pub(super) groups: BTreeMap<Vec<u64>, Group>,
    /// Records that were read, and those that could not be.
    pub(super) records: u64,
    pub(super) torn: u64,
    /// When the first I/O began, and when the last one ended.
    pub(super) first: Time,
    pub(super) last: Time,
    /// I/Os whose stages do not add up to the whole, and by how much at most, in picoseconds.
    pub(super) uneven: u64,
    pub(super) residual_max: u128,
}

/// Reads the profile at `path` and sorts its I/Os into groups.
///
/// # Errors
/// If it is no profile, or is damaged.
pub fn analyse(path: &Path, by: &GroupBy) -> Result<Analysis, Problem> {
    let profile = Profile::open(path)?;
    let fail = |error: ReadError| Problem { path: path.to_owned(), error };
    let mut analysis = Analysis {
        path: path.to_owned(),
        header: profile.header().clone(),
        counts: profile.counts(),
        by: by.clone(),
        groups: BTreeMap::new(),
        records: 0,
        torn: 0,
        first: Time::MAX,
        last: Time::ZERO,
        uneven: 0,
        residual_max: 0,
    };
    if !analysis.counts.add_up() {
        return Err(fail(ReadError::Damaged("its counts do not add up".into())));
    }
    let mut records = profile.records();
    while let Some(record) = records.next_record().map_err(fail)? {
        let head = &record.head;
        analysis.records += 1;
        analysis.first = analysis.first.min(head.begin);
        let end = head.begin.as_ps().saturating_add(head.total.as_ps());
        analysis.last = analysis.last.max(Time::from_ps(end));
        let residual = record.residual().unsigned_abs();
        analysis.uneven += u64::from(residual != 0);
        analysis.residual_max = analysis.residual_max.max(residual);
        let stages = record.stages.len();
        let group = analysis.groups.entry(by.key(head)).or_insert_with(|| Group::new(stages));
        group.add(head, record.stages);
    }
    analysis.torn = records.torn();
    Ok(analysis)
}

impl Analysis {
    /// From the beginning of the first I/O to the end of the last.
    pub(super) fn window(&self) -> Span {
        self.last.saturating_since(self.first)
    }

    /// The group of the same name as one of another profile: of that the mean time of all stages
    /// together and of each by its name, in nanoseconds.
    pub(super) fn base_of(&self, name: &str) -> Option<(f64, BTreeMap<&str, f64>)> {
        let named = |key: &Vec<u64>| self.by.name(&self.header, key) == name;
        let (_, group) = self.groups.iter().find(|(key, _)| named(key))?;
        let stages = self.header.stages.iter().zip(&group.stages);
        let means = stages.filter_map(|(name, all)| Some((name.as_str(), all.mean_ns()?)));
        Some((group.total.mean_ns()?, means.collect()))
    }
}
