//! Array times.
use super::Known;
use crate::finding::Findings;
use crate::probe::{Ended, Probe};
pub(super) fn find(_: &mut Probe<'_>, _: &mut Known, _: &mut Findings) -> Result<(), Ended> { Ok(()) }
