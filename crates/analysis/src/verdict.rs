//! What makes a profile's I/Os slower than those of a base: one sentence, what speaks for it, what to
//! try, and what it is not.
//!
//! A group is compared with the same of the base. Stages are ranked by their part of what the latency
//! has grown by: trifles amplify most. Nothing is said of a growth within its noise, of less than a
//! tenth, or of which no part is a quarter; nor of records that cannot be trusted.

mod beyond;
mod cause;
mod comparison;
mod load;
mod noise;
mod place;
mod words;

pub use beyond::{Beyond, Limits, bytes_per_s};
pub use cause::{Cause, CauseShare};
pub(super) use place::switch_of;

use super::analysis::Analysis;
use super::queue_models::StageModel;
use cause::{Case, FAMILIES, Finding};
use comparison::{Comparison, WINDOWS, slow};
use load::Loads;
use mynah_result::figures::{duration, percent};
use noise::Difference;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The smallest growth that is reported: a test of significance alone would report trifles.
const FLOOR: f64 = 0.1;
/// Fewest I/Os of a group, in either profile.
const IOS: u64 = 128;
/// Windows that are slower than any of the base are spoken of if there are so many, and they are so
/// much of all.
const SLOW_WINDOWS: usize = 4;
const SLOW_PART: f64 = 0.1;
/// Of so many I/Os, one may be lost, or one record damaged.
const FEW: u64 = 1000;

/// What it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is slower, and this is why.
    Slower,
    /// It is slower, but no part of it has a quarter of that.
    Spread,
    /// Nothing is slower beyond noise and floor.
    NotSlower,
    /// The records do not bear a verdict.
    Untrusted,
}

/// A stage's part of a growth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageVerdict {
    /// Its name.
    pub stage: String,
    /// Where it is.
    pub place: String,
    /// What it takes in the base, in the middle half of windows of time.
    pub base_ns: f64,
    /// What it takes now.
    pub now_ns: f64,
    /// How many times longer.
    pub amplification: Option<f64>,
    /// Its part of the growth.
    pub share: f64,
}

/// A verdict on one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// What it came to.
    pub outcome: Outcome,
    /// In a sentence.
    pub sentence: String,
    /// What makes it slower: the first of the causes.
    pub cause: Option<Cause>,
    /// All causes that have a large part of the growth.
    #[serde(default)]
    pub causes: Vec<CauseShare>,
    /// The stage in which most of it is.
    pub stage: Option<String>,
    /// The group whose I/Os are slower for that cause, where this one only waits for entries of
    /// queues that they hold.
    #[serde(default)]
    pub through: Option<String>,
    /// The latency in the base: the median of the means of windows of time.
    pub base_ns: Option<f64>,
    /// The latency now.
    pub now_ns: Option<f64>,
    /// Half of the interval in which 99 % of draws put the growth.
    pub noise_ns: Option<f64>,
    /// What speaks for it.
    pub evidence: Vec<String>,
    /// What to try.
    #[serde(rename = "try")]
    pub to_try: Vec<String>,
    /// What has not grown.
    pub not_it: Vec<String>,
    /// Stages by their part of the growth, the largest first; those of a thousandth or more.
    pub stages: Vec<StageVerdict>,
}

impl Verdict {
    fn new(outcome: Outcome, sentence: String) -> Verdict {
        Verdict {
            outcome,
            sentence,
            cause: None,
            causes: vec![],
            stage: None,
            through: None,
            base_ns: None,
            now_ns: None,
            noise_ns: None,
            evidence: vec![],
            to_try: vec![],
            not_it: vec![],
            stages: vec![],
        }
    }

    /// It is slower because others are, which hold entries of queues longer.
    fn follow(&mut self, through: &str, verdict: &Verdict) {
        self.sentence = format!(
            "{}: its entries are held longer by {through}, which are slower: {}.",
            place::Place::Slots.name(),
            verdict.cause.map_or("", Cause::sentence)
        );
        (self.cause, self.to_try) = (verdict.cause, verdict.to_try.clone());
        self.causes = verdict.causes.clone();
        self.through = Some(through.to_owned());
    }

    /// By how much the latency has grown.
    pub fn grown_ns(&self) -> f64 {
        self.now_ns.unwrap_or(0.0) - self.base_ns.unwrap_or(0.0)
    }

    pub fn text(&self) -> String {
        let mut text = format!("VERDICT  {}\n", self.sentence);
        for (title, all) in
            [("evidence", &self.evidence), ("try", &self.to_try), ("not it", &self.not_it)]
        {
            for (number, line) in all.iter().enumerate() {
                let title = if number == 0 { title } else { "" };
                text.push_str(&format!("  {title:<9} {line}\n"));
            }
        }
        text
    }
}

/// Judges every group that both profiles have, by its name.
pub(super) fn judge(
    base: &Analysis,
    now: &Analysis,
    beyond: &Beyond,
    models: &BTreeMap<String, Vec<StageModel>>,
) -> BTreeMap<String, Verdict> {
    let untrusted = distrust(now, "this profile").or_else(|| distrust(base, "the base"));
    let loads = Loads::of(base, now);
    let lost: Vec<String> =
        [lost(now, "this profile"), lost(base, "the base")].into_iter().flatten().collect();
    let names =
        now.groups().filter(|(name, group)| group.total.count() > 0 && base.group(name).is_some());
    let mut waiting = vec![];
    let mut judged = BTreeMap::new();
    for (name, _) in names {
        let verdict = match &untrusted {
            Some(reason) => Verdict::new(Outcome::Untrusted, format!("No verdict: {reason}.")),
            None => {
                let models = models.get(&name).map_or(&[][..], Vec::as_slice);
                let (mut verdict, others_hold) =
                    of_group(&Sides { base, now, loads: &loads, beyond }, &name, models);
                if !lost.is_empty() {
                    let caution = format!("By what is left ({}): ", lost.join("; "));
                    verdict.sentence.insert_str(0, &caution);
                }
                if others_hold {
                    waiting.push(name.clone());
                }
                verdict
            }
        };
        judged.insert(name, verdict);
    }
    let own = judged.iter().filter(|(name, it)| it.cause.is_some() && !waiting.contains(name));
    let added = |(name, it): &(&String, &Verdict)| {
        it.grown_ns() * now.group(name).map_or(0.0, |group| group.total.count() as f64)
    };
    let most = own.max_by(|a, b| added(a).total_cmp(&added(b)));
    if let Some((through, verdict)) = most.map(|(name, it)| (name.clone(), it.clone())) {
        for name in waiting {
            if let Some(it) = judged.get_mut(&name) {
                it.follow(&through, &verdict);
            }
        }
    }
    judged
}

/// Why a profile's records do not bear a verdict.
fn distrust(analysis: &Analysis, whose: &str) -> Option<String> {
    let records = analysis.records + analysis.torn;
    if analysis.torn > 1 && analysis.torn.saturating_mul(FEW) > records {
        return Some(format!("{} of {records} records of {whose} are damaged", analysis.torn));
    }
    if analysis.uneven > 0 {
        let uneven = analysis.uneven;
        return Some(format!(
            "the stages of {uneven} I/Os of {whose} do not add up to their latency"
        ));
    }
    None
}

/// Prefix of a verdict that says which I/Os it is on, where many records are lost.
fn lost(analysis: &Analysis, whose: &str) -> Option<String> {
    let counts = analysis.counts;
    (counts.lost.saturating_mul(FEW) > counts.completed).then(|| {
        let rest = counts.completed - counts.lost;
        let part = percent(rest as f64 / counts.completed.max(1) as f64);
        let all = counts.completed;
        format!("of {all} I/Os of {whose} the records of {part} are left, the others were lost")
    })
}

/// What verdicts on all groups are made from.
struct Sides<'a> {
    base: &'a Analysis,
    now: &'a Analysis,
    loads: &'a Loads,
    beyond: &'a Beyond,
}

/// The verdict, and whether it waits for what others hold.
fn of_group(of: &Sides<'_>, name: &str, models: &[StageModel]) -> (Verdict, bool) {
    let Sides { base, now, loads, beyond } = *of;
    let mut sides = vec![];
    for (analysis, whose) in [(base, "the base"), (now, "this profile")] {
        let Some(group) = analysis.group(name) else { continue };
        let (means, ios) = (group.windows.means(), group.total.count());
        if ios < IOS || means.len() < WINDOWS {
            let windows = means.len();
            let mut text = format!(
                "No verdict: {whose} has {ios} such I/Os in {windows} windows of time, and it takes {IOS} \
                 in {WINDOWS}."
            );
            if analysis.counts.sampled_out > 0 {
                text.push_str(" Record them all: --profile-sample 1.");
            }
            return (Verdict::new(Outcome::Untrusted, text), false);
        }
        sides.push((&analysis.header.stages[..], means));
    }
    let [(base_stages, base_means), (now_stages, now_means)] = &sides[..] else {
        let text = "No verdict: the base has no such I/Os.".to_owned();
        return (Verdict::new(Outcome::Untrusted, text), false);
    };
    let compared = |now: &[_]| Comparison::of((base_stages, base_means), (now_stages, now));
    let mut comparison = compared(now_means);
    let mut total = comparison.total;
    let noise = percent(total.noise() / total.base);
    let (slow, part) = slow(base_means, now_means);
    let mut when = String::new();
    if !is_slower(&total) && slow.len() >= SLOW_WINDOWS && part >= SLOW_PART {
        comparison = compared(&slow);
        total = comparison.total;
        when = format!("In {} of the time: ", percent(part));
    }
    let mut others_hold = false;
    let mut verdict = if is_slower(&total) {
        let case = Case { base, now, name, comparison: &comparison, loads, beyond, models };
        match case.finding() {
            Some(finding) => {
                others_hold = finding.others_hold;
                speak(&comparison, now, finding, loads, &when)
            }
            None => {
                let grown = duration(total.grown() / 1e3);
                let text =
                    format!("{when}It is slower by {grown}, but no part has a quarter of that.");
                Verdict::new(Outcome::Spread, text)
            }
        }
    } else if total.low > 0.0 {
        let grown = percent(total.grown() / total.base);
        let text = format!("Nothing is slower than the base by a tenth ({grown}, noise ±{noise}).");
        Verdict::new(Outcome::NotSlower, text)
    } else {
        let text = format!("Nothing is slower than the base beyond its noise (±{noise}).");
        Verdict::new(Outcome::NotSlower, text)
    };
    verdict.base_ns = Some(total.base / 1e3);
    verdict.now_ns = Some(total.now / 1e3);
    verdict.noise_ns = Some(total.noise() / 1e3);
    verdict.stages = stages(&comparison);
    (verdict, others_hold)
}

/// Whether a growth is beyond its noise, and the floor.
fn is_slower(total: &Difference) -> bool {
    total.low > 0.0 && total.grown() >= FLOOR * total.base
}

fn stages(comparison: &Comparison) -> Vec<StageVerdict> {
    let of = |it: &comparison::StageGrowth| StageVerdict {
        stage: it.stage.clone(),
        place: place::Place::of(&it.stage).name().to_owned(),
        base_ns: it.base / 1e3,
        now_ns: it.now / 1e3,
        amplification: it.times(),
        share: comparison.stage_share(&it.stage),
    };
    let mut all: Vec<StageVerdict> = comparison.stages.iter().map(of).collect();
    all.retain(|it| it.share.abs() >= 0.001);
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all
}

/// What is said of a finding.
fn sentence(comparison: &Comparison, finding: &Finding, loads: &Loads, when: &str) -> String {
    let times = match comparison.times_in(finding.family) {
        None => "new".to_owned(),
        Some(times) => format!("{times:.1}x its base"),
    };
    let place = place::Place::of(&finding.stage).name();
    let part = percent(comparison.share(finding.family));
    let grown = duration(comparison.total.grown() / 1e3);
    let stage = &finding.stage;
    let mut sentence = match finding.shows_as {
        Some(cause) => format!(
            "{when}more is asked for: {}. Most of it shows in {place}: {} ({stage}). It is {times}, {part} \
             of the {grown} that were added.",
            loads.describe(),
            cause.sentence()
        ),
        None => format!(
            "{when}{place}: {} ({stage}). It is {times}, {part} of the {grown} that were added.",
            finding.cause.sentence()
        ),
    };
    for CauseShare { cause, stage, share } in &finding.beside {
        let place = match cause {
            Cause::MoreLoad => String::new(),
            _ => format!("{}: ", place::Place::of(stage).name()),
        };
        let share = percent(*share);
        sentence
            .push_str(&format!(" Beside that, {place}{} ({stage}), {share}.", cause.sentence()));
    }
    sentence
}

fn speak(
    comparison: &Comparison,
    now: &Analysis,
    finding: Finding,
    loads: &Loads,
    when: &str,
) -> Verdict {
    let sentence = sentence(comparison, &finding, loads, when);
    let mut verdict = Verdict::new(Outcome::Slower, sentence);
    let times =
        |times: Option<f64>| times.map_or("new".to_owned(), |it| format!("{it:.1}x its base"));
    let stage_times = comparison.stage(&finding.stage).and_then(comparison::StageGrowth::times);
    let first =
        CauseShare { cause: finding.cause, stage: finding.stage.clone(), share: finding.share };
    verdict.causes = std::iter::once(first).chain(finding.beside).collect();
    verdict.cause = Some(finding.cause);
    if let Some(it) = comparison.stage(&finding.stage) {
        verdict.evidence.push(format!(
            "{}: {} -> {} ({}), {} of the growth",
            it.stage,
            duration(it.base / 1e3),
            duration(it.now / 1e3),
            times(stage_times),
            percent(comparison.stage_share(&it.stage)),
        ));
    }
    verdict.stage = Some(finding.stage);
    verdict.evidence.extend(finding.evidence);
    let causes = [Some(finding.cause), finding.shows_as].into_iter().flatten();
    let advice = causes.flat_map(|cause| cause.advice(now.header.side));
    verdict.to_try = advice.map(|it| (*it).to_owned()).collect();
    let others = FAMILIES.into_iter().filter(|family| *family != finding.family);
    let others = others.filter_map(|family| {
        let name = comparison.most(family).map(|it| place::Place::of(&it.stage).name())?;
        let share = comparison.share(family);
        let times = comparison.times_in(family)?;
        (share < cause::SHARE).then(|| format!("{name} {times:.1}x"))
    });
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        verdict.not_it.push(others.join(", "));
    }
    verdict
}
