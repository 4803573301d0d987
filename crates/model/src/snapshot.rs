//! All of a drive as it is at one moment, what is under way included, for a drive of the same configuration
//! to go on from: exactly as this one would. A saved state (`state.rs`) is what outlives a quiet moment
//! and is read by later versions; a snapshot belongs to the build that has made it.

use crate::config::Config;
use crate::drive::{Drive, Policies};
use crate::policy::BuiltIn;
use crate::space::Shape;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A drive's snapshot, to be serialized.
pub struct Snapshot<'a, P: Policies = BuiltIn>(&'a Drive<P>);

/// What a snapshot consists of, in this order.
macro_rules! parts {
    ($($part:ident: $of:ty,)*) => {
        #[derive(Deserialize)]
        struct Parts { $($part: $of,)* }

        impl<P: Policies> Serialize for Snapshot<'_, P> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                #[derive(Serialize)]
                struct Parts<'a> { $($part: &'a $of,)* }
                Parts { $($part: &self.0.$part,)* }.serialize(to)
            }
        }

        impl Parts {
            fn of(self, config: Config, shape: Shape) -> Drive {
                Drive { config, shape, policies: BuiltIn, $($part: self.$part,)* }
            }
        }
    };
}

parts! {
    kernel: crate::kernel::Kernel,
    host: crate::host::Host,
    cache: Option<crate::cache::Cache>,
    ftl: crate::ftl::Ftl,
    flash: crate::flash::Flash,
}

impl<P: Policies> Drive<P> {
    /// A snapshot of the drive; `None` if it has namespaces of pairs, whose indices have none, or
    /// policies of others, of which nothing says what they know.
    pub fn snapshot(&self) -> Option<Snapshot<'_, P>> {
        let whole = self.ftl.pairs().is_none() && self.policies.identity().is_none();
        whole.then_some(Snapshot(self))
    }
}

impl Drive {
    /// The drive of `config` that a snapshot was made of. Whoever keeps snapshots sees to it that the
    /// configuration and the build are those of the drive, and that its bytes are whole.
    ///
    /// # Errors
    /// If the snapshot ends too early, or says what cannot be.
    pub fn from_snapshot<'de, D: Deserializer<'de>>(
        config: Config,
        snapshot: D,
    ) -> Result<Drive, D::Error> {
        let shape = Shape::new(&config);
        Ok(Parts::deserialize(snapshot)?.of(config, shape))
    }
}
