//! An instance of the kernel's trace, and its events: `Documentation/trace/ftrace.rst` and
//! `fprobetrace.rst` of Linux.
//!
//! Names have the process's number in them, so that what a killed run has left is known and removed.

use mynah_profile::kernel::{
    Alternative, Decoder, EventFormat, HOOKS, Hits, Hook, HookUse, LeftOut, hits,
};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where the trace is mounted, as a rule and on old systems.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// What instances and groups of events begin with; a process's number follows.
const INSTANCE: &str = "mynah-";
const GROUP: &str = "mynah_";

/// The kernel's trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// tracefs is not mounted.
    #[error("there is no tracefs at {}, nor at {}", PLACES[0], PLACES[1])]
    Absent,
    /// The user may not trace the kernel.
    #[error("{}: {error}: tracing the kernel takes root", path.display())]
    Denied {
        /// The file.
        path: PathBuf,
        /// Error of the system call.
        #[source]
        error: io::Error,
    },
    /// There is nothing to be traced.
    #[error("the kernel has no initiator for NVMe/TCP: the module nvme-tcp is not loaded")]
    NoInitiator,
    /// A hook without which there are no records.
    #[error("the kernel's trace has no hook `{hook}`, without which there are no records: {why}")]
    NoHook {
        /// Name of the hook.
        hook: &'static str,
        /// Why, as the kernel said last.
        why: String,
    },
    /// A system call failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system call.
        #[source]
        error: io::Error,
    },
}

fn failed(path: &Path, error: io::Error) -> TraceError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::PermissionDenied => TraceError::Denied { path, error },
        _ => TraceError::Io { path, error },
    }
}

/// Writes what a file of the trace is to do. Such files are never truncated: that would remove what
/// is of others.
fn tell(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
}

/// Whether another process with this number is alive that may have made what bears it.
fn is_alive(pid: &str) -> bool {
    let name = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    name(pid).is_some_and(|it| Some(it) == name("self")) && pid != std::process::id().to_string()
}

/// An instance. It and its events go with it.
#[derive(Debug)]
pub(super) struct Instance {
    root: PathBuf,
    folder: PathBuf,
    group: String,
    /// How each hook is seen, or what the kernel said last.
    found: Vec<(Hook, Result<Alternative, String>)>,
}

impl Instance {
    /// Makes one with all hooks that there are, none of which is on, and a ring of so many bytes for
    /// each processor. Some may be left out. What runs that were killed have left is removed.
    pub(super) fn create(ring_bytes: u64, left_out: &LeftOut) -> Result<Instance, TraceError> {
        let root = root()?;
        if !Path::new("/sys/module/nvme_tcp").exists() {
            return Err(TraceError::NoInitiator);
        }
        remove_remains(&root);
        let pid = std::process::id();
        let folder = root.join("instances").join(format!("{INSTANCE}{pid}"));
        fs::create_dir(&folder).map_err(|error| failed(&folder, error))?;
        let mut instance = Instance { root, folder, group: format!("{GROUP}{pid}"), found: vec![] };
        instance.set("trace_clock", "mono")?;
        instance.set("options/overwrite", "1")?;
        instance.set("buffer_size_kb", &(ring_bytes >> 10).to_string())?;
        for of in &HOOKS {
            let found = match left_out.has(of.hook) {
                true => Err("left out".to_owned()),
                false => instance.hook(of, left_out),
            };
            if let (true, Err(why)) = (of.is_needed, &found) {
                return Err(TraceError::NoHook { hook: of.name, why: why.clone() });
            }
            instance.found.push((of.hook, found));
        }
        Ok(instance)
    }

    /// Takes the first alternative that the kernel has.
    fn hook(&self, of: &HookUse, left_out: &LeftOut) -> Result<Alternative, String> {
        let mut why = "left out".to_owned();
        let alternatives = of.alternatives.iter();
        for alternative in alternatives.filter(|it| !left_out.has_probe(it.probe)) {
            match alternative.definition(&self.group, of.name) {
                None if self.event(of, alternative).is_dir() => return Ok(*alternative),
                None => why = "no such event".to_owned(),
                Some(line) => match tell(&self.root.join("dynamic_events"), &line) {
                    Ok(()) => return Ok(*alternative),
                    Err(error) => why = self.refusal().unwrap_or_else(|| error.to_string()),
                },
            }
        }
        Err(why)
    }

    /// What the kernel said last of a definition.
    fn refusal(&self) -> Option<String> {
        let log = fs::read_to_string(self.root.join("error_log")).ok()?;
        let line = log.lines().rev().find_map(|line| line.split_once("error: "))?.1;
        Some(line.chars().take(100).collect())
    }

    /// The folder of a hook's event.
    fn event(&self, of: &HookUse, alternative: &Alternative) -> PathBuf {
        let events = self.folder.join("events");
        match alternative.definition("", "") {
            None => events.join(alternative.at),
            Some(_) => events.join(&self.group).join(of.name),
        }
    }

    fn set(&self, file: &str, value: &str) -> Result<(), TraceError> {
        let path = self.folder.join(file);
        tell(&path, value).map_err(|error| failed(&path, error))
    }

    /// How each hook is seen, or why it is not.
    pub(super) fn found(&self) -> &[(Hook, Result<Alternative, String>)] {
        &self.found
    }

    /// Switches all hooks on; how their events are read. Controllers of these instances are not of
    /// NVMe/TCP, and left out.
    pub(super) fn start(&mut self, others: &[u32]) -> Result<Decoder, TraceError> {
        let mut decoder = Decoder::default();
        for (hook, found) in &mut self.found {
            let of = HookUse::of(*hook);
            let Ok(alternative) = found.clone() else { continue };
            let folder = match alternative.definition("", "") {
                None => self.folder.join("events").join(alternative.at),
                Some(_) => self.folder.join("events").join(&self.group).join(of.name),
            };
            let path = folder.join("format");
            let text = fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
            let format = EventFormat::parse(&text).map_err(|error| error.to_string());
            let added =
                format.and_then(|it| decoder.add(*hook, &it).map_err(|error| error.to_string()));
            match added {
                Ok(()) => {}
                Err(why) if of.is_needed => {
                    return Err(TraceError::NoHook { hook: of.name, why });
                }
                Err(why) => {
                    *found = Err(why);
                    continue;
                }
            }
            let mut filter: Vec<String> =
                others.iter().map(|number| format!("ctrl_id!={number}")).collect();
            if *hook == Hook::Completed {
                filter.push("qid!=0".to_owned());
            }
            if alternative.definition("", "").is_none() && !filter.is_empty() {
                let path = folder.join("filter");
                tell(&path, &filter.join(" && ")).map_err(|error| failed(&path, error))?;
            }
        }
        // Counts what ends, also where its event is lost. A kernel without histograms has none.
        let _ = tell(&self.completed().join("trigger"), "hist:keys=ctrl_id,qid if qid!=0");
        for (hook, found) in &self.found {
            let of = HookUse::of(*hook);
            if let Ok(alternative) = found {
                let path = self.event(of, alternative).join("enable");
                tell(&path, "1").map_err(|error| failed(&path, error))?;
            }
        }
        Ok(decoder)
    }

    fn completed(&self) -> PathBuf {
        self.folder.join("events/nvme/nvme_complete_rq")
    }

    /// Ends the recording; what there is can still be read.
    pub(super) fn stop(&self) -> Result<(), TraceError> {
        self.set("tracing_on", "0")
    }

    /// How many commands ended, as the kernel counted; `None` if it has not.
    pub(super) fn hits(&self) -> Option<Vec<Hits>> {
        hits(&fs::read_to_string(self.completed().join("hist")).ok()?)
    }

    /// The folders of processors that have a ring.
    fn processors(&self) -> Result<Vec<PathBuf>, TraceError> {
        let path = self.folder.join("per_cpu");
        let folders = fs::read_dir(&path).map_err(|error| failed(&path, error))?;
        let mut folders: Vec<PathBuf> = folders.flatten().map(|it| it.path()).collect();
        folders.sort();
        Ok(folders)
    }

    /// The rings of all processors.
    pub(super) fn rings(&self) -> Result<Vec<File>, TraceError> {
        let open = |folder: PathBuf| {
            let path = folder.join("trace_pipe_raw");
            let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
            let file = OpenOptions::new().read(true).custom_flags(flags).open(&path);
            file.map_err(|error| failed(&path, error))
        };
        self.processors()?.into_iter().map(open).collect()
    }

    /// Events of all processors that were written over, or for which there was no room.
    pub(super) fn lost(&self) -> Result<u64, TraceError> {
        let mut lost = 0;
        for folder in self.processors()? {
            let path = folder.join("stats");
            let text = fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
            let counts = text.lines().filter_map(|line| line.split_once(':'));
            let lossy = counts.filter(|(name, _)| {
                matches!(*name, "overrun" | "commit overrun" | "dropped events")
            });
            lost += lossy.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum::<u64>();
        }
        Ok(lost)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
        remove_group(&self.root, &self.group);
    }
}

fn root() -> Result<PathBuf, TraceError> {
    for place in PLACES {
        let path = Path::new(place).join("instances");
        match fs::read_dir(&path) {
            Ok(_) => return Ok(place.into()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(failed(&path, error));
            }
            Err(_) => {}
        }
    }
    Err(TraceError::Absent)
}

/// Removes events of a group. An instance that has them on has to be gone.
fn remove_group(root: &Path, group: &str) {
    let path = root.join("dynamic_events");
    for event in events(root).iter().filter(|event| event.split('/').next() == Some(group)) {
        let _ = tell(&path, &format!("-:{event}"));
    }
}

/// Events that somebody has made, as `group/name`.
fn events(root: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join("dynamic_events")).unwrap_or_default();
    let names = text.lines().filter_map(|line| {
        let name = line.split_whitespace().next()?.split_once(':')?.1;
        name.contains('/').then(|| name.to_owned())
    });
    names.collect()
}

/// Removes what runs have left that were killed.
fn remove_remains(root: &Path) {
    let instances = root.join("instances");
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(INSTANCE));
        if pid.is_some_and(|pid| is_pid(pid) && !is_alive(pid)) {
            let _ = fs::remove_dir(entry.path());
        }
    }
    let mut groups: Vec<String> = vec![];
    for event in events(root) {
        let group = event.split('/').next().unwrap_or_default();
        let pid = group.strip_prefix(GROUP);
        if pid.is_some_and(|pid| is_pid(pid) && !is_alive(pid)) {
            groups.push(group.to_owned());
        }
    }
    groups.sort();
    groups.dedup();
    for group in groups {
        remove_group(root, &group);
    }
}

fn is_pid(text: &str) -> bool {
    text.parse::<u32>().is_ok()
}
