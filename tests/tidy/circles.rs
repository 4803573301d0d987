//! Files do not call one another in circles: what comes up is returned, not called.
//!
//! The model's and the device's files are looked at, each crate for itself.

use crate::calls::Calls;
use crate::report::Report;
use crate::source;
use std::collections::{BTreeMap, BTreeSet};

/// A ratchet: so many files of a crate are in circles. A number may only become smaller.
const IN_CIRCLES: &[(&str, usize)] = &[("model", 50), ("device", 28)];

#[test]
fn files_do_not_call_one_another_in_circles() {
    let mut report = Report::new("no more files call one another in circles than before");
    for (krate, allowed) in IN_CIRCLES {
        let calls = Calls::of(&source::sources(krate));
        let circles = calls.circles();
        let count: usize = circles.iter().map(Vec::len).sum();
        let place = format!("crates/{krate}");
        if count > *allowed {
            let what = format!(
                "{count} files are in circles, {allowed} is the most; return what should happen \
                 next in place of the call back:{}",
                calls.described(&circles)
            );
            report.add_to(&place, what);
        } else if count < *allowed {
            let what = format!("{count} files of {krate} are left of {allowed}; write that");
            report.add_to("tests/tidy/circles.rs", what);
        }
    }
    report.end();
}

impl Calls {
    /// The files that are in one circle, for each.
    fn circles(&self) -> Vec<Vec<&str>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.0.keys().map(|file| (&**file, self.reached(file))).collect();
        let mut circles = Vec::new();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for (file, reached) in &reach {
            if seen.contains(file) || !reached.contains(file) {
                continue;
            }
            let back = |other: &&str| reach.get(other).is_some_and(|it| it.contains(file));
            let circle: Vec<&str> = reached.iter().copied().filter(back).collect();
            seen.extend(&circle);
            circles.push(circle);
        }
        circles
    }

    fn reached(&self, file: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut left = vec![file];
        while let Some(file) = left.pop() {
            for to in self.0.get(file).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(&**to) {
                    left.push(to);
                }
            }
        }
        reached
    }

    fn described(&self, circles: &[Vec<&str>]) -> String {
        let mut text = String::new();
        for circle in circles {
            text += &format!("\n  a circle of {}:", circle.len());
            for file in circle {
                let to = self.0[*file].iter().filter(|(to, _)| circle.contains(&&***to));
                let to = to.map(|(to, (name, line))| format!("{to} ({name}, line {line})"));
                text += &format!("\n    {file} calls {}", to.collect::<Vec<_>>().join(", "));
            }
        }
        text
    }
}

#[test]
fn circles_are_found() {
    let source = |path: &str, text: &str| source::Source {
        path: format!("crates/x/src/{path}"),
        code: syn::parse_file(text).unwrap(),
    };
    let calls = Calls::of(&[
        source(
            "a.rs",
            "use crate::e::{ee, own}; impl T { pub fn aa(&self) { m!(self.bb(1)); } \
             pub fn both(&self) { own(); self.ee(); } }",
        ),
        source(
            "b.rs",
            "impl T { pub fn bb(&self) { x.map(T::cc).push(2); } pub fn both(&self) {} }",
        ),
        source(
            "c.rs",
            "impl T { pub fn cc() { dd(); x.aa::<u8>(); x.both(); } pub fn push(&self) {} }",
        ),
        source("d.rs", "pub fn dd() { e::ee(); } fn private() {}"),
        source("e.rs", "pub fn ee() { let cc = 1; d::private(); } mod cc {} fn own() {}"),
    ]);
    let circles = calls.circles();
    assert_eq!(circles, [["a.rs", "b.rs", "c.rs"]]);
    let described = calls.described(&circles);
    assert!(described.contains("b.rs calls c.rs (cc, line 1)"), "{described}");
    assert_eq!(calls.reached("c.rs").len(), 5);
}
