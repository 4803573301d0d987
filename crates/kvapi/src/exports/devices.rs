//! The functions of C about devices.

use super::pointers::{device, get, handle, put, text};
use crate::abi::{DeviceHandle, DeviceInfo, VALUE_BYTES_MAX};
use crate::code::Code;
use crate::device::{Device, Facts};
use crate::{registry, uri};
use core::ffi::c_char;

/// Longest name of a device, in bytes.
const URI_BYTES_MAX: usize = 4096;
/// Best size of a value, in bytes; larger values are best in steps of the granularity.
const OPTIMAL_BYTES: u32 = 4096;

/// Opens a device. Why one cannot be opened stands on the standard error output.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_open_device(name: *mut c_char, opened: *mut DeviceHandle) -> Code {
    let open = || {
        if opened.is_null() {
            return Err(Code::ParamInvalid);
        }
        // SAFETY: See the module's description.
        let name = unsafe { text(name) }?;
        if name.is_empty() || name.len() > URI_BYTES_MAX {
            return Err(Code::ParamInvalid);
        }
        let name = str::from_utf8(name).map_err(|_| Code::DeviceNotExist)?;
        let number = registry::add_device(name, || {
            let device = uri::parse(name).and_then(Device::open);
            device.map_err(|error| {
                eprintln!("mynah: cannot open `{name}`: {error}");
                Code::DeviceNotExist
            })
        })?;
        // SAFETY: See the module's description.
        unsafe { put(opened, handle(number)) }
    };
    Code::of(open())
}

/// Closes a device, with its key spaces, when all calls have ended that are under way.
#[unsafe(no_mangle)]
pub extern "C" fn kvs_close_device(handle: DeviceHandle) -> Code {
    let close = || {
        let open = device(handle, Code::DeviceNotOpened)?;
        // It would wait for itself.
        if open.device.worker.is_current() {
            return Err(Code::SysIo);
        }
        let (open, spaces) = registry::remove_device(handle.addr()).ok_or(Code::DeviceNotOpened)?;
        open.device.worker.drain();
        for id in spaces {
            open.device.close_space(id)?;
        }
        Ok(())
    };
    Code::of(close())
}

/// Says what a device is able to do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_get_device_info(handle: DeviceHandle, info: *mut DeviceInfo) -> Code {
    let describe = || {
        // SAFETY: See the module's description.
        unsafe { get(info) }?;
        let open = device(handle, Code::DeviceNotOpened)?;
        let facts = open.device.facts();
        let info_now = DeviceInfo {
            capacity: facts.capacity,
            unallocated: open.device.unallocated()?,
            value_max: facts.value_max,
            key_max: facts.key_max,
            value_optimal: optimal(facts),
            value_granularity: facts.value_granularity,
            extended: core::ptr::null_mut(),
        };
        // SAFETY: See the module's description.
        unsafe { put(info, info_now) }
    };
    Code::of(describe())
}

fn optimal(facts: &Facts) -> u32 {
    let grain = facts.value_granularity.clamp(1, VALUE_BYTES_MAX);
    OPTIMAL_BYTES.next_multiple_of(grain).min(facts.value_max)
}

/// Answers a question with a number.
unsafe fn tell<T: Copy>(
    handle: DeviceHandle,
    answer: *mut T,
    what: impl FnOnce(&Device) -> Result<T, Code>,
) -> Code {
    let ask = || {
        if answer.is_null() {
            return Err(Code::ParamInvalid);
        }
        let open = device(handle, Code::DeviceNotOpened)?;
        let what = what(&open.device)?;
        // SAFETY: See the module's description.
        unsafe { put(answer, what) }
    };
    Code::of(ask())
}

/// Capacity of a device in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_get_device_capacity(handle: DeviceHandle, bytes: *mut u64) -> Code {
    // SAFETY: See the module's description.
    unsafe { tell(handle, bytes, |device| Ok(device.facts().capacity)) }
}

/// How full a device is, in ten thousandths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_get_device_utilization(handle: DeviceHandle, share: *mut u32) -> Code {
    let share_of = |device: &Device| {
        let used = u128::from(device.used()?) * 10_000;
        Ok((used / u128::from(device.facts().capacity.max(1))).min(10_000) as u32)
    };
    // SAFETY: See the module's description.
    unsafe { tell(handle, share, share_of) }
}

/// Shortest key of a device, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_get_min_key_length(handle: DeviceHandle, bytes: *mut u32) -> Code {
    // SAFETY: See the module's description.
    unsafe { tell(handle, bytes, |device| Ok(device.facts().key_min)) }
}

/// Longest key of a device, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_get_max_key_length(handle: DeviceHandle, bytes: *mut u32) -> Code {
    // SAFETY: See the module's description.
    unsafe { tell(handle, bytes, |device| Ok(device.facts().key_max)) }
}

/// Smallest value of a device, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_get_min_value_length(handle: DeviceHandle, bytes: *mut u32) -> Code {
    // SAFETY: See the module's description.
    unsafe { tell(handle, bytes, |_| Ok(0)) }
}

/// Largest value of a device, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_get_max_value_length(handle: DeviceHandle, bytes: *mut u32) -> Code {
    // SAFETY: See the module's description.
    unsafe { tell(handle, bytes, |device| Ok(device.facts().value_max)) }
}

/// Best size of a value, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_get_optimal_value_length(
    handle: DeviceHandle,
    bytes: *mut u32,
) -> Code {
    // SAFETY: See the module's description.
    unsafe { tell(handle, bytes, |device| Ok(optimal(device.facts()))) }
}
