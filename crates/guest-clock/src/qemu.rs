//! What is used of QEMU's plugin interface (include/plugins/qemu-plugin.h, versions 4 to 7), and
//! what QEMU calls. Nothing but this file is `unsafe`.
//!
//! QEMU loads a plugin if `qemu_plugin_version` is between the least that it supports and its own.
//! Set MYNAH_QEMU_PLUGIN_API when building for another than QEMU 11.1, which takes 7 alone.
#![expect(unsafe_code, reason = "QEMU's interface is in C")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// The version of the interface that the plugin is built for.
const API: c_int = match option_env!("MYNAH_QEMU_PLUGIN_API") {
    None => 7,
    Some(text) => match text.as_bytes() {
        b"4" => 4,
        b"5" => 5,
        b"6" => 6,
        b"7" => 7,
        _ => panic!("MYNAH_QEMU_PLUGIN_API is 4, 5, 6 or 7"),
    },
};

/// From this version on, callbacks have a pointer of the plugin's as their last argument, and no
/// identifier of the plugin as their first.
const WITH_USER_DATA: c_int = 7;

/// What QEMU asks for before anything else.
#[unsafe(no_mangle)]
static qemu_plugin_version: c_int = API;

/// `qemu_info_t`.
#[repr(C)]
struct Info {
    target_name: *const c_char,
    api_min: c_int,
    api: c_int,
    system_emulation: bool,
    processors: c_int,
    processors_max: c_int,
}

/// `qemu_plugin_u64`: a number of each processor's.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    board: *mut c_void,
    offset: usize,
}

// SAFETY: the board is made once and never freed; QEMU's functions that take it may be called in any
// thread.
unsafe impl Send for Counter {}
// SAFETY: as above.
unsafe impl Sync for Counter {}

/// `QEMU_PLUGIN_INLINE_ADD_U64`, `QEMU_PLUGIN_COND_GE` and `QEMU_PLUGIN_CB_NO_REGS`.
const ADD: c_int = 0;
const AT_LEAST: c_int = 7;
const WITHOUT_REGISTERS: c_int = 0;

type OnProcessor = extern "C" fn(c_uint, *mut c_void);

unsafe extern "C" {
    fn qemu_plugin_scoreboard_new(bytes: usize) -> *mut c_void;
    fn qemu_plugin_u64_get(counter: Counter, processor: c_uint) -> u64;
    fn qemu_plugin_u64_set(counter: Counter, processor: c_uint, value: u64);
    // The callbacks' types depend on the version.
    fn qemu_plugin_register_vcpu_init_cb(id: u64, call: *const c_void, data: *mut c_void);
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, call: *const c_void, data: *mut c_void);
    fn qemu_plugin_register_atexit_cb(id: u64, call: *const c_void, data: *mut c_void);
    fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        block: *mut c_void,
        operation: c_int,
        counter: Counter,
        value: u64,
    );
    fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        block: *mut c_void,
        call: OnProcessor,
        flags: c_int,
        condition: c_int,
        counter: Counter,
        value: u64,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut c_void,
        call: OnProcessor,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut c_void,
        call: OnProcessor,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    fn qemu_plugin_tb_vaddr(block: *const c_void) -> u64;
    fn qemu_plugin_tb_get_insn(block: *const c_void, number: usize) -> *mut c_void;
    fn qemu_plugin_insn_data(instruction: *const c_void, into: *mut c_void, bytes: usize) -> usize;
    fn _exit(status: c_int) -> !;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

impl Counter {
    /// A number of each processor's.
    pub(crate) fn new() -> Counter {
        // SAFETY: it may be called while the plugin is loaded, and needs nothing.
        let board = unsafe { qemu_plugin_scoreboard_new(size_of::<u64>()) };
        Counter { board, offset: 0 }
    }

    /// What it says. Exact if the processor's thread is not executing at the moment.
    pub(crate) fn get(self, processor: u32) -> u64 {
        // SAFETY: the board has place for every processor that was announced, and only those are
        // asked for.
        unsafe { qemu_plugin_u64_get(self, processor) }
    }

    /// Sets it. What the processor adds at this moment may be lost.
    pub(crate) fn set(self, processor: u32, value: u64) {
        // SAFETY: as for `get`.
        unsafe { qemu_plugin_u64_set(self, processor, value) }
    }
}

/// What the program or one of its libraries has by this name.
fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: it may always be called; the null pointer means the program and all its libraries.
    let symbol = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
    (!symbol.is_null()).then_some(symbol)
}

/// Whether QEMU was started with the calendar of `crates/guest-calendar`.
pub(crate) fn calendar_stands_still() -> bool {
    symbol(c"mynah_guest_calendar").is_some()
}

/// What a processor is to QEMU; 0 is none.
pub(crate) type Identity = usize;

/// QEMU's round of processors that share a thread: what it has to say about them is no part of the
/// interface for plugins, but it exports all of its symbols for its modules, these as well (`current_cpu`,
/// `qemu_get_cpu` and `cpu_exit` of include/hw/core/cpu.h).
#[derive(Clone, Copy)]
pub(crate) struct Round {
    /// Which processor a thread executes; every thread has one.
    current: *const Identity,
    find: extern "C" fn(c_int) -> Identity,
    leave: extern "C" fn(Identity),
}

// SAFETY: the variable is read in the thread that it belongs to alone, and that lasts as long as QEMU.
unsafe impl Send for Round {}
// SAFETY: as above.
unsafe impl Sync for Round {}

impl Round {
    /// That of the calling thread; `None` if this QEMU tells processors apart otherwise.
    pub(crate) fn of_this_thread() -> Option<Round> {
        let current = symbol(c"current_cpu")?.cast_const().cast();
        let (find, leave) = (symbol(c"qemu_get_cpu")?, symbol(c"cpu_exit")?);
        // SAFETY: functions of these names are of these types, processors being pointers.
        unsafe {
            Some(Round {
                current,
                find: std::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> Identity>(find),
                leave: std::mem::transmute::<*mut c_void, extern "C" fn(Identity)>(leave),
            })
        }
    }

    /// Whether it is that of the same thread.
    pub(crate) fn is(self, other: Round) -> bool {
        std::ptr::eq(self.current, other.current)
    }

    /// The processor that the thread executes.
    pub(crate) fn current(self) -> Identity {
        // SAFETY: the variable lasts as long as its thread, which is this one.
        unsafe { *self.current }
    }

    /// A processor by its number.
    pub(crate) fn find(self, processor: u32) -> Identity {
        (self.find)(processor as c_int)
    }

    /// Ends the turn of the processor that the thread executes, at its next block.
    pub(crate) fn leave(self) {
        (self.leave)(self.current());
    }
}

/// The plugin, while it is being loaded.
pub(crate) struct Plugin {
    id: u64,
    processors: u32,
}

/// What is called back. A function pointer fits into the pointer that QEMU hands back.
type Call = fn(u32);

/// Calls the one function for blocks with the number that was given as `data`.
extern "C" fn block_begins(_processor: c_uint, data: *mut c_void) {
    super::begins_block(data as u64);
}

/// Calls the function that was given as `data`.
extern "C" fn call(processor: c_uint, data: *mut c_void) {
    // SAFETY: it is a pointer of `as_data`.
    let call: Call = unsafe { std::mem::transmute(data) };
    call(processor);
}

fn as_data(call: Call) -> *mut c_void {
    call as *mut c_void
}

// Callbacks up to version 6, which know no data: what is called is kept here.
static PROCESSOR: std::sync::OnceLock<Call> = std::sync::OnceLock::new();
static TRANSLATION: std::sync::OnceLock<fn(&Block)> = std::sync::OnceLock::new();
static EXIT: std::sync::OnceLock<fn()> = std::sync::OnceLock::new();

extern "C" fn processor_began(_id: u64, processor: c_uint) {
    PROCESSOR.get().inspect(|call| call(processor));
}

extern "C" fn processor_began_7(processor: c_uint, _data: *mut c_void) {
    PROCESSOR.get().inspect(|call| call(processor));
}

extern "C" fn translating(_id: u64, block: *mut c_void) {
    TRANSLATION.get().inspect(|call| call(&Block(block)));
}

extern "C" fn translating_7(block: *mut c_void, _data: *mut c_void) {
    TRANSLATION.get().inspect(|call| call(&Block(block)));
}

/// Its arguments, which differ, are not looked at.
extern "C" fn exiting() {
    EXIT.get().inspect(|call| call());
}

impl Plugin {
    /// Processors of the guest, with those that may yet be added.
    pub(crate) fn processors(&self) -> u32 {
        self.processors
    }

    /// Calls `then` for each processor before it begins.
    pub(crate) fn on_processor(&self, then: Call) {
        PROCESSOR.get_or_init(|| then);
        let call = match API < WITH_USER_DATA {
            true => processor_began as *const c_void,
            false => processor_began_7 as *const c_void,
        };
        // SAFETY: the function is of the type that this version calls.
        unsafe { qemu_plugin_register_vcpu_init_cb(self.id, call, std::ptr::null_mut()) }
    }

    /// Calls `then` for each block of instructions that is translated.
    pub(crate) fn on_translation(&self, then: fn(&Block)) {
        TRANSLATION.get_or_init(|| then);
        let call = match API < WITH_USER_DATA {
            true => translating as *const c_void,
            false => translating_7 as *const c_void,
        };
        // SAFETY: as above.
        unsafe { qemu_plugin_register_vcpu_tb_trans_cb(self.id, call, std::ptr::null_mut()) }
    }

    /// Calls `then` when QEMU ends in order.
    pub(crate) fn on_exit(&self, then: fn()) {
        EXIT.get_or_init(|| then);
        let call = exiting as *const c_void;
        // SAFETY: a function may be given more arguments than it takes, by the C calling convention
        // of the platforms that QEMU has.
        unsafe { qemu_plugin_register_atexit_cb(self.id, call, std::ptr::null_mut()) }
    }
}

/// A block of instructions that is being translated.
pub(crate) struct Block(*mut c_void);

impl Block {
    /// How many instructions it has.
    pub(crate) fn instructions(&self) -> usize {
        // SAFETY: the block is valid during the callback that it was given to.
        unsafe { qemu_plugin_tb_n_insns(self.0) }
    }

    /// Its address in the guest.
    pub(crate) fn address(&self) -> u64 {
        // SAFETY: as above.
        unsafe { qemu_plugin_tb_vaddr(self.0) }
    }

    /// The first bytes of an instruction, and zeros where it is shorter.
    pub(crate) fn bytes(&self, number: usize) -> [u8; 4] {
        let mut bytes = [0; 4];
        // SAFETY: the number is below `instructions`, and no more is copied than there is room for.
        unsafe {
            let instruction = qemu_plugin_tb_get_insn(self.0, number);
            qemu_plugin_insn_data(instruction, bytes.as_mut_ptr().cast(), bytes.len());
        }
        bytes
    }

    /// Has it add to a counter whenever it begins.
    pub(crate) fn add(&self, counter: Counter, value: u64) {
        // SAFETY: block and counter are valid.
        unsafe {
            qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(self.0, ADD, counter, value);
        }
    }

    /// Has it call before it begins, when a counter is that high.
    pub(crate) fn call_when(&self, counter: Counter, value: u64, then: Call) {
        let (flags, condition, data) = (WITHOUT_REGISTERS, AT_LEAST, as_data(then));
        // SAFETY: block and counter are valid, and `call` takes such data.
        unsafe {
            qemu_plugin_register_vcpu_tb_exec_cond_cb(
                self.0, call, flags, condition, counter, value, data,
            );
        }
    }

    /// Has it call [`super::begins_block`] whenever it begins, with a number.
    pub(crate) fn call_first(&self, number: u64) {
        let data = number as *mut c_void;
        // SAFETY: the block is valid, and what is called takes any data.
        unsafe {
            qemu_plugin_register_vcpu_tb_exec_cb(self.0, block_begins, WITHOUT_REGISTERS, data);
        }
    }

    /// Has it call before an instruction.
    pub(crate) fn call_at(&self, number: usize, then: Call) {
        // SAFETY: the number is below `instructions`, and `call` takes such data.
        unsafe {
            let instruction = qemu_plugin_tb_get_insn(self.0, number);
            let data = as_data(then);
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, call, WITHOUT_REGISTERS, data);
        }
    }
}

/// Ends the process at once, without what QEMU does when it ends in order: that waits for
/// processors, which may be waiting here.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: it may always be called.
    unsafe { _exit(status) }
}

/// QEMU loads the plugin. What cannot be done is said, and then QEMU ends.
///
/// # Safety
/// `info` and `count` arguments are as QEMU has them.
#[unsafe(no_mangle)]
unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU gives a description that is valid during the call.
    let info = unsafe { &*info };
    let arguments: Vec<String> = (0..usize::try_from(count).unwrap_or(0))
        .map(|number| {
            // SAFETY: there are so many arguments, all of them strings.
            let argument = unsafe { CStr::from_ptr(*arguments.add(number)) };
            argument.to_string_lossy().into_owned()
        })
        .collect();
    // SAFETY: as above.
    let target = unsafe { CStr::from_ptr(info.target_name) };
    let plugin = Plugin { id, processors: u32::try_from(info.processors_max).unwrap_or(0) };
    let installed = match info.system_emulation && target == c"x86_64" {
        true => super::install(&plugin, &arguments),
        false => Err("the guest has to be an x86-64 system".to_owned()),
    };
    match installed {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("mynah-guest-clock: {error}");
            1
        }
    }
}
