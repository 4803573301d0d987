//! Faults of connections and controllers, as people write them, and when they strike.
//!
//! They are a parameter of the one [`crate::hub::Hub`] and of each [`crate::vfio_user::Port`],
//! whose client is a connection too: cut, it is as if the function had been pulled out of its slot.
//! Faults of the drive itself are the model's ([`mynah_lab::fault`]). Rates are drawn for every I/O
//! command that completes, from the drive's seed. Moments count on the drive's clock.

use mynah_lab::units::{Duration, Fraction};
use mynah_stamp::{Span, Time};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The valid forms, for help texts.
pub const FORMS: &str = "\
connection-drop:rate=1e-4
connection-delay:rate=1e-3,by=10ms
connection-cut:rate=1e-5
connection-cut:at=5s
controller-fatal:at=5s";

/// A fault between host and drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConnectionFault {
    /// Completions are never sent.
    Drop(f64),
    /// Completions are held back for so long.
    Delay(f64, Span),
    /// Connections are cut in place of a completion.
    Cut(f64),
    /// All connections are cut at once.
    CutAt(Time),
    /// All controllers report a fatal status.
    Fatal(Time),
}

/// A fault that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FaultError(pub String);

/// Reads a fault of connections or controllers; `None` if the fault is of another kind.
pub fn parse(spec: &str) -> Option<Result<ConnectionFault, FaultError>> {
    let (kind, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let kind = kind.trim();
    let known = FORMS.lines().filter_map(|form| form.split(':').next()).any(|it| it == kind);
    known.then(|| read(kind, rest))
}

fn read(kind: &str, rest: &str) -> Result<ConnectionFault, FaultError> {
    let (mut rate, mut by, mut at) = (None, None, None);
    for part in rest.split(',').filter(|part| !part.trim().is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let (key, value) = (key.trim(), value.trim());
        let wrong = |what: String| FaultError(format!("`{kind}`: `{key}`: {what}"));
        let time = || value.parse().map(|Duration(it)| it).map_err(|e| wrong(format!("{e}")));
        let given = match key {
            "rate" => {
                let Fraction(share) = value.parse().map_err(|e| wrong(format!("{e}")))?;
                rate.replace(share).is_some()
            }
            "by" => by.replace(time()?).is_some(),
            "at" => at.replace(Time::from_ps(time()?.as_ps())).is_some(),
            _ => return Err(wrong("there is no such setting".to_owned())),
        };
        if given {
            return Err(wrong("is given twice".to_owned()));
        }
    }
    match (kind, rate, by, at) {
        ("connection-drop", Some(rate), None, None) => Ok(ConnectionFault::Drop(rate)),
        ("connection-delay", Some(rate), Some(by), None) => Ok(ConnectionFault::Delay(rate, by)),
        ("connection-cut", Some(rate), None, None) => Ok(ConnectionFault::Cut(rate)),
        ("connection-cut", None, None, Some(at)) => Ok(ConnectionFault::CutAt(at)),
        ("controller-fatal", None, None, Some(at)) => Ok(ConnectionFault::Fatal(at)),
        _ => {
            let own: Vec<&str> = FORMS.lines().filter(|form| form.starts_with(kind)).collect();
            Err(FaultError(format!("write `{kind}` as {}", own.join(" or "))))
        }
    }
}

/// What becomes of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is sent.
    Sent,
    /// It never is.
    Dropped,
    /// It is sent so much later.
    Delayed(Span),
    /// Its connection ends.
    Cut,
}

/// What strikes everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    /// All connections are cut.
    Cut,
    /// All controllers are in fatal status.
    Fatal,
}

/// The faults of one run.
#[derive(Clone, Debug)]
pub struct Faults {
    random: SplitMix64,
    rates: Vec<(f64, Fate)>,
    /// The next one last.
    strikes: Vec<(Time, Strike)>,
}

impl Faults {
    /// These faults, drawn from this seed.
    pub fn new(faults: &[ConnectionFault], seed: u64) -> Faults {
        let mut rates = Vec::new();
        let mut strikes = Vec::new();
        for fault in faults {
            match *fault {
                ConnectionFault::Drop(rate) => rates.push((rate, Fate::Dropped)),
                ConnectionFault::Delay(rate, by) => rates.push((rate, Fate::Delayed(by))),
                ConnectionFault::Cut(rate) => rates.push((rate, Fate::Cut)),
                ConnectionFault::CutAt(at) => strikes.push((at, Strike::Cut)),
                ConnectionFault::Fatal(at) => strikes.push((at, Strike::Fatal)),
            }
        }
        strikes.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        Faults { random: SplitMix64::seed_from_u64(seed), rates, strikes }
    }

    /// Those that strike a function's client, of the function of this number: all but faults of
    /// controllers, which strike all functions of a drive together. `None` if there are none.
    pub fn of_function(faults: &[ConnectionFault], seed: u64, number: usize) -> Option<Faults> {
        let is_own = |fault: &&ConnectionFault| !matches!(fault, ConnectionFault::Fatal(_));
        let own: Vec<_> = faults.iter().filter(is_own).copied().collect();
        // The connections over TCP have the seed itself.
        (!own.is_empty()).then(|| Faults::new(&own, seed.wrapping_add(1 + number as u64)))
    }

    /// Draws what becomes of the next completion.
    pub(crate) fn draw(&mut self) -> Fate {
        for &(rate, fate) in &self.rates {
            let drawn = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            if drawn < rate {
                return fate;
            }
        }
        Fate::Sent
    }

    /// The next thing that has struck by `now`, on the drive's clock.
    pub(crate) fn strike(&mut self, now: Time) -> Option<Strike> {
        self.strikes.pop_if(|(at, _)| *at <= now).map(|(_, strike)| strike)
    }

    /// When something will strike next.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.strikes.last().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_others_are_left_or_refused() {
        for form in FORMS.lines() {
            assert!(matches!(parse(form), Some(Ok(_))), "{form}");
        }
        assert_eq!(parse("read-error:rate=1e-5"), None);
        for wrong in [
            "connection-drop",
            "connection-drop:rate=2",
            "connection-drop:rate=0.1,at=1s",
            "connection-delay:rate=0.1",
            "connection-cut:rate=0.1,rate=0.1",
            "controller-fatal:at=soon",
            "controller-fatal:when=1s",
        ] {
            assert!(matches!(parse(wrong), Some(Err(_))), "{wrong}");
        }
    }

    #[test]
    fn faults_strike_as_often_and_when_they_should() {
        let at = Time::from_ns(5);
        let faults = [
            ConnectionFault::Drop(0.25),
            ConnectionFault::Fatal(at),
            ConnectionFault::CutAt(Time::from_ns(3)),
        ];
        let mut faults = Faults::new(&faults, 1);
        let dropped = (0..10_000).filter(|_| faults.draw() == Fate::Dropped).count();
        assert!((2_300..2_700).contains(&dropped), "{dropped}");
        assert_eq!(faults.strike(Time::from_ns(2)), None);
        assert_eq!(faults.strike(at), Some(Strike::Cut));
        assert_eq!(faults.next_at(), Some(at));
        assert_eq!(faults.strike(at), Some(Strike::Fatal));
        assert_eq!(faults.next_at(), None);
    }
}
