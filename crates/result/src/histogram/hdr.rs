//! Latencies in the formats of HdrHistogram: as text for results, and as a table of percentiles (`.hgrm`)
//! for its plotter. Values are nanoseconds, to three digits.

use super::{Buckets, Histogram};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use std::fmt::Write;

/// Begins a compressed histogram of version 2 (`getCompressedEncodingCookie` of HdrHistogram's
/// `AbstractHistogram`).
const COMPRESSED_V2: u32 = 0x1c84_9304 | 0x10;
/// Most bytes of a stored block (RFC 1951, section 3.2.4).
const STORED_MAX: usize = 0xffff;

impl Histogram {
    /// The same durations with the resolution of that format.
    fn hdr(&self) -> Hdr<u64> {
        let mut hdr = Hdr::new(3).expect("three digits");
        for (index, count) in self.buckets.iter() {
            let middle = Buckets::<7>::middle(index).clamp(self.min, self.max);
            // It grows by itself; what it cannot hold is longer than a century.
            let _ = hdr.record_n(middle.saturating_add(500) / 1_000, count);
        }
        hdr
    }

    /// A compressed histogram of version 2 in Base64, which HdrHistogram's libraries decode.
    pub fn to_hdr(&self) -> String {
        let mut payload = vec![];
        // Memory takes everything, and three digits are always possible.
        let _ = V2Serializer::new().serialize(&self.hdr(), &mut payload);
        let zlib = stored(&payload);
        let mut all = COMPRESSED_V2.to_be_bytes().to_vec();
        all.extend((zlib.len() as u32).to_be_bytes());
        all.extend(zlib);
        STANDARD.encode(all)
    }
}

/// How often each duration in nanoseconds was, rising, of what [`Histogram::to_hdr`] has written; `None`
/// if it is not that.
pub fn counts(hdr: &str) -> Option<Vec<(u64, u64)>> {
    let bytes = STANDARD.decode(hdr).ok()?;
    let hdr: Hdr<u64> = Deserializer::new().deserialize(&mut &bytes[..]).ok()?;
    Some(hdr.iter_recorded().map(|it| (it.value_iterated_to(), it.count_at_value())).collect())
}

/// The distribution by percentiles as HdrHistogram's plotter reads it, of what [`Histogram::to_hdr`] has
/// written; `None` if it is not that.
pub fn hgrm(hdr: &str) -> Option<String> {
    let bytes = STANDARD.decode(hdr).ok()?;
    let hdr: Hdr<u64> = Deserializer::new().deserialize(&mut &bytes[..]).ok()?;
    let mut out = String::new();
    table(&mut out, &hdr).expect("a string takes everything");
    Some(out)
}

/// The table, with five steps to each halving of the distance to 100 %.
fn table(out: &mut String, hdr: &Hdr<u64>) -> std::fmt::Result {
    writeln!(
        out,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let mut count = 0;
    for step in hdr.iter_quantiles(5) {
        count += step.count_since_last_iteration();
        let (value, part) = (step.value_iterated_to(), step.quantile_iterated_to());
        write!(out, "{value:>12} {part:>14.12} {count:>10}")?;
        if part < 1.0 {
            write!(out, " {:>14.2}", 1.0 / (1.0 - part))?;
        }
        writeln!(out)?;
    }
    let (mean, deviation) = (hdr.mean(), hdr.stdev());
    writeln!(out, "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]")?;
    writeln!(out, "#[Max     = {:>12}, Total count    = {:>12}]", hdr.max(), hdr.len())?;
    // Three digits take 2048 parts of each power of two.
    writeln!(out, "#[Buckets = {:>12}, SubBuckets     = {:>12}]", hdr.buckets(), 2048)
}

/// A zlib stream (RFC 1950) of stored blocks: the same bytes whatever compresses.
fn stored(payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut blocks = payload.chunks(STORED_MAX).peekable();
    while let Some(block) = blocks.next() {
        out.push(u8::from(blocks.peek().is_none()));
        let length = block.len() as u16;
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(block);
    }
    let (mut a, mut b) = (1u32, 0u32);
    for byte in payload {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    out.extend((b << 16 | a).to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_stamp::Span;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn others_read_the_same_counts(
            durations in prop::collection::vec((1_000u64..1 << 50, 1u64..1_000), 1..60),
        ) {
            let mut histogram = Histogram::default();
            for &(ps, times) in &durations {
                histogram.record_many(Span::from_ps(ps), times);
            }
            let bytes = STANDARD.decode(histogram.to_hdr()).unwrap();
            let read: Hdr<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
            prop_assert_eq!(read.len(), histogram.count());
            for percentile in [50.0, 99.0, 100.0] {
                let ours = histogram.percentile(percentile).unwrap().as_ns_f64();
                let theirs = read.value_at_percentile(percentile) as f64;
                prop_assert!((theirs / ours - 1.0).abs() < 0.01 || (theirs - ours).abs() <= 1.0);
            }
            let counts = counts(&histogram.to_hdr()).unwrap();
            prop_assert_eq!(counts.iter().map(|&(_, count)| count).sum::<u64>(), histogram.count());
            prop_assert!(counts.is_sorted());
            let table = hgrm(&histogram.to_hdr()).unwrap();
            let last = format!("Total count    = {:>12}]", histogram.count());
            prop_assert!(table.contains(&last), "{}", table);
        }
    }

    #[test]
    fn long_streams_have_several_blocks() {
        let payload: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        let mut read = vec![];
        let stream = stored(&payload);
        std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&stream[..]), &mut read)
            .unwrap();
        assert_eq!(read, payload);
    }
}
