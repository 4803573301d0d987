//! A profile's I/Os in groups: how many there are, how long they took, and how long each of their
//! stages.

use super::group::GroupBy;
use super::path::{Joined, PathReport};
use super::trace::{Io, Trace};
use super::windows::Windows;
use mynah_lab::batch;
use mynah_profile::{
    Choice, Counts, Head, Header, Problem, Profile, ReadError, Record, Records, Sampling,
};
use mynah_result::histogram::Histogram;
use mynah_stamp::{Span, Time};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most groups: what a profile says takes memory for each. The others, whose keys come last, are a
/// group together.
pub(super) const GROUPS_MAX: usize = 128;
/// A file is read in this many parts, in parallel; each has at least [`PART_SLOTS`] slots.
const PARTS: u64 = 8;
const PART_SLOTS: u64 = 1 << 16;
pub(super) const OTHERS: &str = "others";

/// I/Os with the same values in all dimensions of a [`GroupBy`].
#[derive(Default)]
pub(super) struct Group {
    pub(super) bytes: u64,
    pub(super) total: Histogram,
    /// By stage, in the header's order: only of I/Os that spent time in the stage.
    stages: Vec<Option<Histogram>>,
    /// Those that failed, which are in nothing else, by status.
    pub(super) failed: BTreeMap<u16, u64>,
    /// Slow I/Os beside the sample, which are counted nowhere else, and the slowest of them.
    pub(super) kept: u64,
    pub(super) kept_max: Span,
    /// The same I/Os by the window of time in which they began.
    pub(super) windows: Windows,
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
        self.windows.add(head.begin, head.total, stages);
        for (stage, &span) in self.stages.iter_mut().zip(stages) {
            if !span.is_zero() {
                stage.get_or_insert_default().record(span);
            }
        }
    }

    /// Adds another part of the group.
    fn merge(&mut self, other: &Group) {
        self.bytes += other.bytes;
        self.total.merge(&other.total);
        self.windows.merge(&other.windows);
        self.kept += other.kept;
        self.kept_max = self.kept_max.max(other.kept_max);
        for (stage, more) in self.stages.iter_mut().zip(&other.stages) {
            if let Some(more) = more {
                stage.get_or_insert_default().merge(more);
            }
        }
        for (status, count) in &other.failed {
            *self.failed.entry(*status).or_default() += count;
        }
    }

    /// Time that its I/Os spent in a stage; those that did not pass it count as 0.
    pub(super) fn stage(&self, stage: usize) -> Histogram {
        let spent = self.stages.get(stage).and_then(Option::as_ref);
        let mut all = spent.cloned().unwrap_or_default();
        all.record_many(Span::ZERO, self.total.count() - all.count());
        all
    }

    /// Mean time in a stage of those I/Os that passed it.
    pub(super) fn spent_mean_ns(&self, stage: usize) -> Option<f64> {
        self.stages.get(stage)?.as_ref()?.mean_ns()
    }

    fn stage_mean_ns(&self, stage: &Option<Histogram>) -> f64 {
        let sum = stage.as_ref().map_or(0, Histogram::sum_ps);
        sum as f64 / 1e3 / self.total.count().max(1) as f64
    }
}

/// A profile that was read, its I/Os in groups.
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
    /// The first and the last number of those of each queue that are here: also I/Os without a record
    /// have numbers.
    numbers: BTreeMap<(u16, u16), (u32, u32)>,
    /// I/Os whose stages do not add up to the whole, and by how much at most, in picoseconds.
    pub(super) uneven: u64,
    pub(super) residual_max: u128,
    /// How it was joined from two sides, if it was.
    pub(super) joined: Option<PathReport>,
    /// Which of the file's I/Os it is of, if not of all, and when the first of them all began.
    part: Option<(Part, Time)>,
    /// I/Os of the sample one by one, for queue models and interference.
    pub(super) trace: Trace,
}

/// A part of a profile: I/Os by when they began, counted from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Those from one time until another.
    Within(Span, Span),
    /// Those from a time on.
    From(Span),
}

impl Part {
    fn has(self, after: Span) -> bool {
        match self {
            Part::Within(from, until) => from <= after && after < until,
            Part::From(from) => from <= after,
        }
    }
}

/// Reads the profile at `path` and sorts its I/Os into groups.
///
/// # Errors
/// If it is no profile, or is damaged.
pub fn analyse(path: &Path, by: &GroupBy) -> Result<Analysis, Problem> {
    let fail = |error| Problem { path: path.to_owned(), error };
    let profile = Profile::open(path)?;
    let slots = profile.slots();
    if slots <= PART_SLOTS {
        // Of what can be read only once, too.
        return analyse_from(path, profile, by).map_err(fail);
    }
    let part = (slots / PARTS).max(PART_SLOTS);
    let parts: Vec<_> =
        (0..PARTS).map(|n| n.saturating_mul(part)..(n + 1).saturating_mul(part)).collect();
    let parts: Vec<_> = parts.into_iter().filter(|it| it.start < slots).collect();
    let last = parts.len() - 1;
    let read = batch::on_all(&parts, |slots| {
        let until =
            if slots.start == (last as u64).saturating_mul(part) { u64::MAX } else { slots.end };
        let profile = Profile::open(path)?;
        let mut analysis = Analysis::new(path, profile.header(), profile.counts(), by);
        let records = profile.records_within(slots.start..until);
        analysis.take(records.map_err(fail)?, |_| true).map_err(fail)?;
        Ok(analysis)
    });
    let mut whole: Option<Analysis> = None;
    for part in read {
        match &mut whole {
            None => whole = Some(part?),
            Some(whole) => whole.merge(part?),
        }
    }
    let whole = whole.ok_or_else(|| fail(ReadError::Foreign))?;
    whole.checked().map_err(fail)
}

/// Analyses a part of a profile. Its counts are still those of the whole.
///
/// # Errors
/// If it is no profile, or is damaged.
pub fn analyse_part(path: &Path, by: &GroupBy, part: Part) -> Result<Analysis, Problem> {
    let fail = |error| Problem { path: path.to_owned(), error };
    let mut records = Profile::open(path)?.records();
    let mut first = Time::MAX;
    while let Some(record) = records.next_record().map_err(fail)? {
        first = first.min(record.head.begin);
    }
    let has = |head: &Head| part.has(head.begin.saturating_since(first));
    let analysed = analyse_those(path, Profile::open(path)?, by, has).map_err(fail)?;
    Ok(Analysis { part: Some((part, first)), ..analysed })
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
    analyse_those(path, profile, by, |_| true)
}

fn analyse_those(
    path: &Path,
    profile: Profile<impl Read>,
    by: &GroupBy,
    has: impl Fn(&Head) -> bool,
) -> Result<Analysis, ReadError> {
    let mut analysis = Analysis::new(path, profile.header(), profile.counts(), by);
    analysis.take(profile.records(), has)?;
    analysis.checked()
}

impl Analysis {
    fn new(path: &Path, header: &Header, counts: Counts, by: &GroupBy) -> Analysis {
        Analysis {
            path: path.to_owned(),
            header: header.clone(),
            counts,
            by: by.clone(),
            groups: BTreeMap::new(),
            others: None,
            records: 0,
            torn: 0,
            first: Time::MAX,
            last: Time::ZERO,
            numbers: BTreeMap::new(),
            uneven: 0,
            residual_max: 0,
            joined: None,
            part: None,
            trace: Trace::new(header.stages.len()),
        }
    }

    /// Reads the records that `has` selects.
    fn take(
        &mut self,
        mut records: Records<impl Read>,
        has: impl Fn(&Head) -> bool,
    ) -> Result<(), ReadError> {
        while let Some(record) = records.next_record()? {
            if has(&record.head) {
                self.add(&record);
            }
        }
        self.torn = records.torn();
        Ok(())
    }

    /// Ends the reading: fails unless the counts add up, and sorts the trace.
    fn checked(mut self) -> Result<Analysis, ReadError> {
        if !self.counts.add_up() {
            return Err(ReadError::Damaged("its counts do not add up".into()));
        }
        self.trace.sort();
        Ok(self)
    }

    fn add(&mut self, record: &Record<'_>) {
        let head = &record.head;
        self.records += 1;
        self.first = self.first.min(head.begin);
        let end = head.begin.as_ps().saturating_add(head.total.as_ps());
        self.last = self.last.max(Time::from_ps(end));
        let numbers = self.numbers.entry((head.connection, head.queue));
        let (first, last) = numbers.or_insert((head.nth, head.nth));
        (*first, *last) = ((*first).min(head.nth), (*last).max(head.nth));
        let residual = record.residual().unsigned_abs();
        self.uneven += u64::from(residual != 0);
        self.residual_max = self.residual_max.max(residual);
        self.trace.add(head, record.stages);
        self.group_of(self.by.key(head)).add(head, record.stages);
        self.bound();
    }

    /// Adds another part of the same profile.
    fn merge(&mut self, other: Analysis) {
        self.records += other.records;
        self.torn += other.torn;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        for (queue, (from, to)) in other.numbers {
            let (first, last) = self.numbers.entry(queue).or_insert((from, to));
            (*first, *last) = ((*first).min(from), (*last).max(to));
        }
        self.uneven += other.uneven;
        self.residual_max = self.residual_max.max(other.residual_max);
        self.trace.merge(&other.trace);
        for (key, group) in other.groups {
            self.group_of(key).merge(&group);
            self.bound();
        }
        if let Some(others) = other.others {
            self.others_mut().merge(&others);
        }
    }

    /// Whether an I/O of the file is one of them.
    pub(super) fn has(&self, head: &Head) -> bool {
        let in_part = |(part, first): (Part, Time)| part.has(head.begin.saturating_since(first));
        self.part.is_none_or(in_part)
    }

    fn others_mut(&mut self) -> &mut Group {
        let stages = self.header.stages.len();
        self.others.get_or_insert_with(|| Group::new(stages))
    }

    /// The group of this key; `others` if there are enough groups with lower keys.
    fn group_of(&mut self, key: Vec<u64>) -> &mut Group {
        let stages = self.header.stages.len();
        let full = self.groups.len() >= GROUPS_MAX;
        let last = self.groups.last_key_value().map(|(last, _)| last);
        match full && last.is_some_and(|last| *last < key) {
            true => self.others_mut(),
            false => self.groups.entry(key).or_insert_with(|| Group::new(stages)),
        }
    }

    /// One group too many goes to the others: which groups there are does not depend on who came
    /// first.
    fn bound(&mut self) {
        if self.groups.len() > GROUPS_MAX
            && let Some((_, last)) = self.groups.pop_last()
        {
            self.others_mut().merge(&last);
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
        if self.counted().is_some() {
            let all = counts.completed.saturating_sub(counts.filtered);
            return all as f64 / self.sample().max(1) as f64;
        }
        match self.header.choice.as_ref().map(|choice| choice.sampling) {
            Some(Sampling::OneIn(n)) => n.into(),
            _ => {
                let all = counts.recorded.saturating_add(counts.sampled_out) as f64;
                all / counts.recorded.max(1) as f64
            }
        }
    }

    /// Its groups, each with its labels, dimension by dimension.
    pub(super) fn labelled_groups(&self) -> impl Iterator<Item = (Vec<String>, &Group)> {
        let named = self.groups.iter().map(|(key, it)| (self.by.labels(&self.header, key), it));
        named.chain(self.others.iter().map(|it| (vec![OTHERS.to_owned()], it)))
    }

    /// The key of an I/O's group; `None` if it is among the others.
    pub(super) fn key_of(&self, head: &Head) -> Option<Vec<u64>> {
        Some(self.by.key(head)).filter(|key| self.groups.contains_key(key))
    }

    /// Name of the group with this key.
    pub(super) fn name_of(&self, key: Option<&[u64]>) -> String {
        key.map_or(OTHERS.to_owned(), |key| self.by.name(&self.header, key))
    }

    /// From the beginning of the first I/O to the end of the last.
    pub(super) fn window(&self) -> Span {
        self.last.saturating_since(self.first)
    }

    /// Whether I/Os were taken by time.
    pub(super) fn is_by_time(&self) -> bool {
        self.header.choice.as_ref().is_some_and(Choice::is_by_time)
    }

    /// I/Os of the sample with a record here, failed ones included.
    fn sample(&self) -> u64 {
        let of = |group: &Group| group.total.count() + group.failed.values().sum::<u64>();
        self.groups.values().chain(&self.others).map(of).sum()
    }

    /// For how long all that were counted were counted, if that is known and this is of them all.
    fn counted(&self) -> Option<Span> {
        let counted = self.header.counted_ns.filter(|ns| *ns > 0 && self.part.is_none())?;
        Some(Span::from_ns(counted))
    }

    /// Duration for which I/Os were counted; from the records where the header does not say.
    pub(super) fn period(&self) -> Span {
        self.counted().unwrap_or_else(|| self.window())
    }

    /// How many I/Os were under way on average, for each picosecond that those of the sample have spent
    /// (Little's law). Where records are lost, it is of the time that the others are from: it may not
    /// be like the rest.
    pub(super) fn under_way_per_ps(&self) -> f64 {
        let window = |span: Span| span.as_ps().max(1) as f64;
        let counts = self.counts;
        let whole = counts.lost == 0 && counts.recorded <= self.records + self.torn;
        if self.counted().is_none() || whole {
            return self.weight() / window(self.period());
        }
        let of = |(first, last): &(u32, u32)| u64::from(last - first) + 1;
        let passed: u64 = self.numbers.values().map(of).sum();
        let filtered = counts.filtered as f64 / counts.completed.max(1) as f64;
        let passed = passed.max(self.records) as f64 * (1.0 - filtered);
        passed / self.sample().max(1) as f64 / window(self.window())
    }

    /// Rate of I/Os that no filter left out, with or without a record.
    pub(super) fn rate(&self) -> f64 {
        let counts = self.counts;
        if let Some(counted) = self.counted() {
            return counts.completed.saturating_sub(counts.filtered) as f64 / counted.as_secs_f64();
        }
        // Those that were lost had a record, too.
        let lost = counts.lost as f64 / counts.recorded.max(1) as f64;
        let ios = self.trace.ios().len() as f64 * self.weight() * (1.0 + lost);
        ios * 1e12 / self.trace.window().max(1) as f64
    }

    /// Whether I/Os have no record that were there with others.
    pub(super) fn is_partial(&self) -> bool {
        let counts = self.counts;
        let without = counts.sampled_out.saturating_add(counts.lost);
        without.saturating_mul(1000) > counts.completed || counts.filtered > 0
    }

    pub(super) fn group(&self, name: &str) -> Option<&Group> {
        self.groups().find(|(it, _)| it == name).map(|(_, group)| group)
    }

    /// Whether an I/O is of the group of a name.
    pub(super) fn is_of(&self, name: &str) -> impl Fn(&Io) -> bool {
        let named = |key: &&Vec<u64>| self.by.name(&self.header, key) == name;
        let key = self.groups.keys().find(named);
        move |io| io.status == 0 && key.is_some_and(|key| *key == self.by.key(&io.head()))
    }

    /// The group of the same name as one of another profile: of that the mean time of all stages
    /// together and of each by its name, in nanoseconds.
    pub(super) fn base_of(&self, name: &str) -> Option<(f64, BTreeMap<&str, f64>)> {
        let group = self.group(name)?;
        let stages = self.header.stages.iter().zip(&group.stages);
        let means = stages.map(|(name, stage)| (name.as_str(), group.stage_mean_ns(stage)));
        Some((group.total.mean_ns()?, means.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProfileReport, ProfileReports};
    use mynah_profile::{Side, TimeBase};
    use proptest::prelude::*;

    type Io = (u32, u16, u64, [u64; 3]);

    fn of(ios: &[(usize, Io)]) -> Analysis {
        let mut header = Header::new(Side::Target, "a drive", TimeBase::Monotonic);
        header.kinds = vec!["read".into()];
        header.stages = ["late", "die_wait", "another"].map(str::to_owned).to_vec();
        let counts = Counts::default();
        let mut analysis = Analysis::new(Path::new("a"), &header, counts, &GroupBy::default());
        for (number, (size, status, begin, stages)) in ios {
            let stages = stages.map(Span::from_ps);
            let head = Head {
                sequence: *number as u64 + 1,
                bytes: *size,
                status: *status,
                begin: Time::from_ps(*begin),
                total: Span::from_ps(
                    stages.iter().map(|span| span.as_ps()).sum::<u64>() + *begin % 2,
                ),
                ..Head::default()
            };
            analysis.add(&Record { head, stages: &stages, beside: &[] });
        }
        analysis
    }

    /// What is said of it; the deviations, whose last digits depend on the order of sums, apart.
    fn said(analysis: Analysis) -> (ProfileReport, Vec<f64>) {
        let analysis = analysis.checked().expect("counts that add up");
        let mut report = ProfileReports::new(&[analysis], None).profiles.remove(0);
        let latencies = report.groups.iter_mut().filter_map(|group| group.lat_ns.as_mut());
        let deviations = latencies.map(|it| std::mem::take(&mut it.stddev)).collect();
        (report, deviations)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn merged_parts_are_the_whole(
            ios in prop::collection::vec(
                (0..400u32, prop_oneof![4 => Just(0u16), 1 => 1..3u16], 0..1u64 << 40, any::<[u32; 3]>()),
                0..500,
            ),
            mut cuts in prop::collection::vec(0.0..1.0f64, 0..3),
            backwards in any::<bool>(),
        ) {
            let ios: Vec<(usize, Io)> = (ios.into_iter())
                .map(|(size, status, begin, stages)| (size, status, begin, stages.map(u64::from)))
                .enumerate()
                .collect();
            cuts.sort_by(f64::total_cmp);
            let mut parts = vec![];
            let mut rest = &ios[..];
            for cut in cuts {
                let at = (rest.len() as f64 * cut) as usize;
                parts.push(of(&rest[..at]));
                rest = &rest[at..];
            }
            parts.push(of(rest));
            if backwards {
                parts.reverse();
            }
            let mut merged = of(&[]);
            parts.into_iter().for_each(|part| merged.merge(part));
            prop_assert_eq!(&merged.trace.clone().ios().len(), &ios.len());
            let ((merged, a), (whole, b)) = (said(merged), said(of(&ios)));
            prop_assert_eq!(merged, whole);
            for (a, b) in a.iter().zip(&b) {
                prop_assert!((a - b).abs() <= 1e-6 * (1.0 + a.abs()), "{a} {b}");
            }
        }
    }
}
