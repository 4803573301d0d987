use super::*;
use mynah_result::{Wear, testing as sample};

fn full(result: &Result) -> String {
    detailed(result, &[], Detail::Full)
}

#[test]
fn a_contended_drive() {
    insta::assert_snapshot!(full(&sample::contended()));
}

#[test]
fn an_idle_drive() {
    insta::assert_snapshot!(full(&sample::idle()));
}

#[test]
fn a_contended_drive_in_short() {
    let asked = [("reader".to_owned(), "100% read, random, 4KiB, iodepth 8".to_owned())];
    insta::assert_snapshot!(detailed(&sample::contended(), &asked, Detail::Short));
}

/// One flow is told on a screen, verdict and breakdown included.
#[test]
fn a_short_summary_has_25_lines_and_every_warning() {
    let mut result = sample::contended();
    result.flows.truncate(1);
    let plain = text(&result);
    assert!(plain.lines().count() <= 25, "{plain}");
    for part in ["reader:", "50%=", "WAF ", "reader read:", "others", "is 2.7 times slower"] {
        assert!(plain.contains(part), "no {part} in\n{plain}");
    }
    assert!(plain.contains("4 unrecovered_read_error"), "{plain}");
    result.untrusted = Some("too late".to_owned());
    result.failures.push("a state was not saved".to_owned());
    result.notes.push("an estimate".to_owned());
    let device = result.device.as_mut().unwrap();
    (device.units_lost, device.media_errors, device.read_retries) = (3, 2, 1);
    let warned = text(&result);
    for part in [
        "NOT TRUSTWORTHY: too late",
        "FAILED: a state was not saved",
        "note: an estimate",
        "units whose latest data were lost: 3",
        "media errors: 2",
        "read retries: 1",
    ] {
        assert!(warned.contains(part), "no {part} in\n{warned}");
    }
}

/// The rows of a breakdown add up to the mean: what is not shown is summed up.
#[test]
fn rows_of_a_short_breakdown_are_the_largest() {
    let mut result = sample::contended();
    result.flows.truncate(1);
    let text = text(&result);
    let begin = text.find("\nreader read:").expect("a breakdown");
    let rows: Vec<&str> =
        text[begin + 1..].lines().skip(1).take_while(|it| !it.is_empty()).collect();
    assert!(rows.len() <= 7, "{text}");
    let shares = rows.iter().map(|row| -> f64 {
        let words: Vec<&str> = row.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "%").unwrap();
        words[at - 1].parse().unwrap()
    });
    let sum: f64 = shares.sum();
    assert!((99.0..101.0).contains(&sum), "{sum}\n{text}");
    assert!(rows.iter().any(|row| row.contains("die_wait")), "{text}");
}

#[test]
fn an_untrusted_run_says_so_first() {
    let mut result = sample::idle();
    result.untrusted = Some("lateness p99 is 80us, the bound is 50us".to_owned());
    assert!(text(&result).starts_with("NOT TRUSTWORTHY: lateness p99 is 80us"));
}

#[test]
fn an_explanation_is_of_one_flow_and_leaves_out_trifles() {
    let result = sample::contended();
    let flow = &result.flows[0];
    let text = explanation(&result, &flow.name);
    assert!(text.starts_with(&format!("{}:\n", flow.name)), "{text}");
    for part in ["latency breakdown", "who delayed whom"] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    let (shown, trifles): (Vec<_>, Vec<_>) = flow
        .sides()
        .into_iter()
        .flat_map(|(_, side)| &side.stages)
        .partition(|stage| stage.share.max(stage.tail_share) >= EXPLAINED_PART);
    let lines =
        |name: &str| text.lines().filter(|line| line.starts_with(&format!("  {name} "))).count();
    assert!(!shown.is_empty());
    assert!(shown.iter().all(|stage| lines(&stage.stage) > 0), "{text}");
    assert!(trifles.iter().all(|stage| lines(&stage.stage) == 0), "{text}");
    assert_eq!(explanation(&result, "nobody"), "");
}

#[test]
fn a_write_protected_drive_says_why() {
    let mut result = sample::contended();
    let wear = Wear {
        erases_mean: 20.0,
        erases_min: 18,
        spread: 4,
        levelling_runs: 0,
        spare_blocks: 0,
        write_protected: true,
        life_used: None,
        writes_left_bytes: None,
        lifetime_left_s: None,
    };
    let mut told = |wear| {
        result.device.as_mut().unwrap().wear = Some(wear);
        text(&result)
    };
    assert!(
        told(wear.clone()).contains("no spare blocks are left: the drive takes no more writes")
    );
    let with_spares = told(Wear { spare_blocks: 3, ..wear.clone() });
    assert!(with_spares.contains("data would soon find no place: the drive takes no more writes"));
    assert!(!told(Wear { write_protected: false, ..wear }).contains("no more writes"));
}

#[test]
fn no_line_is_wider_than_100_columns() {
    let mut result = sample::contended();
    let template = result.blame[0].clone();
    for n in 0..20 {
        result.blame.push(BlameEntry { holder: format!("neighbour {n}"), ..template.clone() });
    }
    let text = full(&result);
    assert!(text.contains("neighbour 19"));
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn without_a_culprit_the_dominating_stage_is_named() {
    let mut result = sample::contended();
    result.blame.clear();
    let hint = hint(&result).unwrap();
    assert!(hint.contains("% of the latency was die_wait: A flash operation in its die's queue"));
    result.stages.clear();
    assert_eq!(super::hint(&result), None);
}

/// A neighbour that holds next to nothing is not what makes a flow slow.
#[test]
fn a_slow_flow_that_waits_for_itself_is_said_to() {
    let mut result = sample::contended();
    let victim = result.flows.iter().find(|flow| flow.slowdown.is_some()).unwrap().name.clone();
    let own = BlameEntry {
        victim: victim.clone(),
        holder: victim.clone(),
        resource: "cache_space".to_owned(),
        wait_ns: 1e15,
    };
    result.blame.push(own);
    let wanted = "100 % of its waiting was for room in the write cache held by its own requests.";
    let said = hint(&result).unwrap();
    assert!(said.starts_with(&format!("{victim} is ")) && said.ends_with(wanted), "{said}");
}

/// Folding works for whoever wrote most.
#[test]
fn folding_is_told_with_whose_writes_it_is_for() {
    let mut result = sample::contended();
    result.flows.iter_mut().for_each(|flow| flow.slowdown = None);
    let victim = result.flows[0].name.clone();
    for (flow, bytes) in result.flows.iter_mut().zip([100, 900]) {
        flow.write.bytes = bytes;
    }
    let writer = result.flows[1].name.clone();
    let (holder, wait_ns) = ("folding".to_owned(), 1e15);
    result.blame.push(BlameEntry { victim, holder, wait_ns, ..result.blame[0].clone() });
    let said = hint(&result).unwrap();
    let wanted = format!("held by folding, mostly for what {writer} wrote.");
    assert!(said.ends_with(&wanted), "{said}");
}

/// What a served drive's machine cost stands before what the drive did.
#[test]
fn a_machine_that_was_late_is_named_first() {
    let mut result = sample::contended();
    result.stages[0] =
        StageTime { stage: "late".to_owned(), share: 0.9, ..result.stages[0].clone() };
    let said = hint(&result).unwrap();
    assert!(said.starts_with("90 % of the latency was late: This machine, which"), "{said}");
    // Nor is a host's long name all of a line.
    result.stages.clear();
    let host = "nqn.2014-08.org.nvmexpress:uuid:5f9534b9-63a8-8f03-b43a-40435a836551";
    result.flows.iter_mut().for_each(|flow| flow.slowdown = None);
    result.flows[0].name = host.to_owned();
    result.blame = vec![BlameEntry {
        victim: host.to_owned(),
        holder: host.to_owned(),
        wait_ns: 1e15,
        ..result.blame[0].clone()
    }];
    let said = hint(&result).unwrap();
    assert!(said.chars().count() < 100 && said.contains("…"), "{said}");
}

#[test]
fn many_kinds_of_commands_share_one_breakdown() {
    let mut result = sample::contended();
    let flow = result.flows[0].clone();
    result.flows.extend((0..9).map(|n| Flow { name: format!("r{n}"), ..flow.clone() }));
    let shown: Vec<_> = breakdowns(&result).into_iter().map(|(title, _)| title).collect();
    assert_eq!(shown, ["all I/O"]);
}
