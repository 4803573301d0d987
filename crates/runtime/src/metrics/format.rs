//! In which of two formats figures are written, and how a client says which it takes.
//!
//! OpenMetrics 1.0 is the one that they are made in. Prometheus's own text format differs in the
//! names that counters have in their descriptions, and has neither units nor an end. Clients that
//! do not ask for OpenMetrics get that, as from other programs (browsers show it).

/// Text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
    /// Prometheus's text format, version 0.0.4.
    Prometheus,
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The format that a client wants most, by the values of its Accept fields (RFC 9110, section
    /// 12.5.1). Who wants neither gets what is most widely understood.
    pub fn accepted<'a>(fields: impl Iterator<Item = &'a str>) -> Format {
        let (mut open_metrics, mut prometheus) = (0, 0);
        for range in fields.flat_map(|field| field.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut weight, mut version) = (Some(1000), None);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => weight = thousandths(value.trim()),
                    "version" => version = Some(value.trim().trim_matches('"')),
                    _ => {}
                }
            }
            let weight = weight.unwrap_or(0);
            match (kind.as_str(), version) {
                ("application/openmetrics-text", None | Some("1.0.0")) => {
                    open_metrics = weight.max(open_metrics);
                }
                ("text/plain", None | Some("0.0.4")) => prometheus = weight.max(prometheus),
                _ => {}
            }
        }
        match open_metrics > 0 && open_metrics >= prometheus {
            true => Format::OpenMetrics,
            false => Format::Prometheus,
        }
    }

    /// Figures that are written in OpenMetrics, in this format.
    pub(super) fn adapt(self, text: String) -> String {
        if self == Format::OpenMetrics {
            return text;
        }
        let mut out = String::with_capacity(text.len());
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let counter = |line: &str| {
                line.strip_prefix("# TYPE ")?.strip_suffix(" counter").map(str::to_owned)
            };
            let help = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '));
            let next = lines.peek().and_then(|next| counter(next));
            match (help, counter(line)) {
                (Some((name, help)), _) if next.as_deref() == Some(name) => {
                    out.extend(["# HELP ", name, "_total ", help]);
                }
                (_, Some(name)) => out.extend(["# TYPE ", &name, "_total counter"]),
                _ if line.starts_with("# UNIT ") || line == "# EOF" => continue,
                _ => out.push_str(line),
            }
            out.push('\n');
        }
        out
    }
}

/// A weight of RFC 9110, section 12.4.2, in thousandths; `None` if it is none.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = part.bytes().all(|byte| byte.is_ascii_digit());
    if !matches!(whole, "0" | "1") || part.len() > 3 || !digits {
        return None;
    }
    let weight: u16 = format!("{whole}{part:0<3}").parse().ok()?;
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_what_it_wants_most() {
        use Format::{OpenMetrics, Prometheus};
        // What Prometheus 3 sends.
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,\
                          text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (fields, format) in [
            (&[][..], Prometheus),
            (&["*/*"], Prometheus),
            (&["text/html,application/xhtml+xml,*/*;q=0.8"], Prometheus),
            (&[prometheus], OpenMetrics),
            (&["application/openmetrics-text"], OpenMetrics),
            (&["Application/OpenMetrics-Text; Version=\"1.0.0\"; Q=0.1"], OpenMetrics),
            (&["text/plain;q=0.5", "application/openmetrics-text;q=0.6"], OpenMetrics),
            (&["text/plain;q=0.5, application/openmetrics-text;q=0.499"], Prometheus),
            (&["application/openmetrics-text;q=0"], Prometheus),
            (&["application/openmetrics-text;version=0.0.1"], Prometheus),
            (&["application/openmetrics-text;q=nonsense, ,;;=,"], Prometheus),
        ] {
            assert_eq!(Format::accepted(fields.iter().copied()), format, "{fields:?}");
        }
    }

    #[test]
    fn weights_are_numbers_from_zero_to_one() {
        for (text, weight) in [
            ("1", Some(1000)),
            ("1.000", Some(1000)),
            ("0", Some(0)),
            ("0.5", Some(500)),
            ("0.", Some(0)),
            ("0.005", Some(5)),
        ] {
            assert_eq!(thousandths(text), weight, "{text}");
        }
        for text in ["", "2", "1.001", "0.0001", "-0", "0.x", "nan", "١"] {
            assert_eq!(thousandths(text), None, "{text}");
        }
    }

    #[test]
    fn counters_have_other_names_in_the_older_format() {
        let text = "# HELP mynah_data_bytes Bytes moved\n# TYPE mynah_data_bytes counter\n\
                    # UNIT mynah_data_bytes bytes\nmynah_data_bytes_total{drive=\"a\"} 5\n\
                    # HELP mynah_dies Dies of the drive\n# TYPE mynah_dies gauge\n\
                    mynah_dies{drive=\"a\"} 7.0\n# EOF\n";
        assert_eq!(Format::OpenMetrics.adapt(text.to_owned()), text);
        let older = "# HELP mynah_data_bytes_total Bytes moved\n\
                     # TYPE mynah_data_bytes_total counter\nmynah_data_bytes_total{drive=\"a\"} 5\n\
                     # HELP mynah_dies Dies of the drive\n# TYPE mynah_dies gauge\n\
                     mynah_dies{drive=\"a\"} 7.0\n";
        assert_eq!(Format::Prometheus.adapt(text.to_owned()), older);
    }
}
