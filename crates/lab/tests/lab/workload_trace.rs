//! Traces: what is read, and what is said about what cannot be read.

use mynah_model::io::Operation;
use mynah_workload::trace::{TraceAction, TraceFormat, TraceReader, TraceRecord};
use mynah_workload::{FlowOptions, Generator, Planned};
use proptest::prelude::*;
use std::io::{Read, Write};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/sample.trace");

fn mqsim<R: Read>(input: R) -> TraceReader<R> {
    TraceReader::new("trace", input, TraceFormat::Mqsim, TraceAction::Issued)
}

fn replay(path: &str, options: &[(&str, &str)], capacity: u64) -> Generator {
    let mut flow = FlowOptions::default();
    flow.set("trace", path);
    for &(name, value) in options {
        assert!(flow.set(name, value));
    }
    flow.flow("trace").unwrap().generator(capacity, 1, 0, 0).unwrap()
}

fn all(generator: &mut Generator) -> Vec<Planned> {
    let planned = std::iter::from_fn(|| generator.next()).collect();
    if let Some(error) = generator.take_error() {
        panic!("{error}");
    }
    planned
}

/// The message about a trace of this text on a namespace of 64 Ki sectors.
fn complaint(text: &[u8]) -> String {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text).unwrap();
    let path = file.path().to_str().unwrap();
    let mut generator = replay(path, &[], 65_536);
    while generator.next().is_some() {}
    let error = generator.take_error().expect("an error");
    let help = miette::Diagnostic::help(&error).map(|help| format!("\n  help: {help}"));
    format!("{error}{}", help.unwrap_or_default()).replace(path, "bad.trace")
}

#[test]
fn the_sample_is_read() {
    let planned = all(&mut replay(SAMPLE, &[], 65_536));
    let shown: Vec<_> = planned
        .iter()
        .map(|p| (p.arrival.unwrap().as_ps() / 1000, p.operation, p.sector, p.sectors))
        .collect();
    assert_eq!(
        shown,
        [
            (1000, Operation::Write, 0, 8),
            (2500, Operation::Write, 8, 8),
            (2500, Operation::Read, 4096, 16),
            (9000, Operation::Read, 128, 1),
            (12_000, Operation::Write, 65_528, 8),
            (40_000, Operation::Read, 16, 64),
        ]
    );
}

#[test]
fn parts_repeats_units_and_limits() {
    let arrivals = |options| {
        let planned = all(&mut replay(SAMPLE, options, 65_536));
        planned.iter().map(|p| p.arrival.unwrap().as_ps() / 1000).collect::<Vec<_>>()
    };
    assert_eq!(arrivals(&[("trace_percent", "50")]), [1000, 2500, 2500]);
    assert_eq!(
        arrivals(&[("trace_percent", "50"), ("trace_repeat", "2")]),
        [1000, 2500, 2500, 3500, 5000, 5000]
    );
    assert_eq!(arrivals(&[("trace_repeat", "2")])[6], 41_000);
    assert_eq!(arrivals(&[("trace_time_unit", "us"), ("number_ios", "1")]), [1_000_000]);
    assert_eq!(arrivals(&[("runtime", "9us")]), [1000, 2500, 2500]);
}

#[test]
fn addresses_outside_are_folded_on_request_and_counted() {
    let mut generator = replay(SAMPLE, &[("trace_remap", "modulo")], 4000);
    let planned = all(&mut generator);
    assert_eq!(planned[2].sector, 4096 % 3999);
    assert_eq!(planned[4].sector, 65_528 % 3999);
    assert_eq!(generator.mended().remapped, 2);
}

#[test]
fn bad_lines_are_shown() {
    let long = [b"1 0 8 8 ".as_slice(), &[b'0'; 5000], b"\n"].concat();
    let cases: &[&[u8]] = &[
        b"1 0 0 8 0\n2 0 0 8\n",
        b"1 0 0 8 0 7\n",
        b"1,0,0,8,0\n",
        b"one 0 0 8 0\n",
        b"1 0 -5 8 0\n",
        b"1 0 0 8 R\n",
        b"1.5 0 0 8 0\n",
        b"1 0 0 0 0\n",
        b"\n\n5 0 0 8 0\r\n4 0 0 8 0\r\n",
        b"1 0 99999999999999999999 8 0\n",
        b"1 0 0 4294967296 0\n",
        b"1 0 65536 8 0\n",
        b"1 0 65532 8 1\n",
        b"1 0 0 65537 1\n",
        b"128166372003061629 0 0 8 0\n",
        b"\x00\xff\x1b[31m 0 0 8 0\n",
        &long,
        b"",
        b"\n \n",
    ];
    let said: Vec<String> = cases.iter().map(|text| complaint(text)).collect();
    insta::assert_snapshot!("messages", said.join("\n"));
}

#[test]
fn standard_input_is_read_once() {
    let mut flow = FlowOptions::default();
    flow.set("trace", "-");
    flow.set("trace_repeat", "2");
    let error = flow.flow("trace").unwrap().generator(8, 1, 0, 0).unwrap_err();
    assert!(error.to_string().contains("replayed whole and once"), "{error}");
}

/// Gives its bytes in pieces of the given sizes.
struct Pieces<'a>(&'a [u8], Vec<usize>);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let wanted = self.1.pop().unwrap_or(usize::MAX).max(1);
        let count = wanted.min(self.0.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        mut records in prop::collection::vec((any::<u64>(), any::<u64>(), 1u32.., any::<bool>()), 0..50),
        pieces in prop::collection::vec(1usize..40, 0..100),
        crlf: bool,
    ) {
        records.sort_unstable();
        let end = if crlf { "\r\n" } else { "\n" };
        let text: String = records
            .iter()
            .map(|(at, sector, sectors, write)| {
                format!("{at} 0 {sector} {sectors} {}{end}", u8::from(!write))
            })
            .collect();
        let mut reader = mqsim(Pieces(text.as_bytes(), pieces));
        for (arrival, sector, sectors, write) in records {
            let record = reader.next().unwrap().unwrap();
            let operation = if write { Operation::Write } else { Operation::Read };
            let arrival = Some(arrival);
            prop_assert_eq!(record, TraceRecord { arrival, sector, sectors, operation });
        }
        prop_assert_eq!(reader.next().unwrap(), None);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut reader = mqsim(bytes.as_slice());
        while let Ok(Some(_)) = reader.next() {}
    }
}

/// blkparse's text of a write and a flush: asked for, on its way to the drive, and done.
const FLUSHED: &str = "\
259,0    1        1     0.000000000   800  Q  WS 4096 + 8 [worker]
259,0    1        2     0.000002000   800  D  WS 4096 + 8 [worker]
259,0    1        3     0.000090000     0  C  WS 4096 + 8 [0]
259,0    1        4     0.000500000   800  Q FWS [worker]
259,0    1        5     0.000504000   121  D  FN [kworker/1:1H]
259,0    1        6     0.000900000     0  C  FN 0 [0]
259,0    1        7     0.000901000     0  C  WS 0 [0]
";

#[test]
fn a_flush_of_blkparse_is_one_flush_whichever_of_its_events_count() {
    let of = |text: &str, action| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let path = file.path().to_str().unwrap();
        let options = [("trace_format", "blkparse"), ("trace_action", action)];
        let mut generator = replay(path, &options, 65_536);
        let planned = all(&mut generator);
        assert_eq!(generator.mended().skipped, 0, "{action}");
        let shown = |p: &Planned| (p.arrival.unwrap().as_ps() / 1000, p.operation, p.sectors);
        planned.iter().map(shown).collect::<Vec<_>>()
    };
    use Operation::{Flush, Write};
    assert_eq!(of(FLUSHED, "D"), [(0, Write, 8), (502_000, Flush, 0)]);
    assert_eq!(of(FLUSHED, "Q"), [(0, Write, 8), (500_000, Flush, 0)]);
    assert_eq!(of(FLUSHED, "C"), [(0, Write, 8), (810_000, Flush, 0)]);
    // A write that asks for a flush before it is both, at one time.
    let both = "259,0 1 1 0.000000000 800 Q WS 4096 + 8 [x]\n\
                259,0 1 2 0.000000007 800 Q FWFS 8192 + 16 [x]\n";
    assert_eq!(of(both, "Q"), [(0, Write, 8), (7, Flush, 0), (7, Operation::WriteThrough, 16)]);
}
