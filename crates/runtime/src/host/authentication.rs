//! A host proves who it is, and has the controller prove who that is (DH-HMAC-CHAP).

use super::HostError;
use super::admin::{self, Data, Identity};
use super::connection::Connection;
use crate::random;
use mynah_wire::authentication::{
    Choices, Host, HostStep, MESSAGE_BYTES_MAX, Parties, SECURITY_PROTOCOL,
    SECURITY_PROTOCOL_SPECIFIC, Secret, SequenceNumbers,
};
use mynah_wire::nvme::SubmissionEntry;
use mynah_wire::nvme::opcode::fabrics;
use std::time::Duration;

/// What a host can prove itself with.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The host's secret.
    pub host: Secret,
    /// The subsystem's: it has to prove itself, too.
    pub controller: Option<Secret>,
    /// Hash functions and groups that may be used.
    pub choices: Choices,
}

/// Authenticates a queue that has just been connected.
///
/// # Errors
/// If either end does not believe the other, or the connection is lost.
pub(super) fn authenticate(
    connection: &mut Connection,
    identity: &Identity,
    credentials: &Credentials,
    timeout: Duration,
) -> Result<(), HostError> {
    let parties = Parties {
        host_nqn: identity.host_nqn.clone(),
        subsystem_nqn: identity.subsystem_nqn.clone(),
        host_secret: credentials.host.clone(),
        controller_secret: credentials.controller.clone(),
    };
    let mut sequence = SequenceNumbers::new(random::number());
    let transaction = random::number() as u16;
    let (mut host, mut step) = Host::new(credentials.choices.clone(), parties, transaction);
    loop {
        step = match step {
            HostStep::Send(message) => {
                let entry = command(fabrics::AUTHENTICATION_SEND, message.len());
                let what = "authenticating";
                admin::command(connection, &entry, Data::Out(&message), what, timeout)?;
                host.sent()
            }
            HostStep::Receive => {
                let entry = command(fabrics::AUTHENTICATION_RECEIVE, MESSAGE_BYTES_MAX);
                let back = Data::Back(MESSAGE_BYTES_MAX);
                let (_, message) =
                    admin::command(connection, &entry, back, "authenticating", timeout)?;
                host.received(&message, &mut random::fill, &mut sequence)
            }
            // Nothing else goes on on this thread meanwhile.
            HostStep::Work(job) => host.worked(job.run()),
            HostStep::Done => return Ok(()),
            HostStep::Failed(failure) => return Err(HostError::Authentication(failure)),
        };
    }
}

/// An authentication command that moves so many bytes.
fn command(kind: u8, bytes: usize) -> SubmissionEntry {
    let mut entry = admin::fabrics(kind);
    let specific = u32::from(SECURITY_PROTOCOL_SPECIFIC);
    entry.dword10.set(u32::from(SECURITY_PROTOCOL) << 24 | specific << 8);
    entry.dword11.set(bytes as u32);
    entry
}
