//! A drive that is written without time: its host's requests are performed on the tables, one after
//! the other, with the collections that they cause. No event is simulated.
//!
//! What takes time, and so is not as in a run: which planes are busy (writes that may go anywhere go
//! round), what waits in the cache, and the writes of mapping tables. The run before the measurement
//! makes up for these.

use crate::cache::warm::Access;
use crate::config::Placement;
use crate::drive::{Drive, Policies};
use crate::ftl::Ftl;
use crate::ftl::blocks::Stream;
use crate::ftl::collection::Victim;
use crate::ftl::mapping::table::Content;
use crate::ftl::slc::fold::Move;
use crate::io::Operation;
use crate::number::{Block, Lpn, Mvpn, Plane, Ppn, Run};
use crate::policy::Heat;

/// Accesses that are looked at ahead.
const AHEAD: usize = 64;
/// Pages of a victim that are looked at ahead.
const PAGES_AHEAD: u32 = 12;

/// Parts of pages on their way, and collections.
pub struct Writer {
    /// Of each plane: what the host has written, by group.
    host: Vec<Vec<Vec<Lpn>>>,
    planes: Vec<Relocation>,
    /// Collection begins below so many free blocks, and is not paced unless it says so.
    pub(super) free: usize,
    paced: bool,
    /// Dies have no time left beside what hosts write.
    saturated: bool,
    ahead: Vec<Access>,
    units: u64,
    /// Units programmed of the host's, and moved; and as many before the last [`Writer::mark`].
    programmed: [u64; 2],
    marked: [u64; 2],
}

impl Writer {
    /// Write amplification is measured from here on.
    pub fn mark(&mut self) {
        self.marked = self.programmed;
    }

    /// Units programmed so far, of the host and of collections.
    pub fn programmed(&self) -> u64 {
        self.programmed[0] + self.programmed[1]
    }

    /// Write amplification since then.
    fn waf(&self) -> Option<f64> {
        let [host, moved] = [0, 1].map(|at| (self.programmed[at] - self.marked[at]) as f64);
        (host > 0.0).then(|| (host + moved) / host)
    }
}

#[derive(Clone, Default)]
struct Relocation {
    victim: Option<Victim>,
    /// Blocks of the same reclaim unit that come after it.
    next: Vec<Block>,
    /// What has been read of it, by group.
    read: Vec<Vec<(Lpn, Ppn)>>,
}

impl<P: Policies> Drive<P> {
    /// Whether it can be written without time: not where log blocks are merged, units have a place
    /// for ever, or there are pairs, which only commands write.
    pub fn can_be_written(&self) -> bool {
        let in_blocks = self.ftl.scheme.fills_open_blocks() && !self.ftl.scheme.is_in_place();
        in_blocks && self.ftl.pairs().is_none()
    }

    /// Begins to write a drive that has been preconditioned: as fast as it takes it, or so slowly
    /// that collections have time.
    #[inline]
    pub fn begin_writing(&mut self, saturated: bool) -> Writer {
        P::begin_writing(self, saturated)
    }

    pub(crate) fn begin_writing_here(&mut self, saturated: bool) -> Writer {
        let planes = self.shape.planes as usize;
        let paced = self.config.gc.paced && saturated;
        let free = match paced {
            true => self.ftl.blocks.start,
            false => self.free_at_work(saturated),
        };
        let groups = usize::from(self.ftl.groups_told_apart());
        let moving = Relocation { read: vec![vec![]; groups], ..Relocation::default() };
        Writer {
            host: vec![vec![vec![]; groups]; planes],
            planes: vec![moving; planes],
            free,
            paced,
            saturated,
            ahead: Vec::with_capacity(AHEAD),
            units: 0,
            programmed: [0; 2],
            marked: [0; 2],
        }
    }

    /// Performs `access` soon. Reads change nothing. Returns how many units have been written.
    #[inline]
    pub fn write_at_once(&mut self, writer: &mut Writer, access: Access) -> u64 {
        P::write_at_once(self, writer, access)
    }

    pub(crate) fn write_at_once_here(&mut self, writer: &mut Writer, access: Access) -> u64 {
        if matches!(access.operation, Operation::Read | Operation::Flush | Operation::Other) {
            return writer.units;
        }
        for lpn in self.units_of(&access) {
            self.ftl.mapping.table.prefetch(lpn);
        }
        writer.ahead.push(access);
        if writer.ahead.len() == AHEAD {
            self.perform(writer);
        }
        writer.units
    }

    /// Ends it: what is on its way stays where it was, and what collection is in the middle of goes
    /// on in the run. Returns the write amplification since the mark, if anything was written.
    #[inline]
    pub fn end_writing(&mut self, writer: Writer) -> Option<f64> {
        P::end_writing(self, writer)
    }

    pub(crate) fn end_writing_here(&mut self, mut writer: Writer) -> Option<f64> {
        self.perform(&mut writer);
        let waf = writer.waf();
        for (plane, moving) in (0..).map(Plane).zip(writer.planes) {
            if let Some(victim) = moving.victim {
                self.ftl.planes[plane].collection.stopped_at(victim, moving.next);
            }
        }
        self.ftl.forget_erases(self.config.wear.initial);
        self.restart_counters();
        self.resume_work();
        self.settle();
        waf
    }

    pub(super) fn units_of(&self, access: &Access) -> Run<Lpn> {
        let sectors = u64::from(self.shape.unit_sectors);
        let Some(space) = self.ftl.namespaces.get(access.namespace.0 as usize - 1) else {
            return Lpn(0).run(0);
        };
        let trims = access.operation == Operation::Trim;
        let end = access.sector + u64::from(access.sectors);
        // A unit is trimmed as a whole, and written in part.
        let (first, end) = match trims {
            true => (access.sector.div_ceil(sectors), end / sectors),
            false => (access.sector / sectors, end.div_ceil(sectors)),
        };
        let end = end.min(u64::from(space.units));
        (space.base + first.min(end) as u32).run(end.saturating_sub(first) as u32)
    }

    fn perform(&mut self, writer: &mut Writer) {
        let accesses = std::mem::take(&mut writer.ahead);
        for access in &accesses {
            let namespace = access.namespace.0 as usize - 1;
            let past_slc = self.ftl.parts_writes()
                && access.operation != Operation::Trim
                && self.ftl.goes_past_slc(
                    self.policies.admission(),
                    namespace,
                    access.sector,
                    access.sectors,
                );
            for lpn in self.units_of(access) {
                if access.operation == Operation::Trim {
                    if let Some(ppn) = self.ftl.mapping.table.unmap(lpn) {
                        self.ftl.blocks.remove_valid(self.shape.block_of_ppn(ppn), 1);
                    }
                    continue;
                }
                writer.units += 1;
                let group = match &mut self.ftl.hotness {
                    Some(hotness) => {
                        u8::from(self.policies.heat().written(lpn.0, hotness.write(lpn)))
                    }
                    None => match self.ftl.handle_of(namespace, access.placement) {
                        Some(handle) => handle,
                        None => Ftl::group_beside_slc(past_slc),
                    },
                };
                let plane = match self.config.placement {
                    Placement::Static => self.ftl.plane_of(Content::Unit(lpn)),
                    Placement::Striped | Placement::LeastLoaded => self.place_in_turn(lpn, group),
                };
                let waiting = &mut writer.host[plane.index()][usize::from(group)];
                waiting.push(lpn);
                if self.ftl.slc.is_some() {
                    self.write_beside_slc(writer, plane, group);
                    continue;
                }
                let stream = Stream::host(group);
                if waiting.len() == self.units_in_program(plane, stream) {
                    let units = std::mem::take(waiting);
                    self.program_at_once(writer, plane, stream, &units);
                    let waiting = &mut writer.host[plane.index()][usize::from(group)];
                    *waiting = units;
                    waiting.clear();
                }
            }
        }
        writer.ahead = accesses;
        writer.ahead.clear();
    }

    fn units_in_program(&self, plane: Plane, stream: Stream) -> usize {
        let pages = match stream.is_slc() {
            true => 1,
            false => self.shape.pages_in_program(self.ftl.blocks.next_page(plane, stream)),
        };
        (pages * self.shape.units_per_page) as usize
    }

    /// Programs what the host has written, and collects as much as that asks for.
    fn program_at_once(
        &mut self,
        writer: &mut Writer,
        plane: Plane,
        stream: Stream,
        units: &[Lpn],
    ) {
        while !self.ftl.blocks.can_program(plane, stream) {
            if !self.collect_at_once(writer, plane, u32::MAX) {
                // There is no place: it stays where it was.
                return;
            }
        }
        self.program_units(writer, plane, stream, units);
        self.collect_after_page(writer, plane);
    }

    /// Programs units that the host has written, for which there is a place.
    fn program_units(&mut self, writer: &mut Writer, plane: Plane, stream: Stream, units: &[Lpn]) {
        let pages = self.units_in_program(plane, stream) as u32 / self.shape.units_per_page;
        writer.programmed[0] += units.len() as u64;
        if let Some(handles) = &mut self.ftl.handles {
            handles.page_of(stream.group, 0);
        }
        let mut next = units.iter();
        for _ in 0..pages {
            let first = match stream.is_slc() {
                true => self.ftl.take_page_of_slc(plane),
                false => self.ftl.blocks.take_page(plane, stream),
            };
            for ppn in first.run(self.shape.units_per_page) {
                match next.next() {
                    Some(&lpn) => {
                        self.map_at_once(lpn, ppn);
                        self.ftl.note_handle(ppn, stream.group);
                    }
                    None => self.ftl.mapping.table.clear_ppn(ppn),
                }
            }
        }
    }

    /// The host has filled a page of a plane: collects as much as that asks for.
    fn collect_after_page(&mut self, writer: &mut Writer, plane: Plane) {
        let below = self.ftl.blocks.free_blocks(plane) < writer.free;
        let moving = &mut writer.planes[plane.index()];
        match (&mut moving.victim, writer.paced) {
            (Some(victim), true) => {
                let moves = victim.host_page_programmed();
                self.collect_at_once(writer, plane, moves);
                let ended = writer.planes[plane.index()].victim.is_none();
                if ended && self.ftl.blocks.free_blocks(plane) < writer.free {
                    self.begin_at_once(writer, plane);
                }
            }
            (None, true) if below => self.begin_at_once(writer, plane),
            (_, false) => {
                while self.ftl.blocks.free_blocks(plane) < writer.free
                    && self.collect_at_once(writer, plane, u32::MAX)
                {}
            }
            _ => {}
        }
    }

    pub(super) fn map_at_once(&mut self, lpn: Lpn, ppn: Ppn) {
        if let Some(before) = self.ftl.mapping.table.map(Content::Unit(lpn), ppn) {
            self.ftl.blocks.remove_valid(self.shape.block_of_ppn(before), 1);
        }
        self.ftl.blocks.add_valid(self.shape.block_of_ppn(ppn), 1);
    }

    fn begin_at_once(&mut self, writer: &mut Writer, plane: Plane) {
        if self.ftl.blocks.superblocks.is_some() {
            return self.begin_superblock_at_once(writer, plane);
        }
        if let Some(block) = self.ftl.blocks.take_victim(plane, &mut self.policies) {
            writer.planes[plane.index()].victim = Some(self.victim(block));
        }
    }

    fn victim(&self, block: Block) -> Victim {
        Victim::new(&self.shape, block, self.ftl.blocks.valid(block))
    }

    /// Begins to collect a superblock, when the last one has been.
    fn begin_superblock_at_once(&mut self, writer: &mut Writer, plane: Plane) {
        for busy in self.shape.all_planes() {
            while writer.planes[busy.index()].victim.is_some() {
                self.collect_at_once(writer, busy, u32::MAX);
            }
        }
        let usable = vec![true; self.shape.planes as usize];
        let handle = self.ftl.handles.as_mut().and_then(|handles| handles.collection_begins());
        let blocks = self.ftl.blocks.take_superblock(plane, &usable, handle);
        for block in blocks.into_iter().flatten() {
            let victim = self.victim(block);
            let moving = &mut writer.planes[self.shape.plane_of_block(block).index()];
            match &moving.victim {
                None => moving.victim = Some(victim),
                Some(_) => moving.next.push(block),
            }
        }
    }

    /// Collects a block of `plane` that has been chosen; whether it has been emptied.
    fn collect_block_at_once(&mut self, writer: &mut Writer, plane: Plane, block: Block) -> bool {
        writer.planes[plane.index()].victim = Some(self.victim(block));
        self.collect_at_once(writer, plane, u32::MAX)
    }

    /// Moves so many pages of the plane's victim, the erase counted as one; of a new one, if there
    /// is none. False: nothing is worth collecting.
    pub(super) fn collect_at_once(
        &mut self,
        writer: &mut Writer,
        plane: Plane,
        moves: u32,
    ) -> bool {
        if writer.planes[plane.index()].victim.is_none() {
            self.begin_at_once(writer, plane);
        }
        let mut moves = moves;
        while moves > 0 {
            let Some(victim) = &mut writer.planes[plane.index()].victim else { return false };
            if let Some(page) = victim.next_page() {
                moves = moves.saturating_sub(self.move_page(writer, plane, page));
                continue;
            }
            let block = victim.block();
            let next = writer.planes[plane.index()].next.pop();
            writer.planes[plane.index()].victim = next.map(|block| self.victim(block));
            for group in 0..self.ftl.groups_told_apart() {
                self.program_collected(writer, plane, group);
            }
            let is_empty = self.ftl.blocks.valid(block) == 0;
            match is_empty {
                true => self.ftl.blocks.put_free(block),
                // There was no place for it.
                false => self.ftl.blocks.put_back(block),
            }
            return is_empty;
        }
        true
    }

    /// Reads what is valid in a page of a victim; how many pages are programmed with that.
    pub(super) fn move_page(&mut self, writer: &mut Writer, plane: Plane, page: Ppn) -> u32 {
        let ahead = page + PAGES_AHEAD * self.shape.units_per_page;
        for ppn in ahead.run(self.shape.units_per_page) {
            self.ftl.mapping.table.prefetch_content(ppn);
        }
        let mut programs = 0;
        for ppn in page.run(self.shape.units_per_page) {
            match self.ftl.mapping.table.content(ppn) {
                None => {}
                Some(Content::TranslationPage(table)) => {
                    programs += 1;
                    self.move_translation_page(plane, table);
                }
                Some(Content::Unit(lpn)) => {
                    let group =
                        self.ftl.group_of_moved(Content::Unit(lpn), ppn, self.policies.heat());
                    let room = self.units_in_program(plane, Stream::collected(group));
                    let read = &mut writer.planes[plane.index()].read[usize::from(group)];
                    read.push((lpn, ppn));
                    if read.len() >= room {
                        // What was written again meanwhile is not moved.
                        let table = &self.ftl.mapping.table;
                        read.retain(|&(lpn, from)| table.ppn(lpn) == Some(from));
                        if read.len() >= room {
                            programs += 1;
                            self.program_collected(writer, plane, group);
                        }
                    }
                }
            }
        }
        programs
    }

    fn move_translation_page(&mut self, plane: Plane, table: Mvpn) {
        if !self.ftl.blocks.can_program(plane, Stream::COLLECTED) {
            return;
        }
        let units = self.shape.units_per_page;
        let to = self.ftl.blocks.take_page(plane, Stream::COLLECTED);
        to.run(units).for_each(|ppn| self.ftl.mapping.table.clear_ppn(ppn));
        if let Some(before) = self.ftl.mapping.table.map(Content::TranslationPage(table), to) {
            self.ftl.blocks.remove_valid(self.shape.block_of_ppn(before), units);
        }
        self.ftl.blocks.add_valid(self.shape.block_of_ppn(to), units);
    }

    /// Programs what has been read of a victim, in a page that may stay empty in part.
    pub(super) fn program_collected(&mut self, writer: &mut Writer, plane: Plane, group: u8) {
        let at = usize::from(group);
        let mut read = std::mem::take(&mut writer.planes[plane.index()].read[at]);
        read.retain(|&(lpn, from)| self.ftl.mapping.table.ppn(lpn) == Some(from));
        let stream = Stream::collected(group);
        if !read.is_empty() && self.ftl.blocks.can_program(plane, stream) {
            writer.programmed[1] += read.len() as u64;
            let mut units = read.iter();
            for _ in 0..self.units_in_program(plane, stream) as u32 / self.shape.units_per_page {
                let first = self.ftl.blocks.take_page(plane, stream);
                for ppn in first.run(self.shape.units_per_page) {
                    match units.next() {
                        Some(&(lpn, from)) => {
                            let handle = self.ftl.handles.as_ref().map(|of| of.of(from));
                            self.map_at_once(lpn, ppn);
                            self.ftl.note_handle(ppn, handle.unwrap_or(0));
                        }
                        None => self.ftl.mapping.table.clear_ppn(ppn),
                    }
                }
            }
        }
        read.clear();
        writer.planes[plane.index()].read[at] = read;
    }

    /// Moves what is valid in a block that was taken out of the SLC cache; whether there was a place for
    /// it.
    pub(super) fn fold_block(&mut self, writer: &mut Writer, plane: Plane, block: Block) -> bool {
        let first = self.shape.first_ppn_of_block(block);
        for page in 0..self.ftl.pages_of(block) {
            self.move_page(writer, plane, first + page * self.shape.units_per_page);
        }
        self.program_collected(writer, plane, 0);
        let is_empty = self.ftl.blocks.valid(block) == 0;
        match is_empty {
            true => self.ftl.put_free(plane, block),
            false => self.ftl.put_back(block),
        }
        is_empty
    }

    /// A unit waits for a page of `plane`: if it fills one, that is programmed where the cache's rules
    /// say, with what they move for it.
    fn write_beside_slc(&mut self, writer: &mut Writer, plane: Plane, group: u8) {
        let mut waiting = std::mem::take(&mut writer.host[plane.index()][usize::from(group)]);
        self.program_full_page(writer, (plane, group), &mut waiting);
        writer.host[plane.index()][usize::from(group)] = waiting;
    }

    fn program_full_page(
        &mut self,
        writer: &mut Writer,
        (plane, group): (Plane, u8),
        waiting: &mut Vec<Lpn>,
    ) {
        let mut moves = self.shape.blocks_per_plane;
        loop {
            let stream = self.ftl.host_stream_of(plane, group);
            let units = self.units_in_program(plane, stream);
            if waiting.len() < units {
                return;
            }
            if self.ftl.has_place_beside_slc(plane, stream) {
                self.program_units(writer, plane, stream, &waiting[..units]);
                waiting.drain(..units);
                break;
            }
            if moves == 0 || !self.move_beside_slc(writer, plane) {
                // There is no place: it stays where it was.
                return waiting.clear();
            }
            moves -= 1;
        }
        while moves > 0 && self.move_beside_slc(writer, plane) {
            moves -= 1;
        }
    }

    /// Moves what is due to be moved in `plane`, if anything is; whether that has won a block.
    fn move_beside_slc(&mut self, writer: &mut Writer, plane: Plane) -> bool {
        let has_time = !writer.saturated;
        match self.ftl.next_move_of(plane, has_time, &mut self.policies) {
            None => false,
            Some(Move::Fold(block)) => {
                let slc = self.ftl.slc.as_mut().expect("a cache");
                slc.begin_fold(plane, block, self.kernel.now);
                self.fold_block(writer, plane, block)
            }
            Some(Move::Native(block)) => self.collect_block_at_once(writer, plane, block),
            Some(Move::Collect) => self.collect_at_once(writer, plane, u32::MAX),
        }
    }
}
