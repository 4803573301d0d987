//! The words of a drive file: what each may be, and which of the model's values it is.
//!
//! Words whose value of the model has more to say than its name are read by the section that has them.

use super::declare::no_keys;
use super::value::{Models, Value, quoted};
use mynah_model::config::{
    BusArbitration, BusRounding, CacheMode, CacheSharing, CellType, CmtGranularity, CmtSharing,
    CollectionUnit, DramTraffic, Evict, FoldWay, Isolation, NamespaceKind, Placement, Precedence,
    UnmappedReads, Victims, WhenFull,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use std::fmt;

/// An enumeration of words, and its conversions to and from the model's.
macro_rules! names {
    (
        $(#[$doc:meta])* $name:ident = $target:ident {
            $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        names! { $(#[$doc])* $name { $($(#[$vdoc])* $variant = $text,)+ } }
        impl From<$name> for $target {
            fn from(name: $name) -> $target {
                match name { $($name::$variant => $target::$variant,)+ }
            }
        }
        impl From<$target> for $name {
            fn from(value: $target) -> $name {
                match value { $($target::$variant => $name::$variant,)+ }
            }
        }
        impl Models<$target> for $name {
            fn into_model(self) -> Result<$target, $target> {
                Ok(self.into())
            }
            fn from_model(model: &$target) -> $name {
                (*model).into()
            }
        }
    };
    (
        $(#[$doc:meta])* $name:ident {
            $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, JsonSchema)]
        pub(crate) enum $name {
            $($(#[$vdoc])* #[schemars(rename = $text)] $variant,)+
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let at = deserializer.deserialize_any(Word(&[$($text),+]))?;
                Ok([$($name::$variant),+][at])
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$variant => $text,)+ })
            }
        }
        impl Value for $name {
            fn parse(text: &'static str) -> $name {
                match text {
                    $($text => $name::$variant,)+
                    _ => panic!("a declaration says `{text}`"),
                }
            }
            fn toml(&self) -> String {
                quoted(self)
            }
        }
        no_keys!($name);
        impl Models<$name> for $name {
            fn into_model(self) -> Result<$name, $name> {
                Ok(self)
            }
            fn from_model(model: &$name) -> $name {
                *model
            }
        }
    };
}

/// Reads one of these words; gives its place among them. A derived enumeration would not say
/// which words there are when it finds something that is none, a number say.
struct Word(&'static [&'static str]);

impl Visitor<'_> for Word {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of `{}`", self.0.join("`, `"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<usize, E> {
        let at = self.0.iter().position(|word| *word == text);
        at.ok_or_else(|| E::unknown_variant(text, self.0))
    }
}

names! {
    /// The version of the format.
    SchemaVersion {
        /// The first.
        V1 = "mynah.drive/1",
    }
}

names! {
    /// Bits in a cell.
    CellName = CellType {
        /// One bit.
        Slc = "slc",
        /// Two bits.
        Mlc = "mlc",
        /// Three bits.
        Tlc = "tlc",
        /// Four bits.
        Qlc = "qlc",
        /// Five bits.
        Plc = "plc",
    }
}
names! {
    /// The data interface of the flash bus.
    Protocol {
        /// ONFI NV-DDR2, up to 533 MT/s.
        NvDdr2 = "nv-ddr2",
        /// ONFI NV-DDR3, up to 1600 MT/s.
        NvDdr3 = "nv-ddr3",
        /// Toggle DDR and ONFI NV-LPDDR4, up to 4800 MT/s.
        Toggle = "toggle",
    }
}
names! {
    /// How transfer times are computed.
    RoundingName = BusRounding {
        /// Exact, rounded up to a picosecond.
        Exact = "exact",
        /// Truncated to whole nanoseconds, as MQSim does.
        TruncatedNs = "truncated-ns",
    }
}
names! {
    /// Who gets the channel when several want it.
    BusArbitrationName = BusArbitration {
        /// Read commands first, then data, oldest first.
        CommandFirst = "command-first",
        /// Data from dies first, then new commands, chips taking turns: as MQSim.
        DataFirst = "data-first",
    }
}
names! {
    /// What crosses the host link.
    LinkProtocolName {
        /// NVMe over PCIe.
        Pcie = "pcie",
        /// SATA with native command queuing: one direction at a time.
        Sata = "sata",
        /// NVMe-oF over Ethernet ports, with the target in the drive.
        Ethernet = "ethernet",
    }
}
names! {
    /// What carries NVMe over Ethernet.
    FramingName {
        /// RDMA over UDP.
        RoceV2 = "rocev2",
        /// NVMe/TCP.
        Tcp = "tcp",
    }
}
names! {
    /// How a network interface's work and the wire follow one another.
    PipeliningName {
        /// It works on a packet while another is on the wire.
        Overlapped = "overlapped",
        /// One after the other.
        Serial = "serial",
    }
}
names! {
    /// How a transfer's time on an AXI bus is counted.
    AxiCountingName {
        /// A cycle for each beat, and a setup for each burst.
        Bursts = "bursts",
        /// As SimpleSSD: two cycles for each beat and three for each burst.
        SimpleSsd = "simplessd",
    }
}
names! {
    /// Arbitration between submission queues.
    ArbitrationName {
        /// Round robin.
        RoundRobin = "round-robin",
        /// Urgent queues first, the others by the weights of their priority class.
        Weighted = "weighted",
    }
}
names! {
    /// Which of a die's host reads and programs goes first.
    PrecedenceName = Precedence {
        /// Reads, then programs.
        ReadFirst = "read-first",
        /// Whichever was queued first.
        Oldest = "oldest",
    }
}
names! {
    /// When dirty data leaves the cache.
    WriteBackName {
        /// As soon as there is enough for a flash page.
        Eager = "eager",
        /// Least recently written first, when too much is dirty.
        Lru = "lru",
    }
}
names! {
    /// What the data cache holds.
    CacheModeName = CacheMode {
        /// What was written lately and is not on flash yet.
        Write = "write",
        /// What was read lately; writes complete when they are on flash.
        Read = "read",
        /// Both, and what was written lately and is on flash already.
        Both = "both",
    }
}
names! {
    /// What of a namespace the data cache holds.
    NamespaceCacheName {
        /// Nothing.
        Off = "off",
        /// What was written lately and is not on flash yet.
        Write = "write",
        /// What was read lately.
        Read = "read",
        /// Both.
        Both = "both",
    }
}
names! {
    /// What a namespace holds.
    NamespaceKindName = NamespaceKind {
        /// Blocks, at addresses.
        Blocks = "block",
        /// Pairs of a key and a value, as `[kv]` describes.
        Pairs = "kv",
    }
}
names! {
    /// How an index of keys is organised.
    KeyIndexName {
        /// Extendible hashing: a page is split when it is full, and nothing else moves.
        DynamicHash = "dynamic-hash",
        /// A fixed number of pages, and overflow pages behind those that are full.
        Hash = "hash",
        /// A log-structured merge tree: a table in DRAM, and levels of sorted runs on flash.
        Lsm = "lsm",
    }
}
names! {
    /// What a request manager does while a long key is fetched.
    KeyFetchName {
        /// It waits.
        Waits = "waits",
        /// Nothing: keys are fetched before commands come to managers.
        Overlaps = "overlaps",
    }
}
names! {
    /// How flows share the data cache.
    CacheSharingName = CacheSharing {
        /// One cache for all.
        Shared = "shared",
        /// Each namespace has an equal part.
        PerNamespace = "per-namespace",
        /// Each flow has an equal part.
        PerFlow = "per-flow",
    }
}
names! {
    /// What becomes of a row of the DRAM after an access.
    RowsName {
        /// It is precharged: every access activates the rows that it touches.
        Closed = "closed",
        /// It stays open until another row of its bank is touched.
        Open = "open",
    }
}
names! {
    /// Which data cross the cache's DRAM.
    TrafficName = DramTraffic {
        /// What the host writes to the cache and reads from it.
        Host = "host",
        /// Cached data on their way to the flash as well, and what stays in the cache of what
        /// comes from there.
        All = "all",
    }
}
names! {
    /// What may be where on flash.
    MappingName {
        /// Any unit in any page.
        Page = "page",
        /// Pages in data blocks, each in its place; what is overwritten in log blocks, which
        /// are merged into data blocks (FAST).
        Hybrid = "hybrid",
    }
}
names! {
    /// Where the mapping table lives.
    TableName {
        /// All of it in DRAM.
        Ideal = "ideal",
        /// In flash, with a cached part in DRAM.
        Cached = "cached",
    }
}
names! {
    /// What a read of an address that was never written does.
    UnmappedReadsName = UnmappedReads {
        /// Returns zeros without touching flash.
        Zeroes = "zeroes",
        /// Assigns a page and reads that: as MQSim.
        Allocate = "allocate",
    }
}
names! {
    /// What the cached mapping table loads and evicts.
    GranularityName = CmtGranularity {
        /// Single entries.
        Entry = "entry",
        /// Whole translation pages.
        Page = "page",
    }
}
names! {
    /// How flows share the cached mapping table.
    SharingName = CmtSharing {
        /// One table for all.
        Shared = "shared",
        /// Each namespace has an equal part.
        Partitioned = "partitioned",
        /// Each namespace has a table of the full size: as MQSim's "shared" mode behaves.
        Private = "private",
    }
}
names! {
    /// Which block is collected.
    VictimName {
        /// The block with the fewest valid units.
        Greedy = "greedy",
        /// The one with the fewest valid units among `d` drawn at random.
        DChoices = "d-choices",
        /// Any block, drawn at random.
        Random = "random",
        /// A block drawn among those with at least `invalid_pages` pages' worth of invalid data.
        RandomP = "random-p",
        /// A block drawn among those with fewer valid units than the average.
        RandomPlusPlus = "random++",
        /// The block that was filled longest ago.
        Fifo = "fifo",
        /// The block with the most age times room won over data to move.
        CostBenefit = "cost-benefit",
    }
}
names! {
    /// What is collected at a time.
    CollectionUnitName = CollectionUnit {
        /// A block: each plane collects by itself.
        Block = "block",
        /// A superblock: the blocks, one of each plane, that the planes have filled in the same
        /// turn. It is chosen by what is valid in all of them.
        Superblock = "superblock",
    }
}
names! {
    /// Which data may share a reclaim unit once collection has moved them.
    IsolationName = Isolation {
        /// Those of all handles. What is moved has reclaim units of its own; with
        /// `gc.write_frontiers = "one"` it goes to the one that the last handle fills.
        Initial = "initial",
        /// Those of one handle.
        Persistent = "persistent",
    }
}
names! {
    /// Among which reclaim units the one to be collected is chosen.
    VictimsName = Victims {
        /// Among all.
        All = "all",
        /// Among those of the handle whose write the room is for, if one of them has room to win.
        Handle = "handle",
    }
}
names! {
    /// What becomes of writes that find the SLC cache full.
    WhenFullName = WhenFull {
        /// They go to native blocks, as do those after them until the drive has been idle, as long as
        /// there are free ones.
        Direct = "direct",
        /// They wait until folding has made room; where there is nothing to fold they go to native
        /// blocks.
        Fold = "fold",
    }
}
names! {
    /// How what is in the SLC cache comes to native blocks.
    FoldWayName = FoldWay {
        /// It is read into the controller, corrected, and programmed.
        Copy = "copy",
        /// Pages that are valid as a whole stay in their die.
        Copyback = "copyback",
    }
}
names! {
    /// Which block of the SLC cache is folded first.
    EvictName = Evict {
        /// The one that was filled first.
        Fifo = "fifo",
        /// The one with the fewest valid units.
        Greedy = "greedy",
    }
}
names! {
    /// Which plane a host write goes to.
    PlacementName = Placement {
        /// Its address says it, in `order`.
        Static = "static",
        /// Successive pages go to successive planes in `order`, whatever their addresses.
        Striped = "striped",
        /// Each page goes to the plane for which the least is waiting.
        LeastLoaded = "least-loaded",
    }
}
names! {
    /// What fills the same blocks.
    FrontiersName {
        /// Everything: there is one open block in each plane.
        One = "one",
        /// Host writes in one open block of each plane, what collection moves in another.
        Separate = "separate",
        /// Hot data in one open block of each plane, cold data in another, be they written by
        /// the host or moved by collection.
        HotCold = "hot-cold",
    }
}
