//! A timeline of a run, as a Perfetto trace: every I/O with its stages, what each die and
//! channel did and for whom, and how full the drive was. <https://ui.perfetto.dev> opens it.
//!
//! The format is Perfetto's `trace.proto`: a `Trace` is a sequence of `TracePacket`s, which
//! hold track descriptors and track events. Field numbers are those of
//! `protos/perfetto/trace/trace_packet.proto`, `interned_data/interned_data.proto` and
//! `track_event/{track_event,track_descriptor,counter_descriptor,debug_annotation}.proto`.
//!
//! Timestamps are the drive's time in whole nanoseconds (a trace has no finer ones). An I/O
//! is drawn from its creation to its completion, its stages one after the other in the order
//! in which an I/O passes them: what several parts of one I/O do side by side, and a stage
//! that is passed twice, is drawn once.

mod proto;

use crate::output::{OutputError, PendingFile};
use crate::recorder::Kind;
use mynah_model::config::Geometry;
use mynah_model::io::{Completion, Request};
use mynah_model::stats::Holder;
use mynah_model::{Activity, ActivityKind, Drive};
use mynah_stamp::{Span, Stage, Time};
use proto::Message;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// How often the counters are looked at.
const COUNT_EVERY: Span = Span::from_us(20);

// TracePacket
const PACKET: u32 = 1;
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED: u32 = 12;
const SEQUENCE_FLAGS: u32 = 13;
const TRACK_DESCRIPTOR: u32 = 60;
const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
// InternedData
const EVENT_NAMES: u32 = 2;
const ANNOTATION_NAMES: u32 = 3;
// TrackEvent
const ANNOTATIONS: u32 = 4;
const EVENT_TYPE: u32 = 9;
const NAME_ID: u32 = 10;
const TRACK: u32 = 11;
const DOUBLE_COUNTER: u32 = 44;
const BEGIN: u64 = 1;
const END: u64 = 2;
const COUNTER: u64 = 4;

/// Annotations of an I/O.
const SECTOR: u64 = 1;
const BYTES: u64 = 2;
const KEY: u64 = 3;

const DIES: u64 = 1;
const CHANNELS: u64 = 2;
const DRIVE: u64 = 3;
const FIRST_FLOW: u64 = 16;
/// Tracks of one group.
const GROUP: u64 = 1 << 32;

/// What is counted, and in what.
const COUNTERS: [(&str, &str); 5] = [
    ("free blocks", "blocks"),
    ("free blocks, least of a plane", "blocks"),
    ("commands in the controller", "commands"),
    ("flash operations waiting", "operations"),
    ("units in the write cache", "units"),
];

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From this time on.
    pub from: Time,
    /// Up to this time.
    pub to: Time,
}

impl Window {
    /// All of it.
    pub const ALL: Window = Window { from: Time::ZERO, to: Time::MAX };

    /// Reads `FROM-TO`, two times.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn parse(text: &str) -> Result<Window, String> {
        let (from, to) =
            text.split_once('-').ok_or("a window is written FROM-TO, as in 10ms-12ms")?;
        let [from, to] = [crate::quantity::parse_time(from)?, crate::quantity::parse_time(to)?];
        if from >= to {
            return Err("the window ends before it begins".into());
        }
        Ok(Window { from: Time::ZERO + from, to: Time::ZERO + to })
    }
}

/// A timeline being written.
pub struct Timeline {
    file: PendingFile,
    out: BufWriter<File>,
    window: Window,
    /// When counters are to be looked at next.
    next: Time,
    flows: Vec<String>,
    /// When each track of a flow becomes free.
    lanes: Vec<Vec<Time>>,
    names: BTreeMap<String, u64>,
    annotated: [bool; 2],
    error: Option<std::io::Error>,
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
        drive: &mut Drive,
    ) -> Result<Timeline, OutputError> {
        let file = PendingFile::create(path)?;
        let out = file.file().map_err(|error| file.error(error))?;
        let out = BufWriter::with_capacity(1 << 18, out);
        let mut timeline = Timeline {
            file,
            out,
            window,
            next: window.from,
            lanes: vec![Vec::new(); flows.len()],
            flows,
            names: BTreeMap::new(),
            annotated: [false; 2],
            error: None,
        };
        timeline.describe(drive.config().geometry);
        drive.keep_activity(true);
        Ok(timeline)
    }

    /// When it wants to look at the drive.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Time has reached [`Timeline::next`].
    pub fn reached(&mut self, drive: &mut Drive) {
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
        for (at, value) in values.into_iter().enumerate() {
            let mut event = Message::default();
            event.number(EVENT_TYPE, COUNTER).number(TRACK, DRIVE * GROUP + 1 + at as u64);
            event.double(DOUBLE_COUNTER, value);
            self.event(now, &event);
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
        completion: &Completion,
    ) {
        let shown = [(SECTOR, request.sector), (BYTES, u64::from(request.sectors) * 512)];
        self.draw_io(flow, Kind::from(request.operation), shown, created, completion);
    }

    /// A key-value command of `flow` has completed: the number of its key, and the bytes that it
    /// moved.
    pub(crate) fn completed_key(
        &mut self,
        flow: usize,
        kind: Kind,
        (key, bytes): (u64, u32),
        created: Time,
        completion: &Completion,
    ) {
        self.draw_io(flow, kind, [(KEY, key), (BYTES, bytes.into())], created, completion);
    }

    fn draw_io(
        &mut self,
        flow: usize,
        kind: Kind,
        shown: [(u64, u64); 2],
        created: Time,
        completion: &Completion,
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
                self.thread(group, lane as u64, &format!("I/O {}", lane + 1));
                lane
            }
        };
        self.lanes[flow][lane] = completion.at;
        let track = (FIRST_FLOW + flow as u64) * GROUP + 1 + lane as u64;
        let of_key = usize::from(shown[0].0 == KEY);
        if !self.annotated[of_key] {
            self.annotated[of_key] = true;
            let mut interned = Message::default();
            let first = [(SECTOR, "sector"), (KEY, "key")][of_key];
            for (id, name) in [first, (BYTES, "bytes")] {
                let mut entry = Message::default();
                entry.number(1, id).string(2, name);
                interned.message(ANNOTATION_NAMES, &entry);
            }
            self.interned(&interned);
        }
        let name = self.name(kind.name());
        let mut event = Message::default();
        for (id, value) in shown {
            let mut annotation = Message::default();
            annotation.number(1, id).number(3, value);
            event.message(ANNOTATIONS, &annotation);
        }
        event.number(EVENT_TYPE, BEGIN).number(NAME_ID, name).number(TRACK, track);
        self.event(created, &event);
        let mut at = created;
        let host_queue = completion.rung.saturating_since(created);
        for (stage, span) in completion.stages.iter() {
            let more = if stage == Stage::HostQueue { host_queue } else { Span::ZERO };
            let span = span + more;
            if !span.is_zero() {
                self.slice(track, stage.name(), at, at + span);
                at += span;
            }
        }
        let mut event = Message::default();
        event.number(EVENT_TYPE, END).number(TRACK, track);
        self.event(completion.at, &event);
    }

    /// The run has ended.
    ///
    /// # Errors
    /// If the file could not be written.
    pub fn finish(mut self, drive: &mut Drive) -> Result<(), OutputError> {
        self.draw(drive.take_activity());
        drive.keep_activity(false);
        let flushed = self.out.flush();
        match self.error.take().map_or(flushed, Err) {
            Ok(()) => self.file.keep(),
            Err(error) => Err(self.file.error(error)),
        }
    }

    /// What dies and channels did.
    fn draw(&mut self, activities: Vec<Activity>) {
        for Activity { kind, index, holder, start, end } in activities {
            if start < self.window.from || end > self.window.to {
                continue;
            }
            let group = if kind == ActivityKind::Transfer { CHANNELS } else { DIES };
            let by = match holder {
                Holder::GarbageCollection => "gc",
                Holder::MappingTable => "mapping",
                Holder::Index => "index",
                Holder::Compaction => "compaction",
                Holder::Flow(flow) => {
                    self.flows.get(usize::from(flow.0)).map_or("?", String::as_str)
                }
            };
            let name = format!("{}: {by}", kind.name());
            self.slice(group * GROUP + 1 + u64::from(index), &name, start, end);
        }
    }

    fn slice(&mut self, track: u64, name: &str, start: Time, end: Time) {
        let name = self.name(name);
        let mut event = Message::default();
        event.number(EVENT_TYPE, BEGIN).number(NAME_ID, name).number(TRACK, track);
        self.event(start, &event);
        let mut event = Message::default();
        event.number(EVENT_TYPE, END).number(TRACK, track);
        self.event(end, &event);
    }

    /// The number that stands for an event's name.
    fn name(&mut self, name: &str) -> u64 {
        if let Some(&id) = self.names.get(name) {
            return id;
        }
        let id = self.names.len() as u64 + 1;
        self.names.insert(name.to_owned(), id);
        let (mut interned, mut entry) = (Message::default(), Message::default());
        entry.number(1, id).string(2, name);
        interned.message(EVENT_NAMES, &entry);
        self.interned(&interned);
        id
    }

    fn interned(&mut self, interned: &Message) {
        let mut packet = Message::default();
        packet.number(SEQUENCE, 1).number(SEQUENCE_FLAGS, NEEDS_STATE).message(INTERNED, interned);
        self.packet(&packet);
    }

    fn event(&mut self, at: Time, event: &Message) {
        let mut packet = Message::default();
        packet.number(TIMESTAMP, at.as_ps() / 1_000).number(SEQUENCE, 1);
        packet.number(SEQUENCE_FLAGS, NEEDS_STATE).message(TRACK_EVENT, event);
        self.packet(&packet);
    }

    fn packet(&mut self, packet: &Message) {
        let mut trace = Message::default();
        trace.message(PACKET, packet);
        if self.error.is_none() {
            self.error = self.out.write_all(&trace.bytes).err();
        }
    }

    /// Names everything there is before the first I/O.
    fn describe(&mut self, geometry: Geometry) {
        let mut first = Message::default();
        first.number(SEQUENCE, 1).number(SEQUENCE_FLAGS, CLEARED);
        self.packet(&first);
        for (group, name) in [(DIES, "dies"), (CHANNELS, "channels"), (DRIVE, "drive")] {
            self.process(group, name);
        }
        let per_chip = geometry.dies_per_chip;
        let per_channel = geometry.chips_per_channel * per_chip;
        for die in 0..geometry.dies() {
            let (channel, chip) = (die / per_channel, die % per_channel / per_chip);
            let name = format!("channel {channel} chip {chip} die {}", die % per_chip);
            self.thread(DIES, die.into(), &name);
        }
        for channel in 0..geometry.channels {
            self.thread(CHANNELS, channel.into(), &format!("channel {channel}"));
        }
        for (at, (name, unit)) in COUNTERS.into_iter().enumerate() {
            let mut counter = Message::default();
            counter.string(6, unit);
            let mut track = Message::default();
            track.number(1, DRIVE * GROUP + 1 + at as u64).string(2, name);
            track.number(5, DRIVE * GROUP).message(8, &counter);
            self.track(&track);
        }
        for flow in 0..self.flows.len() {
            let name = format!("flow {}", self.flows[flow]);
            self.process(FIRST_FLOW + flow as u64, &name);
        }
    }

    /// A group of tracks.
    fn process(&mut self, group: u64, name: &str) {
        let mut process = Message::default();
        process.number(1, group).string(6, name);
        let mut track = Message::default();
        track.number(1, group * GROUP).message(3, &process);
        self.track(&track);
    }

    /// A track of a group, from 0.
    fn thread(&mut self, group: u64, number: u64, name: &str) {
        let mut thread = Message::default();
        // Process, thread and name; threads of all processes have different numbers.
        thread.number(1, group).number(2, (group << 16) | (number + 1)).string(5, name);
        let mut track = Message::default();
        track.number(1, group * GROUP + 1 + number).message(4, &thread);
        self.track(&track);
    }

    fn track(&mut self, track: &Message) {
        let mut packet = Message::default();
        packet.number(SEQUENCE, 1).message(TRACK_DESCRIPTOR, track);
        self.packet(&packet);
    }
}
