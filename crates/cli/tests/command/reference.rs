//! `docs/reference.md` is made from what the program itself goes by: the schema of drive files, the
//! declarations of flow options and stages, and the forms of faults.
//!
//! `MYNAH_UPDATE_DOCS=1 cargo test -p mynah --test command reference` writes it.

use mynah_stamp::Stage;
use mynah_workload::FlowOptions;
use serde_json::Value;
use std::fmt::Write;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md");

/// Text for a cell of a table: one line, without what would end the cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// A key of a drive file.
struct Key {
    name: String,
    values: String,
    about: String,
}

struct Schema(Value);

impl Schema {
    /// What `$ref` names.
    fn resolve<'a>(&'a self, of: &'a Value) -> &'a Value {
        let name = of["$ref"].as_str().and_then(|name| name.rsplit('/').next());
        name.map_or(of, |name| &self.0["$defs"][name])
    }

    /// The one that is not null.
    fn given<'a>(&'a self, of: &'a Value) -> &'a Value {
        let is_null = |of: &Value| of["type"] == "null";
        let of = match of["anyOf"].as_array() {
            Some(any) if any.iter().any(is_null) => {
                any.iter().find(|of| !is_null(of)).expect("one is not null")
            }
            _ => of,
        };
        self.resolve(of)
    }

    /// What may stand there.
    fn values(&self, of: &Value) -> String {
        let of = self.given(of);
        if let Some(any) = of["oneOf"].as_array() {
            let named =
                any.iter().filter_map(|of| of["const"].as_str().map(|name| format!("`{name}`")));
            let named: Vec<String> = named.collect();
            if !named.is_empty() {
                return named.join(", ");
            }
        }
        if let Some(names) = of["enum"].as_array() {
            let names = names.iter().filter_map(Value::as_str).map(|name| format!("`{name}`"));
            return names.collect::<Vec<_>>().join(", ");
        }
        let types: Vec<&str> = match &of["type"] {
            Value::String(one) => vec![one],
            Value::Array(some) => some.iter().filter_map(Value::as_str).collect(),
            _ => vec![],
        };
        let types: Vec<&str> = types.into_iter().filter(|it| *it != "null").collect();
        match (types.as_slice(), of["anyOf"].as_array()) {
            (["integer"], _) => "a whole number".to_owned(),
            (["number"], _) => "a number".to_owned(),
            (["boolean"], _) => "`true`, `false`".to_owned(),
            (["array"], _) => format!("a list: {}", self.values(&of["items"])),
            (["object"], _) => "a table".to_owned(),
            // Of quantities the description shows one.
            _ => match of["description"].as_str().and_then(|about| about.split_once('`')) {
                Some((_, rest)) => {
                    let example = rest.split('`').next().unwrap_or_default();
                    format!("as `{example}`")
                }
                None => "text".to_owned(),
            },
        }
    }

    /// All keys of a table, those of the tables in it behind them.
    fn keys(&self, table: &Value, before: &str, into: &mut Vec<Key>) {
        let Some(properties) = table["properties"].as_object() else { return };
        for (name, of) in properties {
            let name = format!("{before}{name}");
            let given = self.given(of);
            let about = of["description"].as_str().or(given["description"].as_str()).unwrap_or("");
            // Tables that stand in a list have their keys said with `[]`.
            let inner = match given["type"] == "array" {
                true => (self.given(&given["items"]), format!("{name}[].")),
                false => (given, format!("{name}.")),
            };
            let is_table = inner.0["properties"].is_object();
            into.push(Key {
                name,
                values: if is_table { "a table".to_owned() } else { self.values(of) },
                about: about.to_owned(),
            });
            if is_table && inner.1.matches('.').count() < 5 {
                self.keys(inner.0, &inner.1, into);
            }
        }
    }
}

fn drive_keys(out: &mut String) -> std::fmt::Result {
    let schema = Schema(mynah_drive_file::json_schema());
    let mut keys = vec![];
    schema.keys(&schema.0, "", &mut keys);
    assert!(keys.len() > 100, "{} keys", keys.len());
    writeln!(
        out,
        "## Drive files\n\n`--set KEY=VALUE` changes any of them; `mynah drives show NAME` prints a drive's \
         with their sources. Quantities have units ([units](#units)).\n\n| key | values | what it is |\n|---|---|---|"
    )?;
    for key in keys {
        assert!(!key.about.is_empty(), "{} has no description", key.name);
        writeln!(out, "| `{}` | {} | {} |", key.name, cell(&key.values), cell(&key.about))?;
    }
    Ok(())
}

fn flow_options(out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "\n## Flows\n\nAs options of `mynah sim` (`--iodepth 8`), in `--flow NAME:iodepth=8`, in `[[flow]]` tables of \
         experiment files and, where fio has the option, in its job files.\n\n| option | what it is |\n|---|---|"
    )?;
    for option in FlowOptions::DECLARED {
        let default = option.default.map(|it| format!(" Default: {it}.")).unwrap_or_default();
        writeln!(out, "| `{}` | {}{default} |", option.name, cell(option.about))?;
    }
    Ok(())
}

fn faults(out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "\n## Faults\n\n`--fault FORM`, any number of times; in drive files a table `[[fault]]` with `kind`.\n\n\
         | form | verbs |\n|---|---|"
    )?;
    for form in mynah_drive_file::fault::FORMS.lines() {
        writeln!(out, "| `{form}` | sim, compare, serve |")?;
    }
    for form in mynah_runtime::fault::FORMS.lines() {
        writeln!(out, "| `{form}` | serve |")?;
    }
    Ok(())
}

fn stages(out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "\n## Stages\n\nOf an I/O, in the order in which it passes them. They follow one another without gap or \
         overlap: their sum is the latency. Profiles of hosts and targets have more, in \
         [profiling.md](profiling.md).\n\n| stage | what it is |\n|---|---|"
    )?;
    for stage in Stage::ALL {
        writeln!(out, "| `{}` | {} |", stage.name(), cell(stage.description()))?;
    }
    Ok(())
}

fn units(out: &mut String) -> std::fmt::Result {
    let schema = mynah_drive_file::json_schema();
    writeln!(out, "\n## Units\n\n| quantity | how it is written in drive files |\n|---|---|")?;
    let kinds =
        ["Duration", "Bytes", "Bandwidth", "BitRate", "Frequency", "Cycles", "Fraction", "Energy"];
    for kind in kinds {
        let about = schema["$defs"][kind]["description"].as_str().unwrap_or_default();
        assert!(!about.is_empty(), "{kind} has no description");
        writeln!(out, "| {} | {} |", kind.to_lowercase(), cell(about))?;
    }
    Ok(())
}

fn reference() -> String {
    let mut out = String::from(
        "# Reference\n\nEvery key, option, fault and stage, as the program has them: this page is written by it \
         (`MYNAH_UPDATE_DOCS=1 cargo test -p mynah --test command reference`). Options of the command line are in \
         `mynah VERB --help`. On this page: [drive files](#drive-files), [flows](#flows), [faults](#faults), \
         [stages](#stages), [units](#units).\n\n",
    );
    for part in [drive_keys, flow_options, faults, stages, units] {
        part(&mut out).expect("a string takes everything");
    }
    out
}

#[test]
fn the_reference_is_current() {
    let text = reference();
    if std::env::var_os("MYNAH_UPDATE_DOCS").is_some() {
        std::fs::write(PATH, &text).unwrap();
    }
    let current = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(current == text, "docs/reference.md is old: MYNAH_UPDATE_DOCS=1 writes it");
}

/// The index names every page, and no other.
#[test]
fn the_index_has_every_page() {
    let docs = std::path::Path::new(PATH).parent().expect("a folder");
    let index = std::fs::read_to_string(docs.join("README.md")).unwrap();
    let pages = std::fs::read_dir(docs).unwrap().map(|page| page.unwrap().file_name());
    let pages = pages.filter_map(|page| page.into_string().ok());
    let is_index = |page: &str| ["README.md", "SUMMARY.md"].contains(&page);
    for page in pages.filter(|page| page.ends_with(".md") && !is_index(page)) {
        assert!(index.contains(&format!("({page}")), "docs/README.md does not name {page}");
    }
    for link in index.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
        assert!(docs.join(link).exists(), "docs/README.md names {link}");
    }
}
