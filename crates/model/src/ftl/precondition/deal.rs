//! Which plane each unit lies on, where writes went to whichever was free: any of them, each as
//! likely as the others, and units that were written together side by side. Writes of more than a
//! page lie on planes that follow one another.

use super::{DriveClass, below};
use crate::drive::{Drive, Policies};
use crate::ftl::mapping::table::Content;
use crate::io::NamespaceId;
use crate::number::{Plane, Ppn};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How often each plane is in the deck that planes are drawn from. Drawn from the deck, every plane
/// gets as much as the others; with few of each, neighbours would lie apart more often than by
/// chance.
const DECK: u32 = 64;

/// Places that each class has in each plane.
pub(super) struct Hands {
    planes: u32,
    ppns: Vec<Vec<Ppn>>,
}

impl Hands {
    pub(super) fn new(classes: usize, planes: u32) -> Hands {
        Hands { planes, ppns: vec![vec![]; classes * planes as usize] }
    }

    pub(super) fn give(&mut self, class: usize, plane: Plane, ppns: Vec<Ppn>) {
        self.ppns[class * self.planes as usize + plane.index()] = ppns;
    }

    /// Those of one class, plane by plane.
    pub(super) fn of(&mut self, class: usize) -> &mut [Vec<Ppn>] {
        let planes = self.planes as usize;
        &mut self.ppns[class * planes..][..planes]
    }
}

/// Which units of a class are there, and which were trimmed: so many of so many, chosen at random,
/// those that are trimmed together as one.
pub(super) struct Mapped {
    mapped: u64,
    units: u64,
    together: u32,
    /// Units left of those that the last draw was for, and what it said.
    left: u32,
    drawn: bool,
}

impl Mapped {
    pub(super) fn new(mapped: u64, units: u64, together: u32) -> Mapped {
        Mapped { mapped, units, together, left: 0, drawn: true }
    }

    /// Whether the next unit is there.
    #[inline]
    pub(super) fn draw(&mut self, random: &mut Xoshiro256PlusPlus) -> bool {
        if self.mapped == self.units {
            return true;
        }
        if self.left == 0 {
            self.left = self.together;
            self.drawn = u64::from(below(random, self.units as u32)) < self.mapped;
        }
        self.left -= 1;
        // In the end it has to come out even.
        let drawn = self.drawn && self.mapped > 0;
        self.units -= 1;
        self.mapped -= u64::from(drawn);
        drawn
    }
}

/// Planes by chance, each as often as the others.
struct Deck {
    planes: u32,
    cards: Vec<u32>,
}

impl Deck {
    fn draw(&mut self, random: &mut Xoshiro256PlusPlus) -> u32 {
        if self.cards.is_empty() {
            self.cards.extend((0..self.planes * DECK).map(|card| card % self.planes));
        }
        let at = below(random, self.cards.len() as u32) as usize;
        self.cards.swap_remove(at)
    }
}

impl<P: Policies> Drive<P> {
    /// Maps the units of `class` to the places that it has in each plane.
    pub(super) fn deal(
        &mut self,
        class: &DriveClass,
        hands: &mut [Vec<Ppn>],
        heats: &[(NamespaceId, super::Heat)],
        random: &mut Xoshiro256PlusPlus,
    ) {
        let mut left: u64 = hands.iter().map(|hand| hand.len() as u64).sum();
        if left == 0 {
            return;
        }
        let end = class.first + class.class.units as u32;
        let space = self.ftl.space_of(class.first);
        let (base, planes) = (space.base, space.planes.clone());
        let together = class.class.together.max(1);
        let in_page = together.min(self.shape.units_per_page);
        let mut units = class.class.units;
        if class.heat.is_some() {
            let of = class.first.upto(end).filter(|&lpn| self.is_of(lpn, class.heat, heats));
            units = of.count() as u64;
        }
        let mut mapped = Mapped::new(left, units, together);
        let mut deck = Deck { planes: planes.len() as u32, cards: vec![] };
        let mut given: Vec<u32> = vec![0; planes.len()];
        let mut at = 0;
        for lpn in class.first.upto(end) {
            if !self.is_of(lpn, class.heat, heats) || !mapped.draw(random) {
                continue;
            }
            let place = lpn - base;
            if place.is_multiple_of(together) || in_page == 1 {
                at = deck.draw(random) as usize;
            } else if place.is_multiple_of(in_page) {
                at = (at + 1) % planes.len();
            }
            while given[at] as usize == hands[planes[at].index()].len() {
                at = (at + 1) % planes.len();
            }
            let ppn = hands[planes[at].index()][given[at] as usize];
            given[at] += 1;
            self.ftl.mapping.table.map(Content::Unit(lpn), ppn);
            left -= 1;
            if left == 0 {
                break;
            }
        }
        debug_assert_eq!(left, 0);
        hands.iter_mut().for_each(|hand| *hand = vec![]);
    }
}
