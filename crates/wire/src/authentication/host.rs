//! The host's end, for one queue.

use super::group::Exponent;
use super::message::Refusal;
use super::response::{Question, same};
use super::{
    Challenge, Choices, Exponentials, Failure, Group, Hash, Job, Message, Negotiate, Parties,
    Reply, SequenceNumbers, Success1,
};
use zeroize::Zeroizing;

/// What the owner of a [`Host`] has to do next.
#[derive(Debug)]
pub enum HostStep {
    /// Send this with an Authentication Send command, then call [`Host::sent`].
    Send(Vec<u8>),
    /// Fetch a message with an Authentication Receive command, then call [`Host::received`].
    Receive,
    /// Do the work, then call [`Host::worked`].
    Work(Job),
    /// The queue is authenticated, in both directions if the host has the controller's secret.
    Done,
    /// Authentication has failed for good.
    Failed(Failure),
}

/// Authenticates one queue towards a controller.
#[derive(Debug)]
pub struct Host {
    parties: Parties,
    choices: Choices,
    transaction: u16,
    state: State,
}

#[derive(Debug)]
struct Challenged {
    hash: Hash,
    group: Group,
    sequence: u32,
    challenge: Vec<u8>,
    own_sequence: u32,
    own_challenge: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Negotiating,
    AwaitsChallenge,
    Exponentiating(Challenged),
    Replying { expected: Option<Zeroizing<Vec<u8>>>, hash: Hash },
    AwaitsSuccess { expected: Option<Zeroizing<Vec<u8>>>, hash: Hash },
    Confirming,
    Refusing(Failure),
    Done,
    Failed(Failure),
}

impl Host {
    /// Begins: the first step is to send a message. Transactions under way at the same time
    /// have different numbers.
    pub fn new(choices: Choices, parties: Parties, transaction: u16) -> (Host, HostStep) {
        let hashes = choices.hashes.iter().map(|&hash| hash as u8).collect();
        let groups = choices.groups.iter().map(|&group| group as u8).collect();
        let offers = Some((hashes, groups));
        let message =
            Message::Negotiate(Negotiate { transaction, secure_channel: 0, offers }).build();
        let host = Host { parties, choices, transaction, state: State::Negotiating };
        (host, HostStep::Send(message))
    }

    /// To be called when the message of [`HostStep::Send`] has been sent.
    pub fn sent(&mut self) -> HostStep {
        let (state, step) = match std::mem::replace(&mut self.state, State::Done) {
            State::Negotiating => (State::AwaitsChallenge, HostStep::Receive),
            State::Replying { expected, hash } => {
                (State::AwaitsSuccess { expected, hash }, HostStep::Receive)
            }
            State::Confirming | State::Done => (State::Done, HostStep::Done),
            State::Refusing(failure) | State::Failed(failure) => {
                (State::Failed(failure), HostStep::Failed(failure))
            }
            _ => {
                let failure = Failure::IncorrectMessage;
                (State::Failed(failure), HostStep::Failed(failure))
            }
        };
        self.state = state;
        step
    }

    /// Takes the message that [`HostStep::Receive`] asked for.
    pub fn received(
        &mut self,
        bytes: &[u8],
        random: &mut dyn FnMut(&mut [u8]),
        sequence: &mut SequenceNumbers,
    ) -> HostStep {
        let message = Message::parse(bytes);
        if let Ok(Message::Failure1(refusal)) = message {
            self.state = State::Failed(refusal.failure);
            return HostStep::Failed(refusal.failure);
        }
        match (std::mem::replace(&mut self.state, State::Done), message) {
            (State::AwaitsChallenge, Ok(Message::Challenge(challenge))) => {
                self.challenged(&challenge, random, sequence)
            }
            (State::AwaitsSuccess { expected, hash }, Ok(Message::Success1(success))) => {
                self.succeeded(expected, hash, &success)
            }
            (_, Err(super::Malformed::Length)) => self.refuse(Failure::IncorrectPayload),
            _ => self.refuse(Failure::IncorrectMessage),
        }
    }

    /// Takes the result of the job of [`HostStep::Work`].
    pub fn worked(&mut self, result: Exponentials) -> HostStep {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Exponentiating(challenged) => match &result.shared {
                Some(shared) => self.reply(&challenged, Some(shared), &result.own),
                None => self.refuse(Failure::IncorrectPayload),
            },
            _ => self.refuse(Failure::IncorrectMessage),
        }
    }

    fn refuse(&mut self, failure: Failure) -> HostStep {
        self.state = State::Refusing(failure);
        let refusal = Refusal { transaction: self.transaction, failure };
        HostStep::Send(Message::Failure2(refusal).build())
    }

    fn challenged(
        &mut self,
        challenge: &Challenge<'_>,
        random: &mut dyn FnMut(&mut [u8]),
        sequence: &mut SequenceNumbers,
    ) -> HostStep {
        let hash = Hash::from_id(challenge.hash).filter(|hash| self.choices.hashes.contains(hash));
        let Some(hash) = hash else { return self.refuse(Failure::HashNotUsable) };
        let group = Group::from_id(challenge.group);
        let Some(group) = group.filter(|group| self.choices.groups.contains(group)) else {
            return self.refuse(Failure::GroupNotUsable);
        };
        let valid = challenge.transaction == self.transaction
            && challenge.sequence != 0
            && challenge.challenge.len() == hash.bytes()
            && challenge.exponential.len() <= group.bytes()
            && challenge.exponential.is_empty() == (group == Group::Null);
        if !valid {
            return self.refuse(Failure::IncorrectPayload);
        }
        let mut challenged = Challenged {
            hash,
            group,
            sequence: challenge.sequence,
            challenge: challenge.challenge.to_vec(),
            own_sequence: 0,
            own_challenge: Vec::new(),
        };
        if self.parties.controller_secret.is_some() {
            challenged.own_sequence = sequence.draw();
            challenged.own_challenge = vec![0; hash.bytes()];
            random(&mut challenged.own_challenge);
        }
        if group == Group::Null {
            return self.reply(&challenged, None, &[]);
        }
        let job =
            Job::both(Exponent::draw(challenged.group, random), challenge.exponential.to_vec());
        self.state = State::Exponentiating(challenged);
        HostStep::Work(job)
    }

    fn reply(
        &mut self,
        challenged: &Challenged,
        shared: Option<&[u8]>,
        exponential: &[u8],
    ) -> HostStep {
        let (hash, transaction) = (challenged.hash, self.transaction);
        let question =
            |challenge, sequence| Question { hash, challenge, sequence, transaction, shared };
        let response = question(&challenged.challenge, challenged.sequence).host(&self.parties);
        let expected =
            question(&challenged.own_challenge, challenged.own_sequence).controller(&self.parties);
        let message = Message::Reply(Reply {
            transaction,
            sequence: challenged.own_sequence,
            response: &response,
            challenge: expected.is_some().then_some(challenged.own_challenge.as_slice()),
            exponential,
        })
        .build();
        self.state = State::Replying { expected, hash };
        HostStep::Send(message)
    }

    fn succeeded(
        &mut self,
        expected: Option<Zeroizing<Vec<u8>>>,
        hash: Hash,
        success: &Success1<'_>,
    ) -> HostStep {
        if success.transaction != self.transaction
            || usize::from(success.hash_bytes) != hash.bytes()
        {
            return self.refuse(Failure::IncorrectPayload);
        }
        match (expected, success.response) {
            (None, _) => {
                self.state = State::Done;
                HostStep::Done
            }
            (Some(expected), Some(response)) if same(&expected, response) => {
                self.state = State::Confirming;
                let transaction = self.transaction;
                HostStep::Send(Message::Success2 { transaction }.build())
            }
            (Some(_), Some(_)) => self.refuse(Failure::Failed),
            (Some(_), None) => self.refuse(Failure::IncorrectPayload),
        }
    }
}
