//! I/Os of an end that does not say which command of its connection each was: the same queue, the
//! same command identifier, and times that fit.
//!
//! Identifiers come again, and the clocks may differ by anything. But a command arrives after it
//! has left, and is answered before its answer comes: so a pair of records says within what the
//! target's clock is ahead, if the two are of one I/O. What nearly all I/Os of a stretch of time can
//! agree on is how far it is ahead there (as for the stamps in `clock.rs`); from there on clocks are
//! followed from I/O to I/O. Whoever has two partners then has none.

use super::sides::Records;
use mynah_profile::Head;
use mynah_stamp::Time;
use std::collections::VecDeque;

/// I/Os that the clocks' relation is first sought with.
const ANCHORS: usize = 256;
/// Pairs of records that are looked at for it.
const VOTES_MAX: usize = 4_000_000;
/// Most recent pairs from which the clocks' difference is followed.
const RECENT: usize = 32;
/// Reciprocal of the largest drift between two clocks: 200 parts per million.
const DRIFT: i128 = 5_000;
/// Stamps of one clock, taken in different ways, are this far apart at most.
const STAMPS_PS: i128 = 1_000_000;

/// How far the target's clock can be ahead, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Band {
    least: i128,
    most: i128,
}

impl Band {
    const ALL: Band = Band { least: i128::MIN, most: i128::MAX };

    fn and(self, other: Band) -> Option<Band> {
        let both = Band { least: self.least.max(other.least), most: self.most.min(other.most) };
        (both.least <= both.most).then_some(both)
    }

    fn wider(self, by: i128) -> Band {
        Band { least: self.least - by, most: self.most + by }
    }
}

/// An I/O of the host: its record's index, and when it left and was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostWait {
    pub(super) at: usize,
    pub(super) left: Time,
    pub(super) answered: Time,
}

/// No relation of the clocks stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ambiguous;

/// Identity of an I/O that both sides know: controller, queue and command identifier.
fn name(head: &Head) -> (u16, u16, u16) {
    (head.connection, head.queue, head.command_id)
}

/// Records of the target, by name and time.
struct Partners<'a> {
    records: &'a Records,
    order: Vec<usize>,
}

impl<'a> Partners<'a> {
    fn new(records: &'a Records, mut order: Vec<usize>) -> Partners<'a> {
        let key = |at: &usize| (name(records.head(*at)), records.head(*at).begin);
        order.sort_unstable_by_key(key);
        Partners { records, order }
    }

    /// Indices of the target's records with the same identity, by time.
    fn of(&self, head: &Head) -> &[usize] {
        let name = |at: &usize| name(self.records.head(*at));
        let wanted = self::name(head);
        let from = self.order.partition_point(|at| name(at) < wanted);
        let count = self.order[from..].partition_point(|at| name(at) == wanted);
        &self.order[from..from + count]
    }

    /// Candidates for an I/O, if the target's clock is ahead by a time within this band.
    fn within(&self, head: &Head, away: &HostWait, ahead: Band) -> &[usize] {
        let of_it = self.of(head);
        let begin = |at: &usize| i128::from(self.records.head(*at).begin.as_ps());
        let earliest = i128::from(away.left.as_ps()) + ahead.least;
        let latest = i128::from(away.answered.as_ps()) + ahead.most;
        let from = of_it.partition_point(|at| begin(at) < earliest);
        let count = of_it[from..].partition_point(|at| begin(at) <= latest);
        &of_it[from..from + count]
    }

    /// How far the target's clock is ahead, if a record of it is of this I/O; `None`: it is not.
    fn band(&self, away: &HostWait, partner: usize) -> Option<Band> {
        let head = self.records.head(partner);
        let ps = |time: Time| i128::from(time.as_ps());
        let (begin, end) = (ps(head.begin), ps(head.begin + head.total));
        let band = Band { least: end - ps(away.answered), most: begin - ps(away.left) };
        (band.least <= band.most).then_some(band)
    }
}

/// Pairs of records of the same I/Os: of those of the host in `host`, and of those of the target in
/// `partners`. `ahead_ps` is how far the target's clock is ahead, where that is known.
///
/// # Errors
/// If several relations of the clocks would do.
pub(super) fn matches(
    host: &Records,
    mut away: Vec<HostWait>,
    target: &Records,
    partners: Vec<usize>,
    ahead_ps: Option<i128>,
) -> Result<Vec<(usize, usize)>, Ambiguous> {
    away.sort_unstable_by_key(|it| (it.left, it.at));
    let partners = Partners::new(target, partners);
    away.retain(|it| !partners.of(host.head(it.at)).is_empty());
    if away.is_empty() {
        return Ok(vec![]);
    }
    let (middle, start) = match ahead_ps {
        Some(ahead) => (0, Band { least: ahead, most: ahead }),
        None => (away.len() / 2, vote(host, &away, &partners)?),
    };
    let (before, behind) = away.split_at(middle);
    let mut pairs = vec![];
    let is_fixed = ahead_ps.is_some();
    follow(host, behind.iter(), &partners, start, is_fixed, &mut pairs);
    follow(host, before.iter().rev(), &partners, start, is_fixed, &mut pairs);
    // Of a record that two claim nobody knows whose it is.
    pairs.sort_unstable_by_key(|&(_, partner)| partner);
    let claimed = |at: usize| {
        let it = pairs[at].1;
        let is_same = |other: usize| pairs.get(other).is_some_and(|pair| pair.1 == it);
        is_same(at + 1) || at > 0 && is_same(at - 1)
    };
    Ok((0..pairs.len()).filter(|&at| !claimed(at)).map(|at| pairs[at]).collect())
}

/// How far the target's clock is ahead around the middle of the host's I/Os.
fn vote(host: &Records, away: &[HostWait], partners: &Partners<'_>) -> Result<Band, Ambiguous> {
    let from = (away.len() / 2).saturating_sub(ANCHORS / 2);
    let until = (from + ANCHORS).min(away.len());
    let mut votes: Vec<Band> = vec![];
    for it in &away[from..until] {
        let of_it = partners.of(host.head(it.at));
        if votes.len() + of_it.len() > VOTES_MAX {
            break;
        }
        votes.extend(of_it.iter().filter_map(|&partner| partners.band(it, partner)));
    }
    let (count, best) = most_common(&votes).ok_or(Ambiguous)?;
    // What would be there without it.
    let mut others = votes;
    others.retain(|band| band.and(best).is_none());
    let second = most_common(&others).map_or(0, |(count, _)| count);
    if 2 * second > count {
        return Err(Ambiguous);
    }
    Ok(best)
}

/// What most of these agree on, and how many they are.
fn most_common(bands: &[Band]) -> Option<(usize, Band)> {
    let mut edges: Vec<(i128, bool)> = Vec::with_capacity(2 * bands.len());
    for band in bands {
        // At one place those that begin come before those that end: bands hold both their ends.
        edges.push((band.least, false));
        edges.push((band.most, true));
    }
    edges.sort_unstable();
    let (mut here, mut best, mut found) = (0, 0, None);
    for (at, &(least, ends)) in edges.iter().enumerate() {
        match ends {
            true => here -= 1,
            false => {
                here += 1;
                if here > best {
                    let most = edges.get(at + 1).map_or(least, |&(most, _)| most);
                    (best, found) = (here, Some(Band { least, most }));
                }
            }
        }
    }
    Some((best, found?))
}

/// Goes from I/O to I/O, and takes for each the only record that fits.
fn follow<'a>(
    host: &Records,
    away: impl Iterator<Item = &'a HostWait>,
    partners: &Partners<'_>,
    start: Band,
    is_fixed: bool,
    pairs: &mut Vec<(usize, usize)>,
) {
    let mut recent = VecDeque::from([start]);
    let mut last: Option<Time> = None;
    for it in away {
        let ps = |time: Time| i128::from(time.as_ps());
        let gone = last.map_or(0, |last| (ps(it.left) - ps(last)).abs());
        // What all of the last few agree on; if the clocks went apart meanwhile, the last alone.
        let all = recent.iter().try_fold(Band::ALL, |all, &band| all.and(band));
        let now = all.unwrap_or(*recent.back().unwrap_or(&start));
        let now = now.wider(if is_fixed { STAMPS_PS } else { gone / DRIFT });
        let mut fit = partners.within(host.head(it.at), it, now).iter().filter_map(|&partner| {
            let band = partners.band(it, partner)?;
            band.and(now)?;
            Some((partner, band))
        });
        let (Some((partner, band)), None) = (fit.next(), fit.next()) else { continue };
        pairs.push((it.at, partner));
        if is_fixed {
            continue;
        }
        last = Some(it.left);
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(band);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Joined, PathError, join};
    use mynah_profile::{HOST_STAGES, Head, Header, Profile, Side, TimeBase, Writer};
    use mynah_stamp::{Span, Time};
    use proptest::prelude::*;
    use std::io::{Cursor, Write};
    use tempfile::NamedTempFile;

    fn file(header: &Header, records: &[(Head, Vec<Span>, Vec<u64>)]) -> NamedTempFile {
        let mut out = Cursor::new(Vec::new());
        let mut writer = Writer::new(&mut out, header.clone()).unwrap();
        for (head, stages, beside) in records {
            writer.record(*head, stages.iter().copied(), beside).unwrap();
        }
        writer.finish().unwrap();
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(&out.into_inner()).unwrap();
        file
    }

    fn header(side: Side, stages: &[&str], beside: &[&str]) -> Header {
        let mut header = Header::new(side, "a drive", TimeBase::Monotonic);
        header.kinds = vec!["read".into()];
        header.stages = stages.iter().map(|&name| name.to_owned()).collect();
        header.beside = beside.iter().map(|&name| name.to_owned()).collect();
        header
    }

    /// One I/O: its queue and identifier, and when it left, arrived, was answered and came back, in
    /// nanoseconds of the host's clock.
    #[derive(Clone, Copy, Debug)]
    struct Io {
        queue: u16,
        command_id: u16,
        at: [u64; 4],
    }

    /// Queues that are always full, as Linux names their commands: a tag, and above it how often it was
    /// used, modulo 16. `next` draws delays below its argument.
    fn ios(queues: u16, depth: u16, count: usize, mut next: impl FnMut(u64) -> u64) -> Vec<Io> {
        let mut all = vec![];
        for queue in 1..=queues {
            let mut tags = vec![(1_000_000_000u64, 0u16); usize::from(depth)];
            for _ in 0..count {
                let (tag, slot) =
                    tags.iter_mut().enumerate().min_by_key(|(_, slot)| slot.0).unwrap();
                let left = slot.0 + next(20_000);
                let arrived = left + 700 + next(15_000);
                let answered = arrived + 20_000 + next(150_000);
                let back = answered + 700 + next(15_000);
                let command_id = slot.1 << 12 | tag as u16;
                *slot = (back + next(5_000), (slot.1 + 1) % 16);
                all.push(Io { queue, command_id, at: [left, arrived, answered, back] });
            }
        }
        all
    }

    /// Both sides of these I/Os, by their numbers; joined. A time of the target's is that of the host's
    /// through `clock`.
    fn joined(
        ios: &[Io],
        (mine, theirs): (&[usize], &[usize]),
        clock: impl Fn(u64) -> u64,
    ) -> Result<Joined, PathError> {
        let head = |io: &Io, begin: u64, end: u64| Head {
            connection: 3,
            queue: io.queue,
            command_id: io.command_id,
            begin: Time::from_ns(begin),
            total: Span::from_ns(end - begin),
            ..Head::default()
        };
        let of_host = mine.iter().map(|&id| {
            let [left, .., back] = ios[id].at;
            let mut stages = vec![Span::ZERO; HOST_STAGES.len()];
            stages[5] = Span::from_ns(back - left);
            (head(&ios[id], left, back), stages, vec![0, id as u64])
        });
        let of_target = theirs.iter().map(|&id| {
            let [_, arrived, answered, _] = ios[id].at.map(&clock);
            let busy = Span::from_ns(answered - arrived);
            (head(&ios[id], arrived, answered), vec![Span::ZERO, Span::ZERO, busy], vec![id as u64])
        });
        let host = header(Side::Host, &HOST_STAGES, &["counted", "id"]);
        let target = header(Side::Target, &["data_buffer", "data_request", "busy"], &["id"]);
        let host = file(&host, &of_host.collect::<Vec<_>>());
        let target = file(&target, &of_target.collect::<Vec<_>>());
        join(&[host.path()], &[target.path()])
    }

    /// How many pairs there are; none is of two I/Os.
    fn right(joined: &Joined) -> usize {
        let mut records = Profile::new(&joined.profile[..]).unwrap().records();
        let mut count = 0;
        while let Some(record) = records.next_record().unwrap() {
            assert_eq!(record.beside[1], record.beside[2], "a pair of two I/Os");
            assert_eq!(record.residual(), 0);
            count += 1;
        }
        count
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Whatever the clocks, the depth, and what either side has lost: I/Os are paired with
        /// themselves, and nearly all of them are.
        #[test]
        fn ios_are_paired_with_themselves(
            queues in 1u16..4,
            depth in 1u16..17,
            seed: u64,
            ahead_ms in -900i64..3_600_000,
            ppm in -100.0..100.0f64,
            lost in (0u64..30, 0u64..30),
        ) {
            let mut state = seed | 1;
            let mut next = move |below: u64| {
                // xorshift64*.
                state ^= state >> 12;
                state ^= state << 25;
                state ^= state >> 27;
                (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
            };
            let ios = ios(queues, depth, 300, &mut next);
            let mine: Vec<usize> = (0..ios.len()).filter(|_| next(100) >= lost.0).collect();
            let theirs: Vec<usize> = (0..ios.len()).filter(|_| next(100) >= lost.1).collect();
            let clock = |ns: u64| {
                let ns = ns as f64 * (1.0 + ppm / 1e6);
                (ns as i64 + ahead_ms * 1_000_000) as u64
            };
            let common = mine.iter().filter(|id| theirs.binary_search(id).is_ok()).count();
            let joined = joined(&ios, (&mine, &theirs), clock).expect("one relation stands out");
            let right = right(&joined);
            prop_assert_eq!(joined.by_time, right as u64);
            prop_assert!(right * 100 >= common * 95, "{right} of {common}");
        }
    }

    #[test]
    fn a_load_as_regular_as_clockwork_is_not_guessed_at() {
        // One I/O each millisecond, all alike: any shift by 16 of them would do as well.
        let ios: Vec<Io> = (0..2_000u64)
            .map(|n| {
                let left = (1_000 + n) * 1_000_000;
                let command_id = ((n % 16) << 12) as u16;
                Io { queue: 1, command_id, at: [left, left + 5_000, left + 55_000, left + 60_000] }
            })
            .collect();
        let all: Vec<usize> = (0..ios.len()).collect();
        let error = joined(&ios, (&all, &all), |ns| ns + 77_000_000).unwrap_err();
        assert!(matches!(error, PathError::Ambiguous { host: 2_000 }), "{error}");
    }
}
