//! Traces of caches: who asked for which object, and how large it is.
//!
//! What a trace is, and what is made of it:
//!
//! | format | source | what it says |
//! |---|---|---|
//! | `twitter` | Yang et al., OSDI 2020; github.com/twitter/cache-trace | CSV without a header: time in seconds, key, bytes of key and value, client, operation, TTL; keys may have commas |
//! | `cachelib` | Meta's traces of CacheLib | CSV with a header, whose columns are found by their names; a row stands for `op_count` operations |
//! | `oracle-general` | libCacheSim, `oracleGeneralBin.h` | records of 24 bytes: time in seconds, object, bytes, next use; all are gets |
//! | `mlperf-kv` | MLPerf Storage, KV cache, `--io-trace-log` | CSV with a header; what goes to tier 2, the drive. Its times say when an operation was logged, not when it began |
//! | `mooncake` | FAST 2025 | JSON lines: requests with the blocks of their prompt, of 512 tokens |
//! | `qwen` | Alibaba's Qwen-Bailian traces | the same, with blocks of 16 tokens and times in seconds |

mod csv;
mod json;

use crate::trace::{TraceError, open_input};
use mynah_stamp::Time;
use std::io::{BufReader, Read};
use std::path::PathBuf;

/// Most operations that one row may stand for.
const REPEATS_MAX: u64 = 1 << 20;
/// Most blocks of one request.
pub(super) const BLOCKS_MAX: usize = 1 << 16;
/// The longest line that is read: a request of [`BLOCKS_MAX`] blocks.
const LINE_MAX: usize = 2 << 20;

/// The format of a trace of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyTraceFormat {
    Twitter,
    CacheLib,
    OracleGeneral,
    MlPerf,
    Mooncake,
    Qwen,
}

impl KeyTraceFormat {
    /// Every format with its name.
    pub const ALL: [(&'static str, KeyTraceFormat); 6] = [
        ("twitter", KeyTraceFormat::Twitter),
        ("cachelib", KeyTraceFormat::CacheLib),
        ("oracle-general", KeyTraceFormat::OracleGeneral),
        ("mlperf-kv", KeyTraceFormat::MlPerf),
        ("mooncake", KeyTraceFormat::Mooncake),
        ("qwen", KeyTraceFormat::Qwen),
    ];

    /// Tokens of a block, in formats of requests.
    fn block_tokens(self) -> Option<u64> {
        match self {
            KeyTraceFormat::Mooncake => Some(512),
            KeyTraceFormat::Qwen => Some(16),
            _ => None,
        }
    }
}

/// A trace of a cache, and how it is replayed.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyTrace {
    pub path: PathBuf,
    pub format: KeyTraceFormat,
    /// Replay speed relative to the recorded one; above 0.
    pub speed: f64,
    /// Requests outstanding, where its times do not count.
    pub depth: Option<u32>,
    /// How many times it is replayed.
    pub repeat: u32,
    /// Bytes that a token takes in traces of requests: 2 (key and value) times layers, heads, their
    /// dimension and bytes of a number.
    pub token_bytes: u64,
}

/// What is done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    Get,
    Set,
    Delete,
}

/// One operation, or the blocks of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    Touch {
        /// Microseconds on the trace's clock.
        at_us: u64,
        key: u64,
        key_bytes: u32,
        bytes: u64,
        touch: Touch,
        /// How often.
        times: u64,
    },
    /// A prompt: each block counts as found only if all before it are.
    Prefix { at_us: Option<u64>, blocks: Vec<u64> },
}

/// A number for a key: FNV-1a, which is the same everywhere.
pub(super) fn key_number(key: &[u8]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Reads a trace, from its start again as often as it is replayed.
#[derive(Debug)]
pub(crate) struct KeyTraceReader {
    trace: KeyTrace,
    input: Box<BufReader<crate::trace::OpenInput>>,
    /// Of CSV with a header: where its columns are.
    columns: csv::Columns,
    line: u64,
    left: u32,
    /// The first time, what is added to times after it, and the last one, in microseconds.
    first: Option<u64>,
    offset: u64,
    last: u64,
    pieces: Vec<u8>,
}

impl KeyTraceReader {
    pub(super) fn open(trace: &KeyTrace) -> Result<KeyTraceReader, TraceError> {
        let input = Box::new(BufReader::with_capacity(64 << 10, open_input(&trace.path)?));
        Ok(KeyTraceReader {
            trace: trace.clone(),
            input,
            columns: csv::Columns::default(),
            line: 0,
            left: trace.repeat.saturating_sub(1),
            first: None,
            offset: 0,
            last: 0,
            pieces: vec![],
        })
    }

    /// The next event and when it is, if its time counts; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Event, Option<Time>)>, TraceError> {
        loop {
            if let Some(event) = self.read()? {
                let at_us = match &event {
                    Event::Touch { at_us, .. } => Some(*at_us),
                    Event::Prefix { at_us, .. } => *at_us,
                };
                let at = at_us.map(|at_us| self.moment(at_us));
                return Ok(Some((event, at.filter(|_| self.trace.depth.is_none()))));
            }
            if self.left == 0 || self.line == 0 {
                return Ok(None);
            }
            self.left -= 1;
            (self.line, self.first, self.offset) = (0, None, self.last);
            self.columns = csv::Columns::default();
            *self.input = BufReader::with_capacity(64 << 10, open_input(&self.trace.path)?);
        }
    }

    /// A time of the trace as one of the run: from its first on, never back.
    fn moment(&mut self, at_us: u64) -> Time {
        let first = *self.first.get_or_insert(at_us);
        let since = at_us.saturating_sub(first) as f64 / self.trace.speed;
        let at = self.offset.saturating_add(since as u64).max(self.last);
        self.last = at;
        Time::from_ps(at.saturating_mul(1_000_000))
    }

    fn fail(&self, problem: impl Into<String>) -> TraceError {
        let text: String = String::from_utf8_lossy(&self.pieces).chars().take(80).collect();
        TraceError::Line {
            file: self.trace.path.display().to_string(),
            line: self.line,
            problem: problem.into(),
            text,
            help: self.help().to_owned(),
        }
    }

    fn help(&self) -> &'static str {
        match self.trace.format {
            KeyTraceFormat::Twitter => {
                "a line is `seconds,key,key bytes,value bytes,client,operation,TTL`"
            }
            KeyTraceFormat::CacheLib => {
                "the first line names the columns, among them key, op and size; op is GET, SET, \
                 DELETE, or GET_LEASE or SET_LEASE"
            }
            KeyTraceFormat::OracleGeneral => "records have 24 bytes",
            KeyTraceFormat::MlPerf => {
                "the first line is `Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase`"
            }
            KeyTraceFormat::Mooncake | KeyTraceFormat::Qwen => {
                "a line is a JSON object with `hash_ids`, a list of numbers"
            }
        }
    }

    /// The next event of this replay.
    fn read(&mut self) -> Result<Option<Event>, TraceError> {
        if self.trace.format == KeyTraceFormat::OracleGeneral {
            return self.read_record();
        }
        loop {
            self.line += 1;
            if !self.read_line()? {
                self.line -= 1;
                return Ok(None);
            }
            let text = match std::str::from_utf8(&self.pieces) {
                Ok(text) => text.trim_end_matches('\r'),
                Err(_) => return Err(self.fail("it is not UTF-8")),
            };
            if text.trim().is_empty() {
                continue;
            }
            let parsed = match self.trace.format {
                KeyTraceFormat::Twitter => csv::twitter(text).map(Some),
                KeyTraceFormat::CacheLib => self.columns.cachelib(text),
                KeyTraceFormat::MlPerf => self.columns.mlperf(text),
                KeyTraceFormat::Mooncake => json::request(text, 1_000.0).map(Some),
                KeyTraceFormat::Qwen => json::request(text, 1_000_000.0).map(Some),
                KeyTraceFormat::OracleGeneral => Ok(None),
            };
            match parsed {
                Ok(None) => continue,
                Ok(Some(event)) => return Ok(Some(event)),
                Err(problem) => return Err(self.fail(problem)),
            }
        }
    }

    fn io(&self, error: std::io::Error) -> TraceError {
        TraceError::Io { file: self.trace.path.display().to_string(), error }
    }

    /// Reads a line; false at the end.
    fn read_line(&mut self) -> Result<bool, TraceError> {
        use std::io::BufRead;
        self.pieces.clear();
        let mut limited = (&mut *self.input).take(LINE_MAX as u64);
        let read = limited.read_until(b'\n', &mut self.pieces);
        match read {
            Ok(0) => Ok(false),
            Ok(_) if self.pieces.ends_with(b"\n") => {
                self.pieces.pop();
                Ok(true)
            }
            Ok(LINE_MAX..) => Err(self.fail(format!("it is longer than {LINE_MAX} bytes"))),
            Ok(_) => Ok(true),
            Err(error) => Err(self.io(error)),
        }
    }

    /// Reads a record of libCacheSim's.
    fn read_record(&mut self) -> Result<Option<Event>, TraceError> {
        let mut record = [0; 24];
        let mut filled = 0;
        while filled < record.len() {
            match self.input.read(&mut record[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => {
                    self.pieces.clear();
                    self.line += 1;
                    return Err(
                        self.fail(format!("the file ends after {filled} bytes of a record"))
                    );
                }
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.io(error)),
            }
        }
        self.line += 1;
        let number = |from: usize, bytes: usize| {
            record[from..from + bytes].iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte))
        };
        Ok(Some(Event::Touch {
            at_us: number(0, 4) * 1_000_000,
            key: number(4, 8),
            key_bytes: 8,
            bytes: number(12, 4),
            touch: Touch::Get,
            times: 1,
        }))
    }
}

impl KeyTrace {
    /// Bytes of a block of a request.
    pub(super) fn block_bytes(&self) -> u64 {
        self.format.block_tokens().unwrap_or(1).saturating_mul(self.token_bytes)
    }
}

#[cfg(test)]
mod tests;
