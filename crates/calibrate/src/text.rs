//! The text of a drive file with keys changed: comments and order stay as they were written.

use super::CalibrateError;
use mynah_drive_file::{override_text, said_instead_of};
use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// The source of what `--set` has set.
const BY_HAND: &str = "set on the command line, with --set";

/// A drive file that is edited with its comments and layout kept.
pub(super) struct DriveText {
    document: DocumentMut,
}

impl DriveText {
    /// Takes the text of a drive file that has been read before.
    pub(super) fn new(text: &str) -> Result<DriveText, CalibrateError> {
        let document = text.parse::<DocumentMut>();
        document.map(|document| DriveText { document }).map_err(|error| CalibrateError::Asked {
            message: format!("the drive's text: {error}"),
            help: None,
        })
    }

    /// Lays `KEY=VALUE` over it, as `--set` has it, and says that it was: the old value's source is none
    /// of the new one's.
    pub(super) fn set_by_hand(&mut self, assignment: &str) -> Result<(), CalibrateError> {
        for path in self.set(assignment)? {
            let about = ["schema", "name", "description", "sources"];
            if !path.first().is_some_and(|first| about.contains(&first.as_str())) {
                let path = path.join(".");
                self.forget_sources_below(&path);
                self.source(&path, BY_HAND);
            }
        }
        Ok(())
    }

    /// Lays `KEY=VALUE` over it, as `--set` has it; the keys that it sets.
    pub(super) fn set(&mut self, assignment: &str) -> Result<Vec<Vec<String>>, CalibrateError> {
        let over = override_text(assignment);
        let over = over.parse::<DocumentMut>().map_err(|error| CalibrateError::Asked {
            message: format!("`{assignment}`: {error}"),
            help: None,
        })?;
        let mut leaves = Vec::new();
        collect(over.as_table(), &mut Vec::new(), &mut leaves);
        let mut paths = Vec::new();
        for (path, value) in leaves {
            self.put(&path, value);
            paths.push(path);
        }
        Ok(paths)
    }

    /// Gives the key at `path` a value; of what has no place yet, sections are made.
    pub(super) fn put(&mut self, path: &[String], value: Value) {
        let section = !matches!(value, Value::InlineTable(_));
        place(self.document.as_item_mut(), path, value);
        let key = path.join(".");
        if section {
            self.forget_sources_below(&key);
        }
        if let Some((table, other)) = said_instead_of(&key).and_then(|it| it.rsplit_once('.')) {
            if let Some(section) = self.section(table) {
                section.remove(other);
            }
            if let Some(sources) = self.section("sources") {
                sources.remove(&format!("{table}.{other}"));
            }
        }
    }

    /// Says where the value at `path` comes from.
    pub(super) fn source(&mut self, path: &str, text: &str) {
        let sources = self.document.as_table_mut().entry("sources");
        let sources = sources.or_insert_with(|| Item::Table(Table::new()));
        if let Some(table) = sources.as_table_like_mut() {
            table.insert(path, toml_edit::value(text));
        }
    }

    /// Removes the sources of values below `path`, which have been replaced.
    fn forget_sources_below(&mut self, path: &str) {
        let below = format!("{path}.");
        let Some(sources) = self.section("sources") else { return };
        let gone = sources.iter().map(|(key, _)| key.to_owned());
        for key in gone.filter(|key| key.starts_with(&below)).collect::<Vec<_>>() {
            sources.remove(&key);
        }
    }

    fn section(&mut self, name: &str) -> Option<&mut dyn TableLike> {
        self.document.get_mut(name)?.as_table_like_mut()
    }

    pub(super) fn finish(self) -> String {
        self.document.to_string()
    }
}

/// Every value of `table` with its path.
fn collect(table: &Table, path: &mut Vec<String>, leaves: &mut Vec<(Vec<String>, Value)>) {
    for (key, item) in table {
        path.push(key.to_owned());
        match item {
            Item::Table(table) => collect(table, path, leaves),
            Item::Value(value) => leaves.push((path.clone(), value.clone())),
            _ => {}
        }
        path.pop();
    }
}

fn place(item: &mut Item, path: &[String], value: Value) {
    let Some((key, rest)) = path.split_first() else {
        // What stood after the old value, a comment say, stays after the new one.
        let decor = item.as_value().map(|old| old.decor().clone());
        *item = Item::Value(value);
        if let (Some(decor), Some(new)) = (decor, item.as_value_mut()) {
            *new.decor_mut() = decor;
        }
        return;
    };
    if let (Ok(index), Item::ArrayOfTables(tables)) = (key.parse::<usize>(), &mut *item) {
        if let Some(table) = tables.get_mut(index) {
            let mut inner = Item::Table(std::mem::take(table));
            place(&mut inner, rest, value);
            if let Item::Table(inner) = inner {
                *table = inner;
            }
        }
        return;
    }
    if item.as_table_like().is_none() {
        // A value that may be one or a table of several becomes the table.
        *item = match item {
            Item::Value(_) => Item::Value(Value::InlineTable(InlineTable::new())),
            _ => Item::Table(Table::new()),
        };
    }
    if let Some(table) = item.as_table_like_mut() {
        if table.get(key).is_none() {
            let fresh = match rest {
                [] => Item::Value(Value::from(0)),
                // The first of several, such as `[[namespace]]`.
                [first, _, ..] if first == "0" => {
                    let mut tables = ArrayOfTables::new();
                    tables.push(Table::new());
                    Item::ArrayOfTables(tables)
                }
                _ => {
                    let mut section = Table::new();
                    section.set_implicit(rest.len() > 1);
                    Item::Table(section)
                }
            };
            table.insert(key, fresh);
        }
        if let Some(inner) = table.get_mut(key) {
            place(inner, rest, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# A drive.
name = \"d\"

[flash]
read = { lsb = \"28us\", msb = \"43us\" } # measured
program = \"450us\"

[sources]
flash = \"estimate\"
\"flash.read\" = \"a paper\"
\"flash.read.msb\" = \"another\"
";

    fn changed(settings: &[&str]) -> String {
        let mut text = DriveText::new(TEXT).unwrap();
        for setting in settings {
            text.set(setting).unwrap();
        }
        text.finish()
    }

    /// A value's source goes with it.
    #[test]
    fn what_was_set_by_hand_says_so() {
        let mut text = DriveText::new(TEXT).unwrap();
        for setting in ["flash.read={ lsb = \"30us\", msb = \"40us\" }", "over_provisioning=7%"] {
            text.set_by_hand(setting).unwrap();
        }
        text.set_by_hand("name=other").unwrap();
        let text = text.finish();
        assert!(
            text.contains("\"flash.read\" = \"set on the command line, with --set\""),
            "{text}"
        );
        assert!(
            text.contains("over_provisioning = \"set on the command line, with --set\""),
            "{text}"
        );
        assert!(!text.contains("a paper") && !text.contains("another"), "{text}");
        assert!(text.contains("flash = \"estimate\"") && !text.contains("name = \"set"), "{text}");
    }

    #[test]
    fn what_is_not_changed_stays() {
        assert_eq!(changed(&[]), TEXT);
        let text = changed(&["flash.read=31.5us"]);
        assert!(text.contains("read = \"31.5us\" # measured\n"), "{text}");
        assert!(text.starts_with("# A drive.\n") && text.contains("program = \"450us\""));
        assert!(text.contains("\"flash.read\" = \"a paper\"") && !text.contains("another"));
    }

    #[test]
    fn parts_of_values_and_new_sections_have_their_place() {
        let text = changed(&["flash.read.msb=40us", "firmware.cores=3", "flash.program.lsb=1us"]);
        assert!(text.contains("msb = \"40us\""), "{text}");
        assert!(text.contains("[firmware]\ncores = 3"), "{text}");
        assert!(text.contains("program = { lsb = \"1us\" }"), "{text}");
        let mut text = DriveText::new(TEXT).unwrap();
        text.source("flash.read", "fitted");
        text.source("over_provisioning", "fitted");
        let text = text.finish();
        assert!(text.contains("\"flash.read\" = \"fitted\""), "{text}");
        assert!(text.contains("over_provisioning = \"fitted\""), "{text}");
    }

    /// All that a drive has can be said in its text, where it says something else by now.
    #[test]
    fn the_text_is_the_drive_that_overrides_make() {
        use mynah_drive_file::{load, parse, shipped};
        let links = ["link.bandwidth=5GB/s", "link.generation=3", "link.lanes=2"];
        let mut compared = 0;
        for drive in shipped() {
            let base = load(drive.name, &[]).unwrap();
            let own = base.settings().map(|setting| format!("{}={}", setting.key, setting.value));
            let mut all: Vec<String> = own.chain(links.map(String::from)).collect();
            // A namespace that is in the file has no pairs unless it says so.
            all.retain(|set| !(set.starts_with("namespace.") && base.text.contains("[kv]")));
            for set in all {
                let Ok(by_override) = parse("f", &base.text, std::slice::from_ref(&set)) else {
                    continue;
                };
                let mut text = DriveText::new(&base.text).unwrap();
                text.set_by_hand(&set).unwrap();
                let text = text.finish();
                let by_text = parse("f", &text, &[]);
                let by_text = by_text.unwrap_or_else(|error| panic!("{set}: {error}\n{text}"));
                assert_eq!(by_text.hash, by_override.hash, "{}: {set}", drive.name);
                compared += 1;
            }
        }
        assert!(compared > 1000, "{compared}");
    }
}
