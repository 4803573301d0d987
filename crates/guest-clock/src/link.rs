//! The drive's end of the clock: what it says, and who waits for it.

use crate::meter::Meter;
use crate::{CLOCK, qemu};
use mynah_guest_protocol::{Inbox, Message, VERSION};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the drive may take to answer with its welcome.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the drive has ordered, and whether the guest has left it.
#[derive(Debug, Default)]
struct Orders {
    /// Instructions after which the guest stops.
    limit: u64,
    /// The guest has told the drive that it ends.
    left: bool,
}

/// A connection to the drive.
pub(crate) struct Link {
    socket: UnixStream,
    orders: Mutex<Orders>,
    news: Condvar,
}

impl Link {
    /// Connects to the drive, which has to agree.
    pub(crate) fn connect(path: &str, processors: u32) -> Result<Link, String> {
        let fail = |error: io::Error| format!("no drive at {path}: {error}");
        let mut socket = UnixStream::connect(path).map_err(fail)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
        let hello = Message::Hello { version: VERSION, processors };
        socket.write_all(&hello.to_bytes()).map_err(fail)?;
        let mut inbox = Inbox::default();
        match receive(&mut socket, &mut inbox) {
            Ok(Message::Welcome { version: VERSION }) => {}
            Ok(Message::Refused(reason)) => return Err(format!("the drive at {path}: {reason}")),
            Ok(_) => return Err(format!("what listens at {path} is no drive of this version")),
            Err(error) => return Err(format!("no welcome from the drive at {path}: {error}")),
        }
        socket.set_read_timeout(None).map_err(fail)?;
        Ok(Link { socket, orders: Mutex::default(), news: Condvar::new() })
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to the drive.
    fn say(&self, message: &Message) {
        if let Err(error) = (&self.socket).write_all(&message.to_bytes()) {
            lost(&error.to_string());
        }
    }

    /// The guest has come to its limit, or to what was its limit. Returns when it may go on.
    pub(crate) fn stops(&self, meter: &Meter) {
        let mut orders = self.orders();
        let counts = meter.counts();
        let executed = counts.executed();
        if executed >= orders.limit {
            self.say(&Message::Reached(counts));
            while executed >= orders.limit {
                orders = self.news.wait(orders).unwrap_or_else(PoisonError::into_inner);
            }
        }
        meter.run_to(orders.limit);
    }

    /// Tells the drive that a processor executes HLT.
    pub(crate) fn halts(&self, processor: u32) {
        let _orders = self.orders();
        self.say(&Message::Halted(processor));
    }

    /// Tells the drive that QEMU ends in order.
    pub(crate) fn leave(&self, meter: &Meter) {
        let mut orders = self.orders();
        orders.left = true;
        let counts = meter.counts();
        // The drive may have ended before, and then nobody minds.
        let _ = (&self.socket).write_all(&Message::Bye(counts).to_bytes());
    }

    /// Handles a message of the drive.
    fn obey(&self, meter: &Meter, message: Message) {
        let mut orders = self.orders();
        match message {
            Message::Ask => {
                let counts = meter.counts();
                orders.limit = counts.executed();
                meter.stop();
                self.say(&Message::Time(counts));
            }
            Message::Run(limit) => {
                orders.limit = limit;
                self.news.notify_all();
            }
            Message::Refused(reason) => {
                drop(orders);
                eprintln!("mynah-guest-clock: the drive ends the guest: {reason}");
                qemu::exit_now(1);
            }
            _ => lost("it says what a drive does not say"),
        }
    }

    fn has_left(&self) -> bool {
        self.orders().left
    }
}

/// Without the drive there is no time: the guest ends.
fn lost(reason: &str) -> ! {
    eprintln!("mynah-guest-clock: the drive has gone, and with it the guest's time ({reason})");
    qemu::exit_now(1)
}

/// Reads the next message.
fn receive(socket: &mut impl Read, inbox: &mut Inbox) -> io::Result<Message> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(message) = inbox.next().map_err(io::Error::other)? {
            return Ok(message);
        }
        match socket.read(&mut buffer)? {
            0 => return Err(io::Error::other("the connection was closed")),
            bytes => inbox.received(&buffer[..bytes]),
        }
    }
}

/// Has a thread listen to what the drive says.
pub(crate) fn listen() -> io::Result<()> {
    let thread = std::thread::Builder::new().name("mynah-clock".to_owned());
    thread.spawn(|| {
        let Some(clock) = CLOCK.get() else { return };
        let (mut socket, mut inbox) = (&clock.link.socket, Inbox::default());
        loop {
            match receive(&mut socket, &mut inbox) {
                Ok(message) => clock.link.obey(&clock.meter, message),
                Err(_) if clock.link.has_left() => return,
                Err(error) => lost(&error.to_string()),
            }
        }
    })?;
    Ok(())
}
