//! The cache's DRAM: how long an access takes, which rows are open, and who has to wait for
//! whom. One access at a time crosses its bus, first come, first served.
//!
//! An access touches rows one after another. A row has to be activated (tRCD) before its
//! columns can be read or written (tCL), and another row of its bank precharged before that
//! (tRP). With closed rows every row that an access touches is activated, and precharged
//! before the next; the last precharge is hidden. With open rows a bank keeps the row that was
//! touched last: touching it again takes tCL only, another one tRP, tRCD and tCL. Data move in
//! bursts. Not modelled: refresh, the time between reads and writes, and activating a row of
//! one bank while another bank moves data.

use crate::config::{self, DramTraffic, RowPolicy};
use crate::kernel::bytes::StateError;
use crate::kernel::bytes::{Reader, Writer};
use crate::kernel::fifo::{Booking, Fifo};
use crate::kernel::pool::PoolIndex;
use crate::number::WriteIndex;
use crate::observe::blame::HolderIndex;
use mynah_stamp::{Span, Time};
use serde::{Deserialize, Serialize};

/// No row is open.
const CLOSED: u64 = u64::MAX;

#[derive(Serialize, Deserialize)]
pub(crate) struct Dram {
    config: config::Dram,
    bus: Fifo,
    /// The open row of each bank; empty with closed rows.
    open: Vec<u64>,
    /// Rows touched while rows stay open, and how many of them were open.
    pub(crate) rows: u64,
    pub(crate) row_hits: u64,
}

impl Dram {
    pub(crate) fn new(config: config::Dram) -> Dram {
        let banks = match config.rows {
            RowPolicy::Closed => 0,
            RowPolicy::Open { banks } => banks as usize,
        };
        Dram { config, bus: Fifo::default(), open: vec![CLOSED; banks], rows: 0, row_hits: 0 }
    }

    pub(crate) fn grow(&mut self, holders: usize) {
        self.bus.grow(holders);
    }

    /// Whether data cross it on their way to and from the flash as well.
    #[inline]
    pub(crate) fn takes_all(&self) -> bool {
        self.config.traffic == DramTraffic::All
    }

    pub(crate) fn bus(&self) -> &Fifo {
        &self.bus
    }

    #[inline]
    pub(crate) fn book(
        &mut self,
        now: Time,
        length: Span,
        holder: HolderIndex,
        waits: impl FnMut(HolderIndex, Span),
    ) -> Booking {
        self.bus.book(now, length, holder, waits)
    }

    /// Time to move `bytes` in whole bursts.
    #[inline]
    fn transfer(&self, bytes: u64) -> Span {
        let burst = u64::from(self.config.width_bytes) * u64::from(self.config.burst_length);
        let transfers = bytes.div_ceil(burst) * u64::from(self.config.burst_length);
        Span::from_ps((transfers * 1_000_000).div_ceil(u64::from(self.config.rate_mts)))
    }

    /// Time of an access to `bytes` with closed rows, wherever they are.
    #[inline]
    pub(crate) fn closed_time(&self, bytes: u32) -> Span {
        let d = &self.config;
        let rows = u64::from(bytes.div_ceil(d.row_bytes).max(1));
        let activations = (d.t_rcd + d.t_cl).times(rows) + d.t_rp.times(rows - 1);
        activations + self.transfer(bytes.into())
    }

    /// Time of an access to some runs of bytes, each by its address and length, with open
    /// rows.
    pub(crate) fn open_time(&mut self, runs: &[(u64, u32)]) -> Span {
        let (row_bytes, banks) = (u64::from(self.config.row_bytes), self.open.len() as u64);
        let (mut time, mut at) = (Span::ZERO, CLOSED);
        for &(address, bytes) in runs {
            let end = address + u64::from(bytes);
            let mut from = address;
            while from < end {
                let row = from / row_bytes;
                let to = end.min((row + 1) * row_bytes);
                // Bursts from a row that the access is in already follow one another.
                if row != at {
                    time += self.touch(row, (row % banks) as usize);
                    at = row;
                }
                time += self.transfer(to - from);
                from = to;
            }
        }
        time
    }

    /// Time until the columns of a row can be reached, which is then open.
    fn touch(&mut self, row: u64, bank: usize) -> Span {
        let d = &self.config;
        self.rows += 1;
        match std::mem::replace(&mut self.open[bank], row) {
            open if open == row => {
                self.row_hits += 1;
                d.t_cl
            }
            CLOSED => d.t_rcd + d.t_cl,
            _ => d.t_rp + d.t_rcd + d.t_cl,
        }
    }

    /// Saves which rows are open.
    pub(crate) fn save(&self, out: &mut Writer<'_>) {
        self.open.iter().for_each(|row| out.number(row.wrapping_add(1)));
    }

    /// Takes what [`Dram::save`] wrote.
    pub(crate) fn restore(&mut self, input: &mut Reader<'_>) -> Result<(), StateError> {
        let banks = self.open.len() as u64;
        for (bank, open) in (0..).zip(&mut self.open) {
            *open = input.number()?.wrapping_sub(1);
            if *open != CLOSED && *open % banks != bank {
                return Err(StateError::Damaged("an open row of another bank".into()));
            }
        }
        Ok(())
    }

    pub(crate) fn power_cut(&mut self, now: Time) {
        self.bus.clear(now);
        self.open.fill(CLOSED);
    }
}

/// Where in the DRAM units lie: each in a place of its own, which is used again after all that
/// were free before it, as in a ring.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Places {
    /// Places from here on have never been used.
    fresh: u32,
    free: std::collections::VecDeque<u32>,
    /// The place of each write unit that is cached, by its number.
    of_write: Vec<u32>,
}

impl Places {
    pub(crate) fn take(&mut self, capacity: usize) -> u32 {
        if (self.fresh as usize) < capacity {
            self.fresh += 1;
            return self.fresh - 1;
        }
        self.free.pop_front().expect("as many places as units fit")
    }

    pub(crate) fn give_back(&mut self, place: u32) {
        self.free.push_back(place);
    }

    pub(crate) fn put(&mut self, write: WriteIndex, place: u32) {
        let index = write.index();
        if index >= self.of_write.len() {
            self.of_write.resize(index + 1, 0);
        }
        self.of_write[index] = place;
    }

    pub(crate) fn of_write(&self, write: WriteIndex) -> u32 {
        self.of_write[write.index()]
    }

    pub(crate) fn clear(&mut self) {
        *self = Places::default();
    }

    /// Saves which places are free, in the order in which they will be used.
    pub(crate) fn save(&self, out: &mut Writer<'_>) {
        out.number(self.fresh.into());
        out.numbers(self.free.iter().copied());
    }

    /// Takes what [`Places::save`] wrote; `taken` are the places that are not free.
    pub(crate) fn restore(
        &mut self,
        capacity: usize,
        taken: Vec<u32>,
        input: &mut Reader<'_>,
    ) -> Result<(), StateError> {
        let fresh = input.number()?;
        let damaged = || StateError::Damaged("places in DRAM".into());
        if fresh > capacity as u64 {
            return Err(damaged());
        }
        self.fresh = fresh as u32;
        self.free = input.numbers("places in DRAM", capacity, self.fresh)?.into();
        // Every place that has been used is taken or free, and only once.
        let mut used = vec![false; fresh as usize];
        for place in self.free.iter().copied().chain(taken) {
            match used.get_mut(place as usize) {
                Some(used) if !*used => *used = true,
                _ => return Err(damaged()),
            }
        }
        if used.contains(&false) { Err(damaged()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dram(rows: RowPolicy) -> Dram {
        Dram::new(config::Dram {
            row_bytes: 8192,
            width_bytes: 8,
            rate_mts: 1600,
            burst_length: 8,
            t_rcd: Span::from_ns(13),
            t_cl: Span::from_ns(14),
            t_rp: Span::from_ns(15),
            rows,
            traffic: DramTraffic::Host,
        })
    }

    #[test]
    fn closed_rows_by_hand() {
        let dram = dram(RowPolicy::Closed);
        // 512 transfers of 625 ps.
        assert_eq!(dram.closed_time(4096), Span::from_ns(13 + 14 + 320));
        // Two rows, one precharge between them.
        assert_eq!(dram.closed_time(16384), Span::from_ns(2 * 27 + 15 + 1280));
        // One byte takes a burst.
        assert_eq!(dram.closed_time(1), Span::from_ns(27 + 5));
    }

    #[test]
    fn open_rows_by_hand() {
        let mut dram = dram(RowPolicy::Open { banks: 2 });
        let ns = Span::from_ns;
        // The first access activates, the second finds its row open.
        assert_eq!(dram.open_time(&[(0, 4096)]), ns(13 + 14 + 320));
        assert_eq!(dram.open_time(&[(4096, 4096)]), ns(14 + 320));
        // Row 1 is in the other bank, row 2 replaces row 0.
        assert_eq!(dram.open_time(&[(8192, 4096)]), ns(13 + 14 + 320));
        assert_eq!(dram.open_time(&[(16384, 4096)]), ns(15 + 13 + 14 + 320));
        assert_eq!(dram.open_time(&[(8192, 4096)]), ns(14 + 320));
        // Neighbours in one access share the column latency.
        assert_eq!(dram.open_time(&[(8192, 4096), (12288, 4096)]), ns(14 + 640));
        // Over the end of a row.
        assert_eq!(dram.open_time(&[(16384, 16384)]), ns(14 + 640 + 15 + 27 + 640));
        assert_eq!((dram.rows, dram.row_hits), (8, 4));
    }

    #[test]
    fn places_are_used_in_turn() {
        let mut places = Places::default();
        assert_eq!([places.take(2), places.take(2)], [0, 1]);
        places.give_back(1);
        places.give_back(0);
        assert_eq!([places.take(2), places.take(2)], [1, 0]);
    }
}
