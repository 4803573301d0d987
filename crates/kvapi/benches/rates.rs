//! How many pairs a second programs store and retrieve in this process: 4 KiB under keys of 16 bytes,
//! one call after the other, and 64 at a time. `KV_DEVICE` names another device than `mynah:kv-tlc`.

#![allow(unsafe_code, reason = "it is a program of the API")]

use core::ffi::c_void;
use core::ptr::null_mut;
use mynahkv::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

const PAIRS: u32 = 200_000;
const VALUE: usize = 4096;
const DEPTH: usize = 64;

struct Slot {
    name: [u8; 17],
    key: Key,
    value: Value,
    bytes: Box<[u8]>,
    free: AtomicU32,
}

unsafe extern "C" fn ended(context: *mut PostprocessContext) {
    // SAFETY: The context is valid, and its first pointer is the slot's.
    let (slot, result) = unsafe { (&*(*context).private1.cast::<AtomicU32>(), (*context).result) };
    assert_eq!(result, 0);
    slot.store(1, Ordering::Release);
}

fn ok(code: Code) {
    assert_eq!(code, Code::Success);
}

fn main() {
    let (mut device, mut space) = (null_mut(), null_mut());
    let uri = std::env::var("KV_DEVICE").unwrap_or_else(|_| "mynah:kv-tlc".into());
    let uri = std::ffi::CString::new(uri).expect("it has no zero byte");
    let mut text = *b"bench\0";
    let mut name = KeySpaceName { length: 5, name: text.as_mut_ptr().cast() };
    // SAFETY: All pointers lead to what the functions expect, as long as they expect it.
    unsafe {
        ok(kvs_open_device(uri.as_ptr().cast_mut(), &mut device));
        ok(kvs_create_key_space(device, &mut name, 0, KeySpaceOption { ordering: 0 }));
        ok(kvs_open_key_space(device, text.as_mut_ptr().cast(), &mut space));
    }
    for what in ["store", "update", "retrieve"] {
        report(what, "one by one", one_by_one(space, what));
    }
    for what in ["update", "retrieve"] {
        report(what, "64 at a time", at_a_time(space, what));
    }
    // SAFETY: As above.
    unsafe {
        ok(kvs_close_key_space(space));
        ok(kvs_delete_key_space(device, &mut name));
        ok(kvs_create_key_space(device, &mut name, 0, KeySpaceOption { ordering: 0 }));
        ok(kvs_open_key_space(device, text.as_mut_ptr().cast(), &mut space));
    }
    report("store", "64 at a time", at_a_time(space, "store"));
    ok(kvs_close_device(device));
}

fn report(what: &str, how: &str, rate: f64) {
    println!("{what:<10} {how:<14} {:>8.0} k/s", rate / 1000.0);
}

fn slot() -> Slot {
    let mut bytes = vec![7; VALUE].into_boxed_slice();
    let value =
        Value { value: bytes.as_mut_ptr().cast(), length: VALUE as u32, actual_size: 0, offset: 0 };
    let key = Key { key: null_mut(), length: 16 };
    Slot { name: [0; 17], key, value, bytes, free: AtomicU32::new(1) }
}

impl Slot {
    fn begin(&mut self, number: u32) {
        let name = format!("{:016}", number.wrapping_mul(2_654_435_761) % PAIRS);
        self.name[..16].copy_from_slice(name.as_bytes());
        self.key.key = self.name.as_mut_ptr().cast();
        self.value.length = self.bytes.len() as u32;
    }
}

fn one_by_one(space: KeySpaceHandle, what: &str) -> f64 {
    let mut slot = slot();
    let begin = Instant::now();
    for number in 0..PAIRS {
        slot.begin(number);
        // SAFETY: The slot's pointers lead to its parts.
        ok(unsafe {
            match what {
                "retrieve" => kvs_retrieve_kvp(space, &mut slot.key, null_mut(), &mut slot.value),
                _ => kvs_store_kvp(space, &mut slot.key, &mut slot.value, null_mut()),
            }
        });
    }
    f64::from(PAIRS) / begin.elapsed().as_secs_f64()
}

fn at_a_time(space: KeySpaceHandle, what: &str) -> f64 {
    let mut slots: Vec<Slot> = (0..2 * DEPTH).map(|_| slot()).collect();
    let begin = Instant::now();
    for number in 0..PAIRS {
        let at = number as usize % slots.len();
        // The library lets as many calls be under way as its depth says.
        while slots[at].free.swap(0, Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let slot = &mut slots[at];
        slot.begin(number);
        let free: *mut c_void = (&raw const slot.free).cast_mut().cast();
        // SAFETY: The slot is left alone until it is free.
        ok(unsafe {
            match what {
                "retrieve" => kvs_retrieve_kvp_async(
                    space,
                    &mut slot.key,
                    null_mut(),
                    free,
                    null_mut(),
                    &mut slot.value,
                    Some(ended),
                ),
                _ => kvs_store_kvp_async(
                    space,
                    &mut slot.key,
                    &mut slot.value,
                    null_mut(),
                    free,
                    null_mut(),
                    Some(ended),
                ),
            }
        });
    }
    for slot in &slots {
        while slot.free.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
    }
    f64::from(PAIRS) / begin.elapsed().as_secs_f64()
}
