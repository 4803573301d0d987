//! Processes of the program, which end with the test, and what they say.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// The program with these arguments.
pub(crate) fn mynah(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mynah"));
    command.args(args);
    command
}

/// A serving process, killed when it is dropped.
pub(crate) struct Served {
    pub(crate) child: Child,
    stdout: BufReader<ChildStdout>,
    /// What it said when it was ready.
    pub(crate) ready: Value,
}

impl Served {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(command: &mut Command) -> Served {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
        stdout.read_line(&mut line).expect("a line");
        let ready = line.strip_prefix("ready ").unwrap_or_else(|| panic!("not ready: {line}"));
        let ready = serde_json::from_str(ready).expect("JSON");
        Served { child, stdout, ready }
    }

    /// Its first address.
    pub(crate) fn address(&self) -> &str {
        str_of(&self.ready["addresses"][0])
    }

    /// Ends it in order: its exit code, and what it said on both outputs.
    pub(crate) fn stop(self) -> (i32, String, String) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is there");
        self.ended()
    }

    /// Waits until it has ended: its exit code, and what it said on both outputs.
    pub(crate) fn ended(mut self) -> (i32, String, String) {
        let (mut said, mut errors) = (String::new(), String::new());
        self.stdout.read_to_string(&mut said).expect("text");
        self.child.stderr.take().unwrap().read_to_string(&mut errors).expect("text");
        (self.child.wait().unwrap().code().expect("an exit code"), said, errors)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A load on a target, whose result goes to the standard output.
pub(crate) fn start_bench(target: &str, args: &[&str]) -> Child {
    mynah(&["bench", target, "--json", "-", "--timeout", "10s"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// The same, ended.
pub(crate) fn run_bench(target: &str, args: &[&str]) -> Output {
    start_bench(target, args).wait_with_output().expect("it ends")
}

/// What was said, without the breaks of its lines.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\n  │ ", " ")
}

/// The result of a run that ended with `code`, checked against the schema.
pub(crate) fn result(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/result.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    value
}

pub(crate) fn str_of(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}
