//! Sweeps in words: an experiment file is written with what is varied, and read as any other, so that
//! keys, order, checks and messages are those of `[sweep]`.

use super::{Description, DescriptionError, Settings, Words, words_of};
use crate::experiment::{Experiment, ExperimentFlow, Point, RESOURCES};
use crate::simulation::{Simulation, SimulationError};
use mynah_drive_file::{self as drive, DriveFile};
use std::fmt::Write;
use std::path::PathBuf;
use toml::Value;

/// An axis of a sweep: a key of `[sweep]`, or several separated by commas, and the list of points,
/// each with one value per key.
pub type Axis = (String, Vec<Vec<String>>);

/// The simulation that every point of a sweep is derived from.
#[derive(Clone, Debug)]
pub struct Base {
    /// Name of the drive, and the text of its drive file.
    pub drive: (String, String),
    /// Changes to the drive, `KEY=VALUE` each.
    pub set: Vec<String>,
    /// Fault descriptions, as `--fault` takes them.
    pub faults: Vec<String>,
    pub description: Description,
}

/// Settings of a run that an experiment file cannot hold.
const UNSAID: [&str; 4] = ["until_steady", "load_state", "alone", "require_steady"];

/// A point of a sweep, as a description and as a simulation.
#[derive(Clone, Debug)]
pub struct Varied {
    /// The base with this point's values applied.
    pub base: Base,
    /// The varied keys, with their values at this point.
    pub point: Words,
    pub simulation: Simulation,
}

impl Base {
    /// The text of an experiment file that varies `axes`. The drive is called `drive`.
    pub fn to_toml(&self, drive: &str, axes: &[Axis]) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let mut text =
            format!("schema = {}\ndrive = {}\n", quoted(crate::experiment::SCHEMA), quoted(drive));
        let mut switch = String::new();
        for (name, value) in &self.description.settings {
            match name.as_str() {
                name if UNSAID.contains(&name) => {}
                "uplink" | "latency" => {
                    let _ = writeln!(switch, "{name} = {}", quoted(value));
                }
                _ => {
                    let _ = writeln!(text, "{name} = {}", quoted(value));
                }
            }
        }
        if !self.set.is_empty() {
            let each: Vec<String> = self.set.iter().map(|set| quoted(set)).collect();
            let _ = writeln!(text, "set = [{}]", each.join(", "));
        }
        if !switch.is_empty() {
            let _ = write!(text, "\n[switch]\n{switch}");
        }
        for flow in &self.description.flows {
            text.push_str("\n[[flow]]\n");
            for (name, value) in flow {
                let _ = match RESOURCES.contains(&name.as_str()) {
                    true => writeln!(text, "{name} = [{value}]"),
                    false => writeln!(text, "{name} = {}", quoted(value)),
                };
            }
        }
        if !axes.is_empty() {
            text.push_str("\n[sweep]\n");
        }
        for (key, values) in axes {
            let value = |value: &Vec<String>| match &value[..] {
                [one] => quoted(one),
                several => {
                    let each: Vec<String> = several.iter().map(|one| quoted(one)).collect();
                    format!("[{}]", each.join(", "))
                }
            };
            let values: Vec<String> = values.iter().map(value).collect();
            let _ = writeln!(text, "{} = [{}]", quoted(key), values.join(", "));
        }
        text
    }

    /// The points of the sweep over `axes`; the last axis varies fastest. Error messages quote the
    /// experiment file's text, and call it `name`.
    ///
    /// # Errors
    /// If it cannot be run.
    pub fn vary(&self, name: &str, axes: &[Axis]) -> Result<Vec<Varied>, DescriptionError> {
        let points = Experiment::parse_points(name, &self.to_toml(&self.drive.0, axes));
        let points = points.map_err(SimulationError::from)?;
        points.into_iter().map(|point| self.at(point)).collect()
    }

    fn at(&self, Point { values, experiment }: Point) -> Result<Varied, DescriptionError> {
        let set: Vec<String> = experiment.overrides.iter().map(ToString::to_string).collect();
        let mut file = self.file(&experiment.drive, &set)?;
        for fault in &self.faults {
            file.inject(fault).map_err(SimulationError::from)?;
        }
        let mut simulation = Simulation::of_experiment_on(&experiment, &file);
        for (name, value) in &self.description.settings {
            match name.as_str() {
                "until_steady" => {
                    let said = [(name.clone(), value.clone())];
                    simulation.options.until_steady = Settings::read(&said)?.options.until_steady;
                }
                "load_state" => simulation.options.load_state = Some(PathBuf::from(value)),
                "alone" => simulation.alone = value == "true",
                "require_steady" => simulation.require_steady = value == "true",
                _ => {}
            }
        }
        simulation.check_ends()?;
        simulation.point.clone_from(&values);
        let flows = experiment.flows.iter().map(flow_words).collect::<Option<Vec<_>>>();
        let flows = flows.ok_or_else(|| {
            let problem = "a flow of this sweep is one that options cannot say";
            SimulationError::NoFile(problem.to_owned())
        })?;
        let settings = super::settings_with(&simulation, experiment.seed);
        let text = if experiment.drive == self.drive.0 { &self.drive.1 } else { &file.text };
        let base = Base {
            drive: (experiment.drive, text.clone()),
            set,
            faults: self.faults.clone(),
            description: Description { flows, settings },
        };
        Ok(Varied { base, point: values, simulation })
    }

    fn file(&self, name: &str, set: &[String]) -> Result<DriveFile, SimulationError> {
        Ok(match name == self.drive.0 {
            true => drive::parse_naming(name, &self.drive.1, set, "set")?,
            false => drive::load_naming(name, set, "set")?,
        })
    }
}

/// The words of a flow of an experiment.
fn flow_words(flow: &ExperimentFlow) -> Option<Words> {
    let mut words = words_of(&mynah_workload::FlowOptions::of(&flow.spec)?);
    if let Some(own) = &flow.own_namespace {
        // It has one of its own, by whatever number.
        words.retain(|(name, _)| name != "namespace");
        words.extend(super::resource_words(own));
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(flows: &[&str], settings: &[(&str, &str)]) -> Base {
        let words = |text: &&str| {
            let pair = |word: &str| word.split_once('=').map(|(a, b)| (a.into(), b.into()));
            text.split(' ').filter_map(pair).collect()
        };
        let file = drive::load("mqsim", &[]).unwrap();
        Base {
            drive: ("mqsim".to_owned(), file.text),
            set: vec!["flash.read=30us".to_owned()],
            faults: Vec::new(),
            description: Description {
                flows: flows.iter().map(words).collect(),
                settings: settings.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect(),
            },
        }
    }

    fn axis(key: &str, values: &[&str]) -> Axis {
        let each = |value: &&str| value.split(',').map(str::to_owned).collect();
        (key.to_owned(), values.iter().map(each).collect())
    }

    #[test]
    fn a_sweep_in_words_is_that_of_the_file() {
        let flows = [
            "name=a rw=randread iodepth=8 number_ios=10 channels=0,1",
            "name=b rw=randwrite bs=8192 number_ios=10 channels=2",
        ];
        let base = base(&flows, &[("seed", "1"), ("settle", "off"), ("alone", "true")]);
        let axes = [
            axis("flow.a.iodepth, flow.b.iodepth", &["1,2", "3,4"]),
            axis("set.over_provisioning", &["28%", "40%"]),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweep.toml");
        std::fs::write(&path, base.to_toml("mqsim", &axes)).unwrap();
        let file = Simulation::from_sweep(&path, &[]).unwrap();
        let varied = base.vary("sweep", &axes).unwrap();
        assert_eq!((file.len(), varied.len()), (4, 4));
        for (file, varied) in file.iter().zip(&varied) {
            let ours = &varied.simulation;
            assert_eq!(
                (&file.config, &file.flows, &file.point),
                (&ours.config, &ours.flows, &ours.point)
            );
            assert!(ours.alone && ours.config.seed == 1);
            // And the words of a point are the point.
            let again = varied.base.vary("point", &[]).unwrap();
            let same = &again[0].simulation;
            assert_eq!((&same.config, &same.flows), (&ours.config, &ours.flows));
            assert_eq!(same.options.settle, ours.options.settle);
        }
    }

    #[test]
    fn mistakes_show_the_sweep() {
        let base = base(&["name=a rw=randread number_ios=10"], &[]);
        let refused = |key: &str, values: &[&str]| {
            base.vary("sweep", &[axis(key, values)]).unwrap_err().to_string()
        };
        assert!(refused("flow.b.iodepth", &["1"]).contains("no flow is called `b`"));
        assert!(refused("flow.a.iodept", &["1"]).contains("`iodept` is not an option"));
        assert!(refused("sed", &["1"]).contains("`sed` cannot be varied"));
        assert!(refused("set.flash.raed", &["1us"]).contains("`raed`"));
        assert!(refused("seed", &[]).contains("a list of values belongs here"));
    }
}
