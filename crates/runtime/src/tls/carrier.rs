//! The thread that encrypts.
//!
//! It makes handshakes and carries bytes. How many peers may be at it, and for how long, is as
//! without encryption: a handshake has a place among the half-open connections, which goes to
//! whoever is handed the connection; and what is carried ends when that lets it go, whatever the
//! peer does.

use super::pipe::{Handshake, Pipe, Turn};
use super::{Acceptor, Connector, TlsError, external_key};
use crate::quota::{Budget, Peer, Refused, Share, is_starved, whom_to_drop};
use crossbeam_channel::{Receiver, Sender, unbounded};
use openssl::ssl::{Ssl, SslStream};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A handshake may take so long.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// A connection whose local end was let go has so long to take the last bytes.
const LINGER: Duration = Duration::from_secs(1);
/// Nobody is let in for so long where the system has nothing left for a connection.
const STARVED: Duration = Duration::from_millis(100);

const ORDERS: u64 = u64::MAX;
const LISTENERS: u64 = 1 << 40;
/// Bit in epoll's token of a connection's local end.
const LOCAL: u64 = 1 << 39;

/// A connection that is encrypted from now on.
#[derive(Debug)]
pub struct Established {
    /// The local end: what is written here goes out encrypted. It does not block.
    pub socket: OwnedFd,
    pub address: Option<SocketAddr>,
    /// The address at which it came in.
    pub local: Option<IpAddr>,
    /// NQN of the host that the key belongs to; empty at a host's own end.
    pub host_nqn: String,
    /// Its place among the half-open connections, if it was accepted.
    pub half_open: Option<Share>,
}

/// What happens where connections are accepted.
#[derive(Debug)]
pub enum Event {
    /// A peer has proved that it has a key.
    Established(Established),
    /// The system has no descriptors left for those who come.
    Starved,
}

type Then = Box<dyn FnOnce(Result<Established, TlsError>) + Send>;
type Notify = Arc<dyn Fn(Event) + Send + Sync>;

enum Order {
    Listen(Listening),
    Connect { stream: TcpStream, connector: Connector, then: Then },
}

/// A thread that carries encrypted connections. They end with it.
#[derive(Debug)]
pub struct Carrier {
    orders: Option<Sender<Order>>,
    bell: Arc<OwnedFd>,
    count: Arc<AtomicUsize>,
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
        let count = Arc::default();
        let mut worker = Worker::new(incoming, bell.clone(), Arc::clone(&count))?;
        let thread = std::thread::Builder::new()
            .name("mynah-tls".to_owned())
            .spawn(move || while worker.turn() {})?;
        Ok(Carrier { orders: Some(orders), bell, count, thread: Some(thread) })
    }

    /// Connections that it has, handshakes among them.
    pub fn connections(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Accepts connections, as many as there are places in `half_open`, and hands each over once
    /// its handshake is done. `tell` is called on the carrier's thread.
    pub fn listen(
        &self,
        listener: TcpListener,
        acceptor: Acceptor,
        half_open: Budget,
        tell: impl Fn(Event) + Send + Sync + 'static,
    ) {
        let tell: Notify = Arc::new(tell);
        let starved = None;
        self.order(Order::Listen(Listening { listener, acceptor, half_open, tell, starved }));
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
    half_open: Budget,
    tell: Notify,
    /// Since when it is not looked at for want of descriptors.
    starved: Option<Instant>,
}

enum State {
    Handshake { handshake: Handshake, since: Instant, ending: Ending },
    Pipe(Pipe),
}

/// What happens when a handshake is over.
enum Ending {
    Accepted { half_open: Share, tell: Notify },
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
    /// Connections whose local ends were let go, and when.
    lingering: VecDeque<(u64, Instant)>,
    count: Arc<AtomicUsize>,
}

impl Worker {
    fn new(
        orders: Receiver<Order>,
        bell: Arc<OwnedFd>,
        count: Arc<AtomicUsize>,
    ) -> io::Result<Worker> {
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
            lingering: VecDeque::new(),
            count,
        })
    }

    /// Waits for something and does it; false when the carrier is gone.
    fn turn(&mut self) -> bool {
        let mut events =
            [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        let timeout = if !self.more.is_empty() {
            Some(Timespec { tv_sec: 0, tv_nsec: 0 })
        } else if self.listeners.iter().any(|it| it.starved.is_some()) {
            Some(Timespec { tv_sec: 0, tv_nsec: STARVED.as_nanos() as i64 })
        } else if !self.handshakes.is_empty() || !self.lingering.is_empty() {
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
            let (data, flags) = (event.data.u64(), event.flags);
            match data {
                ORDERS => {
                    let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
                    if !self.take_orders() {
                        return false;
                    }
                }
                number @ LISTENERS.. => self.accept((number - LISTENERS) as usize),
                local @ LOCAL.. => {
                    let id = local - LOCAL;
                    if flags.contains(EventFlags::HUP) {
                        self.lingering.push_back((id, Instant::now()));
                    }
                    self.more.push_back(id);
                }
                id => self.more.push_back(id),
            }
        }
        for _ in 0..self.more.len() {
            if let Some(id) = self.more.pop_front() {
                self.look_at(id);
            }
        }
        self.expire();
        self.feed();
        self.count.store(self.connections.len(), Ordering::Relaxed);
        true
    }

    fn take_orders(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Listen(listening)) => {
                    let data = EventData::new_u64(LISTENERS + self.listeners.len() as u64);
                    let listener = &listening.listener;
                    if listener.set_nonblocking(true).is_ok()
                        && epoll::add(&self.epoll, listener, data, EventFlags::IN).is_ok()
                    {
                        self.listeners.push(listening);
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
        let Some(listening) = self.listeners.get_mut(number) else { return };
        let (stream, address) = match listening.listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                // Errors of the network belong to the connection, which has gone (accept(2)).
                let starved = Errno::from_io_error(&error).is_some_and(is_starved);
                if starved && !self.evict(Peer::LOCAL, Refused::All) {
                    self.starve(number);
                }
                return;
            }
        };
        let (half_open, tell) = (listening.half_open.clone(), listening.tell.clone());
        let ssl = Ssl::new(&listening.acceptor.context);
        let who = Peer::at(address.ip());
        let share = half_open.take(who).or_else(|refused| {
            self.evict(who, refused);
            half_open.take(who)
        });
        // Else those before it are with somebody who will end them.
        if let Ok(half_open) = share {
            self.begin(stream, ssl, true, Ending::Accepted { half_open, tell });
        }
    }

    /// Gives up a handshake, so that there is room for one of `newcomer`; false if there is none.
    fn evict(&mut self, newcomer: Peer, refused: Refused) -> bool {
        let connections = &self.connections;
        let oldest_first = self.handshakes.iter().filter_map(|&id| match connections.get(&id)? {
            State::Handshake { ending: Ending::Accepted { half_open, .. }, .. } => {
                Some((id, half_open.peer()))
            }
            _ => None,
        });
        let Some(id) = whom_to_drop(oldest_first, newcomer, refused) else { return false };
        self.give_up(id, "too many handshakes at once");
        true
    }

    /// Does not look at a listener for a moment: it would be ready all the time.
    fn starve(&mut self, number: usize) {
        let listening = &mut self.listeners[number];
        listening.starved = Some(Instant::now());
        (listening.tell)(Event::Starved);
        self.watch(number, EventFlags::empty());
    }

    /// Tries again to accept from listeners that were starved of descriptors or memory.
    fn feed(&mut self) {
        for number in 0..self.listeners.len() {
            let starved = &mut self.listeners[number].starved;
            if starved.take_if(|since| since.elapsed() >= STARVED).is_some() {
                self.watch(number, EventFlags::IN);
            }
        }
    }

    fn watch(&self, number: usize, flags: EventFlags) {
        let data = EventData::new_u64(LISTENERS + number as u64);
        // It is watched already, so that this takes nothing of the system's.
        let _ = epoll::modify(&self.epoll, &self.listeners[number].listener, data, flags);
    }

    fn give_up(&mut self, id: u64, reason: &str) {
        self.handshakes.retain(|&it| it != id);
        if let Some(State::Handshake { ending: Ending::Connected(then), .. }) =
            self.connections.remove(&id)
        {
            then(Err(TlsError::Handshake(reason.to_owned())));
        }
    }

    fn expire(&mut self) {
        while let Some(&id) = self.handshakes.front() {
            match self.connections.get(&id) {
                Some(State::Handshake { since, .. }) if since.elapsed() < HANDSHAKE_TIME => break,
                _ => self.give_up(id, "it took too long"),
            }
        }
        while let Some((id, _)) = self.lingering.pop_front_if(|it| it.1.elapsed() >= LINGER) {
            self.connections.remove(&id);
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
        self.handshakes.retain(|&it| it != id);
        let made = result.and_then(|()| {
            let (local, remote) = UnixStream::pair()?;
            local.set_nonblocking(true)?;
            remote.set_nonblocking(true)?;
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&self.epoll, &local, EventData::new_u64(LOCAL + id), flags)
                .map_err(io::Error::from)?;
            Ok((local, remote))
        });
        let tls = handshake.tls;
        let address = tls.get_ref().peer_addr().ok();
        let local_address = tls.get_ref().local_addr().ok().map(|address| address.ip());
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
            Ending::Accepted { half_open, tell } => {
                // Without a key of ours OpenSSL does not get here.
                let Some(host_nqn) = external_key::host_nqn(tls.ssl()).map(str::to_owned) else {
                    return Turn::Idle;
                };
                let half_open = Some(half_open);
                let local = local_address;
                let new = Established { socket, address, local, host_nqn, half_open };
                tell(Event::Established(new));
            }
            Ending::Connected(then) => {
                let (local, host_nqn, half_open) = (local_address, String::new(), None);
                then(Ok(Established { socket, address, local, host_nqn, half_open }));
            }
        }
        self.connections.insert(id, State::Pipe(Pipe::new(tls, local)));
        Turn::More
    }
}
