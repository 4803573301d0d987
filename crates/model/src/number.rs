//! The numbers of things: where data are, logically and on flash, and what of the drive's tables is
//! meant. Each is a type of its own, so that no part is handed a plane where it wants a die.
//!
//! Which of them follows from which is said by [`Shape`](crate::ftl::space::Shape). What lies
//! behind a number is kept by the part that has the table.

use std::fmt;
use std::ops::{Add, Index, IndexMut, Range};

/// A number that stands for one of some kind of thing, all of the drive counted through.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub(crate) struct $name(pub(crate) u32);

        impl $name {
            #[inline(always)]
            pub(crate) fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
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
    };
}

/// The same, where tables have an entry for each.
macro_rules! number_of_entry {
    ($(#[$doc:meta])* $name:ident) => {
        number!($(#[$doc])* $name);

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
