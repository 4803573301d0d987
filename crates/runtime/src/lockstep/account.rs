//! What is counted of a guest: its instructions, and those of the time in which it had I/O under way.

use mynah_guest_protocol::{Counts, INSTRUCTION_NS};
use mynah_result::{Guest, GuestMark, GuestProcessor, GuestWait};

/// Most marks that are kept.
const MARKS_MAX: usize = 4096;

/// Instructions of a guest, in all and while I/O was under way.
#[derive(Debug, Default)]
pub(super) struct Account {
    last: Counts,
    /// When the guest last accessed the drive: its end, as far as that is the same every time.
    accessed: Counts,
    /// Whether I/O commands were under way since then.
    has_io: bool,
    /// What was executed while they were, and by processors that had nothing to do.
    with_io: u64,
    idle_with_io: u64,
    marks: Vec<GuestMark>,
    marks_lost: u64,
}

impl Account {
    /// The guest has come so far; from now on it has I/O under way, or not.
    pub(super) fn has_come(&mut self, counts: &Counts, has_io: bool) {
        if self.has_io {
            self.with_io += counts.executed().saturating_sub(self.last.executed());
            self.idle_with_io += counts.idle().saturating_sub(self.last.idle());
        }
        self.last.clone_from(counts);
        self.has_io = has_io;
    }

    /// It has accessed the drive.
    pub(super) fn accessed(&mut self) {
        self.accessed.clone_from(&self.last);
    }

    /// I/O commands are under way from now on, or none any more.
    pub(super) fn has_io(&mut self, has_io: bool) {
        self.has_io = has_io;
    }

    /// The guest has set a mark, when it had come so far.
    pub(super) fn mark(&mut self, number: u32) {
        if self.marks.len() == MARKS_MAX {
            self.marks_lost += 1;
            return;
        }
        self.marks.push(GuestMark {
            number,
            at_ns: self.last.executed().saturating_mul(INSTRUCTION_NS),
            processors: processors(&self.last),
        });
    }

    /// All of it up to the last access; `commands` I/O commands were completed.
    pub(super) fn close(&self, commands: u64) -> Guest {
        let (executed, idle) = (self.accessed.executed(), self.accessed.idle());
        Guest {
            instruction_ns: INSTRUCTION_NS,
            instructions: executed,
            busy_instructions: executed.saturating_sub(idle),
            processors: processors(&self.accessed),
            wait: GuestWait {
                commands,
                instructions: self.with_io,
                idle_instructions: self.idle_with_io,
                instructions_per_command: per(self.with_io, commands),
                idle_per_command: per(self.idle_with_io, commands),
            },
            marks: self.marks.clone(),
            marks_lost: self.marks_lost,
        }
    }
}

fn per(instructions: u64, commands: u64) -> Option<f64> {
    (commands > 0).then(|| instructions as f64 / commands as f64)
}

fn processors(counts: &Counts) -> Vec<GuestProcessor> {
    let each = counts.processors.iter();
    each.map(|it| GuestProcessor { instructions: it.executed, idle_instructions: it.idle })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_guest_protocol::Processor;

    #[test]
    fn instructions_count_as_waiting_while_there_is_io() {
        let counts = |executed, idle| Counts {
            current: 0,
            processors: vec![Processor { executed, idle }, Processor { executed: 5, idle: 1 }],
        };
        let mut account = Account::default();
        account.has_come(&counts(1000, 200), true);
        account.has_come(&counts(1600, 700), false);
        account.mark(7);
        account.has_come(&counts(2000, 700), false);
        account.accessed();
        account.has_come(&counts(2222, 700), false);
        let guest = account.close(2);
        assert_eq!((guest.instructions, guest.busy_instructions), (2005, 1304));
        assert_eq!((guest.wait.instructions, guest.wait.idle_instructions), (600, 500));
        assert_eq!(guest.wait.idle_per_command, Some(250.0));
        assert_eq!((guest.marks[0].number, guest.marks[0].at_ns), (7, 1605 * 4));
        assert_eq!(guest.marks[0].processors[0].instructions, 1600);
        assert_eq!(account.close(0).wait.idle_per_command, None);
        for _ in 0..2 * MARKS_MAX {
            account.mark(1);
        }
        let guest = account.close(2);
        assert_eq!((guest.marks.len(), guest.marks_lost), (MARKS_MAX, MARKS_MAX as u64 + 1));
    }
}
