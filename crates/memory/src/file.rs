//! Files that are read as memory.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice;

/// All of a file, to be read. For files that nobody changes once they have their name: whoever shortens
/// one that is mapped ends this process with a signal.
#[derive(Debug)]
pub struct MappedFile {
    /// `None`: the file is empty.
    base: Option<NonNull<u8>>,
    bytes: usize,
}

impl MappedFile {
    /// Maps all of `file`, and asks for it to be brought near at once.
    ///
    /// # Errors
    /// If it cannot be mapped.
    pub fn new(file: &File) -> io::Result<MappedFile> {
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if bytes == 0 {
            return Ok(MappedFile { base: None, bytes });
        }
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new private mapping at a place of the kernel's choice touches nobody's memory.
        let base = unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ, flags, file, 0) }?;
        Ok(MappedFile { base: NonNull::new(base.cast()), bytes })
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self.base {
            // SAFETY: the mapping is that long, private, never written, and lives as long as this.
            Some(base) => unsafe { slice::from_raw_parts(base.as_ptr(), self.bytes) },
            None => &[],
        }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if let Some(base) = self.base {
            // SAFETY: the mapping is this one's own, of this length, and nothing refers to it any more.
            let _ = unsafe { munmap(base.as_ptr().cast(), self.bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_there_as_a_whole() {
        let path = std::env::temp_dir().join(format!("mynah-mapped-{}", std::process::id()));
        for contents in [vec![], vec![7; 3], vec![9; 10_001]] {
            File::create(&path).unwrap().write_all(&contents).unwrap();
            assert_eq!(*MappedFile::new(&File::open(&path).unwrap()).unwrap(), contents);
        }
        std::fs::remove_file(path).unwrap();
    }
}
