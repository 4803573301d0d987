//! The section `[bus]`: between controller and chips.

use super::declare::{Need, section};
use super::value::Width;
use super::{BusArbitrationName, Protocol, RoundingName};
use crate::at::{At, Maybe};
use crate::check::{Check, or};
use crate::units::{Duration, TransferRate};
use mynah_model::config::{self, BusCycles, BusRounding};

static SPARE: Need = Need {
    holds: |config| config.geometry.page_spare_bytes > 0,
    cause: |file| file.geometry.get().page_spare.as_ref().map(At::span),
    why: "pages have no spare bytes",
    help: "give `geometry.page_spare`",
};

section! {
    /// The bus between controller and chips.
    Bus => config::Bus, shapes Paced {
        /// The data interface; it bounds the rate.
        protocol: Maybe<Protocol> = "toggle";
        /// Width of the data bus in bits, 8 or 16.
        width_bits: Maybe<Width> = "8", is width_bytes;
        /// Millions of transfers a second: from 200 to 533 (NV-DDR2), 1600 (NV-DDR3) or 4800
        /// (Toggle, NV-LPDDR4).
        rate: At<TransferRate>, is rate_mts;
        /// How transfer times are computed. `truncated-ns` is MQSim's bus: of a page that a host has
        /// written in part, it carries that part.
        rounding: Maybe<RoundingName> = "exact", is rounding;
        /// Whether a transfer carries the page's spare bytes in proportion to its data.
        transfer_spare: Maybe<bool> = "false", when SPARE if |it| *it, is transfer_spare;
        /// Who gets the channel when several want it.
        arbitration: Maybe<BusArbitrationName> = "command-first", is arbitration;
        /// Command and address cycles. Default: NV-DDR2 as MQSim computes it.
        #[serde(default)]
        cycles: Cycles, inner |bus, _| Some(&bus.cycles);
    }
    with |bus, check, file| { cycles: bus.cycles.lower(check, file) }
}

section! {
    /// Command and address cycle times, named as in ONFI.
    #[derive(Default)]
    Cycles => BusCycles, shapes Paced {
        /// CE# setup.
        t_cs: Maybe<Duration> = "20ns", is t_cs;
        /// WE# cycle: one command or address byte.
        t_wc: Maybe<Duration> = "25ns", is t_wc;
        /// WE# high to busy.
        t_wb: Maybe<Duration> = "100ns", is t_wb;
        /// Ready to first data.
        t_rr: Maybe<Duration> = "20ns", is t_rr;
        /// Address cycle to data loading.
        t_adl: Maybe<Duration> = "70ns", is t_adl;
        /// Dummy busy time between the planes of a multi-plane command.
        t_dbsy: Maybe<Duration> = "500ns", is t_dbsy;
        /// ALE and CLE setup.
        t_cals: Maybe<Duration> = "15ns", is t_cals;
        /// DQS write postamble.
        t_wpst: Maybe<Duration> = "6ns", is t_wpst;
        /// DQS write postamble hold.
        t_wpsth: Maybe<Duration> = "15ns", is t_wpsth;
    }
    with |cycles, check, _file| {}
}

impl Bus {
    /// Notes what no bus is.
    pub(crate) fn check(&self, check: &mut Check<'_>) {
        let protocol = self.protocol(check);
        let highest = match protocol {
            Protocol::NvDdr2 => 533,
            Protocol::NvDdr3 => 1600,
            Protocol::Toggle => 4800,
        };
        let rate = *self.rate.get();
        if !(200..=highest).contains(&rate.0) {
            let faster = match protocol {
                Protocol::NvDdr2 if rate.0 > 533 && rate.0 <= 1600 => "nv-ddr3",
                Protocol::NvDdr2 | Protocol::NvDdr3 if rate.0 > 533 && rate.0 <= 4800 => "toggle",
                _ => "",
            };
            let help =
                (!faster.is_empty()).then(|| format!("`protocol = \"{faster}\"` reaches {rate}"));
            let (least, most) = (TransferRate(200), TransferRate(highest));
            let name = match protocol {
                Protocol::NvDdr2 => "NV-DDR2",
                Protocol::NvDdr3 => "NV-DDR3",
                Protocol::Toggle => "Toggle DDR",
            };
            check.wrong(
                format!("`bus.rate` must be from {least} to {most} with {name}, not {rate}"),
                &self.rate,
                "out of range",
                help,
            );
        }
        let rounding: BusRounding = self.rounding(check);
        if rounding == BusRounding::TruncatedNs && rate.0 > 1000 {
            check.at(
                self.rounding.as_ref().map_or(self.rate.span(), At::span),
                format!("at {rate}, times truncated to whole nanoseconds would all be 0"),
                "makes transfers free",
                Some("use `rounding = \"exact\"`, or at most 1000MT/s".to_owned()),
            );
        }
        let Width(bits) = or(&self.width_bits, Width(8));
        if let Some(width) = self.width_bits.as_ref().filter(|_| ![8, 16].contains(&bits)) {
            let message = format!("`bus.width_bits` must be 8 or 16, not {bits}");
            check.wrong(message, width, "no such bus", None);
        }
    }
}
