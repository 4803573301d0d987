//! What a rule has found: a line for each place, with what to do there.

/// The findings of one rule.
pub(crate) struct Report {
    rule: &'static str,
    found: Vec<String>,
}

impl Report {
    /// Nothing found yet against `rule`.
    pub(crate) fn new(rule: &'static str) -> Report {
        Report { rule, found: Vec::new() }
    }

    /// Something at a line of a file.
    pub(crate) fn add(&mut self, path: &str, line: usize, what: impl AsRef<str>) {
        self.found.push(format!("{path}:{line}: {}", what.as_ref()));
    }

    /// Something that has no line: what is listed and does not exist.
    pub(crate) fn add_to(&mut self, place: &str, what: impl AsRef<str>) {
        self.found.push(format!("{place}: {}", what.as_ref()));
    }

    /// Fails if anything was found.
    pub(crate) fn end(self) {
        let Report { rule, found } = self;
        assert!(found.is_empty(), "rule: {rule}\n{}\n", found.join("\n"));
    }
}
