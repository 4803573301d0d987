//! A drive divided into smaller ones, so that each can be simulated or served by a thread of its
//! own.
//!
//! What a drive has a number of is divided evenly: channels with all their dies, firmware cores,
//! command slots, the capacity of write cache and cached mapping table, counters of hot data and
//! how soon they forget, the link's bandwidth. What a part is made of stays as it is: timing, bus,
//! blocks, the cache's DRAM. So a part is the drive that the same file describes with smaller
//! numbers of these, and all of them together have no more than the whole. What one leaves unused,
//! the others cannot take.

use mynah_model::config::{
    Config, Fault, FaultExtent, Firmware, LinkProtocol, MappingTable, Namespace, NamespaceKind,
    WriteFrontiers,
};

/// A drive that cannot be divided so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[error("{message}")]
pub struct ShardError {
    message: String,
    #[help]
    help: Option<String>,
}

impl ShardError {
    fn new(message: String, help: impl Into<String>) -> ShardError {
        ShardError { message, help: Some(help.into()) }
    }
}

/// Into how many parts a drive can be divided, in order.
pub fn possible(config: &Config) -> Vec<u32> {
    if is_sata(config) || config.ethernet.is_some() {
        return vec![1];
    }
    let (channels, cores) = (config.geometry.channels, cores(config));
    let divides = |of: &u32| channels.is_multiple_of(*of) && cores.is_none_or(|it| it % of == 0);
    (1..=channels).filter(divides).collect()
}

/// Whether the link is SATA, whose rate is one of three and cannot be divided. Ports of Ethernet are
/// not divided either: a target behind them is one.
fn is_sata(config: &Config) -> bool {
    config.link.protocol == LinkProtocol::Sata
}

/// The firmware's cores, if any command takes time on them.
fn cores(config: &Config) -> Option<u32> {
    let Firmware { cores, read, write, trim, flush } = config.firmware;
    let is_used = [read, write, trim, flush].iter().any(|cost| !cost.is_zero());
    is_used.then_some(cores)
}

/// Part `index` of the drive `config`, divided into `of`: with the seed `index` higher, and with
/// those of its faults that strike there.
///
/// # Errors
/// If the drive cannot be divided so.
pub fn part(config: &Config, index: u32, of: u32) -> Result<Config, ShardError> {
    let valid = possible(config);
    if !valid.contains(&of) || index >= of {
        let cores = cores(config).map(|cores| format!(" and {cores} firmware cores"));
        let cores = cores.unwrap_or_default();
        let valid: Vec<String> = valid.iter().map(u32::to_string).collect();
        return Err(ShardError::new(
            format!("{} channels{cores} cannot be divided by {of}", config.geometry.channels),
            format!("valid: {}", valid.join(", ")),
        ));
    }
    if of > 1 && config.namespaces.iter().any(|it| it.kind == NamespaceKind::Pairs) {
        return Err(ShardError::new(
            "the drive has key-value namespaces, and a List would have to merge the keys of all \
             shards"
                .into(),
            "serve it without shards, or have no `[kv]`",
        ));
    }
    if of > 1 && config.namespaces != [Namespace::whole_drive()] {
        return Err(ShardError::new(
            "the drive file says which channels its namespaces use, and shards divide them".into(),
            "leave its `[[namespace]]` sections out",
        ));
    }
    let dies = config.geometry.dies() / of;
    let mut part = config.clone();
    part.geometry.channels /= of;
    if cores(config).is_some() {
        part.firmware.cores /= of;
    }
    part.queues.command_slots = (part.queues.command_slots / of).max(1);
    part.link.bytes_per_s /= u64::from(of);
    if let Some(cache) = &mut part.cache {
        cache.bytes /= u64::from(of);
    }
    if let MappingTable::Cached(table) = &mut part.mapping.table {
        table.bytes /= u64::from(of);
    }
    if let WriteFrontiers::HotCold(hot) = &mut part.gc.frontiers {
        hot.counters = hot.counters.map(|counters| (counters / of).max(16));
        hot.decay = hot.decay.map(|decay| decay.div_ceil(of));
    }
    part.seed = part.seed.wrapping_add(index.into());
    part.faults.clear();
    for fault in &config.faults {
        match *fault {
            Fault::Media { extent: FaultExtent::Units { .. }, .. } => {
                return Err(ShardError::new(
                    "a fault of certain units does not say in which shard".into(),
                    "give faults of media a rate",
                ));
            }
            Fault::Media { .. } | Fault::PowerCut { .. } => part.faults.push(*fault),
            // Dies are numbered channel by channel.
            Fault::SlowDie { die, factor } if die / dies == index => {
                part.faults.push(Fault::SlowDie { die: die % dies, factor });
            }
            Fault::DeadDie { die, at } if die / dies == index => {
                part.faults.push(Fault::DeadDie { die: die % dies, at });
            }
            Fault::SlowDie { .. } | Fault::DeadDie { .. } => {}
        }
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_drive_file as drive;
    use mynah_drive_file::units::{Bandwidth, Bytes};
    use mynah_stamp::Time;

    /// The `KEY=VALUE` changes to a drive file that make a part of the drive out of it, for
    /// `--set`.
    fn overrides(config: &Config, of: u32) -> Vec<String> {
        let mut all = vec![format!("geometry.channels={}", config.geometry.channels / of)];
        if let Some(cores) = cores(config) {
            all.push(format!("firmware.cores={}", cores / of));
        }
        if config.ethernet.is_none() {
            let slots = (config.queues.command_slots / of).max(1);
            all.push(format!("queues.command_slots={slots}"));
        }
        if !is_sata(config) && config.ethernet.is_none() {
            let bandwidth = Bandwidth(config.link.bytes_per_s / u64::from(of));
            all.push(format!("link.bandwidth={bandwidth}"));
        }
        if let Some(cache) = config.cache {
            all.push(format!("cache.size={}", Bytes(cache.bytes / u64::from(of))));
        }
        if let MappingTable::Cached(table) = config.mapping.table {
            all.push(format!("mapping.cmt.size={}", Bytes(table.bytes / u64::from(of))));
        }
        all
    }

    fn load(name: &str, overrides: &[String]) -> Config {
        drive::load(name, overrides).unwrap().config
    }

    #[test]
    fn a_part_is_the_smaller_drive_of_the_same_file() {
        for shipped in drive::shipped() {
            let whole = load(shipped.name, &[]);
            let pairs = whole.key_value.is_some();
            assert_eq!(pairs, part(&whole, 0, 2).is_err_and(|it| it.to_string().contains("List")));
            for of in possible(&whole).into_iter().filter(|of| !pairs || *of == 1) {
                for index in [0, of - 1] {
                    let part = part(&whole, index, of).unwrap();
                    let mut smaller = load(shipped.name, &overrides(&whole, of));
                    smaller.seed += u64::from(index);
                    assert_eq!(part, smaller, "{} {index} of {of}", shipped.name);
                    assert_eq!(
                        part.geometry.raw_bytes() * u64::from(of),
                        whole.geometry.raw_bytes()
                    );
                }
            }
        }
        assert_eq!(possible(&load("enterprise-tlc", &[])), [1, 2, 4, 8]);
        assert_eq!(
            possible(&load("enterprise-tlc", &["firmware.cores=6".to_owned()])),
            [1, 2],
            "16 channels, 6 cores"
        );
    }

    #[test]
    fn every_die_fails_once() {
        let mut whole = load("enterprise-tlc", &[]);
        let at = Time::from_ns(5);
        whole.faults = vec![
            Fault::DeadDie { die: 17, at },
            Fault::SlowDie { die: 63, factor: 2.0 },
            Fault::PowerCut { at, recovery: mynah_stamp::Span::from_secs(1) },
        ];
        let faults: Vec<Vec<Fault>> =
            (0..4).map(|index| part(&whole, index, 4).unwrap().faults).collect();
        assert_eq!(faults[0], whole.faults[2..]);
        assert_eq!(faults[1], [Fault::DeadDie { die: 1, at }, whole.faults[2]]);
        assert_eq!(faults[3], [Fault::SlowDie { die: 15, factor: 2.0 }, whole.faults[2]]);
    }

    #[test]
    fn what_cannot_be_divided_is_said() {
        let whole = load("enterprise-tlc", &[]);
        let error = part(&whole, 0, 3).unwrap_err();
        assert_eq!(error.to_string(), "16 channels and 8 firmware cores cannot be divided by 3");
        assert_eq!(error.help.as_deref(), Some("valid: 1, 2, 4, 8"));
        assert!(part(&whole, 0, 0).is_err() && part(&whole, 2, 2).is_err());
        let mut split = whole.clone();
        split.namespaces[0].channels = vec![0, 1];
        assert!(part(&split, 0, 2).is_err());
        let mut faulty = whole;
        let extent = FaultExtent::Units { namespace: 1, first: 0, last: 9 };
        let operation = mynah_model::config::MediaOperation::Read;
        faulty.faults = vec![Fault::Media { operation, extent }];
        assert!(part(&faulty, 0, 2).is_err());
    }
}
