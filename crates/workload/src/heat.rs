//! How often each mapping unit of a namespace is overwritten, where that follows no ranges of
//! addresses: Zipf distributions, whose popular places are scattered, and traces, which are
//! read once before they are replayed.
//!
//! Every unit gets a weight, the writes to it in proportion to all. Units of similar weight
//! are put into a few classes, within which preconditioning takes all units to be alike.

use super::random::Scatter;
use super::{Addresses, BlockSize, FlowSpec, Limits, Source, Synthetic, WorkloadError, seed};
use mynah_model::io::Operation;
use mynah_model::precondition::Heat;

/// Classes of units that are written; one more holds those that are not.
const CLASSES: usize = 6;

impl FlowSpec {
    /// Whether the flow's writes follow no ranges of addresses.
    pub fn is_scattered(&self) -> bool {
        let zipf = |addresses: &Addresses| matches!(addresses, Addresses::Zipf { .. });
        match &self.source {
            Source::Synthetic(synthetic) => {
                synthetic.mix.write() > 0.0 && zipf(&synthetic.addresses)
            }
            Source::Trace(trace) => trace.writes.as_ref().is_none_or(zipf),
            Source::KeyValue(_) | Source::Front(_) => false,
        }
    }

    /// Adds this flow's writes to the weights of a namespace's units, all flows' writes
    /// weighing the same. Of a trace that was read for that, how many units it writes.
    ///
    /// # Errors
    /// If the flow does not fit its namespace, or its trace cannot be read, or not twice.
    pub fn add_weights(
        &self,
        weights: &mut [f32],
        capacity_sectors: u64,
        unit_sectors: u32,
        run_seed: u64,
        flow_index: u32,
    ) -> Result<Option<u64>, WorkloadError> {
        let unit = u64::from(unit_sectors.max(1));
        let (addresses, base, span, align, length) = match &self.source {
            Source::Synthetic(synthetic) => {
                if synthetic.mix.write() <= 0.0 {
                    return Ok(None);
                }
                let (base, span) = self.working_set(synthetic, capacity_sectors)?;
                let align = synthetic.align_sectors.max(1);
                (synthetic.addresses, base, span, align, mean_sectors(synthetic))
            }
            Source::KeyValue(_) => return Ok(None),
            Source::Front(_) => (Addresses::Uniform, 0, capacity_sectors, unit, unit),
            Source::Trace(trace) => match trace.writes {
                Some(addresses) => (addresses, 0, capacity_sectors, unit, unit),
                None => return self.add_trace(weights, capacity_sectors, unit).map(Some),
            },
        };
        let mut add = |sector: u64, sectors: u64, weight: f64| {
            let (first, end) = (sector / unit, (sector + sectors).div_ceil(unit));
            let end = end.min(weights.len() as u64);
            for weight_of in weights.get_mut(first as usize..end as usize).into_iter().flatten() {
                *weight_of += weight as f32;
            }
        };
        let positions = (span.saturating_sub(length.min(span)) / align + 1).max(1);
        match addresses {
            Addresses::Zipf { theta } => {
                let flow = u64::from(flow_index);
                let seed = seed::derive(run_seed, flow, self.seed, seed::ALL_JOBS);
                let scatter = Scatter::new(positions, &mut seed::stream(seed));
                let mut total = 0.0;
                zipf_weights(positions, theta, |_, weight| total += weight);
                zipf_weights(positions, theta, |rank, weight| {
                    let sector = base + scatter.place(rank) * align;
                    add(sector, length, weight / total);
                });
            }
            Addresses::HotCold { hot_access, hot_space } => {
                let hot = ((span as f64 * hot_space) as u64).clamp(1, span);
                let units = |sectors: u64| (sectors as f64 / unit as f64).max(1.0);
                add(base, hot, hot_access / units(hot));
                if hot < span {
                    add(base + hot, span - hot, (1.0 - hot_access) / units(span - hot));
                }
            }
            Addresses::Zoned(zones) => {
                for (first, sectors, access) in zones.of(span) {
                    add(base + first, sectors, access / (sectors as f64 / unit as f64).max(1.0));
                }
            }
            Addresses::Sequential { .. }
            | Addresses::Uniform
            | Addresses::Once
            | Addresses::Mixed { .. } => {
                add(base, span, unit as f64 / span as f64);
            }
        }
        Ok(None)
    }

    /// Reads the trace, its share that is replayed, and counts its writes; how many units they go
    /// to. Where the run ends does not matter: it is the same load however long it lasts.
    fn add_trace(
        &self,
        weights: &mut [f32],
        capacity_sectors: u64,
        unit: u64,
    ) -> Result<u64, WorkloadError> {
        if let Source::Trace(trace) = &self.source
            && trace.is_pipe()
        {
            return Err(self.error(
                "standard input cannot be read twice, as a file is: first for the state that its \
                 own writes leave the drive in. Start from the state that random writes leave \
                 (--precondition steady:random), say how its writes are distributed \
                 (--trace-distribution, trace_distribution), or start from --precondition fill or \
                 none",
            ));
        }
        // Once tells as much as over and over.
        let mut once = FlowSpec { limits: Limits::default(), ..self.clone() };
        if let Source::Trace(trace) = &mut once.source {
            trace.repeat = 1;
        }
        let mut generator = once.generator(capacity_sectors, 0, 0, 0)?;
        let mut counts = vec![0u32; weights.len()];
        let mut total = 0u64;
        while let Some(planned) = generator.next() {
            let writes = matches!(planned.operation, Operation::Write | Operation::WriteThrough);
            if !writes || planned.sectors == 0 {
                continue;
            }
            let end = (planned.sector + u64::from(planned.sectors)).div_ceil(unit);
            let units = (planned.sector / unit) as usize..(end as usize).min(counts.len());
            for count in counts.get_mut(units).into_iter().flatten() {
                *count = count.saturating_add(1);
                total += 1;
            }
        }
        if let Some(error) = generator.take_error() {
            return Err(error);
        }
        let written = counts.iter().filter(|count| **count > 0).count() as u64;
        for (weight, count) in weights.iter_mut().zip(counts) {
            *weight += count as f32 / total.max(1) as f32;
        }
        Ok(written)
    }
}

/// Calls `act` with each rank from 0 on and how often it is drawn, rank 0 once. Powers are worked
/// out for every rank at first, then for every 256th part of a rank, and are a line in between: less
/// than a hundred-thousandth from what they are.
fn zipf_weights(ranks: u64, theta: f64, mut act: impl FnMut(u64, f64)) {
    let power = |rank: u64| libm::pow((rank + 1) as f64, -theta);
    let (mut from, mut weight) = (0, 1.0);
    while from < ranks {
        let step = (from / 256).max(1);
        let next = power(from + step);
        let slope = (next - weight) / step as f64;
        for rank in from..(from + step).min(ranks) {
            act(rank, weight + slope * (rank - from) as f64);
        }
        (from, weight) = (from + step, next);
    }
}

/// The mean length of a flow's requests.
pub fn mean_sectors(synthetic: &Synthetic) -> u64 {
    let Synthetic { block, mix, .. } = synthetic;
    let kinds =
        [(Operation::Read, mix.read), (Operation::Write, mix.write()), (Operation::Trim, mix.trim)];
    let mean = match block {
        BlockSize::Each(_) => {
            let of = |(kind, share): (Operation, f64)| block.of(kind).mean_sectors() * share;
            kinds.into_iter().map(of).sum()
        }
        all => all.mean_sectors(),
    };
    (mean.round() as u64).max(1)
}

/// Index of the logarithmic bucket of a weight, four to an octave.
fn bucket(weight: f32) -> usize {
    // The exponent and the two highest bits of the mantissa.
    (weight.to_bits() >> 21) as usize & 0x3ff
}

/// Puts units into classes by their weights; `None` if nothing is written. Each class of
/// written units has about the same share of all writes.
pub fn classes(weights: &[f32]) -> Option<Heat> {
    let mut units = vec![0u64; 0x400];
    let mut sums = vec![0f64; 0x400];
    for &weight in weights.iter().filter(|&&weight| weight > 0.0) {
        units[bucket(weight)] += 1;
        sums[bucket(weight)] += f64::from(weight);
    }
    let total: f64 = sums.iter().sum();
    if total <= 0.0 {
        return None;
    }
    // From the hottest down; a bucket is never split.
    let mut class_of = [0u8; 0x400];
    let mut class_weights: Vec<f64> = vec![0.0];
    let mut before = 0.0;
    let mut class = 0;
    for at in (0..0x400).rev().filter(|&at| units[at] > 0) {
        let wanted = ((before / total * CLASSES as f64) as usize).min(CLASSES - 1) + 1;
        if wanted > class {
            class_weights.push(0.0);
            class = wanted;
        }
        class_of[at] = (class_weights.len() - 1) as u8;
        *class_weights.last_mut().expect("a class") += sums[at];
        before += sums[at];
    }
    let of_unit = weights.iter().map(|&weight| match weight > 0.0 {
        true => class_of[bucket(weight)],
        false => 0,
    });
    Some(Heat { of_unit: of_unit.collect(), weights: class_weights })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowOptions;

    fn flow(options: &str) -> FlowSpec {
        let mut read = FlowOptions::default();
        for word in options.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap();
            assert!(read.set(name, value));
        }
        read.flow("flow").unwrap()
    }

    fn weights(options: &str, capacity: u64, unit: u32) -> Vec<f32> {
        let mut weights = vec![0.0; (capacity / u64::from(unit)) as usize];
        flow(options).add_weights(&mut weights, capacity, unit, 7, 0).unwrap();
        weights
    }

    #[test]
    fn the_weights_of_zipf_are_where_its_stream_writes() {
        let options = "rw=randwrite bs=4k random_distribution=zipf:1.1 number_ios=400000";
        let weights = weights(options, 8 << 10, 8);
        let sum: f32 = weights.iter().sum();
        assert!((sum - 1.0).abs() < 1e-3, "{sum}");
        let mut generator = flow(options).generator(8 << 10, 7, 0, 0).unwrap();
        let mut counts = vec![0u32; weights.len()];
        while let Some(planned) = generator.next() {
            counts[(planned.sector / 8) as usize] += 1;
        }
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
        for &unit in &order[..20] {
            let expected = f64::from(weights[unit]) * 400_000.0;
            let error = (f64::from(counts[unit]) - expected).abs() / expected.sqrt();
            assert!(error < 5.0, "unit {unit}: {} for {expected}", counts[unit]);
        }
    }

    #[test]
    fn weights_of_zipf_are_powers_of_the_rank() {
        for theta in [0.3, 0.99, 1.2] {
            let mut expected_rank = 0;
            zipf_weights(300_000, theta, |rank, weight| {
                assert_eq!(rank, expected_rank);
                expected_rank += 1;
                let exact = libm::pow((rank + 1) as f64, -theta);
                assert!((weight / exact - 1.0).abs() < 1e-5, "{theta}, {rank}: {weight}");
            });
            assert_eq!(expected_rank, 300_000);
        }
    }

    #[test]
    fn classes_have_like_weights_and_the_unwritten_apart() {
        let weights = weights(
            "rw=randwrite bs=4k random_distribution=zipf:1.0 size=50% number_ios=1",
            1 << 16,
            8,
        );
        let heat = classes(&weights).unwrap();
        assert_eq!(heat.of_unit.len(), weights.len());
        assert!(heat.weights.len() > 3 && heat.weights.len() <= CLASSES + 1);
        assert_eq!(heat.weights[0], 0.0);
        let total: f64 = heat.weights.iter().sum();
        assert!((total - 1.0).abs() < 1e-3);
        assert!(heat.of_unit[weights.len() / 2 + 1..].iter().all(|&class| class == 0));
        // A hotter class has hotter units, all of them.
        let range = |class: u8| {
            let of = weights.iter().zip(&heat.of_unit).filter(move |(_, of)| **of == class);
            let of = of.map(|(weight, _)| *weight);
            (of.clone().fold(f32::MAX, f32::min), of.fold(0.0, f32::max))
        };
        for class in 1..heat.weights.len() as u8 - 1 {
            assert!(range(class).0 > range(class + 1).1);
        }
        assert!(classes(&[0.0; 8]).is_none());
    }

    #[test]
    fn a_trace_is_counted_and_a_pipe_is_not() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/sample.trace");
        let weights = weights(&format!("trace={path}"), 65_536, 8);
        assert_eq!(weights.iter().filter(|weight| **weight > 0.0).count(), 3);
        let pipe = flow("trace=-");
        let mut none = vec![0.0; 8];
        let error = pipe.add_weights(&mut none, 64, 8, 1, 0).unwrap_err().to_string();
        assert!(error.contains("--trace-distribution"), "{error}");
        let named = flow("trace=- trace_distribution=random");
        named.add_weights(&mut none, 64, 8, 1, 0).unwrap();
        assert!((none.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    }
}
