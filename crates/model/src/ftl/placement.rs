//! Dynamic placement: the plane that a host write goes to is chosen when it sets out for
//! flash, not by its address.
//!
//! A page's worth of units that set out one after the other go to the same plane, so that
//! pages fill. Planes that could not hold more and still collect garbage are passed over.

use crate::config::Placement;
use crate::drive::{Drive, Policies};
use crate::flash::Flash;
use crate::ftl::Ftl;
use crate::number::{Lpn, Plane};
use crate::policy::{Planes, PolicySet, WritePlacement, Wrong};
use crate::space::Shape;
use serde::{Deserialize, Serialize};

/// Where the writes of one namespace go, or of one reclaim unit handle.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Stripe {
    /// The plane that takes units at present, as its place in the namespace's order.
    pub(crate) at: u32,
    /// Units that it still takes.
    pub(crate) left: u32,
}

impl<P: Policies> Drive<P> {
    /// The plane for a unit that sets out for flash.
    pub(crate) fn place(&mut self, lpn: Lpn, group: u8) -> Plane {
        let namespace = self.ftl.namespace_index(lpn);
        let stripe = self.stripe_of(namespace, group);
        let Stripe { at, left } = self.ftl.stripes[stripe];
        let planes = &self.ftl.namespaces[namespace].planes;
        if left > 0 {
            self.ftl.stripes[stripe].left -= 1;
            return planes[at as usize];
        }
        let (ftl, flash, placement) = (&self.ftl, &self.flash, self.config.placement);
        let seen = Seen { planes, at, ftl, flash, placement, shape: &self.shape };
        let at = seen.choose(&mut self.policies);
        let plane = planes[at as usize];
        // Without some of its planes the drive may be too small for what it promises to hold.
        let is_full = !self.has_room(plane) && planes.iter().any(|&plane| !self.takes_data(plane));
        self.ftl.stripes[stripe] = Stripe { at, left: self.shape.units_per_page - 1 };
        if is_full {
            self.protect();
        }
        plane
    }

    /// The plane for a unit where no time passes, and none is busy: one after the other.
    pub(crate) fn place_in_turn(&mut self, lpn: Lpn, group: u8) -> Plane {
        let namespace = self.ftl.namespace_index(lpn);
        let stripe = self.stripe_of(namespace, group);
        let Stripe { mut at, mut left } = self.ftl.stripes[stripe];
        if left == 0 {
            at = self.seen(&self.ftl.namespaces[namespace].planes, at).next_with_room();
            left = self.shape.units_per_page;
        }
        self.ftl.stripes[stripe] = Stripe { at, left: left - 1 };
        self.ftl.namespaces[namespace].planes[at as usize]
    }

    /// Where it stands with the units of a namespace, or of a handle, to whichever namespace they
    /// belong.
    #[inline]
    fn stripe_of(&self, namespace: usize, handle: u8) -> usize {
        match self.config.reclaim_unit_handles() {
            // What goes past an SLC cache fills other pages than what goes there.
            1 if self.ftl.parts_writes() => {
                namespace + usize::from(handle) * self.ftl.namespaces.len()
            }
            1 => namespace,
            _ => usize::from(handle),
        }
    }

    /// Whether a plane can take more data and still collect garbage.
    pub(super) fn has_room(&self, plane: Plane) -> bool {
        self.seen(&[], 0).has_room_in(plane)
    }

    fn takes_data(&self, plane: Plane) -> bool {
        self.seen(&[], 0).is_open(plane)
    }

    fn seen<'a>(&'a self, planes: &'a [Plane], at: u32) -> Seen<'a> {
        let (ftl, flash, placement) = (&self.ftl, &self.flash, self.config.placement);
        Seen { planes, at, ftl, flash, placement, shape: &self.shape }
    }
}

/// The planes of a namespace as a policy sees them.
struct Seen<'a> {
    planes: &'a [Plane],
    /// The one that was chosen last.
    at: u32,
    ftl: &'a Ftl,
    flash: &'a Flash,
    placement: Placement,
    shape: &'a Shape,
}

impl Seen<'_> {
    /// The plane that takes the next page's worth of units.
    #[inline]
    fn choose<P: PolicySet>(&self, policies: &mut P) -> u32 {
        if policies.error().is_some() {
            return self.configured() as u32;
        }
        match policies.placement().choose(self) {
            Ok(at) if !P::Placement::OWN || at < self.planes.len() => at as u32,
            Ok(chosen) => {
                policies.fail(Wrong::Placement { chosen, planes: self.planes.len() });
                self.configured() as u32
            }
            Err(problem) => {
                policies.fail(Wrong::Failed(problem));
                self.configured() as u32
            }
        }
    }

    /// Units that a plane holds or will hold.
    fn held_by(&self, plane: Plane) -> u32 {
        self.ftl.blocks.in_plane(plane) + self.ftl.planes[plane].queues.host_units
    }

    fn has_room_in(&self, plane: Plane) -> bool {
        self.is_open(plane)
            && self.held_by(plane) + self.shape.units_per_page <= self.ftl.plane_room
    }

    fn is_open(&self, plane: Plane) -> bool {
        !self.flash.is_dead(plane) && !self.ftl.planes[plane].read_only
    }

    /// The next plane after the last one that has room; without any, the emptiest of those that
    /// take data at all.
    fn next_with_room(&self) -> u32 {
        let (planes, at) = (self.planes, self.at);
        let count = planes.len() as u32;
        let after = || (1..=count).map(|step| (at + step) % count);
        after()
            .find(|&at| self.has_room_in(planes[at as usize]))
            .or_else(|| {
                after().min_by_key(|&at| {
                    let plane = planes[at as usize];
                    (!self.is_open(plane), self.held_by(plane))
                })
            })
            .unwrap_or(0)
    }

    /// The plane with room for which the fewest full pages wait, from the one after the last on; among
    /// those, one whose die is idle. (Units that do not fill a page wait for others: a plane that
    /// has some must not be passed over for that.)
    fn least_loaded(&self) -> u32 {
        const NOTHING: (u32, bool) = (0, false);
        let (first, second) = self.planes.split_at(self.at as usize + 1);
        let after = (self.at + 1..).zip(second).chain((0..).zip(first));
        let mut best = None;
        for (at, &plane) in after {
            let waiting = self.ftl.planes[plane].queues.host_units;
            let load = (waiting / self.shape.units_per_page, !self.flash.is_idle(plane));
            if best.is_none_or(|(least, _)| load < least) && self.has_room_in(plane) {
                best = Some((load, at));
                if load == NOTHING {
                    break;
                }
            }
        }
        best.map_or_else(|| self.next_with_room(), |(_, at)| at)
    }
}

impl Planes for Seen<'_> {
    fn count(&self) -> usize {
        self.planes.len()
    }

    fn last(&self) -> usize {
        self.at as usize
    }

    fn takes_data(&self, plane: usize) -> bool {
        self.is_open(self.planes[plane])
    }

    fn has_room(&self, plane: usize) -> bool {
        self.has_room_in(self.planes[plane])
    }

    fn held(&self, plane: usize) -> u32 {
        self.held_by(self.planes[plane])
    }

    fn waiting(&self, plane: usize) -> u32 {
        self.ftl.planes[self.planes[plane]].queues.host_units
    }

    fn is_idle(&self, plane: usize) -> bool {
        self.flash.is_idle(self.planes[plane])
    }

    fn units_per_page(&self) -> u32 {
        self.shape.units_per_page
    }

    #[inline]
    fn configured(&self) -> usize {
        let at = match self.placement {
            Placement::LeastLoaded => self.least_loaded(),
            _ => self.next_with_room(),
        };
        at as usize
    }
}
