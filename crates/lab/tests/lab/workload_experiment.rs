//! Experiment files: what is read, and what is said about those that cannot be used.

use mynah_lab::experiment::{Experiment, Precondition};
use mynah_lab::mqsim;
use mynah_model::config::Namespace;
use mynah_stamp::Span;
use mynah_workload::Source;

const EXPERIMENT: &str = r#"
schema = "mynah.experiment/1"
drive = "fast"
seed = 7
precondition = "none"
ramp_time = "100ms"
set = { gc = { start = 0.1, victim = "greedy" }, "over_provisioning" = 0.07 }

[[flow]]
rw = "randrw"
bs = "4KiB"
iodepth = 32
rwmixread = 70
runtime = "1s"
channels = [1, 0]

[[flow]]
name = "log"
rw = "write"
bs = 65536
rate_iops = "1000"
number_ios = 100_000
"#;

#[test]
fn an_experiment_is_read() {
    let experiment = Experiment::parse("e.toml", EXPERIMENT).unwrap();
    assert_eq!(experiment.drive, "fast");
    assert_eq!(experiment.seed, Some(7));
    assert_eq!(experiment.precondition, Some(Precondition::None.into()));
    assert_eq!(experiment.ramp_time, Some(Span::from_ms(100)));
    let set: Vec<String> = experiment.overrides.iter().map(ToString::to_string).collect();
    assert_eq!(set, ["gc.start=0.1", "gc.victim=greedy", "over_provisioning=0.07"]);
    let [random, log] = &experiment.flows[..] else { panic!("two flows") };
    assert_eq!(random.spec.name, "flow-1");
    assert_eq!(random.spec.depth(), Some(32));
    let own = Namespace { channels: vec![0, 1], ..Namespace::whole_drive() };
    assert_eq!(random.own_namespace, Some(own.clone()));
    assert_eq!((log.spec.name.as_str(), log.spec.depth()), ("log", None));
    assert_eq!(log.spec.limits.requests, Some(100_000));

    let mut config = a_config();
    config.namespaces = vec![Namespace::whole_drive()];
    let flows = experiment.place(&mut config);
    assert_eq!(config.namespaces, [Namespace::whole_drive(), own.clone()]);
    assert_eq!((flows[0].namespace.0, flows[1].namespace.0), (2, 1));

    let mut alone = experiment.clone();
    alone.flows.truncate(1);
    let flows = alone.place(&mut config);
    assert_eq!((config.namespaces, flows[0].namespace.0), (vec![own], 1));
}

fn a_config() -> mynah_model::config::Config {
    let drive = "<Execution_Parameter_Set><Device_Parameter_Set/></Execution_Parameter_Set>";
    let workload = "<MQSim_IO_Scenarios><IO_Scenario><IO_Flow_Parameter_Set_Trace_Based>\
        <File_Path>x</File_Path></IO_Flow_Parameter_Set_Trace_Based></IO_Scenario>\
        </MQSim_IO_Scenarios>";
    let import =
        mqsim::parse(("drive", drive.as_bytes()), ("workload", workload.as_bytes()), true).unwrap();
    import.scenarios[0].config.clone()
}

#[test]
fn overrides_may_be_a_list() {
    let text = EXPERIMENT.replace(
        "set = { gc = { start = 0.1, victim = \"greedy\" }, \"over_provisioning\" = 0.07 }",
        "set = [\"gc.start = 0.1\", \"cache.bytes=1MiB\"]",
    );
    let set: Vec<String> = Experiment::parse("e.toml", &text)
        .unwrap()
        .overrides
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(set, ["gc.start=0.1", "cache.bytes=1MiB"]);
}

#[test]
fn files_are_looked_for_beside_the_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.toml");
    let text = "schema = \"mynah.experiment/1\"\ndrive = \"mine.toml\"\n\
                [[flow]]\ntrace = \"a.trace\"\n[[flow]]\ntrace = \"-\"\n";
    std::fs::write(&path, text).unwrap();
    let experiment = Experiment::load(&path).unwrap();
    assert_eq!(experiment.drive, folder.path().join("mine.toml").to_str().unwrap());
    let Source::Trace(trace) = &experiment.flows[0].spec.source else { panic!("a trace") };
    assert_eq!(trace.path, folder.path().join("a.trace"));
    let Source::Trace(trace) = &experiment.flows[1].spec.source else { panic!("a trace") };
    assert_eq!(trace.path.to_str(), Some("-"));
}

#[test]
fn what_cannot_be_used_is_shown_with_its_place() {
    let edits = [
        ("mynah.experiment/1", "mynah.experiment/2"),
        ("drive = \"fast\"", "drive = \"\""),
        ("drive = \"fast\"\n", ""),
        ("seed = 7", "seed = -7"),
        ("seed = 7", "sede = 7"),
        ("seed = 7", "[sweep]"),
        ("\"none\"", "\"warm\""),
        ("\"100ms\"", "\"100 parsecs\""),
        ("\"100ms\"", "[1]"),
        ("{ gc = { start = 0.1, victim = \"greedy\" }, \"over_provisioning\" = 0.07 }", "[\"gc\"]"),
        ("iodepth = 32", "iodepth = 0"),
        ("iodepth = 32", "io_depth = 32"),
        ("iodepth = 32", "iodepth = [32]"),
        ("\"4KiB\"", "\"4Kg\""),
        ("runtime = \"1s\"", "runtime = \"auto\"\nnumber_ios = 5"),
        ("[1, 0]", "[]"),
        ("[1, 0]", "[-1]"),
        ("[1, 0]", "[0]\nnamespace = 2"),
        ("\"log\"", "\"flow-1\""),
        ("rw = \"write\"", "rw = \"write"),
        ("rate_iops = \"1000\"", "rate_iops = \"1000\"\nrate_interval = \"1ms\""),
    ];
    let mut said = String::new();
    for (old, new) in edits {
        let text = EXPERIMENT.replacen(old, new, 1);
        assert_ne!(text, EXPERIMENT, "{old}");
        said += &format!("{}\n", Experiment::parse("e.toml", &text).unwrap_err());
    }
    let none = "schema = \"mynah.experiment/1\"\ndrive = \"fast\"\n";
    said += &format!("{}\n", Experiment::parse("e.toml", none).unwrap_err());
    said += &format!("{}\n", Experiment::load("no/such.toml".as_ref()).unwrap_err());
    insta::assert_snapshot!("messages", said);
}

#[test]
fn a_sweep_is_every_combination() {
    let text = format!(
        "{EXPERIMENT}\n[sweep]\n\"flow.log.bs\" = [\"4k\", 512]\n\
         \"seed, set.over_provisioning\" = [[1, \"7%\"], [2, \"28%\"], [3, 0.5]]\n\
         \"flow.*.priority\" = [\"low\"]\n"
    );
    let points = Experiment::parse_points("e.toml", &text).unwrap();
    assert_eq!(points.len(), 6);
    let last = &points[5];
    let value = |at: usize| (last.values[at].0.as_str(), last.values[at].1.as_str());
    assert_eq!(value(0), ("flow.log.bs", "512"));
    assert_eq!(value(1), ("seed", "3"));
    assert_eq!(value(2), ("set.over_provisioning", "0.5"));
    assert_eq!(value(3), ("flow.*.priority", "low"));
    assert_eq!(last.experiment.seed, Some(3));
    let changed = last.experiment.overrides.last().unwrap().to_string();
    assert_eq!(changed, "over_provisioning=0.5", "what is swept comes after what is set");
    let low = mynah_model::config::Priority::Low;
    assert!(last.experiment.flows.iter().all(|flow| flow.spec.priority == low));
    assert_eq!(points[2].experiment.seed, Some(3), "the last axis of several values is fastest");
    assert!(Experiment::parse("e.toml", &text).unwrap_err().to_string().contains("a sweep"));
    // Without one there is one point, the experiment.
    let points = Experiment::parse_points("e.toml", EXPERIMENT).unwrap();
    assert_eq!(points.len(), 1);
    assert_eq!(points[0].experiment, Experiment::parse("e.toml", EXPERIMENT).unwrap());
}

#[test]
fn a_sweep_that_cannot_be_run_is_refused() {
    for (sweep, said) in [
        ("\"flow.log.bs\" = 4096", "a list of values"),
        ("\"flow.log.bs\" = []", "a list of values"),
        ("\"flow.nobody.bs\" = [4096]", "no flow is called `nobody`"),
        ("\"flow.log.size_of\" = [4096]", "not an option of a flow"),
        ("\"flow.log.bs\" = [\"x\"]", "bs = x"),
        ("bs = [4096]", "cannot be varied"),
        ("\"seed, set.gc.start\" = [1, 2]", "a list of 2"),
        ("\"flow.log.bs\" = [[4096]]", "not a list"),
        ("seed = [\"x\"]", "seed: `x` does not start with a number"),
        ("seed = [-1]", "seed: `-1` is less than 0"),
    ] {
        let text = format!("{EXPERIMENT}\n[sweep]\n{sweep}\n");
        let error = Experiment::parse_points("e.toml", &text).unwrap_err().to_string();
        assert!(error.contains(said), "{sweep}: {error}");
    }
    let list = (0..101).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let text = format!("{EXPERIMENT}\n[sweep]\nseed = [{list}]\n\"set.gc.start\" = [{list}]\n");
    let error = Experiment::parse_points("e.toml", &text).unwrap_err().to_string();
    assert!(error.contains("more than 10000 points"), "{error}");
}
