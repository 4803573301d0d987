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
}

/// What a program is for, and so which open block it fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) origin: Origin,
    /// Of units: which of them belong together. 0 where all do, and of cold ones; 1 of hot ones; their
    /// reclaim unit handle.
    pub(crate) group: u8,
}

impl Stream {
    pub(crate) const HOST: Stream = Stream::host(0);
    pub(crate) const COLLECTED: Stream = Stream::collected(0);
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
        self.origin == Origin::Host
    }

    /// Whether it carries what collection moves.
    #[inline]
    pub(crate) fn is_collected(self) -> bool {
        self.origin == Origin::Collected
    }
}

/// Which streams fill the same blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Sharing {
    All,
    None,
    /// Host and collected units that are alike in being hot or cold.
    Heat,
    /// Those of a reclaim unit handle.
    Handle(ByHandle),
}

/// Open blocks of a plane of a drive without placement, whether it uses them all or not.
pub(super) const OPEN: usize = 3;

impl Sharing {
    pub(super) fn of(frontiers: WriteFrontiers, placement: Option<&DataPlacement>) -> Sharing {
        // One handle whose data are moved where any are is none.
        if let Some(placement) = placement.filter(|it| it.handles > 1) {
            return Sharing::Handle(ByHandle::new(placement, frontiers));
        }
        match frontiers {
            WriteFrontiers::One => Sharing::All,
            WriteFrontiers::Separate => Sharing::None,
            WriteFrontiers::HotCold(_) => Sharing::Heat,
        }
    }

    /// How many open blocks a plane may have.
    #[inline(always)]
    pub(super) fn open_blocks(&self) -> usize {
        match self {
            Sharing::Handle(handles) => handles.shared.len(),
            _ => OPEN,
        }
    }

    /// The number of the block that takes what hosts write of a handle.
    pub(super) fn number_of_host(&self, handle: u8) -> usize {
        match self {
            Sharing::Handle(handles) => handles.number(Stream::host(handle)),
            Sharing::All | Sharing::None | Sharing::Heat => 0,
        }
    }

    /// Whether what fills the blocks with this number is all of one handle.
    pub(super) fn is_of_handle(&self, number: usize, handle: u8) -> bool {
        match self {
            Sharing::Handle(handles) => handles.is_of(number, handle),
            Sharing::All | Sharing::None | Sharing::Heat => true,
        }
    }

    /// How many groups of units there are.
    pub(super) fn groups(&self) -> u8 {
        match self {
            Sharing::All | Sharing::None => 1,
            Sharing::Heat => 2,
            Sharing::Handle(handles) => handles.numbers.len() as u8,
        }
    }

    /// Whether everything fills the same block.
    pub(super) fn is_of_all(&self) -> bool {
        match self {
            Sharing::All => true,
            Sharing::Handle(handles) => handles.is_shared(usize::from(handles.translation)),
            Sharing::None | Sharing::Heat => false,
        }
    }
}

/// The open blocks of a plane that tells reclaim unit handles apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ByHandle {
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
    pub(super) fn number(&self, stream: Stream) -> usize {
        let numbers = &self.numbers[usize::from(stream.group)];
        usize::from(match stream.origin {
            Origin::Host => numbers[0],
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

    /// Whether what hosts write goes to the block with this number and what is collected as well.
    #[inline]
    pub(super) fn is_shared(&self, number: usize) -> bool {
        self.shared[number]
    }
}
