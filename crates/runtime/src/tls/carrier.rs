//! The thread that encrypts.

use super::pipe::{Handshake, Pipe, Turn};
use super::{Acceptor, Connector, TlsError, external_key};
use crossbeam_channel::{Receiver, Sender, unbounded};
use openssl::ssl::{Ssl, SslStream};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A handshake may take so long.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Handshakes under way at once; the oldest goes for one more.
const HANDSHAKES_MAX: usize = 256;
/// Connections at once.
const CONNECTIONS_MAX: usize = 4096;

const ORDERS: u64 = u64::MAX;
const LISTENERS: u64 = 1 << 40;

/// A connection that is encrypted from now on.
#[derive(Debug)]
pub struct Established {
    /// The local end: what is written here goes out encrypted. It does not block.
    pub socket: OwnedFd,
    /// Address of the peer.
    pub peer: String,
    /// NQN of the host that the key belongs to; empty at a host's own end.
    pub host_nqn: String,
    /// Which listener it came to.
    pub listener: usize,
}

type Then = Box<dyn FnOnce(Result<Established, TlsError>) + Send>;
type Accepted = Arc<dyn Fn(Established) + Send + Sync>;

enum Order {
    Listen { listener: TcpListener, acceptor: Acceptor, number: usize, accepted: Accepted },
    Connect { stream: TcpStream, connector: Connector, then: Then },
}

/// A thread that carries encrypted connections. They end with it.
#[derive(Debug)]
pub struct Carrier {
    orders: Option<Sender<Order>>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Carrier {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn start() -> io::Result<Carrier> {
        let (orders, incoming) = unbounded();
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mut worker = Worker::new(incoming, bell.clone())?;
        let thread = std::thread::Builder::new()
            .name("mynah-tls".to_owned())
            .spawn(move || while worker.turn() {})?;
        Ok(Carrier { orders: Some(orders), bell, thread: Some(thread) })
    }

    /// Accepts connections, and hands each over once its handshake is done. `accepted` is
    /// called on the carrier's thread.
    pub fn listen(
        &self,
        listener: TcpListener,
        number: usize,
        acceptor: Acceptor,
        accepted: impl Fn(Established) + Send + Sync + 'static,
    ) {
        let accepted: Accepted = Arc::new(accepted);
        self.order(Order::Listen { listener, acceptor, number, accepted });
    }

    /// Makes the handshake of a host on a connected stream, and waits for it.
    ///
    /// # Errors
    /// If it fails.
    pub fn connect(&self, stream: TcpStream, connector: &Connector) -> Result<OwnedFd, TlsError> {
        let (done, result) = crossbeam_channel::bounded(1);
        let then: Then = Box::new(move |established| {
            let _ = done.send(established);
        });
        self.order(Order::Connect { stream, connector: connector.clone(), then });
        match result.recv() {
            Ok(established) => Ok(established?.socket),
            Err(_) => Err(TlsError::Handshake("the encrypting thread has ended".to_owned())),
        }
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
            self.ring();
        }
    }

    fn ring(&self) {
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.orders = None;
        self.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Listening {
    listener: TcpListener,
    acceptor: Acceptor,
    number: usize,
    accepted: Accepted,
}

enum State {
    Handshake { handshake: Handshake, since: Instant, ending: Ending },
    Pipe(Pipe),
}

/// What happens when a handshake is over.
enum Ending {
    Accepted { number: usize, accepted: Accepted },
    Connected(Then),
}

struct Worker {
    orders: Receiver<Order>,
    bell: Arc<OwnedFd>,
    epoll: OwnedFd,
    listeners: Vec<Listening>,
    connections: HashMap<u64, State>,
    next: u64,
    /// Handshakes, the oldest first; some may be over.
    handshakes: VecDeque<u64>,
    /// Connections with more to do.
    more: VecDeque<u64>,
}

impl Worker {
    fn new(orders: Receiver<Order>, bell: Arc<OwnedFd>) -> io::Result<Worker> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &*bell, EventData::new_u64(ORDERS), EventFlags::IN)?;
        Ok(Worker {
            orders,
            bell,
            epoll,
            listeners: Vec::new(),
            connections: HashMap::new(),
            next: 0,
            handshakes: VecDeque::new(),
            more: VecDeque::new(),
        })
    }

    /// Waits for something and does it; false when the carrier is gone.
    fn turn(&mut self) -> bool {
        let mut events =
            [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        let timeout = if !self.more.is_empty() {
            Some(Timespec { tv_sec: 0, tv_nsec: 0 })
        } else if !self.handshakes.is_empty() {
            Some(Timespec { tv_sec: 1, tv_nsec: 0 })
        } else {
            None
        };
        let count = match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(_) => return false,
        };
        for event in &events[..count] {
            match event.data.u64() {
                ORDERS => {
                    let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
                    if !self.take_orders() {
                        return false;
                    }
                }
                number @ LISTENERS.. => self.accept((number - LISTENERS) as usize),
                id => self.more.push_back(id),
            }
        }
        for _ in 0..self.more.len() {
            if let Some(id) = self.more.pop_front() {
                self.look_at(id);
            }
        }
        self.expire();
        true
    }

    fn take_orders(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Listen { listener, acceptor, number, accepted }) => {
                    let data = EventData::new_u64(LISTENERS + self.listeners.len() as u64);
                    if listener.set_nonblocking(true).is_ok()
                        && epoll::add(&self.epoll, &listener, data, EventFlags::IN).is_ok()
                    {
                        self.listeners.push(Listening { listener, acceptor, number, accepted });
                    }
                }
                Ok(Order::Connect { stream, connector, then }) => {
                    let ending = Ending::Connected(then);
                    self.begin(stream, Ssl::new(&connector.context), false, ending);
                }
                Err(crossbeam_channel::TryRecvError::Empty) => return true,
                Err(crossbeam_channel::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn accept(&mut self, number: usize) {
        let Some(listening) = self.listeners.get(number) else { return };
        let Ok((stream, _)) = listening.listener.accept() else {
            // Out of descriptors, perhaps: half-made connections go first.
            return self.evict();
        };
        if self.connections.len() >= CONNECTIONS_MAX {
            return;
        }
        let ssl = Ssl::new(&listening.acceptor.context);
        let (number, accepted) = (listening.number, listening.accepted.clone());
        self.begin(stream, ssl, true, Ending::Accepted { number, accepted });
    }

    /// Gives up the oldest handshake.
    fn evict(&mut self) {
        while let Some(id) = self.handshakes.pop_front() {
            if let Some(State::Handshake { .. }) = self.connections.get(&id) {
                return self.give_up(id, "too many handshakes at once");
            }
        }
    }

    fn give_up(&mut self, id: u64, reason: &str) {
        if let Some(State::Handshake { ending: Ending::Connected(then), .. }) =
            self.connections.remove(&id)
        {
            then(Err(TlsError::Handshake(reason.to_owned())));
        }
    }

    fn expire(&mut self) {
        while let Some(&id) = self.handshakes.front() {
            match self.connections.get(&id) {
                Some(State::Handshake { since, .. }) if since.elapsed() < HANDSHAKE_TIME => return,
                Some(State::Handshake { .. }) => self.give_up(id, "it took too long"),
                _ => {}
            }
            self.handshakes.pop_front();
        }
    }

    fn begin(
        &mut self,
        stream: TcpStream,
        ssl: Result<Ssl, openssl::error::ErrorStack>,
        accepts: bool,
        ending: Ending,
    ) {
        let _ = stream.set_nodelay(true);
        let id = self.next;
        let begun = ssl.map_err(TlsError::from).and_then(|ssl| {
            stream.set_nonblocking(true)?;
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&self.epoll, &stream, EventData::new_u64(id), flags)
                .map_err(io::Error::from)?;
            Ok(SslStream::new(ssl, stream)?)
        });
        match (begun, ending) {
            (Ok(tls), ending) => {
                self.next += 1;
                self.handshakes.push_back(id);
                if self.handshakes.len() > HANDSHAKES_MAX {
                    self.evict();
                }
                let handshake = Handshake { tls, accepts };
                let state = State::Handshake { handshake, since: Instant::now(), ending };
                self.connections.insert(id, state);
                self.more.push_back(id);
            }
            (Err(error), Ending::Connected(then)) => then(Err(error)),
            (Err(_), Ending::Accepted { .. }) => {}
        }
    }

    fn look_at(&mut self, id: u64) {
        let turn = match self.connections.get_mut(&id) {
            None => return,
            Some(State::Pipe(pipe)) => pipe.turn(),
            Some(State::Handshake { handshake, .. }) => match handshake.turn() {
                Ok(false) => Turn::Idle,
                Ok(true) => self.finish(id, Ok(())),
                Err(error) => self.finish(id, Err(error)),
            },
        };
        match turn {
            Turn::Idle => {}
            Turn::More => self.more.push_back(id),
            // Closing the sockets takes them out of epoll.
            Turn::Over => drop(self.connections.remove(&id)),
        }
    }

    /// A handshake is over: from now on bytes are carried.
    fn finish(&mut self, id: u64, result: Result<(), TlsError>) -> Turn {
        let Some(State::Handshake { handshake, ending, .. }) = self.connections.remove(&id) else {
            return Turn::Idle;
        };
        let made = result.and_then(|()| {
            let (local, remote) = UnixStream::pair()?;
            local.set_nonblocking(true)?;
            remote.set_nonblocking(true)?;
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&self.epoll, &local, EventData::new_u64(id), flags)
                .map_err(io::Error::from)?;
            Ok((local, remote))
        });
        let tls = handshake.tls;
        let peer = tls.get_ref().peer_addr().map_or_else(|_| String::new(), |it| it.to_string());
        let (local, remote) = match made {
            Ok(sockets) => sockets,
            Err(error) => {
                if let Ending::Connected(then) = ending {
                    then(Err(error));
                }
                return Turn::Idle;
            }
        };
        let socket = remote.into();
        match ending {
            Ending::Accepted { number, accepted } => {
                // Without a key of ours OpenSSL does not get here.
                let Some(host_nqn) = external_key::host_nqn(tls.ssl()).map(str::to_owned) else {
                    return Turn::Idle;
                };
                accepted(Established { socket, peer, host_nqn, listener: number });
            }
            Ending::Connected(then) => {
                let host_nqn = String::new();
                then(Ok(Established { socket, peer, host_nqn, listener: 0 }));
            }
        }
        self.connections.insert(id, State::Pipe(Pipe::new(tls, local)));
        Turn::More
    }
}
