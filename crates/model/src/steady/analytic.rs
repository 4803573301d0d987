//! Closed forms and mean-field fixed points for uniform random writes.
//!
//! The setting is an infinite number of blocks of `b` units, all full, a share `rho` of
//! whose units is valid. Host writes invalidate units chosen uniformly; a victim's valid
//! units are copied to the frontier and host writes fill the rest of it.
//!
//! Let `w[i]` be the share of blocks with at least `i` valid units. d-choices collection
//! takes a victim with at least `i` of them with probability `w[i]^d`, each collection puts
//! one block with `b` valid units in its place, and the `A = b - E[victim]` host writes
//! until the next one take a unit from blocks with `i` at a rate proportional to `i`. At
//! rest (B. Van Houdt, "A mean field model for a class of garbage collection algorithms in
//! flash-based solid state drives", SIGMETRICS 2013):
//!
//! `1 - w[i]^d = c i (w[i] - w[i+1])`,  `c = A / (b rho)`,  `w[b+1] = 0`,
//!
//! which, for a given `c`, yields `w` from the top down, one scalar equation an entry. The
//! mean `sum w[i]` falls with `c`, so a one-dimensional root gives the `c` at which it is
//! `b rho`; summed over `i`, the equations then give `A = b - E[victim]` by themselves.
//!
//! Whether collected units share the host's frontier does not matter in the limit: the
//! units are statistically alike and open blocks are a vanishing share.

use crate::config::VictimPolicy;

/// The largest block, in units, that this module and [`super::pool`] accept.
pub const MAX_UNITS_PER_BLOCK: u32 = 16_384;

/// A question outside the theory's domain.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum DomainError {
    #[error("a block has 1 to {MAX_UNITS_PER_BLOCK} units, not {0}")]
    UnitsPerBlock(u32),
    #[error("the share of valid units must lie strictly between 0 and 1, not {0}")]
    Rho(f64),
    /// `DChoices { d: 0 }`.
    #[error("d-choices draws at least one block")]
    NoChoice,
    /// More invalid units are asked for than blocks have on average.
    #[error("blocks with {0} invalid units are too rare")]
    Invalid(u32),
    /// Nobody has solved this policy.
    #[error("there is no closed form of cost-benefit collection")]
    Unsolved,
}

/// The steady state of an infinite pool.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanField {
    /// Units programmed for each unit the host writes, `b / (b - victim_valid)`.
    pub waf: f64,
    /// Mean number of valid units in a victim.
    pub victim_valid: f64,
    /// `valid[i]`: the share of full blocks with `i` valid units, `i` in `0..=b`.
    pub valid: Vec<f64>,
}

/// The mean-field steady state of uniform random writes: blocks of `units_per_block`, a
/// share `rho` of valid units. Of `RandomP`, `pages` counts units here.
///
/// # Errors
/// See [`DomainError`].
pub fn mean_field(
    units_per_block: u32,
    rho: f64,
    victim: VictimPolicy,
) -> Result<MeanField, DomainError> {
    if !(1..=MAX_UNITS_PER_BLOCK).contains(&units_per_block) {
        return Err(DomainError::UnitsPerBlock(units_per_block));
    }
    if !(rho > 0.0 && rho < 1.0) {
        return Err(DomainError::Rho(rho));
    }
    let b = units_per_block as usize;
    match victim {
        VictimPolicy::Greedy => Ok(greedy(b, rho)),
        VictimPolicy::DChoices { d: 0 } => Err(DomainError::NoChoice),
        VictimPolicy::DChoices { d } => Ok(d_choices(b, rho, d)),
        VictimPolicy::Random => Ok(random_upto(b, rho, b)),
        VictimPolicy::RandomP { pages } => {
            let most = b.saturating_sub(pages as usize);
            // With fewer blocks of that kind than the average needs there is no steady state.
            if (most as f64) < b as f64 * rho {
                return Err(DomainError::Invalid(pages));
            }
            Ok(random_upto(b, rho, most))
        }
        VictimPolicy::RandomPlusPlus => {
            let average = b as f64 * rho;
            let below = average.ceil() as usize - 1;
            Ok(random_upto(b, rho, below))
        }
        VictimPolicy::Fifo => Ok(fifo(b, rho)),
        VictimPolicy::CostBenefit => Err(DomainError::Unsolved),
    }
}

/// FIFO: of a block that was filled a share `a` of a turn ago, each unit is still valid with
/// probability `x^a`, where `x` is the share at the end of the turn ([`waf_fifo`]). All ages
/// are equally common.
fn fifo(b: usize, rho: f64) -> MeanField {
    let x = 1.0 - 1.0 / waf_fifo(rho);
    let mut valid = vec![0.0; b + 1];
    let ages = 4 * b.clamp(64, 1024);
    let mut binomial = vec![0.0; b + 1];
    // The factor by which half a step of age lowers the share.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = low + 0.5 * (high - low);
        if power(middle, 2 * ages as u32) < x {
            low = middle;
        } else {
            high = middle;
        }
    }
    for age in 0..ages {
        binomial_shares(&mut binomial, power(high, 2 * age as u32 + 1));
        for (sum, share) in valid.iter_mut().zip(&binomial) {
            *sum += share / ages as f64;
        }
    }
    finish(b, b as f64 * (1.0 - x), valid)
}

/// Fills `shares[i]` with the probability that `i` of `shares.len() - 1` trials succeed, each
/// with probability `p` (0 to 1 exclusive): outwards from the most likely number.
fn binomial_shares(shares: &mut [f64], p: f64) {
    let n = shares.len() - 1;
    let mode = (((n + 1) as f64 * p) as usize).min(n);
    let odds = p / (1.0 - p);
    shares.fill(0.0);
    shares[mode] = 1.0;
    for i in mode..n {
        shares[i + 1] = shares[i] * odds * (n - i) as f64 / (i + 1) as f64;
    }
    for i in (0..mode).rev() {
        shares[i] = shares[i + 1] / odds * (i + 1) as f64 / (n - i) as f64;
    }
    let sum: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= sum);
}

/// Collection of a block drawn among those with at most `t` valid units, `t` not below the
/// average less one. Of the balance equations those above `t` give `p[i] = 1 / (c i)`; those
/// below, with the share `w` of all such blocks, `p[i] = c (i+1) p[i+1] / (c i + 1 / w)`.
/// Summed, and summed with the weight `i`, they leave one equation for `c`.
fn random_upto(b: usize, rho: f64, t: usize) -> MeanField {
    let valid_mean = b as f64 * rho;
    let harmonic: f64 = (t + 1..=b).map(|i| 1.0 / i as f64).sum();
    let mean = |c: f64| {
        let share = 1.0 - harmonic / c;
        (b - t) as f64 / c + share * t as f64 / (1.0 + c - harmonic)
    };
    // The mean falls from c = harmonic on, where no block is left to be chosen.
    let (mut low, mut high) = (harmonic, 2.0 / rho + harmonic + 1.0);
    for _ in 0..200 {
        let c = low + 0.5 * (high - low);
        if mean(c) > valid_mean {
            low = c;
        } else {
            high = c;
        }
    }
    let c = low + 0.5 * (high - low);
    let share = 1.0 - harmonic / c;
    let mut valid = vec![0.0; b + 1];
    let mut inflow = 1.0;
    for i in (0..=b).rev() {
        let ci = c * i as f64;
        let out = if i <= t { ci + 1.0 / share } else { ci };
        valid[i] = inflow / out;
        inflow = ci * valid[i];
    }
    finish(b, c * valid_mean, valid)
}

/// Write amplification of FIFO ("LRU") collection of uniform random writes, exact for any
/// block size as the number of blocks grows, and the limit of greedy collection for large
/// blocks; `rho` strictly between 0 and 1, otherwise NaN.
///
/// A unit survives until its block is the oldest with probability `x = exp(-(1 - x) / rho)`:
/// one turn of the pool takes `1 - x` host writes for each physical unit, and each misses
/// the unit with probability `1 - 1/valid units`. With `alpha = 1 / rho` the root is
/// `x = -W0(-alpha exp(-alpha)) / alpha`, so the amplification `1 / (1 - x)` is
/// `alpha / (alpha + W0(-alpha exp(-alpha)))` (P. Desnoyers, "Analytic modeling of SSD write
/// performance", SYSTOR 2012; L. Xiang and B. Kurkoski, arXiv:1110.4245).
pub fn waf_fifo(rho: f64) -> f64 {
    if !(rho > 0.0 && rho < 1.0) {
        return f64::NAN;
    }
    // ln x + (1 - x) / rho is concave and rises up to x = rho, so Newton's steps from the
    // left never pass the root.
    let mut x = libm::exp(-1.0 / rho);
    for _ in 0..200 {
        let step = (libm::log(x) + (1.0 - x) / rho) / (1.0 / x - 1.0 / rho);
        let next = x - step;
        if !(next > x && next < rho) {
            break;
        }
        x = next;
    }
    1.0 / (1.0 - x)
}

/// The limit of d-choices for `d` to infinity, solved exactly. Where `w[i] < 1`, `w[i]^d`
/// vanishes and `p[i] = 1 / (c i)`; the lowest level that still holds blocks, `m`, takes the
/// rest. (The same harmonic profile is in W. Bux and I. Iliadis, "Performance of greedy
/// garbage collection in flash-based solid-state drives", Performance Evaluation 2010.)
fn greedy(b: usize, rho: f64) -> MeanField {
    let valid_mean = b as f64 * rho;
    // A victim has m or m - 1 valid units; s is the share of those with m - 1. The shares
    // sum to 1 when H(b) - H(m) + s / m = c = (b - m + s) / (b rho), and s lies in (0, 1] at
    // the m where `excess` turns positive, seen from below.
    let mut excess = 0.0;
    let mut m = b;
    while m > 0 {
        let below = excess + 1.0 / valid_mean - 1.0 / m as f64;
        if m as f64 <= valid_mean && below <= 0.0 {
            break;
        }
        excess = below;
        m -= 1;
    }
    let s =
        if m == 0 { 0.0 } else { (excess / (1.0 / m as f64 - 1.0 / valid_mean)).clamp(0.0, 1.0) };
    let reclaimed = (b - m) as f64 + s;
    let c = reclaimed / valid_mean;
    let mut valid = vec![0.0; b + 1];
    for (i, p) in valid.iter_mut().enumerate().skip(m + 1) {
        *p = 1.0 / (c * i as f64);
    }
    let above: f64 = valid.iter().sum();
    // At m = 0 there are always blocks without any valid unit, and nothing is ever copied.
    valid[m] = (1.0 - above).max(0.0);
    finish(b, reclaimed, valid)
}

fn d_choices(b: usize, rho: f64, d: u32) -> MeanField {
    let valid_mean = b as f64 * rho;
    // Victims hold between nothing and the average, so A lies in [b (1 - rho), b].
    let (mut low, mut high) = ((1.0 - rho) / rho * (1.0 - 1e-9), 1.0 / rho * (1.0 + 1e-9));
    let mut c = (b as f64 / greedy(b, rho).waf / valid_mean).clamp(low, high);
    let mut profile = vec![0.0; b + 2];
    for _ in 0..200 {
        let (mean, slope) = recurse(b, d, c, &mut profile);
        let gap = mean - valid_mean;
        if gap > 0.0 {
            low = c;
        } else {
            high = c;
        }
        let newton = c - gap / slope;
        let next = if newton > low && newton < high { newton } else { low + 0.5 * (high - low) };
        let done = (next - c).abs() <= 1e-15 * c;
        c = next;
        if done {
            break;
        }
    }
    recurse(b, d, c, &mut profile);
    let valid = profile.windows(2).map(|u| u[1] - u[0]).collect();
    finish(b, c * valid_mean, valid)
}

/// Fills `profile[i] = u[i] = 1 - w[i]` for `i` in `0..=b + 1`, the steady state for a given
/// `c`, and returns the mean number of valid units and its derivative with respect to `c`.
fn recurse(b: usize, d: u32, c: f64, profile: &mut [f64]) -> (f64, f64) {
    let (mut upper, mut upper_slope) = (1.0, 0.0);
    let (mut mean, mut mean_slope) = (0.0, 0.0);
    profile[b + 1] = upper;
    for i in (1..=b).rev() {
        let ci = c * i as f64;
        // 1 - (1 - u)^d + c i (u - upper) is concave and rises in u: Newton's steps from a
        // lower bound of the root never pass it. The bounds are the tangent at 0 and
        // 1 - (1 - u)^d <= 1.
        let mut u = f64::max(upper * ci / (f64::from(d) + ci), upper - 1.0 / ci);
        let mut slope;
        loop {
            let power = power(1.0 - u, d - 1);
            slope = f64::from(d) * power + ci;
            let next = u - (1.0 - power * (1.0 - u) + ci * (u - upper)) / slope;
            if next <= u + 1e-16 || next >= upper {
                break;
            }
            u = next;
        }
        let u_slope = (i as f64 * (upper - u) + ci * upper_slope) / slope;
        (upper, upper_slope) = (u, u_slope);
        profile[i] = u;
        mean += 1.0 - u;
        mean_slope -= u_slope;
    }
    profile[0] = 0.0;
    (mean, mean_slope)
}

/// `x^n` by repeated squaring: unlike `powi`, the same bits on every machine.
fn power(mut x: f64, mut n: u32) -> f64 {
    let mut result = 1.0;
    while n > 0 {
        if n & 1 == 1 {
            result *= x;
        }
        x *= x;
        n >>= 1;
    }
    result
}

fn finish(b: usize, reclaimed: f64, valid: Vec<f64>) -> MeanField {
    let b = b as f64;
    MeanField { waf: b / reclaimed, victim_valid: b - reclaimed, valid }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: VictimPolicy = VictimPolicy::Greedy;

    fn choices(d: u32) -> VictimPolicy {
        VictimPolicy::DChoices { d }
    }

    fn close(a: f64, b: f64, relative: f64) {
        assert!((a - b).abs() <= relative * b.abs(), "{a} is not {b}");
    }

    /// `w[i]` for `i` in `0..=b + 1`.
    fn tail(p: &[f64]) -> Vec<f64> {
        let mut w = vec![0.0; p.len() + 1];
        for i in (0..p.len()).rev() {
            w[i] = w[i + 1] + p[i];
        }
        w
    }

    #[test]
    fn probabilities_sum_to_one_have_mean_rho_and_agree_with_waf() {
        for b in [1, 2, 3, 16, 64, 256, 1024, 16_384] {
            for rho in [0.05, 0.3, 0.6, 0.8, 0.9, 0.97] {
                for policy in [GREEDY, choices(1), choices(2), choices(11), choices(2048)] {
                    let state = mean_field(b, rho, policy).unwrap();
                    let p = &state.valid;
                    assert_eq!(p.len(), b as usize + 1);
                    assert!(p.iter().all(|&p| (0.0..=1.0).contains(&p)));
                    close(p.iter().sum(), 1.0, 1e-9);
                    let mean: f64 = p.iter().enumerate().map(|(i, p)| i as f64 * p).sum();
                    close(mean, f64::from(b) * rho, 1e-9);
                    let b = f64::from(b);
                    close(state.waf, b / (b - state.victim_valid), 1e-12);
                    if let VictimPolicy::DChoices { d } = policy {
                        let w = tail(p);
                        let victim: f64 =
                            w[1..=p.len() - 1].iter().map(|&w| libm::pow(w, f64::from(d))).sum();
                        close(b - victim, b / state.waf, 1e-6);
                    }
                }
            }
        }
    }

    #[test]
    fn policies_that_draw_obey_their_balance() {
        let b = 64_usize;
        for rho in [0.3, 0.6, 0.8, 0.9] {
            for policy in [
                VictimPolicy::Random,
                VictimPolicy::RandomP { pages: 1 },
                VictimPolicy::RandomP { pages: 6 },
                VictimPolicy::RandomPlusPlus,
                VictimPolicy::Fifo,
            ] {
                let state = mean_field(b as u32, rho, policy).unwrap();
                let p = &state.valid;
                close(p.iter().sum(), 1.0, 1e-6);
                let mean: f64 = p.iter().enumerate().map(|(i, p)| i as f64 * p).sum();
                close(mean, b as f64 * rho, 1e-4);
                close(state.waf, b as f64 / (b as f64 - state.victim_valid), 1e-9);
                let most = match policy {
                    VictimPolicy::RandomP { pages } => b - pages as usize,
                    VictimPolicy::RandomPlusPlus => (b as f64 * rho).ceil() as usize - 1,
                    VictimPolicy::Random => b,
                    _ => continue,
                };
                let chosen: f64 = p[..=most].iter().sum();
                let victim: f64 =
                    p[..=most].iter().enumerate().map(|(i, p)| i as f64 * p / chosen).sum();
                close(state.victim_valid, victim, 1e-6);
            }
        }
        close(mean_field(64, 0.7, VictimPolicy::Fifo).unwrap().waf, waf_fifo(0.7), 1e-12);
        let waf = |policy| mean_field(256, 0.8, policy).unwrap().waf;
        // Van Houdt: in large blocks Random++ is behind FIFO, and both before Random.
        assert!(waf(VictimPolicy::Fifo) < waf(VictimPolicy::RandomPlusPlus));
        assert!(waf(VictimPolicy::RandomPlusPlus) < waf(VictimPolicy::Random));
        let few = VictimPolicy::RandomP { pages: 60 };
        assert_eq!(mean_field(64, 0.9, few), Err(DomainError::Invalid(60)));
        assert_eq!(mean_field(64, 0.9, VictimPolicy::CostBenefit), Err(DomainError::Unsolved));
    }

    #[test]
    fn the_fixed_point_leaves_the_mean_field_equations_at_rest() {
        let (b, rho) = (128_usize, 0.8);
        for d in [1, 2, 5, 30] {
            let state = mean_field(b as u32, rho, choices(d)).unwrap();
            let w = tail(&state.valid);
            let power = |w: f64| libm::pow(w, f64::from(d));
            let victim: f64 = w[1..=b].iter().map(|&w| power(w)).sum();
            for i in 1..=b {
                let flow = 1.0
                    - power(w[i])
                    - (b as f64 - victim) * i as f64 * (w[i] - w[i + 1]) / (b as f64 * rho);
                assert!(flow.abs() < 1e-9, "d {d}, i {i}: {flow}");
            }
        }
    }

    #[test]
    fn one_choice_is_random_collection() {
        let (b, rho) = (64, 0.7);
        let state = mean_field(b, rho, choices(1)).unwrap();
        close(state.waf, 1.0 / (1.0 - rho), 1e-9);
        // The published distribution function of random collection is a product.
        let w = tail(&state.valid);
        let mut below = 1.0;
        for i in (1..=b).rev() {
            let rate = (1.0 - rho) * f64::from(i);
            below *= rate / (rho + rate);
            assert!((1.0 - w[i as usize] - below).abs() < 1e-9);
        }
    }

    #[test]
    fn many_choices_tend_to_greedy() {
        for (b, rho) in [(32, 0.6), (64, 0.8), (256, 0.9)] {
            let greedy = mean_field(b, rho, GREEDY).unwrap();
            let mut last = f64::INFINITY;
            for d in [1, 2, 5, 11, 30, 100, 1000, 100_000] {
                let waf = mean_field(b, rho, choices(d)).unwrap().waf;
                assert!(waf < last && waf > greedy.waf);
                last = waf;
            }
            close(last, greedy.waf, 1e-3);
        }
    }

    #[test]
    fn fifo_satisfies_its_equation_and_published_values() {
        for rho in [0.01, 0.3, 0.5, 0.7, 0.9, 0.99, 0.9999] {
            let x = 1.0 - 1.0 / waf_fifo(rho);
            close(x.max(1e-12), libm::exp(-(1.0 - x) / rho).max(1e-12), 1e-6);
            assert!(x < rho);
        }
        // Xiang and Kurkoski: over-provisioning of 0.3 (physical / logical - 1) gives 2.36.
        assert_eq!(format!("{:.2}", waf_fifo(1.0 / 1.3)), "2.36");
        assert!(waf_fifo(1.0).is_nan() && waf_fifo(0.0).is_nan());
    }

    #[test]
    fn greedy_tends_to_fifo_from_below_as_blocks_grow() {
        for rho in [0.5, 0.7, 0.9] {
            let mut last = 0.0;
            for b in [4, 16, 64, 256, 1024, 16_384] {
                let waf = mean_field(b, rho, GREEDY).unwrap().waf;
                assert!(waf > last && waf < waf_fifo(rho));
                last = waf;
            }
            close(last, waf_fifo(rho), 2e-3);
        }
    }

    #[test]
    fn blocks_that_empty_by_themselves_cost_nothing() {
        close(mean_field(1, 0.6, GREEDY).unwrap().waf, 1.0, 1e-12);
        let sparse = mean_field(8, 0.2, GREEDY).unwrap();
        close(sparse.waf, 1.0, 1e-12);
        assert!(sparse.valid[0] > 0.0);
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(mean_field(0, 0.5, GREEDY), Err(DomainError::UnitsPerBlock(0)));
        assert_eq!(mean_field(16_385, 0.5, GREEDY), Err(DomainError::UnitsPerBlock(16_385)));
        assert_eq!(mean_field(8, 1.0, GREEDY), Err(DomainError::Rho(1.0)));
        assert!(mean_field(8, f64::NAN, GREEDY).is_err());
        assert_eq!(mean_field(8, 0.5, choices(0)), Err(DomainError::NoChoice));
    }
}
