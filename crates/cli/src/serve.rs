//! `mynah serve`: a drive served until somebody ends it.

mod nbd;

use crate::args::{ClockArg, DoorbellsArg, PollArg, ScopeArg, Serve};
use crate::failure::{Failure, say};
use crate::guest;
use crate::key;
use crate::machine::Meter;
use crate::profile;
use crate::values;
use crate::{print, progress};
use mynah_drive_file::DEFAULT_DRIVE;
use mynah_drive_file::units::Bytes;
use mynah_lab::SimulationError;
use mynah_lab::emulation::Emulation;
use mynah_lab::experiment::{Precondition, Start};
use mynah_lab::simulation::Step;
use mynah_report::summary;
use mynah_result::output::PendingFile;
use mynah_result::{Result as RunResult, Results, Run};
use mynah_runtime::authenticator::Secrets;
use mynah_runtime::clock::Rate;
use mynah_runtime::engine::Control;
use mynah_runtime::fault;
use mynah_runtime::group::{Cause, Group, GroupError, Plan, Print};
use mynah_runtime::hub::PathCredit;
use mynah_runtime::lockstep::GuestClock;
use mynah_runtime::metrics;
use mynah_runtime::nbd::NbdListenError;
use mynah_runtime::pacing::Poll;
use mynah_runtime::profile::Scope;
use mynah_runtime::server::{
    self, NamespaceContent, PairsError, ServeError, ServeOptions, Shard, Speed, StoreKind,
    SubsystemError,
};
use mynah_runtime::vfio_user::DoorbellMode;
use mynah_stamp::Span;
use mynah_wire::fabrics::{NQN_BYTES_MAX, check_nqn};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The port that IANA has assigned to NVMe over fabrics.
const DEFAULT_ADDRESS: &str = "127.0.0.1:4420";
/// What a path can take that is credited.
const CREDIT_MAX: Span = Span::from_ms(100);

/// Serves drives until the process is told to end.
pub(crate) fn run(args: &Serve) -> Result<ExitCode, Failure> {
    print::refuse_verbose(args.verbose, args.json.as_deref())?;
    progress::interrupted_means("the drive was not ready yet, and nothing was served");
    let options = options(args)?;
    let count = Count::of(args)?;
    let json = args.json.as_deref().filter(|path| *path != Path::new("-"));
    let json = json.map(PendingFile::create).transpose()?;
    let metrics = args.metrics.as_deref().map(|text| address("--metrics", text)).transpose()?;
    let metrics = metrics.map(listen).transpose()?;

    let mut meter = Meter::new();
    let plans = plans(args, &options, &count)?;
    let group = Group::start(plans).map_err(|error| {
        if !count.is_one() {
            say(format_args!("{} cannot be served, and so none is:", error.name));
        }
        failure(error)
    })?;
    warn(args, &options);
    if !args.quiet {
        note(&group, &count);
    }
    let metrics = match metrics {
        Some(listener) => {
            let drives = group.drives().map(|drive| (drive.name.clone(), drive.control.clone()));
            Some(metrics::serve(listener, drives.collect()).map_err(system)?)
        }
        None => None,
    };
    let controls: Vec<_> = group.drives().map(|drive| drive.control.clone()).collect();
    let stop = Arc::new(move || controls.iter().for_each(|control| control.stop()));
    let of_input = stop.clone();
    progress::on_interrupt(move || stop());
    if args.until_closed {
        until_closed(move || of_input())?;
    }
    let sockets = ready(&group, metrics)?;
    if !args.quiet {
        match (&options.guest_clock, options.vfio_user.first()) {
            (Some(clock), Some(folder)) => {
                for socket in &sockets {
                    let clock = absolute(&clock.path(folder)).display().to_string();
                    say(guest::line(socket, &clock)?);
                }
            }
            _ => sockets.iter().for_each(|socket| say(qemu(socket))),
        }
    }
    meter.step(Step::Started);
    let names: Vec<String> = group.drives().map(|drive| drive.name.clone()).collect();
    let ended = group.serve();
    meter.step(Step::Finished);

    let process = meter.finish();
    let mut results = Vec::new();
    let mut failed = None;
    for (name, ended) in names.iter().zip(ended) {
        match ended {
            Ok(mut result) => {
                result.run = match count.is_one() {
                    true => process.clone(),
                    // What its thread took; memory and the command are of all of them.
                    false => Run {
                        version: process.version.clone(),
                        command: process.command.clone(),
                        max_rss_bytes: process.max_rss_bytes,
                        ..result.run
                    },
                };
                results.push((name.as_str(), result));
            }
            Err(error) => {
                if !count.is_one() {
                    say(format_args!("{name} has failed; the others were ended in order:"));
                }
                failed = failed.or(Some(error));
            }
        }
    }
    if !results.is_empty() {
        show(args, json, &results)?;
    }
    if let Some(error) = failed {
        return Err(failure(error));
    }
    Ok(verdict(&results, count.is_one(), args.quiet))
}

/// Serves a drive in lock-step with a guest that `begin` starts, until that ends. What `begin` is given
/// ends the drive.
pub(crate) fn in_step<T>(
    args: &Serve,
    begin: impl FnOnce(Arc<Control>) -> Result<T, Failure>,
) -> Result<(RunResult, T), Failure> {
    let options = options(args)?;
    let mut meter = Meter::new();
    let plans = plans(args, &options, &Count::of(args)?)?;
    let group = Group::start(plans).map_err(failure)?;
    let controls: Vec<_> = group.drives().map(|drive| drive.control.clone()).collect();
    let Some(control) = controls.first().cloned() else {
        return Err(Failure::failed("there is no drive".to_owned(), None));
    };
    progress::on_interrupt(move || controls.iter().for_each(|control| control.stop()));
    let begun = begin(control)?;
    meter.step(Step::Started);
    let ended = group.serve().into_iter().next();
    meter.step(Step::Finished);
    let mut result = match ended {
        Some(ended) => ended.map_err(failure)?,
        None => return Err(Failure::failed("there is no result".to_owned(), None)),
    };
    result.run = meter.finish();
    Ok((result, begun))
}

/// Does `then` when standard input is closed. What is read before says nothing.
fn until_closed(then: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let wait = move || {
        // An input that cannot be read is one that nobody holds open.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        then();
    };
    let thread = std::thread::Builder::new().name("until-closed".to_owned()).spawn(wait);
    thread.map(drop).map_err(system)
}

/// Says which results are not to be trusted, and what follows from it. What went wrong besides has
/// been said when it did.
fn verdict(results: &[(&str, RunResult)], is_one: bool, quiet: bool) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (name, result) in results {
        if !result.failures.is_empty() {
            code = ExitCode::from(1);
        }
        if result.guest.is_some() {
            // Those of a guest are only known when it has ended.
            result.failures.iter().for_each(|failure| say(format_args!("error: {failure}")));
        }
        let Some(reason) = &result.untrusted else { continue };
        let name = if is_one { String::new() } else { format!("{name}: ") };
        if result.functional {
            if quiet {
                continue;
            }
            say(format_args!(
                "note: {name}times are not trustworthy, and with --functional that is no failure: \
                 {reason}"
            ));
        } else {
            say(format_args!(
                "error: {name}not trustworthy: {reason}; processors of its own help \
                 (--cpus_allowed, --poll always), or a slower clock (--speed); where only functions \
                 are tested, --functional says that times do not matter"
            ));
            code = ExitCode::from(1);
        }
    }
    code
}

/// How many drives there are, or parts of one.
enum Count {
    /// Several drives, each with its name if it has one.
    Drives(Vec<Option<String>>),
    /// So many shards of one drive.
    Shards(u16),
}

impl Count {
    fn of(args: &Serve) -> Result<Count, Failure> {
        let odd = |name: &String| {
            name.is_empty()
                || name.contains(server::is_odd_in_nqn)
                || server::nqn(name).len() > NQN_BYTES_MAX
        };
        if let Some(name) = args.name.iter().find(|name| odd(name)) {
            let help = format!(
                "hosts know the drive by it, as in `nqn….:archive-1`: {NQN_BYTES_MAX} bytes in all, \
                 without blanks and commas"
            );
            return Err(Failure::usage(format!("--name: `{name}` cannot be a name"), Some(&help)));
        }
        let names = args.name.iter().map(|name| Some(name.clone()));
        if let Some(shards) = args.shards {
            if args.name.len() > 1 {
                let help = "its shards have one name; --drives serves several drives";
                return Err(Failure::usage("several --name with --shards", Some(help)));
            }
            return Ok(Count::Shards(shards));
        }
        let drives = args.drives.map_or(args.name.len().max(1), usize::from);
        if args.name.len() == drives {
            return Ok(Count::Drives(names.collect()));
        }
        match &args.name[..] {
            [] if drives == 1 => Ok(Count::Drives(vec![None])),
            [] | [_] => {
                let base = match args.name.first() {
                    Some(name) => name.clone(),
                    None => emulation(args, Speed::Max)?.name,
                };
                Ok(Count::Drives((0..drives).map(|at| Some(format!("{base}-{at}"))).collect()))
            }
            several => {
                let message = format!("--drives {drives} with {} names", several.len());
                let help = "give as many names as drives, or one, to which -0, -1, … is added";
                Err(Failure::usage(message, Some(help)))
            }
        }
    }

    /// Number of threads that serve.
    fn threads(&self) -> usize {
        match self {
            Count::Drives(names) => names.len(),
            Count::Shards(count) => usize::from(*count),
        }
    }

    fn is_one(&self) -> bool {
        self.threads() == 1
    }

    /// What the drive or shard of this number is called, if the drive is called `drive`.
    fn label(&self, number: usize, drive: &str) -> String {
        match self {
            Count::Drives(names) => names[number].as_deref().unwrap_or(drive).to_owned(),
            Count::Shards(_) => format!("shard-{number}"),
        }
    }
}

/// The path for one drive of several, made from the path that was given for all.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(format!(".{number}"));
    path.into()
}

/// The port at which the drive of this number listens, if the first does so at `address`.
fn move_port(option: &str, address: &mut SocketAddr, number: usize) -> Result<(), Failure> {
    if address.port() != 0 {
        let port = u16::try_from(usize::from(address.port()) + number).map_err(|_| {
            let message = format!("{option} {address}: there is no port for each");
            Failure::usage(message, Some("the drives take consecutive ports from there"))
        })?;
        address.set_port(port);
    }
    Ok(())
}

/// The plan of each thread that serves.
fn plans(args: &Serve, options: &ServeOptions, count: &Count) -> Result<Vec<Plan>, Failure> {
    let interval = args.status_interval.as_deref();
    let interval = interval.map(|text| values::interval("--status-interval", text)).transpose()?;
    let emulation = emulation(args, options.speed)?;
    if let Count::Shards(of) = *count
        && !options.namespaces.is_empty()
        && options.namespaces.len() < usize::from(of)
    {
        let message = format!("--namespace {} times with --shards {of}", options.namespaces.len());
        let help = "give each shard at least one, or none for one over each whole shard";
        return Err(Failure::usage(message, Some(help)));
    }
    let wants_pairs = options.namespaces.iter().any(|it| it.content.holds_pairs());
    if let Count::Shards(of) = *count
        && (wants_pairs || server::has_pairs(&emulation.config))
    {
        let (message, help) =
            (format!("--shards {of}: {}", PairsError::Shards), PairsError::Shards.help());
        return Err(Failure::usage(message, Some(help)));
    }
    let mut plans = Vec::new();
    for number in 0..count.threads() {
        let mut options = options.clone();
        let mut emulation = emulation.clone();
        match count {
            Count::Drives(names) => {
                options.name = names[number].clone();
                emulation.config.seed = emulation.config.seed.wrapping_add(number as u64);
            }
            Count::Shards(of) => {
                emulation = emulation
                    .shard(number as u32, u32::from(*of))
                    .map_err(SimulationError::from)?;
                options.shard = Shard { index: number as u16, of: *of };
                let all = std::mem::take(&mut options.namespaces);
                let its_own = all.into_iter().skip(number).step_by(usize::from(*of));
                options.namespaces = its_own.collect();
            }
        }
        let mut record = args.record.clone();
        if !count.is_one() {
            options.tcp.iter_mut().try_for_each(|address| move_port("--tcp", address, number))?;
            #[cfg(feature = "rdma")]
            options.rdma.iter_mut().try_for_each(|address| move_port("--rdma", address, number))?;
            options.nbd.iter_mut().try_for_each(|address| nbd::move_on(address, number))?;
            for folder in &mut options.vfio_user {
                folder.push(number.to_string());
            }
            if let StoreKind::File(path) = &mut options.store {
                *path = numbered(path, number);
            }
            options.profile = options.profile.map(|path| numbered(&path, number));
            options.cpus = options.cpus.map(|cpus| cpus.split(number));
            record = record.map(|path| numbered(&path, number));
        }
        let name = count.label(number, &emulation.name);
        let prefix = if count.is_one() { String::new() } else { format!("{name} ") };
        // With the result on standard output, nothing else belongs there.
        let to_stderr = args.json.as_deref() == Some(Path::new("-"));
        let print: Print = Box::new(move |line| match to_stderr {
            true => say(line),
            // Who does not read the status does not want it.
            false => drop(print::out(&format!("{line}\n"))),
        });
        let status = interval.map(|interval| (interval, prefix, print));
        let complain = |problem: &str| say(format_args!("warning: {problem}"));
        let alarm = |problem: &str| say(problem);
        plans.push(Plan { name, emulation, options, record, status, complain, alarm });
    }
    Ok(plans)
}

/// Says what was assumed or found.
fn note(group: &Group, count: &Count) {
    for drive in group.drives() {
        for note in &drive.notes {
            match count.is_one() {
                true => say(format_args!("note: {note}")),
                false => say(format_args!("note: {}: {note}", drive.name)),
            }
        }
    }
}

/// The path for programs that are started elsewhere.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Prints where hosts can connect; returns the sockets of the PCIe functions.
fn ready(group: &Group, metrics: Option<SocketAddr>) -> Result<Vec<String>, Failure> {
    let (mut addresses, mut sockets, mut drives) = (Vec::new(), Vec::new(), Vec::new());
    let (mut rdma, mut nbd): (Vec<String>, Vec<String>) = Default::default();
    for drive in group.drives() {
        let its_addresses: Vec<String> = drive.addresses.iter().map(ToString::to_string).collect();
        let its_sockets = drive.sockets.iter().map(|path| absolute(path).display().to_string());
        let its_sockets: Vec<String> = its_sockets.collect();
        drives.push(serde_json::json!({
            "name": drive.name,
            "nqn": drive.nqn,
            "addresses": its_addresses,
            "vfio_user": its_sockets,
        }));
        rdma.extend(drive.rdma.iter().map(ToString::to_string));
        nbd.extend(drive.nbd.iter().map(ToString::to_string));
        addresses.extend(its_addresses);
        sockets.extend(its_sockets);
    }
    let mut ready = serde_json::json!({
        "addresses": addresses,
        "nqn": drives.first().map(|first| first["nqn"].clone()),
        "pid": std::process::id(),
        "drives": drives,
    });
    if !sockets.is_empty() {
        ready["vfio_user"] = sockets.clone().into();
    }
    if !rdma.is_empty() {
        ready["rdma"] = rdma.into();
    }
    if !nbd.is_empty() {
        ready["nbd"] = nbd.into();
    }
    if let Some(address) = metrics {
        ready["metrics"] = address.to_string().into();
    }
    print::out(&format!("ready {ready}\n"))?;
    Ok(sockets)
}

/// Why a drive is not served.
fn failure(error: GroupError) -> Failure {
    match *error.cause {
        Cause::Drive(error) => error.into(),
        Cause::Serve(error) => error.into(),
        Cause::Recording(error) => error.into(),
        Cause::Thread => Failure::failed(format!("{}: {}", error.name, Cause::Thread), None),
    }
}

/// How QEMU is given the function at this socket.
fn qemu(socket: &str) -> String {
    let socket = serde_json::json!({
        "driver": "vfio-user-pci",
        "socket": {"type": "unix", "path": socket},
    });
    format!(
        "for QEMU 10.1 or newer, with 4 GiB of memory:\n  -m 4G -object \
         memory-backend-memfd,id=mem,size=4G,share=on -machine memory-backend=mem -device '{socket}'"
    )
}

fn show(
    args: &Serve,
    file: Option<PendingFile>,
    results: &[(&str, RunResult)],
) -> Result<(), Failure> {
    let json = || match results {
        [(_, result)] => result.to_json(),
        _ => Results::new(results.iter().map(|(_, result)| result.clone()).collect()).to_json(),
    };
    if let Some(file) = file {
        file.finish(&json())?;
    }
    if args.json.as_deref() == Some(Path::new("-")) {
        print::out(&json())?;
    } else if !args.quiet {
        let told = |result| summary::detailed(result, &[], print::detail(args.verbose));
        let summaries = results.iter().map(|(name, result)| match results.len() {
            1 => told(result),
            _ => format!("{name}\n\n{}", told(result)),
        });
        print::out(&summaries.collect::<Vec<_>>().join("\n"))?;
    }
    Ok(())
}

fn emulation(args: &Serve, speed: Speed) -> Result<Emulation, Failure> {
    let name = args.drive.drive.as_deref().unwrap_or(DEFAULT_DRIVE);
    let mut emulation = Emulation::on(name, &args.drive.set)?;
    for spec in &args.drive.fault {
        if fault::parse(spec).is_some() {
            continue;
        }
        if speed == Speed::Max {
            let help = "without the model, only connections and controllers fail";
            return Err(Failure::usage(format!("--fault {spec} with --speed max"), Some(help)));
        }
        if !mynah_drive_file::fault::is_known(spec) {
            let forms = format!(
                "the valid forms are\n{}\n{}",
                mynah_drive_file::fault::FORMS,
                fault::FORMS
            );
            let message = format!("--fault {spec}: there is no such fault");
            return Err(Failure::usage(message, Some(&forms)));
        }
        emulation = emulation.fault(spec)?;
    }
    if let Some(seed) = args.seed {
        emulation.config.seed = seed;
    }
    emulation.start = match (args.drive.precondition, speed) {
        (Some(Start { precondition: Precondition::SteadyRandom, .. }), _) => {
            return Err(Failure::usage(
                "--precondition steady:random: nobody knows what will be written to a drive that is \
                 served, so its steady state is that of random writes anyway",
                Some("give --precondition steady, or leave it out"),
            ));
        }
        (Some(start), _) => start,
        // The model is not asked, so that its state is of no consequence.
        (None, Speed::Max) => Precondition::None.into(),
        (None, _) => Start::default(),
    };
    Ok(emulation)
}

fn options(args: &Serve) -> Result<ServeOptions, Failure> {
    #[cfg(not(feature = "tls"))]
    if !args.tls_psk.is_empty() {
        return Err(key::without_tls());
    }
    let (rdma, nbd) = (rdma(args)?, nbd::addresses(args)?);
    let mut tcp = Vec::new();
    for text in &args.tcp {
        tcp.push(address("--tcp", text)?);
    }
    if tcp.is_empty() && args.vfio_user.is_empty() && rdma.is_empty() && nbd.is_empty() {
        tcp.push(address("--tcp", DEFAULT_ADDRESS)?);
    }
    if tcp.is_empty() && rdma.is_empty() && nbd.is_empty() {
        only_of_tcp(args)?;
    }
    if args.record.is_some() && args.speed == "max" {
        let help = "a recording holds what goes into the model, and --speed max asks none";
        return Err(Failure::usage("--record with --speed max", Some(help)));
    }
    if args.path_credit.is_some() && args.speed == "max" {
        let help = "answers leave at once with --speed max, and nothing is modelled";
        return Err(Failure::usage("--path-credit with --speed max", Some(help)));
    }
    if args.profile.is_some() && !rdma.is_empty() {
        let help = "a served drive's profile is of NVMe/TCP connections and PCIe functions; leave --rdma out";
        return Err(Failure::usage("--profile with --rdma", Some(help)));
    }
    if !args.tls_psk.is_empty() && !rdma.is_empty() {
        let help = "connections over RDMA are not encrypted; leave --rdma or --tls-psk out";
        return Err(Failure::usage("--tls-psk with --rdma", Some(help)));
    }
    let faults = args.drive.fault.iter().filter_map(|spec| fault::parse(spec));
    let faults = faults.collect::<Result<_, _>>().map_err(|error| {
        let error: fault::FaultError = error;
        Failure::usage(format!("--fault: {error}"), Some(&error.help))
    })?;
    if let Some(name) = args.allow_host.iter().find(|name| check_nqn(name).is_err()) {
        let help = "hosts are named as in nqn.2014-08.org.nvmexpress:uuid:…; Linux has its own in \
                    /etc/nvme/hostnqn";
        let message = format!("--allow-host: `{name}` is not an NVMe qualified name");
        return Err(Failure::usage(message, Some(help)));
    }
    let namespaces = args.namespace.iter().map(|text| namespace(text));
    Ok(ServeOptions {
        name: args.name.first().cloned(),
        tcp,
        #[cfg(feature = "rdma")]
        rdma,
        nbd,
        vfio_user: args.vfio_user.clone(),
        doorbells: match args.doorbells {
            None | Some(DoorbellsArg::Mapped) => DoorbellMode::Mapped,
            Some(DoorbellsArg::Trapped) => DoorbellMode::Trapped,
        },
        guest_clock: guest_clock(args)?,
        store: store(&args.store)?,
        state_anew: args.drive.precondition.is_some().then_some("--precondition asks for that"),
        speed: speed(&args.speed)?,
        namespaces: namespaces.collect::<Result<_, _>>()?,
        allowed_hosts: args.allow_host.clone(),
        secrets: secrets(args)?,
        faults,
        #[cfg(feature = "tls")]
        tls: args.tls_psk.iter().map(|key| key.of_host("--tls-psk")).collect::<Result<_, _>>()?,
        poll: match args.poll {
            PollArg::Adaptive => Poll::Adaptive,
            PollArg::Always => Poll::Always,
        },
        cpus: values::cpus(args.cpus_allowed.as_deref())?,
        profile: args.profile.clone(),
        profile_choice: profile::choice(&args.profile_choice)?,
        profile_scope: args.profile_scope.map(|scope| match scope {
            ScopeArg::Own => Scope::Own,
            ScopeArg::All => Scope::All,
        }),
        late_bound: args
            .late_bound
            .as_deref()
            .map(|t| values::interval("--late-bound", t))
            .transpose()?,
        path_credit: args.path_credit.as_deref().map(path_credit).transpose()?,
        functional: args.functional,
        ..ServeOptions::default()
    })
}

/// The guest whose time is the drive's.
fn guest_clock(args: &Serve) -> Result<Option<GuestClock>, Failure> {
    if args.clock == ClockArg::Host {
        for (option, given) in
            [("--quantum", args.quantum.is_some()), ("--clock-socket", args.clock_socket.is_some())]
        {
            if given {
                let help = "give --clock guest with it";
                let message = format!("{option} has no effect on a drive with the host's clock");
                return Err(Failure::usage(message, Some(help)));
            }
        }
        return Ok(None);
    }
    for (option, given) in [
        ("--doorbells", args.doorbells.is_some()),
        ("--late-bound", args.late_bound.is_some()),
        ("--path-credit", args.path_credit.is_some()),
        ("--poll always", matches!(args.poll, PollArg::Always)),
        ("--drives", args.drives.is_some()),
        ("--shards", args.shards.is_some()),
        ("--nbd", !args.nbd.is_empty()),
    ] {
        if given {
            let message = format!("{option} has no effect on a drive with a guest's clock");
            let help =
                "the guest waits for the one drive at every doorbell, so that nothing is late";
            return Err(Failure::usage(message, Some(help)));
        }
    }
    // Before there is one: nothing is made for a drive that is not served.
    if args.store.starts_with("file:") {
        let message = format!("--store {} with --clock guest", args.store);
        let help = "the disk of a store in a file takes time of the host's; give --store ram or \
                    pattern";
        return Err(Failure::usage(message, Some(help)));
    }
    let quantum =
        args.quantum.as_deref().map(|text| values::span("--quantum", text)).transpose()?;
    let quantum = quantum.unwrap_or(GuestClock::QUANTUM);
    if !(Span::from_us(1)..=Span::from_secs(1)).contains(&quantum) {
        let help = "give a time from 1us to 1s, as in 100us";
        return Err(Failure::usage("--quantum: that is no quantum", Some(help)));
    }
    Ok(Some(GuestClock { quantum, socket: args.clock_socket.clone() }))
}

/// Where to listen over RDMA.
fn rdma(args: &Serve) -> Result<Vec<SocketAddr>, Failure> {
    #[cfg(not(feature = "rdma"))]
    if let Some(first) = args.rdma.first() {
        let help = "build it with `cargo build --release --features rdma`, which needs cmake and \
                    libclang";
        let message = format!("--rdma {first}: this mynah was built without RDMA");
        return Err(Failure::usage(message, Some(help)));
    }
    let mut all = Vec::new();
    for text in &args.rdma {
        let address = address("--rdma", text)?;
        if address.ip().is_unspecified() {
            let message = format!("--rdma {text}: there is no RDMA device with every address");
            let help = "give an address of one: `rdma link show` lists them with their interfaces";
            return Err(Failure::usage(message, Some(help)));
        }
        all.push(address);
    }
    Ok(all)
}

/// Refuses what has no effect without TCP.
fn only_of_tcp(args: &Serve) -> Result<(), Failure> {
    let over_tcp = "--tcp ADDR:PORT serves the same drive over TCP, too";
    let of_secrets = format!("{over_tcp}; {}", key::FROM_ENVIRONMENT);
    for (option, given, help) in [
        ("--allow-host", !args.allow_host.is_empty(), over_tcp),
        ("--host-key", !args.host_key.is_empty(), &of_secrets),
        ("--tls-psk", !args.tls_psk.is_empty(), &of_secrets),
    ] {
        if given {
            let message = format!("{option} has no effect on PCIe functions: it is for TCP");
            return Err(Failure::usage(message, Some(help)));
        }
    }
    Ok(())
}

fn secrets(args: &Serve) -> Result<Secrets, Failure> {
    let hosts = args.host_key.iter().map(|secret| secret.of_host("--host-key"));
    let controller = args.controller_key.as_ref();
    Ok(Secrets {
        hosts: hosts.collect::<Result<_, _>>()?,
        controller: controller.map(|secret| secret.read("--controller-key")).transpose()?,
        choices: key::choices(&args.auth)?,
    })
}

/// Says who can reach the drive, if that is more than this machine.
fn warn(args: &Serve, options: &ServeOptions) {
    if !options.secrets.hosts.is_empty() || options.is_encrypted() {
        return;
    }
    let wide = options.tcp.iter().filter(|address| !address.ip().is_loopback());
    for address in wide {
        let who = match args.allow_host.is_empty() {
            true => "anybody who can reach it can read and change the drive",
            false => "host names are not proof: who knows an allowed one can use the drive",
        };
        say(format_args!(
            "warning: {address} is open to the network without authentication; {who}"
        ));
    }
}

fn store(text: &str) -> Result<StoreKind, Failure> {
    match text.split_once(':') {
        None if text == "ram" => Ok(StoreKind::Ram),
        None if text == "pattern" => Ok(StoreKind::Pattern),
        Some(("file", path)) if !path.is_empty() => Ok(StoreKind::File(path.into())),
        _ => {
            let help = "valid are ram, pattern and file:PATH";
            Err(Failure::usage(format!("--store: `{text}` is not a store"), Some(help)))
        }
    }
}

fn path_credit(text: &str) -> Result<PathCredit, Failure> {
    Ok(match text {
        "auto" => PathCredit::Auto,
        "off" => PathCredit::Off,
        time => {
            let credit = values::span("--path-credit", time)?;
            if credit > CREDIT_MAX {
                let message = format!("--path-credit {time}: no path takes that long");
                let help = "give what the path takes, up to 100ms, or auto, or off";
                return Err(Failure::usage(message, Some(help)));
            }
            PathCredit::Fixed(credit)
        }
    })
}

fn speed(text: &str) -> Result<Speed, Failure> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    let rate = text.parse().ok().and_then(Rate::new);
    rate.map(Speed::Modelled).ok_or_else(|| {
        let help = "write how fast the drive's clock goes, as in 1, 0.1 or 2 (from 0.000001 to \
                    1000), or max for answers at once without the model";
        Failure::usage(format!("--speed: `{text}` is not a speed"), Some(help))
    })
}

fn namespace(text: &str) -> Result<mynah_runtime::server::Namespace, Failure> {
    let help = "write SIZE or SIZE,512 or SIZE,4096 for blocks, as in --namespace 100GiB,4096, or \
                SIZE,kv for pairs of keys and values; SIZE,kv-samsung for those of Samsung's command \
                set; after blocks, handles=0:3:5 for its reclaim unit handles";
    let wrong = |what: String| Failure::usage(format!("--namespace {text}: {what}"), Some(help));
    let mut parts = text.split(',');
    let size = parts.next().unwrap_or_default();
    let Bytes(bytes) = size.parse().map_err(|error| wrong(format!("{error}")))?;
    let (mut content, mut handles) = (NamespaceContent::Blocks(512), vec![]);
    for part in parts {
        if let Some(list) = part.strip_prefix("handles=") {
            let number = |text: &str| text.parse::<u8>().ok().filter(|&number| number < 128);
            let read = list.split(':').map(number).collect::<Option<Vec<u8>>>();
            handles = read.ok_or_else(|| {
                wrong(format!("handles are numbers below 128 with colons between, not `{list}`"))
            })?;
            continue;
        }
        content = match part {
            "512" => NamespaceContent::Blocks(512),
            "4096" | "4k" | "4KiB" => NamespaceContent::Blocks(4096),
            "kv" => NamespaceContent::Pairs,
            "kv-samsung" => NamespaceContent::SamsungPairs,
            _ => {
                let what = format!(
                    "a namespace holds blocks of 512 or 4096 bytes, kv or kv-samsung, not `{part}`"
                );
                return Err(wrong(what));
            }
        };
    }
    Ok(server::Namespace { bytes: Some(bytes), content, handles })
}

fn address(option: &str, text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|_| {
        let help =
            "write ADDRESS:PORT, as in 127.0.0.1:4420 or [::1]:4420; port 0 takes a free one";
        Failure::usage(format!("{option}: `{text}` is not an address"), Some(help))
    })
}

fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| {
        let message = format!("--metrics: cannot listen on {address}: {error}");
        Failure::usage(message, listening(&error))
    })
}

/// What may help where nobody can listen.
fn listening(error: &std::io::Error) -> Option<&'static str> {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => Some("port 0 takes a free one"),
        std::io::ErrorKind::AddrNotAvailable => {
            Some("give an address of this machine; 0.0.0.0 and [::] are all of them")
        }
        std::io::ErrorKind::PermissionDenied => Some("ports below 1024 are for the administrator"),
        _ => None,
    }
}

fn system(error: std::io::Error) -> Failure {
    Failure::failed(error.to_string(), None)
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Failure {
        let help = match &error {
            ServeError::Store(error) => Some(error.help()),
            ServeError::PairStore(error) => Some(error.help()),
            ServeError::Subsystem(SubsystemError::Pairs) => Some(
                "give the path of a store as a whole: the file, and the folder of its pairs beside it",
            ),
            ServeError::Pairs(error) => Some(error.help()),
            ServeError::Fault(error) => Some(error.help.as_str()),
            ServeError::Listen(_, cause) => listening(cause),
            #[cfg(feature = "rdma")]
            ServeError::Rdma(..) => Some(
                "give an address of an RDMA device, which `rdma link show` lists with its interface \
                 (`rdma link add rxe0 type rxe netdev IF` makes one in software); libibverbs and \
                 librdmacm have to be there, and `ulimit -l` has to allow 64 MiB",
            ),
            ServeError::GuestClock(_) => {
                Some("as in `mynah serve --clock guest --vfio-user DIR`; `mynah guest` does it all")
            }
            ServeError::Thread(_) => Some("see to memory and limits (ulimit -v, ulimit -u)"),
            ServeError::Nbd(NbdListenError::Tcp(_, cause)) => listening(cause),
            ServeError::Nbd(_) => Some("--nbd takes unix:PATH, the path of a socket to be made"),
            ServeError::Folder(_) => Some(
                "--vfio-user takes a folder for each function, which is made if it is not there",
            ),
            _ => None,
        };
        match error.is_usage() {
            true => Failure::usage(error.to_string(), help),
            false => Failure::failed(error.to_string(), help),
        }
    }
}
