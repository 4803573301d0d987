//! TCP flows that fill a link toward its far end: what iperf3's clients do in the paper of ntprof (section
//! 4.4).

use super::{LinkError, PrivateLink, within};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Bytes that a flow writes at once.
const PIECE: usize = 128 << 10;

/// Flows, until they are dropped.
#[derive(Debug)]
pub struct BulkFlows {
    near: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
    delivered: Arc<AtomicU64>,
}

impl BulkFlows {
    /// Begins so many, from this end to the far one.
    ///
    /// # Errors
    /// If there are no sockets or threads for them.
    pub fn start(link: &PrivateLink, flows: u32) -> io::Result<BulkFlows> {
        let no_thread = |error: LinkError| io::Error::other(error.to_string());
        let listen = || TcpListener::bind((link.near(), 0));
        let listener = within(&link.near, listen).map_err(no_thread)??;
        let address = listener.local_addr()?;
        let delivered = Arc::new(AtomicU64::new(0));
        let mut all =
            BulkFlows { near: vec![], threads: vec![], delivered: Arc::clone(&delivered) };
        for _ in 0..flows {
            let connect = || TcpStream::connect(address);
            let far = within(&link.far, connect).map_err(no_thread)??;
            let (near, _) = listener.accept()?;
            let (sends, delivered) = (near.try_clone()?, Arc::clone(&delivered));
            all.near.push(near);
            let thread = || std::thread::Builder::new().name("bulk-flow".into());
            all.threads.push(thread().spawn(move || fill(sends))?);
            all.threads.push(thread().spawn(move || drain(far, &delivered))?);
        }
        Ok(all)
    }

    /// Bytes that have come to the far end.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }
}

impl Drop for BulkFlows {
    fn drop(&mut self) {
        for near in &self.near {
            // It ends both threads of the flow; one whose peer is gone has ended already.
            let _ = near.shutdown(std::net::Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Writes until the flow is ended.
fn fill(mut to: TcpStream) {
    let piece = vec![0x5a; PIECE];
    while to.write_all(&piece).is_ok() {}
}

/// Reads until the flow is ended.
fn drain(mut from: TcpStream, delivered: &AtomicU64) {
    let mut piece = vec![0; PIECE];
    while let Ok(bytes) = from.read(&mut piece)
        && bytes > 0
    {
        delivered.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
