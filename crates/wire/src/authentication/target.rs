//! The controller's end, for one queue.

use super::group::Exponent;
use super::message::Refusal;
use super::response::{Question, same};
use super::{
    Challenge, Choices, Exponentials, Failure, Group, Hash, Job, Message, Negotiate, Parties,
    Reply, SequenceNumbers, Success1,
};
use zeroize::Zeroizing;

/// What comes of a message to the controller.
#[derive(Debug)]
pub enum TargetStep {
    /// The Authentication Send command can complete at once.
    Done,
    /// Work must be done first; the command completes after [`Target::worked`].
    Work(Job),
    /// The host has given up: the connection is of no use any more.
    GivenUp(Failure),
}

/// Authenticates the host of one queue, and the controller if the host asks for it.
///
/// [`Target::send`] takes the data of an Authentication Send command, [`Target::receive`] gives
/// those of an Authentication Receive command. Errors are messages, too: the host fetches them.
#[derive(Debug)]
pub struct Target {
    choices: Choices,
    parties: Parties,
    state: State,
    /// Whether the queue may be used. Stays so while the host authenticates anew.
    authenticated: bool,
}

#[derive(Debug)]
struct Transaction {
    number: u16,
    hash: Hash,
    group: Group,
    sequence: u32,
    challenge: Vec<u8>,
    exponent: Option<Exponent>,
}

#[derive(Debug)]
enum State {
    /// Waits for AUTH_Negotiate.
    Idle,
    /// Computes its own Diffie-Hellman value.
    Exponentiating(Transaction),
    /// Its challenge can be fetched.
    Challenge(Transaction, Vec<u8>),
    /// Waits for DH-HMAC-CHAP_Reply.
    Reply(Transaction),
    /// Computes the shared secret.
    Sharing(Transaction, Received),
    /// Success can be fetched, with the controller's answer perhaps.
    Success1 { number: u16, hash: Hash, response: Option<Zeroizing<Vec<u8>>> },
    /// Waits for the host's opinion of that answer.
    Success2 { number: u16 },
    /// The failure can be fetched.
    Failure1 { number: u16, failure: Failure },
    /// Authentication has failed, and both ends know.
    Failed,
}

#[derive(Debug)]
struct Received {
    sequence: u32,
    response: Vec<u8>,
    challenge: Option<Vec<u8>>,
}

impl Target {
    /// A queue that has just been connected.
    pub fn new(choices: Choices, parties: Parties) -> Target {
        Target { choices, parties, state: State::Idle, authenticated: false }
    }

    /// Whether the queue may be used.
    pub fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// Whether authentication has failed and the host has been told: the connection is to be
    /// closed.
    pub fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed)
    }

    /// Whether a job's result is awaited; no message can be taken meanwhile.
    pub fn is_working(&self) -> bool {
        matches!(self.state, State::Exponentiating(_) | State::Sharing(..))
    }

    /// Takes a message of the host.
    pub fn send(
        &mut self,
        bytes: &[u8],
        random: &mut dyn FnMut(&mut [u8]),
        sequence: &mut SequenceNumbers,
    ) -> TargetStep {
        let message = Message::parse(bytes);
        // A new transaction may begin where another has ended.
        let number = self.transaction();
        let state = std::mem::replace(&mut self.state, State::Idle);
        let result = match (state, message) {
            (State::Idle, Ok(Message::Negotiate(negotiate))) => {
                self.negotiate(&negotiate, random, sequence)
            }
            (State::Reply(transaction), Ok(Message::Reply(reply))) => {
                self.reply(transaction, &reply)
            }
            (State::Success2 { number }, Ok(Message::Success2 { transaction })) => {
                if transaction == number {
                    self.authenticated = true;
                    Ok(None)
                } else {
                    Err((number, Failure::IncorrectPayload))
                }
            }
            (State::Reply(_) | State::Success2 { .. }, Ok(Message::Failure2(refusal))) => {
                self.state = State::Failed;
                self.authenticated = false;
                return TargetStep::GivenUp(refusal.failure);
            }
            (_, Err(super::Malformed::Length)) => Err((number, Failure::IncorrectPayload)),
            (_, Ok(_) | Err(super::Malformed::Unknown)) => Err((number, Failure::IncorrectMessage)),
        };
        match result {
            Ok(None) => TargetStep::Done,
            Ok(Some(job)) => TargetStep::Work(job),
            Err((number, failure)) => {
                self.fail(number, failure);
                TargetStep::Done
            }
        }
    }

    /// Takes the result of the job that [`Target::send`] gave.
    pub fn worked(&mut self, result: Exponentials) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Exponentiating(transaction) => {
                self.state = State::Challenge(transaction, result.own);
            }
            State::Sharing(transaction, received) => {
                let number = transaction.number;
                let checked = match &result.shared {
                    Some(shared) => self.check(&transaction, &received, Some(shared)),
                    None => Err(Failure::IncorrectPayload),
                };
                if let Err(failure) = checked {
                    self.fail(number, failure);
                }
            }
            other => self.state = other,
        }
    }

    /// The message for the host; `None` if it does not fit into so many bytes.
    pub fn receive(&mut self, bytes_max: usize) -> Option<Vec<u8>> {
        let number = self.transaction();
        let (message, next) = match std::mem::replace(&mut self.state, State::Failed) {
            State::Challenge(transaction, exponential) => {
                let message = Message::Challenge(Challenge {
                    transaction: transaction.number,
                    hash: transaction.hash as u8,
                    group: transaction.group as u8,
                    sequence: transaction.sequence,
                    challenge: &transaction.challenge,
                    exponential: &exponential,
                })
                .build();
                if message.len() > bytes_max {
                    self.state = State::Challenge(transaction, exponential);
                    return None;
                }
                (message, State::Reply(transaction))
            }
            State::Success1 { number, hash, response } => {
                let message = Message::Success1(Success1 {
                    transaction: number,
                    hash_bytes: hash.bytes() as u8,
                    response: response.as_ref().map(|bytes| bytes.as_slice()),
                })
                .build();
                if message.len() > bytes_max {
                    self.state = State::Success1 { number, hash, response };
                    return None;
                }
                match response {
                    Some(_) => (message, State::Success2 { number }),
                    None => {
                        self.authenticated = true;
                        (message, State::Idle)
                    }
                }
            }
            state => {
                let (number, failure) = match state {
                    State::Failure1 { number, failure } => (number, failure),
                    _ => (number, Failure::IncorrectMessage),
                };
                let refusal = Refusal { transaction: number, failure };
                let message = Message::Failure1(refusal).build();
                self.authenticated = false;
                if message.len() > bytes_max {
                    self.state = State::Failure1 { number, failure };
                    return None;
                }
                (message, State::Failed)
            }
        };
        self.state = next;
        Some(message)
    }

    fn transaction(&self) -> u16 {
        match &self.state {
            State::Idle | State::Failed => 0,
            State::Exponentiating(transaction)
            | State::Challenge(transaction, _)
            | State::Reply(transaction)
            | State::Sharing(transaction, _) => transaction.number,
            State::Success1 { number, .. }
            | State::Success2 { number }
            | State::Failure1 { number, .. } => *number,
        }
    }

    fn fail(&mut self, number: u16, failure: Failure) {
        self.authenticated = false;
        self.state = State::Failure1 { number, failure };
    }

    fn negotiate(
        &mut self,
        negotiate: &Negotiate,
        random: &mut dyn FnMut(&mut [u8]),
        sequence: &mut SequenceNumbers,
    ) -> Result<Option<Job>, (u16, Failure)> {
        let number = negotiate.transaction;
        if negotiate.secure_channel != 0 {
            return Err((number, Failure::SecureChannelMismatch));
        }
        let Some((hashes, groups)) = &negotiate.offers else {
            return Err((number, Failure::ProtocolNotUsable));
        };
        let hash = self.choices.hashes.iter().find(|&&hash| hashes.contains(&(hash as u8)));
        let hash = *hash.ok_or((number, Failure::HashNotUsable))?;
        let group = self.choices.groups.iter().find(|&&group| groups.contains(&(group as u8)));
        let group = *group.ok_or((number, Failure::GroupNotUsable))?;
        let mut challenge = vec![0; hash.bytes()];
        random(&mut challenge);
        let exponent = (group != Group::Null).then(|| Exponent::draw(group, random));
        let job = exponent.clone().map(Job::own);
        let transaction =
            Transaction { number, hash, group, sequence: sequence.draw(), challenge, exponent };
        self.state = match job {
            Some(_) => State::Exponentiating(transaction),
            None => State::Challenge(transaction, Vec::new()),
        };
        Ok(job)
    }

    fn reply(
        &mut self,
        mut transaction: Transaction,
        reply: &Reply<'_>,
    ) -> Result<Option<Job>, (u16, Failure)> {
        let number = transaction.number;
        let group_bytes = transaction.group.bytes();
        let valid = reply.transaction == number
            && reply.response.len() == transaction.hash.bytes()
            && reply.exponential.len() <= group_bytes
            && reply.exponential.is_empty() == (group_bytes == 0)
            && (reply.challenge.is_none() || reply.sequence != 0);
        if !valid {
            return Err((number, Failure::IncorrectPayload));
        }
        let received = Received {
            sequence: reply.sequence,
            response: reply.response.to_vec(),
            challenge: reply.challenge.map(<[u8]>::to_vec),
        };
        let Some(exponent) = transaction.exponent.take() else {
            self.check(&transaction, &received, None).map_err(|failure| (number, failure))?;
            return Ok(None);
        };
        self.state = State::Sharing(transaction, received);
        Ok(Some(Job::shared(exponent, reply.exponential.to_vec())))
    }

    /// Checks the host's answer and works out our own.
    fn check(
        &mut self,
        transaction: &Transaction,
        received: &Received,
        shared: Option<&[u8]>,
    ) -> Result<(), Failure> {
        let &Transaction { number, hash, sequence, ref challenge, .. } = transaction;
        let question = Question { hash, challenge, sequence, transaction: number, shared };
        if !same(&question.host(&self.parties), &received.response) {
            return Err(Failure::Failed);
        }
        let response = match &received.challenge {
            None => None,
            Some(challenge) => {
                let sequence = received.sequence;
                let question = Question { hash, challenge, sequence, transaction: number, shared };
                Some(question.controller(&self.parties).ok_or(Failure::Failed)?)
            }
        };
        self.state = State::Success1 { number, hash, response };
        Ok(())
    }
}
