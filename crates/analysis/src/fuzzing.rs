//! Entry points that take any bytes: what the fuzz targets call, and what the normal tests
//! replay their corpora through. Nothing here may panic, hang or allocate without bound.

use std::path::Path;

/// Reads a profile, and says what is in it.
pub fn profile(data: &[u8]) {
    for by in ["all", "type,size", "session,queue,namespace"] {
        let by = by.parse().expect("dimensions");
        let Ok(profile) = mynah_profile::Profile::new(data) else { return };
        let Ok(analysis) = crate::analyse_from(Path::new("fuzz"), profile, &by) else {
            continue;
        };
        let base = Some(&analysis);
        let reports = crate::ProfileReports::new(std::slice::from_ref(&analysis), base);
        let _ = (reports.text(), reports.to_json());
    }
}

pub fn profile_task(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = crate::task::Task::parse("fuzz.toml", text);
    }
}
