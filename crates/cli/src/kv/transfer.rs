//! Pairs from a file and into one: lines of JSON, each with a key and a value in base64. Neither side
//! is ever in memory as a whole, and many commands are under way at once.

use super::{check_key, connect, lost, too_long};
use crate::args::{KvExport, KvImport};
use crate::failure::{Failure, say};
use crate::progress::Bar;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use mynah_result::figures;
use mynah_result::output::PendingFile;
use mynah_runtime::host::key_value::{Client, Done, Keys, Needs, Request};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::StoreCondition;
use mynah_wire::nvme::key::{KEY_BYTES_MAX, Key};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;

/// Most commands in flight.
const COMMANDS: u16 = 64;
/// The longest line: twice what the longest value of a drive here comes to.
const LINE_BYTES_MAX: u64 = 96 << 20;

const NEEDS: Needs = Needs { requests: COMMANDS, bytes: None };

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Reads pairs from a file, one a line.
struct Lines<'a> {
    path: &'a Path,
    input: BufReader<Box<dyn Read>>,
    /// Bytes of the file, if that is known.
    bytes: Option<u64>,
    read: u64,
    number: u64,
    line: Vec<u8>,
}

impl Lines<'_> {
    fn open(path: &Path) -> Result<Lines<'_>, Failure> {
        let opened = || -> io::Result<(Box<dyn Read>, Option<u64>)> {
            if is_standard(path) {
                return Ok((Box::new(io::stdin()), None));
            }
            let file = File::open(path)?;
            let about = file.metadata()?;
            Ok((Box::new(file), about.is_file().then_some(about.len())))
        };
        let (input, bytes) = opened().map_err(|error| cannot_read(path, &error))?;
        let input = BufReader::with_capacity(256 << 10, input);
        Ok(Lines { path, input, bytes, read: 0, number: 0, line: Vec::new() })
    }

    /// How much has been read, 0 to 1.
    fn done(&self) -> Option<f64> {
        self.bytes.map(|all| self.read as f64 / all.max(1) as f64)
    }

    /// What is wrong with the line that was read last.
    fn wrong(&self, problem: &str) -> Failure {
        let message = format!("{}, line {}: {problem}", self.path.display(), self.number);
        let help = r#"a line is {"key": "…", "value": "…"}, both in base64; `export` writes it"#;
        Failure::usage(message, Some(help))
    }

    /// The next pair; `None` at the end of the file.
    fn next_pair(&mut self) -> Result<Option<(Key, Vec<u8>)>, Failure> {
        loop {
            self.line.clear();
            let mut input = (&mut self.input).take(LINE_BYTES_MAX);
            let bytes = input.read_until(b'\n', &mut self.line);
            let bytes = bytes.map_err(|error| cannot_read(self.path, &error))?;
            if bytes == 0 {
                return Ok(None);
            }
            self.read += bytes as u64;
            self.number += 1;
            if self.line.len() as u64 == LINE_BYTES_MAX {
                return Err(self.wrong(&format!("it has more than {LINE_BYTES_MAX} bytes")));
            }
            if !self.line.trim_ascii().is_empty() {
                return pair(&self.line).map(Some).map_err(|problem| self.wrong(&problem));
            }
        }
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read {}: {error}", path.display()), None)
}

/// Parses a line.
fn pair(line: &[u8]) -> Result<(Key, Vec<u8>), String> {
    let fields: Value = serde_json::from_slice(line).map_err(|error| {
        let text = error.to_string();
        // Every document here has one line.
        format!("it is no JSON: {}", text.replace(" at line 1 column", ", in column"))
    })?;
    let object = fields.as_object().ok_or("it is no JSON object")?;
    if let Some(name) = object.keys().find(|name| !matches!(name.as_str(), "key" | "value")) {
        return Err(format!("it has `{name}`, and only `key` and `value` are expected"));
    }
    let field = |name: &str| {
        let text = object.get(name).ok_or_else(|| format!("it has no `{name}`"))?;
        let text = text.as_str().ok_or_else(|| format!("its `{name}` is no string"))?;
        BASE64.decode(text).map_err(|error| format!("its `{name}` is not base64: {error}"))
    };
    let (key, value) = (field("key")?, field("value")?);
    match Key::new(&key) {
        Some(found) if !found.is_empty() => Ok((found, value)),
        _ => Err(format!("its key has {} bytes, and keys have 1 to {KEY_BYTES_MAX}", key.len())),
    }
}

/// Counts of imported or exported pairs.
#[derive(Default)]
struct Moved {
    pairs: u64,
    bytes: u64,
}

impl Moved {
    fn add(&mut self, key: Key, value_bytes: usize) {
        self.pairs += 1;
        self.bytes += (key.len() + value_bytes) as u64;
    }

    fn say(&self, what: &str, quiet: bool) {
        if !quiet {
            let bytes = figures::bytes(self.bytes as f64);
            say(format_args!("{what} {} pairs, {bytes} of keys and values", self.pairs));
        }
    }
}

/// `mynah kv import`.
pub(super) fn import(target: &str, args: &KvImport) -> Result<ExitCode, Failure> {
    let mut lines = Lines::open(&args.file)?;
    let mut client = connect(target, &args.connect, NEEDS)?;
    let mut bar = Bar::new(args.quiet);
    let mut moved = Moved::default();
    let stored = store(&mut client, &mut lines, &mut bar, &mut moved);
    drop(bar);
    match &stored {
        // What was stored is in the drive, whatever came then.
        Err(_) if moved.pairs > 0 => moved.say("until then, imported", false),
        Err(_) => {}
        Ok(()) => moved.say("imported", args.quiet),
    }
    stored?;
    client.close();
    Ok(ExitCode::SUCCESS)
}

/// Stores all pairs, and has them outlive a loss of power. What stands before a wrong line is stored.
fn store(
    client: &mut Client,
    lines: &mut Lines<'_>,
    bar: &mut Bar,
    moved: &mut Moved,
) -> Result<(), Failure> {
    // Keys whose values are under way, with their lines: the later of two pairs wins.
    let mut under_way: BTreeMap<Key, u64> = BTreeMap::new();
    let mut next = None;
    let mut end = None;
    loop {
        while client.can_submit() && end.is_none() {
            let pair = match next.take() {
                Some(pair) => Ok(Some(pair)),
                None => lines
                    .next_pair()
                    .and_then(|pair| pair.map(|it| fit(client, lines, it)).transpose()),
            };
            match pair {
                Ok(Some((key, value))) if under_way.contains_key(&key) => {
                    next = Some((key, value));
                    break;
                }
                Ok(Some((key, value))) => {
                    under_way.insert(key, lines.number);
                    client.submit(Request::Store { key, value, condition: StoreCondition::Always });
                }
                Ok(None) => end = Some(Ok(())),
                Err(failure) => end = Some(Err(failure)),
            }
        }
        let Some(done) = client.next().map_err(lost)? else { break };
        let Request::Store { key, value, .. } = &done.request else { continue };
        let line = under_way.remove(key).unwrap_or_default();
        if !done.status.is_success() {
            let message = format!(
                "{}, line {line}: key `{key}` is not stored: {}",
                lines.path.display(),
                done.outcome()
            );
            return Err(Failure::failed(message, None));
        }
        moved.add(*key, value.len());
        if !bar.part("pairs imported", lines.done(), moved.pairs) {
            return Err(Failure::Interrupted);
        }
    }
    client.perform(Request::Flush).and_then(Done::succeeded).map_err(lost)?;
    end.unwrap_or(Ok(()))
}

/// The pair of a line, if the namespace takes it.
fn fit(
    client: &Client,
    lines: &Lines<'_>,
    (key, value): (Key, Vec<u8>),
) -> Result<(Key, Vec<u8>), Failure> {
    check_key(client, key)?;
    match too_long(client, value.len()) {
        Some(problem) => Err(lines.wrong(&problem)),
        None => Ok((key, value)),
    }
}

/// `mynah kv export`.
pub(super) fn export(target: &str, args: &KvExport) -> Result<ExitCode, Failure> {
    let file = match is_standard(&args.file) {
        true => None,
        false => Some(PendingFile::create_private(&args.file)?),
    };
    let mut client = connect(target, &args.connect, NEEDS)?;
    let mut bar = Bar::new(args.quiet);
    let mut moved = Moved::default();
    let prefix = args.prefix.unwrap_or(Key::EMPTY);
    match file {
        None => {
            let mut output = BufWriter::new(io::stdout().lock());
            retrieve(&mut client, prefix, &mut output, Failure::Stdout, &mut bar, &mut moved)?;
            output.flush().map_err(Failure::Stdout)?;
        }
        Some(pending) => {
            let opened = pending.file().map_err(|error| pending.error(error))?;
            let mut output = BufWriter::with_capacity(256 << 10, opened);
            let failed = |error| Failure::from(pending.error(error));
            retrieve(&mut client, prefix, &mut output, failed, &mut bar, &mut moved)?;
            output.flush().map_err(failed)?;
            drop(output);
            pending.keep()?;
        }
    }
    drop(bar);
    client.close();
    moved.say("exported", args.quiet);
    Ok(ExitCode::SUCCESS)
}

/// Writes all pairs, in the order in which the drive lists their keys.
fn retrieve(
    client: &mut Client,
    prefix: Key,
    output: &mut impl Write,
    failed: impl Fn(io::Error) -> Failure,
    bar: &mut Bar,
    moved: &mut Moved,
) -> Result<(), Failure> {
    let all = client.namespace().used_bytes;
    let mut keys = Keys::new(client, prefix);
    while let Some(page) = keys.next_page(client).map_err(lost)? {
        let mut page = page.into_iter();
        let mut asked = VecDeque::new();
        let mut found: BTreeMap<Key, Option<Vec<u8>>> = BTreeMap::new();
        loop {
            while client.can_submit() && asked.len() < 2 * usize::from(COMMANDS) {
                let Some(key) = page.next() else { break };
                asked.push_back(key);
                client.submit(Request::Retrieve { key, bytes: client.value_bytes_max() });
            }
            let Some(done) = client.next().map_err(lost)? else { break };
            let Some(key) = done.request.key() else { continue };
            found.insert(key, value_of(client, key, done)?);
            while let Some(first) = asked.front()
                && let Some(value) = found.remove(first)
            {
                let key = asked.pop_front().expect("it is there");
                // It may have been deleted since it was listed.
                let Some(value) = value else { continue };
                let (name, text) = (BASE64.encode(key), BASE64.encode(&value));
                writeln!(output, r#"{{"key":"{name}","value":"{text}"}}"#).map_err(&failed)?;
                moved.add(key, value.len());
            }
            let done = prefix.is_empty().then(|| moved.bytes as f64 / all.max(1) as f64);
            if !bar.part("pairs exported", done, moved.pairs) {
                return Err(Failure::Interrupted);
            }
        }
    }
    Ok(())
}

/// The value that came, if there is one.
fn value_of(client: &Client, key: Key, done: Done) -> Result<Option<Vec<u8>>, Failure> {
    if done.is(Status::KEY_DOES_NOT_EXIST) {
        return Ok(None);
    }
    if !done.status.is_success() {
        let message = format!("key `{key}` cannot be retrieved: {}", done.outcome());
        return Err(Failure::failed(message, None));
    }
    match too_long(client, done.size as usize) {
        Some(problem) => Err(Failure::failed(format!("key `{key}`: {problem}"), None)),
        None => Ok(Some(done.data)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let (key, value) = pair(br#"{"key": "dXNlcjox", "value": "aGVsbG8="}"#).unwrap();
        assert_eq!((key.as_slice(), &value[..]), (&b"user:1"[..], &b"hello"[..]));
        assert!(pair(br#"{"value": "", "key": "/w=="}"#).is_ok_and(|(_, value)| value.is_empty()));
    }

    #[test]
    fn wrong_lines_are_told_what_is_wrong() {
        for (line, problem) in [
            ("{", "it is no JSON: EOF while parsing an object, in column 1"),
            ("[]", "it is no JSON object"),
            (r#"{"key": "YQ=="}"#, "it has no `value`"),
            (r#"{"key": 1, "value": ""}"#, "its `key` is no string"),
            (r#"{"key": "a", "value": ""}"#, "its `key` is not base64: Invalid"),
            (r#"{"key": "YQ==", "value": "", "ttl": 1}"#, "it has `ttl`, and only"),
            (r#"{"key": "", "value": ""}"#, "its key has 0 bytes, and keys have 1 to 16"),
            (r#"{"key": "YWFhYWFhYWFhYWFhYWFhYWE=", "value": ""}"#, "its key has 17 bytes"),
        ] {
            let said = pair(line.as_bytes()).unwrap_err();
            assert!(said.starts_with(problem), "{line}: {said}");
        }
    }
}
