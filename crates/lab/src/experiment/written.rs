//! An experiment as a file: what [`Experiment::parse`] reads, written.

use super::{Experiment, ExperimentFlow, SCHEMA};
use crate::enclosure::Enclosure;
use mynah_drive_file::units::{BitRate, Duration};
use mynah_workload::FlowOptions;
use std::fmt::Write;
use toml::Value;

impl Experiment {
    /// The file that says this. `remark` becomes a comment at its top.
    ///
    /// # Errors
    /// The name of a flow that options cannot say exactly.
    pub fn to_toml(&self, remark: &str) -> Result<String, String> {
        let Experiment {
            drive,
            overrides,
            seed,
            precondition,
            settle,
            ramp_time,
            precision,
            enclosure,
            flows,
        } = self;
        let mut text = String::new();
        for line in remark.lines() {
            let _ = writeln!(text, "# {}", line.replace(|c: char| c.is_control(), " "));
        }
        let _ = writeln!(text, "schema = {}\ndrive = {}", quoted(SCHEMA), quoted(drive));
        if let Some(seed) = seed {
            let _ = match i64::try_from(*seed) {
                Ok(seed) => writeln!(text, "seed = {seed}"),
                // TOML's whole numbers end here.
                Err(_) => writeln!(text, "seed = \"{seed}\""),
            };
        }
        if let Some(precondition) = precondition {
            let _ = writeln!(text, "precondition = {}", quoted(&precondition.to_string()));
        }
        if let Some(settle) = settle {
            let _ = writeln!(text, "settle = {}", quoted(&settle.to_string()));
        }
        if let Some(ramp) = ramp_time {
            let _ = writeln!(text, "ramp_time = \"{}\"", Duration(*ramp));
        }
        if let Some(precision) = precision {
            let _ = writeln!(text, "precision = {}", quoted(&precision.to_string()));
        }
        if let Some(enclosure) = enclosure {
            let _ = writeln!(text, "drives = {}", enclosure.drives);
        }
        if !overrides.is_empty() {
            let all: Vec<_> = overrides.iter().map(|one| quoted(&one.to_string())).collect();
            let _ = writeln!(text, "set = [{}]", all.join(", "));
        }
        if let Some(Enclosure { uplink_bits_per_s, latency, .. }) = enclosure {
            text.push_str("\n[switch]\n");
            if let Some(rate) = uplink_bits_per_s {
                let _ = writeln!(text, "uplink = \"{}\"", BitRate(*rate));
            }
            let _ = writeln!(text, "latency = \"{}\"", Duration(*latency));
        }
        for ExperimentFlow { spec, own_namespace } in flows {
            let options = FlowOptions::of(spec).ok_or_else(|| spec.name.clone())?;
            text.push_str("\n[[flow]]\n");
            for name in FlowOptions::NAMES {
                // A namespace of its own takes the place of the number.
                let own = own_namespace.is_some() && *name == "namespace";
                if let Some(value) = options.get(name).filter(|_| !own) {
                    let _ = writeln!(text, "{name} = {}", scalar(value));
                }
            }
            if let Some(own) = own_namespace {
                let lists = [
                    ("channels", &own.channels),
                    ("chips", &own.chips),
                    ("dies", &own.dies),
                    ("planes", &own.planes),
                ];
                for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
                    let _ = writeln!(text, "{name} = {list:?}");
                }
            }
        }
        Ok(text)
    }
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// Writes a small integer as a TOML integer, anything else as a string.
fn scalar(value: &str) -> String {
    match value.parse::<i64>() {
        Ok(number) if number.to_string() == value => value.to_owned(),
        _ => quoted(value),
    }
}
