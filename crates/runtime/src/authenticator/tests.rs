use super::*;
use crate::quota::{Bound, Quotas};
use mynah_device::{CompletionData, Output, RamStore, SubsystemConfig, Timing, Transport};
use mynah_stamp::Time;
use mynah_wire::authentication::{Failure, Group, Host, HostStep, MESSAGE_BYTES_MAX};
use mynah_wire::fabrics::{Connect, ConnectData, nqn_field};
use mynah_wire::nvme::opcode::{FABRICS, fabrics};
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{CompletionEntry, SubmissionEntry};
use zerocopy::IntoBytes;

const NQN: &str = "nqn.2026-11.test:drive";
const ONE: &str = "nqn.2026-11.test:one";
const TWO: &str = "nqn.2026-11.test:two";
const NOW: Now = Now { wall: Time::ZERO, model: Time::ZERO };

fn secret(seed: u8) -> Secret {
    Secret::generate(Hash::Sha256, &mut |bytes| bytes.fill(seed))
}

/// Whatever the target wants.
fn all() -> Choices {
    Choices { groups: Group::ALL.to_vec(), ..Choices::default() }
}

/// The first message of a host.
fn negotiate() -> Vec<u8> {
    let parties = Parties {
        host_nqn: ONE.to_owned(),
        subsystem_nqn: NQN.to_owned(),
        host_secret: secret(1),
        controller_secret: None,
    };
    let (_, step) = Host::new(all(), parties, 5);
    let HostStep::Send(negotiate) = step else { panic!("{step:?}") };
    negotiate
}

/// A status without its hints.
fn plain(status: Status) -> Status {
    Status::new(status.code_type(), status.code())
}

struct World {
    subsystem: Subsystem,
    authenticator: Authenticator,
    command_id: u16,
    closed: Vec<Queue>,
    /// Whose queues are not this machine's.
    peers: HashMap<Queue, Peer>,
    /// Replies to commands that nobody waited for.
    others: usize,
}

impl World {
    fn new(secrets: Secrets, group: Group) -> World {
        World::with(secrets, group, Quotas::default().authentications)
    }

    fn with(mut secrets: Secrets, group: Group, jobs: Budget) -> World {
        let overrides = ["geometry.blocks_per_plane=64", "geometry.channels=1"].map(String::from);
        let drive = mynah_drive_file::load("enterprise-tlc", &overrides).expect("a drive");
        let drive = mynah_model::Drive::new(drive.config).expect("a drive");
        let config = SubsystemConfig {
            timing: Timing::Immediate,
            authenticate: true,
            ..SubsystemConfig::new(NQN)
        };
        let subsystem = Subsystem::new(config, drive, Box::new(RamStore::new()));
        secrets.choices = Choices { hashes: vec![Hash::Sha384], groups: vec![group] };
        World {
            subsystem: subsystem.expect("a subsystem"),
            authenticator: Authenticator::new(NQN, secrets, jobs).expect("a thread"),
            command_id: 0,
            closed: Vec::new(),
            peers: HashMap::new(),
            others: 0,
        }
    }

    fn attach(&mut self) -> Queue {
        let transport = Transport {
            in_capsule_bytes: 8192,
            max_transfer_bytes: 128 << 10,
            peer: "test".into(),
            source: 0,
            local: None,
            port: 0,
            kind: 3,
            host_nqn: None,
        };
        self.subsystem.attach(NOW, transport)
    }

    fn submit(&mut self, queue: Queue, mut entry: SubmissionEntry, data: &[u8]) -> u16 {
        self.command_id += 1;
        entry.opcode = FABRICS;
        entry.command_id.set(self.command_id);
        entry.data.length.set(u32::MAX);
        self.subsystem.submit(NOW, queue, &entry, data);
        self.command_id
    }

    /// What the subsystem says now; the reply to a command if there is one.
    fn take(&mut self, id: u16) -> Option<(CompletionEntry, Vec<u8>)> {
        let mut found = None;
        while let Some(output) = self.subsystem.poll() {
            match output {
                Output::Completion(reply) if reply.entry.command_id.get() != id => self.others += 1,
                Output::Completion(reply) => {
                    let CompletionData::Bytes(data) = reply.data else {
                        found = Some((reply.entry, Vec::new()));
                        continue;
                    };
                    found = Some((reply.entry, data));
                }
                Output::Close { queue, .. } => self.closed.push(queue),
                Output::Authentication(asked) => {
                    let peer = self.peers.get(&asked.queue).copied().unwrap_or(Peer::LOCAL);
                    self.authenticator.handle(NOW, &mut self.subsystem, asked, peer);
                }
                Output::Query(query) => panic!("nobody asks: {query:?}"),
            }
        }
        found
    }

    fn call(
        &mut self,
        queue: Queue,
        entry: SubmissionEntry,
        data: &[u8],
    ) -> (CompletionEntry, Vec<u8>) {
        let id = self.submit(queue, entry, data);
        loop {
            if let Some(reply) = self.take(id) {
                return reply;
            }
            std::thread::yield_now();
            self.authenticator.advance(NOW, &mut self.subsystem);
        }
    }

    fn connect(&mut self, host: &str) -> Result<(Queue, u64), Status> {
        let queue = self.attach();
        let mut entry = SubmissionEntry::default();
        let connect = Connect {
            record_format: 0,
            queue_id: 0,
            queue_size: 31,
            attributes: 0,
            keep_alive_ms: 0,
        };
        connect.put(&mut entry);
        let mut data = ConnectData { host_id: [7; 16], ..Default::default() };
        data.controller_id.set(0xffff);
        data.subsystem_nqn = nqn_field(NQN).expect("a name");
        data.host_nqn = nqn_field(host).expect("a name");
        let (reply, _) = self.call(queue, entry, data.as_bytes());
        match reply.status() {
            status if status.is_success() => Ok((queue, reply.result.get())),
            status => Err(status),
        }
    }

    fn version(&mut self, queue: Queue) -> Status {
        let mut entry = SubmissionEntry::default();
        entry.namespace_id.set(fabrics::PROPERTY_GET.into());
        entry.dword11.set(offset::VS);
        self.call(queue, entry, &[]).0.status()
    }

    fn authentication(kind: u8, length: usize) -> SubmissionEntry {
        let mut entry = SubmissionEntry::default();
        entry.namespace_id.set(kind.into());
        let specific = u32::from(SECURITY_PROTOCOL_SPECIFIC);
        entry.dword10.set(u32::from(SECURITY_PROTOCOL) << 24 | specific << 8);
        entry.dword11.set(length as u32);
        entry
    }

    fn authenticate(
        &mut self,
        queue: Queue,
        host: &str,
        secrets: (Secret, Option<Secret>),
    ) -> Result<(), Failure> {
        let parties = Parties {
            host_nqn: host.to_owned(),
            subsystem_nqn: NQN.to_owned(),
            host_secret: secrets.0,
            controller_secret: secrets.1,
        };
        let mut sequence = SequenceNumbers::new(1);
        let (mut machine, mut step) = Host::new(all(), parties, 5);
        loop {
            step = match step {
                HostStep::Send(message) => {
                    let entry = Self::authentication(fabrics::AUTHENTICATION_SEND, message.len());
                    let (reply, _) = self.call(queue, entry, &message);
                    assert!(reply.status().is_success(), "{:?}", reply.status());
                    machine.sent()
                }
                HostStep::Receive => {
                    let kind = fabrics::AUTHENTICATION_RECEIVE;
                    let entry = Self::authentication(kind, MESSAGE_BYTES_MAX);
                    let (reply, data) = self.call(queue, entry, &[]);
                    assert!(reply.status().is_success(), "{:?}", reply.status());
                    assert_eq!(data.len(), MESSAGE_BYTES_MAX);
                    machine.received(&data, &mut random::fill, &mut sequence)
                }
                HostStep::Work(job) => machine.worked(job.run()),
                HostStep::Done => return Ok(()),
                HostStep::Failed(failure) => return Err(failure),
            };
        }
    }
}

/// The bit of Connect's result that asks for authentication.
const REQUIRED: u64 = 1 << 17;

#[test]
fn a_queue_is_of_use_once_its_host_has_proved_itself() {
    let secrets = || Secrets {
        hosts: vec![(Some(ONE.to_owned()), secret(1)), (None, secret(2))],
        controller: Some(secret(3)),
        ..Secrets::default()
    };
    for group in [Group::Null, Group::Ffdhe2048] {
        let cases = [
            (ONE, (secret(1), None), Ok(())),
            (ONE, (secret(1), Some(secret(3))), Ok(())),
            (TWO, (secret(2), None), Ok(())),
            (ONE, (secret(2), None), Err(Failure::Failed)),
            (TWO, (secret(1), None), Err(Failure::Failed)),
            (ONE, (secret(1), Some(secret(1))), Err(Failure::Failed)),
        ];
        let mut world = World::new(secrets(), group);
        for (host, secrets, expected) in cases {
            let (queue, result) = world.connect(host).expect("connected");
            assert_eq!(result & 0xffff_0000, REQUIRED);
            assert_eq!(plain(world.version(queue)), Status::AUTHENTICATION_REQUIRED);
            let failures = world.authenticator.failures();
            assert_eq!(world.authenticate(queue, host, secrets), expected, "{host} {group:?}");
            if expected.is_ok() {
                assert!(world.version(queue).is_success());
                assert!(world.closed.is_empty());
            } else {
                assert_eq!(std::mem::take(&mut world.closed), [queue]);
                assert_eq!(world.authenticator.failures(), failures + 1);
            }
            world.subsystem.detach(NOW, queue);
            world.authenticator.forget(queue);
        }
        assert!(world.authenticator.sessions.is_empty());
    }
}

#[test]
fn a_handshake_at_work_keeps_no_other_queue_waiting() {
    let secrets = Secrets { hosts: vec![(None, secret(1))], ..Secrets::default() };
    let mut world = World::new(secrets, Group::Ffdhe8192);
    let (busy, _) = world.connect(ONE).expect("connected");
    let (other, _) = world.connect(TWO).expect("connected");
    world.authenticate(other, TWO, (secret(1), None)).expect("authenticated");
    let negotiate = negotiate();
    let entry = World::authentication(fabrics::AUTHENTICATION_SEND, negotiate.len());
    let working = world.submit(busy, entry, &negotiate);
    // Nobody takes the job's result, however long it takes: others are answered.
    assert!(world.take(working).is_none());
    assert!(world.version(other).is_success());
    // Impatience is an error, and not the end.
    let early = World::authentication(fabrics::AUTHENTICATION_RECEIVE, MESSAGE_BYTES_MAX);
    let id = world.submit(busy, early, &[]);
    let (reply, _) = world.take(id).expect("a reply");
    assert_eq!(plain(reply.status()), Status::COMMAND_SEQUENCE_ERROR);
    // The queue goes, and another one takes its number: the result is not for that one.
    world.subsystem.detach(NOW, busy);
    world.authenticator.forget(busy);
    let (again, _) = world.connect(ONE).expect("connected");
    assert_eq!(again, busy, "the number is used again");
    world.authenticate(again, ONE, (secret(1), None)).expect("authenticated");
}

#[test]
fn commands_of_other_protocols_are_refused() {
    let secrets = Secrets { hosts: vec![(None, secret(1))], ..Secrets::default() };
    let mut world = World::new(secrets, Group::Null);
    let (queue, _) = world.connect(ONE).expect("connected");
    let good = World::authentication(fabrics::AUTHENTICATION_SEND, 8);
    for dword10 in [0, 0xe901_0200, 0xe801_0100, 0xe902_0100] {
        let mut entry = good;
        entry.dword10.set(dword10);
        let (reply, _) = world.call(queue, entry, &[0; 8]);
        assert_eq!(plain(reply.status()), Status::INVALID_FIELD, "{dword10:#x}");
    }
    let receive = World::authentication(fabrics::AUTHENTICATION_RECEIVE, 7);
    let (reply, _) = world.call(queue, receive, &[]);
    assert_eq!(plain(reply.status()), Status::INVALID_FIELD, "no message fits");
    assert!(world.closed.is_empty());
}

/// Begins an authentication from `peer`, and does not wait for its work.
fn begin(world: &mut World, peer: Peer) -> (Queue, Option<Status>) {
    let (queue, _) = world.connect(ONE).expect("connected");
    world.peers.insert(queue, peer);
    (queue, begin_on(world, queue))
}

/// The answer to the first message on a queue, if there is one at once.
fn begin_on(world: &mut World, queue: Queue) -> Option<Status> {
    let negotiate = negotiate();
    let entry = World::authentication(fabrics::AUTHENTICATION_SEND, negotiate.len());
    let id = world.submit(queue, entry, &negotiate);
    world.take(id).map(|(entry, _)| entry.status())
}

#[test]
fn a_peer_with_many_handshakes_keeps_others_waiting_for_one() {
    let secrets = Secrets { hosts: vec![(None, secret(1))], ..Secrets::default() };
    let mut world = World::new(secrets, Group::Ffdhe3072);
    let greedy = Peer::function(0);
    let (good, _) = world.connect(TWO).expect("connected");
    let begun: Vec<Queue> = (0..60).map(|_| begin(&mut world, greedy).0).collect();
    world.others = 0;
    world.authenticate(good, TWO, (secret(1), None)).expect("authenticated");
    // Two jobs are the good one's, and before each there was the one at hand; what was done
    // before it began may be some more.
    assert!(world.others < 20, "{} of the greedy one's came first", world.others);
    // The connections are gone, and with them their work.
    for queue in begun {
        world.subsystem.detach(NOW, queue);
        world.authenticator.forget(queue);
    }
    assert_eq!(world.authenticator.jobs.used(), 0);
    assert!(world.authenticator.turns.pop().is_none());
}

#[test]
fn so_many_handshakes_wait_and_no_more() {
    let secrets = Secrets { hosts: vec![(None, secret(1))], ..Secrets::default() };
    let jobs = Budget::new(Bound { total: 5, per_peer: 3 });
    // Long enough that none ends in between.
    let mut world = World::with(secrets, Group::Ffdhe8192, jobs);
    let (greedy, good) = (Peer::function(0), Peer::function(1));
    // The first is at work, and waits no more.
    let answers: Vec<_> = (0..5).map(|_| begin(&mut world, greedy)).collect();
    let refused = answers.iter().filter(|(_, answer)| answer.is_some()).count();
    assert_eq!(refused, 1, "{answers:?}");
    let (queue, answer) = answers[4];
    let answer = answer.expect("a refusal");
    assert_eq!(plain(answer), Status::COMMAND_INTERRUPTED);
    assert_ne!(answer, answer.do_not_retry(), "it may try again");
    assert!(begin(&mut world, good).1.is_none(), "it has its part");
    for &(queue, _) in &answers[1..4] {
        world.authenticator.forget(queue);
    }
    assert!(begin_on(&mut world, queue).is_none(), "there is room again");
}
