//! Faults of connections and controllers, as people write them, and when they strike.
//!
//! They are a parameter of the one [`crate::hub::Hub`] and of each [`crate::vfio_user::Port`],
//! whose client is a connection too: cut, it is as if the function had been pulled out of its slot.
//! Faults of the drive itself are the model's ([`mynah_drive_file::fault`]). Rates are drawn for every I/O
//! command that completes, from the drive's seed. Moments count on the drive's clock.

use mynah_device::{AnaState, Path};
use mynah_drive_file::units::{Duration, Fraction};
use mynah_stamp::{Span, Time};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The valid forms, for help texts.
pub const FORMS: &str = "\
connection-drop:rate=1e-4
connection-delay:rate=1e-3,by=10ms
connection-cut:rate=1e-5
connection-cut:at=5s
controller-fatal:at=5s
ana-change:state=inaccessible,at=5s[,for=3s][,listener=2]
ana-change:state=inaccessible,at=5s[,for=3s],controller=2";

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
    /// The namespaces' ANA group has another state.
    Ana {
        /// The path whose ANA state changes.
        path: Path,
        state: AnaState,
        /// When the state changes.
        at: Time,
        /// For so long; then it is optimized. `None`: for good.
        lasts: Option<Span>,
    },
}

/// A fault that cannot be parsed, or cannot happen here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FaultError {
    /// What is wrong.
    pub message: String,
    /// What would be valid.
    pub help: String,
}

/// Reads a fault of connections or controllers; `None` if the fault is of another kind.
pub fn parse(spec: &str) -> Option<Result<ConnectionFault, FaultError>> {
    let (kind, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let kind = kind.trim();
    let known = FORMS.lines().filter_map(|form| form.split(':').next()).any(|it| it == kind);
    known.then(|| read(kind, rest))
}

/// Checks that faults name controllers that there can be, 1 to `controllers_max`, and addresses for
/// NVMe/TCP that there are.
///
/// # Errors
/// [`FaultError`] names the first that does not.
pub fn check(
    faults: &[ConnectionFault],
    controllers_max: u16,
    listeners: usize,
) -> Result<(), FaultError> {
    for fault in faults {
        let ConnectionFault::Ana { path, .. } = fault else { continue };
        if let Path::Port(port) = path
            && usize::from(*port) >= listeners
        {
            return Err(FaultError {
                message: format!("`ana-change`: there is no listener {}", port + 1),
                help: match listeners {
                    0 => "listeners are the addresses of --tcp, and there is none".to_owned(),
                    1 => "listeners are the addresses of --tcp, in their order: there is 1"
                        .to_owned(),
                    some => {
                        format!("listeners are the addresses of --tcp, in their order: 1 to {some}")
                    }
                },
            });
        }
        if let Path::Controller(id) = path
            && !(1..=controllers_max).contains(id)
        {
            return Err(FaultError {
                message: format!("`ana-change`: there is no controller {id}"),
                help: format!(
                    "controllers are 1 to {controllers_max}, in the order in which hosts connect; \
                     without `controller` it is all of them"
                ),
            });
        }
    }
    Ok(())
}

fn state(name: &str) -> Result<AnaState, String> {
    let found = AnaState::ALL.iter().find(|(known, _)| *known == name).map(|(_, state)| *state);
    found.ok_or_else(|| {
        let names = AnaState::ALL.map(|(name, _)| name);
        format!("it is one of {}, not `{name}`", names.join(", "))
    })
}

fn read(kind: &str, rest: &str) -> Result<ConnectionFault, FaultError> {
    let (mut rate, mut by, mut at) = (None, None, None);
    let (mut ana, mut lasts, mut path) = (None, None, None);
    for part in rest.split(',').filter(|part| !part.trim().is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let (key, value) = (key.trim(), value.trim());
        let wrong = |what: String| FaultError {
            message: format!("`{kind}`: `{key}`: {what}"),
            help: forms_of(kind),
        };
        let time = || value.parse().map(|Duration(it)| it).map_err(|e| wrong(format!("{e}")));
        let given = match key {
            "rate" => {
                let Fraction(share) = value.parse().map_err(|e| wrong(format!("{e}")))?;
                rate.replace(share).is_some()
            }
            "by" => by.replace(time()?).is_some(),
            "at" => at.replace(Time::from_ps(time()?.as_ps())).is_some(),
            "state" => ana.replace(state(value).map_err(wrong)?).is_some(),
            "for" => lasts.replace(time()?).is_some(),
            "controller" => {
                let id = value.parse::<u16>();
                let id = id.map_err(|_| wrong("it is the number of a controller".to_owned()))?;
                path.replace(Path::Controller(id)).is_some()
            }
            "listener" => {
                let number = value.parse::<u16>().ok().and_then(|number| number.checked_sub(1));
                let port = number.ok_or_else(|| {
                    wrong("it is the number of an address of --tcp, from 1".to_owned())
                })?;
                path.replace(Path::Port(port)).is_some()
            }
            _ => return Err(wrong("there is no such setting".to_owned())),
        };
        if given {
            return Err(wrong("is given twice".to_owned()));
        }
    }
    if let ("ana-change", None, None, Some(at), Some(state)) = (kind, rate, by, at, ana) {
        let path = path.unwrap_or(Path::All);
        return Ok(ConnectionFault::Ana { path, state, at, lasts });
    }
    let other = ana.is_some() || lasts.is_some() || path.is_some();
    match (kind, rate, by, at) {
        _ if other => Err(form_of(kind)),
        ("connection-drop", Some(rate), None, None) => Ok(ConnectionFault::Drop(rate)),
        ("connection-delay", Some(rate), Some(by), None) => Ok(ConnectionFault::Delay(rate, by)),
        ("connection-cut", Some(rate), None, None) => Ok(ConnectionFault::Cut(rate)),
        ("connection-cut", None, None, Some(at)) => Ok(ConnectionFault::CutAt(at)),
        ("controller-fatal", None, None, Some(at)) => Ok(ConnectionFault::Fatal(at)),
        _ => Err(form_of(kind)),
    }
}

/// A fault of this kind whose settings do not make one.
fn form_of(kind: &str) -> FaultError {
    let message = format!("`{kind}` has not the settings that it needs, or others");
    FaultError { message, help: forms_of(kind) }
}

/// How a fault of this kind is written.
fn forms_of(kind: &str) -> String {
    let is_own = |form: &&str| form.split(':').next() == Some(kind);
    let own: Vec<&str> = FORMS.lines().filter(is_own).collect();
    format!("write it as\n{}", own.join("\n"))
}

/// What there is to say of the faults that did nothing while a drive was served until `end` on its
/// clock, where these rates were never drawn.
pub(crate) fn unused(faults: &[ConnectionFault], end: Time, idle: &[Delivery]) -> Vec<String> {
    let at_most = |at: Time| Duration(Span::from_ps(at.as_ps()));
    let late = |at: Time| (at > end).then(|| format!("serving ended after {}", at_most(end)));
    let idle = |delivery| {
        let why = "no completion met it; more I/Os or a higher rate";
        idle.contains(&delivery).then(|| why.to_owned())
    };
    let told = |fault: &ConnectionFault| {
        let (name, why) = match *fault {
            ConnectionFault::Drop(rate) => {
                (format!("connection-drop:rate={rate}"), idle(Delivery::Dropped))
            }
            ConnectionFault::Delay(rate, by) => {
                let name = format!("connection-delay:rate={rate},by={}", Duration(by));
                (name, idle(Delivery::Delayed(by)))
            }
            ConnectionFault::Cut(rate) => {
                (format!("connection-cut:rate={rate}"), idle(Delivery::Cut))
            }
            ConnectionFault::CutAt(at) => (format!("connection-cut:at={}", at_most(at)), late(at)),
            ConnectionFault::Fatal(at) => {
                (format!("controller-fatal:at={}", at_most(at)), late(at))
            }
            ConnectionFault::Ana { at, .. } => (format!("ana-change:at={}", at_most(at)), late(at)),
        };
        why.map(|why| format!("the fault {name} did nothing: {why}"))
    };
    faults.iter().filter_map(told).collect()
}

/// What becomes of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Sent,
    /// It is never sent.
    Dropped,
    /// It is sent later by this span.
    Delayed(Span),
    /// The connection is closed instead.
    Cut,
}

/// A fault that hits every connection at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    Cut,
    /// All controllers are in fatal status.
    Fatal,
    /// The ANA group has this state, on this path.
    Ana(Path, AnaState),
}

/// The faults of one run.
#[derive(Clone, Debug)]
pub struct Faults {
    random: SplitMix64,
    rates: Vec<(f64, Delivery)>,
    /// Which of the rates have been drawn.
    drawn: Vec<bool>,
    /// In reverse order of time: the next one is the last.
    strikes: Vec<(Time, Strike)>,
}

impl Faults {
    /// These faults, drawn from this seed.
    pub fn new(faults: &[ConnectionFault], seed: u64) -> Faults {
        let mut rates = Vec::new();
        let mut strikes = Vec::new();
        for fault in faults {
            match *fault {
                ConnectionFault::Drop(rate) => rates.push((rate, Delivery::Dropped)),
                ConnectionFault::Delay(rate, by) => rates.push((rate, Delivery::Delayed(by))),
                ConnectionFault::Cut(rate) => rates.push((rate, Delivery::Cut)),
                ConnectionFault::CutAt(at) => strikes.push((at, Strike::Cut)),
                ConnectionFault::Fatal(at) => strikes.push((at, Strike::Fatal)),
                ConnectionFault::Ana { path, state, at, lasts } => {
                    strikes.push((at, Strike::Ana(path, state)));
                    let end = lasts.map(|lasts| at + lasts);
                    let mended = Strike::Ana(path, AnaState::Optimized);
                    strikes.extend(end.map(|end| (end, mended)));
                }
            }
        }
        // Of one moment, what was given first comes first.
        strikes.sort_by_key(|(at, _)| *at);
        strikes.reverse();
        let drawn = vec![false; rates.len()];
        Faults { random: SplitMix64::seed_from_u64(seed), rates, drawn, strikes }
    }

    /// Those that strike a function's client, of the function of this number: all but faults of
    /// controllers, which strike all functions of a drive together. `None` if there are none.
    pub fn of_function(faults: &[ConnectionFault], seed: u64, number: usize) -> Option<Faults> {
        let is_own = |fault: &&ConnectionFault| {
            !matches!(fault, ConnectionFault::Fatal(_) | ConnectionFault::Ana { .. })
        };
        let own: Vec<_> = faults.iter().filter(is_own).copied().collect();
        // The connections over TCP have the seed itself.
        (!own.is_empty()).then(|| Faults::new(&own, seed.wrapping_add(1 + number as u64)))
    }

    /// Draws what becomes of the next completion.
    pub(crate) fn draw(&mut self) -> Delivery {
        for (&(rate, delivery), has) in self.rates.iter().zip(&mut self.drawn) {
            let drawn = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            if drawn < rate {
                *has = true;
                return delivery;
            }
        }
        Delivery::Sent
    }

    /// The next thing that has struck by `now`, on the drive's clock.
    pub(crate) fn strike(&mut self, now: Time) -> Option<Strike> {
        self.strikes.pop_if(|(at, _)| *at <= now).map(|(_, strike)| strike)
    }

    /// Faults with a rate that have not happened.
    pub(crate) fn idle(&self) -> Vec<Delivery> {
        let all = self.rates.iter().zip(&self.drawn);
        all.filter(|((rate, _), drawn)| *rate > 0.0 && !**drawn).map(|((_, it), _)| *it).collect()
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
            let form = form.replace(['[', ']'], "");
            assert!(matches!(parse(&form), Some(Ok(_))), "{form}");
        }
        let (at, state) = (Time::from_ps(5_000_000_000_000), AnaState::Change);
        let change = ConnectionFault::Ana { path: Path::All, state, at, lasts: None };
        assert_eq!(parse("ana-change:at=5s,state=change"), Some(Ok(change)));
        let on = |path| ConnectionFault::Ana { path, state, at, lasts: None };
        let of = |id| on(Path::Controller(id));
        assert_eq!(check(&[change, of(1), of(8), on(Path::Port(1))], 8, 2), Ok(()));
        let error = check(&[on(Path::Port(2))], 8, 2).unwrap_err();
        assert!(error.message.contains("listener 3") && error.help.contains("1 to 2"), "{error:?}");
        let listener = parse("ana-change:at=5s,state=change,listener=2");
        assert_eq!(listener, Some(Ok(on(Path::Port(1)))));
        for id in [0, 9] {
            let error = check(&[change, of(id)], 8, 1).unwrap_err();
            assert!(error.message.contains(&id.to_string()) && error.help.contains("1 to 8"));
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
            "controller-fatal:at=1s,state=change",
            "connection-cut:at=1s,for=1s",
            "ana-change:at=1s",
            "ana-change:state=change",
            "ana-change:state=best,at=1s",
            "ana-change:state=change,at=1s,controller=first",
            "ana-change:state=change,at=1s,rate=0.1",
            "ana-change:state=change,at=1s,listener=0",
            "ana-change:state=change,at=1s,listener=1,controller=1",
        ] {
            let Some(Err(error)) = parse(wrong) else { panic!("{wrong}") };
            let kind = wrong.split(':').next().unwrap_or_default();
            let forms = FORMS.lines().filter(|form| form.starts_with(kind));
            assert!(forms.clone().all(|form| error.help.contains(form)), "{wrong}: {error:?}");
            assert_eq!(error.help.lines().count(), 1 + forms.count(), "{wrong}: no others");
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
        let dropped = (0..10_000).filter(|_| faults.draw() == Delivery::Dropped).count();
        assert!((2_300..2_700).contains(&dropped), "{dropped}");
        assert_eq!(faults.strike(Time::from_ns(2)), None);
        assert_eq!(faults.strike(at), Some(Strike::Cut));
        assert_eq!(faults.next_at(), Some(at));
        assert_eq!(faults.strike(at), Some(Strike::Fatal));
        assert_eq!(faults.next_at(), None);
    }
}
