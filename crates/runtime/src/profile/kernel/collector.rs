//! Reads the kernel's trace while it goes on, and writes a host's profile.

use super::controllers::{Controllers, others};
use super::tracefs::{Instance, TraceError};
use crate::clock::{self, Clock, Rate};
use crate::profile::ring::Ring;
use mynah_profile::kernel::{
    Decoder, EndedIo, Initiator, LeftOut, Missed, Page, TimedEvent, coverage_text, kernel_header,
};
use mynah_profile::{Chooser, Decision, Head, Header};
use mynah_stamp::{Span, Time};
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

/// Most bytes of a page of a ring.
const PAGE_MAX: usize = 64 << 10;
/// Pages of a processor that are read at one look.
const PAGES_AT_ONCE: usize = 1024;
/// Events are put in order when they are this old: a processor may be in the middle of writing one.
const SETTLED_NS: u64 = 20_000_000;
/// Between two reads of the rings.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The profile's time 0 is so long before it begins: requests may have been created before.
const BEFORE_NS: u64 = 1_000_000_000;

/// What was read, in the order of time.
#[derive(Clone, Copy, Debug)]
enum Item {
    Event(TimedEvent),
    /// Events were lost between two times.
    Missed {
        from: u64,
        until: u64,
    },
}

impl Item {
    fn time(&self) -> u64 {
        match self {
            Item::Event(seen) => seen.time,
            Item::Missed { from, .. } => *from,
        }
    }
}

/// One processor's ring buffer of the trace.
#[derive(Debug)]
struct Processor {
    ring: File,
    /// When the last event was that was read.
    last: u64,
}

/// What was counted beside the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// I/Os that ended, and had begun before the profile.
    pub before: u64,
    /// Events that the kernel had no room for.
    pub events_lost: u64,
    /// I/Os of which a stage would have been negative, and is nothing.
    pub clamped: u64,
    /// Pages of the trace that could not be read.
    pub torn: u64,
    /// Whether the kernel counted itself what ended.
    pub is_counted: bool,
}

/// The trace of this machine's initiator. It ends with it.
#[derive(Debug)]
pub struct KernelTrace {
    // In this order: an instance whose rings are open cannot be removed.
    processors: Vec<Processor>,
    instance: Instance,
    decoder: Decoder,
    initiator: Initiator,
    controllers: Controllers,
    clock: Clock,
    header: Header,
    pending: Vec<Item>,
    page: Vec<u8>,
    connects: u64,
    torn: u64,
}

impl KernelTrace {
    /// Begins to trace, with a ring of so many bytes for each processor, and without what is left out.
    ///
    /// # Errors
    /// If the kernel cannot be traced.
    pub fn start(ring_bytes: u64, left_out: &LeftOut) -> Result<KernelTrace, TraceError> {
        let mut instance = Instance::create(ring_bytes, left_out)?;
        let clock = Clock::start(Rate::REAL);
        let origin = clock.origin_ns().saturating_sub(BEFORE_NS);
        let mut header = kernel_header(&format!("nvme-tcp of {}", kernel_name()));
        (header.origin_ns, header.machine) = (origin, clock::machine());
        let rings = instance.rings()?.into_iter();
        let processors = rings.map(|ring| Processor { ring, last: 0 }).collect();
        let decoder = instance.start(&others())?;
        Ok(KernelTrace {
            processors,
            instance,
            decoder,
            initiator: Initiator::new(origin),
            controllers: Controllers::default(),
            clock,
            header,
            pending: vec![],
            page: vec![0; PAGE_MAX],
            connects: 0,
            torn: 0,
        })
    }

    /// Which hook is seen how, and what is missing.
    pub fn coverage(&self) -> String {
        coverage_text(self.instance.found())
    }

    /// The header of the profile that is written.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Collects for so long, or while it is to go on; then ends the trace. What was counted beside the
    /// profile.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn collect(
        mut self,
        ring: &mut Ring,
        chooser: &mut Chooser,
        duration: Option<Span>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<KernelCounts, TraceError> {
        let end = duration.map_or(Time::from_ps(u64::MAX), |it| Time::from_ps(it.as_ps()));
        while goes_on() && self.clock.wall() < end {
            std::thread::sleep(LOOK_EVERY);
            let now = self.clock.origin_ns() + self.clock.wall().as_ps() / 1000;
            let settled = self.read(now.saturating_sub(SETTLED_NS), PAGES_AT_ONCE)?;
            self.work(settled, ring, chooser);
        }
        self.instance.stop()?;
        self.read(u64::MAX, usize::MAX)?;
        self.work(u64::MAX, ring, chooser);
        let events_lost = self.instance.lost()?;
        ring.lose(self.initiator.lost());
        // Where no event was lost, nothing is beyond what was seen.
        let hits = self.instance.hits().filter(|_| events_lost > 0);
        let is_counted = hits.is_some();
        if let Some(hits) = hits {
            let of_tcp = hits.iter().filter(|it| {
                it.queue != 0 && self.controllers.get(it.controller).is_some_and(|it| it.is_tcp)
            });
            let completed: u64 = of_tcp.map(|it| it.count).sum();
            let known = ring.counts().completed + self.initiator.before();
            ring.lose(completed.saturating_sub(known));
        }
        let before = self.initiator.before();
        let clamped = self.initiator.clamped();
        Ok(KernelCounts { before, events_lost, clamped, torn: self.torn, is_counted })
    }

    /// Reads what there is; up to when events of all processors are there.
    fn read(&mut self, until: u64, pages: usize) -> Result<u64, TraceError> {
        let mut settled = until;
        for processor in &mut self.processors {
            let mut left = pages;
            loop {
                if left == 0 {
                    settled = settled.min(processor.last);
                    break;
                }
                left -= 1;
                let bytes = match processor.ring.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(bytes) => bytes,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => {
                        let path = PathBuf::from("trace_pipe_raw");
                        return Err(TraceError::Io { path, error });
                    }
                };
                let Ok(mut page) = Page::new(&self.page[..bytes]) else {
                    self.torn += 1;
                    continue;
                };
                let is_missing = page.missed() != Missed::Nothing;
                let (from, mut first) = (processor.last, true);
                for entry in &mut page {
                    if is_missing && first {
                        self.pending.push(Item::Missed { from, until: entry.time });
                    }
                    first = false;
                    processor.last = entry.time;
                    let seen = self.decoder.decode(entry.time, entry.payload);
                    self.pending.extend(seen.map(Item::Event));
                }
                let is_torn = page.is_torn();
                self.torn += u64::from(is_torn);
                if is_torn || is_missing && first {
                    self.pending.push(Item::Missed { from: processor.last, until: processor.last });
                }
            }
        }
        Ok(settled)
    }

    /// Makes records of all that is settled.
    fn work(&mut self, settled: u64, ring: &mut Ring, chooser: &mut Chooser) {
        // Those of a processor are in order already, and stay so where times are equal.
        self.pending.sort_by_key(Item::time);
        let count = self.pending.partition_point(|item| item.time() <= settled);
        for item in self.pending.drain(..count) {
            match item {
                Item::Missed { until, .. } => self.initiator.missed(until),
                Item::Event(seen) => {
                    let ended = self.initiator.take(&seen);
                    if self.initiator.connects() != self.connects {
                        self.connects = self.initiator.connects();
                        self.controllers.refresh();
                    }
                    if let Some(ended) = ended {
                        record(ended, &mut self.controllers, ring, chooser);
                    }
                }
            }
        }
    }
}

/// Writes the record of an I/O, if it is to have one.
fn record(ended: EndedIo, controllers: &mut Controllers, ring: &mut Ring, chooser: &mut Chooser) {
    let controller = match controllers.get(ended.controller) {
        Some(controller) if controller.is_tcp => controller,
        // Of PCIe, or another fabric.
        Some(_) => return,
        // Gone before anybody could ask what it was called.
        None => return ring.lose(1),
    };
    let mut head = Head { connection: controller.id, ..ended.head };
    if let Some(blocks) = ended.blocks {
        let block = controllers.block_bytes(ended.controller, head.namespace.into());
        head.bytes = block.map_or(0, |bytes| bytes.saturating_mul(blocks));
    }
    match chooser.decide(&head) {
        Decision::Record => {}
        Decision::Slow => head.kept = true,
        decision => return ring.skip(decision),
    }
    ring.record(&head, &ended.stages, &ended.beside);
}

/// The kernel's name and release.
fn kernel_name() -> String {
    let part = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        text.trim().to_owned()
    };
    format!("{} {}", part("ostype"), part("osrelease"))
}
