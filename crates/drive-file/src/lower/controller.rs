//! The controller's sections: link, queues, firmware and data cache.

use super::*;
use mynah_model::config::{Arbitration, CacheMode, DramTraffic, LinkProtocol, RowPolicy, Weights};
use schema::{ArbitrationName, CacheModeName, CacheSharingName, RowsName, TrafficName};

/// Tags of native command queuing.
pub(crate) const NCQ_TAGS: u32 = 32;

impl Check<'_> {
    pub(super) fn link(&mut self, file: &File) -> Link {
        let link = file.link.get();
        if Self::is_ethernet(file) {
            return self.no_link(file);
        }
        self.without_ethernet(link);
        if or(&link.protocol, schema::LinkProtocolName::Pcie) == schema::LinkProtocolName::Sata {
            return self.sata(link, file.link.span());
        }
        let lanes = or(&link.lanes, 4);
        if let Some(at) = link.lanes.as_ref()
            && ![1, 2, 4, 8, 12, 16, 32].contains(&lanes)
        {
            self.wrong(
                format!("a PCIe link cannot have {lanes} lanes"),
                at,
                "no such link",
                Some("valid: 1, 2, 4, 8, 12, 16, 32".to_owned()),
            );
        }
        let bytes_per_s = self.bandwidth(file, lanes);
        let max_payload_bytes = self.small_or("link.max_payload", &link.max_payload, 256);
        if let Some(at) = &link.max_payload
            && (!max_payload_bytes.is_power_of_two() || !(128..=4096).contains(&max_payload_bytes))
        {
            self.wrong(
                format!("`link.max_payload` cannot be {}", at.get()),
                at,
                "no such payload",
                Some("valid: 128B, 256B, 512B, 1KiB, 2KiB, 4KiB".to_owned()),
            );
        }
        let packet_overhead_bytes =
            self.small_or("link.packet_overhead", &link.packet_overhead, 24);
        if let Some(at) = link.packet_overhead.as_ref().filter(|at| at.get().0 > 4096) {
            self.wrong("`link.packet_overhead` must be at most 4KiB", at, "too large", None);
        }
        let submission_entry_bytes =
            self.small_or("link.submission_entry", &link.submission_entry, 64);
        if let Some(at) = &link.submission_entry
            && !(64..=4096).contains(&at.get().0)
        {
            self.wrong(
                "`link.submission_entry` must be from 64B (the NVMe specification's) to 4KiB",
                at,
                "out of range",
                None,
            );
        }
        let rounding = or(&link.rounding, schema::RoundingName::Exact);
        Link {
            protocol: LinkProtocol::Pcie,
            adapter: self.span_or("link.adapter", &link.adapter, Span::ZERO),
            bytes_per_s,
            lanes,
            max_payload_bytes,
            packet_overhead_bytes,
            submission_entry_bytes,
            fetch_prp_lists: or(&link.fetch_prp_lists, true),
            stream_data: or(&link.stream_data, true),
            interrupt: self.span_or("link.interrupt", &link.interrupt, Span::ZERO),
            truncate_ns: rounding == schema::RoundingName::TruncatedNs,
        }
    }

    fn sata(&mut self, link: &schema::Link, whole: Range<usize>) -> Link {
        let cause = link.protocol.as_ref().map(At::span);
        let pointless = [
            link.bandwidth.as_ref().map(At::span),
            link.lanes.as_ref().map(At::span),
            link.max_payload.as_ref().map(At::span),
            link.submission_entry.as_ref().map(At::span),
            link.fetch_prp_lists.as_ref().map(At::span),
            link.rounding.as_ref().map(At::span),
        ];
        for span in pointless.into_iter().flatten() {
            self.without_effect(
                span,
                cause.clone(),
                "this has no effect: the link is SATA",
                "remove it",
            );
        }
        let bytes_per_s = match link.generation.as_ref().map(At::get) {
            // 8b/10b coding.
            Some(generation @ 1..=3) => 150_000_000 << (generation - 1),
            _ => {
                self.at(
                    link.generation.as_ref().map_or(whole, At::span),
                    "a SATA link has generation 1, 2 or 3".to_owned(),
                    "1.5, 3 or 6 Gb/s",
                    Some("for example `generation = 3`".to_owned()),
                );
                600_000_000
            }
        };
        let overhead = self.small_or("link.packet_overhead", &link.packet_overhead, 28);
        if let Some(at) = link.packet_overhead.as_ref().filter(|at| at.get().0 > 256) {
            self.wrong("`link.packet_overhead` must be at most 256B", at, "too large", None);
        }
        Link {
            protocol: LinkProtocol::Sata,
            adapter: self.span_or("link.adapter", &link.adapter, Span::ZERO),
            bytes_per_s,
            lanes: 1,
            max_payload_bytes: 8192,
            packet_overhead_bytes: overhead,
            submission_entry_bytes: 64,
            fetch_prp_lists: false,
            stream_data: or(&link.stream_data, true),
            interrupt: self.span_or("link.interrupt", &link.interrupt, Span::ZERO),
            truncate_ns: false,
        }
    }

    /// Bytes a second, from the bandwidth or from the generation and the lanes; the one that
    /// was given later if both were.
    fn bandwidth(&mut self, file: &File, lanes: u32) -> u64 {
        let link = file.link.get();
        let layer = |span: Range<usize>| self.document.layer(&span);
        let by_generation = match (&link.generation, &link.bandwidth) {
            (Some(generation), Some(bandwidth)) => {
                let (generation_layer, bandwidth_layer) =
                    (layer(generation.span()), layer(bandwidth.span()));
                if generation_layer == bandwidth_layer {
                    self.wrong(
                        "`link.bandwidth` contradicts `link.generation`",
                        bandwidth,
                        "given twice",
                        Some("give one of them".to_owned()),
                    );
                }
                generation_layer > bandwidth_layer
            }
            (generation, _) => generation.is_some(),
        };
        if by_generation {
            let generation = link.generation.as_ref().expect("it was just seen");
            let lane_bytes_per_s: u128 = match generation.get() {
                1 => 250_000_000,
                2 => 500_000_000,
                // 8 GT/s and its doubles with 128b/130b coding, in 130ths of a byte.
                g @ 3..=5 => {
                    let gts = 8_000_000_000u128 << (g - 3);
                    return (gts * 128 * u128::from(lanes) / (130 * 8)) as u64;
                }
                other => {
                    let message = format!("there is no PCIe generation {other} here");
                    self.wrong(
                        message,
                        generation,
                        "not known",
                        Some(
                            "valid: 1 to 5; later ones send fixed-size units: give `bandwidth`"
                                .to_owned(),
                        ),
                    );
                    1
                }
            };
            return (lane_bytes_per_s * u128::from(lanes)) as u64;
        }
        match &link.bandwidth {
            Some(bandwidth) => {
                let bytes = bandwidth.get().0;
                if !(1_000_000..=1_000_000_000_000).contains(&bytes) {
                    self.wrong(
                        format!(
                            "`link.bandwidth` must be from {} to {}, not {}",
                            Bandwidth(1_000_000),
                            Bandwidth(1_000_000_000_000),
                            bandwidth.get()
                        ),
                        bandwidth,
                        "out of range",
                        None,
                    );
                }
                bytes
            }
            None => {
                self.at(
                    file.link.span(),
                    "the link has no bandwidth".to_owned(),
                    "it belongs here",
                    Some("add `generation = 4` and `lanes = 4`, or `bandwidth = \"…\"`".to_owned()),
                );
                0
            }
        }
    }

    pub(super) fn queues(&mut self, file: &File) -> Queues {
        let queues = &file.queues;
        let arbitration = self.arbitration(queues);
        let protocol = or(&file.link.get().protocol, schema::LinkProtocolName::Pcie);
        let slots = match protocol {
            schema::LinkProtocolName::Pcie | schema::LinkProtocolName::Ethernet => u32::MAX,
            schema::LinkProtocolName::Sata => NCQ_TAGS,
        };
        let mut count = |name, value: &Maybe<u32>, range, default| {
            value.as_ref().map_or(default, |value| self.count(name, value, range))
        };
        Queues {
            fetch_size: count("queues.fetch_size", &queues.fetch_size, 1..=65_536, 512),
            entries: count("queues.entries", &queues.entries, 2..=65_536, 1024),
            arbitration,
            arbitration_burst: count(
                "queues.arbitration_burst",
                &queues.arbitration_burst,
                1..=64,
                1,
            ),
            command_slots: count(
                "queues.command_slots",
                &queues.command_slots,
                1..=slots,
                slots.min(65_536),
            ),
        }
    }

    fn arbitration(&mut self, queues: &schema::Queues) -> Arbitration {
        let weights =
            [&queues.high_weight, &queues.medium_weight, &queues.low_weight].map(Option::as_ref);
        let names = ["high", "medium", "low"].map(|class| format!("queues.{class}_weight"));
        match or(&queues.arbitration, ArbitrationName::RoundRobin) {
            ArbitrationName::RoundRobin => {
                for at in weights.into_iter().flatten() {
                    self.without_effect(
                        at.span(),
                        queues.arbitration.as_ref().map(At::span),
                        "this has no effect: queues take turns whatever their priority",
                        "use it with `arbitration = \"weighted\"`",
                    );
                }
                Arbitration::RoundRobin
            }
            ArbitrationName::Weighted => {
                let mut weight = |class: usize, default: u16| {
                    weights[class]
                        .map_or(default, |at| self.count(&names[class], at, 1..=256) as u16)
                };
                let (high, medium, low) = (weight(0, 4), weight(1, 2), weight(2, 1));
                Arbitration::Weighted(Weights { high, medium, low })
            }
        }
    }

    pub(super) fn firmware(&mut self, firmware: &schema::Firmware) -> Firmware {
        let lowered = Firmware {
            cores: firmware
                .cores
                .as_ref()
                .map_or(1, |cores| self.count("firmware.cores", cores, 1..=1024)),
            read: self.span_or("firmware.read", &firmware.read, Span::ZERO),
            write: self.span_or("firmware.write", &firmware.write, Span::ZERO),
            trim: self.span_or("firmware.trim", &firmware.trim, Span::ZERO),
            flush: self.span_or("firmware.flush", &firmware.flush, Span::ZERO),
        };
        let costs = [
            (lowered.read, &firmware.read),
            (lowered.write, &firmware.write),
            (lowered.trim, &firmware.trim),
            (lowered.flush, &firmware.flush),
        ];
        if let Some(cores) = &firmware.cores
            && costs.iter().all(|(cost, _)| cost.is_zero())
        {
            let latest = costs
                .iter()
                .filter_map(|(_, at)| at.as_ref().map(At::span))
                .max_by_key(|span| span.start);
            self.without_effect(
                cores.span(),
                latest,
                "`firmware.cores` has no effect: no command takes time on a core",
                "give `firmware.read`, `write`, `trim` or `flush`",
            );
        }
        lowered
    }

    pub(super) fn cache(&mut self, file: &File, geometry: &Geometry) -> Option<DataCache> {
        let cache = file.cache.as_ref()?.get();
        let bytes = cache.size.get().0;
        if bytes == 0 {
            self.cache_without_capacity(cache);
            return None;
        }
        let least = u64::from(geometry.planes()) * u64::from(geometry.page_bytes);
        if bytes < least {
            self.wrong(
                format!(
                    "a cache of {} cannot hold one flash page for each plane",
                    cache.size.get()
                ),
                &cache.size,
                "too small",
                Some(format!(
                    "at least {} ({} planes of {} pages), or 0 for none",
                    Bytes(least),
                    geometry.planes(),
                    Bytes(u64::from(geometry.page_bytes))
                )),
            );
        }
        let mode: CacheMode = or(&cache.mode, CacheModeName::Write).into();
        if !mode.writes() {
            self.cache_without_writes(cache);
        }
        let sharing = or(&cache.sharing, CacheSharingName::Shared);
        if let Some(at) = &cache.sharing
            && sharing == CacheSharingName::PerNamespace
            && file.namespace.len() < 2
        {
            self.without_effect(
                at.span(),
                None,
                "`cache.sharing` has no effect: there is one namespace",
                "use `\"per-flow\"`, or describe more namespaces",
            );
        }
        let write_back = self.write_back(cache);
        Some(DataCache {
            bytes,
            mode,
            sharing: sharing.into(),
            power_loss_protection: or(&cache.power_loss_protection, false) && mode.writes(),
            dram: self.dram(cache.dram.as_ref()),
            write_back,
            write_back_max: match write_back {
                WriteBack::Eager if mode.writes() => {
                    cache.write_back_max.as_ref().map(|most| most.get().0)
                }
                _ => None,
            },
        })
    }

    /// Refuses the keys of a cache that there is none of.
    fn cache_without_capacity(&mut self, cache: &schema::Cache) {
        let spans = [
            cache.mode.as_ref().map(At::span),
            cache.sharing.as_ref().map(At::span),
            cache.power_loss_protection.as_ref().map(At::span),
            cache.write_back.as_ref().map(At::span),
            cache.high.as_ref().map(At::span),
            cache.write_back_max.as_ref().map(At::span),
            cache.dram.as_ref().map(At::span),
        ];
        for span in spans.into_iter().flatten() {
            self.without_effect(
                span,
                Some(cache.size.span()),
                "this has no effect: the cache has no capacity",
                "remove it, or give the cache a size",
            );
        }
    }

    /// Refuses the keys about dirty data of a cache that holds only reads.
    fn cache_without_writes(&mut self, cache: &schema::Cache) {
        let pointless = [
            cache.power_loss_protection.as_ref().filter(|at| *at.get()).map(At::span),
            cache.write_back.as_ref().map(At::span),
            cache.high.as_ref().map(At::span),
            cache.write_back_max.as_ref().map(At::span),
        ];
        for span in pointless.into_iter().flatten() {
            self.without_effect(
                span,
                cache.mode.as_ref().map(At::span),
                "this has no effect: the cache holds nothing that is not on flash",
                "use it with `mode = \"write\"` or `\"both\"`",
            );
        }
    }

    /// When dirty data leaves the cache.
    fn write_back(&mut self, cache: &schema::Cache) -> WriteBack {
        match or(&cache.write_back, WriteBackName::Eager) {
            WriteBackName::Eager => {
                if let Some(high) = &cache.high {
                    self.without_effect(
                        high.span(),
                        cache.write_back.as_ref().map(At::span),
                        "`cache.high` has no effect: dirty data leaves at once",
                        "use it with `write_back = \"lru\"`",
                    );
                }
                WriteBack::Eager
            }
            WriteBackName::Lru => {
                if let Some(most) = &cache.write_back_max {
                    self.without_effect(
                        most.span(),
                        cache.write_back.as_ref().map(At::span),
                        "`cache.write_back_max` has no effect: dirty data stays in the cache",
                        "use it with `write_back = \"eager\"`",
                    );
                }
                let high = or(&cache.high, Fraction(0.8)).0;
                if high <= 0.0
                    && let Some(at) = &cache.high
                {
                    self.wrong("`cache.high` must be more than 0", at, "out of range", None);
                }
                WriteBack::Lru { high }
            }
        }
    }

    fn dram(&mut self, dram: Option<&At<schema::Dram>>) -> Dram {
        let ns13 = Span::from_ns(13);
        let mut lowered = Dram {
            row_bytes: 8192,
            width_bytes: 4,
            rate_mts: 1600,
            burst_length: 8,
            t_rcd: ns13,
            t_cl: ns13,
            t_rp: ns13,
            rows: RowPolicy::Closed,
            traffic: DramTraffic::Host,
        };
        let Some(dram) = dram.map(At::get) else { return lowered };
        if let Some(width) = &dram.width_bits {
            let bits = *width.get();
            if bits == 0 || !bits.is_multiple_of(8) || bits > 4096 {
                self.wrong(
                    format!(
                        "`cache.dram.width_bits` must be a multiple of 8 up to 4096, not {bits}"
                    ),
                    width,
                    "no such bus",
                    None,
                );
            }
            lowered.width_bytes = (bits / 8).max(1);
        }
        if let Some(rate) = &dram.rate {
            if !(1..=100_000).contains(&rate.get().0) {
                self.wrong(
                    format!(
                        "`cache.dram.rate` must be from 1MT/s to 100000MT/s, not {}",
                        rate.get()
                    ),
                    rate,
                    "out of range",
                    None,
                );
            }
            lowered.rate_mts = rate.get().0;
        }
        if let Some(row) = &dram.row {
            lowered.row_bytes = self.small("cache.dram.row", row);
            if lowered.row_bytes < lowered.width_bytes {
                self.wrong(
                    format!("a DRAM row of {} is narrower than one transfer", row.get()),
                    row,
                    "too small",
                    None,
                );
            }
        }
        if let Some(length) = &dram.burst_length {
            lowered.burst_length = self.count("cache.dram.burst_length", length, 1..=64);
        }
        match or(&dram.rows, RowsName::Closed) {
            RowsName::Open => {
                let count = |banks| self.count("cache.dram.banks", banks, 1..=1024);
                lowered.rows = RowPolicy::Open { banks: dram.banks.as_ref().map_or(8, count) };
            }
            RowsName::Closed => {
                if let Some(banks) = &dram.banks {
                    self.without_effect(
                        banks.span(),
                        dram.rows.as_ref().map(At::span),
                        "`cache.dram.banks` has no effect: no row stays open",
                        "use it with `rows = \"open\"`",
                    );
                }
            }
        }
        lowered.traffic = or(&dram.traffic, TrafficName::Host).into();
        lowered.t_rcd = self.span_or("cache.dram.t_rcd", &dram.t_rcd, ns13);
        lowered.t_cl = self.span_or("cache.dram.t_cl", &dram.t_cl, ns13);
        lowered.t_rp = self.span_or("cache.dram.t_rp", &dram.t_rp, ns13);
        lowered
    }
}
