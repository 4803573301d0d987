//! What preconditioning has made of one drive, for others that it would make the same of.
//!
//! Preconditioning takes no time, and changes nothing but what the translation layer knows. That does not
//! depend on most of what says how long something takes; on what it does depend, the declarations of drive
//! files' keys say (`mynah_drive_file::prepared_as`).

use crate::drive::{Drive, Policies};
use crate::ftl::Ftl;
use mynah_stamp::Time;
use serde::{Deserialize, Serialize, Serializer};

/// A state that drives which would be prepared alike may take over. It is deserialized from a
/// [`PreparedSnapshot`] by the build that has made it.
#[derive(Deserialize)]
pub struct Prepared(Ftl);

/// The state of a drive, to be serialized as a [`Prepared`].
pub struct PreparedSnapshot<'a>(&'a Ftl);

impl Serialize for PreparedSnapshot<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_newtype_struct("Prepared", self.0)
    }
}

impl Prepared {
    /// A copy for another drive.
    pub fn copied(&self) -> Option<Prepared> {
        self.0.copied().map(Prepared)
    }
}

impl<P: Policies> Drive<P> {
    /// What preconditioning has made of this drive, which has not been used since.
    ///
    /// `None` if it has, or has namespaces of pairs, which know more.
    pub fn prepared(&self) -> Option<PreparedSnapshot<'_>> {
        (self.is_unused() && self.ftl.pairs().is_none()).then_some(PreparedSnapshot(&self.ftl))
    }

    pub(super) fn is_unused(&self) -> bool {
        self.kernel.now == Time::ZERO
            && self.kernel.observe.counted().commands == 0
            && self.host.commands_inside() == 0
    }

    /// Makes this drive, which is new, what the one was that `prepared` was taken of; whether it could. If
    /// not, nothing has changed. Who asks has to know that both would be prepared alike.
    pub fn take_prepared(&mut self, prepared: Prepared) -> bool {
        if !self.is_unused() {
            return false;
        }
        self.ftl = prepared.0;
        self.restart_counters();
        true
    }
}

impl PreparedSnapshot<'_> {
    /// A copy that other drives may take over.
    pub fn copied(&self) -> Option<Prepared> {
        self.0.copied().map(Prepared)
    }
}
