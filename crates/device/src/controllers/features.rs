//! The features that belong to one controller, and their values (Base 2.0, section 5.27.1).

use crate::namespaces::reservation::Notice;
use mynah_model::config::{Arbitration, Queues, Weights};
use mynah_model::io::Control;
use mynah_stamp::Span;
use mynah_wire::nvme::Status;
use mynah_wire::nvme::feature::{
    Arbitration as Value, InterruptCoalescing, InterruptVector, TemperatureThreshold, id,
};
use std::collections::BTreeMap;

/// The drive's temperature in kelvin: 40 degrees Celsius. The model has no heat: a constant.
pub(crate) const TEMPERATURE_K: u16 = 313;
/// WCTEMP and CCTEMP in kelvin. Estimates: 70 and 80 degrees Celsius are common.
pub(crate) const WARNING_TEMPERATURE_K: u16 = 343;
pub(crate) const CRITICAL_TEMPERATURE_K: u16 = 353;

/// The identifier of the endurance group that there is.
pub(crate) const ENDURANCE_GROUP: u16 = 1;

/// Bytes of the host behavior support feature.
pub(crate) const HOST_BEHAVIOR_BYTES: usize = 512;

/// Aggregation of interrupts (Base 2.0, section 5.27.1.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aggregation {
    /// Entries that are worth an interrupt before the time is over.
    pub(crate) entries: u32,
    /// How long an entry may wait for its interrupt.
    pub(crate) time: Span,
}

fn invalid() -> Status {
    Status::INVALID_FIELD.do_not_retry()
}

/// Features of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Features {
    arbitration: u32,
    over_temperature: u16,
    under_temperature: u16,
    /// By namespace identifier.
    error_recovery: BTreeMap<u32, u32>,
    coalescing: InterruptCoalescing,
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
            coalescing: InterruptCoalescing::default(),
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
        let InterruptCoalescing { threshold, time } = self.coalescing;
        (u32::from(threshold) + 1, Span::from_us(100).times(time.into()))
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

    /// Bytes of the host behavior support feature.
    pub(crate) fn host_behavior(&self) -> Vec<u8> {
        let mut bytes = vec![0; HOST_BEHAVIOR_BYTES];
        bytes[..3].copy_from_slice(&self.host_behavior);
        bytes
    }

    pub(crate) fn set_host_behavior(&mut self, data: &[u8]) -> Result<(), Status> {
        let short = Status::SGL_DATA_LENGTH_INVALID.do_not_retry();
        let bytes: &[u8; 3] = data.first_chunk().ok_or(short)?;
        if bytes.iter().any(|&byte| byte > 1) {
            return Err(invalid());
        }
        self.host_behavior = *bytes;
        Ok(())
    }

    /// The value of a feature, of several the one that `which` says, for these namespaces. Fails
    /// where it is none of these features.
    pub(crate) fn value(
        &self,
        feature: u8,
        which: u32,
        queues_max: u16,
        namespaces: &[u32],
    ) -> Result<u32, Status> {
        Ok(match feature {
            id::ARBITRATION => self.arbitration,
            id::POWER_MANAGEMENT => 0,
            id::TEMPERATURE_THRESHOLD => {
                let TemperatureThreshold { sensor, kind, .. } =
                    TemperatureThreshold::from_bits(which);
                match (sensor, kind) {
                    (0, 0) => u32::from(self.over_temperature),
                    (0, 1) => u32::from(self.under_temperature),
                    _ => return Err(invalid()),
                }
            }
            id::ERROR_RECOVERY => {
                let of = |id: &u32| self.error_recovery.get(id).copied().unwrap_or(0);
                let value = namespaces.first().map_or(0, of);
                if namespaces.iter().any(|id| of(id) != value) {
                    return Err(Status::INVALID_NAMESPACE.do_not_retry());
                }
                value
            }
            id::INTERRUPT_COALESCING => self.coalescing.to_bits(),
            id::INTERRUPT_VECTOR => {
                let InterruptVector { vector, .. } = InterruptVector::from_bits(which);
                if vector > queues_max {
                    return Err(invalid());
                }
                let coalescing_disabled = self.is_not_coalesced(vector);
                InterruptVector { vector, coalescing_disabled }.to_bits()
            }
            id::WRITE_ATOMICITY => self.write_atomicity,
            id::NON_OPERATIONAL_POWER => self.non_operational_power,
            id::ENDURANCE_GROUP_EVENTS => {
                if which as u16 != ENDURANCE_GROUP {
                    return Err(invalid());
                }
                self.endurance_events
            }
            id::COMMAND_SET_PROFILE => self.command_set_profile,
            id::RESERVATION_NOTIFICATION => {
                let mask = namespaces.first().and_then(|id| self.notification_masks.get(id));
                mask.copied().unwrap_or(0)
            }
            _ => return Err(invalid()),
        })
    }

    /// Sets the value of a feature, with the same arguments as for [`Features::value`].
    pub(crate) fn set(
        &mut self,
        feature: u8,
        value: u32,
        queues_max: u16,
        namespaces: &[u32],
    ) -> Result<(), Status> {
        match feature {
            id::ARBITRATION => self.arbitration = value,
            // There is one power state.
            id::POWER_MANAGEMENT if value & 0x1f == 0 => {}
            id::TEMPERATURE_THRESHOLD => {
                let TemperatureThreshold { kelvin, sensor, kind } =
                    TemperatureThreshold::from_bits(value);
                match (sensor, kind) {
                    (0 | 0xf, 0) => self.over_temperature = kelvin,
                    (0 | 0xf, 1) => self.under_temperature = kelvin,
                    _ => return Err(invalid()),
                }
            }
            id::ERROR_RECOVERY => {
                // DULBE (bit 16) needs NSFEAT bit 2.
                if value & 1 << 16 != 0 {
                    return Err(invalid());
                }
                self.error_recovery.extend(namespaces.iter().map(|&id| (id, value & 0xffff)));
            }
            id::INTERRUPT_COALESCING => self.coalescing = InterruptCoalescing::from_bits(value),
            id::INTERRUPT_VECTOR => {
                let InterruptVector { vector, coalescing_disabled } =
                    InterruptVector::from_bits(value);
                if vector > queues_max {
                    return Err(invalid());
                }
                self.vectors.insert(vector, coalescing_disabled);
            }
            id::WRITE_ATOMICITY => self.write_atomicity = value & 1,
            id::NON_OPERATIONAL_POWER => self.non_operational_power = value & 1,
            id::ENDURANCE_GROUP_EVENTS => {
                if value as u16 != ENDURANCE_GROUP {
                    return Err(invalid());
                }
                self.endurance_events = value;
            }
            // There is one profile: the NVM command set.
            id::COMMAND_SET_PROFILE if value & 0x1ff == 0 => {}
            id::COMMAND_SET_PROFILE => {
                return Err(Status::COMMAND_SET_COMBINATION_REJECTED.do_not_retry());
            }
            id::RESERVATION_NOTIFICATION => {
                self.notification_masks.extend(namespaces.iter().map(|&id| (id, value & 0xe)));
            }
            _ => return Err(invalid()),
        }
        Ok(())
    }

    /// Whether the temperature is beyond a threshold.
    pub(crate) fn temperature_warns(&self) -> bool {
        TEMPERATURE_K >= self.over_temperature || TEMPERATURE_K <= self.under_temperature
    }
}

/// How the Arbitration feature says what a drive does; a burst that is no power of two is said
/// as the next smaller one. Weights are counted from 0.
fn arbitration_of(queues: &Queues) -> u32 {
    let unlimited = Value::BURST_UNLIMITED.into();
    let burst = queues.arbitration_burst.max(1).ilog2().min(unlimited) as u8;
    let value = match queues.arbitration {
        Arbitration::RoundRobin => Value { burst, low: 0, medium: 0, high: 0 },
        Arbitration::Weighted(Weights { high, medium, low }) => {
            let weight = |weight: u16| (weight.clamp(1, 256) - 1) as u8;
            Value { burst, low: weight(low), medium: weight(medium), high: weight(high) }
        }
    };
    value.to_bits()
}

/// What the host's choice of burst and weights is to the model.
pub(crate) fn arbitration_control(value: u32) -> Control {
    let value = Value::from_bits(value);
    let weight = |weight: u8| u16::from(weight) + 1;
    let weights =
        Weights { high: weight(value.high), medium: weight(value.medium), low: weight(value.low) };
    let burst = match value.burst {
        Value::BURST_UNLIMITED => u32::MAX,
        exponent => 1 << exponent,
    };
    Control::Arbitration { burst, weights }
}
