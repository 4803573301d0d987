//! Drives that complete nothing for a while, in a time of the test's own.

use crate::client::blocks_of;
use crate::timing::World;
use mynah_device::Now;
use mynah_lab::emulation::{Emulation, Prepared};
use mynah_runtime::clock::Rate;
use mynah_runtime::hub::Id;
use mynah_stamp::{Span, Time};
use mynah_wire::nvme::opcode;

const DEPTH: u64 = 32;

/// One die that takes 50 ms for a page: whoever needs a free block waits many seconds for it, as
/// the valid pages of another have to be moved first.
fn slow(faults: &[&str]) -> Prepared {
    let settings = [
        "geometry.channels=1",
        "geometry.chips_per_channel=1",
        "geometry.dies_per_chip=1",
        "geometry.planes_per_die=1",
        "geometry.blocks_per_plane=64",
        "geometry.pages_per_block=96",
        "over_provisioning=20%",
        "gc.paced=false",
        "flash.program=50ms",
        "cache.size=64KiB",
    ];
    let mut emulation = Emulation::on("enterprise-tlc", &settings.map(String::from)).unwrap();
    for fault in faults {
        emulation = emulation.fault(fault).unwrap();
    }
    emulation.prepare().unwrap()
}

/// A host that keeps random writes outstanding.
struct Writer {
    world: World,
    queue: Id,
    written: u64,
    told: Vec<String>,
}

impl Writer {
    fn on(drive: Prepared, rate: Rate) -> Writer {
        let mut world = World::on(drive, rate);
        let queue = world.queue();
        Writer { world, queue, written: 0, told: Vec::new() }
    }

    /// Goes on to the next thing that happens.
    fn step(&mut self) {
        while self.world.hub.outstanding() < DEPTH {
            // All over the drive, in no order.
            let block = self.written.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
            let entry = blocks_of(opcode::nvm::WRITE, block % 10_000 * 8, 8);
            self.world.command(self.queue, entry, self.written as u16, &[1; 4096]);
            self.written += 1;
        }
        let next = self.world.hub.next_at().expect("something is under way");
        self.world.wall = self.world.wall.max(next);
        self.world.look();
        self.told.extend(self.world.hub.take_warning());
    }

    /// The same until something is told, but not for longer than this on the host's clock.
    fn until_told(&mut self, end: Time) -> String {
        while self.told.is_empty() {
            assert!(self.world.wall < end, "nothing is told by {}", self.world.wall);
            self.step();
        }
        self.told.remove(0)
    }
}

#[test]
fn a_drive_that_collects_and_completes_nothing_says_so() {
    let mut writer = Writer::on(slow(&[]), Rate::REAL);
    let told = writer.until_told(Time::ZERO + Span::from_secs(60));
    let stopped = "the drive has stopped: 32 commands wait, and none has been completed for 1s of";
    assert!(told.starts_with(stopped), "{told}");
    assert!(told.contains("garbage collection holds it up"), "{told}");
    assert!(told.contains("more over-provisioning"), "{told}");
    let stall = writer.world.hub.stall().expect("it goes on");
    assert!(stall.is_stop() && stall.commands == DEPTH, "{stall:?}");
    assert!(stall.programmed_for_itself >= 19, "a page in 50 ms: {stall:?}");
    assert!(writer.world.hub.measure().stalls().note().unwrap().contains("had not gone on"));
    let before = writer.world.hub.measure().totals().writes;
    let told = writer.until_told(Time::ZERO + Span::from_secs(120));
    assert!(told.starts_with("the drive completes commands again: it had stopped for "), "{told}");
    assert!(writer.world.hub.measure().totals().writes > before);
    assert!(!writer.world.hub.stall().is_some_and(|stall| stall.is_stop()));
    let note = writer.world.hub.measure().stalls().note().unwrap();
    assert!(note.starts_with("the drive stopped once; the longest stop began at "), "{note}");
    // It does so again and again, and is told of once a minute.
    let begin = writer.world.wall;
    while writer.world.wall < begin + Span::from_secs(240) {
        writer.step();
    }
    let stops =
        writer.told.iter().filter(|told| told.starts_with("the drive has stopped (")).count();
    assert!((1..=4).contains(&stops), "{:?}", writer.told);
    assert!(writer.world.hub.measure().stalls().count() > 5);
}

/// A host that gives up is not served: the drive has stopped all the same, and for the next one,
/// too.
#[test]
fn a_stop_does_not_end_with_its_host() {
    let mut writer = Writer::on(slow(&[]), Rate::REAL);
    writer.until_told(Time::ZERO + Span::from_secs(60));
    let (queue, mut wall) = (writer.queue, writer.world.wall);
    let hub = &mut writer.world.hub;
    hub.close(Now { wall, model: wall }, queue);
    assert_eq!(hub.outstanding(), 0, "nobody waits");
    for _ in 0..20 {
        wall += Span::from_ms(50);
        hub.advance(Now { wall, model: wall });
        assert_eq!(hub.take_warning(), None);
    }
    let stall = hub.stall().expect("it goes on");
    assert!(stall.lasts >= Span::from_secs(2) && stall.commands == DEPTH, "{stall:?}");
    let told = loop {
        wall += Span::from_ms(50);
        hub.advance(Now { wall, model: wall });
        if let Some(told) = hub.take_warning() {
            break told;
        }
        assert!(wall < Time::ZERO + Span::from_secs(120), "the drive has not gone on");
    };
    assert!(told.starts_with("the drive completes commands again: "), "{told}");
    assert_eq!(hub.measure().stalls().count(), 1);
}

/// What counts is the drive's clock: on one that is a tenth as fast the same drive stops at the
/// same moment of its own, ten times later for the host.
#[test]
fn a_slow_clock_does_not_make_a_drive_stop() {
    let first = |rate| {
        let mut writer = Writer::on(slow(&[]), rate);
        writer.until_told(Time::ZERO + Span::from_secs(600));
        (writer.world.wall, writer.world.hub.stall().expect("it goes on"))
    };
    let (at, stall) = first(Rate::REAL);
    let (slow_at, slow) = first(Rate::new(0.1).unwrap());
    let tenth = |of: Time| Time::from_ps(of.as_ps() / 10);
    assert!(tenth(slow_at).since(Time::ZERO) + Span::from_us(1) > at.since(Time::ZERO));
    let close = |a: Time, b: Time| a.max(b).since(a.min(b)) < Span::from_ms(100);
    assert!(close(tenth(slow_at), at) && close(slow.since, stall.since), "{slow:?} {stall:?}");
}

/// The power takes the commands that a drive has stopped with: nobody waits for them any more, and
/// nobody waits for the recovery.
#[test]
fn a_power_cut_ends_a_stop_and_is_none() {
    let limit = Time::ZERO + Span::from_secs(60);
    let mut writer = Writer::on(slow(&[]), Rate::REAL);
    writer.until_told(limit);
    let cut = writer.world.wall + Span::from_secs(1);
    let fault = format!("power-cut:at={}ns,recovery=30s", cut.as_ps() / 1000);
    let mut writer = Writer::on(slow(&[&fault]), Rate::REAL);
    let told = writer.until_told(limit);
    assert!(told.starts_with("the drive has stopped: 32 commands wait"), "{told}");
    let mut wall = writer.world.wall;
    let hub = &mut writer.world.hub;
    let mut told = Vec::new();
    while wall < cut + Span::from_secs(29) {
        wall += Span::from_ms(50);
        let now = Now { wall, model: wall };
        hub.advance(now);
        told.extend(hub.take_warning());
        while let Some((id, _)) = hub.next_ended() {
            hub.close(now, id);
        }
    }
    assert!(hub.subsystem().drive().has_lost_power());
    assert_eq!(hub.stall(), None);
    assert_eq!(hub.measure().stalls().count(), 1);
    assert!(told.len() == 1 && told[0].starts_with("no command waits for the drive any more: it"));
}
