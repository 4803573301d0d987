//! The table `[sweep]` of an experiment file: what is varied, and the file as it would be
//! written for one point.

use super::{ExperimentError, Override, Raw, RawSwitch, Text, scalar};
use mynah_drive_file::units::UnitError;
use serde_spanned::Spanned;
use std::ops::Range;
use toml::Value;

/// An axis of the sweep: keys that are varied together.
pub(super) struct Axis {
    /// Where it stands in the file.
    pub(super) span: Range<usize>,
    /// Keys that change together.
    keys: Vec<String>,
    /// For each point of the axis the value of every key, and the place of each point in the file.
    pub(super) values: Vec<Vec<Value>>,
    value_span: Range<usize>,
}

/// What a key of `[sweep]` sets.
enum Target<'k> {
    Top(&'k str),
    Set(&'k str),
    Flow(&'k str, &'k str),
}

const TOP: [&str; 9] = [
    "drive",
    "seed",
    "precondition",
    "settle",
    "ramp_time",
    "precision",
    "drives",
    "switch.uplink",
    "switch.latency",
];

fn target(key: &str) -> Option<Target<'_>> {
    if let Some(top) = TOP.into_iter().find(|top| *top == key) {
        return Some(Target::Top(top));
    }
    if let Some(key) = key.strip_prefix("set.").filter(|key| !key.is_empty()) {
        return Some(Target::Set(key));
    }
    let (name, option) = key.strip_prefix("flow.")?.rsplit_once('.')?;
    (!name.is_empty() && !option.is_empty()).then_some(Target::Flow(name, option))
}

/// The axes of a file's sweep, in the order in which they are written.
pub(super) fn axes(file: &Text<'_>, raw: &Raw) -> Result<Vec<Axis>, ExperimentError> {
    let mut axes = Vec::new();
    for (key, value) in &raw.sweep {
        let keys: Vec<String> = key.get_ref().split(',').map(|key| key.trim().into()).collect();
        for key_text in &keys {
            if target(key_text).is_none() {
                let message = format!(
                    "`{key_text}` cannot be varied; valid are flow.NAME.OPTION, set.KEY, {}",
                    TOP.join(", ")
                );
                return Err(file.error(key.span(), message));
            }
        }
        let list = value.get_ref().as_array().filter(|list| !list.is_empty());
        let Some(list) = list else {
            let message = "a list of values belongs here, such as [1, 2, 4]";
            return Err(file.error(value.span(), message));
        };
        let several = keys.len();
        let values = list.iter().map(|value| match value.as_array() {
            None if several == 1 => Ok(vec![value.clone()]),
            Some(values) if several > 1 && values.len() == several => Ok(values.clone()),
            _ => Err(match several {
                1 => "a value is a number or a string, not a list".to_owned(),
                _ => format!("each value is a list of {several}, one for every key"),
            }),
        });
        let values = values.collect::<Result<Vec<_>, String>>();
        let values = values.map_err(|message| file.error(value.span(), message))?;
        axes.push(Axis { span: key.span(), keys, values, value_span: value.span() });
    }
    axes.sort_by_key(|axis| axis.span.start);
    Ok(axes)
}

/// The file as it is at point `number`, and what is different about it. The last axis varies
/// fastest.
pub(super) fn at(
    file: &Text<'_>,
    raw: &Raw,
    axes: &[Axis],
    mut number: usize,
) -> Result<(Raw, Vec<(String, String)>), ExperimentError> {
    let mut raw = raw.clone();
    let mut labels = Vec::new();
    for axis in axes.iter().rev() {
        let values = &axis.values[number % axis.values.len()];
        number /= axis.values.len();
        for (key, value) in axis.keys.iter().zip(values).rev() {
            let problem = |message: String| file.error(axis.value_span.clone(), message);
            let text = scalar(value).map_err(|m| problem(format!("{key}: {m}")))?;
            labels.push((key.clone(), text.clone()));
            change(&mut raw, key, value, text, axis)
                .map_err(|message| file.error(axis.span.clone(), message))?;
        }
    }
    labels.reverse();
    Ok((raw, labels))
}

fn change(
    raw: &mut Raw,
    key: &str,
    value: &Value,
    text: String,
    axis: &Axis,
) -> Result<(), String> {
    let span = || axis.value_span.clone();
    match target(key) {
        None => {}
        Some(Target::Top("drive")) => raw.drive = Spanned::new(span(), text),
        Some(Target::Top("precondition")) => raw.precondition = Some(Spanned::new(span(), text)),
        Some(Target::Top("settle")) => raw.settle = Some(Spanned::new(span(), value.clone())),
        Some(Target::Top("ramp_time")) => raw.ramp_time = Some(Spanned::new(span(), value.clone())),
        Some(Target::Top("precision")) => raw.precision = Some(Spanned::new(span(), value.clone())),
        Some(Target::Top("drives")) => raw.drives = Some(Spanned::new(span(), value.clone())),
        Some(Target::Top(key @ ("switch.uplink" | "switch.latency"))) => {
            let none = || Spanned::new(span(), RawSwitch { uplink: None, latency: None });
            let switch = raw.switch.get_or_insert_with(none).get_mut();
            match key {
                "switch.uplink" => {
                    let rate = text.parse().map_err(|e: UnitError| e.to_string())?;
                    switch.uplink = Some(Spanned::new(span(), rate));
                }
                _ => {
                    let latency = text.parse().map_err(|e: UnitError| e.to_string())?;
                    switch.latency = Some(Spanned::new(span(), latency));
                }
            }
        }
        Some(Target::Top(_)) => raw.seed = Some(Spanned::new(span(), value.clone())),
        Some(Target::Set(key)) => {
            raw.more.push(Override { key: key.to_owned(), value: text });
        }
        Some(Target::Flow(name, option)) => {
            let mut found = false;
            for (index, flow) in raw.flow.iter_mut().enumerate() {
                let default = format!("flow-{}", index + 1);
                let flow = flow.get_mut();
                let own = flow.iter().find(|(key, _)| key.get_ref() == "name");
                let own = own.and_then(|(_, name)| name.get_ref().as_str()).unwrap_or(&default);
                if name != "*" && name != own {
                    continue;
                }
                found = true;
                flow.retain(|key, _| key.get_ref() != option);
                flow.insert(
                    Spanned::new(axis.span.clone(), option.to_owned()),
                    Spanned::new(span(), value.clone()),
                );
            }
            if !found {
                return Err(format!("no flow is called `{name}`"));
            }
        }
    }
    Ok(())
}
