//! Where a command's data lie in guest memory: PRPs (Base 2.0, section 4.1.1) and SGLs
//! (section 4.1.2). What they point to is read once, when the command is fetched; how much of
//! it is bounded by the length of the data and by [`DESCRIPTORS_MAX`].

use super::memory::{GuestMemory, Unmapped};
use mynah_wire::nvme::command::SamsungKey;
use mynah_wire::nvme::entry::{DataPointer, sgl};
use mynah_wire::nvme::samsung::status as samsung;
use mynah_wire::nvme::{Status, SubmissionEntry};
use zerocopy::FromBytes;

/// Bytes of a memory page (CC.MPS is 0).
pub(super) const PAGE: u64 = 4096;
/// Most SGL descriptors of a command.
const DESCRIPTORS_MAX: u32 = 4096;
/// Address of bytes that nobody wants (bit bucket).
const NOWHERE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) at: u64,
    pub(super) bytes: u32,
}

/// Runs of guest memory, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Segments(Vec<Segment>);

fn unmapped(_: Unmapped) -> Status {
    Status::DATA_TRANSFER_ERROR
}

impl Segments {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether any of them has a byte of a range.
    pub(super) fn touches(&self, at: u64, bytes: u64) -> bool {
        let end = at.saturating_add(bytes);
        let touches = |it: &Segment| it.at < end && at < it.at.saturating_add(it.bytes.into());
        self.0.iter().any(|it| it.at != NOWHERE && touches(it))
    }

    fn push(&mut self, at: u64, bytes: u64) {
        let bytes = bytes as u32;
        match self.0.last_mut() {
            Some(last)
                if last.at != NOWHERE && last.at.checked_add(last.bytes.into()) == Some(at) =>
            {
                last.bytes += bytes;
            }
            _ => self.0.push(Segment { at, bytes }),
        }
    }

    /// Finds out where the `bytes` of a command's data lie, as its entry says.
    pub(super) fn find<M: GuestMemory + ?Sized>(
        &mut self,
        memory: &M,
        entry: &SubmissionEntry,
        bytes: u32,
        to_host: bool,
    ) -> Result<(), Status> {
        self.clear();
        match entry.flags >> 6 {
            _ if bytes == 0 => Ok(()),
            0 => self.follow_prps(memory, entry.prp1(), entry.prp2(), bytes.into()),
            1 | 2 => self.follow_sgls(memory, entry.data, bytes.into(), to_host),
            _ => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    }

    fn follow_prps<M: GuestMemory + ?Sized>(
        &mut self,
        memory: &M,
        first: u64,
        second: u64,
        bytes: u64,
    ) -> Result<(), Status> {
        let offset = Status::PRP_OFFSET_INVALID.do_not_retry();
        if !first.is_multiple_of(4) {
            return Err(offset);
        }
        let here = bytes.min(PAGE - first % PAGE);
        self.push(first, here);
        let left = bytes - here;
        if left == 0 {
            return Ok(());
        }
        if left <= PAGE {
            if !second.is_multiple_of(PAGE) {
                return Err(offset);
            }
            self.push(second, left);
            return Ok(());
        }
        if !second.is_multiple_of(8) {
            return Err(offset);
        }
        self.follow_prp_lists(memory, second, left)
    }

    /// The rest of the data lie where lists say, the first of which begins at `list`.
    fn follow_prp_lists<M: GuestMemory + ?Sized>(
        &mut self,
        memory: &M,
        mut list: u64,
        mut left: u64,
    ) -> Result<(), Status> {
        let offset = Status::PRP_OFFSET_INVALID.do_not_retry();
        let mut page = [0; PAGE as usize];
        // The first list may have room for nothing but the address of the next, and only the
        // first may begin within a page: every other one brings data nearer.
        loop {
            let entries = (PAGE - list % PAGE) / 8;
            let pages = left.div_ceil(PAGE);
            let read = &mut page[..entries.min(pages) as usize * 8];
            memory.read(list, read).map_err(unmapped)?;
            let data = if pages <= entries { pages } else { entries - 1 };
            let mut addresses = read.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
            for address in addresses.by_ref().take(data as usize) {
                if !address.is_multiple_of(PAGE) {
                    return Err(offset);
                }
                let here = left.min(PAGE);
                self.push(address, here);
                left -= here;
            }
            let Some(next) = addresses.next() else { return Ok(()) };
            if !next.is_multiple_of(PAGE) {
                return Err(offset);
            }
            list = next;
        }
    }

    fn follow_sgls<M: GuestMemory + ?Sized>(
        &mut self,
        memory: &M,
        first: DataPointer,
        bytes: u64,
        to_host: bool,
    ) -> Result<(), Status> {
        let mut left = bytes;
        let next = self.take_descriptor(&first, &mut left, to_host)?;
        if next.is_some() {
            self.follow_segments(memory, next, &mut left, to_host)?;
        }
        if left > 0 {
            return Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry());
        }
        Ok(())
    }

    /// The rest of the descriptors are in segments.
    fn follow_segments<M: GuestMemory + ?Sized>(
        &mut self,
        memory: &M,
        mut next: Option<Pointer>,
        left: &mut u64,
        to_host: bool,
    ) -> Result<(), Status> {
        let mut seen = 0;
        let mut page = [0; PAGE as usize];
        while let Some(Pointer { at, bytes, is_last }) = next.take() {
            if bytes == 0 || !bytes.is_multiple_of(16) {
                return Err(Status::SGL_INVALID_SEGMENT.do_not_retry());
            }
            seen += bytes / 16;
            if seen > DESCRIPTORS_MAX {
                return Err(Status::SGL_COUNT_INVALID.do_not_retry());
            }
            let mut done = 0;
            while done < bytes {
                let part = (bytes - done).min(PAGE as u32);
                let read = &mut page[..part as usize];
                let from = at.checked_add(done.into()).ok_or(Status::DATA_TRANSFER_ERROR)?;
                memory.read(from, read).map_err(unmapped)?;
                for descriptor in read.chunks_exact(16) {
                    // Only the last descriptor of a segment points to another.
                    if next.is_some() {
                        return Err(Status::SGL_INVALID_SEGMENT.do_not_retry());
                    }
                    let Ok(descriptor) = DataPointer::read_from_bytes(descriptor) else { continue };
                    next = self.take_descriptor(&descriptor, left, to_host)?;
                    if is_last && next.is_some() {
                        return Err(Status::SGL_INVALID_SEGMENT.do_not_retry());
                    }
                }
                done += part;
            }
        }
        Ok(())
    }

    fn take_descriptor(
        &mut self,
        descriptor: &DataPointer,
        left: &mut u64,
        to_host: bool,
    ) -> Result<Option<Pointer>, Status> {
        let (at, bytes) = (descriptor.address.get(), descriptor.length.get());
        if descriptor.kind & 0xf != 0 {
            return Err(Status::SGL_TYPE_INVALID.do_not_retry());
        }
        let here = (*left).min(bytes.into());
        match descriptor.kind >> 4 {
            sgl::DATA_BLOCK => {
                if here > 0 {
                    self.push(at, here);
                }
                *left -= here;
            }
            // Bytes from the host are not in a bit bucket: its length counts for nothing.
            sgl::BIT_BUCKET if !to_host => {}
            sgl::BIT_BUCKET => {
                self.0.push(Segment { at: NOWHERE, bytes: here as u32 });
                *left -= here;
            }
            kind @ (sgl::SEGMENT | sgl::LAST_SEGMENT) => {
                return Ok(Some(Pointer { at, bytes, is_last: kind == sgl::LAST_SEGMENT }));
            }
            _ => return Err(Status::SGL_TYPE_INVALID.do_not_retry()),
        }
        Ok(None)
    }

    /// The parts of a range of the data, by place in guest memory and length.
    fn parts(&self, skip: u64, bytes: u64) -> impl Iterator<Item = (u64, usize)> + '_ {
        let end = skip + bytes;
        let mut from = 0;
        self.0.iter().filter_map(move |segment| {
            let (first, last) = (from.max(skip), (from + u64::from(segment.bytes)).min(end));
            let skipped = first - from;
            from += u64::from(segment.bytes);
            if first >= last {
                return None;
            }
            let at = if segment.at == NOWHERE { NOWHERE } else { segment.at.wrapping_add(skipped) };
            Some((at, (last - first) as usize))
        })
    }

    /// Copies bytes to the host: those of the data from `skip` on.
    pub(super) fn write<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        skip: u64,
        from: &[u8],
    ) -> Result<(), Unmapped> {
        let mut rest = from;
        for (at, bytes) in self.parts(skip, from.len() as u64) {
            let (part, tail) = rest.split_at(bytes);
            if at != NOWHERE {
                memory.write(at, part)?;
            }
            rest = tail;
        }
        Ok(())
    }

    /// Copies bytes from the host: those of the data from `skip` on.
    pub(super) fn read<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        skip: u64,
        into: &mut [u8],
    ) -> Result<(), Unmapped> {
        let mut rest = into;
        for (at, bytes) in self.parts(skip, rest.len() as u64) {
            let (part, tail) = rest.split_at_mut(bytes);
            memory.read(at, part)?;
            rest = tail;
        }
        Ok(())
    }
}

/// Reads the key of a command of Samsung's set from where its two PRPs say: the second counts if the
/// key goes on in another page.
pub(super) fn read_key<M: GuestMemory + ?Sized>(
    memory: &M,
    key: &SamsungKey,
    into: &mut [u8],
) -> Result<(), Status> {
    let ((first, second), bytes) = (key.pointers(), into.len() as u64);
    let here = bytes.min(PAGE - first % PAGE);
    if !first.is_multiple_of(4) || here < bytes && !second.is_multiple_of(PAGE) {
        return Err(samsung::MISALIGNED_KEY);
    }
    let (head, tail) = into.split_at_mut(here as usize);
    memory.read(first, head).map_err(unmapped)?;
    if tail.is_empty() { Ok(()) } else { memory.read(second, tail).map_err(unmapped) }
}

/// Where further descriptors are.
struct Pointer {
    at: u64,
    bytes: u32,
    is_last: bool,
}
