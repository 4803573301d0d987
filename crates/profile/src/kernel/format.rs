//! What the kernel says of an event: `events/GROUP/NAME/format` of tracefs.

/// Most bytes of a description that are read, and most fields.
const TEXT_MAX: usize = 1 << 16;
const FIELDS_MAX: usize = 128;

/// Where a field lies within an event's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    size: usize,
    is_signed: bool,
}

impl Field {
    /// Its bytes, if the event has so many.
    pub fn bytes(self, payload: &[u8]) -> Option<&[u8]> {
        payload.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// Its value, sign-extended, if it has 1 to 8 bytes.
    pub fn number(self, payload: &[u8]) -> Option<u64> {
        let from = self.bytes(payload)?;
        let mut bytes = [0; 8];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        let number = u64::from_le_bytes(bytes);
        let unused = 64 - 8 * from.len() as u32;
        if unused == 64 {
            return None;
        }
        match self.is_signed {
            true => Some((((number << unused) as i64) >> unused) as u64),
            false => Some(number),
        }
    }
}

/// A description that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the description of an event has no {0}")]
pub struct FormatError(&'static str);

/// Description of an event: its number and the layout of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    pub name: String,
    /// Its number, with which it begins in the ring buffer.
    pub id: u16,
    fields: Vec<(String, Field)>,
}

impl EventFormat {
    /// Reads a description.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<EventFormat, FormatError> {
        let text = text.get(..TEXT_MAX.min(text.len())).unwrap_or_default();
        let (mut name, mut id, mut fields) = (None, None, vec![]);
        for line in text.lines() {
            let line = line.trim();
            if let Some(value) = line.strip_prefix("name:") {
                name = Some(value.trim().chars().take(100).collect());
            } else if let Some(value) = line.strip_prefix("ID:") {
                id = value.trim().parse().ok();
            } else if let Some(field) = line.strip_prefix("field:").and_then(field)
                && fields.len() < FIELDS_MAX
            {
                fields.push(field);
            }
        }
        let name = name.ok_or(FormatError("name"))?;
        let id = id.ok_or(FormatError("number"))?;
        Ok(EventFormat { name, id, fields })
    }

    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(it, _)| it == name).map(|&(_, field)| field)
    }
}

/// `u8 cdw10[24];`, and after tabs `offset:61;`, `size:24;`, `signed:0;`.
fn field(text: &str) -> Option<(String, Field)> {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next()?.rsplit([' ', '*']).next()?;
    let name = name.split('[').next()?.to_owned();
    let (mut offset, mut size, mut is_signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => size = value.parse().ok(),
            Some(("signed", value)) => is_signed = value == "1",
            _ => {}
        }
    }
    Some((name, Field { offset: offset?, size: size?, is_signed }))
}
