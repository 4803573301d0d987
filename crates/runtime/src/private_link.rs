//! A link between two network namespaces of this process's own: a pair of interfaces (veth) with a token
//! bucket (tbf) at each end, and flows that fill it.
//!
//! It needs no privilege where users may make user namespaces: this process becomes the root of one of its
//! own (user_namespaces(7)), which only a process of a single thread can do. One end is in the network
//! namespace that it has then, the other in a second one, which threads enter that are to be at the far
//! end. `ip` and `tc` (iproute2) set interfaces and buckets up.

mod flows;

pub use flows::BulkFlows;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

/// The addresses of both ends (TEST-NET-1 of RFC 5737: nobody else's).
const NEAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PREFIX: u8 = 24;
/// The names of its interfaces.
const NEAR_NAME: &str = "near";
const FAR_NAME: &str = "far";
/// Bytes that a bucket holds: one segment of the largest size that TCP hands on (GSO).
const BURST: u32 = 65_536;

/// The network namespace of the thread that opens it.
const NAMESPACE: &str = "/proc/thread-self/ns/net";

/// Why a link cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A namespace of the kernel cannot be made.
    #[error("a {what} cannot be made: {error}")]
    Namespace {
        /// Kind of the namespace.
        what: &'static str,
        /// Error of the system call.
        error: io::Error,
    },
    /// A program that sets it up is not there.
    #[error("`{program}` cannot be run: {error}")]
    Program {
        /// Name of the program.
        program: &'static str,
        /// Why it could not be started.
        error: io::Error,
    },
    /// A program that sets it up failed.
    #[error("`{command}` failed: {said}")]
    Refused {
        /// The command line.
        command: String,
        /// What the program printed.
        said: String,
    },
}

/// This process has network namespaces of its own from now on, with no interface but loopback. It is
/// to be called before there is a second thread.
///
/// # Errors
/// If that is not allowed.
#[allow(unsafe_code)]
pub fn isolate() -> Result<(), LinkError> {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let failed = |what| move |error: io::Error| LinkError::Namespace { what, error };
    // SAFETY: file descriptors stay shared; of all that this thread shares with others only namespaces
    // become its own.
    let unshared =
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) };
    unshared.map_err(io::Error::from).map_err(failed("user namespace"))?;
    let map = |file: &str, id: u32| std::fs::write(file, format!("0 {id} 1\n"));
    // Before groups are mapped it has to be said that they are not to be changed (user_namespaces(7)).
    std::fs::write("/proc/self/setgroups", "deny\n")
        .and_then(|()| map("/proc/self/uid_map", user.as_raw()))
        .and_then(|()| map("/proc/self/gid_map", group.as_raw()))
        .map_err(failed("user namespace"))?;
    run("ip", &["link", "set", "lo", "up"])
}

/// A link, as long as it is there.
#[derive(Debug)]
pub struct PrivateLink {
    near: File,
    far: File,
}

impl PrivateLink {
    /// Makes a link that carries so many bytes a second each way, in front of which what needs no longer
    /// than `queue` may wait. [`isolate`] comes first.
    ///
    /// # Errors
    /// If it cannot be set up.
    pub fn new(bytes_per_s: f64, queue: Duration) -> Result<PrivateLink, LinkError> {
        let failed = |error| LinkError::Namespace { what: "network namespace", error };
        let near = File::open(NAMESPACE).map_err(failed)?;
        let link = PrivateLink { near, far: far_namespace()? };
        let shape = Shape::new(bytes_per_s, queue);
        run("ip", &["link", "add", NEAR_NAME, "type", "veth", "peer", "name", FAR_NAME])?;
        // The file descriptor is this process's; `ip` opens it by the path of its parent.
        let fd = std::os::fd::AsRawFd::as_raw_fd(&link.far);
        let path = format!("/proc/{}/fd/{fd}", std::process::id());
        run("ip", &["link", "set", "dev", FAR_NAME, "netns", &path])?;
        end_up(NEAR_NAME, NEAR, &shape)?;
        within(&link.far, || {
            run("ip", &["link", "set", "lo", "up"])?;
            end_up(FAR_NAME, FAR, &shape)
        })??;
        Ok(link)
    }

    /// Address of this process's end.
    pub fn near(&self) -> IpAddr {
        NEAR.into()
    }

    /// The address at the far end.
    pub fn far(&self) -> IpAddr {
        FAR.into()
    }

    /// The calling thread, and those that it starts, are at the far end from now on.
    ///
    /// # Errors
    /// If it cannot go there.
    pub fn enter(&self) -> Result<(), LinkError> {
        enter(&self.far)
    }
}

/// The calling thread is in this namespace from now on.
fn enter(namespace: &File) -> Result<(), LinkError> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).map_err(
        |error| LinkError::Namespace { what: "thread in a network namespace", error: error.into() },
    )
}

/// What `work` comes to in this namespace.
fn within<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> Result<T, LinkError> {
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            enter(namespace)?;
            Ok(work())
        });
        there.join().expect("what is done there does not panic")
    })
}

/// Another network namespace.
#[allow(unsafe_code)]
fn far_namespace() -> Result<File, LinkError> {
    let made = std::thread::spawn(|| {
        // SAFETY: as above, and this thread does nothing else.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
        File::open(NAMESPACE)
    });
    let made = made.join().expect("it only makes a namespace");
    made.map_err(|error| LinkError::Namespace { what: "network namespace", error })
}

/// Parameters of a token bucket, as `tc` takes them.
struct Shape {
    rate: String,
    queue: String,
}

impl Shape {
    fn new(bytes_per_s: f64, queue: Duration) -> Shape {
        let bits = (bytes_per_s * 8.0).round().max(1.0) as u64;
        Shape { rate: format!("{bits}bit"), queue: format!("{}us", queue.as_micros().max(1)) }
    }
}

/// Gives an end its address and its bucket.
fn end_up(name: &'static str, address: Ipv4Addr, shape: &Shape) -> Result<(), LinkError> {
    let burst = BURST.to_string();
    run("ip", &["address", "add", &format!("{address}/{PREFIX}"), "dev", name])?;
    run("ip", &["link", "set", name, "up"])?;
    let bucket = ["rate", &shape.rate, "burst", &burst, "latency", &shape.queue];
    let add = ["qdisc", "add", "dev", name, "root", "tbf"];
    run("tc", &[&add[..], &bucket[..]].concat())
}

fn run(program: &'static str, arguments: &[&str]) -> Result<(), LinkError> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| LinkError::Program { program, error })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(LinkError::Refused { command: format!("{program} {}", arguments.join(" ")), said })
}
