//! The functions of C about pairs.

use super::call::Call;
use super::pointers::{bytes, bytes_mut, get, key, put, space};
use crate::abi::{
    DeleteOption, ExistList, GroupFilter, Key, KeySpaceHandle, PairInfo, PostprocessFunction,
    RetrieveOption, StoreOption, Value, context,
};
use crate::code::Code;
use crate::device::{deletion, existed, placed};
use crate::engine::{Operation, Outcome};
use crate::iterator::Filter;
use crate::registry::OpenSpace;
use crate::table::{Retrieved, StoreKind};
use core::ffi::c_void;
use std::sync::Arc;

/// Pointers of a call for the thread that carries it out.
#[derive(Clone, Copy)]
struct Pointers {
    key: *mut Key,
    value: *mut Value,
}

// SAFETY: The program has made the call so that another thread uses them, and does not touch what they
// lead to before its function is called.
unsafe impl Send for Pointers {}

/// Pointers of a call about many keys.
#[derive(Clone, Copy)]
struct ListPointers {
    keys: *mut Key,
    list: *mut ExistList,
}

// SAFETY: As of `Pointers`.
unsafe impl Send for ListPointers {}

fn kind_of(option: Option<StoreOption>) -> Result<StoreKind, Code> {
    match option.map_or(0, |option| option.kind) {
        0 => Ok(StoreKind::Post),
        1 => Ok(StoreKind::UpdateOnly),
        2 => Ok(StoreKind::NoOverwrite),
        3 => Ok(StoreKind::Append),
        _ => Err(Code::OptionInvalid),
    }
}

/// An option, which need not be given.
///
/// # Safety
/// See the module above.
unsafe fn option<T: Copy>(from: *const T) -> Option<T> {
    // SAFETY: As of this function.
    unsafe { get(from) }.ok()
}

impl Pointers {
    /// What is to be stored.
    ///
    /// # Safety
    /// See the module above.
    unsafe fn stored<'a>(self, space: &OpenSpace) -> Result<(&'a [u8], &'a [u8]), Code> {
        // SAFETY: As of this function.
        let key = unsafe { key(space.device(), self.key) }?;
        // SAFETY: As of this function.
        let value = unsafe { get(self.value) }?;
        space.device().check_value(value.length as usize, value.offset, true)?;
        // SAFETY: As of this function.
        Ok((key, unsafe { bytes(value.value, value.length as usize) }?))
    }

    /// What is to be retrieved, from where on, and the buffer for it.
    ///
    /// # Safety
    /// See the module above.
    unsafe fn retrieved<'a>(
        self,
        space: &OpenSpace,
    ) -> Result<(&'a [u8], u32, &'a mut [u8]), Code> {
        // SAFETY: As of this function.
        let key = unsafe { key(space.device(), self.key) }?;
        // SAFETY: As of this function.
        let value = unsafe { get(self.value) }?;
        space.device().check_value(value.length as usize, value.offset, false)?;
        // SAFETY: As of this function.
        let buffer = unsafe { bytes_mut(value.value, value.length as usize) }?;
        Ok((key, value.offset, buffer))
    }

    /// Says what was retrieved.
    ///
    /// # Safety
    /// See the module above.
    unsafe fn tell(self, found: Retrieved) -> Result<(), Code> {
        // SAFETY: As of this function.
        let value = unsafe { get(self.value) }?;
        let updated = Value { length: found.copied, actual_size: found.size, ..value };
        // SAFETY: As of this function.
        unsafe { put(self.value, updated) }?;
        match found.size - value.offset > found.copied {
            true => Err(Code::BufferSmall),
            false => Ok(()),
        }
    }

    unsafe fn store(self, space: &OpenSpace, kind: StoreKind) -> Result<(), Code> {
        // SAFETY: See the module above.
        let (key, value) = unsafe { self.stored(space) }?;
        space.device().store(space.id, key, value, kind)
    }

    unsafe fn retrieve(self, space: &OpenSpace, delete: bool) -> Result<(), Code> {
        // SAFETY: See the module above.
        let (key, offset, buffer) = unsafe { self.retrieved(space) }?;
        let found = space.device().retrieve(space.id, key, offset, buffer, delete)?;
        // SAFETY: See the module above.
        unsafe { self.tell(found) }
    }

    unsafe fn delete(self, space: &OpenSpace, fails: bool) -> Result<(), Code> {
        // SAFETY: See the module above.
        let key = unsafe { key(space.device(), self.key) }?;
        was_there(space.device().delete(space.id, key, fails)?, fails)
    }
}

fn was_there(existed: bool, matters: bool) -> Result<(), Code> {
    if matters && !existed { Err(Code::KeyNotExist) } else { Ok(()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_store_kvp(
    handle: KeySpaceHandle,
    key: *mut Key,
    value: *mut Value,
    how: *mut StoreOption,
) -> Code {
    let store = || {
        let space = space(handle)?;
        // SAFETY: See the module's description.
        let kind = kind_of(unsafe { option(how) })?;
        // SAFETY: See the module's description.
        unsafe { Pointers { key, value }.store(&space, kind) }
    };
    Code::of(store())
}

/// Asynchronous [`kvs_store_kvp`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_store_kvp_async(
    handle: KeySpaceHandle,
    key: *mut Key,
    value: *mut Value,
    how: *mut StoreOption,
    private1: *mut c_void,
    private2: *mut c_void,
    function: PostprocessFunction,
) -> Code {
    let store = || {
        let space = space(handle)?;
        let pointers = Pointers { key, value };
        // SAFETY: See the module's description.
        let kind = kind_of(unsafe { option(how) })?;
        // SAFETY: See the module's description.
        let (name, bytes) = unsafe { pointers.stored(&space) }?;
        let call = Call::new(context::STORE, handle, [private1, private2], function)?;
        let call = call.with_pair(key, value);
        if space.device().engine().is_some() {
            let (name, value) = ((space.id, name.into()), bytes.to_vec());
            call.submit(&space, Operation::Store { name, value, kind }, |_| Ok(()));
        } else {
            // SAFETY: See the module's description.
            call.start(space, move |space| unsafe { { pointers }.store(space, kind) });
        }
        Ok(())
    };
    Code::of(store())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_retrieve_kvp(
    handle: KeySpaceHandle,
    key: *mut Key,
    how: *mut RetrieveOption,
    value: *mut Value,
) -> Code {
    let retrieve = || {
        let space = space(handle)?;
        // SAFETY: See the module's description.
        let how = unsafe { option(how) }.unwrap_or_default();
        // SAFETY: See the module's description.
        unsafe { Pointers { key, value }.retrieve(&space, how.delete != 0) }
    };
    Code::of(retrieve())
}

/// Asynchronous [`kvs_retrieve_kvp`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_retrieve_kvp_async(
    handle: KeySpaceHandle,
    key: *mut Key,
    how: *mut RetrieveOption,
    private1: *mut c_void,
    private2: *mut c_void,
    value: *mut Value,
    function: PostprocessFunction,
) -> Code {
    let retrieve = || {
        let space = space(handle)?;
        let pointers = Pointers { key, value };
        // SAFETY: See the module's description.
        let delete = unsafe { option(how) }.unwrap_or_default().delete != 0;
        // SAFETY: See the module's description.
        let (name, offset, buffer) = unsafe { pointers.retrieved(&space) }?;
        let call = Call::new(context::RETRIEVE, handle, [private1, private2], function)?;
        let call = call.with_pair(key, value);
        if space.device().engine().is_some() {
            let (name, bytes) = ((space.id, name.into()), buffer.len() as u32);
            let its = Arc::clone(&space);
            let complete = move |outcome: Outcome| {
                // SAFETY: See the module's description.
                let (_, _, buffer) = unsafe { { pointers }.retrieved(&its) }?;
                let found = placed(outcome, buffer)?;
                // SAFETY: See the module's description.
                unsafe { { pointers }.tell(found) }
            };
            call.submit(&space, Operation::Retrieve { name, offset, bytes, delete }, complete);
        } else {
            // SAFETY: See the module's description.
            call.start(space, move |space| unsafe { { pointers }.retrieve(space, delete) });
        }
        Ok(())
    };
    Code::of(retrieve())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_delete_kvp(
    handle: KeySpaceHandle,
    key: *mut Key,
    how: *mut DeleteOption,
) -> Code {
    let delete = || {
        let space = space(handle)?;
        // SAFETY: See the module's description.
        let fails = unsafe { option(how) }.unwrap_or_default().error != 0;
        let value = core::ptr::null_mut();
        // SAFETY: See the module's description.
        unsafe { Pointers { key, value }.delete(&space, fails) }
    };
    Code::of(delete())
}

/// Asynchronous [`kvs_delete_kvp`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_delete_kvp_async(
    handle: KeySpaceHandle,
    key_of: *mut Key,
    how: *mut DeleteOption,
    private1: *mut c_void,
    private2: *mut c_void,
    function: PostprocessFunction,
) -> Code {
    let delete = || {
        let space = space(handle)?;
        let pointers = Pointers { key: key_of, value: core::ptr::null_mut() };
        // SAFETY: See the module's description.
        let fails = unsafe { option(how) }.unwrap_or_default().error != 0;
        // SAFETY: See the module's description.
        let name = unsafe { key(space.device(), key_of) }?;
        let call = Call::new(context::DELETE, handle, [private1, private2], function)?;
        let call = call.with_pair(key_of, core::ptr::null_mut());
        if space.device().engine().is_some() {
            let complete = move |outcome| was_there(existed(outcome)?, fails);
            call.submit(&space, deletion(space.id, name, fails), complete);
        } else {
            // SAFETY: See the module's description.
            call.start(space, move |space| unsafe { { pointers }.delete(space, fails) });
        }
        Ok(())
    };
    Code::of(delete())
}

/// Deletes the pairs whose keys match a filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_delete_key_group(
    handle: KeySpaceHandle,
    filter: *mut GroupFilter,
) -> Code {
    let delete = || {
        let space = space(handle)?;
        // SAFETY: See the module's description.
        let filter = Filter::of(&unsafe { get(filter) }?);
        space.device().delete_group(space.id, &filter)
    };
    Code::of(delete())
}

/// Asynchronous [`kvs_delete_key_group`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_delete_key_group_async(
    handle: KeySpaceHandle,
    filter: *mut GroupFilter,
    private1: *mut c_void,
    private2: *mut c_void,
    function: PostprocessFunction,
) -> Code {
    let delete = || {
        let space = space(handle)?;
        // SAFETY: See the module's description.
        let filter = Filter::of(&unsafe { get(filter) }?);
        let call = Call::new(context::DELETE_GROUP, handle, [private1, private2], function)?;
        call.start(space, move |space| space.device().delete_group(space.id, &filter));
        Ok(())
    };
    Code::of(delete())
}

impl ListPointers {
    /// The keys, all of which the device can have.
    ///
    /// # Safety
    /// See the module above.
    unsafe fn keys<'a>(self, space: &OpenSpace, count: u32) -> Result<Vec<&'a [u8]>, Code> {
        if self.keys.is_null() || count == 0 {
            return Err(Code::ParamInvalid);
        }
        let key_at = |at| {
            // SAFETY: There are so many keys, as the caller says.
            let one = unsafe { self.keys.add(at) };
            // SAFETY: As of this function.
            unsafe { key(space.device(), one) }
        };
        (0..count as usize).map(key_at).collect()
    }

    /// Checks that the list has room for `count` answers, and writes the number of keys to it.
    ///
    /// # Safety
    /// See the module above.
    unsafe fn begin(self, count: u32) -> Result<(), Code> {
        // SAFETY: As of this function.
        let list = unsafe { get(self.list) }?;
        if list.buffer.is_null() {
            return Err(Code::ParamInvalid);
        }
        if list.length < count.div_ceil(8) {
            return Err(Code::BufferSmall);
        }
        // SAFETY: As of this function.
        unsafe { put(self.list, ExistList { count, keys: self.keys, ..list }) }
    }

    /// Asks for all keys.
    ///
    /// # Safety
    /// See the module above.
    unsafe fn ask(self, space: &OpenSpace, count: u32) -> Result<(), Code> {
        // SAFETY: As of this function.
        let keys = unsafe { self.keys(space, count) }?;
        let mut bits = vec![0u8; keys.len().div_ceil(8)];
        for (at, key) in keys.into_iter().enumerate() {
            bits[at / 8] |= u8::from(space.device().exists(space.id, key)?) << (at % 8);
        }
        // SAFETY: As of this function.
        unsafe { self.tell(&bits) }
    }

    /// Says which there are.
    ///
    /// # Safety
    /// See the module above.
    unsafe fn tell(self, bits: &[u8]) -> Result<(), Code> {
        // SAFETY: As of this function.
        let list = unsafe { get(self.list) }?;
        // SAFETY: As of this function; that there is room was seen before.
        unsafe { bytes_mut(list.buffer.cast(), bits.len()) }?.copy_from_slice(bits);
        // SAFETY: As of this function.
        unsafe { put(self.list, ExistList { length: bits.len() as u32, ..list }) }
    }
}

/// Says which of some keys there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_exist_kv_pairs(
    handle: KeySpaceHandle,
    count: u32,
    keys: *mut Key,
    list: *mut ExistList,
) -> Code {
    let ask = || {
        let space = space(handle)?;
        let pointers = ListPointers { keys, list };
        // SAFETY: See the module's description.
        unsafe { pointers.begin(count) }?;
        // SAFETY: See the module's description.
        unsafe { pointers.ask(&space, count) }
    };
    Code::of(ask())
}

/// Asynchronous [`kvs_exist_kv_pairs`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_exist_kv_pairs_async(
    handle: KeySpaceHandle,
    count: u32,
    keys: *mut Key,
    list: *mut ExistList,
    private1: *mut c_void,
    private2: *mut c_void,
    function: PostprocessFunction,
) -> Code {
    let ask = || {
        let space = space(handle)?;
        let pointers = ListPointers { keys, list };
        // SAFETY: See the module's description.
        let names = unsafe { pointers.keys(&space, count) }?;
        // SAFETY: See the module's description.
        unsafe { pointers.begin(count) }?;
        let call = Call::new(context::EXIST, handle, [private1, private2], function)?;
        let call = call.with_pair(keys, core::ptr::null_mut()).with_buffer(0, list.cast());
        match names[..] {
            [name] if space.device().engine().is_some() => {
                let complete = move |outcome| {
                    let bits = [u8::from(existed(outcome)?)];
                    // SAFETY: See the module's description.
                    unsafe { { pointers }.tell(&bits) }
                };
                call.submit(&space, Operation::Exist((space.id, name.into())), complete);
            }
            // SAFETY: See the module's description.
            _ => call.start(space, move |space| unsafe { { pointers }.ask(space, count) }),
        }
        Ok(())
    };
    Code::of(ask())
}

/// Says how long a value is, and what its key is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvs_get_kvp_info(
    handle: KeySpaceHandle,
    key_of: *mut Key,
    info: *mut PairInfo,
) -> Code {
    let describe = || {
        let space = space(handle)?;
        // SAFETY: See the module's description.
        let found = unsafe { get(info) }?;
        // SAFETY: See the module's description.
        let name = unsafe { key(space.device(), key_of) }?;
        let value_length = space.device().size(space.id, name)?;
        // SAFETY: See the module's description.
        unsafe { bytes_mut(found.key.cast(), name.len()) }?.copy_from_slice(name);
        let updated = PairInfo { key_length: name.len() as u16, value_length, ..found };
        // SAFETY: See the module's description.
        unsafe { put(info, updated) }
    };
    Code::of(describe())
}
