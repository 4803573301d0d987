//! What a drive and the clock of a QEMU guest say to each other, so that both have one time.
//!
//! The guest's clock is a plugin of QEMU's that counts instructions ([`Counts`]). It connects to
//! the drive's Unix socket, says [`Message::Hello`], and is answered with [`Message::Welcome`] or
//! [`Message::Refused`]. From then on the guest runs only as far as the drive lets it:
//!
//! - [`Message::Reached`]: the guest stands still, at the first block of instructions that begins
//!   at its limit or beyond.
//! - [`Message::Run`] lets it go on to a new limit. It is said to a guest that has reached one.
//! - [`Message::Ask`], while the guest waits for the drive's answer to an access: it is told the
//!   [`Message::Time`], and the guest stands still again at the next block, whatever its limit was.
//! - [`Message::Halted`]: a processor executes HLT. It would sleep through time that nobody
//!   counts, so that a guest with a drive must not do it.
//! - [`Message::Bye`]: the guest ends in order.
//!
//! A message is its kind and the bytes of its body, as 32-bit numbers, and the body; everything is
//! little endian. Neither end trusts the other: a message that makes no sense ends the connection.

/// The version spoken here; both ends have to have the same.
pub const VERSION: u32 = 1;
/// A guest has no more processors than this.
pub const PROCESSORS_MAX: usize = 64;
/// Longest reason of a refusal, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;
/// Time of an instruction of the guest: QEMU's `-icount shift=2`.
pub const INSTRUCTION_NS: u64 = 4;

/// Bytes of a message before its body.
const HEADER_BYTES: usize = 8;
/// Bytes of the longest body: counts of all processors.
const BODY_BYTES_MAX: usize = 16 + 16 * PROCESSORS_MAX;
/// What the first message begins with.
const MAGIC: [u8; 8] = *b"MYNAHCLK";

/// What a processor of the guest has executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// Instructions that were executed.
    pub executed: u64,
    /// Those of them in loops around PAUSE in the kernel: there it waits, mostly for work.
    pub idle: u64,
}

/// What the guest has executed since its start: its time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The processor that executes now; the others wait for their turn.
    pub current: u32,
    /// Indexed by processor number.
    pub processors: Vec<Processor>,
}

impl Counts {
    /// Instructions of all processors. They take turns, so that this is time.
    pub fn executed(&self) -> u64 {
        self.processors.iter().fold(0, |sum, it| sum.saturating_add(it.executed))
    }

    /// Instructions of all processors that only waited.
    pub fn idle(&self) -> u64 {
        self.processors.iter().fold(0, |sum, it| sum.saturating_add(it.idle))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The guest's first: what it speaks, and how many processors it has.
    Hello {
        /// [`VERSION`] of the guest's clock.
        version: u32,
        /// At least one.
        processors: u32,
    },
    /// The drive's answer: the guest may begin.
    Welcome {
        /// [`VERSION`] of the drive.
        version: u32,
    },
    /// The drive's other answer: it may not, and why.
    Refused(String),
    /// The drive asks what time it is, and has the guest stand still soon.
    Ask,
    /// The guest's answer to [`Message::Ask`].
    Time(Counts),
    /// The guest stands still.
    Reached(Counts),
    /// The guest goes on until it has executed this many instructions.
    Run(u64),
    /// A processor of the guest halts.
    Halted(u32),
    /// The guest ends in order.
    Bye(Counts),
}

/// Why messages cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// There is no such kind of message.
    Kind(u32),
    /// A message of this kind cannot have this length.
    Length {
        kind: u32,
        /// Bytes of its body.
        bytes: u32,
    },
    /// The first message is not that of a guest's clock.
    Magic,
    /// The body of a message of this kind makes no sense.
    Body(u32),
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Malformed::Kind(kind) => write!(f, "a message of the unknown kind {kind}"),
            Malformed::Length { kind, bytes } => {
                write!(f, "a message of kind {kind} with {bytes} bytes")
            }
            Malformed::Magic => f.write_str("a first message that is not a guest clock's"),
            Malformed::Body(kind) => write!(f, "a message of kind {kind} that makes no sense"),
        }
    }
}

impl std::error::Error for Malformed {}

mod kind {
    pub(super) const HELLO: u32 = 1;
    pub(super) const WELCOME: u32 = 2;
    pub(super) const REFUSED: u32 = 3;
    pub(super) const ASK: u32 = 4;
    pub(super) const TIME: u32 = 5;
    pub(super) const REACHED: u32 = 6;
    pub(super) const RUN: u32 = 7;
    pub(super) const HALTED: u32 = 8;
    pub(super) const BYE: u32 = 9;
}

/// Whether a body of this kind may have this length.
fn fits(kind: u32, bytes: usize) -> Result<bool, Malformed> {
    Ok(match kind {
        kind::HELLO => bytes == 16,
        kind::WELCOME | kind::HALTED => bytes == 4,
        kind::REFUSED => bytes <= TEXT_BYTES_MAX,
        kind::ASK => bytes == 0,
        kind::TIME | kind::REACHED | kind::BYE => {
            bytes % 16 == 8 && bytes <= 8 + 16 * PROCESSORS_MAX
        }
        kind::RUN => bytes == 8,
        _ => return Err(Malformed::Kind(kind)),
    })
}

/// Reads numbers off the front of bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*first))
    }

    fn u64(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn counts(&mut self) -> Option<Counts> {
        let (current, count) = (self.u32()?, self.u32()?);
        if count as usize > PROCESSORS_MAX || self.0.len() != 16 * count as usize {
            return None;
        }
        let mut processors = Vec::with_capacity(count as usize);
        for _ in 0..count {
            processors.push(Processor { executed: self.u64()?, idle: self.u64()? });
        }
        Some(Counts { current, processors })
    }
}

fn put_counts(counts: &Counts, body: &mut Vec<u8>) {
    let processors = &counts.processors[..counts.processors.len().min(PROCESSORS_MAX)];
    body.extend(counts.current.to_le_bytes());
    body.extend((processors.len() as u32).to_le_bytes());
    for processor in processors {
        body.extend(processor.executed.to_le_bytes());
        body.extend(processor.idle.to_le_bytes());
    }
}

/// As much of a text as fits.
fn short(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl Message {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let kind = match self {
            Message::Hello { version, processors } => {
                body.extend(MAGIC);
                body.extend(version.to_le_bytes());
                body.extend(processors.to_le_bytes());
                kind::HELLO
            }
            Message::Welcome { version } => {
                body.extend(version.to_le_bytes());
                kind::WELCOME
            }
            Message::Refused(text) => {
                body.extend(short(text).as_bytes());
                kind::REFUSED
            }
            Message::Ask => kind::ASK,
            Message::Time(counts) => {
                put_counts(counts, &mut body);
                kind::TIME
            }
            Message::Reached(counts) => {
                put_counts(counts, &mut body);
                kind::REACHED
            }
            Message::Run(limit) => {
                body.extend(limit.to_le_bytes());
                kind::RUN
            }
            Message::Halted(processor) => {
                body.extend(processor.to_le_bytes());
                kind::HALTED
            }
            Message::Bye(counts) => {
                put_counts(counts, &mut body);
                kind::BYE
            }
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend(kind.to_le_bytes());
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    fn parse(kind: u32, body: &[u8]) -> Result<Message, Malformed> {
        let mut reader = Reader(body);
        let counts = |reader: &mut Reader<'_>| reader.counts().ok_or(Malformed::Body(kind));
        let message = match kind {
            kind::HELLO => {
                let Some(rest) = body.strip_prefix(&MAGIC) else { return Err(Malformed::Magic) };
                let mut reader = Reader(rest);
                let hello = reader.u32().zip(reader.u32());
                hello.map(|(version, processors)| Message::Hello { version, processors })
            }
            kind::WELCOME => reader.u32().map(|version| Message::Welcome { version }),
            kind::REFUSED => {
                std::str::from_utf8(body).ok().map(|text| Message::Refused(text.to_owned()))
            }
            kind::ASK => Some(Message::Ask),
            kind::TIME => Some(Message::Time(counts(&mut reader)?)),
            kind::REACHED => Some(Message::Reached(counts(&mut reader)?)),
            kind::RUN => reader.u64().map(Message::Run),
            kind::HALTED => reader.u32().map(Message::Halted),
            kind::BYE => Some(Message::Bye(counts(&mut reader)?)),
            _ => return Err(Malformed::Kind(kind)),
        };
        message.ok_or(Malformed::Body(kind))
    }
}

/// Cuts what was received into messages.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    /// These bytes were received. Call [`Inbox::next`] until it has nothing more before the next
    /// ones are: then no more than a message is ever kept.
    pub fn received(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message; `None` if more has to be received.
    ///
    /// # Errors
    /// If what was received is none. Then nothing that follows can be understood.
    #[expect(clippy::should_implement_trait, reason = "the end is not the end of the messages")]
    pub fn next(&mut self) -> Result<Option<Message>, Malformed> {
        let mut reader = Reader(&self.bytes);
        let Some((kind, length)) = reader.u32().zip(reader.u32()) else { return Ok(None) };
        if length as usize > BODY_BYTES_MAX || !fits(kind, length as usize)? {
            return Err(Malformed::Length { kind, bytes: length });
        }
        let end = HEADER_BYTES + length as usize;
        let Some(body) = self.bytes.get(HEADER_BYTES..end) else { return Ok(None) };
        let message = Message::parse(kind, body)?;
        self.bytes.drain(..end);
        Ok(Some(message))
    }
}

/// Takes bytes as either end receives them; the first says in what parts. What was understood can be
/// said again, and no more is kept than a message has. For fuzz targets.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let Some((&part, bytes)) = data.split_first() else { return };
    let mut inbox = Inbox::default();
    for piece in bytes.chunks(usize::from(part).max(1)) {
        inbox.received(piece);
        loop {
            match inbox.next() {
                Ok(None) => break,
                Ok(Some(message)) => {
                    let mut again = Inbox::default();
                    again.received(&message.to_bytes());
                    assert_eq!(again.next(), Ok(Some(message)));
                    assert!(again.bytes.is_empty());
                }
                Err(_) => return,
            }
        }
        assert!(inbox.bytes.len() < HEADER_BYTES + BODY_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts() -> impl Strategy<Value = Counts> {
        let processor =
            (any::<u64>(), any::<u64>()).prop_map(|(executed, idle)| Processor { executed, idle });
        (any::<u32>(), prop::collection::vec(processor, 0..=PROCESSORS_MAX))
            .prop_map(|(current, processors)| Counts { current, processors })
    }

    fn message() -> impl Strategy<Value = Message> {
        prop_oneof![
            (any::<u32>(), any::<u32>())
                .prop_map(|(version, processors)| Message::Hello { version, processors }),
            any::<u32>().prop_map(|version| Message::Welcome { version }),
            "[a-zäß ]{0,100}".prop_map(Message::Refused),
            Just(Message::Ask),
            counts().prop_map(Message::Time),
            counts().prop_map(Message::Reached),
            any::<u64>().prop_map(Message::Run),
            any::<u32>().prop_map(Message::Halted),
            counts().prop_map(Message::Bye),
        ]
    }

    proptest! {
        /// However a stream is cut, the messages in it are those that were sent.
        #[test]
        fn messages_come_as_they_were_sent(
            sent in prop::collection::vec(message(), 0..8),
            cuts in prop::collection::vec(1..64usize, 1..32),
        ) {
            let stream: Vec<u8> = sent.iter().flat_map(Message::to_bytes).collect();
            let (mut inbox, mut came, mut rest) = (Inbox::default(), Vec::new(), &stream[..]);
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                inbox.received(now);
                while let Some(message) = inbox.next().unwrap() {
                    came.push(message);
                }
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(came, sent);
            prop_assert!(inbox.bytes.is_empty());
        }

        /// Any bytes are messages, too few, or an error; and what is kept stays small.
        #[test]
        fn any_bytes_are_survived(
            mut bytes in prop::collection::vec(any::<u8>(), 0..2048),
            kind in 0..12u32,
            length in 0..1100u32,
        ) {
            if bytes.len() >= 8 {
                bytes[..4].copy_from_slice(&kind.to_le_bytes());
                bytes[4..8].copy_from_slice(&length.to_le_bytes());
            }
            let mut inbox = Inbox::default();
            'all: for byte in bytes {
                inbox.received(&[byte]);
                loop {
                    match inbox.next() {
                        Ok(None) => break,
                        // What was understood can be said again.
                        Ok(Some(message)) => {
                            let mut again = Inbox::default();
                            again.received(&message.to_bytes());
                            prop_assert_eq!(again.next(), Ok(Some(message)));
                        }
                        Err(_) => break 'all,
                    }
                }
                prop_assert!(inbox.bytes.len() < HEADER_BYTES + BODY_BYTES_MAX);
            }
        }
    }

    /// What fuzzing has kept is still survived.
    #[test]
    fn the_corpus_is_survived() {
        let corpus =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/guest_clock");
        let files: Vec<_> =
            std::fs::read_dir(corpus).unwrap().map(|it| it.unwrap().path()).collect();
        assert!(!files.is_empty());
        files.iter().for_each(|file| fuzz(&std::fs::read(file).unwrap()));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let long = "ä".repeat(TEXT_BYTES_MAX);
        let mut inbox = Inbox::default();
        inbox.received(&Message::Refused(format!("x{long}")).to_bytes());
        let Ok(Some(Message::Refused(text))) = inbox.next() else { panic!("not understood") };
        assert_eq!(text.len(), TEXT_BYTES_MAX - 1);
    }

    #[test]
    fn a_long_message_is_refused_before_it_has_come() {
        let mut inbox = Inbox::default();
        inbox.received(&[5, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(inbox.next(), Err(Malformed::Length { kind: 5, bytes: 0x7fff_ffff }));
    }
}
