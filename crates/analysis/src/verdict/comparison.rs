//! A group of a base beside the same of another profile: by how much it has grown, and where.

use super::noise::{Difference, mean};
use super::place::Place;
use crate::windows::Means;

/// Fewest windows that say anything of their noise.
pub(super) const WINDOWS: usize = 8;

/// What a stage comes to in both, in the middle half of windows, in picoseconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StageGrowth {
    pub(super) stage: String,
    pub(super) base: f64,
    pub(super) now: f64,
}

impl StageGrowth {
    pub(super) fn grown(&self) -> f64 {
        self.now - self.base
    }

    pub(super) fn times(&self) -> Option<f64> {
        (self.base > 0.0).then(|| self.now / self.base)
    }
}

/// Growth of the stages of one place together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlaceGrowth {
    pub(super) place: Place,
    pub(super) times: Difference,
}

/// Growth of a group's latency against the base, by stage and by place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    pub(super) total: Difference,
    /// What the middle half of windows has grown by: the sum of what its stages have.
    middle: f64,
    /// In the order in which I/Os pass them.
    pub(super) stages: Vec<StageGrowth>,
    /// Places that have at least one stage in these profiles.
    pub(super) places: Vec<PlaceGrowth>,
}

/// One side: names of its stages, and its windows.
pub(super) type Series<'a> = (&'a [String], &'a [Means]);

fn column((names, means): Series<'_>, of: impl Fn(&str) -> bool) -> Vec<f64> {
    let sum = |means: &Means| {
        let each = names.iter().zip(&means.stages);
        // Not `sum`, whose empty sum is -0.
        each.filter(|(name, _)| of(name)).fold(0.0, |all, (_, mean)| all + mean)
    };
    means.iter().map(sum).collect()
}

/// The windows of the middle half, by latency and then in their order: they are as the median is, and
/// their means add up, which medians of parts do not.
fn middle(means: &[Means]) -> Vec<Means> {
    let mut order: Vec<usize> = (0..means.len()).collect();
    order.sort_by(|a, b| means[*a].total.total_cmp(&means[*b].total));
    let quarter = means.len() / 4;
    let mut kept = order[quarter..means.len() - quarter].to_vec();
    kept.sort_unstable();
    kept.into_iter().map(|at| means[at].clone()).collect()
}

/// The windows that are slower than any of the base by half, with their part of all: a drive that stops
/// now and then does not move the median.
pub(super) fn slow(base: &[Means], now: &[Means]) -> (Vec<Means>, f64) {
    let most = base.iter().map(|it| it.total).fold(0.0, f64::max);
    let slow: Vec<Means> = now.iter().filter(|it| it.total > 1.5 * most).cloned().collect();
    let part = slow.len() as f64 / now.len().max(1) as f64;
    (slow, part)
}

impl Comparison {
    /// Of two sides with windows.
    pub(super) fn of(base: Series<'_>, now: Series<'_>) -> Comparison {
        let totals = |means: &[Means]| -> Vec<f64> { means.iter().map(|it| it.total).collect() };
        let total = Difference::of_medians(&totals(base.1), &totals(now.1));
        let (base_middle, now_middle) = (middle(base.1), middle(now.1));
        let (base, now) = ((base.0, &base_middle[..]), (now.0, &now_middle[..]));
        let mut names: Vec<&String> = now.0.iter().collect();
        names.extend(base.0.iter().filter(|name| !now.0.contains(name)));
        let growth = |name: &&String| {
            let of = |side| mean(&column(side, |it| it == name.as_str()));
            StageGrowth { stage: (*name).clone(), base: of(base), now: of(now) }
        };
        let place = |place: &Place| {
            let of = |side| column(side, |it| Place::of(it) == *place);
            names.iter().any(|name| Place::of(name) == *place).then(|| PlaceGrowth {
                place: *place,
                times: Difference::of_means(&of(base), &of(now)),
            })
        };
        Comparison {
            total,
            middle: mean(&totals(now.1)) - mean(&totals(base.1)),
            stages: names.iter().map(growth).collect(),
            places: Place::ALL.iter().filter_map(place).collect(),
        }
    }

    /// How much of the growth is in some places.
    pub(super) fn share(&self, places: &[Place]) -> f64 {
        self.grown_in(places) / self.middle
    }

    /// By how much some places have grown.
    pub(super) fn grown_in(&self, places: &[Place]) -> f64 {
        self.places_of(places).fold(0.0, |all, it| all + it.times.grown())
    }

    /// How many times longer some places take.
    pub(super) fn times_in(&self, places: &[Place]) -> Option<f64> {
        let sum = |of: fn(&Difference) -> f64| {
            self.places_of(places).fold(0.0, |all, it| all + of(&it.times))
        };
        let base = sum(|it| it.base);
        (base > 0.0).then(|| sum(|it| it.now) / base)
    }

    /// Whether one of these has grown beyond its noise.
    pub(super) fn is_beyond_noise(&self, places: &[Place]) -> bool {
        self.places_of(places).any(|it| it.times.low > 0.0)
    }

    fn places_of<'a>(&'a self, places: &'a [Place]) -> impl Iterator<Item = &'a PlaceGrowth> {
        self.places.iter().filter(|it| places.contains(&it.place))
    }

    pub(super) fn stage(&self, name: &str) -> Option<&StageGrowth> {
        self.stages.iter().find(|it| it.stage == name)
    }

    /// How much of the growth is in a stage.
    pub(super) fn stage_share(&self, name: &str) -> f64 {
        let grown = self.stage(name).map_or(0.0, StageGrowth::grown);
        if self.middle == 0.0 { 0.0 } else { grown / self.middle }
    }

    /// The stage of these places that has grown most.
    pub(super) fn most(&self, places: &[Place]) -> Option<&StageGrowth> {
        let of = self.stages.iter().filter(|it| places.contains(&Place::of(&it.stage)));
        of.max_by(|a, b| a.grown().total_cmp(&b.grown()))
    }
}
