//! The commands of `docs/how-to.md` and `docs/placement.md` do what the pages say: each section runs as
//! one script, in a folder of its own, and what it shows is among what the commands print, numbers aside.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// A section: the files that it shows, its commands, and what follows each block of them.
#[derive(Default)]
struct Section {
    title: String,
    files: Vec<(String, String)>,
    commands: Vec<String>,
    /// What is shown, and after how many blocks of commands.
    shown: Vec<(usize, String)>,
}

/// A page's sections with commands. A file's name stands before it in backquotes, and a colon.
fn sections(page: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = vec![];
    let page = std::fs::read_to_string(Path::new(DOCS).join(page)).unwrap();
    let mut lines = page.lines();
    let mut named = String::new();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section { title: title.to_owned(), ..Section::default() });
        }
        let Some(section) = sections.last_mut() else { continue };
        if let Some(kind) = line.strip_prefix("```") {
            let block = lines.by_ref().take_while(|line| *line != "```");
            let block = block.map(|line| format!("{line}\n")).collect::<String>();
            match kind {
                "toml" => section.files.push((named.clone(), block)),
                "sh" => section.commands.push(block),
                "text" => section.shown.push((section.commands.len(), block)),
                other => panic!("a block of {other}"),
            }
        }
        if let Some(name) = line.strip_suffix("`:").and_then(|line| line.rsplit('`').next()) {
            named = name.to_owned();
        }
    }
    sections.retain(|section| !section.commands.is_empty());
    sections
}

/// A line without its numbers, their units, hashes, bars and spaces.
fn plain(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        let hash = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
        let is_hash = hash.is_some_and(|hash| hash.chars().all(|c| c.is_ascii_hexdigit()));
        let is_bar = word.chars().all(|c| ('\u{2580}'..='\u{259f}').contains(&c));
        if is_number || is_hash || is_bar {
            return "#".to_owned();
        }
        // IOPS=65.1k, window 41900us-45300us
        let mut text = String::new();
        let mut in_number = false;
        for c in word.chars() {
            in_number = c.is_ascii_digit() || in_number && (c.is_ascii_alphanumeric() || c == '.');
            match in_number {
                true if !text.ends_with('#') => text.push('#'),
                true => {}
                false => text.push(c),
            }
        }
        text
    });
    let words = words.filter(|word| word != "#" && !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Runs a section; what each block of its commands printed.
fn run(section: &Section, folder: &Path) -> Vec<String> {
    let mut script = "set -eu\n".to_owned();
    for (at, commands) in section.commands.iter().enumerate() {
        let _ = write!(script, "exec > printed-{at} 2>&1\n{commands}");
    }
    // Nothing outlives its section, however that ends.
    script.insert_str(0, "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    for (name, text) in &section.files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_mynah")).parent().unwrap().display();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    // What never ends is a failure, too.
    let status = Command::new("timeout")
        .args(["300", "bash", "-c", &script])
        .current_dir(folder)
        .env("PATH", path)
        .stdin(std::process::Stdio::null())
        .status()
        .unwrap();
    let printed = (0..section.commands.len()).map(|at| {
        std::fs::read_to_string(folder.join(format!("printed-{at}"))).unwrap_or_default()
    });
    let printed: Vec<String> = printed.collect();
    assert!(status.success(), "{}: {status}\n{}", section.title, printed.join("--\n"));
    printed
}

/// What a section says that its runs show, of the files that they have left.
fn claims(title: &str, folder: &Path, printed: &[String]) {
    let json = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
    };
    match title {
        "Choose over-provisioning" => {
            assert!(printed[0].contains("steadiness of all: steady"), "{}", printed[0]);
            let table = std::fs::read_to_string(folder.join("op.csv")).unwrap();
            let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
            let names = rows.next().unwrap();
            let column =
                |what: &dyn Fn(&str) -> bool| names.iter().position(|it| what(it)).unwrap();
            let (iops, waf) =
                (column(&|it| it.contains("iops")), column(&|it| it.ends_with("waf")));
            let values: Vec<[f64; 2]> =
                rows.map(|row| [iops, waf].map(|at| row[at].parse().unwrap())).collect();
            let [[iops_7, waf_7], [iops_15, waf_15], _] = values[..] else { panic!("{table}") };
            assert!((0.22..0.36).contains(&(waf_15 / waf_7)), "{waf_7} {waf_15}");
            assert!((3.0..4.3).contains(&(iops_15 / iops_7)), "{iops_7} {iops_15}");
        }
        "FDP in five minutes" => {
            let rows: Vec<Vec<&str>> =
                printed[0].lines().map(|line| line.split_whitespace().collect()).collect();
            let waf = |handle: &str| -> f64 {
                let row = rows.iter().find(|row| row.first() == Some(&handle)).unwrap();
                row[7].parse().unwrap()
            };
            assert!((5.9..7.2).contains(&waf("0")), "{}", printed[0]);
            assert!((1.3..1.6).contains(&waf("1")), "{}", printed[0]);
            assert!(printed[0].contains("steadiness of all: steady"), "{}", printed[0]);
        }
        "Ask a drive that is served" => {
            assert!(printed[0].contains("hbmw : 8388608"), "{}", printed[0]);
        }
        "Find out why p99.9 is bad" => {
            let read = |name: &str| json(name)["flows"][0]["read"]["lat_ns"].clone();
            let tail = |name: &str| read(name)["percentiles"]["99.9"].as_f64().unwrap();
            let (before, better) = (tail("before.json"), tail("better.json"));
            assert!(before > 3e6 && better < before / 3.5, "{before} {better}");
            let mean = |name: &str| read(name)["mean"].as_f64().unwrap();
            let falls = 1.0 - mean("better.json") / mean("before.json");
            assert!((0.1..0.3).contains(&falls), "{falls}");
            for name in ["before.json", "better.json"] {
                assert_eq!(json(name)["steadiness"]["verdict"], "steady", "{name}");
            }
        }
        _ => {}
    }
}

/// Runs each section of a page, and holds what is printed to what it says.
fn holds(page: &str, at_least: usize) {
    let sections = sections(page);
    assert!(sections.len() >= at_least, "{page}: {}", sections.len());
    for section in &sections {
        let folder = tempfile::tempdir().unwrap();
        let printed = run(section, folder.path());
        claims(&section.title, folder.path(), &printed);
        for (after, shown) in &section.shown {
            let printed = &printed[after - 1];
            let mut rest = printed.lines().map(plain);
            for line in shown.lines().map(plain).filter(|line| !line.is_empty() && line != "…") {
                assert!(
                    rest.any(|printed| printed == line),
                    "{}: `{line}` is not printed in its place:\n{printed}",
                    section.title
                );
            }
        }
    }
}

#[test]
fn its_commands_do_what_the_page_says() {
    holds("how-to.md", 7);
}

#[test]
fn data_placement_saves_what_the_page_says() {
    holds("placement.md", 3);
}
