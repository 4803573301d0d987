//! Commands about pairs and the pairs of a namespace, whichever of the two sets they are of.

use crate::key_value::{Choice, Pairs};
use crate::output::CommandKind;
use crate::samsung::{KeySpaces, SpaceCommand, status_of};
use crate::store::{Place, Ready, Values};
use mynah_model::keys::{Decision, KeyOperation, token};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::{KeyValueCommand, List, Retrieve, Store, StoreCondition};
use mynah_wire::nvme::key::Key;

#[derive(Debug)]
pub(crate) enum AnyCommand {
    KeyValue(KeyValueCommand),
    Samsung(Box<SpaceCommand>),
}

impl AnyCommand {
    /// What its completion is counted as.
    pub(crate) fn kind(&self) -> CommandKind {
        match self {
            AnyCommand::KeyValue(command) => kind_of(*command),
            AnyCommand::Samsung(command) => command.kind(),
        }
    }

    /// Bytes that it moves between host and controller, at most.
    pub(crate) fn bytes(&self) -> u32 {
        match self {
            AnyCommand::KeyValue(command) => bytes_of(*command),
            AnyCommand::Samsung(command) => command.bytes(),
        }
    }

    /// Where in the index its key belongs, and how long that is.
    pub(crate) fn key(&self) -> (u64, u8) {
        match self {
            AnyCommand::KeyValue(command) => {
                let key = key_of(command);
                (token(key.as_slice()), key.len() as u8)
            }
            AnyCommand::Samsung(command) => {
                let name = command.name();
                (token(name.as_slice()), name.key().len() as u8)
            }
        }
    }

    /// As the model has it; `None`: it is none of keys.
    pub(crate) fn operation(&self) -> Option<KeyOperation> {
        match self {
            AnyCommand::KeyValue(command) => operation_of(command),
            AnyCommand::Samsung(command) => Some(command.operation()),
        }
    }

    /// Whether it brings a value.
    pub(crate) fn stores(&self) -> bool {
        match self {
            AnyCommand::KeyValue(command) => matches!(command, KeyValueCommand::Store(_)),
            AnyCommand::Samsung(command) => command.stores(),
        }
    }

    /// Whether it can change pairs.
    pub(crate) fn changes(&self) -> bool {
        match self {
            AnyCommand::KeyValue(KeyValueCommand::Store(_) | KeyValueCommand::Delete(_)) => true,
            AnyCommand::KeyValue(_) => false,
            AnyCommand::Samsung(command) => command.changes(),
        }
    }

    /// A status of NVMe's own set as its set has it.
    pub(crate) fn own(&self, status: Status) -> Status {
        match self {
            AnyCommand::KeyValue(_) => status,
            AnyCommand::Samsung(_) => status_of(status),
        }
    }
}

/// What completions of a command are counted as.
pub(crate) fn kind_of(command: KeyValueCommand) -> CommandKind {
    match command {
        KeyValueCommand::Flush => CommandKind::Flush,
        KeyValueCommand::Store(_) => CommandKind::Store,
        KeyValueCommand::Retrieve(_) => CommandKind::Retrieve,
        KeyValueCommand::List(_) => CommandKind::List,
        KeyValueCommand::Delete(_) => CommandKind::Delete,
        KeyValueCommand::Exist(_) => CommandKind::Exist,
    }
}

/// Bytes that a command moves between host and controller, at most.
pub(crate) fn bytes_of(command: KeyValueCommand) -> u32 {
    match command {
        KeyValueCommand::Store(Store { bytes, .. })
        | KeyValueCommand::Retrieve(Retrieve { bytes, .. })
        | KeyValueCommand::List(List { bytes, .. }) => bytes,
        _ => 0,
    }
}

/// The key of a command; the empty one if it has none.
pub(crate) fn key_of(command: &KeyValueCommand) -> Key {
    match *command {
        KeyValueCommand::Flush => Key::EMPTY,
        KeyValueCommand::Store(Store { key, .. })
        | KeyValueCommand::Retrieve(Retrieve { key, .. })
        | KeyValueCommand::List(List { start: key, .. })
        | KeyValueCommand::Delete(key)
        | KeyValueCommand::Exist(key) => key,
    }
}

fn operation_of(command: &KeyValueCommand) -> Option<KeyOperation> {
    Some(match command {
        KeyValueCommand::Flush => return None,
        KeyValueCommand::Store(store) if store.condition == StoreCondition::Always => {
            KeyOperation::Store
        }
        KeyValueCommand::Store(_) => KeyOperation::StoreIf,
        KeyValueCommand::Retrieve(_) => KeyOperation::Retrieve,
        KeyValueCommand::List(_) => KeyOperation::List,
        KeyValueCommand::Delete(_) => KeyOperation::Delete,
        KeyValueCommand::Exist(_) => KeyOperation::Exist,
    })
}

/// The pairs of a namespace, borrowed to carry a command out.
#[derive(Debug)]
pub(crate) enum AnyPairs<'a> {
    KeyValue(&'a mut Pairs),
    Samsung(&'a mut KeySpaces),
}

/// Does the same with the pairs of either set.
macro_rules! on_pairs {
    ($any:ident, $pairs:ident => $do:expr) => {
        match $any {
            AnyPairs::KeyValue($pairs) => $do,
            AnyPairs::Samsung(spaces) => {
                let $pairs = spaces.pairs_mut();
                $do
            }
        }
    };
}

impl AnyPairs<'_> {
    /// What a command does now. Its value, if it brings one, is in `staged`.
    pub(crate) fn choose(
        &mut self,
        command: &AnyCommand,
        staged: Option<Place>,
        values: &mut dyn Values,
    ) -> Choice {
        match (self, command) {
            (AnyPairs::KeyValue(pairs), AnyCommand::KeyValue(command)) => {
                pairs.choose(command, staged, values)
            }
            (AnyPairs::Samsung(spaces), AnyCommand::Samsung(command)) => {
                spaces.choose(command, staged, values)
            }
            _ => {
                // The namespace is another one meanwhile.
                if let Some(place) = staged {
                    values.release(place);
                }
                Choice::ends(Decision::Absent, Status::INVALID_OPCODE.do_not_retry())
            }
        }
    }

    /// See [`Pairs::has_room`].
    pub(crate) fn has_room(&mut self, choice: &Choice, key_bytes: usize) -> bool {
        on_pairs!(self, pairs => pairs.has_room(choice, key_bytes))
    }

    /// See [`Pairs::make_so`].
    pub(crate) fn make_so(&mut self, choice: &Choice, values: &mut dyn Values) -> Ready {
        on_pairs!(self, pairs => pairs.make_so(choice, values))
    }

    /// See [`Pairs::take_back`].
    pub(crate) fn take_back(&mut self, choice: &Choice, values: &mut dyn Values) {
        on_pairs!(self, pairs => pairs.take_back(choice, values));
    }

    /// The namespace of the model that they lie in.
    pub(crate) fn pool(&mut self) -> mynah_model::io::NamespaceId {
        on_pairs!(self, pairs => pairs.pool())
    }

    /// See [`Pairs::expect_power_cut`].
    pub(crate) fn expect_power_cut(&mut self) {
        on_pairs!(self, pairs => pairs.expect_power_cut());
    }

    /// See [`Pairs::lose`].
    pub(crate) fn lose(&mut self, lost: &mynah_model::keys::LostPair, values: &mut dyn Values) {
        on_pairs!(self, pairs => pairs.lose(lost, values));
    }

    /// See [`Pairs::forget_replaced`].
    pub(crate) fn forget_replaced(&mut self, values: &mut dyn Values) {
        on_pairs!(self, pairs => pairs.forget_replaced(values));
    }

    /// Deletes all pairs; Samsung's iterators are closed.
    pub(crate) fn clear(&mut self, values: &mut dyn Values) {
        match self {
            AnyPairs::KeyValue(pairs) => pairs.clear(values),
            AnyPairs::Samsung(spaces) => spaces.clear(values),
        }
    }
}
