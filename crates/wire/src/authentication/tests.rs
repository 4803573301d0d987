//! Both ends joined, what disturbs them, and transcripts of another program.

mod vectors;

use super::*;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:5f5ae2a3-5c2e-4e2e-9a1a-000000000001";
const SUBSYSTEM_NQN: &str = "nqn.2026-01.io.mynah:vectors";

/// A source of consecutive bytes.
fn counting(mut next: u8) -> impl FnMut(&mut [u8]) {
    move |bytes| {
        bytes.iter_mut().for_each(|byte| {
            *byte = next;
            next = next.wrapping_add(1);
        });
    }
}

fn secret(seed: u8) -> Secret {
    Secret::generate(Hash::Sha256, &mut counting(seed))
}

fn parties(host: Secret, controller: Option<Secret>) -> Parties {
    Parties {
        host_nqn: HOST_NQN.to_owned(),
        subsystem_nqn: SUBSYSTEM_NQN.to_owned(),
        host_secret: host,
        controller_secret: controller,
    }
}

fn only(hash: Hash, group: Group) -> Choices {
    Choices { hashes: vec![hash], groups: vec![group] }
}

/// What a run of both ends led to.
struct Conversation {
    messages: Vec<Vec<u8>>,
    host: Result<(), Failure>,
    target: Target,
}

/// Joins the two ends; `disturb` may change the message of a number before it arrives.
fn talk(
    host: (Choices, Parties),
    target: (Choices, Parties),
    disturb: impl Fn(usize, &mut Vec<u8>),
) -> Conversation {
    let mut target = Target::new(target.0, target.1);
    let (mut host, mut step) = Host::new(host.0, host.1, 0x1234);
    let (mut host_random, mut target_random) = (counting(128), counting(1));
    let mut host_sequence = SequenceNumbers::new(0xa1a2_a3a3);
    let mut target_sequence = SequenceNumbers::new(0x0102_0303);
    let mut messages = Vec::new();
    let host = loop {
        step = match step {
            HostStep::Send(mut message) => {
                messages.push(message.clone());
                disturb(messages.len() - 1, &mut message);
                match target.send(&message, &mut target_random, &mut target_sequence) {
                    TargetStep::Done | TargetStep::GivenUp(_) => {}
                    TargetStep::Work(job) => {
                        assert!(target.is_working());
                        target.worked(job.run());
                    }
                }
                host.sent()
            }
            HostStep::Receive => {
                let mut message = target.receive(MESSAGE_BYTES_MAX).expect("it fits");
                messages.push(message.clone());
                disturb(messages.len() - 1, &mut message);
                message.resize(MESSAGE_BYTES_MAX, 0);
                host.received(&message, &mut host_random, &mut host_sequence)
            }
            HostStep::Work(job) => host.worked(job.run()),
            HostStep::Done => break Ok(()),
            HostStep::Failed(failure) => break Err(failure),
        };
        assert!(messages.len() < 10, "no end");
    };
    Conversation { messages, host, target }
}

#[test]
fn transcripts_are_those_of_another_program() {
    for (hash, group, host, controller, expected) in vectors::TRANSCRIPTS {
        let host: Secret = host.parse().expect("a secret");
        let controller = (!controller.is_empty()).then(|| controller.parse().expect("a secret"));
        let choices = only(Hash::from_id(hash).unwrap(), Group::from_id(group).unwrap());
        let parties = parties(host, controller);
        let talk = talk((choices.clone(), parties.clone()), (choices, parties), |_, _| {});
        assert_eq!(talk.host, Ok(()));
        let digest = Sha256::digest(talk.messages.concat());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, expected, "hash {hash}, group {group}");
    }
}

#[test]
fn every_hash_goes_with_every_group() {
    for hash in Hash::ALL {
        for group in Group::ALL {
            let parties = parties(secret(1), (group as u8).is_multiple_of(2).then(|| secret(2)));
            let end = (only(hash, group), parties);
            let talk = talk(end.clone(), end, |_, _| {});
            assert_eq!(talk.host, Ok(()), "{hash:?} {group:?}");
            assert!(talk.target.is_authenticated(), "{hash:?} {group:?}");
        }
    }
}

#[test]
fn the_target_prefers_and_both_must_allow() {
    let parties = parties(secret(1), None);
    let chosen = |host: Choices, target: Choices| {
        let talk = talk((host, parties.clone()), (target, parties.clone()), |_, _| {});
        let Ok(Message::Challenge(challenge)) = Message::parse(&talk.messages[1]) else {
            return Err(talk.host.expect_err("a failure"));
        };
        Ok((challenge.hash, challenge.group))
    };
    assert_eq!(chosen(Choices::default(), Choices::default()), Ok((3, 2)));
    let null = only(Hash::Sha256, Group::Null);
    let both = Choices { groups: vec![Group::Ffdhe2048, Group::Null], ..Choices::default() };
    assert_eq!(chosen(both.clone(), null.clone()), Ok((1, 0)));
    assert_eq!(chosen(null.clone(), both.clone()), Ok((1, 0)));
    // What costs one end much, or protects nobody, is for who has asked for it.
    for group in [Group::Null, Group::Ffdhe6144, Group::Ffdhe8192] {
        let only = only(Hash::Sha256, group);
        assert_eq!(chosen(Choices::default(), only.clone()), Err(Failure::GroupNotUsable));
        assert_eq!(chosen(only, Choices::default()), Err(Failure::GroupNotUsable));
    }
    let other = only(Hash::Sha384, Group::Null);
    assert_eq!(chosen(null.clone(), other), Err(Failure::HashNotUsable));
    let other = only(Hash::Sha256, Group::Ffdhe2048);
    assert_eq!(chosen(null, other), Err(Failure::GroupNotUsable));
}

#[test]
fn wrong_secrets_fail_at_the_end_that_notices() {
    let choices = only(Hash::Sha256, Group::Null);
    let run = |host: (Secret, Option<Secret>), target: (Secret, Option<Secret>)| {
        let talk = talk(
            (choices.clone(), parties(host.0, host.1)),
            (choices.clone(), parties(target.0, target.1)),
            |_, _| {},
        );
        (talk.host, talk.target.is_authenticated(), talk.target.has_failed())
    };
    let (one, two) = (|| secret(1), || secret(2));
    let failed = Err(Failure::Failed);
    assert_eq!(run((one(), None), (one(), None)), (Ok(()), true, false));
    assert_eq!(run((one(), None), (two(), None)), (failed, false, true));
    assert_eq!(run((one(), Some(two())), (one(), Some(two()))), (Ok(()), true, false));
    assert_eq!(run((one(), Some(two())), (one(), Some(one()))), (failed, false, true));
    assert_eq!(run((one(), Some(two())), (one(), None)), (failed, false, true));
    // A host need not ask for the controller's proof.
    assert_eq!(run((one(), None), (one(), Some(two()))), (Ok(()), true, false));
}

#[test]
fn an_authenticated_queue_may_authenticate_again_and_loses_the_right_when_that_fails() {
    let choices = only(Hash::Sha256, Group::Null);
    let good = parties(secret(1), None);
    let mut target =
        talk((choices.clone(), good.clone()), (choices.clone(), good.clone()), |_, _| {}).target;
    for (host_secret, right) in [(secret(1), true), (secret(9), false)] {
        let (mut random, mut sequence) = (counting(3), SequenceNumbers::new(0));
        let (mut host, step) = Host::new(choices.clone(), parties(host_secret, None), 7);
        let HostStep::Send(message) = step else { panic!("{step:?}") };
        target.send(&message, &mut random, &mut sequence);
        host.sent();
        assert!(target.is_authenticated(), "it stays so meanwhile");
        let challenge = target.receive(MESSAGE_BYTES_MAX).expect("a challenge");
        let HostStep::Send(reply) = host.received(&challenge, &mut random, &mut sequence) else {
            panic!("no reply")
        };
        target.send(&reply, &mut random, &mut sequence);
        target.receive(MESSAGE_BYTES_MAX).expect("a verdict");
        assert_eq!((target.is_authenticated(), target.has_failed()), (right, !right));
    }
}

#[test]
fn messages_out_of_turn_fail_and_short_buffers_lose_nothing() {
    let choices = only(Hash::Sha256, Group::Null);
    let good = parties(secret(1), None);
    let (mut random, mut sequence) = (counting(3), SequenceNumbers::new(u32::MAX));
    let new = || Target::new(choices.clone(), good.clone());
    // Success without any proof.
    let mut target = new();
    let success = Message::Success2 { transaction: 0 }.build();
    target.send(&success, &mut random, &mut sequence);
    assert!(!target.is_authenticated());
    // Fetched before anything was sent.
    let mut target = new();
    let message = target.receive(MESSAGE_BYTES_MAX).expect("a failure");
    assert!(matches!(Message::parse(&message), Ok(Message::Failure1(_))));
    assert!(target.has_failed());
    // A buffer that is too short: the message is still there.
    let mut target = new();
    let (_, HostStep::Send(negotiate)) = Host::new(choices.clone(), good.clone(), 1) else {
        panic!("no message")
    };
    target.send(&negotiate, &mut random, &mut sequence);
    assert_eq!(target.receive(40), None);
    let challenge = target.receive(MESSAGE_BYTES_MAX).expect("a challenge");
    let Ok(Message::Challenge(challenge)) = Message::parse(&challenge) else { panic!("none") };
    assert_eq!((challenge.transaction, challenge.sequence), (1, 1), "no sequence number is zero");
}

#[test]
fn secrets_are_read_and_checked() {
    // Made by another program; the first is 32 bytes that count up from zero.
    let text = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
    let secret: Secret = text.parse().expect("a secret");
    assert_eq!(*secret.reveal(), text);
    assert!(!format!("{secret:?}").contains("AAEC"));
    for hash in Hash::ALL {
        let secret = Secret::generate(hash, &mut counting(hash as u8));
        assert_eq!(secret.reveal().parse::<Secret>().as_ref(), Ok(&secret));
    }
    let cases = [
        ("", SecretError::Form),
        ("DHHC-2:00:AAEC:", SecretError::Form),
        ("DHHC-1:00:AAEC", SecretError::Form),
        ("DHHC-1:04:AAEC:", SecretError::Transformation),
        ("DHHC-1:00:A?EC:", SecretError::Base64),
        ("DHHC-1:00::", SecretError::Length),
        ("DHHC-1:00:AAECAwQFBgcI:", SecretError::Length),
        (&text.replace("AAEC", "AAED"), SecretError::Checksum),
    ];
    for (text, error) in cases {
        assert_eq!(text.parse::<Secret>(), Err(error), "{text}");
    }
}

/// Change any bit of any message: somebody notices, and nobody believes.
#[test]
fn tampering_is_noticed() {
    let choices = Choices { hashes: vec![Hash::Sha384, Hash::Sha256], groups: vec![Group::Null] };
    let end = (choices, parties(secret(1), Some(secret(2))));
    let lengths: Vec<usize> =
        talk(end.clone(), end.clone(), |_, _| {}).messages.iter().map(Vec::len).collect();
    assert_eq!(lengths.len(), 5);
    for (message, length) in lengths.into_iter().enumerate() {
        for (at, bit) in (0..length).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let talk = talk(end.clone(), end.clone(), |number, bytes| {
                if number == message {
                    bytes[at] ^= 1 << bit;
                }
            });
            // Reserved bytes carry no meaning, and what a host offers is not signed.
            let meaningless = match message {
                0 => [2, 3, 9].contains(&at) || at >= 10,
                1 => [2, 3, 7].contains(&at),
                2 => [2, 3, 7, 9].contains(&at) || at == 8 && bit > 0,
                3 => [2, 3, 7].contains(&at) || (9..16).contains(&at) || at == 8 && bit > 0,
                _ => [2, 3].contains(&at) || at > 5,
            };
            let place = format!("message {message}, byte {at}, bit {bit}");
            let believed = (talk.host.is_ok(), talk.target.is_authenticated());
            match (message, meaningless) {
                (0, true) => {}
                (_, true) => assert_eq!(believed, (true, true), "{place}"),
                // The host had its proof before the last message.
                (4, false) => assert_eq!(believed, (true, false), "{place}"),
                (_, false) => assert_eq!(believed, (false, false), "{place}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// No bytes make either end panic, and no bytes alone authenticate anybody.
    #[test]
    fn noise_is_harmless(noise in proptest::collection::vec(any::<u8>(), 0..300), id: u8, kind in 0u8..2) {
        let mut noise = noise;
        for (byte, value) in noise.iter_mut().zip([kind, id]) {
            *byte = value;
        }
        let choices = only(Hash::Sha256, Group::Null);
        let (mut random, mut sequence) = (counting(3), SequenceNumbers::new(0));
        let good = parties(secret(1), None);
        let mut target = Target::new(choices.clone(), good.clone());
        let (mut host, HostStep::Send(negotiate)) = Host::new(choices, good, 1) else { panic!() };
        host.sent();
        prop_assert!(!matches!(
            host.received(&noise, &mut random, &mut sequence),
            HostStep::Done
        ));
        target.send(&negotiate, &mut random, &mut sequence);
        target.receive(MESSAGE_BYTES_MAX);
        target.send(&noise, &mut random, &mut sequence);
        target.receive(usize::from(id));
        prop_assert!(!target.is_authenticated());
    }

    /// What is built is read back.
    #[test]
    fn messages_survive_the_wire(
        transaction: u16,
        sequence: u32,
        numbers: [u8; 2],
        hash in prop_oneof![Just(32usize), Just(48), Just(64)],
        exponential in proptest::collection::vec(any::<u8>(), 0..600),
        with: bool,
    ) {
        let [one, two] = [vec![numbers[0]; hash], vec![numbers[1]; hash]];
        let lists = (vec![1; numbers[0] as usize % 31], vec![2; numbers[1] as usize % 31]);
        let messages = [
            Message::Negotiate(Negotiate {
                transaction,
                secure_channel: numbers[0],
                offers: with.then_some(lists),
            }),
            Message::Challenge(Challenge {
                transaction,
                hash: numbers[0],
                group: numbers[1],
                sequence,
                challenge: &one,
                exponential: &exponential,
            }),
            Message::Reply(Reply {
                transaction,
                sequence,
                response: &one,
                challenge: with.then_some(&two),
                exponential: &exponential,
            }),
            Message::Success1(Success1 {
                transaction,
                hash_bytes: hash as u8,
                response: with.then_some(&two),
            }),
            Message::Success2 { transaction },
        ];
        for message in messages {
            let bytes = message.build();
            prop_assert_eq!(Message::parse(&bytes), Ok(message.clone()));
            // Cut short, it is no message.
            for length in 0..bytes.len().min(90) {
                let cut = Message::parse(&bytes[..length]);
                let tail = matches!(message, Message::Success2 { .. }) && length >= 8;
                prop_assert!(tail || cut.is_err(), "{length} of {message:?}");
            }
        }
    }
}
