//! The client's side of the fixed newstyle handshake, with NBD_OPT_GO. Replies are simple unless the server
//! lets nobody in without structured ones.

use super::super::export::BlockSizes;
use super::super::handshake::{
    FIXED_NEWSTYLE, NO_ZEROES, OPTION_MAGIC, REPLY_MAGIC, SERVER_MAGIC, answer, info, option,
    refusal,
};
use super::super::{u16_at, u32_at, u64_at};

/// Most bytes of an export's name ("String").
pub const EXPORT_NAME_BYTES_MAX: usize = 4096;
/// The second word of a server from before options were negotiated ("Oldstyle negotiation").
const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// Bytes of the server's greeting, and of the header of a reply to an option.
const GREETING_BYTES: usize = 18;
const REPLY_BYTES: usize = 20;
/// Most bytes of a reply's data, and most replies: there is nothing to say that is longer.
const DATA_BYTES_MAX: u32 = 16 << 10;
const REPLIES_MAX: u32 = 1_000;
/// Most bytes of a server's words that are quoted.
const QUOTED_BYTES_MAX: usize = 200;
/// What a server without limits takes ("Block size constraints").
const DEFAULT_SIZES: BlockSizes = BlockSizes { least: 1, preferred: 4096, most: 32 << 20 };
/// The highest bit of refusals.
const IS_REFUSAL: u32 = 1 << 31;

/// Why there is no export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Something else than an NBD server answers.
    #[error("what listens there does not speak NBD")]
    NotNbd,
    /// A server that negotiates nothing.
    #[error("the NBD server speaks only the old style of NBD, without negotiation")]
    OldStyle,
    /// The server does not have the export.
    #[error("the NBD server has no export `{export}`{}", quoted(said))]
    Unknown {
        /// The export's name.
        export: String,
        /// The server's words.
        said: String,
    },
    /// It only serves encrypted connections.
    #[error("the NBD server wants TLS, which is not supported here")]
    Tls,
    /// It refuses in another way.
    #[error("the NBD server refuses export `{export}` (error {code:#x}){}", quoted(said))]
    Refused {
        /// The export's name.
        export: String,
        /// NBD_REP_ERR_ number.
        code: u32,
        /// The server's words.
        said: String,
    },
    /// The name cannot be sent.
    #[error("an export's name has at most {EXPORT_NAME_BYTES_MAX} bytes, this one has {0}")]
    Name(usize),
    /// It does not follow the protocol.
    #[error("the NBD server broke the protocol: {0}")]
    Broken(&'static str),
}

fn quoted(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": it says `{said}`") }
}

/// What an export is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Size of the export in bytes.
    pub bytes: u64,
    /// Bits of [`flag`](super::super::flag).
    pub flags: u16,
    /// Limits of requests; all of them powers of two but the last.
    pub sizes: BlockSizes,
    /// Replies are structured.
    pub structured: bool,
}

/// What the client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    /// The answer to NBD_OPT_STRUCTURED_REPLY, which was asked at first or after a refusal.
    Structured,
    Go,
    Done,
}

/// A connection whose export is being asked for.
#[derive(Clone, Debug)]
pub struct Handshake {
    export: String,
    state: State,
    prefers_structured: bool,
    structured: bool,
    /// What NBD_OPT_GO was refused with, before it is asked again with structured replies.
    refused: Option<Unusable>,
    size: Option<(u64, u16)>,
    sizes: BlockSizes,
    replies: u32,
}

impl Handshake {
    /// A connection to an export, by name; the empty name is the server's default. `prefers_structured`:
    /// structured replies are asked for at once, and not only if the server lets nobody in without them.
    ///
    /// # Errors
    /// If no export can have such a name.
    pub fn new(export: &str, prefers_structured: bool) -> Result<Handshake, Unusable> {
        if export.len() > EXPORT_NAME_BYTES_MAX {
            return Err(Unusable::Name(export.len()));
        }
        Ok(Handshake {
            export: export.to_owned(),
            state: State::Greeting,
            prefers_structured,
            structured: false,
            refused: None,
            size: None,
            sizes: DEFAULT_SIZES,
            replies: 0,
        })
    }

    /// Processes received bytes, and appends what is to be sent: how many were consumed, and the export
    /// once it is open: what follows belongs to a [`Session`](super::Session) then.
    ///
    /// # Errors
    /// If there is no such export, or the server does not speak the protocol.
    pub fn take(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Offer>), Unusable> {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            match self.state {
                State::Done => return Ok((used, None)),
                State::Greeting => {
                    if !is_start_of(rest, &SERVER_MAGIC.to_be_bytes()) {
                        return Err(Unusable::NotNbd);
                    }
                    if rest.len() < GREETING_BYTES {
                        return Ok((used, None));
                    }
                    self.greeted(rest, out)?;
                    used += GREETING_BYTES;
                }
                State::Structured | State::Go => {
                    let Some(length) = self.reply_length(rest)? else { return Ok((used, None)) };
                    let end = REPLY_BYTES + length;
                    let Some(data) = rest.get(REPLY_BYTES..end) else { return Ok((used, None)) };
                    used += end;
                    if let Some(offer) = self.replied(u32_at(rest, 12), data, out)? {
                        return Ok((used, Some(offer)));
                    }
                }
            }
        }
    }

    /// The server's greeting: magic, magic of options, flags.
    fn greeted(&mut self, greeting: &[u8], out: &mut Vec<u8>) -> Result<(), Unusable> {
        match u64_at(greeting, 8) {
            OPTION_MAGIC => {}
            OLDSTYLE_MAGIC => return Err(Unusable::OldStyle),
            _ => return Err(Unusable::NotNbd),
        }
        let flags = u32::from(u16_at(greeting, 16));
        if flags & FIXED_NEWSTYLE == 0 {
            return Err(Unusable::OldStyle);
        }
        // Only what the server has as well may be answered.
        out.extend((flags & (FIXED_NEWSTYLE | NO_ZEROES)).to_be_bytes());
        match self.prefers_structured {
            true => self.ask_structured(out),
            false => self.ask_go(out),
        }
        Ok(())
    }

    fn ask_structured(&mut self, out: &mut Vec<u8>) {
        ask(out, option::STRUCTURED_REPLY, &[]);
        self.state = State::Structured;
    }

    fn ask_go(&mut self, out: &mut Vec<u8>) {
        let mut data = (self.export.len() as u32).to_be_bytes().to_vec();
        data.extend(self.export.bytes());
        // One item of information: the block sizes. Size and flags come anyway.
        data.extend(1u16.to_be_bytes());
        data.extend(info::BLOCK_SIZE.to_be_bytes());
        ask(out, option::GO, &data);
        self.state = State::Go;
    }

    /// Bytes of a reply's data, if its header is there.
    fn reply_length(&mut self, rest: &[u8]) -> Result<Option<usize>, Unusable> {
        if rest.len() < REPLY_BYTES {
            return Ok(None);
        }
        let asked = if self.state == State::Go { option::GO } else { option::STRUCTURED_REPLY };
        if u64_at(rest, 0) != REPLY_MAGIC {
            return Err(Unusable::Broken("no reply where one should be"));
        }
        if u32_at(rest, 8) != asked {
            return Err(Unusable::Broken("a reply to an option that was not sent"));
        }
        match u32_at(rest, 16) {
            length if length <= DATA_BYTES_MAX => Ok(Some(length as usize)),
            _ => Err(Unusable::Broken("a reply to an option that is too long")),
        }
    }

    /// A reply to the option that is outstanding.
    fn replied(
        &mut self,
        kind: u32,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Offer>, Unusable> {
        self.replies += 1;
        if self.replies > REPLIES_MAX {
            return Err(Unusable::Broken("replies to options without an end"));
        }
        match (self.state, kind) {
            (State::Structured, answer::ACK) => {
                self.structured = true;
                self.ask_go(out);
            }
            (State::Structured, _) if kind & IS_REFUSAL != 0 => match self.refused.take() {
                Some(refused) => return Err(refused),
                None => self.ask_go(out),
            },
            (State::Go, answer::ACK) => return self.offer().map(Some),
            (State::Go, answer::INFO) => self.informed(data)?,
            (State::Go, _) if kind & IS_REFUSAL != 0 => {
                let refused = self.refusal(kind, data);
                let may_help = matches!(refused, Unusable::Refused { .. }) && !self.structured;
                if !may_help || self.prefers_structured {
                    return Err(refused);
                }
                self.refused = Some(refused);
                self.ask_structured(out);
            }
            _ => return Err(Unusable::Broken("a reply of a kind that the option has not")),
        }
        Ok(None)
    }

    fn refusal(&self, code: u32, data: &[u8]) -> Unusable {
        let export = self.export.clone();
        let said = String::from_utf8_lossy(data.get(..QUOTED_BYTES_MAX).unwrap_or(data));
        let said = said.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
        match code {
            refusal::UNKNOWN => Unusable::Unknown { export, said },
            refusal::TLS_REQUIRED => Unusable::Tls,
            _ => Unusable::Refused { export, code, said },
        }
    }

    /// An item of information about the export; unknown ones are for others.
    fn informed(&mut self, data: &[u8]) -> Result<(), Unusable> {
        if data.len() < 2 {
            return Err(Unusable::Broken("information about an export that has no type"));
        }
        match (u16_at(data, 0), data.len()) {
            (info::EXPORT, 12) => self.size = Some((u64_at(data, 2), u16_at(data, 10))),
            (info::BLOCK_SIZE, 14) => {
                let (least, preferred) = (u32_at(data, 2), u32_at(data, 6));
                self.sizes = BlockSizes { least, preferred, most: u32_at(data, 10) };
            }
            (info::EXPORT | info::BLOCK_SIZE, _) => {
                return Err(Unusable::Broken("information about an export of the wrong length"));
            }
            _ => {}
        }
        Ok(())
    }

    fn offer(&mut self) -> Result<Offer, Unusable> {
        let Some((bytes, flags)) = self.size else {
            return Err(Unusable::Broken("an export without a size"));
        };
        let BlockSizes { least, preferred, most } = self.sizes;
        if bytes > i64::MAX as u64 {
            return Err(Unusable::Broken("an export that is larger than offsets can be"));
        }
        if !least.is_power_of_two()
            || least > 64 << 10
            || !preferred.is_power_of_two()
            || preferred < least
            || most < least
        {
            return Err(Unusable::Broken("block sizes that cannot be"));
        }
        self.state = State::Done;
        Ok(Offer { bytes, flags, sizes: self.sizes, structured: self.structured })
    }
}

/// Whether the bytes that are there are those that something begins with.
fn is_start_of(bytes: &[u8], start: &[u8]) -> bool {
    bytes.iter().zip(start).all(|(a, b)| a == b)
}

/// Appends an option.
fn ask(out: &mut Vec<u8>, option: u32, data: &[u8]) {
    out.extend(OPTION_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::{self, Export, Step, flag};

    fn exports() -> Vec<Export> {
        let sizes = BlockSizes { least: 512, preferred: 4096, most: 1 << 20 };
        let export = |name: &str| Export {
            name: name.to_owned(),
            description: "a test".to_owned(),
            bytes: 1 << 30,
            sizes,
            flags: flag::HAS_FLAGS | flag::TRIM,
        };
        vec![export("1"), export("2")]
    }

    /// A client and a server, whose bytes come in pieces of this size.
    fn shake(name: &str, structured: bool, piece: usize) -> Result<Offer, Unusable> {
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        let mut server = nbd::Handshake::begin(&mut to_client);
        let mut client = Handshake::new(name, structured)?;
        let (exports, mut there) = (exports(), 0);
        for _ in 0..10_000 {
            there = (there + piece).min(to_client.len());
            let (used, offer) = client.take(&to_client[..there], &mut to_server)?;
            to_client.drain(..used);
            there -= used;
            if let Some(offer) = offer {
                assert!(to_client.is_empty());
                return Ok(offer);
            }
            let (used, step) = server.take(&to_server, &exports, &mut to_client).unwrap();
            to_server.drain(..used);
            if let Step::Takes(at) = step {
                server.accept(&exports[at], &mut to_client);
            }
        }
        panic!("they do not come to an end");
    }

    #[test]
    fn an_export_is_found_whatever_pieces_bytes_come_in() {
        for (name, structured, piece) in
            [("", false, 1), ("1", true, 1), ("2", false, 7), ("2", true, 1_000)]
        {
            let offer = shake(name, structured, piece).unwrap();
            assert_eq!(offer.bytes, 1 << 30);
            assert_eq!(offer.flags, flag::HAS_FLAGS | flag::TRIM);
            assert_eq!(offer.sizes, exports()[0].sizes);
            assert_eq!(offer.structured, structured);
        }
    }

    #[test]
    fn what_is_not_there_is_said_in_the_servers_words() {
        let error = shake("3", false, 100).unwrap_err();
        assert!(matches!(&error, Unusable::Unknown { export, .. } if export == "3"), "{error}");
        assert!(error.to_string().contains("there are: 1, 2"), "{error}");
        assert_eq!(shake(&"x".repeat(4097), false, 100).unwrap_err(), Unusable::Name(4097));
    }

    /// What a client makes of a greeting and replies.
    fn told(structured: bool, parts: &[&[u8]]) -> Result<(usize, Option<Offer>), Unusable> {
        let mut client = Handshake::new("x", structured).unwrap();
        client.take(&parts.concat(), &mut Vec::new())
    }

    fn greeting() -> Vec<u8> {
        let mut bytes = Vec::new();
        nbd::Handshake::begin(&mut bytes);
        bytes
    }

    fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend([option, kind, data.len() as u32].iter().flat_map(|it| it.to_be_bytes()));
        bytes.extend(data);
        bytes
    }

    #[test]
    fn other_servers_are_told_apart() {
        assert_eq!(told(false, &[b"SSH-2.0"]), Err(Unusable::NotNbd));
        assert_eq!(told(false, &[b"NBDM"]), Ok((0, None)));
        let old =
            [&SERVER_MAGIC.to_be_bytes()[..], &OLDSTYLE_MAGIC.to_be_bytes(), &[0; 8]].concat();
        assert_eq!(told(false, &[&old]), Err(Unusable::OldStyle));
        let tls = reply(option::GO, refusal::TLS_REQUIRED, b"");
        assert_eq!(told(false, &[&greeting(), &tls]), Err(Unusable::Tls));
    }

    #[test]
    fn a_server_that_insists_gets_structured_replies() {
        let policy = reply(option::GO, refusal::POLICY, b"structured replies, please");
        let mut client = Handshake::new("x", false).unwrap();
        let mut out = Vec::new();
        let input = [greeting(), policy.clone()].concat();
        assert_eq!(client.take(&input, &mut out), Ok((input.len(), None)));
        let mut asked = Vec::new();
        ask(&mut asked, option::STRUCTURED_REPLY, &[]);
        assert!(out.ends_with(&asked));
        let size = [&[0, 0][..], &4096u64.to_be_bytes(), &[0, 1]].concat();
        let yes = reply(option::STRUCTURED_REPLY, answer::ACK, &[]);
        let info = reply(option::GO, answer::INFO, &size);
        let done = reply(option::GO, answer::ACK, &[]);
        let (_, offer) = client.take(&[yes, info, done].concat(), &mut out).unwrap();
        let offer = offer.expect("an export");
        assert!(offer.structured && offer.bytes == 4096 && offer.sizes == DEFAULT_SIZES);
        // If it has none, the first refusal is what counts.
        let no = reply(option::STRUCTURED_REPLY, refusal::UNSUPPORTED, &[]);
        let error = told(false, &[&greeting(), &policy, &no]).unwrap_err();
        assert!(matches!(error, Unusable::Refused { code: refusal::POLICY, .. }), "{error}");
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let go = |kind, data: &[u8]| reply(option::GO, kind, data);
        let size = |bytes: u64| [&[0, 0][..], &bytes.to_be_bytes(), &[0, 1]].concat();
        let sizes = |least: u32, preferred: u32, most: u32| {
            let words = [least, preferred, most].map(u32::to_be_bytes).concat();
            [&[0, 3][..], &words].concat()
        };
        let ack = go(answer::ACK, &[]);
        let mut long = go(answer::INFO, &[]);
        long[16..].copy_from_slice(&u32::MAX.to_be_bytes());
        let good = go(answer::INFO, &size(1 << 20));
        for wrong in [
            vec![ack.clone()],
            vec![long],
            vec![go(answer::INFO, &[0])],
            vec![go(answer::INFO, &[0, 0, 1])],
            vec![go(answer::SERVER, &[])],
            vec![go(answer::INFO, &size(u64::MAX)), ack.clone()],
            vec![reply(option::LIST, answer::ACK, &[])],
            vec![vec![7; 20]],
            vec![good.clone(), go(answer::INFO, &sizes(0, 4096, 4096)), ack.clone()],
            vec![good.clone(), go(answer::INFO, &sizes(3, 4096, 4096)), ack.clone()],
            vec![good.clone(), go(answer::INFO, &sizes(4096, 512, 4096)), ack.clone()],
            vec![good.clone(), go(answer::INFO, &sizes(4096, 4096, 512)), ack.clone()],
            vec![go(answer::INFO, &[0, 9]); REPLIES_MAX as usize + 1],
        ] {
            let told = told(false, &[&greeting(), &wrong.concat()]);
            assert!(matches!(told, Err(Unusable::Broken(_))), "{told:?}");
        }
    }
}
