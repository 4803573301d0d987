//! What a growth comes from: told apart by the names of stages, and by what else the records say.

use super::beyond::Beyond;
use super::comparison::Comparison;
use super::load::Loads;
use super::place::Place;
use crate::analysis::Analysis;
use crate::presence::{Company, Scope, ahead, stays};
use crate::queue_models::StageModel;
use crate::trace::Io;
use mynah_profile::Network;
use mynah_result::figures::{bandwidth, bytes, count, duration, percent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The smallest part of a growth that is spoken of.
pub(super) const SHARE: f64 = 0.25;
/// Share of the sending time from which a full window or buffer is mentioned.
const LIMITED: f64 = 0.2;
/// A limit is reached at so much of it.
const AT_LIMIT: f64 = 0.9;
/// A stage of the flash that takes this many times longer is slower itself.
const SLOWER: f64 = 1.1;
/// Queue entries are too few if this share of waiting I/Os got the last one.
const FULL: f64 = 0.25;
/// A target whose processor is busy for this share of the time has much to do.
const BUSY: f64 = 0.5;

/// What the flash itself takes.
const OF_FLASH: [&str; 3] = ["flash_array", "flash_command", "flash_transfer"];

/// Something that connections counted.
type Counted = fn(&Network) -> u64;

/// What makes I/Os slower.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// I/Os wait for a free entry of a queue: there are too few.
    Sessions,
    /// Large transfers lie before others in a connection's output.
    SendQueue,
    /// The host's processor.
    HostCore,
    /// The network.
    Network,
    /// The network carries as much as it is said to carry.
    LinkLimit,
    /// Write data wait until the target has asked for them (R2T).
    Buffers,
    /// The target's processor.
    TargetCore,
    /// The target was late with nothing else to do.
    Lateness,
    /// Answers wait for room in the connection's output: whoever is to take them is slow.
    Backlog,
    /// The drive does as much as it is said to do.
    DriveLimit,
    /// More is asked for than before.
    MoreLoad,
    /// Somebody else asks of the drive what nobody did before.
    Neighbour,
    /// The drive works for itself: it collects garbage, writes tables or caches back.
    Background,
    /// The flash itself takes longer.
    SlowFlash,
    /// Writes wait for room in the write cache.
    WriteCache,
    /// The table of addresses is read from flash.
    Mapping,
    /// Another stage of the drive.
    DriveStage,
    /// Somewhere beyond the host.
    Remote,
    /// A stage of which only its name is known.
    Other,
}

/// One of several causes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseShare {
    /// What it is.
    pub cause: Cause,
    /// The stage in which most of it shows.
    pub stage: String,
    /// Its part of the growth.
    pub share: f64,
}

/// A cause, and what speaks for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) cause: Cause,
    pub(super) place: Place,
    /// The stage that has grown most there.
    pub(super) stage: String,
    /// All places that were counted together.
    pub(super) family: &'static [Place],
    /// Its part of the growth, from 0 to 1.
    pub(super) share: f64,
    /// What it shows as, where more load is the cause.
    pub(super) shows_as: Option<Cause>,
    /// Other causes, the largest first.
    pub(super) beside: Vec<CauseShare>,
    pub(super) evidence: Vec<String>,
    /// It waits for entries of queues that others hold longer than in the base: what makes those
    /// slower makes this slower.
    pub(super) others_hold: bool,
}

impl Finding {
    /// Most of it is in this stage; what it is is still to be told.
    fn new(stage: String, family: &'static [Place], share: f64, evidence: Vec<String>) -> Finding {
        let (cause, place) = (Cause::Other, Place::of(&stage));
        let (shows_as, beside, others_hold) = (None, vec![], false);
        Finding { cause, place, stage, family, share, shows_as, beside, evidence, others_hold }
    }
}

/// Places that one thing slows down together.
pub(super) const FAMILIES: [&[Place]; 8] = [
    &[Place::Slots],
    &[Place::HostSend, Place::Host],
    &[Place::Request, Place::Response],
    &[Place::Buffers],
    &[Place::Target, Place::Late, Place::TargetSend],
    &[Place::Drive],
    &[Place::Remote],
    &[Place::Other],
];
const HOST: &[Place] = FAMILIES[1];
const NETWORK: &[Place] = FAMILIES[2];
const TARGET: &[Place] = FAMILIES[4];

/// All that a cause is found by.
pub(super) struct Case<'a> {
    pub(super) base: &'a Analysis,
    pub(super) now: &'a Analysis,
    /// Name of the group that is judged.
    pub(super) name: &'a str,
    pub(super) comparison: &'a Comparison,
    pub(super) loads: &'a Loads,
    pub(super) beyond: &'a Beyond,
    pub(super) models: &'a [StageModel],
}

impl Case<'_> {
    /// What the growth comes from; nothing if no part of it is large enough, or beyond its noise.
    pub(super) fn finding(&self) -> Option<Finding> {
        let mut ranked = FAMILIES.to_vec();
        let grown = |family: &[Place]| self.comparison.grown_in(family);
        ranked.sort_by(|a, b| grown(b).total_cmp(&grown(a)));
        let speaks = |family: &[Place]| {
            self.comparison.share(family) >= SHARE && self.comparison.is_beyond_noise(family)
        };
        let mut ranked = ranked.into_iter();
        let mut family = ranked.next().filter(|family| speaks(family))?;
        let mut evidence = vec![];
        if family == [Place::Slots]
            && let Some(next) = ranked.next()
            && let Some(text) = self.slots_follow(next)
        {
            evidence.push(text);
            family = next;
        }
        let is_send = |place| self.comparison.grown_in(&[place]) > grown(family) / 2.0;
        let sends = [Place::HostSend, Place::TargetSend].into_iter().any(is_send);
        if sends && speaks(NETWORK) {
            evidence.push("what waits to be sent waits for the network, which is slower".into());
            family = NETWORK;
        }
        let stage = self.comparison.most(family)?.stage.clone();
        let mut finding = Finding::new(stage, family, self.comparison.share(family), evidence);
        self.tell_apart(&mut finding);
        self.against_limits(&mut finding);
        self.by_model(&mut finding);
        self.beside(&mut finding, &speaks);
        Some(finding)
    }

    /// More load comes first, as it can be behind all the rest, unless something that load does not
    /// change has more of the growth. Without it, other places with a large part are named.
    fn beside(&self, finding: &mut Finding, speaks: &dyn Fn(&[Place]) -> bool) {
        if !self.loads.has_grown() || !may_be_load(finding.cause) {
            for family in FAMILIES.into_iter().filter(|it| *it != finding.family && speaks(it)) {
                let follows = |of: &[Place]| finding.family == NETWORK && of != [Place::Drive];
                if family != [Place::Slots] && !follows(family) {
                    finding.beside.extend(self.named_of(family));
                }
            }
            return;
        }
        let flash = self.flash_itself().map(|(stage, share)| (Cause::SlowFlash, stage, share));
        let network = self.network_itself().map(|(stage, share)| (Cause::Network, stage, share));
        let others = [flash, network].into_iter().flatten();
        let mut others: Vec<CauseShare> =
            others.map(|(cause, stage, share)| CauseShare { cause, stage, share }).collect();
        let rest = (1.0 - others.iter().map(|it| it.share).sum::<f64>()).max(0.0);
        finding.evidence.insert(0, format!("asked for: {}", self.loads.describe()));
        let own = others.iter().position(|it| it.cause == finding.cause && it.share > rest);
        if let Some(at) = own {
            finding.share = others.remove(at).share;
            let stage = self.most_but(finding.family, &finding.stage);
            others.push(CauseShare { cause: Cause::MoreLoad, stage, share: rest });
        } else {
            if finding.cause == Cause::SlowFlash {
                // That is beside it; load shows in what waits.
                finding.stage = self.most_but(finding.family, &finding.stage);
                finding.cause = Cause::DriveStage;
            }
            finding.shows_as = Some(finding.cause);
            (finding.cause, finding.share) = (Cause::MoreLoad, rest);
        }
        others.sort_by(|a, b| b.share.total_cmp(&a.share));
        finding.beside = others;
    }

    /// The stage of a family that has grown most beside this one, if any has.
    fn most_but(&self, family: &[Place], but: &str) -> String {
        let stages = self.comparison.stages.iter();
        let others = stages.filter(|it| it.stage != but && family.contains(&Place::of(&it.stage)));
        let most = others.max_by(|a, b| a.grown().total_cmp(&b.grown()));
        most.filter(|it| it.grown() > 0.0).map_or(but, |it| &it.stage).to_owned()
    }

    /// The cause of another family's growth.
    fn named_of(&self, family: &'static [Place]) -> Option<CauseShare> {
        let stage = self.comparison.most(family)?.stage.clone();
        let mut finding = Finding::new(stage, family, self.comparison.share(family), vec![]);
        self.tell_apart(&mut finding);
        let Finding { cause, stage, share, .. } = finding;
        Some(CauseShare { cause, stage, share })
    }

    /// What flash operations themselves have grown by, which no load changes.
    fn flash_itself(&self) -> Option<(String, f64)> {
        let stage = self.slower_flash(0.01)?.0;
        let share: f64 = OF_FLASH.into_iter().map(|name| self.comparison.stage_share(name)).sum();
        Some((stage, share.clamp(0.0, 1.0)))
    }

    /// What the network takes at the least, which no load changes.
    fn network_itself(&self) -> Option<(String, f64)> {
        let least = |analysis: &Analysis| {
            let of_network = |name: &String| NETWORK.contains(&Place::of(name));
            let stages = &analysis.header.stages;
            let at: Vec<usize> = (0..stages.len()).filter(|&at| of_network(&stages[at])).collect();
            let is_own = analysis.is_of(self.name);
            let own = analysis.trace.ios().iter().filter(|io| is_own(io));
            let spent = |io: &Io| -> u64 {
                let spans = analysis.trace.stages_of(io);
                at.iter().map(|&at| spans[at]).sum()
            };
            own.map(spent).min().map(|least| least as f64)
        };
        let grown = least(self.now)? - least(self.base)?;
        let share = grown / self.comparison.total.grown().max(1.0);
        let stage = self.comparison.most(NETWORK)?.stage.clone();
        (share >= SHARE).then_some((stage, share.min(1.0)))
    }

    fn tell_apart(&self, finding: &mut Finding) {
        finding.cause = match finding.place {
            Place::Slots => {
                let mut cause = Cause::Sessions;
                if let Some(slots) = self.slots() {
                    // Who waits for the host has entries before him.
                    if slots.waited_full < FULL {
                        cause = Cause::HostCore;
                    }
                    finding.others_hold = cause == Cause::Sessions && slots.are_held_longer();
                    finding.evidence.push(slots.evidence);
                }
                cause
            }
            Place::HostSend => self.sent(finding, "host_submit", true, Cause::HostCore),
            Place::Host => Cause::HostCore,
            Place::Request | Place::Response => Cause::Network,
            Place::Buffers => Cause::Buffers,
            Place::Target => Cause::TargetCore,
            Place::Late => self.late(finding),
            Place::TargetSend if finding.stage == "backlog" => Cause::Backlog,
            Place::TargetSend => self.sent(finding, "output", false, Cause::TargetCore),
            Place::Drive => self.of_drive(finding),
            Place::Remote => Cause::Remote,
            Place::Other => Cause::Other,
        };
        if [HOST, TARGET].contains(&finding.family) && finding.cause != Cause::SendQueue {
            let core = self.company(self.now, &finding.stage, Scope::All, |_| 0);
            let before = self.company(self.base, &finding.stage, Scope::All, |_| 0);
            if core.ios > 0 {
                let (before, ahead) = (count(before.ahead), count(core.ahead));
                finding
                    .evidence
                    .push(format!("I/Os before one in {}: {before} -> {ahead}", finding.stage));
            }
        }
        if finding.family == NETWORK {
            self.network(finding);
        }
    }

    /// Whether waits for a free entry follow from a slower `next`: the entries would do for these
    /// arrivals if the rest took as long as in the base.
    fn slots_follow(&self, next: &[Place]) -> Option<String> {
        let slots = self.slots()?;
        let rest = self.comparison.total.grown() - self.comparison.grown_in(&[Place::Slots]);
        let large = rest > 0.0 && self.comparison.grown_in(next) >= SHARE * rest;
        (large && self.comparison.is_beyond_noise(next) && slots.are_held_longer()).then(|| {
            format!(
                "I/Os wait for entries of queues because each is held for {}, {} in the base",
                duration(slots.rest_now / 1e3),
                duration(slots.rest_base / 1e3)
            )
        })
    }

    fn slots(&self) -> Option<Slots> {
        let at =
            |analysis: &Analysis| analysis.header.stages.iter().position(|it| it == "host_queue");
        let (base_at, now_at) = (at(self.base)?, at(self.now)?);
        let held = |analysis: &Analysis, at: usize| {
            let last = analysis.header.stages.len() - 1;
            let each =
                if at < last { stays(&analysis.trace, at + 1, last, Scope::Queue) } else { vec![] };
            let ios: usize = each.iter().map(Vec::len).sum();
            let sum: u128 = each.iter().flatten().map(|it| u128::from(it.leave - it.enter)).sum();
            (each, sum as f64 / ios.max(1) as f64, ios)
        };
        let (_, rest_base, _) = held(self.base, base_at);
        let (queues, rest_now, ios) = held(self.now, now_at);
        let (mut entries, mut waited, mut full) = (0, 0u64, 0u64);
        for stays in &queues {
            let before = ahead(&self.now.trace, stays);
            let Some(most) = before.iter().map(|it| it.ios + 1).max() else { continue };
            entries += most;
            let has_waited = |io: &Io| self.now.trace.stages_of(io)[now_at] > 0;
            for (stay, before) in stays.iter().zip(&before) {
                if has_waited(&self.now.trace.ios()[stay.io]) {
                    waited += 1;
                    full += u64::from((before.ios + 1) * 10 >= most * 9);
                }
            }
        }
        let capacity = entries as f64 * self.now.trace.window() as f64;
        let busy = |rest: f64| ios as f64 * rest / capacity.max(1.0);
        let waited_full = full as f64 / waited.max(1) as f64;
        let evidence = format!(
            "{entries} entries of {} queues, {} of them taken on average; with the base's times {} \
             would be; of I/Os that waited {} got one of the last",
            queues.len(),
            percent(busy(rest_now)),
            percent(busy(rest_base)),
            percent(waited_full)
        );
        Some(Slots { rest_base, rest_now, busy_at_base: busy(rest_base), waited_full, evidence })
    }

    fn company(
        &self,
        analysis: &Analysis,
        stage: &str,
        scope: Scope,
        weight: impl Fn(&Io) -> u64,
    ) -> Company {
        let Some(at) = analysis.header.stages.iter().position(|it| it == stage) else {
            return Company::default();
        };
        Company::of(&analysis.trace, (at, at), scope, analysis.is_of(self.name), weight)
    }

    /// Whether what waits to be sent waits behind large transfers, or for the processor.
    fn sent(&self, finding: &mut Finding, stage: &str, to_target: bool, core: Cause) -> Cause {
        let of = |analysis: &Analysis| {
            let kinds = &analysis.header.kinds;
            let carries = |io: &Io| {
                let writes = kinds.get(usize::from(io.kind)).is_some_and(|kind| is_write(kind));
                if writes == to_target { u64::from(io.bytes) } else { 0 }
            };
            self.company(analysis, stage, Scope::Queue, carries)
        };
        let (base, now) = (of(self.base), of(self.now));
        let own = self
            .now
            .group(self.name)
            .map_or(0.0, |group| group.bytes as f64 / group.total.count().max(1) as f64);
        let each = now.bytes_ahead / now.ahead.max(1e-9);
        let more = now.bytes_ahead >= 16384.0 && now.bytes_ahead >= 2.0 * base.bytes_ahead;
        // As fast for each byte as those of the base that met nobody: the processor is no slower, there
        // is more before them.
        let as_before = now.bytes_ahead * base.alone_ps / own.max(1.0);
        let explains = as_before >= 0.75 * (now.mean_ps - base.alone_ps) && each >= 1.5 * own;
        let large = each >= 4.0 * own.max(4096.0) || now.bytes_ahead >= 262_144.0 || explains;
        if now.ios > 0 {
            finding.evidence.push(format!(
                "bytes before an I/O in its connection's output: {} -> {}, {} for each I/O before it",
                bytes(base.bytes_ahead),
                bytes(now.bytes_ahead),
                bytes(if now.ahead > 0.0 { each } else { 0.0 })
            ));
        }
        if more && large { Cause::SendQueue } else { core }
    }

    /// Whether completions are late because there is much to do, or for nothing: by how busy the target
    /// was at the least.
    fn late(&self, finding: &mut Finding) -> Cause {
        let now = self.company(self.now, "late", Scope::All, |_| 0);
        // A busy processor is also late to take commands in.
        let busy = self.comparison.share(&[Place::Target]) >= 0.1;
        let at_work = self.target_at_work();
        if now.alone > 0 && !self.now.is_partial() {
            finding.evidence.push(format!(
                "completions that were late alone were so by {}, all by {}",
                duration(now.alone_ps / 1e3),
                duration(now.mean_ps / 1e3)
            ));
        }
        finding.evidence.push(format!(
            "commands take at least {} of one processor of the target",
            percent(at_work)
        ));
        if !busy && at_work < BUSY { Cause::Lateness } else { Cause::TargetCore }
    }

    /// Which part of one processor the target's own work takes at the least: what all commands would
    /// take if each took as long as the fastest tenth.
    fn target_at_work(&self) -> f64 {
        let stages = &self.now.header.stages;
        let works = |name: &String| matches!(Place::of(name), Place::Target) || name == "output";
        let at: Vec<usize> = (0..stages.len()).filter(|&at| works(&stages[at])).collect();
        let trace = &self.now.trace;
        let spent = |io: &Io| at.iter().map(|&at| trace.stages_of(io)[at]).sum();
        let mut all: Vec<u64> = trace.ios().iter().map(spent).collect();
        let nth = all.len() / 10;
        if nth >= all.len() {
            return 0.0;
        }
        (*all.select_nth_unstable(nth).1 as f64 / 1e12 * self.loads.iops_now).min(1.0)
    }

    /// What the connections said of themselves.
    fn network(&self, finding: &mut Finding) {
        let (base, now) = (self.base.header.network, self.now.header.network);
        let Some(now) = now else {
            finding.evidence.push("connections were not asked what limits them".into());
            return;
        };
        let per_second = |count: u64, of: &Network| count as f64 * 1e6 / of.asked_us.max(1) as f64;
        let pairs: [(&str, Counted); 2] = [
            ("segments sent again a second", |it| it.retransmits),
            ("segments that came out of order a second", |it| it.out_of_order),
        ];
        let mut lost = false;
        for (what, of) in pairs {
            let was = base.as_ref().map_or(0.0, |it| per_second(of(it), it));
            let is = per_second(of(&now), &now);
            lost |= is > 2.0 * was && is >= 1.0;
            let was = base.map_or("?".into(), |_| format!("{was:.1}"));
            finding.evidence.push(format!("{what}: {was} -> {is:.1}"));
        }
        if lost {
            finding.evidence.push("the network loses segments, or lets them overtake".into());
        }
        let was = base.map_or("?".into(), |it| format!("{}us", it.rtt_us));
        finding.evidence.push(format!("round trip: {was} -> {}us", now.rtt_us));
        let part = |of: u64| of as f64 / now.busy_us.max(1) as f64;
        for (what, of) in [
            ("the target's window was full", now.window_limited_us),
            ("the host's send buffer was full", now.buffer_limited_us),
        ] {
            if part(of) > LIMITED {
                finding.evidence.push(format!("{what} in {} of the time", percent(part(of))));
            }
        }
    }

    fn of_drive(&self, finding: &mut Finding) -> Cause {
        let drive = self.comparison.grown_in(finding.family);
        // Entries are held while what is behind them is slow.
        if finding.stage == "submission_queue" {
            let mut rest: Vec<_> = (self.comparison.stages.iter())
                .filter(|it| Place::of(&it.stage) == Place::Drive && it.stage != "submission_queue")
                .collect();
            rest.sort_by(|a, b| b.grown().total_cmp(&a.grown()));
            if let Some(next) = rest.first().filter(|it| it.grown() >= 0.1 * drive) {
                finding.evidence.push("commands wait in their queue for those in the drive".into());
                finding.stage = next.stage.clone();
            }
        }
        if let Some((stage, text)) = self.slower_flash(0.05) {
            finding.evidence.push(text);
            finding.stage = stage;
            return Cause::SlowFlash;
        }
        let loads = self.loads;
        let share = |stage: &str| self.comparison.stage_share(stage);
        match finding.stage.as_str() {
            "mapping" => return Cause::Mapping,
            "block_wait" => return Cause::Background,
            _ if share("block_wait") >= SHARE / 2.0 => return Cause::Background,
            _ => {}
        }
        let names: Vec<&str> = loads.others.iter().map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            let theirs: f64 = loads.others.iter().map(|(_, rate)| rate).sum();
            finding.evidence.push(format!("{} came, with {}", names.join(", "), bandwidth(theirs)));
        }
        match finding.stage.as_str() {
            _ if !names.is_empty() => Cause::Neighbour,
            // More of the same makes them wait.
            "cache_wait" | "die_wait" | "channel_wait" if loads.has_grown() => Cause::DriveStage,
            "cache_wait" if !self.flash_is_busier() => Cause::WriteCache,
            // Who had what they waited for, where that is known: its own I/Os, on fewer dies say.
            "cache_wait" | "die_wait" | "channel_wait"
                if self.held_by_itself(&mut finding.evidence) == Some(false) =>
            {
                Cause::DriveStage
            }
            "cache_wait" | "die_wait" | "channel_wait" => {
                finding.evidence.push(format!(
                    "no more is asked of it: {:.2} times the I/Os and {:.2} times the bytes a second",
                    loads.iops, loads.bytes
                ));
                Cause::Background
            }
            _ => Cause::DriveStage,
        }
    }

    /// Whether what the drive does for itself has a large part of what waits have grown by; nothing where
    /// the records do not say who had what I/Os waited for.
    fn held_by_itself(&self, evidence: &mut Vec<String>) -> Option<bool> {
        let each = |analysis: &Analysis| {
            let held = analysis.header.held_ns.as_ref()?;
            let ios = analysis.counts.completed.max(1) as f64;
            let sum = |own: bool| -> f64 {
                let is_own = |name: &str| ["own", "others"].contains(&name);
                let all = held.iter().filter(|(name, _)| is_own(name) == own);
                all.map(|(_, ns)| *ns as f64).sum::<f64>() / ios
            };
            Some((sum(true), sum(false)))
        };
        let ((own_base, base), (own, now)) = (each(self.base)?, each(self.now)?);
        evidence.push(format!(
            "waits held by I/Os themselves: {} -> {} each; by the drive's own work: {} -> {}",
            duration(own_base),
            duration(own),
            duration(base),
            duration(now)
        ));
        let (own, now) = ((own - own_base).max(0.0), (now - base).max(0.0));
        Some(now >= SHARE * (own + now))
    }

    /// A flash operation that takes longer itself and has so much of the growth at least, and what says
    /// so: of those I/Os that have any, so that it does not matter how many a cache answers.
    fn slower_flash(&self, least: f64) -> Option<(String, String)> {
        let spent = |analysis: &Analysis, name: &str| {
            let at = analysis.header.stages.iter().position(|it| it == name)?;
            analysis.group(self.name)?.spent_mean_ns(at)
        };
        for name in OF_FLASH {
            let (Some(base), Some(now)) = (spent(self.base, name), spent(self.now, name)) else {
                continue;
            };
            let grown = self.comparison.stage(name).map_or(0.0, |it| it.grown());
            if now >= SLOWER * base && grown >= least * self.comparison.total.grown() {
                let text = format!("{name} alone: {} -> {}", duration(base), duration(now));
                return Some((name.to_owned(), text));
            }
        }
        None
    }

    /// Whether reads, or writes past the cache, wait longer for dies than in the base.
    fn flash_is_busier(&self) -> bool {
        let waits = |analysis: &Analysis, name: &str| {
            let at = |stage: &str| analysis.header.stages.iter().position(|it| it == stage);
            let group = analysis.group(name)?;
            let each = ["die_wait", "block_wait", "channel_wait"].into_iter().filter_map(at);
            Some(each.map(|at| group.stage(at).mean_ns().unwrap_or(0.0)).sum::<f64>())
        };
        self.now.groups().any(|(name, group)| {
            let Some(base) = waits(self.base, &name) else { return false };
            let now = waits(self.now, &name).unwrap_or(0.0);
            let mean = group.total.mean_ns().unwrap_or(0.0);
            now >= 1.5 * base && now - base >= 0.1 * mean
        })
    }

    /// What a queue model says of the stage: what more load alone explains.
    fn by_model(&self, finding: &mut Finding) {
        let Some(model) = self.models.iter().find(|it| it.stage == finding.stage) else { return };
        let (base, measured) = (model.base_ns, model.measured_ns);
        if model.model == "delay" || base <= 0.0 {
            return;
        }
        let load = (base + model.more_load_ns).max(0.0);
        finding.evidence.push(format!(
            "predicted from more load alone {:.1}x, measured {:.1}x ({}, service of {})",
            load / base,
            measured / base,
            model.model,
            model.service
        ));
    }

    fn against_limits(&self, finding: &mut Finding) {
        let limits = self.beyond.limits;
        let rate = self.loads.bytes_per_s;
        let reached = |limit: Option<f64>| limit.filter(|limit| rate >= AT_LIMIT * limit);
        let text = |limit: f64| {
            format!("{} of the {} that it is said to carry", bandwidth(rate), bandwidth(limit))
        };
        if finding.family == [Place::Drive]
            && let Some(limit) = reached(limits.drive_bytes_per_s)
        {
            finding.evidence.push(text(limit));
            finding.cause = Cause::DriveLimit;
        }
        let waits_for_link = finding.family == NETWORK
            || matches!(finding.cause, Cause::Backlog | Cause::SendQueue | Cause::Remote);
        if waits_for_link && let Some(limit) = reached(limits.link_bytes_per_s) {
            finding.evidence.push(text(limit));
            finding.cause = Cause::LinkLimit;
        }
    }
}

/// Whether more load can be behind it; who finds large transfers before it, a limit or a neighbour
/// knows more.
fn may_be_load(cause: Cause) -> bool {
    use Cause::{DriveLimit, LinkLimit, Neighbour, SendQueue, Sessions};
    ![SendQueue, Sessions, LinkLimit, DriveLimit, Neighbour].contains(&cause)
}

/// Whether such I/Os bring data to the target.
fn is_write(kind: &str) -> bool {
    ["write", "store", "update", "append", "compare"].iter().any(|it| kind.contains(it))
}

struct Slots {
    /// How long an entry is held, in picoseconds.
    rest_base: f64,
    rest_now: f64,
    /// Share of the entries that would be taken if they were held as long as in the base.
    busy_at_base: f64,
    /// Which part of the I/Os that waited got one of the last entries.
    waited_full: f64,
    evidence: String,
}

impl Slots {
    /// Whether there would be entries enough for these arrivals, if each were held as long as in the
    /// base.
    fn are_held_longer(&self) -> bool {
        let times = self.rest_now / self.rest_base.max(1.0);
        times >= 3.0 || times >= 1.5 && self.busy_at_base < AT_LIMIT
    }
}
