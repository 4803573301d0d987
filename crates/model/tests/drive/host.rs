//! The host's side, in numbers: arbitration between queues by priority, and the SATA link.

use crate::support::*;
use mynah_model::config::*;
use mynah_model::io::*;
use mynah_stamp::Span;

/// Completions of each of four queues, urgent to low, with `depths` outstanding, when 700
/// have come; the drive takes one command at a time.
fn shares(arbitration: Arbitration, depths: [usize; 4], change: Option<Control>) -> [u32; 4] {
    let config = small_with(|c| {
        c.queues.arbitration = arbitration;
        c.queues.command_slots = 1;
    });
    let mut host = Host::without_queues(config, Manner::default());
    let priorities = [Priority::Urgent, Priority::High, Priority::Medium, Priority::Low];
    for (at, priority) in priorities.into_iter().enumerate() {
        host.create(Queue { priority, ..memory_queue(at as u16 + 1) });
    }
    if let Some(control) = change {
        host.control(control);
    }
    fill(&mut host);
    let mut random = Random(12);
    let (mut outstanding, mut done) = ([0; 4], [0; 4]);
    while done.iter().sum::<u32>() < 700 {
        for queue in 0..4 {
            while outstanding[queue] < depths[queue] {
                let request = host.request(Operation::Read, random.below(1000) * 8, 8);
                host.submit(QueueId(queue as u16 + 1), request);
                outstanding[queue] += 1;
            }
        }
        let completion = host.next().expect("reads complete");
        let queue = usize::from(completion.queue.0) - 1;
        outstanding[queue] -= 1;
        done[queue] += 1;
    }
    done
}

#[test]
fn weights_divide_the_fetches() {
    let weights = Arbitration::Weighted(Weights { high: 4, medium: 2, low: 1 });
    let equal = shares(Arbitration::RoundRobin, [0, 16, 16, 16], None);
    assert!(equal[1].abs_diff(equal[3]) <= 2, "{equal:?}");
    let weighted = shares(weights, [0, 16, 16, 16], None);
    for (measured, expected) in weighted.into_iter().zip([0u32, 400, 200, 100]) {
        assert!(measured.abs_diff(expected) <= 6, "{weighted:?}");
    }
    // The turn of a class that wants nothing goes to the others in their proportion.
    let two = shares(weights, [0, 0, 16, 16], None);
    assert!(two[2].abs_diff(467) <= 6, "{two:?}");
    // Urgent queues go before all others.
    let urgent = shares(weights, [16, 16, 16, 16], None);
    assert!(urgent[0] > 690, "{urgent:?}");
    // The host chooses other weights.
    let change = Control::Arbitration { burst: 1, weights: Weights { high: 1, medium: 1, low: 5 } };
    let changed = shares(weights, [0, 16, 16, 16], Some(change));
    assert!(changed[3].abs_diff(500) <= 6, "{changed:?}");
}

fn sata() -> Config {
    small_with(|c| {
        c.link.protocol = LinkProtocol::Sata;
        c.link.bytes_per_s = 600_000_000;
        c.link.max_payload_bytes = 8192;
        c.link.packet_overhead_bytes = 28;
        c.queues.command_slots = 32;
    })
}

fn on_sata(bytes: u64) -> Span {
    Span::from_ps((bytes * 1_000_000).div_ceil(600))
}

#[test]
fn a_read_over_sata_is_the_sum_of_its_frames() {
    let latency = |config: Config| {
        let mut host = Host::new(config);
        fill(&mut host);
        let done = host.run_one(Operation::Read, 0, 8);
        (done.at.since(done.rung), done.stages)
    };
    let (total, stages) = latency(sata());
    let flash: Span = [
        mynah_stamp::Stage::FlashCommand,
        mynah_stamp::Stage::FlashArray,
        mynah_stamp::Stage::FlashTransfer,
    ]
    .into_iter()
    .map(|stage| stages.get(stage))
    .sum();
    // Register FISes both ways, DMA Setup, Data with its header, Set Device Bits.
    let frames =
        on_sata(20 + 28).times(2) + on_sata(28 + 28) + on_sata(4096 + 32) + on_sata(8 + 28);
    assert_eq!(total, flash + frames);
    let mut behind_adapter = sata();
    behind_adapter.link.adapter = Span::from_us(10);
    assert_eq!(latency(behind_adapter).0, total + Span::from_us(20));
}

/// Bytes a second of 64 KiB requests, half of them writes to other addresses.
fn both_ways(config: Config, writes: bool) -> f64 {
    let mut host = Host::new(config);
    fill_sectors(&mut host, 8192);
    let done = host.closed_loop(16, 400, |n| {
        let operation = if writes && n % 2 == 1 { Operation::Write } else { Operation::Read };
        (operation, n as u64 % 60 * 128, 128)
    });
    400.0 * 65_536.0 / done[399].at.as_secs_f64()
}

#[test]
fn sata_moves_data_one_way_at_a_time() {
    let fast = |mut config: Config| {
        config.flash.read = page_times(1, 1, 1);
        config.flash.program = page_times(1, 1, 1);
        config.flash.erase = Span::from_us(1);
        config.bus.rate_mts = 4800;
        config.geometry.blocks_per_plane = 64;
        config
    };
    let pcie = fast(small_with(|c| c.link.bytes_per_s = 600_000_000));
    // Frames of 8 KiB lose little, and reads and writes share what there is.
    assert_close("reads", both_ways(fast(sata()), false), 597e6 * 0.99, 0.015);
    assert_close("both", both_ways(fast(sata()), true), 597e6 * 0.99, 0.03);
    assert!(both_ways(pcie, true) > 750e6);
}

/// The adapter's sides each take one command at a time.
#[test]
fn an_adapter_bounds_the_rate() {
    let mut config = sata();
    config.link.adapter = Span::from_us(400);
    let mut host = Host::new(config);
    fill(&mut host);
    let mut random = Random(13);
    let done = host.closed_loop(16, 500, |_| (Operation::Read, random.below(1000) * 8, 8));
    assert_close("IOPS", 500.0 / done[499].at.as_secs_f64(), 2500.0, 0.01);
}
