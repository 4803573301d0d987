//! Policies that were not the drive's own, as results say them.

use mynah_model::policy::Identity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Policies that decided in the drive's stead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnPolicies {
    /// What they are called.
    pub name: String,
    /// A hash of their name, of what they replace and of the text that they are known by: 16
    /// hexadecimal digits.
    pub hash: String,
    /// What they decided: `victims`, `placement`, `heat`, `admission`, `scheduling`.
    pub replaced: Vec<String>,
}

impl From<Identity> for OwnPolicies {
    fn from(identity: Identity) -> OwnPolicies {
        let Identity { name, hash, replaced } = identity;
        let replaced = replaced.into_iter().map(str::to_owned).collect();
        OwnPolicies { name, hash: format!("{hash:016x}"), replaced }
    }
}
