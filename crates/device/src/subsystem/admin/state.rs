//! What admin commands leave behind that all controllers share: features of the whole subsystem, work
//! under way, results, pieces of a firmware image.

use super::background::{Task, TaskKind};
use super::discovery::Discovery;
use super::sanitize::Sanitize;
use super::timestamp::Timestamp;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::log::SelfTestResult;
use std::collections::BTreeMap;

/// See the file's description.
#[derive(Debug)]
pub(crate) struct AdminState {
    /// The volatile write cache feature.
    pub(super) write_cache: bool,
    pub(super) timestamp: Timestamp,
    /// The sanitize config feature.
    pub(super) sanitize_config: u32,
    /// The most recent sanitize operation.
    pub(super) sanitize: Sanitize,
    /// Formats, sanitizes, self-tests under way.
    pub(super) tasks: Vec<Task>,
    /// Results of self-tests, latest first.
    pub(super) self_tests: Vec<SelfTestResult>,
    /// Pieces of a firmware image: end by start.
    pub(super) firmware: BTreeMap<u64, u64>,
    pub(super) discovery: Discovery,
}

impl Default for AdminState {
    fn default() -> AdminState {
        AdminState {
            write_cache: true,
            timestamp: Timestamp::default(),
            sanitize_config: 0,
            sanitize: Sanitize::default(),
            tasks: Vec::new(),
            self_tests: Vec::new(),
            firmware: BTreeMap::new(),
            discovery: Discovery::default(),
        }
    }
}

impl AdminState {
    /// Whether a write has to be on flash before it completes.
    #[inline]
    pub(crate) fn writes_through(&self, force_unit_access: bool) -> bool {
        force_unit_access || !self.write_cache
    }

    /// Whether a sanitize keeps every namespace from being used.
    #[inline]
    pub(crate) fn sanitizes(&self) -> bool {
        self.sanitize.is_under_way()
    }

    /// What the Timestamp feature says.
    pub(crate) fn timestamp(&self, now: Time) -> [u8; 8] {
        self.timestamp.bytes(now)
    }

    /// The last sanitize, to be kept.
    pub(crate) fn last_sanitize(&self) -> &Sanitize {
        &self.sanitize
    }

    /// The last sanitize as it was kept.
    pub(crate) fn restore_sanitize(&mut self, sanitize: Sanitize) {
        self.sanitize = sanitize;
    }

    /// Begins something that ends after `span`; when that is.
    pub(super) fn begin_task(&mut self, began: Time, span: Span, kind: TaskKind) -> Time {
        let ends = began + span;
        self.tasks.push(Task { began, ends, kind });
        ends
    }

    /// Share of a format of a namespace that is still to be done, in percent (FPI).
    pub(super) fn format_left(&self, namespace: u32, now: Time) -> u8 {
        let task = self.tasks.iter().find(|task| {
            matches!(&task.kind, TaskKind::Format { namespaces, .. } if namespaces.contains(&namespace))
        });
        task.map_or(0, |task| 100 - task.progress(now, 100) as u8)
    }
}
