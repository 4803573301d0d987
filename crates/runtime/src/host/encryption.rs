//! Encrypted connections of a host.

use super::HostError;
use super::admin::Identity;
use crate::tls::{Carrier, Connector};
use mynah_wire::tls_key::{IdentityVersion, TlsKey};
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The key of a host's connections, and the thread that encrypts them. Clones share it.
#[derive(Clone, Debug)]
pub struct Encryption {
    key: TlsKey,
    carrier: Arc<Carrier>,
}

impl Encryption {
    /// Starts the thread.
    ///
    /// # Errors
    /// If there can be none.
    pub fn new(key: TlsKey) -> io::Result<Encryption> {
        Ok(Encryption { key, carrier: Arc::new(Carrier::start()?) })
    }

    /// Makes the handshake on a connected stream.
    pub(super) fn encrypt(
        &self,
        stream: TcpStream,
        identity: &Identity,
    ) -> Result<UnixStream, HostError> {
        let psk = self.key.psk(IdentityVersion::One, &identity.host_nqn, &identity.subsystem_nqn);
        Ok(self.carrier.connect(stream, &Connector::new(psk)?)?.into())
    }
}
