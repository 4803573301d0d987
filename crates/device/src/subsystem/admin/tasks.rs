//! What becomes of work under way when its time is over, or the power is lost.

use super::background::TaskKind;
use crate::subsystem::Subsystem;

impl Subsystem {
    /// Ends what is due; has the timer set for the rest.
    pub(crate) fn run_tasks(&mut self) {
        let now = self.now.wall;
        let mut at = 0;
        while at < self.admin.tasks.len() {
            if self.admin.tasks[at].ends > now {
                let ends = self.admin.tasks[at].ends;
                self.timers.set(Some(ends));
                at += 1;
                continue;
            }
            match self.admin.tasks.swap_remove(at).kind {
                TaskKind::Format { command, namespaces } => {
                    self.erase_formatted(command, &namespaces)
                }
                TaskKind::Sanitize => self.erase_sanitized(),
                TaskKind::SelfTest(test) => self.admin.finish_self_test(test, 0, self.now.wall),
            }
        }
    }

    /// The power was lost: formats end, a sanitize begins anew, self-tests are forgotten.
    pub(crate) fn restart_tasks(&mut self) {
        let sanitizes = self.admin.sanitizes();
        self.admin.tasks.clear();
        if sanitizes {
            self.restart_sanitize();
        }
    }
}
