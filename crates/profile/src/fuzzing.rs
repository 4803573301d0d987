//! Entry points that take any bytes: what the fuzz targets call, and what the normal tests
//! replay their corpora through. Nothing here may panic, hang or allocate without bound.

/// Reads the trace of a kernel: descriptions of events and pages of its ring buffer.
pub fn kernel_trace(data: &[u8]) {
    let replayed = crate::kernel::replay(data);
    for ended in &replayed.ended {
        let stages: u64 = ended.stages.iter().map(|span| span.as_ps()).sum();
        assert_eq!(stages, ended.head.total.as_ps(), "stages add up");
        let end = ended.head.begin.as_ps().checked_add(stages);
        assert!(end.is_some(), "an I/O ends within the clock");
    }
    let initiator = &replayed.initiator;
    assert_eq!(initiator.completed(), initiator.ended() + initiator.lost());
    let _ = crate::kernel::hits(&String::from_utf8_lossy(data));
}
