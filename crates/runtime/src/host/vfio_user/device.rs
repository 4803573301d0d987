//! A function at the other end of a socket: requests one at a time.

use super::VfioUserOptions;
use crate::clock::{Clock, Rate};
use crate::host::HostError;
use crate::host::transport::wait;
use crate::shared::Shared;
use crate::vfio_user::{Channel, socket_path};
use mynah_wire::vfio_user::client::{Answer, Client, Request};
use mynah_wire::vfio_user::message::{CONFIGURATION_REGION, MSI_X, REGIONS};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Where the doorbells begin in BAR 0 (NVMe over PCIe Transport 1.0, section 3.1.2).
pub(super) const DOORBELLS: u64 = 0x1000;
/// The command register of the configuration space, and what is set there: access to memory, bus
/// master, no INTx.
const COMMAND: u64 = 4;
const COMMAND_BITS: u16 = 1 << 1 | 1 << 2 | 1 << 10;

/// A PCIe function over vfio-user.
pub(super) struct Device {
    channel: Channel,
    client: Client<OwnedFd>,
    timeout: Duration,
    /// BAR 0's doorbells, and the index of the first; `None`: they are written by messages.
    doorbells: Option<(Arc<Shared>, usize)>,
    vectors: u32,
}

impl Device {
    /// Connects, and learns what is there.
    pub(super) fn connect(options: &VfioUserOptions) -> Result<Device, HostError> {
        let path = socket_path(&options.folder);
        let failed = |error| HostError::Socket { path: path.display().to_string(), error };
        let socket = UnixStream::connect(&path).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let mut device = Device {
            channel: Channel::new(socket.into()),
            client: Client::new(),
            timeout: options.timeout,
            doorbells: None,
            vectors: 0,
        };
        let version = device.answer(0, "the protocol's version", &[], |answer| {
            matches!(answer, Answer::Connected(_)).then_some(())
        });
        version.map_err(|error| match error {
            HostError::Closed | HostError::Lost(_) => HostError::Unusable(
                "the device closed the connection at once: it serves one client at a time".into(),
            ),
            other => other,
        })?;
        let (pci, regions) = device.ask("what it is", &Request::Device, &[], |it| match it {
            Answer::Device { pci, regions, .. } => Some((pci, regions)),
            _ => None,
        })?;
        if !pci || (regions as usize) < REGIONS {
            return Err(HostError::Unusable("the device is no PCI function".to_owned()));
        }
        let what = "what its registers are";
        let registers = device.ask(what, &Request::Region(0), &[], |it| match it {
            Answer::Region(region) => Some(region),
            _ => None,
        })?;
        if registers.bytes < DOORBELLS + 8 {
            return Err(HostError::Unusable("the device has no NVMe registers".to_owned()));
        }
        // One descriptor for all areas, or one each.
        let files =
            registers.descriptors.iter().chain(registers.descriptors.last().into_iter().cycle());
        let area = registers
            .mapped
            .iter()
            .zip(files)
            .find(|(area, _)| area.offset <= DOORBELLS && area.offset + area.bytes > DOORBELLS);
        if let Some((area, file)) = area {
            let offset = registers.offset.saturating_add(area.offset);
            let memory = Shared::map(file, offset, area.bytes, true, true);
            let memory = memory.map_err(|error| HostError::Device { what: "doorbells", error })?;
            device.doorbells = Some((Arc::new(memory), (DOORBELLS - area.offset) as usize / 4));
        }
        device.vectors =
            device.ask("how many interrupts", &Request::Interrupts(MSI_X), &[], |it| match it {
                Answer::Interrupts(count) => Some(count),
                _ => None,
            })?;
        let mut command = [0; 2];
        device.read(CONFIGURATION_REGION, COMMAND, &mut command)?;
        let command = u16::from_le_bytes(command) | COMMAND_BITS;
        device.write(CONFIGURATION_REGION, COMMAND, &command.to_le_bytes())?;
        Ok(device)
    }

    /// Ends the connection: the next to come is let in.
    pub(super) fn hang_up(&self) {
        self.channel.hang_up();
    }

    /// The doorbells and the index of the first, if they can be mapped.
    pub(super) fn doorbells(&self) -> Option<(Arc<Shared>, usize)> {
        self.doorbells.clone()
    }

    /// How many interrupts there are.
    pub(super) fn vectors(&self) -> u32 {
        self.vectors
    }

    /// Asks for something, with these descriptors, and takes the answer.
    fn ask<T>(
        &mut self,
        what: &'static str,
        request: &Request<'_>,
        descriptors: &[BorrowedFd<'_>],
        take: impl FnOnce(Answer<'_, OwnedFd>) -> Option<T>,
    ) -> Result<T, HostError> {
        let id = self.client.submit(request, (!descriptors.is_empty()).then_some(0));
        self.answer(id, what, descriptors, take)
    }

    fn answer<T>(
        &mut self,
        id: u16,
        what: &'static str,
        descriptors: &[BorrowedFd<'_>],
        take: impl FnOnce(Answer<'_, OwnedFd>) -> Option<T>,
    ) -> Result<T, HostError> {
        let clock = Clock::start(Rate::REAL);
        loop {
            self.send(descriptors)?;
            if !self.receive()? {
                let passed = Duration::from_nanos(clock.wall().as_ps() / 1_000);
                let Some(left) = self.timeout.checked_sub(passed).filter(|it| !it.is_zero()) else {
                    return Err(HostError::Timeout { what, seconds: self.timeout.as_secs() });
                };
                wait(self.channel.as_fd(), PollFlags::IN, left)?;
                continue;
            }
            let Some(reply) = self.client.poll()? else { continue };
            if reply.id != id {
                continue;
            }
            let answer = reply.result.map_err(|errno| HostError::Device {
                what,
                error: io::Error::from_raw_os_error(errno.0 as i32),
            })?;
            return take(answer)
                .ok_or_else(|| HostError::Nonsense(format!("another answer to {what}")));
        }
    }

    fn send(&mut self, descriptors: &[BorrowedFd<'_>]) -> Result<(), HostError> {
        while let Some(output) = self.client.output() {
            let with = if output.descriptors.is_some() { descriptors } else { &[] };
            let sent = self.channel.send(output.bytes, with).map_err(HostError::Lost)?;
            if sent == 0 {
                break;
            }
            self.client.sent(sent);
        }
        Ok(())
    }

    /// Receives something; whether anything came.
    fn receive(&mut self) -> Result<bool, HostError> {
        let received = self.channel.receive(self.client.receive_buffer());
        let Some(received) = received.map_err(HostError::Lost)? else { return Ok(false) };
        if received.bytes == 0 {
            return Err(HostError::Closed);
        }
        if received.lost {
            self.client.lost_descriptors();
        }
        self.client.received(received.bytes, received.descriptors);
        Ok(true)
    }

    /// Whether it is still there.
    pub(super) fn check(&mut self) -> Result<(), HostError> {
        if self.doorbells.as_ref().is_some_and(|(memory, _)| memory.is_lost()) {
            return Err(HostError::Nonsense("it took its doorbells away".to_owned()));
        }
        while self.receive()? {
            if self.client.poll()?.is_some() {
                return Err(HostError::Nonsense("it answered what nobody asked".to_owned()));
            }
        }
        Ok(())
    }

    pub(super) fn read(
        &mut self,
        region: u32,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), HostError> {
        let bytes = into.len() as u32;
        self.ask("to be read", &Request::Read { region, offset, bytes }, &[], |it| match it {
            Answer::Data(data) => {
                into.copy_from_slice(data);
                Some(())
            }
            _ => None,
        })
    }

    pub(super) fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), HostError> {
        let request = Request::Write { region, offset, data };
        self.ask("to be written", &request, &[], |answer| done(&answer))
    }

    /// Lets the function use a file's bytes at an address of the bus.
    pub(super) fn map(
        &mut self,
        address: u64,
        bytes: u64,
        file: BorrowedFd<'_>,
    ) -> Result<(), HostError> {
        let request = Request::Map { address, bytes, offset: 0 };
        self.ask("memory", &request, &[file], |answer| done(&answer))
    }

    /// Has an interrupt set an event descriptor.
    pub(super) fn signal(&mut self, vector: u32, event: BorrowedFd<'_>) -> Result<(), HostError> {
        let request = Request::Signal { kind: MSI_X, start: vector, count: 1 };
        self.ask("an interrupt", &request, &[event], |answer| done(&answer))
    }
}

#[cfg(test)]
impl Device {
    /// Takes memory back without waiting for the answer; its number.
    pub(super) fn take_back(&mut self, address: u64, bytes: u64) -> u16 {
        let id = self.client.submit(&Request::Unmap { address, bytes }, None);
        self.send(&[]).unwrap();
        id
    }

    /// Reads a register of BAR 0; and whether the answer to request `other` came before.
    pub(super) fn register_and(&mut self, offset: u64, other: u16) -> (u32, bool) {
        let read = self.client.submit(&Request::Read { region: 0, offset, bytes: 4 }, None);
        self.send(&[]).unwrap();
        let mut answered = false;
        loop {
            wait(self.channel.as_fd(), PollFlags::IN, self.timeout).unwrap();
            while self.receive().unwrap() {
                let Some(reply) = self.client.poll().unwrap() else { continue };
                match reply.result.unwrap() {
                    Answer::Data(data) if reply.id == read => {
                        return (u32::from_le_bytes(data.try_into().unwrap()), answered);
                    }
                    Answer::Done if reply.id == other => answered = true,
                    answer => panic!("{answer:?}"),
                }
            }
        }
    }
}

fn done(answer: &Answer<'_, OwnedFd>) -> Option<()> {
    matches!(answer, Answer::Done).then_some(())
}
