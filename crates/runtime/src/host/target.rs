//! What people write for a target.

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
}
