//! Device Self-test (Base 2.0, sections 5.8 and 8.6).
//!
//! There is no hardware to test: a test takes its time and passes, and says so.

use super::{AdminState, Context, identify};
use crate::subsystem::admin::background::TaskKind;
use crate::subsystem::nvm::NAMESPACE_ALL;
use crate::subsystem::{Outcome, Subsystem};
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::Status;
use mynah_wire::nvme::command::SelfTestCode;
use mynah_wire::nvme::log::{SelfTestLog, SelfTestResult};
use zerocopy::IntoBytes;

/// How long a short test takes; two minutes would be allowed.
const SHORT: Span = Span::from_secs(2);
/// Results that the Device Self-test log keeps.
const RESULTS: usize = 20;
/// Result code of an entry that is not used.
const NO_RESULT: u8 = 0xf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SelfTest {
    pub(crate) code: SelfTestCode,
    pub(crate) namespace: u32,
    /// Identifier of the controller that started it.
    pub(crate) controller: u16,
}

impl AdminState {
    /// Ends a test that is under way, if there is one.
    pub(crate) fn abort_self_test(&mut self, result: u8, now: Time) {
        let at = self.tasks.iter().position(|task| matches!(task.kind, TaskKind::SelfTest(_)));
        if let Some(at) = at
            && let TaskKind::SelfTest(test) = self.tasks.swap_remove(at).kind
        {
            self.finish_self_test(test, result, now);
        }
    }

    /// A controller was reset: a short test that it had started ends; an extended one goes on.
    pub(crate) fn reset_self_test(&mut self, controller: u16, now: Time) {
        let short = self.tasks.iter().any(|task| {
            matches!(task.kind, TaskKind::SelfTest(test)
                if test.code == SelfTestCode::Short && test.controller == controller)
        });
        if short {
            self.abort_self_test(2, now);
        }
    }

    pub(super) fn finish_self_test(&mut self, test: SelfTest, result: u8, now: Time) {
        let status = test.code.code() << 4 | result;
        let mut entry = SelfTestResult { status, ..Default::default() };
        entry.power_on_hours.set((now.as_secs_f64() / 3600.0) as u64);
        entry.namespace_id.set(test.namespace);
        self.self_tests.insert(0, entry);
        self.self_tests.truncate(RESULTS);
    }
}

impl Subsystem {
    pub(super) fn device_self_test(
        &mut self,
        context: Context<'_>,
        code: SelfTestCode,
    ) -> Result<Outcome, Status> {
        let namespace = context.entry.namespace_id.get();
        if !matches!(namespace, 0 | NAMESPACE_ALL) {
            self.namespaces.active(context.controller, namespace)?;
        }
        let span = match code {
            SelfTestCode::Short => SHORT,
            SelfTestCode::Extended => Span::from_secs(u64::from(identify::SELF_TEST_MINUTES) * 60),
            SelfTestCode::Abort => {
                self.admin.abort_self_test(1, self.now.wall);
                return Ok(Outcome::Done(0));
            }
            SelfTestCode::Reserved(_) => return Err(Status::INVALID_FIELD.do_not_retry()),
        };
        if self.admin.tasks.iter().any(|task| matches!(task.kind, TaskKind::SelfTest(_))) {
            return Err(Status::SELF_TEST_IN_PROGRESS);
        }
        let controller = context.controller;
        let ends = self.admin.begin_task(
            self.now.wall,
            span,
            TaskKind::SelfTest(SelfTest { code, namespace, controller }),
        );
        self.timers.set(Some(ends));
        Ok(Outcome::Done(0))
    }

    pub(super) fn self_test_page(&self) -> Vec<u8> {
        let mut log = SelfTestLog::default();
        for task in &self.admin.tasks {
            if let TaskKind::SelfTest(test) = task.kind {
                log.current = test.code.code();
                log.completion = task.progress(self.now.wall, 100) as u8;
            }
        }
        let mut results = [SelfTestResult { status: NO_RESULT, ..Default::default() }; RESULTS];
        for (place, result) in results.iter_mut().zip(&self.admin.self_tests) {
            *place = *result;
        }
        log.results = results;
        log.as_bytes().to_vec()
    }
}
