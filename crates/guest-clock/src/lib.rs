//! A plugin for QEMU: the clock of a guest that runs in lock-step with one of Mynah's drives.
//!
//! `-plugin libmynah_guest_clock.so,socket=PATH`: it connects to the drive there, counts the
//! guest's instructions, and lets the guest run only as far as the drive says
//! ([`mynah_guest_protocol`] has the words for it).
//!
//! - `qemu.rs` declares what is used of QEMU's plugin interface: all `unsafe` is there.
//! - `meter.rs` counts: a counter for each processor, added to by code that QEMU generates at the
//!   beginning of each block of instructions. It is a fuse: when it has come to `meter::BLOWN`, the
//!   block calls back before it begins.
//! - `link.rs` is the drive's end: a thread that hears what it says, and the guest's processors,
//!   which wait for it.
//!
//! A guest has one processor: with several, what QEMU 11.1.3 generates for plugins goes wrong. What
//! is counted is kept by processor all the same, as QEMU does: with `-icount` it executes all of them in
//! one thread, in turns, and one whose turn it is not has a blown fuse, so that its first block tells
//! of the change.
//!
//! Instructions of a block that is left early, by an exception, count as executed, and so do those
//! that QEMU translates again because an access to a device has to be the last of a block.

mod link;
mod meter;
mod qemu;

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
    let meter = meter::Meter::new();
    let link = link::Link::connect(path, plugin.processors())?;
    if CLOCK.set(Clock { meter, link }).is_err() {
        return Err("a guest has one clock, and this is the second".to_owned());
    }
    link::listen().map_err(|error| format!("no thread can be started: {error}"))?;
    plugin.on_processor(|processor| {
        if let Some(clock) = CLOCK.get() {
            clock.meter.begins(processor);
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

/// Has a new block count its instructions.
fn translated(block: &Block) {
    let Some(clock) = CLOCK.get() else { return };
    // In this order: what the fuse says is what was executed before the block.
    block.call_when(clock.meter.fuse(), meter::BLOWN, |processor| {
        if let Some(clock) = CLOCK.get() {
            clock.link.fuse_blew(&clock.meter, processor);
        }
    });
    let instructions = block.instructions();
    block.add(clock.meter.fuse(), instructions as u64);
    let in_kernel = block.address() >> 63 == 1;
    for number in 0..instructions {
        match block.bytes(number) {
            // PAUSE (Intel SDM volume 2): the body of loops that wait.
            [0xf3, 0x90, ..] if in_kernel => block.call_at(number, |processor| {
                if let Some(clock) = CLOCK.get() {
                    clock.meter.paused(processor);
                }
            }),
            // HLT, which is one byte.
            [0xf4, 0, ..] => block.call_at(number, |processor| {
                if let Some(clock) = CLOCK.get() {
                    clock.link.halts(processor);
                }
            }),
            _ => {}
        }
    }
}
