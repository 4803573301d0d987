//! A clock that the test plays, and hostile ones.

use super::*;
use mynah_guest_protocol::Processor;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

struct Played {
    link: Link,
    clock: UnixStream,
    _folder: tempfile::TempDir,
}

impl Played {
    fn new() -> Played {
        let folder = tempfile::tempdir().unwrap();
        let mut link = Link::listen(&folder.path().join("clock")).unwrap();
        let clock = UnixStream::connect(link.path()).unwrap();
        link.accept();
        Played { link, clock, _folder: folder }
    }

    fn say(&mut self, message: &Message) {
        self.clock.write_all(&message.to_bytes()).unwrap();
    }

    fn told(&mut self) -> Message {
        let mut inbox = Inbox::default();
        loop {
            if let Some(message) = inbox.next().unwrap() {
                return message;
            }
            let mut byte = [0];
            self.clock.read_exact(&mut byte).unwrap();
            inbox.received(&byte);
        }
    }
}

fn counts(executed: u64) -> Counts {
    Counts { current: 0, processors: vec![Processor { executed, idle: 0 }] }
}

#[test]
fn a_clock_is_welcome_and_heard() {
    let mut it = Played::new();
    it.say(&Message::Hello { version: VERSION, processors: 1 });
    assert_eq!(it.link.hear(), Ok(None));
    assert!(it.link.is_connected());
    assert_eq!(it.told(), Message::Welcome { version: VERSION });
    it.say(&Message::Reached(counts(10)));
    // What was said before an answer is not lost.
    it.say(&Message::Time(counts(11)));
    assert_eq!(it.link.ask(), Ok(counts(11)));
    assert_eq!(it.link.hear(), Ok(Some(Message::Reached(counts(10)))));
    it.link.run(50).unwrap();
    assert_eq!((it.told(), it.told()), (Message::Ask, Message::Run(50)));
    it.say(&Message::Bye(counts(60)));
    drop(it.clock);
    assert_eq!(it.link.hear(), Ok(Some(Message::Bye(counts(60)))));
    assert_eq!(it.link.hear(), Err(Lost::Closed));
}

#[test]
fn another_version_is_refused_and_the_next_may_come() {
    let mut it = Played::new();
    it.say(&Message::Hello { version: VERSION + 1, processors: 1 });
    assert_eq!(it.link.hear(), Ok(None));
    let Message::Refused(reason) = it.told() else { panic!("it was not refused") };
    assert!(reason.contains("version 2"), "{reason}");
    it.clock = UnixStream::connect(it.link.path()).unwrap();
    it.link.accept();
    it.say(&Message::Hello { version: VERSION, processors: 4 });
    assert_eq!(it.link.hear(), Ok(None));
    assert!(it.link.is_connected());
    let mut second = UnixStream::connect(it.link.path()).unwrap();
    it.link.accept();
    let mut said = Vec::new();
    second.read_to_end(&mut said).unwrap();
    assert!(String::from_utf8_lossy(&said).contains("another guest"));
}

#[test]
fn a_clock_does_not_go_backwards() {
    let mut it = Played::new();
    it.say(&Message::Hello { version: VERSION, processors: 1 });
    assert_eq!(it.link.hear(), Ok(None));
    it.say(&Message::Reached(counts(10)));
    assert!(matches!(it.link.hear(), Ok(Some(_))));
    it.say(&Message::Reached(counts(9)));
    assert!(matches!(it.link.hear(), Err(Lost::Wrong(text)) if text.contains("backwards")));
    assert!(!it.link.is_connected());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever a clock says, it is understood or sent away.
    #[test]
    fn hostile_clocks_are_survived(
        greets in any::<bool>(),
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        kind in 0..12u32,
    ) {
        let mut it = Played::new();
        if greets {
            it.say(&Message::Hello { version: VERSION, processors: 1 });
            prop_assert_eq!(it.link.hear(), Ok(None));
        }
        let mut all = kind.to_le_bytes().to_vec();
        all.extend((bytes.len() as u32).to_le_bytes());
        all.extend(&bytes);
        it.clock.write_all(&all).unwrap();
        it.clock.shutdown(std::net::Shutdown::Write).unwrap();
        while let Ok(Some(_)) = it.link.hear() {}
        let _ = it.link.hear();
        prop_assert!(!it.link.is_connected());
    }
}
