//! A cache of objects in front of the drive, and the traces that feed it.

use super::{FlowOptions, Kind, OptionError, of_kind, positive, speed};
use crate::front::{BUCKET_BYTES, Engine, Feed, FrontCache, FrontFlow, KeyTrace, KeyTraceFormat};
use crate::quantity::parse_share;
use std::path::PathBuf;

/// What a cache in front may have.
const FRONT: [&str; 8] = [
    "front_small",
    "front_small_max",
    "front_region",
    "front_ram",
    "front_admit",
    "front_full",
    "front_trim",
    "trace_token_bytes",
];

impl FlowOptions {
    /// Refuses what only a cache in front has.
    pub(super) fn refuse_front(&self) -> Result<(), OptionError> {
        for option in FRONT {
            self.refuse(option, "there is no cache in front (front), so this has no effect")?;
        }
        Ok(())
    }

    /// A cache of objects, fed by a mix of commands on keys or by a trace of such.
    pub(super) fn front(&self) -> Result<FrontFlow, OptionError> {
        let is_cachelib = self.choice("front", &[("cachelib", true), ("objects", false)])?;
        let is_cachelib = is_cachelib.unwrap_or(true);
        let positive_bytes = |text: &str| positive(|text| self.bytes(text))(text);
        let region = self.read("front_region", |text| match positive_bytes(text)? {
            bytes if bytes % BUCKET_BYTES == 0 && bytes <= 1 << 30 => Ok(bytes),
            _ => Err("it is a multiple of 4 KiB, at most 1 GiB".into()),
        })?;
        let small_max = self.read("front_small_max", |text| match positive_bytes(text)? {
            bytes if bytes <= 2048 => Ok(bytes as u32),
            _ => Err("it is at most 2048 bytes: buckets have 4096".into()),
        })?;
        let engine = match is_cachelib {
            true => {
                self.refuse("front_trim", "regions are overwritten, so this has no effect")?;
                Engine::CacheLib {
                    small_share: self.read("front_small", parse_share)?.unwrap_or(0.04),
                    small_max: small_max.unwrap_or(640),
                    region_bytes: region.unwrap_or(16 << 20),
                }
            }
            false => {
                for option in ["front_small", "front_small_max"] {
                    self.refuse(option, "objects of all sizes are alike, so this has no effect")?;
                }
                Engine::Objects {
                    chunk_bytes: region.unwrap_or(1 << 20),
                    trims: self.flag("front_trim")?,
                }
            }
        };
        // Traces of the drive's own tier have been through DRAM.
        let (feed, ram) = match (&self.kv, &self.trace) {
            (Some(mix), _) => (Feed::Drawn(self.key_value(mix)?), 64 << 20),
            (None, Some(path)) => {
                let trace = self.key_trace(path)?;
                let ram = if trace.format == KeyTraceFormat::MlPerf { 0 } else { 64 << 20 };
                (Feed::Trace(trace), ram)
            }
            (None, None) => {
                return Err(self.error("front", "a cache takes commands on keys: give kv or trace"));
            }
        };
        let cache = FrontCache {
            engine,
            ram_bytes: self.read("front_ram", |text| self.bytes(text))?.unwrap_or(ram),
            admitted: self.read("front_admit", parse_share)?.unwrap_or(1.0),
        };
        let is_drawn = matches!(feed, Feed::Drawn(_));
        if !is_drawn {
            self.refuse("front_full", "what a trace finds in the cache is what it has stored")?;
        }
        let full = is_drawn && (self.front_full.is_none() || self.flag("front_full")?);
        Ok(FrontFlow { cache, feed, full })
    }

    /// A trace of a cache.
    fn key_trace(&self, path: &str) -> Result<KeyTrace, OptionError> {
        let acts = |option: &&str| !["io_size", "occupancy"].contains(option);
        let drawn = of_kind(Kind::Blocks).filter(acts);
        for option in drawn.chain(["rate_iops", "rate_interval", "rate_process"]) {
            self.refuse(option, "the trace says what is done, so this has no effect")?;
        }
        for option in of_kind(Kind::Traces) {
            let known = ["trace", "trace_format", "trace_speed", "trace_repeat"];
            let known = [&known[..], &["trace_no_stall", "trace_token_bytes"]].concat();
            if !known.contains(&option) {
                self.refuse(option, "a trace of a cache does not have it")?;
            }
        }
        let format = self.choice("trace_format", &KeyTraceFormat::ALL)?;
        let Some(format) = format else {
            let names: Vec<&str> = KeyTraceFormat::ALL.iter().map(|(name, _)| *name).collect();
            let problem = format!("give trace_format, one of {}", names.join(", "));
            return Err(self.error("trace", problem));
        };
        let depth = match self.flag("trace_no_stall")? {
            true => Some(self.positive("iodepth", 1, 65_535)?),
            false => {
                self.refuse("iodepth", "the trace says when; trace_no_stall does not wait for it")?;
                None
            }
        };
        let speed = self.read("trace_speed", speed)?.unwrap_or(1.0);
        let token = self.read("trace_token_bytes", |text| match self.bytes(text)? {
            bytes if (1..=1 << 24).contains(&bytes) => Ok(bytes),
            _ => Err("it is from 1 to 16 MiB".into()),
        })?;
        Ok(KeyTrace {
            path: PathBuf::from(path),
            format,
            speed,
            depth,
            repeat: self.positive("trace_repeat", 1, u32::MAX)?,
            // Llama 3, 70 B, in 16 bits: 2 x 80 layers x 8 heads x 128 x 2 bytes.
            token_bytes: token.unwrap_or(327_680),
        })
    }
}
