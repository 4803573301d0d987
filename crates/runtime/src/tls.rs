//! TLS 1.3 with pre-shared keys for NVMe/TCP connections (TCP Transport 1.0, section 3.6.1).
//!
//! Encryption happens in a thread of its own, the [`Carrier`]: it makes the handshakes, and
//! then carries bytes between each encrypted connection and a local socket, which the engine
//! or a host uses as it uses any other. So neither a handshake nor the encryption of one
//! connection keeps others waiting.
//!
//! What it does not do: certificates, early data, keys made by an authentication.

mod carrier;
mod external_key;
mod pipe;
#[cfg(test)]
mod tests;

pub use carrier::{Carrier, Established, Event};

use mynah_wire::authentication::Hash;
use mynah_wire::fabrics::DISCOVERY_NQN;
use mynah_wire::tls_key::{Identity, IdentityVersion, TlsKey, TlsPsk};
use openssl::error::ErrorStack;
use openssl::ssl::{
    SslContext, SslContextBuilder, SslMethod, SslMode, SslOptions, SslVerifyMode, SslVersion,
};
use subtle::ConstantTimeEq;

/// Why there is no encrypted connection.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// OpenSSL refuses something.
    #[error("TLS: {0}")]
    OpenSsl(#[from] ErrorStack),
    /// The handshake failed.
    #[error("the TLS handshake failed: {0}")]
    Handshake(String),
    /// The operating system refuses something.
    #[error("{0}")]
    System(#[from] std::io::Error),
    /// Keys for both cipher suites.
    #[error("the TLS keys of a subsystem must all be of 32 bytes (SHA-256) or all of 48 (SHA-384)")]
    Mixed,
    /// No key.
    #[error("there is no TLS key")]
    NoKey,
}

/// The keys of a subsystem's hosts.
#[derive(Clone, Debug)]
pub struct HostKeys {
    subsystem_nqn: String,
    keys: Vec<(Option<String>, TlsKey)>,
    hash: Hash,
}

impl HostKeys {
    /// Keys of hosts by NQN; a key without one is any other host's. All are for one cipher
    /// suite: it is chosen before the key is known.
    ///
    /// # Errors
    /// If they are not, or if there is none.
    pub fn new(
        subsystem_nqn: &str,
        keys: Vec<(Option<String>, TlsKey)>,
    ) -> Result<HostKeys, TlsError> {
        let mut hashes = keys.iter().map(|(_, key)| key.psk(IdentityVersion::Zero, "", "").hash);
        let hash = hashes.next().ok_or(TlsError::NoKey)?;
        if hashes.any(|other| other != hash) {
            return Err(TlsError::Mixed);
        }
        Ok(HostKeys { subsystem_nqn: subsystem_nqn.to_owned(), keys, hash })
    }

    /// The key that an identity names, and the host it belongs to.
    fn find(&self, identity: &[u8]) -> Option<(TlsPsk, String)> {
        let identity = std::str::from_utf8(identity).ok()?;
        let parts = Identity::parse(identity)?;
        if parts.subsystem_nqn != self.subsystem_nqn && parts.subsystem_nqn != DISCOVERY_NQN {
            return None;
        }
        let own = |(host, _): &&(Option<String>, TlsKey)| host.as_deref() == Some(parts.host_nqn);
        let (_, key) = self
            .keys
            .iter()
            .find(own)
            .or_else(|| self.keys.iter().find(|(host, _)| host.is_none()))?;
        let psk = key.psk(parts.version, parts.host_nqn, parts.subsystem_nqn);
        // The digest in the identity is made from the key.
        let same: bool = psk.identity.as_bytes().ct_eq(identity.as_bytes()).into();
        same.then(|| (psk, parts.host_nqn.to_owned()))
    }
}

fn builder(hash: Hash) -> Result<SslContextBuilder, ErrorStack> {
    let mut builder = SslContext::builder(SslMethod::tls())?;
    builder.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    builder.set_max_proto_version(Some(SslVersion::TLS1_3))?;
    builder.set_ciphersuites(match hash {
        Hash::Sha384 => "TLS_AES_256_GCM_SHA384",
        _ => "TLS_AES_128_GCM_SHA256",
    })?;
    builder.set_mode(
        SslMode::ENABLE_PARTIAL_WRITE
            | SslMode::ACCEPT_MOVING_WRITE_BUFFER
            | SslMode::RELEASE_BUFFERS,
    );
    builder.set_options(SslOptions::NO_TICKET | SslOptions::NO_RENEGOTIATION);
    // Tickets would resume a connection without the key.
    builder.set_num_tickets(0)?;
    Ok(builder)
}

/// Makes the controllers' ends of connections.
#[derive(Clone, Debug)]
pub struct Acceptor {
    context: SslContext,
}

impl Acceptor {
    /// For hosts with these keys.
    ///
    /// # Errors
    /// If OpenSSL refuses.
    pub fn new(keys: HostKeys) -> Result<Acceptor, TlsError> {
        let mut builder = builder(keys.hash)?;
        external_key::accept_with(&mut builder, Box::new(move |identity| keys.find(identity)))?;
        Ok(Acceptor { context: builder.build() })
    }
}

/// Makes hosts' ends of connections.
#[derive(Clone, Debug)]
pub struct Connector {
    context: SslContext,
}

impl Connector {
    /// With this key.
    ///
    /// # Errors
    /// If OpenSSL refuses.
    pub fn new(psk: TlsPsk) -> Result<Connector, TlsError> {
        let mut builder = builder(psk.hash)?;
        external_key::connect_with(&mut builder, psk)?;
        // Only the key proves who the peer is: a certificate would be in vain.
        builder.set_verify(SslVerifyMode::PEER);
        Ok(Connector { context: builder.build() })
    }
}
