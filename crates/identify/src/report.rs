//! What was found, for people: a table on a terminal, and a page with the picture behind each finding.

use crate::finding::{Finding, Findings, Outcome, Picture, Value, time};
use mynah_report::html::lines::{Chart, Line};
use mynah_report::sheet;
use std::fmt::{Result, Write};

impl Findings {
    /// What it is, in a sentence; nothing if it was not asked for long enough.
    pub fn verdict(&self) -> Option<String> {
        let Some(dies) = self.count("dies") else {
            let reason = |key| match self.get(key).map(|it| &it.outcome) {
                Some(Outcome::NotDetermined { because }) => Some(because),
                _ => None,
            };
            let because = reason("die_conflict").or_else(|| reason("dies"))?;
            return Some(format!("This is no flash drive that it understands: {because}."));
        };
        let channels = self.count("geometry.channels");
        let channels = channels.map_or(String::new(), |count| format!(" on {count} channels"));
        let page = self.count("geometry.page_size").map(Value::Bytes);
        let page = page.map_or(String::new(), |page| format!(", with pages of {page}"));
        Some(format!("This is a flash drive of {dies} dies{channels}{page}."))
    }
}

/// What was asked, and how long it took.
fn lead(findings: &Findings) -> String {
    let ended = match &findings.ended {
        Some(ended) => format!(" It ended early, at {ended}."),
        None => String::new(),
    };
    format!(
        "{} requests in {} of the drive's time; {} written.{ended}",
        findings.requests,
        time(findings.seconds * 1e6),
        Value::Bytes(findings.written_bytes),
    )
}

impl Finding {
    /// Between which values it is.
    fn interval(&self) -> String {
        match &self.outcome {
            Outcome::Found { between: Some((low, high)), .. } if low != high => {
                let (low, high) = (low.to_string(), high.to_string());
                // What rounds to one value needs no interval.
                if low == high { String::new() } else { format!("{low} to {high}") }
            }
            _ => String::new(),
        }
    }

    fn row(&self) -> Option<Vec<String>> {
        let value = self.value()?.to_string();
        Some(vec![self.key.to_owned(), value, self.interval(), self.what.to_owned()])
    }
}

/// The tables, as text.
pub fn text(findings: &Findings) -> String {
    let verdict = findings.verdict().map_or(String::new(), |verdict| format!("{verdict}\n"));
    let mut out = format!("{verdict}{}\n\n", lead(findings));
    let width =
        |of: &dyn Fn(&Finding) -> usize| findings.findings.iter().map(of).max().unwrap_or(0);
    let key = width(&|it| it.key.len());
    let value = width(&|it| it.value().map_or(0, |it| it.to_string().chars().count())).min(40);
    for finding in &findings.findings {
        let Some(found) = finding.value() else { continue };
        let interval = finding.interval();
        let interval = if interval.is_empty() { interval } else { format!(" ({interval})") };
        let _ = writeln!(
            out,
            "{:key$}  {:value$}  {}{interval}",
            finding.key,
            found.to_string(),
            finding.what
        );
        let _ = writeln!(out, "{:key$}  {:value$}    {}", "", "", finding.evidence);
    }
    let open: Vec<&Finding> = findings.findings.iter().filter(|it| it.value().is_none()).collect();
    if !open.is_empty() {
        let _ = writeln!(out, "\nNot determined:");
    }
    for finding in open {
        if let Outcome::NotDetermined { because } = &finding.outcome {
            let _ = writeln!(out, "{:key$}  {because}", finding.key);
        }
    }
    out
}

/// The page.
pub fn html(findings: &Findings, target: &str) -> String {
    let mut out = String::new();
    page(&mut out, findings, target).expect("a string takes everything");
    out
}

fn page(out: &mut String, findings: &Findings, target: &str) -> Result {
    let verdict = findings.verdict().map_or(String::new(), |verdict| format!("{verdict} "));
    let lead = format!("{verdict}{}", lead(findings));
    sheet::begin(out, &format!("{target}, identified"), "identify", &lead)?;
    let head = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let rows: Vec<_> = findings.findings.iter().filter_map(Finding::row).collect();
    sheet::table(out, &head(&["parameter", "value", "between", "what it is"]), &rows)?;
    let open: Vec<Vec<String>> = findings
        .findings
        .iter()
        .filter_map(|finding| match &finding.outcome {
            Outcome::NotDetermined { because } => {
                Some(vec![finding.key.to_owned(), because.clone()])
            }
            Outcome::Found { .. } => None,
        })
        .collect();
    if !open.is_empty() {
        writeln!(out, "<h2>Not determined</h2>")?;
        sheet::table(out, &head(&["parameter", "because"]), &open)?;
    }
    writeln!(out, "<h2>Evidence</h2>")?;
    let found = findings.findings.iter().filter(|it| it.value().is_some());
    let evidence = found.map(|it| vec![it.key.into(), it.evidence.clone(), it.method.into()]);
    sheet::table(
        out,
        &head(&["parameter", "what was seen", "method"]),
        &evidence.collect::<Vec<_>>(),
    )?;
    for picture in findings.findings.iter().filter_map(|it| it.picture.as_ref()) {
        draw(out, picture)?;
    }
    sheet::end(out)
}

fn draw(out: &mut String, picture: &Picture) -> Result {
    let names: Vec<&str> = picture.series.iter().map(|(name, _)| name.as_str()).collect();
    if names.len() > 1 {
        sheet::legend(out, &names)?;
    }
    let series = picture.series.iter().enumerate();
    let lines = series.map(|(index, (_, points))| Line::new(index, points.clone())).collect();
    let title = format!("{}: {} by {}", picture.title, picture.y, picture.x);
    let plain = |x: f64| if x.fract() == 0.0 { format!("{x:.0}") } else { format!("{x:.3}") };
    let chart = Chart {
        title: &title,
        across: (&picture.x, &plain),
        height: &plain,
        lines,
        marks: None,
        measured_from: None,
        dots: false,
        logarithmic: (false, false),
    };
    sheet::chart(out, &chart)
}

/// The findings as JSON, of schema `mynah.identify/1`.
pub fn json(findings: &Findings, target: &str) -> String {
    #[derive(serde::Serialize)]
    struct Document<'a> {
        schema: &'static str,
        target: &'a str,
        #[serde(flatten)]
        findings: &'a Findings,
    }
    let document = Document { schema: "mynah.identify/1", target, findings };
    let text = serde_json::to_string_pretty(&document).expect("it has no maps without text keys");
    format!("{text}\n")
}
