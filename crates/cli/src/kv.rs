//! `mynah kv`: pairs of a key-value namespace, one by one.

pub(crate) mod name;
mod samsung;
mod transfer;

use crate::args::{ConnectArgs, Kv, KvDelete, KvGet, KvKey, KvList, KvPut, KvStat, KvVerb};
use crate::failure::Failure;
use crate::print;
use crate::progress::Bar;
use crate::target::{self, ResolvedTarget};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use mynah_result::figures;
use mynah_result::output::PendingFile;
use mynah_runtime::host::HostError;
use mynah_runtime::host::key_value::{Client, Keys, Needs, Request};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::StoreCondition;
use mynah_wire::nvme::key::Key;
use serde_json::json;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

/// The longest value that is read from a file: more than any namespace takes.
const VALUE_BYTES_MAX: u64 = 1 << 30;

/// A client with one request in flight; `bytes` of buffer, `None`: as large as values can be.
fn one(bytes: Option<u32>) -> Needs {
    Needs { requests: 1, bytes }
}

/// Does what was asked; the exit code.
pub(crate) fn run(args: &Kv) -> Result<ExitCode, Failure> {
    if let Some(space) = args.key_space {
        return samsung::run(args, space);
    }
    let target = &args.target;
    match &args.what {
        KvVerb::Put(verb) => put(target, verb),
        KvVerb::Get(verb) => get(target, verb),
        KvVerb::Exists(verb) => exists(target, verb),
        KvVerb::Delete(verb) => delete(target, verb),
        KvVerb::List(verb) => list(target, verb),
        KvVerb::Stat(verb) => stat(target, verb),
        KvVerb::Import(verb) => transfer::import(target, verb),
        KvVerb::Export(verb) => transfer::export(target, verb),
    }
}

fn connect(target: &str, args: &ConnectArgs, needs: Needs) -> Result<Client, Failure> {
    let id = target::namespace(args)?;
    let ResolvedTarget { place, listed, wait } = target::find(target, args)?;
    Client::connect(&place, id, needs, wait)
        .map_err(|error| target::failed(&error, listed.as_deref()))
}

fn lost(error: HostError) -> Failure {
    target::failed(&error, None)
}

/// Whether a key is short enough for the namespace.
fn check_key(client: &Client, key: Key) -> Result<(), Failure> {
    let most = client.namespace().key_bytes_max;
    if key.len() <= most.into() {
        return Ok(());
    }
    let message =
        format!("key `{key}` has {} bytes, and the namespace takes keys of {most}", key.len());
    Err(Failure::usage(message, None))
}

/// What is wrong with a value of so many bytes, if anything is.
fn too_long(client: &Client, bytes: usize) -> Option<String> {
    let (most, movable) = (client.namespace().value_bytes_max, client.value_bytes_max());
    if bytes > most as usize {
        Some(format!("the value has {bytes} bytes, and the namespace takes values of {most}"))
    } else if bytes > movable as usize {
        Some(format!("the value has {bytes} bytes, and {movable} can be moved at a time here"))
    } else {
        None
    }
}

fn no_key(key: Key) -> Failure {
    absent(&key, false)
}

/// There is no such key; `for_if_exists`: and therefore none is stored.
fn absent(key: &dyn Display, for_if_exists: bool) -> Failure {
    let why = if for_if_exists { ", and --if-exists makes none" } else { "" };
    Failure::failed(format!("there is no key `{key}`{why}"), None)
}

/// There is such a key, and therefore nothing is stored.
fn exists_already(key: &dyn Display) -> Failure {
    Failure::failed(format!("there is a key `{key}`, and --if-absent leaves it as it is"), None)
}

fn put(target: &str, args: &KvPut) -> Result<ExitCode, Failure> {
    let value = match (&args.value, &args.file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) => read_value(path)?,
        (None, None) => unreachable!("one of them is required"),
    };
    let key = args.key.key()?;
    let mut client = connect(target, &args.connect, one(u32::try_from(value.len()).ok()))?;
    check_key(&client, key)?;
    if let Some(problem) = too_long(&client, value.len()) {
        return Err(Failure::usage(problem, None));
    }
    let condition = match (args.if_exists, args.if_absent) {
        (true, _) => StoreCondition::IfExists,
        (_, true) => StoreCondition::IfAbsent,
        _ => StoreCondition::Always,
    };
    let done = client.perform(Request::Store { key, value, condition }).map_err(lost)?;
    client.close();
    match () {
        () if done.is(Status::KEY_EXISTS) => Err(exists_already(&key)),
        () if done.is(Status::KEY_DOES_NOT_EXIST) => Err(absent(&key, true)),
        () => done.succeeded().map(|_| ExitCode::SUCCESS).map_err(lost),
    }
}

/// The bytes of a file, or of standard input.
fn read_value(path: &Path) -> Result<Vec<u8>, Failure> {
    let input: Result<Box<dyn Read>, _> = match path == Path::new("-") {
        true => Ok(Box::new(io::stdin())),
        false => File::open(path).map(|file| Box::new(file) as _),
    };
    let mut value = Vec::new();
    let read = input.and_then(|input| input.take(VALUE_BYTES_MAX + 1).read_to_end(&mut value));
    if let Err(error) = read {
        return Err(Failure::usage(format!("cannot read {}: {error}", path.display()), None));
    }
    if value.len() as u64 > VALUE_BYTES_MAX {
        let message = format!("{} has more than 1 GiB, which is no value", path.display());
        return Err(Failure::usage(message, None));
    }
    Ok(value)
}

fn get(target: &str, args: &KvGet) -> Result<ExitCode, Failure> {
    let file = args.file.as_deref().map(PendingFile::create_private).transpose()?;
    let key = args.key.key()?;
    let mut client = connect(target, &args.connect, one(None))?;
    check_key(&client, key)?;
    let bytes = client.value_bytes_max();
    let done = client.perform(Request::Retrieve { key, bytes }).map_err(lost)?;
    client.close();
    if done.is(Status::KEY_DOES_NOT_EXIST) {
        return Err(no_key(key));
    }
    let done = done.succeeded().map_err(lost)?;
    if done.size > bytes {
        let message =
            format!("the value of `{key}` has {} bytes, and {bytes} can be moved here", done.size);
        return Err(Failure::failed(message, None));
    }
    print_value(&done.data, file)
}

/// A value to standard output, or to a file.
fn print_value(value: &[u8], file: Option<PendingFile>) -> Result<ExitCode, Failure> {
    match file {
        None => print::bytes(value)?,
        Some(pending) => {
            let written = pending.file().and_then(|mut file| file.write_all(value));
            written.map_err(|error| pending.error(error))?;
            pending.keep()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn exists(target: &str, args: &KvKey) -> Result<ExitCode, Failure> {
    let key = args.key.key()?;
    let mut client = connect(target, &args.connect, one(Some(0)))?;
    check_key(&client, key)?;
    let there = ask(&mut client, key)?;
    client.close();
    print::out(if there { "yes\n" } else { "no\n" })?;
    Ok(if there { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a key exists.
fn ask(client: &mut Client, key: Key) -> Result<bool, Failure> {
    let done = client.perform(Request::Exist(key)).map_err(lost)?;
    match done.is(Status::KEY_DOES_NOT_EXIST) {
        true => Ok(false),
        false => done.succeeded().map(|_| true).map_err(lost),
    }
}

fn delete(target: &str, args: &KvDelete) -> Result<ExitCode, Failure> {
    let key = args.key.key()?;
    let mut client = connect(target, &args.connect, one(Some(0)))?;
    check_key(&client, key)?;
    let there = !args.must_exist || ask(&mut client, key)?;
    if !there {
        client.close();
        return Err(no_key(key));
    }
    let done = client.perform(Request::Delete(key)).map_err(lost)?;
    client.close();
    match done.is(Status::KEY_DOES_NOT_EXIST) {
        // A namespace may say so (feature 20h) whether or not anybody minds.
        true if args.must_exist => Err(no_key(key)),
        true => Ok(ExitCode::SUCCESS),
        false => done.succeeded().map(|_| ExitCode::SUCCESS).map_err(lost),
    }
}

fn list(target: &str, args: &KvList) -> Result<ExitCode, Failure> {
    let prefix = args.prefix.as_ref().map_or(Ok(Key::EMPTY), |prefix| prefix.key())?;
    let mut client = connect(target, &args.connect, one(Some(0)))?;
    let mut keys = Keys::new(&client, prefix);
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut text = String::new();
    while left > 0
        && let Some(page) = keys.next_page(&mut client).map_err(lost)?
    {
        text.clear();
        for key in page.iter().take(left.try_into().unwrap_or(usize::MAX)) {
            left -= 1;
            let _ = match args.json {
                true => {
                    let (base64, plain) = (BASE64.encode(key), key.to_string());
                    writeln!(text, "{}", json!({ "key": base64, "text": plain }))
                }
                false => writeln!(text, "{key}"),
            };
        }
        print::out(&text)?;
    }
    client.close();
    Ok(ExitCode::SUCCESS)
}

fn stat(target: &str, args: &KvStat) -> Result<ExitCode, Failure> {
    let mut client = connect(target, &args.connect, one(Some(0)))?;
    let keys = if args.count { Some(count(&mut client)?) } else { None };
    let (namespace, model) = (*client.namespace(), client.model().to_owned());
    client.close();
    if args.json {
        let stat = json!({
            "model": model,
            "nsid": namespace.id,
            "size_bytes": namespace.bytes,
            "used_bytes": namespace.used_bytes,
            "keys": keys,
            "key_bytes_max": namespace.key_bytes_max,
            "value_bytes_max": namespace.value_bytes_max,
            "keys_max": namespace.keys_max,
            "value_granularity_bytes": namespace.value_granularity,
        });
        print::out(&format!("{stat:#}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let size = |bytes: u64| format!("{} ({bytes} bytes)", figures::bytes(bytes as f64));
    let share = namespace.used_bytes as f64 * 100.0 / namespace.bytes as f64;
    let mut lines = vec![
        ("namespace", format!("{} of {model}", namespace.id)),
        ("size", size(namespace.bytes)),
        ("used", format!("{}, {share:.1} %", size(namespace.used_bytes))),
    ];
    lines.extend(keys.map(|keys| ("keys", keys.to_string())));
    lines.push(("key length", format!("1 to {} bytes", namespace.key_bytes_max)));
    lines.push(("value length", format!("0 to {}", size(namespace.value_bytes_max.into()))));
    lines.extend(namespace.keys_max.map(|most| ("keys at most", most.to_string())));
    let granularity = namespace.value_granularity;
    lines.extend(granularity.map(|bytes| ("best values", format!("multiples of {bytes} bytes"))));
    let text: String = lines.iter().map(|(name, value)| format!("{name:13} {value}\n")).collect();
    print::out(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Counts the keys of the namespace by listing all of them.
fn count(client: &mut Client) -> Result<u64, Failure> {
    let mut bar = Bar::new(false);
    let mut keys = Keys::new(client, Key::EMPTY);
    let mut count = 0;
    while let Some(page) = keys.next_page(client).map_err(lost)? {
        count += page.len() as u64;
        if !bar.part("keys counted", None, count) {
            return Err(Failure::Interrupted);
        }
    }
    Ok(count)
}
