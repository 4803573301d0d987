//! Where a curve passes by what was measured. A cost that jumps, at the longest write that fits into a
//! capsule, say, or where commands are split, lies on no smooth curve.
//!
//! A size is missed if the curve is off its mean by more than [`CERTAIN`] standard errors of that mean,
//! and by more than [`CLOSE`], within which curves through noise are of costs that are smooth. Of sizes
//! that were all measured once nobody knows the noise: what is left at most of them is taken for it, but
//! not for more than [`NOISE_MAX`].

use super::{SizeFit, spline};
use serde::Serialize;

/// In standard errors: with 256 sizes, one is further off by chance in one fit of sixty.
const CERTAIN: f64 = 4.0;
/// Relative error below which a curve never counts as passing by a size.
const CLOSE: f64 = 0.05;
/// The most that is taken for noise where nothing was repeated.
const NOISE_MAX: f64 = 0.05;
/// Standard deviation of a normal distribution over its median absolute deviation.
const OF_MEDIAN: f64 = 1.4826;
/// Repeats from which a size's own spread is used; with fewer it is at least that of all sizes.
const REPEATS: usize = 8;
/// Places at which the curve is looked at between two sizes.
const BETWEEN: u32 = 8;
/// Sizes that a warning lists.
const LISTED: usize = 6;

/// A size by which a curve passes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Miss {
    /// Size in bytes.
    pub bytes: u64,
    /// The mean of what was measured, in nanoseconds.
    pub measured_ns: f64,
    /// The curve at this size, in nanoseconds.
    pub fitted_ns: f64,
    /// Relative error of the curve: curve over mean, less one.
    pub error: f64,
    /// The standard error of the mean, as a share of it.
    pub noise: f64,
}

/// What a curve does not follow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Misses {
    /// Sizes, the one that is missed most first.
    pub sizes: Vec<Miss>,
    /// Two sizes next to one another between which what was measured goes up or down much more than the
    /// curve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<[u64; 2]>,
    /// A size at which the curve lies far outside of what was measured on both sides of it, and by what
    /// share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bulge: Option<(u64, f64)>,
}

/// The standard error of each mean, as a share of it.
fn noise(fits: &[SizeFit]) -> Vec<f64> {
    let freedom = |fit: &SizeFit| (fit.repeats.max(1) - 1) as f64;
    let all: f64 = fits.iter().map(freedom).sum();
    if all > 0.0 {
        let squares: f64 = fits.iter().map(|fit| freedom(fit) * fit.spread * fit.spread).sum();
        let usual = (squares / all).sqrt();
        let spread = |fit: &SizeFit| match fit.repeats >= REPEATS {
            true => fit.spread,
            false => fit.spread.max(usual),
        };
        return fits.iter().map(|fit| spread(fit) / (fit.repeats as f64).sqrt()).collect();
    }
    let mut left: Vec<f64> = fits.iter().map(|fit| fit.error().abs()).collect();
    left.sort_by(f64::total_cmp);
    let median = left.get(left.len() / 2).copied().unwrap_or(0.0);
    vec![(median * OF_MEDIAN).min(NOISE_MAX); fits.len()]
}

/// What the curve does not follow of sizes that ascend.
pub(super) fn of(fits: &[SizeFit], curve: &spline::Curve) -> Misses {
    let noise = noise(fits);
    let limit = |noise: f64| CLOSE.max(CERTAIN * noise);
    let missed = fits.iter().zip(&noise).filter(|(fit, noise)| fit.error().abs() > limit(**noise));
    let miss = |(fit, noise): (&SizeFit, &f64)| Miss {
        bytes: fit.bytes,
        measured_ns: fit.mean_ns,
        fitted_ns: fit.fitted_ns,
        error: fit.error(),
        noise: *noise,
    };
    let mut sizes: Vec<Miss> = missed.map(miss).collect();
    sizes.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
    let (mut step, mut bulge) = (None::<(f64, [u64; 2])>, None::<(u64, f64)>);
    for (pair, noise) in fits.windows(2).zip(noise.windows(2)) {
        let [left, right] = pair else { continue };
        let limit = limit((noise[0] * noise[0] + noise[1] * noise[1]).sqrt());
        let measured = right.mean_ns / left.mean_ns;
        let more = libm::log(measured * left.fitted_ns / right.fitted_ns).abs();
        if more > limit && step.is_none_or(|(most, _)| more > most) {
            step = Some((more, [left.bytes, right.bytes]));
        }
        let ends = [left.mean_ns, right.mean_ns, left.fitted_ns, right.fitted_ns];
        let low = ends.into_iter().fold(f64::INFINITY, f64::min);
        let high = ends.into_iter().fold(0.0, f64::max);
        let (from, to) = (libm::log(left.bytes as f64), libm::log(right.bytes as f64));
        for place in 1..BETWEEN {
            let at = from + (to - from) * f64::from(place) / f64::from(BETWEEN);
            let there = libm::exp(curve.at(at));
            let outside = (there / high).max(low / there) - 1.0;
            if outside > limit && bulge.is_none_or(|(_, most)| outside > most) {
                bulge = Some((libm::round(libm::exp(at)) as u64, outside));
            }
        }
    }
    let step = step.filter(|_| !sizes.is_empty()).map(|(_, sizes)| sizes);
    Misses { sizes, step, bulge }
}

impl Misses {
    /// What is to be said of the stage `name`, measured at `all` sizes, and the sizes in order.
    pub(super) fn warning(&self, name: &str, all: usize) -> Option<String> {
        use mynah_report::sheet::signed;
        use mynah_result::figures::duration;
        let mut text = match &self.sizes[..] {
            [] => String::new(),
            [worst, others @ ..] => {
                let mut text = format!(
                    "{name} at {} B: measured {}, and the curve has {}, {} off (the mean is known to \
                     {:.1} %)",
                    worst.bytes,
                    duration(worst.measured_ns),
                    duration(worst.fitted_ns),
                    signed(worst.error),
                    worst.noise * 100.0
                );
                if !others.is_empty() {
                    let listed = others.iter().take(LISTED);
                    let listed = listed.map(|it| format!("{} B ({})", it.bytes, signed(it.error)));
                    let more = if others.len() > LISTED { ", …" } else { "" };
                    text += &format!(
                        "; {} of its {all} sizes are missed: also {}{more}",
                        self.sizes.len(),
                        listed.collect::<Vec<_>>().join(", ")
                    );
                }
                text
            }
        };
        if let Some([from, to]) = self.step {
            text += &format!("; the cost jumps between {from} and {to} B");
        }
        if let Some((bytes, outside)) = self.bulge {
            let begin = match text.is_empty() {
                true => name.to_owned(),
                false => "; the curve".to_owned(),
            };
            text += &format!(
                "{begin} at {bytes} B lies {:.0} % outside of what was measured on both sides",
                outside * 100.0
            );
        }
        (!text.is_empty()).then(|| {
            text + ". --interpolate takes the points as they are, with straight lines between"
        })
    }
}
