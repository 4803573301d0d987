//! Memory for programs that ask the library for it.

use core::ffi::{c_char, c_void};

/// Memory whose address is a multiple of `alignment`, which is a power of two, or 0.
fn allocate(bytes: usize, alignment: usize) -> *mut c_void {
    let alignment = alignment.max(align_of::<libc::max_align_t>());
    let mut memory = core::ptr::null_mut();
    // SAFETY: The pointer is one of ours; an alignment that is none is refused.
    match unsafe { libc::posix_memalign(&mut memory, alignment, bytes.max(1)) } {
        0 => memory,
        _ => core::ptr::null_mut(),
    }
}

/// Memory; `kvs_malloc` in programs.
#[unsafe(no_mangle)]
pub extern "C" fn _kvs_malloc(bytes: usize, alignment: usize, _file: *const c_char) -> *mut c_void {
    allocate(bytes, alignment)
}

/// Memory full of zeros; `kvs_zalloc` in programs.
#[unsafe(no_mangle)]
pub extern "C" fn _kvs_zalloc(bytes: usize, alignment: usize, _file: *const c_char) -> *mut c_void {
    let memory = allocate(bytes, alignment);
    if !memory.is_null() {
        // SAFETY: There are so many bytes.
        unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
    }
    memory
}

/// Gives memory back; `kvs_free` in programs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _kvs_free(memory: *mut c_void, _file: *const c_char) {
    // SAFETY: It is null, or came from here, and is not used any more.
    unsafe { libc::free(memory) };
}
