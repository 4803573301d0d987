//! Paths: a host's records, with a target's stages in the place of what the host only waited for.
//!
//! A path is as long as the host says. What the two sides do not account for is the network's: on the
//! way there, and on the way back; where data had to be asked for, also the request on its way and
//! the data. How that is shared out between the two ways depends on how the clocks are related, and
//! is known as well as the relation's bound says; the sum of all of it does not.

use super::clock::{ClockRelation, Contradiction, Stamps};
use super::foreign::{self, HostWait};
use super::sides::{Records, identity};
use mynah_profile::{
    Choice, Chooser, Counts, Decision, HOST_STAGES, Head, Header, KeepAbove, Problem, Side,
    TimeBase, Writer,
};
use mynah_stamp::{Span, Time};
use std::io::Cursor;
use std::path::Path;

/// Stages of a path before the target's own, and behind them.
pub(crate) const BEFORE: [&str; 7] = [
    "host_queue",
    "host_submit",
    "network_request",
    "data_buffer",
    "network_r2t",
    "host_turn",
    "network_data",
];
pub(crate) const BEHIND: [&str; 3] = ["network_response", "host_receive", "host_complete"];
/// Those of the target that come into other places.
const OF_DATA: [&str; 2] = ["data_buffer", "data_request"];

/// Profiles that cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// One of them cannot be read.
    #[error(transparent)]
    Read(#[from] Problem),
    /// A profile is of another side than is needed.
    #[error("{file}: a profile of a {is}; here one of a {wanted} is needed")]
    Side {
        /// The profile.
        file: String,
        /// Its side.
        is: &'static str,
        /// The side that is needed.
        wanted: &'static str,
    },
    /// It does not have the stages of its side.
    #[error("{file}: it has no stage `{stage}`, which a path needs")]
    Stage {
        /// The profile.
        file: String,
        /// The stage that it lacks.
        stage: &'static str,
    },
    /// They have no I/O in common.
    #[error(
        "none of the {host} I/Os of the host is among the {target} of the target: the profiles are \
         of different connections, or the target's ring was written over meanwhile"
    )]
    Nothing {
        /// Records of the host.
        host: usize,
        /// Records of the target.
        target: usize,
    },
    /// They can be paired in several ways.
    #[error(
        "the host did not count its commands from the start of its connections, and the identifiers \
         of its {host} I/Os fit those of the target at several times: begin its profile before it \
         connects"
    )]
    Ambiguous {
        /// Records of the host.
        host: usize,
    },
    /// Their clocks have no relation.
    #[error(transparent)]
    Clocks(#[from] Contradiction),
}

/// Paths of I/Os, and what is known of them.
#[derive(Debug)]
pub struct Joined {
    /// A profile of paths ([`Side::Path`]), on the host's clock.
    pub profile: Vec<u8>,
    /// How many I/Os both sides have, and how many one alone.
    pub paths: u64,
    /// How many of those were paired by queue, identifier and time, as the host had not counted them.
    pub by_time: u64,
    /// I/Os that only the host has a record of.
    pub host_alone: u64,
    /// I/Os that only the target has a record of.
    pub target_alone: u64,
    /// How the clocks are related.
    pub clock: ClockRelation,
    /// By how much later the host's profile began than the target's, by what their own clocks said.
    pub origin_ns: f64,
    /// Whether the two have the same clock.
    pub one_clock: bool,
    /// Stages that would have been negative, by less than the bound or the resolution of the kernel's
    /// stamps, and are nothing.
    pub clamped: u64,
}

/// Where stages are among a side's.
struct HostStages {
    queue: usize,
    submit: usize,
    wait: usize,
    turn: usize,
    further: usize,
    remote: usize,
    receive: usize,
    complete: usize,
}

struct TargetStages {
    buffer: usize,
    request: usize,
}

fn check(
    records: &Records,
    file: &str,
    side: Side,
    stages: &[&'static str],
) -> Result<Vec<usize>, PathError> {
    let is = records.header.side;
    if is != side {
        let file = file.to_owned();
        return Err(PathError::Side { file, is: is.name(), wanted: side.name() });
    }
    let place = |&stage: &&'static str| {
        records.stage(stage).ok_or_else(|| PathError::Stage { file: file.to_owned(), stage })
    };
    stages.iter().map(place).collect()
}

impl HostStages {
    fn of(records: &Records, file: &str) -> Result<HostStages, PathError> {
        let at = check(records, file, Side::Host, &HOST_STAGES)?;
        let [queue, submit, wait, turn, further, remote, receive, complete] = at[..] else {
            unreachable!("as many as names")
        };
        Ok(HostStages { queue, submit, wait, turn, further, remote, receive, complete })
    }
}

/// Joins the profiles of a host with those of its target.
///
/// # Errors
/// If they are no such profiles, have nothing in common, or no relation of their clocks explains
/// them.
pub fn join(hosts: &[impl AsRef<Path>], targets: &[impl AsRef<Path>]) -> Result<Joined, PathError> {
    let name = |paths: &[&Path]| paths.first().map_or(String::new(), |it| it.display().to_string());
    let host_name = name(&hosts.iter().map(AsRef::as_ref).collect::<Vec<_>>());
    let target_name = name(&targets.iter().map(AsRef::as_ref).collect::<Vec<_>>());
    join_records(&Records::read(hosts)?, &host_name, &Records::read(targets)?, &target_name)
}

fn join_records(
    host: &Records,
    host_name: &str,
    target: &Records,
    target_name: &str,
) -> Result<Joined, PathError> {
    let of_host = HostStages::of(host, host_name)?;
    let [buffer, request] = check(target, target_name, Side::Target, &OF_DATA)?[..] else {
        unreachable!("as many as names")
    };
    let of_target = TargetStages { buffer, request };
    let one_clock = is_one_clock(host, target);
    let (pairs, by_time) = pair(host, target, &of_host, one_clock)?;
    if pairs.is_empty() {
        return Err(PathError::Nothing { host: host.len(), target: target.len() });
    }
    let clock = match one_clock {
        true => ClockRelation::one_clock(-ahead_ps(host, target)),
        false => {
            let mut stamps = Stamps::default();
            for &(mine, theirs) in &pairs {
                let path = HostTimes::of(host.head(mine), host.stages(mine), &of_host);
                let there = target.head(theirs);
                stamps.sent(path.left, there.begin);
                stamps.answered(there.begin + there.total, path.answered);
            }
            stamps.relation()?
        }
    };
    let sides = Sides { host, target, of_host, of_target, clock };
    let header = sides.header();
    let mut out = Cursor::new(Vec::new());
    let mut clamped = 0;
    let mut writer = Writer::new(&mut out, header).expect("memory takes everything");
    for &(mine, theirs) in &pairs {
        let (head, stages, clamps) = sides.path(mine, theirs);
        clamped += clamps;
        let beside: Vec<u64> =
            host.beside(mine).iter().chain(target.beside(theirs)).copied().collect();
        writer.record(head, stages, &beside).expect("memory takes everything");
    }
    let paths = pairs.len() as u64;
    let counts = sides.counts(&pairs);
    writer.finish_as(counts).expect("memory takes everything");
    Ok(Joined {
        profile: out.into_inner(),
        paths,
        by_time,
        host_alone: host.len() as u64 - paths,
        target_alone: target.len() as u64 - paths,
        clock,
        origin_ns: ahead_ps(host, target) as f64 / 1e3,
        one_clock,
        clamped,
    })
}

fn is_one_clock(host: &Records, target: &Records) -> bool {
    let (mine, theirs) = (&host.header, &target.header);
    !mine.machine.is_empty()
        && mine.machine == theirs.machine
        && mine.clock == theirs.clock
        && mine.clock == TimeBase::Monotonic
}

/// By how much times of the target's profile are ahead of those of the host's on one clock.
fn ahead_ps(host: &Records, target: &Records) -> i128 {
    let origin = |records: &Records| i128::from(records.header.origin_ns);
    (origin(host) - origin(target)) * 1_000
}

/// The records of the same I/O on both sides, in the order of the host's; and how many of them were
/// found by their time.
fn pair(
    host: &Records,
    target: &Records,
    of_host: &HostStages,
    one_clock: bool,
) -> Result<(Vec<(usize, usize)>, u64), PathError> {
    let mut pairs = matches(host, target);
    let away = (0..host.len()).filter(|&at| !host.is_counted(at)).map(|at| {
        let HostTimes { left, answered, .. } =
            HostTimes::of(host.head(at), host.stages(at), of_host);
        HostWait { at, left, answered }
    });
    let away: Vec<HostWait> = away.collect();
    let mut by_time = 0;
    if !away.is_empty() {
        let mut is_free = vec![true; target.len()];
        pairs.iter().for_each(|&(_, theirs)| is_free[theirs] = false);
        let free = (0..target.len()).filter(|&at| is_free[at]).collect();
        let ahead = one_clock.then(|| ahead_ps(host, target));
        let found = foreign::matches(host, away, target, free, ahead);
        let found = found.map_err(|_| PathError::Ambiguous { host: host.len() })?;
        by_time = found.len() as u64;
        pairs.extend(found);
    }
    pairs.sort_unstable_by_key(|&(at, _)| (host.head(at).begin, at));
    Ok((pairs, by_time))
}

/// The records of the same I/O on both sides, by their number.
///
/// Identities come again after the connection was made anew under the same controller identifier:
/// then the first of the one belongs to the first of the other, if they are as many; else they
/// belong to nobody.
fn matches(host: &Records, target: &Records) -> Vec<(usize, usize)> {
    let (mut mine, theirs) = (host.by_identity(), target.by_identity());
    mine.retain(|&at| host.is_counted(at));
    let same = |records: &Records, order: &[usize]| {
        let first = order.first().map(|&at| identity(records.head(at)));
        order.iter().take_while(|&&at| Some(identity(records.head(at))) == first).count()
    };
    let mut pairs = vec![];
    let (mut mine, mut theirs) = (&mine[..], &theirs[..]);
    while let (Some(&one), Some(&other)) = (mine.first(), theirs.first()) {
        let (here, there) = (identity(host.head(one)), identity(target.head(other)));
        let (mine_alike, theirs_alike) = (same(host, mine), same(target, theirs));
        if here == there && mine_alike == theirs_alike {
            pairs.extend(mine[..mine_alike].iter().copied().zip(theirs.iter().copied()));
        }
        if here <= there {
            mine = &mine[mine_alike..];
        }
        if there <= here {
            theirs = &theirs[theirs_alike..];
        }
    }
    pairs
}

/// When things happened on the host.
struct HostTimes {
    /// When the command left, data were requested, the last data left, and the answer came.
    left: Time,
    asked: Time,
    answered: Time,
}

impl HostTimes {
    fn of(head: &Head, stages: &[Span], at: &HostStages) -> HostTimes {
        let left = head.begin + stages[at.queue] + stages[at.submit];
        let asked = left + stages[at.wait];
        let answered = asked + stages[at.turn] + stages[at.further] + stages[at.remote];
        HostTimes { left, asked, answered }
    }
}

/// Both sides, and how they are put together.
struct Sides<'a> {
    host: &'a Records,
    target: &'a Records,
    of_host: HostStages,
    of_target: TargetStages,
    clock: ClockRelation,
}

impl Sides<'_> {
    /// Indices of the target's stages that keep their place.
    fn kept(&self) -> impl Iterator<Item = usize> {
        let TargetStages { buffer, request } = self.of_target;
        (0..self.target.header.stages.len()).filter(move |&at| at != buffer && at != request)
    }

    fn header(&self) -> Header {
        let (host, target) = (&self.host.header, &self.target.header);
        let mut header = Header::new(Side::Path, &target.name, host.clock);
        (header.origin_ns, header.machine) = (host.origin_ns, host.machine.clone());
        header.kinds = host.kinds.clone();
        header.choice = host.choice.clone();
        (header.counted_ns, header.closed_loop) = (host.counted_ns, host.closed_loop);
        header.network = host.network;
        let of_target = self.kept().map(|at| target.stages[at].clone());
        header.stages = BEFORE.map(str::to_owned).into_iter().chain(of_target).collect();
        header.stages.extend(BEHIND.map(str::to_owned));
        let of_host = host.beside.iter().map(|name| format!("host_{name}"));
        header.beside =
            of_host.chain(target.beside.iter().map(|name| format!("target_{name}"))).collect();
        header
    }

    /// What became of the I/Os that the host counted. One that has no path was left out on one of the
    /// sides, or its record was lost on one of them.
    fn counts(&self, pairs: &[(usize, usize)]) -> Counts {
        let mut counts = Counts { recorded: pairs.len() as u64, lost: 0, ..self.host.counts };
        let mut chooser = self.target.header.choice.clone().and_then(|choice| {
            let choice = Choice { keep_above: KeepAbove::Nothing, ..choice };
            Chooser::new(choice, &self.host.header.kinds).ok()
        });
        let by_time = self.target.header.choice.as_ref().is_some_and(Choice::is_by_time);
        let mut has_path = vec![false; self.host.len()];
        pairs.iter().for_each(|&(mine, _)| has_path[mine] = true);
        for at in (0..self.host.len()).filter(|&at| !has_path[at]) {
            let head = self.host.head(at);
            // What one side keeps since it was slow need not be slow on the other.
            let decision = match chooser.as_mut() {
                _ if head.kept || by_time => Decision::SampledOut,
                Some(chooser) => chooser.decide(head),
                None => Decision::Record,
            };
            // What a file says that it counted may be as much as there is.
            match decision {
                Decision::Filtered => counts.filtered = counts.filtered.saturating_add(1),
                Decision::SampledOut => counts.sampled_out = counts.sampled_out.saturating_add(1),
                Decision::Record | Decision::Slow => {}
            }
        }
        let [_, known @ .., _] = counts.to_array();
        let known = known.into_iter().fold(0, u64::saturating_add);
        // Pairs are of the host's records, so these are not more than it counted, unless it lies.
        counts.completed = counts.completed.max(known);
        counts.lost = counts.completed - known;
        counts
    }

    /// Writes the path of an I/O; returns how many of its stages would have been negative.
    fn path(&self, mine: usize, theirs: usize) -> (Head, Vec<Span>, u64) {
        let (head, stages) = (self.host.head(mine), self.host.stages(mine));
        let (there, theirs) = (self.target.head(theirs), self.target.stages(theirs));
        let at = &self.of_host;
        let times = HostTimes::of(head, stages, at);
        let mut cuts = Cuts { at: times.left, end: times.answered, clamped: 0 };
        let (buffer, request) = (theirs[self.of_target.buffer], theirs[self.of_target.request]);
        let turn = stages[at.turn];
        let was_asked = !(stages[at.wait].is_zero() && turn.is_zero());
        let mut path = vec![stages[at.queue], stages[at.submit]];
        path.push(cuts.until(self.clock.on_host(there.begin)));
        if was_asked {
            path.push(cuts.take(buffer));
            path.push(cuts.until(times.asked.as_ps().into()));
            path.push(cuts.take(turn));
            let complete = self.clock.on_host(there.begin + buffer + request);
            path.push(cuts.until(complete));
        } else {
            path.extend([Span::ZERO; 4]);
        }
        path.extend(self.kept().map(|stage| cuts.take(theirs[stage])));
        path.push(cuts.end.since(cuts.at));
        path.extend([stages[at.receive], stages[at.complete]]);
        let head = Head { batch: there.batch, kept: head.kept || there.kept, ..*head };
        (head, path, cuts.clamped)
    }
}

/// Cuts stages, one after the other, from the time between a command and its answer.
struct Cuts {
    at: Time,
    end: Time,
    clamped: u64,
}

impl Cuts {
    /// What there is until then, in picoseconds.
    fn until(&mut self, ps: i128) -> Span {
        let (at, end) = (self.at.as_ps().into(), self.end.as_ps().into());
        let until = ps.clamp(at, end);
        self.clamped += u64::from(until != ps);
        self.take(Span::from_ps((until - at) as u64))
    }

    /// Cuts off this much, or what is left if that is less.
    fn take(&mut self, span: Span) -> Span {
        let room = self.end.since(self.at);
        self.clamped += u64::from(span > room);
        let span = span.min(room);
        self.at += span;
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_profile::Sampling;
    use std::io::Write;
    use tempfile::NamedTempFile;

    fn file(header: &Header, records: &[(Head, Vec<Span>)]) -> NamedTempFile {
        file_as(header, records, None)
    }

    fn file_as(
        header: &Header,
        records: &[(Head, Vec<Span>)],
        counts: Option<Counts>,
    ) -> NamedTempFile {
        let mut out = Cursor::new(Vec::new());
        let mut writer = Writer::new(&mut out, header.clone()).unwrap();
        for (head, stages) in records {
            writer.record(*head, stages.iter().copied(), &vec![0; header.beside.len()]).unwrap();
        }
        match counts {
            None => writer.finish().unwrap(),
            Some(counts) => writer.finish_as(counts).unwrap(),
        };
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(&out.into_inner()).unwrap();
        file
    }

    fn us(spans: &[u64]) -> Vec<Span> {
        spans.iter().map(|&us| Span::from_us(us)).collect()
    }

    fn side(side: Side, stages: &[&str]) -> Header {
        let mut header = Header::new(side, "a drive", TimeBase::Monotonic);
        header.kinds = vec!["read".into(), "write".into()];
        header.stages = stages.iter().map(|&name| name.to_owned()).collect();
        header
    }

    fn head(nth: u32, begin_us: u64, total_us: u64) -> Head {
        Head {
            connection: 7,
            queue: 1,
            command_id: nth as u16,
            nth,
            begin: Time::from_ns(begin_us * 1_000),
            total: Span::from_us(total_us),
            ..Head::default()
        }
    }

    fn host_header() -> Header {
        side(Side::Host, &HOST_STAGES)
    }

    fn target_header() -> Header {
        side(Side::Target, &["data_buffer", "data_request", "intake", "flash_array", "output"])
    }

    /// A read and a write whose data were asked for, on clocks that differ by an hour.
    #[test]
    fn a_path_has_the_stages_of_both_sides_and_the_network_between_them() {
        let hour = 3_600_000_000u64;
        // Left at 1003, there at 1010; answered there at 1070, here at 1075.
        let read = (head(1, 1_000, 80), us(&[1, 2, 0, 0, 0, 72, 4, 1]));
        let read_there = (head(1, hour + 1_010, 60), us(&[0, 0, 1, 50, 9]));
        // Left at 2000, there at 2005, buffer until 2008, asked here at 2012, data left at 2020 and
        // were there at 2026; answered there at 2056 and here at 2061.
        let write = (head(2, 2_000, 62), us(&[0, 0, 12, 8, 0, 41, 1, 0]));
        let write_there = (head(2, hour + 2_005, 51), us(&[3, 18, 0, 30, 0]));
        let alone = (head(3, 3_000, 10), us(&[0, 0, 0, 0, 0, 10, 0, 0]));
        let host = file(&host_header(), &[write.clone(), read.clone(), alone]);
        let target = file(&target_header(), &[read_there, write_there]);
        let joined = join(&[host.path()], &[target.path()]).unwrap();
        assert_eq!((joined.paths, joined.host_alone, joined.target_alone), (2, 1, 0));
        assert!(!joined.one_clock);
        let counts = mynah_profile::Profile::new(&joined.profile[..]).unwrap().counts();
        assert_eq!(counts.to_array(), [3, 2, 0, 0, 1]);
        // 5 us either way are the shortest, so the clocks are known to 5 us.
        assert!((joined.clock.offset_ns() - hour as f64 * 1e3).abs() < 1.0, "{:?}", joined.clock);
        let profile = mynah_profile::Profile::new(&joined.profile[..]).unwrap();
        let names = profile.header().stages.clone();
        let mut records = profile.records();
        let mut next = || {
            let record = records.next_record().unwrap().unwrap();
            assert_eq!(record.residual(), 0);
            let ns = record.stages.iter().map(|span| (span.as_ps() as f64 / 1e6).round());
            names.iter().cloned().zip(ns).filter(|(_, us)| *us > 0.0).collect::<Vec<_>>()
        };
        let named = |stages: &[(&str, f64)]| {
            stages.iter().map(|&(name, us)| (name.to_owned(), us)).collect::<Vec<_>>()
        };
        let read = named(&[
            ("host_queue", 1.0),
            ("host_submit", 2.0),
            ("network_request", 7.0),
            ("intake", 1.0),
            ("flash_array", 50.0),
            ("output", 9.0),
            ("network_response", 5.0),
            ("host_receive", 4.0),
            ("host_complete", 1.0),
        ]);
        assert_eq!(next(), read);
        let write = named(&[
            ("network_request", 5.0),
            ("data_buffer", 3.0),
            ("network_r2t", 4.0),
            ("host_turn", 8.0),
            ("network_data", 6.0),
            ("flash_array", 30.0),
            ("network_response", 5.0),
            ("host_receive", 1.0),
        ]);
        assert_eq!(next(), write);
    }

    /// The ring of either side has forgotten its first I/Os, and one side samples what the other does
    /// not: all that the host has counted is recorded, left out or lost, and rates are those of the run.
    #[test]
    fn the_books_balance() {
        const IOS: u32 = 4000;
        let of_host = |nth: u32| (head(nth, u64::from(nth), 80), us(&[1, 2, 0, 0, 0, 72, 4, 1]));
        let of_target = |nth: u32| (head(nth, u64::from(nth) + 10, 60), us(&[0, 0, 1, 50, 9]));
        // Each has the latest of its own.
        for (of_one, of_other, one_in) in
            [(4000, 4000, 1), (1000, 4000, 1), (4000, 300, 1), (1200, 700, 1), (4000, 4000, 10)]
        {
            let mut header = host_header();
            (header.counted_ns, header.closed_loop) = (Some(4_000_000), Some(true));
            let counts = |left_out: u64| Counts {
                completed: IOS.into(),
                recorded: u64::from(IOS) - left_out,
                sampled_out: left_out,
                ..Counts::default()
            };
            let mut there = target_header();
            there.choice = (one_in > 1)
                .then(|| Choice { sampling: Sampling::OneIn(one_in), ..Choice::default() });
            let mut chooser =
                Chooser::new(there.choice.clone().unwrap_or_default(), &there.kinds).unwrap();
            let mine: Vec<_> = (IOS - of_one..IOS).map(of_host).collect();
            let theirs = (IOS - of_other..IOS).map(of_target);
            let theirs: Vec<_> =
                theirs.filter(|it| chooser.decide(&it.0) == Decision::Record).collect();
            let left_out = if one_in > 1 { u64::from(IOS) - theirs.len() as u64 } else { 0 };
            let host = file_as(&header, &mine, Some(counts(0)));
            let target = file_as(&there, &theirs, Some(counts(left_out)));
            let joined = join(&[host.path()], &[target.path()]).unwrap();
            let profile = mynah_profile::Profile::new(&joined.profile[..]).unwrap();
            let counts = profile.counts();
            assert!(counts.add_up(), "{counts:?}");
            assert_eq!(counts.completed, u64::from(IOS), "{counts:?}");
            assert_eq!(counts.recorded, joined.paths);
            let lost = if one_in > 1 { 0 } else { IOS - of_one.min(of_other) };
            assert_eq!((counts.lost, counts.sampled_out), (lost.into(), left_out));
            let by = crate::GroupBy::default();
            let analysis = crate::analyse_joined(Path::new("path"), &joined, &by).unwrap();
            let report = crate::ProfileReports::new(&[analysis], None).profiles.remove(0);
            // 4,000 in 4 ms, each of 80 us; of those whose records are left, as many as there were in
            // their own time, which begins and ends with none.
            let group = &report.groups[0];
            assert!((group.iops / 1e6 - 1.0).abs() < 1e-6, "{}", group.iops);
            let left = f64::from(of_one.min(of_other));
            let under_way = if lost > 0 { left * 80.0 / (left - 1.0 + 80.0) } else { 80.0 };
            assert!((group.outstanding - under_way).abs() < 0.1, "{}", group.outstanding);
        }
    }

    #[test]
    fn what_cannot_be_joined_is_said() {
        let host = file(&host_header(), &[(head(1, 5, 10), us(&[0, 0, 0, 0, 0, 10, 0, 0]))]);
        let target = file(&target_header(), &[(head(2, 6, 5), us(&[0, 0, 0, 5, 0]))]);
        let said = |hosts: &NamedTempFile, targets: &NamedTempFile| {
            join(&[hosts.path()], &[targets.path()]).unwrap_err().to_string()
        };
        assert!(said(&host, &target).starts_with("none of the 1 I/Os"), "{}", said(&host, &target));
        assert!(said(&target, &host).contains("here one of a host is needed"));
        let other = file(&side(Side::Target, &["late"]), &[]);
        assert!(said(&host, &other).contains("no stage `data_buffer`"));
    }
}
