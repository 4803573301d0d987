//! Namespaces, as far as a host must know them: which there are, of which command set each is, and
//! whether hosts here can use it.

use super::HostError;
use super::controller::read;
use super::transport::Remote;
use crate::clock::{Clock, Rate};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::Identify;
use mynah_wire::nvme::identify::{
    IdentifyKeyValueNamespace, IdentifyNamespace, cns, command_set, descriptor,
};
use mynah_wire::nvme::key::KEY_BYTES_MAX;
use std::time::Duration;

/// How long the namespaces of a list are asked what they are, all together.
const ASKING: Duration = Duration::from_secs(5);
/// The highest identifier that a namespace can have.
const ID_MAX: u32 = 0xffff_fffd;

/// A namespace of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    pub id: u32,
    pub blocks: u64,
    /// Bytes of a block, as a power of two.
    pub block_shift: u8,
}

impl Namespace {
    pub fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(1 << self.block_shift)
    }
}

/// A namespace of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValueNamespace {
    pub id: u32,
    /// Bytes for keys and values (NSZE).
    pub bytes: u64,
    /// Bytes that keys and values have (NUSE).
    pub used_bytes: u64,
    /// Most bytes of a key (KVKML).
    pub key_bytes_max: u16,
    /// Most bytes of a value (KVVML).
    pub value_bytes_max: u32,
    /// Most keys (MNKS); `None`: any number.
    pub keys_max: Option<u32>,
    /// Bytes whose multiples are best as values (NOVG); `None`: not said.
    pub value_granularity: Option<u32>,
}

impl KeyValueNamespace {
    /// Whether this is the same namespace, however full.
    pub(super) fn is(&self, other: &KeyValueNamespace) -> bool {
        KeyValueNamespace { used_bytes: other.used_bytes, ..*self } == *other
    }
}

/// An Identify command about a namespace, which is called this in messages.
type Asking<'a> = &'a mut dyn FnMut(&Identify, u32, &'static str) -> Result<Vec<u8>, HostError>;

/// The command set of a namespace (CSI), as its descriptors say (Base 2.0, figure 277). A controller
/// without descriptors, or descriptors without it, have the NVM command set.
fn set_of(identify: Asking<'_>, id: u32) -> Result<u8, HostError> {
    let what = Identify { structure: cns::NAMESPACE_DESCRIPTORS, ..Identify::default() };
    let data = match identify(&what, id, "reading what namespace it is") {
        Ok(data) => data,
        Err(HostError::Refused { status, .. })
            if super::without_hints(status) == Status::INVALID_FIELD =>
        {
            return Ok(command_set::NVM);
        }
        Err(HostError::Refused { status, .. })
            if super::without_hints(status) == Status::INVALID_NAMESPACE =>
        {
            return Err(absent(id));
        }
        Err(error) => return Err(error),
    };
    Ok(described_set(&data).unwrap_or(command_set::NVM))
}

fn described_set(mut data: &[u8]) -> Option<u8> {
    while let [kind, length, _, _, rest @ ..] = data {
        let (value, others) = rest.split_at_checked(usize::from(*length))?;
        match (*kind, value) {
            (0, _) => return None,
            (descriptor::COMMAND_SET, [set, ..]) => return Some(*set),
            _ => data = others,
        }
    }
    None
}

fn absent(id: u32) -> HostError {
    HostError::Unusable(format!("the target has no active namespace {id}"))
}

/// The block namespace `id`.
///
/// # Errors
/// If it does not exist, is none, or has a format that hosts here cannot use.
pub(super) fn block(remote: &mut impl Remote, id: u32) -> Result<Namespace, HostError> {
    match set_of(&mut |what, id, name| remote.identify(what, id, name), id)? {
        command_set::NVM => {}
        command_set::KEY_VALUE => return Err(HostError::OtherKind { id, is_key_value: true }),
        other => return Err(unknown(id, other)),
    }
    let what = Identify { structure: cns::NAMESPACE, ..Identify::default() };
    let bytes = remote.identify(&what, id, "identifying the namespace")?;
    usable_block(id, &bytes)
}

/// A namespace from its Identify data, if hosts here can use it.
///
/// # Errors
/// If it does not exist, or has a format that they cannot.
fn usable_block(id: u32, bytes: &[u8]) -> Result<Namespace, HostError> {
    let fields: IdentifyNamespace = read(bytes);
    // The index has two more bits (6:5) where there are more than 16 formats.
    let index = fields.format & 0xf | fields.format >> 1 & 0x30;
    let format = fields.lba_formats[usize::from(index)];
    let blocks = fields.size.get();
    if blocks == 0 {
        return Err(absent(id));
    }
    if format.metadata.get() > 0 {
        return Err(HostError::Unusable(format!(
            "namespace {id} has {} bytes of metadata to each block, which this host does \
             not support",
            format.metadata.get()
        )));
    }
    if !(9..=16).contains(&format.data_shift) || blocks >= 1 << (63 - format.data_shift) {
        return Err(HostError::Nonsense(format!(
            "namespace {id} has {blocks} blocks of 2^{} bytes",
            format.data_shift
        )));
    }
    Ok(Namespace { id, blocks, block_shift: format.data_shift })
}

fn unknown(id: u32, set: u8) -> HostError {
    HostError::Unusable(format!(
        "namespace {id} has command set {set:#04x}, which this host does not know"
    ))
}

/// The key-value namespace `id`, or the only one that there is.
///
/// # Errors
/// If it does not exist, is none, or there are several to choose from.
pub(super) fn key_value(
    remote: &mut impl Remote,
    id: Option<u32>,
) -> Result<KeyValueNamespace, HostError> {
    let mut identify = |what: &Identify, id, name| remote.identify(what, id, name);
    let id = match id {
        Some(id) => id,
        None => only_key_value(&mut identify)?,
    };
    match set_of(&mut identify, id)? {
        command_set::KEY_VALUE => {}
        command_set::NVM => return Err(HostError::OtherKind { id, is_key_value: false }),
        other => return Err(unknown(id, other)),
    }
    let what = Identify {
        structure: cns::COMMAND_SET_NAMESPACE,
        command_set: command_set::KEY_VALUE,
        ..Identify::default()
    };
    let bytes = remote.identify(&what, id, "identifying the namespace")?;
    usable_key_value(id, &bytes)
}

fn only_key_value(identify: Asking<'_>) -> Result<u32, HostError> {
    let what = Identify { structure: cns::ACTIVE_NAMESPACES, ..Identify::default() };
    let bytes = identify(&what, 0, "listing the namespaces")?;
    let mut found = Vec::new();
    let clock = Clock::start(Rate::REAL);
    let ids = active(&bytes)?;
    for (asked, &id) in ids.iter().enumerate() {
        if Duration::from_nanos(clock.wall().as_ps() / 1_000) > ASKING {
            return Err(HostError::Unusable(format!(
                "the target lists {} namespaces, and has said of {asked} in {} s what they are: \
                 name one with --nsid",
                ids.len(),
                ASKING.as_secs()
            )));
        }
        if set_of(identify, id)? == command_set::KEY_VALUE {
            found.push(id);
        }
    }
    match found[..] {
        [] => Err(HostError::NoKeyValue),
        [id] => Ok(id),
        _ => Err(HostError::SeveralKeyValue(found)),
    }
}

/// The namespaces of a list, the first 1,024.
///
/// # Errors
/// If it is no list: those have identifiers in ascending order (Base 2.0, section 5.17.2.2).
pub(super) fn active(bytes: &[u8]) -> Result<Vec<u32>, HostError> {
    let (ids, _) = bytes.as_chunks::<4>();
    let ids = ids.iter().map(|id| u32::from_le_bytes(*id));
    let ids: Vec<u32> = ids.take_while(|&id| id != 0).collect();
    if let Some([before, id]) = ids.array_windows().find(|[before, id]| before >= id) {
        return Err(HostError::Nonsense(format!(
            "namespace {id} follows namespace {before} in its list of namespaces"
        )));
    }
    match ids.last() {
        Some(&last) if last > ID_MAX => {
            Err(HostError::Nonsense(format!("its list of namespaces has {last:#x}")))
        }
        _ => Ok(ids),
    }
}

fn usable_key_value(id: u32, bytes: &[u8]) -> Result<KeyValueNamespace, HostError> {
    let fields: IdentifyKeyValueNamespace = read(bytes);
    if fields.size.get() == 0 {
        return Err(absent(id));
    }
    let Some(format) = fields.current_format() else {
        return Err(HostError::Nonsense(format!(
            "namespace {id} has format {} of {}",
            fields.format & 0xf,
            u32::from(fields.formats) + 1
        )));
    };
    let some = |value: u32| (value > 0).then_some(value);
    let namespace = KeyValueNamespace {
        id,
        bytes: fields.size.get(),
        used_bytes: fields.utilisation.get(),
        key_bytes_max: format.key_bytes_max.get(),
        value_bytes_max: format.value_bytes_max.get(),
        keys_max: some(format.keys_max.get()),
        value_granularity: some(fields.value_granularity.get()),
    };
    if !(1..=KEY_BYTES_MAX).contains(&usize::from(namespace.key_bytes_max)) {
        return Err(HostError::Nonsense(format!(
            "namespace {id} has keys of up to {} bytes, and a command has 16",
            namespace.key_bytes_max
        )));
    }
    Ok(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_wire::nvme::identify::KeyValueFormat;
    use zerocopy::IntoBytes;

    #[test]
    fn the_command_set_is_found_among_the_descriptors() {
        let eui64 = [&[1, 8, 0, 0][..], &[7; 8]].concat();
        let set = |set| [4, 1, 0, 0, set];
        let described = |parts: &[&[u8]]| described_set(&parts.concat());
        assert_eq!(described(&[&eui64, &set(1), &[0; 4]]), Some(1));
        assert_eq!(described(&[&eui64, &[0; 8], &set(1)]), None, "it ends before");
        assert_eq!(described(&[&[4, 0, 0, 0], &[0; 4]]), None);
        assert_eq!(described(&[&[1, 200, 0, 0], &[0; 8]]), None);
        assert_eq!(described(&[]), None);
        assert_eq!(described(&[&[4, 1, 0]]), None);
    }

    /// A controller that lists these, and says of each, after a while, that it is one of blocks.
    struct Lister {
        list: Vec<u32>,
        takes: Duration,
        asked: usize,
    }

    impl Lister {
        fn identify(&mut self, structure: u8) -> Vec<u8> {
            let mut bytes = vec![0; 4096];
            match structure {
                cns::ACTIVE_NAMESPACES => {
                    for (place, id) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(&self.list) {
                        *place = id.to_le_bytes();
                    }
                }
                _ => {
                    self.asked += 1;
                    std::thread::sleep(self.takes);
                    bytes[..5].copy_from_slice(&[4, 1, 0, 0, 0]);
                }
            }
            bytes
        }
    }

    #[test]
    fn a_list_is_asked_about_for_some_seconds_and_garbage_is_none() {
        let lister = |list: Vec<u32>, millis| {
            let mut lister = Lister { list, takes: Duration::from_millis(millis), asked: 0 };
            let identify = &mut |what: &Identify, _, _| Ok(lister.identify(what.structure));
            let error = only_key_value(identify).expect_err("there is none").to_string();
            (error, lister.asked)
        };
        let (error, asked) = lister((1..=1024).collect(), 0);
        assert_eq!((error, asked), (HostError::NoKeyValue.to_string(), 1024));
        for list in [vec![3, 2], vec![7, 7], vec![1, u32::MAX - 1], vec![u32::MAX]] {
            let (error, asked) = lister(list.clone(), 0);
            assert!(error.contains("list of namespaces"), "{error}");
            assert_eq!(asked, 0, "{list:?}");
        }
        let (error, asked) = lister((1..=1024).collect(), 100);
        assert!(error.contains("lists 1024 namespaces") && error.contains("--nsid"), "{error}");
        assert!((2..=52).contains(&asked), "{asked}");
    }

    #[test]
    fn the_format_in_use_is_the_one_that_counts() {
        let mut fields = IdentifyKeyValueNamespace { formats: 1, format: 1, ..Default::default() };
        fields.size.set(1 << 30);
        let format = |key: u16, value: u32| {
            let mut format = KeyValueFormat::default();
            format.key_bytes_max.set(key);
            format.value_bytes_max.set(value);
            format
        };
        fields.key_value_formats[0] = format(8, 4096);
        fields.key_value_formats[1] = format(16, 2 << 20);
        let namespace = usable_key_value(3, fields.as_bytes()).unwrap();
        assert_eq!((namespace.key_bytes_max, namespace.value_bytes_max), (16, 2 << 20));
        assert_eq!((namespace.id, namespace.keys_max), (3, None));
        fields.format = 2;
        let message = usable_key_value(3, fields.as_bytes()).unwrap_err().to_string();
        assert!(message.contains("format 2 of 2"), "{message}");
        fields.format = 0;
        fields.key_value_formats[0] = format(17, 4096);
        assert!(usable_key_value(3, fields.as_bytes()).is_err());
        fields.size.set(0);
        let message = usable_key_value(3, fields.as_bytes()).unwrap_err().to_string();
        assert_eq!(message, "the target has no active namespace 3");
    }
}
