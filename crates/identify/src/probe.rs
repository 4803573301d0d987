//! How methods ask: one request alone, several together, streams; within limits.

use crate::finding::Value;
use crate::stats;
use crate::subject::{Answer, Lost, Op, Subject};
use mynah_stamp::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;

/// What asking may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest time on the subject's clock.
    pub time: Span,
    /// Most bytes written; 0: nothing is written or trimmed.
    pub written_bytes: u64,
}

/// Who looks on while a drive is asked.
pub trait Watch {
    /// Whether somebody wants an end.
    fn is_interrupted(&self) -> bool {
        false
    }

    /// What is being found out, and which share of the whole is done, 0 to 1.
    fn step(&mut self, what: &str, share: f64) {
        let _ = (what, share);
    }
}

/// Nobody does.
impl Watch for () {}

/// Why asking has ended before everything was known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// Somebody wanted it.
    #[error("it was interrupted")]
    Interrupted,
    /// The time is over.
    #[error("its time is over")]
    Time,
    /// No more may be written.
    #[error("no more may be written")]
    Written,
    /// The drive has refused a request.
    #[error("the drive has refused {0}")]
    Refused(String),
    /// The drive is gone.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// A request to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Ask {
    pub(crate) fn read(offset: u64, bytes: u64) -> Ask {
        Ask { op: Op::Read, offset, bytes }
    }

    pub(crate) fn write(offset: u64, bytes: u64) -> Ask {
        Ask { op: Op::Write, offset, bytes }
    }
}

/// A request that was answered; times in us, from the first request of its group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Taken {
    pub(crate) from: f64,
    pub(crate) until: f64,
}

impl Taken {
    pub(crate) fn latency(&self) -> f64 {
        self.until - self.from
    }
}

/// A subject, asked within limits.
pub(crate) struct Probe<'a> {
    subject: &'a mut dyn Subject,
    watch: &'a mut dyn Watch,
    limits: Limits,
    begin: Time,
    written: u64,
    asked: u64,
    /// How often what noise moves is measured: once, where there is none.
    repeats: usize,
    /// Where addresses are drawn from: offset and bytes.
    region: (u64, u64),
    pub(crate) random: Xoshiro256PlusPlus,
}

impl<'a> Probe<'a> {
    pub(crate) fn new(
        subject: &'a mut dyn Subject,
        watch: &'a mut dyn Watch,
        limits: Limits,
        seed: u64,
    ) -> Probe<'a> {
        let begin = subject.now();
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let region = (0, subject.bytes());
        Probe { subject, watch, limits, begin, written: 0, asked: 0, repeats: 1, region, random }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.subject.bytes()
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        u64::from(self.subject.block_bytes())
    }

    /// Most requests that may be outstanding.
    pub(crate) fn depth(&self) -> usize {
        self.subject.max_outstanding()
    }

    pub(crate) fn may_write(&self) -> bool {
        self.limits.written_bytes > 0
    }

    pub(crate) fn can_trim(&self) -> bool {
        self.subject.can_trim()
    }

    /// Bytes that may still be written.
    pub(crate) fn room(&self) -> u64 {
        self.limits.written_bytes.saturating_sub(self.written)
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }

    /// Time since the first request, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.subject.now().since(self.begin).as_secs_f64()
    }

    pub(crate) fn tell(&mut self, what: &str, share: f64) {
        self.watch.step(what, share);
    }

    /// Has addresses drawn from `bytes` at `offset`, a multiple of all alignments.
    pub(crate) fn stay_within(&mut self, offset: u64, bytes: u64) {
        self.region = (offset, bytes);
    }

    /// Has all that follows measured so often.
    pub(crate) fn repeat(&mut self, repeats: usize) {
        self.repeats = repeats;
    }

    /// How often what noise moves is measured.
    pub(crate) fn repeats(&self) -> usize {
        self.repeats
    }

    /// As many measurements as noise asks for.
    fn repeated(
        &mut self,
        mut one: impl FnMut(&mut Probe<'a>) -> Result<f64, Ended>,
    ) -> Result<Vec<f64>, Ended> {
        (0..self.repeats).map(|_| one(self)).collect()
    }

    /// The least of repeated measurements: of what noise only makes longer.
    pub(crate) fn least(
        &mut self,
        one: impl FnMut(&mut Probe<'a>) -> Result<f64, Ended>,
    ) -> Result<f64, Ended> {
        Ok(stats::undisturbed(&self.repeated(one)?))
    }

    /// The median of repeated measurements: of what noise makes longer or shorter, as the time that one
    /// request waits for another does if the other is late.
    pub(crate) fn middle(
        &mut self,
        one: impl FnMut(&mut Probe<'a>) -> Result<f64, Ended>,
    ) -> Result<f64, Ended> {
        Ok(stats::median(&self.repeated(one)?))
    }

    /// A random offset that is a multiple of `align`, with `bytes` of room behind it.
    pub(crate) fn anywhere(&mut self, align: u64, bytes: u64) -> u64 {
        let (start, length) = self.region;
        let places = (length.saturating_sub(bytes) / align).max(1);
        start + self.random.random_range(0..places) * align
    }

    fn submit(&mut self, ask: Ask) -> Result<u64, Ended> {
        if self.watch.is_interrupted() {
            return Err(Ended::Interrupted);
        }
        if self.subject.now().since(self.begin) > self.limits.time {
            return Err(Ended::Time);
        }
        let most = u64::from(self.subject.max_transfer_bytes());
        if matches!(ask.op, Op::Read | Op::Write) && ask.bytes > most {
            let bytes = Value::Bytes(ask.bytes);
            let what = format!("{bytes} at a time: it takes {}", Value::Bytes(most));
            return Err(Ended::Refused(what));
        }
        match ask.op {
            Op::Write if ask.bytes > self.room() => return Err(Ended::Written),
            Op::Trim if !self.may_write() => return Err(Ended::Written),
            Op::Write => self.written += ask.bytes,
            Op::Trim | Op::Read | Op::Flush => {}
        }
        self.asked += 1;
        Ok(self.subject.submit(ask.op, ask.offset, ask.bytes)?)
    }

    fn answered(&mut self) -> Result<Answer, Ended> {
        let answer = self.subject.next()?;
        let answer = answer.ok_or_else(|| Lost("an answer is missing".to_owned()))?;
        match answer.is_ok {
            true => Ok(answer),
            false => Err(Ended::Refused("a request".to_owned())),
        }
    }

    /// Latency of a request while nothing else is outstanding, in us.
    pub(crate) fn alone(&mut self, ask: Ask) -> Result<f64, Ended> {
        self.submit(ask)?;
        let answer = self.answered()?;
        Ok(us(answer.completed.since(answer.submitted)))
    }

    /// Asks all of these at once, and waits for all answers.
    pub(crate) fn together(&mut self, asks: &[Ask]) -> Result<Vec<Taken>, Ended> {
        self.one_after_another(asks, &[])
    }

    /// Asks these, each so many us after the one before it (none if there is no number), and waits
    /// for all answers.
    pub(crate) fn one_after_another(
        &mut self,
        asks: &[Ask],
        after: &[f64],
    ) -> Result<Vec<Taken>, Ended> {
        let mut tags = Vec::with_capacity(asks.len());
        let begin = self.subject.now();
        for (index, ask) in asks.iter().enumerate() {
            if index > 0
                && let Some(&gap) = after.get(index - 1)
                && gap > 0.0
            {
                self.subject.pass(Span::from_ps((gap * 1e6) as u64))?;
            }
            tags.push(self.submit(*ask)?);
        }
        let mut all = vec![Taken::default(); asks.len()];
        for _ in asks {
            let answer = self.answered()?;
            let index = tags.iter().position(|tag| *tag == answer.tag);
            let index = index.ok_or_else(|| Lost("an answer to nothing".to_owned()))?;
            let since = |at: Time| us(at.saturating_since(begin));
            all[index] = Taken { from: since(answer.submitted), until: since(answer.completed) };
        }
        Ok(all)
    }

    /// Keeps `depth` requests outstanding until `next` has no more of them, and shows each answer with
    /// its request; times are from the first.
    pub(crate) fn stream(
        &mut self,
        depth: usize,
        mut next: impl FnMut(&mut Xoshiro256PlusPlus) -> Option<Ask>,
        mut see: impl FnMut(&Ask, Taken) -> bool,
    ) -> Result<(), Ended> {
        let begin = self.subject.now();
        let mut outstanding: VecDeque<(u64, Ask)> = VecDeque::new();
        let mut goes_on = true;
        loop {
            while goes_on && outstanding.len() < depth {
                let Some(ask) = next(&mut self.random) else {
                    goes_on = false;
                    break;
                };
                match self.submit(ask) {
                    Ok(tag) => outstanding.push_back((tag, ask)),
                    Err(error) => {
                        self.drain(outstanding.len())?;
                        return Err(error);
                    }
                }
            }
            if outstanding.is_empty() {
                return Ok(());
            }
            let answer = self.answered()?;
            let index = outstanding.iter().position(|(tag, _)| *tag == answer.tag);
            let index = index.ok_or_else(|| Lost("an answer to nothing".to_owned()))?;
            let (_, ask) = outstanding.remove(index).expect("it is there");
            let since = |at: Time| us(at.saturating_since(begin));
            let taken = Taken { from: since(answer.submitted), until: since(answer.completed) };
            if !see(&ask, taken) {
                goes_on = false;
            }
        }
    }

    /// Writes so many bytes from an offset in order, `write` at a time and `depth` of them outstanding, and
    /// shows each answer; until `see` wants no more.
    pub(crate) fn write_in_order(
        &mut self,
        (start, bytes): (u64, u64),
        (write, depth): (u64, usize),
        mut see: impl FnMut(Taken) -> bool,
    ) -> Result<(), Ended> {
        let mut at = start;
        let next = |_: &mut Xoshiro256PlusPlus| {
            let length = write.min(start + bytes - at);
            let ask = Ask::write(at, length);
            at += length;
            (length > 0).then_some(ask)
        };
        self.stream(depth, next, |_, taken| see(taken))
    }

    /// Waits for answers that nobody wants.
    fn drain(&mut self, outstanding: usize) -> Result<(), Ended> {
        for _ in 0..outstanding {
            self.subject.next()?;
        }
        Ok(())
    }

    /// Lets time pass with nothing outstanding, in us.
    pub(crate) fn rest(&mut self, time: f64) -> Result<(), Ended> {
        Ok(self.subject.pass(Span::from_ps((time * 1e6) as u64))?)
    }
}

fn us(span: Span) -> f64 {
    span.as_ps() as f64 * 1e-6
}
