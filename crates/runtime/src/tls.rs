//! TLS 1.3 with pre-shared keys for NVMe/TCP connections (TCP Transport 1.0, section 3.6.1).
//!
//! Encryption happens in a thread of its own, the [`Carrier`]: it makes the handshakes, and
//! then carries bytes between each encrypted connection and a local socket, which the engine
//! or a host uses as it uses any other. So neither a handshake nor the encryption of one
//! connection keeps others waiting.
//!
//! What it does not do: keys for SHA-384 (the safe OpenSSL interface takes keys for
//! TLS_AES_128_GCM_SHA256 only), certificates, early data.

mod carrier;
mod pipe;
#[cfg(test)]
mod tests;

pub use carrier::{Carrier, Established};

use mynah_wire::authentication::Hash;
use mynah_wire::fabrics::DISCOVERY_NQN;
use mynah_wire::tls_key::{Identity, IdentityVersion, TlsKey, TlsPsk};
use openssl::error::ErrorStack;
use openssl::ex_data::Index;
use openssl::ssl::{
    Ssl, SslContext, SslContextBuilder, SslMethod, SslMode, SslOptions, SslVersion,
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
    /// The key is for another cipher suite.
    #[error("TLS keys of 48 bytes (for SHA-384) are not supported; use one of 32 bytes (01)")]
    Sha384,
}

/// The keys of a subsystem's hosts.
#[derive(Clone, Debug)]
pub struct HostKeys {
    subsystem_nqn: String,
    keys: Vec<(Option<String>, TlsKey)>,
}

impl HostKeys {
    /// Keys of hosts by NQN; a key without one is any host's.
    ///
    /// # Errors
    /// If a key is for SHA-384.
    pub fn new(
        subsystem_nqn: &str,
        keys: Vec<(Option<String>, TlsKey)>,
    ) -> Result<HostKeys, TlsError> {
        let strong =
            |(_, key): &(_, TlsKey)| key.psk(IdentityVersion::Zero, "", "").hash != Hash::Sha256;
        if keys.iter().any(strong) {
            return Err(TlsError::Sha384);
        }
        Ok(HostKeys { subsystem_nqn: subsystem_nqn.to_owned(), keys })
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

fn builder() -> Result<SslContextBuilder, ErrorStack> {
    let mut builder = SslContext::builder(SslMethod::tls())?;
    builder.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    builder.set_max_proto_version(Some(SslVersion::TLS1_3))?;
    builder.set_ciphersuites("TLS_AES_128_GCM_SHA256")?;
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

/// Fills in OpenSSL's buffer; 0 if it does not fit.
fn put(bytes: &[u8], into: &mut [u8]) -> usize {
    match into.get_mut(..bytes.len()) {
        Some(place) => {
            place.copy_from_slice(bytes);
            bytes.len()
        }
        None => 0,
    }
}

/// Makes the controllers' ends of connections.
#[derive(Clone)]
pub struct Acceptor {
    context: SslContext,
    host: Index<Ssl, String>,
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

impl Acceptor {
    /// For hosts with these keys.
    ///
    /// # Errors
    /// If OpenSSL refuses.
    pub fn new(keys: HostKeys) -> Result<Acceptor, TlsError> {
        let host = Ssl::new_ex_index()?;
        let mut builder = builder()?;
        builder.set_psk_server_callback(move |ssl, identity, into| {
            let Some((psk, host_nqn)) = identity.and_then(|identity| keys.find(identity)) else {
                return Ok(0);
            };
            ssl.set_ex_data(host, host_nqn);
            Ok(put(&psk.key, into))
        });
        Ok(Acceptor { context: builder.build(), host })
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
    /// If the key is for SHA-384, or OpenSSL refuses.
    pub fn new(psk: TlsPsk) -> Result<Connector, TlsError> {
        if psk.hash != Hash::Sha256 {
            return Err(TlsError::Sha384);
        }
        let mut builder = builder()?;
        builder.set_psk_client_callback(move |_, _, identity, into| {
            // The identity is a C string.
            let text = [psk.identity.as_bytes(), &[0]].concat();
            Ok(if put(&text, identity) == 0 { 0 } else { put(&psk.key, into) })
        });
        // Only the key proves who the peer is: without it there is no certificate either.
        builder.set_verify(openssl::ssl::SslVerifyMode::PEER);
        Ok(Connector { context: builder.build() })
    }
}
