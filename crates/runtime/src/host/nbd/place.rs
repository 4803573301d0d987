//! Where an NBD export is, as people write it: NBD's URIs (`doc/uri.md`), and QEMU's shorter form.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// NBD's own port.
const PORT: u16 = 10_809;

/// The server of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NbdServer {
    /// Host name or address and port.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// An export of an NBD server. It is written `nbd:unix:PATH[:EXPORT]`, `nbd:HOST:PORT[/EXPORT]`,
/// `nbd://HOST[:PORT]/[EXPORT]` or `nbd+unix:///[EXPORT]?socket=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdPlace {
    /// Who has it.
    pub server: NbdServer,
    /// Its name; the empty one is the server's default.
    pub export: String,
}

/// Why a text names no export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}: {problem}")]
pub struct NbdPlaceError {
    text: String,
    problem: &'static str,
}

impl NbdPlaceError {
    /// What would be valid.
    pub const HELP: &str = "write nbd:unix:PATH[:EXPORT], nbd:HOST:PORT[/EXPORT], \
                            nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH";
}

impl fmt::Display for NbdPlace {
    /// As a URI.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = encoded(&self.export);
        match &self.server {
            NbdServer::Tcp(address) => write!(f, "nbd://{address}/{export}"),
            NbdServer::Unix(path) => {
                write!(f, "nbd+unix:///{export}?socket={}", encoded(&path.to_string_lossy()))
            }
        }
    }
}

impl NbdPlace {
    /// Whether a text is meant to name an export.
    pub fn is_meant(text: &str) -> bool {
        ["nbd:", "nbds:", "nbd+", "nbds+"].iter().any(|start| text.starts_with(start))
    }
}

impl FromStr for NbdPlace {
    type Err = NbdPlaceError;

    fn from_str(text: &str) -> Result<NbdPlace, NbdPlaceError> {
        let wrong = |problem| NbdPlaceError { text: text.to_owned(), problem };
        let found = if let Some(rest) = text.strip_prefix("nbd://") {
            of_tcp_uri(rest)
        } else if let Some(rest) = text.strip_prefix("nbd+unix://") {
            of_unix_uri(rest)
        } else if text.starts_with("nbds") {
            Err("NBD over TLS is not supported here")
        } else if text.starts_with("nbd+") {
            Err("NBD is spoken over TCP (nbd://) and sockets in the file system (nbd+unix://)")
        } else if let Some(rest) = text.strip_prefix("nbd:unix:") {
            let (path, export) = rest.split_once(':').unwrap_or((rest, ""));
            place(unix(path), named(export))
        } else if let Some(rest) = text.strip_prefix("nbd:") {
            let (address, export) = match rest.split_once('/') {
                Some(parts) => parts,
                None => rest.split_once(":exportname=").unwrap_or((rest, "")),
            };
            match address.rsplit_once(':') {
                Some((host, port)) if port.parse::<u16>().is_ok() => {
                    place(tcp(host, Some(port)), export)
                }
                _ => Err("after nbd: there has to be HOST:PORT, or unix:PATH"),
            }
        } else {
            Err("it names no NBD export")
        };
        found.map_err(wrong)
    }
}

/// The name in QEMU's form, where it may be said that it is one.
fn named(export: &str) -> &str {
    export.strip_prefix("exportname=").unwrap_or(export)
}

fn place(server: Result<NbdServer, &'static str>, export: &str) -> Result<NbdPlace, &'static str> {
    Ok(NbdPlace { server: server?, export: export.to_owned() })
}

fn unix(path: &str) -> Result<NbdServer, &'static str> {
    match path {
        "" => Err("the socket has no path"),
        path => Ok(NbdServer::Unix(path.into())),
    }
}

fn tcp(host: &str, port: Option<&str>) -> Result<NbdServer, &'static str> {
    let is_bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    let port = port.map_or(Ok(PORT), str::parse).map_err(|_| "the port is none")?;
    match host {
        "" => Err("the host is missing"),
        _ if is_bare_v6 => Err("an IPv6 address is written in brackets"),
        host => Ok(NbdServer::Tcp(format!("{host}:{port}"))),
    }
}

fn of_tcp_uri(rest: &str) -> Result<NbdPlace, &'static str> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let authority = authority.rsplit_once('@').map_or(authority, |(_, authority)| authority);
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    if !query.is_empty() {
        return Err("a server over TCP has nothing after a question mark");
    }
    // Colons in brackets are those of an address.
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    place(tcp(host, port.filter(|port| !port.is_empty())), &decoded(path)?)
}

fn of_unix_uri(rest: &str) -> Result<NbdPlace, &'static str> {
    let (path, query) = rest.split_once('?').ok_or("the socket is missing: ?socket=PATH")?;
    let export = path.strip_prefix('/').ok_or("after nbd+unix: there have to be three slashes")?;
    let socket = query.split('&').find_map(|part| part.strip_prefix("socket="));
    let socket = socket.ok_or("the socket is missing: ?socket=PATH")?;
    place(unix(&decoded(socket)?), &decoded(export)?)
}

/// A part of a URI as it is (RFC 3986, section 2.1).
fn decoded(text: &str) -> Result<String, &'static str> {
    let wrong = "a percent sign is followed by two hexadecimal digits";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        (rest, _) = (others, bytes.push(*first));
        if *first == b'%' {
            let digits = others.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
            let digits = digits.filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let byte =
                digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or(wrong)?;
            bytes.pop();
            bytes.push(byte);
            rest = &others[2..];
        }
    }
    String::from_utf8(bytes).map_err(|_| "a name is UTF-8")
}

/// The way back: what is nothing else in a URI stays, and slashes do.
fn encoded(text: &str) -> String {
    let stays = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let one = |byte: u8| match stays(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_named_in_all_forms() {
        let tcp = |address: &str, export: &str| NbdPlace {
            server: NbdServer::Tcp(address.into()),
            export: export.into(),
        };
        let unix = |path: &str, export: &str| NbdPlace {
            server: NbdServer::Unix(path.into()),
            export: export.into(),
        };
        for (text, wanted) in [
            ("nbd:unix:/run/a.sock", unix("/run/a.sock", "")),
            ("nbd:unix:/run/a.sock:disk", unix("/run/a.sock", "disk")),
            ("nbd:unix:/run/a.sock:exportname=d:1", unix("/run/a.sock", "d:1")),
            ("nbd:localhost:10809", tcp("localhost:10809", "")),
            ("nbd:10.0.0.7:1/a/b", tcp("10.0.0.7:1", "a/b")),
            ("nbd:[::1]:1", tcp("[::1]:1", "")),
            ("nbd:h:1:exportname=x", tcp("h:1", "x")),
            ("nbd://h", tcp("h:10809", "")),
            ("nbd://h:/x%20y", tcp("h:10809", "x y")),
            ("nbd://[::1]/x", tcp("[::1]:10809", "x")),
            ("nbd://me@[::1]:7/x", tcp("[::1]:7", "x")),
            ("nbd+unix:///?socket=/a%25b", unix("/a%b", "")),
            ("nbd+unix:///x?a=b&socket=rel", unix("rel", "x")),
        ] {
            let found: NbdPlace = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(found, wanted, "{text}");
            assert_eq!(found.to_string().parse(), Ok(wanted), "{found}");
        }
    }

    #[test]
    fn what_names_no_export_is_said() {
        for text in [
            "nbd:",
            "nbd:unix:",
            "nbd:h",
            "nbd:h:x",
            "nbd://",
            "nbd://:1/",
            "nbd://::1/x",
            "nbd://h/x?socket=y",
            "nbd://h/%2",
            "nbd://h/%+1",
            "nbd://h/%ff",
            "nbd+unix://h/x",
            "nbd+unix:///x",
            "nbd+unix:///x?socket=",
            "nbds://h/x",
            "nbds+unix:///?socket=a",
            "nbd+vsock://1/x",
            "tcp://h",
            "nbd:[::1",
            "nbd://h:99999/",
        ] {
            assert!(text.parse::<NbdPlace>().is_err(), "{text}");
        }
    }
}
