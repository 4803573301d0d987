//! The format of profiles, by laws.

mod choice;
mod corpora;
mod follow;
mod format;
