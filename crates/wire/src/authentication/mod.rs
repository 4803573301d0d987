//! In-band authentication: DH-HMAC-CHAP (Base 2.0, section 8.13.5).
//!
//! The machines of both ends take messages and give messages; whoever owns the transport moves
//! them with Authentication Send and Receive commands. Random bytes are passed in. Modular
//! exponentiation takes milliseconds, so a machine does not do it itself: it hands out a
//! [`Job`], which may run on any thread, and goes on when it gets the job's result.
//!
//! What it does not do: secure channel concatenation (a TLS key made by the authentication).

mod group;
mod host;
mod message;
mod response;
mod secret;
mod target;
#[cfg(test)]
mod tests;

pub use group::{Exponentials, Group, Job};
pub use host::{Host, HostStep};
pub use message::{Challenge, Failure, Malformed, Message, Negotiate, Reply, Success1};
pub use response::Hash;
pub use secret::{Secret, SecretError};
pub use target::{Target, TargetStep};

/// Security protocol of NVMe-oF authentication (SECP).
pub const SECURITY_PROTOCOL: u8 = 0xe9;
/// Security protocol specific field of authentication messages (SPSP0 and SPSP1).
pub const SECURITY_PROTOCOL_SPECIFIC: u16 = 0x0101;
/// Enough for any message that either end sends.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// Sequence numbers of challenges: never zero, never the same twice in a row (Base 2.0,
/// section 8.13.5.3). Those of one subsystem or one host share a counter.
#[derive(Clone, Debug)]
pub struct SequenceNumbers(u32);

impl SequenceNumbers {
    /// Numbers from a random start.
    pub fn new(start: u32) -> SequenceNumbers {
        SequenceNumbers(start)
    }

    pub fn draw(&mut self) -> u32 {
        self.0 = self.0.checked_add(1).unwrap_or(1);
        self.0
    }
}

/// Which hash functions and groups may be used, the preferred ones first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    pub hashes: Vec<Hash>,
    pub groups: Vec<Group>,
}

impl Default for Choices {
    /// All hash functions, and the groups from 2,048 to 4,096 bits. One of 128-bit strength comes
    /// first. Larger ones cost more time than they give safety, which is the other end's to spend,
    /// and the null group gives none: both only for who asks for them.
    fn default() -> Choices {
        Choices {
            hashes: vec![Hash::Sha512, Hash::Sha384, Hash::Sha256],
            groups: vec![Group::Ffdhe3072, Group::Ffdhe4096, Group::Ffdhe2048],
        }
    }
}

/// Who is at the two ends, and what they know.
#[derive(Clone, Debug)]
pub struct Parties {
    pub host_nqn: String,
    pub subsystem_nqn: String,
    /// The host's secret: it proves who the host is.
    pub host_secret: Secret,
    /// The subsystem's secret, for authentication in both directions.
    pub controller_secret: Option<Secret>,
}
