//! Asynchronous calls: what is done elsewhere, and the function that is called then.

use crate::abi::{Key, KeySpaceHandle, PostprocessContext, PostprocessFunction, Value};
use crate::code::Code;
use crate::device::submit;
use crate::engine::{Operation, Outcome};
use crate::registry::OpenSpace;
use core::ffi::c_void;
use std::sync::Arc;

/// The context and function to be called when an asynchronous call ends.
pub(super) struct Call {
    context: PostprocessContext,
    function: unsafe extern "C" fn(*mut PostprocessContext),
}

// SAFETY: Its pointers are the program's, which has made the call so that another thread uses them. It
// does not touch what they lead to before its function is called.
unsafe impl Send for Call {}

impl Call {
    /// # Errors
    /// If it names no function.
    pub(super) fn new(
        context: u32,
        key_space: KeySpaceHandle,
        private: [*mut c_void; 2],
        function: PostprocessFunction,
    ) -> Result<Call, Code> {
        let function = function.ok_or(Code::ParamInvalid)?;
        let null = core::ptr::null_mut();
        let context = PostprocessContext {
            context,
            key_space,
            key: core::ptr::null_mut(),
            value: core::ptr::null_mut(),
            option: null,
            private1: private[0],
            private2: private[1],
            result: 0,
            iterator: 0,
            buffer: null,
        };
        Ok(Call { context, function })
    }

    pub(super) fn with_pair(mut self, key: *mut Key, value: *mut Value) -> Call {
        (self.context.key, self.context.value) = (key, value);
        self
    }

    pub(super) fn with_buffer(mut self, iterator: u8, buffer: *mut c_void) -> Call {
        (self.context.iterator, self.context.buffer) = (iterator, buffer);
        self
    }

    /// Calls the program's function.
    fn end(mut self, result: Result<(), Code>) {
        self.context.result = Code::of(result) as u32;
        // SAFETY: It is the function that the program has named for this, and it gets what it expects.
        unsafe { (self.function)(&mut self.context) };
    }

    /// Does `work` on the thread that calls back.
    pub(super) fn start(
        self,
        space: Arc<OpenSpace>,
        work: impl FnOnce(&OpenSpace) -> Result<(), Code> + Send + 'static,
    ) {
        space.device().worker.admit();
        let tasks = space.device().worker.tasks();
        tasks.push(Box::new(move || {
            let result = work(&space);
            self.end(result);
        }));
    }

    /// Submits an operation to the device's engine; `complete` makes its outcome the call's result.
    /// Does nothing if the device has no engine.
    pub(super) fn submit(
        self,
        space: &Arc<OpenSpace>,
        operation: Operation,
        complete: impl FnOnce(Outcome) -> Result<(), Code> + Send + 'static,
    ) {
        let Some(engine) = space.device().engine() else { return };
        space.device().worker.admit();
        let held = Arc::clone(space);
        submit(space.device(), engine, operation, move |outcome| {
            self.end(outcome.and_then(complete));
            drop(held);
        });
    }
}
