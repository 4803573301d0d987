//! The answers to challenges (Base 2.0, sections 8.13.5.4 and 8.13.5.5).

use super::{Parties, Secret};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A hash function (Base 2.0, figure 443).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hash {
    Sha256 = 1,
    Sha384 = 2,
    Sha512 = 3,
}

impl Hash {
    pub const ALL: [Hash; 3] = [Hash::Sha256, Hash::Sha384, Hash::Sha512];

    pub fn from_id(id: u8) -> Option<Hash> {
        Hash::ALL.into_iter().find(|&hash| hash as u8 == id)
    }

    pub fn name(self) -> &'static str {
        match self {
            Hash::Sha256 => "sha256",
            Hash::Sha384 => "sha384",
            Hash::Sha512 => "sha512",
        }
    }

    /// Bytes of a digest.
    pub fn bytes(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    fn digest(self, data: &[u8]) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(match self {
            Hash::Sha256 => Sha256::digest(data).to_vec(),
            Hash::Sha384 => Sha384::digest(data).to_vec(),
            Hash::Sha512 => Sha512::digest(data).to_vec(),
        })
    }

    /// HMAC of several parts, one behind the other.
    pub(crate) fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        fn with<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
            // HMAC takes keys of any length.
            let mut mac = <M as KeyInit>::new_from_slice(key).expect("any length");
            parts.iter().for_each(|part| mac.update(part));
            Zeroizing::new(mac.finalize().into_bytes().to_vec())
        }
        match self {
            Hash::Sha256 => with::<Hmac<Sha256>>(key, parts),
            Hash::Sha384 => with::<Hmac<Sha384>>(key, parts),
            Hash::Sha512 => with::<Hmac<Sha512>>(key, parts),
        }
    }
}

impl std::str::FromStr for Hash {
    type Err = String;

    fn from_str(text: &str) -> Result<Hash, String> {
        Hash::ALL.into_iter().find(|hash| hash.name() == text).ok_or_else(|| {
            let names: Vec<_> = Hash::ALL.map(Hash::name).into();
            format!("`{text}` is not a hash function; there are {}", names.join(", "))
        })
    }
}

/// The end that answers a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Host,
    Controller,
}

/// A challenge, and what its answer depends on besides the secret.
pub(super) struct Question<'a> {
    pub(super) hash: Hash,
    pub(super) challenge: &'a [u8],
    pub(super) sequence: u32,
    pub(super) transaction: u16,
    /// The Diffie-Hellman secret, unless the group is null.
    pub(super) shared: Option<&'a [u8]>,
}

impl Question<'_> {
    fn answer(&self, role: Role, secret: &Secret, parties: &Parties) -> Zeroizing<Vec<u8>> {
        let (host, subsystem) = (parties.host_nqn.as_str(), parties.subsystem_nqn.as_str());
        let (label, first, second) = match role {
            Role::Host => ("HostHost", host, subsystem),
            Role::Controller => ("Controller", subsystem, host),
        };
        let augmented = self.shared.map(|shared| {
            let session_key = self.hash.digest(shared);
            self.hash.hmac(&session_key, &[self.challenge])
        });
        let challenge = augmented.as_ref().map_or(self.challenge, |bytes| bytes);
        let key = secret.transformed(first);
        self.hash.hmac(
            &key,
            &[
                challenge,
                &self.sequence.to_le_bytes(),
                &self.transaction.to_le_bytes(),
                // No secure channel concatenation.
                &[0],
                label.as_bytes(),
                first.as_bytes(),
                &[0],
                second.as_bytes(),
            ],
        )
    }

    /// The response that the host has to give.
    pub(super) fn host(&self, parties: &Parties) -> Zeroizing<Vec<u8>> {
        self.answer(Role::Host, &parties.host_secret, parties)
    }

    /// The controller's answer; `None` if nobody gave it a secret.
    pub(super) fn controller(&self, parties: &Parties) -> Option<Zeroizing<Vec<u8>>> {
        let secret = parties.controller_secret.as_ref()?;
        Some(self.answer(Role::Controller, secret, parties))
    }
}

/// Compares two responses in constant time.
pub(super) fn same(ours: &[u8], theirs: &[u8]) -> bool {
    ours.ct_eq(theirs).into()
}
