//! Memory that has been touched before it is needed.
//!
//! The system provides a page when it is first touched, which takes a microsecond, or ten
//! inside a virtual machine. A thread does that ahead of the engine, and asks for huge pages.

use crossbeam_channel::{Receiver, bounded};
use mynah_device::Memory;
use rustix::mm::{Advice, madvise};
use std::io;

/// The base page size.
const PAGE_BYTES: usize = 4096;

/// Memory of one size that a thread keeps ready.
#[derive(Debug)]
pub struct Reserve {
    bytes: usize,
    ready: Receiver<Vec<u8>>,
}

impl Reserve {
    /// Keeps a piece of `bytes` ready, and another in the making, until it is dropped.
    ///
    /// # Errors
    /// If no thread can be had.
    pub fn new(bytes: usize) -> io::Result<Reserve> {
        let (full, ready) = bounded(1);
        std::thread::Builder::new().name("memory".to_owned()).spawn(move || {
            // Whoever is served comes first.
            let _ = rustix::process::nice(10);
            while full.send(touched(bytes)).is_ok() {}
        })?;
        Ok(Reserve { bytes, ready })
    }
}

impl Memory for Reserve {
    fn take(&mut self, bytes: usize) -> Vec<u8> {
        match self.ready.try_recv() {
            Ok(memory) if bytes == self.bytes => memory,
            // The thread has not come so far: as the system gives it.
            _ => vec![0; bytes],
        }
    }
}

/// Zeroed memory that is really there.
fn touched(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0u8; bytes];
    let start = memory.as_ptr().align_offset(PAGE_BYTES);
    if let Some(pages) = memory.get_mut(start..) {
        // SAFETY: the range is this vector's own, begins at a page, and the advice changes
        // nothing about what it holds.
        #[allow(unsafe_code)]
        let advised =
            unsafe { madvise(pages.as_mut_ptr().cast(), pages.len(), Advice::LinuxHugepage) };
        // Without huge pages it is only a little slower.
        let _ = advised;
    }
    for page in memory.chunks_mut(PAGE_BYTES) {
        std::hint::black_box(page)[0] = 0;
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_comes_without_end() {
        let mut reserve = Reserve::new(1 << 20).unwrap();
        for _ in 0..20 {
            let mut memory = reserve.take(1 << 20);
            assert!(memory.len() == 1 << 20 && memory.iter().all(|&byte| byte == 0));
            memory.fill(7);
        }
        assert_eq!(reserve.take(5), [0; 5]);
    }
}
