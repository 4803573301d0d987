//! Where clients come in.

use crate::local_socket::{ListenError, LocalListener};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

/// Where a drive is exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NbdAddress {
    /// At an address, port 0 for a free one.
    Tcp(SocketAddr),
    /// At a socket in the file system.
    Local(PathBuf),
}

impl fmt::Display for NbdAddress {
    /// As the URI that clients take (NBD's `doc/uri.md`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NbdAddress::Tcp(address) => write!(f, "nbd://{address}"),
            NbdAddress::Local(path) => write!(f, "nbd+unix:///?socket={}", path.display()),
        }
    }
}

/// Why a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum NbdListenError {
    /// On a TCP address.
    #[error("cannot listen on {0}: {1}")]
    Tcp(SocketAddr, io::Error),
    /// On a socket in the file system.
    #[error("cannot listen: {0}")]
    Local(#[from] ListenError),
}

/// An address at which clients come in.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    /// On a socket in the file system.
    Local(LocalListener),
}

impl Listener {
    /// Listens at all of these addresses.
    ///
    /// # Errors
    /// See [`NbdListenError`].
    pub fn all(addresses: &[NbdAddress]) -> Result<Vec<(Listener, NbdAddress)>, NbdListenError> {
        addresses.iter().map(Listener::new).collect()
    }

    /// Listens; says where, too.
    ///
    /// # Errors
    /// See [`NbdListenError`].
    pub fn new(address: &NbdAddress) -> Result<(Listener, NbdAddress), NbdListenError> {
        match address {
            NbdAddress::Tcp(address) => {
                let fail = |error| NbdListenError::Tcp(*address, error);
                let listener = TcpListener::bind(address).map_err(fail)?;
                let address = listener.local_addr().map_err(fail)?;
                Ok((Listener::Tcp(listener), NbdAddress::Tcp(address)))
            }
            NbdAddress::Local(path) => {
                let listener = LocalListener::new(path.clone())?;
                Ok((Listener::Local(listener), NbdAddress::Local(path.clone())))
            }
        }
    }
}
