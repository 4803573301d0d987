//! Flash reads: of units whose mapping is known, and what follows from the end of each.

use super::mapping::table::Content;
use super::unit::UnitState;
use crate::config::UnmappedReads;
use crate::drive::{Drive, Policies};
use crate::flash::queues::CLASS_HOST;
use crate::flash::work::{Extent, Work, WorkKind};
use crate::io::Status;
use crate::kernel::event::Event;
use crate::number::{CommandIndex, Lpn, Ppn, WorkIndex, WriteIndex};
use crate::observe::blame::{HolderIndex, MAPPING_TABLE};
use crate::observe::stats::Resource;
use crate::token::Token;
use mynah_stamp::Stage;

impl<P: Policies> Drive<P> {
    /// Asks the flash for a read or an erase.
    #[inline]
    pub(super) fn ask_flash(
        &mut self,
        kind: WorkKind,
        class: u8,
        holder: HolderIndex,
        token: Token,
        extent: Extent,
    ) {
        let now = self.kernel.now;
        let (work, w) = self.flash.new_work();
        *w = Work::new(kind, class, holder, token, extent, now);
        self.flash.enqueue(&mut self.kernel, &mut self.ftl, work);
    }

    /// Queues the flash read of a unit whose mapping is known. Units of one page that
    /// follow one another are one read: `last` is the work that may take the unit.
    /// Returns the work that has it.
    #[inline(always)]
    pub(crate) fn read_unit(
        &mut self,
        command: CommandIndex,
        lpn: Lpn,
        last: WorkIndex,
    ) -> WorkIndex {
        let overlap = self.overlap(command, lpn);
        let ppn = match self.ftl.mapping.table.ppn(lpn) {
            Some(ppn) => ppn,
            None => match self.config.mapping.unmapped_reads {
                UnmappedReads::Zeroes => {
                    self.send_cached_piece(command, overlap.first_sector, overlap.sectors);
                    return last;
                }
                UnmappedReads::Allocate => {
                    let Some(ppn) = self.allocate_for_read(lpn) else { return last };
                    ppn
                }
            },
        };
        let page = self.shape.page_start(ppn);
        let bytes = overlap.sectors * 512;
        // The flash counts sectors from the first unit's start.
        let c = self.host.command_mut(command);
        let first_sector = c.into_first + overlap.first_sector;
        if last != WorkIndex::NONE {
            let w = self.flash.work_mut(last);
            if w.ppn == page && w.first_sector + w.sectors == first_sector {
                w.bytes += bytes;
                w.sectors += overlap.sectors;
                return last;
            }
        }
        let plane = self.shape.plane_of_ppn(ppn);
        c.parts += 1;
        let (holder, class, created) = (c.flow, c.class, c.mark);
        let extent = Extent { plane, ppn: page, bytes };
        let token = Token::Read { command };
        let (work, w) = self.flash.new_work();
        *w = Work::new(WorkKind::HostRead, class, holder, token, extent, created);
        w.watched = true;
        (w.first_sector, w.sectors) = (first_sector, overlap.sectors);
        let waited = self.kernel.now.since(created);
        if !waited.is_zero() {
            let ends = (waited, self.kernel.now);
            let observe = &mut self.kernel.observe;
            observe.charge(holder, Resource::Mapping, MAPPING_TABLE, waited, ends);
        }
        self.flash.enqueue(&mut self.kernel, &mut self.ftl, work);
        work
    }

    /// As MQSim: a read of an address that was never written gets a page of its own in the
    /// plane it belongs to, which is then read without ever having been programmed.
    fn allocate_for_read(&mut self, lpn: Lpn) -> Option<Ppn> {
        let plane = self.ftl.plane_of(Content::Unit(lpn));
        let base = self.ftl.space_of(lpn).base;
        let namespace = self.ftl.namespaces.iter().position(|space| space.base == base)?;
        let ppn = self.ftl.blocks.take_page_for_read(plane, namespace)?;
        self.ftl.mapping.table.map(Content::Unit(lpn), ppn);
        for other in 1..self.shape.units_per_page {
            self.ftl.mapping.table.clear_ppn(ppn + other);
        }
        self.ftl.blocks.add_valid(self.shape.block_of_ppn(ppn), 1);
        self.mapping_changed(lpn);
        self.collect_if_needed(plane);
        Some(ppn)
    }

    /// The data of a read has left its die.
    #[inline(always)]
    pub(crate) fn read_done(&mut self, work: WorkIndex) {
        let w = self.flash.work(work);
        let ppn = w.ppn;
        match w.token {
            Token::Read { command } => {
                let sectors = w.sectors;
                let first_sector = w.first_sector - self.host.command(command).into_first;
                if self.ftl.reads_cached {
                    self.fill_cache(work);
                }
                self.send_piece(command, first_sector, sectors);
                let now = self.kernel.now;
                let &Work { created, queued, started, array, ready, transfer, .. } =
                    self.flash.work(work);
                self.flash.give_back(work);
                self.part_done(command, |stages| {
                    stages.add(Stage::Mapping, queued.since(created));
                    stages.add(Stage::DieWait, started.since(queued));
                    stages.add(Stage::FlashCommand, array.since(started));
                    stages.add(Stage::FlashArray, ready.since(array));
                    stages.add(Stage::ChannelWait, transfer.since(ready));
                    stages.add(Stage::FlashTransfer, now.since(transfer));
                });
            }
            Token::Compare { command } => {
                self.flash.give_back(work);
                self.kernel.events.push(self.kernel.now, Event::KeyStep { command });
            }
            Token::Rest { unit } => {
                self.flash.give_back(work);
                self.merged(unit);
            }
            Token::Collect { plane } => {
                self.flash.give_back(work);
                self.moved_page_read(plane, ppn);
            }
            Token::Load { page } => {
                self.flash.give_back(work);
                self.translation_loaded(page);
            }
            Token::Update { page } => {
                self.flash.give_back(work);
                self.translation_read_for_update(page);
            }
            Token::Erase { .. } => unreachable!("an erase transfers no data"),
        }
    }

    /// A read came back spoilt. A host read ends in an error; the drive's own reads are
    /// repeated, and then succeed.
    pub(crate) fn read_failed(&mut self, work: WorkIndex) {
        let w = self.flash.work_mut(work);
        let Token::Read { command } = w.token else {
            w.repeat();
            return self.flash.enqueue(&mut self.kernel, &mut self.ftl, work);
        };
        let now = self.kernel.now;
        let &mut Work { created, queued, started, array, .. } = w;
        self.flash.give_back(work);
        self.host.command_mut(command).completion.status = Status::UnrecoveredReadError;
        self.part_done(command, |stages| {
            stages.add(Stage::Mapping, queued.since(created));
            stages.add(Stage::DieWait, started.since(queued));
            stages.add(Stage::FlashCommand, array.since(started));
            stages.add(Stage::FlashArray, now.since(array));
        });
    }

    /// Work whose die is dead: host reads end in an error, the drive's own are given up or rebuilt
    /// elsewhere.
    pub(crate) fn fail_work(&mut self, work: WorkIndex) {
        self.flash.fail_work(&self.kernel, work);
        match self.flash.work(work).token {
            Token::Read { .. } => self.read_failed(work),
            // The collection ends here: the block stays as it is.
            Token::Collect { .. } | Token::Erase { .. } => self.flash.give_back(work),
            // Translation pages are rebuilt from what the blocks say of themselves.
            Token::Rest { .. }
            | Token::Load { .. }
            | Token::Update { .. }
            | Token::Compare { .. } => self.read_done(work),
        }
    }

    /// Reads what a partly written unit lacks.
    pub(crate) fn read_rest(&mut self, unit: WriteIndex, ppn: Ppn) {
        let u = &mut self.ftl.units[unit];
        u.state = UnitState::Merging;
        let granules = 64 - u.mask.count_zeros();
        let bits = self.shape.unit_sectors.min(64);
        let missing = self.shape.unit_bytes / bits * (bits - granules.min(bits));
        let page = self.shape.page_start(ppn);
        let plane = self.shape.plane_of_ppn(ppn);
        let extent = Extent { plane, ppn: page, bytes: missing.max(512) };
        let (class, holder, token) = (u.class.max(CLASS_HOST), u.holder, Token::Rest { unit });
        self.ask_flash(WorkKind::RestRead, class, holder, token, extent);
    }
}
