//! The addresses of `HOST:PORT`. The system resolves names, except in a program that is linked
//! statically with glibc: there its resolver would load libraries of whatever glibc the machine has,
//! which may end the program. Such a program reads `/etc/hosts` itself, and asks no name server.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// Whether the program has no resolver that it may use.
const IS_STATIC_GLIBC: bool = cfg!(all(target_env = "gnu", target_feature = "crt-static"));
/// Names that machines give addresses to themselves.
const HOSTS: &str = "/etc/hosts";
/// The name that stands for loopback on every machine (RFC 6761, section 6.3).
const LOOPBACK: &str = "localhost";

/// Every address of `address`, in the order in which they are to be tried.
pub(super) fn addresses(address: &str) -> io::Result<Vec<SocketAddr>> {
    if IS_STATIC_GLIBC {
        // A machine without the file has no names of its own.
        return listed(address, &fs::read_to_string(HOSTS).unwrap_or_default());
    }
    Ok(address.to_socket_addrs()?.collect())
}

/// The addresses that a file of names and addresses (hosts(5)) gives to `address`.
fn listed(address: &str, hosts: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let invalid = |what: &str| io::Error::new(ErrorKind::InvalidInput, what.to_owned());
    let (name, port) = address.rsplit_once(':').ok_or_else(|| invalid("it has no port"))?;
    let port: u16 = port.parse().map_err(|_| invalid("its port is no number up to 65535"))?;
    let mut found: Vec<IpAddr> = hosts.lines().filter_map(|line| of_line(line, name)).collect();
    if found.is_empty() && name.eq_ignore_ascii_case(LOOPBACK) {
        found = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    if found.is_empty() {
        let what = format!(
            "this program is static and knows the names in {HOSTS} only; write the address \
             (`getent hosts {name}` says it), or use a `mynah` that is not static, as in the Debian \
             package"
        );
        return Err(io::Error::new(ErrorKind::Unsupported, what));
    }
    Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
}

/// The address of a line, if `name` is one of its names.
fn of_line(line: &str, name: &str) -> Option<IpAddr> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_ascii_whitespace();
    let address = words.next()?.parse().ok()?;
    words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# names\n\
        127.0.0.1\tlocalhost\n\
        ::1 localhost ip6-localhost # not target\n\
        10.0.0.7 target.lab Target\n\
        fe80::1%eth0 target\n\
        10.0.0.8\n";

    fn found(address: &str) -> Vec<String> {
        let found = listed(address, FILE).unwrap();
        found.iter().map(SocketAddr::to_string).collect()
    }

    #[test]
    fn a_file_of_names_is_read() {
        assert_eq!(found("target:4420"), ["10.0.0.7:4420"]);
        assert_eq!(found("TARGET.LAB:1"), ["10.0.0.7:1"]);
        assert_eq!(found("localhost:4420"), ["127.0.0.1:4420", "[::1]:4420"]);
        assert_eq!(found("ip6-localhost:4420"), ["[::1]:4420"]);
    }

    #[test]
    fn addresses_need_no_name() {
        assert_eq!(found("192.0.2.1:4420"), ["192.0.2.1:4420"]);
        assert_eq!(found("[2001:db8::1]:4420"), ["[2001:db8::1]:4420"]);
        assert_eq!(listed("localhost:1", "").unwrap().len(), 2);
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_to_do() {
        let said = |address| listed(address, FILE).unwrap_err().to_string();
        assert!(said("elsewhere:4420").contains("`getent hosts elsewhere`"));
        assert!(said("target:70000").contains("65535"));
        assert!(said("target").contains("no port"));
    }
}
