//! Namespaces that outlive the process, beside the bytes in the store.
//!
//! What is kept: each namespace's identifier, format, size, place, attachments and write
//! protection. What is not: reservations, and blocks marked uncorrectable.

use crate::namespace::{ControllerSet, Extent, FORMATS, Format, Namespace, WriteProtection};
use crate::store::DESCRIPTION_BYTES_MAX;
use crate::subsystem::Subsystem;
use mynah_model::io::NamespaceId;

const MAGIC: &[u8; 8] = b"MynahNS1";

/// Reads little-endian numbers one after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let (head, tail) = self.0.split_at_checked(bytes)?;
        self.0 = tail;
        Some(head.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }
}

fn put(into: &mut Vec<u8>, value: u64, bytes: usize) {
    into.extend_from_slice(&value.to_le_bytes()[..bytes]);
}

impl Subsystem {
    fn description(&self) -> Vec<u8> {
        let mut all = MAGIC.to_vec();
        put(&mut all, self.space.sectors, 8);
        put(&mut all, u64::from(self.namespace_serial), 4);
        put(&mut all, self.namespaces.iter().flatten().count() as u64, 4);
        for namespace in self.namespaces.iter().flatten() {
            put(&mut all, u64::from(namespace.id), 4);
            put(&mut all, u64::from(namespace.serial), 4);
            put(&mut all, u64::from(namespace.format.index()), 1);
            put(&mut all, u64::from(namespace.format.protection), 1);
            put(&mut all, u64::from(namespace.shared), 1);
            put(&mut all, namespace.protection as u64, 1);
            put(&mut all, namespace.blocks, 8);
            put(&mut all, namespace.extents.len() as u64, 2);
            for extent in &namespace.extents {
                put(&mut all, u64::from(extent.pool.0), 4);
                put(&mut all, extent.sector, 8);
                put(&mut all, extent.sectors, 8);
                put(&mut all, extent.store, 8);
            }
            // Whichever list is shorter: those that have it, or those that have not.
            let ids = 0..=self.config.limits.controllers_max;
            let (with, without): (Vec<u16>, Vec<u16>) =
                ids.partition(|&id| namespace.attached.contains(id));
            let all_but = without.len() < with.len();
            let list = if all_but { without } else { with };
            put(&mut all, u64::from(all_but), 1);
            put(&mut all, list.len() as u64, 2);
            for id in list {
                put(&mut all, u64::from(id), 2);
            }
        }
        all
    }

    /// Whether one more namespace could be described.
    pub(crate) fn can_describe_more(&self) -> bool {
        self.description().len() + 1024 <= DESCRIPTION_BYTES_MAX
    }

    /// Has the store keep what the namespaces are.
    pub(crate) fn describe(&mut self) {
        let description = self.description();
        self.store.describe(&description);
    }

    /// Brings the namespaces back that the store describes; false if it describes none that
    /// fit this drive.
    pub(crate) fn restore(&mut self) -> bool {
        let Some(description) = self.store.description().map(<[u8]>::to_vec) else { return false };
        let Some(namespaces) = self.parse(&description) else { return false };
        for namespace in &namespaces {
            if !self.space.take_exactly(&namespace.extents) {
                // Half of them would be worse than none.
                for taken in namespaces.iter().take_while(|it| it.id != namespace.id) {
                    self.space.give_back(&taken.extents);
                }
                return false;
            }
        }
        for namespace in namespaces {
            let at = namespace.id as usize - 1;
            self.namespace_serial = self.namespace_serial.max(namespace.serial);
            self.namespaces[at] = Some(Box::new(namespace));
        }
        true
    }

    fn parse(&self, description: &[u8]) -> Option<Vec<Namespace>> {
        let mut reader = Reader(description.strip_prefix(MAGIC)?);
        if reader.number(8)? != self.space.sectors {
            return None;
        }
        reader.number(4)?;
        let count = reader.number(4)?;
        let mut namespaces: Vec<Namespace> = Vec::new();
        for _ in 0..count {
            let (id, serial) = (reader.number(4)? as u32, reader.number(4)? as u32);
            let in_order = namespaces.last().is_none_or(|before| before.id < id);
            let is_ours = self.config.shard.has(id);
            if !(1..=self.namespaces.len() as u32).contains(&id) || !in_order || !is_ours {
                return None;
            }
            let format = *FORMATS.get(reader.number(1)? as usize)?;
            let protection = reader.number(1)?.min(3) as u8;
            let format = Format { protection, ..format };
            let shared = reader.number(1)? != 0;
            let write_protection = match reader.number(1)? {
                1 => WriteProtection::On,
                // The power has been off since.
                _ => WriteProtection::None,
            };
            let blocks = reader.number(8)?;
            let mut extents = Vec::new();
            for _ in 0..reader.number(2)? {
                let pool = NamespaceId(reader.number(4)? as u32);
                let (sector, sectors) = (reader.number(8)?, reader.number(8)?);
                let store = reader.number(8)?;
                let (room, grain) = (self.space.sectors, self.space.grain());
                let whole = sector % grain == 0 && sectors % grain == 0;
                if sector >= room || sectors == 0 || sectors > room || store / 512 >= room || !whole
                {
                    return None;
                }
                extents.push(Extent { pool, sector, sectors, store });
            }
            let all_but = reader.number(1)? != 0;
            let mut attached = match all_but {
                true => ControllerSet::all(self.config.limits.controllers_max),
                false => ControllerSet::none(),
            };
            for _ in 0..reader.number(2)? {
                let id = reader.number(2)? as u16;
                if all_but { attached.remove(id) } else { attached.insert(id) }
            }
            let mut namespace = Namespace {
                id,
                blocks: 0,
                format,
                extents,
                attached,
                shared,
                serial,
                protection: write_protection,
                reservations: Default::default(),
                uncorrectable: Default::default(),
                formatting: false,
                exclusive: 0,
                plain: false,
            };
            namespace.set_format(format);
            if blocks > namespace.blocks {
                return None;
            }
            namespace.blocks = blocks;
            namespaces.push(namespace);
        }
        Some(namespaces)
    }
}
