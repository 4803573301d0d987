//! The counters of a guest with several processors. With `-icount` QEMU executes them in one thread,
//! in turns.
//!
//! What QEMU 10 and 11 generate for plugins does not know whose turn it is: where processors share a
//! thread (no CF_PARALLEL), a block tells plugins the number of the processor that it was translated for,
//! and the others execute it as well (`gen_cpu_index` in accel/tcg/plugin-gen.c). And where a counter
//! of a scoreboard is found, that number is multiplied in place: being a constant of the whole block, every
//! other use of it is changed, too (`gen_plugin_u64_ptr` there), which ends in "Bad icount read" when
//! the second processor starts. So blocks call a function here, and it looks which processor executes
//! in QEMU's own variable.
//!
//! Left alone, QEMU gives a processor half of the time to the next timer, which is milliseconds, and one
//! that is interrupted in its own turn waits for those of the others. So turns are short here. They are not
//! the same in every run: QEMU's main loop also ends turns, whenever it has something to do.

use crate::meter::LOOP_MAX;
use crate::qemu::{Identity, Round};
use mynah_guest_protocol::{Counts, PROCESSORS_MAX, Processor};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Instructions of a turn: 10 us.
const TURN: u64 = 2500;

/// What a processor has executed, and how much of that in idle loops.
#[derive(Debug, Default)]
struct ProcessorState {
    /// QEMU's pointer to it; 0 before it has begun.
    identity: AtomicUsize,
    executed: AtomicU64,
    /// What it had executed at its last PAUSE.
    paused_at: AtomicU64,
    /// All that it has executed between one PAUSE and the next in a loop that waits.
    idle: AtomicU64,
}

/// What the processors have executed. All is written by the one thread that executes them, but for
/// the limit.
pub(crate) struct Turns {
    processors: u32,
    states: [ProcessorState; PROCESSORS_MAX],
    round: OnceLock<Round>,
    /// Whose turn it is: its identity and its number.
    identity: AtomicUsize,
    number: AtomicU32,
    /// What all of them are to have executed when the turn is over.
    turn_ends: AtomicU64,
    /// Instructions of all processors.
    executed: AtomicU64,
    limit: AtomicU64,
}

/// One thread writes, so that nothing is lost between these two.
fn add(to: &AtomicU64, value: u64) -> u64 {
    let sum = to.load(Ordering::Relaxed).wrapping_add(value);
    to.store(sum, Ordering::Relaxed);
    sum
}

impl Turns {
    pub(crate) fn new(processors: u32) -> Result<Turns, String> {
        if processors == 0 || processors as usize > PROCESSORS_MAX {
            return Err(format!("a guest has 1 to {PROCESSORS_MAX} processors, not {processors}"));
        }
        Ok(Turns {
            processors,
            states: std::array::from_fn(|_| ProcessorState::default()),
            round: OnceLock::new(),
            identity: AtomicUsize::new(0),
            number: AtomicU32::new(0),
            turn_ends: AtomicU64::new(TURN),
            executed: AtomicU64::new(0),
            limit: AtomicU64::new(0),
        })
    }

    pub(crate) fn begins(&self, processor: u32) -> Result<(), String> {
        let Some(round) = Round::of_this_thread() else {
            return Err(
                "this QEMU does not say which of several processors executes: the guest may \
                        have one (-smp 1)"
                    .to_owned(),
            );
        };
        if !self.round.get_or_init(|| round).is(round) {
            return Err("the processors need one thread: -accel tcg,thread=single".to_owned());
        }
        if let Some(state) = self.states.get(processor as usize) {
            state.identity.store(round.find(processor), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether the guest is to stop before its next block.
    pub(crate) fn is_at_limit(&self) -> bool {
        self.executed.load(Ordering::Relaxed) >= self.limit.load(Ordering::Relaxed)
    }

    /// A block of so many instructions is executed.
    pub(crate) fn executes(&self, instructions: u64) {
        let Some(round) = self.round.get() else { return };
        let identity = round.current();
        if identity != self.identity.load(Ordering::Relaxed) {
            self.changes_to(identity);
        }
        add(&self.states[self.number.load(Ordering::Relaxed) as usize].executed, instructions);
        if add(&self.executed, instructions) >= self.turn_ends.load(Ordering::Relaxed) {
            // It may stay, if the others have nothing to do.
            self.begins_turn();
            round.leave();
        }
    }

    fn begins_turn(&self) {
        self.turn_ends.store(self.executed.load(Ordering::Relaxed) + TURN, Ordering::Relaxed);
    }

    #[cold]
    fn changes_to(&self, identity: Identity) {
        let is_it = |state: &ProcessorState| state.identity.load(Ordering::Relaxed) == identity;
        // Every one of them has begun before it executes.
        let Some(number) = self.states.iter().position(is_it) else { return };
        self.identity.store(identity, Ordering::Relaxed);
        self.number.store(number as u32, Ordering::Relaxed);
        self.begins_turn();
    }

    pub(crate) fn run_to(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(crate) fn paused(&self) {
        let state = &self.states[self.number.load(Ordering::Relaxed) as usize];
        let now = state.executed.load(Ordering::Relaxed);
        let passed = now.saturating_sub(state.paused_at.swap(now, Ordering::Relaxed));
        if passed <= LOOP_MAX {
            add(&state.idle, passed);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let of = |state: &ProcessorState| Processor {
            executed: state.executed.load(Ordering::Relaxed),
            idle: state.idle.load(Ordering::Relaxed),
        };
        let processors = self.states[..self.processors as usize].iter().map(of).collect();
        Counts { current: self.number.load(Ordering::Relaxed), processors }
    }
}
