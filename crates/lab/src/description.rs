//! Experiments in words: options by name, as front ends give them that are neither the command nor
//! its files. Names, values, defaults and checks are those of experiment files: a flow that does
//! not say its end has the runtime `auto`.
//!
//! A mistake says which option of which flow it is about; how options are spelt is for the front
//! end to say.

mod vary;

pub use vary::{Axis, Base, Varied};

use crate::enclosure::Enclosure;
use crate::experiment::{Experiment, ExperimentFlow, RESOURCES, Settle, Start, check_flows};
use crate::runner::RunOptions;
use crate::simulation::{Simulation, SimulationError, limit_rounds};
use mynah_drive_file::units::{BitRate, Duration};
use mynah_drive_file::{self as drive, DriveFile};
use mynah_model::config::Namespace;
use mynah_result::precision::Goal;
use mynah_workload::quantity::{parse_count, parse_time};
use mynah_workload::{FlowOptions, Limits, OptionError, Source};
use std::path::PathBuf;

/// Options with their values, as people write them.
pub type Words = Vec<(String, String)>;

/// What a run as a whole has, beside its drive and its flows. Named as in experiment files, and as
/// the options of `mynah sim`.
pub const SETTINGS: [&str; 12] = [
    "seed",
    "precondition",
    "settle",
    "ramp_time",
    "precision",
    "until_steady",
    "load_state",
    "alone",
    "require_steady",
    "drives",
    "uplink",
    "latency",
];

/// What is wrong with a description.
#[derive(Debug, thiserror::Error)]
pub enum DescriptionError {
    /// A name that no option has.
    #[error("`{name}` is not an option of a {of}")]
    Unknown {
        /// Of what: `flow` or `simulation`.
        of: &'static str,
        /// The option's name, as it was written.
        name: String,
        /// What was probably meant, and what there is.
        help: String,
    },
    /// A value that cannot be used.
    #[error(transparent)]
    Option(OptionError),
    /// There are no flows, or they do not go together.
    #[error("{0}")]
    Flows(String),
    /// Any other error of the simulation.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

/// A simulation's flows and settings in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Options of each flow; at least one flow.
    pub flows: Vec<Words>,
    /// Settings of the whole run, of [`SETTINGS`].
    pub settings: Words,
}

impl Description {
    /// The simulation of `drive` that this describes.
    ///
    /// # Errors
    /// See [`DescriptionError`].
    pub fn simulation(&self, drive: &DriveFile) -> Result<Simulation, DescriptionError> {
        let settings = Settings::read(&self.settings)?;
        let mut flows = Vec::new();
        for (index, words) in self.flows.iter().enumerate() {
            flows.push(flow(words, &format!("flow-{}", index + 1))?);
        }
        if flows.is_empty() {
            return Err(DescriptionError::Flows("no flows: nothing would be done".to_owned()));
        }
        check_flows(&flows).map_err(|(_, problem)| DescriptionError::Flows(problem))?;
        let mut simulation = Simulation::with(&drive.name, drive.config.clone());
        simulation.flows = ExperimentFlow::place(&flows, &mut simulation.config);
        if let Some(every) = settings.options.until_steady {
            // Those that say no end go on until the steady state ends them.
            for flow in simulation.flows.iter_mut().filter(|flow| flow.limits.auto) {
                let said = self.flows.iter().flatten();
                if !said.clone().any(|(name, value)| name == "runtime" && value == "auto") {
                    flow.limits = Limits::default();
                    limit_rounds(std::slice::from_mut(flow), every);
                }
            }
        }
        if let Some(precision) = self.settings.iter().find(|(name, _)| name == "precision")
            && !simulation.is_auto()
        {
            let problem = "every flow says when it ends, so this has no effect; flows with the \
                           runtime auto end when their figures are known";
            return Err(problem_of("precision", &precision.1, problem));
        }
        simulation.options = settings.options;
        simulation.enclosure = settings.enclosure;
        simulation.alone = settings.alone;
        simulation.require_steady = settings.require_steady;
        if let Some(seed) = settings.seed {
            simulation = simulation.seed(seed);
        }
        simulation.check_ends()?;
        Ok(simulation)
    }

    /// The flows and settings of `simulation`, which `experiment` says, in words.
    ///
    /// # Errors
    /// If options cannot say a flow.
    pub fn of_experiment(
        simulation: &Simulation,
        experiment: &Experiment,
    ) -> Result<Description, SimulationError> {
        let settings = settings_with(simulation, experiment.seed);
        Ok(Description { settings, ..Description::of(simulation)? })
    }

    /// The flows and settings of `simulation`, in words that read as the very same, but for the seed of
    /// the drive.
    ///
    /// # Errors
    /// If options cannot say a flow.
    pub fn of(simulation: &Simulation) -> Result<Description, SimulationError> {
        let mut flows = Vec::new();
        for spec in &simulation.flows {
            let options = FlowOptions::of(spec).ok_or_else(|| {
                let problem = format!("flow `{}` is one that options cannot say", spec.name);
                SimulationError::NoFile(problem)
            })?;
            flows.push(words_of(&options));
        }
        Ok(Description { flows, settings: settings_of(simulation) })
    }
}

/// The flow that `words` describe, called `default_name` unless they say otherwise.
///
/// # Errors
/// If an option does not exist, or its value cannot be used.
pub fn flow(
    words: &[(String, String)],
    default_name: &str,
) -> Result<ExperimentFlow, DescriptionError> {
    let mut options = FlowOptions::default();
    let mut own: Option<Namespace> = None;
    for (name, value) in words {
        if let Some(at) = RESOURCES.iter().position(|resource| resource == name) {
            let ids = ids(value).ok_or_else(|| {
                problem_of(RESOURCES[at], value, "a list of numbers from 0 belongs here: 0,1,2")
            })?;
            let own = own.get_or_insert_with(Namespace::whole_drive);
            *[&mut own.channels, &mut own.chips, &mut own.dies, &mut own.planes][at] = ids;
        } else if !options.set(name, value) {
            let valid = [FlowOptions::NAMES, &RESOURCES].concat();
            let help = drive::choices(name, &valid, "options");
            return Err(DescriptionError::Unknown { of: "flow", name: name.clone(), help });
        }
    }
    if own.is_some()
        && let Some(namespace) = &options.namespace
    {
        let problem = "channels, chips, dies and planes give the flow a namespace of its own; \
                       leave out one of the two";
        return Err(problem_of("namespace", namespace, problem));
    }
    if options.trace.as_deref() == Some("-") {
        return Err(problem_of("trace", "-", "name a file: standard input is not read here"));
    }
    let mut spec = options.flow(default_name).map_err(DescriptionError::Option)?;
    if spec.limits == Limits::default() && !spec.has_an_end() {
        spec.limits.auto = true;
    }
    Ok(ExperimentFlow { spec, own_namespace: own })
}

/// The shortest words that describe the same flow; `words` themselves if no options are exact.
///
/// # Errors
/// As [`flow`].
pub fn canonical(words: &[(String, String)]) -> Result<Words, DescriptionError> {
    let named = words.iter().any(|(name, _)| name == "name");
    let ExperimentFlow { spec, own_namespace } = flow(words, "flow")?;
    let Some(mut options) = FlowOptions::of(&spec) else { return Ok(words.to_vec()) };
    if !named {
        options.name = None;
    }
    let mut canonical = words_of(&options);
    canonical.extend(own_namespace.iter().flat_map(resource_words));
    Ok(canonical)
}

/// The words that give a flow a namespace of its own.
fn resource_words(own: &Namespace) -> Words {
    let lists = [&own.channels, &own.chips, &own.dies, &own.planes];
    let said = RESOURCES.iter().zip(lists).filter(|(_, ids)| !ids.is_empty());
    let word = |(name, ids): (&&str, &Vec<u32>)| {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        ((*name).to_owned(), ids.join(","))
    };
    said.map(word).collect()
}

/// The traces that a simulation reads.
pub fn traces(simulation: &Simulation) -> impl Iterator<Item = &std::path::Path> {
    simulation.flows.iter().filter_map(|flow| match &flow.source {
        Source::Trace(trace) => Some(trace.path.as_path()),
        _ => None,
    })
}

fn words_of(options: &FlowOptions) -> Words {
    let given = FlowOptions::NAMES.iter().filter_map(|name| Some((name, options.get(name)?)));
    given.map(|(name, value)| ((*name).to_owned(), value.to_owned())).collect()
}

/// Numbers from 0 with commas between, in order and without repetition.
fn ids(text: &str) -> Option<Vec<u32>> {
    let mut ids: Vec<u32> =
        text.split(',').map(|id| id.trim().parse().ok()).collect::<Option<_>>()?;
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

fn problem_of(option: &'static str, value: &str, problem: impl Into<String>) -> DescriptionError {
    let (value, problem) = (value.to_owned(), problem.into());
    DescriptionError::Option(OptionError { option, value, problem })
}

/// Settings of the run, parsed.
#[derive(Default)]
struct Settings {
    seed: Option<u64>,
    options: RunOptions,
    alone: bool,
    require_steady: bool,
    enclosure: Option<Enclosure>,
}

impl Settings {
    fn read(words: &[(String, String)]) -> Result<Settings, DescriptionError> {
        let mut settings = Settings::default();
        let (mut drives, mut uplink, mut latency) = (None, None, None);
        for (name, value) in words {
            let Some(option) = SETTINGS.iter().find(|setting| *setting == name) else {
                let help = drive::choices(name, &SETTINGS, "options");
                let name = name.clone();
                return Err(DescriptionError::Unknown { of: "simulation", name, help });
            };
            let refuse = |problem: String| problem_of(option, value, problem);
            let options = &mut settings.options;
            match *option {
                "seed" => settings.seed = Some(parse_count(value).map_err(refuse)?),
                "precondition" => {
                    options.set_start(value.parse::<Start>().map_err(refuse)?);
                }
                "settle" => options.settle = value.parse::<Settle>().map_err(refuse)?,
                "ramp_time" => options.ramp_time = parse_time(value).map_err(refuse)?,
                "precision" => {
                    let goal = value.parse::<Goal>();
                    options.precision = goal.map_err(|error| refuse(error.to_string()))?;
                }
                "until_steady" => {
                    let every = parse_time(value).map_err(refuse)?;
                    if every.is_zero() {
                        return Err(refuse("must be more than nothing".to_owned()));
                    }
                    options.until_steady = Some(every);
                }
                "load_state" => options.load_state = Some(PathBuf::from(value)),
                "alone" => settings.alone = flag(value).map_err(refuse)?,
                "require_steady" => settings.require_steady = flag(value).map_err(refuse)?,
                "drives" => drives = Some((parse_count(value).map_err(refuse)?, value)),
                "uplink" => {
                    let rate = value.parse::<BitRate>();
                    uplink = Some((rate.map_err(|error| refuse(error.to_string()))?.0, value));
                }
                _ => latency = Some((parse_time(value).map_err(refuse)?, value)),
            }
        }
        let switch = uplink.map(|(_, v)| ("uplink", v)).or(latency.map(|(_, v)| ("latency", v)));
        settings.enclosure = match (drives, switch) {
            (None, None) => None,
            (None, Some((option, value))) => {
                let problem = "a switch has no effect without several drives (drives)";
                return Err(problem_of(option, value, problem));
            }
            (Some((count, text)), _) => {
                let rate = uplink.map(|(rate, _)| rate);
                let each_way = latency.map(|(time, _)| time);
                let made = Enclosure::new(count, rate, each_way);
                Some(made.map_err(|(option, problem)| {
                    let of = [("uplink", uplink.map(|u| u.1)), ("latency", latency.map(|l| l.1))];
                    let value = of.iter().find(|(name, _)| *name == option).and_then(|of| of.1);
                    problem_of(option, value.unwrap_or(text), problem)
                })?)
            }
        };
        Ok(settings)
    }
}

/// Settings of `simulation` that differ from their defaults.
fn settings_of(simulation: &Simulation) -> Words {
    let options = &simulation.options;
    let default = RunOptions::default();
    let time = |span| Duration(span).to_string();
    let enclosure = simulation.enclosure;
    let said = [
        ("seed", (options.seed != default.seed).then(|| options.seed.to_string())),
        ("precondition", (options.start() != default.start()).then(|| options.start().to_string())),
        ("settle", (options.settle != default.settle).then(|| options.settle.to_string())),
        ("ramp_time", (!options.ramp_time.is_zero()).then(|| time(options.ramp_time))),
        (
            "precision",
            (options.precision != default.precision).then(|| options.precision.to_string()),
        ),
        ("until_steady", options.until_steady.map(time)),
        ("load_state", options.load_state.as_ref().map(|path| path.display().to_string())),
        ("alone", simulation.alone.then(|| "true".to_owned())),
        ("require_steady", simulation.require_steady.then(|| "true".to_owned())),
        ("drives", enclosure.map(|it| it.drives.to_string())),
        (
            "uplink",
            enclosure.and_then(|it| it.uplink_bits_per_s).map(|rate| BitRate(rate).to_string()),
        ),
        ("latency", enclosure.filter(|it| !it.latency.is_zero()).map(|it| time(it.latency))),
    ];
    said.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Like [`settings_of`], for an experiment with or without a seed. Writing the default seed is not
/// the same as writing none, for drives have seeds of their own.
fn settings_with(simulation: &Simulation, seed: Option<u64>) -> Words {
    let mut settings = settings_of(simulation);
    if let Some(seed) = seed
        && !settings.iter().any(|(name, _)| name == "seed")
    {
        settings.insert(0, ("seed".to_owned(), seed.to_string()));
    }
    settings
}

fn flag(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("neither true nor false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Words {
        let pair = |word: &str| {
            let (name, value) = word.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        };
        text.split_whitespace().map(pair).collect()
    }

    fn described(flows: &[&str], settings: &str) -> Result<Simulation, DescriptionError> {
        let drive = drive::load("mqsim", &[]).unwrap();
        let flows = flows.iter().map(|flow| words(flow)).collect();
        Description { flows, settings: words(settings) }.simulation(&drive)
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        let flows = [
            "name=a rw=randread bs=4096 iodepth=8 runtime=10ms",
            "rw=randwrite bs=8k number_ios=100 namespace=1",
        ];
        let settings = "seed=7 precondition=fill settle=off ramp_time=1ms alone=true";
        let simulation = described(&flows, settings).unwrap();
        let again = Description::of(&simulation).unwrap();
        assert_eq!(again.settings, words(settings));
        let flows: Vec<String> = again
            .flows
            .iter()
            .map(|flow| flow.iter().map(|(name, value)| format!("{name}={value} ")).collect())
            .collect();
        let flows: Vec<&str> = flows.iter().map(String::as_str).collect();
        let same = described(&flows, settings).unwrap();
        assert_eq!(same.flows, simulation.flows);
        assert_eq!(
            canonical(&words("rw=randread bs=4096")).unwrap(),
            canonical(&words("bs=4k rw=randread runtime=auto")).unwrap()
        );
        let own = "rw=randread channels=3,1,1 runtime=1ms";
        assert!(canonical(&words(own)).unwrap().contains(&("channels".into(), "1,3".into())));
    }

    #[test]
    fn mistakes_name_the_option() {
        let refused = |flows: &[&str], settings: &str| match described(flows, settings) {
            Err(DescriptionError::Unknown { name, help, .. }) => format!("{name}? {help}"),
            Err(error) => error.to_string(),
            Ok(_) => panic!("{flows:?} {settings}: refused nothing"),
        };
        assert!(refused(&["iodept=8"], "").starts_with("iodept? did you mean `iodepth`?"));
        assert!(refused(&["rw=read"], "sed=8").starts_with("sed? did you mean `seed`?"));
        assert!(refused(&["rw=reed"], "").starts_with("rw = reed: "));
        assert!(refused(&["rw=read"], "settle=soon").starts_with("settle = soon: "));
        assert!(refused(&["rw=read runtime=1ms"], "precision=2%").starts_with("precision = 2%: "));
        assert!(refused(&["trace=-"], "").starts_with("trace = -: "));
        assert!(refused(&["name=a rw=read", "name=a rw=read"], "").contains("two flows"));
        assert!(refused(&["rw=read channels=x"], "").starts_with("channels = x: "));
        assert!(refused(&["rw=read namespace=1 channels=0"], "").starts_with("namespace = 1: "));
        assert!(refused(&["rw=read"], "uplink=40Gbit/s").starts_with("uplink = 40Gbit/s: "));
        assert!(refused(&["rw=read"], "drives=2 latency=1s").starts_with("latency = 1s: "));
        assert!(refused(&["rw=read"], "drives=1000").starts_with("drives = 1000: "));
        assert!(refused(&["rw=read"], "until_steady=0s").starts_with("until_steady = 0s: "));
        assert!(refused(&[], "").starts_with("no flows"));
    }
}
