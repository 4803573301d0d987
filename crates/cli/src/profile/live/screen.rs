//! An interval as one screen: groups with their stages as bars, what is missing, and the keys.

use super::lines::missing;
use mynah_analysis::live::{Interval, LiveGroup, LiveStage, Source, Watch};
use mynah_result::figures::{bar, count, duration};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use std::time::Duration;

const KEYS: &str = "q quit  g group  b set base  f filter  s save";
/// Characters of a full bar, and of a stage.
const BAR: usize = 12;
const STAGE: usize = 55;
/// Below this part of the latency stages are not shown, unless they have grown.
const SHARE_MIN: f64 = 0.005;

/// What the screen remembers beside what is watched.
pub(super) struct Screen {
    title: String,
    said: String,
}

impl Screen {
    pub(super) fn new(source: &dyn Source) -> Screen {
        let header = source.header();
        let title = format!("{} · {} of {}", source.name(), header.side.name(), header.name);
        Screen { title, said: String::new() }
    }

    /// Shows `what` below the groups, until something else is to be shown there.
    pub(super) fn say(&mut self, what: &str) {
        self.said = what.to_owned();
    }

    #[cfg(test)]
    pub(super) fn said(&self) -> &str {
        &self.said
    }

    /// Draws an interval.
    pub(super) fn draw(
        &self,
        frame: &mut Frame<'_>,
        watch: &Watch,
        source: &dyn Source,
        interval: &Interval,
        at: Duration,
    ) {
        let rows = [Constraint::Length(1), Constraint::Min(0), Constraint::Length(2)];
        let [top, middle, bottom] = Layout::vertical(rows).areas(frame.area());
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let time = format!("{:.0}s  {KEYS}", at.as_secs_f64());
        let title = width_of(&time, top.width, &self.title);
        let title = Line::from(vec![Span::styled(title, bold), Span::raw(time)]);
        frame.render_widget(Paragraph::new(title), top);
        let (columns, height) = ((usize::from(middle.width) / STAGE).max(1), middle.height.into());
        let mut lines = groups_lines(&interval.groups, columns, height);
        if interval.groups.is_empty() {
            lines.push(Line::from(" no I/Os"));
        }
        frame.render_widget(Paragraph::new(lines), middle);
        let kind = watch.kind().and_then(|kind| source.header().kinds.get(usize::from(kind)));
        let kind = kind.map_or(String::new(), |kind| format!(", {kind} only"));
        let counts = format!(
            " {} I/Os, {} records{}{kind}{}",
            interval.counts.completed,
            interval.read,
            missing(interval),
            if watch.has_base() { ", beside a base" } else { "" }
        );
        let lost = interval.counts.lost > 0 || interval.overwritten > 0 || interval.torn > 0;
        let style = if lost { Style::new().fg(Color::Red) } else { Style::new() };
        let said = vec![Line::styled(counts, style), Line::from(format!(" {}", self.said))];
        frame.render_widget(Paragraph::new(said), bottom);
    }
}

/// The title, cut or filled so that what comes behind it ends at the right.
fn width_of(behind: &str, width: u16, title: &str) -> String {
    let room = usize::from(width).saturating_sub(behind.chars().count() + 1);
    let cut: String = title.chars().take(room).collect();
    format!("{cut:<room$} ")
}

/// The groups, or those with most time of them where there is no room for all, in their order.
fn groups_lines(groups: &[LiveGroup], columns: usize, height: usize) -> Vec<Line<'static>> {
    let mut all: Vec<(usize, Vec<Line<'static>>)> =
        groups.iter().map(|group| group_lines(group, columns)).enumerate().collect();
    let count = all.len();
    let fits = |all: &[(usize, Vec<Line<'_>>)]| {
        let lines: usize = all.iter().map(|(_, lines)| lines.len()).sum();
        // The last line says how many have no room.
        lines + usize::from(all.len() < count) <= height
    };
    if !fits(&all) {
        all.sort_by(|a, b| groups[b.0].outstanding.total_cmp(&groups[a.0].outstanding));
        while all.len() > 1 && !fits(&all) {
            all.pop();
        }
        all.sort_by_key(|(number, _)| *number);
    }
    let left_out = count - all.len();
    let mut lines: Vec<_> = all.into_iter().flat_map(|(_, lines)| lines).collect();
    if left_out > 0 {
        lines.truncate(height.saturating_sub(1));
        lines.push(Line::from(format!(" {left_out} more groups")));
    }
    lines
}

fn group_lines(group: &LiveGroup, columns: usize) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut head = vec![
        Span::styled(format!(" {}", group.name), bold),
        Span::raw(format!(
            "  {} IOPS  lat p50 {} p99 {} mean {}",
            count(group.iops),
            duration(group.p50_ns),
            duration(group.p99_ns),
            duration(group.mean_ns)
        )),
    ];
    head.extend(group.amplification.map(|times| grown(times, "  ")));
    let found = group.found.map_or(String::new(), |found| format!(" (found {found:.1})"));
    head.push(Span::raw(format!("  outstanding {:.1}{found}", group.outstanding)));
    if group.failed > 0 {
        let failed = format!("  {} failed", group.failed);
        head.push(Span::styled(failed, Style::new().fg(Color::Red)));
    }
    let is_shown = |stage: &&LiveStage| {
        stage.share >= SHARE_MIN || stage.amplification.is_some_and(|times| times >= 2.0)
    };
    let stages: Vec<&LiveStage> = group.stages.iter().filter(is_shown).collect();
    // Down the columns, in the order in which I/Os pass them.
    let rows = stages.len().div_ceil(columns);
    let mut lines = vec![Line::from(head)];
    for row in 0..rows {
        let of_row = stages.iter().skip(row).step_by(rows.max(1));
        lines.push(Line::from(of_row.flat_map(|stage| stage_spans(stage)).collect::<Vec<_>>()));
    }
    lines
}

/// A stage, as wide as all of them are.
fn stage_spans(stage: &LiveStage) -> Vec<Span<'static>> {
    let (name, mean) = (stage.name.chars().take(17).collect::<String>(), duration(stage.mean_ns));
    let share = (stage.share * 100.0).round();
    let times = stage.amplification.map_or(Span::raw(" ".repeat(8)), |times| grown(times, " "));
    let filled =
        Span::styled(format!("{:<BAR$}", bar(stage.share, BAR)), Style::new().fg(Color::Cyan));
    vec![Span::raw(format!("   {name:<17}{mean:>8} {share:>3.0} % ")), filled, times]
}

/// How many times longer something takes than in the base.
fn grown(times: f64, before: &str) -> Span<'static> {
    let style = match times {
        it if it >= 1.5 => Style::new().fg(Color::Red),
        it if it <= 1.0 / 1.5 => Style::new().fg(Color::Blue),
        _ => Style::new(),
    };
    let text = format!("{before}{:<7}", format!("x{times:.1}"));
    Span::styled(text, style)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Script, interval};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(width: u16, height: u16, interval: &Interval, said: &str) -> String {
        let source = Script::new(vec![]);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let mut screen = Screen::new(&source);
        screen.say(said);
        let watch = Watch::new("type".parse().unwrap());
        let at = Duration::from_secs(12);
        terminal.draw(|frame| screen.draw(frame, &watch, &source, interval, at)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let cells = buffer.content().chunks(usize::from(width));
        let line = |cells: &[ratatui::buffer::Cell]| -> String {
            let text: String = cells.iter().map(|cell| cell.symbol()).collect();
            format!("{}\n", text.trim_end())
        };
        cells.map(line).collect()
    }

    #[test]
    fn an_interval_is_one_screen() {
        insta::assert_snapshot!(drawn(118, 12, &interval(), "3 records saved"));
    }

    #[test]
    fn small_and_empty_screens_are_drawn() {
        let narrow = drawn(60, 9, &interval(), "");
        assert!(narrow.contains(" 1 more groups"), "{narrow}");
        assert!(narrow.contains("die_wait") && !narrow.contains(" write "), "{narrow}");
        for (width, height) in [(1, 1), (5, 2), (20, 3), (200, 60)] {
            drawn(width, height, &interval(), "something");
        }
        let nothing = drawn(80, 6, &Interval::default(), "");
        assert!(nothing.contains(" no I/Os\n") && nothing.contains(" 0 I/Os, 0 records\n"));
    }
}
