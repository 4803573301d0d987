//! The lints that keep results the same everywhere are on (clippy.toml): clippy fails here if it
//! does not find what they forbid. Nothing is tested when this runs.

use rustc_hash::FxHashMap;

#[test]
#[expect(clippy::disallowed_methods, reason = "to see that it is found")]
fn the_platforms_float_functions_are_found() {
    assert!(2f64.powf(0.5).ln().exp() > 1.0);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "to see that it is found")]
fn iteration_over_hash_maps_is_found() {
    let map = FxHashMap::<u32, u32>::default();
    assert!(map.iter().next().is_none());
}

#[test]
#[expect(clippy::disallowed_types, reason = "to see that it is found")]
fn maps_that_are_seeded_at_random_are_found() {
    let map = std::collections::HashMap::<u32, u32>::new();
    assert!(map.is_empty());
}
