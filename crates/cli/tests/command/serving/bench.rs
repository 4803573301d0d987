//! `mynah bench` against `mynah serve`: everything that is written comes back, whatever the
//! connection does meanwhile, and what does not is found.

use crate::serving::support::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A drive that is quickly built and answers at once.
const SMALL: [&str; 9] = [
    "serve",
    "--quiet",
    "--speed",
    "max",
    "--set",
    "geometry.blocks_per_plane=48",
    "--set",
    "over_provisioning=20%",
    "--precondition=none",
];

fn start(args: &[&str]) -> Served {
    Served::start(mynah(&SMALL).args(args))
}

fn start_on_any_port(args: &[&str]) -> Served {
    start(&[&["--tcp", "127.0.0.1:0"], args].concat())
}

fn bench(address: &str, args: &[&str]) -> Output {
    run_bench(&format!("tcp://{address}"), args)
}

/// A load without settings of the tests' own.
fn plain_bench(target: &str, args: &[&str]) -> Output {
    mynah(&["bench", target, "--json", "-"]).args(args).output().unwrap()
}

/// What was said to somebody who does not care for the breaks of lines.
fn said(output: &Output) -> String {
    let text = text(&output.stderr).replace('│', "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn everything_written_comes_back() {
    let target = start_on_any_port(&["--namespace", "64MiB", "--namespace", "32MiB,4096"]);
    let mixed = ["--verify", "--rw", "randrw", "--rwmixtrim", "5", "--size", "8m"];
    // 64 KiB are asked for with R2Ts, 4 KiB go in the capsule.
    for (args, ios) in [
        (&["--bssplit", "4k/50:64k/50", "--iodepth", "16", "--number_ios", "2000"][..], 2_000),
        (&["--header-digest", "--bs", "64k", "--iodepth", "4", "--number_ios", "500"], 500),
        (&["--data-digest", "--bs", "512", "--number_ios", "500"], 500),
        (
            &[
                "--header-digest",
                "--data-digest",
                "--bsrange",
                "4k-128k",
                "--numjobs",
                "3",
                "--iodepth",
                "8",
                "--fsync",
                "10",
                "--number_ios",
                "500",
                "--nsid",
                "2",
            ],
            1_500,
        ),
        (&["--rate_iops", "4000", "--numjobs", "2", "--number_ios", "500"], 1_000),
    ] {
        let output = bench(target.address(), &[&mixed, args].concat());
        let result = result(&output, 0);
        let (flow, host) = (&result["flows"][0], &result["host"]);
        let sides = ["read", "write", "trim"].map(|side| flow[side]["ios"].as_u64().unwrap());
        assert_eq!(sides.iter().sum::<u64>(), ios, "{args:?}");
        assert!(sides.iter().all(|&count| count > 0), "{args:?}: {sides:?}");
        assert!(host["checked_blocks"].as_u64().unwrap() > 0, "{args:?}");
        assert_eq!((&host["failed"], &host["unknown"]), (&0.into(), &0.into()), "{args:?}");
        assert!(result["device"].is_null(), "a host does not see into the drive");
    }
}

/// The load ends with its runtime, and says what it did not get to.
#[test]
fn a_rate_that_is_too_much_ends_with_the_runtime() {
    let slow = ["--fault", "connection-delay:rate=1,by=2ms"];
    let target = start_on_any_port(&[&["--namespace", "16MiB"][..], &slow].concat());
    let load = ["--rw", "randwrite", "--iodepth", "4", "--runtime", "200ms", "--verify"];
    let at = |rate| bench(target.address(), &[&load[..], &["--rate_iops", rate]].concat());
    let overloaded = result(&at("1000000"), 0);
    let host = &overloaded["host"];
    // 4 I/Os every 2 ms at the most.
    assert!(host["completed"].as_u64().unwrap() < 2_000, "{host}");
    let not_issued = host["not_issued_ns"].as_f64().unwrap();
    assert!((150e6..200e6).contains(&not_issued), "{host}");
    assert!(str_of(&overloaded["notes"][0]).contains("did not keep up with the rate"));
    let light = result(&at("100"), 0);
    assert_eq!(light["host"]["not_issued_ns"], 0.0);
    assert_eq!(light["flows"][0]["write"]["ios"], 20);
}

/// Far more than sockets hold is under way, and a host sends on before it takes what there is.
#[test]
fn long_reads_never_wait_for_each_other() {
    let target = start_on_any_port(&["--namespace", "64MiB", "--poll", "adaptive"]);
    let reads = ["--rw", "read", "--bs", "1m", "--iodepth", "16"];
    let args = [&reads[..], &["--numjobs", "3", "--number_ios", "300"]].concat();
    let result = result(&bench(target.address(), &args), 0);
    assert_eq!(result["host"]["lost_connections"], 0);
    assert_eq!(result["host"]["completed"], 900);
}

#[test]
fn what_does_not_fit_the_target_is_refused() {
    let target = start_on_any_port(&["--namespace", "16MiB,4096"]);
    for (args, code, message) in [
        (&["--bs", "512"][..], 2, "blocks of 4096 bytes"),
        (&["--bs", "64m", "--rw", "write", "--size", "64m"], 2, "at most"),
        (&["--nsid", "7"], 1, "no active namespace 7"),
        (&["--rw", "read", "--offset", "20m"], 2, "reach beyond the end"),
        (&["--iodepth", "60000"], 2, "--iodepth asks for 60000"),
        (&["--numjobs", "9", "--size", "32k", "--verify", "--rw", "write"], 2, "too few for 9"),
    ] {
        let output = bench(target.address(), args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(message), "{args:?}: {}", text(&output.stderr));
    }
    let wrong = format!("{}/nqn.2026-11.none:such", target.address());
    let output = bench(&wrong, &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("connecting to the subsystem failed: invalid parameters")
            && said.contains("NQN"),
        "{said}"
    );
}

#[test]
fn a_host_proves_who_it_is() {
    const HOST: &str = include_str!("../../../../../fuzz/corpus/keys/secret-none");
    const CONTROLLER: &str = include_str!("../../../../../fuzz/corpus/keys/secret-sha512");
    let (host, controller) = (HOST.trim(), CONTROLLER.trim());
    let target = start_on_any_port(&["--host-key", host, "--controller-key", controller]);
    let few = ["--rw", "randread", "--number_ios", "100"];
    let with = |args: &[&str]| bench(target.address(), &[&few, args].concat());
    assert_eq!(result(&with(&["--host-key", host]), 0)["requests"], 100);
    let both = with(&["--host-key", host, "--controller-key", controller]);
    assert_eq!(result(&both, 0)["requests"], 100);
    let command = str_of(&result(&both, 0)["run"]["command"]).to_owned();
    assert!(command.contains("--host-key '***' --controller-key '***'"), "{command}");
    // From a file, and from the environment.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, HOST).unwrap();
    let from_file = format!("--host-key=@{}", file.display());
    assert_eq!(result(&with(&[&from_file]), 0)["requests"], 100);
    let from_environment = |args: &[&str]| {
        let target = format!("tcp://{}", target.address());
        let mut command = mynah(&["bench", &target, "--json", "-", "--number_ios", "100"]);
        command.args(args).env("MYNAH_HOST_KEY", host).env("MYNAH_CONTROLLER_KEY", controller);
        command.output().unwrap()
    };
    assert_eq!(result(&from_environment(&[]), 0)["requests"], 100);
    // The command line goes first.
    let other = from_environment(&["--host-key", controller]);
    assert_eq!(other.status.code(), Some(1), "{}", text(&other.stderr));
    let help = from_environment(&["--help"]);
    let help = text(&help.stdout);
    assert!(help.contains("MYNAH_HOST_KEY") && !help.contains(host), "{help}");
    for (args, message) in [
        (&[][..], "authentication required"),
        (&["--host-key", controller], "authentication failed"),
        (&["--host-key", host, "--controller-key", host], "authentication failed"),
    ] {
        let output = with(args);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}

#[test]
fn results_hold_no_secrets() {
    const SECRET: &str = include_str!("../../../../../fuzz/corpus/keys/secret-none");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let of_host = format!("--host-key=nqn.2026-11.test:host={}", SECRET.trim());
    let json = file.to_str().unwrap();
    let target = start_on_any_port(&[&of_host, "--controller-key", SECRET.trim(), "--json", json]);
    let (code, said, errors) = target.stop();
    assert_eq!(code, 0, "{said}{errors}");
    let result = std::fs::read_to_string(&file).unwrap();
    for said in [&result, &said, &errors] {
        assert!(!said.contains(SECRET.trim()), "{said}");
    }
    let masked = "'--host-key=nqn.2026-11.test:host=***' --controller-key '***'";
    assert!(result.contains(masked), "{result}");
}

/// Stands between host and target: cuts every connection after so many bytes, or spoils a
/// byte of the data that come back.
struct Between {
    address: String,
    connections: Arc<AtomicU64>,
}

#[derive(Clone, Copy)]
enum Mischief {
    /// Cuts connections after so many bytes to the target, `times` times.
    Cut { after: u64, times: u64 },
    /// Flips a bit of byte `at` of what comes back on the second connection.
    Spoil { at: u64 },
    /// Lets nothing come back on the second connection after so many bytes, and keeps it open.
    Silence { after: u64 },
}

impl Between {
    fn start(target: &str, mischief: Mischief) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connections = Arc::new(AtomicU64::new(0));
        let (target, count) = (target.to_owned(), connections.clone());
        let cuts = Arc::new(AtomicU64::new(0));
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        std::thread::spawn(move || {
            for host in listener.incoming().map_while(Result::ok) {
                let Ok(target) = TcpStream::connect(&target) else { return };
                let number = count.fetch_add(1, Ordering::Relaxed);
                let both = [host.try_clone().unwrap(), target.try_clone().unwrap()];
                open.lock().unwrap().extend(both);
                let (back, there) = (host.try_clone().unwrap(), target.try_clone().unwrap());
                let (cuts, open) = (cuts.clone(), open.clone());
                std::thread::spawn(move || {
                    copy(host, there, |total, _| {
                        if let Mischief::Cut { after, times } = mischief
                            && total > after
                            && cuts.fetch_add(1, Ordering::Relaxed) < times
                        {
                            for stream in open.lock().unwrap().drain(..) {
                                let _ = stream.shutdown(Shutdown::Both);
                            }
                        }
                    });
                });
                std::thread::spawn(move || {
                    copy(target, back, |total, bytes| {
                        let from = total - bytes.len() as u64;
                        if let Mischief::Spoil { at } = mischief
                            && number == 1
                            && (from..total).contains(&at)
                        {
                            bytes[(at - from) as usize] ^= 1;
                        }
                        if let Mischief::Silence { after } = mischief
                            && number == 1
                            && total > after
                        {
                            loop {
                                std::thread::park();
                            }
                        }
                    });
                });
            }
        });
        Between { address, connections }
    }
}

/// Copies until either end is closed; `look` sees how much has passed and what passes now.
fn copy(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(u64, &mut [u8])) {
    let mut buffer = vec![0; 64 << 10];
    let mut total = 0;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        total += count as u64;
        look(total, &mut buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Connects through `between` to the target's subsystem.
fn subsystem(target: &Served, between: &Between) -> String {
    let output = bench(target.address(), &["--rw", "read", "--number_ios", "1"]);
    let found = result(&output, 0)["host"]["target"].as_str().unwrap().to_owned();
    let (_, nqn) = found.rsplit_once('/').unwrap();
    format!("{}/{nqn}", between.address)
}

#[test]
fn cut_connections_lose_nothing_that_was_acknowledged() {
    let target = start_on_any_port(&[]);
    let mischief = Mischief::Cut { after: 3 << 20, times: 3 };
    let between = Between::start(target.address(), mischief);
    let through = subsystem(&target, &between);
    let load = ["--rw", "randrw", "--size", "8m", "--bssplit", "4k/80:32k/20", "--iodepth", "8"];
    let more = ["--number_ios", "4000", "--numjobs", "2", "--verify"];
    let result = result(&bench(&through, &[&load[..], &more].concat()), 0);
    let host = &result["host"];
    assert_eq!((&host["completed"], &host["unknown"]), (&host["completed"], &0.into()));
    assert_eq!((&result["requests"], &host["mismatched_blocks"]), (&8_000.into(), &0.into()));
    assert!(host["reconnects"].as_u64().unwrap() >= 1, "{host}");
    assert!(host["lost_connections"].as_u64().unwrap() >= 2, "{host}");
    assert!(between.connections.load(Ordering::Relaxed) > 3);
}

#[test]
fn spoilt_data_are_found() {
    let target = start_on_any_port(&[]);
    let between = Between::start(target.address(), Mischief::Spoil { at: 1_000_000 });
    let through = subsystem(&target, &between);
    let load = ["--rw", "write", "--size", "4m", "--iodepth", "4", "--number_ios", "1024"];
    // Without a digest, the block's own checksum shows it.
    let output = bench(&through, &[&load[..], &["--verify"]].concat());
    let found = result(&output, 1);
    assert_eq!(found["host"]["mismatched_blocks"], 1, "{}", found["host"]);
    let said = text(&output.stderr);
    assert!(said.contains("verify: block ") && said.contains("expected generation 1"), "{said}");
    // With one, the I/O fails.
    let between = Between::start(target.address(), Mischief::Spoil { at: 1_000_000 });
    let through = subsystem(&target, &between);
    let output = bench(&through, &[&load[..], &["--verify", "--data-digest"]].concat());
    let found = result(&output, 1);
    assert_eq!(
        (&found["host"]["failed"], &found["host"]["mismatched_blocks"]),
        (&1.into(), &0.into())
    );
}

#[test]
fn a_target_that_is_killed_and_comes_back_has_what_was_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file:{}", folder.path().join("bytes").display());
    let target = start_on_any_port(&["--store", &store]);
    let address = target.address().to_owned();
    let again = address.clone();
    let replaced = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1_500));
        drop(target);
        let target = start(&["--tcp", &again, "--store", &store]);
        (folder, target)
    });
    let load = ["--rw", "randrw", "--size", "8m", "--bs", "8k", "--iodepth", "8"];
    let more = ["--runtime", "4s", "--time_based", "--verify", "--fsync", "16"];
    let result = result(&bench(&address, &[&load[..], &more].concat()), 0);
    let host = &result["host"];
    assert_eq!((&host["reconnects"], &host["unknown"]), (&1.into(), &0.into()), "{host}");
    assert!(host["retried"].as_u64().unwrap() > 0, "{host}");
    drop(replaced.join().unwrap());
}

#[test]
fn an_interrupted_run_says_what_was_measured() {
    let target = start_on_any_port(&[]);
    let address = format!("tcp://{}", target.address());
    let mut child = mynah(&["bench", &address, "--runtime", "100s", "--iodepth", "4"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(said.contains("read: IOPS=") && said.contains("interrupted"), "{said}");
}

#[test]
fn a_target_that_stays_away_ends_the_run() {
    let target = start_on_any_port(&[]);
    let address = target.address().to_owned();
    let gone = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1_000));
        drop(target);
    });
    let args = ["--rw", "randwrite", "--iodepth", "4", "--runtime", "60s", "--reconnect", "1s"];
    let result = result(&bench(&address, &args), 1);
    gone.join().unwrap();
    assert_eq!(result["host"]["unknown"], 4);
    assert!(result["notes"][0].as_str().unwrap().contains("connections were lost"));
}

/// What was measured until a target went silent counts over all the time in which it was asked.
#[test]
fn silence_counts() {
    let target = start_on_any_port(&[]);
    let silent_after = |after: u64, args: &[&str], code: i32| {
        let between = Between::start(target.address(), Mischief::Silence { after });
        let through = subsystem(&target, &between);
        let giving_up = ["--rw", "randread", "--timeout", "2s", "--reconnect", "0"];
        result(&plain_bench(&format!("tcp://{through}"), &[&giving_up[..], args].concat()), code)
    };
    for (args, least_ns) in [
        // It is asked until it is given up, after 2 s.
        (&["--iodepth", "4", "--runtime", "60s"][..], 2e9),
        (&["--iodepth", "4", "--number_ios", "1000000"], 2e9),
        (&["--iodepth", "4", "--numjobs", "2", "--number_ios", "100000"], 2e9),
        (&["--rate_iops", "2000", "--runtime", "60s"], 2e9),
        (&["--iodepth", "4", "--runtime", "60s", "--ramp_time", "100ms"], 1.9e9),
        // Not longer than it was to be.
        (&["--iodepth", "4", "--runtime", "1s"], 1e9),
    ] {
        let result = silent_after(256 << 10, args, 1);
        let read = &result["flows"][0]["read"];
        let (ios, iops) = (read["ios"].as_f64().unwrap(), read["iops"].as_f64().unwrap());
        let lasted_ns = result["simulated_ns"].as_f64().unwrap();
        assert!(lasted_ns >= least_ns, "{args:?}: {lasted_ns}");
        assert!((iops * lasted_ns / 1e9 - ios).abs() < 1e-3, "{args:?}: {read}");
        assert!(ios > 0.0 || args.contains(&"--ramp_time"), "{args:?}");
        if args.contains(&"1s") {
            assert_eq!(lasted_ns, 1e9, "{args:?}");
        }
        assert!(result["host"]["unknown"].as_u64().unwrap() > 0, "{args:?}");
    }
}

/// The last of few I/Os comes long before the runtime is over.
#[test]
fn a_low_rate_is_over_the_whole_runtime() {
    let target = start_on_any_port(&[]);
    let load = ["--rw", "randread", "--rate_iops", "10", "--runtime", "500ms"];
    let result = result(&bench(target.address(), &load), 0);
    assert_eq!(result["requests"], 5);
    // The last comes after 400 ms.
    let lasted_ns = result["simulated_ns"].as_f64().unwrap();
    assert!(lasted_ns >= 5e8, "{lasted_ns}");
    let iops = result["flows"][0]["read"]["iops"].as_f64().unwrap();
    assert!((iops * lasted_ns / 5e9 - 1.0).abs() < 1e-9, "{iops} {lasted_ns}");
}

/// What the drive was asked and did not answer counts on its side as well.
#[test]
fn the_served_result_counts_what_hosts_wait_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("served.json");
    let drop = ["--fault", "connection-drop:rate=0.01", "--json", file.to_str().unwrap()];
    let target = start_on_any_port(&drop);
    let load = ["--rw", "randread", "--iodepth", "4", "--timeout", "2s", "--reconnect", "0"];
    let address = target.address().to_owned();
    let nqn = str_of(&target.ready["nqn"]).to_owned();
    let output = plain_bench(&format!("tcp://{address}/{nqn}"), &load);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    target.stop();
    let served: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert!(served["simulated_ns"].as_f64().unwrap() >= 2e9, "{served}");
    let read = &served["flows"][0]["read"];
    let (ios, iops) = (read["ios"].as_f64().unwrap(), read["iops"].as_f64().unwrap());
    assert!(ios > 0.0 && iops <= ios / 2.0, "{read}");
}

/// A short load does not wait for ever for its last answer, and says that there was none.
#[test]
fn an_io_that_is_never_answered_is_named_soon() {
    let target = start_on_any_port(&["--fault", "connection-drop:rate=1"]);
    let address = format!("tcp://{}", target.address());
    let load = ["--rw=randread", "--iodepth=1", "--runtime=1s", "--quiet"];
    // Connected anew every second, it is not answered either.
    for more in [&[][..], &["--timeout=1s"]] {
        let begun = Instant::now();
        let output = plain_bench(&address, &[&load, more].concat());
        let took = begun.elapsed();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        let said = text(&output.stderr);
        assert!(said.contains("1 I/O was never answered"), "{said}");
        assert!((Duration::from_secs(5)..Duration::from_secs(15)).contains(&took), "{took:?}");
    }
}

/// Somebody who listens, answers each host with `answer` and closes if `closes`; the address, and
/// how many came.
fn other_server(answer: &'static [u8], closes: bool) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let came = Arc::new(AtomicU64::new(0));
    let count = came.clone();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut host in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, Ordering::Relaxed);
            let _ = host.write_all(answer);
            if closes {
                // Unread bytes would reset the connection, and take the answer along.
                let _ = host.read(&mut [0; 4096]);
            } else {
                open.push(host);
            }
        }
    });
    (address, came)
}

/// A port of somebody else is named soon, with what it says, and not tried again and again.
#[test]
fn servers_of_other_protocols_are_told_apart() {
    for (answer, closes, connections, message) in [
        (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], false, 1, "it says `SSH-2.0-OpenSSH_9.2`"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", true, 1, "it says `HTTP/1.1 400 Bad Request`"),
        (b"\x15\x03\x01\x00", true, 1, "does not speak NVMe/TCP"),
        (b"", false, 1, "has not answered the connection request within 1 s"),
        (b"", true, 3, "the target closed the connection"),
    ] {
        for nqn in ["", "/nqn.2026-11.example:a"] {
            let (address, came) = other_server(answer, closes);
            let target = format!("tcp://{address}{nqn}");
            let output = plain_bench(&target, &["--timeout", "1s", "--wait", "60s"]);
            assert_eq!(output.status.code(), Some(1), "{}", said(&output));
            assert!(said(&output).contains(message), "{target}: {}", said(&output));
            assert_eq!(came.load(Ordering::Relaxed), connections, "{target} {message}");
        }
    }
}

/// Scripts start both at once.
#[test]
fn a_target_that_is_not_there_yet_is_waited_for() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (address, target) = (free.to_string(), format!("tcp://{free}"));
    let output = plain_bench(&target, &["--wait", "0", "--number_ios", "10"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cannot connect to"), "{}", said(&output));
    let waiting = start_bench(&target, &["--wait", "60s", "--number_ios", "10"]);
    std::thread::sleep(Duration::from_millis(300));
    let _target = start(&["--tcp", &address]);
    assert_eq!(result(&waiting.wait_with_output().unwrap(), 0)["requests"], 10);
}

/// The address in the log is the target's own, which a host behind a forwarded port cannot reach.
#[test]
fn a_host_stays_where_it_asked_for_subsystems() {
    let target = start_on_any_port(&[]);
    let between = Between::start(target.address(), Mischief::Cut { after: u64::MAX, times: 0 });
    let load = ["--rw", "randread", "--number_ios", "100"];
    let result = result(&bench(&between.address, &load), 0);
    let used = str_of(&result["host"]["target"]);
    assert!(used.starts_with(&format!("tcp://{}/nqn.", between.address)), "{used}");
    // Discovery, the admin queue, an I/O queue.
    assert_eq!(between.connections.load(Ordering::Relaxed), 3);
    // One that listens at every address.
    let everywhere = start(&["--tcp", "0.0.0.0:0"]);
    let (_, port) = everywhere.address().rsplit_once(':').unwrap();
    let output = bench(&format!("127.0.0.1:{port}"), &load);
    assert_eq!(crate::serving::support::result(&output, 0)["requests"], 100);
}

/// ANA: what its state refuses is tried again for as long as a change may take, and no longer.
#[test]
fn a_namespace_that_cannot_be_accessed_is_waited_for() {
    let changed = |state: &str, more: &str| {
        let fault = format!("ana-change:state={state},at=0s{more}");
        start_on_any_port(&["--fault", &fault, "--namespace", "64MiB"])
    };
    let load = ["--rw", "randrw", "--size", "8m", "--iodepth", "8", "--number_ios", "2000"];
    let verified = [&load[..], &["--numjobs", "2", "--fsync", "16", "--verify"]].concat();
    for state in ["inaccessible", "change"] {
        let target = changed(state, ",for=6s");
        let result = result(&bench(target.address(), &verified), 0);
        let host = &result["host"];
        assert_eq!((&host["failed"], &host["unknown"]), (&0.into(), &0.into()), "{host}");
        assert!(host["retried"].as_u64().unwrap() >= 8, "{host}");
        assert_eq!(host["mismatched_blocks"], 0, "{host}");
        let note = str_of(&result["notes"][0]);
        assert!(note.contains("access state (ANA) did not allow I/Os for"), "{note}");
    }
    for (state, name) in
        [("persistent-loss", "ANA Persistent Loss"), ("inaccessible", "ANATT: 10.0s")]
    {
        let target = changed(state, "");
        let output = bench(target.address(), &load);
        let result = result(&output, 1);
        assert!(said(&output).contains(name), "{}", said(&output));
        let host = &result["host"];
        assert_eq!((&host["completed"], &host["unknown"]), (&0.into(), &0.into()), "{host}");
        assert_eq!(host["failed"], 8, "those that were outstanding: {host}");
    }
}

#[test]
fn a_target_that_goes_away_at_once_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp://{}/nqn.2026-11.example:gone", listener.local_addr().unwrap());
    let closing = std::thread::spawn(move || drop(listener.accept().unwrap()));
    let output = run_bench(&target, &["--number_ios", "1", "--wait", "0"]);
    closing.join().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let said = said(&output);
    assert!(said.contains(", while connecting to tcp://127.0.0.1:"), "{said}");
    assert!(said.contains("start it again"), "{said}");
}

/// Two jobs of which the second waits, a third beside it, and what each did in its own time.
#[test]
fn jobs_of_a_file_wait_for_those_before_them() {
    let target = start_on_any_port(&["--namespace", "16MiB"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.fio");
    let text = "[global]\nfilename=/dev/nvme0n1\nioengine=libaio\nbs=4k\niodepth=8\n\
                [fill]\nrw=write\nsize=4MB\n\
                [reads]\nstonewall\nrw=randread\nruntime=300ms\ntime_based\n\
                [reads]\nrw=randwrite\noffset=8m\nsize=4m\nnumjobs=2\n";
    std::fs::write(&path, text).unwrap();
    let file = path.to_str().unwrap();
    let output = bench(target.address(), &["--fio", file]);
    let result = result(&output, 0);
    let flows = result["flows"].as_array().unwrap();
    let names: Vec<_> = flows.iter().map(|flow| str_of(&flow["name"])).collect();
    assert_eq!(names, ["fill", "reads", "reads-2"]);
    assert_eq!(flows[0]["write"]["ios"], 1024);
    assert_eq!(flows[2]["write"]["ios"], 2048);
    assert_eq!(result["host"]["queues"], 4);
    let reads = flows[1]["read"]["ios"].as_u64().unwrap();
    assert_eq!(result["requests"], 1024 + 2048 + reads);
    let fill_s = 1024.0 / flows[0]["write"]["iops"].as_f64().unwrap();
    let reads_s = reads as f64 / flows[1]["read"]["iops"].as_f64().unwrap();
    assert!((0.29..10.0).contains(&reads_s), "its own 300 ms: {reads_s}");
    // One after the other.
    let all_s = result["simulated_ns"].as_f64().unwrap() / 1e9;
    assert!(all_s >= 0.999 * (fill_s + reads_s), "{all_s}, {fill_s}, {reads_s}");

    for (args, message) in [
        (&["--fio", file, "--bs", "8k"][..], "--bs has no effect here"),
        (&["--fio", file, "--verify"], "--verify knows what one flow"),
        (&["--fio", "none.fio"], "none.fio"),
    ] {
        let output = bench(target.address(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text_of(&output));
        assert!(text_of(&output).contains(message), "{args:?}: {}", text_of(&output));
    }
    // A flush behind each write, as etcd asks its disk for.
    let wal = "[wal]\nioengine=sync\nrw=write\nbs=4k\nsize=256k\nfdatasync=1\n";
    std::fs::write(&path, wal).unwrap();
    let output = bench(target.address(), &["--fio", file]);
    let synced = crate::serving::support::result(&output, 0);
    assert_eq!(synced["flows"][0]["write"]["ios"], 64);
    assert_eq!(synced["flows"][0]["flush"]["ios"], 64);
    std::fs::write(&path, "[a]\nthinktime=5\n").unwrap();
    let output = bench(target.address(), &["--fio", file]);
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
}

fn text_of(output: &Output) -> String {
    text(&output.stderr)
}
