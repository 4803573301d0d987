//! Which data the writes of a flow belong with.

use super::{FlowOptions, OptionError};
use crate::Source;
use crate::placement::{By, PlacementChoice, Select, parse_ids, read_scheme};
use std::path::PathBuf;

impl FlowOptions {
    /// Which data writes belong with, if they say that.
    pub(super) fn data_placement(
        &self,
        source: &Source,
    ) -> Result<Option<PlacementChoice>, OptionError> {
        const WORDS: [(&str, Option<bool>); 3] =
            [("none", None), ("fdp", Some(true)), ("streams", Some(false))];
        let places = match self.choice("dataplacement", &WORDS)? {
            Some(word) => {
                self.refuse("fdp", "dataplacement already says it")?;
                word
            }
            None => self.flag("fdp")?.then_some(true),
        };
        let Some(by_handle) = places else {
            for option in ["plids", "plid_select", "dp_scheme"] {
                self.refuse(option, "no data is placed, so this has no effect; use it with fdp=1")?;
            }
            return Ok(None);
        };
        let said = if self.dataplacement.is_some() { "dataplacement" } else { "fdp" };
        if matches!(source, Source::KeyValue(_)) {
            return Err(self.error(said, "key-value commands have no data placement"));
        }
        if !source.writes() {
            return Err(self.error(said, "nothing is written, so this has no effect"));
        }
        let mut ids = self.read("plids", parse_ids)?.unwrap_or_default();
        if !by_handle {
            // Linux numbers write streams from 1; 0 is none of them.
            if ids.is_empty() {
                return Err(self.error(said, "streams are named by plids, as in plids=1,2"));
            }
            ids.iter_mut().for_each(|id| *id = id.saturating_sub(1));
        }
        let words = [
            ("roundrobin", (false, None)),
            ("random", (true, None)),
            ("scheme", (false, Some(By::Address))),
            ("size", (false, Some(By::Size))),
        ];
        let (random, by) = self.choice("plid_select", &words)?.unwrap_or_default();
        if by.is_none() {
            self.refuse("dp_scheme", "it needs plid_select=scheme or plid_select=size")?;
        }
        let select = match by {
            None if random => Select::Random,
            None => Select::RoundRobin,
            Some(_) if matches!(source, Source::Front(_)) => {
                return Err(
                    self.error("plid_select", "a front names small and large objects' handles")
                );
            }
            Some(by) => {
                self.refuse("plids", "the scheme names them")?;
                let Some(path) = self.dp_scheme.as_deref().map(PathBuf::from) else {
                    return Err(self.error("plid_select", "it needs dp_scheme, a file"));
                };
                let ranges = read_scheme(&path).map_err(|it| self.error("dp_scheme", it))?;
                Select::Scheme { by, path, ranges }
            }
        };
        Ok(Some(PlacementChoice { ids, select }))
    }
}
