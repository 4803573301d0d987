//! Pre-shared keys of TLS connections (TCP Transport 1.0, sections 3.6.1.2 to 3.6.1.5, as
//! TP 8018 amends them).
//!
//! People hand a key on as `NVMeTLSkey-1:hh:base64:`. Both ends derive from it, and from the
//! NQNs, the key and the identity that TLS uses.

use crate::authentication::Hash;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use zeroize::Zeroizing;

/// A pre-shared key as it is configured.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsKey {
    key: Zeroizing<Vec<u8>>,
    transform: Option<Hash>,
}

/// Why a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsKeyError {
    /// It does not look like one.
    #[error("a TLS key looks like NVMeTLSkey-1:01:...: (make one with `nvme gen-tls-key`)")]
    Form,
    /// The transformation is unknown.
    #[error("the TLS key's second field must be 00 (none), 01 or 02 (SHA-256, SHA-384)")]
    Transformation,
    /// It is not base64.
    #[error("the TLS key's third field is not base64")]
    Base64,
    /// The key has a wrong length.
    #[error("the TLS key must have 32 bytes (01), 48 bytes (02), or one of these (00)")]
    Length,
    /// The checksum does not fit: a typing error.
    #[error("the TLS key's checksum does not fit: is it complete and correct?")]
    Checksum,
}

/// The pre-shared key and identity of a TLS connection.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsPsk {
    /// The identity, sent in the clear.
    pub identity: String,
    pub key: Zeroizing<Vec<u8>>,
    /// The hash function of the cipher suite that goes with it: TLS_AES_128_GCM_SHA256 or
    /// TLS_AES_256_GCM_SHA384.
    pub hash: Hash,
}

/// Version of an identity: what it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityVersion {
    /// From the NQNs.
    Zero,
    /// From the NQNs and a digest of the key.
    One,
}

/// A parsed identity. The NQNs are what the peer claims, until the handshake is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    pub version: IdentityVersion,
    pub host_nqn: &'a str,
    pub subsystem_nqn: &'a str,
}

impl std::fmt::Debug for TlsKey {
    /// Shows nothing of the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TlsKey({} bytes)", self.key.len())
    }
}

impl std::fmt::Debug for TlsPsk {
    /// Shows nothing of the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TlsPsk({:?})", self.identity)
    }
}

impl<'a> Identity<'a> {
    /// Takes an identity of a configured key apart.
    pub fn parse(text: &'a str) -> Option<Identity<'a>> {
        let (version, rest) = match text.strip_prefix("NVMe0R") {
            Some(rest) => (IdentityVersion::Zero, rest),
            None => (IdentityVersion::One, text.strip_prefix("NVMe1R")?),
        };
        let mut parts = rest.splitn(4, ' ');
        let (_hash, host_nqn, subsystem_nqn) = (parts.next()?, parts.next()?, parts.next()?);
        let digest = parts.next();
        (digest.is_some() == (version == IdentityVersion::One)).then_some(Identity {
            version,
            host_nqn,
            subsystem_nqn,
        })
    }
}

impl std::str::FromStr for TlsKey {
    type Err = TlsKeyError;

    fn from_str(text: &str) -> Result<TlsKey, TlsKeyError> {
        let rest = text.trim().strip_prefix("NVMeTLSkey-1:").ok_or(TlsKeyError::Form)?;
        let (transform, key) = rest.split_once(':').ok_or(TlsKeyError::Form)?;
        let key = key.strip_suffix(':').ok_or(TlsKeyError::Form)?;
        let transform = match transform {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            _ => return Err(TlsKeyError::Transformation),
        };
        let bytes = BASE64_STANDARD.decode(key).map_err(|_| TlsKeyError::Base64)?;
        let bytes = Zeroizing::new(bytes);
        let (key, checksum) = bytes.split_last_chunk::<4>().ok_or(TlsKeyError::Length)?;
        if transform.map_or(!matches!(key.len(), 32 | 48), |hash| key.len() != hash.bytes()) {
            return Err(TlsKeyError::Length);
        }
        if crc32fast::hash(key) != u32::from_le_bytes(*checksum) {
            return Err(TlsKeyError::Checksum);
        }
        Ok(TlsKey { key: Zeroizing::new(key.to_vec()), transform })
    }
}

impl TlsKey {
    /// A key of random bytes, for SHA-256 or SHA-384.
    pub fn generate(strong: bool, random: &mut dyn FnMut(&mut [u8])) -> TlsKey {
        let hash = if strong { Hash::Sha384 } else { Hash::Sha256 };
        let mut key = Zeroizing::new(vec![0; hash.bytes()]);
        random(&mut key);
        TlsKey { key, transform: Some(hash) }
    }

    /// The text that stands for it.
    pub fn reveal(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(self.key.to_vec());
        bytes.extend_from_slice(&crc32fast::hash(&self.key).to_le_bytes());
        let transform = self.transform.map_or(0, |hash| hash as u8);
        let text = Zeroizing::new(BASE64_STANDARD.encode(&*bytes));
        Zeroizing::new(format!("NVMeTLSkey-1:{transform:02}:{}:", *text))
    }

    /// What TLS uses between this host and this subsystem.
    pub fn psk(&self, version: IdentityVersion, host_nqn: &str, subsystem_nqn: &str) -> TlsPsk {
        let hash = self.transform.unwrap_or(match self.key.len() {
            48 => Hash::Sha384,
            _ => Hash::Sha256,
        });
        let retained = match self.transform {
            None => self.key.clone(),
            Some(_) => derive(hash, &self.key, b"HostNQN", host_nqn.as_bytes()),
        };
        let id = hash as u8;
        let (identity, context) = match version {
            IdentityVersion::Zero => {
                let identity = format!("NVMe0R{id:02} {host_nqn} {subsystem_nqn}");
                (identity.clone(), identity)
            }
            IdentityVersion::One => {
                let about = format!("{host_nqn} {subsystem_nqn} NVMe-over-Fabrics");
                let digest = BASE64_STANDARD.encode(&*hash.hmac(&retained, &[about.as_bytes()]));
                let identity = format!("NVMe1R{id:02} {host_nqn} {subsystem_nqn} {digest}");
                (identity, format!("{id:02} {digest}"))
            }
        };
        let key = derive(hash, &retained, b"nvme-tls-psk", context.as_bytes());
        TlsPsk { identity, key, hash }
    }
}

/// HKDF-Extract without salt, then HKDF-Expand-Label to as many bytes as the hash function gives
/// (RFC 5869; RFC 8446, section 7.1).
fn derive(hash: Hash, key: &[u8], label: &[u8], context: &[u8]) -> Zeroizing<Vec<u8>> {
    let salt = vec![0; hash.bytes()];
    let pseudorandom = hash.hmac(&salt, &[key]);
    let mut info = (hash.bytes() as u16).to_be_bytes().to_vec();
    info.push((b"tls13 ".len() + label.len()) as u8);
    info.extend_from_slice(b"tls13 ");
    info.extend_from_slice(label);
    // An identity with two very long NQNs does not fit into the field. TLS could not use it.
    let context = &context[..context.len().min(255)];
    info.push(context.len() as u8);
    info.extend_from_slice(context);
    // One block is enough.
    hash.hmac(&pseudorandom, &[&info, &[1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "nqn.psk-test-host";
    const SUBSYSTEM: &str = "nqn.psk-test-subsys";
    const SHORT: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
    const LONG: &str = "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W\
                        2LxIcLXVsDn8kXZQ==:";

    fn hexadecimal(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The identities are those of libnvme's tests (test/psk.c); the keys were computed by
    /// another program.
    #[test]
    fn derived_keys_are_those_of_other_programs() {
        let none = SHORT.replace(":01:", ":00:");
        let cases = [
            (
                SHORT,
                IdentityVersion::Zero,
                "NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys",
                "05c6503551ad136e6ee32e6eeb3f6d500b69701d84ec71e328f65c7f51566f68",
            ),
            (
                SHORT,
                IdentityVersion::One,
                "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
                "8fc3c0badfd4c0c66fa3ca33aadd0314f85536cc9bc47338b60f3e6e563786ca",
            ),
            (
                LONG,
                IdentityVersion::Zero,
                "NVMe0R02 nqn.psk-test-host nqn.psk-test-subsys",
                "f42ba63824cdfe421914c582921f85b5b5b7e2d4df084caeedc9be20b212e8bb0fe8a23e9d59a1c8fc6449da4970a78d",
            ),
            (
                LONG,
                IdentityVersion::One,
                "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
                "a2b2f943f479fc682555cec89857c80ed004ce92f32a973d5764155bb7e36b17a85368a0666d250afac9282dda2e62ca",
            ),
            (
                &none,
                IdentityVersion::Zero,
                "NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys",
                "ec85300ba827726bd3bc4fc07f3a34aec5fe7c8ccac05fefc2f021c74e0df9ef",
            ),
            (
                &none,
                IdentityVersion::One,
                "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=",
                "a45d08ee4639c7570729bb3e57e905e466a49a15ece5401af906830c4d3bdb0b",
            ),
        ];
        for (text, version, identity, key) in cases {
            let configured: TlsKey = text.parse().expect("a key");
            assert_eq!(*configured.reveal(), text);
            let psk = configured.psk(version, HOST, SUBSYSTEM);
            assert_eq!(psk.identity, identity);
            assert_eq!(hexadecimal(&psk.key), key, "{text} {version:?}");
            assert_eq!(psk.key.len(), psk.hash.bytes());
            let parts = Identity { version, host_nqn: HOST, subsystem_nqn: SUBSYSTEM };
            assert_eq!(Identity::parse(identity), Some(parts));
        }
    }

    #[test]
    fn keys_and_identities_are_checked() {
        let cases = [
            ("", TlsKeyError::Form),
            ("NVMeTLSkey-1:01:AAAA", TlsKeyError::Form),
            (&SHORT.replace(":01:", ":03:"), TlsKeyError::Transformation),
            (&SHORT.replace(":01:", ":02:"), TlsKeyError::Length),
            (&LONG.replace(":02:", ":01:"), TlsKeyError::Length),
            ("NVMeTLSkey-1:00:AAAA:", TlsKeyError::Length),
            ("NVMeTLSkey-1:00::", TlsKeyError::Length),
            (&SHORT.replace("VRLb", "VR*b"), TlsKeyError::Base64),
            (&SHORT.replace("VRLb", "VRLc"), TlsKeyError::Checksum),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<TlsKey>(), Err(error), "{text}");
        }
        for strong in [false, true] {
            let key = TlsKey::generate(strong, &mut |bytes| bytes.fill(5));
            assert_eq!(key.reveal().parse::<TlsKey>(), Ok(key));
        }
        for text in
            ["", "NVMe0R01", "NVMe0R01 a", "NVMe0R01 a b c", "NVMe1R01 a b", "NVMe2R01 a b c"]
        {
            assert_eq!(Identity::parse(text), None, "{text}");
        }
    }
}
