//! Somebody who listens to everything that goes into the model.

use mynah_model::io::{Completion, Control, QueueId, Request};
use mynah_stamp::Time;

/// Sees every input of the model, in order, and every completion.
pub trait Tap {
    /// A command was given to the model.
    fn command(&mut self, at: Time, queue: QueueId, request: &Request);

    /// A control was given to the model.
    fn control(&mut self, at: Time, control: &Control);

    /// The model has completed a command that was created at `created`.
    fn completed(&mut self, completion: &Completion, created: Time);
}
