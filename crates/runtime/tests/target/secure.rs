//! Hosts that prove who they are, and connections that are encrypted.

use crate::client::{Client, HOST, NQN, Target, fabrics};
use mynah_runtime::authenticator::Secrets;
use mynah_runtime::engine::EngineLimits;
use mynah_runtime::host::{Controller, Credentials, HostError, Options};
use mynah_runtime::random;
use mynah_runtime::server::ServeOptions;
use mynah_stamp::Span;
use mynah_wire::authentication::{Choices, Failure, Group, Hash, Secret};
use mynah_wire::nvme::{Status, opcode};
use mynah_wire::tcp::digest::Digests;
use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

fn options(target: &Target, credentials: Option<Credentials>) -> Options {
    Options {
        address: target.address.to_string(),
        subsystem_nqn: NQN.to_owned(),
        host_nqn: HOST.to_owned(),
        credentials,
        #[cfg(feature = "tls")]
        tls: None,
        digests: Digests { header: false, data: false },
        keep_alive: Duration::ZERO,
        timeout: Duration::from_secs(60),
    }
}

/// Connects admin and I/O queue, and asks what there is.
fn visit(options: &Options) -> Result<Vec<u32>, HostError> {
    let mut controller = Controller::connect(options)?;
    let queue = controller.association().open_queue(1, 32)?;
    let namespaces = controller.namespaces()?;
    drop(queue);
    controller.shutdown()?;
    Ok(namespaces)
}

#[test]
fn both_ends_prove_who_they_are() {
    let secret = || Secret::generate(Hash::Sha256, &mut random::fill);
    let (host, controller, wrong) = (secret(), secret(), secret());
    let groups = vec![Group::Ffdhe2048];
    let choices = Choices { hashes: vec![Hash::Sha384], groups };
    let target = Target::start(ServeOptions {
        secrets: Secrets {
            hosts: vec![(Some(HOST.to_owned()), host.clone())],
            controller: Some(controller.clone()),
            choices,
        },
        ..ServeOptions::default()
    });
    let visit = |host: &Secret, controller: Option<&Secret>| {
        let credentials = Credentials {
            host: host.clone(),
            controller: controller.cloned(),
            choices: Choices::default(),
        };
        visit(&options(&target, Some(credentials)))
    };
    assert_eq!(visit(&host, None).expect("one way"), [1]);
    assert_eq!(visit(&host, Some(&controller)).expect("both ways"), [1]);
    for (host, controller) in [(&wrong, None), (&host, Some(&wrong))] {
        let error = visit(host, controller).expect_err("a wrong secret");
        assert!(matches!(error, HostError::Authentication(Failure::Failed)), "{error}");
    }
    let error = self::visit(&options(&target, None)).expect_err("no secret");
    let HostError::Refused { status, .. } = error else { panic!("{error}") };
    assert_eq!(status, Status::AUTHENTICATION_REQUIRED.do_not_retry());
    target.stop();
}

/// A slow processor works at a large group for longer than others may take to connect.
#[test]
fn who_authenticates_has_more_time_but_not_for_ever() {
    let short = Span::from_secs(1);
    for (authentication_time, stays) in [(Span::from_secs(3600), true), (short, false)] {
        let target = Target::start(ServeOptions {
            secrets: Secrets {
                hosts: vec![(None, Secret::generate(Hash::Sha256, &mut random::fill))],
                ..Secrets::default()
            },
            limits: EngineLimits {
                half_open_time: short,
                authentication_time,
                ..EngineLimits::default()
            },
            ..ServeOptions::default()
        });
        let mut slow = Client::open(target.address, 0).unwrap();
        let connected = slow.connect(0, 0xffff, 31).unwrap();
        assert_eq!(connected.status(), Status::SUCCESS);
        // One that says nothing at all has to go, and is gone before the other is looked at.
        let mut silent = TcpStream::connect(target.address).unwrap();
        assert_eq!(silent.read(&mut [0]).unwrap_or(0), 0);
        let answer = slow.command(fabrics(opcode::fabrics::PROPERTY_GET), &[]);
        match stays {
            true => {
                let status = answer.unwrap().0.status();
                assert_eq!(status.code(), Status::AUTHENTICATION_REQUIRED.code());
            }
            false => assert!(answer.is_err(), "too late"),
        }
        target.stop();
    }
}

#[cfg(feature = "tls")]
#[test]
fn connections_are_encrypted_for_who_has_the_key() {
    use mynah_runtime::host::Encryption;
    use mynah_wire::tls_key::TlsKey;
    for strong in [false, true] {
        let key = || TlsKey::generate(strong, &mut random::fill);
        let (right, wrong) = (key(), key());
        let target = Target::start(ServeOptions {
            tls: vec![(Some(HOST.to_owned()), right.clone())],
            ..ServeOptions::default()
        });
        let with = |key: &TlsKey| Options {
            tls: Some(Encryption::new(key.clone()).expect("a thread")),
            ..options(&target, None)
        };
        assert_eq!(visit(&with(&right)).expect("encrypted"), [1]);
        assert!(matches!(visit(&with(&wrong)), Err(HostError::Tls(_))));
        let plain = Options { timeout: Duration::from_secs(5), ..options(&target, None) };
        assert!(visit(&plain).is_err(), "nothing goes in the clear");
        target.stop();
    }
}
