//! Entry points that take any bytes: what the fuzz targets call, and what the normal tests
//! replay their corpora through. Nothing here may panic, hang or allocate without bound.

use crate::fio::FioJob;
use crate::trace::{LineParser, TraceAction, TraceFormat, TraceReader};

/// Fuzz target: reads a trace in every format.
pub fn trace_line(data: &[u8]) {
    for (_, format) in TraceFormat::ALL {
        let mut parser = LineParser::new(format, TraceAction::Issued);
        for line in data.split(|&byte| byte == b'\n') {
            let _ = parser.read(line);
        }
        let mut reader = TraceReader::new("fuzz", data, format, TraceAction::Queued);
        while let Ok(Some(_)) = reader.next() {}
    }
}

/// Fuzz target: reads a fio job file.
pub fn fio_job(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = FioJob::parse("fuzz.fio", text);
    }
}
