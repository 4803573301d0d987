//! A recording of a served drive: everything that goes into its model, so that the run can
//! be simulated again, to the picosecond.
//!
//! Nothing is written in the thread that serves: blocks of records go to a thread of their
//! own. When the file cannot be written, the drive is served on, and the recording fails.

use crate::server::state_path;
use mynah_device::Tap;
use mynah_lab::SimulationError;
use mynah_lab::emulation::Prepared;
use mynah_lab::recording::Tape;
use mynah_model::io::{Completion, Control, NamespaceId, QueueId, Request, Tag};
use mynah_model::keys::{Decision, KeyRequest, PairToFill};
use mynah_result::output::{OutputError, PendingFile};
use mynah_stamp::Time;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Blocks that may wait to be written, of a quarter of a MiB each. More than this, and the
/// file system is so slow that the drive would be held up rather than records lost.
const BLOCKS_MAX: usize = 256;

/// A recording that is being written.
pub struct Recording {
    state: Arc<Mutex<State>>,
    writer: JoinHandle<io::Result<()>>,
    file: PendingFile,
}

struct State {
    /// `None` after an error.
    tape: Option<Tape>,
    error: Option<io::Error>,
}

impl State {
    fn write(&mut self, record: impl FnOnce(&mut Tape) -> io::Result<()>) {
        if let Some(tape) = &mut self.tape
            && let Err(error) = record(tape)
        {
            self.error = Some(error);
            self.tape = None;
        }
    }
}

/// What listens to the model.
struct Listener(Arc<Mutex<State>>);

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tap for Listener {
    fn command(&mut self, at: Time, queue: QueueId, request: &Request) {
        lock(&self.0).write(|tape| tape.command(at, queue, request));
    }

    fn own_command(&mut self, at: Time, queue: QueueId, request: &Request) {
        lock(&self.0).write(|tape| tape.own_command(at, queue, request));
    }

    fn key_command(&mut self, at: Time, queue: QueueId, request: &KeyRequest) {
        lock(&self.0).write(|tape| tape.key_command(at, queue, request));
    }

    fn decided(&mut self, at: Time, tag: Tag, decision: &Decision) {
        lock(&self.0).write(|tape| tape.decided(at, tag, decision));
    }

    fn ring(&mut self, at: Time, queue: QueueId, count: u32) {
        lock(&self.0).write(|tape| tape.ring(at, queue, count));
    }

    fn data_arrived(&mut self, at: Time, tag: Tag) {
        lock(&self.0).write(|tape| tape.data_arrived(at, tag));
    }

    fn cq_freed(&mut self, at: Time, queue: QueueId, count: u32) {
        lock(&self.0).write(|tape| tape.cq_freed(at, queue, count));
    }

    fn control(&mut self, at: Time, control: &Control) {
        lock(&self.0).write(|tape| tape.control(at, control));
    }

    fn completed(&mut self, completion: &Completion, created: Time) {
        lock(&self.0).write(|tape| tape.completed(completion, created));
    }
}

/// Copies a saved state to a file beside the recording.
fn keep_state(from: &Path, to: &Path) -> Result<(), SimulationError> {
    let file = PendingFile::create_private(to)?;
    let copied = File::open(from).and_then(|mut from| io::copy(&mut from, &mut file.file()?));
    copied.map_err(|error| file.error(error))?;
    Ok(file.keep()?)
}

impl Recording {
    /// Begins a recording of `drive`, before its first input; `pairs` are those that it was prepared
    /// with. The listener is for [`mynah_device::Subsystem::set_tap`]. Where the drive begins in a saved state, that is
    /// copied to a file beside the recording ([`state_path`]), without which it cannot be replayed.
    ///
    /// # Errors
    /// If the file cannot be written, or the drive not be described in it.
    pub fn begin(
        path: &Path,
        drive: &Prepared,
        pairs: impl Iterator<Item = (NamespaceId, PairToFill)>,
    ) -> Result<(Recording, Box<dyn Tap + Send>), SimulationError> {
        let header = drive.header()?;
        let file = PendingFile::create_private(path)?;
        if let Some(restored) = &drive.restored {
            keep_state(&restored.file, &state_path(path))?;
        }
        let out = file.file().map_err(|error| file.error(error))?;
        let (blocks, waiting) = sync_channel(BLOCKS_MAX);
        let writer = std::thread::Builder::new()
            .name("recording".into())
            .spawn(move || write_blocks(out, &waiting))
            .map_err(|error| file.error(error))?;
        let mut state = State { tape: None, error: None };
        let tape = Tape::new(Box::new(Blocks(blocks)), &header).map_err(|e| file.error(e))?;
        state.tape = Some(tape);
        pairs.for_each(|(of, pair)| state.write(|tape| tape.pair(of, &pair)));
        for access in drive.past() {
            state.write(|tape| tape.past(&access));
        }
        let state = Arc::new(Mutex::new(state));
        let listener = Listener(Arc::clone(&state));
        Ok((Recording { state, writer, file }, Box::new(listener)))
    }

    /// Ends the recording; the drive's clock stands at `at`.
    ///
    /// # Errors
    /// If not all of it could be written: there is no file then.
    pub fn finish(self, at: Time) -> Result<(), OutputError> {
        let (tape, error) = {
            let mut state = lock(&self.state);
            (state.tape.take(), state.error.take())
        };
        let finished = match (tape, error) {
            (Some(tape), _) => tape.finish(at),
            (None, Some(error)) => Err(error),
            (None, None) => Err(io::Error::other("it has ended before")),
        };
        // The writer's own error says more than that it has gone.
        let written = match self.writer.join() {
            Ok(written) => written,
            Err(_) => Err(io::Error::other("the writing thread has failed")),
        };
        match written.and(finished) {
            Ok(()) => self.file.keep(),
            Err(error) => Err(self.file.error(error)),
        }
    }
}

fn write_blocks(mut out: File, waiting: &Receiver<Vec<u8>>) -> io::Result<()> {
    while let Ok(block) = waiting.recv() {
        out.write_all(&block)?;
    }
    Ok(())
}

/// Sends what is written to the writing thread.
struct Blocks(SyncSender<Vec<u8>>);

impl Write for Blocks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let gone = |_| io::Error::other("the recording cannot be written");
        self.0.send(bytes.to_vec()).map_err(gone)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("file", &self.file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_lab::emulation::Emulation;
    use mynah_lab::experiment::Precondition;
    use mynah_lab::replay::replay;
    use mynah_model::config::Priority;
    use mynah_model::io::{FlowId, Operation, Output, Queue, QueueKind};
    use mynah_stamp::Span;
    use std::iter::empty;

    fn small() -> Prepared {
        let overrides = [
            "geometry.blocks_per_plane=48",
            "over_provisioning=20%",
            "cache.mode=both",
            "cache.write_back=lru",
            "cache.high=50%",
            "cache.size=8MiB",
        ]
        .map(str::to_owned);
        let mut emulation = Emulation::on("enterprise-tlc", &overrides).unwrap();
        emulation.start = Precondition::Steady.into();
        emulation.prepare().unwrap()
    }

    #[test]
    fn what_is_recorded_comes_out_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.rec");
        let mut prepared = small();
        // The cache is warm: half of it with what was written, the rest with what was read.
        let units = 8 << 20 >> 12;
        assert!(prepared.past().count() >= units);
        assert_eq!(prepared.drive.gauges().cached_units, units as u32 / 2);
        let (recording, mut tap) = Recording::begin(&path, &prepared, empty()).unwrap();
        let drive = &mut prepared.drive;
        let queue = Queue {
            id: QueueId(7),
            kind: QueueKind::Fetched,
            flow: FlowId(0),
            priority: Priority::default(),
            completion_entries: 64,
        };
        let create = Control::CreateQueue(queue);
        tap.control(Time::ZERO, &create);
        drive.control(Time::ZERO, create).unwrap();
        let mut now = Time::ZERO;
        let mut completed = 0;
        for number in 0..2_000u32 {
            now += Span::from_us(3);
            while drive.now() < now {
                drive.advance(now);
                while let Some(output) = drive.poll() {
                    if let Output::Complete(completion) = output {
                        tap.completed(&completion, completion.rung);
                        completed += 1;
                    }
                }
            }
            let operation = if number % 3 == 0 { Operation::Read } else { Operation::Write };
            let sector = u64::from(number.wrapping_mul(2_654_435_761) % 1_000_000) * 8;
            let request = Request {
                placement: Default::default(),
                tag: Tag(number),
                operation,
                namespace: NamespaceId(1),
                sector,
                sectors: 8,
            };
            tap.command(now, queue.id, &request);
            drive.command(now, queue.id, request).unwrap();
        }
        recording.finish(drive.now()).unwrap();
        let measured = replay(&path, None, &[], &[], None, None, &mut |_| true).unwrap();
        assert!(completed > 1_000);
        assert_eq!(measured.result.requests, completed);
        assert_eq!(measured.result.flows[0].name, "host 1");
        assert!(measured.result.device.unwrap().flash_programs > 0);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_said() {
        let prepared = small();
        assert!(Recording::begin(Path::new("/nowhere/run.rec"), &prepared, empty()).is_err());
        let (recording, mut tap) =
            Recording::begin(Path::new("/dev/full"), &prepared, empty()).unwrap();
        for _ in 0..20_000 {
            tap.control(Time::ZERO, &Control::Format(NamespaceId(1)));
        }
        assert!(recording.finish(Time::ZERO).is_err());
    }
}
