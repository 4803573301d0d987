//! A target in real time as the subject of `mynah identify`.

use crate::args::Identify;
use crate::failure::Failure;
use crate::target::local::{self, Kind};
use crate::target::{self, ResolvedTarget};
use mynah_identify::{Answer, Lost, Op, Subject};
use mynah_runtime::host::{HostError, ProbeDone, ProbeOp, Prober};
use mynah_stamp::{Span, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Most requests that are outstanding.
const DEPTH: u32 = 256;
/// Most bytes of a request: what Linux asks for without further settings.
const BYTES_MAX: u32 = 1 << 20;
/// Most bytes that are given up with one command.
const TRIM_MAX: u64 = 1 << 30;
/// A wait ends so much earlier in the system, and the rest of it at a processor.
const AWAKE: Duration = Duration::from_micros(200);
/// For so long an answer is waited for at a time.
const PATIENCE: Duration = Duration::from_millis(100);

/// A connected target.
pub(super) struct RealDrive {
    prober: Prober,
    /// Answers that came while something else was waited for.
    early: VecDeque<Answer>,
}

impl RealDrive {
    /// Connects to what TARGET names.
    pub(super) fn connect(args: &Identify) -> Result<RealDrive, Failure> {
        let writes = args.destroy.is_some();
        let ResolvedTarget { place, listed, wait } = match local::kind(&args.target)? {
            Some(Kind::Nbd) => local::export(&args.target, &args.connect)?,
            Some(Kind::Disk(path)) => {
                let named = args.destroy.as_deref();
                local::disk((&args.target, path), &args.connect, writes, named)?
            }
            None => target::find(&args.target, &args.connect)?,
        };
        let namespace = target::namespace(&args.connect)?.unwrap_or(1);
        let prober = Prober::connect(&place, DEPTH, writes, BYTES_MAX, namespace, wait)
            .map_err(|error| target::failed(&error, listed.as_deref()))?;
        Ok(RealDrive { prober, early: VecDeque::new() })
    }

    /// What the target says it is.
    pub(super) fn model(&self) -> String {
        self.prober.model()
    }

    /// Leaves it in an orderly way.
    pub(super) fn end(self) {
        // What was found is found; a target that is gone has said so before.
        let _ = self.prober.end();
    }

    /// Gives up all but the last piece of a range, which one command could not.
    fn trim_most(&mut self, offset: &mut u64, bytes: &mut u64) -> Result<(), Lost> {
        while *bytes > TRIM_MAX {
            let piece = self.prober.submit(ProbeOp::Trim, *offset, TRIM_MAX as u32);
            let piece = piece.map_err(lost)?;
            loop {
                match self.prober.next(PATIENCE).map_err(lost)? {
                    Some(done) if done.tag == piece => break,
                    Some(done) => self.early.push_back(answer(&done)),
                    None => {}
                }
            }
            *offset += TRIM_MAX;
            *bytes -= TRIM_MAX;
        }
        Ok(())
    }
}

impl Subject for RealDrive {
    fn bytes(&self) -> u64 {
        self.prober.bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.prober.block_bytes()
    }

    fn max_transfer_bytes(&self) -> u32 {
        self.prober.max_transfer_bytes()
    }

    fn max_outstanding(&self) -> usize {
        self.prober.depth() as usize
    }

    fn can_trim(&self) -> bool {
        self.prober.can_trim()
    }

    fn submit(&mut self, op: Op, mut offset: u64, mut bytes: u64) -> Result<u64, Lost> {
        let op = match op {
            Op::Read => ProbeOp::Read,
            Op::Write => ProbeOp::Write,
            Op::Trim => ProbeOp::Trim,
            Op::Flush => ProbeOp::Flush,
        };
        if op == ProbeOp::Trim {
            self.trim_most(&mut offset, &mut bytes)?;
        }
        // A write to a target without a cache is as safe as it gets.
        if op == ProbeOp::Flush && !self.prober.can_flush() {
            let block = self.prober.block_bytes();
            return self.prober.submit(ProbeOp::Read, 0, block).map_err(lost);
        }
        let bytes = u32::try_from(bytes).map_err(|_| Lost("a request is too long".to_owned()))?;
        self.prober.submit(op, offset, bytes).map_err(lost)
    }

    fn next(&mut self) -> Result<Option<Answer>, Lost> {
        if let Some(answer) = self.early.pop_front() {
            return Ok(Some(answer));
        }
        loop {
            if self.prober.outstanding() == 0 {
                return Ok(None);
            }
            if let Some(done) = self.prober.next(PATIENCE).map_err(lost)? {
                return Ok(Some(answer(&done)));
            }
        }
    }

    fn pass(&mut self, span: Span) -> Result<(), Lost> {
        let until = self.prober.now() + Duration::from_nanos(span.as_ps() / 1_000);
        loop {
            let left = until.saturating_sub(self.prober.now());
            if left.is_zero() {
                return Ok(());
            }
            if self.prober.outstanding() > 0 {
                if let Some(done) = self.prober.next(left).map_err(lost)? {
                    self.early.push_back(answer(&done));
                }
            } else if left > 2 * AWAKE {
                std::thread::sleep((left - AWAKE).min(PATIENCE));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn now(&self) -> Time {
        time(self.prober.now())
    }
}

fn lost(error: HostError) -> Lost {
    Lost(error.to_string())
}

fn time(since_origin: Duration) -> Time {
    Time::ZERO + Span::from_ns(since_origin.as_nanos() as u64)
}

fn answer(done: &ProbeDone) -> Answer {
    Answer {
        tag: done.tag,
        submitted: time(done.submitted),
        completed: time(done.completed),
        is_ok: done.ok,
    }
}
