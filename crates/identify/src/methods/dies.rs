//! How many dies there are: into so many groups addresses fall of which two meet.
//!
//! That two reads meet is an equivalence, so one address of each group is enough to tell whose any
//! other is (as SSDcheck's diagnosis of volumes, Kim et al., MICRO 2018, with dies in their place).

use super::Known;
use super::meeting::{Meeting, Spot};
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

pub(super) fn find(
    probe: &mut Probe<'_>,
    known: &mut Known,
    findings: &mut Findings,
) -> Result<(), Ended> {
    let Some(meeting) = known.meeting else {
        findings.cannot(DIES, "reads that meet cannot be told from those that do not".to_owned());
        return Ok(());
    };
    let block = probe.block_bytes();
    let mut dies: Vec<Die> = Vec::new();
    let (mut since_new, mut asked) = (0, 0);
    while (1.0 - 1.0 / (dies.len() + 1) as f64).powi(since_new) > MISSED {
        let offset = probe.anywhere(SMALL, SMALL);
        let spot = Spot::at(probe, offset, block)?;
        asked += 1;
        let mut found = die_of(probe, &meeting, &dies, spot)?;
        if found.is_none() && probe.repeats() > 1 {
            // Noise, or a time that was taken long ago, looks like a new die.
            for member in dies.iter_mut().flat_map(|die| &mut die.members) {
                *member = member.again(probe)?;
            }
            let again = spot.again(probe)?;
            found = die_of(probe, &meeting, &dies, again)?;
        }
        match found {
            Some(index) => {
                since_new += 1;
                let members = &mut dies[index].members;
                if members.len() < MEMBERS {
                    members.push(spot);
                }
            }
            None => {
                since_new = 0;
                dies.push(Die { members: vec![spot] });
            }
        }
        if dies.len() > GROUPS_MOST {
            let because = format!(
                "{asked} addresses fall into more than {GROUPS_MOST} groups of which two meet: \
                 that two reads wait for one another is chance here"
            );
            findings.cannot(DIES, because);
            return Ok(());
        }
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
        findings.cannot(DIES, because);
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
