//! Tests of studies on whole drives.

mod comparison;
mod fill_curves;
mod validation_drives;
