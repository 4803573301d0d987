//! `mynah cache`: the prepared drives that are kept, listed and removed.

use crate::args::{Cache, CacheVerb};
use crate::failure::Failure;
use crate::machine::since;
use crate::print;
use mynah_lab::StateCache;
use mynah_lab::state_cache::{Contents, Entry};
use mynah_result::figures::bytes;
use std::fmt::Write;

pub(crate) fn run(args: &Cache) -> Result<bool, Failure> {
    let Some(states) = args.states.states()? else {
        let why = match (&args.states.state_cache, std::env::var_os("MYNAH_STATE_CACHE")) {
            (Some(_), _) => "--state-cache is off",
            (None, Some(_)) => "MYNAH_STATE_CACHE is off",
            (None, None) => "there is no home; --state-cache names a folder",
        };
        print::out(&format!("nothing is kept: {why}\n"))?;
        return Ok(false);
    };
    let folder = states.folder().display();
    let text = match args.what {
        CacheVerb::List => list(&states),
        CacheVerb::Clear => {
            let cleared = states.clear();
            let (count, held) =
                cleared.map_err(|error| Failure::failed(format!("{folder}: {error}"), None))?;
            {
                let files = if count == 1 { "file" } else { "files" };
                format!("{folder}: {count} {files} removed, {}\n", bytes(held as f64))
            }
        }
    };
    print::out(&text)?;
    Ok(false)
}

fn list(states: &StateCache) -> String {
    let entries = states.entries();
    let names = shipped_by_hash();
    let mut text = String::new();
    for Entry { bytes: size, last_used, contents, .. } in &entries {
        let unused = last_used.map(since).unwrap_or_default();
        let of = match contents {
            Contents::Drive(about) => {
                let named = names.iter().find(|(hash, _)| about.of.contains(hash));
                let of =
                    named.map_or(about.of.clone(), |(hash, name)| about.of.replace(hash, name));
                match about.build == mynah_lab::BUILD {
                    true => of,
                    false => format!("{of} (of another build: {})", about.build),
                }
            }
            Contents::AnotherUser => "another user's: not used".to_owned(),
            Contents::Unknown => "none of Mynah's, or damaged: not used".to_owned(),
        };
        let _ =
            writeln!(text, "{:>10}  {:>8} ago  {of}", bytes(*size as f64), ago(unused.as_secs()));
    }
    let folder = states.folder().display();
    let (held, bound) = (bytes(states.held() as f64), bytes(states.bound() as f64));
    let drives = if entries.len() == 1 { "drive" } else { "drives" };
    let why = if states.is_bounded_by_room() { ", a tenth of what is free there" } else { "" };
    let count = entries.len();
    let _ = writeln!(text, "{count} prepared {drives} in {folder}: {held} of {bound}{why}");
    let (count, bytes_of) = states.unfinished();
    if count > 0 {
        let size = bytes(bytes_of as f64);
        let _ = writeln!(
            text,
            "{size} of that in {count} that a run is writing, or was when it was killed: `mynah cache \
             clear` removes them"
        );
    }
    if let Some(error) = states.obstacle() {
        let _ = writeln!(text, "nothing can be kept there: {error}");
    }
    text
}

/// The hashes and names of shipped drives.
fn shipped_by_hash() -> Vec<(String, &'static str)> {
    let shipped = mynah_drive_file::shipped().iter();
    shipped
        .filter_map(|it| Some((mynah_drive_file::load(it.name, &[]).ok()?.hash, it.name)))
        .collect()
}

/// A time in its largest unit.
fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
