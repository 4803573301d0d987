//! The format of profiles, by laws.

mod choice;
mod follow;
mod format;
