//! All functions on pairs against maps, over several key spaces of one device.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use mynahkv::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::mpsc;

#[derive(Clone, Debug)]
enum Op {
    Store { key: usize, kind: u32, bytes: u32, seed: u8 },
    Retrieve { key: usize, room: u32, offset: u32, delete: bool },
    Delete { key: usize, fails: bool },
    Exist { from: usize, count: usize },
    Iterate { filter: GroupFilter, values: bool, room: u32 },
    DeleteGroup(GroupFilter),
    Info { key: usize },
    Reopen,
}

/// Keys of many lengths that have beginnings in common.
fn key_of(number: usize) -> Vec<u8> {
    let lengths = [4, 5, 15, 16, 17, 40, 254, 255];
    let mut key = vec![b'a' + (number % 3) as u8; lengths[number % lengths.len()]];
    key[1] = b'p' + (number / 3 % 2) as u8;
    key[3] = (number / 8) as u8;
    key
}

const KEYS: usize = 64;

fn filter() -> impl Strategy<Value = GroupFilter> {
    (0usize..=3, 0usize..KEYS).prop_map(|(bytes, key)| {
        let (mut mask, mut pattern) = ([0; 4], [0; 4]);
        mask[..bytes].fill(0xff);
        pattern.copy_from_slice(&key_of(key)[..4]);
        GroupFilter { mask, pattern }
    })
}

fn op() -> impl Strategy<Value = Op> {
    let sizes = || prop_oneof![0u32..20, 500u32..530, 4000u32..5000, 1_000_000u32..1_100_000];
    let key = || 0..KEYS;
    prop_oneof![
        6 => (key(), 0u32..4, sizes(), any::<u8>())
            .prop_map(|(key, kind, bytes, seed)| Op::Store { key, kind, bytes, seed }),
        4 => (key(), sizes(), 0u32..4, any::<bool>())
            .prop_map(|(key, room, at, delete)| Op::Retrieve { key, room, offset: at * 512, delete }),
        2 => (key(), any::<bool>()).prop_map(|(key, fails)| Op::Delete { key, fails }),
        1 => (key(), 1usize..20).prop_map(|(from, count)| Op::Exist { from, count }),
        1 => (filter(), any::<bool>(), 300u32..40_000)
            .prop_map(|(filter, values, room)| Op::Iterate { filter, values, room }),
        1 => filter().prop_map(Op::DeleteGroup),
        1 => key().prop_map(|key| Op::Info { key }),
        1 => Just(Op::Reopen),
    ]
}

fn matches(filter: &GroupFilter, key: &[u8]) -> bool {
    (0..4).all(|at| key[at] & filter.mask[at] == filter.pattern[at] & filter.mask[at])
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct Space {
    device: DeviceHandle,
    handle: KeySpaceHandle,
    name: &'static CStr,
    map: Map,
    /// Calls are made in either way.
    waits: bool,
}

unsafe extern "C" fn ended(context: *mut PostprocessContext) {
    // SAFETY: The context is valid, and its first pointer is the sender's, which is now this one's.
    let (tell, result) = unsafe {
        (Box::from_raw((*context).private1.cast::<mpsc::Sender<u32>>()), (*context).result)
    };
    tell.send(result).expect("somebody waits");
}

/// Makes an asynchronous call, and waits for it.
fn awaited(call: impl FnOnce(*mut c_void) -> Code) -> u32 {
    let (tell, told) = mpsc::channel::<u32>();
    let tell = Box::into_raw(Box::new(tell));
    match call(tell.cast()) {
        Code::Success => told.recv().expect("it ends"),
        code => {
            // SAFETY: The call was not made, and nobody has it.
            drop(unsafe { Box::from_raw(tell) });
            code as u32
        }
    }
}

fn expected(code: Code) -> u32 {
    code as u32
}

impl Space {
    fn open(device: DeviceHandle, name: &'static CStr) -> Space {
        let mut space = Space { device, handle: null_mut(), name, map: Map::new(), waits: true };
        let mut named = space.named();
        // SAFETY: The name is a string with its length.
        let code =
            unsafe { kvs_create_key_space(device, &mut named, 0, KeySpaceOption { ordering: 0 }) };
        assert_eq!(code, Code::Success);
        space.reopen();
        space
    }

    fn named(&self) -> KeySpaceName {
        KeySpaceName { length: self.name.count_bytes() as u32, name: self.name.as_ptr().cast_mut() }
    }

    fn reopen(&mut self) {
        if !self.handle.is_null() {
            assert_eq!(kvs_close_key_space(self.handle), Code::Success);
        }
        // SAFETY: The name is a string, and there is room for the handle.
        let code = unsafe {
            kvs_open_key_space(self.device, self.name.as_ptr().cast_mut(), &mut self.handle)
        };
        assert_eq!(code, Code::Success);
    }

    fn remove(self) {
        let mut named = self.named();
        // SAFETY: The name is a string with its length.
        assert_eq!(unsafe { kvs_delete_key_space(self.device, &mut named) }, Code::Success);
    }

    fn store(&mut self, key: usize, kind: u32, bytes: u32, seed: u8) {
        let mut text = key_of(key);
        let mut value: Vec<u8> = (0..bytes).map(|at| (at as u8).wrapping_mul(3) ^ seed).collect();
        let mut c_key = c_key(&mut text);
        let mut c_value = c_value(&mut value, 0);
        let mut option = StoreOption { kind, association: null_mut() };
        let (space, null) = (self.handle, null_mut());
        // SAFETY: All pointers lead to what is here until the call has ended.
        let code = unsafe {
            match self.waits {
                true => kvs_store_kvp(space, &mut c_key, &mut c_value, &mut option) as u32,
                false => awaited(|tell| {
                    let end = Some(ended as unsafe extern "C" fn(_));
                    kvs_store_kvp_async(
                        space,
                        &mut c_key,
                        &mut c_value,
                        &mut option,
                        tell,
                        null,
                        end,
                    )
                }),
            }
        };
        let before = self.map.get(&text);
        let held = before.map_or(0, Vec::len);
        let wanted = match (before, kind) {
            (None, 1) => Code::KeyNotExist,
            (Some(_), 2) => Code::ValueUpdateNotAllowed,
            (_, 3) if held + value.len() > VALUE_BYTES_MAX as usize => Code::ValueLengthInvalid,
            _ => Code::Success,
        };
        assert_eq!(code, expected(wanted));
        if wanted == Code::Success {
            let into = self.map.entry(text).or_default();
            if kind != 3 {
                into.clear();
            }
            into.extend(value);
        }
    }

    fn retrieve(&mut self, key: usize, room: u32, offset: u32, delete: bool) {
        let mut text = key_of(key);
        let mut buffer = vec![0xee; room as usize];
        let mut c_key = c_key(&mut text);
        let mut c_value = c_value(&mut buffer, offset);
        let mut option = RetrieveOption { delete: delete.into() };
        let (space, null) = (self.handle, null_mut());
        // SAFETY: All pointers lead to what is here until the call has ended.
        let code = unsafe {
            match self.waits {
                true => kvs_retrieve_kvp(space, &mut c_key, &mut option, &mut c_value) as u32,
                false => awaited(|tell| {
                    let (key, value) = (&mut c_key, &mut c_value);
                    let end = Some(ended as unsafe extern "C" fn(_));
                    kvs_retrieve_kvp_async(space, key, &mut option, tell, null, value, end)
                }),
            }
        };
        let Some(value) = self.map.get(&text) else {
            return assert_eq!(code, expected(Code::KeyNotExist));
        };
        if offset > 0 && offset as usize >= value.len() {
            return assert_eq!(code, expected(Code::ValueOffsetInvalid));
        }
        let rest = &value[offset as usize..];
        let fits = rest.len() <= buffer.len();
        assert_eq!(code, expected(if fits { Code::Success } else { Code::BufferSmall }));
        let copied = rest.len().min(buffer.len());
        assert_eq!((c_value.length, c_value.actual_size), (copied as u32, value.len() as u32));
        assert!(buffer[..copied] == rest[..copied]);
        assert!(buffer[copied..].iter().all(|&byte| byte == 0xee));
        if delete && fits {
            self.map.remove(&text);
        }
    }

    fn delete(&mut self, key: usize, fails: bool) {
        let mut text = key_of(key);
        let mut c_key = c_key(&mut text);
        let mut option = DeleteOption { error: fails.into() };
        let (space, null) = (self.handle, null_mut());
        // SAFETY: All pointers lead to what is here until the call has ended.
        let code = unsafe {
            match self.waits {
                true => kvs_delete_kvp(space, &mut c_key, &mut option) as u32,
                false => awaited(|tell| {
                    kvs_delete_kvp_async(space, &mut c_key, &mut option, tell, null, Some(ended))
                }),
            }
        };
        let existed = self.map.remove(&text).is_some();
        let is_good = existed || !fails;
        assert_eq!(code, expected(if is_good { Code::Success } else { Code::KeyNotExist }));
    }

    fn exist(&mut self, from: usize, count: usize) {
        let mut texts: Vec<Vec<u8>> = (0..count).map(|at| key_of((from + at) % KEYS)).collect();
        let mut keys: Vec<Key> = texts.iter_mut().map(|text| c_key(text)).collect();
        let mut bits = vec![0xff; count.div_ceil(8)];
        let (length, buffer) = (bits.len() as u32, bits.as_mut_ptr());
        let mut list = ExistList { count: 0, keys: null_mut(), length, buffer };
        let (space, null) = (self.handle, null_mut());
        let (number, first) = (count as u32, keys.as_mut_ptr());
        // SAFETY: All pointers lead to what is here until the call has ended.
        let code = unsafe {
            match self.waits {
                true => kvs_exist_kv_pairs(space, number, first, &mut list) as u32,
                false => awaited(|tell| {
                    let end = Some(ended as unsafe extern "C" fn(_));
                    kvs_exist_kv_pairs_async(space, number, first, &mut list, tell, null, end)
                }),
            }
        };
        assert_eq!(code, 0);
        for (at, text) in texts.iter().enumerate() {
            assert_eq!(bits[at / 8] >> (at % 8) & 1 == 1, self.map.contains_key(text));
        }
    }

    fn iterate(&mut self, mut filter: GroupFilter, values: bool, room: u32) {
        let mut option = IteratorOption { kind: values.into() };
        let (mut iterator, mut found) = (0, Map::new());
        let space = self.handle;
        // SAFETY: All pointers lead to what is here.
        let code = unsafe { kvs_create_iterator(space, &mut option, &mut filter, &mut iterator) };
        assert_eq!(code, Code::Success);
        let group = self.map.iter().filter(|(key, _)| matches(&filter, key));
        let group: Map = group.map(|(key, value)| (key.clone(), value.clone())).collect();
        let entry = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            4 + key.len() + if values { 4 + value.len() } else { 0 }
        };
        let largest = group.iter().map(entry).max().unwrap_or(0);
        let mut buffer = vec![0; (room as usize).max(largest)];
        loop {
            let (size, at) = (buffer.len() as u32, buffer.as_mut_ptr());
            let mut list = IteratorList { count: 0, end: 0, size, list: at };
            // SAFETY: All pointers lead to what is here until the call has ended.
            let code = unsafe {
                match self.waits {
                    true => kvs_iterate_next(space, iterator, &mut list) as u32,
                    false => awaited(|tell| {
                        let end = Some(ended as unsafe extern "C" fn(_));
                        kvs_iterate_next_async(space, iterator, &mut list, tell, null_mut(), end)
                    }),
                }
            };
            assert_eq!(code, 0);
            let mut rest = &buffer[..list.size as usize];
            for _ in 0..list.count {
                let key = taken(&mut rest).to_vec();
                let value = if values { taken(&mut rest).to_vec() } else { group[&key].clone() };
                assert!(found.insert(key, value).is_none());
            }
            assert!(rest.is_empty());
            if list.end != 0 {
                break;
            }
        }
        assert!(found == group);
        assert_eq!(kvs_delete_iterator(space, iterator), Code::Success);
    }

    fn delete_group(&mut self, mut filter: GroupFilter) {
        let (space, null) = (self.handle, null_mut());
        // SAFETY: All pointers lead to what is here until the call has ended.
        let code = unsafe {
            match self.waits {
                true => kvs_delete_key_group(space, &mut filter) as u32,
                false => awaited(|tell| {
                    kvs_delete_key_group_async(space, &mut filter, tell, null, Some(ended))
                }),
            }
        };
        assert_eq!(code, 0);
        self.map.retain(|key, _| !matches(&filter, key));
    }

    fn info(&mut self, key: usize) {
        let mut text = key_of(key);
        let mut room = [0; 255];
        let mut c_key = c_key(&mut text);
        let mut pair = PairInfo { key_length: 0, key: room.as_mut_ptr(), value_length: 0 };
        let mut info =
            KeySpaceInfo { opened: 0, capacity: 0, free_size: 0, count: 0, name: null_mut() };
        // SAFETY: All pointers lead to what is here.
        let (code, about) = unsafe {
            let code = kvs_get_kvp_info(self.handle, &mut c_key, &mut pair);
            (code, kvs_get_key_space_info(self.handle, &mut info))
        };
        match self.map.get(&text) {
            Some(value) => {
                assert_eq!((code, pair.value_length as usize), (Code::Success, value.len()));
                assert_eq!(room[..pair.key_length.into()], text);
            }
            None => assert_eq!(code, Code::KeyNotExist),
        }
        assert_eq!(about, Code::Success);
        assert_eq!((info.opened, info.count as usize), (1, self.map.len()));
    }

    fn perform(&mut self, op: &Op) {
        match *op {
            Op::Store { key, kind, bytes, seed } => self.store(key, kind, bytes, seed),
            Op::Retrieve { key, room, offset, delete } => self.retrieve(key, room, offset, delete),
            Op::Delete { key, fails } => self.delete(key, fails),
            Op::Exist { from, count } => self.exist(from, count),
            Op::Iterate { filter, values, room } => self.iterate(filter, values, room),
            Op::DeleteGroup(filter) => self.delete_group(filter),
            Op::Info { key } => self.info(key),
            Op::Reopen => self.reopen(),
        }
    }
}

/// The bytes behind a length.
fn taken<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let (length, behind) = rest.split_first_chunk::<4>().expect("there is a length");
    let (bytes, behind) = behind.split_at(u32::from_ne_bytes(*length) as usize);
    *rest = behind;
    bytes
}

fn c_key(text: &mut [u8]) -> Key {
    Key { key: text.as_mut_ptr().cast(), length: text.len() as u16 }
}

fn c_value(bytes: &mut [u8], offset: u32) -> Value {
    let length = bytes.len() as u32;
    Value { value: bytes.as_mut_ptr().cast(), length, actual_size: 0, offset }
}

fn open(uri: &CStr) -> DeviceHandle {
    let mut device = null_mut();
    // SAFETY: The name is a string, and there is room for the handle.
    assert_eq!(unsafe { kvs_open_device(uri.as_ptr().cast_mut(), &mut device) }, Code::Success);
    device
}

fn check(device: DeviceHandle, ops: &[(bool, bool, Op)]) {
    let mut spaces = [Space::open(device, c"one"), Space::open(device, c"another")];
    for (first, waits, op) in ops {
        let space = &mut spaces[usize::from(*first)];
        space.waits = *waits;
        space.perform(op);
    }
    spaces.into_iter().for_each(Space::remove);
    let mut used = 99;
    // SAFETY: There is room for the number.
    assert_eq!(unsafe { kvs_get_device_utilization(device, &mut used) }, Code::Success);
    assert_eq!(used, 0);
}

fn run(uri: &CStr, cases: u32, steps: usize) {
    let device = open(uri);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let ops = vec((any::<bool>(), any::<bool>(), op()), 0..steps);
    runner
        .run(&ops, |ops| {
            check(device, &ops);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(kvs_close_device(device), Code::Success);
}

#[test]
fn a_device_is_a_map() {
    run(c"mynah:kv-tlc", 200, 150);
}

#[test]
fn a_device_with_the_time_of_the_model_is_a_map() {
    run(c"mynah:kv-tlc,speed=1000", 40, 100);
}

/// Values are made up, but sizes and keys are those that were stored.
#[test]
fn a_device_without_values_has_sizes() {
    let device = open(c"mynah:kv-tlc,store=pattern");
    let mut space = Space::open(device, c"sizes");
    space.store(1, 0, 5000, 1);
    let mut text = key_of(1);
    let (mut one, mut two) = (vec![0; 8192], vec![0; 8192]);
    for buffer in [&mut one, &mut two] {
        let (mut key, mut value) = (c_key(&mut text), c_value(buffer, 0));
        // SAFETY: All pointers lead to what is here.
        let code = unsafe { kvs_retrieve_kvp(space.handle, &mut key, null_mut(), &mut value) };
        assert_eq!((code, value.length), (Code::Success, 5000));
    }
    assert_eq!(one, two);
    space.info(1);
    space.remove();
    assert_eq!(kvs_close_device(device), Code::Success);
}
