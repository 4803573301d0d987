//! The endpoint that figures are fetched from, on a thread of its own.
//!
//! A connection is for one request, and has [`REQUEST_TIME`] for all of it: reading, answering and
//! sending. There is a [`Bound`] on how many are open: above it, the oldest of whoever has most goes
//! for the newcomer. Figures are gathered at most once in [`PAGE_TIME`], whoever asks, and not at
//! all while nobody does; the engines only copy what they have measured ([`Control::ask`]). There
//! is no authentication and no TLS.

use super::{Drives, Format, text};
use crate::engine::Control;
use crate::quota::{Bound, Bounds, Budget, Peer, Share, whom_to_drop};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue, VARY};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

/// How long a request may take. Prometheus, too, gives up after 10 s unless told otherwise
/// (`scrape_timeout`).
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// What is read of a request at most. It is the least that hyper allows.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Most header fields of a request.
const FIELDS_MAX: usize = 64;
/// How old the figures may be that somebody gets.
const PAGE_TIME: Duration = Duration::from_millis(100);
/// How long engines may take to answer, all together.
const PATIENCE: Duration = Duration::from_secs(2);
/// Before it is tried again to accept somebody, where the system had nothing left.
const PAUSE: Duration = Duration::from_millis(100);

/// What there is for clients.
#[derive(Clone, Copy)]
struct Limits {
    connections: Bound,
    request_time: Duration,
    page_time: Duration,
}

/// Serves metrics of these drives, by name, on `listener` until the process ends.
///
/// # Errors
/// If the system has no thread or nothing to wait with.
pub fn serve(listener: StdListener, drives: Vec<(String, Arc<Control>)>) -> io::Result<SocketAddr> {
    let (connections, request_time) = (Bounds::SCRAPES, REQUEST_TIME);
    serve_within(listener, drives, Limits { connections, request_time, page_time: PAGE_TIME })
}

fn serve_within(
    listener: StdListener,
    drives: Vec<(String, Arc<Control>)>,
    limits: Limits,
) -> io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    // One more thread waits for the engines and writes, so that this one always takes connections.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .thread_name("mynah-scrape")
        .build()?;
    let listener = {
        let _context = runtime.enter();
        TcpListener::from_std(listener)?
    };
    let scrapes = Arc::new(Scrapes {
        drives: drives.into(),
        page_time: limits.page_time,
        latest: tokio::sync::Mutex::default(),
    });
    std::thread::Builder::new()
        .name("mynah-metrics".to_owned())
        .spawn(move || runtime.block_on(accept(listener, scrapes, limits)))?;
    Ok(address)
}

/// Connections that are open, by when they came.
#[derive(Default)]
struct Open(BTreeMap<u64, (Share, AbortHandle)>);

impl Open {
    /// A share for a newcomer, for whom others may have to go.
    fn admit(&mut self, budget: &Budget, peer: Peer) -> Option<Share> {
        loop {
            let refused = match budget.take(peer) {
                Ok(share) => return Some(share),
                Err(refused) => refused,
            };
            let all = self.0.iter().map(|(&number, (share, _))| (number, share.peer()));
            let (_, task) = self.0.remove(&whom_to_drop(all, peer, refused)?)?;
            task.abort();
        }
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    // Nothing panics half-way with it.
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, scrapes: Arc<Scrapes>, limits: Limits) {
    let budget = Budget::new(limits.connections);
    let open = Arc::new(Mutex::new(Open::default()));
    for number in 0u64.. {
        let (client, address) = loop {
            match listener.accept().await {
                Ok(accepted) => break accepted,
                Err(_) => sleep(PAUSE).await,
            }
        };
        let mut all = lock(&open);
        let Some(share) = all.admit(&budget, Peer::at(address.ip())) else { continue };
        let (scrapes, its) = (Arc::clone(&scrapes), Arc::clone(&open));
        let task = tokio::spawn(async move {
            // A client that goes away, or sends rubbish, is its own affair.
            let _ = timeout(limits.request_time, answer(client, scrapes)).await;
            lock(&its).0.remove(&number);
        });
        all.0.insert(number, (share, task.abort_handle()));
    }
}

async fn answer(client: TcpStream, scrapes: Arc<Scrapes>) -> hyper::Result<()> {
    let service = service_fn(move |request| {
        let scrapes = Arc::clone(&scrapes);
        async move { Ok::<_, Infallible>(scrapes.respond(&request).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        // Who says that he has no more to say still wants an answer.
        .half_close(true)
        .max_buf_size(REQUEST_BYTES_MAX)
        .max_headers(FIELDS_MAX)
        .serve_connection(TokioIo::new(client), service)
        .await
}

/// The figures at some moment, in both formats.
struct Page {
    at: Instant,
    open_metrics: Bytes,
    prometheus: Bytes,
}

/// Drives whose metrics are served, and how often they are read anew.
struct Scrapes {
    drives: Arc<[(String, Arc<Control>)]>,
    page_time: Duration,
    /// Locked while figures are gathered: who asks meanwhile gets the same.
    latest: tokio::sync::Mutex<Option<Arc<Page>>>,
}

impl Scrapes {
    async fn respond(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let says = |status, text: &'static str| {
            response(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
        };
        // hyper leaves the body out of an answer to HEAD.
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = says(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        if !matches!(request.uri().path(), "/metrics" | "/") {
            return says(StatusCode::NOT_FOUND, "see /metrics\n");
        }
        let Some(page) = self.page().await else {
            return says(StatusCode::SERVICE_UNAVAILABLE, "the target is busy\n");
        };
        let accepts = request.headers().get_all(ACCEPT).iter();
        let format = Format::accepted(accepts.filter_map(|field| field.to_str().ok()));
        let body = match format {
            Format::OpenMetrics => page.open_metrics.clone(),
            Format::Prometheus => page.prometheus.clone(),
        };
        let mut response = response(StatusCode::OK, format.content_type(), body);
        response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
        response
    }

    /// The figures; `None` if an engine does not answer in time.
    async fn page(&self) -> Option<Arc<Page>> {
        let mut latest = self.latest.lock().await;
        if let Some(page) = latest.as_ref().filter(|page| page.at.elapsed() < self.page_time) {
            return Some(Arc::clone(page));
        }
        let drives = Arc::clone(&self.drives);
        let page = tokio::task::spawn_blocking(move || gather(&drives)).await.ok()??;
        Some(Arc::clone(latest.insert(Arc::new(page))))
    }
}

/// Asks all engines at once, and writes down what they say.
fn gather(drives: &[(String, Arc<Control>)]) -> Option<Page> {
    let at = Instant::now();
    let until = at.into_std() + PATIENCE;
    let requests: Vec<_> = drives.iter().map(|(_, drive)| drive.ask()).collect();
    let answers = drives
        .iter()
        .zip(requests)
        .map(|((name, _), request)| request?.wait(until).map(|snapshot| (name.clone(), snapshot)));
    let snapshots: Drives = answers.collect::<Option<_>>()?;
    let (open_metrics, snapshots) = text(snapshots, Format::OpenMetrics);
    let prometheus = Format::Prometheus.adapt(open_metrics.clone());
    for ((_, drive), (_, snapshot)) in drives.iter().zip(snapshots) {
        drive.reuse(snapshot);
    }
    Some(Page { at, open_metrics: open_metrics.into(), prometheus: prometheus.into() })
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Rate;
    use crate::server::{ServeOptions, Server, Speed};
    use mynah_lab::emulation::Emulation;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    const LIMITS: Limits = Limits {
        connections: Bound { total: 8, per_peer: 4 },
        request_time: Duration::from_secs(600),
        page_time: Duration::ZERO,
    };
    /// Nothing takes as long, unless it never ends.
    const WATCHDOG: Duration = Duration::from_secs(60);

    fn start(limits: Limits, drives: Vec<(String, Arc<Control>)>) -> SocketAddr {
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        serve_within(listener, drives, limits).unwrap()
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(WATCHDOG)).unwrap();
        client
    }

    /// Everything that comes back for a request.
    fn ask(address: SocketAddr, request: &str) -> String {
        let mut client = connect(address);
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(address: SocketAddr, fields: &str) -> String {
        ask(address, &format!("GET /metrics HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    }

    #[test]
    fn requests_have_the_answers_of_http() {
        let address = start(LIMITS, Vec::new());
        let request = |line: &str| ask(address, &format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"));
        for path in ["/metrics", "/", "/metrics?collect=all&x=y", "http://a:1/metrics?x"] {
            let answer = request(&format!("GET {path}"));
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer}");
            assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
            assert!(answer.contains("# TYPE mynah_commands_total counter\n"), "{answer}");
            assert!(answer.contains("connection: close"), "{answer}");
        }
        let (head, body) = {
            let answer = request("HEAD /metrics");
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            (head.to_owned(), body.to_owned())
        };
        assert!(head.starts_with("HTTP/1.1 200") && body.is_empty(), "{head}{body}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        assert!(length.parse::<u64>().unwrap() > 0);
        let open_metrics = get(address, "Accept: application/openmetrics-text; version=1.0.0\r\n");
        assert!(open_metrics.contains("content-type: application/openmetrics-text; version=1.0.0"));
        assert!(open_metrics.ends_with("# EOF\n"), "{open_metrics}");
        assert!(request("GET /other").starts_with("HTTP/1.1 404"));
        let posted = request("POST /metrics");
        assert!(posted.starts_with("HTTP/1.1 405") && posted.contains("allow: GET, HEAD"));
        assert!(ask(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
        assert!(get(address, &"A: b\r\n".repeat(FIELDS_MAX + 1)).starts_with("HTTP/1.1 431"));
        // Longer than anybody reads it: the rest of it is not waited for.
        let long = format!("GET /{}", "x".repeat(2 * REQUEST_BYTES_MAX));
        let mut client = connect(address);
        // It may have been closed before all of it was sent.
        let _ = client.write_all(long.as_bytes());
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{answer:?}");
    }

    #[test]
    fn who_says_little_does_not_hold_up_others() {
        let address = start(LIMITS, Vec::new());
        let mut trickling = connect(address);
        let mut idle: Vec<TcpStream> = (0..20).map(|_| connect(address)).collect();
        for byte in "GET /metrics HTTP/1.1\r\n".bytes().take(3) {
            // It may be the one that had to go.
            let _ = trickling.write_all(&[byte]);
            assert!(get(address, "").starts_with("HTTP/1.1 200"));
        }
        // One may have so many, and the newest have them.
        let mut closed = 0;
        for client in &mut idle[..17] {
            closed += usize::from(matches!(client.read(&mut [0; 1]), Ok(0) | Err(_)));
        }
        assert_eq!(closed, 17);
    }

    #[test]
    fn a_request_has_so_much_time_in_all() {
        let request_time = Duration::from_millis(300);
        let address = start(Limits { request_time, ..LIMITS }, Vec::new());
        let mut client = connect(address);
        let began = Instant::now();
        // It says something all the time, and would do so for longer than anybody waits.
        while client.write_all(b"G").is_ok() {
            assert!(began.elapsed() < WATCHDOG, "it is still listened to");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn figures_are_gathered_once_for_all_who_ask_meanwhile() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let drive = std::thread::spawn(move || {
            let overrides = ["geometry.blocks_per_plane=48", "over_provisioning=20%"];
            let drive = Emulation::on("enterprise-tlc", &overrides.map(str::to_owned)).unwrap();
            let speed = Speed::Modelled(Rate::REAL);
            let options = ServeOptions { tcp: Vec::new(), speed, ..ServeOptions::default() };
            let server = Server::new(drive.prepare().unwrap(), options).unwrap();
            sender.send(server.control()).unwrap();
            server.run().unwrap();
        });
        let control = receiver.recv().unwrap();
        let drives = vec![("a".to_owned(), Arc::clone(&control))];
        let uptime = |address| {
            let page = get(address, "");
            let line = page.lines().find(|line| line.starts_with("mynah_uptime_seconds{")).unwrap();
            line.to_owned()
        };
        let cached = start(Limits { page_time: WATCHDOG, ..LIMITS }, drives.clone());
        assert_eq!(uptime(cached), uptime(cached));
        let fresh = start(LIMITS, drives);
        assert_ne!(uptime(fresh), uptime(fresh));
        assert!(get(fresh, "").contains("mynah_latency_seconds_bucket{le=\"+Inf\",drive=\"a\"} 0"));
        control.stop();
        drive.join().unwrap();
        assert!(get(fresh, "").starts_with("HTTP/1.1 503"), "nobody answers any more");
    }
}
