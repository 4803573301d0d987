//! The stages of an I/O, from the application to the flash and back.

use crate::Span;
use serde::{Deserialize, Serialize};

macro_rules! stages {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// One stage of an I/O. The stages of one I/O follow one another without gap or
        /// overlap: the sum of their durations is the I/O's latency. An I/O that is served
        /// by several flash operations is described by the path of the last to finish.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Stage { $($(#[doc = $doc])+ $name,)+ }

        impl Stage {
            /// Every stage, in the order in which an I/O passes them.
            pub const ALL: [Stage; Stage::COUNT] = [$(Stage::$name,)+];
            /// How many stages there are.
            pub const COUNT: usize = [$($text,)+].len();

            /// The stage's name in results, logs and reports.
            pub const fn name(self) -> &'static str {
                match self { $(Stage::$name => $text,)+ }
            }

            /// What the stage is, in a sentence or two.
            pub const fn description(self) -> &'static str {
                match self { $(Stage::$name => concat!($($doc,)+),)+ }
            }
        }

        impl StageSpans {
            /// Calls `act` with the number and the time of every stage that some time was
            /// spent in, in the order in which an I/O passes them.
            // Written out for each stage: numbers that are constants make `act` shorter.
            #[inline(always)]
            pub fn for_each_spent(&self, mut act: impl FnMut(usize, Span)) {
                $(
                    let span = self.get(Stage::$name);
                    if !span.is_zero() {
                        act(Stage::$name as usize, span);
                    }
                )+
            }
        }
    };
}

stages! {
    /// From the request's creation until it is inserted into the submission queue.
    HostQueue = "host_queue",
    /// Host software between the insertion and the first byte on the wire (fabrics).
    HostSubmit = "host_submit",
    /// The command capsule, and any data in it, on its way through the network (fabrics).
    NetworkRequest = "network_request",
    /// From the doorbell until the controller starts to fetch the entry: doorbell write,
    /// arbitration and the limit on commands in flight.
    SubmissionQueue = "submission_queue",
    /// Fetch of the submission queue entry and of PRP lists over the host link.
    CommandFetch = "command_fetch",
    /// Write data on its way from the host, waits for the link included.
    DataIn = "data_in",
    /// Waiting for a firmware core and running on it.
    Firmware = "firmware",
    /// A write that waits for room in the write cache, or a flush for what is in it.
    CacheWait = "cache_wait",
    /// Waiting for the DRAM and accessing it.
    Cache = "cache",
    /// Waiting for a mapping entry that has to be loaded from flash.
    Mapping = "mapping",
    /// A program that waits for a free block, so for garbage collection.
    BlockWait = "block_wait",
    /// A flash operation in its die's queue, until its command goes out on the channel.
    DieWait = "die_wait",
    /// Command and address cycles on the channel and, for a program, its data.
    FlashCommand = "flash_command",
    /// The array operation in the die.
    FlashArray = "flash_array",
    /// Data in the die's register that waits for the channel.
    ChannelWait = "channel_wait",
    /// Data from the die on the channel.
    FlashTransfer = "flash_transfer",
    /// Read data on its way to the host, waits for the link included.
    DataOut = "data_out",
    /// A completion that waits for a free completion queue slot, its way to the host, and
    /// the interrupt.
    Completion = "completion",
    /// This machine, which made the completion visible after its modelled time (real time only).
    Late = "late",
    /// The response on its way through the network (fabrics).
    NetworkResponse = "network_response",
    /// Host software from the response's arrival to the application (fabrics).
    HostComplete = "host_complete",
    /// What the network interface of an Ethernet drive adds to the time of its packets on the
    /// wire, waits for it included.
    Nic = "nic",
    /// Capsules, data and responses on the AXI bus of an Ethernet drive, waits for it included.
    Axi = "axi",
    /// The transport layer of the NVMe-oF target in an Ethernet drive, in and out.
    Transport = "transport",
    /// Its capsule layer.
    Capsule = "capsule",
    /// Its block layer.
    BlockLayer = "block_layer",
    /// Its NVMe layer.
    NvmeLayer = "nvme_layer",
    /// Waiting for a receive buffer or a data buffer of that target, or for one of the RDMA READs
    /// that a queue pair may have outstanding.
    BufferWait = "buffer_wait",
}

impl Stage {
    /// The stages of the drive, which its model has: the others are those of hosts, networks and
    /// whoever serves it.
    pub const OF_DRIVE: [Stage; 15] = [
        Stage::SubmissionQueue,
        Stage::CommandFetch,
        Stage::DataIn,
        Stage::Firmware,
        Stage::CacheWait,
        Stage::Cache,
        Stage::Mapping,
        Stage::BlockWait,
        Stage::DieWait,
        Stage::FlashCommand,
        Stage::FlashArray,
        Stage::ChannelWait,
        Stage::FlashTransfer,
        Stage::DataOut,
        Stage::Completion,
    ];

    /// The stages that only an Ethernet link has, behind all others.
    pub const OF_LINK: [Stage; 7] = [
        Stage::Nic,
        Stage::Axi,
        Stage::Transport,
        Stage::Capsule,
        Stage::BlockLayer,
        Stage::NvmeLayer,
        Stage::BufferWait,
    ];
}

/// Stages that any I/O can pass; those behind them are of an Ethernet link.
const COMMON: usize = Stage::COUNT - Stage::OF_LINK.len();

/// How long one I/O spent in each stage that is not an Ethernet link's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageSpans {
    spans: [Span; COMMON],
}

/// How long one I/O spent in each stage of an Ethernet link ([`Stage::OF_LINK`]): beside its
/// [`StageSpans`], as other links have none of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSpans {
    spans: [Span; Stage::OF_LINK.len()],
}

impl LinkSpans {
    /// The time spent in `stage`: none if it is no stage of an Ethernet link.
    pub fn get(&self, stage: Stage) -> Span {
        let at = (stage as usize).checked_sub(COMMON);
        at.and_then(|at| self.spans.get(at)).copied().unwrap_or_default()
    }

    /// Adds `span` to the time spent in `stage`, which is one of an Ethernet link.
    pub fn add(&mut self, stage: Stage, span: Span) {
        self.spans[stage as usize - COMMON] += span;
    }

    pub fn total(&self) -> Span {
        self.spans.iter().copied().sum()
    }

    /// Every stage with its time.
    pub fn iter(&self) -> impl Iterator<Item = (Stage, Span)> + '_ {
        Stage::OF_LINK.into_iter().zip(self.spans)
    }
}

impl StageSpans {
    /// The time spent in `stage`: none in a stage of an Ethernet link.
    #[inline]
    pub fn get(&self, stage: Stage) -> Span {
        self.spans.get(stage as usize).copied().unwrap_or_default()
    }

    /// The time in each of [`Stage::OF_DRIVE`], in their order.
    #[inline]
    pub fn of_drive(&self) -> &[Span] {
        &self.spans[Stage::OF_DRIVE[0] as usize..][..Stage::OF_DRIVE.len()]
    }

    /// Adds `span` to the time spent in `stage`, which is none of an Ethernet link.
    #[inline]
    pub fn add(&mut self, stage: Stage, span: Span) {
        self.spans[stage as usize] += span;
    }

    /// Takes `span` off the time spent in `stage`, or all of it if that is less.
    #[inline]
    pub fn shorten(&mut self, stage: Stage, span: Span) {
        self.spans[stage as usize] = self.spans[stage as usize].saturating_sub(span);
    }

    pub fn total(&self) -> Span {
        self.spans.iter().copied().sum()
    }

    /// Every stage with its time, in the order in which an I/O passes them, but for those of an
    /// Ethernet link.
    pub fn iter(&self) -> impl Iterator<Item = (Stage, Span)> + '_ {
        Stage::ALL.into_iter().zip(self.spans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_described() {
        let mut names: Vec<_> = Stage::ALL.iter().map(|s| s.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Stage::COUNT);
        assert!(Stage::ALL.iter().all(|s| s.description().ends_with('.')));
    }

    #[test]
    fn the_drives_stages_follow_one_another() {
        let first = Stage::OF_DRIVE[0] as usize;
        assert_eq!(Stage::ALL[first..][..Stage::OF_DRIVE.len()], Stage::OF_DRIVE);
        assert_eq!(Stage::ALL[COMMON..], Stage::OF_LINK);
        let mut spans = StageSpans::default();
        for (ps, stage) in (1..).zip(Stage::ALL) {
            if (stage as usize) < COMMON {
                spans.add(stage, Span::from_ps(ps));
            }
        }
        let each: Vec<Span> = Stage::OF_DRIVE.iter().map(|&stage| spans.get(stage)).collect();
        assert_eq!(spans.of_drive(), each);
    }

    #[test]
    fn spans_add_up() {
        let mut spans = StageSpans::default();
        spans.add(Stage::FlashArray, Span::from_us(75));
        spans.add(Stage::FlashTransfer, Span::from_us(12));
        spans.add(Stage::FlashArray, Span::from_us(1));
        assert_eq!(spans.get(Stage::FlashArray), Span::from_us(76));
        assert_eq!(spans.total(), Span::from_us(88));
        spans.shorten(Stage::FlashArray, Span::from_us(76));
        spans.add(Stage::Firmware, Span::from_us(2));
        let mut spent = vec![];
        spans.for_each_spent(|stage, span| spent.push((Stage::ALL[stage], span)));
        let expected = [(Stage::Firmware, 2), (Stage::FlashTransfer, 12)];
        assert_eq!(spent, expected.map(|(stage, us)| (stage, Span::from_us(us))));
    }
}
