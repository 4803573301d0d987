//! How long the scheduler lets a thread run, and others wait for it, at a time.

use mynah_stamp::Span;
use nix::libc;

/// Asks for slices of this length for the calling thread, and for threads that it starts from now
/// on: one that mostly sleeps, and asks for short slices, is let run soon after it wakes though
/// others keep all processors busy (Linux 6.12 and later). Its share of the processors stays
/// what it was. A system that has no such slices leaves everything as it is.
#[allow(unsafe_code)]
pub fn ask_for_slices(length: Span) {
    let mut attributes = libc::sched_attr {
        size: 0,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let bytes = size_of::<libc::sched_attr>() as libc::c_uint;
    let (this_thread, flags) = (0 as libc::pid_t, 0 as libc::c_uint);
    // SAFETY: the kernel writes at most `bytes` bytes to the structure, which has them.
    let got = unsafe {
        libc::syscall(libc::SYS_sched_getattr, this_thread, &raw mut attributes, bytes, flags)
    };
    if got != 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    attributes.size = bytes;
    attributes.sched_runtime = length.as_ps() / 1_000;
    // SAFETY: the kernel reads as many bytes of the structure as it says that it has.
    unsafe { libc::syscall(libc::SYS_sched_setattr, this_thread, &raw const attributes, flags) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the system makes of it cannot be told everywhere; that threads go on can.
    #[test]
    fn threads_go_on_with_any_slice() {
        for length in [Span::ZERO, Span::from_us(100), Span::from_secs(100)] {
            let sum = std::thread::spawn(move || {
                ask_for_slices(length);
                (0..1_000u64).sum::<u64>()
            });
            assert_eq!(sum.join().unwrap(), 499_500);
        }
    }
}
