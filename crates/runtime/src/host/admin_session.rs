//! A controller that is asked what it is and how it is: commands that only read.

use super::controller::Controller;
use super::load::Where;
use super::single::Single;
use super::transport::Remote;
use super::{HostError, patience, vfio_user};
use mynah_wire::nvme::command::Identify;
use mynah_wire::nvme::{SubmissionEntry, feature, opcode};
use std::time::Duration;

/// Bytes of a log page that are asked for at once: every transport has room for so many.
const LOG_PIECE_BYTES: usize = 4096;

/// A session with a controller, over whatever it is reached.
pub struct AdminSession(Inner);

enum Inner {
    Tcp(Session<Controller>),
    VfioUser(Session<vfio_user::Controller>),
}

/// A controller, and an I/O queue once something was asked on one.
struct Session<R: Remote> {
    // Before the controller, which is told that it is left.
    queue: Option<Single<R>>,
    controller: Box<R>,
    timeout: Duration,
}

impl<R: Remote> Session<R> {
    fn connect(options: &R::Options) -> Result<Session<R>, HostError> {
        let controller = Box::new(R::connect(options)?);
        Ok(Session { queue: None, controller, timeout: R::timeout(options) })
    }

    fn handle_status(&mut self, namespace: u32) -> Result<Vec<u8>, HostError> {
        let queue = match &mut self.queue {
            Some(queue) => queue,
            none => {
                self.controller.request_queues(1)?;
                none.insert(Single::open(&*self.controller, 1, self.timeout)?)
            }
        };
        queue.handle_status(namespace)
    }

    fn end(self) -> Result<(), HostError> {
        drop(self.queue);
        (*self.controller).shutdown()
    }
}

/// A log page, or a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogWanted {
    /// LID.
    pub page: u8,
    /// LSP: what the page takes it for.
    pub specific: u8,
    /// LSI: which of what the page is of, as the number of an endurance group.
    pub specific_id: u16,
    /// NSID.
    pub namespace: u32,
    /// LPO: where it begins.
    pub offset: u64,
    /// How many bytes, rounded up to whole dwords.
    pub bytes: usize,
}

impl AdminSession {
    /// Connects, and tries that for so long.
    ///
    /// # Errors
    /// If there is no such controller.
    pub fn connect(place: &Where, wait: Duration) -> Result<AdminSession, HostError> {
        let inner = patience::persist(wait, || match place {
            Where::Tcp(options) => Session::connect(&**options).map(Inner::Tcp),
            Where::VfioUser(options) => Session::connect(options).map(Inner::VfioUser),
            Where::Disk(_) | Where::Nbd(_) => Err(place.without_controller()),
        })?;
        Ok(AdminSession(inner))
    }

    /// Does a command whose answer has so many bytes; its result and those.
    ///
    /// # Errors
    /// If it fails; `what` is what it is called in the message.
    pub fn ask(
        &mut self,
        entry: &SubmissionEntry,
        bytes: usize,
        what: &'static str,
    ) -> Result<(u64, Vec<u8>), HostError> {
        match &mut self.0 {
            Inner::Tcp(session) => session.controller.ask(entry, bytes, what),
            Inner::VfioUser(session) => session.controller.ask(entry, bytes, what),
        }
    }

    /// Identify.
    ///
    /// # Errors
    /// If it fails.
    pub fn identify(
        &mut self,
        structure: u8,
        namespace: u32,
        what: &'static str,
    ) -> Result<Vec<u8>, HostError> {
        let wanted = Identify { structure, ..Identify::default() };
        match &mut self.0 {
            Inner::Tcp(session) => {
                Remote::identify(&mut *session.controller, &wanted, namespace, what)
            }
            Inner::VfioUser(session) => {
                Remote::identify(&mut *session.controller, &wanted, namespace, what)
            }
        }
    }

    /// Get Log Page, in pieces.
    ///
    /// # Errors
    /// If it fails.
    pub fn log(&mut self, wanted: &LogWanted, what: &'static str) -> Result<Vec<u8>, HostError> {
        let mut all = Vec::new();
        while all.len() < wanted.bytes {
            let bytes = (wanted.bytes - all.len()).min(LOG_PIECE_BYTES).next_multiple_of(4);
            let (dwords, at) = (bytes as u32 / 4 - 1, wanted.offset + all.len() as u64);
            let mut entry =
                SubmissionEntry { opcode: opcode::admin::GET_LOG_PAGE, ..Default::default() };
            entry.namespace_id.set(wanted.namespace);
            let [page, specific] = [wanted.page, wanted.specific].map(u32::from);
            entry.dword10.set(page | specific << 8 | dwords << 16);
            entry.dword11.set(dwords >> 16 | u32::from(wanted.specific_id) << 16);
            entry.dword12.set(at as u32);
            entry.dword13.set((at >> 32) as u32);
            all.extend(self.ask(&entry, bytes, what)?.1);
        }
        all.truncate(wanted.bytes);
        Ok(all)
    }

    /// What the placement handles of a namespace refer to: Reclaim Unit Handle Status (Base 2.1,
    /// section 7.3), header and descriptors.
    ///
    /// # Errors
    /// If it fails.
    pub fn handle_status(&mut self, namespace: u32) -> Result<Vec<u8>, HostError> {
        match &mut self.0 {
            Inner::Tcp(session) => session.handle_status(namespace),
            Inner::VfioUser(session) => session.handle_status(namespace),
        }
    }

    /// Get Features: the value (SEL says which), and data where the feature has some.
    ///
    /// # Errors
    /// If it fails.
    pub fn feature(
        &mut self,
        id: u8,
        select: u8,
        namespace: u32,
        bytes: usize,
    ) -> Result<(u32, Vec<u8>), HostError> {
        let mut entry =
            SubmissionEntry { opcode: opcode::admin::GET_FEATURES, ..Default::default() };
        entry.namespace_id.set(namespace);
        entry.dword10.set(u32::from(id) | u32::from(select) << 8);
        if id == feature::id::DATA_PLACEMENT {
            // The endurance group, of which there is one.
            entry.dword11.set(1);
        }
        // EXHID: a host's identifier has 128 bits, over fabrics always (Base 2.0, section 5.27.1.25).
        entry.dword11.set((id == feature::id::HOST_ID).into());
        let (value, data) = self.ask(&entry, bytes, "reading the feature")?;
        Ok((value as u32, data))
    }

    /// Leaves the controller.
    ///
    /// # Errors
    /// If it cannot be told.
    pub fn end(self) -> Result<(), HostError> {
        match self.0 {
            Inner::Tcp(session) => session.end(),
            Inner::VfioUser(session) => session.end(),
        }
    }
}
