//! How long flash commands, transfers and array operations take.
//!
//! Command and address cycles follow ONFI 3.1 NV-DDR2, as MQSim computes them for one to
//! several planes; later interfaces keep the same cycles and raise the data rate.

use crate::config::{BusRounding, CellType, Config, PageTimes};
use mynah_stamp::Span;
use serde::{Deserialize, Serialize};

/// Most planes a multi-plane operation can join.
pub(crate) const PLANES_MAX: usize = 8;

/// Stands for the bytes of a page that stays in its die to be programmed elsewhere: only a
/// program command crosses the channel.
pub(crate) const NO_DATA: u32 = u32::MAX;

/// Array times of pages and blocks that are used with one bit a cell.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct SlcTimes {
    pub(crate) read: Span,
    pub(crate) program: Span,
    pub(crate) erase: Span,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct FlashTimes {
    /// Command and address time by number of planes less one; of reads, planes of the flash.
    read_command: [Span; PLANES_MAX],
    program_command: [Span; PLANES_MAX],
    erase_command: [Span; PLANES_MAX],
    /// Transfer time of a whole page, spare bytes included if they are transferred.
    pub(crate) page_transfer: Span,
    /// Array times of each page of a block.
    read: Vec<Span>,
    program: Vec<Span>,
    pub(crate) erase: Span,
    /// The same of blocks that are used with one bit a cell, if any are.
    slc: SlcTimes,
    /// Mean of the program times.
    pub(crate) program_mean: Span,
    /// A suspend or a resume command.
    pub(crate) suspend_command: Span,
    width: u64,
    rate_mts: u64,
    truncated: bool,
    /// Bytes on the bus for `page_bytes` of data.
    carried: u64,
    page_bytes: u64,
    /// Transfer times of so many sectors, up to a page.
    sectors: Vec<Span>,
}

impl FlashTimes {
    pub(crate) fn new(config: &Config) -> FlashTimes {
        let c = config.bus.cycles;
        let planes = |f: &dyn Fn(u64) -> Span| std::array::from_fn(|n| f(n as u64 + 1));
        let page = config.geometry.page_bytes;
        let carried = u64::from(page)
            + if config.bus.transfer_spare { config.geometry.page_spare_bytes.into() } else { 0 };
        let pages = config.geometry.pages_per_block;
        let joined = config.planes_per_unit();
        let across = u64::from(joined);
        let one_shot = config.flash.one_shot;
        let times = |times: PageTimes, extra: Span| -> Vec<Span> {
            (0..pages).map(|n| page_time(config.flash.cell, one_shot, times, n) + extra).collect()
        };
        let mut program = times(config.flash.program, Span::ZERO);
        if one_shot {
            let longest = program.iter().copied().max().unwrap_or(Span::ZERO);
            program.fill(longest);
        }
        let sum: Span = program.iter().copied().sum();
        let mut flash = FlashTimes {
            read_command: planes(&|n| {
                c.t_cs + c.t_wc.times(6 * n) + c.t_dbsy.times(n - 1) + c.t_wb + c.t_rr
            }),
            program_command: planes(&|n| {
                let n = n * across;
                let earlier = c.t_wc.times(5) + c.t_adl + c.t_wpst + c.t_cals + c.t_wb + c.t_dbsy;
                let last = c.t_wc.times(6) + c.t_adl + c.t_wpst + c.t_wpsth + c.t_wb;
                c.t_cs + earlier.times(n - 1) + last
            }),
            erase_command: planes(&|n| {
                let n = n * across;
                let each = c.t_wc.times(4) + c.t_wb;
                c.t_cs + each + (c.t_dbsy + each).times(n - 1)
            }),
            page_transfer: Span::ZERO,
            read: times(config.flash.read, config.flash.read_ready_delay),
            program_mean: Span::from_ps(sum.as_ps() / u64::from(pages)),
            program,
            erase: config.flash.erase,
            slc: config.slc.map_or_else(SlcTimes::default, |slc| SlcTimes {
                read: slc.read + config.flash.read_ready_delay,
                program: slc.program,
                erase: slc.erase,
            }),
            // One command and its address, as MQSim computes it.
            suspend_command: c.t_cs + c.t_wc.times(3),
            width: config.bus.width_bytes.into(),
            rate_mts: config.bus.rate_mts.into(),
            truncated: config.bus.rounding == BusRounding::TruncatedNs,
            carried,
            page_bytes: page.into(),
            sectors: vec![],
        };
        flash.sectors =
            (0..=page / 512 * joined).map(|sectors| flash.transfer_time(sectors * 512)).collect();
        flash.page_transfer = flash.transfer(page).times(across);
        flash
    }

    /// Whether the bus is MQSim's.
    #[inline]
    pub(crate) fn as_mqsim(&self) -> bool {
        self.truncated
    }

    /// Time on the bus for `bytes` of a page's data.
    #[inline]
    pub(crate) fn transfer(&self, bytes: u32) -> Span {
        match self.sectors.get(bytes as usize / 512) {
            Some(&time) if bytes.is_multiple_of(512) => time,
            _ => self.transfer_time(bytes),
        }
    }

    fn transfer_time(&self, bytes: u32) -> Span {
        if bytes == NO_DATA {
            return self.program_command(1);
        }
        let bytes = (u64::from(bytes) * self.carried).div_ceil(self.page_bytes);
        let ps = if self.truncated {
            (bytes / self.width / 2) * (1000 / self.rate_mts * 2) * 1000
        } else {
            (bytes * 1_000_000).div_ceil(self.width * self.rate_mts)
        };
        Span::from_ps(ps)
    }

    #[inline]
    pub(crate) fn read_command(&self, planes: usize) -> Span {
        self.read_command[planes - 1]
    }

    #[inline]
    pub(crate) fn program_command(&self, planes: usize) -> Span {
        self.program_command[planes - 1]
    }

    #[inline]
    pub(crate) fn erase_command(&self, planes: usize) -> Span {
        self.erase_command[planes - 1]
    }

    /// Array times with one bit a cell.
    #[inline]
    pub(crate) fn slc(&self) -> SlcTimes {
        self.slc
    }

    /// Array time of a read of page `page` of a block.
    #[inline]
    pub(crate) fn read(&self, page: u32) -> Span {
        self.read[page as usize]
    }

    /// Array time of a program of page `page` of a block.
    #[inline]
    pub(crate) fn program(&self, page: u32) -> Span {
        self.program[page as usize]
    }
}

/// The array time of page `page` of a block: in MLC, LSB and MSB pages alternate; in TLC
/// the first six are LSB, the next two CSB, then pairs of LSB, CSB and MSB pages take turns
/// (Yaakobi et al., ICNC 2012). The pages of a word line follow one another where one program
/// takes them all.
fn page_time(cell: CellType, one_shot: bool, times: PageTimes, page: u32) -> Span {
    match cell {
        CellType::Slc => times.lsb,
        CellType::Mlc => [times.lsb, times.msb][page as usize % 2],
        CellType::Tlc if one_shot => [times.lsb, times.csb, times.msb][page as usize % 3],
        CellType::Qlc | CellType::Plc => times.in_order()[(page % cell.bits()) as usize],
        CellType::Tlc => match page {
            0..=5 => times.lsb,
            6..=7 => times.csb,
            _ => [times.lsb, times.csb, times.msb][(page as usize - 8) / 2 % 3],
        },
    }
}
