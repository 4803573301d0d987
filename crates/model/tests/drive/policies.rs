//! What the drive decides by itself, written as policies of others: runs are the same to the byte. And
//! what becomes of policies that choose what cannot be chosen.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_model::policy::*;
use mynah_model::{Drive, Policies};
use mynah_stamp::Span;

/// A policy of [`VictimPolicy`], from outside.
struct Known(VictimPolicy);

impl VictimChoice for Known {
    fn dated(&self) -> Dated {
        match self.0 {
            VictimPolicy::Fifo => Dated::Filled,
            VictimPolicy::CostBenefit => Dated::Changed,
            _ => Dated::Never,
        }
    }

    fn choose(&mut self, blocks: &mut Candidates<'_>) -> Result<Option<u32>, String> {
        let least = blocks.in_turn().min_by_key(|it| it.valid);
        let pays = least.is_some_and(|it| blocks.pays(it.valid));
        let least = least.map(|it| it.block);
        let drawn = |blocks: &mut Candidates<'_>, fits: &dyn Fn(&Candidate) -> bool| {
            let fitting: Vec<u32> = blocks.iter().filter(fits).map(|it| it.block).collect();
            match fitting.len() {
                0 => None,
                count => Some(fitting[blocks.draw(count as u32) as usize]),
            }
        };
        let whole = blocks.units_per_block();
        let chosen = match self.0 {
            VictimPolicy::Greedy => least,
            // It draws before it looks at what they are.
            VictimPolicy::DChoices { d } => best_of_draws(blocks, d),
            _ if !pays => least,
            VictimPolicy::Random => drawn(blocks, &|_| true),
            VictimPolicy::RandomP { pages } => {
                let most = whole - (pages * blocks.units_per_page()).min(whole);
                let pays = |it: &Candidate, blocks: &Candidates<'_>| blocks.pays(it.valid);
                let fitting: Vec<u32> = blocks
                    .iter()
                    .filter(|it| it.valid <= most && pays(it, blocks))
                    .map(|it| it.block)
                    .collect();
                drawn(blocks, &|it| fitting.contains(&it.block))
            }
            VictimPolicy::RandomPlusPlus => {
                let (sum, count) =
                    blocks.iter().fold((0, 0), |(sum, n), it| (sum + u64::from(it.valid), n + 1));
                let fitting: Vec<u32> = blocks
                    .iter()
                    .filter(|it| u64::from(it.valid) * count < sum && blocks.pays(it.valid))
                    .map(|it| it.block)
                    .collect();
                drawn(blocks, &|it| fitting.contains(&it.block))
            }
            VictimPolicy::Fifo => {
                blocks.iter().min_by_key(|it| (u64::MAX - it.age, it.block)).map(|it| it.block)
            }
            VictimPolicy::CostBenefit => {
                let worth = |it: &Candidate| {
                    f64::from(whole - it.valid) * (it.age + 1) as f64 / (2.0 * f64::from(it.valid))
                };
                let paying = blocks.in_turn().filter(|it| blocks.pays(it.valid));
                let best = paying.fold(None, |best: Option<Candidate>, it| match best {
                    Some(best) if worth(&best) >= worth(&it) => Some(best),
                    _ => Some(it),
                });
                best.map(|it| it.block)
            }
        };
        Ok(chosen.or(least))
    }
}

fn best_of_draws(blocks: &mut Candidates<'_>, d: u32) -> Option<u32> {
    let (mut found, mut best) = (0, None::<Candidate>);
    for _ in 0..16 * d + 64 {
        let drawn = blocks.draw(blocks.blocks());
        let Some(candidate) = blocks.get(drawn) else { continue };
        if blocks.pays(candidate.valid) && best.is_none_or(|best| candidate.valid < best.valid) {
            best = Some(candidate);
        }
        found += 1;
        if found == d {
            return best.map(|it| it.block);
        }
    }
    None
}

/// Placement as [`Placement`] has it, from outside.
struct Places(Placement);

impl WritePlacement for Places {
    fn choose(&mut self, planes: &impl Planes) -> Result<usize, String> {
        let count = planes.count();
        let after = || (1..=count).map(|step| (planes.last() + step) % count);
        let with_room = || {
            after()
                .find(|&at| planes.has_room(at))
                .or_else(|| after().min_by_key(|&at| (!planes.takes_data(at), planes.held(at))))
        };
        let least = || {
            after().filter(|&at| planes.has_room(at)).min_by_key(|&at| {
                (planes.waiting(at) / planes.units_per_page(), !planes.is_idle(at))
            })
        };
        let chosen = match self.0 {
            Placement::LeastLoaded => least().or_else(with_room),
            _ => with_room(),
        };
        chosen.ok_or_else(|| "there are no planes".into())
    }
}

/// Counters of four bits, of which sixteen are halved at a time.
struct Counters {
    counts: Vec<u8>,
    decay: usize,
    due: usize,
    next: usize,
}

impl Counters {
    fn of(units: usize) -> Counters {
        let counts = vec![0; units.next_multiple_of(16)];
        Counters { decay: counts.len(), counts, due: 0, next: 0 }
    }
}

impl Heat for Counters {
    fn written(&mut self, unit: u32, _: bool) -> bool {
        let count = &mut self.counts[unit as usize];
        *count = (*count + 1).min(15);
        let hot = *count >= 4;
        self.due += self.counts.len() / 16;
        while self.due >= self.decay {
            self.due -= self.decay;
            let at = self.next * 16;
            self.counts[at..at + 16].iter_mut().for_each(|count| *count /= 2);
            self.next = (self.next + 1) % (self.counts.len() / 16);
        }
        hot
    }

    fn is_hot(&self, unit: u32, _: bool) -> bool {
        self.counts[unit as usize] >= 4
    }
}

/// The ends of the last 128 streams in order, and what each has written.
struct Streams {
    cutoff: u64,
    ends: Vec<(usize, u64, u64)>,
}

impl CacheAdmission for Streams {
    fn goes_past(&mut self, write: CacheWrite) -> bool {
        let CacheWrite { namespace, sector, sectors, .. } = write;
        let known = self.ends.iter().rposition(|&(of, end, _)| (of, end) == (namespace, sector));
        let before = known.map_or(0, |at| self.ends.remove(at).2);
        if self.ends.len() == 128 {
            self.ends.remove(0);
        }
        let sectors = u64::from(sectors);
        self.ends.push((namespace, sector + sectors, before + sectors));
        before >= self.cutoff / 512
    }
}

/// Whichever came first, or programs that have waited so long.
enum Order {
    Oldest,
    Deadline(Span),
}

impl PlaneScheduling for Order {
    fn program_goes(&mut self, waits: Waits) -> bool {
        match *self {
            Order::Oldest => waits.program_is_older,
            Order::Deadline(most) => waits.program >= most,
        }
    }
}

/// All that a run shows: completions with their stamps, counters, and the state that is left.
fn run<P: Policies>(mut host: Host<P>, reads: f64) -> (String, f64) {
    fill(&mut host);
    let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
    let mut random = Random(7);
    let mut next = 0;
    let done = host.closed_loop(8, units as usize * 4, |at| {
        let operation = if random.chance(reads) { Operation::Read } else { Operation::Write };
        // A stream in order among writes that are skewed.
        let unit = match at % 4 {
            0 => {
                next = (next + 1) % units;
                next
            }
            1 => random.below(units),
            _ => random.below(units / 8),
        };
        (operation, unit * 8, 8)
    });
    host.drive.check().expect("the invariants hold");
    assert_eq!(host.drive.policy_error(), None);
    let counters = host.drive.counters();
    let waf = counters.write_amplification().expect("written");
    (format!("{done:?} {counters:?} {}", host.drive.state_hash()), waf)
}

#[track_caller]
fn same<P: Policies>(configured: Config, other: Config, policies: P, reads: f64) -> f64 {
    let by_itself = run(Host::new(configured), reads);
    let from_outside = run(Host::deciding(other.clone(), policies), reads);
    assert!(by_itself == from_outside, "{} and {}", by_itself.1, from_outside.1);
    // The configuration that the policy was put into decides otherwise.
    assert!(run(Host::new(other), reads).0 != by_itself.0, "it makes no difference");
    by_itself.1
}

fn tight(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = one_plane(96, 16, 4, 0.85);
    change(&mut config);
    config
}

#[test]
fn victims_from_outside_are_those_of_the_drive() {
    let policies = [
        VictimPolicy::Greedy,
        VictimPolicy::DChoices { d: 3 },
        VictimPolicy::Random,
        VictimPolicy::RandomP { pages: 2 },
        VictimPolicy::RandomPlusPlus,
        VictimPolicy::Fifo,
        VictimPolicy::CostBenefit,
    ];
    for policy in policies {
        let other = match policy {
            VictimPolicy::Greedy => VictimPolicy::Fifo,
            _ => VictimPolicy::Greedy,
        };
        let drive = |victim| tight(|c| c.gc.victim = victim);
        let own = Own::named("known", "").victims(Known(policy));
        let waf = same(drive(policy), drive(other), own, 0.2);
        assert!(waf > 1.2, "{policy:?}: {waf}");
    }
}

fn placed(placement: Placement) -> Config {
    small_with(|c| (c.placement, c.namespaces[0].units) = (placement, Some(2000)))
}

#[test]
fn placement_from_outside_is_that_of_the_drive() {
    let (striped, least) = (placed(Placement::Striped), placed(Placement::LeastLoaded));
    let own = |placement| Own::named("known", "").placement(Places(placement));
    same(striped.clone(), least.clone(), own(Placement::Striped), 0.5);
    same(least, striped, own(Placement::LeastLoaded), 0.5);
}

#[test]
fn heat_from_outside_is_that_of_the_drive() {
    let hot = |data| tight(|c| c.gc.frontiers = WriteFrontiers::HotCold(data));
    let units = tight(|_| ()).namespaces[0].units.expect("given") as usize;
    let own = Own::named("known", "").heat(Counters::of(units));
    let other = HotData { threshold: 15, ..HotData::DEFAULT };
    same(hot(HotData::DEFAULT), hot(other), own, 0.2);
}

#[test]
fn admission_from_outside_is_that_of_the_drive() {
    let drive = |cutoff: u64| {
        crate::slc::drive(200, 4, |config, slc| {
            config.namespaces[0].units = Some(6000);
            (slc.static_share, slc.dynamic) = (0.1, 0.0);
            slc.sequential_cutoff = Some(cutoff);
        })
    };
    let cutoff = 16 * 4096;
    let own = Own::named("known", "").admission(Streams { cutoff, ends: vec![] });
    same(drive(cutoff), drive(1 << 30), own, 0.2);
}

#[test]
fn scheduling_from_outside_is_that_of_the_drive() {
    let oldest = small_with(|c| c.scheduler.precedence = Precedence::Oldest);
    same(oldest, small(), Own::named("known", "").scheduling(Order::Oldest), 0.6);
    let most = Span::from_us(150);
    let deadline = small_with(|c| c.scheduler.write_deadline = Some(most));
    same(deadline, small(), Own::named("known", "").scheduling(Order::Deadline(most)), 0.6);
}

/// Chooses what it was told to, at the third time.
struct Wild(Result<Option<u32>, String>, u32);

impl VictimChoice for Wild {
    fn choose(&mut self, blocks: &mut Candidates<'_>) -> Result<Option<u32>, String> {
        self.1 += 1;
        match self.1 {
            3.. => self.0.clone(),
            _ => Ok(blocks.iter().min_by_key(|it| it.valid).map(|it| it.block)),
        }
    }
}

#[test]
fn what_cannot_be_chosen_is_an_error_and_the_drive_goes_on() {
    let error = |chosen: Result<Option<u32>, String>| {
        let own = Own::named("wild", "").victims(Wild(chosen, 0));
        let mut host = Host::deciding(tight(|_| ()), own);
        fill(&mut host);
        let units = host.drive.namespace_sectors(NAMESPACE).expect("one") / 8;
        let mut random = Random(3);
        host.closed_loop(4, 4000, |_| (Operation::Write, random.below(units) * 8, 8));
        host.drive.check().expect("the invariants hold");
        host.drive.policy_error().map(ToString::to_string)
    };
    let said = error(Ok(Some(4000))).expect("there is no such block");
    let expected = "the policy `wild` chose block 4000 of plane 0 to be collected, which is not among \
                    the candidates";
    assert_eq!(said, expected);
    let said = error(Err("no idea".into())).expect("it could not");
    assert_eq!(said, "the policy `wild` could not choose: no idea");
    // To collect nothing is no mistake: the drive does once hosts wait.
    assert_eq!(error(Ok(None)), None);
}

/// A plane that does not exist.
struct Nowhere;

impl WritePlacement for Nowhere {
    fn choose(&mut self, planes: &impl Planes) -> Result<usize, String> {
        Ok(planes.count())
    }
}

#[test]
fn a_plane_that_does_not_exist_is_an_error() {
    let own = Own::named("nowhere", "").placement(Nowhere);
    let mut host = Host::deciding(placed(Placement::Striped), own);
    host.run_one(Operation::Write, 0, 8);
    host.send(Operation::Flush, 0, 0);
    host.finish();
    let said = host.drive.policy_error().map(ToString::to_string);
    let expected = "the policy `nowhere` put a write into plane 8 of 8, counted from 0";
    assert_eq!(said.as_deref(), Some(expected));
}

#[test]
fn a_drive_that_does_not_ask_refuses_the_policy() {
    let refused = |problem: Result<(), ConfigError>| problem.expect_err("it does not ask").key;
    let victims = || Own::named("known", "").victims(Known(VictimPolicy::Greedy));
    let built = |config: Config| Drive::with_policies(config, victims()).map(|_| ());
    assert_eq!(refused(built(small_with(|c| c.gc.unit = CollectionUnit::Superblock))), "gc.unit");
    let placement = Own::named("known", "").placement(Places(Placement::Striped));
    let built = Drive::with_policies(small(), placement).map(|_| ());
    assert_eq!(refused(built), "allocation.placement");
    let heat = Own::named("known", "").heat(Counters::of(16));
    let built = Drive::with_policies(small(), heat).map(|_| ());
    assert_eq!(refused(built), "gc.write_frontiers");
    let admission = Own::named("known", "").admission(Streams { cutoff: 0, ends: vec![] });
    let built = Drive::with_policies(small(), admission).map(|_| ());
    assert_eq!(refused(built), "slc.sequential_cutoff");
}

#[test]
fn what_a_policy_is_known_by_follows_from_its_name_and_text() {
    let own = |name, text| {
        let own = Own::named(name, text).victims(Known(VictimPolicy::Greedy));
        own.identity().expect("it is not the drive's own")
    };
    let [first, same, renamed, edited] =
        [("a", "1"), ("a", "1"), ("b", "1"), ("a", "2")].map(|(name, text)| own(name, text));
    assert_eq!(first, same);
    assert_eq!(first.replaced, ["victims"]);
    assert_ne!(first.hash, renamed.hash);
    assert_ne!(first.hash, edited.hash);
    assert_eq!(BuiltIn.identity(), None);
}
