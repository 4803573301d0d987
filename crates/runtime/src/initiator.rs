//! Who a host says it is, and the configuration with which it enables a controller: also of the
//! host that NBD clients have inside the hub.

use mynah_wire::fabrics::check_nqn;

/// The host that this machine is: what nvme-cli has configured, or else a name made from the
/// machine's identifier, so that it stays the same.
pub fn default_host_nqn() -> String {
    let read = |path| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    if let Some(nqn) = read("/etc/nvme/hostnqn").filter(|nqn| check_nqn(nqn).is_ok()) {
        return nqn;
    }
    let machine = read("/etc/machine-id").unwrap_or_default();
    format!("nqn.2014-08.org.nvmexpress:uuid:{}", uuid(digest(machine.as_bytes())))
}

/// The 128-bit identifier of the host called `nqn`: its UUID if its name has one, else a
/// hash of the name.
pub fn host_id(nqn: &str) -> [u8; 16] {
    let digits = nqn.rsplit_once("uuid:").map_or("", |(_, uuid)| uuid).replace('-', "");
    match u128::from_str_radix(&digits, 16) {
        Ok(id) if digits.len() == 32 && id != 0 => id.to_be_bytes(),
        _ => digest(nqn.as_bytes()),
    }
}

/// FNV-1a with 128 bits (G. Fowler, L. C. Noll, K.-P. Vo), with the bits of a UUID of
/// version 8 (RFC 9562).
fn digest(bytes: &[u8]) -> [u8; 16] {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for &byte in bytes {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    let mut id = hash.to_be_bytes();
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

fn uuid(id: [u8; 16]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// A controller's configuration that enables it: all I/O command sets that it has, if it lets the host
/// choose (CAP.CSS, bit 6), else the NVM command set; pages of 4 KiB, entries of 64 and 16 bytes.
pub(crate) fn enabling_configuration(capabilities: u64) -> u32 {
    let command_sets = if capabilities >> 43 & 1 != 0 { 6 } else { 0 };
    1 | command_sets << 4 | 6 << 16 | 4 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_identifiers() {
        let nqn = "nqn.2014-08.org.nvmexpress:uuid:12345678-9abc-def0-1234-56789abcdef0";
        assert_eq!(uuid(host_id(nqn)), "12345678-9abc-def0-1234-56789abcdef0");
        assert_ne!(host_id("nqn.a"), host_id("nqn.b"));
        // The empty input's hash is the offset basis.
        assert_eq!(uuid(digest(b"")), "6c62272e-07bb-8142-a2b8-21756295c58d");
        assert!(check_nqn(&default_host_nqn()).is_ok());
    }
}
