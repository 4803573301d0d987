//! `mynah kv --key-space`: keys and values of a drive that speaks Samsung's key-value command set.

use super::name::Shown;
use super::{VALUE_BYTES_MAX, absent, exists_already, print_value, read_value};
use crate::args::{ConnectArgs, Kv, KvDelete, KvGet, KvKey, KvList, KvPut, KvVerb};
use crate::failure::Failure;
use crate::print;
use crate::target::{self, ResolvedTarget};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use mynah_result::output::PendingFile;
use mynah_runtime::host::HostError;
use mynah_runtime::host::load::Where;
use mynah_runtime::host::samsung::Client;
use mynah_wire::nvme::command::StoreCondition;
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Does what was asked; the exit code.
pub(super) fn run(args: &Kv, space: u32) -> Result<ExitCode, Failure> {
    let target = &args.target;
    match &args.what {
        KvVerb::Put(verb) => put(target, space, verb),
        KvVerb::Get(verb) => get(target, space, verb),
        KvVerb::Exists(verb) => exists(target, space, verb),
        KvVerb::Delete(verb) => delete(target, space, verb),
        KvVerb::List(verb) => list(target, space, verb),
        KvVerb::Stat(_) | KvVerb::Import(_) | KvVerb::Export(_) => Err(Failure::usage(
            "--key-space is for put, get, exists, delete and list".to_owned(),
            Some("the other verbs use namespaces of NVMe's own set"),
        )),
    }
}

fn connect(target: &str, space: u32, args: &ConnectArgs) -> Result<Client, Failure> {
    let wrong = |message: &str| Err(Failure::usage(message.to_owned(), None));
    if args.nsid.is_some() {
        return wrong(
            "--nsid has no effect with --key-space, which stands in its place in commands",
        );
    }
    if space == u32::MAX {
        return wrong("--key-space 4294967295: there can be no such key space");
    }
    if !target.starts_with("vfio-user:") {
        return wrong(
            "--key-space is for vfio-user:DIR: Samsung's key-value command set is not spoken over TCP",
        );
    }
    let ResolvedTarget { place, wait, .. } = target::find(target, args)?;
    match place {
        Where::VfioUser(options) => Client::connect(&options, space, wait).map_err(lost),
        Where::Tcp(_) | Where::Disk(_) | Where::Nbd(_) => wrong("--key-space is for vfio-user:DIR"),
    }
}

fn lost(error: HostError) -> Failure {
    target::failed(&error, None)
}

/// Ends a listing: an error of the target, or of standard output.
struct ListingError(Failure);

impl From<HostError> for ListingError {
    fn from(error: HostError) -> ListingError {
        ListingError(lost(error))
    }
}

fn put(target: &str, space: u32, args: &KvPut) -> Result<ExitCode, Failure> {
    let value = match (&args.value, &args.file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) => read_value(path)?,
        (None, None) => unreachable!("one of them is required"),
    };
    let mut client = connect(target, space, &args.connect)?;
    let most = u64::from(client.value_bytes_max()).min(VALUE_BYTES_MAX);
    if value.len() as u64 > most {
        let bytes = value.len();
        let message =
            format!("the value has {bytes} bytes, and {most} can be moved at a time here");
        return Err(Failure::usage(message, None));
    }
    let condition = match (args.if_exists, args.if_absent) {
        (true, _) => StoreCondition::IfExists,
        (_, true) => StoreCondition::IfAbsent,
        _ => StoreCondition::Always,
    };
    let stored = client.store(args.key.bytes(), value, condition).map_err(lost)?;
    client.close();
    let key = Shown(args.key.bytes());
    match (stored, args.if_exists) {
        (true, _) => Ok(ExitCode::SUCCESS),
        (false, true) => Err(absent(&key, true)),
        (false, false) => Err(exists_already(&key)),
    }
}

fn get(target: &str, space: u32, args: &KvGet) -> Result<ExitCode, Failure> {
    let file = args.file.as_deref().map(PendingFile::create_private).transpose()?;
    let mut client = connect(target, space, &args.connect)?;
    let value = client.retrieve(args.key.bytes()).map_err(lost)?;
    client.close();
    let value = value.ok_or_else(|| absent(&Shown(args.key.bytes()), false))?;
    print_value(&value, file)
}

fn exists(target: &str, space: u32, args: &KvKey) -> Result<ExitCode, Failure> {
    let mut client = connect(target, space, &args.connect)?;
    let there = client.exists(args.key.bytes()).map_err(lost)?;
    client.close();
    print::out(if there { "yes\n" } else { "no\n" })?;
    Ok(if there { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn delete(target: &str, space: u32, args: &KvDelete) -> Result<ExitCode, Failure> {
    let mut client = connect(target, space, &args.connect)?;
    let there = client.delete(args.key.bytes()).map_err(lost)?;
    client.close();
    match there || !args.must_exist {
        true => Ok(ExitCode::SUCCESS),
        false => Err(absent(&Shown(args.key.bytes()), false)),
    }
}

fn list(target: &str, space: u32, args: &KvList) -> Result<ExitCode, Failure> {
    let mut client = connect(target, space, &args.connect)?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut text = String::new();
    let prefix = args.prefix.as_ref().map_or(&[][..], |prefix| prefix.bytes());
    let listed = client.list(prefix, |keys| {
        text.clear();
        for key in keys.iter().take(left.try_into().unwrap_or(usize::MAX)) {
            left -= 1;
            let _ = match args.json {
                true => {
                    let (base64, plain) = (BASE64.encode(key), Shown(key).to_string());
                    writeln!(text, "{}", json!({ "key": base64, "text": plain }))
                }
                false => writeln!(text, "{}", Shown(key)),
            };
        }
        print::out(&text).map_err(ListingError)?;
        Ok(left > 0)
    });
    client.close();
    listed.map(|()| ExitCode::SUCCESS).map_err(|ListingError(failure)| failure)
}
