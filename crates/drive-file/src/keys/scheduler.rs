//! The section `[scheduler]`: flash transaction scheduling.

use super::declare::{Need, section};
use super::needs::{ERASES, page_mapped, preemptible, rewritable};
use super::{File, PrecedenceName};
use crate::at::{At, Maybe};
use crate::check::{Check, or};
use crate::units::{Bandwidth, Duration, Fraction};
use mynah_model::config;
use mynah_stamp::Span;

/// FLIN with the parameters that MQSim's `SSD_Device.cpp` gives it (7ec40e3).
pub const FLIN: config::Flin = config::Flin {
    epoch: Span::from_ms(10),
    read_bytes_per_s: 33_554_432,
    write_bytes_per_s: 262_144,
    fairness: 0.6,
    divides_collection: true,
};

static JOINS: Need = Need {
    holds: |config| config.scheduler.multi_plane,
    cause: |file| file.scheduler.multi_plane.as_ref().map(At::span),
    why: "operations are not joined",
    help: "use it with `multi_plane = true`",
};

static SEVERAL_PLANES: Need = Need {
    holds: |config| config.geometry.planes_per_die > 1,
    cause: |file| Some(file.geometry.get().planes_per_die.span()),
    why: "a die has one plane",
    help: "remove it",
};

static NO_FLIN: Need = Need {
    holds: |config| config.scheduler.flin.is_none(),
    cause: |file| file.scheduler.flin.as_ref().map(At::span),
    why: "FLIN weighs reads and programs itself",
    help: "remove it, or `[scheduler.flin]`",
};

static INTERRUPTED_ERASES: Need = Need {
    holds: |config| config.gc.preemptible,
    cause: preemptible,
    why: "erases are part of collections, and these are not interrupted",
    help: "remove it, or use it with `gc.preemptible = true`",
};

static INTERRUPTED_COLLECTION: Need = Need {
    holds: |config| config.gc.preemptible,
    cause: preemptible,
    why: "a collection is not interrupted once it has begun",
    help: "remove it",
};

static COLLECTION: Need = Need {
    holds: |config| !config.flash.rewritable,
    cause: rewritable,
    why: "rewritable memory needs no collection",
    help: "remove it",
};

static NO_MERGES: Need = page_mapped("log blocks are merged, not collected");

section! {
    /// Flash transaction scheduling.
    #[derive(Default)]
    Scheduler => config::Scheduler, shapes Never {
        /// Whether the dies of a chip may work at the same time.
        die_interleaving: Maybe<bool> = "true", is die_interleaving;
        /// Whether operations at the same page offset of several planes are joined.
        multi_plane: Maybe<bool> = "true", shapes Paced, is multi_plane;
        /// How far into a plane's queue a partner for a multi-plane read is sought.
        multi_plane_window: Maybe<u32> = "32", in "1", when JOINS | SEVERAL_PLANES,
            is multi_plane_window;
        /// Whether queue priority classes act on flash transactions.
        priority_classes: Maybe<bool> = "false", is priority_classes;
        /// Which of a die's host reads and programs goes first. Garbage collection comes after
        /// both unless it is urgent, and its erases last.
        precedence: Maybe<PrecedenceName> = "read-first", when NO_FLIN, is precedence;
        /// A host program that has waited this long goes before reads. Default: never.
        write_deadline: Maybe<Duration>, is write_deadline;
        /// Whether the next page is moved to a die while the one before it is programmed (cache
        /// program).
        cache_program: Maybe<bool> = "false", is cache_program;
        /// Suspends a program when a read waits for its die. Default: never.
        suspend_program: Maybe<Suspension>,
            inner |scheduler, _| scheduler.suspend_program.as_ref();
        /// Suspends an erase when a read waits for its die. Default: never.
        suspend_erase: Maybe<EraseSuspension>, when ERASES | INTERRUPTED_ERASES,
            inner |scheduler, _| scheduler.suspend_erase.as_ref();
        /// Fairness between flows: FLIN (Tavakkol et al., ISCA 2018). Default: none.
        flin: Maybe<Flin>, inner |scheduler, _| scheduler.flin.as_ref();
    }
    with |scheduler, check, file| {
        suspend_program: scheduler.suspend_program.as_ref().map(|at| at.get().model(check)),
        suspend_erase: scheduler.suspend_erase.as_ref().map(|at| at.get().model(check)),
        suspend_erase_for_writes: match &scheduler.suspend_erase {
            Some(at) => at.get().for_writes(check),
            None => None,
        },
        flin: scheduler.flin.as_ref().map(|at| at.get().lower_checked(check, file)),
    }
}

/// A section on suspension: of programs, or of erases with more to say.
macro_rules! suspension {
    ($(#[$meta:meta])* $name:ident { $($more:tt)* }) => {
        section! {
            $(#[$meta])*
            $name => config::Suspension, shapes Never {
                /// From the end of the suspend command until the die can read.
                latency: At<Duration>, is latency;
                /// What a resumed operation takes beyond what was left of it.
                resume: Maybe<Duration> = "0", is resume;
                /// An operation of which less than this is left runs to its end. Default: `latency`.
                least_left: Maybe<Duration>, shows |suspension, _| Some(suspension.least_left);
                /// How often one operation may be suspended.
                limit: Maybe<u32> = "8", in "1" to "10000", is limit;
                /// An operation that has been suspended for this long goes on, and is not suspended
                /// again.
                longest: Maybe<Duration> = "10ms", is longest;
                $($more)*
            }
        }

        impl $name {
            fn model(&self, check: &mut Check<'_>) -> config::Suspension {
                let latency = self.latency(check);
                config::Suspension {
                    latency,
                    resume: self.resume(check),
                    least_left: self.least_left(check).unwrap_or(latency),
                    limit: self.limit(check),
                    longest: self.longest(check),
                }
            }
        }
    };
}

suspension! {
    /// Suspension of programs.
    Suspension {}
}

suspension! {
    /// Suspension of erases.
    EraseSuspension {
        /// Host programs suspend an erase as well if at least this is left of it. Default: they
        /// do not.
        for_writes: Maybe<Duration>,
            shows |_, config| config.scheduler.suspend_erase_for_writes;
    }
}

section! {
    /// FLIN's parameters. The defaults are those in MQSim's source.
    Flin => config::Flin, shapes Never {
        /// Over which time a flow's intensity is measured.
        epoch: Maybe<Duration> = "10ms", is epoch;
        /// Reads of a flow that reads more than this, over the whole drive, count as intensive.
        read_threshold: Maybe<Bandwidth> = "33.554432MB/s", is read_bytes_per_s;
        /// The same for writes.
        write_threshold: Maybe<Bandwidth> = "262.144kB/s", is write_bytes_per_s;
        /// An intensive flow that is slowed down most moves ahead of others while the ratio of
        /// the least to the largest mean slowdown is below this.
        fairness: Maybe<Fraction> = "60%", is fairness;
        /// Whether urgent collection is divided among the flows whose writes have caused it; if not,
        /// it goes before all host I/O.
        divides_collection: Maybe<bool> = "true",
            when INTERRUPTED_COLLECTION | COLLECTION | NO_MERGES, is divides_collection;
    }
    with |flin, check, _file| {}
}

impl Flin {
    fn lower_checked(&self, check: &mut Check<'_>, file: &File) -> config::Flin {
        if or(&self.epoch, Duration(FLIN.epoch)).0.is_zero()
            && let Some(at) = &self.epoch
        {
            check.wrong("`scheduler.flin.epoch` must be longer than 0", at, "too short", None);
        }
        self.lower(check, file)
    }
}
