//! Samsung's key-value command set over queues in guest memory.

use crate::pairs::mixed;
use crate::shared::{self, blocks, pattern};
use crate::support::*;
use mynah_device::pci::GuestMemory;
use mynah_device::{NamespaceConfig, NamespaceContent, Timing};
use mynah_model::config::{Config, Fault};
use mynah_stamp::{Span, Stage, Time};
use mynah_wire::nvme::command::{SamsungCommand as C, SamsungKey, StoreCondition};
use mynah_wire::nvme::opcode::{admin, nvm};
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::samsung::{batched_keys, status as s};
use mynah_wire::nvme::{Status, SubmissionEntry};
use proptest::array::uniform4;
use proptest::prelude::*;
use std::collections::BTreeMap;

const BOTH: [Timing; 2] = [Timing::Immediate, Timing::Modelled];
/// The largest value of these drives.
const VALUE_MAX: u32 = 64 << 10;

/// A host whose drive has key spaces (namespace 1) and blocks (namespace 2).
struct Spaces {
    host: Host,
    /// Where keys are put that do not go within their commands.
    key_page: u64,
    data: u64,
}

/// How a command ended: all bits of the status, and the result.
type Ended = (Status, u32);

const OK: Ended = (Status::SUCCESS, 0);

fn fails(status: Status) -> Ended {
    (status, 0)
}

impl Spaces {
    fn new(timing: Timing) -> Spaces {
        Spaces::with(timing, |_| {})
    }

    fn with(timing: Timing, change: impl FnOnce(&mut Config)) -> Spaces {
        let contents = [NamespaceContent::SamsungPairs, NamespaceContent::Blocks(512)];
        let namespaces =
            contents.map(|content| NamespaceConfig { bytes: None, content, handles: vec![] });
        let change = |config: &mut Config| {
            mixed(config);
            let pairs = config.key_value.as_mut().expect("it has pairs");
            (pairs.key_max, pairs.value_max) = (255, VALUE_MAX);
            change(config);
        };
        let mut host =
            Host::with(timing, |config, _| config.namespaces = namespaces.to_vec(), change);
        host.create_pair(1, 64);
        let (key_page, data) = (host.pages(2 * PAGE), host.pages(2 * u64::from(VALUE_MAX)));
        Spaces { host, key_page, data }
    }

    /// A key where it belongs: within the command, or in memory, over the end of a page.
    fn key(&mut self, key: &[u8]) -> SamsungKey {
        if let Some(key) = SamsungKey::inline(key) {
            return key;
        }
        let at = self.key_page + PAGE - 8;
        self.host.memory.write(at, key).expect("mapped");
        SamsungKey::at(at, self.key_page + PAGE, key.len()).expect("a long key")
    }

    fn entry(&self, space: u32, command: C) -> SubmissionEntry {
        let mut entry = shared::entry(0, space);
        command.put(&mut entry);
        entry
    }

    /// A command whose data, if it has any, lie in the room for them.
    fn call(&mut self, space: u32, command: C) -> Ended {
        let mut entry = self.entry(space, command);
        self.host.set_prps(&mut entry, self.data, command.bytes().into());
        self.run(entry)
    }

    fn run(&mut self, entry: SubmissionEntry) -> Ended {
        let done = self.host.call(1, entry);
        (done.status(), done.result.get() as u32)
    }

    fn store_if(
        &mut self,
        condition: StoreCondition,
        space: u32,
        key: &[u8],
        value: &[u8],
    ) -> Ended {
        self.host.memory.write(self.data, value).expect("mapped");
        let (key, bytes) = (self.key(key), value.len() as u32);
        self.call(space, C::Store { key, bytes, condition })
    }

    fn store(&mut self, space: u32, key: &[u8], value: &[u8]) -> Ended {
        self.store_if(StoreCondition::Always, space, key, value)
    }

    fn append(&mut self, space: u32, key: &[u8], value: &[u8]) -> Ended {
        self.host.memory.write(self.data, value).expect("mapped");
        let (key, bytes) = (self.key(key), value.len() as u32);
        self.call(space, C::Append { key, bytes })
    }

    /// So many bytes from a byte on, of which those that are not written are 0xee.
    fn retrieve(&mut self, space: u32, key: &[u8], offset: u32, bytes: u32) -> (Ended, Vec<u8>) {
        self.host.memory.write(self.data, &vec![0xee; bytes as usize]).expect("mapped");
        let key = self.key(key);
        let ended = self.call(space, C::Retrieve { key, bytes, offset, only_size: false });
        (ended, self.host.get(self.data, bytes as usize))
    }

    fn value(&mut self, space: u32, key: &[u8]) -> Result<Vec<u8>, Status> {
        let ((status, size), mut data) = self.retrieve(space, key, 0, VALUE_MAX);
        data.truncate(size as usize);
        if status.is_success() { Ok(data) } else { Err(status) }
    }

    fn size(&mut self, space: u32, key: &[u8]) -> Ended {
        let key = self.key(key);
        self.call(space, C::Retrieve { key, bytes: 0, offset: 0, only_size: true })
    }

    fn delete(&mut self, space: u32, key: &[u8], must_exist: bool) -> Ended {
        let key = self.key(key);
        self.call(space, C::Delete { key, must_exist })
    }

    fn exist(&mut self, space: u32, key: &[u8]) -> Ended {
        let key = self.key(key);
        self.call(space, C::Exist { key })
    }

    fn open(&mut self, space: u32, prefix: [u8; 4], mask: [u8; 4]) -> Ended {
        self.call(space, C::OpenIterator { prefix, mask })
    }

    fn close(&mut self, handle: u8) -> Ended {
        self.call(0, C::CloseIterator { handle })
    }

    fn read(&mut self, handle: u8, bytes: u32) -> (Ended, Vec<u8>) {
        self.host.memory.write(self.data, &vec![0xee; bytes as usize]).expect("mapped");
        let ended = self.call(0, C::ReadIterator { handle, bytes });
        (ended, self.host.get(self.data, ended.1 as usize))
    }

    /// All keys of a space that begin as said, by an iterator that is read in such portions.
    fn keys(&mut self, space: u32, prefix: [u8; 4], mask: [u8; 4], bytes: u32) -> Vec<Vec<u8>> {
        let (status, handle) = self.open(space, prefix, mask);
        assert_eq!(status, Status::SUCCESS);
        let mut all = vec![];
        loop {
            let ((status, _), data) = self.read(handle as u8, bytes);
            let keys = batched_keys(&data).expect("a batch");
            all.extend(keys.into_iter().map(<[u8]>::to_vec));
            match status {
                s::END_OF_ITERATION => break,
                status => assert_eq!(status, Status::SUCCESS),
            }
        }
        assert_eq!(self.close(handle as u8), OK);
        all
    }

    fn log(&mut self, page: u8) -> Result<Vec<u8>, Status> {
        let mut entry = shared::entry(admin::GET_LOG_PAGE, 1);
        entry.dword10.set(u32::from(page) | 127 << 16);
        let (status, data) = self.host.fetch(0, entry, 512);
        if status.is_success() { Ok(data) } else { Err(status) }
    }
}

#[test]
fn pairs_are_kept_under_short_and_long_keys() {
    for timing in BOTH {
        let mut it = Spaces::new(timing);
        for length in [4, 15, 16, 17, 100, 255] {
            let key = pattern(length, length as usize);
            for bytes in [0, 1, 3, 4, 700, 4096, 4097, 20_000, VALUE_MAX] {
                let value = pattern(u64::from(bytes) ^ length, bytes as usize);
                assert_eq!(it.store(0, &key, &value), OK, "{timing:?} {length} {bytes}");
                assert_eq!(it.value(0, &key), Ok(value));
                assert_eq!(it.size(0, &key), (Status::SUCCESS, bytes));
                assert_eq!(it.exist(0, &key), OK);
            }
            // The same bytes and one more, or one less, are another key.
            if length < 255 {
                let longer = [&key[..], &[7]].concat();
                assert_eq!(it.exist(0, &longer), fails(s::KEY_DOES_NOT_EXIST));
            }
            assert_eq!(it.delete(0, &key, true), OK);
            assert_eq!(it.exist(0, &key), fails(s::KEY_DOES_NOT_EXIST));
            assert_eq!(it.delete(0, &key, true), fails(s::KEY_DOES_NOT_EXIST));
            assert_eq!(it.delete(0, &key, false), OK);
            assert_eq!(it.value(0, &key), Err(s::KEY_DOES_NOT_EXIST));
            assert_eq!(it.size(0, &key), fails(s::KEY_DOES_NOT_EXIST));
        }
    }
}

#[test]
fn key_spaces_know_nothing_of_one_another() {
    for timing in BOTH {
        let mut it = Spaces::new(timing);
        let spaces = [0, 1, 2, 0xffff_fffe];
        for space in spaces {
            assert_eq!(it.exist(space, b"same"), fails(s::KEY_DOES_NOT_EXIST));
            assert_eq!(it.store(space, b"same", &space.to_le_bytes()), OK);
        }
        for space in spaces {
            assert_eq!(it.value(space, b"same"), Ok(space.to_le_bytes().to_vec()));
            assert_eq!(it.keys(space, [0; 4], [0; 4], 100), [b"same"]);
        }
        assert_eq!(it.delete(1, b"same", true), OK);
        assert_eq!(it.exist(0, b"same"), OK);
        assert_eq!(it.store(u32::MAX, b"same", b"x"), fails(s::INVALID_KEY_SPACE));
    }
}

#[test]
fn options_are_obeyed() {
    for timing in BOTH {
        let mut it = Spaces::new(timing);
        let (new, there) = (StoreCondition::IfAbsent, StoreCondition::IfExists);
        assert_eq!(it.store_if(there, 0, b"key!", b"one"), fails(s::KEY_DOES_NOT_EXIST));
        assert_eq!(it.store_if(new, 0, b"key!", b"two"), OK);
        assert_eq!(it.store_if(new, 0, b"key!", b"three"), fails(s::KEY_EXISTS));
        assert_eq!(it.value(0, b"key!"), Ok(b"two".to_vec()));
        assert_eq!(it.store_if(there, 0, b"key!", b"four"), OK);
        assert_eq!(it.value(0, b"key!"), Ok(b"four".to_vec()));
    }
}

#[test]
fn values_grow_at_their_end() {
    for timing in BOTH {
        let mut it = Spaces::new(timing);
        let mut value = vec![];
        for (round, bytes) in [5, 0, 1, 3000, 4096, 7, 30_000].into_iter().enumerate() {
            let more = pattern(round as u64, bytes);
            assert_eq!(it.append(3, b"a key of twenty bytes", &more), OK);
            value.extend(more);
            assert_eq!(it.value(3, b"a key of twenty bytes"), Ok(value.clone()), "{timing:?}");
        }
        let rest = VALUE_MAX - value.len() as u32;
        let more = vec![9; rest as usize];
        let too_much = [&more[..], &[9]].concat();
        let too_long = fails(s::APPENDED_TOO_LONG);
        assert_eq!(it.append(3, b"a key of twenty bytes", &too_much), too_long);
        assert_eq!(it.value(3, b"a key of twenty bytes"), Ok(value.clone()));
        assert_eq!(it.append(3, b"a key of twenty bytes", &more), OK);
        assert_eq!(it.append(3, b"a key of twenty bytes", b"x"), too_long);
        value.extend(more);
        assert_eq!(it.value(3, b"a key of twenty bytes"), Ok(value));
    }
}

#[test]
fn a_value_is_returned_from_an_offset_on() {
    for timing in BOTH {
        let mut it = Spaces::new(timing);
        let value = pattern(4, 5001);
        assert_eq!(it.store(0, b"key!", &value), OK);
        for offset in [0u32, 512, 4096, 4608] {
            for bytes in [0, 4, 512, 5004] {
                let ((status, size), data) = it.retrieve(0, b"key!", offset, bytes);
                assert_eq!((status, size), (Status::SUCCESS, 5001), "of all of it");
                let moved = (5001 - offset).min(bytes) as usize;
                assert_eq!(data[..moved], value[offset as usize..][..moved], "{timing:?}");
                assert!(data[moved..].iter().all(|&byte| byte == 0xee), "what lies behind is left");
            }
        }
        for offset in [5120, 0xffff_fe00] {
            assert_eq!(it.retrieve(0, b"key!", offset, 4).0, fails(s::INVALID_OFFSET));
        }
        assert_eq!(it.retrieve(0, b"key!", 511, 4).0, fails(s::MISALIGNED_OFFSET));
        assert_eq!(it.store(0, b"none", &[]), OK);
        assert_eq!(it.retrieve(0, b"none", 0, 4), (OK, vec![0xee; 4]));
        assert_eq!(it.retrieve(0, b"none", 512, 4).0, fails(s::INVALID_OFFSET));
    }
}

#[test]
fn sixteen_iterators_can_be_open() {
    for timing in BOTH {
        let mut it = Spaces::new(timing);
        assert_eq!(it.store(5, b"akey", b"v"), OK);
        for handle in 1..=16u8 {
            let mask = [0xff, 0, 0, 0];
            assert_eq!(it.open(5, [handle, 0, 0, 0], mask), (Status::SUCCESS, handle.into()));
            assert_eq!(it.open(5, [handle, 0, 0, 0], mask), fails(s::ITERATOR_IS_OPEN));
        }
        assert_eq!(it.open(5, [99, 0, 0, 0], [0xff; 4]), fails(s::NO_ITERATOR_LEFT));
        let entries = it.log(0xd0).expect("a log page");
        for (handle, entry) in (1..=16u8).zip(entries.chunks_exact(16)) {
            let expected = [handle, 1, 1, 5, handle, 0, 0, 0, 0xff, 0, 0, 0, 1, 0, 0, 0];
            assert_eq!(entry, expected, "no key is its: it is at its end");
        }
        assert_eq!(it.close(3), OK);
        assert_eq!(it.close(3), fails(s::NO_SUCH_ITERATOR));
        assert_eq!(it.read(3, 100).0, fails(s::NO_SUCH_ITERATOR));
        assert_eq!(it.open(5, *b"a\0\0\0", [0xff, 0, 0, 0]), (Status::SUCCESS, 3));
        let (ended, data) = it.read(3, 4096);
        assert_eq!(ended, (s::END_OF_ITERATION, 12));
        assert_eq!(data, b"\x01\0\0\0\x04\0\0\0akey");
        assert_eq!(it.read(3, 4096), ((s::END_OF_ITERATION, 4), vec![0; 4]));
        let entries = it.log(0xd0).expect("a log page");
        assert_eq!(entries[32..48], *b"\x03\x01\x01\x05a\0\0\0\xff\0\0\0\x01\0\0\0");
        assert!(entries[256..].iter().all(|&byte| byte == 0));
        for handle in [0, 17, 255] {
            assert_eq!(it.close(handle), fails(s::NO_SUCH_ITERATOR));
        }
        // They outlive a reset, as hosts find out that have crashed.
        it.host.set_register(offset::CC, 0);
        it.host.submissions.clear();
        it.host.completions.clear();
        it.host.boot(32);
        it.host.create_pair(1, 64);
        assert_eq!(it.open(5, [99, 0, 0, 0], [0xff; 4]), fails(s::NO_ITERATOR_LEFT));
        // Not that all is erased.
        assert_eq!(it.host.plain(0, shared::entry(admin::FORMAT_NVM, 1)), Status::SUCCESS);
        assert_eq!(it.open(5, [99, 0, 0, 0], [0xff; 4]), (Status::SUCCESS, 1));
        assert_eq!(it.exist(5, b"akey"), fails(s::KEY_DOES_NOT_EXIST));
    }
}

#[test]
fn hosts_are_told_what_openmpdk_asks_for() {
    for timing in BOTH {
        let mut it = Spaces::new(timing);
        let mut entry = shared::entry(admin::IDENTIFY, 1);
        entry.dword10.set(0);
        let number = |page: &[u8], at: usize| {
            u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"))
        };
        let (status, page) = it.host.fetch(0, entry, 4096);
        assert_eq!(status, Status::SUCCESS);
        assert_eq!(number(&page, 0), crate::pairs::BYTES / 512);
        assert_eq!(
            (number(&page, 16), page[25], page[26], page[130]),
            (0, 0, 0, 9),
            "blocks of 512"
        );
        assert_eq!(it.store(0, b"key!", &[1; 5000]), OK);
        let (_, page) = it.host.fetch(0, entry, 4096);
        assert_eq!(number(&page, 16), 10, "5004 bytes are 10 blocks");
        // Namespace descriptors: of the NVM command set.
        entry.dword10.set(3);
        let (status, page) = it.host.fetch(0, entry, 4096);
        assert_eq!(status, Status::SUCCESS);
        assert!(page.windows(5).any(|it| it == [4, 1, 0, 0, 0]));
        let amplification = it.log(0xca).expect("a log page");
        let tenths = u32::from_le_bytes(amplification[256..260].try_into().expect("4 bytes"));
        assert!(tenths < 1000);
        let pages = it.log(0).expect("a log page");
        assert_eq!((pages[0], it.log(0xcb)), (1, Err(Status::LOG_PAGE_INVALID)));
        // It has no blocks, and pairs of NVMe's own set are not there either.
        assert_eq!(it.host.fetch(1, blocks(nvm::READ, 1, 0, 1), 512).0, Status::INVALID_OPCODE);
        let write = blocks(nvm::WRITE, 1, 0, 1);
        assert_eq!(it.host.send(1, write, &[0; 512]), Status::INVALID_OPCODE);
        let retrieve = crate::pairs::retrieve("key!", 100);
        assert_eq!(it.host.fetch(1, retrieve, 100).0, Status::INVALID_OPCODE);
        assert_eq!(it.host.plain(1, crate::pairs::exist("key!")), Status::INVALID_OPCODE);
        assert_eq!(it.host.plain(1, shared::entry(nvm::FLUSH, 1)), Status::SUCCESS);
        // The blocks beside it are.
        assert_eq!(it.host.send(1, blocks(nvm::WRITE, 2, 0, 1), &[7; 512]), Status::SUCCESS);
        assert_eq!(it.value(0, b"key!"), Ok(vec![1; 5000]));
        // Compound commands are not.
        let compound = shared::entry(0x85, 0);
        assert_eq!(it.host.plain(1, compound), Status::INVALID_OPCODE);
    }
}

#[test]
fn a_drive_without_key_spaces_does_not_know_the_set() {
    for timing in BOTH {
        let mut host = Host::with(timing, |_, _| {}, mixed);
        host.create_pair(1, 64);
        let key = SamsungKey::inline(b"key!").expect("4 bytes");
        for space in [0, 1, 2] {
            let mut entry = shared::entry(0, space);
            C::Exist { key }.put(&mut entry);
            assert_eq!(host.plain(1, entry), Status::INVALID_OPCODE);
        }
        let mut entry = shared::entry(admin::GET_LOG_PAGE, 0);
        entry.dword10.set(0xd0 | 127 << 16);
        assert_eq!(host.fetch(0, entry, 512).0, Status::LOG_PAGE_INVALID);
    }
}

#[test]
fn what_is_wrong_changes_nothing() {
    for timing in BOTH {
        let mut it = Spaces::new(timing);
        let long = [b'k'; 40];
        assert_eq!(it.store(0, b"key!", b"first"), OK);
        assert_eq!(it.store(0, &long, b"second"), OK);
        let short = SamsungKey::inline(b"key!").expect("4 bytes");
        let store = |key| C::Store { key, bytes: 6, condition: StoreCondition::Always };
        let all = |key| {
            [
                store(key),
                C::Append { key, bytes: 6 },
                C::Retrieve { key, bytes: 8, offset: 0, only_size: false },
                C::Delete { key, must_exist: false },
                C::Exist { key },
            ]
        };
        // Keys that lie nowhere, at the end of memory and behind it, and where none can.
        let nowhere = Status::DATA_TRANSFER_ERROR;
        let page = it.key_page;
        for (first, second, expected) in [
            (0xdead_0000_0000, 0, nowhere),
            (page + 2 * PAGE - 8, 0xdead_0000_0000, nowhere),
            (page + PAGE - 8, u64::MAX - PAGE + 1, nowhere),
            (u64::MAX - 3, 0, nowhere),
            (page + 1, 0, s::MISALIGNED_KEY),
            (page + PAGE - 8, page + 8, s::MISALIGNED_KEY),
        ] {
            let key = SamsungKey::at(first, second, 40).expect("a long key");
            for command in all(key) {
                let (status, _) = it.call(0, command);
                assert_eq!(shared::plain(status), expected, "{timing:?} {command:?} {first:x}");
            }
        }
        // Data that lie nowhere.
        for command in [
            store(short),
            C::Append { key: short, bytes: 6 },
            C::Retrieve { key: short, bytes: 8, offset: 0, only_size: false },
        ] {
            let mut entry = it.entry(0, command);
            entry.set_prps(0xdead_0000_0000, 0);
            assert_eq!(shared::plain(it.run(entry).0), nowhere, "{timing:?} {command:?}");
        }
        // Lengths of keys and values, and options.
        let mut entry = it.entry(0, store(short));
        for (dword11, status) in [
            (0, s::INVALID_KEY_SIZE),
            (2, s::INVALID_KEY_SIZE),
            (255, s::INVALID_KEY_SIZE),
            (3 | 10 << 8, s::INVALID_OPTION),
            (3 | 0x80 << 8, s::INVALID_OPTION),
        ] {
            entry.dword11.set(dword11);
            assert_eq!(it.run(entry), fails(status));
        }
        for dwords in [VALUE_MAX / 4 + 1, u32::MAX >> 2, u32::MAX] {
            let mut entry = it.entry(0, store(short));
            entry.dword10.set(dwords);
            assert_eq!(it.run(entry), fails(s::INVALID_VALUE_SIZE));
            let mut entry = it.entry(0, C::Append { key: short, bytes: 0 });
            entry.dword10.set(dwords);
            assert_eq!(it.run(entry), fails(s::INVALID_VALUE_SIZE));
        }
        for dwords in [(256 << 10) / 4 + 1, u32::MAX] {
            let retrieve = C::Retrieve { key: short, bytes: 0, offset: 0, only_size: false };
            let mut entry = it.entry(0, retrieve);
            entry.dword10.set(dwords);
            assert_eq!(it.run(entry), fails(s::INVALID_VALUE_SIZE));
        }
        // Halves of fused operations.
        let mut entry = it.entry(0, store(short));
        entry.flags = 2;
        assert_eq!(shared::plain(it.run(entry).0), Status::ABORTED_MISSING_FUSED);
        assert_eq!(it.value(0, b"key!"), Ok(b"first".to_vec()));
        assert_eq!(it.value(0, &long), Ok(b"second".to_vec()));
        assert_eq!(it.keys(0, [0; 4], [0; 4], 300), [&b"key!"[..], &long]);
    }
}

#[test]
fn a_full_drive_says_so() {
    for timing in BOTH {
        let mut it = Spaces::new(timing);
        let value = pattern(3, VALUE_MAX as usize);
        let mut stored = 0u32;
        let status = loop {
            match it.store(0, &stored.to_be_bytes(), &value) {
                OK => stored += 1,
                (status, _) => break status,
            }
            assert!(stored < 1000);
        };
        assert_eq!(status, s::CAPACITY_EXCEEDED, "{timing:?}");
        assert!(stored > 20);
        assert_eq!(it.exist(0, &stored.to_be_bytes()), fails(s::KEY_DOES_NOT_EXIST));
        let (short, more) = (VALUE_MAX as usize / 2, VALUE_MAX as usize / 2);
        assert_eq!(it.store(0, &0u32.to_be_bytes(), &value[..short]), OK);
        assert_eq!(it.append(0, &0u32.to_be_bytes(), &value[..more]), OK);
        for key in 1..stored {
            assert_eq!(it.value(0, &key.to_be_bytes()).as_ref(), Ok(&value));
        }
        assert_eq!(it.delete(0, &1u32.to_be_bytes(), true), OK);
        assert_eq!(it.store(0, &stored.to_be_bytes(), &value), OK);
    }
}

#[test]
fn long_keys_take_a_transfer_of_their_own() {
    let mut it = Spaces::new(Timing::Modelled);
    it.host.is_punctual = true;
    it.host.ears.heard.clear();
    let mut took = |key: &[u8]| {
        assert_eq!(it.exist(0, key), fails(s::KEY_DOES_NOT_EXIST));
        let heard = it.host.ears.heard.last().expect("heard of");
        (heard.stages.get(Stage::CommandFetch), heard.stages.total())
    };
    let (short, long) = (took(&[7; 16]), took(&[7; 17]));
    assert!(long.0 > short.0, "{short:?} {long:?}");
    assert!(long.1 > short.1);
}

#[test]
fn an_append_reads_what_it_extends_and_writes_all() {
    let mut it = Spaces::new(Timing::Modelled);
    it.host.is_punctual = true;
    assert_eq!(it.store(0, b"key!", &pattern(1, 30_000)), OK);
    assert_eq!(it.host.plain(1, shared::entry(nvm::FLUSH, 1)), Status::SUCCESS);
    it.host.wait(Span::from_ms(50));
    let before = it.host.subsystem.drive().counters();
    let (reads, written) = (before.flash_reads, before.host_units_written);
    assert_eq!(it.append(0, b"key!", b"more"), OK);
    let after = it.host.subsystem.drive().counters();
    assert!(after.flash_reads > reads, "{} {reads}", after.flash_reads);
    let unit = u64::from(it.host.subsystem.drive().config().mapping.unit_bytes);
    assert_eq!(after.host_units_written - written, (16 + 4 + 30_004u64).div_ceil(unit));
    it.host.subsystem.drive().check().expect("its invariants");
}

#[test]
fn a_power_cut_takes_pairs_back_to_a_whole_value_before() {
    for cut_us in [300, 900, 2500, 7000] {
        let mut it = Spaces::with(Timing::Modelled, |config| {
            let (at, recovery) = (Time::from_ps(cut_us * 1_000_000), Span::from_ms(1));
            config.faults.push(Fault::PowerCut { at, recovery });
        });
        let name = |at: u64| format!("a key of many bytes {}", at % 12);
        let from = it.host.pages(60 * 3 * PAGE);
        // What each key may have, one after the other: half of them are appended to.
        let mut may: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        let keys = it.host.put(
            &(0..12)
                .flat_map(|at| {
                    let mut key = name(at).into_bytes();
                    key.resize(32, 0);
                    key
                })
                .collect::<Vec<u8>>(),
        );
        for at in 0..60u64 {
            let (key, value) = (name(at), pattern(at, 3000));
            let place = from + at * 3 * PAGE;
            it.host.memory.write(place, &value).expect("mapped");
            let long = SamsungKey::at(keys + at % 12 * 32, 0, key.len()).expect("a long key");
            let all = may.entry(key).or_default();
            let appends = at % 2 == 1 && !all.len().is_multiple_of(3);
            let command = match appends {
                true => C::Append { key: long, bytes: 3000 },
                false => C::Store { key: long, bytes: 3000, condition: StoreCondition::Always },
            };
            let before = all.last().filter(|_| appends).cloned().unwrap_or_default();
            all.push([before, value].concat());
            let mut entry = it.entry(4, command);
            it.host.set_prps(&mut entry, place, 3000);
            it.host.submit(1, entry);
            it.host.wait(Span::from_us(40));
        }
        it.host.wait(Span::from_ms(20));
        assert_eq!(it.host.register(offset::CSTS) & 2, 2, "the controller has failed");
        it.host.set_register(offset::CC, 0);
        it.host.submissions.clear();
        it.host.completions.clear();
        it.host.done.clear();
        it.host.boot(32);
        it.host.create_pair(1, 64);
        for (key, all) in may {
            match it.value(4, key.as_bytes()) {
                Ok(value) => assert!(all.contains(&value), "{cut_us} {key} {}", value.len()),
                Err(status) => assert_eq!(status, s::KEY_DOES_NOT_EXIST),
            }
            assert_eq!(it.store(4, key.as_bytes(), b"new"), OK);
            assert_eq!(it.value(4, key.as_bytes()), Ok(b"new".to_vec()));
        }
        it.host.subsystem.drive().check().expect("its invariants");
    }
}

#[test]
fn batches_are_carried_out_in_order() {
    for (timing, has_faults) in [(BOTH[0], false), (BOTH[0], true), (BOTH[1], false)] {
        let mut it = Spaces::new(timing);
        if has_faults {
            it.host.function.expect_faults();
        }
        let mut map: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut random = pattern(77, 40_000).into_iter();
        let mut draw = |below: u8| random.next().expect("enough") % below;
        let (keys, data) = (it.host.pages(64 * PAGE), it.host.pages(64 * 2 * PAGE));
        for round in 0..40u64 {
            let mut asked = vec![];
            for at in 0..u64::from(draw(60)) {
                let (what, bytes) = (draw(8), usize::from(draw(250)) * 16);
                // In modelled time commands are decided when managers come to them: each has a key of
                // its own there.
                let name = if timing == BOTH[0] { draw(40) } else { at as u8 };
                let mut key = vec![name; 4];
                key.resize(4 + usize::from(name), 9);
                let place = match SamsungKey::inline(&key) {
                    Some(key) => key,
                    None => {
                        let (page, length) = (keys + at * PAGE, key.len());
                        it.host.memory.write(page, &key).expect("mapped");
                        SamsungKey::at(page, 0, length).expect("a long key")
                    }
                };
                let value = pattern(round * 64 + at, bytes);
                let to = data + at * 2 * PAGE;
                let absent = (fails(s::KEY_DOES_NOT_EXIST), vec![]);
                let (command, expected) = match what {
                    0..=2 => {
                        map.insert(key, value.clone());
                        let condition = StoreCondition::Always;
                        (C::Store { key: place, bytes: bytes as u32, condition }, (OK, vec![]))
                    }
                    3 => {
                        map.entry(key).or_default().extend(&value);
                        (C::Append { key: place, bytes: bytes as u32 }, (OK, vec![]))
                    }
                    4 | 5 => {
                        let expected = map.get(&key).map_or(absent, |value| {
                            let moved = value.len().min(bytes);
                            ((Status::SUCCESS, value.len() as u32), value[..moved].to_vec())
                        });
                        let (offset, only_size, bytes) = (0, false, bytes as u32);
                        (C::Retrieve { key: place, bytes, offset, only_size }, expected)
                    }
                    6 => {
                        map.remove(&key);
                        (C::Delete { key: place, must_exist: false }, (OK, vec![]))
                    }
                    _ => {
                        let there = map.contains_key(&key);
                        (C::Exist { key: place }, if there { (OK, vec![]) } else { absent })
                    }
                };
                it.host.memory.write(to, &value).expect("mapped");
                let mut entry = it.entry(6, command);
                it.host.set_prps(&mut entry, to, bytes as u64);
                asked.push((it.host.insert(1, entry), to, expected));
            }
            it.host.ring(1);
            for (id, to, (ended, data)) in asked {
                let done = it.host.completion(1, id);
                assert_eq!((done.status(), done.result.get() as u32), ended, "{timing:?}");
                assert_eq!(it.host.get(to, data.len()), data);
            }
        }
        it.host.subsystem.drive().check().expect("its invariants");
    }
}

#[test]
fn a_reset_amid_commands_leaves_a_drive_that_works() {
    for timing in BOTH {
        let mut it = Spaces::new(timing);
        assert_eq!(it.store(0, b"key!", b"first"), OK);
        for round in 0..20u64 {
            for name in [b"aaaa", b"bbbb", b"key!"] {
                let key = SamsungKey::inline(name).expect("4 bytes");
                let (bytes, condition) = (3000, StoreCondition::Always);
                let (from, to) = (it.host.put(&pattern(round, 3000)), it.host.pages(3000));
                for (command, at) in [
                    (C::Store { key, bytes, condition }, from),
                    (C::Append { key, bytes }, from),
                    (C::Retrieve { key, bytes, offset: 0, only_size: false }, to),
                    (C::Delete { key, must_exist: false }, to),
                ] {
                    let mut entry = it.entry(0, command);
                    it.host.set_prps(&mut entry, at, 3000);
                    it.host.submit(1, entry);
                }
            }
            it.host.wait(Span::from_us(round * 2));
            it.host.set_register(offset::CC, 0);
            it.host.submissions.clear();
            it.host.completions.clear();
            it.host.done.clear();
            it.host.boot(32);
            it.host.create_pair(1, 64);
        }
        assert_eq!(it.store(0, b"key!", b"last"), OK);
        assert_eq!(it.append(0, b"key!", b" of all"), OK);
        assert_eq!(it.value(0, b"key!"), Ok(b"last of all".to_vec()));
        it.host.wait(Span::from_ms(20));
        it.host.subsystem.drive().check().expect("its invariants");
    }
}

#[test]
fn protected_and_deleted_namespaces_are_left_alone() {
    for timing in BOTH {
        let mut it = Spaces::new(timing);
        assert_eq!(it.store(9, b"key!", b"value"), OK);
        let protect = |on: u32| {
            let mut entry = shared::entry(admin::SET_FEATURES, 1);
            entry.dword10.set(0x84);
            entry.dword11.set(on);
            entry
        };
        assert_eq!(it.host.plain(0, protect(1)), Status::SUCCESS);
        let protected = Status::NAMESPACE_WRITE_PROTECTED;
        assert_eq!(shared::plain(it.store(9, b"key!", b"other").0), protected);
        assert_eq!(shared::plain(it.append(9, b"key!", b"other").0), protected);
        assert_eq!(shared::plain(it.delete(9, b"key!", true).0), protected);
        assert_eq!(it.value(9, b"key!"), Ok(b"value".to_vec()));
        assert_eq!(it.keys(9, [0; 4], [0; 4], 100), [b"key!"]);
        assert_eq!(it.host.plain(0, protect(0)), Status::SUCCESS);
        assert_eq!(it.store(9, b"key!", b"other"), OK);
        let effects = {
            let mut entry = shared::entry(admin::GET_LOG_PAGE, 0);
            entry.dword10.set(5 | 1023 << 16);
            it.host.fetch(0, entry, 4096).1
        };
        for opcode in [0x81usize, 0x83, 0x90, 0xa1, 0xb1, 0xb2, 0xb3] {
            assert_eq!(effects[1024 + opcode * 4] & 1, 1, "{opcode:x}");
        }
        let mut delete = shared::entry(admin::NAMESPACE_MANAGEMENT, 1);
        delete.dword10.set(1);
        assert_eq!(it.host.plain(0, delete), Status::SUCCESS);
        assert_eq!(shared::plain(it.exist(9, b"key!").0), Status::INVALID_OPCODE);
        assert_eq!(it.log(0xd0), Err(Status::LOG_PAGE_INVALID));
    }
}

/// Something that a host does.
#[derive(Clone, Debug)]
enum Act {
    Store(StoreCondition, u32, Vec<u8>, u16),
    Append(u32, Vec<u8>, u16),
    Retrieve(u32, Vec<u8>, u8, u16),
    Delete(u32, Vec<u8>, bool),
    Exist(u32, Vec<u8>),
    Keys(u32, [u8; 4], [u8; 4], u16),
    Wait(u16),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let space = || prop_oneof![Just(0u32), Just(1), Just(0x0100_0000)];
    // Few keys, of which some are the beginning of others, and of lengths on both sides of 16.
    let key = || {
        (
            proptest::collection::vec(0u8..3, 4),
            prop_oneof![Just(0usize), Just(12), Just(13), Just(251)],
        )
            .prop_map(|(mut key, more)| {
                key.resize(4 + more, b'x');
                key
            })
    };
    let condition = prop_oneof![
        Just(StoreCondition::Always),
        Just(StoreCondition::IfAbsent),
        Just(StoreCondition::IfExists),
    ];
    let act = prop_oneof![
        4 => (condition, space(), key(), 0u16..9000)
            .prop_map(|(condition, space, key, bytes)| Act::Store(condition, space, key, bytes)),
        2 => (space(), key(), 0u16..5000)
            .prop_map(|(space, key, bytes)| Act::Append(space, key, bytes)),
        3 => (space(), key(), 0u8..12, 0u16..4000)
            .prop_map(|(space, key, sector, dwords)| Act::Retrieve(space, key, sector, dwords)),
        2 => (space(), key(), any::<bool>())
            .prop_map(|(space, key, must_exist)| Act::Delete(space, key, must_exist)),
        1 => (space(), key()).prop_map(|(space, key)| Act::Exist(space, key)),
        1 => (space(), uniform4(0u8..3), uniform4(prop_oneof![Just(0u8), Just(0xff), Just(1)]), 260u16..2000)
            .prop_map(|(space, prefix, mask, bytes)| Act::Keys(space, prefix, mask, bytes & !3)),
        1 => (0u16..3000).prop_map(Act::Wait),
    ];
    proptest::collection::vec(act, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is done, the answers are those of an ordered map.
    #[test]
    fn it_is_an_ordered_map(acts in acts(), timing in prop_oneof![Just(BOTH[0]), Just(BOTH[1])]) {
        let mut it = Spaces::new(timing);
        let mut map: BTreeMap<(u32, Vec<u8>), Vec<u8>> = BTreeMap::new();
        for (round, act) in acts.into_iter().enumerate() {
            let value = |bytes: u16| pattern(round as u64, bytes.into());
            match act {
                Act::Store(condition, space, key, bytes) => {
                    let name = (space, key);
                    let expected = match (condition, map.contains_key(&name)) {
                        (StoreCondition::IfAbsent, true) => fails(s::KEY_EXISTS),
                        (StoreCondition::IfExists, false) => fails(s::KEY_DOES_NOT_EXIST),
                        _ => OK,
                    };
                    prop_assert_eq!(it.store_if(condition, space, &name.1, &value(bytes)), expected);
                    if expected == OK {
                        map.insert(name, value(bytes));
                    }
                }
                Act::Append(space, key, bytes) => {
                    let held = map.get(&(space, key.clone())).map_or(0, Vec::len);
                    let fits = held + usize::from(bytes) <= VALUE_MAX as usize;
                    let expected = if fits { OK } else { fails(s::APPENDED_TOO_LONG) };
                    prop_assert_eq!(it.append(space, &key, &value(bytes)), expected);
                    if fits {
                        map.entry((space, key)).or_default().extend(value(bytes));
                    }
                }
                Act::Retrieve(space, key, sector, dwords) => {
                    let (offset, bytes) = (u32::from(sector) * 512, u32::from(dwords) * 4);
                    let (ended, data) = it.retrieve(space, &key, offset, bytes);
                    let (expected, rest) = match map.get(&(space, key)) {
                        None => (fails(s::KEY_DOES_NOT_EXIST), &[][..]),
                        Some(value) if offset > 0 && offset as usize >= value.len() => {
                            (fails(s::INVALID_OFFSET), &[][..])
                        }
                        Some(value) => {
                            ((Status::SUCCESS, value.len() as u32), &value[offset as usize..])
                        }
                    };
                    prop_assert_eq!(ended, expected);
                    let moved = rest.len().min(data.len());
                    prop_assert_eq!(&data[..moved], &rest[..moved]);
                    prop_assert!(data[moved..].iter().all(|&byte| byte == 0xee));
                }
                Act::Delete(space, key, must_exist) => {
                    let there = map.remove(&(space, key.clone())).is_some();
                    let expected =
                        if there || !must_exist { OK } else { fails(s::KEY_DOES_NOT_EXIST) };
                    prop_assert_eq!(it.delete(space, &key, must_exist), expected);
                }
                Act::Exist(space, key) => {
                    let there = map.contains_key(&(space, key.clone()));
                    let expected = if there { OK } else { fails(s::KEY_DOES_NOT_EXIST) };
                    prop_assert_eq!(it.exist(space, &key), expected);
                }
                Act::Keys(space, prefix, mask, bytes) => {
                    let takes = |key: &[u8]| {
                        (0..4).all(|at| key[at] & mask[at] == prefix[at])
                    };
                    let expected: Vec<Vec<u8>> = map
                        .keys()
                        .filter(|(its, key)| *its == space && takes(key))
                        .map(|(_, key)| key.clone())
                        .collect();
                    prop_assert_eq!(it.keys(space, prefix, mask, bytes.into()), expected);
                }
                Act::Wait(us) => it.host.wait(Span::from_us(us.into())),
            }
        }
        for ((space, key), value) in &map {
            let kept = it.value(*space, key);
            prop_assert_eq!(kept.as_ref(), Ok(value));
        }
        let mut entry = shared::entry(admin::IDENTIFY, 1);
        entry.dword10.set(0);
        let (_, page) = it.host.fetch(0, entry, 4096);
        let used: usize = map.iter().map(|((_, key), value)| key.len() + value.len()).sum();
        prop_assert_eq!(page[16..24].to_vec(), (used as u64).div_ceil(512).to_le_bytes());
        it.host.subsystem.drive().check().expect("its invariants");
    }
}
