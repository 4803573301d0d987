//! What there is to connect to: the discovery log page (Base 2.0, section 5.16.1.23).

use super::HostError;
use super::controller::{Controller, Options, read, text};
use mynah_wire::fabrics::{DISCOVERY_NQN, nqn};
use mynah_wire::nvme::log::{DiscoveryEntry, DiscoveryHeader, page};
use std::time::Duration;

/// More subsystems than this are not read.
const SUBSYSTEMS_MAX: u64 = 4_096;
/// How often the page is read again because it has changed meanwhile.
const ATTEMPTS: u32 = 8;

/// An NVM subsystem, and a port that it can be reached through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsystem {
    pub nqn: String,
    /// Address and port that the log has, if they are TCP's: what they are to the target, which may
    /// not be how a host reaches it.
    pub address: Option<String>,
    /// Whether the port wants TLS.
    pub secure: bool,
}

/// Asks the discovery controller at `options.address` for the NVM subsystems it knows.
///
/// # Errors
/// If it cannot be asked, or what it says makes no sense.
pub fn discover(options: &Options) -> Result<Vec<Subsystem>, HostError> {
    let options = Options {
        subsystem_nqn: DISCOVERY_NQN.to_owned(),
        // It lives for as long as it takes to read a page.
        keep_alive: Duration::ZERO,
        ..options.clone()
    };
    let mut controller = Controller::connect(&options)?;
    for _ in 0..ATTEMPTS {
        let header = header(&mut controller)?;
        let records = header.records.get();
        if records > SUBSYSTEMS_MAX {
            return Err(HostError::Nonsense(format!("it knows {records} subsystems")));
        }
        let mut found = Vec::new();
        for record in 0..records {
            let bytes = controller.log(page::DISCOVERY, (record + 1) * 1_024, 1_024)?;
            found.extend(subsystem(&read(&bytes)));
        }
        if self::header(&mut controller)?.generation == header.generation {
            // It may be gone already; there is nothing to lose.
            let _ = controller.shutdown();
            return Ok(found);
        }
    }
    Err(HostError::Nonsense("its list of subsystems changes faster than it can be read".into()))
}

fn header(controller: &mut Controller) -> Result<DiscoveryHeader, HostError> {
    Ok(read(&controller.log(page::DISCOVERY, 0, 1_024)?))
}

/// What an entry says; `None` if it is not an NVM subsystem that can be named.
fn subsystem(entry: &DiscoveryEntry) -> Option<Subsystem> {
    const NVM: u8 = 2;
    const TCP: u8 = 3;
    const IPV6: u8 = 2;
    if entry.kind != NVM {
        return None;
    }
    let (address, service) = (text(&entry.address), text(&entry.service));
    let address = match entry.address_family {
        IPV6 => format!("[{address}]:{service}"),
        _ => format!("{address}:{service}"),
    };
    Some(Subsystem {
        nqn: nqn(&entry.subsystem_nqn)?.to_owned(),
        address: (entry.transport == TCP).then_some(address),
        secure: entry.specific[0] == 2,
    })
}
