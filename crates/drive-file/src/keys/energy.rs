//! The section `[energy]`: what operations cost in energy.

use super::declare::section;
use crate::at::{At, Maybe};
use crate::units::{Energy, Power};
use mynah_model::config;

section! {
    /// What operations cost in energy.
    EnergyCosts => config::Energy, shapes Never {
        /// Array read of a page.
        read: At<Energy>, in "0J" to "1J", is read_nj;
        /// Program of a page.
        program: At<Energy>, in "0J" to "1J", is program_nj;
        /// Erase of a block.
        erase: At<Energy>, in "0J" to "1J", is erase_nj;
        /// A channel while it carries commands or data.
        channel: Maybe<Power> = "0W", in "0W" to "1000000W", is channel_mw;
        /// The drive at all times.
        idle: Maybe<Power> = "0W", in "0W" to "1000000W", is idle_mw;
    }
    with |costs, check, _file| {}
}
