//! When hosts were asked for data of their commands (R2T).

use mynah_stamp::Time;
use mynah_wire::tcp::target::Connection;
use std::collections::VecDeque;

/// Most commands whose data were asked for. More have no stage of their own for that.
const ASKED_MAX: usize = 4096;

/// A command whose data were asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestedData {
    command_id: u16,
    /// When the first request left.
    pub(crate) first: Time,
    /// R2Ts that were sent for it.
    pub(crate) count: u32,
}

/// R2Ts of a connection.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Requests in the output, and the connection's bytes up to their ends.
    leaving: VecDeque<(u64, u16)>,
    /// Commands that wait for data. They are few: each has a buffer.
    requested: Vec<RequestedData>,
}

impl Requests {
    /// Takes what the machine has put into the output, behind `sent` bytes.
    #[inline]
    pub(crate) fn take(&mut self, machine: &mut Connection, sent: u64) {
        while let Some((command_id, end)) = machine.next_request() {
            self.leaving.push_back((sent + end as u64, command_id));
        }
    }

    /// So many bytes have been sent, the last of them in a call that began at `at`.
    #[inline]
    pub(crate) fn sent(&mut self, sent: u64, at: Time) {
        while let Some((_, command_id)) = self.leaving.pop_front_if(|(end, _)| *end <= sent) {
            match self.requested.iter().position(|asked| asked.command_id == command_id) {
                Some(at) => self.requested[at].count += 1,
                // One whose data were damaged stays until its identifier is used again.
                None if self.requested.len() == ASKED_MAX => {}
                None => self.requested.push(RequestedData { command_id, first: at, count: 1 }),
            }
        }
    }

    /// A command has its data: when they were asked for, if that was noted.
    pub(crate) fn complete(&mut self, command_id: u16) -> Option<RequestedData> {
        let at = self.requested.iter().position(|asked| asked.command_id == command_id)?;
        Some(self.requested.swap_remove(at))
    }
}
