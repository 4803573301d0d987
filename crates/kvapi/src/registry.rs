//! What is open, by handle. Handles are numbers that are never used again, and no addresses: one that
//! is not open, or never was, is found not to be here.

use crate::code::Code;
use crate::device::Device;
use crate::spaces::Order;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) struct OpenDevice {
    pub(crate) uri: String,
    pub(crate) device: Device,
}

pub(crate) struct OpenSpace {
    pub(crate) owner: Arc<OpenDevice>,
    pub(crate) of: usize,
    pub(crate) id: u8,
    pub(crate) name: Vec<u8>,
    pub(crate) limit: u64,
    pub(crate) order: Order,
}

impl OpenSpace {
    pub(crate) fn device(&self) -> &Device {
        &self.owner.device
    }
}

#[derive(Default)]
pub(crate) struct Registry {
    last: usize,
    devices: HashMap<usize, Arc<OpenDevice>>,
    spaces: HashMap<usize, Arc<OpenSpace>>,
    /// Devices that are being opened.
    opening: Vec<String>,
}

static REGISTRY: LazyLock<RwLock<Registry>> = LazyLock::new(RwLock::default);

fn read() -> RwLockReadGuard<'static, Registry> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Registry> {
    REGISTRY.write().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    fn handle(&mut self) -> usize {
        // Not the null pointer, and nothing that could be one of an object.
        self.last += 1;
        self.last
    }
}

/// Opens a device with `open`, unless it is open.
///
/// # Errors
/// If it is, or cannot be opened.
pub(crate) fn add_device(
    uri: &str,
    open: impl FnOnce() -> Result<Device, Code>,
) -> Result<usize, Code> {
    {
        let mut registry = write();
        let is_open = registry.devices.values().any(|it| it.uri == uri);
        if is_open || registry.opening.iter().any(|it| it == uri) {
            return Err(Code::SysIo);
        }
        registry.opening.push(uri.to_owned());
    }
    let opened = open();
    let mut registry = write();
    registry.opening.retain(|it| it != uri);
    let device = OpenDevice { uri: uri.to_owned(), device: opened? };
    let handle = registry.handle();
    registry.devices.insert(handle, Arc::new(device));
    Ok(handle)
}

pub(crate) fn device(handle: usize) -> Option<Arc<OpenDevice>> {
    read().devices.get(&handle).cloned()
}

pub(crate) fn space(handle: usize) -> Option<Arc<OpenSpace>> {
    read().spaces.get(&handle).cloned()
}

/// Takes a device out, and with it its key spaces, whose numbers are returned.
pub(crate) fn remove_device(handle: usize) -> Option<(Arc<OpenDevice>, Vec<u8>)> {
    let mut registry = write();
    let device = registry.devices.remove(&handle)?;
    let spaces = registry.spaces.extract_if(|_, space| space.of == handle);
    let ids = spaces.map(|(_, space)| space.id).collect();
    Some((device, ids))
}

/// Adds a key space, unless it is open.
///
/// # Errors
/// If it is.
pub(crate) fn add_space(space: OpenSpace) -> Result<usize, Code> {
    let mut registry = write();
    if registry.spaces.values().any(|it| it.of == space.of && it.id == space.id) {
        return Err(Code::KeySpaceOpen);
    }
    let handle = registry.handle();
    registry.spaces.insert(handle, Arc::new(space));
    Ok(handle)
}

pub(crate) fn remove_space(handle: usize) -> Option<Arc<OpenSpace>> {
    write().spaces.remove(&handle)
}

/// Takes a key space out, whatever its handle.
pub(crate) fn remove_space_of(device: usize, id: u8) {
    write().spaces.retain(|_, space| space.of != device || space.id != id);
}
