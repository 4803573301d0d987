//! Tests of studies on whole drives.

mod comparison;
mod validation_drives;
