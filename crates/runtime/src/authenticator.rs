//! Hosts prove who they are (DH-HMAC-CHAP).
//!
//! Answers the authentication commands that a subsystem passes on. Exponentiations run on a
//! thread of their own, so a handshake keeps nobody's I/O waiting. They are given to it one by one,
//! peers taking turns; those of connections that are gone are not done, and there are only so many
//! at once.

mod turns;

use crate::quota::{Budget, Peer, Share};
use crate::random;
use crate::workers::Workers;
use mynah_device::{Authentication, Now, Queue, Subsystem};
use mynah_wire::authentication::{
    Choices, Exponentials, Hash, Job, Parties, SECURITY_PROTOCOL, SECURITY_PROTOCOL_SPECIFIC,
    Secret, SequenceNumbers, Target, TargetStep,
};
use mynah_wire::nvme::Status;
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use turns::Turns;

/// One thread, which has one job at a time: handshakes that come in crowds wait for one another,
/// not for I/O, and leave the other cores alone.
const THREADS: usize = 1;

/// Which secrets hosts and the subsystem have.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// Secrets of hosts by NQN; one without an NQN is any other host's.
    pub hosts: Vec<(Option<String>, Secret)>,
    /// The subsystem's, for hosts that want a proof.
    pub controller: Option<Secret>,
    /// Hash functions and groups that may be used, the preferred ones first.
    pub choices: Choices,
}

impl Secrets {
    /// The host's own secret, else that of any host.
    pub fn of(&self, host_nqn: &str) -> Option<&Secret> {
        let own = |(host, _): &&(Option<String>, Secret)| host.as_deref() == Some(host_nqn);
        let any = |(host, _): &&(Option<String>, Secret)| host.is_none();
        self.hosts.iter().find(own).or_else(|| self.hosts.iter().find(any)).map(|(_, it)| it)
    }
}

/// Which queue a job is for, and which of those that had its number.
type Ticket = (Queue, u64);

#[derive(Debug)]
struct Session {
    serial: u64,
    target: Target,
    /// The command that completes when the job is done.
    waiting: Option<Authentication>,
}

/// Authenticates the hosts of one subsystem.
#[derive(Debug)]
pub struct Authenticator {
    subsystem_nqn: String,
    secrets: Secrets,
    sequence: SequenceNumbers,
    sessions: HashMap<Queue, Session>,
    serial: u64,
    /// Jobs that wait, each with its part of the budget.
    turns: Turns<(Ticket, Job, Share)>,
    jobs: Budget,
    workers: Workers<(Ticket, Job), (Ticket, Exponentials)>,
    /// Whether the thread has a job.
    is_working: bool,
    failures: u64,
}

impl Authenticator {
    /// Starts the thread for exponentiations, of which as many may wait as the budget has.
    ///
    /// # Errors
    /// If there can be none.
    pub fn new(subsystem_nqn: &str, secrets: Secrets, jobs: Budget) -> io::Result<Self> {
        let work = |(ticket, job): (Ticket, Job)| (ticket, job.run());
        Ok(Authenticator {
            subsystem_nqn: subsystem_nqn.to_owned(),
            secrets,
            sequence: SequenceNumbers::new(random::number()),
            sessions: HashMap::new(),
            serial: 0,
            turns: Turns::new(),
            jobs,
            workers: Workers::new("mynah-auth", THREADS, work)?,
            is_working: false,
            failures: 0,
        })
    }

    /// Becomes readable when [`Authenticator::advance`] has something to do.
    pub fn wake_descriptor(&self) -> BorrowedFd<'_> {
        self.workers.wake_descriptor()
    }

    /// Authentications that failed.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Answers a command of a peer, now or in a later [`Authenticator::advance`].
    pub fn handle(
        &mut self,
        now: Now,
        subsystem: &mut Subsystem,
        asked: Authentication,
        peer: Peer,
    ) {
        let command = asked.command;
        if (command.protocol, command.specific) != (SECURITY_PROTOCOL, SECURITY_PROTOCOL_SPECIFIC) {
            let status = Status::INVALID_FIELD.do_not_retry();
            subsystem.answer_authentication(now, &asked, status, None);
            return;
        }
        let session = self.sessions.entry(asked.queue).or_insert_with(|| {
            self.serial += 1;
            // A host without a secret fails like one with a wrong secret.
            let host_secret = self.secrets.of(&asked.host_nqn).cloned();
            let parties = Parties {
                host_nqn: asked.host_nqn.clone(),
                subsystem_nqn: self.subsystem_nqn.clone(),
                host_secret: host_secret
                    .unwrap_or_else(|| Secret::generate(Hash::Sha256, &mut random::fill)),
                controller_secret: self.secrets.controller.clone(),
            };
            let target = Target::new(self.secrets.choices.clone(), parties);
            Session { serial: self.serial, target, waiting: None }
        });
        if session.target.is_working() {
            let status = Status::COMMAND_SEQUENCE_ERROR.do_not_retry();
            subsystem.answer_authentication(now, &asked, status, None);
            return;
        }
        let queue = asked.queue;
        if let Some(data) = &asked.data {
            // Before the message is taken, which may make work: so the host can try again.
            let Ok(share) = self.jobs.take(peer) else {
                subsystem.answer_authentication(now, &asked, Status::COMMAND_INTERRUPTED, None);
                return;
            };
            match session.target.send(data, &mut random::fill, &mut self.sequence) {
                TargetStep::Done => {
                    subsystem.answer_authentication(now, &asked, Status::SUCCESS, None);
                    if session.target.is_authenticated() {
                        subsystem.set_authenticated(queue);
                    }
                }
                TargetStep::Work(job) => {
                    self.turns.push(peer, ((queue, session.serial), job, share));
                    session.waiting = Some(asked);
                    self.begin();
                }
                TargetStep::GivenUp(_) => {
                    self.failures += 1;
                    let reason = "the host gave up its authentication";
                    subsystem.refuse_authentication(now, &asked, None, reason);
                }
            }
            return;
        }
        // The subsystem has bounded the length.
        let room = command.bytes as usize;
        match session.target.receive(room) {
            None => {
                let status = Status::INVALID_FIELD.do_not_retry();
                subsystem.answer_authentication(now, &asked, status, None);
            }
            Some(mut message) => {
                message.resize(room, 0);
                if session.target.has_failed() {
                    self.failures += 1;
                    let reason = "the host has failed to authenticate";
                    subsystem.refuse_authentication(now, &asked, Some(message), reason);
                    return;
                }
                subsystem.answer_authentication(now, &asked, Status::SUCCESS, Some(message));
                if session.target.is_authenticated() {
                    subsystem.set_authenticated(queue);
                }
            }
        }
    }

    /// Gives the thread the next job, if it has none.
    fn begin(&mut self) {
        if !self.is_working
            && let Some((ticket, job, _)) = self.turns.pop()
        {
            self.is_working = true;
            self.workers.submit((ticket, job));
        }
    }

    /// Goes on with what waited for an exponentiation.
    pub fn advance(&mut self, now: Now, subsystem: &mut Subsystem) {
        while let Some(((queue, serial), result)) = self.workers.finished() {
            self.is_working = false;
            self.begin();
            let Some(session) = self.sessions.get_mut(&queue) else { continue };
            if session.serial != serial {
                continue;
            }
            session.target.worked(result);
            if let Some(asked) = session.waiting.take() {
                subsystem.answer_authentication(now, &asked, Status::SUCCESS, None);
            }
        }
    }

    /// Drops what is under way for a queue that no longer exists.
    pub fn forget(&mut self, queue: Queue) {
        if self.sessions.remove(&queue).is_some() {
            self.turns.retain(|((of, _), _, _)| *of != queue);
        }
    }
}

#[cfg(test)]
mod tests;
