//! Secrets as people hand them on: `DHHC-1:hh:base64:` (Base 2.0, section 8.13.5.8).

use super::Hash;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use zeroize::Zeroizing;

/// A shared secret of DH-HMAC-CHAP.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    key: Zeroizing<Vec<u8>>,
    transform: Option<Hash>,
}

/// Why a text is not a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It does not look like one.
    #[error("a secret looks like DHHC-1:01:...: (make one with `nvme gen-dhchap-key`)")]
    Form,
    /// The transformation is unknown.
    #[error("the secret's second field must be 00 (none), 01, 02 or 03 (SHA-256, 384, 512)")]
    Transformation,
    /// It is not base64.
    #[error("the secret's third field is not base64")]
    Base64,
    /// The key has a wrong length.
    #[error("the secret's key must have 32, 48 or 64 bytes")]
    Length,
    /// The checksum does not fit: a typing error.
    #[error("the secret's checksum does not fit: is it complete and correct?")]
    Checksum,
}

impl std::fmt::Debug for Secret {
    /// Shows nothing of the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({} bytes)", self.key.len())
    }
}

impl std::str::FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Secret, SecretError> {
        let rest = text.trim().strip_prefix("DHHC-1:").ok_or(SecretError::Form)?;
        let (transform, key) = rest.split_once(':').ok_or(SecretError::Form)?;
        let key = key.strip_suffix(':').ok_or(SecretError::Form)?;
        let transform = match transform {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            "03" => Some(Hash::Sha512),
            _ => return Err(SecretError::Transformation),
        };
        let bytes = BASE64_STANDARD.decode(key).map_err(|_| SecretError::Base64)?;
        let bytes = Zeroizing::new(bytes);
        let (key, checksum) = bytes.split_last_chunk::<4>().ok_or(SecretError::Length)?;
        if !matches!(key.len(), 32 | 48 | 64) {
            return Err(SecretError::Length);
        }
        if crc32fast::hash(key) != u32::from_le_bytes(*checksum) {
            return Err(SecretError::Checksum);
        }
        Ok(Secret { key: Zeroizing::new(key.to_vec()), transform })
    }
}

impl Secret {
    /// A secret of random bytes, 32, 48 or 64 of them as its transformation has.
    pub fn generate(transform: Hash, random: &mut dyn FnMut(&mut [u8])) -> Secret {
        let mut key = Zeroizing::new(vec![0; transform.bytes()]);
        random(&mut key);
        Secret { key, transform: Some(transform) }
    }

    /// The text that stands for it.
    pub fn reveal(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(self.key.to_vec());
        bytes.extend_from_slice(&crc32fast::hash(&self.key).to_le_bytes());
        let transform = self.transform.map_or(0, |hash| hash as u8);
        let text = Zeroizing::new(BASE64_STANDARD.encode(&*bytes));
        Zeroizing::new(format!("DHHC-1:{transform:02}:{}:", *text))
    }

    /// The key that is used with the owner's NQN.
    pub(super) fn transformed(&self, nqn: &str) -> Zeroizing<Vec<u8>> {
        match self.transform {
            None => self.key.clone(),
            Some(hash) => hash.hmac(&self.key, &[nqn.as_bytes(), b"NVMe-over-Fabrics"]),
        }
    }
}
