//! Garbage collection: when a plane runs short of free blocks, the valid pages of a block
//! are read and programmed elsewhere in the plane, and the block is erased. With copyback,
//! pages that are valid as a whole stay in their die between the read and the program.

use crate::config::{Config, MediaOperation, Placement, WriteFrontiers};
use crate::drive::{Drive, Policies};
use crate::flash::queues::CLASS_TABLES;
use crate::flash::timing::NO_DATA;
use crate::flash::work::{Extent, WorkKind};
use crate::ftl::Ftl;
use crate::ftl::blocks::Stream;
use crate::ftl::mapping::table::Content;
use crate::ftl::slc::fold::Move;
use crate::ftl::unit::WriteUnit;
use crate::ftl::waiting::ProgramQueues;
use crate::kernel::event::Event;
use crate::kernel::pool::List;
use crate::number::{Block, Die, Lpn, Plane, Ppn, WorkIndex};
use crate::space::Shape;
use crate::token::Token;
use mynah_stamp::Span;
use serde::{Deserialize, Serialize};
use std::hint::cold_path;

/// Pages of a victim that are read or programmed at a time. An estimate: enough to keep a
/// plane's die busy, few enough that little is buffered.
pub(crate) const PAGES_IN_FLIGHT: u32 = 4;

/// Pages of a victim that are read or programmed at a time in a drive: more than may wait for
/// others to fill a program.
pub(crate) fn pages_in_flight(config: &Config, shape: &Shape) -> u32 {
    let open = match config.gc.frontiers {
        WriteFrontiers::HotCold(_) => 2,
        WriteFrontiers::One | WriteFrontiers::Separate => 1,
    };
    PAGES_IN_FLIGHT.max(open * shape.pages_per_program + 1)
}

/// How many pages of a victim are asked for ahead.
const PAGES_AHEAD: u32 = 12;

/// A plane's queues and its collection.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PlaneState {
    pub(crate) queues: ProgramQueues,
    pub(crate) collection: Collection,
    /// No space can be won back: host writes fail.
    pub(crate) read_only: bool,
    /// An idle check is scheduled.
    pub(crate) idle_check: bool,
}

impl Default for PlaneState {
    fn default() -> Self {
        PlaneState {
            queues: ProgramQueues::EMPTY,
            collection: Collection::default(),
            read_only: false,
            idle_check: false,
        }
    }
}

/// The collection of one block.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Collection {
    /// The block, or `NONE`.
    pub(crate) victim: Block,
    /// Others of its reclaim unit in this plane, which come after it.
    next: Vec<Block>,
    /// First PPNs of its pages that held something valid, to be read from the end.
    pages: Vec<Ppn>,
    /// Pages being read, units waiting or being programmed.
    reading: u32,
    units: u32,
    erasing: bool,
    /// There is no place for what it moves: it ends without an erase.
    broken: bool,
    /// Moves that become due with each page that the host programs, and those that are due
    /// now, in 256ths (paced collection). The erase counts as one.
    pace: u32,
    due: u32,
    /// Units moved so far whose cached tables do not know it yet: see
    /// [`Drive::tables_follow`].
    pub(crate) moved: Vec<Lpn>,
}

/// One move, in the units of [`Collection::pace`].
pub(super) const MOVE: u32 = 256;

impl Default for Collection {
    fn default() -> Self {
        Collection {
            victim: Block::NONE,
            next: Vec::new(),
            pages: Vec::new(),
            reading: 0,
            units: 0,
            erasing: false,
            broken: false,
            pace: 0,
            due: 0,
            moved: Vec::new(),
        }
    }
}

impl Collection {
    /// Whether no collection is under way.
    pub(crate) fn is_over(&self) -> bool {
        self.victim == Block::NONE
    }

    /// What is left of it when everything under way is dropped: its block, its pace, and which
    /// units have left the block.
    pub(crate) fn stop(self, has_left: impl Fn(Lpn) -> bool) -> Collection {
        let Collection { victim, next, pace, due, mut moved, .. } = self;
        moved.retain(|&unit| has_left(unit));
        Collection { victim, next, pace, due, moved, ..Collection::default() }
    }

    /// It is in the middle of `victim`, and goes on when work is resumed; then with the next blocks.
    pub(crate) fn stopped_at(&mut self, victim: Victim, next: Vec<Block>) {
        (self.victim, self.pace, self.due) = (victim.block, victim.pace, victim.due);
        self.next = next;
    }

    /// Blocks that come after the one that is being collected.
    pub(crate) fn next(&self) -> &[Block] {
        &self.next
    }

    /// Whether nothing more will be read: what is there has to do for the last page.
    pub(crate) fn is_read(&self) -> bool {
        self.pages.is_empty() && self.reading == 0
    }

    /// About how many moves it takes to win the block back, the erase included.
    pub(crate) fn moves_left(&self, units_per_page: u32) -> u32 {
        match self.victim {
            Block::NONE => 0,
            _ => self.pages.len() as u32 + self.reading + self.units.div_ceil(units_per_page) + 1,
        }
    }

    /// The host has programmed a page of its plane.
    pub(crate) fn host_page_programmed(&mut self) {
        if self.victim != Block::NONE {
            self.due = self.due.saturating_add(self.pace);
        }
    }

    /// Whether the next of its moves is due.
    pub(crate) fn is_due(&self) -> bool {
        self.due >= MOVE
    }
}

/// A block that is emptied without time: how far, and at which pace.
#[derive(Clone, Copy)]
pub(crate) struct Victim {
    block: Block,
    /// The next page that is read, and the end of the block.
    next: Ppn,
    end: Ppn,
    units_per_page: u32,
    pace: u32,
    due: u32,
}

impl Victim {
    /// One with so many valid units.
    pub(crate) fn new(shape: &Shape, block: Block, units: u32) -> Victim {
        let next = shape.first_ppn_of_block(block);
        let (units_per_page, pace) = (shape.units_per_page, pace_of(shape, units));
        Victim { block, next, end: next + shape.units_per_block, units_per_page, pace, due: 0 }
    }

    pub(crate) fn block(&self) -> Block {
        self.block
    }

    pub(crate) fn next_page(&mut self) -> Option<Ppn> {
        let page = Some(self.next).filter(|&page| page < self.end)?;
        self.next = self.next + self.units_per_page;
        Some(page)
    }

    /// The host has programmed a page: moves that are due.
    pub(crate) fn host_page_programmed(&mut self) -> u32 {
        let due = self.due + self.pace;
        self.due = due % MOVE;
        due / MOVE
    }
}

/// The pace at which a block with so many valid units is emptied while the host fills the pages
/// that are won.
fn pace_of(shape: &Shape, units: u32) -> u32 {
    let valid = units.div_ceil(shape.units_per_page);
    let won = (shape.pages_per_block - valid).max(1);
    ((valid + 1) * MOVE).div_ceil(won)
}

impl Ftl {
    /// A collection begins. Returns the handle among whose units its victim should be, if it should.
    fn collection_begins(&mut self) -> Option<u8> {
        let handles = self.handles.as_mut()?;
        let preferred = handles.collection_begins();
        self.collector = handles.collector();
        preferred
    }

    /// Whether no block of `plane` is being emptied.
    pub(crate) fn is_collection_over(&self, plane: Plane) -> bool {
        self.planes[plane].collection.is_over()
    }

    /// Pages of collected units are being programmed at `ppns`.
    pub(super) fn pages_moved(&mut self, ppns: &[Ppn]) {
        for &ppn in ppns {
            let plane = self.shape.plane_of_ppn(ppn);
            let due = &mut self.planes[plane].collection.due;
            *due = due.saturating_sub(MOVE);
        }
    }
}

impl<P: Policies> Drive<P> {
    /// Asks for a read or an erase of a collection.
    pub(super) fn ask_collection(&mut self, kind: WorkKind, token: Token, extent: Extent) {
        let (class, holder) = self.ftl.mover(extent.plane);
        self.ask_flash(kind, class, holder, token, extent);
    }

    /// The page that a die has read to program it elsewhere is not needed.
    pub(super) fn free_die(&mut self, die: Die) {
        self.flash.copyback_ends(&mut self.kernel, &mut self.ftl, die);
    }

    /// Starts to collect a block of `plane` if it has too few free blocks.
    #[inline(always)]
    pub(crate) fn collect_if_needed(&mut self, plane: Plane) {
        if self.ftl.slc.is_some() {
            cold_path();
            return self.fold_or_collect(plane);
        }
        if self.ftl.blocks.free_blocks(plane) < self.ftl.blocks.start
            && self.ftl.planes[plane].collection.victim == Block::NONE
        {
            self.collect_if_allowed(plane);
        }
    }

    /// The same of a drive with a pSLC cache, of which a block may be due to be folded.
    #[inline(never)]
    fn fold_or_collect(&mut self, plane: Plane) {
        if !self.ftl.planes[plane].collection.is_over() || self.flash.is_dead(plane) {
            return;
        }
        self.await_idleness_of(plane);
        match self.ftl.next_move(plane, &mut self.policies) {
            Some(Move::Fold(block)) => self.fold(plane, block, false),
            Some(Move::Native(victim)) => self.collect_block(plane, victim),
            Some(Move::Collect) => self.collect_if_allowed(plane),
            None => {}
        }
    }

    /// Has it looked later whether the drive is idle, if a plane has something to fold then.
    pub(crate) fn await_idleness(&mut self) {
        self.shape.all_planes().for_each(|plane| self.await_idleness_of(plane));
    }

    fn await_idleness_of(&mut self, plane: Plane) {
        if let Some(due) = self.ftl.await_idleness(plane, self.kernel.now) {
            self.kernel.events.push(due, Event::FoldCheck { plane });
        }
    }

    /// Starts to move what is valid in a block of the cache, unless as many as may be are being
    /// folded: then the plane has its turn when one of them ends.
    fn fold(&mut self, plane: Plane, block: Block, idle: bool) {
        let when = (self.kernel.now, idle);
        if self.ftl.begin_fold(plane, block, when, |at| self.flash.is_dead(at)) {
            self.collect_block(plane, block);
        }
    }

    /// A fold has ended: the next plane that waits for its turn has it.
    fn fold_next(&mut self, after: Plane) {
        if self.ftl.folds_take_turns() {
            let planes = self.shape.planes;
            for step in 1..planes {
                self.fold_or_collect(Plane((after.0 + step) % planes));
            }
        }
    }

    /// Folds a block of `plane` if no command has come for long enough.
    #[cold]
    #[inline(never)]
    pub(crate) fn fold_check(&mut self, plane: Plane) {
        if let Some(due) = self.ftl.is_idle(plane, self.kernel.now) {
            return self.kernel.events.push(due, Event::FoldCheck { plane });
        }
        let state = &self.ftl.planes[plane];
        if state.collection.is_over()
            && !state.read_only
            && !self.flash.is_dead(plane)
            && let Some(block) = self.ftl.idle_block(plane)
        {
            self.fold(plane, block, true);
        }
    }

    /// A drive without spare blocks wears no more of them out than it has to.
    #[inline(never)]
    fn collect_if_allowed(&mut self, plane: Plane) {
        if !self.ftl.write_protected || self.is_starving(plane) {
            self.collect(plane);
        }
    }

    /// Whether nothing of the host, or of the mapping that waits, can be programmed in `plane`.
    #[cold]
    fn is_starving(&self, plane: Plane) -> bool {
        !self.ftl.can_program_host(plane) || self.is_mapping_starving(plane)
    }

    fn is_mapping_starving(&self, plane: Plane) -> bool {
        let waiting = &self.ftl.planes[plane].queues.writes[usize::from(CLASS_TABLES)];
        !waiting.is_empty() && !self.ftl.blocks.can_program(plane, Stream::TRANSLATION)
    }

    /// Chooses a victim in `plane` and starts to move what is valid in it.
    fn collect(&mut self, plane: Plane) {
        if self.flash.is_dead(plane) {
            return;
        }
        if self.ftl.blocks.superblocks.is_some() {
            return self.collect_superblock(plane);
        }
        match self.ftl.blocks.take_victim(plane, &mut self.policies) {
            Some(victim) => self.collect_block(plane, victim),
            None => self.nothing_to_collect(plane),
        }
    }

    /// Nothing in `plane` is worth collecting.
    fn nothing_to_collect(&mut self, plane: Plane) {
        // Without anything to win, writes can only go on while there are free pages.
        if !self.ftl.can_program_host(plane) {
            self.give_up(plane);
        } else if self.is_mapping_starving(plane) {
            if self.ftl.write_protected {
                // No host write will make anything to win: the old translation pages stay.
                self.fail_writes_of(plane, CLASS_TABLES);
            } else if self.ftl.blocks.retired_of(plane) > self.ftl.spare_blocks[plane] {
                // So many blocks are gone that none may ever be won again. This fails them, too.
                self.protect();
            }
        }
    }

    /// Chooses a superblock with a block in `plane`, and starts to empty its blocks, if no other
    /// is being emptied. A plane on a dead die stays as it is for ever.
    fn collect_superblock(&mut self, plane: Plane) {
        if self.is_collecting() {
            return;
        }
        let works = |at: Plane| {
            let dead = self.flash.is_dead(at);
            !dead && (at == plane || !self.ftl.planes[at].read_only)
        };
        let usable: Vec<bool> = self.shape.all_planes().map(works).collect();
        let handle = self.ftl.collection_begins();
        match self.ftl.blocks.take_superblock(plane, &usable, handle) {
            Some(blocks) => {
                for block in blocks {
                    let plane = self.shape.plane_of_block(block);
                    let collection = &mut self.ftl.planes[plane].collection;
                    match collection.is_over() {
                        true => self.collect_block(plane, block),
                        false => collection.next.push(block),
                    }
                }
            }
            None => self.nothing_to_collect(plane),
        }
    }

    /// Whether any plane empties a block.
    fn is_collecting(&self) -> bool {
        self.shape
            .all_planes()
            .any(|plane| !self.ftl.planes[plane].collection.is_over() && !self.flash.is_dead(plane))
    }

    /// A plane has emptied its block, or died: if it was the last of a superblock, another may
    /// be due.
    pub(crate) fn collect_next_superblock(&mut self) {
        if self.ftl.blocks.superblocks.is_none() {
            return;
        }
        for plane in self.shape.all_planes() {
            if self.is_collecting() {
                return;
            }
            // A plane that was given up has been tried.
            if !self.ftl.planes[plane].read_only {
                self.collect_if_needed(plane);
            }
        }
    }

    /// Starts to move what is valid in `victim`, which has been marked.
    pub(crate) fn collect_block(&mut self, plane: Plane, victim: Block) {
        let valid = self.ftl.blocks.valid(victim);
        let pace = self.ftl.pace_beside_slc(plane, valid);
        let pace = pace.unwrap_or_else(|| pace_of(&self.shape, valid));
        let mut pages = std::mem::take(&mut self.ftl.planes[plane].collection.pages);
        let units_per_page = self.shape.units_per_page;
        let first = self.shape.first_ppn_of_block(victim);
        if self.ftl.blocks.valid(victim) > 0 {
            for page in (0..self.ftl.pages_of(victim)).rev() {
                let ppn = first + page * units_per_page;
                self.ftl
                    .mapping
                    .table
                    .prefetch_content(Ppn(ppn.0.wrapping_sub(PAGES_AHEAD * units_per_page)));
                let valid = ppn
                    .run(units_per_page)
                    .any(|ppn| self.ftl.mapping.table.content(ppn).is_some());
                if valid {
                    pages.push(ppn);
                }
            }
        }
        let collection = &mut self.ftl.planes[plane].collection;
        collection.due = 0;
        collection.pace = pace;
        collection.victim = victim;
        collection.pages = pages;
        self.flash.begin_collection(plane);
        self.collect_on(plane);
    }

    /// Goes on with a collection of `plane` that was stopped, at the pace that it had.
    pub(crate) fn resume_collection(&mut self, plane: Plane) {
        let &Collection { victim, pace, due, .. } = &self.ftl.planes[plane].collection;
        if victim != Block::NONE {
            self.collect_block(plane, victim);
            let collection = &mut self.ftl.planes[plane].collection;
            (collection.pace, collection.due) = (pace, due);
        }
    }

    /// The collection of `plane` has ended; returns the block that it was of.
    fn end_collection(&mut self, plane: Plane) -> Block {
        self.flash.end_collection(plane);
        if let Some(levelling) = self.ftl.blocks.levelling.get_mut(plane.index()) {
            *levelling = false;
        }
        std::mem::replace(&mut self.ftl.planes[plane].collection.victim, Block::NONE)
    }

    /// Reads the next pages of the victim, or erases it when everything has been moved.
    #[inline]
    fn collect_on(&mut self, plane: Plane) {
        if self.may_collect_more(plane) {
            self.collect_more(plane);
        }
    }

    /// Whether fewer pages of the victim are on their way than may be.
    #[inline]
    fn may_collect_more(&self, plane: Plane) -> bool {
        let collection = &self.ftl.planes[plane].collection;
        collection.reading + self.shape.pages_of(collection.units) < self.ftl.pages_in_flight
    }

    #[inline(never)]
    fn collect_more(&mut self, plane: Plane) {
        let units_per_page = self.shape.units_per_page;
        loop {
            let collection = &mut self.ftl.planes[plane].collection;
            let Some(ppn) = collection.pages.pop() else { break };
            if let Some(&next) = collection.pages.last() {
                self.ftl.mapping.table.prefetch_content(next);
            }
            let mut bytes = 0;
            for ppn in ppn.run(units_per_page) {
                bytes += match self.ftl.mapping.table.content(ppn) {
                    Some(Content::Unit(_)) => self.shape.unit_bytes,
                    Some(Content::TranslationPage(_)) => self.shape.page_bytes,
                    None => 0,
                };
            }
            if bytes == 0 {
                continue;
            }
            let (kind, bytes) = match self.ftl.copies_back(plane, &self.config.gc)
                && bytes == self.shape.page_bytes
            {
                true => (WorkKind::Copyback, NO_DATA),
                false => (WorkKind::CollectionRead, bytes),
            };
            self.ftl.planes[plane].collection.reading += 1;
            self.ask_collection(kind, Token::Collect { plane }, Extent { plane, ppn, bytes });
            if !self.may_collect_more(plane) {
                return;
            }
        }
        let collection = &mut self.ftl.planes[plane].collection;
        if collection.broken {
            if collection.reading == 0 && collection.units == 0 {
                collection.broken = false;
                self.tables_follow(plane);
                let victim = self.end_collection(plane);
                self.ftl.put_back(victim);
                for block in std::mem::take(&mut self.ftl.planes[plane].collection.next) {
                    self.ftl.put_back(block);
                }
                self.flash.mark_plane(plane);
                self.give_up(plane);
                self.collect_next_superblock();
            }
        } else if collection.reading == 0 && collection.units == 0 && !collection.erasing {
            collection.erasing = true;
            let victim = collection.victim;
            self.tables_follow(plane);
            let ppn = self.shape.first_ppn_of_block(victim);
            let extent = Extent { plane, ppn, bytes: 0 };
            self.ask_collection(WorkKind::Erase, Token::Erase { block: victim }, extent);
        } else if collection.units > 0 {
            // The last page may be programmed without being full.
            self.flash.mark_plane(plane);
        }
    }

    /// Breaks the collection of `plane` off if what it has read cannot be programmed: blocks
    /// that could not be erased or pages that could not be programmed have used up the
    /// reserve. What was not moved stays where it is.
    #[inline(always)]
    pub(crate) fn break_off_if_stuck(&mut self, plane: Plane) {
        if self.ftl.planes[plane].queues.collected_units > 0 && self.ftl.is_stuck(plane) {
            self.break_off(plane);
        }
    }

    #[cold]
    #[inline(never)]
    fn break_off(&mut self, plane: Plane) {
        let state = &mut self.ftl.planes[plane];
        state.collection.broken = true;
        state.collection.pages.clear();
        self.fail_writes_of(plane, self.ftl.mover(plane).0);
    }

    /// A page of the victim has been read: what is still valid goes to the collected
    /// pages' open block.
    pub(crate) fn page_collected(&mut self, plane: Plane, ppn: Ppn) {
        let collection = &mut self.ftl.planes[plane].collection;
        collection.reading -= 1;
        if collection.broken {
            return self.collect_on(plane);
        }
        let is_grouped = self.ftl.is_grouped();
        let (class, holder) = self.ftl.mover(plane);
        for ppn in ppn.run(self.shape.units_per_page) {
            let Some(content) = self.ftl.mapping.table.content(ppn) else { continue };
            let group = match is_grouped {
                true => self.ftl.group_of_moved(content, ppn, self.policies.heat()),
                false => 0,
            };
            let unit = self.ftl.units.insert_any();
            let u = &mut self.ftl.units[unit];
            *u = WriteUnit::new(content, class, holder, self.kernel.now);
            (u.from, u.group) = (ppn, group);
            self.ftl.planes[plane].collection.units += 1;
            if let (Some(_), Content::Unit(lpn)) = (&self.ftl.pairs, content)
                && !self.collected_cell_known(lpn, unit)
            {
                continue;
            }
            self.enqueue_unit(unit, plane);
        }
        self.break_off_if_stuck(plane);
        self.collect_on(plane);
    }

    /// A page of the victim is in its die's register, and the command to program it has been
    /// sent: what is still valid goes to the collected pages' open block.
    pub(crate) fn program_copyback(&mut self, die: Die, plane: Plane, from: Ppn) {
        let collection = &mut self.ftl.planes[plane].collection;
        collection.reading -= 1;
        let units_per_page = self.shape.units_per_page;
        let valid =
            from.run(units_per_page).any(|ppn| self.ftl.mapping.table.content(ppn).is_some());
        let stream = self.ftl.stream_of_copyback(from, self.policies.heat());
        let room = self.ftl.blocks.can_program(plane, stream);
        let collection = &mut self.ftl.planes[plane].collection;
        if collection.broken || self.flash.is_dead(plane) || !valid || !room {
            let stuck = valid && !room;
            collection.broken |= stuck;
            if stuck {
                collection.pages.clear();
            }
            self.free_die(die);
            return self.collect_on(plane);
        }
        let to = self.ftl.blocks.take_page(plane, stream);
        let now = self.kernel.now;
        let (class, holder) = self.ftl.mover(plane);
        let mut units = List::EMPTY;
        let mut count = 0;
        for ppn in from.run(units_per_page) {
            let Some(content) = self.ftl.mapping.table.content(ppn) else { continue };
            let unit = self.ftl.units.insert(WriteUnit {
                from: ppn,
                group: self.ftl.group_of_moved(content, ppn, self.policies.heat()),
                plane,
                started: now,
                array: now,
                ..WriteUnit::new(content, class, holder, now)
            });
            self.ftl.units.push_back(&mut units, unit);
            // Places within the page do not matter: what is void is left out.
            self.map_unit(unit, to + count, Span::ZERO);
            count += 1;
        }
        self.ftl.count_by_handle(units.head);
        for place in count..units_per_page {
            self.ftl.mapping.table.clear_ppn(to + place);
        }
        self.ftl.planes[plane].collection.units += count;
        self.flash.program_copyback(&mut self.kernel, die, units.head, to);
        self.ftl.pages_moved(&[to]);
        self.break_off_if_stuck(plane);
    }

    /// A collected unit has been programmed, or is void.
    pub(crate) fn collected_unit_done(&mut self, plane: Plane) {
        self.ftl.planes[plane].collection.units -= 1;
        self.collect_on(plane);
    }

    /// The victim has been erased.
    pub(crate) fn block_erased(&mut self, work: WorkIndex) {
        let w = self.flash.work(work);
        let (plane, block) = (w.plane, self.shape.block_of_ppn(w.ppn));
        self.flash.give_back(work);
        let was_folding = self.ftl.is_folding(plane);
        let was_slc = self.ftl.is_slc(self.shape.first_ppn_of_block(block));
        let failed = self.ftl.faults.any_erases
            && self.ftl.faults.strikes(MediaOperation::Erase, |_, _| false);
        let blocks = u64::from(self.shape.flash_planes);
        let worn_out = !self.ftl.write_protected && self.ftl.is_worn_out(block);
        let was_last = (failed || worn_out)
            && !self.ftl.blocks.is_apart(block)
            && self.needs_every_block(plane);
        // Of worn-out blocks, those without which data would be lost are used on.
        if failed || worn_out && !was_last {
            self.kernel.observe.count().media_errors += u64::from(failed);
            self.kernel.observe.count().retired_blocks += blocks;
            self.ftl.retire(plane, block);
        } else {
            self.kernel.observe.count().erases += blocks;
            self.ftl.put_free(plane, block);
            if !was_folding {
                self.count_turnover(plane);
            }
        }
        if was_last {
            self.protect();
        }
        if !was_folding {
            self.kernel.observe.count().gc_runs += blocks;
        }
        self.kernel.observe.count().slc.erases += if was_slc { blocks } else { 0 };
        self.flash.block_collected(plane);
        self.block_is_won(plane);
    }

    /// The block that `plane` has collected is erased.
    pub(super) fn collection_ends(&mut self, plane: Plane) {
        self.ftl.planes[plane].collection.erasing = false;
        self.end_collection(plane);
        if let Some(block) = self.ftl.planes[plane].collection.next.pop() {
            self.collect_block(plane, block);
        } else if !self.level_if_needed(plane) {
            self.collect_if_needed(plane);
        }
        self.collect_next_superblock();
        self.fold_next(plane);
        self.flash.mark_plane(plane);
    }

    /// No block of `plane` can be won back: what waits to be written there fails. Where nothing
    /// else takes it, the drive takes no more writes, rather than lose what it says it has.
    pub(crate) fn give_up(&mut self, plane: Plane) {
        self.ftl.planes[plane].read_only = true;
        self.fail_writes(plane);
        let dead = |plane: Plane| self.flash.is_dead(plane);
        let full = |plane: Plane| dead(plane) || self.ftl.planes[plane].read_only;
        let nowhere =
            self.config.placement == Placement::Static || self.shape.all_planes().all(full);
        if nowhere && !dead(plane) {
            self.protect();
        }
    }

    /// Collects a block if the plane's die has been idle since the check was scheduled.
    #[cold]
    #[inline(never)]
    pub(crate) fn idle_check(&mut self, plane: Plane) {
        let Some(idle_after) = self.config.gc.idle_after else { return };
        let idle = self.flash.idle_since(plane);
        let due = idle.map(|since| since + idle_after);
        let later = due.filter(|&due| due > self.kernel.now);
        self.ftl.planes[plane].idle_check = later.is_some();
        if let Some(due) = later {
            // It has worked since the check was scheduled.
            self.kernel.events.push(due, Event::IdleCheck { plane });
        } else if idle.is_some()
            && self.ftl.planes[plane].collection.victim == Block::NONE
            && !self.ftl.planes[plane].read_only
            && self.ftl.blocks.free_blocks(plane) < self.ftl.idle_blocks
        {
            self.collect(plane);
        }
    }
}
