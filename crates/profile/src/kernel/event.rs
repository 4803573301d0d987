//! Bytes of the trace as events.

use super::format::{EventFormat, Field};
use super::hooks::{Hook, HookUse};

/// Most fields of an event that are looked at.
const FIELDS: usize = 7;

/// Something that the initiator did, decoded from the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The block layer gave a request to a queue.
    Queued {
        /// The queue, by its address.
        queue: u64,
        /// Tag of the block layer's request.
        tag: u16,
        bytes: u32,
        /// When it was created, on the monotonic clock; 0: not known.
        started: u64,
    },
    /// The command of a request was built.
    Setup {
        /// The controller's instance.
        controller: u32,
        /// The queue; 0 also of commands that go to no namespace's queue, such as Connect.
        queue: u16,
        command_id: u16,
        /// Its opcode.
        opcode: u8,
        /// FCTYPE, if the opcode is that of Fabrics commands.
        fabrics: u8,
        namespace: u32,
        /// Command dwords 10 to 15.
        dwords: [u8; 24],
    },
    /// The send of a command's capsule, or of its data, begins.
    Sent {
        /// The queue, by its address.
        queue: u64,
        command_id: u16,
        /// Whether the command's capsule is sent, not data for an R2T.
        is_capsule: bool,
    },
    /// An R2T was received, or the data that it asked for are cut into another PDU.
    R2t {
        /// The queue, by its address.
        queue: u64,
        command_id: u16,
        /// A further H2CData PDU of the same R2T, not a new one.
        is_cut: bool,
    },
    /// Bytes came to a queue's socket.
    Ready {
        /// The queue, by its address.
        queue: u64,
    },
    /// Bytes of a queue are read.
    Read {
        /// The queue, by its address.
        queue: u64,
    },
    Completed {
        /// The controller's instance.
        controller: u32,
        queue: u16,
        /// The request's tag: the identifier without its generation.
        tag: u16,
        /// NVMe status: code type and code.
        status: u16,
    },
}

/// An event, when and in which thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedEvent {
    /// In nanoseconds of the trace's clock.
    pub time: u64,
    /// The thread's number; 0 of an idle processor.
    pub thread: u32,
    pub event: Event,
}

/// This kernel's event lacks a field that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event `{event}` has no field `{field}`")]
pub struct Unfit {
    /// The hook's name.
    pub event: &'static str,
    /// The field that it lacks.
    pub field: &'static str,
}

/// Where the fields of a hook's events are, by this kernel's description.
#[derive(Clone, Copy, Debug)]
struct Shape {
    id: u16,
    hook: Hook,
    thread: Field,
    fields: [Option<Field>; FIELDS],
}

/// Decodes events of the trace by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// Sorted by `id`; at most one for each hook.
    shapes: Vec<Shape>,
}

impl Decoder {
    /// Registers the description of a hook's events.
    ///
    /// # Errors
    /// If they lack a field that is needed.
    pub fn add(&mut self, hook: Hook, format: &EventFormat) -> Result<(), Unfit> {
        let of = HookUse::of(hook);
        let field = |name: &'static str| format.field(name).ok_or_else(|| of.unfit(name));
        let mut fields = [None; FIELDS];
        for (into, &name) in fields.iter_mut().zip(of.fields) {
            *into = Some(field(name)?);
        }
        let shape = Shape { id: format.id, hook, thread: field("common_pid")?, fields };
        let at = self.shapes.partition_point(|it| it.id < shape.id);
        self.shapes.insert(at, shape);
        Ok(())
    }

    /// Decodes an entry; `None` if it is no hook's event, or too short.
    pub fn decode(&self, time: u64, payload: &[u8]) -> Option<TimedEvent> {
        let id = u16::from_le_bytes(payload.get(..2)?.try_into().ok()?);
        let at = self.shapes.binary_search_by_key(&id, |shape| shape.id).ok()?;
        let shape = &self.shapes[at];
        let number = |at: usize| shape.fields[at]?.number(payload);
        let event = match shape.hook {
            Hook::Queued => Event::Queued {
                queue: number(0)?,
                tag: number(1)? as u16,
                bytes: number(2)? as u32,
                started: number(3)?,
            },
            Hook::Setup => Event::Setup {
                controller: number(0)? as u32,
                queue: number(1)? as u16,
                command_id: number(2)? as u16,
                opcode: number(3)? as u8,
                fabrics: number(4)? as u8,
                namespace: number(5)? as u32,
                dwords: shape.fields[6]?.bytes(payload)?.try_into().ok()?,
            },
            Hook::SendCommand | Hook::SendData | Hook::SendDigest => Event::Sent {
                queue: number(0)?,
                command_id: number(1)? as u16,
                is_capsule: shape.hook == Hook::SendCommand,
            },
            // nvme_tcp_handle_r2t() leaves no length of a PDU; one that was sent has it still.
            Hook::R2t => Event::R2t {
                queue: number(0)?,
                command_id: number(1)? as u16,
                is_cut: number(2)? != 0,
            },
            Hook::Ready => Event::Ready { queue: number(0)? },
            Hook::Read => Event::Read { queue: number(0)? },
            Hook::Completed => Event::Completed {
                controller: number(0)? as u32,
                queue: number(1)? as u16,
                tag: number(2)? as u16,
                // Phase and transport bits are gone; retry delay, More and DNR are not the status.
                status: number(3)? as u16 & 0x7ff,
            },
        };
        let thread = shape.thread.number(payload)? as u32;
        Some(TimedEvent { time, thread, event })
    }
}
