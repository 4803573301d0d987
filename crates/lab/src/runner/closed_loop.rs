//! About how much a closed loop writes that also reads: it waits for its reads, and so does not
//! write as fast as the drive takes it.

use mynah_model::config::Config;
use mynah_model::steady::analytic::waf_fifo;
use mynah_workload::{FlowSpec, Source, heat};

/// Sectors that `flow` writes in a second on a drive of whose flash a share of `valid` is valid;
/// of units that it writes in part, all. `None` for flows that do not read, and for those that
/// leave the dies no time.
///
/// As many requests are under way as the flow has outstanding (Little's law). A read takes as long
/// as it does alone, and waits for what its die has begun: reads go before programs, which are not
/// interrupted, so in the mean `sum(rate * time^2) / 2 / (1 - load of reads)` (a queue with
/// priorities, A. Cobham, Operations Research 2 (1), 1954). Where collection always goes before
/// the host, a block is collected as a whole, before reads. Writes end in the cache.
pub(super) fn sectors_written_per_s(config: &Config, valid: f64, flow: &FlowSpec) -> Option<f64> {
    let Source::Synthetic(synthetic) = &flow.source else { return None };
    let (read, write) = (synthetic.mix.read, synthetic.mix.write());
    let outstanding = f64::from(flow.depth()?) * f64::from(flow.jobs);
    let sectors = heat::mean_sectors(synthetic) as f64;
    let sectors_per_page = f64::from(config.geometry.page_bytes) / 512.0;
    let pages = sectors / sectors_per_page;
    let sectors_written = sectors.max(f64::from(config.mapping.unit_bytes) / 512.0);
    let pages_written = sectors_written / sectors_per_page;
    let dies = f64::from(config.geometry.dies());
    let waf = waf_fifo(valid.clamp(0.01, 0.99));
    let read_s = config.flash.read.lsb.as_secs_f64();
    let program_s = config.flash.program.lsb.as_secs_f64();
    let alone_s = read_s + config.firmware.read.as_secs_f64();
    let of_block = f64::from(config.geometry.pages_per_block) * (1.0 - 1.0 / waf);
    let block_s = of_block * (read_s + program_s);
    let collects_first = config.gc.collects_first();
    // Of each die, a second, with so many requests a second.
    let moved = |rate: f64| rate * write * pages_written * (waf - 1.0) / dies;
    let reads = |rate: f64| rate * read * pages.max(1.0) / dies + moved(rate);
    let programs = |rate: f64| rate * write * pages_written * waf / dies;
    let under_way = |rate: f64| {
        let (begun, first) = if collects_first {
            let own = rate * write * pages_written / dies * program_s * program_s;
            let of_host = rate * read * pages.max(1.0) / dies * read_s;
            let blocks = moved(rate) / of_block.max(1.0) * block_s;
            (of_host * read_s + own + blocks * block_s, of_host + blocks)
        } else {
            let begun = reads(rate) * read_s * read_s + programs(rate) * program_s * program_s;
            (begun, reads(rate) * read_s)
        };
        let wait_s = begun / 2.0 / (1.0 - first).max(1e-9);
        rate * (read * (alone_s + wait_s) + write * config.firmware.write.as_secs_f64())
    };
    let (mut low, mut high) = (0.0, 1.0 / (reads(1.0) * read_s + programs(1.0) * program_s));
    if read <= 0.0 || !high.is_finite() || under_way(high) < outstanding {
        return None;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match under_way(middle) < outstanding {
            true => low = middle,
            false => high = middle,
        }
    }
    Some(low * write * sectors_written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_workload::FlowOptions;

    #[test]
    fn reads_hold_a_closed_loop_up() {
        let config = mynah_drive_file::load("enterprise-tlc", &[]).unwrap().config;
        let writes = |options: &[(&str, &str)]| {
            let mut all = FlowOptions::default();
            for (name, value) in [("bs", "4k"), ("runtime", "1")].iter().chain(options) {
                assert!(all.set(name, *value));
            }
            let flow = all.flow("flow").unwrap();
            sectors_written_per_s(&config, 0.9, &flow).map(|sectors| sectors / 8.0)
        };
        let mixed = |depth| writes(&[("rw", "randrw"), ("rwmixread", "70"), ("iodepth", depth)]);
        // One at a time: a read takes some 45 us alone, a write 7, and now and then a read waits
        // for a program.
        let one = mixed("1").unwrap();
        assert!((6_500.0..8_000.0).contains(&one), "{one}");
        // Deeper loops write more, but reads wait for programs.
        let four = mixed("4").unwrap();
        assert!((2.5..3.5).contains(&(four / one)), "{four}");
        let sixteen = mixed("16").unwrap();
        assert!((2.0..3.5).contains(&(sixteen / four)), "{sixteen}");
        // Who fills the dies' time, or does not read, writes as fast as the drive takes it.
        assert_eq!(mixed("4096"), None);
        assert_eq!(writes(&[("rw", "randwrite"), ("iodepth", "1")]), None);
    }
}
