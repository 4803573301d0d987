//! What people write for a target, and who they say they are.

use mynah_wire::fabrics::check_nqn;
use std::str::FromStr;

/// The port of NVM subsystems over fabrics (IANA: `nvme`), and what `mynah serve` listens at. Port
/// 8009 (`nvme-disc`) is that of discovery controllers alone.
const PORT: u16 = 4420;

/// A target: `tcp://host:port`, with `/nqn` for one of its subsystems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host name or address and port, as the system looks it up.
    pub address: String,
    /// The subsystem; without one it is found by discovery.
    pub nqn: Option<String>,
}

/// A target that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a target: {problem}; write tcp://HOST:PORT, tcp://HOST:PORT/NQN or \
     vfio-user:DIR"
)]
pub struct TargetError {
    text: String,
    problem: String,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        let error = |problem: &str| TargetError { text: text.into(), problem: problem.into() };
        let Some(rest) = text.strip_prefix("tcp://") else {
            return Err(error("it begins with neither tcp:// nor vfio-user:"));
        };
        let (address, nqn) = match rest.split_once('/') {
            None | Some((_, "")) => (rest.trim_end_matches('/'), None),
            Some((address, nqn)) => (address, Some(nqn)),
        };
        if let Some(nqn) = nqn {
            check_nqn(nqn).map_err(|problem| error(&problem.to_string()))?;
        }
        let bare = address.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (host, port) = match bare {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => match address.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (address, None),
            },
        };
        if host.is_empty() {
            return Err(error("it has no host"));
        }
        if bare.is_none() && host.contains(':') {
            return Err(error("an IPv6 address stands in brackets"));
        }
        let port = match port {
            None => PORT,
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(error("its port is not a number from 1 to 65535")),
            },
        };
        let address = match bare {
            Some(_) => format!("[{host}]:{port}"),
            None => format!("{host}:{port}"),
        };
        Ok(Target { address, nqn: nqn.map(str::to_owned) })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tcp://{}", self.address)?;
        self.nqn.as_ref().map_or(Ok(()), |nqn| write!(f, "/{nqn}"))
    }
}

/// The host that this machine is: what nvme-cli has configured, or else a name made from the
/// machine's identifier, so that it stays the same.
pub fn default_host_nqn() -> String {
    let read = |path| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    if let Some(nqn) = read("/etc/nvme/hostnqn").filter(|nqn| check_nqn(nqn).is_ok()) {
        return nqn;
    }
    let machine = read("/etc/machine-id").unwrap_or_default();
    format!("nqn.2014-08.org.nvmexpress:uuid:{}", uuid(digest(machine.as_bytes())))
}

/// The 128-bit identifier of the host called `nqn`: its UUID if its name has one, else a
/// hash of the name.
pub fn host_id(nqn: &str) -> [u8; 16] {
    let digits = nqn.rsplit_once("uuid:").map_or("", |(_, uuid)| uuid).replace('-', "");
    match u128::from_str_radix(&digits, 16) {
        Ok(id) if digits.len() == 32 && id != 0 => id.to_be_bytes(),
        _ => digest(nqn.as_bytes()),
    }
}

/// FNV-1a with 128 bits (G. Fowler, L. C. Noll, K.-P. Vo), with the bits of a UUID of
/// version 8 (RFC 9562).
fn digest(bytes: &[u8]) -> [u8; 16] {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for &byte in bytes {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    let mut id = hash.to_be_bytes();
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

fn uuid(id: [u8; 16]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        for (text, address, nqn) in [
            ("tcp://127.0.0.1:4420", "127.0.0.1:4420", None),
            ("tcp://127.0.0.1:4420/", "127.0.0.1:4420", None),
            ("tcp://box/nqn.2026-01.org:a/b", "box:4420", Some("nqn.2026-01.org:a/b")),
            ("tcp://[::1]:4420/nqn.x", "[::1]:4420", Some("nqn.x")),
            ("tcp://[::1]", "[::1]:4420", None),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.address.as_str(), target.nqn.as_deref()), (address, nqn));
        }
        for (text, problem) in [
            ("127.0.0.1:4420", "begins with neither tcp://"),
            ("tcp://", "no host"),
            ("tcp://a:0", "port"),
            ("tcp://a:70000", "port"),
            ("tcp://::1:4420", "brackets"),
            ("tcp://a/iqn.x", "nqn."),
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn hosts_have_identifiers() {
        let nqn = "nqn.2014-08.org.nvmexpress:uuid:12345678-9abc-def0-1234-56789abcdef0";
        assert_eq!(uuid(host_id(nqn)), "12345678-9abc-def0-1234-56789abcdef0");
        assert_ne!(host_id("nqn.a"), host_id("nqn.b"));
        // The empty input's hash is the offset basis.
        assert_eq!(uuid(digest(b"")), "6c62272e-07bb-8142-a2b8-21756295c58d");
        assert!(check_nqn(&default_host_nqn()).is_ok());
    }
}
