//! The section `[slc]`: a write cache of blocks that are used with one bit a cell.

use super::declare::{Need, section};
use super::{EvictName, File, FoldWayName, WhenFullName};
use crate::at::Maybe;
use crate::check::{Check, or};
use crate::units::{Bytes, Duration, Fraction};
use mynah_model::config;
use mynah_stamp::Span;

static FOLDS_IDLY: Need = Need {
    holds: |config| config.slc.is_some_and(|slc| slc.idle_share > 0.0),
    cause: |_| None,
    why: "nothing is folded in idle time",
    help: "give `slc.idle_share` above 0%",
};

static SOME_DYNAMIC: Need = Need {
    holds: |config| config.slc.is_some_and(|slc| slc.dynamic > 0.0),
    cause: |_| None,
    why: "no native blocks serve the cache",
    help: "give `slc.dynamic` above 0%",
};

static DIRECT: Need = Need {
    holds: |config| config.slc.is_some_and(|slc| slc.when_full == config::WhenFull::Direct),
    cause: |_| None,
    why: "writes wait for a full cache",
    help: "use it with `slc.when_full = \"direct\"`",
};

section! {
    /// A pSLC write cache: blocks of flash with several bits a cell that are used with one, which is
    /// programmed faster. What is in it is folded, that is moved to native blocks, later. A share of
    /// blocks holds that share of the raw capacity divided by the bits of a cell.
    #[schemars(rename = "SlcCache")]
    Slc => config::SlcCache {
        /// The share of a plane's blocks that only ever serves the cache, and holds none of the
        /// drive's capacity.
        fixed as "static": Maybe<Fraction> = "0%", in "0%" to "50%", is static_share;
        /// The share of the blocks without native data that may serve the cache as well: it shrinks
        /// as the drive fills.
        dynamic: Maybe<Fraction> = "100%", in "0%" to "100%", is dynamic;
        /// Most of a plane's blocks that serve it so, however many are free.
        dynamic_max: Maybe<Fraction> = "100%", in "0%" to "100%", when SOME_DYNAMIC,
            is dynamic_max;
        /// Page read with one bit (tR).
        read: Maybe<Duration> = "25us", is read;
        /// Page program with one bit (tPROG).
        program: Maybe<Duration> = "200us", is program;
        /// Erase of a block that was used with one bit. Default: `flash.erase`.
        erase: Maybe<Duration>, shows |slc, _| Some(slc.erase);
        /// Erases after use with one bit that a block endures. Default: no end.
        endurance: Maybe<u32>, in "1" to "2147483647", is endurance;
        /// What becomes of writes that find the cache full.
        when_full: Maybe<WhenFullName> = "fold", is when_full;
        /// How what is in the cache comes to native blocks.
        fold: Maybe<FoldWayName> = "copy", is fold;
        /// With `when_full = "direct"`: pages that are folded for each page that hosts write past the
        /// full cache, before them.
        fold_beside: Maybe<Fraction> = "0%", in "0%" to "100%", when DIRECT, is fold_beside;
        /// Blocks that are folded at a time, in the whole drive. Default: one in each plane.
        fold_blocks: Maybe<u32>, in "1" to "65536", is fold_blocks;
        /// From which share of a plane's cache on it is folded beside the host's work, in the time
        /// that dies have left. 100%: only when it is full, and in idle time.
        fold_from: Maybe<Fraction> = "100%", in "0%" to "100%", is fold_from;
        /// The share of a plane's time that it folds once no command has come for `idle_after`;
        /// 0%: never.
        idle_share: Maybe<Fraction> = "50%", in "0%" to "100%", is idle_share;
        /// When idle time begins, after the last command.
        idle_after: Maybe<Duration> = "5s", when FOLDS_IDLY, is idle_after;
        /// Which block of the cache is folded first.
        evict: Maybe<EvictName> = "fifo", is evict;
        /// What a stream of writes in order may write to the cache: the rest goes past it, to native
        /// blocks. Default: no end.
        sequential_cutoff: Maybe<Bytes>, in "4KiB" to "1TiB", is sequential_cutoff;
        /// The share of a plane's blocks that is kept free to fold to, at least a block.
        keep_free: Maybe<Fraction> = "2%", in "0%" to "25%", is keep_free;
    }
    with |slc, check, file| { erase: slc.erase_time(check, file) }
}

impl Slc {
    fn erase_time(&self, check: &mut Check<'_>, file: &File) -> Span {
        let native = or(&file.flash.get().erase, Duration(Span::ZERO));
        self.erase(check).unwrap_or(native.0)
    }
}
