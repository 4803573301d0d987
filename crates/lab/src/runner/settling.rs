//! The settling run: the load of a run, on the drive that is put into its computed steady state,
//! timed and not measured, until the drive's own balance holds. Where random writes have aged the
//! drive (`ageing.rs`), they are that load.
//!
//! What is computed is the state of a plane in the long run. At which moment of its collections
//! each plane is, how many free blocks a load leaves it and what the cache holds depends on the
//! load and the drive together, and is found by running them. Then the drive begins anew at time
//! zero, in the middle of its work ([`Drive::begin_anew`]), and the run begins.
//!
//! How long that takes is decided by what was simulated and never by the machine's clock, so one
//! seed gives the same bytes everywhere.

use super::job::Job;
use super::{Before, Progress, RecordedDrive, RunError, RunOptions, Runner};
use crate::experiment::Settle;
use mynah_model::config::Fault;
use mynah_model::precondition::Preconditioned;
use mynah_model::stats::Counters;
use mynah_model::turnover::Turnover;
use mynah_model::{Drive, Policies};
use mynah_result::{Grounds, Settled, Steadiness, Verdict};
use mynah_stamp::{Span, Time};
use mynah_workload::{FlowSpec, Limits, Schedule, Source, When, seed};

/// Events after which settling ends by itself: some five CPU seconds.
const EVENTS_MAX: u64 = 20_000_000;
/// Events that a settling takes in any case, some half a CPU second, if all blocks have not been turned
/// over before: what was computed may be off by more than a few blocks show.
const EVENTS_MIN: u64 = 2_000_000;
/// A settling that has been found to be at its end goes on for a part of its time, from this to this.
const PART_AFTER: [f64; 2] = [0.125, 0.375];
/// Completions between two looks at the drive.
const LOOK_EVERY: u64 = 512;
/// Blocks that each plane collects before it is judged whether they are in balance.
const BLOCKS_MIN: u64 = 4;
/// The standard error of write amplification with which a drive may begin a run: more than one of
/// which something is to be said.
const ERROR_MAX: f64 = 0.05;
/// How far apart two figures of write amplification have to be to be noted.
const NOTED: f64 = 0.05;
/// Longer than any settling lasts, and shorter than time.
pub(super) const FOR_EVER: Span = Span::from_secs(90 * 24 * 3600);

/// What had happened at some moment of the settling: what has happened since then can be judged by
/// itself.
struct Moment {
    turnover: Turnover,
    counters: Counters,
}

impl Moment {
    fn of(drive: &Drive<impl Policies>, turnover: Turnover) -> Moment {
        Moment { turnover, counters: drive.counters() }
    }

    /// Judges what has happened since then, if the drive has turned over so much `now`.
    fn judge(
        &self,
        drive: &Drive<impl Policies>,
        now: &Turnover,
        expected: Option<f64>,
    ) -> Steadiness {
        let counted = [&self.counters, &drive.counters()];
        let grounds = Grounds::new(drive, counted, expected, ERROR_MAX);
        Steadiness::judge(&now.since(&self.turnover), grounds)
    }
}

/// The moments at which a settling was judged. Each time it is judged by its last half: how it
/// began is forgotten.
struct Judge {
    moments: Vec<Moment>,
    /// Blocks collected when it is judged next.
    next: u64,
    expected: Option<f64>,
}

impl Judge {
    fn new(drive: &Drive<impl Policies>, expected: Option<f64>) -> Judge {
        let next = BLOCKS_MIN * u64::from(drive.config().geometry.planes());
        Judge { moments: vec![Moment::of(drive, drive.turnover())], next, expected }
    }

    /// How the drive is, if enough has happened since it was judged last.
    fn look(&mut self, drive: &Drive<impl Policies>) -> Option<Steadiness> {
        if drive.blocks_turned_over() < self.next {
            return None;
        }
        self.next += self.next / 4 + 1;
        let turnover = drive.turnover();
        let judged = self.judge(drive, &turnover);
        self.moments.push(Moment::of(drive, turnover));
        Some(judged)
    }

    /// How the drive is in the last half of what has happened.
    fn judge(&self, drive: &Drive<impl Policies>, now: &Turnover) -> Steadiness {
        let first_half = |moment: &&Moment| moment.turnover.now.collected * 2 <= now.now.collected;
        let moment = self.moments.iter().rfind(first_half).unwrap_or(&self.moments[0]);
        moment.judge(drive, now, self.expected)
    }
}

impl<P: Policies> Runner<P> {
    /// Lets the drive settle under the flows, as the options say, before anything is measured.
    /// `progress` may end it, and the run with it.
    ///
    /// # Errors
    /// See [`RunError`]. A drive that has no steady state under these flows is found here.
    pub fn settled(self, progress: impl FnMut(Before) -> bool) -> Result<Runner<P>, RunError> {
        let mut runner = match self.is_ready {
            true => self,
            false => self.settle(progress)?,
        };
        runner.keep_computed();
        if !runner.is_ready {
            runner = runner.with_slc_set()?;
        }
        runner.warm_cache()?;
        runner.keep();
        let expected = runner.expected_waf();
        let sampler = runner.observers.as_mut().and_then(|it| it.sampler.as_mut());
        sampler.into_iter().for_each(|sampler| sampler.expect(expected));
        Ok(runner)
    }

    fn settle(mut self, mut progress: impl FnMut(Before) -> bool) -> Result<Runner<P>, RunError> {
        self.write_as_flows_do(&mut progress)?;
        if self.settle == Settle::Off {
            return Ok(self);
        }
        if let Some(why) = self.cannot_settle() {
            // Who asked for a time is told.
            if let Settle::For(_) = self.settle {
                self.notes.push(format!("the drive has not settled: {why}"));
            }
            return Ok(self);
        }
        // Flows that follow others are not there yet.
        let flows: Vec<FlowSpec> = match &self.aged_by {
            Some(writes) => writes.clone(),
            None if self.begins_at_rest() => vec![],
            None => self.stages.flows().map(|flow| endless(&self.specs[flow])).collect(),
        };
        self.warm_cache()?;
        let faults = self.drive.config().faults.clone();
        let lasting = lasting(&faults);
        let options = RunOptions { seed: self.seed, ..RunOptions::default() };
        let mut drive = self.drive.into_drive();
        let watched = drive.keeps_activity();
        drive.keep_activity(false);
        // Of what flows that are to come will leave there may be collections to end.
        if faults != lasting || flows.is_empty() {
            drive.begin_anew(lasting);
        }
        let mut inner = Runner::on(drive, &flows, &options, When::Before)?;
        if flows.is_empty() {
            inner.drain()?;
            let mut drive = inner.drive.into_drive();
            drive.keep_activity(watched);
            drive.begin_anew(faults);
            let drive = RecordedDrive::new(drive, self.seed);
            return Ok(Runner { drive, warmed: 0, readied: true, ..self });
        }
        inner.keys = self.keys.take();
        let expected = self.preconditioned.as_ref().and_then(|found| found.expected_waf);
        let progress = |settling| progress(Before::Settling(settling));
        let settled = inner.settle_for(self.settle, expected, progress);
        let settled = settled.map_err(|error| match error {
            RunError::NeverDone { .. } => RunError::NoSteadyState(Box::new(error)),
            error => error,
        })?;
        let settled = Settled { random_writes: self.aged_by.is_some(), ..settled };
        if settled.random_writes {
            // A load that is lighter than what has aged the drive would first see the end of its
            // collections.
            inner.drain()?;
        }
        inner.end_keys()?;
        let mut keys = inner.keys.take();
        let mut drive = inner.drive.into_drive();
        let collected = drive.blocks_turned_over();
        drive.keep_activity(watched);
        drive.begin_anew(faults);
        if let Some(keys) = &mut keys {
            keys.stopped(&drive.take_lost_pairs());
        }
        let mut runner = Runner {
            drive: RecordedDrive::new(drive, self.seed),
            keys,
            // The settling has warmed the cache further.
            warmed: 0,
            ..self
        };
        runner.believe(&settled, collected);
        runner.settled = Some(settled);
        Ok(runner)
    }

    /// When all blocks have been turned over, the write amplification that the drive has settled at
    /// counts, and not the one that was computed.
    fn believe(&mut self, settled: &Settled, collected: u64) {
        let blocks = self.drive.config().geometry.blocks();
        let Some(found) = self.preconditioned.as_ref().filter(|_| self.aged_by.is_none()) else {
            return;
        };
        let (Some(waf), Some(computed)) = (settled.end.waf_collection, found.expected_waf) else {
            return;
        };
        if settled.end.verdict != Verdict::Steady || collected < blocks {
            return;
        }
        if (waf / computed - 1.0).abs() > NOTED {
            self.notes.push(format!(
                "write amplification of collection was computed to be {computed:.2}; the drive has \
                 settled at {waf:.2}, with all its blocks turned over"
            ));
        }
        self.expects(Some(waf));
    }

    /// Lets what is under way of flows of keys come to its end: a key that is being stored anew is
    /// to be there when the run begins.
    fn end_keys(&mut self) -> Result<(), RunError> {
        self.jobs.iter_mut().filter(|job| job.keys).for_each(Job::issue_no_more);
        while self.jobs.iter().any(|job| job.keys && job.outstanding > 0) && self.advance() {
            let now = self.drive.now();
            self.react()?;
            self.take_arrivals(now)?;
            if now >= self.horizon {
                self.reach_horizon()?;
            }
        }
        Ok(())
    }

    /// How much longer a settling lasts that has come to its end at `now`. Looks come with
    /// completions, which come in bursts, and planes go in step from the start: so that the run
    /// begins at any moment of that, it is drawn from the seed.
    fn more_time(&self, now: Time) -> Span {
        let drawn = seed::derive(self.seed, u64::MAX, None, seed::ALL_JOBS);
        let share = drawn as f64 / u64::MAX as f64;
        let [least, most] = PART_AFTER;
        Span::from_ps((now.as_ps() as f64 * (least + (most - least) * share)) as u64)
    }

    /// Whether the first flows do not write, and others, which follow them, do.
    fn begins_at_rest(&self) -> bool {
        !self.stages.flows().any(|flow| self.specs[flow].modifies())
            && self.specs.iter().any(FlowSpec::modifies)
    }

    /// Why the drive does not settle under the flows, if it does not.
    fn cannot_settle(&self) -> Option<&'static str> {
        let sources = self.specs.iter().map(|flow| &flow.source);
        let mut first = self.stages.flows().map(|flow| &self.specs[flow].source);
        let writes = |source: &Source| match source {
            Source::Synthetic(synthetic) => synthetic.mix.write() > 0.0,
            Source::Trace(_) | Source::Front(_) => true,
            Source::KeyValue(flow) => flow.mix.modifies(),
        };
        if !self.warms_cache {
            Some("it does not start from its steady state (--precondition steady)")
        } else if self.drive.config().flash.rewritable {
            Some("what is overwritten where it lies is always at rest")
        } else if self.aged_by.is_some() {
            None
        } else if !sources.into_iter().any(writes) {
            Some("no flow writes")
        } else if self.specs.iter().filter_map(FlowSpec::key_value).any(|it| it.mix.changes_keys())
        {
            Some(
                "a flow stores new keys or deletes some, and would not find those that it begins with",
            )
        } else if first.any(|source| matches!(source, Source::Trace(_))) {
            Some(
                "a trace ends, and cannot go on for as long as that takes (--precondition \
                 steady:random settles under random writes)",
            )
        } else {
            None
        }
    }

    /// The drive as it has been prepared, and how.
    pub(crate) fn into_prepared(self) -> (Drive<P>, (Option<Preconditioned>, Option<Settled>)) {
        (self.drive.into_drive(), (self.preconditioned, self.settled))
    }

    /// Runs until the drive is at rest, or as long as it was asked to.
    fn settle_for(
        &mut self,
        settle: Settle,
        expected: Option<f64>,
        mut progress: impl FnMut(Progress) -> bool,
    ) -> Result<Settled, RunError> {
        let mut until = match settle {
            Settle::For(time) => Time::ZERO + time,
            Settle::Auto | Settle::Off => Time::MAX,
        };
        let first_event = self.drive.events_processed();
        let blocks = self.drive.config().geometry.blocks();
        self.start()?;
        let mut judge = Judge::new(&self.drive, expected);
        let mut next_look = LOOK_EVERY;
        let mut end = None;
        while self.advance() {
            let now = self.drive.now();
            self.react()?;
            self.take_arrivals(now)?;
            if now >= self.horizon {
                self.reach_horizon()?;
                next_look = self.completed.min(next_look);
            }
            if now >= until {
                break;
            }
            if self.completed < next_look {
                continue;
            }
            next_look = self.completed + LOOK_EVERY;
            let events = self.drive.events_processed() - first_event;
            if until == Time::MAX {
                let judged = judge.look(&self.drive);
                let is_long = events >= EVENTS_MIN || self.drive.blocks_turned_over() >= blocks;
                end = judged.filter(|judged| is_long && judged.verdict == Verdict::Steady);
                if end.is_some() || events >= EVENTS_MAX {
                    until = now + self.more_time(now);
                }
            }
            let passed = now.as_ps() as f64;
            let done = match settle {
                Settle::For(time) => passed / time.as_ps() as f64,
                _ if until < Time::MAX => passed / until.as_ps() as f64,
                _ => events as f64 / EVENTS_MAX as f64,
            };
            if !progress(Progress { done, now, completed: self.completed }) {
                return Err(RunError::Interrupted);
            }
        }
        Ok(Settled {
            time: self.drive.now().since(Time::ZERO),
            requests: self.completed,
            events: self.drive.events_processed() - first_event,
            end: end.unwrap_or_else(|| judge.judge(&self.drive, &self.drive.turnover())),
            random_writes: false,
        })
    }
}

/// Those that a drive has all the time.
pub(super) fn lasting(faults: &[Fault]) -> Vec<Fault> {
    faults.iter().filter(|fault| matches!(fault, Fault::SlowDie { .. })).copied().collect()
}

/// The flow as it goes on for ever, from the start.
fn endless(flow: &FlowSpec) -> FlowSpec {
    FlowSpec {
        limits: Limits { runtime: Some(FOR_EVER), ..Limits::default() },
        schedule: Schedule { start: Span::ZERO, ..flow.schedule },
        after_previous: false,
        ..flow.clone()
    }
}
