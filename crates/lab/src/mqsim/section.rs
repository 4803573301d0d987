//! One parameter set: elements that hold a value each, looked up by tag.

use super::xml::{Document, Element};
use super::{MqsimError, Warnings};
use mynah_stamp::Span;
use std::ops::RangeInclusive;

/// Delays longer than this are typing errors: about a quarter of an hour.
const MAX_NS: u64 = 1_000_000_000_000;

/// The values of one element's children.
pub(super) struct Section<'d> {
    pub(super) document: &'d Document,
    pub(super) element: Option<&'d Element>,
    values: Vec<(&'d str, &'d Element)>,
}

impl<'d> Section<'d> {
    /// The children of `element`, or nothing but defaults if there is no such element. Tags
    /// that are neither in `known` nor in `sections` are warned about.
    pub(super) fn new(
        document: &'d Document,
        element: Option<&'d Element>,
        known: &[&str],
        sections: &[&str],
        warnings: &mut Warnings,
    ) -> Result<Section<'d>, MqsimError> {
        let mut values: Vec<(&str, &Element)> = Vec::new();
        for child in element.into_iter().flat_map(|element| &element.children) {
            if sections.contains(&child.name.as_str()) {
                continue;
            }
            if !known.contains(&child.name.as_str()) {
                warnings.add(document, child, "unknown tag; MQSim does not read it either");
                continue;
            }
            if !child.children.is_empty() {
                return Err(document.error(child, "holds elements where a value belongs"));
            }
            if let Some(earlier) = values.iter_mut().find(|(name, _)| *name == child.name) {
                warnings.add(document, child, "given twice; the last one counts, as in MQSim");
                earlier.1 = child;
            } else {
                values.push((&child.name, child));
            }
        }
        if let Some(element) = element.filter(|element| !element.text.is_empty()) {
            let text: String = element.text.chars().take(40).collect();
            return Err(document.error(element, format!("stray text `{text}`")));
        }
        Ok(Section { document, element, values })
    }

    pub(super) fn get(&self, tag: &str) -> Option<&'d Element> {
        self.values.iter().find(|(name, _)| *name == tag).map(|&(_, element)| element)
    }

    /// Warns that those of `tags` that are given, and not as 0, change nothing, because
    /// `reason`.
    pub(super) fn idle(&self, tags: &[&str], reason: &str, warnings: &mut Warnings) {
        let given = tags.iter().filter_map(|tag| self.get(tag));
        for element in given.filter(|element| element.text != "0") {
            warnings.idle(self.document, element, reason);
        }
    }

    /// The error that `tag` is needed and not there.
    pub(super) fn missing(&self, tag: &str) -> MqsimError {
        let element = self.element.unwrap_or(&self.document.root);
        self.document.error(element, format!("<{tag}> is missing"))
    }

    /// A whole number within `range`.
    pub(super) fn count(
        &self,
        tag: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, MqsimError> {
        let Some(element) = self.get(tag) else { return Ok(None) };
        let value = element.text.parse::<u64>().ok().filter(|value| range.contains(value));
        value.map(Some).ok_or_else(|| {
            let (least, most) = range.into_inner();
            let text = &element.text;
            let message = if most == u64::MAX {
                format!("`{text}` is not a whole number of at least {least}")
            } else {
                format!("`{text}` is not a whole number from {least} to {most}")
            };
            self.document.error(element, message)
        })
    }

    /// A whole number from 1 to 4,294,967,295.
    pub(super) fn count32(&self, tag: &str, default: u32) -> Result<u32, MqsimError> {
        let count = self.count(tag, 1..=u64::from(u32::MAX))?;
        Ok(count.map_or(default, |count| count as u32))
    }

    /// A time in nanoseconds; `default_ns` if it is not given.
    pub(super) fn span(&self, tag: &str, default_ns: u64) -> Result<Span, MqsimError> {
        let ns = self.count(tag, 0..=MAX_NS)?;
        Ok(Span::from_ns(ns.unwrap_or(default_ns)))
    }

    /// A number above 0, below `limit`.
    pub(super) fn number(&self, tag: &str, limit: f64) -> Result<Option<f64>, MqsimError> {
        let Some(element) = self.get(tag) else { return Ok(None) };
        match element.text.parse::<f64>() {
            Ok(value) if value > 0.0 && value < limit => Ok(Some(value)),
            _ => Err(self.document.error(
                element,
                format!("`{}` is not a number between 0 and {limit}", element.text),
            )),
        }
    }

    /// One of `choices`, in upper or lower case.
    pub(super) fn choice<T: Copy>(
        &self,
        tag: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, MqsimError> {
        let Some(element) = self.get(tag) else { return Ok(None) };
        let found = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(&element.text));
        found.map(|&(_, value)| Some(value)).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|&(name, _)| name).collect();
            self.document
                .error(element, format!("`{}` is none of {}", element.text, names.join(", ")))
        })
    }

    /// MQSim takes everything but `false`, in any case, for true. What does not mean that is an
    /// error.
    pub(super) fn flag(&self, tag: &str) -> Result<Option<bool>, MqsimError> {
        let Some(element) = self.get(tag) else { return Ok(None) };
        let text = element.text.to_ascii_lowercase();
        match text.as_str() {
            "false" => Ok(Some(false)),
            "true" | "1" | "yes" | "on" => Ok(Some(true)),
            _ => {
                let text = &element.text;
                let message = format!(
                    "`{text}` is neither true nor false (MQSim takes everything but `false` for \
                     true)"
                );
                Err(self.document.error(element, message))
            }
        }
    }

    /// A list of numbers below `limit`, in order and without repetition; empty if it holds
    /// all of them or is not given.
    pub(super) fn ids(&self, tag: &str, limit: u32) -> Result<Vec<u32>, MqsimError> {
        let Some(element) = self.get(tag) else { return Ok(Vec::new()) };
        let mut ids = Vec::new();
        // Two commas are one, as for MQSim.
        let listed = || element.text.split(',').filter(|id| !id.trim().is_empty());
        if listed().next().is_none() {
            return Err(self.document.error(element, "a list of numbers belongs here, as in 0,1"));
        }
        for id in listed() {
            match id.trim().parse::<u32>() {
                Ok(id) if id < limit => ids.push(id),
                _ => {
                    return Err(self.document.error(
                        element,
                        format!("`{}` is not a number from 0 to {}", id.trim(), limit - 1),
                    ));
                }
            }
        }
        ids.sort_unstable();
        ids.dedup();
        if ids.len() == limit as usize {
            ids.clear();
        }
        Ok(ids)
    }

    /// A seed; MQSim's are C integers, so negative ones are valid.
    pub(super) fn seed(&self, tag: &str) -> Result<Option<u64>, MqsimError> {
        let Some(element) = self.get(tag) else { return Ok(None) };
        match element.text.parse::<i64>() {
            Ok(seed) => Ok(Some(seed as u64)),
            Err(_) => Err(self
                .document
                .error(element, format!("`{}` is not a whole number", element.text))),
        }
    }
}
