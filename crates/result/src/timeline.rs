//! A timeline of a run, as a Perfetto trace: every I/O with its stages, what each die and
//! channel did and for whom, and how full the drive was. <https://ui.perfetto.dev> opens it.
//!
//! Timestamps are the drive's time in whole nanoseconds. An I/O
//! is drawn from its creation to its completion, its stages one after the other in the order
//! in which an I/O passes them: what several parts of one I/O do side by side, and a stage
//! that is passed twice, is drawn once.

mod proto;
pub mod trace;

use crate::document::holder_name;
use crate::output::OutputError;
use crate::{kind::Kind, recorder::Completed};
use mynah_model::Policies;
use mynah_model::config::Config;
use mynah_model::io::{Completion, Request};
use mynah_model::{Activity, ActivityKind, Drive};
use mynah_stamp::{LinkSpans, Span, Stage, Time};
use std::path::Path;
use trace::{Trace, track_of};

/// Sampling interval of the counters.
const COUNT_EVERY: Span = Span::from_us(20);

const DIES: u64 = 1;
const CHANNELS: u64 = 2;
const DRIVE: u64 = 3;
const FIRST_FLOW: u64 = 16;

/// Names and units of the counter tracks.
const COUNTERS: [(&str, &str); 5] = [
    ("free blocks", "blocks"),
    ("free blocks, least of a plane", "blocks"),
    ("commands in the controller", "commands"),
    ("flash operations waiting", "operations"),
    ("units in the write cache", "units"),
];

/// Those behind them of a drive with an SLC cache.
const SLC_COUNTERS: [(&str, &str); 2] =
    [("SLC cache", "bytes"), ("room in the SLC cache", "bytes")];

/// An interval of the drive's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First instant of the window.
    pub from: Time,
    /// End of the window.
    pub to: Time,
}

impl Window {
    /// The whole run.
    pub const ALL: Window = Window { from: Time::ZERO, to: Time::MAX };

    /// Reads `FROM-TO`, two times.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn parse(text: &str) -> Result<Window, String> {
        let (from, to) =
            text.split_once('-').ok_or("a window is written FROM-TO, as in 10ms-12ms")?;
        let [from, to] = [
            mynah_workload::quantity::parse_time(from)?,
            mynah_workload::quantity::parse_time(to)?,
        ];
        if from >= to {
            return Err("the window ends before it begins".into());
        }
        Ok(Window { from: Time::ZERO + from, to: Time::ZERO + to })
    }
}

/// A Perfetto timeline of a run, while it is written.
pub struct Timeline {
    trace: Trace,
    window: Window,
    /// When counters are to be looked at next.
    next: Time,
    flows: Vec<String>,
    /// When each track of a flow becomes free.
    lanes: Vec<Vec<Time>>,
}

impl Timeline {
    /// Begins the file at `path`, which appears with [`Timeline::finish`], for flows of these
    /// names on `drive`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(
        path: &Path,
        window: Window,
        flows: Vec<String>,
        drive: &mut Drive<impl Policies>,
    ) -> Result<Timeline, OutputError> {
        let mut timeline = Timeline {
            trace: Trace::create(path)?,
            window,
            next: window.from,
            lanes: vec![Vec::new(); flows.len()],
            flows,
        };
        timeline.describe(drive.config());
        drive.keep_activity(true);
        Ok(timeline)
    }

    /// When it wants to look at the drive.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Time has reached [`Timeline::next`].
    pub fn reached(&mut self, drive: &mut Drive<impl Policies>) {
        let now = drive.now();
        let gauges = drive.gauges();
        let waiting = gauges.flash_reads_waiting + gauges.flash_writes_waiting;
        let values = [
            gauges.free_blocks as f64,
            f64::from(gauges.free_blocks_min),
            f64::from(gauges.commands),
            f64::from(waiting),
            f64::from(gauges.cached_units),
        ];
        let slc = gauges.slc.map(|slc| [slc.filled_bytes as f64, slc.room_bytes as f64]);
        for (at, value) in (0..).zip(values.into_iter().chain(slc.into_iter().flatten())) {
            self.trace.count(track_of(DRIVE, at), now, value);
        }
        self.draw(drive.take_activity());
        self.next = match now + COUNT_EVERY {
            next if next >= self.window.to => Time::MAX,
            next => next,
        };
        if self.next == Time::MAX {
            drive.keep_activity(false);
        }
    }

    /// A command of `flow` has completed.
    pub fn completed(
        &mut self,
        flow: usize,
        request: &Request,
        created: Time,
        completed: Completed<'_>,
    ) {
        let shown = [("sector", request.sector), ("bytes", u64::from(request.sectors) * 512)];
        self.draw_io(flow, Kind::from(request.operation), shown, created, completed);
    }

    /// A key-value command of `flow` has completed: the number of its key, and the bytes that it
    /// moved.
    pub fn completed_key(
        &mut self,
        flow: usize,
        kind: Kind,
        (key, bytes): (u64, u32),
        created: Time,
        completion: &Completion,
    ) {
        let shown = [("key", key), ("bytes", bytes.into())];
        self.draw_io(flow, kind, shown, created, (completion, None));
    }

    fn draw_io(
        &mut self,
        flow: usize,
        kind: Kind,
        shown: [(&'static str, u64); 2],
        created: Time,
        (completion, link): Completed<'_>,
    ) {
        if created < self.window.from || completion.at > self.window.to {
            return;
        }
        let lanes = &mut self.lanes[flow];
        let lane = match lanes.iter().position(|free| *free <= created) {
            Some(lane) => lane,
            None => {
                lanes.push(Time::ZERO);
                let (lane, group) = (lanes.len() - 1, FIRST_FLOW + flow as u64);
                self.trace.thread(group, lane as u64, &format!("I/O {}", lane + 1));
                lane
            }
        };
        self.lanes[flow][lane] = completion.at;
        let track = track_of(FIRST_FLOW + flow as u64, lane as u64);
        self.trace.begin(track, kind.name(), created, &shown, &[]);
        let mut at = created;
        let host_queue = completion.rung.saturating_since(created);
        // Those of an Ethernet link, of which there are more than one each, come last.
        let of_link = link.into_iter().flat_map(LinkSpans::iter);
        for (stage, span) in completion.stages.iter().chain(of_link) {
            let more = if stage == Stage::HostQueue { host_queue } else { Span::ZERO };
            let span = span + more;
            if !span.is_zero() {
                self.trace.slice(track, stage.name(), at, at + span);
                at += span;
            }
        }
        self.trace.end(track, completion.at);
    }

    /// The run has ended.
    ///
    /// # Errors
    /// If the file could not be written.
    pub fn finish(mut self, drive: &mut Drive<impl Policies>) -> Result<(), OutputError> {
        self.draw(drive.take_activity());
        drive.keep_activity(false);
        self.trace.finish()
    }

    /// Draws the operations of dies and channels.
    fn draw(&mut self, activities: Vec<Activity>) {
        for Activity { kind, index, holder, start, end } in activities {
            if start < self.window.from || end > self.window.to {
                continue;
            }
            let group = if kind == ActivityKind::Transfer { CHANNELS } else { DIES };
            let name = format!("{}: {}", kind.name(), holder_name(holder, &self.flows));
            self.trace.slice(track_of(group, index.into()), &name, start, end);
        }
    }

    /// Names everything there is before the first I/O.
    fn describe(&mut self, config: &Config) {
        let geometry = config.geometry;
        for (group, name) in [(DIES, "dies"), (CHANNELS, "channels"), (DRIVE, "drive")] {
            self.trace.process(group, name);
        }
        let per_chip = geometry.dies_per_chip;
        let per_channel = geometry.chips_per_channel * per_chip;
        for die in 0..geometry.dies() {
            let (channel, chip) = (die / per_channel, die % per_channel / per_chip);
            let name = format!("channel {channel} chip {chip} die {}", die % per_chip);
            self.trace.thread(DIES, die.into(), &name);
        }
        for channel in 0..geometry.channels {
            self.trace.thread(CHANNELS, channel.into(), &format!("channel {channel}"));
        }
        let of_slc = SLC_COUNTERS.into_iter().filter(|_| config.slc.is_some());
        for (at, (name, unit)) in (0..).zip(COUNTERS.into_iter().chain(of_slc)) {
            self.trace.counter(DRIVE, at, name, unit);
        }
        for flow in 0..self.flows.len() {
            let name = format!("flow {}", self.flows[flow]);
            self.trace.process(FIRST_FLOW + flow as u64, &name);
        }
    }
}
