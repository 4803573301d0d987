//! A calendar that stands still, preloaded into QEMU (`LD_PRELOAD=libmynah_guest_calendar.so`).
//!
//! QEMU resizes its software TLB by the host's time (`tlb_mmu_resize_locked` of accel/tcg/cputlb.c, a window
//! of 100 ms of `get_clock_realtime`, which is `gettimeofday`). What the TLB still holds decides whether QEMU
//! sets the accessed bits of page tables again after a kernel has cleared them without a flush, as its memory
//! reclaim and DAMON do, and that kernel branches on them. So with the host's calendar two runs may differ.
//!
//! Nothing else in QEMU needs this function: its timers have clocks of their own, and a guest's calendar is
//! that of `-rtc`.
#![expect(unsafe_code, reason = "a function of the C library is replaced")]

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::sync::OnceLock;

/// 2026-01-01 00:00 UTC, the day that `mynah guest` gives its guests.
const BEGIN_S: c_long = 1_767_225_600;
/// For tests: by how many microseconds each call is after the one before it in the same thread.
const STEP: &str = "MYNAH_GUEST_CALENDAR_STEP_US";

/// `struct timeval`.
#[repr(C)]
struct TimeVal {
    seconds: c_long,
    microseconds: c_long,
}

thread_local! {
    static CALLS: Cell<c_long> = const { Cell::new(0) };
}

fn step() -> c_long {
    static STEP_US: OnceLock<c_long> = OnceLock::new();
    *STEP_US
        .get_or_init(|| std::env::var(STEP).ok().and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// By its presence the guest's clock knows that QEMU has this calendar.
#[unsafe(no_mangle)]
static mynah_guest_calendar: u8 = 1;

/// POSIX's function: the same time at each call.
#[unsafe(no_mangle)]
extern "C" fn gettimeofday(time: *mut TimeVal, _zone: *mut c_void) -> c_int {
    let calls = CALLS.try_with(|calls| calls.replace(calls.get().wrapping_add(1))).unwrap_or(0);
    let after = step().wrapping_mul(calls);
    let now = TimeVal {
        seconds: BEGIN_S.wrapping_add(after / 1_000_000),
        microseconds: after % 1_000_000,
    };
    if !time.is_null() {
        // SAFETY: the caller gives a null pointer or a `struct timeval` of its own.
        unsafe { time.write(now) };
    }
    0
}
