//! Which plane a write goes to, where its address does not say it.

use super::BuiltIn;

/// Which plane a write goes to, on a drive whose configuration leaves it open
/// ([`Placement`](crate::config::Placement) other than `Static`). Collection moves data within their
/// plane whatever this says.
pub trait WritePlacement {
    /// Whether this is not the drive's own.
    #[doc(hidden)]
    const OWN: bool = true;

    /// The plane of the next page's worth of units, as its place among `planes`.
    ///
    /// # Errors
    /// A sentence that says why it cannot choose. The run ends with it.
    fn choose(&mut self, planes: &impl Planes) -> Result<usize, String>;
}

/// The planes that a namespace may use, in its order.
pub trait Planes {
    /// How many there are, 1 or more.
    fn count(&self) -> usize;

    /// The one that was chosen last for the same namespace, or reclaim unit handle.
    fn last(&self) -> usize;

    /// Whether it takes data: its die works, and it can win blocks back.
    fn takes_data(&self, plane: usize) -> bool;

    /// Whether it can take a page more and still collect garbage.
    fn has_room(&self, plane: usize) -> bool;

    /// Units that it holds, or that wait to be programmed in it.
    fn held(&self, plane: usize) -> u32;

    /// Units of hosts that wait to be programmed in it.
    fn waiting(&self, plane: usize) -> u32;

    /// Whether nothing goes on in its die.
    fn is_idle(&self, plane: usize) -> bool;

    fn units_per_page(&self) -> u32;

    /// What the drive would choose by itself.
    fn configured(&self) -> usize;
}

impl WritePlacement for BuiltIn {
    const OWN: bool = false;

    #[inline(always)]
    fn choose(&mut self, planes: &impl Planes) -> Result<usize, String> {
        Ok(planes.configured())
    }
}
