use super::*;
use crate::quota::Quotas;
use crossbeam_channel::{Receiver, unbounded};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
const SUBSYSTEM: &str = "nqn.2026-11.io.github.mynah-ssd:tls";

fn key(seed: u8) -> TlsKey {
    TlsKey::generate(false, &mut |bytes| bytes.fill(seed))
}

/// A carrier that accepts hosts with some keys, and who comes.
fn listening(
    keys: Vec<(Option<String>, TlsKey)>,
) -> (Carrier, std::net::SocketAddr, Receiver<Established>) {
    let carrier = Carrier::start().expect("a thread");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (came, who) = unbounded();
    let acceptor = Acceptor::new(HostKeys::new(SUBSYSTEM, keys).expect("keys")).expect("TLS");
    let half_open = Quotas::default().half_open;
    carrier.listen(listener, acceptor, half_open, move |event| {
        if let Event::Established(established) = event {
            drop(came.send(established));
        }
    });
    (carrier, address, who)
}

fn connect(
    carrier: &Carrier,
    address: std::net::SocketAddr,
    psk: TlsPsk,
) -> Result<UnixStream, TlsError> {
    let stream = TcpStream::connect(address).expect("a connection");
    let socket = carrier.connect(stream, &Connector::new(psk)?)?;
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(false).expect("a blocking socket");
    Ok(socket)
}

#[test]
fn bytes_cross_both_ways_and_ends_are_seen() {
    let strong = TlsKey::generate(true, &mut |bytes| bytes.fill(3));
    let weak = listening(vec![(None, key(2)), (Some(HOST.to_owned()), key(1))]);
    let sha384 = listening(vec![(None, strong.clone())]);
    let cases = [
        (&weak, key(1), IdentityVersion::One, HOST, SUBSYSTEM),
        (&weak, key(1), IdentityVersion::Zero, HOST, DISCOVERY_NQN),
        (&weak, key(2), IdentityVersion::One, "nqn.2026-01.another", SUBSYSTEM),
        (&sha384, strong.clone(), IdentityVersion::One, HOST, SUBSYSTEM),
        (&sha384, strong, IdentityVersion::Zero, HOST, SUBSYSTEM),
    ];
    for ((carrier, address, who), key, version, host, subsystem) in cases {
        let mut near = connect(carrier, *address, key.psk(version, host, subsystem)).expect("TLS");
        let far = who.recv().expect("a connection");
        assert_eq!(far.host_nqn, host);
        assert!(far.half_open.is_some(), "it has its place still");
        let mut far = UnixStream::from(far.socket);
        far.set_nonblocking(false).expect("a blocking socket");
        let sent: Vec<u8> = (0..3_000_000u32).map(|n| ((n * 7) >> 3) as u8).collect();
        let expected = sent.clone();
        let writer = std::thread::spawn(move || {
            near.write_all(&sent).expect("written");
            near.shutdown(std::net::Shutdown::Write).expect("shut");
            let mut back = Vec::new();
            near.read_to_end(&mut back).expect("read");
            back
        });
        let mut came = Vec::new();
        far.read_to_end(&mut came).expect("read");
        assert!(came == expected);
        far.write_all(b"thanks").expect("written");
        drop(far);
        assert_eq!(writer.join().expect("no panic"), b"thanks");
    }
}

#[test]
fn without_the_right_key_there_is_no_connection() {
    let (carrier, address, who) = listening(vec![(Some(HOST.to_owned()), key(1))]);
    let cases = [
        (key(2), IdentityVersion::Zero, HOST, SUBSYSTEM),
        (key(2), IdentityVersion::One, HOST, SUBSYSTEM),
        (key(1), IdentityVersion::One, "nqn.2026-01.another", SUBSYSTEM),
        (key(1), IdentityVersion::One, HOST, "nqn.2026-01.another"),
    ];
    for (key, version, host, subsystem) in cases {
        let failed = connect(&carrier, address, key.psk(version, host, subsystem));
        assert!(matches!(failed, Err(TlsError::Handshake(_))), "{failed:?}");
    }
    // Someone who does not speak TLS at all.
    let mut plain = TcpStream::connect(address).expect("a connection");
    plain.write_all(&[0; 200]).expect("written");
    plain.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(answer.len() < 100, "an alert at most");
    assert!(who.is_empty(), "nobody came in");
    let strong = TlsKey::generate(true, &mut |bytes| bytes.fill(1));
    let mixed = HostKeys::new(SUBSYSTEM, vec![(None, strong), (Some(HOST.to_owned()), key(1))]);
    assert!(matches!(mixed, Err(TlsError::Mixed)));
    assert!(matches!(HostKeys::new(SUBSYSTEM, vec![]), Err(TlsError::NoKey)));
}

/// A peer with a key that does not go when it is told to, and does not read what it is sent.
#[test]
fn what_nobody_has_at_the_near_end_does_not_stay() {
    let (carrier, address, who) = listening(vec![(None, key(1))]);
    let psk = || key(1).psk(IdentityVersion::One, HOST, SUBSYSTEM);
    let connect = || {
        let stream = TcpStream::connect(address).expect("a connection");
        let ssl = openssl::ssl::Ssl::new(&Connector::new(psk()).expect("TLS").context);
        let mut tls = openssl::ssl::SslStream::new(ssl.expect("TLS"), stream).expect("TLS");
        tls.connect().expect("a handshake");
        tls
    };
    let silent = connect();
    drop(who.recv().expect("a connection"));
    let deaf = connect();
    let mut far = UnixStream::from(who.recv().expect("a connection").socket);
    // More than there is room for on the way.
    while far.write(&[0; 64 << 10]).is_ok() {}
    drop(far);
    let good = connect();
    let far = who.recv().expect("a connection");
    let began = std::time::Instant::now();
    while carrier.connections() != 1 {
        assert!(began.elapsed() < Duration::from_secs(60), "{} are left", carrier.connections());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop((silent, deaf, good, far));
}

#[test]
fn handshakes_that_never_end_keep_nobody_waiting() {
    let (carrier, address, who) = listening(vec![(None, key(1))]);
    let silent: Vec<_> =
        (0..400).map(|_| TcpStream::connect(address).expect("a connection")).collect();
    let psk = key(1).psk(IdentityVersion::One, HOST, SUBSYSTEM);
    let mut near = connect(&carrier, address, psk).expect("TLS");
    let mut far = UnixStream::from(who.recv().expect("a connection").socket);
    near.write_all(b"hello").expect("written");
    far.set_nonblocking(false).expect("a blocking socket");
    let mut bytes = [0; 5];
    far.read_exact(&mut bytes).expect("read");
    assert_eq!(&bytes, b"hello");
    drop(silent);
}
