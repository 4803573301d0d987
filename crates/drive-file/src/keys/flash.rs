//! The section `[flash]`: how long the flash array takes.

use super::declare::{Need, no_keys, section};
use super::needs::{ERASES, rewritable};
use super::value::quoted;
use super::{CellName, File};
use crate::at::{At, Maybe};
use crate::check::{Check, MAX_STEP, or};
use crate::units::{Bytes, Duration};
use mynah_model::config::{self, CellType, FlashTiming};
use mynah_stamp::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

static WORD_LINES: Need = Need {
    holds: |config| config.flash.cell != CellType::Slc,
    cause: |file| Some(file.flash.get().cell.span()),
    why: "a word line is one page",
    help: "remove it, or choose another `flash.cell`",
};

// Not taken away by an override: `flash.program` is the time of a word line.
static ERASED_WORD_LINES: Need = Need {
    holds: |config| !config.flash.rewritable,
    cause: |_| None,
    why: "rewritable memory is overwritten page by page",
    help: "use `flash.one_shot = false`, and a `flash.program` of a page",
};

section! {
    /// How long the flash array takes.
    Flash => FlashTiming {
        /// Bits in a cell.
        cell: At<CellName>, is cell;
        /// Page read (tR): one time, or one for each page type of the cell.
        read: At<PageTimes>, shapes Paced, writes |flash, _| Some(page_times(flash.cell, flash.read));
        /// Page program (tPROG): one time, or one for each page type of the cell.
        program: At<PageTimes>, shapes Paced, writes |flash, _| Some(page_times(flash.cell, flash.program));
        /// Block erase (tBERS); not with `rewritable`.
        erase: Maybe<Duration>, shapes Paced, when ERASES, shows |flash, _| Some(flash.erase);
        /// Whether data are overwritten where they are, and any part of a page can be: 3D XPoint
        /// and other memory that is never erased.
        rewritable: Maybe<bool> = "false", shows |flash, _| flash.rewritable.then_some(true);
        /// Whether one program takes a whole word line, a page for each bit of a cell.
        one_shot: Maybe<bool> = "false", when ERASED_WORD_LINES | WORD_LINES if |it| *it,
            shows |flash, _| flash.one_shot.then_some(true);
        /// Added to every read between the array and the ready signal.
        read_ready_delay: Maybe<Duration> = "0", shapes Paced, is read_ready_delay;
    }
    with |flash, check, file| {
        read: flash.times(&flash.read, check),
        program: flash.times(&flash.program, check),
        erase: flash.erase(check).unwrap_or(Span::ZERO),
        rewritable: flash.rewritable(check),
        one_shot: flash.takes_word_lines(check, file),
    }
}

impl Flash {
    /// Notes what no memory is.
    pub(crate) fn check(&self, file: &File, check: &mut Check<'_>) {
        if self.erase.is_none() && !or(&self.rewritable, false) {
            check.wrong(
                "`flash.erase` is missing",
                &file.flash,
                "it belongs here",
                Some("add `erase = …`, or `rewritable = true`".to_owned()),
            );
        }
        if !or(&self.rewritable, false) {
            return;
        }
        let page = file.geometry.get().page_size.get().0;
        if let Some(unit) = file.mapping.unit.as_ref().filter(|unit| unit.get().0 != page) {
            check.without_effect(
                unit.span(),
                rewritable(file),
                "rewritable memory has mapping units of a page",
                &format!("remove it, or use `mapping.unit = \"{}\"`", Bytes(page)),
            );
        }
    }

    fn takes_word_lines(&self, check: &mut Check<'_>, file: &File) -> bool {
        let cell: CellType = (*self.cell.get()).into();
        let is_one_shot: bool = self.one_shot(check);
        if !is_one_shot || cell == CellType::Slc {
            return is_one_shot;
        }
        if matches!(self.program.get(), PageTimes::Each(_)) {
            check.wrong(
                "one-shot programs take all pages of a word line in one time",
                &self.program,
                "a time for each page",
                Some("give one time for the word line: `program = \"…\"`".to_owned()),
            );
        }
        let pages = &file.geometry.get().pages_per_block;
        if !pages.get().is_multiple_of(cell.bits()) {
            check.wrong(
                format!("{} pages are not whole word lines of {}", pages.get(), cell_name(cell)),
                pages,
                "one-shot programs take whole word lines",
                Some(format!("use a multiple of {}", cell.bits())),
            );
        }
        true
    }

    fn times(&self, times: &At<PageTimes>, check: &mut Check<'_>) -> config::PageTimes {
        let name = check.key(times);
        let cell: CellType = (*self.cell.get()).into();
        let each = match times.get() {
            PageTimes::All(time) => {
                page_time(check, &name, time.0, times.span());
                return config::PageTimes::all(time.0);
            }
            PageTimes::Each(each) => each,
        };
        let lsb = each.lsb.get().0;
        page_time(check, &format!("{name}.lsb"), lsb, each.lsb.span());
        let mut other = |key: &str, value: &Maybe<Duration>, wanted: bool| match value {
            Some(value) if wanted => {
                page_time(check, &format!("{name}.{key}"), value.get().0, value.span());
                Some(value.get().0)
            }
            Some(value) => {
                check.without_effect(
                    value.span(),
                    Some(self.cell.span()),
                    &format!("`{name}.{key}` has no effect: {} has no such page", cell_name(cell)),
                    "remove it, or choose another `flash.cell`",
                );
                None
            }
            None if wanted => {
                check.wrong(
                    format!("`{name}.{key}` is missing: {} has such pages", cell_name(cell)),
                    times,
                    "incomplete",
                    Some(format!("add `{key} = …`, or give one time for all pages")),
                );
                None
            }
            None => None,
        };
        let bits = cell.bits();
        let csb = other("csb", &each.csb, bits >= 3).unwrap_or(lsb);
        let msb = other("msb", &each.msb, bits >= 2).unwrap_or(lsb);
        let fourth = other("fourth", &each.fourth, bits >= 4).unwrap_or(msb);
        let fifth = other("fifth", &each.fifth, bits >= 5).unwrap_or(msb);
        config::PageTimes { lsb, csb, msb, fourth, fifth }
    }
}

fn page_time(check: &mut Check<'_>, name: &str, time: Span, place: Range<usize>) {
    if time.is_zero() || time > MAX_STEP {
        let message = format!("`{name}` must be longer than 0 and at most {}", Duration(MAX_STEP));
        check.at(place, message, "no flash is like this", None);
    }
}

fn page_times(cell: CellType, times: config::PageTimes) -> String {
    let config::PageTimes { lsb, csb, msb, fourth, fifth } = times;
    let named: &[(&str, Span)] = match cell {
        CellType::Slc => &[("lsb", lsb)],
        CellType::Mlc => &[("lsb", lsb), ("msb", msb)],
        CellType::Tlc => &[("lsb", lsb), ("csb", csb), ("msb", msb)],
        CellType::Qlc => &[("lsb", lsb), ("csb", csb), ("msb", msb), ("fourth", fourth)],
        CellType::Plc => {
            &[("lsb", lsb), ("csb", csb), ("msb", msb), ("fourth", fourth), ("fifth", fifth)]
        }
    };
    let written = |time: Span| quoted(Duration(time));
    if named.iter().all(|&(_, time)| time == lsb) {
        return written(lsb);
    }
    let each: Vec<String> =
        named.iter().map(|&(name, time)| format!("{name} = {}", written(time))).collect();
    format!("{{ {} }}", each.join(", "))
}

fn cell_name(cell: CellType) -> &'static str {
    match cell {
        CellType::Slc => "SLC",
        CellType::Mlc => "MLC",
        CellType::Tlc => "TLC",
        CellType::Qlc => "QLC",
        CellType::Plc => "PLC",
    }
}

no_keys!(PageTimes);

/// One time for all page types, or one for each.
#[derive(Clone, Debug)]
pub(crate) enum PageTimes {
    /// The same for all.
    All(Duration),
    /// One for each page type.
    Each(EachPage),
}

/// A time for each page type.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EachPage {
    /// Least significant bit.
    pub(crate) lsb: At<Duration>,
    /// Central significant bit (TLC, QLC, PLC).
    pub(crate) csb: Maybe<Duration>,
    /// Most significant bit of MLC and TLC, the third page of QLC and PLC.
    pub(crate) msb: Maybe<Duration>,
    /// The fourth page of a word line (QLC, PLC).
    pub(crate) fourth: Maybe<Duration>,
    /// The fifth page of a word line (PLC).
    pub(crate) fifth: Maybe<Duration>,
}

impl<'de> Deserialize<'de> for PageTimes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PageTimes, D::Error> {
        struct Times;
        impl<'de> Visitor<'de> for Times {
            type Value = PageTimes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as `75us`, or `{ lsb = \"…\", msb = \"…\" }`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<PageTimes, E> {
                text.parse().map(PageTimes::All).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<PageTimes, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<PageTimes, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PageTimes, A::Error> {
                EachPage::deserialize(MapAccessDeserializer::new(map)).map(PageTimes::Each)
            }
        }
        deserializer.deserialize_any(Times)
    }
}

impl JsonSchema for PageTimes {
    fn schema_name() -> Cow<'static, str> {
        "PageTimes".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let all = generator.subschema_for::<Duration>();
        let each = generator.subschema_for::<EachPage>();
        json_schema!({ "anyOf": [all, each] })
    }
}
