//! Dynamic placement: the plane that a host write goes to is chosen when it sets out for
//! flash, not by its address.
//!
//! A page's worth of units that set out one after the other go to the same plane, so that
//! pages fill. Planes that could not hold more and still collect garbage are passed over.

use crate::config::Placement;
use crate::drive::Drive;
use crate::number::{Lpn, Plane};
use serde::{Deserialize, Serialize};

/// Where the writes of one namespace go, or of one reclaim unit handle.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Stripe {
    /// The plane that takes units at present, as its place in the namespace's order.
    pub(crate) at: u32,
    /// Units that it still takes.
    pub(crate) left: u32,
}

impl Drive {
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
        let at = match self.config.placement {
            Placement::LeastLoaded => self.least_loaded(planes, at),
            _ => self.next_with_room(planes, at),
        };
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
            at = self.next_with_room(&self.ftl.namespaces[namespace].planes, at);
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

    /// Units that a plane holds or will hold.
    fn held(&self, plane: Plane) -> u32 {
        self.ftl.blocks.in_plane(plane) + self.ftl.planes[plane].queues.host_units
    }

    /// Whether a plane can take more data and still collect garbage.
    pub(super) fn has_room(&self, plane: Plane) -> bool {
        self.takes_data(plane)
            && self.held(plane) + self.shape.units_per_page <= self.ftl.plane_room
    }

    fn takes_data(&self, plane: Plane) -> bool {
        let dead = self.flash.is_dead(plane);
        !dead && !self.ftl.planes[plane].read_only
    }

    /// The next plane after the one at `at` that has room; without any, the emptiest of those that
    /// take data at all.
    fn next_with_room(&self, planes: &[Plane], at: u32) -> u32 {
        let count = planes.len() as u32;
        let after = || (1..=count).map(|step| (at + step) % count);
        after()
            .find(|&at| self.has_room(planes[at as usize]))
            .or_else(|| {
                after().min_by_key(|&at| {
                    let plane = planes[at as usize];
                    (!self.takes_data(plane), self.held(plane))
                })
            })
            .unwrap_or(0)
    }

    /// The plane with room for which the fewest full pages wait, from the one after `at` on; among
    /// those, one whose die is idle. (Units that do not fill a page wait for others: a plane that
    /// has some must not be passed over for that.)
    fn least_loaded(&self, planes: &[Plane], at: u32) -> u32 {
        const NOTHING: (u32, bool) = (0, false);
        let (first, second) = planes.split_at(at as usize + 1);
        let after = (at + 1..).zip(second).chain((0..).zip(first));
        let mut best = None;
        for (at, &plane) in after {
            let waiting = self.ftl.planes[plane].queues.host_units;
            let load = (waiting / self.shape.units_per_page, !self.flash.is_idle(plane));
            if best.is_none_or(|(least, _)| load < least) && self.has_room(plane) {
                best = Some((load, at));
                if load == NOTHING {
                    break;
                }
            }
        }
        best.map_or_else(|| self.next_with_room(planes, at), |(_, at)| at)
    }
}
