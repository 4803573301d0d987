//! The handshake ("Fixed newstyle negotiation"): who the server is, what a client wants to know, and
//! which export it takes.

use super::export::Export;
use super::{u16_at, u32_at, u64_at};

pub(super) const SERVER_MAGIC: u64 = 0x4e42_444d_4147_4943;
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub(super) const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// NBD_FLAG_FIXED_NEWSTYLE: both ends negotiate with options and replies to them.
pub(super) const FIXED_NEWSTYLE: u32 = 1;
/// NBD_FLAG_NO_ZEROES: no zeros follow the answer to NBD_OPT_EXPORT_NAME.
pub(super) const NO_ZEROES: u32 = 2;
/// Bytes of an option's header.
const OPTION_BYTES: usize = 16;
/// Data that an option may have; names have 4,096 at most.
const OPTION_DATA_MAX: u32 = 64 << 10;
/// Longer option data end the connection instead of being skipped.
const SKIPPED_MAX: u32 = 1 << 20;
/// The one metadata context there is ("`base` metadata context"), and what answers call it.
const ALLOCATION: &[u8] = b"base:allocation";
const ALLOCATION_ID: u32 = 1;
/// While so much waits to be sent, no more options are read.
const OUTPUT_MAX: usize = 256 << 10;

/// Option types (NBD_OPT_).
pub(super) mod option {
    pub(in crate::nbd) const EXPORT_NAME: u32 = 1;
    pub(in crate::nbd) const ABORT: u32 = 2;
    pub(in crate::nbd) const LIST: u32 = 3;
    pub(in crate::nbd) const INFO: u32 = 6;
    pub(in crate::nbd) const GO: u32 = 7;
    pub(in crate::nbd) const STRUCTURED_REPLY: u32 = 8;
    pub(in crate::nbd) const LIST_META_CONTEXT: u32 = 9;
    pub(in crate::nbd) const SET_META_CONTEXT: u32 = 10;
}

/// Option reply types (NBD_REP_).
pub(super) mod answer {
    pub(in crate::nbd) const ACK: u32 = 1;
    pub(in crate::nbd) const SERVER: u32 = 2;
    pub(in crate::nbd) const INFO: u32 = 3;
    pub(in crate::nbd) const META_CONTEXT: u32 = 4;
}

/// Why an option is refused ("Option reply types").
pub mod refusal {
    /// NBD_REP_ERR_UNSUP.
    pub const UNSUPPORTED: u32 = 1 << 31 | 1;
    /// NBD_REP_ERR_POLICY.
    pub const POLICY: u32 = 1 << 31 | 2;
    /// NBD_REP_ERR_INVALID.
    pub const INVALID: u32 = 1 << 31 | 3;
    /// NBD_REP_ERR_TLS_REQD.
    pub const TLS_REQUIRED: u32 = 1 << 31 | 5;
    /// NBD_REP_ERR_UNKNOWN.
    pub const UNKNOWN: u32 = 1 << 31 | 6;
    /// NBD_REP_ERR_SHUTDOWN.
    pub const SHUTDOWN: u32 = 1 << 31 | 7;
    /// NBD_REP_ERR_TOO_BIG.
    pub const TOO_BIG: u32 = 1 << 31 | 9;
}

/// Items of information about an export.
pub(super) mod info {
    pub(in crate::nbd) const EXPORT: u16 = 0;
    pub(in crate::nbd) const NAME: u16 = 1;
    pub(in crate::nbd) const DESCRIPTION: u16 = 2;
    pub(in crate::nbd) const BLOCK_SIZE: u16 = 3;
}

/// Why nothing more can come of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The client has flags that do not exist, or does not speak the fixed newstyle.
    #[error("client flags {0:#x} of an unknown handshake")]
    Flags(u32),
    /// Something that is no option.
    #[error("no option where one should be")]
    Option,
    /// An option with more data than anybody needs.
    #[error("an option of {0} bytes")]
    TooLong(u32),
    /// An export that does not exist, by the option that has no other answer.
    #[error("no export of this name")]
    Export,
    /// Something that is no request.
    #[error("no request where one should be")]
    Request,
}

/// What client and server have negotiated besides the export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Replies are structured.
    pub structured: bool,
    /// The identifier of `base:allocation`, if the client has chosen it for its export.
    pub allocation: Option<u32>,
}

/// What has to happen after received bytes were processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes have to come.
    Waits,
    /// The client takes the export of this place in the list: [`Handshake::accept`] or
    /// [`Handshake::refuse`] has to come next.
    Takes(usize),
    /// The client ends the session.
    Leaves,
}

/// The option with which an export was chosen; it decides the form of the reply.
#[derive(Clone, Debug)]
enum Choice {
    /// NBD_OPT_EXPORT_NAME.
    Plain,
    /// NBD_OPT_GO with the information that was asked for.
    Go(Vec<u16>),
}

/// A connection before an export is chosen.
#[derive(Clone, Debug)]
pub struct Handshake {
    flags: Option<u32>,
    /// Data of an option that are thrown away.
    skips: u32,
    structured: bool,
    /// The export for which `base:allocation` was chosen.
    allocation: Option<String>,
    /// The export that was chosen, and the option that chose it.
    choice: Option<(String, Choice)>,
}

impl Handshake {
    /// A new connection; the server speaks first.
    pub fn begin(out: &mut Vec<u8>) -> Handshake {
        out.extend(SERVER_MAGIC.to_be_bytes());
        out.extend(OPTION_MAGIC.to_be_bytes());
        out.extend(((FIXED_NEWSTYLE | NO_ZEROES) as u16).to_be_bytes());
        Handshake { flags: None, skips: 0, structured: false, allocation: None, choice: None }
    }

    /// Processes received bytes: how many were consumed, and what has to happen next.
    ///
    /// # Errors
    /// If the connection has to end.
    pub fn take(
        &mut self,
        input: &[u8],
        exports: &[Export],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Step), Broken> {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            if self.skips > 0 {
                let skipped = rest.len().min(self.skips as usize);
                self.skips -= skipped as u32;
                used += skipped;
                if self.skips > 0 {
                    return Ok((used, Step::Waits));
                }
                continue;
            }
            if self.choice.is_some() || out.len() > OUTPUT_MAX {
                return Ok((used, Step::Waits));
            }
            if self.flags.is_none() {
                if rest.len() < 4 {
                    return Ok((used, Step::Waits));
                }
                let flags = u32_at(rest, 0);
                if flags & FIXED_NEWSTYLE == 0 || flags & !(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
                    return Err(Broken::Flags(flags));
                }
                self.flags = Some(flags);
                used += 4;
                continue;
            }
            if rest.len() < OPTION_BYTES {
                return Ok((used, Step::Waits));
            }
            if u64_at(rest, 0) != OPTION_MAGIC {
                return Err(Broken::Option);
            }
            let (option, length) = (u32_at(rest, 8), u32_at(rest, 12));
            if length > OPTION_DATA_MAX {
                if length > SKIPPED_MAX || option == option::EXPORT_NAME {
                    return Err(Broken::TooLong(length));
                }
                reply(out, option, refusal::TOO_BIG, b"shorter, please");
                self.skips = length;
                used += OPTION_BYTES;
                continue;
            }
            let end = OPTION_BYTES + length as usize;
            let Some(data) = rest.get(OPTION_BYTES..end) else {
                return Ok((used, Step::Waits));
            };
            used += end;
            match self.option(option, data, exports, out)? {
                Step::Waits => {}
                step => return Ok((used, step)),
            }
        }
    }

    /// Handles one option.
    fn option(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &[Export],
        out: &mut Vec<u8>,
    ) -> Result<Step, Broken> {
        match option {
            option::EXPORT_NAME => {
                let name = core::str::from_utf8(data).map_err(|_| Broken::Export)?;
                let at = find(exports, name).ok_or(Broken::Export)?;
                self.choice = Some((exports[at].name.clone(), Choice::Plain));
                return Ok(Step::Takes(at));
            }
            option::ABORT => {
                reply(out, option, answer::ACK, &[]);
                return Ok(Step::Leaves);
            }
            option::LIST if data.is_empty() => {
                for export in exports {
                    let mut item = (export.name.len() as u32).to_be_bytes().to_vec();
                    item.extend(export.name.bytes());
                    item.extend(export.description.bytes());
                    reply(out, option, answer::SERVER, &item);
                }
                reply(out, option, answer::ACK, &[]);
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                reply(out, option, answer::ACK, &[]);
            }
            option::INFO | option::GO => return Ok(self.information(option, data, exports, out)),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(option, data, exports, out);
            }
            option::LIST | option::STRUCTURED_REPLY => {
                reply(out, option, refusal::INVALID, b"this option has no data");
            }
            _ => reply(out, option, refusal::UNSUPPORTED, b"not here"),
        }
        Ok(Step::Waits)
    }

    /// Handles NBD_OPT_INFO and NBD_OPT_GO.
    fn information(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &[Export],
        out: &mut Vec<u8>,
    ) -> Step {
        let Some((name, rest)) = take_text(data) else {
            reply(out, option, refusal::INVALID, b"the name is longer than the option");
            return Step::Waits;
        };
        let count = usize::from(u16_at(rest, 0));
        if rest.len() != 2 + 2 * count {
            reply(out, option, refusal::INVALID, b"not as many requests as it says");
            return Step::Waits;
        }
        let wanted: Vec<u16> = (0..count).map(|at| u16_at(rest, 2 + 2 * at)).collect();
        let Some(at) = core::str::from_utf8(name).ok().and_then(|name| find(exports, name)) else {
            reply(out, option, refusal::UNKNOWN, unknown(exports).as_bytes());
            return Step::Waits;
        };
        if option == option::INFO {
            inform(out, option, &exports[at], &wanted);
            return Step::Waits;
        }
        self.choice = Some((exports[at].name.clone(), Choice::Go(wanted)));
        Step::Takes(at)
    }

    /// Handles NBD_OPT_LIST_META_CONTEXT and NBD_OPT_SET_META_CONTEXT.
    fn contexts(&mut self, option: u32, data: &[u8], exports: &[Export], out: &mut Vec<u8>) {
        let sets = option == option::SET_META_CONTEXT;
        if sets {
            self.allocation = None;
        }
        if !self.structured {
            return reply(out, option, refusal::INVALID, b"structured replies come first");
        }
        let invalid = b"not as many queries as it says";
        let Some((name, mut rest)) = take_text(data) else {
            return reply(out, option, refusal::INVALID, invalid);
        };
        let Some(at) = core::str::from_utf8(name).ok().and_then(|name| find(exports, name)) else {
            return reply(out, option, refusal::UNKNOWN, unknown(exports).as_bytes());
        };
        let Some((count, after)) = rest.split_first_chunk::<4>() else {
            return reply(out, option, refusal::INVALID, invalid);
        };
        rest = after;
        let count = u32::from_be_bytes(*count);
        // Without queries all there is is listed, and nothing chosen.
        let mut found = count == 0 && !sets;
        for _ in 0..count {
            let Some((query, after)) = take_text(rest) else {
                return reply(out, option, refusal::INVALID, invalid);
            };
            rest = after;
            found |= query == ALLOCATION || !sets && query == b"base:";
        }
        if !rest.is_empty() {
            return reply(out, option, refusal::INVALID, invalid);
        }
        if found {
            let id = if sets { ALLOCATION_ID } else { 0 };
            let mut item = id.to_be_bytes().to_vec();
            item.extend(ALLOCATION);
            reply(out, option, answer::META_CONTEXT, &item);
            if sets {
                self.allocation = Some(exports[at].name.clone());
            }
        }
        reply(out, option, answer::ACK, &[]);
    }

    /// The export that was taken can be used: the transmission phase begins.
    pub fn accept(&mut self, export: &Export, out: &mut Vec<u8>) -> Agreed {
        match self.choice.take() {
            Some((_, Choice::Go(wanted))) => inform(out, option::GO, export, &wanted),
            _ => {
                out.extend(export.bytes.to_be_bytes());
                out.extend(export.flags.to_be_bytes());
                if self.flags.is_some_and(|flags| flags & NO_ZEROES == 0) {
                    out.extend([0; 124]);
                }
            }
        }
        let is_chosen = self.structured && self.allocation.as_ref() == Some(&export.name);
        Agreed { structured: self.structured, allocation: is_chosen.then_some(ALLOCATION_ID) }
    }

    /// Refuses the chosen export. `false`: the client cannot be told; the connection has to end.
    pub fn refuse(&mut self, why: u32, text: &str, out: &mut Vec<u8>) -> bool {
        match self.choice.take() {
            Some((_, Choice::Go(_))) => {
                reply(out, option::GO, why, text.as_bytes());
                true
            }
            _ => false,
        }
    }
}

/// The index of the export with a name, or of the first one if the name is empty.
fn find(exports: &[Export], name: &str) -> Option<usize> {
    if name.is_empty() {
        return (!exports.is_empty()).then_some(0);
    }
    exports.iter().position(|export| export.name == name)
}

/// Lists the exports, for a client that asked for one that does not exist.
fn unknown(exports: &[Export]) -> String {
    let names: Vec<&str> = exports.iter().take(16).map(|export| export.name.as_str()).collect();
    format!("no such export; there are: {}", names.join(", "))
}

/// A text with its length before it, and what follows.
fn take_text(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// Appends an option reply.
fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

/// What there is to say of an export, as far as it was asked for: size and flags always, and so are
/// block sizes, which clients that do not ask have no use for.
fn inform(out: &mut Vec<u8>, option: u32, export: &Export, wanted: &[u16]) {
    let mut item = info::EXPORT.to_be_bytes().to_vec();
    item.extend(export.bytes.to_be_bytes());
    item.extend(export.flags.to_be_bytes());
    reply(out, option, answer::INFO, &item);
    let mut item = info::BLOCK_SIZE.to_be_bytes().to_vec();
    for bytes in [export.sizes.least, export.sizes.preferred, export.sizes.most] {
        item.extend(bytes.to_be_bytes());
    }
    reply(out, option, answer::INFO, &item);
    for (kind, text) in [(info::NAME, &export.name), (info::DESCRIPTION, &export.description)] {
        if wanted.contains(&kind) {
            let mut item = kind.to_be_bytes().to_vec();
            item.extend(text.bytes());
            reply(out, option, answer::INFO, &item);
        }
    }
    reply(out, option, answer::ACK, &[]);
}
