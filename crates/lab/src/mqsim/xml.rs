//! The little of XML that MQSim's files use, with the place of everything.
//!
//! A document becomes a tree of elements whose leaves hold text. Attributes, comments,
//! processing instructions and document types carry nothing in these files and are passed
//! over. Depth and number of elements are bounded.

use super::MqsimError;
use miette::NamedSource;
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;
use std::sync::Arc;

const MAX_DEPTH: usize = 16;
const MAX_ELEMENTS: usize = 3_000_000;

/// An XML element and its place in the file.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) name: String,
    /// Byte offset of its start tag.
    pub(super) at: usize,
    /// Its text without that of its children, trimmed.
    pub(super) text: String,
    pub(super) children: Vec<Element>,
}

#[derive(Debug)]
pub(super) struct Document {
    name: String,
    text: Arc<str>,
    pub(super) root: Element,
}

impl Document {
    pub(super) fn parse(name: &str, bytes: &[u8]) -> Result<Document, MqsimError> {
        let text: Arc<str> = match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(error) => {
                let lossy = String::from_utf8_lossy(bytes);
                let message = "not text (the byte here is no UTF-8)";
                return Err(fail(name, &lossy.into(), error.valid_up_to(), None, message));
            }
        };
        let root = tree(name, &text)?;
        Ok(Document { name: name.to_owned(), text, root })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn error(&self, element: &Element, message: impl Into<String>) -> MqsimError {
        fail(&self.name, &self.text, element.at, Some(&element.name), message)
    }

    /// File, line and tag of `element`, as errors give them.
    pub(super) fn place(&self, element: &Element) -> String {
        format!("{}:{}: <{}>", self.name, line(&self.text, element.at), element.name)
    }
}

fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

fn fail(
    name: &str,
    text: &Arc<str>,
    at: usize,
    tag: Option<&str>,
    message: impl Into<String>,
) -> MqsimError {
    MqsimError::at(
        name,
        line(text, at),
        tag,
        message.into(),
        NamedSource::new(name, text.clone()),
        at.min(text.len()),
    )
}

fn tree(name: &str, text: &Arc<str>) -> Result<Element, MqsimError> {
    let error = |at: usize, message: String| fail(name, text, at, None, message);
    let mut reader = Reader::from_str(text);
    let mut open: Vec<Element> = Vec::new();
    let mut root: Option<Element> = None;
    let mut count = 0usize;
    loop {
        let at = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
        let event = reader.read_event().map_err(|problem| {
            let at = usize::try_from(reader.error_position()).unwrap_or(usize::MAX);
            error(at, format!("not well-formed XML: {problem}"))
        })?;
        let (start, empty) = match event {
            Event::Start(start) => (start, false),
            Event::Empty(start) => (start, true),
            Event::End(_) => {
                if let Some(element) = open.pop() {
                    close(element, &mut open, &mut root);
                }
                continue;
            }
            Event::Eof => {
                if let Some(element) = open.last() {
                    let message = "the file ends before this element does";
                    return Err(fail(name, text, element.at, Some(&element.name), message));
                }
                return root.ok_or_else(|| error(at, "no XML element in this file".into()));
            }
            Event::Text(piece) => {
                add(&mut open, &piece.xml10_content()).map_err(|m| error(at, m))?;
                continue;
            }
            Event::CData(piece) => {
                add(&mut open, &piece.xml10_content()).map_err(|m| error(at, m))?;
                continue;
            }
            Event::GeneralRef(reference) => {
                let entity = reference.xml10_content();
                let piece = match reference.resolve_char_ref() {
                    Ok(Some(character)) => character.to_string(),
                    Ok(None) => match resolve_predefined_entity(&entity) {
                        Some(piece) => piece.to_owned(),
                        None => return Err(error(at, format!("unknown entity &{entity};"))),
                    },
                    Err(problem) => return Err(error(at, format!("&{entity};: {problem}"))),
                };
                add(&mut open, &piece).map_err(|m| error(at, m))?;
                continue;
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => continue,
        };
        if root.is_some() {
            return Err(error(at, "a second element after the document's end".into()));
        }
        count += 1;
        if open.len() >= MAX_DEPTH || count > MAX_ELEMENTS {
            return Err(error(at, "more elements than any MQSim file has".into()));
        }
        let tag = start.name().into_inner();
        if !tag.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            let message = format!("`{tag}` is not a tag's name (an unresolved merge?)");
            return Err(error(at, message));
        }
        let element =
            Element { name: tag.to_owned(), at, text: String::new(), children: Vec::new() };
        if empty {
            close(element, &mut open, &mut root);
        } else {
            open.push(element);
        }
    }
}

/// Ends `element`: it goes to its parent, or is the root.
fn close(mut element: Element, open: &mut [Element], root: &mut Option<Element>) {
    element.text = element.text.trim().to_owned();
    match open.last_mut() {
        Some(parent) => parent.children.push(element),
        None => *root = Some(element),
    }
}

/// Adds text to the innermost open element.
fn add(open: &mut [Element], piece: &str) -> Result<(), String> {
    match open.last_mut() {
        Some(element) => {
            element.text.push_str(piece);
            Ok(())
        }
        None if piece.trim_matches('\u{feff}').trim().is_empty() => Ok(()),
        None => Err("text outside of any element".into()),
    }
}
