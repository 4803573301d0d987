//! The numbers of things: where data are, logically and on flash, and what of the drive's tables is
//! meant. Each is a type of its own, so that no part is handed a plane where it wants a die.
//!
//! Which of them follows from which is said by [`Shape`](crate::space::Shape). What lies
//! behind a number is kept by the part that has the table.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Add, Index, IndexMut, Range, Sub};

/// Number that stands for nothing.
pub(crate) const NONE: u32 = u32::MAX;

/// An index into a [`Pool`](crate::kernel::pool::Pool).
pub(crate) trait PoolIndex: Copy + PartialEq + Serialize + DeserializeOwned {
    const NONE: Self;

    fn of_place(place: usize) -> Self;
    fn index(self) -> usize;
}

/// A number that a [`Run`] can count.
pub(crate) trait Number {
    fn from_u32(number: u32) -> Self;
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub(crate) struct $name(pub(crate) u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// Numbers counted through the whole drive, for which tables have an entry each.
macro_rules! number_of_entry {
    ($(#[$doc:meta])* $name:ident) => {
        number!($(#[$doc])* $name);

        impl $name {
            #[inline(always)]
            pub(crate) fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl Add<u32> for $name {
            type Output = $name;
            #[inline(always)]
            fn add(self, further: u32) -> $name {
                $name(self.0 + further)
            }
        }

        /// How far it is from the other.
        impl Sub for $name {
            type Output = u32;
            #[inline(always)]
            fn sub(self, other: $name) -> u32 {
                self.0 - other.0
            }
        }

        impl<T> Index<$name> for Vec<T> {
            type Output = T;
            #[inline(always)]
            fn index(&self, number: $name) -> &T {
                &self[number.index()]
            }
        }

        impl<T> IndexMut<$name> for Vec<T> {
            #[inline(always)]
            fn index_mut(&mut self, number: $name) -> &mut T {
                &mut self[number.index()]
            }
        }
    };
}

impl Lpn {
    /// This one and those after it before `end`.
    #[inline(always)]
    pub(crate) fn upto(self, end: Lpn) -> Run<Lpn> {
        Run { numbers: self.0..end.0, of: PhantomData }
    }
}

impl Block {
    pub(crate) const NONE: Block = Block(NONE);
}

impl Ppn {
    pub(crate) const NONE: Ppn = Ppn(NONE);
}

/// Numbers that things next to one another have.
macro_rules! runs_of {
    ($name:ident) => {
        impl $name {
            /// This one and those after it, so many in all.
            #[inline(always)]
            pub(crate) fn run(self, count: u32) -> Run<$name> {
                Run { numbers: self.0..self.0 + count, of: PhantomData }
            }
        }

        impl Number for $name {
            #[inline(always)]
            fn from_u32(number: u32) -> $name {
                $name(number)
            }
        }
    };
}

/// Places in a [`Pool`](crate::kernel::pool::Pool).
macro_rules! number_in_pool {
    ($(#[$doc:meta])* $name:ident) => {
        number!($(#[$doc])* $name);

        impl $name {
            pub(crate) const NONE: $name = $name(NONE);
        }

        impl PoolIndex for $name {
            const NONE: $name = $name::NONE;

            #[inline(always)]
            fn of_place(place: usize) -> $name {
                $name(place as u32)
            }

            #[inline(always)]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

number_of_entry! {
    /// A flash channel.
    Channel
}
number_of_entry! {
    /// A die.
    Die
}
number_of_entry! {
    /// What is busy with one operation at a time: a die, or a chip whose dies do not interleave.
    Lane
}
number_of_entry! {
    /// A plane.
    Plane
}
runs_of!(Plane);
number_of_entry! {
    /// A block, of all of the drive.
    Block
}
runs_of!(Block);
number_of_entry! {
    /// A logical page number, of mapping units: what one entry of the mapping table is for, counted
    /// through all namespaces.
    Lpn
}
runs_of!(Lpn);
number_of_entry! {
    /// A translation page: the number of a page of the mapping table, counted through all namespaces.
    Mvpn
}
runs_of!(Mvpn);
number_of_entry! {
    /// A physical page number, of mapping units: the place on flash of one unit, counted by plane,
    /// block, page and place in the page. That of a page, or of a block, is the first in it.
    Ppn
}
runs_of!(Ppn);
number_in_pool! {
    /// A command in the controller, or in a queue that the drive reads by itself.
    CommandIndex
}
number_in_pool! {
    /// What a key-value command is beside a command.
    KeyCommandIndex
}
number_in_pool! {
    /// A part of a read's data on its way to the host.
    PieceIndex
}
number_in_pool! {
    /// A read or an erase that the flash is asked for.
    WorkIndex
}
number_in_pool! {
    /// Something that is to be programmed, or is being programmed.
    WriteIndex
}

/// Numbers that follow one another, such as those of the units of a page.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Run<N> {
    numbers: Range<u32>,
    of: PhantomData<N>,
}

impl<N> Run<N> {
    pub(crate) const EMPTY: Run<N> = Run { numbers: 0..0, of: PhantomData };
}

impl<N: Number> Iterator for Run<N> {
    type Item = N;

    #[inline(always)]
    fn next(&mut self) -> Option<N> {
        self.numbers.next().map(N::from_u32)
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.numbers.size_hint()
    }
}

/// Translation pages that follow one another.
pub(crate) type Mvpns = Run<Mvpn>;

/// Planes that follow one another, such as those of a die.
pub(crate) type Planes = Run<Plane>;
