//! What a recording says of how its drive was made ready.

use super::{Header, OccupancyRange, SCHEMA, SCHEMA_PAIRS};
use crate::experiment::Start;
use mynah_drive_file::drive_hash;
use mynah_model::config::NamespaceKind;
use mynah_model::precondition::{Occupancy, UpdateClass};
use mynah_model::{Drive, Policies};
use mynah_result::precision::Plan;
use mynah_stamp::Span;

/// How a drive was prepared for a run that is to be recorded.
pub(crate) struct Preparation<'a> {
    pub(crate) name: &'a str,
    /// The saved state that the drive begins in, by its name.
    pub(crate) saved_state: Option<String>,
    pub(crate) start: Start,
    pub(crate) occupancy: &'a [Occupancy],
    /// The experiment file whose flows it settled under, if it did.
    pub(crate) settling: Option<String>,
    pub(crate) seed: u64,
    pub(crate) ramp: Span,
    /// What the run is to find out before it ends, if its end is not given.
    pub(crate) precision: Option<Plan>,
    pub(crate) notes: &'a [String],
}

impl Preparation<'_> {
    /// The recording's header; `flows` are the names of the flows known now.
    ///
    /// # Errors
    /// Why the drive cannot be written as a drive file.
    pub(crate) fn header(
        &self,
        drive: &Drive<impl Policies>,
        flows: Vec<String>,
    ) -> Result<Header, String> {
        let config = drive.config();
        let drive_text = mynah_drive_file::to_toml(self.name, "", config, &[]);
        let hash = drive_hash(config);
        match mynah_drive_file::parse("the recording", &drive_text, &[]) {
            Ok(file) if file.hash == hash => {}
            Ok(_) => {
                return Err("a drive file loses some of it".into());
            }
            Err(error) => return Err(error.to_string()),
        }
        let pairs = config.namespaces.iter().any(|it| it.kind == NamespaceKind::Pairs);
        let schema = if pairs { SCHEMA_PAIRS } else { SCHEMA };
        Ok(Header {
            schema: schema.to_owned(),
            drive: self.name.to_owned(),
            drive_text,
            drive_hash: hash,
            state_hash: format!("{:016x}", drive.state_hash()),
            saved_state: self.saved_state.clone(),
            precondition: self.start.to_string(),
            occupancy: ranges(self.occupancy),
            settling: self.settling.clone(),
            flows,
            report_moves: drive.reports_moves(),
            seed: self.seed,
            ramp_ps: self.ramp.as_ps(),
            precision: self.precision.clone(),
            notes: self.notes.to_vec(),
        })
    }
}

fn ranges(occupancy: &[Occupancy]) -> Vec<OccupancyRange> {
    let each = |Occupancy { namespace, classes }: &Occupancy| {
        let namespace = namespace.0;
        let range = move |class: &UpdateClass| OccupancyRange {
            namespace,
            first: class.first,
            units: class.units,
            weight: class.weight,
            in_order: class.order.in_order,
            passed_over: class.order.passed_over,
            write_share: class.write_share,
            saturated: class.saturated,
            units_per_s: class.units_per_s,
            together: class.together,
            trims_per_write: class.trims_per_write,
            placement: class.placement.0,
        };
        classes.iter().map(range).collect::<Vec<_>>()
    };
    occupancy.iter().flat_map(each).collect()
}
