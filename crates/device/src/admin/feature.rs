//! Get Features and Set Features (Base 2.0, sections 5.15 and 5.27).
//!
//! No feature is saved: after a reset all have their defaults, and Set Features with the save
//! bit is refused.

use super::Context;
use crate::controllers::Role;
use crate::namespaces::WriteProtection;
use crate::namespaces::reservation::Notice;
use crate::nvm::NAMESPACE_ALL;
use crate::output::CommandKind;
use crate::subsystem::{Outcome, Subsystem};
use mynah_model::config::{Arbitration, Queues, Weights};
use mynah_model::io::Control;
use mynah_stamp::Span;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::{GetFeatures, Select, SetFeatures};
use mynah_wire::nvme::feature::{event, id};
use std::collections::BTreeMap;

/// The drive's temperature in kelvin: 40 degrees Celsius. The model has no heat: a constant.
pub(crate) const TEMPERATURE_K: u16 = 313;
/// WCTEMP and CCTEMP in kelvin. Estimates: 70 and 80 degrees Celsius are common.
pub(crate) const WARNING_TEMPERATURE_K: u16 = 343;
pub(crate) const CRITICAL_TEMPERATURE_K: u16 = 353;

/// Bytes of the host behavior support feature.
const HOST_BEHAVIOR_BYTES: usize = 512;

/// Features of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Features {
    arbitration: u32,
    over_temperature: u16,
    under_temperature: u16,
    /// By namespace identifier.
    error_recovery: BTreeMap<u32, u32>,
    coalescing: u32,
    vectors: BTreeMap<u16, bool>,
    write_atomicity: u32,
    non_operational_power: u32,
    endurance_events: u32,
    command_set_profile: u32,
    /// Advanced command retry, extended telemetry, LBA format extension.
    host_behavior: [u8; 3],
    /// Masks of reservation notifications, by namespace identifier.
    notification_masks: BTreeMap<u32, u32>,
}

impl Default for Features {
    fn default() -> Self {
        Features {
            arbitration: 0,
            over_temperature: WARNING_TEMPERATURE_K,
            under_temperature: 0,
            error_recovery: BTreeMap::new(),
            coalescing: 0,
            vectors: BTreeMap::new(),
            write_atomicity: 0,
            non_operational_power: 0,
            endurance_events: 0,
            command_set_profile: 0,
            host_behavior: [0; 3],
            notification_masks: BTreeMap::new(),
        }
    }
}

impl Features {
    /// As they are before a host changes them, where the drive arbitrates so.
    pub(crate) fn of(queues: &Queues) -> Features {
        Features { arbitration: arbitration_of(queues), ..Features::default() }
    }

    /// Whether the host has changed how the drive arbitrates.
    pub(crate) fn arbitrates_unlike(&self, queues: &Queues) -> bool {
        self.arbitration != arbitration_of(queues)
    }

    /// Interrupt coalescing: entries that are worth an interrupt, and how long one may wait.
    pub(crate) fn aggregation(&self) -> (u32, Span) {
        let time = Span::from_us(100).times(u64::from(self.coalescing >> 8 & 0xff));
        ((self.coalescing & 0xff) + 1, time)
    }

    /// Whether the interrupts of a vector come one by one all the same.
    pub(crate) fn is_not_coalesced(&self, vector: u16) -> bool {
        self.vectors.get(&vector).copied().unwrap_or(false)
    }

    /// Whether the host wants to hear of this.
    pub(crate) fn wants_notice(&self, namespace: u32, notice: Notice) -> bool {
        let mask = self.notification_masks.get(&namespace).copied().unwrap_or(0);
        mask >> (notice as u32) & 1 == 0
    }

    /// Whether the temperature is beyond a threshold.
    pub(crate) fn temperature_warns(&self) -> bool {
        TEMPERATURE_K >= self.over_temperature || TEMPERATURE_K <= self.under_temperature
    }
}

/// The arbitration burst that stands for no limit; others are exponents of two (Base 2.0, section
/// 5.27.1.1).
const BURST_UNLIMITED: u32 = 7;

/// How the Arbitration feature says what a drive does; a burst that is no power of two is said
/// as the next smaller one. Weights are counted from 0.
fn arbitration_of(queues: &Queues) -> u32 {
    let burst = queues.arbitration_burst.max(1).ilog2().min(BURST_UNLIMITED);
    match queues.arbitration {
        Arbitration::RoundRobin => burst,
        Arbitration::Weighted(Weights { high, medium, low }) => {
            let weight = |weight: u16| u32::from(weight.clamp(1, 256) - 1);
            weight(high) << 24 | weight(medium) << 16 | weight(low) << 8 | burst
        }
    }
}

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
            | id::WRITE_PROTECTION,
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
            | id::COMMAND_SET_PROFILE,
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
    u32::from(submission - 1) | u32::from(completion - 1) << 16
}

impl Subsystem {
    /// What a host may do with a feature; the volatile write cache has one only where there is
    /// such a cache (NVMe Base, Volatile Write Cache).
    fn allows(&self, feature: u8, role: Role) -> Option<Allows> {
        let there = feature != id::VOLATILE_WRITE_CACHE || self.model.has_volatile_cache();
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
        wanted: GetFeatures,
    ) -> Result<Outcome, Status> {
        let GetFeatures { feature, select, which } = wanted;
        let role = self.role(context)?;
        let allows = self.allows(feature, role).ok_or(invalid())?;
        if select == Select::Supported {
            let bits = u64::from(allows.namespaces) << 1 | u64::from(allows.change) << 2;
            return Ok(Outcome::Done(bits));
        }
        // Nothing is saved: the saved value is the default.
        let current = select == Select::Current;
        let namespace = context.entry.namespace_id.get();
        // NVMe 1.0 knew no namespaces here, and hosts still ask so (SPDK's nvme_compliance): they
        // get what is common to all.
        let of_all = feature == id::ERROR_RECOVERY && namespace == 0;
        if allows.namespaces && !of_all {
            self.feature_namespace(context, true)?;
        }
        let asked =
            if of_all { self.namespaces.active_ids(context.controller) } else { vec![namespace] };
        let now = self.now.wall;
        let timestamp = self.admin.timestamp.bytes(now);
        let sanitize_config = self.admin.sanitize_config;
        let write_cache = self.admin.write_cache;
        let place = self.namespaces.with_id(namespace);
        let (protection, persist) = place
            .map_or((0, 0), |it| (it.protection() as u32, u32::from(it.reservations().persists())));
        let defaults = Features::of(&self.model.drive().config().queues);
        let controller = self.controllers.need_mut(context.controller)?;
        let queues_max = controller.queues_max();
        let features = if current { controller.features() } else { &defaults };
        let value = match feature {
            id::ARBITRATION => features.arbitration,
            id::POWER_MANAGEMENT => 0,
            id::TEMPERATURE_THRESHOLD => match (which >> 16 & 0xf, which >> 20 & 3) {
                (0, 0) => u32::from(features.over_temperature),
                (0, 1) => u32::from(features.under_temperature),
                _ => return Err(invalid()),
            },
            id::ERROR_RECOVERY => {
                let of = |id: &u32| features.error_recovery.get(id).copied().unwrap_or(0);
                let value = asked.first().map_or(0, of);
                if asked.iter().any(|id| of(id) != value) {
                    return Err(Status::INVALID_NAMESPACE.do_not_retry());
                }
                value
            }
            id::VOLATILE_WRITE_CACHE => u32::from(write_cache || !current),
            id::NUMBER_OF_QUEUES => {
                let granted = match current {
                    true => controller.queues_granted(),
                    false => (queues_max, queues_max),
                };
                queue_counts(granted)
            }
            id::INTERRUPT_COALESCING => features.coalescing,
            id::INTERRUPT_VECTOR => {
                let vector = which as u16;
                if vector > queues_max {
                    return Err(invalid());
                }
                let disabled = features.vectors.get(&vector).copied().unwrap_or(false);
                u32::from(vector) | u32::from(disabled) << 16
            }
            id::WRITE_ATOMICITY => features.write_atomicity,
            id::ASYNCHRONOUS_EVENTS if current => controller.events().configuration(),
            id::ASYNCHRONOUS_EVENTS => 0,
            id::TIMESTAMP => {
                let stamp = if current { timestamp } else { [0; 8] };
                return Ok(Outcome::Data(stamp.to_vec()));
            }
            id::KEEP_ALIVE if current => (controller.keep_alive().as_ps() / 1_000_000_000) as u32,
            id::KEEP_ALIVE => 0,
            id::NON_OPERATIONAL_POWER => features.non_operational_power,
            id::HOST_BEHAVIOR => {
                let mut bytes = vec![0; HOST_BEHAVIOR_BYTES];
                bytes[..3].copy_from_slice(&features.host_behavior);
                return Ok(Outcome::Data(bytes));
            }
            id::SANITIZE_CONFIG if current => sanitize_config,
            id::SANITIZE_CONFIG => 0,
            id::ENDURANCE_GROUP_EVENTS => {
                if which as u16 != 1 {
                    return Err(invalid());
                }
                features.endurance_events
            }
            id::COMMAND_SET_PROFILE => features.command_set_profile,
            id::HOST_ID => {
                // Only the 128-bit format fits fabrics.
                if which & 1 == 0 {
                    return Err(invalid());
                }
                return Ok(Outcome::Data(controller.host_id().to_vec()));
            }
            id::RESERVATION_NOTIFICATION => {
                features.notification_masks.get(&namespace).copied().unwrap_or(0)
            }
            id::RESERVATION_PERSISTENCE if current => persist,
            id::RESERVATION_PERSISTENCE => 0,
            id::WRITE_PROTECTION => {
                if current {
                    protection
                } else {
                    0
                }
            }
            _ => return Err(invalid()),
        };
        Ok(Outcome::Done(u64::from(value)))
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

    /// Passes the host's choice of burst and weights on to the model.
    fn arbitrate(&mut self, value: u32) {
        let weight = |shift: u32| (value >> shift & 0xff) as u16 + 1;
        let weights = Weights { high: weight(24), medium: weight(16), low: weight(8) };
        let burst = match value & BURST_UNLIMITED {
            BURST_UNLIMITED => u32::MAX,
            exponent => 1 << exponent,
        };
        self.control(Control::Arbitration { burst, weights });
    }

    pub(super) fn set_features(
        &mut self,
        context: Context<'_>,
        wanted: SetFeatures,
    ) -> Result<Outcome, Status> {
        let SetFeatures { feature, saves, value } = wanted;
        let role = self.role(context)?;
        let allows = self.allows(feature, role).ok_or(invalid())?;
        if saves {
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
            self.feature_namespace(context, feature == id::WRITE_PROTECTION)?;
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
            id::RESERVATION_PERSISTENCE => return self.persist_reservations(&active, value),
            id::ARBITRATION => self.arbitrate(value),
            _ => {}
        }
        let controller = self.controllers.need_mut(context.controller)?;
        let queues_max = controller.queues_max();
        let features = controller.features_mut();
        let mut result = 0;
        match feature {
            id::ARBITRATION => features.arbitration = value,
            // There is one power state.
            id::POWER_MANAGEMENT if value & 0x1f == 0 => {}
            id::POWER_MANAGEMENT => return Err(invalid()),
            id::TEMPERATURE_THRESHOLD => match (value >> 16 & 0xf, value >> 20 & 3) {
                (0 | 0xf, 0) => features.over_temperature = value as u16,
                (0 | 0xf, 1) => features.under_temperature = value as u16,
                _ => return Err(invalid()),
            },
            id::ERROR_RECOVERY => {
                // DULBE (bit 16) needs NSFEAT bit 2.
                if value & 1 << 16 != 0 {
                    return Err(invalid());
                }
                features.error_recovery.extend(active.iter().map(|&id| (id, value & 0xffff)));
            }
            id::NUMBER_OF_QUEUES => {
                let (submission, completion) = (value as u16, (value >> 16) as u16);
                if submission == 0xffff || completion == 0xffff {
                    return Err(invalid());
                }
                if controller.has_io_queues() {
                    return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
                }
                let mut granted =
                    ((submission + 1).min(queues_max), (completion + 1).min(queues_max));
                if !controller.is_guests() {
                    // A fabrics queue is a pair.
                    let pairs = granted.0.min(granted.1);
                    granted = (pairs, pairs);
                }
                controller.grant_queues(granted);
                result = u64::from(queue_counts(granted));
            }
            id::INTERRUPT_COALESCING => features.coalescing = value & 0xffff,
            id::INTERRUPT_VECTOR => {
                if value as u16 > queues_max {
                    return Err(invalid());
                }
                features.vectors.insert(value as u16, value >> 16 & 1 != 0);
            }
            id::WRITE_ATOMICITY => features.write_atomicity = value & 1,
            id::ASYNCHRONOUS_EVENTS => {
                let known = match role {
                    Role::Discovery => event::DISCOVERY_CHANGED,
                    Role::Io => {
                        event::CRITICAL_WARNINGS | event::NAMESPACE_CHANGED | event::ANA_CHANGED
                    }
                };
                controller.events_mut().configure(value & known);
            }
            id::NON_OPERATIONAL_POWER => features.non_operational_power = value & 1,
            id::HOST_BEHAVIOR => {
                let short = Status::SGL_DATA_LENGTH_INVALID.do_not_retry();
                let bytes: &[u8; 3] = context.data.first_chunk().ok_or(short)?;
                if bytes.iter().any(|&byte| byte > 1) {
                    return Err(invalid());
                }
                features.host_behavior = *bytes;
            }
            id::ENDURANCE_GROUP_EVENTS => {
                if value as u16 != 1 {
                    return Err(invalid());
                }
                features.endurance_events = value;
            }
            // There is one profile: the NVM command set.
            id::COMMAND_SET_PROFILE if value & 0x1ff == 0 => {}
            id::COMMAND_SET_PROFILE => {
                return Err(Status::COMMAND_SET_COMBINATION_REJECTED.do_not_retry());
            }
            id::RESERVATION_NOTIFICATION => {
                features.notification_masks.extend(active.iter().map(|&id| (id, value & 0xe)));
            }
            _ => return Err(invalid()),
        }
        let warns = controller.features().temperature_warns();
        if warns && matches!(feature, id::TEMPERATURE_THRESHOLD | id::ASYNCHRONOUS_EVENTS) {
            self.raise(context.controller, super::event::TEMPERATURE);
        }
        Ok(Outcome::Done(result))
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
        self.describe();
        Ok(Outcome::Done(0))
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
        self.describe();
        if state == WriteProtection::None {
            return Ok(Outcome::Done(0));
        }
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
