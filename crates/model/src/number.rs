//! The numbers of things: where data are, logically and on flash, and what of the drive's tables is
//! meant. Each is a type of its own, so that no part is handed a plane where it wants a die.
//!
//! Which of them follows from which is said by [`Shape`](crate::ftl::space::Shape). What lies
//! behind a number is kept by the part that has the table.

use crate::kernel::pool::{NONE, PoolIndex};
use std::fmt;
use std::ops::{Add, Index, IndexMut, Range};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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

        /// So many further on.
        impl Add<u32> for $name {
            type Output = $name;
            #[inline(always)]
            fn add(self, further: u32) -> $name {
                $name(self.0 + further)
            }
        }

        impl<T> Index<$name> for Vec<T> {
            type Output = T;
            #[inline(always)]
            fn index(&self, number: $name) -> &T {
                &self[number.0 as usize]
            }
        }

        impl<T> IndexMut<$name> for Vec<T> {
            #[inline(always)]
            fn index_mut(&mut self, number: $name) -> &mut T {
                &mut self[number.0 as usize]
            }
        }
    };
}

/// Places in a [`Pool`](crate::kernel::pool::Pool).
macro_rules! number_in_pool {
    ($(#[$doc:meta])* $name:ident) => {
        number!($(#[$doc])* $name);

        impl $name {
            /// It stands for nothing.
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
    /// A channel of the flash.
    Channel
}
number_of_entry! {
    /// A die.
    Die
}
number_of_entry! {
    /// A plane.
    Plane
}
number_in_pool! {
    /// A command in the controller, or in a queue that the drive reads by itself.
    CommandIndex
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

/// Planes that follow one another, such as those of a die.
#[derive(Clone)]
pub(crate) struct Planes(Range<u32>);

impl Planes {
    pub(crate) const NONE: Planes = Planes(0..0);

    #[inline(always)]
    pub(crate) fn new(first: Plane, count: u32) -> Planes {
        Planes(first.0..first.0 + count)
    }
}

impl Iterator for Planes {
    type Item = Plane;

    #[inline(always)]
    fn next(&mut self) -> Option<Plane> {
        self.0.next().map(Plane)
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}
