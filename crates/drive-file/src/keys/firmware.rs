//! The section `[firmware]`: the controller's processors.

use super::declare::{Need, section};
use crate::at::{At, Maybe};
use crate::units::Duration;
use mynah_model::config;

static COSTS: Need = Need {
    holds: |config| {
        let firmware = &config.firmware;
        let costs = [firmware.read, firmware.write, firmware.trim, firmware.flush];
        costs.iter().any(|cost| !cost.is_zero())
    },
    cause: |file| {
        let Firmware { read, write, trim, flush, .. } = &file.firmware;
        let costs = [read, write, trim, flush];
        costs.into_iter().flatten().map(At::span).max_by_key(|span| span.start)
    },
    why: "no command takes time on a core",
    help: "give `firmware.read`, `write`, `trim` or `flush`",
};

section! {
    /// The controller's processors.
    #[derive(Default)]
    Firmware => config::Firmware, shapes Never {
        /// Cores; each runs one command at a time.
        cores: Maybe<u32> = "1", in "1" to "1024", when COSTS, is cores;
        /// Time on a core for a read command.
        read: Maybe<Duration> = "0", is read;
        /// Time on a core for a write command.
        write: Maybe<Duration> = "0", is write;
        /// Time on a core for a TRIM command.
        trim: Maybe<Duration> = "0", is trim;
        /// Time on a core for a flush command.
        flush: Maybe<Duration> = "0", is flush;
    }
    with |firmware, check, _file| {}
}
