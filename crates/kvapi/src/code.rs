//! How calls end: the codes of the API, and what becomes one.

/// `kvs_result`, and its success apart: what went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// The call did what it should.
    Success = 0x00,
    /// The buffer has got what it has room for.
    BufferSmall = 0x01,
    /// The device has not so much room.
    DeviceCapacity = 0x02,
    DeviceNotExist = 0x03,
    /// The key space, or its device, is full.
    KeySpaceCapacity = 0x04,
    /// There is a key space with this name.
    KeySpaceExist = 0x05,
    /// There are fewer key spaces.
    KeySpaceIndex = 0x06,
    /// This cannot be the name of a key space.
    KeySpaceName = 0x07,
    /// There is no such key space.
    KeySpaceNotExist = 0x08,
    /// The key space is not open.
    KeySpaceNotOpen = 0x09,
    /// The key space is open already.
    KeySpaceOpen = 0x0a,
    /// The mask of a filter does not begin with its ones.
    IteratorFilterInvalid = 0x0b,
    /// There are as many iterators as there can be.
    IteratorMax = 0x0c,
    /// There is no such iterator.
    IteratorNotExist = 0x0d,
    /// There is such an iterator already.
    IteratorOpen = 0x0e,
    /// The device has no keys of this length.
    KeyLengthInvalid = 0x0f,
    KeyNotExist = 0x10,
    /// An option has a value that the device does not know.
    OptionInvalid = 0x11,
    /// A pointer is null, or what it leads to cannot be.
    ParamInvalid = 0x12,
    /// The device could not do it.
    SysIo = 0x13,
    /// The device has no values of this length.
    ValueLengthInvalid = 0x14,
    /// The offset lies behind the value.
    ValueOffsetInvalid = 0x15,
    /// An offset is a multiple of 512.
    ValueOffsetMisaligned = 0x16,
    /// The key exists, and is not to be overwritten.
    ValueUpdateNotAllowed = 0x17,
    DeviceNotOpened = 0x18,
}

impl Code {
    /// How a call with this result ended.
    pub(crate) fn of<T>(result: Result<T, Code>) -> Code {
        result.err().unwrap_or(Code::Success)
    }
}
