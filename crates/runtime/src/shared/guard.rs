//! Shared memory that goes away while it is used.
//!
//! A file that becomes shorter, or whose file system or reserve of huge pages has no room left,
//! raises SIGBUS in whoever touches its mapping (mmap(2)). That ends a process with all that it
//! serves, for what one client has done to its own memory. So the addresses of shared memory are in
//! a table, and a handler of the signal puts memory of zeros in the place of a mapping that has
//! failed, notes that, and lets the access go on: who owns the mapping looks at the note
//! ([`Guard::is_lost`]) and ends with the client. Every other fault takes the course that it would
//! take without the handler.
//!
//! The handler calls `mmap` and `sigaction` and reads and writes atomic words: nothing that could
//! wait for the thread it has interrupted (signal-safety(7)). Accesses cost nothing more than
//! before; only mapping and unmapping touch the table.

use nix::libc::{c_int, c_void, siginfo_t};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The table grows by so many places, which stay.
const CHUNK: usize = 1024;
/// No process has more mappings: Linux allows 65530 (`vm.max_map_count`) unless told otherwise.
const CHUNKS: usize = 64;

/// A place of the table. The handler reads it while another thread may write it: `version` is odd
/// meanwhile, and another one afterwards.
#[derive(Debug, Default)]
struct Place {
    version: AtomicU32,
    lost: AtomicBool,
    first: AtomicUsize,
    /// 0: nothing is mapped there.
    bytes: AtomicUsize,
}

impl Place {
    fn set(&self, first: usize, bytes: usize) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.first.store(first, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.lost.store(false, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// The mapping, if `address` lies within. One that is being changed is not the one that an
    /// access of this thread has failed in: that stays as long as the access.
    fn holds(&self, address: usize) -> Option<(usize, usize)> {
        let version = self.version.load(Ordering::Acquire);
        let first = self.first.load(Ordering::Relaxed);
        let bytes = self.bytes.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_whole = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        (is_whole && address.wrapping_sub(first) < bytes).then_some((first, bytes))
    }
}

static TABLE: [OnceLock<Box<[Place]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
/// Places that hold nothing; never locked by the handler.
static FREE: Mutex<Vec<&'static Place>> = Mutex::new(Vec::new());
/// How many mappings have been lost.
static LOSSES: AtomicU64 = AtomicU64::new(0);
/// What was done about the signal before.
static BEFORE: OnceLock<SigAction> = OnceLock::new();

/// How many mappings of this process have been lost so far: cheap, to see whether to look.
#[inline]
pub(crate) fn losses() -> u64 {
    // Accesses before this call are made before it: the compiler does not know that they may call
    // the handler.
    compiler_fence(Ordering::SeqCst);
    LOSSES.load(Ordering::Relaxed)
}

/// An entry in the table, for as long as the memory is mapped.
#[derive(Debug)]
pub(super) struct Guard(&'static Place);

impl Guard {
    /// Guards a mapping, which has to stay until the guard is gone.
    ///
    /// # Errors
    /// If the table is full, or the signal cannot be handled.
    pub(super) fn new(mapping: NonNull<u8>, bytes: usize) -> io::Result<Guard> {
        install()?;
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        if free.is_empty() {
            let chunk = TABLE.iter().find(|chunk| chunk.get().is_none()).ok_or(Errno::NOMEM)?;
            let places = chunk.get_or_init(|| (0..CHUNK).map(|_| Place::default()).collect());
            free.extend(places.iter().rev());
        }
        let place = free.pop().ok_or(Errno::NOMEM)?;
        place.set(mapping.addr().get(), bytes);
        Ok(Guard(place))
    }

    /// Whether the memory was lost: it reads as zeros since, and nobody sees what is written.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        compiler_fence(Ordering::SeqCst);
        self.0.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.set(0, 0);
        free.push(self.0);
    }
}

/// Handles the signal from now on, once.
fn install() -> io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*installed {
        // As Rust's own handler, on a stack of its own: a stack may be what has overflown.
        let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK;
        let action = SigAction::new(SigHandler::SigAction(on_bus_error), flags, SigSet::empty());
        // SAFETY: the handler calls only what a handler may.
        let before = unsafe { sigaction(Signal::SIGBUS, &action)? };
        let _ = BEFORE.set(before);
        *installed = true;
    }
    Ok(())
}

extern "C" fn on_bus_error(_signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the system gives a description.
    let info = unsafe { &*info };
    // What processes send has a code of 0 or less (sigaction(2)), and no address.
    let is_fault = info.si_code > 0;
    // SAFETY: descriptions of this signal's faults have an address.
    if is_fault && replace(unsafe { info.si_addr() }.addr()) {
        return;
    }
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    let before = BEFORE.get().filter(|_| is_fault).unwrap_or(&default);
    // SAFETY: this is what was done before, or nothing that calls into the process.
    let restored = unsafe { sigaction(Signal::SIGBUS, before) };
    // A fault comes again by itself when the handler returns, at the same place.
    if !is_fault || restored.is_err() {
        let _ = raise(Signal::SIGBUS);
    }
}

/// Puts zeros in the place of the shared memory at `address`; whether there was some.
fn replace(address: usize) -> bool {
    let places = TABLE.iter().map_while(OnceLock::get).flatten();
    let found = places.filter_map(|place| Some((place, place.holds(address)?))).next();
    let Some((place, (first, bytes))) = found else { return false };
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: the range is that of a mapping which the access that has failed keeps alive. It has
    // no references to its bytes, and its owner copes with any values.
    let replaced =
        unsafe { mmap_anonymous(std::ptr::without_provenance_mut(first), bytes, access, flags) };
    if replaced.is_err() {
        return false;
    }
    place.lost.store(true, Ordering::Relaxed);
    LOSSES.fetch_add(1, Ordering::Relaxed);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    fn memory(bytes: u64) -> (Shared, rustix::fd::OwnedFd) {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, bytes).unwrap();
        (Shared::map(&file, 0, bytes, true, true).unwrap(), file)
    }

    #[test]
    fn memory_that_is_lost_reads_as_zeros_and_says_so() {
        let (good, _good_file) = memory(3 * 4096);
        let (bad, file) = memory(3 * 4096);
        good.write(0, &[1; 3 * 4096]);
        bad.write(0, &[2; 3 * 4096]);
        let before = losses();
        ftruncate(&file, 4096).unwrap();
        let mut back = [9; 2];
        bad.read(4000, &mut back);
        assert_eq!((back, bad.is_lost()), ([2; 2], false), "what is left is there");
        bad.read(4095, &mut back);
        assert!(bad.is_lost() && losses() > before);
        bad.write(8192, &[7]);
        bad.read(8191, &mut back);
        assert_eq!(back, [0, 7]);
        good.read(4095, &mut back);
        assert_eq!((back, good.is_lost()), ([1; 2], false));
        drop(bad);
        // Its place in the table is free for another, which is not lost.
        let (again, _file) = memory(4096);
        again.write(0, &[3; 4096]);
        assert!(!again.is_lost());
    }

    #[test]
    fn a_write_finds_the_loss_as_well() {
        let (memory, file) = memory(8192);
        ftruncate(&file, 0).unwrap();
        memory.write_last_half_last(4096, &[5; 16]);
        assert!(memory.is_lost());
        assert_eq!(memory.words()[1024].load(Ordering::Relaxed), u32::from_ne_bytes([5; 4]));
    }

    #[test]
    fn places_are_used_again() {
        let chunks = || TABLE.iter().filter(|chunk| chunk.get().is_some()).count();
        let (_memory, file) = memory(4096);
        for _ in 0..3 * CHUNK {
            Shared::map(&file, 0, 4096, true, true).unwrap();
        }
        assert!(chunks() < 3, "{}", chunks());
    }

    /// Another fault ends the process as before. It takes a process of its own.
    #[test]
    fn a_fault_elsewhere_is_not_swallowed() {
        const HERE: &str = "MYNAH_TEST_FAULTS_ELSEWHERE";
        if std::env::var_os(HERE).is_some() {
            let _guarded = memory(4096);
            let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
            // SAFETY: a new mapping touches no other; the access is what is tested.
            unsafe {
                let flags = MapFlags::SHARED;
                let null = std::ptr::null_mut();
                let unguarded = rustix::mm::mmap(null, 4096, ProtFlags::READ, flags, &file, 0);
                std::ptr::read_volatile(unguarded.unwrap().cast::<u8>());
            }
            return;
        }
        use std::os::unix::process::ExitStatusExt;
        let name = "shared::guard::tests::a_fault_elsewhere_is_not_swallowed";
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        let output = test.args(["--exact", name, "--nocapture"]).env(HERE, "1").output().unwrap();
        assert_eq!(output.status.signal(), Some(Signal::SIGBUS as i32), "{output:?}");
    }
}
