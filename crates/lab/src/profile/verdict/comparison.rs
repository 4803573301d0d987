//! A group of a base beside the same of another profile: by how much it has grown, and where.

use super::noise::{Difference, median};
use super::place::Place;
use crate::profile::windows::Means;

/// Fewest windows that say anything of their noise.
pub(super) const WINDOWS: usize = 8;

/// What a stage comes to in both, by the medians of windows, in picoseconds.
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

/// A place's part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlaceGrowth {
    pub(super) place: Place,
    pub(super) times: Difference,
}

/// What has grown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    pub(super) total: Difference,
    /// In the order in which I/Os pass them.
    pub(super) stages: Vec<StageGrowth>,
    /// Those with any stage.
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

impl Comparison {
    /// Of two sides with windows.
    pub(super) fn of(base: Series<'_>, now: Series<'_>) -> Comparison {
        let totals =
            |(_, means): Series<'_>| -> Vec<f64> { means.iter().map(|it| it.total).collect() };
        let mut names: Vec<&String> = now.0.iter().collect();
        names.extend(base.0.iter().filter(|name| !now.0.contains(name)));
        let growth = |name: &&String| {
            let of = |side| median(&mut column(side, |it| it == name.as_str()));
            StageGrowth { stage: (*name).clone(), base: of(base), now: of(now) }
        };
        let stages: Vec<StageGrowth> = names.iter().map(growth).collect();
        let place = |place: &Place| {
            let of = |side| column(side, |it| Place::of(it) == *place);
            names
                .iter()
                .any(|name| Place::of(name) == *place)
                .then(|| PlaceGrowth { place: *place, times: Difference::of(&of(base), &of(now)) })
        };
        Comparison {
            total: Difference::of(&totals(base), &totals(now)),
            stages,
            places: Place::ALL.iter().filter_map(place).collect(),
        }
    }

    /// How much of the growth is in some places.
    pub(super) fn share(&self, places: &[Place]) -> f64 {
        self.grown_in(places) / self.total.grown()
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

    /// A stage.
    pub(super) fn stage(&self, name: &str) -> Option<&StageGrowth> {
        self.stages.iter().find(|it| it.stage == name)
    }

    /// How much of the growth is in a stage.
    pub(super) fn stage_share(&self, name: &str) -> f64 {
        self.stage(name).map_or(0.0, |it| it.grown() / self.total.grown())
    }

    /// The stage of these places that has grown most.
    pub(super) fn most(&self, places: &[Place]) -> Option<&StageGrowth> {
        let of = self.stages.iter().filter(|it| places.contains(&Place::of(&it.stage)));
        of.max_by(|a, b| a.grown().total_cmp(&b.grown()))
    }
}
