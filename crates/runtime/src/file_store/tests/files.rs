//! Stores in real files: what is kept, what is refused, and what is noticed while they are used.

use super::*;

fn open(path: &Path, bytes: u64, drive: &str) -> Result<(FileStore, Found), OpenError> {
    FileStore::open(StoreFile::open(path)?, bytes, drive)
}

fn read_all(store: &mut FileStore, at: u64, bytes: usize) -> Vec<u8> {
    let Ready::Later(job) = store.fetch(at, bytes as u32) else { panic!("no job") };
    loop {
        match store.finished() {
            Some((finished, result)) if finished == job => {
                assert_eq!(result, Ok(()));
                let mut into = vec![9; bytes];
                store.read(Some(job), at, &mut into);
                return into;
            }
            Some(_) => {}
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_file_keeps_bytes_and_description_and_is_refused_where_it_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let size = 1 << 40;
    let data: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    let at = size - (1 << 20);
    {
        let (mut store, found) = open(&path, size, "hash").expect("a new store");
        assert_eq!((found, store.description()), (Found::Nothing, None));
        assert_eq!(store.begin(), Ok(()));
        store.write(at, &data);
        store.discard(at + 4096, 100_352);
        store.describe(b"two namespaces");
        assert_eq!(&read_all(&mut store, at, 4096), &data[..4096]);
        let in_use = open(&path, size, "hash").map(drop).unwrap_err();
        assert!(in_use.to_string().ends_with("another process is using it"), "{in_use}");
        assert_eq!(store.close(Some([5; 16])), Ok(()));
    }
    let blocks = |path: &Path| {
        std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).expect("metadata"))
    };
    assert!(blocks(&path) * 512 < 1 << 20, "{} blocks", blocks(&path));
    let length = std::fs::metadata(&path).expect("metadata").len();
    assert_eq!(length, SLOTS_BYTES + at + data.len() as u64);
    for (used, closed) in [(false, true), (true, true), (true, false)] {
        let file = StoreFile::open(&path).expect("a file");
        assert_eq!(file.state(), closed.then_some([5; 16]));
        assert_eq!((file.is_used(), file.is_closed()), (true, closed));
        assert_eq!((file.is_of("hash"), file.is_of("another")), (true, false));
        drop(file);
        let (mut store, found) = open(&path, size, "hash").expect("a store");
        assert_eq!(found, Found::Bytes { same_drive: true, closed });
        assert_eq!(store.description(), Some(&b"two namespaces"[..]));
        let back = read_all(&mut store, at, data.len());
        assert_eq!(&back[..4096], &data[..4096]);
        assert!(back[4096..104_448].iter().all(|&byte| byte == 0));
        assert_eq!(&back[104_448..], &data[104_448..]);
        // Not closed: the next run must be told, unless this one was never in use.
        if used {
            assert_eq!(store.begin(), Ok(()));
        }
    }
    let (_, found) = open(&path, size, "another").expect("a store");
    assert_eq!(found, Found::Bytes { same_drive: false, closed: false });
    let text = |path: &Path, size| open(path, size, "hash").map(drop).unwrap_err().to_string();
    let sizes = format!("holds a drive of {size} bytes, but this drive has 4096");
    assert!(text(&path, 4096).ends_with(&sizes));
}

#[test]
fn what_follows_a_store_that_was_closed_is_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    {
        let (mut store, _) = open(&path, 1 << 20, "hash").expect("a new store");
        assert_eq!(store.begin(), Ok(()));
        store.write(0, &[7; 4096]);
        assert_eq!(store.close(None), Ok(()));
    }
    let end = std::fs::metadata(&path).expect("metadata").len();
    let file = File::options().write(true).open(&path).unwrap();
    // Written, as by a file system without holes.
    file.write(end, &[0; 100_000]).unwrap();
    assert!(StoreFile::open(&path).expect("a store").is_closed());
    file.write(end + 99_999, &[1]).unwrap();
    let error = StoreFile::open(&path).unwrap_err().to_string();
    assert!(error.contains("bytes"), "{error}");
}

/// Waits until a file's store says that it has failed, which nobody asks it.
fn wait_for_failure(store: &mut FileStore) {
    store.tend();
    while store.condition() != Condition::Failed {
        assert_eq!(store.finished(), None);
        std::thread::yield_now();
    }
}

#[test]
fn a_file_that_goes_away_or_is_cut_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let size = 1 << 20;
    let used = || {
        let (mut store, _) = open(&path, size, "hash").expect("a store");
        assert_eq!(store.begin(), Ok(()));
        store.write(4096, &[7; 4096]);
        store.tend();
        store
    };
    let mut store = used();
    std::fs::rename(&path, folder.path().join("elsewhere")).unwrap();
    assert_eq!(store.settle(), Ok(()), "it is there under another name");
    std::fs::remove_file(folder.path().join("elsewhere")).unwrap();
    wait_for_failure(&mut store);
    assert_says(&store, &["the file was deleted or replaced"]);
    assert_eq!(read_all(&mut store, 4096, 4096), [7; 4096], "hosts can save it elsewhere");
    assert_eq!(store.close(None), Err(StoreError::Write));

    let whole = SLOTS_BYTES + 8192;
    for length in [0, 4096, SLOTS_BYTES, SLOTS_BYTES + 4096, whole - 1] {
        for by_flush in [false, true] {
            let mut store = used();
            assert_eq!(store.settle(), Ok(()));
            std::fs::File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
            match by_flush {
                false => wait_for_failure(&mut store),
                true => {
                    // What is written behind its end does not make it longer unseen.
                    store.write(size - 4096, &[7; 4096]);
                    store.describe(b"something else");
                    assert_eq!(store.settle(), Err(StoreError::Write));
                }
            }
            let messages = store.trouble().messages();
            assert!(messages[0].contains("the file was truncated to"), "{messages:?}");
            assert!(messages[0].contains(&format!("bytes of {whole}")), "{messages:?}");
            drop(store);
            assert!(std::fs::metadata(&path).unwrap().len() < whole);
            std::fs::remove_file(&path).unwrap();
        }
    }
}

/// A file of format 1 goes on as it is, whatever hosts have written to it.
#[test]
fn a_file_of_an_earlier_version_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let size = 1 << 20;
    let header = |sequence, data_bytes, held_bytes| Header {
        sequence,
        data_bytes,
        held_bytes,
        drive: "hash".to_owned(),
        clean: true,
        state: Some([5; 16]),
        description: b"one namespace".to_vec(),
    };
    let old = header(7, size, None);
    let mut image = vec![7; size as usize];
    // A host has kept another drive's file at the beginning of this one.
    let inner = header(9, 4096, Some(4096)).encode();
    image[..inner.len()].copy_from_slice(&inner);
    image.resize(old.file_bytes() as usize, 0);
    let encoded = old.encode();
    image[old.at() as usize..][..encoded.len()].copy_from_slice(&encoded);
    std::fs::write(&path, &image).unwrap();
    {
        let (mut store, found) = open(&path, size, "hash").expect("an old store");
        assert_eq!(found, Found::Bytes { same_drive: true, closed: true });
        assert_eq!(store.description(), Some(&b"one namespace"[..]));
        assert_eq!(store.begin(), Ok(()));
        assert_eq!(&read_all(&mut store, 0, 4096), &image[..4096]);
        store.write(size - 4096, &[8; 4096]);
        assert_eq!(store.close(None), Ok(()));
    }
    assert_eq!(std::fs::metadata(&path).expect("metadata").len(), image.len() as u64);
    let (mut store, _) = open(&path, size, "hash").expect("an old store");
    assert_eq!(read_all(&mut store, size - 8192, 8192), [[7; 4096], [8; 4096]].concat());
    for (change, said) in [(-1, "it has been truncated"), (1, "it has been added to")] {
        let length = image.len().saturating_add_signed(change) as u64;
        let bad = folder.path().join("bad");
        std::fs::write(&bad, [&vec![7; 8192][..], &image[8192..]].concat()).unwrap();
        std::fs::File::options().write(true).open(&bad).unwrap().set_len(length).unwrap();
        let error = open(&bad, size, "hash").map(drop).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_start_that_is_taken_back_leaves_a_new_file_unused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let (mut store, _) = open(&path, 1 << 20, "hash").expect("a store");
    assert_eq!(store.begin(), Ok(()));
    assert_eq!(store.cancel(), Ok(()));
    drop(store);
    assert!(!StoreFile::open(&path).expect("it holds nothing").is_used());
    let (_, found) = open(&path, 1 << 21, "another").expect("it can be any drive's");
    assert_eq!(found, Found::Nothing);
}

/// Every kind of damage says what is wrong and what to do, and changes nothing.
#[test]
fn what_is_wrong_with_a_file_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let size = 1 << 20;
    {
        let (mut store, _) = open(&path, size, "hash").expect("a store");
        store.describe(b"namespaces");
        assert_eq!(store.begin(), Ok(()));
        store.write(0, &[7; 4096]);
        assert_eq!(store.close(None), Ok(()));
    }
    let good = std::fs::read(&path).unwrap();
    assert_eq!(good.len() as u64, SLOTS_BYTES + 4096, "as long as it was written to");
    let slot = SLOTS_BYTES as usize / 2;
    /// Both headers, at this byte of each.
    fn both(bytes: &mut [u8], at: usize, change: impl Fn(u8) -> u8) {
        for slot in [0, SLOTS_BYTES as usize / 2] {
            bytes[slot + at] = change(bytes[slot + at]);
        }
    }
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
    let changes: [(Change<'_>, &str); 19] = [
        (&|bytes| both(bytes, 0, |it| it ^ 1), "it neither begins nor ends as one"),
        (&|bytes| both(bytes, 8, |_| 3), "its format is 3"),
        (&|bytes| both(bytes, 11, |it| it ^ 0x80), "damaged"),
        (&|bytes| both(bytes, 12, |it| it ^ 1), "damaged"),
        (&|bytes| both(bytes, 17, |it| it ^ 1), "damaged"),
        (&|bytes| both(bytes, 26, |it| it ^ 1), "damaged"),
        (&|bytes| both(bytes, 33, |it| it ^ 1), "damaged"),
        (&|bytes| both(bytes, 101, |it| it ^ 0xff), "damaged"),
        (&|bytes| both(bytes, 104, |it| it ^ 1), "damaged"),
        (&|bytes| both(bytes, 112, |it| it ^ 1), "damaged"),
        (&|bytes| bytes.truncate(good.len() - 1), "it has been truncated"),
        (&|bytes| bytes.truncate(2 * slot), "it has been truncated"),
        (&|bytes| bytes.truncate(slot + 4096), "it has been truncated"),
        (&|bytes| bytes.truncate(slot), "it has been truncated"),
        (&|bytes| bytes.truncate(4096), "it has been truncated"),
        (&|bytes| bytes.truncate(1), "or has been truncated"),
        (&|bytes| bytes.push(1), "it has been added to"),
        (&|bytes| *bytes = vec![b'x'; 200_000], "not a store of Mynah's"),
        (&|bytes| *bytes = b"abc".to_vec(), "not a store of Mynah's"),
    ];
    let refused = |path: &Path, said: &str| {
        let error = open(path, size, "hash").map(drop).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("{}: ", path.display())), "{text}");
        assert!(text.contains(said), "{text}: not {said}");
        assert!(!text.contains("Invalid argument"), "{text}");
        assert!(error.help().len() > 20, "{text}: {}", error.help());
    };
    let bad = folder.path().join("bad");
    for (change, said) in changes {
        let mut bytes = good.clone();
        change(&mut bytes);
        std::fs::write(&bad, &bytes).unwrap();
        refused(&bad, said);
        assert_eq!(std::fs::read(&bad).unwrap(), bytes);
    }
    // One damaged header is none: the other one holds.
    let mut bytes = good.clone();
    bytes[20] ^= 1;
    std::fs::write(&bad, &bytes).unwrap();
    assert!(open(&bad, size, "hash").is_ok());
    // What is no file.
    let pipe = folder.path().join("pipe");
    {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    for (name, said) in [
        ("pipe", "it is a pipe, and a store is a file"),
        ("socket", "it is a socket"),
        (".", "it is a directory"),
        ("/dev/null", "it is a device"),
        ("no/such/folder", "it cannot be opened: No such file"),
        ("drive/within", "it cannot be opened: Not a directory"),
    ] {
        refused(&folder.path().join(name), said);
    }
    // What was made for a drive that no file can hold is not left behind.
    let new = folder.path().join("new");
    for (path, stays) in [(&new, false), (&path, true)] {
        let error = open(path, u64::MAX, "hash").map(drop).unwrap_err();
        assert!(error.to_string().contains("no file can hold"), "{error}");
        assert_eq!(path.exists(), stays);
    }
    // An empty file is one that was made for it.
    std::fs::write(&bad, b"").unwrap();
    assert_eq!(open(&bad, size, "hash").expect("a new store").1, Found::Nothing);
}
