//! A profile's I/Os in groups: how many there are, how long they took, and how long each of their
//! stages.

use super::group::GroupBy;
use super::path::{Joined, PathReport};
use crate::histogram::Histogram;
use mynah_profile::{Counts, Head, Header, Problem, Profile, ReadError, Sampling};
use mynah_stamp::{Span, Time};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most groups: what a profile says takes memory for each. Further I/Os are a group together.
pub(super) const GROUPS_MAX: usize = 128;
/// What that is called.
pub(super) const OTHERS: &str = "others";

/// I/Os that are alike.
#[derive(Default)]
pub(super) struct Group {
    pub(super) bytes: u64,
    pub(super) total: Histogram,
    /// By stage, in the header's order: of those I/Os that spent time in it.
    stages: Vec<Option<Histogram>>,
    /// Those that failed, which are in nothing else, by status.
    pub(super) failed: BTreeMap<u16, u64>,
    /// Slow ones that are not of the sample, which are in nothing else either, and the slowest.
    pub(super) kept: u64,
    pub(super) kept_max: Span,
}

impl Group {
    fn new(stages: usize) -> Group {
        Group { stages: vec![None; stages], ..Group::default() }
    }

    fn add(&mut self, head: &Head, stages: &[Span]) {
        if head.kept {
            self.kept += 1;
            self.kept_max = self.kept_max.max(head.total);
            return;
        }
        if head.status != 0 {
            *self.failed.entry(head.status).or_default() += 1;
            return;
        }
        self.bytes += u64::from(head.bytes);
        self.total.record(head.total);
        for (stage, &span) in self.stages.iter_mut().zip(stages) {
            if !span.is_zero() {
                stage.get_or_insert_default().record(span);
            }
        }
    }

    /// How long its I/Os spent in a stage, those that did not pass it with nothing.
    pub(super) fn stage(&self, stage: usize) -> Histogram {
        let spent = self.stages.get(stage).and_then(Option::as_ref);
        let mut all = spent.cloned().unwrap_or_default();
        all.record_many(Span::ZERO, self.total.count() - all.count());
        all
    }

    fn stage_mean_ns(&self, stage: &Option<Histogram>) -> f64 {
        let sum = stage.as_ref().map_or(0, Histogram::sum_ps);
        sum as f64 / 1e3 / self.total.count().max(1) as f64
    }
}

/// What a profile comes to.
pub struct Analysis {
    pub(super) path: PathBuf,
    pub(super) header: Header,
    pub(super) counts: Counts,
    pub(super) by: GroupBy,
    groups: BTreeMap<Vec<u64>, Group>,
    others: Option<Group>,
    /// Records that were read, and those that could not be.
    pub(super) records: u64,
    pub(super) torn: u64,
    /// When the first I/O began, and when the last one ended.
    pub(super) first: Time,
    pub(super) last: Time,
    /// I/Os whose stages do not add up to the whole, and by how much at most, in picoseconds.
    pub(super) uneven: u64,
    pub(super) residual_max: u128,
    /// How it was joined from two sides, if it was.
    pub(super) joined: Option<PathReport>,
}

/// Reads the profile at `path` and sorts its I/Os into groups.
///
/// # Errors
/// If it is no profile, or is damaged.
pub fn analyse(path: &Path, by: &GroupBy) -> Result<Analysis, Problem> {
    let analysed = analyse_from(path, Profile::open(path)?, by);
    analysed.map_err(|error| Problem { path: path.to_owned(), error })
}

/// The same of paths, which are said to be of the file at `path`.
///
/// # Errors
/// If they are no profile.
pub fn analyse_joined(path: &Path, joined: &Joined, by: &GroupBy) -> Result<Analysis, Problem> {
    let profile = Profile::new(&joined.profile[..]);
    let analysed = profile.and_then(|profile| analyse_from(path, profile, by));
    let mut analysis = analysed.map_err(|error| Problem { path: path.to_owned(), error })?;
    analysis.joined = Some(PathReport::of(joined));
    Ok(analysis)
}

/// The same of a profile that is open, and is said to be at `path`.
pub(crate) fn analyse_from(
    path: &Path,
    profile: Profile<impl Read>,
    by: &GroupBy,
) -> Result<Analysis, ReadError> {
    let mut analysis = Analysis {
        path: path.to_owned(),
        header: profile.header().clone(),
        counts: profile.counts(),
        by: by.clone(),
        groups: BTreeMap::new(),
        others: None,
        records: 0,
        torn: 0,
        first: Time::MAX,
        last: Time::ZERO,
        uneven: 0,
        residual_max: 0,
        joined: None,
    };
    if !analysis.counts.add_up() {
        return Err(ReadError::Damaged("its counts do not add up".into()));
    }
    let mut records = profile.records();
    while let Some(record) = records.next_record()? {
        let head = &record.head;
        analysis.records += 1;
        analysis.first = analysis.first.min(head.begin);
        let end = head.begin.as_ps().saturating_add(head.total.as_ps());
        analysis.last = analysis.last.max(Time::from_ps(end));
        let residual = record.residual().unsigned_abs();
        analysis.uneven += u64::from(residual != 0);
        analysis.residual_max = analysis.residual_max.max(residual);
        analysis.group_of(by.key(head)).add(head, record.stages);
    }
    analysis.torn = records.torn();
    Ok(analysis)
}

impl Analysis {
    fn group_of(&mut self, key: Vec<u64>) -> &mut Group {
        let stages = self.header.stages.len();
        match self.groups.len() < GROUPS_MAX || self.groups.contains_key(&key) {
            true => self.groups.entry(key).or_insert_with(|| Group::new(stages)),
            false => self.others.get_or_insert_with(|| Group::new(stages)),
        }
    }

    /// Its groups, each with its name.
    pub(super) fn groups(&self) -> impl Iterator<Item = (String, &Group)> {
        let named = self.groups.iter().map(|(key, it)| (self.by.name(&self.header, key), it));
        named.chain(self.others.iter().map(|it| (OTHERS.to_owned(), it)))
    }

    /// How many I/Os each of the sample stands for.
    pub(super) fn weight(&self) -> f64 {
        let counts = self.counts;
        match self.header.choice.as_ref().map(|choice| choice.sampling) {
            None | Some(Sampling::All) => 1.0,
            Some(Sampling::OneIn(n)) => n.into(),
            Some(Sampling::EveryPs(_)) => {
                let all = counts.recorded.saturating_add(counts.sampled_out) as f64;
                all / counts.recorded.max(1) as f64
            }
        }
    }

    /// The same with the name of each in its parts.
    pub(super) fn labelled_groups(&self) -> impl Iterator<Item = (Vec<String>, &Group)> {
        let named = self.groups.iter().map(|(key, it)| (self.by.labels(&self.header, key), it));
        named.chain(self.others.iter().map(|it| (vec![OTHERS.to_owned()], it)))
    }

    /// What tells the group of an I/O from others; `None` of those that are in none of their own.
    pub(super) fn key_of(&self, head: &Head) -> Option<Vec<u64>> {
        Some(self.by.key(head)).filter(|key| self.groups.contains_key(key))
    }

    /// How the group with this key is called.
    pub(super) fn name_of(&self, key: Option<&[u64]>) -> String {
        key.map_or(OTHERS.to_owned(), |key| self.by.name(&self.header, key))
    }

    /// From the beginning of the first I/O to the end of the last.
    pub(super) fn window(&self) -> Span {
        self.last.saturating_since(self.first)
    }

    /// The group of the same name as one of another profile: of that the mean time of all stages
    /// together and of each by its name, in nanoseconds.
    pub(super) fn base_of(&self, name: &str) -> Option<(f64, BTreeMap<&str, f64>)> {
        let (_, group) = self.groups().find(|(it, _)| it == name)?;
        let stages = self.header.stages.iter().zip(&group.stages);
        let means = stages.map(|(name, stage)| (name.as_str(), group.stage_mean_ns(stage)));
        Some((group.total.mean_ns()?, means.collect()))
    }
}
