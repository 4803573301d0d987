//! Profiles as a Perfetto trace: a process for each session of each profile, a track for each I/O that
//! is under way at a time, by queue, and on it the I/O with its stages one after the other.
//!
//! Profiles of both sides joined have two processes for each session: what a target did is on tracks of
//! its own, with arrows from the request on the network to it, and from it to the response.

use super::super::analysis::Analysis;
use super::{ViewError, each_record, io_name, part_of_path};
use mynah_profile::{Header, Record};
use mynah_result::timeline::trace::{Arrow, Trace, track_of};
use mynah_stamp::{Span, Time};
use std::collections::BTreeMap;
use std::path::Path;

/// Most tracks of a queue, and of a process, whose threads a trace tells apart by 16 bits. I/Os for
/// which there is none are left out, and counted.
const TRACKS_MAX: usize = 4096;
const PROCESS_TRACKS_MAX: u64 = 0xffff;
/// Most queues of a trace, of all sessions.
const QUEUES_MAX: usize = 4096;
/// Stages between which an I/O is with the target, where there are both.
const REQUEST: &str = "network_request";
const RESPONSE: &str = "network_response";

/// Writes the trace; how many I/Os are not on it, because more were under way than there are tracks.
pub(super) fn write(path: &Path, profiles: &[Analysis]) -> Result<u64, ViewError> {
    let mut drawing =
        Drawing { trace: Trace::create(path)?, next_group: 1, queues: 0, left_out: 0, arrows: 0 };
    for analysis in profiles {
        let label = (profiles.len() > 1).then(|| analysis.path.display().to_string());
        let mut profile = ProfileTracks::new(&analysis.header, label);
        each_record(analysis, &mut |record| profile.draw(record, &mut drawing))?;
    }
    drawing.trace.finish()?;
    Ok(drawing.left_out)
}

/// The trace, and what is counted over all profiles.
struct Drawing {
    trace: Trace,
    next_group: u64,
    queues: usize,
    left_out: u64,
    arrows: u64,
}

/// The number of a track in its process, and when it becomes free.
struct Track {
    number: u64,
    free: Time,
}

/// The tracks of a session in one process.
#[derive(Clone, Copy)]
struct Process {
    group: u64,
    tracks: u64,
}

/// One profile on its way to the trace.
struct ProfileTracks<'a> {
    header: &'a Header,
    label: Option<String>,
    /// For each stage whether the target passes it, if both sides are there.
    of_target: Option<Vec<bool>>,
    /// By session, and whether it is the target's.
    processes: BTreeMap<(u16, bool), Process>,
    /// By session, queue, and whether they are the target's.
    queues: BTreeMap<(u16, u16, bool), Vec<Track>>,
}

impl<'a> ProfileTracks<'a> {
    fn new(header: &'a Header, label: Option<String>) -> ProfileTracks<'a> {
        let has = |name: &str| header.stages.iter().any(|stage| stage == name);
        let of_target = (has(REQUEST) && has(RESPONSE)).then(|| {
            let part = |stage: &String| matches!(part_of_path(stage), "drive" | "target");
            header.stages.iter().map(part).collect()
        });
        ProfileTracks {
            header,
            label,
            of_target,
            processes: BTreeMap::new(),
            queues: BTreeMap::new(),
        }
    }

    fn draw(&mut self, record: &Record<'_>, to: &mut Drawing) {
        let head = &record.head;
        let begin = head.begin;
        let whole = (begin, add(begin, head.total));
        let Some(own) = self.track(record, false, whole, to) else {
            to.left_out += 1;
            return;
        };
        let target = self.of_target.as_ref().and_then(|of| with_target(begin, record.stages, of));
        let target = target.and_then(|span| Some((span, self.track(record, true, span, to)?)));
        let name = io_name(self.header, head);
        let shown = [
            ("nth", u64::from(head.nth)),
            ("block", head.block),
            ("status", u64::from(head.status)),
            ("outstanding", u64::from(head.outstanding)),
        ];
        to.trace.begin(own, &name, begin, &shown, &[]);
        let (there, back) = (to.arrows + 1, to.arrows + 2);
        if let Some(((from, _), track)) = target {
            to.arrows += 2;
            to.trace.begin(track, &name, from, &shown[..1], &[Arrow::To(there), Arrow::From(back)]);
        }
        let mut at = begin;
        for (number, (stage, &span)) in self.header.stages.iter().zip(record.stages).enumerate() {
            let end = add(at, span);
            let is_target = self.of_target.as_ref().is_some_and(|of| of.get(number) == Some(&true));
            let track = target.filter(|_| is_target).map_or(own, |(_, track)| track);
            let arrows = match stage.as_str() {
                REQUEST if target.is_some() => &[Arrow::From(there)][..],
                RESPONSE if target.is_some() => &[Arrow::To(back)],
                _ => &[],
            };
            if !span.is_zero() || !arrows.is_empty() {
                to.trace.begin(track, stage, at, &[], arrows);
                to.trace.end(track, end);
            }
            at = end;
        }
        if let Some(((_, until), track)) = target {
            to.trace.end(track, until);
        }
        to.trace.end(own, whole.1);
    }

    /// A track that is free for so long, in the order of the ends of I/Os.
    fn track(
        &mut self,
        record: &Record<'_>,
        of_target: bool,
        (from, until): (Time, Time),
        to: &mut Drawing,
    ) -> Option<u64> {
        let (session, queue) = (record.head.connection, record.head.queue);
        let process = *self.process(session, of_target, to);
        let key = (session, queue, of_target);
        if !self.queues.contains_key(&key) && to.queues == QUEUES_MAX {
            return None;
        }
        let tracks = self.queues.entry(key).or_insert_with(|| {
            to.queues += 1;
            vec![]
        });
        if let Some(track) = tracks.iter_mut().find(|track| track.free <= from) {
            track.free = until;
            return Some(track_of(process.group, track.number));
        }
        if tracks.len() == TRACKS_MAX || process.tracks == PROCESS_TRACKS_MAX {
            return None;
        }
        let number = process.tracks;
        tracks.push(Track { number, free: until });
        let name = format!("queue {queue}, I/O {}", tracks.len());
        to.trace.thread(process.group, number, &name);
        self.process(session, of_target, to).tracks += 1;
        Some(track_of(process.group, number))
    }

    fn process(&mut self, session: u16, of_target: bool, to: &mut Drawing) -> &mut Process {
        self.processes.entry((session, of_target)).or_insert_with(|| {
            let group = to.next_group;
            to.next_group += 1;
            let known = self.header.sessions.get(usize::from(session)).cloned();
            let name = known.unwrap_or_else(|| format!("session {session}"));
            let side = match (&self.of_target, of_target) {
                (None, _) => self.header.side.name(),
                (Some(_), true) => "target",
                (Some(_), false) => "host",
            };
            let label = self.label.as_ref().map_or(String::new(), |label| format!("{label}: "));
            to.trace.process(group, &format!("{label}{side}, {name}"));
            Process { group, tracks: 0 }
        })
    }
}

fn add(at: Time, span: Span) -> Time {
    Time::from_ps(at.as_ps().saturating_add(span.as_ps()))
}

/// From when until when an I/O was with the target: from the first of its stages to the last.
fn with_target(begin: Time, stages: &[Span], of_target: &[bool]) -> Option<(Time, Time)> {
    let mut at = begin;
    let mut with = None;
    for (&span, &is_target) in stages.iter().zip(of_target) {
        let end = add(at, span);
        if is_target && !span.is_zero() {
            with = Some((with.map_or(at, |(from, _)| from), end));
        }
        at = end;
    }
    with
}
