//! Reservations of a namespace (Base 2.0, section 8.19): who may register, acquire, release,
//! and whose commands are let in.

use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::{
    AcquireAction, Persistence, RegisterAction, ReleaseAction, ReservationAcquire,
    ReservationRegister, ReservationRelease,
};
use mynah_wire::nvme::reservation::ReservationType;

/// A host, by its 128-bit identifier.
pub(crate) type HostId = [u8; 16];

/// Most registrants of a namespace.
pub(crate) const REGISTRANTS_MAX: usize = 1024;

/// What a host is told in the reservation notification log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Notice {
    RegistrationPreempted = 1,
    ReservationReleased = 2,
    ReservationPreempted = 3,
}

/// Which hosts get which notifications.
pub(crate) type Notices = Vec<(HostId, Notice)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registrant {
    pub(crate) host: HostId,
    pub(crate) key: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) kind: ReservationType,
    /// Of the types that all registrants hold, whoever acquired it.
    pub(crate) holder: HostId,
}

/// Registrations and the reservation of a namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    /// GEN: how many commands have succeeded that may change registrations, whether or not they
    /// did: Register, Clear, Preempt, Preempt and Abort (Base 2.0, section 7.5).
    generation: u32,
    registrants: Vec<Registrant>,
    held: Option<Held>,
    /// Whether they outlive a power loss (PTPL).
    persist: bool,
}

impl Reservations {
    /// What an earlier process has kept of reservations that persist through power loss.
    pub(crate) fn kept(
        generation: u32,
        registrants: Vec<Registrant>,
        held: Option<Held>,
    ) -> Reservations {
        Reservations { generation, registrants, held, persist: true }
    }

    /// GEN: how many commands have succeeded that may change registrations.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) fn registrants(&self) -> &[Registrant] {
        &self.registrants
    }

    pub(crate) fn held(&self) -> Option<Held> {
        self.held
    }

    /// Whether they outlive a power loss.
    pub(crate) fn persists(&self) -> bool {
        self.persist
    }

    pub(crate) fn set_persists(&mut self, persists: bool) {
        self.persist = persists;
    }

    /// The type of the reservation held.
    pub(crate) fn holder_kind(&self) -> Option<ReservationType> {
        self.held.map(|held| held.kind)
    }

    fn key_of(&self, host: &HostId) -> Option<u64> {
        self.registrants.iter().find(|registrant| registrant.host == *host).map(|it| it.key)
    }

    /// Whether `host` holds the reservation, or is one of those who do.
    pub(crate) fn is_held_by(&self, host: &HostId) -> bool {
        self.held.is_some_and(|held| {
            if held.kind.is_held_by_all() {
                self.key_of(host).is_some()
            } else {
                held.holder == *host
            }
        })
    }

    /// Whether `host` may read (or, with `writes`, write).
    pub(crate) fn admits(&self, host: &HostId, writes: bool) -> bool {
        let Some(held) = self.held else { return true };
        self.is_held_by(host)
            || (held.kind.admits_registrants() && self.key_of(host).is_some())
            || (!writes && !held.kind.is_exclusive_access())
    }

    /// Reservation Register.
    pub(crate) fn register(
        &mut self,
        host: HostId,
        request: ReservationRegister,
        current: u64,
        new: u64,
    ) -> Result<Notices, Status> {
        if request.persistence == Persistence::Reserved {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let notices = self.change_registration(host, request, current, new)?;
        self.generation = self.generation.wrapping_add(1);
        match request.persistence {
            Persistence::Off => self.persist = false,
            Persistence::On => self.persist = true,
            Persistence::Unchanged | Persistence::Reserved => {}
        }
        Ok(notices)
    }

    fn change_registration(
        &mut self,
        host: HostId,
        request: ReservationRegister,
        current: u64,
        new: u64,
    ) -> Result<Notices, Status> {
        let invalid = Err(Status::INVALID_FIELD.do_not_retry());
        let key = self.key_of(&host);
        let knows_key = key.is_some() && (request.ignores_key || key == Some(current));
        match request.action {
            RegisterAction::Register | RegisterAction::Replace if new == 0 => invalid,
            RegisterAction::Register => match key {
                Some(key) if key == new => Ok(vec![]),
                Some(_) => Err(Status::RESERVATION_CONFLICT),
                None if self.registrants.len() >= REGISTRANTS_MAX => Err(Status::INTERNAL_ERROR),
                None => {
                    self.registrants.push(Registrant { host, key: new });
                    Ok(vec![])
                }
            },
            RegisterAction::Unregister if knows_key => Ok(self.unregister(host)),
            RegisterAction::Replace if knows_key => {
                for registrant in self.registrants.iter_mut().filter(|it| it.host == host) {
                    registrant.key = new;
                }
                Ok(vec![])
            }
            RegisterAction::Unregister | RegisterAction::Replace => {
                Err(Status::RESERVATION_CONFLICT)
            }
            RegisterAction::Reserved(_) => invalid,
        }
    }

    fn unregister(&mut self, host: HostId) -> Notices {
        let held_before = self.is_held_by(&host);
        self.registrants.retain(|registrant| registrant.host != host);
        let Some(held) = self.held else { return vec![] };
        if !held_before || (held.kind.is_held_by_all() && !self.registrants.is_empty()) {
            return vec![];
        }
        self.held = None;
        // Those whom the reservation let in learn that it is gone.
        if held.kind.admits_registrants() { self.tell_others(host) } else { vec![] }
    }

    fn tell_others(&self, host: HostId) -> Notices {
        let others = self.registrants.iter().filter(|it| it.host != host);
        others.map(|it| (it.host, Notice::ReservationReleased)).collect()
    }

    /// Reservation Acquire.
    pub(crate) fn acquire(
        &mut self,
        host: HostId,
        request: ReservationAcquire,
        current: u64,
        preempted: u64,
    ) -> Result<Notices, Status> {
        let kind = ReservationType::from_code(request.kind);
        let (Some(kind), false) = (kind, request.ignores_key) else {
            return Err(Status::INVALID_FIELD.do_not_retry());
        };
        if self.key_of(&host) != Some(current) {
            return Err(Status::RESERVATION_CONFLICT);
        }
        match request.action {
            AcquireAction::Acquire => match self.held {
                None => {
                    self.held = Some(Held { kind, holder: host });
                    Ok(vec![])
                }
                Some(held) if held.kind == kind && self.is_held_by(&host) => Ok(vec![]),
                Some(_) => Err(Status::RESERVATION_CONFLICT),
            },
            AcquireAction::Preempt | AcquireAction::PreemptAndAbort => {
                self.preempt(host, kind, preempted)
            }
            AcquireAction::Reserved(_) => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    }

    fn preempt(
        &mut self,
        host: HostId,
        kind: ReservationType,
        key: u64,
    ) -> Result<Notices, Status> {
        let by_all = self.held.is_some_and(|held| held.kind.is_held_by_all());
        if key == 0 && !by_all {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        // The key 0 stands for all registrants, where all of them hold the reservation.
        let everybody = key == 0;
        let is_target = |it: &Registrant| it.host != host && (everybody || it.key == key);
        let holder_key = self.held.and_then(|held| self.key_of(&held.holder));
        let takes_over = match self.held {
            None => false,
            Some(_) if by_all => everybody,
            Some(_) => holder_key == Some(key),
        };
        if !takes_over && !self.registrants.iter().any(|it| it.key == key) {
            return Err(Status::RESERVATION_CONFLICT);
        }
        let mut notices: Notices = Vec::new();
        for it in self.registrants.iter().filter(|it| is_target(it)) {
            let lost = takes_over && self.is_held_by(&it.host);
            let notice =
                if lost { Notice::ReservationPreempted } else { Notice::RegistrationPreempted };
            notices.push((it.host, notice));
        }
        self.registrants.retain(|it| !is_target(it));
        self.generation = self.generation.wrapping_add(1);
        if takes_over {
            let before = self.held.map(|held| held.kind);
            self.held = Some(Held { kind, holder: host });
            if before != Some(kind) {
                notices.extend(self.tell_others(host));
            }
        }
        Ok(notices)
    }

    /// Reservation Release.
    pub(crate) fn release(
        &mut self,
        host: HostId,
        request: ReservationRelease,
        current: u64,
    ) -> Result<Notices, Status> {
        if request.ignores_key {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        if self.key_of(&host) != Some(current) {
            return Err(Status::RESERVATION_CONFLICT);
        }
        match request.action {
            ReleaseAction::Release => {
                let Some(held) = self.held.filter(|_| self.is_held_by(&host)) else {
                    return Ok(vec![]);
                };
                if held.kind as u8 != request.kind {
                    return Err(Status::INVALID_FIELD.do_not_retry());
                }
                self.held = None;
                Ok(if held.kind.admits_registrants() { self.tell_others(host) } else { vec![] })
            }
            ReleaseAction::Clear => {
                let others = self.registrants.iter().filter(|it| it.host != host);
                let notice = match self.held {
                    Some(_) => Notice::ReservationPreempted,
                    None => Notice::RegistrationPreempted,
                };
                let notices = others.map(|it| (it.host, notice)).collect();
                self.registrants.clear();
                self.held = None;
                self.generation = self.generation.wrapping_add(1);
                Ok(notices)
            }
            ReleaseAction::Reserved(_) => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    }

    /// The power was lost: forgets everything that does not persist.
    pub(crate) fn power_lost(&mut self) {
        if !self.persist {
            *self = Reservations::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_wire::nvme::SubmissionEntry;
    use mynah_wire::nvme::command::ReservationCommand;
    use mynah_wire::nvme::opcode::nvm;

    const A: HostId = [1; 16];
    const B: HostId = [2; 16];
    const C: HostId = [3; 16];

    /// The command of which dword 10 is this.
    fn parsed(opcode: u8, bits: u32) -> ReservationCommand {
        let mut entry = SubmissionEntry { opcode, ..Default::default() };
        entry.dword10.set(bits);
        ReservationCommand::parse(&entry).expect("a command about reservations")
    }

    fn registering(bits: u32) -> ReservationRegister {
        let ReservationCommand::Register(request) = parsed(nvm::RESERVATION_REGISTER, bits) else {
            panic!("it registers");
        };
        request
    }

    fn acquiring(bits: u32) -> ReservationAcquire {
        let ReservationCommand::Acquire(request) = parsed(nvm::RESERVATION_ACQUIRE, bits) else {
            panic!("it acquires");
        };
        request
    }

    fn releasing(bits: u32) -> ReservationRelease {
        let ReservationCommand::Release(request) = parsed(nvm::RESERVATION_RELEASE, bits) else {
            panic!("it releases");
        };
        request
    }

    fn kind(code: u32) -> u32 {
        code << 8
    }

    /// A and B are registered with keys 0xa and 0xb, A holds a reservation of this type.
    fn held(code: u32) -> Reservations {
        let mut state = Reservations::default();
        state.register(A, registering(0), 0, 0xa).unwrap();
        state.register(B, registering(0), 0, 0xb).unwrap();
        state.acquire(A, acquiring(kind(code)), 0xa, 0).unwrap();
        state
    }

    #[test]
    fn who_is_let_in() {
        // Base 2.0, figure 451: reads and writes of holder, registrant and stranger.
        for (code, registrant, stranger) in [
            (1, "r", "r"),
            (2, "", ""),
            (3, "rw", "r"),
            (4, "rw", ""),
            (5, "rw", "r"),
            (6, "rw", ""),
        ] {
            let state = held(code);
            for (host, admitted) in [(A, "rw"), (B, registrant), (C, stranger)] {
                assert_eq!(state.admits(&host, false), admitted.contains('r'), "{code} {host:?}");
                assert_eq!(state.admits(&host, true), admitted.contains('w'), "{code} {host:?}");
            }
        }
        assert!(Reservations::default().admits(&C, true));
    }

    #[test]
    fn registrations() {
        let mut state = Reservations::default();
        let conflict = Err(Status::RESERVATION_CONFLICT);
        assert_eq!(state.register(A, registering(1), 0, 0), conflict, "not registered");
        assert_eq!(state.register(A, registering(0), 0, 5), Ok(vec![]));
        assert_eq!(state.register(A, registering(0), 0, 5), Ok(vec![]), "the same again");
        assert_eq!(
            state.register(A, registering(0), 0, 6),
            conflict,
            "another key needs a replacement"
        );
        assert_eq!(state.register(A, registering(2), 4, 6), conflict, "wrong key");
        assert_eq!(state.register(A, registering(2), 5, 6), Ok(vec![]));
        assert_eq!(state.register(A, registering(2 | 8), 99, 7), Ok(vec![]), "the key is ignored");
        assert_eq!(state.register(A, registering(1), 6, 0), conflict);
        assert_eq!(state.generation, 4, "with the registration that changed nothing");
        assert_eq!(state.register(A, registering(1), 7, 0), Ok(vec![]));
        assert!(state.registrants.is_empty());
        let invalid = Err(Status::INVALID_FIELD.do_not_retry());
        assert_eq!(state.register(A, registering(0), 0, 0), invalid);
        assert_eq!(state.register(A, registering(3), 0, 1), invalid);
        assert_eq!(state.register(A, registering(1 << 30), 0, 1), invalid, "reserved");
    }

    #[test]
    fn registrations_persist_where_a_host_has_asked_for_it() {
        let mut state = held(1);
        state.power_lost();
        assert!(state.registrants.is_empty() && state.held.is_none());
        // A registration that fails changes nothing.
        assert!(state.register(A, registering(3 << 30), 0, 0).is_err() && !state.persist);
        assert_eq!(state.register(A, registering(3 << 30), 0, 0xa), Ok(vec![]));
        assert_eq!(state.acquire(A, acquiring(kind(1)), 0xa, 0), Ok(vec![]));
        state.power_lost();
        assert!(state.is_held_by(&A) && state.persist);
        assert_eq!(state.register(A, registering(2 | 2 << 30), 0xa, 0xb), Ok(vec![]));
        state.power_lost();
        assert!(state.registrants.is_empty() && !state.persist);
    }

    #[test]
    fn acquiring_and_releasing() {
        let conflict = Err(Status::RESERVATION_CONFLICT);
        let invalid = Err(Status::INVALID_FIELD.do_not_retry());
        let mut state = held(1);
        assert_eq!(state.acquire(A, acquiring(kind(1)), 0xa, 0), Ok(vec![]), "the holder again");
        assert_eq!(state.acquire(A, acquiring(kind(2)), 0xa, 0), conflict, "with another type");
        assert_eq!(state.acquire(B, acquiring(kind(1)), 0xb, 0), conflict);
        assert_eq!(state.acquire(C, acquiring(kind(1)), 0xc, 0), conflict);
        assert_eq!(state.acquire(B, acquiring(kind(7)), 0xb, 0), invalid);
        assert_eq!(
            state.release(B, releasing(kind(1)), 0xb),
            Ok(vec![]),
            "not the holder: nothing happens"
        );
        assert!(state.is_held_by(&A));
        assert_eq!(state.release(A, releasing(kind(2)), 0xa), invalid);
        assert_eq!(state.release(A, releasing(kind(1)), 0xb), conflict);
        assert_eq!(state.release(A, releasing(kind(1)), 0xa), Ok(vec![]));
        assert_eq!(state.holder_kind(), None);
        assert_eq!(
            held(3).release(A, releasing(kind(3)), 0xa),
            Ok(vec![(B, Notice::ReservationReleased)])
        );
        let mut state = held(2);
        assert_eq!(
            state.release(B, releasing(1), 0xb),
            Ok(vec![(A, Notice::ReservationPreempted)])
        );
        assert!(state.registrants.is_empty() && state.holder_kind().is_none());
    }

    #[test]
    fn unregistering_the_holder_ends_the_reservation() {
        assert_eq!(held(1).register(A, registering(1), 0xa, 0), Ok(vec![]));
        let mut state = held(4);
        assert_eq!(
            state.register(A, registering(1), 0xa, 0),
            Ok(vec![(B, Notice::ReservationReleased)])
        );
        assert_eq!(state.holder_kind(), None);
        let mut state = held(6);
        assert_eq!(state.register(A, registering(1), 0xa, 0), Ok(vec![]));
        assert!(state.is_held_by(&B), "the others hold it on");
        assert_eq!(state.register(B, registering(1), 0xb, 0), Ok(vec![]));
        assert_eq!(state.holder_kind(), None);
    }

    #[test]
    fn preempting() {
        let mut state = held(1);
        assert_eq!(
            state.acquire(B, acquiring(kind(1) | 1), 0xb, 0),
            Err(Status::INVALID_FIELD.do_not_retry())
        );
        assert_eq!(
            state.acquire(B, acquiring(kind(1) | 1), 0xb, 9),
            Err(Status::RESERVATION_CONFLICT)
        );
        let taken = state.acquire(B, acquiring(kind(1) | 1), 0xb, 0xa);
        assert_eq!(taken, Ok(vec![(A, Notice::ReservationPreempted)]));
        assert!(state.is_held_by(&B) && !state.admits(&A, true));
        assert_eq!(state.generation, 3);
        // Oneself, to change the type.
        assert_eq!(state.acquire(B, acquiring(kind(2) | 1), 0xb, 0xb), Ok(vec![]));
        assert_eq!(state.generation, 4, "though nobody went");
        assert_eq!(state.holder_kind(), Some(ReservationType::ExclusiveAccess));
        // Somebody who does not hold it.
        state.register(C, registering(0), 0, 0xc).unwrap();
        let out = state.acquire(B, acquiring(kind(2) | 2), 0xb, 0xc);
        assert_eq!(out, Ok(vec![(C, Notice::RegistrationPreempted)]));
        // All of them.
        let mut state = held(5);
        let all = state.acquire(B, acquiring(kind(1) | 1), 0xb, 0);
        assert_eq!(all, Ok(vec![(A, Notice::ReservationPreempted)]));
        assert_eq!(state.holder_kind(), Some(ReservationType::WriteExclusive));
    }
}
