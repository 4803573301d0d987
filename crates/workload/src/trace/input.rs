//! Where a trace's bytes come from: a file or standard input, unpacked if what is in it is gzip or zstd,
//! whatever it is called. Of what is packed in another way it is said what unpacks it.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fs::File;
use std::io::{BufRead, BufReader, Chain, Cursor, Error, ErrorKind, Read, Result};

/// Magic number: RFC 1952, section 2.3.1.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// Magic number: RFC 8878, section 3.1.1, in file order.
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// A frame without content: the decoder holds frames after its first to 100 MiB of window only.
const EMPTY_FRAME: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x00, 0x01, 0x00, 0x00];

/// Spreadsheets write it before UTF-8 (RFC 3629, section 6).
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// Formats that are not read: magic number, name, and a command that decompresses it.
const OTHERS: &[(&[u8], &str, &str)] = &[
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"PK\x03\x04", "zip", "unzip -p"),
    (b"PK\x05\x06", "zip", "unzip -p"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x -so"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc"),
    (b"\x1f\x9d", "compress", "gzip -dc"),
    (b"LZIP", "lzip", "lzip -dc"),
    (b"\x89LZO\0", "lzop", "lzop -dc"),
    (b"\xff\x06\0\0sNaPpY", "snappy", "snzip -dc"),
    (b"Rar!\x1a\x07", "RAR", "unrar p -inul"),
];
/// Where a tar archive says that it is one (POSIX.1, pax).
const TAR: (usize, &[u8]) = (257, b"ustar");
/// Number of bytes that are looked at to detect the format.
const LOOK: u64 = (TAR.0 + TAR.1.len()) as u64;

/// The error for a compressed format that is not supported, if the first bytes show one.
fn refused(first: &[u8]) -> Option<Error> {
    let is_tar = first.get(TAR.0..).is_some_and(|rest| rest.starts_with(TAR.1));
    let other = OTHERS.iter().find(|(magic, ..)| first.starts_with(magic));
    let (what, how) = match other {
        Some((_, what, how)) => (*what, *how),
        None if is_tar => ("tar", "tar -xO -f"),
        None => return None,
    };
    let text = format!(
        "it is packed with {what}, which is not read here (gzip and zstd are): unpack it, or pipe \
         one file in: `{how} FILE | mynah sim --trace - …`"
    );
    Some(Error::new(ErrorKind::InvalidData, text))
}

/// The undecoded bytes, including those that were looked at first.
type Packed<R> = BufReader<Chain<Cursor<Vec<u8>>, R>>;

/// The file or stream that a trace is read from.
#[derive(Debug)]
pub(crate) enum Source {
    File(File),
    Stdin(std::io::Stdin),
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Source::File(file) => file.read(buffer),
            Source::Stdin(stdin) => stdin.read(buffer),
        }
    }
}

/// The bytes of a trace, decompressed if need be.
#[derive(Debug)]
pub(crate) struct Input<R: Read> {
    /// Bytes that were read to look at them, and are to be delivered first.
    first: Cursor<Vec<u8>>,
    rest: Unpacked<R>,
}

/// Decoder for the compression that the first bytes show.
enum Unpacked<R: Read> {
    Plain(Packed<R>),
    Gzip(Box<MultiGzDecoder<Packed<R>>>),
    Zstd(Box<Zstd<R>>),
}

impl<R: Read> std::fmt::Debug for Unpacked<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Unpacked::Plain(_) => "Plain",
            Unpacked::Gzip(_) => "Gzip",
            Unpacked::Zstd(_) => "Zstd",
        })
    }
}

impl<R: Read> Input<R> {
    /// Detects the compression from the first bytes.
    pub(super) fn new(mut source: R) -> Result<Input<R>> {
        let mut first = vec![];
        source.by_ref().take(LOOK).read_to_end(&mut first)?;
        if let Some(error) = refused(&first) {
            return Err(error);
        }
        let (is_gzip, is_zstd) = (first.starts_with(GZIP), first.starts_with(ZSTD));
        let packed = BufReader::with_capacity(64 << 10, Cursor::new(first).chain(source));
        let mut rest = match (is_gzip, is_zstd) {
            (true, _) => Unpacked::Gzip(Box::new(MultiGzDecoder::new(packed))),
            (_, true) => Unpacked::Zstd(Box::new(Zstd::new(packed)?)),
            _ => Unpacked::Plain(packed),
        };
        // Archives are packed as a whole.
        let mut first = vec![];
        rest.by_ref().take(LOOK).read_to_end(&mut first)?;
        if let Some(error) = refused(&first) {
            return Err(error);
        }
        if first.starts_with(BYTE_ORDER_MARK) {
            first.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Input { first: Cursor::new(first), rest })
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self.first.read(buffer)? {
            0 => self.rest.read(buffer),
            read => Ok(read),
        }
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Unpacked::Plain(input) => input.read(buffer),
            Unpacked::Gzip(gzip) => gzip.read(buffer).map_err(|error| damaged("gzip", &error)),
            Unpacked::Zstd(zstd) => zstd.read(buffer),
        }
    }
}

/// The error for compressed data that cannot be decompressed.
fn damaged(format: &str, error: &dyn std::fmt::Display) -> Error {
    let text =
        format!("the {format} data are cut off or damaged ({error}); `{format} -t` tests a file");
    Error::new(ErrorKind::InvalidData, text)
}

/// Frames of zstd, one after the other.
pub(crate) struct Zstd<R: Read> {
    packed: Packed<R>,
    decoder: FrameDecoder,
}

impl<R: Read> Zstd<R> {
    fn new(packed: Packed<R>) -> Result<Zstd<R>> {
        let mut decoder = FrameDecoder::new();
        decoder.reset(EMPTY_FRAME).map_err(|error| damaged("zstd", &error))?;
        decoder
            .decode_blocks(&EMPTY_FRAME[6..], BlockDecodingStrategy::All)
            .map_err(|error| damaged("zstd", &error))?;
        Ok(Zstd { packed, decoder })
    }

    /// Begins the next frame, if there is one.
    fn begin_frame(&mut self) -> Result<bool> {
        loop {
            if self.packed.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.packed) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped = std::io::copy(
                        &mut self.packed.by_ref().take(length),
                        &mut std::io::sink(),
                    )?;
                    if skipped < length {
                        return Err(damaged("zstd", &"a frame ends early"));
                    }
                }
                Err(error) => return Err(damaged("zstd", &error)),
            }
        }
    }
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while self.decoder.can_collect() == 0 {
            if self.decoder.is_finished() {
                if !self.begin_frame()? {
                    return Ok(0);
                }
            } else {
                self.decoder
                    .decode_blocks(&mut self.packed, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| damaged("zstd", &error))?;
            }
        }
        self.decoder.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn read(bytes: Vec<u8>) -> Result<Vec<u8>> {
        let mut all = vec![];
        Input::new(&bytes[..])?.read_to_end(&mut all)?;
        Ok(all)
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_back(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2_000), 1..4),
            cut in 0.0..1.0f64,
        ) {
            let whole = parts.concat();
            for pack in [gzip, zstd] {
                // Files are put together by laying one behind the other.
                let packed = parts.iter().map(|part| pack(part)).collect::<Vec<_>>().concat();
                prop_assert_eq!(&read(packed.clone()).unwrap(), &whole);
                let cut = (packed.len() as f64 * cut) as usize;
                if let Ok(part) = read(packed[..cut].to_vec()) {
                    prop_assert!(cut < 4 || whole.starts_with(&part));
                }
            }
        }

        #[test]
        fn damaged_data_do_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..300), which: bool) {
            let magic = if which { GZIP } else { ZSTD };
            bytes.splice(0..0, magic.iter().copied());
            let _ = read(bytes);
        }
    }

    #[test]
    fn what_is_packed_otherwise_is_named() {
        let tar = [&[b'a'; 257][..], b"ustar\x0000", &[0; 300]].concat();
        let named = OTHERS.iter().map(|(magic, what, _)| ([magic, &[7; 300][..]].concat(), *what));
        let tars = [tar.clone(), gzip(&tar), zstd(&tar)].map(|bytes| (bytes, "tar"));
        for (bytes, what) in named.chain(tars) {
            let said = read(bytes).unwrap_err().to_string();
            assert!(said.starts_with(&format!("it is packed with {what}, ")), "{said}");
        }
        assert_eq!(read(b"PK,1,2\n".to_vec()).unwrap(), b"PK,1,2\n");
    }

    #[test]
    fn a_byte_order_mark_is_read_past() {
        let text = "\u{feff}1,2\n\u{feff}".as_bytes();
        for bytes in [text.to_vec(), gzip(text), zstd(text)] {
            assert_eq!(read(bytes).unwrap(), "1,2\n\u{feff}".as_bytes());
        }
        assert_eq!(read(text[..2].to_vec()).unwrap(), text[..2]);
    }

    #[test]
    fn frames_to_be_skipped_are() {
        // RFC 8878, section 3.1.2.
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let all = [zstd(b"one "), skipped, zstd(b"two")].concat();
        assert_eq!(read(all).unwrap(), b"one two");
    }

    #[test]
    fn a_window_that_is_too_large_is_refused() {
        // A window descriptor of 2 TiB.
        let error = read([ZSTD, &[0x00, 0xf8, 0x01, 0x00, 0x00]].concat()).unwrap_err();
        assert!(error.to_string().contains("the zstd data are"), "{error}");
    }

    #[test]
    fn a_cut_is_said() {
        let packed = gzip(&[7; 5_000]);
        let error = read(packed[..packed.len() - 6].to_vec()).unwrap_err();
        assert!(error.to_string().contains("`gzip -t`"), "{error}");
        let packed = zstd(&[7; 5_000]);
        let error = read(packed[..packed.len() - 6].to_vec()).unwrap_err();
        assert!(error.to_string().contains("`zstd -t`"), "{error}");
    }
}
