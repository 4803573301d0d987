//! Several drives in one process, or the parts of one: each has a thread with its own model, its
//! own store and its own sockets, and while they serve they share nothing.
//!
//! A drive is also built on its thread: many are built at once, and where a drive has a processor
//! of its own, its tables lie in memory near that. None serves before all can. When one fails
//! later, the others end in order.

use crate::clock::{self, Clock, Rate};
use crate::cpus::Cpus;
use crate::engine::Control;
use crate::record::Recording;
use crate::server::{self, ServeError, ServeOptions, Server, Speed, Start, StartError};
use crate::status;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use mynah_device::Neighbour;
use mynah_lab::SimulationError;
use mynah_lab::emulation::Emulation;
use mynah_result::output::OutputError;
use mynah_result::{Result as RunResult, Run};
use mynah_stamp::Span;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Prints a line of status; not on the thread that serves.
pub type Print = Box<dyn FnMut(&str) + Send>;

/// A drive to be served.
pub struct Plan {
    /// What it is called in messages and metrics.
    pub name: String,
    pub emulation: Emulation,
    pub options: ServeOptions,
    /// Where everything that goes into it is recorded.
    pub record: Option<PathBuf>,
    /// How often a line of status is printed, what it begins with, and how.
    pub status: Option<(Span, String, Print)>,
    /// Tells somebody what guests do wrong, and that the drive has stopped or goes on, on the thread
    /// that serves: it must not block.
    pub complain: fn(&str),
    /// Tells what goes wrong with the store.
    pub alarm: fn(&str),
}

/// Why a drive is not served, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// It cannot be built.
    #[error(transparent)]
    Drive(#[from] SimulationError),
    /// It cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Its recording cannot be written.
    #[error(transparent)]
    Recording(#[from] OutputError),
    /// Its thread has ended without a word.
    #[error("the thread that served it has failed")]
    Thread,
}

impl From<StartError> for Cause {
    fn from(error: StartError) -> Cause {
        match error {
            StartError::Drive(error) => Cause::Drive(error),
            StartError::Store(error) => Cause::Serve(error.into()),
            StartError::PairStore(error) => Cause::Serve(error.into()),
        }
    }
}

/// A drive that failed.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {cause}")]
pub struct GroupError {
    /// Name of the drive.
    pub name: String,
    /// Why it failed.
    pub cause: Box<Cause>,
}

/// A drive that can be served.
#[derive(Clone, Debug)]
pub struct Up {
    pub name: String,
    pub nqn: String,
    /// Addresses that hosts can connect to.
    pub addresses: Vec<SocketAddr>,
    /// vfio-user sockets of its PCIe functions.
    pub sockets: Vec<PathBuf>,
    /// Where namespaces are exported as network block devices.
    pub nbd: Vec<crate::nbd::NbdAddress>,
    /// Where hosts can connect over RDMA.
    pub rdma: Vec<SocketAddr>,
    /// What was assumed or found.
    pub notes: Vec<String>,
    /// Ends it, and asks it for figures.
    pub control: Arc<Control>,
    neighbour: Neighbour,
}

/// What the drives' threads tell the group.
enum Event {
    /// The drive of this number can be served.
    Up(usize, Box<Up>),
    /// The thread of the drive of this number has ended.
    Over(usize),
}

/// Says that a thread ends, however it does.
struct Ending(usize, Sender<Event>);

impl Drop for Ending {
    fn drop(&mut self) {
        // Fails only if nobody waits any more.
        let _ = self.1.send(Event::Over(self.0));
    }
}

struct Member {
    name: String,
    up: Option<Up>,
    /// Lets the drive serve, with the others' handles; if this is dropped, its thread ends.
    start: Sender<Vec<Neighbour>>,
    thread: Option<JoinHandle<Result<Option<RunResult>, Cause>>>,
}

impl Member {
    /// Waits for the thread's end.
    fn join(&mut self) -> Result<Option<RunResult>, Cause> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(Cause::Thread),
            None => Ok(None),
        }
    }
}

/// Drives that listen, but do not answer yet.
pub struct Group {
    members: Vec<Member>,
    events: Receiver<Event>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("drives", &self.members.len()).finish_non_exhaustive()
    }
}

impl Group {
    /// Builds these drives, each on its thread, and has them listen.
    ///
    /// # Errors
    /// If one of them cannot be served; then none is.
    pub fn start(plans: Vec<Plan>) -> Result<Group, GroupError> {
        let (sender, events) = unbounded();
        let mut group = Group { members: Vec::new(), events };
        for (number, plan) in plans.into_iter().enumerate() {
            let name = plan.name.clone();
            let (start, started) = bounded(1);
            let ending = Ending(number, sender.clone());
            let thread = std::thread::Builder::new().name(format!("mynah-drive-{number}"));
            let spawned = thread.spawn(move || {
                let up = |up| drop(ending.1.send(Event::Up(number, Box::new(up))));
                serve(plan, up, &started)
            });
            match spawned {
                Ok(thread) => {
                    let thread = Some(thread);
                    group.members.push(Member { name, up: None, start, thread });
                }
                Err(error) => {
                    group.give_up();
                    return Err(GroupError {
                        name,
                        cause: Box::new(ServeError::Thread(error).into()),
                    });
                }
            }
        }
        while group.members.iter().any(|member| member.up.is_none()) {
            match group.events.recv() {
                Ok(Event::Up(number, up)) => group.members[number].up = Some(*up),
                Ok(Event::Over(number)) => {
                    let name = group.members[number].name.clone();
                    let cause = group.members[number].join().err().unwrap_or(Cause::Thread);
                    let cause = Box::new(cause);
                    group.give_up();
                    return Err(GroupError { name, cause });
                }
                // `sender` is still here.
                Err(_) => unreachable!("the channel has a sender"),
            }
        }
        Ok(group)
    }

    /// Lets all drives go that do not serve yet.
    fn give_up(&mut self) {
        let never = bounded(0).0;
        for member in &mut self.members {
            member.start = never.clone();
        }
        for member in &mut self.members {
            // They have nothing more to say.
            let _ = member.join();
        }
    }

    /// Drives that are up, in order.
    pub fn drives(&self) -> impl Iterator<Item = &Up> {
        self.members.iter().filter_map(|member| member.up.as_ref())
    }

    /// Serves until each drive is told to stop ([`Up::control`]) or one of them fails. What came of
    /// each, in order.
    pub fn serve(mut self) -> Vec<Result<RunResult, GroupError>> {
        let all: Vec<Neighbour> = self.drives().map(|up| up.neighbour.clone()).collect();
        for (number, member) in self.members.iter().enumerate() {
            let others = all.iter().enumerate().filter(|(other, _)| *other != number);
            // Fails only if its thread is over, which is seen below.
            let _ = member.start.send(others.map(|(_, other)| other.clone()).collect());
        }
        let mut results: Vec<_> = self.members.iter().map(|_| None).collect();
        while results.iter().any(Option::is_none) {
            let Ok(Event::Over(number)) = self.events.recv() else { continue };
            let member = &mut self.members[number];
            let result = member.join().and_then(|result| result.ok_or(Cause::Thread));
            let failed = result.is_err();
            let name = member.name.clone();
            results[number] =
                Some(result.map_err(|cause| GroupError { name, cause: Box::new(cause) }));
            if failed {
                self.drives().for_each(|up| up.control.stop());
            }
        }
        results.into_iter().flatten().collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// What the thread of a drive does; `None` if it was not to be served after all.
fn serve(
    plan: Plan,
    up: impl FnOnce(Up),
    started: &Receiver<Vec<Neighbour>>,
) -> Result<Option<RunResult>, Cause> {
    let Plan { name, emulation, options, record, status, complain, alarm } = plan;
    // Only what the engine uses is to lie near its processor. Threads that work for it, which
    // start below, are not to disturb it there.
    let anywhere = Cpus::usable().map_err(ServeError::from)?;
    if let Some(cpus) = &options.cpus {
        cpus.keep_to().map_err(ServeError::from)?;
    }
    let emulation = server::divide(emulation, &options, record.is_some())?;
    let mut start = Start::new(emulation, &options)?;
    if options.cpus.is_some() {
        anywhere.keep_to().map_err(ServeError::from)?;
    }
    if !options.vfio_user.is_empty() && options.speed != Speed::Max {
        // As its functions will, and a recording's header has to say.
        start.drive_mut().drive.report_moves(true);
    }
    let recording =
        record.as_deref().map(|path| Recording::begin(path, start.drive(), start.laid_down()));
    let (recording, tap) = recording.transpose()?.unzip();
    let mut server = Server::new(start, options)?;
    if let Some(tap) = tap {
        server.subsystem_mut().set_tap(tap);
    }
    if let Some((interval, prefix, print)) = status {
        server.every(interval, status::lines(prefix, print).map_err(ServeError::Thread)?);
    }
    server.on_complaint(Box::new(complain));
    let whose = name.clone();
    server.on_stall(Box::new(move |warning| complain(&format!("{whose}: {warning}"))));
    server.begin()?;
    server.on_trouble(Box::new(alarm));
    up(Up {
        name,
        nqn: server.nqn().to_owned(),
        addresses: server.addresses().to_vec(),
        sockets: server.sockets().map(Path::to_owned).collect(),
        nbd: server.nbd_addresses(),
        rdma: server.rdma_addresses(),
        notes: server.notes().to_vec(),
        control: server.control(),
        neighbour: server.neighbour(),
    });
    let Ok(others) = started.recv() else {
        server.cancel();
        return Ok(None);
    };
    server.subsystem_mut().set_neighbours(others);
    let (setup, clock) = (clock::thread_cpu(), Clock::start(Rate::REAL));
    let served = server.run()?;
    let run = Run {
        wall_s: clock.wall().as_secs_f64(),
        cpu_s: clock::thread_cpu().saturating_sub(setup).as_secs_f64(),
        setup_cpu_s: setup.as_secs_f64(),
        ..Run::default()
    };
    if let Some(recording) = recording {
        recording.finish(served.end())?;
    }
    Ok(Some(served.result(run)))
}
