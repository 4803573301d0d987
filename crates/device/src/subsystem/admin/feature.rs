//! Get Features and Set Features (Base 2.0, sections 5.15 and 5.27).
//!
//! No feature but that of data placement is saved: after a reset all have their defaults, and Set
//! Features with the save bit is refused.

use super::Context;
use crate::controllers::{Controller, Features, Role, arbitration_control};
use crate::namespaces::WriteProtection;
use crate::output::CommandKind;
use crate::subsystem::nvm::NAMESPACE_ALL;
use crate::subsystem::{Outcome, Subsystem};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::{GetFeatures, Select, SetFeatures};
use mynah_wire::nvme::feature::{KeyValueConfiguration, NumberOfQueues, event, id};

/// What a feature allows (the result of Get Features with SEL = supported).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Allows {
    change: bool,
    namespaces: bool,
}

fn allows(feature: u8, role: Role) -> Option<Allows> {
    let (change, namespaces) = match (feature, role) {
        (id::ASYNCHRONOUS_EVENTS | id::KEEP_ALIVE, _) => (true, false),
        (_, Role::Discovery) => return None,
        (
            id::ERROR_RECOVERY
            | id::RESERVATION_NOTIFICATION
            | id::RESERVATION_PERSISTENCE
            | id::WRITE_PROTECTION
            | id::PLACEMENT_EVENTS
            | id::KEY_VALUE_CONFIGURATION,
            _,
        ) => (true, true),
        (id::HOST_ID, _) => (false, false),
        (
            id::ARBITRATION
            | id::POWER_MANAGEMENT
            | id::TEMPERATURE_THRESHOLD
            | id::VOLATILE_WRITE_CACHE
            | id::NUMBER_OF_QUEUES
            | id::INTERRUPT_COALESCING
            | id::INTERRUPT_VECTOR
            | id::WRITE_ATOMICITY
            | id::TIMESTAMP
            | id::NON_OPERATIONAL_POWER
            | id::HOST_BEHAVIOR
            | id::SANITIZE_CONFIG
            | id::ENDURANCE_GROUP_EVENTS
            | id::COMMAND_SET_PROFILE
            | id::DATA_PLACEMENT,
            _,
        ) => (true, false),
        _ => return None,
    };
    Some(Allows { change, namespaces })
}

fn invalid() -> Status {
    Status::INVALID_FIELD.do_not_retry()
}

/// How many submission and completion queues there may be, as Number of Queues says it.
fn queue_counts((submission, completion): (u16, u16)) -> u32 {
    NumberOfQueues { submission: submission - 1, completion: completion - 1 }.to_bits()
}

/// Lets a controller have as many queues as its host wants and there can be; how many that are.
fn grant_queues(controller: &mut Controller, request: u32) -> Result<u32, Status> {
    let NumberOfQueues { submission, completion } = NumberOfQueues::from_bits(request);
    if submission == 0xffff || completion == 0xffff {
        return Err(invalid());
    }
    if controller.has_io_queues() {
        return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
    }
    let most = controller.queues_max();
    let mut granted = ((submission + 1).min(most), (completion + 1).min(most));
    if !controller.is_guests() {
        // A fabrics queue is a pair.
        let pairs = granted.0.min(granted.1);
        granted = (pairs, pairs);
    }
    controller.grant_queues(granted);
    Ok(queue_counts(granted))
}

impl Subsystem {
    /// What a host may do with a feature; the volatile write cache has one only where there is
    /// such a cache (NVMe Base, Volatile Write Cache), pairs where there can be any, and data placement
    /// where the drive has it.
    fn allows(&self, feature: u8, role: Role) -> Option<Allows> {
        let there = match feature {
            id::VOLATILE_WRITE_CACHE => self.has_volatile_cache(),
            id::KEY_VALUE_CONFIGURATION => self.namespaces.can_hold_pairs(),
            id::DATA_PLACEMENT | id::PLACEMENT_EVENTS => self.has_placement(),
            _ => true,
        };
        allows(feature, role).filter(|_| there)
    }

    /// The features there are, for the log of features.
    pub(super) fn supported_features(&self) -> Vec<(u8, bool, bool)> {
        let all = (0..=255).filter_map(|feature| {
            let allows = self.allows(feature, Role::Io)?;
            Some((feature, allows.change, allows.namespaces))
        });
        all.collect()
    }

    pub(super) fn get_features(
        &mut self,
        context: Context<'_>,
        request: GetFeatures,
    ) -> Result<Outcome, Status> {
        let GetFeatures { feature, select, which } = request;
        let role = self.role(context)?;
        let allows = self.allows(feature, role).ok_or(invalid())?;
        if select == Select::Supported {
            let bits = u64::from(allows.namespaces) << 1 | u64::from(allows.change) << 2;
            let bits = bits | u64::from(feature == id::DATA_PLACEMENT);
            return Ok(Outcome::Done(bits));
        }
        // But for data placement nothing is saved: the saved value is the default.
        let current = select == Select::Current;
        let namespace = context.entry.namespace_id.get();
        // NVMe 1.0 knew no namespaces here, and hosts still ask so (SPDK's nvme_compliance): they
        // get what is common to all.
        let of_all = feature == id::ERROR_RECOVERY && namespace == 0;
        if allows.namespaces && !of_all {
            self.feature_namespace(context, true)?;
        }
        if feature == id::KEY_VALUE_CONFIGURATION {
            self.namespaces.with_id(namespace).and_then(|it| it.pairs()).ok_or(invalid())?;
        }
        match feature {
            id::DATA_PLACEMENT => {
                return self.placement_feature(which, select != Select::Default);
            }
            id::PLACEMENT_EVENTS => return self.events_feature(namespace, which, current),
            _ => {}
        }
        let namespaces =
            if of_all { self.namespaces.active_ids(context.controller) } else { vec![namespace] };
        if let Some(value) = self.shared_feature(feature, namespace, current) {
            return Ok(Outcome::Done(value.into()));
        }
        let defaults = Features::of(&self.model.config().queues);
        let controller = self.controllers.need(context.controller)?;
        let queues_max = controller.queues_max();
        let features = if current { controller.features() } else { &defaults };
        let value = match feature {
            id::NUMBER_OF_QUEUES if current => queue_counts(controller.queues_granted()),
            id::NUMBER_OF_QUEUES => queue_counts((queues_max, queues_max)),
            id::ASYNCHRONOUS_EVENTS if current => controller.events().configuration(),
            id::KEEP_ALIVE if current => (controller.keep_alive().as_ps() / 1_000_000_000) as u32,
            id::ASYNCHRONOUS_EVENTS | id::KEEP_ALIVE => 0,
            id::TIMESTAMP => {
                let set = current.then(|| self.admin.timestamp.bytes(self.now.wall));
                return Ok(Outcome::Data(set.unwrap_or_default().to_vec()));
            }
            id::HOST_BEHAVIOR => return Ok(Outcome::Data(features.host_behavior())),
            // Only the 128-bit format fits fabrics.
            id::HOST_ID if which & 1 == 0 => return Err(invalid()),
            id::HOST_ID => return Ok(Outcome::Data(controller.host_id().to_vec())),
            _ => features.value(feature, which, queues_max, &namespaces)?,
        };
        Ok(Outcome::Done(u64::from(value)))
    }

    /// The value of a feature that controllers share, or namespaces have; `None` if it is another.
    fn shared_feature(&self, feature: u8, namespace: u32, current: bool) -> Option<u32> {
        let namespace = self.namespaces.with_id(namespace).filter(|_| current);
        Some(match feature {
            id::VOLATILE_WRITE_CACHE => u32::from(self.admin.write_cache || !current),
            id::SANITIZE_CONFIG if current => self.admin.sanitize_config,
            id::SANITIZE_CONFIG => 0,
            id::RESERVATION_PERSISTENCE => {
                namespace.map_or(0, |it| it.reservations().persists().into())
            }
            id::WRITE_PROTECTION => namespace.map_or(0, |it| it.protection() as u32),
            id::KEY_VALUE_CONFIGURATION => {
                let pairs = namespace.and_then(|it| it.pairs());
                pairs.map_or(0, |it| it.configuration().to_bits())
            }
            _ => return None,
        })
    }

    fn role(&self, context: Context<'_>) -> Result<Role, Status> {
        let controller = self.controllers.get(context.controller);
        Ok(controller.ok_or(Status::INTERNAL_ERROR)?.role())
    }

    /// Checks the namespace of a feature that namespaces have.
    fn feature_namespace(&self, context: Context<'_>, one: bool) -> Result<(), Status> {
        match context.entry.namespace_id.get() {
            NAMESPACE_ALL if !one => Ok(()),
            id => self.namespaces.active(context.controller, id).map(|_| ()),
        }
    }

    pub(super) fn set_features(
        &mut self,
        context: Context<'_>,
        request: SetFeatures,
    ) -> Result<Outcome, Status> {
        let SetFeatures { feature, saves, value, more } = request;
        let role = self.role(context)?;
        let allows = self.allows(feature, role).ok_or(invalid())?;
        if saves && feature != id::DATA_PLACEMENT {
            return Err(Status::FEATURE_NOT_SAVEABLE.do_not_retry());
        }
        if feature == id::HOST_ID {
            return self.set_host_id(context, value);
        }
        if !allows.change {
            return Err(Status::FEATURE_NOT_CHANGEABLE.do_not_retry());
        }
        let namespace = context.entry.namespace_id.get();
        if allows.namespaces {
            let one = matches!(feature, id::WRITE_PROTECTION | id::PLACEMENT_EVENTS);
            self.feature_namespace(context, one)?;
        } else if !matches!(namespace, 0 | NAMESPACE_ALL) {
            return Err(Status::FEATURE_NOT_NAMESPACE_SPECIFIC.do_not_retry());
        }
        let active = match namespace {
            NAMESPACE_ALL => self.namespaces.active_ids(context.controller),
            _ => vec![namespace],
        };
        match feature {
            id::VOLATILE_WRITE_CACHE => {
                self.admin.write_cache = value & 1 != 0;
                return Ok(Outcome::Done(0));
            }
            id::KEEP_ALIVE => {
                self.set_keep_alive(context.controller, value);
                return Ok(Outcome::Done(0));
            }
            id::TIMESTAMP => {
                let short = Status::SGL_DATA_LENGTH_INVALID.do_not_retry();
                let bytes: &[u8; 8] = context.data.first_chunk().ok_or(short)?;
                self.admin.timestamp.set(bytes, self.now.wall);
                return Ok(Outcome::Done(0));
            }
            id::SANITIZE_CONFIG => {
                self.admin.sanitize_config = value & 1;
                return Ok(Outcome::Done(0));
            }
            id::WRITE_PROTECTION => return self.protect(context, value),
            id::DATA_PLACEMENT => return self.set_placement(value, more),
            id::PLACEMENT_EVENTS => return self.set_events(context, value, more & 1 != 0),
            id::KEY_VALUE_CONFIGURATION => return self.configure_pairs(namespace, &active, value),
            id::RESERVATION_PERSISTENCE => {
                return self.persist_reservations(&active, value);
            }
            id::ARBITRATION => self.control(arbitration_control(value)),
            _ => {}
        }
        let controller = self.controllers.need_mut(context.controller)?;
        let mut result = 0;
        match feature {
            id::NUMBER_OF_QUEUES => result = grant_queues(controller, value)?.into(),
            id::ASYNCHRONOUS_EVENTS => {
                let known = match role {
                    Role::Discovery => event::DISCOVERY_CHANGED,
                    Role::Io => {
                        event::CRITICAL_WARNINGS | event::NAMESPACE_CHANGED | event::ANA_CHANGED
                    }
                };
                controller.events_mut().configure(value & known);
            }
            id::HOST_BEHAVIOR => controller.features_mut().set_host_behavior(context.data)?,
            _ => {
                let queues_max = controller.queues_max();
                controller.features_mut().set(feature, value, queues_max, &active)?;
            }
        }
        let warns = controller.features().temperature_warns();
        if warns && matches!(feature, id::TEMPERATURE_THRESHOLD | id::ASYNCHRONOUS_EVENTS) {
            self.raise(context.controller, crate::controllers::events::TEMPERATURE);
        }
        Ok(Outcome::Done(result))
    }

    /// What Delete does in these namespaces where there is no key.
    fn configure_pairs(
        &mut self,
        namespace: u32,
        active: &[u32],
        value: u32,
    ) -> Result<Outcome, Status> {
        let configuration = KeyValueConfiguration::from_bits(value);
        for &id in active {
            match self.namespaces.with_id_mut(id).and_then(|it| it.pairs_mut()) {
                Some(pairs) => pairs.configure(configuration),
                // All of those that hold pairs are meant.
                None if namespace == NAMESPACE_ALL => {}
                None => return Err(invalid()),
            }
        }
        Ok(Outcome::Done(0))
    }

    /// The host says who it is: once, and only where Connect has not done so.
    fn set_host_id(&mut self, context: Context<'_>, value: u32) -> Result<Outcome, Status> {
        let controller = self.controllers.need_mut(context.controller)?;
        let may = controller.is_guests();
        if may && value & 1 == 0 {
            // Only the 128-bit format, as for every other host.
            return Err(invalid());
        }
        let bytes =
            context.data.first_chunk().ok_or(Status::SGL_DATA_LENGTH_INVALID.do_not_retry());
        if !may || (*controller.host_id() != [0; 16] && Ok(controller.host_id()) != bytes) {
            return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
        }
        controller.set_host_id(*bytes?);
        Ok(Outcome::Done(0))
    }

    /// Reservations of these namespaces outlive a power loss from now on, or do not.
    fn persist_reservations(&mut self, ids: &[u32], value: u32) -> Result<Outcome, Status> {
        if value > 1 {
            return Err(invalid());
        }
        let mut before = Vec::new();
        for &id in ids {
            if let Some(namespace) = self.namespaces.with_id_mut(id) {
                before.push((id, namespace.reservations().persists()));
                namespace.change_reservations(|state| state.set_persists(value == 1));
            }
        }
        if !self.can_describe_more(0) {
            for (id, persist) in before {
                if let Some(namespace) = self.namespaces.with_id_mut(id) {
                    namespace.change_reservations(|state| state.set_persists(persist));
                }
            }
            return Err(Status::INTERNAL_ERROR);
        }
        Ok(Outcome::OncePersistent(0))
    }

    fn protect(&mut self, context: Context<'_>, value: u32) -> Result<Outcome, Status> {
        let state = match value & 7 {
            0 => WriteProtection::None,
            1 => WriteProtection::On,
            2 => WriteProtection::UntilPowerCycle,
            _ => return Err(invalid()),
        };
        let at = context.entry.namespace_id.get() as usize - 1;
        let target = self.namespaces.get_mut(at).ok_or(Status::INVALID_NAMESPACE)?;
        if target.protection() == WriteProtection::UntilPowerCycle {
            return Err(Status::FEATURE_NOT_CHANGEABLE.do_not_retry());
        }
        target.protect(state);
        if state == WriteProtection::None {
            return Ok(Outcome::OncePersistent(0));
        }
        self.describe();
        // What is protected is on stable storage (so does nvmet_set_feat_write_protect in
        // drivers/nvme/target/admin-cmd.c of Linux), and does not change any more.
        self.need_own_queue();
        let index = self.begin_whole(context.queue, context.entry, CommandKind::Admin, at);
        self.overtake_writes(at, index, Status::NAMESPACE_WRITE_PROTECTED.do_not_retry());
        self.flush_namespaces(index, &[at]);
        self.start(index);
        Ok(Outcome::Later)
    }
}
