//! Random bytes for keys and challenges.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Fills in random bytes from the kernel.
pub fn fill(mut bytes: &mut [u8]) {
    while !bytes.is_empty() {
        match getrandom(&mut *bytes, GetRandomFlags::empty()) {
            Ok(count) => bytes = &mut bytes[count..],
            Err(Errno::INTR) => {}
            // Without random bytes no secret is safe: there is nothing to go on with.
            Err(error) => panic!("the kernel has no random bytes: {error}"),
        }
    }
}

pub fn number() -> u32 {
    let mut bytes = [0; 4];
    fill(&mut bytes);
    u32::from_ne_bytes(bytes)
}
