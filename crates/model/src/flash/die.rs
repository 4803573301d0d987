//! A die: what it does, what waits for it, and which class of host I/O has its turn.

use super::queues::{CLASS_HOST, HOST_CLASSES, Load, WRITES};
use super::timing::PLANES_MAX;
use crate::kernel::pool::NONE;
use crate::number::{Channel, Lane, Plane, Ppn, WorkIndex, WriteIndex};
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};

/// Turns of urgent, high, medium and low priority before the next round. Urgent work has no need
/// of turns (as MQSim) but with FLIN, where each class has twice those of the next.
const TURNS: [u8; 4] = [8, 4, 2, 1];

/// Turns in the order in which they are packed: of reads (0) or writes (1), and the class.
const PLACES: [(usize, usize); 8] =
    [(1, 0), (0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OperationKind {
    Read,
    Program,
    Erase,
    /// A suspend command on its way through, or (as a choice) a resume command.
    Suspension,
}

/// The operation in progress on a die.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct DieOperation {
    pub(crate) kind: OperationKind,
    pub(crate) planes: u8,
    /// Reads or erases, or the first part of each plane's page: see [`DieOperation::work_at`] and
    /// [`DieOperation::part_at`].
    pub(super) items: [u32; PLANES_MAX],
    pub(crate) ppns: [Ppn; PLANES_MAX],
    /// Whether it is a part of a collection.
    pub(crate) collects: bool,
}

impl DieOperation {
    /// An operation of no planes yet.
    #[inline(always)]
    pub(crate) fn new(kind: OperationKind) -> DieOperation {
        DieOperation {
            kind,
            planes: 0,
            items: [NONE; PLANES_MAX],
            ppns: [Ppn(NONE); PLANES_MAX],
            collects: false,
        }
    }

    /// A read or an erase of it, by its place among the planes.
    #[inline(always)]
    pub(crate) fn work_at(&self, at: usize) -> WorkIndex {
        WorkIndex(self.items[at])
    }

    /// The first part of one of the pages of a program.
    #[inline(always)]
    pub(crate) fn part_at(&self, at: usize) -> WriteIndex {
        WriteIndex(self.items[at])
    }

    #[inline(always)]
    pub(super) fn works(&self) -> impl Iterator<Item = WorkIndex> {
        self.items[..usize::from(self.planes)].iter().map(|&item| WorkIndex(item))
    }

    /// The first parts of all pages of a program.
    #[inline(always)]
    pub(crate) fn parts(&self) -> impl Iterator<Item = WriteIndex> {
        self.items[..usize::from(self.planes)].iter().map(|&item| WriteIndex(item))
    }

    #[inline(always)]
    pub(super) fn add_work(&mut self, work: WorkIndex) {
        self.items[usize::from(self.planes)] = work.0;
        self.planes += 1;
    }

    /// Adds the program of a page that begins with the part `first`, to `ppn`.
    #[inline(always)]
    pub(crate) fn add_page(&mut self, first: WriteIndex, ppn: Ppn) {
        let at = usize::from(self.planes);
        (self.items[at], self.ppns[at]) = (first.0, ppn);
        self.planes += 1;
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct DieState {
    pub(super) channel: Channel,
    /// Its place in the [`Ledger`](crate::observe::blame::Ledger): its own, or its chip's.
    pub(super) lane: Lane,
    /// Its bit in the channel's masks.
    pub(super) bit: u64,
    pub(super) first_plane: Plane,
    pub(super) operation: Option<DieOperation>,
    /// Data not yet transferred of the read it holds.
    pub(super) transfers: u8,
    /// What waits in its planes' queues.
    pub(super) load: Load,
    turns: [[u8; 4]; 2],
    /// Whether urgent work takes turns with the other classes.
    pub(super) urgent_takes_turns: bool,
    pub(super) idle_since: Time,
    /// How long it has been busy, what it does now not included.
    pub(super) busy: Span,
    pub(super) dead: bool,
    /// What it does may be suspended, or be followed by the next program without a pause:
    /// what waits for it wants the channel though the die is not idle.
    pub(super) interruptible: bool,
    /// How much longer its array takes, if it is slow.
    pub(super) factor: Option<f64>,
}

impl DieState {
    pub(super) fn new(channel: Channel, lane: Lane, bit: u64, first_plane: Plane) -> DieState {
        DieState {
            channel,
            lane,
            bit,
            first_plane,
            operation: None,
            transfers: 0,
            load: Load::default(),
            turns: [TURNS; 2],
            urgent_takes_turns: false,
            idle_since: Time::ZERO,
            busy: Span::ZERO,
            dead: false,
            interruptible: false,
            factor: None,
        }
    }

    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.operation.is_none()
    }

    #[inline]
    pub(super) fn array_time(&self, time: Span) -> Span {
        match self.factor {
            None => time,
            Some(factor) => Span::from_ps((time.as_ps() as f64 * factor) as u64),
        }
    }

    /// The turns that are left, packed into a number; those of urgent work in the highest places.
    pub(super) fn turns_left(&self) -> u32 {
        PLACES
            .iter()
            .fold(0, |packed, &(which, class)| packed << 4 | u32::from(self.turns[which][class]))
    }

    /// Takes what [`DieState::turns_left`] said.
    pub(super) fn set_turns_left(&mut self, mut packed: u32) {
        for &(which, class) in PLACES.iter().rev() {
            self.turns[which][class] = (packed as u8 & 0xf).min(TURNS[class]);
            packed >>= 4;
        }
    }

    /// The class of host reads (`which` 0) or writes (1) whose turn it is.
    #[inline]
    pub(super) fn host_class(&mut self, which: usize) -> Option<u8> {
        let waiting = self.load.some >> (which as u32 * WRITES + u32::from(CLASS_HOST));
        match waiting & HOST_CLASSES {
            0 => None,
            urgent if urgent & 1 != 0 && !self.urgent_takes_turns => Some(CLASS_HOST),
            0b10 => Some(CLASS_HOST + 1),
            others => self.host_class_in_turn(which, others),
        }
    }

    /// The class whose turn it is among some.
    pub(super) fn host_class_in_turn(&mut self, which: usize, others: u32) -> Option<u8> {
        let turns = &mut self.turns[which];
        let next = |turns: &[u8; 4]| (0..4).find(|&n| others & 1 << n != 0 && turns[n] > 0);
        let chosen = next(turns).or_else(|| {
            *turns = TURNS;
            next(turns)
        })?;
        Some(CLASS_HOST + chosen as u8)
    }

    #[inline]
    pub(super) fn take_turn(&mut self, which: usize, class: u8) {
        let turn = usize::from(class).wrapping_sub(usize::from(CLASS_HOST));
        if let Some(turns) = self.turns[which].get_mut(turn) {
            *turns = turns.saturating_sub(1);
        }
    }
}
