//! A drive that is quickly prepared and comes to rest soon.

use mynah_lab::simulation::Simulation;

pub(crate) const DRIVE: &str = "enterprise-tlc";

/// What makes it small.
pub(crate) fn changes() -> [String; 3] {
    ["geometry.pages_per_block=96", "geometry.blocks_per_plane=48", "over_provisioning=20%"]
        .map(String::from)
}

/// A simulation of it, without flows.
pub(crate) fn simulation() -> Simulation {
    Simulation::on_changed(DRIVE, &changes()).unwrap()
}
