//! What sysfs says of NVMe controllers.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

const CLASS: &str = "/sys/class/nvme";

/// What sysfs says of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    /// Its connections are NVMe/TCP.
    pub(super) is_tcp: bool,
    /// What its target calls it (CNTLID).
    pub(super) id: u16,
}

/// Controllers by their instance, as far as they have been asked for.
#[derive(Debug, Default)]
pub(super) struct Controllers {
    known: HashMap<u32, Option<Controller>>,
    /// Bytes of a block, by instance and namespace.
    blocks: HashMap<(u32, u32), Option<u32>>,
}

fn folder(instance: u32) -> PathBuf {
    Path::new(CLASS).join(format!("nvme{instance}"))
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn controller(instance: u32) -> Option<Controller> {
    let folder = folder(instance);
    let is_tcp = text(&folder.join("transport"))? == "tcp";
    let id = text(&folder.join("cntlid")).and_then(|id| id.parse().ok());
    Some(Controller { is_tcp, id: id.filter(|_| is_tcp).unwrap_or(0) })
}

/// Controllers that are there now and are not of NVMe/TCP.
pub(super) fn others() -> Vec<u32> {
    let entries = fs::read_dir(CLASS).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let instances = names.filter_map(|name| name.strip_prefix("nvme")?.parse().ok());
    let mut others: Vec<u32> =
        instances.filter(|&it| controller(it).is_some_and(|it| !it.is_tcp)).collect();
    others.sort_unstable();
    others
}

impl Controllers {
    /// The controller of an instance; `None` if it is gone.
    pub(super) fn get(&mut self, instance: u32) -> Option<Controller> {
        *self.known.entry(instance).or_insert_with(|| controller(instance))
    }

    /// Connections were made: identifiers may be others. Those of controllers that are gone stay.
    pub(super) fn refresh(&mut self) {
        for (&instance, known) in &mut self.known {
            if let Some(new) = controller(instance) {
                *known = Some(new);
            }
        }
    }

    /// Bytes of a block of a namespace.
    pub(super) fn block_bytes(&mut self, instance: u32, namespace: u32) -> Option<u32> {
        *self.blocks.entry((instance, namespace)).or_insert_with(|| {
            let disks = fs::read_dir(folder(instance)).ok()?.flatten().map(|entry| entry.path());
            let mut of_it = disks.filter(|disk| {
                text(&disk.join("nsid")).is_some_and(|id| id == namespace.to_string())
            });
            text(&of_it.next()?.join("queue/logical_block_size"))?.parse().ok()
        })
    }
}
