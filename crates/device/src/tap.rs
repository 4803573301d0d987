//! Somebody who listens to everything that goes into the model.

use mynah_model::io::{self, Control, QueueId, Request, Tag};
use mynah_model::keys::{Decision, KeyRequest};
use mynah_stamp::Time;

/// Sees every input of the model, in order, and every completion.
pub trait Tap {
    /// A host's command, or a step of one, was given to the model.
    fn command(&mut self, at: Time, queue: QueueId, request: &Request);

    /// A command that is no host's I/O was given to the model: what a shutdown leaves to be
    /// written, and the work of admin commands.
    fn own_command(&mut self, at: Time, queue: QueueId, request: &Request);

    /// A host's command of keys was given to the model, which has taken it.
    fn key_command(&mut self, at: Time, queue: QueueId, request: &KeyRequest);

    /// The model was told what a command of keys is about, and waited for that.
    fn decided(&mut self, at: Time, tag: Tag, decision: &Decision);

    /// The host has put `count` commands into a memory queue.
    fn ring(&mut self, at: Time, queue: QueueId, count: u32);

    /// The data of a command of a memory queue have come from the host, or the work that is
    /// done beside the model's queue is done.
    fn data_arrived(&mut self, at: Time, tag: Tag);

    /// The host has taken `count` entries off the completion queue of a memory queue.
    fn cq_freed(&mut self, at: Time, queue: QueueId, count: u32);

    /// A control was given to the model.
    fn control(&mut self, at: Time, control: &Control);

    /// The model has completed a command that was created at `created`.
    fn completed(&mut self, completion: &io::Completion, created: Time);
}
