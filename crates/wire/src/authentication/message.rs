//! Messages (Base 2.0, section 8.13.4 and 8.13.5).

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// AUTH_Negotiate: what the host can do.
    Negotiate(Negotiate),
    /// What the controller has chosen, and its challenge.
    Challenge(Challenge<'a>),
    /// The host's answer, and its challenge perhaps.
    Reply(Reply<'a>),
    /// The host is authenticated; has the controller's answer if it was challenged.
    Success1(Success1<'a>),
    /// The controller is authenticated.
    Success2 { transaction: u16 },
    /// From the controller.
    Failure1(Refusal),
    /// From the host.
    Failure2(Refusal),
}

/// AUTH_Negotiate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiate {
    /// T_ID; chosen by the host.
    pub transaction: u16,
    /// Secure channel concatenation that is wanted; 0 is none.
    pub secure_channel: u8,
    /// Identifiers of hash functions and of groups, from the first DH-HMAC-CHAP descriptor;
    /// `None` if there is no such descriptor.
    pub offers: Option<(Vec<u8>, Vec<u8>)>,
}

/// DH-HMAC-CHAP_Challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    pub transaction: u16,
    /// Identifier of the hash function.
    pub hash: u8,
    pub group: u8,
    pub sequence: u32,
    pub challenge: &'a [u8],
    /// The controller's Diffie-Hellman value.
    pub exponential: &'a [u8],
}

/// DH-HMAC-CHAP_Reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    pub transaction: u16,
    /// Sequence number of the host's challenge.
    pub sequence: u32,
    pub response: &'a [u8],
    /// The host's challenge, as long as the answer, if it has one.
    pub challenge: Option<&'a [u8]>,
    /// The host's Diffie-Hellman value.
    pub exponential: &'a [u8],
}

/// DH-HMAC-CHAP_Success1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Success1<'a> {
    pub transaction: u16,
    /// Length of the hash function's results.
    pub hash_bytes: u8,
    /// The controller's answer, if it was challenged.
    pub response: Option<&'a [u8]>,
}

/// AUTH_Failure1 and AUTH_Failure2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub transaction: u16,
    pub failure: Failure,
}

/// Why an authentication failed (Base 2.0, figure 438).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// An answer is wrong.
    #[error("authentication failed: the secrets differ")]
    Failed,
    /// No authentication protocol in common.
    #[error("no authentication protocol in common")]
    ProtocolNotUsable,
    /// Secure channel concatenation is not possible here.
    #[error("secure channel concatenation mismatch")]
    SecureChannelMismatch,
    /// No hash function in common.
    #[error("no hash function in common")]
    HashNotUsable,
    /// No group in common.
    #[error("no Diffie-Hellman group in common")]
    GroupNotUsable,
    /// A message's content is wrong.
    #[error("an authentication message has wrong content")]
    IncorrectPayload,
    /// A message came that was not expected.
    #[error("an authentication message came that was not expected")]
    IncorrectMessage,
    /// A reason that is not known here.
    #[error("authentication failed, reason {0:#x}")]
    Other(u8),
}

impl Failure {
    fn id(self) -> u8 {
        match self {
            Failure::Failed => 1,
            Failure::ProtocolNotUsable => 2,
            Failure::SecureChannelMismatch => 3,
            Failure::HashNotUsable => 4,
            Failure::GroupNotUsable => 5,
            Failure::IncorrectPayload => 6,
            Failure::IncorrectMessage => 7,
            Failure::Other(id) => id,
        }
    }

    fn from_id(id: u8) -> Failure {
        match id {
            1 => Failure::Failed,
            2 => Failure::ProtocolNotUsable,
            3 => Failure::SecureChannelMismatch,
            4 => Failure::HashNotUsable,
            5 => Failure::GroupNotUsable,
            6 => Failure::IncorrectPayload,
            7 => Failure::IncorrectMessage,
            id => Failure::Other(id),
        }
    }
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Neither a common nor a DH-HMAC-CHAP message, or none that exists.
    #[error("no such authentication message")]
    Unknown,
    /// A length does not fit.
    #[error("an authentication message with a wrong length")]
    Length,
}

const COMMON: u8 = 0;
const DH_HMAC_CHAP: u8 = 1;
const NEGOTIATE: u8 = 0x00;
const CHALLENGE: u8 = 0x01;
const REPLY: u8 = 0x02;
const SUCCESS1: u8 = 0x03;
const SUCCESS2: u8 = 0x04;
const FAILURE2: u8 = 0xf0;
const FAILURE1: u8 = 0xf1;
/// The only reason code there is; the explanation tells more.
const REASON_FAILED: u8 = 1;
/// Bytes of a protocol descriptor, and the most identifiers in either of its lists.
const DESCRIPTOR_BYTES: usize = 64;
const LIST_MAX: usize = 30;

/// Takes `count` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (head, tail) = bytes.split_at_checked(count).ok_or(Malformed::Length)?;
    *bytes = tail;
    Ok(head)
}

fn is_hash_length(bytes: u8) -> Result<usize, Malformed> {
    matches!(bytes, 32 | 48 | 64).then_some(bytes.into()).ok_or(Malformed::Length)
}

impl<'a> Message<'a> {
    /// Reads a message. What lies behind it is of no interest: a host receives messages in a
    /// larger buffer.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let mut rest = bytes;
        let [kind, id, _, _, low, high, sixth, seventh] =
            *take(&mut rest, 8)?.first_chunk::<8>().ok_or(Malformed::Length)?;
        let transaction = u16::from_le_bytes([low, high]);
        Ok(match (kind, id) {
            (COMMON, NEGOTIATE) => {
                let descriptors = take(&mut rest, usize::from(seventh) * DESCRIPTOR_BYTES)?;
                let offers = descriptors
                    .chunks_exact(DESCRIPTOR_BYTES)
                    .find(|descriptor| descriptor[0] == DH_HMAC_CHAP)
                    .map(|descriptor| {
                        let (hashes, groups) = descriptor[4..].split_at(LIST_MAX);
                        let list = |from: &[u8], count: u8| {
                            from.get(..count.into()).map(<[u8]>::to_vec).ok_or(Malformed::Length)
                        };
                        Ok((list(hashes, descriptor[2])?, list(groups, descriptor[3])?))
                    })
                    .transpose()?;
                Message::Negotiate(Negotiate { transaction, secure_channel: sixth, offers })
            }
            (DH_HMAC_CHAP, CHALLENGE) => {
                let fields = take(&mut rest, 8)?;
                Message::Challenge(Challenge {
                    transaction,
                    hash: fields[0],
                    group: fields[1],
                    sequence: u32::from_le_bytes([fields[4], fields[5], fields[6], fields[7]]),
                    challenge: take(&mut rest, is_hash_length(sixth)?)?,
                    exponential: take(
                        &mut rest,
                        u16::from_le_bytes([fields[2], fields[3]]).into(),
                    )?,
                })
            }
            (DH_HMAC_CHAP, REPLY) => {
                let fields = take(&mut rest, 8)?;
                let hash_bytes = is_hash_length(sixth)?;
                let response = take(&mut rest, hash_bytes)?;
                let challenge = take(&mut rest, hash_bytes)?;
                Message::Reply(Reply {
                    transaction,
                    sequence: u32::from_le_bytes([fields[4], fields[5], fields[6], fields[7]]),
                    response,
                    challenge: (fields[0] & 1 != 0).then_some(challenge),
                    exponential: take(
                        &mut rest,
                        u16::from_le_bytes([fields[2], fields[3]]).into(),
                    )?,
                })
            }
            (DH_HMAC_CHAP, SUCCESS1) => {
                let fields = take(&mut rest, 8)?;
                let response = match fields[0] & 1 {
                    0 => None,
                    _ => Some(take(&mut rest, is_hash_length(sixth)?)?),
                };
                Message::Success1(Success1 { transaction, hash_bytes: sixth, response })
            }
            (DH_HMAC_CHAP, SUCCESS2) => Message::Success2 { transaction },
            (COMMON, FAILURE1) => {
                Message::Failure1(Refusal { transaction, failure: Failure::from_id(seventh) })
            }
            (COMMON, FAILURE2) => {
                Message::Failure2(Refusal { transaction, failure: Failure::from_id(seventh) })
            }
            _ => return Err(Malformed::Unknown),
        })
    }

    pub fn build(&self) -> Vec<u8> {
        let head = |kind: u8, id: u8, transaction: u16, sixth: u8, seventh: u8| {
            let [low, high] = transaction.to_le_bytes();
            vec![kind, id, 0, 0, low, high, sixth, seventh]
        };
        match self {
            Message::Negotiate(negotiate) => {
                let napd = negotiate.offers.is_some().into();
                let mut bytes =
                    head(COMMON, NEGOTIATE, negotiate.transaction, negotiate.secure_channel, napd);
                if let Some((hashes, groups)) = &negotiate.offers {
                    let mut descriptor = [0; DESCRIPTOR_BYTES];
                    let hashes = &hashes[..hashes.len().min(LIST_MAX)];
                    let groups = &groups[..groups.len().min(LIST_MAX)];
                    descriptor[0] = DH_HMAC_CHAP;
                    descriptor[2] = hashes.len() as u8;
                    descriptor[3] = groups.len() as u8;
                    descriptor[4..4 + hashes.len()].copy_from_slice(hashes);
                    descriptor[4 + LIST_MAX..][..groups.len()].copy_from_slice(groups);
                    bytes.extend_from_slice(&descriptor);
                }
                bytes
            }
            Message::Challenge(challenge) => {
                let hash_bytes = challenge.challenge.len() as u8;
                let mut bytes = head(DH_HMAC_CHAP, CHALLENGE, challenge.transaction, hash_bytes, 0);
                bytes.extend_from_slice(&[challenge.hash, challenge.group]);
                bytes.extend_from_slice(&(challenge.exponential.len() as u16).to_le_bytes());
                bytes.extend_from_slice(&challenge.sequence.to_le_bytes());
                bytes.extend_from_slice(challenge.challenge);
                bytes.extend_from_slice(challenge.exponential);
                bytes
            }
            Message::Reply(reply) => {
                let hash_bytes = reply.response.len();
                let mut bytes = head(DH_HMAC_CHAP, REPLY, reply.transaction, hash_bytes as u8, 0);
                bytes.extend_from_slice(&[reply.challenge.is_some().into(), 0]);
                bytes.extend_from_slice(&(reply.exponential.len() as u16).to_le_bytes());
                bytes.extend_from_slice(&reply.sequence.to_le_bytes());
                bytes.extend_from_slice(reply.response);
                bytes.extend_from_slice(reply.challenge.unwrap_or(&[0; 64][..hash_bytes.min(64)]));
                bytes.extend_from_slice(reply.exponential);
                bytes
            }
            Message::Success1(success) => {
                let mut bytes =
                    head(DH_HMAC_CHAP, SUCCESS1, success.transaction, success.hash_bytes, 0);
                bytes.extend_from_slice(&[success.response.is_some().into(), 0, 0, 0, 0, 0, 0, 0]);
                bytes.extend_from_slice(success.response.unwrap_or_default());
                bytes
            }
            Message::Success2 { transaction } => {
                let mut bytes = head(DH_HMAC_CHAP, SUCCESS2, *transaction, 0, 0);
                bytes.extend_from_slice(&[0; 8]);
                bytes
            }
            Message::Failure1(refusal) | Message::Failure2(refusal) => {
                let id = if matches!(self, Message::Failure1(_)) { FAILURE1 } else { FAILURE2 };
                head(COMMON, id, refusal.transaction, REASON_FAILED, refusal.failure.id())
            }
        }
    }
}
