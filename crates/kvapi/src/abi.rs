//! The structures of `include/kvs_struct.h`, laid out as C has them. Enumerations are numbers here, and
//! truth values bytes: a program may have written anything there.

use core::ffi::{c_char, c_void};

/// Shortest key of a device in this process, and longest.
pub const KEY_BYTES: core::ops::RangeInclusive<usize> = 4..=255;
/// Largest value.
pub const VALUE_BYTES_MAX: u32 = 2 << 20;
/// Offsets into values are multiples of this.
pub const OFFSET_GRAIN: u32 = 512;
/// Iterators of a device.
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
    /// Not looked at.
    pub association: *mut c_void,
}

/// `kvs_key`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Key {
    /// Its bytes.
    pub key: *mut c_void,
    /// How many.
    pub length: u16,
}

/// `kvs_value`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Value {
    /// A buffer.
    pub value: *mut c_void,
    /// Its bytes.
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
    /// Bytes of the name.
    pub length: u32,
    /// The name.
    pub name: *mut c_char,
}

/// `kvs_key_space`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KeySpaceInfo {
    /// Whether it is open.
    pub opened: u8,
    /// Bytes that its pairs may have.
    pub capacity: u64,
    /// Bytes that are left of these.
    pub free_size: u64,
    /// Pairs.
    pub count: u64,
    /// Its name, with the caller's memory.
    pub name: *mut KeySpaceName,
}

/// `kvs_device`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceInfo {
    /// Bytes.
    pub capacity: u64,
    /// Bytes that no key space has been promised.
    pub unallocated: u64,
    /// Most bytes of a value.
    pub value_max: u32,
    /// Most bytes of a key.
    pub key_max: u32,
    /// The best size of a value.
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
    /// How many keys.
    pub count: u32,
    /// The keys.
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
    /// Which bits count.
    pub mask: [u8; 4],
    /// What they are.
    pub pattern: [u8; 4],
}

/// `kvs_iterator_list`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IteratorList {
    /// How many entries.
    pub count: u32,
    /// There is nothing behind them.
    pub end: u8,
    /// Bytes of the buffer, then those that were written.
    pub size: u32,
    /// The buffer.
    pub list: *mut u8,
}

/// `kvs_postprocess_context`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PostprocessContext {
    /// Which call.
    pub context: u32,
    /// Its key space.
    pub key_space: KeySpaceHandle,
    /// Its key.
    pub key: *mut Key,
    /// Its value.
    pub value: *mut Value,
    /// Null.
    pub option: *mut c_void,
    /// The caller's.
    pub private1: *mut c_void,
    /// The caller's.
    pub private2: *mut c_void,
    /// How it ended.
    pub result: u32,
    /// Its iterator.
    pub iterator: u8,
    /// Its list of either kind.
    pub buffer: *mut c_void,
}

/// `kvs_postprocess_function`.
pub type PostprocessFunction = Option<unsafe extern "C" fn(*mut PostprocessContext)>;

/// `kvs_kvp_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PairInfo {
    /// Bytes of the key.
    pub key_length: u16,
    /// Room for it.
    pub key: *mut u8,
    /// Bytes of the value.
    pub value_length: u32,
}
