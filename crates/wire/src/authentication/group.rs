//! Diffie-Hellman groups (RFC 7919) and the work they make.

mod primes;

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Resize};
use zeroize::Zeroizing;

/// A Diffie-Hellman group (Base 2.0, figure 444).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// None: the secret alone protects the exchange.
    Null = 0,
    Ffdhe2048 = 1,
    Ffdhe3072 = 2,
    Ffdhe4096 = 3,
    Ffdhe6144 = 4,
    Ffdhe8192 = 5,
}

impl Group {
    pub const ALL: [Group; 6] = [
        Group::Null,
        Group::Ffdhe2048,
        Group::Ffdhe3072,
        Group::Ffdhe4096,
        Group::Ffdhe6144,
        Group::Ffdhe8192,
    ];

    pub fn from_id(id: u8) -> Option<Group> {
        Group::ALL.into_iter().find(|&group| group as u8 == id)
    }

    /// Name as in RFC 7919, or `null`.
    pub fn name(self) -> &'static str {
        match self {
            Group::Null => "null",
            Group::Ffdhe2048 => "ffdhe2048",
            Group::Ffdhe3072 => "ffdhe3072",
            Group::Ffdhe4096 => "ffdhe4096",
            Group::Ffdhe6144 => "ffdhe6144",
            Group::Ffdhe8192 => "ffdhe8192",
        }
    }

    /// Bytes of an element; 0 for the null group.
    pub fn bytes(self) -> usize {
        match self {
            Group::Null => 0,
            Group::Ffdhe2048 => 256,
            Group::Ffdhe3072 => 384,
            Group::Ffdhe4096 => 512,
            Group::Ffdhe6144 => 768,
            Group::Ffdhe8192 => 1024,
        }
    }

    fn prime_in_hexadecimal(self) -> Option<&'static str> {
        match self {
            Group::Null => None,
            Group::Ffdhe2048 => Some(primes::FFDHE2048),
            Group::Ffdhe3072 => Some(primes::FFDHE3072),
            Group::Ffdhe4096 => Some(primes::FFDHE4096),
            Group::Ffdhe6144 => Some(primes::FFDHE6144),
            Group::Ffdhe8192 => Some(primes::FFDHE8192),
        }
    }

    fn prime(self) -> Option<BoxedUint> {
        let hexadecimal = self.prime_in_hexadecimal()?;
        BoxedUint::from_be_hex(hexadecimal, 8 * self.bytes() as u32).into_option()
    }

    /// Bytes of a private exponent: at least twice the group's strength (RFC 7919, section
    /// 5.2), rounded up to whole words.
    fn exponent_bytes(self) -> usize {
        match self {
            Group::Null => 0,
            Group::Ffdhe2048 => 32,
            Group::Ffdhe3072 => 40,
            Group::Ffdhe4096 => 48,
            Group::Ffdhe6144 => 48,
            Group::Ffdhe8192 => 56,
        }
    }
}

impl std::str::FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Group, String> {
        Group::ALL.into_iter().find(|group| group.name() == text).ok_or_else(|| {
            let names: Vec<_> = Group::ALL.map(Group::name).into();
            format!("`{text}` is not a Diffie-Hellman group; there are {}", names.join(", "))
        })
    }
}

/// A private exponent of a group.
#[derive(Clone)]
pub(super) struct Exponent {
    group: Group,
    bytes: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Exponent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Exponent({})", self.group.name())
    }
}

impl Exponent {
    pub(super) fn draw(group: Group, random: &mut dyn FnMut(&mut [u8])) -> Exponent {
        let mut bytes = Zeroizing::new(vec![0; group.exponent_bytes()]);
        random(&mut bytes);
        // Neither zero nor one, whatever was drawn.
        if let Some(first) = bytes.first_mut() {
            *first |= 0x80;
        }
        Exponent { group, bytes }
    }
}

/// Modular exponentiations: milliseconds to tens of milliseconds of work. Pure, so it may be
/// done on any thread.
#[derive(Debug)]
pub struct Job {
    exponent: Exponent,
    own: bool,
    peer: Option<Vec<u8>>,
}

/// Results of a [`Job`].
pub struct Exponentials {
    /// The generator to the power of the private exponent, to be sent to the peer.
    pub(super) own: Vec<u8>,
    /// The shared secret; `None` if the peer's value is not valid.
    pub(super) shared: Option<Zeroizing<Vec<u8>>>,
}

impl std::fmt::Debug for Exponentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exponentials")
    }
}

impl Job {
    /// Computes the value for the peer.
    pub(super) fn own(exponent: Exponent) -> Job {
        Job { exponent, own: true, peer: None }
    }

    /// Computes the shared secret.
    pub(super) fn shared(exponent: Exponent, peer: Vec<u8>) -> Job {
        Job { exponent, own: false, peer: Some(peer) }
    }

    /// Computes the value for the peer and the shared secret.
    pub(super) fn both(exponent: Exponent, peer: Vec<u8>) -> Job {
        Job { exponent, own: true, peer: Some(peer) }
    }

    /// Runs the exponentiations.
    pub fn run(self) -> Exponentials {
        let nothing = || Exponentials { own: Vec::new(), shared: None };
        let group = self.exponent.group;
        let Some(prime) = group.prime() else { return nothing() };
        let Some(modulus) = Odd::new(prime.clone()).into_option() else { return nothing() };
        let bits = 8 * group.bytes() as u32;
        let params = BoxedMontyParams::new(modulus);
        let exponent_bits = 8 * self.exponent.bytes.len() as u32;
        let Ok(exponent) = BoxedUint::from_be_slice(&self.exponent.bytes, exponent_bits) else {
            return nothing();
        };
        let exponent = Zeroizing::new(exponent);
        let power = |base: BoxedUint| {
            BoxedMontyForm::new(base, &params).pow(&exponent).retrieve().to_be_bytes().into_vec()
        };
        let own = if self.own { power(BoxedUint::from(2u8).resize(bits)) } else { Vec::new() };
        let shared = self.peer.and_then(|peer| {
            let peer = BoxedUint::from_be_slice(&peer, bits).ok()?;
            // Zero, one and the prime less one would give the secret away (RFC 7919, 5.1).
            let one = BoxedUint::one_with_precision(bits);
            let valid = peer > one && peer < prime.wrapping_sub(&one);
            valid.then(|| Zeroizing::new(power(peer)))
        });
        Exponentials { own, shared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// floor(2^bits * e) as big-endian 32-bit words, from the series.
    fn e_digits(bits: usize) -> Vec<u32> {
        // Sixty-four guard bits are far more than the series' rounding uses up.
        let words = bits.div_ceil(32) + 3;
        let mut sum = vec![0u32; words];
        let mut term = vec![0u32; words];
        term[0] = 1;
        let mut divisor = 1u64;
        while term.iter().any(|&word| word != 0) {
            let mut carry = 0u64;
            for (sum, &term) in sum.iter_mut().zip(&term).rev() {
                carry += u64::from(*sum) + u64::from(term);
                *sum = carry as u32;
                carry >>= 32;
            }
            let mut rest = 0u64;
            for word in &mut term {
                rest = rest << 32 | u64::from(*word);
                *word = (rest / divisor) as u32;
                rest %= divisor;
            }
            divisor += 1;
        }
        sum
    }

    /// RFC 7919, appendix A: p = 2^n - 2^(n-64) + (floor(2^(n-130) e) + X) 2^64 - 1.
    #[test]
    fn primes_have_the_published_structure() {
        let offsets = [560_316u32, 2_625_351, 5_736_041, 15_705_020, 10_965_728];
        for (group, offset) in Group::ALL.into_iter().skip(1).zip(offsets) {
            let bits = 8 * group.bytes() as u32;
            // Enough for two bits of e before the point, and guard words behind.
            let digits = e_digits(bits as usize);
            let bytes: Vec<u8> = digits.iter().flat_map(|word| word.to_be_bytes()).collect();
            let wide = 8 * bytes.len() as u32;
            let e = BoxedUint::from_be_slice(&bytes, wide).unwrap();
            // The first word is in front of the point.
            let e = e.shr_vartime(wide - 32 - (bits - 130)).unwrap();
            let sum = e.wrapping_add(BoxedUint::from(offset).resize(wide));
            let one = BoxedUint::one_with_precision(wide);
            let power = |n: u32| one.shl_vartime(n).unwrap();
            let expected = power(bits)
                .wrapping_sub(power(bits - 64))
                .wrapping_add(sum.shl_vartime(64).unwrap())
                .wrapping_sub(&one);
            let prime = group.prime().expect("a prime").resize(wide);
            assert_eq!(prime, expected, "{}", group.name());
        }
    }

    #[test]
    fn both_ends_share_a_secret_and_refuse_values_that_give_it_away() {
        let group = Group::Ffdhe2048;
        let draw = |seed: u8| Exponent::draw(group, &mut |bytes| bytes.fill(seed));
        let ours = Job::own(draw(1)).run();
        let theirs = Job::both(draw(2), ours.own).run();
        let shared = Job::shared(draw(1), theirs.own).run().shared.expect("a secret");
        assert_eq!(shared, theirs.shared.expect("a secret"));
        assert_eq!(shared.len(), 256);
        let prime = group.prime().unwrap().to_be_bytes();
        let mut less_one = prime.to_vec();
        less_one[255] -= 1;
        for bad in
            [vec![], vec![0], vec![1], less_one, prime.to_vec(), vec![0xff; 256], vec![1; 257]]
        {
            assert!(Job::shared(draw(1), bad).run().shared.is_none());
        }
    }
}
