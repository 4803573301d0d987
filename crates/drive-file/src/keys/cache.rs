//! The section `[cache]`: the data cache and its DRAM.

use super::declare::{Need, section};
use super::value::{Width, quoted};
use super::{CacheModeName, CacheSharingName, File, RowsName, TrafficName, WriteBackName};
use crate::at::{At, Maybe};
use crate::check::{Check, or};
use crate::units::{Bytes, Duration, Fraction, TransferRate};
use mynah_model::config::{Config, DataCache, Geometry, RowPolicy, WriteBack};

static CAPACITY: Need = Need {
    holds: |config| config.cache.is_some(),
    cause: |file| Some(file.cache.as_ref()?.get().size.span()),
    why: "the cache has no capacity",
    help: "remove it, or give the cache a size",
};

static WRITES: Need = Need {
    holds: |config| config.cache.as_ref().is_none_or(|cache| cache.mode.writes()),
    cause: |file| file.cache.as_ref()?.get().mode.as_ref().map(At::span),
    why: "the cache holds nothing that is not on flash",
    help: "use it with `mode = \"write\"` or `\"both\"`",
};

fn is_lru(config: &Config) -> bool {
    config.cache.as_ref().is_some_and(|cache| matches!(cache.write_back, WriteBack::Lru { .. }))
}

static LRU: Need = Need {
    holds: is_lru,
    cause: |file| file.cache.as_ref()?.get().write_back.as_ref().map(At::span),
    why: "dirty data leaves at once",
    help: "use it with `write_back = \"lru\"`",
};

static EAGER: Need = Need {
    holds: |config| !is_lru(config),
    cause: |file| file.cache.as_ref()?.get().write_back.as_ref().map(At::span),
    why: "dirty data stays in the cache",
    help: "use it with `write_back = \"eager\"`",
};

static SEVERAL_NAMESPACES: Need = Need {
    holds: |config| config.namespaces.len() > 1,
    cause: |_| None,
    why: "there is one namespace",
    help: "use `\"per-flow\"`, or describe more namespaces",
};

static OPEN_ROWS: Need = Need {
    holds: |config| {
        config.cache.as_ref().is_some_and(|it| matches!(it.dram.rows, RowPolicy::Open { .. }))
    },
    cause: |file| file.cache.as_ref()?.get().dram.as_ref()?.get().rows.as_ref().map(At::span),
    why: "no row stays open",
    help: "use it with `rows = \"open\"`",
};

section! {
    /// A data cache in DRAM.
    Cache => DataCache {
        /// Capacity for data: at least one flash page for each plane; 0 switches the cache off.
        size: At<Bytes>, is bytes;
        /// What it holds.
        mode: Maybe<CacheModeName> = "write", when CAPACITY, is mode;
        /// How flows share the capacity.
        sharing: Maybe<CacheSharingName> = "shared",
            when CAPACITY | SEVERAL_NAMESPACES if |it| *it == CacheSharingName::PerNamespace,
            is sharing;
        /// Whether what is in it and not yet on flash outlives a power cut. Flush and Force Unit
        /// Access then wait for the DRAM only, and hosts see no volatile write cache.
        power_loss_protection: Maybe<bool> = "false", when CAPACITY | WRITES if |it| *it,
            shows |cache, _| cache.mode.writes().then_some(cache.power_loss_protection);
        /// When dirty data leaves for the flash.
        write_back: Maybe<WriteBackName> = "eager", when CAPACITY | WRITES,
            writes |cache, _| Some(quoted(match cache.write_back {
                WriteBack::Eager => WriteBackName::Eager,
                WriteBack::Lru { .. } => WriteBackName::Lru,
            }));
        /// With `write_back = "lru"`: the dirty share above which data is written back, between 0% and
        /// 100%.
        high: Maybe<Fraction> = "80%", when CAPACITY | WRITES | LRU,
            shows |cache, _| match cache.write_back {
                WriteBack::Lru { high } => Some(high),
                WriteBack::Eager => None,
            };
        /// With `write_back = "eager"`: how much of what was written may be on its way to the flash,
        /// of each part of the cache; then writes wait. Default: as much as fits.
        write_back_max: Maybe<Bytes>, in "512B" to "1023GiB", when CAPACITY | WRITES | EAGER, is write_back_max;
        /// The DRAM behind the cache.
        dram: Maybe<Dram>, when CAPACITY, inner |cache, _| Some(&cache.dram);
    }
    with |cache, check, file| {
        write_back: match cache.write_back(check) {
            WriteBackName::Eager => WriteBack::Eager,
            WriteBackName::Lru => WriteBack::Lru { high: cache.high(check) },
        },
        power_loss_protection: cache.power_loss_protection(check),
        dram: match &cache.dram {
            Some(dram) => dram.get().lower(check, file),
            None => Dram::default().lower(check, file),
        },
    }
}

section! {
    /// The DRAM's access model.
    #[derive(Default)]
    Dram => mynah_model::config::Dram {
        /// Bytes in a row.
        row: Maybe<Bytes> = "8KiB", in "64B" to "1MiB", is row_bytes;
        /// Width of the data bus in bits, a multiple of 8 up to 4096.
        width_bits: Maybe<Width> = "32", is width_bytes;
        /// Millions of transfers a second.
        rate: Maybe<TransferRate> = "1600MT/s", in "1MT/s" to "100000MT/s", is rate_mts;
        /// Transfers in a burst; what is moved is rounded up to whole bursts.
        burst_length: Maybe<u32> = "8", in "1" to "64", is burst_length;
        /// What becomes of a row after an access.
        rows: Maybe<RowsName> = "closed", writes |dram, _| Some(quoted(match dram.rows {
            RowPolicy::Closed => RowsName::Closed,
            RowPolicy::Open { .. } => RowsName::Open,
        }));
        /// With `rows = "open"`: banks, each with an open row.
        banks: Maybe<u32> = "8", in "1" to "1024", when OPEN_ROWS,
            shows |dram, _| match dram.rows {
                RowPolicy::Open { banks } => Some(banks),
                RowPolicy::Closed => None,
            };
        /// Which data cross the DRAM.
        traffic: Maybe<TrafficName> = "host", is traffic;
        /// Row to column delay.
        t_rcd: Maybe<Duration> = "13ns", is t_rcd;
        /// Column access latency.
        t_cl: Maybe<Duration> = "13ns", is t_cl;
        /// Row precharge.
        t_rp: Maybe<Duration> = "13ns", is t_rp;
    }
    with |dram, check, _file| {
        rows: match dram.rows(check) {
            RowsName::Closed => RowPolicy::Closed,
            RowsName::Open => RowPolicy::Open { banks: dram.banks(check) },
        },
    }
}

impl Cache {
    /// The model's cache, if this one has a capacity.
    pub(crate) fn lower_with(
        &self,
        check: &mut Check<'_>,
        file: &File,
        geometry: &Geometry,
    ) -> Option<DataCache> {
        let bytes = self.size.get().0;
        if bytes == 0 {
            return None;
        }
        let least = u64::from(geometry.planes()) * u64::from(geometry.page_bytes);
        if bytes < least {
            let (planes, page) = (geometry.planes(), Bytes(geometry.page_bytes.into()));
            check.wrong(
                format!("a cache of {} cannot hold one flash page for each plane", Bytes(bytes)),
                &self.size,
                "too small",
                Some(format!(
                    "at least {} ({planes} planes of {page} pages), or 0 for none",
                    Bytes(least)
                )),
            );
        }
        if let Some(at) = self.high.as_ref().filter(|at| at.get().0 <= 0.0 || at.get().0 >= 1.0) {
            let message = format!("`cache.high` must be between 0% and 100%, not {}", at.get());
            check.wrong(message, at, "out of range", None);
        }
        if let Some(dram) = &self.dram {
            dram.get().check(check);
        }
        Some(self.lower(check, file))
    }
}

impl Dram {
    /// Notes what no DRAM is.
    fn check(&self, check: &mut Check<'_>) {
        let Width(bits) = or(&self.width_bits, Width(32));
        if let Some(width) = &self.width_bits
            && (bits == 0 || !bits.is_multiple_of(8) || bits > 4096)
        {
            let message =
                format!("`cache.dram.width_bits` must be a multiple of 8 up to 4096, not {bits}");
            check.wrong(message, width, "no such bus", None);
        }
        if let Some(row) = self.row.as_ref().filter(|row| row.get().0 < u64::from(bits / 8)) {
            let message = format!("a DRAM row of {} is narrower than one transfer", row.get());
            check.wrong(message, row, "too small", None);
        }
    }
}
