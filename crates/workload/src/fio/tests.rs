//! What a job file says to fio (3.33, and its source where no output shows it), form by form.

use super::*;
use crate::{Amount, Arrivals, BlockSize, Extent, FlowOptions, Limits, Mode, Synthetic, Think};

/// Files and variables that are there.
struct Around(&'static [(&'static str, &'static str)]);

impl Surroundings for Around {
    fn included(&self, from: &str, name: &str) -> Result<(String, String), String> {
        let text = self.0.iter().find(|(there, _)| *there == name);
        let (_, text) = text.ok_or_else(|| format!("include {name}: not beside {from}"))?;
        Ok((name.to_owned(), (*text).to_owned()))
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "BS").then(|| "16k".to_owned())
    }
}

fn parse(text: &str) -> FioJob {
    FioJob::parse("a.fio", text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// The only flow of a job with these options.
fn flow(options: &str) -> FlowSpec {
    let mut job = parse(&format!("[a]\nioengine=libaio\n{options}\n"));
    assert_eq!(job.flows.len(), 1);
    job.flows.remove(0)
}

fn drawn(flow: &FlowSpec) -> &Synthetic {
    match &flow.source {
        Source::Synthetic(synthetic) => synthetic,
        Source::Trace(_) | Source::KeyValue(_) | Source::Front(_) => panic!("drawn"),
    }
}

fn names(job: &FioJob) -> Vec<&str> {
    job.flows.iter().map(|flow| flow.name.as_str()).collect()
}

#[test]
fn a_job_file_becomes_flows() {
    let text = include_str!("../../../../tests/data/two-tenants.fio");
    let job = FioJob::parse("two-tenants.fio", text).unwrap();
    assert_eq!(job.ramp_time, Some(Span::from_ms(2)));
    let [reader, writer] = &job.flows[..] else { panic!("two flows") };
    assert_eq!((reader.name.as_str(), writer.name.as_str()), ("reader", "writer"));
    assert_eq!(reader.depth(), Some(8));
    assert_eq!(reader.schedule.start, Span::from_ms(1));
    assert_eq!(reader.limits.runtime, Some(Span::from_ms(20)));
    assert_eq!(reader.limits.bytes, None, "time_based");
    assert_eq!(writer.jobs, 2);
    let think = Think { time: Span::from_us(500), requests: 32 };
    assert_eq!(writer.schedule.think, Some(think));
    assert_eq!(drawn(writer).block, BlockSize::Fixed(32));
    assert_eq!(drawn(writer).mode, Mode::Closed { depth: 1 });
    let said: Vec<_> = job.warnings.iter().map(|w| w.split(' ').next().unwrap()).collect();
    assert_eq!(said, ["ioengine", "direct"]);
}

/// `init.c`, `__parse_jobs_ini` and `strip_blank_end`; `parse.c`, `get_option`.
#[test]
fn how_a_file_is_taken_apart() {
    let block = |text: &str| match drawn(&parse(text).flows[0]).block {
        BlockSize::Fixed(sectors) => sectors,
        _ => panic!("fixed"),
    };
    for (what, text) in [
        ("plain", "[a]\nbs=8k\n"),
        ("no end of line", "[a]\nbs=8k"),
        ("CR LF", "[a]\r\nbs=8k\r\n"),
        ("space around lines", "  [a]  \n\t bs=8k \t\n"),
        ("space before =", "[a]\nbs =8k\n"),
        ("comment lines", ";c\n# d\n[a]\n  ; e\n\t#f\nbs=8k\n\n"),
        ("comments behind options", "[a] # x\nbs=8k ; y\nrw=read#z\n"),
        ("the last of two", "[a]\nbs=4k\nbs=8k\n"),
        ("another name", "[a]\nblocksize=8k\n"),
        ("defaults", "[global]\nbs=8k\n[a]\nrw=read\n"),
        ("a default changed", "[global]\nbs=4k\n[a]\nbs=8k\n"),
        ("defaults in two sections", "[global]\nrw=read\n[global]\nbs=8k\n[a]\n"),
        ("any name that begins so", "[globals]\nbs=8k\n[a]\n"),
        ("defaults that come later are not for it", "[a]\nbs=8k\n[global]\nbs=4k\n[b]\n"),
    ] {
        assert_eq!(block(text), 16, "{what}");
    }
    for (text, wanted) in [
        // fio takes the section's name, and `name` only from the section itself.
        ("[global]\nname=nightly\n[one]\n[two]\n", ["one", "two"]),
        ("[one]\nname=first\n[two]\n", ["first", "two"]),
        ("[ one ]\n[two=three]\n", [" one ", "two=three"]),
        // It has several jobs of one name; here the later ones have numbers.
        ("[one]\n[one]\n", ["one", "one-2"]),
        ("[a]\nname=one\n[one]\n", ["one", "one-2"]),
    ] {
        assert_eq!(names(&parse(text)), wanted, "{text}");
    }
    assert_eq!(names(&parse("[a]\n[a]\n[a-2]\n[a]\n")), ["a", "a-3", "a-2", "a-4"]);
    let job = parse("[global]\nname=nightly\n[a]\n[a]\n");
    assert_eq!(job.warnings.len(), 2, "{:?}", job.warnings);
}

#[test]
fn files_and_variables_around_it() {
    let around = Around(&[
        ("common.fio", "bs=${BS} # the environment's\n"),
        ("round.fio", "include round.fio\n"),
        ("sections.fio", "[b]\n"),
    ]);
    let read = |text: &str| FioJob::read("a.fio", text, &around);
    for text in [
        "[a]\nbs=${BS}\n",
        "[a]\ninclude common.fio\n",
        "[global]\ninclude common.fio\n[a]\nfilename=/dev/${DISK}\n",
    ] {
        assert_eq!(drawn(&read(text).unwrap().flows[0]).block, BlockSize::Fixed(32), "{text}");
    }
    for (text, said) in [
        ("[a]\nbs=${SIZE}\n", "a.fio:2: bs: the environment has no variable SIZE"),
        ("[a]\ninclude other.fio\n", "a.fio:2: include other.fio: not beside a.fio"),
        ("[a]\ninclude round.fio\n", "round.fio:1: more than 8 files"),
        ("[a]\ninclude sections.fio\n", "sections.fio:1: an included file has no sections"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with(said), "{text:?}: {error}");
    }
}

/// `parse.c`, `str_to_decimal` and `__get_mult_bytes`.
#[test]
fn sizes() {
    use values::{Base, Number, number};
    for (text, binary, decimal) in [
        ("512", 512, 512),
        ("512b", 512, 512),
        ("+512", 512, 512),
        ("4k", 4096, 4000),
        ("4K", 4096, 4000),
        ("4kb", 4096, 4000),
        ("4KB", 4096, 4000),
        ("4Ki", 4096, 4000),
        ("4KiB", 4000, 4096),
        ("4kib", 4000, 4096),
        ("64MB", 64 << 20, 64_000_000),
        ("64m", 64 << 20, 64_000_000),
        ("1MiB", 1_000_000, 1 << 20),
        ("1gb", 1 << 30, 1_000_000_000),
        ("1GiB", 1_000_000_000, 1 << 30),
        ("2T", 2 << 40, 2_000_000_000_000),
        ("1p", 1 << 50, 1_000_000_000_000_000),
        ("0x1000", 4096, 4096),
        ("0X1F", 31, 31),
    ] {
        assert_eq!(number(text, Base::Binary), Ok(Number::Plain(binary)), "{text}");
        assert_eq!(number(text, Base::Decimal), Ok(Number::Plain(decimal)), "{text}");
    }
    assert_eq!(number("50%", Base::Binary), Ok(Number::Percent(50)));
    // fio goes on with another size.
    for text in ["1.5m", "4x", "4kilo", "4 k", " 4k", "0x10k", "10z"] {
        let error = number(text, Base::Binary).unwrap_err();
        assert!(error.contains("would go on with"), "{text}: {error}");
    }
    for text in ["", "k", "-4k", "(4*1024)", "9223372036854775808", "99999999t"] {
        assert!(number(text, Base::Binary).is_err(), "{text}");
    }
    // kb_base counts for its whole section, and for those after it if it is in [global].
    let sectors = |text: &str| {
        let job = parse(text);
        job.flows.iter().map(|flow| drawn(flow).block.smallest()).collect::<Vec<_>>()
    };
    assert_eq!(sectors("[a]\nbs=64kib\nkb_base=1000\n[b]\nbs=64k\n"), [128, 128]);
    assert_eq!(
        sectors("[global]\nbs=64kb\n[global]\nkb_base=1000\n[a]\n[b]\nbs=64k\n"),
        [128, 125]
    );
}

/// `parse.c`, `get_mult_time`.
#[test]
fn times() {
    use values::time;
    let seconds = Span::from_secs(1);
    for (text, wanted) in [
        ("10", Span::from_secs(10)),
        (" 10", Span::from_secs(10)),
        ("10s", Span::from_secs(10)),
        ("10S", Span::from_secs(10)),
        ("10m", Span::from_secs(600)),
        ("2h", Span::from_secs(7200)),
        ("1d", Span::from_secs(86_400)),
        ("10us", Span::from_us(10)),
        ("10usec", Span::from_us(10)),
        ("10MS", Span::from_ms(10)),
        ("10msec", Span::from_ms(10)),
        ("0", Span::ZERO),
    ] {
        assert_eq!(time(text, seconds), Ok(wanted), "{text}");
    }
    assert_eq!(time("500", Span::from_us(1)), Ok(Span::from_us(500)));
    for text in ["10sec", "10min", "10ns", "1.5s", "10 s", "", "x", "300d"] {
        assert!(time(text, seconds).is_err(), "{text}");
    }
}

/// `parse.c`, `FIO_OPT_STR_SET` and `FIO_OPT_BOOL`.
#[test]
fn what_is_on_or_off() {
    for (text, wanted) in [
        ("time_based", true),
        ("time_based=1", true),
        ("time_based=0x1", true),
        ("time_based=0", false),
        ("time_based\ntime_based=0", false),
    ] {
        let limits = flow(&format!("runtime=1\n{text}")).limits;
        assert_eq!(limits.bytes.is_none(), wanted, "{text}");
    }
    for text in ["time_based=yes", "time_based=true", "replay_no_stall", "stonewall=x", "runtime"] {
        assert!(FioJob::parse("a.fio", &format!("[a]\nruntime=1\n{text}\n")).is_err(), "{text}");
    }
}

/// `filesetup.c`, `setup_files`: what a job works on, and how much it issues.
#[test]
fn how_much_a_job_issues() {
    let once = Some(Amount::WorkingSet(1.0));
    let limits = |bytes, requests, ms: Option<u64>| Limits {
        bytes,
        requests,
        runtime: ms.map(Span::from_ms),
        auto: false,
    };
    for (options, wanted) in [
        ("size=1m", limits(once, None, None)),
        ("size=50%", limits(once, None, None)),
        ("size=0", limits(once, None, None)),
        ("", limits(once, None, None)),
        ("size=1m\nio_size=3m", limits(Some(Amount::Bytes(3 << 20)), None, None)),
        ("size=1m\nio_limit=3m", limits(Some(Amount::Bytes(3 << 20)), None, None)),
        ("size=1m\nio_size=50%", limits(Some(Amount::WorkingSet(0.5)), None, None)),
        // What ends first counts.
        ("size=1m\nnumber_ios=1k", limits(once, Some(1024), None)),
        ("size=1m\nruntime=500ms", limits(once, None, Some(500))),
        ("size=1m\ntimeout=2", limits(once, None, Some(2000))),
        ("size=1m\nruntime=500ms\ntime_based", limits(None, None, Some(500))),
        ("size=1m\nruntime=0\nnumber_ios=0\nio_size=0", limits(once, None, None)),
        ("size=1m\nloops=1", limits(once, None, None)),
        ("size=1m\nloops=3", limits(Some(Amount::WorkingSet(3.0)), None, None)),
        ("size=1m\nio_size=3m\nloops=2", limits(Some(Amount::Bytes(6 << 20)), None, None)),
        ("number_ios=10\nloops=2", limits(Some(Amount::WorkingSet(2.0)), Some(20), None)),
        ("size=1m\ntime_based", limits(once, None, None)),
    ] {
        assert_eq!(flow(options).limits, wanted, "{options}");
    }
    let region = |options: &str| {
        let flow = flow(options);
        (drawn(&flow).offset, drawn(&flow).size)
    };
    let bytes = |bytes: u64| Extent::Bytes(bytes);
    assert_eq!(region("offset=1m\nsize=64MB"), (bytes(1 << 20), bytes(64 << 20)));
    assert_eq!(region("offset=10%\nsize=50%"), (Extent::Share(0.1), Extent::Share(0.5)));
    // Whole blocks of it are used.
    assert_eq!(region("size=1000000"), (bytes(0), bytes(999_936)));
    assert_eq!(region("nrfiles=8\nfilesize=1m"), (bytes(0), bytes(8 << 20)));
    assert_eq!(region("filesize=1m-3m"), (bytes(0), bytes(2 << 20)));
    assert_eq!(region("nrfiles=8\nfilesize=1m\nsize=2m"), (bytes(0), bytes(2 << 20)));
    let requests = |options: &str| {
        let flow = flow(options);
        let mut generator = flow.generator(1 << 20, 1, 0, 0).unwrap();
        std::iter::from_fn(|| generator.next()).count()
    };
    assert_eq!(requests("bs=64kb\nsize=64MB"), 1024);
    assert_eq!(requests("bs=4k\nsize=1000000"), 244);
    assert_eq!(requests("bs=4k\nsize=10m\nio_size=1000000"), 245);
    assert_eq!(requests("bs=4k\nsize=1m\nio_size=50%"), 128);
    assert_eq!(requests("bs=512\noffset=50%"), 1 << 19);
}

/// `parse.c`, `handle_option`: values for reads, writes and trims.
#[test]
fn a_value_for_each_kind_of_request() {
    let block = |options: &str| drawn(&flow(options)).block.clone();
    let fixed = |kib: u32| BlockSize::Fixed(kib * 2);
    for (options, wanted) in [
        ("rw=read\nbs=4k,8k", fixed(4)),
        ("rw=write\nbs=4k,8k", fixed(8)),
        ("rw=trim\nbs=4k,8k", fixed(8)),
        ("rw=randtrim\nbs=4k,8k,16k", fixed(16)),
        ("bs=4k,8k\nrw=randwrite", fixed(8)),
        ("rw=read\nbs=,8k", fixed(4)),
        ("rw=write\nbs=8k,", fixed(8)),
        ("rw=randrw\nbs=8k,8k,4k", fixed(8)),
        ("rw=read\nbsrange=8k:4k", BlockSize::Range { min: 8, max: 16 }),
        ("rw=write\nbsrange=1k-4k,4k-8k", BlockSize::Range { min: 8, max: 16 }),
        ("bssplit=4k/60:64k/40", BlockSize::Split(vec![(8, 60), (128, 40)])),
        ("bssplit=4k/50:8k/:16k/", BlockSize::Split(vec![(8, 50), (16, 25), (32, 25)])),
        ("bssplit=4k:8k:16k", BlockSize::Split(vec![(8, 33), (16, 33), (32, 34)])),
        ("rw=write\nbssplit=4k/100,8k/100", BlockSize::Split(vec![(16, 100)])),
    ] {
        assert_eq!(block(options), wanted, "{options}");
    }
}

/// fio caps what is outstanding at 1 for `FIO_SYNCIO` engines (`backend.c`, `run_threads`), of
/// which `psync` is what it takes if none is given (`os/os.h`).
#[test]
fn how_much_is_outstanding() {
    let mode = |options: &str| {
        let job = parse(&format!("[a]\nrw=randread\nruntime=1\n{options}"));
        (drawn(&job.flows[0]).mode, job.warnings.len())
    };
    let open =
        |depth| Mode::Open { arrivals: Arrivals::Fixed { per_second: 500 }, depth: Some(depth) };
    let closed = |depth| Mode::Closed { depth };
    for (options, wanted) in [
        ("ioengine=libaio\nrate_iops=500\niodepth=8\n", (open(8), 1)),
        ("rate_iops=500\n", (open(1), 0)),
        ("rate_iops=500\niodepth=8\nioengine=psync\n", (open(1), 1)),
        ("rate_iops=500\niodepth=8\n", (open(1), 1)),
        ("iodepth=8\nioengine=sync\n", (closed(1), 1)),
        ("iodepth=1\nioengine=sync\n", (closed(1), 0)),
        ("iodepth=32\n", (closed(1), 1)),
        ("iodepth=1\n", (closed(1), 0)),
        ("", (closed(1), 0)),
        ("iodepth=8\nioengine=io_uring\n", (closed(8), 1)),
        ("iodepth=1k\nioengine=external:/x/y.so\n", (closed(1024), 1)),
        ("iodepth=8\nioengine=vsync\n", (closed(1), 1)),
    ] {
        assert_eq!(mode(options), wanted, "{options}");
    }
}

/// Each kind of request has a limit of its own, and a job does as many of each as they let it
/// (`io_u.c`, `rate_ddir`).
#[test]
fn rates_of_bytes_and_of_requests() {
    let rate = |options: &str| match drawn(&flow(options)).mode {
        Mode::Open { arrivals: Arrivals::Fixed { per_second }, .. } => Some(per_second),
        _ => None,
    };
    for (options, wanted) in [
        ("rw=read\nrate=1m", Some(256)),
        ("rw=read\nbs=64k\nrate=1m", Some(16)),
        ("rw=write\nrate=1m,2m", Some(512)),
        ("rw=write\nrate=1m,", None),
        ("rw=randrw\nrate=1m", Some(512)),
        ("rw=randrw\nrwmixread=80\nrate=8m,1m", Some(2304)),
        ("rw=randrw\nrwmixread=25\nrate_iops=100", Some(200)),
        ("rw=randrw\nrwmixread=100\nrate=8m,1m", Some(2048)),
        ("rw=randrw\nbs=4k,64k\nrate=4m,1m", Some(1040)),
        ("rw=read\nbssplit=4k/50:12k/50\nrate=1m", Some(128)),
        ("rw=read\nbsrange=4k-12k\nrate=1m", Some(128)),
        ("rw=read\nrate=1m\nrate_iops=100", Some(100)),
        ("rw=read\nrate_iops=100\nrate=1k", Some(1)),
        ("rw=read\nrate=0", None),
    ] {
        assert_eq!(rate(options), wanted, "{options}");
    }
}

#[test]
fn flushes_and_writes_that_go_through() {
    for (options, wanted) in [
        ("rw=write\nfsync=32", (32, false)),
        ("rw=randrw\nfdatasync=1", (1, false)),
        ("rw=write\nfsync=4\nfdatasync=4", (4, false)),
        ("rw=write\nfsync=4\nfsync=0", (0, false)),
        ("rw=write\nsync=1", (0, true)),
        ("rw=write\nsync=none", (0, false)),
        ("rw=write\nwritefua=1", (0, true)),
        // Linux sends a flush behind each write that somebody waits for.
        ("rw=write\nsync=dsync\nioengine=psync", (1, true)),
        ("rw=read\nfsync=1\nsync=1", (0, false)),
    ] {
        let flow = flow(options);
        assert_eq!((flow.flush_every, flow.write_through), wanted, "{options}");
    }
    // An option by itself means the same as in a job file.
    let fsync = |every: &str| {
        let given = |value: &str| Some(value.to_owned());
        let end = given("1");
        let options = FlowOptions {
            rw: given("write"),
            fsync: given(every),
            number_ios: end,
            ..FlowOptions::default()
        };
        options.flow("a").unwrap().flush_every
    };
    assert_eq!([fsync("0"), fsync("8")], [0, 8]);
    let job = parse("[a]\nrw=read\nfsync=1\n");
    assert!(job.warnings[0].starts_with("fsync has no effect in job `a`"), "{:?}", job.warnings);
    let flow = flow("rw=write\nsize=64k\nbs=4k\nfdatasync=4\nsync=1\nioengine=libaio");
    let mut generator = flow.generator(1 << 20, 1, 0, 0).unwrap();
    let all: Vec<_> = std::iter::from_fn(|| generator.next().map(|it| it.operation)).collect();
    use mynah_model::io::Operation::{Flush, WriteThrough};
    assert_eq!(all, [[WriteThrough; 4].as_slice(), &[Flush]].concat().repeat(4));
}

#[test]
fn sizes_of_reads_and_of_writes() {
    let text = "rw=randrw\nrwmixread=90\nbssplit=4k/10:128k/90,64k/40:512k/60\nsize=64m";
    let split = |parts: &[(u32, u32)]| BlockSize::Split(parts.to_vec());
    let (reads, writes) = (split(&[(8, 10), (256, 90)]), split(&[(128, 40), (1024, 60)]));
    let flow = flow(text);
    let each = BlockSize::Each(Box::new([reads, writes.clone(), writes]));
    assert_eq!(drawn(&flow).block, each);
    let mut generator = flow.generator(1 << 20, 1, 0, 0).unwrap();
    let mut of = std::collections::BTreeMap::new();
    while let Some(planned) = generator.next() {
        *of.entry((planned.operation as u8, planned.sectors)).or_insert(0u32) += 1;
        // As fio's, addresses are multiples of the smallest size of their own kind.
        let align = if planned.sectors == 8 || planned.sectors == 256 { 8 } else { 128 };
        assert_eq!(planned.sector % align, 0);
    }
    assert_eq!(of.len(), 4, "{of:?}");
    let lengths = |options: &str| drawn(&self::flow(options)).block.clone();
    let fixed = |reads, writes| {
        let [reads, writes] = [reads, writes].map(BlockSize::Fixed);
        BlockSize::Each(Box::new([reads, writes.clone(), writes]))
    };
    assert_eq!(lengths("rw=rw\nbs=4k,64k"), fixed(8, 128));
    assert_eq!(lengths("rw=rw\nbs=,64k"), fixed(8, 128));
    assert_eq!(lengths("rw=randrw\nbs=4k\nbssplit=8k/100"), split(&[(16, 100)]));
}

#[test]
fn jobs_that_wait_for_those_of_a_name() {
    let order = |text: &str| {
        let flows = parse(text).flows;
        let stages: Vec<_> = crate::stages(&flows).collect();
        flows.into_iter().map(|flow| flow.name).zip(stages).collect::<Vec<_>>()
    };
    let is = |text: &str, wanted: &[(&str, usize)]| {
        let wanted: Vec<_> = wanted.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect();
        assert_eq!(order(text), wanted, "{text}");
    };
    is("[a]\n[b]\nwait_for=a\n", &[("a", 0), ("b", 1)]);
    is("[a]\n[b]\nwait_for=a\n[c]\nwait_for=a\n", &[("a", 0), ("b", 1), ("c", 1)]);
    is("[a]\n[b]\nwait_for=a\n[c]\nwait_for=b\n", &[("a", 0), ("b", 1), ("c", 2)]);
    is("[a]\n[b]\nstonewall\nwait_for=a\n[c]\n", &[("a", 0), ("b", 1), ("c", 1)]);
    // One that is left out waits, too, and is waited for.
    is("[a]\n[b]\nstonewall\ncreate_only\n[c]\n", &[("a", 0), ("c", 1)]);
}

#[test]
fn jobs_that_lay_out_files_do_nothing_else() {
    let job = parse("[a]\ncreate_only=1\n[b]\ncreate_only=0\nstonewall\nrw=randread\n");
    assert_eq!(names(&job), ["b"]);
    assert!(job.warnings.iter().any(|it| it.contains("`a` is left out: create_only")));
}

#[test]
fn jobs_of_one_section_each_begin_further_on() {
    let job = parse("[a]\nnumjobs=3\nsize=1m\noffset=1m\noffset_increment=2m\n");
    let offsets: Vec<_> = job.flows.iter().map(|flow| drawn(flow).offset).collect();
    assert_eq!(offsets, [1, 3, 5].map(|mib| Extent::Bytes(mib << 20)));
    assert_eq!(names(&job), ["a", "a-2", "a-3"]);
}

#[test]
fn what_is_time_based_ends_by_its_time_only() {
    let job = parse("[a]\ntime_based\nruntime=1\nnumber_ios=10\nio_size=1m\n");
    let limits = job.flows[0].limits;
    assert_eq!((limits.requests, limits.bytes), (None, None));
    assert_eq!(job.warnings.len(), 2, "{:?}", job.warnings);
}

#[test]
fn what_says_nothing_to_a_drive_is_left_out_and_said() {
    let text = "[global]\nioengine=libaio\ndedupe_percentage=50\n[a]\nrw=write\nverify=crc32c\n\
                verify_fatal=1\nverify_async=4\n[b]\nioengine=net\nhostname=here\n[c]\nsize=1m\n";
    let job = parse(text);
    let names: Vec<&str> = job.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!((names, job.verify), (vec!["a", "c"], true));
    let said = job.warnings.join("\n");
    for part in
        ["dedupe_percentage has no effect", "verify_async is left out", "job `b` is left out"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert!(!parse("[a]\nverify=0\n").verify);
    assert_eq!(parse("[a]\nzonemode=none\nwrite_mode=write\nwrite_iolog=x\n").warnings.len(), 1);
}

#[test]
fn jobs_that_wait_for_those_before_them() {
    let stages = |text: &str| crate::stages(&parse(text).flows).collect::<Vec<_>>();
    assert_eq!(stages("[a]\n[b]\n"), [0, 0]);
    assert_eq!(stages("[a]\n[b]\nstonewall\n[c]\n"), [0, 1, 1]);
    assert_eq!(stages("[a]\n[b]\nwait_for_previous=1\n[c]\nstonewall\n"), [0, 1, 2]);
    assert_eq!(stages("[global]\nstonewall\n[a]\n[b]\n[c]\nstonewall=0\n"), [0, 1, 1]);
}

#[test]
fn what_cannot_be_simulated_is_refused_with_its_line() {
    for (text, line, said) in [
        ("[a]\nrw=write\nfsync=32\nfdatasync=8\n", 4, "leave one out"),
        ("[a]\nrw=write\nsync=fsync\n", 3, "valid are none, sync and dsync"),
        ("[a]\nflow=8\n", 2, "`flow` is not simulated: jobs do not keep step"),
        ("[a]\nwait_for=b\n[b]\n", 2, "no job before it is called `b`"),
        ("[a]\n[b]\n[c]\nwait_for=a\n", 4, "`b` may still run when `a` has ended"),
        ("[a]\nrw=randrw\nrate=1m,\n", 3, "give both a limit"),
        ("[a]\nnumjobs=2\noffset=10%\noffset_increment=1m\n", 4, "it is a percentage where"),
        ("[a]\nRW=read\n", 2, "`RW` is not simulated"),
        ("[a]\nzonemode=zbd\n", 2, "`zonemode` is not simulated"),
        ("[a]\nioengine=cpuio\ncpuload=50\n", 1, "no jobs that do I/O to a drive"),
        ("[a]\nrate=4k,8k,12k,16k\n", 2, "at most"),
        ("[a]\nrw=sideways\n", 2, "valid are read"),
        ("[a]\nrw=randread:8\n", 2, "skips are not simulated"),
        ("[a]\nrw=randtrimwrite\n", 2, "not simulated"),
        ("rw=read\n", 1, "before the first section"),
        ("[global]\nbs=4k\n", 1, "no jobs"),
        ("[a\n", 1, "a section is written [name]"),
        ("[a]\nrw=rw\nba=4k,8k\n", 3, "of one job have the same"),
        ("[a]\nbs=1.5k\n", 2, "would go on with 1"),
        ("[a]\nbs=4KiB\n", 2, "4000 bytes is not a multiple of 512"),
        ("[a]\nkb_base=10\n", 2, "1024 or 1000"),
        ("[a]\nexitall\n[b]\n", 2, "`exitall` is not simulated"),
        ("[a]\nramp_time=1\n[b]\nramp_time=2\n", 4, "one for all jobs"),
        ("[a]\nrwmixwrite=200\n", 2, "not a percentage"),
        ("[a]\nname\n", 2, "a value is missing"),
        ("[a]\nnumjobs=$ncpus\n", 2, "`$ncpus` is a number of the machine"),
        ("[a]\nbs=2*$pagesize\n", 2, "write the number"),
        ("[a]\ninclude b.fio\n", 2, "no file"),
    ] {
        let error = FioJob::parse("a.fio", text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("a.fio:{line}: ")), "{text:?}: {error}");
        assert!(error.contains(said), "{text:?}: {error}");
    }
    assert_eq!(parse("[a]\nexitall\n").flows.len(), 1);
}
