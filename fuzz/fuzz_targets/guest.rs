#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let overrides = ["geometry.blocks_per_plane=64", "geometry.channels=1"].map(String::from);
    if let Ok(drive) = mynah_lab::drive::load("enterprise-tlc", &overrides)
        && let Ok(drive) = mynah_model::Drive::new(drive.config)
    {
        mynah_device::fuzzing::guest(drive, data);
    }
});
