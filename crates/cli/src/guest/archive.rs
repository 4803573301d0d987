//! An archive that Linux unpacks into its initial file system, behind others: the "newc" format of
//! cpio (Documentation/driver-api/early-userspace/buffer-format.rst).

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// What a file's name and bytes are padded to.
const ALIGNMENT: usize = 4;

/// An archive that is being written.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub(super) fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER, &[]);
    }

    /// Adds a file that can be executed.
    pub(super) fn file(&mut self, name: &str, data: &[u8]) {
        self.entry(name, PROGRAM, data);
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.entries += 1;
        let links = 1;
        let fields = [
            self.entries,
            mode,
            0,
            0,
            links,
            0,
            data.len() as u32,
            0,
            0,
            0,
            0,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(data);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_begin_at_multiples_of_four() {
        let mut archive = Archive::default();
        archive.folder("job");
        archive.file("job/run", b"#!/bin/sh\n");
        let bytes = archive.finish();
        let starts: Vec<usize> =
            (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"070701")).collect();
        assert_eq!(starts.len(), 3);
        assert!(starts.iter().all(|at| at % 4 == 0) && bytes.len() % 4 == 0);
        let second = &bytes[starts[1]..];
        assert_eq!(&second[54..62], b"0000000A", "the file's size");
        assert_eq!(&second[94..102], b"00000008", "its name's, with the zero");
        assert_eq!(&second[110..118], b"job/run\0");
        assert_eq!(&second[120..130], b"#!/bin/sh\n");
    }
}
