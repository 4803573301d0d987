//! What the flash is asked for: reads and erases, which wait here, and what is known of a program
//! while it waits with whoever asks for it.
//!
//! A read or an erase has its address when it comes. A program is given one when its die takes it,
//! so until then the flash knows of it only that it waits, for which plane and in which class
//! ([`Above`](super::above::Above)).

use crate::kernel::pool::{Linked, NONE, Pooled};
use crate::number::{Block, Die, Plane, Ppn, WorkIndex};
use crate::observe::blame::HolderIndex;
use crate::observe::stats::Counters;
use crate::token::Token;
use mynah_stamp::Time;
use serde::{Deserialize, Serialize};

/// A time that is not set yet.
pub(crate) const UNSET: Time = Time::MAX;

/// What a piece of work does, and on whose behalf it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WorkKind {
    HostRead,
    /// A read of the rest of what the host overwrote in part.
    RestRead,
    /// A read of a page that is moved.
    CollectionRead,
    /// The same without its data leaving the die: a program of the die follows.
    Copyback,
    /// A read of a page of tables.
    TableRead,
    Erase,
}

impl Counters {
    /// Adds pages of the flash that are read, to what they are read for.
    #[inline(always)]
    pub(crate) fn count_reads(&mut self, kind: WorkKind, pages: u64) {
        match kind {
            WorkKind::CollectionRead | WorkKind::Copyback => self.gc_reads += pages,
            WorkKind::TableRead => self.count_table_reads(pages),
            WorkKind::RestRead => self.merge_reads += pages,
            WorkKind::HostRead | WorkKind::Erase => {}
        }
    }
}

/// A flash read or erase: its operation, address and owner, and where its time went. When it has
/// ended it is handed back with its token, and stays readable until it is given back in turn.
#[derive(Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) kind: WorkKind,
    pub(crate) class: u8,
    pub(crate) holder: HolderIndex,
    /// Whether its waits are counted.
    pub(crate) watched: bool,
    /// It has failed once already.
    pub(crate) failed: bool,
    pub(crate) token: Token,
    pub(crate) plane: Plane,
    /// The plane's die; known once it is queued.
    pub(super) die: Die,
    /// First PPN of the page, or of the block.
    pub(crate) ppn: Ppn,
    pub(crate) bytes: u32,
    next: WorkIndex,
    /// Place in the order of all flash operations.
    pub(super) order: u64,
    /// For a host's read: first sector and sectors within the command.
    pub(crate) first_sector: u32,
    pub(crate) sectors: u32,
    /// When it was wanted, and when it entered its die's queue; in between its address was looked
    /// for.
    pub(crate) created: Time,
    pub(crate) queued: Time,
    pub(crate) started: Time,
    pub(crate) array: Time,
    pub(crate) ready: Time,
    pub(crate) transfer: Time,
}

/// A page or a block, and how many bytes of it are wanted.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Extent {
    pub(crate) plane: Plane,
    /// Its first PPN.
    pub(crate) ppn: Ppn,
    pub(crate) bytes: u32,
}

impl Work {
    /// Work that has not been queued yet.
    #[inline]
    pub(crate) fn new(
        kind: WorkKind,
        class: u8,
        holder: HolderIndex,
        token: Token,
        extent: Extent,
        created: Time,
    ) -> Work {
        let Extent { plane, ppn, bytes } = extent;
        Work {
            kind,
            class,
            holder,
            watched: false,
            failed: false,
            token,
            plane,
            die: Die(NONE),
            ppn,
            bytes,
            next: WorkIndex::NONE,
            order: 0,
            first_sector: 0,
            sectors: 0,
            created,
            queued: created,
            started: UNSET,
            array: UNSET,
            ready: UNSET,
            transfer: UNSET,
        }
    }

    /// It has failed and is done once more.
    pub(crate) fn repeat(&mut self) {
        self.failed = true;
        (self.started, self.ready, self.transfer) = (UNSET, UNSET, UNSET);
    }
}

impl Default for Work {
    fn default() -> Self {
        let extent = Extent { plane: Plane(0), ppn: Ppn(0), bytes: 0 };
        Work::new(WorkKind::Erase, 0, 0, Token::Erase { block: Block::NONE }, extent, Time::ZERO)
    }
}

impl Pooled for Work {
    type Index = WorkIndex;
}

impl Linked for Work {
    #[inline]
    fn next(&self) -> WorkIndex {
        self.next
    }
    #[inline]
    fn set_next(&mut self, next: WorkIndex) {
        self.next = next;
    }
}
