//! How many dies there are: into so many groups addresses fall of which two meet.
//!
//! That two reads meet is an equivalence, so one address of each group is enough to tell whose any
//! other is (as SSDcheck's diagnosis of volumes, Kim et al., MICRO 2018, with dies in their place).

use super::Known;
use super::meeting::{self, Meeting, Spot};
use super::reads::SMALL;
use crate::finding::{Findings, Value};
use crate::probe::{Ended, Probe};

/// The chance to have missed a die, at most, if all are as likely.
const MISSED: f64 = 1e-4;
/// More groups than any drive has dies: then that two reads meet is no equivalence.
const GROUPS_MOST: usize = 1024;
/// So many deviations from what is expected are no chance.
const SURELY: f64 = 4.0;
/// Dies may hold more or less than others: by so much more or fewer random pairs may meet.
const UNEVEN: f64 = 0.5;
/// Time after which noise is over, most of the time, us.
const PAUSE: f64 = 5_000.0;
/// Times that the members of dies are looked at again.
const ROUNDS: usize = 3;
/// Members of a group that are kept.
const MEMBERS: usize = 6;

const DIES: (&str, &str) = ("dies", "dies, which read independently of one another");

/// Addresses of a die.
#[derive(Clone, Debug)]
pub(super) struct Die {
    pub(super) members: Vec<Spot>,
}

impl Die {
    /// The address that stands for it.
    pub(super) fn spot(&self) -> Spot {
        self.members[0]
    }

    /// Whether an address is of this die. Reads of two planes can be joined and so not meet, which
    /// depends on the pages: if it does not meet one of the die's addresses, another is asked.
    fn has(
        &self,
        probe: &mut Probe<'_>,
        meeting: &Meeting,
        spot: Spot,
        asks: usize,
    ) -> Result<bool, Ended> {
        for member in self.members.iter().take(asks) {
            if meeting.meet(probe, *member, spot)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Index of the die that an address is of.
pub(super) fn die_of(
    probe: &mut Probe<'_>,
    meeting: &Meeting,
    dies: &[Die],
    spot: Spot,
) -> Result<Option<usize>, Ended> {
    for asks in [1, MEMBERS] {
        for (index, die) in dies.iter().enumerate() {
            if die.has(probe, meeting, spot, asks)? {
                return Ok(Some(index));
            }
        }
    }
    Ok(None)
}

/// The search for dies.
#[derive(Default)]
struct Search {
    dies: Vec<Die>,
    /// Addresses that were asked.
    asked: usize,
    /// Of them, those since the last that was of a new die.
    since_new: i32,
}

impl Search {
    /// Asks addresses until hardly any die can have been missed; whether there were not too many groups.
    fn run(&mut self, probe: &mut Probe<'_>, meeting: &Meeting) -> Result<bool, Ended> {
        let block = probe.block_bytes();
        while (1.0 - 1.0 / (self.dies.len() + 1) as f64).powi(self.since_new) > MISSED {
            let offset = probe.anywhere(SMALL, SMALL);
            let spot = Spot::at(probe, offset, block)?;
            self.asked += 1;
            let mut found = die_of(probe, meeting, &self.dies, spot)?;
            if found.is_none() && probe.repeats() > 1 {
                // Noise, or a time that was taken long ago, looks like a new die.
                probe.rest(PAUSE)?;
                for member in self.dies.iter_mut().flat_map(|die| &mut die.members) {
                    *member = member.better(probe)?;
                }
                let again = spot.better(probe)?;
                found = die_of(probe, meeting, &self.dies, again)?;
            }
            match found {
                Some(index) => {
                    self.since_new += 1;
                    let members = &mut self.dies[index].members;
                    if members.len() < MEMBERS {
                        members.push(spot);
                    }
                }
                None => {
                    self.since_new = 0;
                    self.dies.push(Die { members: vec![spot] });
                }
            }
            if self.dies.len() > GROUPS_MOST {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Looks again whether the members of each die meet: an address that noise has put into a wrong one
    /// takes all others of its own die there. So do dies that are one. Whether there are more or fewer now.
    fn check(&mut self, probe: &mut Probe<'_>, meeting: &Meeting) -> Result<bool, Ended> {
        let before = self.dies.len();
        let (mut clean, mut strays) = (Vec::new(), Vec::new());
        for die in &self.dies {
            let mut parts = parts(probe, meeting, die)?;
            parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
            let mut parts = parts.into_iter().map(|members| Die { members });
            clean.extend(parts.next());
            strays.extend(parts);
        }
        self.dies.clear();
        for die in clean {
            let mut is_known = false;
            for known in &self.dies {
                is_known = is_known || known.has(probe, meeting, die.spot(), 1)?;
            }
            if !is_known {
                self.dies.push(die);
            }
        }
        for die in strays {
            if die_of(probe, meeting, &self.dies, die.spot())?.is_none() {
                self.dies.push(die);
            }
        }
        Ok(self.dies.len() != before)
    }
}

/// The members of a die, those together that meet one another, or one that meets both.
fn parts(probe: &mut Probe<'_>, meeting: &Meeting, die: &Die) -> Result<Vec<Vec<Spot>>, Ended> {
    let mut parts: Vec<Vec<Spot>> = Vec::new();
    for member in &die.members {
        let member = member.better(probe)?;
        let (mut own, mut others) = (vec![member], Vec::new());
        for part in parts {
            let mut meets = false;
            for other in &part {
                meets = meets || meeting.meet(probe, *other, member)?;
            }
            match meets {
                true => own.extend(part),
                false => others.push(part),
            }
        }
        others.push(own);
        parts = others;
    }
    Ok(parts)
}

/// There are no dies that can be told; then what seemed to be a meeting of two reads was none.
fn cannot(known: &mut Known, findings: &mut Findings, because: String) {
    known.meeting = None;
    findings.findings.retain(|finding| finding.key != meeting::WHAT.0);
    findings.cannot(meeting::WHAT, because.clone());
    findings.cannot(DIES, because);
}

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let Some(meeting) = known.meeting else {
        findings.cannot(DIES, "reads that meet cannot be told from those that do not".to_owned());
        return Ok(());
    };
    let mut search = Search::default();
    for _ in 0..ROUNDS {
        search.since_new = 0;
        if !search.run(probe, &meeting)? {
            let because = format!(
                "{} addresses fall into more than {GROUPS_MOST} groups of which two meet: that two \
                 reads wait for one another is chance here",
                search.asked
            );
            cannot(known, findings, because);
            return Ok(());
        }
        if probe.repeats() == 1 || !search.check(probe, &meeting)? {
            break;
        }
    }
    let Search { dies, since_new, asked } = search;
    let lonely = dies.iter().filter(|die| die.members.len() == 1).count();
    if lonely > 0 {
        let because = format!(
            "{lonely} of {asked} random addresses meet no other, the rest fall into {} groups: \
             something answers some of them in place of the flash",
            dies.len() - lonely
        );
        cannot(known, findings, because);
        return Ok(());
    }
    let (met, pairs) = meeting.met;
    let expected = pairs as f64 / dies.len() as f64;
    let off = (met as f64 - expected).abs();
    // Pairs that meet by chance are nearly of a Poisson distribution.
    if off > SURELY * expected.sqrt() && off > UNEVEN * expected {
        let because = format!(
            "addresses fall into {} groups of which two meet, of which {expected:.0} of {pairs} \
             random pairs would meet, and {met} did",
            dies.len()
        );
        cannot(known, findings, because);
        return Ok(());
    }
    let evidence = format!(
        "{asked} random addresses fall into {} groups of which any two meet; the last {since_new} \
         were of none that was new",
        dies.len()
    );
    findings.found(
        DIES,
        Value::Count(dies.len() as u64),
        None,
        evidence,
        ("Chen, Lee and Zhang, HPCA 2011, section 4; Kim et al., MICRO 2018 (SSDcheck)", None),
    );
    known.dies = dies;
    Ok(())
}
