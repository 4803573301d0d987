//! Text files that people wrote, read whole: of bounded length, whatever the file is.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// The longest file that is read, in bytes.
const MAX: u64 = 16 << 20;

/// The text of the file at `path`.
///
/// # Errors
/// If it cannot be read, is longer than 16 MiB, or is not text.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX {
        let message = format!("it is longer than {} MiB, the most that is read", MAX >> 20);
        return Err(Error::new(ErrorKind::InvalidData, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("it is no text: the byte at {at} is no UTF-8");
        Error::new(ErrorKind::InvalidData, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_of_bounded_length_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            read_text(&path).unwrap_err().to_string()
        };
        assert_eq!(refused(b"a = 1\n\xff"), "it is no text: the byte at 6 is no UTF-8");
        assert!(refused(&vec![b'#'; MAX as usize + 1]).contains("longer than 16 MiB"));
        std::fs::write(&path, "a = 1").unwrap();
        assert_eq!(read_text(&path).unwrap(), "a = 1");
    }
}
