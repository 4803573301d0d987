//! What pointers of programs lead to.

use crate::abi::Key;
use crate::code::Code;
use crate::device::Device;
use crate::registry::{self, OpenDevice, OpenSpace};
use core::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

/// Reads a structure.
///
/// # Safety
/// See the module above.
pub(super) unsafe fn get<T: Copy>(from: *const T) -> Result<T, Code> {
    if from.is_null() {
        return Err(Code::ParamInvalid);
    }
    // SAFETY: It leads to one, as the caller says.
    Ok(unsafe { from.read() })
}

/// Writes a structure.
///
/// # Safety
/// See the module above.
pub(super) unsafe fn put<T: Copy>(into: *mut T, what: T) -> Result<(), Code> {
    if into.is_null() {
        return Err(Code::ParamInvalid);
    }
    // SAFETY: It leads to room for one, as the caller says.
    unsafe { into.write(what) };
    Ok(())
}

/// Bytes that are read.
///
/// # Safety
/// See the module above.
pub(super) unsafe fn bytes<'a>(from: *const c_void, length: usize) -> Result<&'a [u8], Code> {
    match (from.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Code::ParamInvalid),
        // SAFETY: So many bytes are there, as the caller says.
        _ => Ok(unsafe { core::slice::from_raw_parts(from.cast(), length) }),
    }
}

/// Bytes that are written.
///
/// # Safety
/// See the module above.
pub(super) unsafe fn bytes_mut<'a>(into: *mut c_void, length: usize) -> Result<&'a mut [u8], Code> {
    match (into.is_null(), length) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Code::ParamInvalid),
        // SAFETY: There is room for so many bytes, as the caller says, which may hold anything: only
        // bytes are written there, and none is read that was not.
        _ => Ok(unsafe { core::slice::from_raw_parts_mut(into.cast(), length) }),
    }
}

/// A string of at most so many bytes.
///
/// # Safety
/// See the module above.
pub(super) unsafe fn text<'a>(from: *const c_char) -> Result<&'a [u8], Code> {
    if from.is_null() {
        return Err(Code::ParamInvalid);
    }
    // SAFETY: It leads to a string that ends, as the caller says.
    Ok(unsafe { CStr::from_ptr(from) }.to_bytes())
}

/// A key that a device can have.
///
/// # Safety
/// See the module above.
pub(super) unsafe fn key<'a>(device: &Device, from: *const Key) -> Result<&'a [u8], Code> {
    // SAFETY: As of this function.
    let key = unsafe { get(from) }?;
    if key.length == 0 {
        return Err(Code::KeyLengthInvalid);
    }
    // SAFETY: As of this function.
    let bytes = unsafe { bytes(key.key, key.length.into()) }?;
    device.check_key(bytes)?;
    Ok(bytes)
}

/// An open device; `absent` is said if it is not open.
pub(super) fn device(handle: *mut c_void, absent: Code) -> Result<Arc<OpenDevice>, Code> {
    if handle.is_null() {
        return Err(Code::ParamInvalid);
    }
    registry::device(handle.addr()).ok_or(absent)
}

/// The open key space of a handle.
pub(super) fn space(handle: *mut c_void) -> Result<Arc<OpenSpace>, Code> {
    if handle.is_null() {
        return Err(Code::ParamInvalid);
    }
    registry::space(handle.addr()).ok_or(Code::KeySpaceNotOpen)
}

/// A handle as programs have it.
pub(super) fn handle(number: usize) -> *mut c_void {
    core::ptr::without_provenance_mut(number)
}
