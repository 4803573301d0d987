//! Key-value namespaces do what an ordered map does, in the order in which their commands are
//! decided.

use crate::pairs::*;
use crate::support::*;
use mynah_device::{Queue, Tap, Timing};
use mynah_model::io::{Completion, Control, QueueId, Request, Tag};
use mynah_model::keys::{Decision, KeyRequest};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::command::StoreCondition;
use mynah_wire::nvme::key::listed_keys;
use mynah_wire::nvme::{Status, SubmissionEntry};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What the model has heard of commands, in order.
#[derive(Default)]
struct Heard {
    /// Tags in order of their commands.
    given: Vec<Tag>,
    /// Numbers of commands in order of their decisions.
    decided: Vec<usize>,
}

struct Ear(Rc<RefCell<Heard>>);

impl Tap for Ear {
    fn key_command(&mut self, _: Time, _: QueueId, request: &KeyRequest) {
        self.0.borrow_mut().given.push(request.tag);
    }
    fn decided(&mut self, _: Time, tag: Tag, _: &Decision) {
        let mut heard = self.0.borrow_mut();
        // Tags are used again.
        let number = heard.given.iter().rposition(|it| *it == tag).expect("it was given");
        heard.decided.push(number);
    }
    fn command(&mut self, _: Time, _: QueueId, _: &Request) {}
    fn own_command(&mut self, _: Time, _: QueueId, _: &Request) {}
    fn ring(&mut self, _: Time, _: QueueId, _: u32) {}
    fn data_arrived(&mut self, _: Time, _: Tag) {}
    fn cq_freed(&mut self, _: Time, _: QueueId, _: u32) {}
    fn control(&mut self, _: Time, _: &Control) {}
    fn completed(&mut self, _: &Completion, _: Time) {}
}

#[derive(Clone, Debug)]
enum Act {
    Store { key: u8, bytes: u32, condition: StoreCondition },
    Retrieve { key: u8, room: u32 },
    Delete(u8),
    Exist(u8),
    List { start: u8, room: u32 },
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let key = 0..24u8;
    let bytes = prop_oneof![4 => 0..600u32, 2 => 0..9000u32, 1 => Just(64 << 10)];
    let room = prop_oneof![Just(0), 0..9000u32, Just(64 << 10)];
    let condition = prop_oneof![
        3 => Just(StoreCondition::Always),
        1 => Just(StoreCondition::IfExists),
        1 => Just(StoreCondition::IfAbsent),
    ];
    prop_oneof![
        5 => (key.clone(), bytes, condition)
            .prop_map(|(key, bytes, condition)| Act::Store { key, bytes, condition }),
        4 => (key.clone(), room).prop_map(|(key, room)| Act::Retrieve { key, room }),
        2 => key.clone().prop_map(Act::Delete),
        1 => key.clone().prop_map(Act::Exist),
        1 => (key, 4..300u32).prop_map(|(start, room)| Act::List { start, room }),
        3 => (0..60u64).prop_map(Act::Wait),
    ]
}

/// Keys of all lengths, some of which begin alike.
fn name(key: u8) -> String {
    format!("{}{}", "k".repeat(usize::from(key % 14)), char::from(b'a' + key))
}

/// What a command is answered with: status, result, data.
type Answer = (Status, u64, Vec<u8>);

/// The map that the namespace has to be.
#[derive(Default)]
struct Map(BTreeMap<String, Vec<u8>>);

impl Map {
    /// What a command does; `number` is what its value is made of.
    fn answer(&mut self, act: &Act, number: usize) -> Answer {
        let absent = (Status::KEY_DOES_NOT_EXIST, 0, vec![]);
        let done = (Status::SUCCESS, 0, vec![]);
        match act {
            Act::Store { key, bytes, condition } => {
                let there = self.0.contains_key(&name(*key));
                match (there, condition) {
                    (true, StoreCondition::IfAbsent) => (Status::KEY_EXISTS, 0, vec![]),
                    (false, StoreCondition::IfExists) => absent,
                    _ => {
                        self.0.insert(name(*key), pattern(number as u64, *bytes as usize));
                        done
                    }
                }
            }
            Act::Retrieve { key, room } => match self.0.get(&name(*key)) {
                Some(value) => {
                    let moved = value.len().min(*room as usize);
                    (Status::SUCCESS, value.len() as u64, value[..moved].to_vec())
                }
                None => absent,
            },
            Act::Delete(key) => {
                self.0.remove(&name(*key));
                done
            }
            Act::Exist(key) if self.0.contains_key(&name(*key)) => done,
            Act::Exist(_) => absent,
            Act::List { start, room } => {
                let mut left = *room as usize - 4;
                let fits = |key: &&String| {
                    let bytes = (2 + key.len()).next_multiple_of(4);
                    let fits = bytes <= left;
                    left = left.saturating_sub(bytes);
                    fits
                };
                let keys = self.0.range(name(*start)..).map(|(key, _)| key).take_while(fits);
                (Status::SUCCESS, 0, keys.flat_map(|key| key.bytes().chain([b'\n'])).collect())
            }
            Act::Wait(_) => done,
        }
    }
}

fn entry_of(act: &Act) -> SubmissionEntry {
    match act {
        Act::Store { key, bytes, condition } => store_if(*condition, &name(*key), *bytes),
        Act::Retrieve { key, room } => retrieve(&name(*key), *room),
        Act::Delete(key) => delete(&name(*key)),
        Act::Exist(key) => exist(&name(*key)),
        Act::List { start, room } => list(&name(*start), *room),
        Act::Wait(_) => unreachable!("no command"),
    }
}

/// Does all that, with up to so many commands under way. What each command was answered with, and
/// the order in which commands were decided.
fn run(timing: Timing, acts: &[Act], depth: usize) -> (Vec<Answer>, Vec<usize>) {
    let mut world = World::with(timing, |_| {}, mixed);
    let heard = Rc::new(RefCell::new(Heard::default()));
    world.subsystem.set_tap(Box::new(Ear(heard.clone())));
    let (_, io, _) = world.host();
    let mut under_way: Vec<(usize, u16)> = vec![];
    let mut answers: Vec<Option<Answer>> = vec![];
    let end = |world: &mut World, io: Queue, id: u16, act: &Act| {
        let (done, data) = world.reply(io, id);
        let data = match act {
            Act::List { room, .. } => {
                assert!(data.len() <= *room as usize);
                let keys = listed_keys(&data).expect("a list");
                keys.iter()
                    .flat_map(|key| key.as_slice().to_vec().into_iter().chain([b'\n']))
                    .collect()
            }
            _ => data,
        };
        (plain(done.entry.status()), done.entry.result.get(), data)
    };
    let commands: Vec<&Act> = acts.iter().filter(|act| !matches!(act, Act::Wait(_))).collect();
    for act in acts {
        if let Act::Wait(us) = act {
            world.wait(Span::from_us(*us));
            continue;
        }
        if under_way.len() == depth {
            let (number, id) = under_way.remove(0);
            answers[number] = Some(end(&mut world, io, id, commands[number]));
        }
        let number = answers.len();
        let value = match act {
            Act::Store { bytes, .. } => pattern(number as u64, *bytes as usize),
            _ => vec![],
        };
        let id = world.submit(io, entry_of(act), &value);
        under_way.push((number, id));
        answers.push(None);
    }
    for (number, id) in under_way {
        answers[number] = Some(end(&mut world, io, id, commands[number]));
    }
    let decided = match timing {
        Timing::Modelled => std::mem::take(&mut heard.borrow_mut().decided),
        Timing::Immediate => (0..answers.len()).collect(),
    };
    (answers.into_iter().map(|answer| answer.expect("answered")).collect(), decided)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn it_is_an_ordered_map(
        acts in proptest::collection::vec(act(), 1..400),
        depth in 1..24usize,
        modelled in any::<bool>(),
    ) {
        let timing = if modelled { Timing::Modelled } else { Timing::Immediate };
        let (answers, decided) = run(timing, &acts, depth);
        let commands: Vec<&Act> = acts.iter().filter(|act| !matches!(act, Act::Wait(_))).collect();
        let mut in_order = decided.clone();
        in_order.sort_unstable();
        prop_assert!(in_order.into_iter().eq(0..commands.len()), "each is decided once");
        let mut map = Map::default();
        for number in decided {
            if answers[number].0 == Status::CAPACITY_EXCEEDED {
                let is_store = matches!(commands[number], Act::Store { .. });
                prop_assert!(is_store);
                continue;
            }
            let expected = map.answer(commands[number], number);
            prop_assert_eq!(&answers[number], &expected, "{} {:?}", number, commands[number]);
        }
    }
}
