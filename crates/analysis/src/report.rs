//! What is said of a profile, for machines; `text.rs` says the same to people.

use super::analysis::{Analysis, Group};
use super::choice::choice_text;
use super::interference::{Interference, interference};
use super::path::PathReport;
use super::queue_models::{StageModel, by_group, obstacle};
use super::verdict::{Beyond, Outcome, Verdict, judge};
use mynah_result::Latency;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The profiles that were asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileReports {
    /// `mynah.profile-report/1`.
    pub schema: String,
    /// The file that they are laid beside.
    pub base: Option<String>,
    /// One for each file.
    pub profiles: Vec<ProfileReport>,
}

/// One profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileReport {
    /// The file.
    pub file: String,
    /// Whose view it is: simulation, host or target.
    pub side: String,
    /// Of which drive, or target.
    pub name: String,
    /// The program that wrote it.
    pub program: String,
    /// What became of the I/Os that ended.
    pub counts: Counted,
    /// Which I/Os have records; null: all of them.
    pub choice: Option<String>,
    /// Whether I/Os were taken by time, so that they are not like all.
    #[serde(default)]
    pub by_time: bool,
    /// How many I/Os each of the sample stands for.
    pub weight: f64,
    /// From the beginning of the first I/O that was counted to the end of the last; of those that have
    /// a record, where nothing else is known.
    pub window_ns: f64,
    /// I/Os whose stages do not add up to their latency.
    pub uneven: u64,
    /// By how much at most they do not.
    pub residual_max_ns: f64,
    /// How it was joined from a host's side and a target's; absent from other profiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathReport>,
    /// Its I/Os in groups.
    pub groups: Vec<GroupReport>,
    /// The group that speaks for all: of those that are slower, the one with the most time added.
    #[serde(default)]
    pub speaker: Option<String>,
    /// Why there are no queue models, beside a base.
    #[serde(default)]
    pub no_queue_models: Option<String>,
    /// Who was in the same stage as whom, and what that cost; where there are several, and every I/O
    /// has a record.
    #[serde(default)]
    pub interference: Vec<Interference>,
}

/// What became of the I/Os that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// All of them.
    pub completed: u64,
    /// Those with a record.
    pub recorded: u64,
    /// Those that a filter left out.
    pub filtered: u64,
    /// Those that sampling left out.
    pub sampled_out: u64,
    /// Those for whose record there was no room.
    pub lost: u64,
    /// Records that were damaged, or being written.
    pub torn: u64,
}

/// I/Os that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupReport {
    /// What they have in common.
    pub name: String,
    /// How many of the sample succeeded.
    pub ios: u64,
    /// How many were kept since they were slow, and are not of the sample: nothing else counts them.
    pub kept: u64,
    /// How long the slowest of those took.
    pub kept_max_ns: f64,
    /// How many failed, by NVMe status (code type and code, in hexadecimal).
    pub failed: BTreeMap<String, u64>,
    /// I/Os for each second of the window, as the sample has them.
    pub iops: f64,
    /// Their bytes a second.
    pub bw_bytes_per_s: f64,
    /// How many of them were under way, on average over the window (Little's law).
    pub outstanding: f64,
    /// How long they took, from the beginning of the first stage to the end of the last.
    pub lat_ns: Option<Latency>,
    /// Where that went, in the order in which an I/O passes the stages; without those that none
    /// spent time in.
    pub stages: Vec<StageReport>,
    /// What has grown over the base, if there is one that has such I/Os.
    pub growth: Option<Growth>,
    /// What makes it slower than the base, if there is one that has such I/Os.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// Queue models of its stages, beside a base that has such I/Os.
    #[serde(default)]
    pub queue_models: Vec<StageModel>,
}

/// One stage of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageReport {
    /// Its name.
    pub stage: String,
    /// Its mean time; the means of all stages add up to the mean latency.
    pub mean_ns: f64,
    /// Its part of the mean latency.
    pub share: f64,
    /// How many of the group's I/Os were in it, on average over the window (Little's law).
    #[serde(default)]
    pub in_stage: f64,
    /// What half of the I/Os did not exceed, those that did not pass it included.
    pub p50_ns: f64,
    /// What 99 of 100 did not exceed.
    pub p99_ns: f64,
    /// The longest.
    pub max_ns: f64,
    /// Its mean time in the base.
    pub base_mean_ns: Option<f64>,
    /// How many times longer it is than in the base, on average (the paper's latency amplification
    /// degree); null where the base has none of it.
    pub amplification: Option<f64>,
    /// Its part of what the latency has grown by; null where that has not grown.
    pub growth_share: Option<f64>,
}

/// What a group has grown by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Growth {
    /// The mean latency of the base.
    pub base_mean_ns: f64,
    /// How many times longer the mean latency is.
    pub amplification: f64,
    /// The stage with the largest part of it, if the latency has grown.
    pub stage: Option<String>,
}

/// Name and version of the document.
const SCHEMA: &str = "mynah.profile-report/1";

impl ProfileReports {
    /// What these profiles come to, beside a base.
    pub fn new(profiles: &[Analysis], base: Option<&Analysis>) -> ProfileReports {
        ProfileReports::knowing(profiles, base, &Beyond::default())
    }

    /// The same with what else is known.
    pub fn knowing(
        profiles: &[Analysis],
        base: Option<&Analysis>,
        beyond: &Beyond,
    ) -> ProfileReports {
        let profiles = profiles.iter().map(|it| ProfileReport::new(it, base, beyond)).collect();
        let base = base.map(|base| base.path.display().to_string());
        ProfileReports { schema: SCHEMA.to_owned(), base, profiles }
    }

    /// The JSON Schema of these documents, as checked in at `docs/profile-report.schema.json`.
    pub fn json_schema() -> String {
        let schema = schemars::generate::SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator()
            .into_root_schema_for::<ProfileReports>();
        let mut text = serde_json::to_string_pretty(&schema).expect("names and types");
        text.push('\n');
        text
    }

    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers and names");
        text.push('\n');
        text
    }
}

impl ProfileReport {
    fn new(analysis: &Analysis, base: Option<&Analysis>, beyond: &Beyond) -> ProfileReport {
        let counts = analysis.counts;
        let weight = analysis.weight();
        let seconds = analysis.period().as_secs_f64() / weight;
        let stages = &analysis.header.stages;
        let scale = (seconds, analysis.under_way_per_ps());
        let groups =
            analysis.groups().map(|(name, group)| group_report(name, group, stages, scale, base));
        let mut groups: Vec<GroupReport> = groups.collect();
        if let Some(base) = base {
            let mut models = by_group(base, analysis);
            let mut verdicts = judge(base, analysis, beyond, &models);
            for group in &mut groups {
                group.verdict = verdicts.remove(&group.name);
                group.queue_models = models.remove(&group.name).unwrap_or_default();
            }
        }
        ProfileReport {
            file: analysis.path.display().to_string(),
            side: analysis.header.side.name().to_owned(),
            name: analysis.header.name.clone(),
            program: analysis.header.program.clone(),
            counts: Counted {
                completed: counts.completed,
                recorded: counts.recorded,
                filtered: counts.filtered,
                sampled_out: counts.sampled_out,
                lost: counts.lost,
                torn: analysis.torn,
            },
            choice: analysis.header.choice.as_ref().map(choice_text),
            by_time: analysis.is_by_time(),
            weight,
            window_ns: analysis.period().as_ns_f64(),
            uneven: analysis.uneven,
            residual_max_ns: analysis.residual_max as f64 / 1e3,
            path: analysis.joined,
            speaker: speaker(&groups),
            no_queue_models: base.and_then(|base| obstacle(base, analysis)).map(str::to_owned),
            interference: interference(analysis, base),
            groups,
        }
    }

    /// The verdict of the group that speaks for all.
    pub fn verdict(&self) -> Option<&Verdict> {
        let speaker = self.speaker.as_ref()?;
        self.groups.iter().find(|group| group.name == *speaker)?.verdict.as_ref()
    }
}

/// The group that speaks for all: the slower ones first, then the one with the most time added.
fn speaker(groups: &[GroupReport]) -> Option<String> {
    let judged = groups.iter().filter_map(|group| Some((group, group.verdict.as_ref()?)));
    let rank = |verdict: &Verdict| match verdict.outcome {
        Outcome::Slower if verdict.through.is_none() => 4,
        Outcome::Slower => 3,
        Outcome::Spread => 2,
        Outcome::NotSlower => 1,
        Outcome::Untrusted => 0,
    };
    let added = |group: &GroupReport, verdict: &Verdict| verdict.grown_ns() * group.ios as f64;
    let most = judged.max_by(|(a, one), (b, other)| {
        let ranks = rank(one).cmp(&rank(other));
        ranks.then(added(a, one).total_cmp(&added(b, other)))
    });
    most.map(|(group, _)| group.name.clone())
}

fn group_report(
    name: String,
    group: &Group,
    stages: &[String],
    (seconds, under_way): (f64, f64),
    base: Option<&Analysis>,
) -> GroupReport {
    let ios = group.total.count();
    let mean = group.total.mean_ns().unwrap_or(0.0);
    let base = base.and_then(|base| base.base_of(&name));
    let per_second = |number: f64| if seconds > 0.0 { number / seconds } else { 0.0 };
    let grown = base.as_ref().map(|(base_mean, _)| mean - base_mean).filter(|grown| *grown > 0.0);
    let stage = |(number, stage): (usize, &String)| {
        let all = group.stage(number);
        let longest = all.max()?;
        let base_mean_ns = base.as_ref().map(|(_, of)| of.get(stage.as_str()).copied());
        let base_mean_ns = base_mean_ns.map(|mean| mean.unwrap_or(0.0));
        if longest.is_zero() && base_mean_ns.unwrap_or(0.0) == 0.0 {
            return None;
        }
        let mean_ns = all.mean_ns()?;
        let percentile = |percentile| all.percentile(percentile).map_or(0.0, |it| it.as_ns_f64());
        Some(StageReport {
            stage: stage.clone(),
            mean_ns,
            share: if mean > 0.0 { mean_ns / mean } else { 0.0 },
            in_stage: all.sum_ps() as f64 * under_way,
            p50_ns: percentile(50.0),
            p99_ns: percentile(99.0),
            max_ns: longest.as_ns_f64(),
            base_mean_ns,
            amplification: base_mean_ns.filter(|base| *base > 0.0).map(|base| mean_ns / base),
            growth_share: grown.zip(base_mean_ns).map(|(grown, base)| (mean_ns - base) / grown),
        })
    };
    let stages: Vec<StageReport> = stages.iter().enumerate().filter_map(stage).collect();
    let growth = base.filter(|(base_mean, _)| *base_mean > 0.0).map(|(base_mean_ns, _)| {
        let share = |stage: &StageReport| stage.growth_share.unwrap_or(0.0);
        let most = stages.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
        Growth {
            base_mean_ns,
            amplification: mean / base_mean_ns,
            stage: most.filter(|_| grown.is_some()).map(|stage| stage.stage.clone()),
        }
    });
    GroupReport {
        name,
        ios,
        kept: group.kept,
        kept_max_ns: group.kept_max.as_ns_f64(),
        failed: group
            .failed
            .iter()
            .map(|(status, count)| (format!("{:x}h/{:02x}h", status >> 8, status & 0xff), *count))
            .collect(),
        iops: per_second(ios as f64),
        bw_bytes_per_s: per_second(group.bytes as f64),
        outstanding: group.total.sum_ps() as f64 * under_way,
        lat_ns: group.total.latency(),
        stages,
        growth,
        verdict: None,
        queue_models: vec![],
    }
}
