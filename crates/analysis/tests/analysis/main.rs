//! What profiles say, in one program, so that it is linked once.

mod corpora;
mod localisation;
#[path = "../../../lab/tests/lab/pftrace/mod.rs"]
mod pftrace;
mod profile;
mod profile_views;
#[path = "../../../lab/tests/lab/small.rs"]
mod small;
