//! A Perfetto trace being written: tracks of processes and threads, slices on them, names and
//! counters.
//!
//! The format is Perfetto's `trace.proto`: a `Trace` is a sequence of `TracePacket`s, which
//! hold track descriptors and track events. Field numbers are those of
//! `protos/perfetto/trace/trace_packet.proto`, `interned_data/interned_data.proto` and
//! `track_event/{track_event,track_descriptor,counter_descriptor,debug_annotation}.proto`.
//!
//! Timestamps are whole nanoseconds (a trace has no finer ones).

use super::proto::Message;
use crate::output::{OutputError, PendingFile};
use mynah_stamp::Time;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

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
const FLOWS: u32 = 47;
const ENDING_FLOWS: u32 = 48;
const BEGIN: u64 = 1;
const END: u64 = 2;
const COUNTER: u64 = 4;

/// Track identifiers reserved for each group.
const GROUP: u64 = 1 << 32;

/// The track of a thread of a group, from 0.
pub fn track_of(group: u64, number: u64) -> u64 {
    group * GROUP + 1 + number
}

/// Where an arrow between slices begins, or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrow {
    /// The slice is where it comes from, or passes through.
    From(u64),
    /// The slice is where it ends.
    To(u64),
}

/// A Perfetto trace file, while it is written.
pub struct Trace {
    file: PendingFile,
    out: BufWriter<File>,
    names: BTreeMap<String, u64>,
    annotations: BTreeMap<&'static str, u64>,
    error: Option<std::io::Error>,
}

impl Trace {
    /// Begins the file at `path`, which appears with [`Trace::finish`].
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> Result<Trace, OutputError> {
        let file = PendingFile::create(path)?;
        let out = file.file().map_err(|error| file.error(error))?;
        let out = BufWriter::with_capacity(1 << 18, out);
        let (names, annotations) = (BTreeMap::new(), BTreeMap::new());
        let mut trace = Trace { file, out, names, annotations, error: None };
        let mut first = Message::default();
        first.number(SEQUENCE, 1).number(SEQUENCE_FLAGS, CLEARED);
        trace.packet(&first);
        Ok(trace)
    }

    /// Writes what is left, and gives the file its name.
    ///
    /// # Errors
    /// If the file could not be written.
    pub fn finish(mut self) -> Result<(), OutputError> {
        let flushed = self.out.flush();
        match self.error.take().map_or(flushed, Err) {
            Ok(()) => self.file.keep(),
            Err(error) => Err(self.file.error(error)),
        }
    }

    /// Begins a slice on a track.
    pub fn begin(
        &mut self,
        track: u64,
        name: &str,
        at: Time,
        shown: &[(&'static str, u64)],
        arrows: &[Arrow],
    ) {
        let name = self.name(name);
        let mut event = Message::default();
        for &(what, value) in shown {
            let mut annotation = Message::default();
            let what = self.annotation(what);
            annotation.number(1, what).number(3, value);
            event.message(ANNOTATIONS, &annotation);
        }
        event.number(EVENT_TYPE, BEGIN).number(NAME_ID, name).number(TRACK, track);
        for arrow in arrows {
            match *arrow {
                Arrow::From(id) => event.fixed(FLOWS, id),
                Arrow::To(id) => event.fixed(ENDING_FLOWS, id),
            };
        }
        self.event(at, &event);
    }

    /// Ends the innermost slice of a track.
    pub fn end(&mut self, track: u64, at: Time) {
        let mut event = Message::default();
        event.number(EVENT_TYPE, END).number(TRACK, track);
        self.event(at, &event);
    }

    /// A slice without nested ones.
    pub(crate) fn slice(&mut self, track: u64, name: &str, start: Time, end: Time) {
        self.begin(track, name, start, &[], &[]);
        self.end(track, end);
    }

    /// Records that a counter track has this value from now on.
    pub(crate) fn count(&mut self, track: u64, at: Time, value: f64) {
        let mut event = Message::default();
        event.number(EVENT_TYPE, COUNTER).number(TRACK, track);
        event.double(DOUBLE_COUNTER, value);
        self.event(at, &event);
    }

    /// The interned identifier of an event's name.
    fn name(&mut self, name: &str) -> u64 {
        if let Some(&id) = self.names.get(name) {
            return id;
        }
        let id = self.names.len() as u64 + 1;
        self.names.insert(name.to_owned(), id);
        self.intern(EVENT_NAMES, id, name);
        id
    }

    /// The interned identifier of a debug annotation's name.
    fn annotation(&mut self, name: &'static str) -> u64 {
        if let Some(&id) = self.annotations.get(name) {
            return id;
        }
        let id = self.annotations.len() as u64 + 1;
        self.annotations.insert(name, id);
        self.intern(ANNOTATION_NAMES, id, name);
        id
    }

    fn intern(&mut self, table: u32, id: u64, name: &str) {
        let (mut interned, mut entry) = (Message::default(), Message::default());
        entry.number(1, id).string(2, name);
        interned.message(table, &entry);
        let mut packet = Message::default();
        packet.number(SEQUENCE, 1).number(SEQUENCE_FLAGS, NEEDS_STATE).message(INTERNED, &interned);
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

    /// Declares a group of tracks, which Perfetto shows as a process.
    pub fn process(&mut self, group: u64, name: &str) {
        let mut process = Message::default();
        process.number(1, group).string(6, name);
        let mut track = Message::default();
        track.number(1, group * GROUP).message(3, &process);
        self.track(&track);
    }

    /// A track of a group, from 0.
    pub fn thread(&mut self, group: u64, number: u64, name: &str) {
        let mut thread = Message::default();
        // Process, thread and name; threads of all processes have different numbers.
        thread.number(1, group).number(2, (group << 16) | (number + 1)).string(5, name);
        let mut track = Message::default();
        track.number(1, track_of(group, number)).message(4, &thread);
        self.track(&track);
    }

    /// A counter of a group, from 0, and what it counts.
    pub(crate) fn counter(&mut self, group: u64, number: u64, name: &str, unit: &str) {
        let mut counter = Message::default();
        counter.string(6, unit);
        let mut track = Message::default();
        track.number(1, track_of(group, number)).string(2, name);
        track.number(5, group * GROUP).message(8, &counter);
        self.track(&track);
    }

    fn track(&mut self, track: &Message) {
        let mut packet = Message::default();
        packet.number(SEQUENCE, 1).message(TRACK_DESCRIPTOR, track);
        self.packet(&packet);
    }
}
