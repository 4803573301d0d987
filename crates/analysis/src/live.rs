//! Profiles watched while they are being written: what each interval of them comes to.
//!
//! There is no clock here: whoever watches says how long an interval was. Memory is bounded, whatever
//! records say: the latencies of so many groups, and the sums of their stages.

use super::analysis::{Analysis, GROUPS_MAX, OTHERS};
use super::group::GroupBy;
use mynah_profile::{Counts, Head, Header, Record};
use mynah_result::histogram::Histogram;
use mynah_stamp::Span;
use std::collections::BTreeMap;
use std::path::Path;

/// A profile that is being written, polled for its new records.
pub trait Source {
    /// What is watched, as people call it.
    fn name(&self) -> String;

    /// Header of the profile. It is another one after a poll that began anew.
    fn header(&self) -> &Header;

    /// Gives `take` the records that have come since the last look, the oldest first. The first look
    /// has what was there before.
    ///
    /// # Errors
    /// If it cannot be looked at any more.
    fn poll(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<Polled, SourceError>;

    /// Saves the present records as a profile at `path`; returns their number.
    ///
    /// # Errors
    /// If it cannot be written, or there are no records to write.
    fn save(&mut self, path: &Path) -> Result<u64, SourceError>;
}

/// What one poll of a [`Source`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// What the source has counted so far.
    pub counts: Counts,
    /// Records that were gone before they could be read.
    pub overwritten: u64,
    /// Records that were damaged.
    pub torn: u64,
    /// Whether another run has begun: what was counted before belongs to the old one.
    pub anew: bool,
    /// Why there will be no more, if that is so.
    pub ended: Option<String>,
}

/// A source cannot be polled, or saved.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// What was seen between two polls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    pub seconds: f64,
    pub counts: Counts,
    /// Records that were read, gone before they could be, and damaged.
    pub read: u64,
    /// Records that were written over before they could be read.
    pub overwritten: u64,
    /// Records that were damaged.
    pub torn: u64,
    /// Groups of I/Os, in an order that stays.
    pub groups: Vec<LiveGroup>,
}

/// I/Os that are alike, in one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveGroup {
    pub name: String,
    /// How many records there were, of those that succeeded and of those that failed.
    pub ios: u64,
    /// Records of I/Os that failed.
    pub failed: u64,
    /// I/Os a second. Those without a record, but not those that were filtered, are taken to be like
    /// the others.
    pub iops: f64,
    /// The same of how many were under way on average (Little's law).
    pub outstanding: f64,
    /// How many commands of its connection an I/O found under way, itself included, on average; where
    /// that is known.
    pub found: Option<f64>,
    /// Latency: mean, what half did not exceed, and 99 of 100.
    pub mean_ns: f64,
    pub p50_ns: f64,
    pub p99_ns: f64,
    /// How many times longer the mean is than in the base.
    pub amplification: Option<f64>,
    /// Stages that some time was spent in, in the order in which I/Os pass them.
    pub stages: Vec<LiveStage>,
}

/// A stage of a group's I/Os.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveStage {
    pub name: String,
    pub mean_ns: f64,
    /// Its part of the mean latency.
    pub share: f64,
    /// How many times longer it is than in the base.
    pub amplification: Option<f64>,
}

/// What has been seen of a group in this interval.
#[derive(Default)]
struct Tally {
    total: Histogram,
    stages: Vec<u128>,
    failed: u64,
    /// Records that say how many commands were outstanding, and the sum of what they say.
    found: u64,
    found_sum: u64,
}

/// Mean latency of a group in nanoseconds, and of its stages by name.
type Means = (f64, BTreeMap<String, f64>);

/// Puts records into intervals.
pub struct Watch {
    by: GroupBy,
    /// The only kind of I/O that is looked at, if there is one; and a bit for each that there has been.
    kind: Option<u8>,
    kinds: [u64; 4],
    groups: BTreeMap<Vec<u64>, Tally>,
    others: Option<Tally>,
    read: u64,
    overwritten: u64,
    torn: u64,
    /// Records that were kept since they were slow.
    kept: u64,
    /// What had been counted when the interval began, and at the last look.
    from: Counts,
    counts: Counts,
    base: BTreeMap<String, Means>,
}

impl Watch {
    /// Sorts I/Os into groups by this.
    pub fn new(by: GroupBy) -> Watch {
        Watch {
            by,
            kind: None,
            kinds: [0; 4],
            groups: BTreeMap::new(),
            others: None,
            read: 0,
            overwritten: 0,
            torn: 0,
            kept: 0,
            from: Counts::default(),
            counts: Counts::default(),
            base: BTreeMap::new(),
        }
    }

    /// Polls the source once, and adds its records to the interval.
    ///
    /// # Errors
    /// Of the source.
    pub fn look(&mut self, source: &mut dyn Source) -> Result<Polled, SourceError> {
        let stages = source.header().stages.len();
        let polled = source.poll(&mut |record| self.add(record, stages))?;
        if polled.anew {
            // As at the first look: what was there before is not of this interval.
            self.restart(polled.counts);
            return Ok(polled);
        }
        self.overwritten += polled.overwritten;
        self.torn += polled.torn;
        self.counts = polled.counts;
        Ok(polled)
    }

    /// Begins an empty interval, where the source had counted `from`.
    pub fn restart(&mut self, from: Counts) {
        self.groups.clear();
        self.others = None;
        (self.read, self.overwritten, self.torn, self.kept) = (0, 0, 0, 0);
        self.from = from;
        self.counts = from;
    }

    /// Changes the grouping. A base that was an interval is forgotten.
    pub fn group_by(&mut self, by: GroupBy) {
        self.by = by;
        self.base.clear();
        self.restart(self.counts);
    }

    pub fn by(&self) -> &GroupBy {
        &self.by
    }

    /// Looks at one kind of I/O only, or at all.
    pub fn filter(&mut self, kind: Option<u8>) {
        self.kind = kind;
        self.restart(self.counts);
    }

    /// The kind of I/O that is looked at.
    pub fn kind(&self) -> Option<u8> {
        self.kind
    }

    /// The next kind of I/O that has occurred; `None`, which means all kinds, after the last.
    pub fn next_kind(&self) -> Option<u8> {
        let first = self.kind.map_or(0, |kind| u16::from(kind) + 1);
        let mut kinds = (first..256).filter_map(|kind| u8::try_from(kind).ok());
        kinds.find(|&kind| self.kinds[usize::from(kind / 64)] >> (kind % 64) & 1 == 1)
    }

    /// Compares with this profile, which was analysed by the same groups.
    pub fn base_of(&mut self, analysis: &Analysis) {
        let names: Vec<String> = analysis.groups().map(|(name, _)| name).collect();
        let means = names.into_iter().filter_map(|name| {
            let (mean, stages) = analysis.base_of(&name)?;
            let stages = stages.into_iter().map(|(stage, mean)| (stage.to_owned(), mean));
            Some((name, (mean, stages.collect())))
        });
        self.base = means.collect();
    }

    /// Compares with this interval.
    pub fn base_on(&mut self, interval: &Interval) {
        let means = interval.groups.iter().filter(|group| group.ios > 0).map(|group| {
            let stages = group.stages.iter().map(|stage| (stage.name.clone(), stage.mean_ns));
            (group.name.clone(), (group.mean_ns, stages.collect()))
        });
        self.base = means.collect();
    }

    /// Whether there is something to compare with.
    pub fn has_base(&self) -> bool {
        !self.base.is_empty()
    }

    fn add(&mut self, record: &Record<'_>, stages: usize) {
        let head = &record.head;
        self.kinds[usize::from(head.kind / 64)] |= 1 << (head.kind % 64);
        if self.kind.is_some_and(|kind| kind != head.kind) {
            return;
        }
        self.read += 1;
        // Kept since it was slow, and not of the sample.
        if head.kept {
            self.kept += 1;
            return;
        }
        self.tally(head).add(record, stages);
    }

    fn tally(&mut self, head: &Head) -> &mut Tally {
        let key = self.by.key(head);
        match self.groups.len() < GROUPS_MAX || self.groups.contains_key(&key) {
            true => self.groups.entry(key).or_default(),
            false => self.others.get_or_insert_default(),
        }
    }

    /// Ends the interval, which lasted this long, and begins the next one.
    pub fn end(&mut self, header: &Header, after: Span) -> Interval {
        let since = |of: fn(&Counts) -> u64| of(&self.counts).saturating_sub(of(&self.from));
        let counts = Counts {
            completed: since(|it| it.completed),
            recorded: since(|it| it.recorded),
            filtered: since(|it| it.filtered),
            sampled_out: since(|it| it.sampled_out),
            lost: since(|it| it.lost),
        };
        let seconds = after.as_secs_f64();
        // Those that are looked at stand for those without a record, too.
        let without = counts.sampled_out.saturating_add(counts.lost);
        let unread = self.overwritten.saturating_add(self.torn).saturating_add(self.kept);
        let without = without.saturating_add(unread);
        let all = counts.recorded.saturating_sub(unread);
        let each = match all {
            0 => 1.0,
            all => 1.0 + without as f64 / all as f64,
        };
        let rate = if seconds > 0.0 { each / seconds } else { 0.0 };
        let named = self.groups.iter().map(|(key, tally)| (self.by.name(header, key), tally));
        let named = named.chain(self.others.iter().map(|tally| (OTHERS.to_owned(), tally)));
        let groups = named.map(|(name, tally)| {
            let base = self.base.get(&name);
            tally.group(name, header, rate, base)
        });
        let groups: Vec<LiveGroup> = groups.collect();
        let (read, overwritten, torn) = (self.read, self.overwritten, self.torn);
        self.restart(self.counts);
        Interval { seconds, counts, read, overwritten, torn, groups }
    }
}

impl Tally {
    fn add(&mut self, record: &Record<'_>, stages: usize) {
        let head = &record.head;
        if head.status != 0 {
            self.failed += 1;
            return;
        }
        self.total.record(head.total);
        self.stages.resize(stages.max(record.stages.len()), 0);
        for (sum, span) in self.stages.iter_mut().zip(record.stages) {
            *sum += u128::from(span.as_ps());
        }
        if head.outstanding > 0 {
            self.found += 1;
            self.found_sum += u64::from(head.outstanding);
        }
    }

    fn group(&self, name: String, header: &Header, rate: f64, base: Option<&Means>) -> LiveGroup {
        let ios = self.total.count();
        let mean_ns = self.total.mean_ns().unwrap_or(0.0);
        let percentile = |it| self.total.percentile(it).map_or(0.0, Span::as_ns_f64);
        let times = |now: f64, base: f64| (base > 0.0).then(|| now / base);
        let stages = header.stages.iter().zip(&self.stages).filter(|(_, sum)| **sum > 0);
        let stages = stages.map(|(name, &sum)| {
            let mean = sum as f64 / 1e3 / ios.max(1) as f64;
            let base = base.and_then(|(_, stages)| stages.get(name));
            LiveStage {
                name: name.clone(),
                mean_ns: mean,
                share: if mean_ns > 0.0 { mean / mean_ns } else { 0.0 },
                amplification: base.and_then(|base| times(mean, *base)),
            }
        });
        LiveGroup {
            ios,
            failed: self.failed,
            iops: ios as f64 * rate,
            outstanding: self.total.sum_ps() as f64 / 1e12 * rate,
            found: (self.found > 0).then(|| self.found_sum as f64 / self.found as f64),
            mean_ns,
            p50_ns: percentile(50.0),
            p99_ns: percentile(99.0),
            amplification: base.and_then(|(base, _)| times(mean_ns, *base)),
            stages: stages.collect(),
            name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_profile::{Side, TimeBase};
    use mynah_stamp::Time;
    use proptest::prelude::*;

    /// What a look gives: I/Os with their stages, and what is counted.
    type Look = (Vec<(Head, Vec<u64>)>, Polled);

    /// A source whose polls a test has written down.
    struct Script {
        header: Header,
        looks: std::vec::IntoIter<Look>,
    }

    impl Script {
        fn new(looks: Vec<Look>) -> Script {
            let mut header = Header::new(Side::Target, "drive", TimeBase::Monotonic);
            header.kinds = vec!["read".into(), "write".into()];
            header.stages = vec!["die_wait".into(), "output".into()];
            Script { header, looks: looks.into_iter() }
        }
    }

    impl Source for Script {
        fn name(&self) -> String {
            "script".into()
        }

        fn header(&self) -> &Header {
            &self.header
        }

        fn poll(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<Polled, SourceError> {
            let (records, polled) = self.looks.next().ok_or(SourceError("it is over".into()))?;
            for (head, stages) in records {
                let stages: Vec<Span> = stages.into_iter().map(Span::from_ns).collect();
                let head = Head { total: stages.iter().copied().sum(), ..head };
                take(&Record { head, stages: &stages, beside: &[] });
            }
            Ok(polled)
        }

        fn save(&mut self, _: &Path) -> Result<u64, SourceError> {
            Err(SourceError("a script keeps nothing".into()))
        }
    }

    fn io(kind: u8, stages: [u64; 2]) -> (Head, Vec<u64>) {
        (Head { kind, outstanding: 4, begin: Time::ZERO, ..Head::default() }, stages.to_vec())
    }

    fn counted(completed: u64, recorded: u64) -> Polled {
        let sampled_out = completed - recorded;
        let counts = Counts { completed, recorded, sampled_out, ..Counts::default() };
        Polled { counts, ..Polled::default() }
    }

    #[test]
    fn intervals_are_what_came_in_them() {
        let failed = (Head { status: 0x281, ..Head::default() }, vec![9, 9]);
        let mut source = Script::new(vec![
            (vec![io(0, [1, 1])], counted(1, 1)),
            (vec![io(0, [100, 300]), io(1, [0, 50])], counted(3, 3)),
            (vec![io(0, [300, 300]), failed], counted(5, 5)),
            (vec![io(0, [600, 600])], counted(25, 6)),
        ]);
        let mut watch = Watch::new("type".parse().unwrap());
        let before = watch.look(&mut source).unwrap();
        watch.restart(before.counts);
        watch.look(&mut source).unwrap();
        watch.look(&mut source).unwrap();
        let first = watch.end(&source.header, Span::from_ns(1000));
        assert_eq!((first.read, first.counts.completed, first.groups.len()), (4, 4, 2));
        let reads = &first.groups[0];
        assert_eq!((reads.name.as_str(), reads.ios, reads.failed), ("read", 2, 1));
        assert_eq!((reads.iops, reads.mean_ns, reads.outstanding), (2e6, 500.0, 1.0));
        assert_eq!((reads.found, reads.amplification), (Some(4.0), None));
        let die_wait = &reads.stages[0];
        assert_eq!((die_wait.mean_ns, die_wait.share), (200.0, 0.4));
        assert_eq!(first.groups[1].stages.len(), 1, "stages without time are not shown");
        // Beside it the next one; 19 of its 20 I/Os have no record, and are as that is.
        watch.base_on(&first);
        watch.look(&mut source).unwrap();
        let second = watch.end(&source.header, Span::from_ns(1000));
        assert_eq!((second.read, second.groups.len()), (1, 1));
        let reads = &second.groups[0];
        assert_eq!((reads.amplification, reads.stages[0].amplification), (Some(2.4), Some(3.0)));
        assert_eq!((reads.ios, reads.iops), (1, 20e6));
        assert_eq!(watch.look(&mut source).unwrap_err().to_string(), "it is over");
    }

    #[test]
    fn filters_groups_and_other_runs_begin_anew() {
        let three = || vec![io(0, [1, 1]), io(1, [2, 2]), io(1, [3, 3])];
        let anew = Polled { anew: true, ..counted(3, 3) };
        let mut source = Script::new(vec![
            (three(), counted(3, 3)),
            (three(), counted(6, 6)),
            (three(), counted(9, 9)),
            (three(), anew),
        ]);
        let mut watch = Watch::new("type".parse().unwrap());
        watch.look(&mut source).unwrap();
        assert_eq!(watch.next_kind(), Some(0));
        watch.filter(Some(1));
        assert_eq!(watch.next_kind(), None);
        watch.look(&mut source).unwrap();
        let writes = watch.end(&source.header, Span::from_ns(3));
        assert_eq!((writes.read, writes.groups.len(), writes.groups[0].ios), (2, 1, 2));
        // I/Os that are not looked at are not without a record.
        assert_eq!(writes.groups[0].iops, 2.0 / 3e-9);
        watch.base_on(&writes);
        watch.group_by("all".parse().unwrap());
        assert!(!watch.has_base());
        watch.filter(None);
        watch.look(&mut source).unwrap();
        let all = watch.end(&source.header, Span::from_ns(3));
        assert_eq!((all.groups[0].name.as_str(), all.groups[0].ios), ("all", 3));
        watch.look(&mut source).unwrap();
        let other = watch.end(&source.header, Span::from_ns(3));
        assert_eq!((other.groups.len(), other.counts.completed), (0, 0));
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_nothing_is_left_out(
            ids in prop::collection::vec(any::<(u16, u16)>(), 0..400), times in any::<(u64, u64)>(),
        ) {
            let heads = ids.iter().map(|&(connection, queue)| Head { connection, queue, ..Head::default() });
            let mut watch = Watch::new("session,queue".parse().unwrap());
            let stages = [Span::from_ps(times.0), Span::from_ps(times.1)];
            for head in heads {
                let head = Head { total: stages[0], ..head };
                watch.add(&Record { head, stages: &stages, beside: &[] }, 2);
            }
            let mut header = Header::new(Side::Target, "drive", TimeBase::Monotonic);
            header.stages = vec!["a".into(), "b".into()];
            let interval = watch.end(&header, Span::from_ps(times.1));
            prop_assert!(interval.groups.len() <= GROUPS_MAX + 1);
            let ios: u64 = interval.groups.iter().map(|group| group.ios).sum();
            prop_assert_eq!(ios, ids.len() as u64);
            prop_assert!(interval.groups.iter().all(|group| group.iops.is_finite()));
        }
    }
}
