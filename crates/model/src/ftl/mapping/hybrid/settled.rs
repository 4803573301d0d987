//! The steady state of hybrid mapping: data blocks as a fill leaves them, and log blocks as
//! they are after so many of the stated writes, each of a page, that they have been renewed
//! several times ([`crate::steady::log`]).

use super::Sequential;
use crate::drive::{Drive, Policies};
use crate::ftl::mapping::table::Content;
use crate::ftl::precondition::{
    DriveClass, Heat, Occupancy, Order, PreconditionError, Preconditioned, below, random_share,
};
use crate::io::NamespaceId;
use crate::number::{Plane, Ppn};
use crate::steady::log::Log;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// How often the log is renewed, before its writes and copies are counted and while they are:
/// the first blocks to be emptied have more to copy than any later.
const SETTLING: u64 = 4;
const COUNTING: u64 = 6;

impl<P: Policies> Drive<P> {
    pub(in crate::ftl) fn precondition_logs(
        &mut self,
        occupancy: &[Occupancy],
        heats: &[(NamespaceId, Heat)],
    ) -> Result<Preconditioned, PreconditionError> {
        let filled = self.fill(occupancy)?;
        let ranges = self.begin_precondition(occupancy)?;
        let classes = self.drive_classes(ranges, heats)?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.config.seed ^ 0x6c6f_6773);
        let (mut waf, mut planes) = (0.0, 0);
        for plane in self.shape.all_planes() {
            if let Some((log, here)) = self.settle_log(plane, &classes, heats, &mut random) {
                self.realise_log(plane, &log);
                waf += here;
                planes += 1;
            }
        }
        let expected_waf = (planes > 0).then(|| waf / f64::from(planes));
        self.restart_counters();
        Ok(Preconditioned { expected_waf, ..filled })
    }

    /// The logs of a plane, and the amplification of the writes that led to them; `None` if
    /// nothing is written there.
    fn settle_log(
        &self,
        plane: Plane,
        classes: &[DriveClass],
        heats: &[(NamespaceId, Heat)],
        random: &mut Xoshiro256PlusPlus,
    ) -> Option<(Log, f64)> {
        let hybrid = self.ftl.scheme.hybrid()?;
        let first = plane.0 * self.shape.units_per_plane;
        let mut mapped = vec![false; self.shape.units_per_plane as usize];
        let (mut pages, mut upto) = (Vec::new(), Vec::new());
        let mut orders: Vec<(Order, usize)> = Vec::new();
        for class in self.classes_of_plane(plane, classes, heats) {
            let mut here = Vec::new();
            self.groups_on_plane(plane, class, |from, to| {
                for lpn in from.upto(to).filter(|&lpn| self.is_of(lpn, class.heat, heats)) {
                    let page = self.ftl.home_of(Content::Unit(lpn)).0 - first;
                    mapped[page as usize] = true;
                    here.push(page);
                }
            });
            if class.weight > 0.0 && !here.is_empty() {
                // A class's weight is that of all its planes, on which it lies evenly.
                upto.push(upto.last().unwrap_or(&0.0) + class.weight);
                pages.push(here);
                orders.push((class.order, 0));
            }
        }
        let total = *upto.last()?;
        let block = self.shape.pages_per_block;
        let capacity = hybrid.random_blocks as u64 * u64::from(block);
        let wanted = (SETTLING + COUNTING) * capacity + u64::from(below(random, block));
        let mut log = Log::new(block, hybrid.random_blocks, mapped);
        // Writes in order that hardly use the log come to the end of their range with the last.
        for (index, (_, next)) in orders.iter_mut().enumerate() {
            let before = if index == 0 { 0.0 } else { upto[index - 1] };
            let writes = ((upto[index] - before) / total * 4.0 * wanted as f64) as usize;
            let count = pages[index].len();
            *next = (count - writes % count) % count;
        }
        let (mut logged, mut writes) = (0, 0u64);
        let mut counted = (0, 0);
        // Where the same few pages are written in order, the log is hardly used.
        while logged < wanted && writes < 4 * wanted {
            let at = random_share(random) * total;
            let index = upto.partition_point(|&sum| sum <= at).min(pages.len() - 1);
            let (class, (order, next)) = (&pages[index], &mut orders[index]);
            let in_order = order.is_ordered() && random_share(random) < order.in_order;
            let page = match in_order {
                false => class[below(random, class.len() as u32) as usize],
                true => {
                    while order.passed_over > 0.0 && random_share(random) < order.passed_over {
                        *next = (*next + 1) % class.len();
                    }
                    let page = class[*next];
                    *next = (*next + 1) % class.len();
                    page
                }
            };
            logged += u64::from(log.write(page));
            writes += 1;
            if logged == SETTLING * capacity && counted == (0, 0) {
                counted = (writes, log.copies);
            }
        }
        let (writes, copies) = (writes - counted.0, log.copies - counted.1);
        Some((log, 1.0 + copies as f64 / writes as f64))
    }

    /// Puts into `plane` what its logs hold.
    fn realise_log(&mut self, plane: Plane, log: &Log) {
        let mut places = Vec::new();
        let Some(hybrid) = self.ftl.scheme.hybrid_mut() else { return };
        for pages in log.blocks() {
            let Some(block) = self.ftl.blocks.take_free(plane) else { break };
            let ppn = self.shape.first_ppn_of_block(block);
            let pool = &mut hybrid.pools[plane];
            pool.random.push_back(block);
            pool.random_next = pages.len() as u32;
            let ppns = ppn.run(self.shape.units_per_block);
            places.extend(pages.into_iter().zip(ppns).filter_map(|(page, ppn)| Some((page?, ppn))));
        }
        if let Some((logical, next)) = log.sequential()
            && let Some(block) = self.ftl.blocks.take_free(plane)
        {
            let ppn = self.shape.first_ppn_of_block(block);
            let owner = plane.0 * self.shape.blocks_per_plane + logical;
            hybrid.pools[plane].sequential =
                Some(Sequential { block, owner, next, spoiled: false });
            let pages = logical * self.shape.pages_per_block..;
            places.extend(pages.zip(ppn.run(next)));
        }
        for (page, ppn) in places {
            let (logical, page) = hybrid.split(Ppn(plane.0 * self.shape.units_per_plane + page));
            let Some(lpn) = hybrid.unit_at(logical, page) else { continue };
            let before = self.ftl.mapping.table.map(Content::Unit(lpn), ppn);
            self.ftl.blocks.add_valid(self.shape.block_of_ppn(ppn), 1);
            if let Some(before) = before {
                self.ftl.blocks.remove_valid(self.shape.block_of_ppn(before), 1);
            }
        }
    }
}
