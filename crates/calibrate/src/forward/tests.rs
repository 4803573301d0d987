//! Stages that are known, measured with noise.

use super::*;
use mynah_profile::{Head, Header, Side, TimeBase, Writer};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fmt::Write;

/// 28 sizes from 0.5 to 1020 KiB, evenly spread by their logarithm.
fn sizes() -> Vec<u64> {
    let at = |step: u32| 512.0 * libm::exp(libm::log(2040.0) * f64::from(step) / 27.0);
    let mut last = 0;
    let distinct = |step| {
        last = ((at(step) / 512.0).round() as u64 * 512).max(last + 512);
        last
    };
    (0..28).map(distinct).collect()
}

/// Normally distributed noise (Box and Muller).
fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let radius = (-2.0 * libm::log(1.0 - uniform())).sqrt();
    radius * libm::cos(2.0 * std::f64::consts::PI * uniform())
}

/// A table of samples of `stage`: 30 repeats, 5 % noise.
fn measured(seed: u64, stage: &dyn Fn(f64) -> f64) -> Samples {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut text = "stage,direction,bytes,latency_ns\n".to_owned();
    // Unsorted: all sizes once, and so on.
    for _ in 0..30 {
        for bytes in sizes() {
            let ns = stage(bytes as f64) * (1.0 + 0.05 * normal(&mut random));
            let _ = writeln!(text, "capsule,in,{bytes},{ns:.1}");
        }
    }
    let input = Input::of_text("made.csv", text);
    let mut samples = Samples::default();
    table::read(&input, &mut samples).unwrap();
    samples
}

fn fitted(samples: &Samples) -> StageFit {
    let (of, sizes) = samples.by_size().remove(0);
    stage(of, &sizes, samples, false, &mut Vec::new()).unwrap()
}

/// Root mean square, and the worst, of the curve over the truth, less one.
fn off(fit: &StageFit, truth: &dyn Fn(f64) -> f64) -> (f64, f64) {
    let off = |bytes: &u64| fit.at(*bytes) / truth(*bytes as f64) - 1.0;
    let all: Vec<f64> = sizes().iter().map(off).collect();
    let squares: f64 = all.iter().map(|off| off * off).sum();
    let worst = all.iter().fold(0.0, |worst: f64, off| worst.max(off.abs()));
    ((squares / all.len() as f64).sqrt(), worst)
}

#[test]
fn curves_are_near_the_truth() {
    let affine = |bytes: f64| 2000.0 + 0.35 * bytes;
    let root = |bytes: f64| 900.0 + 45.0 * bytes.sqrt();
    for truth in [&affine as &dyn Fn(f64) -> f64, &root] {
        for seed in 0..60 {
            let fit = fitted(&measured(seed, truth));
            let (rms, worst) = off(&fit, truth);
            assert!(rms <= 0.015 && worst <= 0.04, "seed {seed}: rms {rms}, worst {worst}");
            // The table, between whose points the model interpolates, is as near.
            assert!(fit.table_error <= 0.001 && fit.table.len() <= 60, "{}", fit.table.len());
            assert_eq!((fit.sizes.len(), fit.sizes[0].repeats), (28, 30));
            assert_eq!(fit.misses, Misses::default(), "seed {seed}");
        }
    }
}

/// Arithmetic means have no bias, however wide the samples lie.
#[test]
fn wide_samples_do_not_bend_the_mean() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut samples = Samples::default();
    let of = StageKey { index: 0, direction: Direction::Out };
    for bytes in sizes() {
        for _ in 0..400 {
            // Half of the time 1 us, half 3 us.
            let ns = if random.next_u64() & 1 == 0 { 1000.0 } else { 3000.0 };
            samples.add("made", of, bytes, ns);
        }
    }
    let fit = fitted(&samples);
    let mean = sizes().iter().map(|bytes| fit.at(*bytes)).sum::<f64>() / 28.0;
    assert!((mean / 2000.0 - 1.0).abs() < 0.01, "{mean}");
}

fn forward(inputs: &[(&str, &str)], maps: &[&str], bytes: &str) -> Forward {
    let input = |(name, text): &(&str, &str)| Input::of_text(*name, *text);
    Forward {
        drive: "samsung-980-pro".to_owned(),
        set: vec![],
        inputs: inputs.iter().map(input).collect(),
        maps: maps.iter().map(|map| StageMap::parse(map).unwrap()).collect(),
        bytes: match bytes {
            "" => vec![],
            text => BytesRule::parse_all(text).unwrap(),
        },
        interpolate: false,
    }
}

fn read(forward: &Forward) -> Result<Samples, String> {
    let mut samples = Samples::default();
    let done = samples::read_all(forward, &mut samples).map_err(|error| error.to_string());
    done.map(|()| samples)
}

#[test]
fn traces_become_samples() {
    let trace = "\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
          <idle>-0       [000] d.h1.   100.000001: recv <-cq
          <idle>-0       [001] d.h1.   100.000002: recv <-cq
          <idle>-0       [000] d.h1.   100.000004: init: nvmet1: cmd=(read, slba=0, len=7)
          <idle>-0       [001] d.h1.   100.000007: init: nvmet1: cmd=(read, slba=8, len=15)
    kworker/0:1H-12      [000] .....   100.000010: recv <-cq
    kworker/0:1H-12      [001] .....   100.000012: other: len=31
    kworker/0:1H-12      [001] .....   100.000015: init <-f
    kworker/0:1H-12      [001] .....   100.000016: recv <-cq
    kworker/0:1H-12      [001] .....   100.000017: recv <-cq
CPU:1 [LOST 12 EVENTS]
    kworker/0:1H-12      [001] .....   100.000019: init: len=7
";
    let map = "transport.in=recv..init";
    let samples = read(&forward(&[("t", trace)], &[map], "(len+1)*512")).unwrap();
    let of = StageKey { index: 0, direction: Direction::In };
    let sizes = vec![(4096, vec![3000.0]), (8192, vec![5000.0]), (16384, vec![5000.0])];
    assert_eq!(samples.by_size(), vec![(of, sizes)]);
    assert_eq!(samples.notes.len(), 2, "{:?}", samples.notes);
    assert!(samples.notes[0].contains("1 of transport in began again"), "{:?}", samples.notes);
    assert!(samples.notes[1].contains("1 of transport in were open where"), "{:?}", samples.notes);
    let said = |maps: &[&str], bytes: &str, what: &str| {
        let error = read(&forward(&[("t", trace)], maps, bytes)).map(|_| ()).unwrap_err();
        assert!(error.contains(what), "{error}");
    };
    said(&[], "len", "names no stages");
    said(&[map], "", "how long are the commands");
    said(&["transport.in"], "len", "where in this trace is transport.in");
    said(&["transport.in=recv..nothing"], "len", "nothing goes from `recv` to `nothing`");
    said(&[map], "size", "3 times from `recv` to `init`, and never a size");
}

#[test]
fn nvme_cli_gives_a_size_a_file() {
    let files = [("a", "read: Success\n latency: read: 85 us\n"), ("b", " latency: read: 90 us\n")];
    let samples = read(&forward(&files, &["transport.in"], "4k,8k")).unwrap();
    let of = StageKey { index: 0, direction: Direction::In };
    let sizes = vec![(4096, vec![85_000.0]), (8192, vec![90_000.0])];
    assert_eq!(samples.by_size(), vec![(of, sizes)]);
    let said = |maps: &[&str], bytes: &str, what: &str| {
        let error = read(&forward(&files, maps, bytes)).map(|_| ()).unwrap_err();
        assert!(error.contains(what), "{error}");
    };
    said(&[], "4k", "name no stage");
    said(&["transport.in=a..b"], "4k", "no events to look for");
    said(&["transport.in"], "", "how long the commands were");
    said(&["transport.in"], "4k,8k,16k", "3 sizes for 2 files");
}

/// A profile of these I/Os, whose stages are called so.
fn profile(side: Side, stages: &[&str], ios: &[(Head, &[u64])]) -> Input {
    let mut header = Header::new(side, "a target", TimeBase::Monotonic);
    header.kinds = vec!["read".to_owned(), "write".to_owned()];
    header.stages = stages.iter().map(|name| (*name).to_owned()).collect();
    let mut out = std::io::Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut out, header).unwrap();
    for (head, ns) in ios {
        let total = Span::from_ns(ns.iter().sum());
        let stages = ns.iter().map(|ns| Span::from_ns(*ns));
        writer.record(Head { total, ..*head }, stages, &[]).unwrap();
    }
    writer.finish().unwrap();
    Input::of_profile("t.profile", out.into_inner())
}

#[test]
fn profiles_give_the_sum_of_their_stages() {
    let io = |bytes| Head { bytes, ..Head::default() };
    let ios: [(Head, &[u64]); 6] = [
        (io(4096), &[1_000, 200, 30_000]),
        (io(8192), &[1_500, 300, 40_000]),
        (Head { kind: 1, ..io(8192) }, &[1_700, 500, 40_000]),
        (io(0), &[1, 2, 3]),
        (Head { status: 0x281, ..io(4096) }, &[1, 2, 3]),
        (Head { kept: true, ..io(4096) }, &[9_000_000, 1, 1]),
    ];
    let input = profile(Side::Target, &["receive", "parse", "device"], &ios);
    let with = |maps: &[&str], bytes: &str| {
        let forward = Forward { inputs: vec![input.clone()], ..forward(&[], maps, bytes) };
        read(&forward)
    };
    let samples = with(&["transport.in=receive+parse", "capsule.in = parse"], "").unwrap();
    let of = |index| StageKey { index, direction: Direction::In };
    let transport = vec![(4096, vec![1_200.0]), (8192, vec![1_800.0, 2_200.0])];
    let capsule = vec![(4096, vec![200.0]), (8192, vec![300.0, 500.0])];
    assert_eq!(samples.by_size(), [(of(0), transport), (of(1), capsule)]);
    assert_eq!(
        samples.notes,
        [
            "t.profile: 1 I/Os moved no data, and are left out",
            "t.profile: 1 I/Os failed, and are left out",
            "t.profile: 1 I/Os are there because they were slow, and are left out",
            "t.profile: read, write count together; a profile of one of them has its own costs",
        ]
    );
    let said = |maps: &[&str], bytes: &str, what: &str| {
        let error = with(maps, bytes).map(|_| ()).unwrap_err();
        assert!(error.contains(what), "{error}");
    };
    said(&[], "", "which of this profile's stages are those of a target?");
    said(&["transport.in"], "", "which of this profile's stages are transport.in?");
    said(&["transport.in=receive..parse"], "", "stages are transport.in?");
    said(&["transport.in=recieve"], "", "this profile has no stage `recieve`");
    said(&["transport.in=receive"], "4k", "--bytes has no effect");
    for (side, ios, what) in [
        (Side::Target, &ios[..0], "it has no I/Os"),
        (Side::Simulation, &ios[..1], "it is of a simulated drive"),
    ] {
        let inputs = vec![profile(side, &["a", "b", "c"], ios)];
        let refused = Forward { inputs, ..forward(&[], &["capsule.in=a"], "") };
        let error = read(&refused).map(|_| ()).unwrap_err();
        assert!(error.contains(what), "{error}");
    }
    let whole = input.profile.unwrap();
    let cut = Input::of_profile("cut", whole[..whole.len() - 30].to_vec());
    let cut = Forward { inputs: vec![cut], ..forward(&[], &["capsule.in=parse"], "") };
    assert!(read(&cut).map(|_| ()).unwrap_err().contains("it ends after"));
}

#[test]
fn tables_that_are_none_are_refused_with_their_place() {
    let said = |text: &str, what: &str| {
        let error = read(&forward(&[("t.csv", text)], &[], "")).map(|_| ()).unwrap_err();
        assert!(error.contains(what), "{error}");
    };
    const HEAD: &str = "stage,direction,bytes,latency_ns\n";
    said("", "none of the files");
    said("a\nb\n", "none of the files");
    said(HEAD, "it has no samples");
    said("stage,direction,bytes,latency\n", "t.csv:1: there is no column `latency`");
    said("stage,bytes,latency_ns\n", "the column `direction` is missing");
    said(&format!("{HEAD}nic,in,4096,5\n"), "t.csv:2: there is no stage `nic`");
    said(&format!("{HEAD}capsule,up,4096,5\n"), "t.csv:2: `up` is no direction");
    said(&format!("{HEAD}capsule,in,0,5\n"), "`0` is no size");
    for bad in ["0", "-1", "nan", "inf", "1e300", "x", ""] {
        let row = format!("{HEAD}# c\ncapsule,in,4096,{bad}\n");
        said(&row, "t.csv:3: ");
    }
    said(&format!("{HEAD}capsule,in,4096\n"), "3 values where there are 4 columns");
    let error = read(&forward(&[("t", &format!("{HEAD}capsule,in,512,5\n"))], &[], "4k"));
    assert!(error.map(|_| ()).unwrap_err().contains("--bytes has no effect"));
}

/// What stands before a table is read past, and quoted.
#[test]
fn what_stands_before_a_table_is_read_past() {
    let text = "my tool 1.2\nstage,direction,bytes,latency_ns\ncapsule,in,4096,5\n";
    let samples = read(&forward(&[("t.csv", text)], &[], "")).unwrap();
    assert_eq!(samples.by_size()[0].1, vec![(4096, vec![5.0])]);
    assert_eq!(samples.warnings, ["t.csv:1: read past `my tool 1.2`"]);
}

#[test]
fn too_few_sizes_are_refused() {
    let text = "stage,direction,bytes,latency_ns\n".to_owned()
        + &(1..5).map(|n| format!("capsule,out,{},100\n", 512 * n)).collect::<String>();
    let error = forward(&[("t.csv", &text)], &[], "").fit().unwrap_err();
    assert!(error.is_usage());
    assert_eq!(
        error.to_string(),
        "t.csv: capsule out was measured at 4 sizes, and a curve needs 5"
    );
}

#[test]
fn slow_samples_that_make_the_mean_are_named() {
    let mut samples = Samples::default();
    let of = StageKey { index: 1, direction: Direction::In };
    for bytes in sizes() {
        (0..10).for_each(|n| samples.add("t", of, bytes, if n == 0 { 9000.0 } else { 1000.0 }));
    }
    let (of, all) = samples.by_size().remove(0);
    let mut notes = Vec::new();
    stage(of, &all, &samples, false, &mut notes).unwrap();
    let said = "capsule in at 28 of 28 sizes: means lie up to 80 % above medians";
    assert!(notes.len() == 1 && notes[0].starts_with(said), "{notes:?}");
}

#[test]
fn pictures_are_well_formed() {
    let truth = |bytes: f64| 2000.0 + 0.35 * bytes;
    let fits = StageFits {
        schema: SCHEMA,
        drive: "a <drive>".to_owned(),
        drive_hash: "0".to_owned(),
        inputs: vec![],
        stages: vec![fitted(&measured(1, &truth))],
        notes: vec!["a & b".to_owned()],
        warnings: vec!["c < d".to_owned()],
        text: String::new(),
    };
    let html = fits.html();
    let mut reader = quick_xml::Reader::from_str(html.trim_start_matches("<!doctype html>"));
    let mut svgs = 0;
    loop {
        match reader.read_event().unwrap() {
            quick_xml::events::Event::Start(tag) => svgs += u32::from(tag.name().0 == "svg"),
            quick_xml::events::Event::Eof => break,
            _ => {}
        }
    }
    assert!(svgs == 2 && !html.contains("NaN") && !html.contains("a <drive>"));
    assert!(fits.told().starts_with("stage"), "{}", fits.told());
    assert!(fits.to_json().contains("\"left_out_error\""));
    // As a drive file has it.
    let toml = fits.stages[0].toml().to_string();
    assert!(toml.starts_with("{ bytes = [512, ") && toml.contains("times = [\"2."), "{toml}");
}

/// A stage of an Ethernet drive, from samples to a drive that takes what was measured.
#[test]
fn stages_become_tables_of_a_drive() {
    let head = "stage,direction,bytes,latency_ns\n";
    let ns = |bytes: u64| 2000.0 + 0.35 * bytes as f64;
    let line = |bytes: &u64| format!("transport,in,{bytes},{}\n", ns(*bytes));
    let text = head.to_owned() + &sizes().iter().map(line).collect::<String>();
    let forward = |text: &str| Forward {
        drive: "eemu-samsung".to_owned(),
        ..forward(&[("t.csv", text)], &[], "")
    };
    let fits = forward(&text).fit().unwrap();
    let fitted = mynah_drive_file::parse("f.toml", &fits.text, &[]).unwrap();
    assert_eq!(fitted.hash, fits.drive_hash);
    assert!(fitted.show().contains("measured; a curve through t.csv, sha256 "));
    // At one command at a time a read is longer by what its stage now costs more: in place of 0.5 us.
    let mean = |text: &str| {
        let config = mynah_drive_file::parse("f.toml", text, &[]).unwrap().config;
        let simulation = mynah_lab::Simulation::with("f", config);
        let simulation = simulation.precondition(mynah_lab::experiment::Precondition::None);
        let load = "rw=randread bs=64k iodepth=1 number_ios=50";
        let measured = simulation.flow("f", load).unwrap().run().unwrap();
        measured.result.flows[0].read.lat_ns.unwrap().mean
    };
    let base = mynah_drive_file::load("eemu-samsung", &[]).unwrap();
    let more = mean(&fits.text) - mean(&base.text);
    assert!(
        (more / (ns(0) - 500.0) - 1.0).abs() < 0.002
            || (more / (ns(65536) - 500.0) - 1.0).abs() < 0.002,
        "{more}"
    );
    // Shorter than the longest command.
    let short = head.to_owned() + &sizes()[..9].iter().map(line).collect::<String>();
    let error = forward(&short).fit().unwrap_err();
    assert!(
        error.is_usage() && error.to_string().contains("transport in was measured up to"),
        "{error}"
    );
}

/// What a stage takes that copies what does not fit into its capsule: twice as much beyond 8 KiB.
fn jumping(bytes: u64) -> f64 {
    let ns = 2000.0 + 0.2 * bytes as f64;
    if bytes <= 8192 { ns } else { 2.0 * ns }
}

fn jump(repeats: &[f64]) -> String {
    let mut text = "stage,direction,bytes,latency_ns\n".to_owned();
    let sizes = [512, 1024, 2048, 4096, 8192, 8704, 16384, 32768, 65536, 131_072, 1_048_576];
    for bytes in sizes {
        for factor in repeats {
            let _ = writeln!(text, "transport,in,{bytes},{:.1}", jumping(bytes) * factor);
        }
    }
    text
}

/// Costs that jump lie on no smooth curve: it is said where, and what was measured is taken as it is.
#[test]
fn steps_are_named_and_can_be_kept() {
    for repeats in [&[1.0][..], &[0.99, 1.0, 1.01]] {
        let text = jump(repeats);
        let smooth =
            Forward { drive: "eemu-samsung".to_owned(), ..forward(&[("t.csv", &text)], &[], "") };
        let fits = smooth.fit().unwrap();
        let [warning] = &fits.warnings[..] else { panic!("{:?}", fits.warnings) };
        let worst = &fits.stages[0].misses.sizes[0];
        assert!((8192..=8704).contains(&worst.bytes) && worst.error.abs() > 0.05, "{worst:?}");
        let ns = jumping(worst.bytes);
        assert!((worst.measured_ns / ns - 1.0).abs() < 1e-9, "{worst:?}");
        assert!(warning.starts_with(&format!("transport in at {} B: measured ", worst.bytes)));
        assert!(warning.contains("the cost jumps between 8192 and 8704 B"), "{warning}");
        assert!(warning.contains("--interpolate"), "{warning}");
        assert!(fits.html().contains("the cost jumps") && fits.to_json().contains("\"step\""));

        let kept = Forward { interpolate: true, ..smooth }.fit().unwrap();
        assert!(kept.warnings.is_empty(), "{:?}", kept.warnings);
        let stage = &kept.stages[0];
        assert_eq!((stage.table.len(), stage.residual), (11, 0.0));
        for bytes in [512, 8192, 8704, 1_048_576] {
            assert!((stage.at(bytes) / jumping(bytes) - 1.0).abs() < 1e-9, "{bytes}");
        }
        let half = (jumping(8704) + jumping(16384)) / 2.0;
        assert!((stage.at(12544) / half - 1.0).abs() < 1e-9);
        assert!(kept.told().contains("as they were measured"), "{}", kept.told());
        // The drive file has the means themselves, and says so.
        let file = mynah_drive_file::parse("f.toml", &kept.text, &[]).unwrap();
        assert!(file.show().contains("measured; the means of t.csv, sha256 "), "{}", file.show());
        assert!(kept.text.contains("512, 1024, 2048, 4096, 8192, 8704, 16384"), "{}", kept.text);
        assert!(!kept.html().contains("NaN"));
    }
}
