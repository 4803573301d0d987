//! What was asked for and did nothing, since the run had ended by then or nothing met it.

use crate::fault;
use crate::timeline::Window;
use crate::units::Duration;
use mynah_model::config::{Fault, FaultExtent};
use mynah_stamp::{Span, Time};

/// What there is to say of a run that ended then, in which so many flash operations failed.
pub(super) fn notes(
    window: Option<Window>,
    faults: &[Fault],
    end: Time,
    media_errors: u64,
) -> Vec<String> {
    let told = |at: Time| Duration(Span::from_ps(at.as_ps()));
    let mut notes = vec![];
    if let Some(Window { from, .. }) = window
        && from > end
    {
        let (from, end) = (told(from), told(end));
        notes.push(format!(
            "the timeline shows nothing: its window begins at {from}, and the run ended after {end}"
        ));
    }
    for given in faults {
        let why = match given {
            Fault::DeadDie { at, .. } | Fault::PowerCut { at, .. } if *at > end => {
                format!("the run ended after {}", told(end))
            }
            Fault::Media { extent: FaultExtent::Rate(rate), .. }
                if media_errors == 0 && *rate > 0.0 =>
            {
                "no flash operation failed; a longer run or a higher rate".to_owned()
            }
            Fault::Media { extent: FaultExtent::Units { .. }, .. } if media_errors == 0 => {
                "no flash operation touched those units".to_owned()
            }
            _ => continue,
        };
        notes.push(format!("the fault {} did nothing: {why}", fault::print(given)));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(specs: &[&str]) -> Vec<Fault> {
        specs.iter().map(|spec| fault::parse(spec).unwrap()).collect()
    }

    #[test]
    fn what_came_too_late_is_said() {
        let window = Some(Window::parse("2s-3s").unwrap());
        let given = faults(&["power-cut:at=5s", "dead-die:die=1,at=500ms", "read-error:rate=1e-9"]);
        let said = notes(window, &given, Time::ZERO + Span::from_secs(1), 0);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("begins at 2s") && said[0].contains("ended after 1s"));
        assert!(said[1].contains("power-cut:at=5s") && said[2].contains("read-error:rate="));
        let said = notes(window, &given, Time::ZERO + Span::from_secs(9), 1);
        assert!(said.is_empty(), "{said:?}");
    }
}
