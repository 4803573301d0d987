//! The functions of C about iterators.

use super::call::Call;
use super::pointers::{bytes_mut, get, put, space};
use crate::abi::{
    GroupFilter, IteratorList, IteratorOption, KeySpaceHandle, PostprocessFunction, context,
};
use crate::code::Code;
use crate::device::locked;
use crate::iterator::{Filter, Iterator};
use crate::registry::OpenSpace;
use crate::spaces::Order;
use core::ffi::c_void;
use std::sync::{Arc, Mutex};

/// Opens an iterator over the keys that match a filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_create_iterator(
    handle: KeySpaceHandle,
    how: *mut IteratorOption,
    filter: *mut GroupFilter,
    opened: *mut u8,
) -> Code {
    let create = || {
        let space = space(handle)?;
        if opened.is_null() {
            return Err(Code::ParamInvalid);
        }
        // SAFETY: See the module's description.
        let how = unsafe { get(how) }.unwrap_or_default();
        // SAFETY: See the module's description.
        let filter = Filter::of(&unsafe { get(filter) }?);
        let with_values = match how.kind {
            0 => false,
            1 => true,
            _ => return Err(Code::OptionInvalid),
        };
        if !filter.is_prefix() {
            return Err(Code::IteratorFilterInvalid);
        }
        let device = space.device();
        let descending = space.order == Order::Descending;
        let mut iterators = locked(&device.iterators);
        let number = iterators.open(device, space.id, filter, with_values, descending)?;
        // SAFETY: See the module's description.
        unsafe { put(opened, number) }
    };
    Code::of(create())
}

/// Closes an iterator.
#[unsafe(no_mangle)]
pub extern "C" fn kvs_delete_iterator(handle: KeySpaceHandle, iterator: u8) -> Code {
    let delete = || {
        let space = space(handle)?;
        locked(&space.device().iterators).close(space.id, iterator)
    };
    Code::of(delete())
}

/// The pointer of a call for the thread that carries it out.
#[derive(Clone, Copy)]
struct ListPointer(*mut IteratorList);

// SAFETY: The program has made the call so that another thread uses it, and does not touch what it leads
// to before its function is called.
unsafe impl Send for ListPointer {}

impl ListPointer {
    /// Whether there is a list with a buffer.
    ///
    /// # Safety
    /// See the module above.
    unsafe fn check(self) -> Result<(), Code> {
        // SAFETY: As of this function.
        match unsafe { get(self.0) }?.list.is_null() {
            true => Err(Code::ParamInvalid),
            false => Ok(()),
        }
    }

    /// Fills the list.
    ///
    /// # Safety
    /// See the module above.
    unsafe fn fill(self, space: &OpenSpace, iterator: &Mutex<Iterator>) -> Result<(), Code> {
        // SAFETY: As of this function.
        let list = unsafe { get(self.0) }?;
        // SAFETY: As of this function.
        let buffer = unsafe { bytes_mut(list.list.cast(), list.size as usize) }?;
        let filled = locked(iterator).fill(space.device(), buffer)?;
        let updated = IteratorList {
            count: filled.entries,
            end: filled.end.into(),
            size: filled.bytes,
            ..list
        };
        // SAFETY: As of this function.
        unsafe { put(self.0, updated) }
    }
}

fn find(space: &OpenSpace, iterator: u8) -> Result<Arc<Mutex<Iterator>>, Code> {
    locked(&space.device().iterators).get(space.id, iterator)
}

/// Returns the next keys of an iterator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_iterate_next(
    handle: KeySpaceHandle,
    iterator: u8,
    list: *mut IteratorList,
) -> Code {
    let next = || {
        // SAFETY: See the module's description.
        unsafe { ListPointer(list).check() }?;
        let space = space(handle)?;
        let iterator = find(&space, iterator)?;
        // SAFETY: See the module's description.
        unsafe { ListPointer(list).fill(&space, &iterator) }
    };
    Code::of(next())
}

/// Asynchronous [`kvs_iterate_next`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_iterate_next_async(
    handle: KeySpaceHandle,
    iterator: u8,
    list: *mut IteratorList,
    private1: *mut c_void,
    private2: *mut c_void,
    function: PostprocessFunction,
) -> Code {
    let next = || {
        let pointer = ListPointer(list);
        // SAFETY: See the module's description.
        unsafe { pointer.check() }?;
        let space = space(handle)?;
        let found = find(&space, iterator)?;
        let call = Call::new(context::ITERATE, handle, [private1, private2], function)?;
        let call = call.with_buffer(iterator, list.cast());
        // SAFETY: See the module's description.
        call.start(space, move |space| unsafe { { pointer }.fill(space, &found) });
        Ok(())
    };
    Code::of(next())
}
