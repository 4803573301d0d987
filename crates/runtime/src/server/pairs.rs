//! Key-value namespaces of a served drive. They are namespaces of the model, unlike those of blocks,
//! which the subsystem cuts from the space that the model has for blocks.

use super::{Namespace, NamespaceContent, ServeOptions, StoreKind};
use mynah_drive_file::units::Bytes;
use mynah_drive_file::{default_key_value, takes_pairs};
use mynah_model::config::{Config, Namespace as ModelNamespace, NamespaceKind};

/// Why there can be no key-value namespaces.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairsError {
    /// The drive cannot have them.
    #[error("this drive cannot have a key-value namespace: {0}")]
    Drive(String),
    /// The drive file divides the drive.
    #[error("the drive file says which namespaces there are, and none of them holds pairs")]
    Divided,
    /// The namespaces do not fit into the drive.
    #[error("the key-value namespaces want {}, and the drive has {}", Bytes(*wanted), Bytes(*has))]
    Room {
        /// Bytes wanted by all that say how many they want.
        wanted: u64,
        /// Bytes of the drive.
        has: u64,
    },
    /// A namespace of pairs needs a size where there are several namespaces.
    #[error("a key-value namespace beside others needs a size")]
    Size,
    /// Samsung's set is one of the PCIe bus.
    #[error(
        "Samsung's key-value command set is not for NVMe/TCP: its opcodes do not say which way data \
         go as NVMe's rule has it, and keys of more than 16 bytes lie at addresses in the host's memory"
    )]
    SamsungOverTcp,
    /// What only namespaces of NVMe's own set have.
    #[error("a namespace of Samsung's key-value command set cannot be {0}")]
    Samsung(&'static str),
    /// Parts of a drive have no namespace together.
    #[error(
        "a key-value namespace cannot be divided into shards: List would have to merge the keys of \
         all of them"
    )]
    Shards,
}

impl PairsError {
    /// What the user can do about it.
    pub fn help(&self) -> &'static str {
        match self {
            PairsError::Drive(_) => "choose another drive, or see docs/key-value.md",
            PairsError::Divided => "give one of its `[[namespace]]` sections `kind = \"kv\"`",
            PairsError::Room { .. } => "make them smaller",
            PairsError::Size => "write SIZE,kv, as in --namespace 32GiB,kv",
            PairsError::SamsungOverTcp => {
                "serve it with --vfio-user FOLDER and without --tcp, or write SIZE,kv for NVMe's own set"
            }
            PairsError::Samsung(_) => {
                "serve it from memory (--store ram) and without --record, or write SIZE,kv for NVMe's \
                 own set"
            }
            PairsError::Shards => "--drives serves several drives, each with namespaces of its own",
        }
    }
}

/// Whether a drive has key-value namespaces.
pub fn has_pairs(config: &Config) -> bool {
    config.namespaces.iter().any(|it| it.kind == NamespaceKind::Pairs)
}

/// The largest transfer that a drive's largest value needs, if it has any.
pub(super) fn transfer_bytes(config: &Config) -> Option<u32> {
    let pairs = config.key_value.as_ref().filter(|_| has_pairs(config))?;
    // It is stated as a power of two of pages.
    Some(pairs.value_max.max(4096).next_power_of_two())
}

/// Refuses what cannot be had together with key-value namespaces.
pub(super) fn check(options: &ServeOptions, is_recorded: bool) -> Result<(), PairsError> {
    if options.shard.of > 1 {
        return Err(PairsError::Shards);
    }
    if options.namespaces.iter().any(|it| it.content == NamespaceContent::SamsungPairs) {
        check_samsung(options, is_recorded)?;
    }
    Ok(())
}

/// Refuses what cannot be had together with a namespace of Samsung's set.
fn check_samsung(options: &ServeOptions, is_recorded: bool) -> Result<(), PairsError> {
    if !options.tcp.is_empty() {
        return Err(PairsError::SamsungOverTcp);
    }
    if matches!(options.store, StoreKind::File(_)) {
        return Err(PairsError::Samsung("kept in a file"));
    }
    if is_recorded {
        return Err(PairsError::Samsung("recorded"));
    }
    Ok(())
}

/// Gives the model the key-value namespaces that are wanted, and what is left to blocks. Where a
/// drive file divides the drive, its key-value namespaces are left as they are.
pub(super) fn divide(config: &mut Config, wanted: &[Namespace]) -> Result<(), PairsError> {
    let pairs = || wanted.iter().filter(|it| it.content.holds_pairs());
    let is_whole = matches!(&config.namespaces[..], [only] if only.units.is_none());
    let is_of_pairs = has_pairs(config);
    if wanted.is_empty() || is_of_pairs && !is_whole || !is_of_pairs && pairs().next().is_none() {
        return Ok(());
    }
    let [whole] = &config.namespaces[..] else { return Err(PairsError::Divided) };
    let whole = whole.clone();
    takes_pairs(config).map_err(PairsError::Drive)?;
    let unknown = |error| PairsError::Drive(format!("{error}"));
    let unit_bytes = u64::from(config.mapping.unit_bytes);
    let units = config.capacities().map_err(unknown)?.iter().sum::<u64>();
    let sized: Vec<u64> = pairs().filter_map(|it| it.bytes).map(|it| it / unit_bytes).collect();
    let taken = sized.iter().try_fold(0u64, |sum, units| sum.checked_add(*units));
    let room = PairsError::Room {
        wanted: taken.unwrap_or(u64::MAX / unit_bytes).saturating_mul(unit_bytes),
        has: units * unit_bytes,
    };
    let Some(left) = taken.and_then(|taken| units.checked_sub(taken)) else { return Err(room) };
    let namespace = |kind, units| ModelNamespace { kind, units: Some(units), ..whole.clone() };
    let mut namespaces: Vec<ModelNamespace> =
        sized.iter().map(|&units| namespace(NamespaceKind::Pairs, units)).collect();
    let has_blocks = wanted.iter().any(|it| !it.content.holds_pairs());
    match (pairs().count() - sized.len(), has_blocks) {
        (0, false) => {}
        (0, true) if left > 0 => namespaces.push(namespace(NamespaceKind::Blocks, left)),
        // All that is left.
        (1, false) if left > 0 => namespaces.push(namespace(NamespaceKind::Pairs, left)),
        (0, true) | (1, false) => return Err(room),
        _ => return Err(PairsError::Size),
    }
    config.namespaces = namespaces;
    if config.key_value.is_none() {
        config.key_value = Some(default_key_value(config));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(drive: &str, wanted: &[(u64, NamespaceContent)]) -> Vec<(NamespaceKind, u64)> {
        let mut config = mynah_drive_file::load(drive, &[]).expect("a shipped drive").config;
        let wanted: Vec<Namespace> = wanted
            .iter()
            .map(|&(gib, content)| Namespace { bytes: Some(gib << 30), content, handles: vec![] })
            .collect();
        divide(&mut config, &wanted).expect("room");
        let unit = u64::from(config.mapping.unit_bytes);
        let capacities = config.capacities().expect("a valid drive");
        let kinds = config.namespaces.iter().map(|it| it.kind);
        kinds.zip(capacities.iter().map(|units| (units * unit) >> 30)).collect()
    }

    #[test]
    fn a_drive_of_pairs_is_divided_like_any_other() {
        let (blocks, pairs) = (NamespaceContent::Blocks(512), NamespaceContent::Pairs);
        let whole = divided("kv-tlc", &[])[0];
        assert_eq!(whole.0, NamespaceKind::Pairs);
        let both = divided("kv-tlc", &[(32, pairs), (16, blocks)]);
        assert_eq!(both[0], (NamespaceKind::Pairs, 32));
        assert_eq!(both[1].0, NamespaceKind::Blocks);
        assert!((16..=whole.1 - 32).contains(&both[1].1), "{both:?}");
        assert_eq!(divided("kv-tlc", &[(16, blocks)])[0].0, NamespaceKind::Blocks);
    }
}
