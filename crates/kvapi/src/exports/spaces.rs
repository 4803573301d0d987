//! The functions of C about key spaces.

use super::pointers::{bytes_mut, device, get, handle, put, space, text};
use crate::abi::{
    DeviceHandle, KeySpaceHandle, KeySpaceInfo, KeySpaceName, KeySpaceOption, NAME_BYTES_MAX,
};
use crate::code::Code;
use crate::registry::{self, OpenSpace};
use crate::spaces::Order;
use core::ffi::c_char;
use std::sync::Arc;

/// Creates a key space whose pairs have at most so many bytes; 0: as many as the device has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_create_key_space(
    handle: DeviceHandle,
    name: *mut KeySpaceName,
    bytes: u64,
    option: KeySpaceOption,
) -> Code {
    let create = || {
        // SAFETY: See the module's description.
        let name = unsafe { get(name) }?;
        // SAFETY: See the module's description.
        let text = unsafe { text(name.name) }?;
        if text.len() != name.length as usize {
            return Err(Code::KeySpaceName);
        }
        let open = device(handle, Code::DeviceNotExist)?;
        let order = Order::of(option.ordering).ok_or(Code::OptionInvalid)?;
        open.device.create_space(text, bytes, order)
    };
    Code::of(create())
}

/// Deletes a key space with its pairs. It is closed, if it is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_delete_key_space(
    handle: DeviceHandle,
    name: *mut KeySpaceName,
) -> Code {
    let delete = || {
        // SAFETY: See the module's description.
        let name = unsafe { get(name) }?;
        // SAFETY: See the module's description.
        let text = unsafe { text(name.name) }?;
        let open = device(handle, Code::DeviceNotExist)?;
        open.device.delete_space(text, |id| registry::remove_space_of(handle.addr(), id))
    };
    Code::of(delete())
}

/// Says the names of key spaces, from the `index`-th on, which counts from 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_list_key_spaces(
    handle: DeviceHandle,
    index: u32,
    buffer_bytes: u32,
    names: *mut KeySpaceName,
    count: *mut u32,
) -> Code {
    let list = || {
        if names.is_null() || count.is_null() {
            return Err(Code::ParamInvalid);
        }
        let open = device(handle, Code::DeviceNotExist)?;
        let all = open.device.space_names()?;
        // SAFETY: See the module's description.
        unsafe { put(count, 0) }?;
        let skipped = index.checked_sub(1).ok_or(Code::KeySpaceIndex)? as usize;
        if skipped >= all.len() && skipped > 0 {
            return Err(Code::KeySpaceIndex);
        }
        let room = buffer_bytes as usize / size_of::<KeySpaceName>();
        if room == 0 && !all.is_empty() {
            return Err(Code::BufferSmall);
        }
        for (at, name) in all.iter().skip(skipped).take(room).enumerate() {
            // SAFETY: There is room for so many names, as the buffer's size says.
            let into = unsafe { names.add(at) };
            // SAFETY: See the module's description.
            unsafe { tell_name(name, into) }?;
            // SAFETY: See the module's description.
            unsafe { put(count, at as u32 + 1) }?;
        }
        Ok(())
    };
    Code::of(list())
}

/// Puts a name where its length says that there is room for it.
///
/// # Safety
/// See the module above.
unsafe fn tell_name(name: &[u8], into: *mut KeySpaceName) -> Result<(), Code> {
    // SAFETY: As of this function.
    let found = unsafe { get(into) }?;
    let room = found.length as usize;
    if name.len() > room {
        return Err(Code::BufferSmall);
    }
    // A zero byte follows where there is room for one.
    let bytes = (name.len() + 1).min(room);
    // SAFETY: As of this function.
    let buffer = unsafe { bytes_mut(found.name.cast(), bytes) }?;
    buffer[..name.len()].copy_from_slice(name);
    buffer[name.len()..].fill(0);
    // SAFETY: As of this function.
    unsafe { put(into, KeySpaceName { length: name.len() as u32, ..found }) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_open_key_space(
    owner: DeviceHandle,
    name: *mut c_char,
    opened: *mut KeySpaceHandle,
) -> Code {
    let open = || {
        if opened.is_null() {
            return Err(Code::ParamInvalid);
        }
        // SAFETY: See the module's description.
        let name = unsafe { text(name) }?;
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
            return Err(Code::KeySpaceName);
        }
        let open = device(owner, Code::DeviceNotExist)?;
        let number = open.device.open_space(name, |found| {
            registry::add_space(OpenSpace {
                owner: Arc::clone(&open),
                of: owner.addr(),
                id: found.id,
                name: found.name.clone(),
                limit: found.metadata.capacity,
                order: found.metadata.order,
            })
        })?;
        // SAFETY: See the module's description.
        unsafe { put(opened, handle(number)) }
    };
    Code::of(open())
}

/// Closes a key space, and its iterators.
#[unsafe(no_mangle)]
pub extern "C" fn kvs_close_key_space(handle: KeySpaceHandle) -> Code {
    let close = || {
        space(handle)?;
        let space = registry::remove_space(handle.addr()).ok_or(Code::KeySpaceNotOpen)?;
        space.device().close_space(space.id)
    };
    Code::of(close())
}

/// Says what a key space has. For its name there is room, with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_get_key_space_info(
    handle: KeySpaceHandle,
    info: *mut KeySpaceInfo,
) -> Code {
    let describe = || {
        // SAFETY: See the module's description.
        let found = unsafe { get(info) }?;
        let space = space(handle)?;
        let (capacity, free_size, count) = space.device().space_info(space.id, space.limit)?;
        if !found.name.is_null() {
            // SAFETY: See the module's description. Its length may be anything: OpenMPDK does not look at
            // it either.
            let name = unsafe { get(found.name) }?;
            if !name.name.is_null() {
                let length = space.name.len();
                // SAFETY: There is room for the name, as said above.
                let buffer = unsafe { bytes_mut(name.name.cast(), length + 1) }?;
                buffer[..length].copy_from_slice(&space.name);
                buffer[length] = 0;
            }
            let length = space.name.len() as u32;
            // SAFETY: See the module's description.
            unsafe { put(found.name, KeySpaceName { length, ..name }) }?;
        }
        let updated = KeySpaceInfo { opened: 1, capacity, free_size, count, name: found.name };
        // SAFETY: See the module's description.
        unsafe { put(info, updated) }
    };
    Code::of(describe())
}
