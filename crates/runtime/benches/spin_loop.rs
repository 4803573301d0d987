//! How late a loop is that does nothing but read the clock: what this machine allows at best.
//!
//!     cargo bench -p mynah-runtime --bench spin_loop -- [CPU [RATE [SECONDS]]]
//!
//! Events are due at `RATE` a second (1,000,000). The loop counts one as happened when it first
//! reads a time at or after; whatever interrupts it makes all events late that are due meanwhile,
//! as it does to a drive's completions. Prints one line of JSON, in nanoseconds.

use mynah_result::histogram::Histogram;
use mynah_runtime::clock::{Clock, Rate};
use mynah_runtime::cpus::Cpus;
use mynah_stamp::{Span, Time};

fn main() {
    let mut values = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let cpu = values.next().unwrap_or_else(|| "0".to_owned());
    let mut number = |default| {
        let value = values.next();
        value.map_or(default, |it| it.parse::<f64>().expect("RATE and SECONDS are numbers"))
    };
    let (rate, seconds) = (number(1e6), number(1.0));
    assert!(rate > 0.0 && seconds > 0.0, "RATE and SECONDS are positive");
    let cpus: Cpus = cpu.parse().expect("CPU is a processor");
    cpus.keep_to().expect("the processor can be chosen");
    let every = Span::from_ps((1e12 / rate) as u64);
    let events = (rate * seconds) as u64;

    let clock = Clock::start(Rate::REAL);
    let mut late = Histogram::default();
    let mut due = clock.wall() + every;
    let mut done = 0;
    while done < events {
        let now: Time = clock.wall();
        while due <= now && done < events {
            late.record(now.since(due));
            due += every;
            done += 1;
        }
    }
    let at = |percentile| late.percentile(percentile).map_or(0.0, |span: Span| span.as_ns_f64());
    println!("{{\"50\": {}, \"99\": {}, \"99.9\": {}}}", at(50.0), at(99.0), at(99.9));
}
