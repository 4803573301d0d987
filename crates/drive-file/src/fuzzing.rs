//! Entry points that take any bytes: what the fuzz targets call, and what the normal tests
//! replay their corpora through. Nothing here may panic, hang or allocate without bound.

/// Reads a drive file, and checks the drive it describes.
pub fn drive_file(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(drive) = crate::parse("fuzz.toml", text, &[])
    {
        let _ = drive.config.check();
        let _ = drive.show();
    }
}
