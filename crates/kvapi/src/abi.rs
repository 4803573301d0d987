//! The structures of `include/kvs_struct.h`, laid out as C has them. Enumerations are numbers here, and
//! truth values bytes: a program may have written anything there.

use core::ffi::{c_char, c_void};

/// Shortest key of a device in this process, and longest.
pub const KEY_BYTES: core::ops::RangeInclusive<usize> = 4..=255;
pub const VALUE_BYTES_MAX: u32 = 2 << 20;
/// Offsets into values are multiples of this.
pub const OFFSET_GRAIN: u32 = 512;
/// Most iterators of a device that are open at once.
pub const ITERATORS_MAX: usize = 16;
/// Most bytes of a key space's name.
pub const NAME_BYTES_MAX: usize = 255;

/// `kvs_context` of the asynchronous calls.
pub mod context {
    /// `KVS_CMD_DELETE`.
    pub const DELETE: u32 = 1;
    /// `KVS_CMD_DELETE_GROUP`.
    pub const DELETE_GROUP: u32 = 2;
    /// `KVS_CMD_EXIST`.
    pub const EXIST: u32 = 3;
    /// `KVS_CMD_ITER_NEXT`.
    pub const ITERATE: u32 = 6;
    /// `KVS_CMD_RETRIEVE`.
    pub const RETRIEVE: u32 = 7;
    /// `KVS_CMD_STORE`.
    pub const STORE: u32 = 8;
}

/// `kvs_device_handle`: a number, and no address.
pub type DeviceHandle = *mut c_void;
/// `kvs_key_space_handle`: a number, and no address.
pub type KeySpaceHandle = *mut c_void;

/// `kvs_option_key_space`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KeySpaceOption {
    /// 0: none; 1: ascending; 2: descending.
    pub ordering: u32,
}

/// `kvs_option_delete`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DeleteOption {
    /// Whether a key that does not exist is an error.
    pub error: u8,
}

/// `kvs_option_iterator`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct IteratorOption {
    /// 0: keys; 1: keys and values.
    pub kind: u32,
}

/// `kvs_option_retrieve`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RetrieveOption {
    /// Whether the pair is deleted.
    pub delete: u8,
}

/// `kvs_option_store`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StoreOption {
    /// `kvs_store_type`.
    pub kind: u32,
    /// Ignored.
    pub association: *mut c_void,
}

/// `kvs_key`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Key {
    pub key: *mut c_void,
    /// In bytes.
    pub length: u16,
}

/// `kvs_value`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Value {
    pub value: *mut c_void,
    /// Bytes of the buffer, or of the value in it.
    pub length: u32,
    /// Bytes of the whole value.
    pub actual_size: u32,
    /// Where in the value to begin.
    pub offset: u32,
}

/// `kvs_key_space_name`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KeySpaceName {
    /// In bytes.
    pub length: u32,
    pub name: *mut c_char,
}

/// `kvs_key_space`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KeySpaceInfo {
    pub opened: u8,
    /// Bytes that its pairs may have.
    pub capacity: u64,
    /// Bytes that are left of the capacity.
    pub free_size: u64,
    /// Number of pairs.
    pub count: u64,
    /// Its name, with the caller's memory.
    pub name: *mut KeySpaceName,
}

/// `kvs_device`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceInfo {
    /// In bytes.
    pub capacity: u64,
    /// Bytes that no key space has been promised.
    pub unallocated: u64,
    /// In bytes.
    pub value_max: u32,
    /// In bytes.
    pub key_max: u32,
    /// In bytes.
    pub value_optimal: u32,
    /// Sizes are best that are multiples of this.
    pub value_granularity: u32,
    /// Null.
    pub extended: *mut c_void,
}

/// `kvs_exist_list`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ExistList {
    /// Number of keys.
    pub count: u32,
    pub keys: *mut Key,
    /// Bytes of the buffer, then those that were written.
    pub length: u32,
    /// A bit for each key.
    pub buffer: *mut u8,
}

/// `kvs_key_group_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct GroupFilter {
    /// Bits of the key that are compared.
    pub mask: [u8; 4],
    /// Values of these bits.
    pub pattern: [u8; 4],
}

/// `kvs_iterator_list`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IteratorList {
    /// Number of entries.
    pub count: u32,
    /// Whether the iterator is at its end.
    pub end: u8,
    /// Bytes of the buffer, then those that were written.
    pub size: u32,
    pub list: *mut u8,
}

/// `kvs_postprocess_context`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PostprocessContext {
    /// The kind of call, of [`context`].
    pub context: u32,
    pub key_space: KeySpaceHandle,
    pub key: *mut Key,
    pub value: *mut Value,
    /// Null.
    pub option: *mut c_void,
    /// Given back unchanged.
    pub private1: *mut c_void,
    /// Given back unchanged.
    pub private2: *mut c_void,
    /// `kvs_result`.
    pub result: u32,
    /// Handle of the iterator, if the call is about one.
    pub iterator: u8,
    /// `kvs_exist_list` or `kvs_iterator_list`.
    pub buffer: *mut c_void,
}

/// `kvs_postprocess_function`.
pub type PostprocessFunction = Option<unsafe extern "C" fn(*mut PostprocessContext)>;

/// `kvs_kvp_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PairInfo {
    /// In bytes.
    pub key_length: u16,
    /// Room for the key.
    pub key: *mut u8,
    /// In bytes.
    pub value_length: u32,
}
