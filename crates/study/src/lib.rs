//! Many runs: sweeps, the ledger that keeps their results, what is known of real drives held
//! against the shipped ones, and whether a prediction and a served drive agree.

pub mod agreement;
pub mod evidence;
#[doc(hidden)]
pub mod fuzzing;
pub mod ledger;
pub mod sweep;
