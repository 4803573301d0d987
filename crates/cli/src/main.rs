//! The `mynah` command: parse, call, print. What is simulated, and how, is `mynah-lab`'s.

mod args;
mod batch;
mod bench;
mod cache;
mod calibrate;
mod compare;
mod demo;
mod doctor;
mod drives;
mod failure;
mod fio_words;
mod guest;
mod help;
mod hgrm;
mod identify;
mod key;
mod kv;
mod machine;
mod nvme;
mod print;
mod profile;
mod progress;
mod serve;
mod shell;
mod sim;
mod target;
mod values;
mod watch;

use args::{StatesArgs, Verb};
use failure::Failure;
use mynah_lab::StateCache;
use std::process::ExitCode;

/// A drive's tables are large, and used at random.
#[global_allocator]
static ALLOCATOR: mynah_memory::HugePages = mynah_memory::HugePages;

/// Exit code of a run that was interrupted.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(error) => {
            failure::install();
            match fio_words::explain(&error) {
                Some(failure) => return failure.report(),
                None => error.exit(),
            }
        }
    };
    failure::install();
    mynah_memory::end_without_memory(failure::without_memory);
    mynah_runtime::signals::refuse_large_files();
    // It may have to be before there is a second thread, as the one that waits for Ctrl-C is.
    let task = match &cli.verb {
        Verb::Profile { what: None, attach } => attach.task.as_deref().map(profile::task::begin),
        _ => None,
    };
    let task = match task.transpose() {
        Ok(task) => task,
        Err(failure) => return failure.report(),
    };
    progress::catch_interrupts();
    match cli.verb.states().map_or(Ok(None), StatesArgs::states) {
        Ok(states) => states.into_iter().for_each(StateCache::use_everywhere),
        Err(failure) => return failure.report(),
    }
    let done = match cli.verb {
        Verb::Sim(sim) => sim::run(&sim),
        Verb::Bench(bench) => bench::run(&bench),
        Verb::Kv(kv) => return kv::run(&kv).unwrap_or_else(Failure::report),
        Verb::Nvme(nvme) => return nvme::run(&nvme).unwrap_or_else(Failure::report),
        Verb::Serve(serve) => return serve::run(&serve).unwrap_or_else(Failure::report),
        Verb::Doctor(args) => return doctor::run(&args).unwrap_or_else(Failure::report),
        Verb::Guest(guest) => return guest::run(&guest).unwrap_or_else(Failure::report),
        Verb::Demo(demo) => demo::run(&demo),
        Verb::Compare(args) => compare::run(&args),
        Verb::Profile { what: Some(what), .. } => profile::run(&what),
        Verb::Profile { what: None, attach } => match &task {
            Some(task) => profile::task::run(task, &attach),
            None => profile::attach::run(&attach),
        },
        Verb::Calibrate(args) => return calibrate::run(&args).unwrap_or_else(Failure::report),
        Verb::Identify(args) => return identify::run(&args).unwrap_or_else(Failure::report),
        Verb::Drives { what } => drives::run(what),
        Verb::Cache(args) => cache::run(&args),
        Verb::Completions { shell } => shell::completions(shell),
        Verb::Man { dir } => shell::man(&dir),
        Verb::Help { what } => help::run(&what),
    };
    // Of runs that were not waited for.
    mynah_result::output::remove_unfinished();
    match done {
        Ok(interrupted) if interrupted => ExitCode::from(INTERRUPTED),
        Ok(_) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
