//! Streams: what is programmed for the same reason, and belongs together. Each fills blocks of its own,
//! or shares them with others.

use crate::config::{DataPlacement, Isolation, WriteFrontiers};
use serde::{Deserialize, Serialize};

/// Why something is programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Host,
    Collected,
    Translation,
    /// What hosts write to the cache of blocks that are used with one bit a cell, which has its own
    /// open blocks.
    Slc,
}

/// What a program is for, and so which open block it fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) origin: Origin,
    /// Of units: which of them belong together. 0 where all do, and of cold ones; 1 of hot ones, and of
    /// what goes past an SLC cache; their reclaim unit handle.
    pub(crate) group: u8,
}

impl Stream {
    pub(crate) const HOST: Stream = Stream::host(0);
    pub(crate) const COLLECTED: Stream = Stream::collected(0);
    pub(crate) const SLC: Stream = Stream { origin: Origin::Slc, group: 0 };
    pub(crate) const TRANSLATION: Stream = Stream { origin: Origin::Translation, group: 0 };

    /// What hosts write of a group.
    #[inline]
    pub(crate) const fn host(group: u8) -> Stream {
        Stream { origin: Origin::Host, group }
    }

    /// What collection moves of a group.
    #[inline]
    pub(crate) const fn collected(group: u8) -> Stream {
        Stream { origin: Origin::Collected, group }
    }

    /// Whether it carries what hosts write.
    #[inline]
    pub(crate) fn is_host(self) -> bool {
        matches!(self.origin, Origin::Host | Origin::Slc)
    }

    /// Whether it fills blocks of the cache.
    #[inline]
    pub(crate) fn is_slc(self) -> bool {
        self.origin == Origin::Slc
    }

    /// Whether it carries what collection moves.
    #[inline]
    pub(crate) fn is_collected(self) -> bool {
        self.origin == Origin::Collected
    }
}

/// Which streams fill the same blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Sharing {
    All,
    None,
    /// Host and collected units that are alike in being hot or cold.
    Heat,
    /// Those of a reclaim unit handle.
    Handle,
}

/// Open blocks of a plane of a drive without placement, whether it uses them all or not.
pub(super) const OPEN: usize = 3;

/// Which streams there are, and which open blocks of a plane they fill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Streams {
    pub(super) sharing: Sharing,
    /// Of a plane, at most.
    pub(super) open_blocks: usize,
    by_handle: ByHandle,
}

impl Streams {
    pub(super) fn of(frontiers: WriteFrontiers, placement: Option<&DataPlacement>) -> Streams {
        // One handle is none: all its data are together anyway.
        if let Some(placement) = placement.filter(|it| it.handles > 1) {
            let by_handle = ByHandle::new(placement, frontiers);
            let open_blocks = by_handle.shared.len();
            return Streams { sharing: Sharing::Handle, open_blocks, by_handle };
        }
        let sharing = match frontiers {
            WriteFrontiers::One => Sharing::All,
            WriteFrontiers::Separate => Sharing::None,
            WriteFrontiers::HotCold(_) => Sharing::Heat,
        };
        Streams { sharing, open_blocks: OPEN, by_handle: ByHandle::default() }
    }

    /// The number of the block that `stream` fills on a drive with several handles, and whether what
    /// hosts write goes there, and what is collected as well.
    #[inline]
    pub(super) fn by_handle(&self, stream: Stream) -> (usize, bool) {
        let number = self.by_handle.number(stream);
        (number, self.by_handle.shared[number])
    }

    /// The number of the block that takes what hosts write of a handle.
    pub(super) fn number_of_host(&self, handle: u8) -> usize {
        match self.sharing {
            Sharing::Handle => self.by_handle.number(Stream::host(handle)),
            Sharing::All | Sharing::None | Sharing::Heat => 0,
        }
    }

    /// Whether what fills the blocks with this number is all of one handle.
    pub(super) fn is_of_handle(&self, number: usize, handle: u8) -> bool {
        self.sharing != Sharing::Handle || self.by_handle.is_of(number, handle)
    }

    /// How many groups of units there are.
    pub(super) fn groups(&self) -> u8 {
        match self.sharing {
            Sharing::All | Sharing::None => 1,
            Sharing::Heat => 2,
            Sharing::Handle => self.by_handle.numbers.len() as u8,
        }
    }

    /// Whether translation pages have blocks of their own.
    pub(super) fn parts_translation(&self) -> bool {
        match self.sharing {
            Sharing::All => false,
            Sharing::Handle => !self.by_handle.shared[usize::from(self.by_handle.translation)],
            Sharing::None | Sharing::Heat => true,
        }
    }
}

/// The open blocks of a plane that tells reclaim unit handles apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ByHandle {
    /// For each handle the numbers of what hosts write and of what collection moves.
    numbers: Vec<[u16; 2]>,
    translation: u16,
    /// Of each number: whether what hosts write goes there, and what is collected as well.
    shared: Vec<bool>,
}

impl ByHandle {
    /// The numbers of the first handle are those of a drive without placement.
    fn new(placement: &DataPlacement, frontiers: WriteFrontiers) -> ByHandle {
        let handles = u16::from(placement.handles);
        let host = |handle: u16| if handle == 0 { 0 } else { OPEN as u16 + handle - 1 };
        let apart = frontiers != WriteFrontiers::One;
        let collected = |handle: u16| match (placement.isolation, apart) {
            (Isolation::Initial, true) => 1,
            (Isolation::Initial, false) => host(handles - 1),
            (Isolation::Persistent, true) if handle == 0 => 1,
            (Isolation::Persistent, true) => OPEN as u16 + handles - 1 + handle - 1,
            (Isolation::Persistent, false) => host(handle),
        };
        let numbers: Vec<[u16; 2]> =
            (0..handles).map(|handle| [host(handle), collected(handle)]).collect();
        let open_blocks =
            numbers.iter().flatten().max().map_or(0, |most| most + 1).max(OPEN as u16);
        let translation = if apart { 2 } else { collected(handles - 1) };
        let goes = |kind: usize, number: u16| numbers.iter().any(|of| of[kind] == number);
        let shared = (0..open_blocks).map(|number| goes(0, number) && goes(1, number)).collect();
        ByHandle { numbers, translation, shared }
    }

    /// The number of the block that `stream` fills.
    #[inline]
    fn number(&self, stream: Stream) -> usize {
        let numbers = &self.numbers[usize::from(stream.group)];
        usize::from(match stream.origin {
            Origin::Host | Origin::Slc => numbers[0],
            Origin::Collected => numbers[1],
            Origin::Translation => self.translation,
        })
    }

    /// Whether this is a number of the handle's, and no other's.
    fn is_of(&self, number: usize, handle: u8) -> bool {
        let has = |of: &[u16; 2]| of.iter().any(|&of| usize::from(of) == number);
        let mut of = self.numbers.iter().enumerate().filter(|(_, of)| has(of));
        of.next().is_some_and(|(at, _)| at == usize::from(handle)) && of.next().is_none()
    }
}
