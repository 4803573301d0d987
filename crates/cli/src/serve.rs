//! `mynah serve`.

use crate::args::{DoorbellsArg, PollArg, Serve};
use crate::failure::{Failure, say};
use crate::key;
use crate::machine::Meter;
use crate::values;
use crate::{print, progress};
use mynah_lab::emulation::Emulation;
use mynah_lab::experiment::Precondition;
use mynah_lab::output::PendingFile;
use mynah_lab::result::Result as RunResult;
use mynah_lab::simulation::Step;
use mynah_lab::summary;
use mynah_lab::units::Bytes;
use mynah_runtime::authenticator::Secrets;
use mynah_runtime::clock::Rate;
use mynah_runtime::fault;
use mynah_runtime::metrics;
use mynah_runtime::pacing::Poll;
use mynah_runtime::record::Recording;
use mynah_runtime::server::{ServeError, ServeOptions, Server, Speed, StoreKind};
use mynah_runtime::status;
use mynah_runtime::vfio_user::DoorbellMode;
use mynah_wire::authentication::Choices;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

const DEFAULT_DRIVE: &str = "enterprise-tlc";
/// The port that IANA has assigned to NVMe over fabrics.
const DEFAULT_ADDRESS: &str = "127.0.0.1:4420";

/// Serves a drive until the process is told to end.
pub(crate) fn run(args: &Serve) -> Result<ExitCode, Failure> {
    let options = options(args)?;
    let emulation = emulation(args, options.speed)?;
    let json = args.json.as_deref().filter(|path| *path != Path::new("-"));
    let json = json.map(PendingFile::create).transpose()?;
    let metrics = args.metrics.as_deref().map(|text| address("--metrics", text)).transpose()?;
    let metrics = metrics.map(listen).transpose()?;
    let interval = args.status_interval.as_deref();
    let interval = interval.map(|text| values::interval("--status-interval", text)).transpose()?;

    let mut meter = Meter::new();
    let mut prepared = emulation.prepare()?;
    if !options.vfio_user.is_empty() && options.speed != Speed::Max {
        // As its functions will, and a recording's header has to say.
        prepared.drive.report_moves(true);
    }
    let recording = args.record.as_deref().map(|path| Recording::begin(path, &prepared));
    let (recording, tap) = recording.transpose()?.unzip();
    let mut server = Server::new(prepared, options.clone())?;
    if let Some(tap) = tap {
        server.subsystem_mut().set_tap(tap);
    }
    warn(args, &options);
    if !args.quiet {
        server.notes().iter().for_each(|note| say(format_args!("note: {note}")));
    }
    let control = server.control();
    let metrics = match metrics {
        Some(listener) => Some(metrics::serve(listener, control.clone()).map_err(system)?),
        None => None,
    };
    if let Some(interval) = interval {
        // With the result on standard output, nothing else belongs there.
        let to_stderr = args.json.as_deref() == Some(Path::new("-"));
        let print = move |line: &str| match to_stderr {
            true => say(line),
            // Who does not read the status does not want it.
            false => drop(print::out(&format!("{line}\n"))),
        };
        server.every(interval, status::lines(print).map_err(system)?);
    }
    progress::on_interrupt(move || control.stop());
    let addresses: Vec<String> = server.addresses().iter().map(SocketAddr::to_string).collect();
    let mut ready = serde_json::json!({
        "addresses": addresses,
        "nqn": server.nqn(),
        "pid": std::process::id(),
    });
    // QEMU may be started elsewhere.
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let sockets = server.sockets().map(|path| absolute(path).display().to_string());
    let sockets: Vec<String> = sockets.collect();
    if !sockets.is_empty() {
        ready["vfio_user"] = sockets.clone().into();
    }
    if let Some(address) = metrics {
        ready["metrics"] = address.to_string().into();
    }
    print::out(&format!("ready {ready}\n"))?;
    if !args.quiet {
        sockets.iter().for_each(|socket| say(qemu(socket)));
    }
    server.on_complaint(Box::new(|problem| say(format_args!("warning: {problem}"))));

    meter.step(Step::Started);
    let served = server.run()?;
    meter.step(Step::Finished);
    if let Some(recording) = recording {
        recording.finish(served.end())?;
    }
    let result = served.result(meter.finish());
    show(args, json, &result)?;
    Ok(match result.untrusted {
        Some(_) => ExitCode::from(1),
        None => ExitCode::SUCCESS,
    })
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

fn show(args: &Serve, json: Option<PendingFile>, result: &RunResult) -> Result<(), Failure> {
    if let Some(file) = json {
        file.finish(&result.to_json())?;
    }
    if args.json.as_deref() == Some(Path::new("-")) {
        print::out(&result.to_json())?;
    } else if !args.quiet {
        print::out(&summary::text(result))?;
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
        emulation = emulation.fault(spec)?;
    }
    if let Some(seed) = args.seed {
        emulation.config.seed = seed;
    }
    emulation.precondition = match (args.drive.precondition, speed) {
        (Some(precondition), _) => precondition,
        // The model is not asked, so that its state is of no consequence.
        (None, Speed::Max) => Precondition::None,
        (None, _) => Precondition::default(),
    };
    Ok(emulation)
}

fn options(args: &Serve) -> Result<ServeOptions, Failure> {
    #[cfg(not(feature = "tls"))]
    if !args.tls_psk.is_empty() {
        return Err(key::without_tls());
    }
    let mut tcp = Vec::new();
    for text in &args.tcp {
        tcp.push(address("--tcp", text)?);
    }
    if tcp.is_empty() && args.vfio_user.is_empty() {
        tcp.push(address("--tcp", DEFAULT_ADDRESS)?);
    }
    if tcp.is_empty() {
        only_of_tcp(args)?;
    }
    if args.record.is_some() && args.speed == "max" {
        let help = "a recording holds what goes into the model, and --speed max asks none";
        return Err(Failure::usage("--record with --speed max", Some(help)));
    }
    let faults = args.drive.fault.iter().filter_map(|spec| fault::parse(spec));
    let faults = faults.collect::<Result<_, _>>().map_err(|error| {
        let forms = format!("the forms for connections are\n{}", fault::FORMS);
        Failure::usage(format!("--fault: {error}"), Some(&forms))
    })?;
    let namespaces = args.namespace.iter().map(|text| namespace(text));
    Ok(ServeOptions {
        name: args.name.clone(),
        tcp,
        vfio_user: args.vfio_user.clone(),
        doorbells: match args.doorbells {
            DoorbellsArg::Mapped => DoorbellMode::Mapped,
            DoorbellsArg::Trapped => DoorbellMode::Trapped,
        },
        store: store(&args.store)?,
        speed: speed(&args.speed)?,
        namespaces: namespaces.collect::<Result<_, _>>()?,
        allowed_hosts: args.allow_host.clone(),
        secrets: secrets(args)?,
        faults,
        #[cfg(feature = "tls")]
        tls: args.tls_psk.iter().map(|t| key::of_host("--tls-psk", t)).collect::<Result<_, _>>()?,
        poll: match args.poll {
            PollArg::Adaptive => Poll::Adaptive,
            PollArg::Always => Poll::Always,
        },
        cpus: values::cpus(args.cpus_allowed.as_deref())?,
        late_bound: args
            .late_bound
            .as_deref()
            .map(|t| values::interval("--late-bound", t))
            .transpose()?,
        ..ServeOptions::default()
    })
}

/// Refuses what has no effect without TCP.
fn only_of_tcp(args: &Serve) -> Result<(), Failure> {
    let connection_fault = args.drive.fault.iter().any(|spec| spec.starts_with("connection-"));
    for (option, given) in [
        ("--allow-host", !args.allow_host.is_empty()),
        ("--host-key", !args.host_key.is_empty()),
        ("--tls-psk", !args.tls_psk.is_empty()),
        ("--fault connection-…", connection_fault),
    ] {
        if given {
            let message = format!("{option} has no effect on PCIe functions: it is for TCP");
            let help = "--tcp ADDR:PORT serves the same drive over TCP, too";
            return Err(Failure::usage(message, Some(help)));
        }
    }
    Ok(())
}

fn secrets(args: &Serve) -> Result<Secrets, Failure> {
    let hosts = args.host_key.iter().map(|text| key::of_host("--host-key", text));
    let controller = args.controller_key.as_deref();
    let mut choices = Choices::default();
    if !args.auth_hash.is_empty() {
        choices.hashes = chosen("--auth-hash", &args.auth_hash)?;
    }
    if !args.auth_group.is_empty() {
        choices.groups = chosen("--auth-group", &args.auth_group)?;
    }
    Ok(Secrets {
        hosts: hosts.collect::<Result<_, _>>()?,
        controller: controller.map(|text| key::read("--controller-key", text)).transpose()?,
        choices,
    })
}

fn chosen<C: FromStr<Err = String>>(option: &str, texts: &[String]) -> Result<Vec<C>, Failure> {
    let read = |text: &String| {
        text.parse().map_err(|error| Failure::usage(format!("{option}: {error}"), None))
    };
    texts.iter().map(read).collect()
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
    let (size, block) = text.split_once(',').unwrap_or((text, "512"));
    let help = "write SIZE or SIZE,512 or SIZE,4096, as in --namespace 100GiB,4096";
    let wrong = |what: String| Failure::usage(format!("--namespace {text}: {what}"), Some(help));
    let Bytes(bytes) = size.parse().map_err(|error| wrong(format!("{error}")))?;
    let block_bytes = match block {
        "512" => 512,
        "4096" | "4k" | "4KiB" => 4096,
        _ => return Err(wrong(format!("blocks have 512 or 4096 bytes, not `{block}`"))),
    };
    Ok(mynah_runtime::server::Namespace { bytes: Some(bytes), block_bytes })
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
        Failure::usage(format!("--metrics: cannot listen on {address}: {error}"), None)
    })
}

fn system(error: std::io::Error) -> Failure {
    Failure::failed(error.to_string(), None)
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Failure {
        let help = match &error {
            ServeError::Store(_) => {
                Some("a file that is not there is made, but its folder must exist and be writable")
            }
            _ => None,
        };
        match error.is_usage() {
            true => Failure::usage(error.to_string(), help),
            false => Failure::failed(error.to_string(), None),
        }
    }
}
