//! Random draws that are fast and the same on every platform: transcendental functions come from
//! the `libm` crate, not from the platform's C library (as those of `rand_distr` do).

use rand::Rng;

/// Uniform in `0..n`, by Lemire's multiplication with the rejection threshold worked out
/// beforehand: a multiplication and a comparison, no division.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounded {
    n: u64,
    threshold: u64,
}

impl Bounded {
    pub(super) fn new(n: u64) -> Bounded {
        assert!(n > 0, "an empty range has no elements to draw");
        Bounded { n, threshold: n.wrapping_neg() % n }
    }

    /// The exclusive upper bound `n`.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.n
    }

    #[inline]
    pub(super) fn draw(&self, rng: &mut impl Rng) -> u64 {
        loop {
            let product = u128::from(rng.next_u64()) * u128::from(self.n);
            if product as u64 >= self.threshold {
                return (product >> 64) as u64;
            }
        }
    }
}

/// A share as the bound below which the upper 32 bits of a draw fall that often. Shares of
/// 0 and 1 are exact.
pub(super) fn bound(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64
}

/// The number to compare with a [`bound`].
#[inline]
pub(super) fn chance(rng: &mut impl Rng) -> u64 {
    rng.next_u64() >> 32
}

/// Uniform in the open interval from 0 to 1.
#[inline]
fn unit(rng: &mut impl Rng) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) * (1.0 / 9_007_199_254_740_992.0)
}

/// Exponentially distributed with mean 1, by inversion.
pub(super) fn exponential(rng: &mut impl Rng) -> f64 {
    -libm::log(unit(rng))
}

/// Normally distributed with mean 0 and deviation 1 (G. Box, M. Muller, "A note on the generation
/// of random normal deviates", Annals of Mathematical Statistics 29(2), 1958).
pub(super) fn normal(rng: &mut impl Rng) -> f64 {
    let radius = (-2.0 * libm::log(unit(rng))).sqrt();
    radius * libm::cos(std::f64::consts::TAU * unit(rng))
}

/// Ranks `0..n`, rank `k` in proportion to `(k + 1)` to the power of `-theta`, by
/// rejection-inversion (W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates
/// from monotone discrete distributions", ACM TOMACS 6(3), 1996).
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    n: f64,
    theta: f64,
    /// The integral of the hat from 1/2, less the mass that belongs to rank 0 by definition.
    low: f64,
    high: f64,
    /// How far above the point a rank may lie to be accepted without evaluation.
    squeeze: f64,
}

impl Zipf {
    pub(super) fn new(n: u64, theta: f64) -> Zipf {
        assert!(n > 0 && theta > 0.0, "no Zipf distribution over {n} ranks with {theta}");
        let mut zipf = Zipf { n: n as f64, theta, low: 0.0, high: 0.0, squeeze: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.n + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// `x` to the power of `-theta`.
    fn weight(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// The integral of [`Zipf::weight`] from 1 to `x`; continuous in theta around 1.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let t = (1.0 - self.theta) * log;
        if t.abs() > 1e-8 { libm::expm1(t) / t * log } else { (1.0 + t * 0.5) * log }
    }

    /// The `x` whose [`Zipf::integral`] is `y`.
    fn inverse(&self, y: f64) -> f64 {
        let t = ((1.0 - self.theta) * y).max(-1.0);
        if t.abs() > 1e-8 {
            libm::exp(libm::log1p(t) / t * y)
        } else {
            libm::exp((1.0 - t * 0.5) * y)
        }
    }

    #[inline]
    pub(super) fn draw(&self, rng: &mut impl Rng) -> u64 {
        loop {
            let area = self.high + unit(rng) * (self.low - self.high);
            let x = self.inverse(area);
            let rank = (x + 0.5).floor().clamp(1.0, self.n);
            if rank - x <= self.squeeze || area >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }
}

/// A bijection of `0..n` that puts neighbours far apart: an invertible hash on the next
/// power of two, applied again until the result is below `n` (less than twice on average).
#[derive(Clone, Copy, Debug)]
pub(super) struct Scatter {
    n: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 2],
}

impl Scatter {
    pub(super) fn new(n: u64, rng: &mut impl Rng) -> Scatter {
        let bits = (64 - n.saturating_sub(1).leading_zeros()).max(1);
        Scatter {
            n,
            mask: u64::MAX >> (64 - bits),
            shift: bits.div_ceil(2),
            keys: [rng.next_u64(), rng.next_u64()],
        }
    }

    /// The exclusive upper bound `n` of the permutation.
    pub(super) fn len(&self) -> u64 {
        self.n
    }

    #[inline]
    pub(super) fn place(&self, rank: u64) -> u64 {
        self.place_below(rank, self.n)
    }

    /// The place of `rank` in a permutation of `0..n`, for `n` below the full size. Most places
    /// stay the same when `n` grows a little.
    #[inline]
    pub(super) fn place_below(&self, rank: u64, n: u64) -> u64 {
        let mut x = rank;
        loop {
            x = x.wrapping_add(self.keys[0]) & self.mask;
            x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15) & self.mask;
            x ^= x >> self.shift;
            x = x.wrapping_add(self.keys[1]) & self.mask;
            x = x.wrapping_mul(0xd1b5_4a32_d192_ed03) & self.mask;
            x ^= x >> self.shift;
            if x < n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn scatter_is_a_bijection_of_every_small_range() {
        for n in (1..200).chain([255, 256, 257, 1000, 4097]) {
            let scatter = Scatter::new(n, &mut seed::stream(n));
            let mut seen = vec![false; n as usize];
            for rank in 0..n {
                let place = scatter.place(rank) as usize;
                assert!(!seen[place], "{n}: {place} twice");
                seen[place] = true;
            }
        }
    }

    #[test]
    fn scatter_separates_the_hottest_ranks() {
        let scatter = Scatter::new(1 << 20, &mut seed::stream(7));
        let mut places: Vec<u64> = (0..64).map(|rank| scatter.place(rank)).collect();
        places.sort_unstable();
        let nearest = places.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
        assert!(nearest > 1, "{places:?}");
    }

    #[test]
    fn zipf_head_follows_the_closed_form() {
        const DRAWS: u64 = 400_000;
        for (n, theta) in
            [(1_000u64, 0.5), (1_000, 1.0), (100_000, 0.99), (1_000, 1.1), (50, 2.5), (3, 5.0)]
        {
            let zipf = Zipf::new(n, theta);
            let mut rng = seed::stream(42);
            let mut counts = vec![0u64; n as usize];
            for _ in 0..DRAWS {
                counts[zipf.draw(&mut rng) as usize] += 1;
            }
            let total: f64 = (1..=n).map(|k| libm::pow(k as f64, -theta)).sum();
            for rank in 0..n.min(20) {
                let p = libm::pow((rank + 1) as f64, -theta) / total;
                let expected = p * DRAWS as f64;
                let sigma = (expected * (1.0 - p)).sqrt();
                let seen = counts[rank as usize] as f64;
                assert!(
                    (seen - expected).abs() < 5.0 * sigma + 1.0,
                    "zipf({n}, {theta}) rank {rank}: {seen} of {expected:.1}"
                );
            }
        }
    }

    /// The share of draws below each bound, as the distribution has it.
    fn shares(draw: impl Fn(&mut Xoshiro256PlusPlus) -> f64, expected: &[(f64, f64)]) {
        const DRAWS: u64 = 400_000;
        let mut rng = seed::stream(7);
        let draws: Vec<f64> = (0..DRAWS).map(|_| draw(&mut rng)).collect();
        for &(bound, share) in expected {
            let below = draws.iter().filter(|&&draw| draw < bound).count() as f64;
            let sigma = (DRAWS as f64 * share * (1.0 - share)).sqrt();
            let off = (below - share * DRAWS as f64).abs();
            assert!(off < 5.0 * sigma, "below {bound}: {below} of {DRAWS}, expected {share}");
        }
    }

    #[test]
    fn intervals_and_deviations_are_distributed_as_they_should() {
        shares(exponential, &[(0.1, 0.095_163), (1.0, 0.632_121), (3.0, 0.950_213)]);
        let normal_shares =
            [(-2.0, 0.022_750), (-1.0, 0.158_655), (0.0, 0.5), (0.5, 0.691_462), (2.0, 0.977_250)];
        shares(normal, &normal_shares);
        // The very bits, whatever the platform.
        let mut rng = seed::stream(1);
        let bits = [exponential(&mut rng), normal(&mut rng)].map(f64::to_bits);
        insta::assert_snapshot!(format!("{:016x} {:016x}", bits[0], bits[1]));
    }

    #[test]
    fn bounded_is_uniform() {
        let bounded = Bounded::new(97);
        let mut rng = seed::stream(1);
        let mut counts = [0f64; 97];
        for _ in 0..97_000 {
            counts[bounded.draw(&mut rng) as usize] += 1.0;
        }
        let chi: f64 = counts.iter().map(|seen| (seen - 1000.0) * (seen - 1000.0) / 1000.0).sum();
        // 96 degrees of freedom: 145 is passed once in a thousand.
        assert!(chi < 145.0, "chi-square {chi}");
    }

    #[test]
    fn certain_chances_are_certain() {
        let mut rng = seed::stream(3);
        for _ in 0..1000 {
            assert!(chance(&mut rng) < bound(1.0));
            assert!(chance(&mut rng) >= bound(0.0));
        }
    }
}
