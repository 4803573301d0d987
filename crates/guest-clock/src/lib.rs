//! A plugin for QEMU: the clock of a guest that runs in lock-step with one of Mynah's drives.
//!
//! `-plugin libmynah_guest_clock.so,socket=PATH`: it connects to the drive there, counts the
//! guest's instructions, and lets the guest run only as far as the drive says
//! ([`mynah_guest_protocol`] has the words for it).
//!
//! - `qemu.rs` declares what is used of QEMU's plugin interface: all `unsafe` is there.
//! - `meter.rs` counts, with one processor by code that QEMU generates at the beginning of each block
//!   of instructions (`fuse.rs`), with several in a function that each block calls (`turns.rs`).
//! - `link.rs` is the drive's end: a thread that hears what it says, and the guest, which waits for
//!   it.
//!
//! Instructions of a block that is left early, by an exception, count as executed, and so do those
//! that QEMU translates again because an access to a device has to be the last of a block.

mod fuse;
mod link;
mod meter;
mod qemu;
mod turns;

use qemu::{Block, Plugin};
use std::sync::OnceLock;

/// What the callbacks have in common.
struct Clock {
    meter: meter::Meter,
    link: link::Link,
}

static CLOCK: OnceLock<Clock> = OnceLock::new();

/// Sets the clock up, when QEMU loads the plugin.
fn install(plugin: &Plugin, arguments: &[String]) -> Result<(), String> {
    let mut socket = None;
    for argument in arguments {
        match argument.split_once('=') {
            Some(("socket", path)) if !path.is_empty() => socket = Some(path),
            _ => return Err(format!("no argument `{argument}`: there is socket=PATH")),
        }
    }
    let Some(path) = socket else {
        return Err("socket=PATH is missing: where `mynah serve --clock guest` listens".to_owned());
    };
    if !qemu::calendar_stands_still() {
        eprintln!(
            "mynah-guest-clock: warning: QEMU has the host's calendar, by which runs may differ; start it with \
             LD_PRELOAD=libmynah_guest_calendar.so"
        );
    }
    let meter = meter::Meter::new(plugin.processors())?;
    let link = link::Link::connect(path, plugin.processors())?;
    if CLOCK.set(Clock { meter, link }).is_err() {
        return Err("a guest has one clock, and this is the second".to_owned());
    }
    link::listen().map_err(|error| format!("no thread can be started: {error}"))?;
    plugin.on_processor(|processor| {
        if let Some(clock) = CLOCK.get() {
            clock.begins(processor);
        }
    });
    plugin.on_translation(translated);
    plugin.on_exit(|| {
        if let Some(clock) = CLOCK.get() {
            clock.link.leave(&clock.meter);
        }
    });
    Ok(())
}

impl Clock {
    fn begins(&self, processor: u32) {
        if let Err(error) = self.meter.begins(processor) {
            eprintln!("mynah-guest-clock: {error}");
            qemu::exit_now(1);
        }
    }
}

/// Has a new block count its instructions.
fn translated(block: &Block) {
    let Some(clock) = CLOCK.get() else { return };
    clock.meter.watch(block);
    let in_kernel = block.address() >> 63 == 1;
    for number in 0..block.instructions() {
        match block.bytes(number) {
            // PAUSE (Intel SDM volume 2): the body of loops that wait.
            [0xf3, 0x90, ..] if in_kernel => block.call_at(number, |_| {
                if let Some(clock) = CLOCK.get() {
                    clock.meter.paused();
                }
            }),
            // HLT, which is one byte.
            [0xf4, 0, ..] => block.call_at(number, |_| {
                if let Some(clock) = CLOCK.get() {
                    clock.link.halts(clock.meter.counts().current);
                }
            }),
            _ => {}
        }
    }
}

/// The guest has come to its limit.
fn stops() {
    if let Some(clock) = CLOCK.get() {
        clock.link.stops(&clock.meter);
    }
}

/// A block of a guest with several processors begins.
fn begins_block(instructions: u64) {
    let Some(Clock { meter: meter::Meter::Several(turns), .. }) = CLOCK.get() else { return };
    if turns.is_at_limit() {
        stops();
    }
    turns.executes(instructions);
}
