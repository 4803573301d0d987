//! The drive's end of a guest's clock: the socket, and one guest's connection. What comes is not
//! trusted; what makes no sense ends the connection.

use crate::clock::{Clock, Rate};
use crate::vfio_user::{Channel, ListenError, Listener};
use mynah_guest_protocol::{Counts, Inbox, Message, PROCESSORS_MAX, VERSION};
use mynah_stamp::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::VecDeque;
use std::path::Path;

/// A guest's clock answers at once; on a machine with other things to do, this may take a while.
const PATIENCE: Span = Span::from_secs(60);

/// Why a clock is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// It has closed the connection, without a word.
    Closed,
    /// Something is wrong with it.
    Wrong(String),
}

/// The plugin that is connected: the clock of a QEMU guest.
#[derive(Debug)]
struct Peer {
    channel: Channel,
    inbox: Inbox,
    /// Messages that were received and not yet handled.
    received: VecDeque<Message>,
    processors: usize,
    /// Instructions executed so far; a lower number is an error.
    executed: u64,
    is_welcome: bool,
}

/// Where a guest's clock connects, and the one that has.
#[derive(Debug)]
pub struct Link {
    listener: Listener,
    peer: Option<Peer>,
}

impl Link {
    /// Listens there.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn listen(path: &Path) -> Result<Link, ListenError> {
        Ok(Link { listener: Listener::at(path.to_owned())?, peer: None })
    }

    pub fn path(&self) -> &Path {
        self.listener.path()
    }

    /// What to wait on: for a clock, or for what it says.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let peer = self.peer.as_ref().map(|peer| peer.channel.as_fd());
        [self.listener.as_fd()].into_iter().chain(peer)
    }

    /// Whether something was said that was not dealt with.
    pub(super) fn has_more(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| !peer.received.is_empty())
    }

    /// Whether a clock is connected and welcome.
    pub(super) fn is_connected(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.is_welcome)
    }

    /// Takes a clock that connects, if there is none; others are told that they are too many.
    pub(super) fn accept(&mut self) {
        // Out of descriptors: it is asked in later.
        let Ok(Some(channel)) = self.listener.accept() else { return };
        if self.peer.is_some() {
            let text = "another guest runs with this drive".to_owned();
            let _ = channel.send(&Message::Refused(text).to_bytes(), &[]);
            return;
        }
        self.peer = Some(Peer {
            channel,
            inbox: Inbox::default(),
            received: VecDeque::new(),
            processors: 0,
            executed: 0,
            is_welcome: false,
        });
    }

    /// The next thing that the clock says, after its greeting; `None` if there is nothing yet.
    pub(super) fn hear(&mut self) -> Result<Option<Message>, Lost> {
        let Some(peer) = &mut self.peer else { return Ok(None) };
        if let Some(message) = peer.received.pop_front() {
            return Ok(Some(message));
        }
        let heard = peer.receive().and_then(|()| match peer.received.pop_front() {
            Some(first) if !peer.is_welcome => peer.greet(&first).map(|()| None),
            other => Ok(other),
        });
        if heard.is_err() {
            let was_welcome = self.is_connected();
            self.peer = None;
            // Whoever was no clock of a guest's has gone, and the next may come.
            if !was_welcome {
                return Ok(None);
            }
        }
        heard
    }

    /// Asks what time it is. The guest stands still behind what it is doing.
    pub(super) fn ask(&mut self) -> Result<Counts, Lost> {
        self.say(&Message::Ask)?;
        let (clock, deadline) = (Clock::start(Rate::REAL), Time::ZERO + PATIENCE);
        loop {
            let Some(peer) = &mut self.peer else { return Err(Lost::Closed) };
            peer.receive()?;
            let at = peer.received.iter().position(|it| matches!(it, Message::Time(_)));
            if let Some(Message::Time(counts)) = at.and_then(|at| peer.received.remove(at)) {
                return Ok(counts);
            }
            let left = deadline.saturating_since(clock.wall());
            if left.is_zero() {
                let text = format!(
                    "the guest's clock has not answered for {} s",
                    PATIENCE.as_ps() / 1_000_000_000_000
                );
                return Err(Lost::Wrong(text));
            }
            wait(&[peer.channel.as_fd()], left);
        }
    }

    /// Lets the guest run until it has executed so many instructions.
    pub(super) fn run(&mut self, limit: u64) -> Result<(), Lost> {
        self.say(&Message::Run(limit))
    }

    /// Tells the guest's clock why it has to end.
    pub(super) fn refuse(&mut self, reason: &str) {
        let _ = self.say(&Message::Refused(reason.to_owned()));
    }

    fn say(&mut self, message: &Message) -> Result<(), Lost> {
        let Some(peer) = &self.peer else { return Err(Lost::Closed) };
        let bytes = message.to_bytes();
        match peer.channel.send(&bytes, &[]) {
            Ok(sent) if sent == bytes.len() => Ok(()),
            // It waits for each of these messages, so that there is always room.
            Ok(_) => Err(Lost::Wrong("the guest's clock does not read what it is told".to_owned())),
            Err(_) => Err(Lost::Closed),
        }
    }
}

impl Peer {
    /// Takes in all that has come.
    fn receive(&mut self) -> Result<(), Lost> {
        let mut buffer = [0; 4096];
        loop {
            match self.channel.receive(&mut buffer) {
                Ok(None) => return Ok(()),
                // What was said last is dealt with first.
                Ok(Some(received)) if received.bytes == 0 && !self.received.is_empty() => {
                    return Ok(());
                }
                Err(_) if !self.received.is_empty() => return Ok(()),
                Ok(Some(received)) if received.bytes > 0 => {
                    self.inbox.received(&buffer[..received.bytes]);
                    self.take()?;
                }
                Ok(Some(_)) | Err(_) => return Err(Lost::Closed),
            }
        }
    }

    /// Cuts what has come into messages.
    fn take(&mut self) -> Result<(), Lost> {
        let wrong = |what: &dyn std::fmt::Display| {
            Lost::Wrong(format!("the guest's clock makes no sense: {what}"))
        };
        while let Some(message) = self.inbox.next().map_err(|error| wrong(&error))? {
            match &message {
                Message::Hello { .. } if !self.is_welcome && self.received.is_empty() => {}
                Message::Halted(_) if self.is_welcome => {}
                Message::Time(counts) | Message::Reached(counts) | Message::Bye(counts)
                    if self.is_welcome =>
                {
                    if counts.processors.len() != self.processors {
                        return Err(wrong(&"the number of processors has changed"));
                    }
                    if counts.executed() < self.executed {
                        return Err(wrong(&"it has gone backwards"));
                    }
                    self.executed = counts.executed();
                }
                _ => return Err(wrong(&"a message out of turn")),
            }
            self.received.push_back(message);
        }
        Ok(())
    }

    /// Answers the first message.
    fn greet(&mut self, first: &Message) -> Result<(), Lost> {
        let refusal = match *first {
            Message::Hello { version, .. } if version != VERSION => Some(format!(
                "the guest's clock speaks version {version}, and this drive {VERSION}: both have to be \
                 of the same Mynah"
            )),
            Message::Hello { processors, .. }
                if processors == 0 || processors as usize > PROCESSORS_MAX =>
            {
                Some(format!("a guest has 1 to {PROCESSORS_MAX} processors"))
            }
            Message::Hello { processors, .. } => {
                self.processors = processors as usize;
                None
            }
            _ => Some("the first message has to be a greeting".to_owned()),
        };
        self.is_welcome = refusal.is_none();
        let answer = match refusal {
            None => Message::Welcome { version: VERSION },
            Some(reason) => Message::Refused(reason),
        };
        let sent = self.channel.send(&answer.to_bytes(), &[]);
        match self.is_welcome && sent.is_ok_and(|sent| sent > 0) {
            true => Ok(()),
            false => Err(Lost::Closed),
        }
    }
}

/// Waits until one of these has something to say, or for so long; which have.
pub(super) fn wait(descriptors: &[BorrowedFd<'_>], most: Span) -> Vec<bool> {
    let mut all: Vec<_> = descriptors.iter().map(|it| PollFd::new(it, PollFlags::IN)).collect();
    let most = Timespec {
        tv_sec: (most.as_ps() / 1_000_000_000_000) as i64,
        tv_nsec: (most.as_ps() / 1_000 % 1_000_000_000) as i64,
    };
    // A signal is nothing to hear.
    let _ = poll(&mut all, Some(&most));
    all.iter().map(|it| !it.revents().is_empty()).collect()
}

#[cfg(test)]
mod tests;
