//! Profiles watched while they are being written: one screen, or lines where there is no terminal.

mod file;
mod lines;
mod screen;

use crate::args::ProfileWatch;
use crate::failure::{Failure, say};
use crate::machine::Stopwatch;
use crate::{print, progress, values};
use mynah_analysis::live::{Interval, Source, SourceError, Watch};
use mynah_analysis::{Dimension, GroupBy, analyse};
use mynah_stamp::Span;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use screen::Screen;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the source is looked at: a ring of 8 MiB goes round in a tenth of a second under half a
/// million I/Os a second.
const PAUSE_MAX: Duration = Duration::from_millis(100);
const PAUSE_MIN: Duration = Duration::from_millis(10);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Watches a profile file; whether that was interrupted.
pub(super) fn run(args: &ProfileWatch) -> Result<bool, Failure> {
    let mut source = file::FileSource::open(&args.file)?;
    watch(&mut source, args)
}

/// Watches any source, with these options.
pub(super) fn watch(source: &mut dyn Source, args: &ProfileWatch) -> Result<bool, Failure> {
    progress::on_interrupt(|| INTERRUPTED.store(true, Ordering::Relaxed));
    let on_screen = std::io::stdout().is_terminal() && !args.lines;
    let by = args.group_by.clone().unwrap_or_else(|| match on_screen {
        true => GroupBy::default(),
        false => GroupBy(vec![]),
    });
    let mut live = Live::begin(source, by, args)?;
    let said = match on_screen {
        true => live.show(source)?,
        false => live.print(source)?,
    };
    if let Some(said) = said {
        say(said);
    }
    Ok(INTERRUPTED.load(Ordering::Relaxed))
}

/// State of a watch.
struct Live {
    watch: Watch,
    screen: Screen,
    base: Option<PathBuf>,
    /// How long an interval is, how long this one has been, and all before it.
    every: Duration,
    elapsed: Duration,
    total: Duration,
    pause: Duration,
    clock: Stopwatch,
    left: Option<u64>,
}

impl Live {
    fn begin(source: &mut dyn Source, by: GroupBy, args: &ProfileWatch) -> Result<Live, Failure> {
        let every = interval(args.interval.as_deref())?;
        let mut watch = Watch::new(by);
        if let Some(kind) = &args.kind {
            let kinds = &source.header().kinds;
            let Some(number) = kinds.iter().position(|it| it == kind) else {
                let message = format!("--type {kind}: this profile has no such I/Os");
                let help = format!("it has {}", kinds.join(", "));
                return Err(Failure::usage(message, Some(&help)));
            };
            watch.filter(u8::try_from(number).ok());
        }
        // What was there before is of no interval.
        let before = watch.look(source).map_err(lost)?;
        if let Some(ended) = before.ended {
            let help = "mynah profile show FILE shows what it holds";
            return Err(Failure::usage(ended, Some(help)));
        }
        watch.restart(before.counts);
        let mut live = Live {
            watch,
            screen: Screen::new(source),
            base: args.base.clone(),
            every,
            elapsed: Duration::ZERO,
            total: Duration::ZERO,
            pause: PAUSE_MAX,
            clock: Stopwatch::start(),
            left: args.count,
        };
        live.read_base()?;
        Ok(live)
    }

    /// Reads the base again, in the groups that there are now.
    fn read_base(&mut self) -> Result<(), Failure> {
        let Some(path) = &self.base else { return Ok(()) };
        let by = self.watch.by().clone();
        let analysis = analyse(path, &by).map_err(|problem| super::foreign(&problem))?;
        self.watch.base_of(&analysis);
        Ok(())
    }

    /// Polls the source once. Returns the interval if it has ended, and why the source has, if so.
    fn look(
        &mut self,
        source: &mut dyn Source,
    ) -> Result<(Option<Interval>, Option<String>), Failure> {
        let polled = self.watch.look(source).map_err(lost)?;
        self.elapsed += self.clock.lap();
        if polled.anew {
            self.screen.say("another run has begun the profile anew");
            self.elapsed = Duration::ZERO;
        }
        // Often enough not to be overtaken, and no more often than that.
        self.pause = match polled.overwritten {
            0 => (self.pause * 2).min(PAUSE_MAX),
            _ => (self.pause / 2).max(PAUSE_MIN),
        };
        if self.elapsed < self.every && polled.ended.is_none() {
            return Ok((None, None));
        }
        let seconds = std::mem::take(&mut self.elapsed);
        self.total += seconds;
        let span = Span::from_ns(u64::try_from(seconds.as_nanos()).unwrap_or(u64::MAX / 1000));
        let interval = self.watch.end(source.header(), span);
        Ok((Some(interval), polled.ended))
    }

    /// How long to wait for the next look.
    fn wait(&self) -> Duration {
        self.pause.min(self.every.saturating_sub(self.elapsed)).max(Duration::from_millis(1))
    }

    /// Counts an interval; true if it was the last of those that were asked for.
    fn is_last(&mut self) -> bool {
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.left == Some(0)
    }

    /// Prints a line for each group and interval. Why it ended, if not by itself.
    fn print(&mut self, source: &mut dyn Source) -> Result<Option<String>, Failure> {
        loop {
            std::thread::sleep(self.wait());
            let (interval, ended) = self.look(source)?;
            if let Some(interval) = interval {
                print::out(&lines::text(self.total, &interval))?;
                if self.is_last() {
                    return Ok(None);
                }
            }
            if ended.is_some() || INTERRUPTED.load(Ordering::Relaxed) {
                return Ok(ended);
            }
        }
    }

    /// Shows it on one screen until it is left. What the screen said last is said once more behind
    /// it.
    fn show(&mut self, source: &mut dyn Source) -> Result<Option<String>, Failure> {
        let mut terminal = ratatui::try_init().map_err(no_terminal)?;
        let shown = self.show_on(&mut terminal, source);
        ratatui::restore();
        let (last, ended) = shown?;
        print::out(&lines::text(self.total, &last))?;
        Ok(ended)
    }

    fn show_on(
        &mut self,
        terminal: &mut DefaultTerminal,
        source: &mut dyn Source,
    ) -> Result<(Interval, Option<String>), Failure> {
        let mut last = Interval::default();
        loop {
            terminal
                .draw(|frame| self.screen.draw(frame, &self.watch, source, &last, self.total))
                .map_err(no_terminal)?;
            if event::poll(self.wait()).map_err(no_terminal)? {
                let is_over = match event::read().map_err(no_terminal)? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        self.pressed(key, source, &last)
                    }
                    _ => false,
                };
                if is_over {
                    return Ok((last, None));
                }
            }
            let (interval, ended) = self.look(source)?;
            if let Some(interval) = interval {
                last = interval;
                if self.is_last() {
                    return Ok((last, None));
                }
            }
            if ended.is_some() || INTERRUPTED.load(Ordering::Relaxed) {
                return Ok((last, ended));
            }
        }
    }

    /// Begins a new interval.
    fn begin_anew(&mut self) {
        self.clock.lap();
        self.elapsed = Duration::ZERO;
    }

    /// Handles a key; true if it ends the watch.
    fn pressed(&mut self, key: KeyEvent, source: &mut dyn Source, last: &Interval) -> bool {
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('g') => {
                let by = next_grouping(self.watch.by());
                self.watch.group_by(by);
                self.begin_anew();
                self.screen.say("");
                if let Err(Failure::Usage(report) | Failure::Run(report)) = self.read_base() {
                    self.screen.say(&report.to_string());
                }
            }
            KeyCode::Char('b') => {
                self.base = None;
                self.watch.base_on(last);
                self.screen.say(match self.watch.has_base() {
                    true => "compared with this interval from now on",
                    false => "there are no I/Os to compare with",
                });
            }
            KeyCode::Char('f') => {
                self.watch.filter(self.watch.next_kind());
                self.begin_anew();
            }
            KeyCode::Char('s') => {
                let saved = free_name().and_then(|path| {
                    let records = source.save(&path)?;
                    Ok(format!("{records} records saved as {}", path.display()))
                });
                self.screen.say(&saved.unwrap_or_else(|error: SourceError| error.to_string()));
            }
            _ => {}
        }
        false
    }
}

/// Groupings one after the other, as a key brings them.
fn next_grouping(by: &GroupBy) -> GroupBy {
    use Dimension::{Namespace, Queue, Session, Size, Type};
    let all = [vec![Type, Size], vec![Type, Session], vec![Queue], vec![Namespace], vec![]];
    let at = all.iter().position(|dimensions| *dimensions == by.0);
    GroupBy(all[at.map_or(0, |at| (at + 1) % all.len())].clone())
}

/// A file of the working directory that is not there yet.
fn free_name() -> Result<PathBuf, SourceError> {
    let names = (1..1000).map(|number| PathBuf::from(format!("saved-{number}.profile")));
    let free = names.into_iter().find(|path| !path.exists());
    free.ok_or_else(|| SourceError("saved-1.profile to saved-999.profile are all there".into()))
}

/// A source that cannot be looked at any more.
fn lost(error: SourceError) -> Failure {
    Failure::failed(error.to_string(), None)
}

fn no_terminal(error: std::io::Error) -> Failure {
    let help = "--lines prints a line an interval instead";
    Failure::failed(format!("the terminal cannot be used: {error}"), Some(help))
}

/// How long an interval is to be.
fn interval(text: Option<&str>) -> Result<Duration, Failure> {
    let Some(text) = text else { return Ok(Duration::from_secs(1)) };
    let interval = Duration::from_nanos(values::interval("--interval", text)?.as_ps() / 1000);
    match (PAUSE_MAX..=Duration::from_secs(3600)).contains(&interval) {
        true => Ok(interval),
        false => {
            Err(Failure::usage(format!("--interval {text}: an interval is from 100ms to 1h"), None))
        }
    }
}

/// Whether two paths lead to the same file by now.
fn is_same_file(path: &Path, file: &std::fs::File) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (there, open) = (std::fs::metadata(path)?, file.metadata()?);
    Ok((there.dev(), there.ino()) == (open.dev(), open.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mynah_analysis::live::Polled;
    use mynah_profile::{Counts, Head, Header, Record, Side, TimeBase};

    /// What a look gives: I/Os by kind, with their stages in nanoseconds, and what is counted.
    type Look = (Vec<(u8, [u64; 3])>, Polled);

    /// Looks that a test has written down.
    pub(super) struct Script {
        header: Header,
        looks: std::vec::IntoIter<Look>,
        counts: Counts,
    }

    impl Script {
        pub(super) fn new(looks: Vec<Look>) -> Script {
            let mut header = Header::new(Side::Target, "enterprise-tlc", TimeBase::Monotonic);
            header.kinds = ["read", "write", "flush"].map(str::to_owned).to_vec();
            header.stages = ["die_wait", "flash_array", "output"].map(str::to_owned).to_vec();
            Script { header, looks: looks.into_iter(), counts: Counts::default() }
        }
    }

    impl Source for Script {
        fn name(&self) -> String {
            "drive.profile".to_owned()
        }

        fn header(&self) -> &Header {
            &self.header
        }

        fn poll(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<Polled, SourceError> {
            let (ios, polled) = self.looks.next().ok_or(SourceError("it is over".to_owned()))?;
            for (kind, stages) in ios {
                self.counts.completed += 1;
                self.counts.recorded += 1;
                let stages = stages.map(Span::from_ns);
                let head = Head {
                    kind,
                    bytes: 4096,
                    outstanding: 8,
                    total: stages.iter().copied().sum(),
                    ..Head::default()
                };
                take(&Record { head, stages: &stages, beside: &[] });
            }
            self.counts.sampled_out += polled.counts.sampled_out;
            self.counts.recorded += polled.overwritten;
            self.counts.completed += polled.counts.sampled_out + polled.overwritten;
            Ok(Polled { counts: self.counts, ..polled })
        }

        fn save(&mut self, _: &Path) -> Result<u64, SourceError> {
            Err(SourceError("a script keeps nothing".to_owned()))
        }
    }

    fn sampled(sampled_out: u64, overwritten: u64) -> Polled {
        let counts = Counts { sampled_out, ..Counts::default() };
        Polled { counts, overwritten, ..Polled::default() }
    }

    /// An interval beside the one before it.
    pub(super) fn interval() -> Interval {
        let before = vec![(0, [1_000, 40_000, 3_000]), (1, [0, 9_000, 500])];
        let now =
            vec![(0, [50_000, 40_000, 3_000]), (0, [70_000, 40_000, 100]), (1, [0, 9_100, 500])];
        let mut source = Script::new(vec![(before, sampled(0, 0)), (now, sampled(27, 1))]);
        let mut watch = Watch::new("type,size".parse().unwrap());
        watch.look(&mut source).unwrap();
        let base = watch.end(source.header(), Span::from_us(10));
        watch.base_on(&base);
        watch.look(&mut source).unwrap();
        watch.end(source.header(), Span::from_us(10))
    }

    fn args(words: &[&str]) -> ProfileWatch {
        use clap::Parser;
        let all = ["mynah", "profile", "watch", "drive.profile"].iter().chain(words);
        match crate::args::Cli::try_parse_from(all).ok().unwrap().verb {
            crate::args::Verb::Profile {
                what: Some(crate::args::Profile::Watch(args)), ..
            } => args,
            _ => panic!("these are the options of watch"),
        }
    }

    /// A watch whose every look is an interval.
    fn live(source: &mut Script, words: &[&str]) -> Live {
        let begun = Live::begin(source, "type".parse().unwrap(), &args(words));
        let mut live = begun.unwrap_or_else(|_| panic!("it begins"));
        live.every = Duration::ZERO;
        live
    }

    fn press(live: &mut Live, source: &mut Script, key: char, last: &Interval) -> bool {
        let key = KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE);
        live.pressed(key, source, last)
    }

    #[test]
    fn keys_do_what_they_are_for() {
        let both = || (vec![(0, [10, 20, 30]), (1, [0, 0, 50])], Polled::default());
        let ended =
            Polled { ended: Some("nobody writes it any more".to_owned()), ..Polled::default() };
        let mut looks: Vec<_> = (0..6).map(|_| both()).collect();
        looks.push((vec![], ended));
        let mut source = Script::new(looks);
        let mut live = live(&mut source, &[]);
        let look = |live: &mut Live, source: &mut Script| {
            live.look(source).unwrap_or_else(|_| panic!("it goes on"))
        };
        let (first, _) = look(&mut live, &mut source);
        let first = first.unwrap();
        let names = |interval: &Interval| -> Vec<String> {
            interval.groups.iter().map(|group| group.name.clone()).collect()
        };
        assert_eq!(names(&first), ["read", "write"]);
        // Compared with itself nothing has grown.
        assert!(!press(&mut live, &mut source, 'b', &first));
        let second = look(&mut live, &mut source).0.unwrap();
        assert!(second.groups.iter().all(|group| group.amplification == Some(1.0)));
        // Each type by itself, then all again.
        for expected in [&["read"][..], &["write"], &["read", "write"]] {
            assert!(!press(&mut live, &mut source, 'f', &second));
            let next = look(&mut live, &mut source).0.unwrap();
            assert_eq!(names(&next), expected);
        }
        // From a grouping that no key brings, the first of those it does.
        assert!(!press(&mut live, &mut source, 'g', &second));
        assert_eq!(live.watch.by(), &"type,size".parse().unwrap());
        let (last, why) = look(&mut live, &mut source);
        assert_eq!((last.unwrap().read, why.as_deref()), (0, Some("nobody writes it any more")));
        assert!(!press(&mut live, &mut source, 's', &second));
        assert_eq!(live.screen.said(), "a script keeps nothing");
        assert!(!press(&mut live, &mut source, 'x', &second));
        assert!(press(&mut live, &mut source, 'q', &second));
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(live.pressed(control_c, &mut source, &second));
    }

    #[test]
    fn groupings_come_one_after_the_other() {
        let mut by = GroupBy::default();
        let mut all = vec![];
        for _ in 0..5 {
            all.push(by.0.clone());
            by = next_grouping(&by);
        }
        assert_eq!(by, GroupBy::default());
        all.sort_by_key(Vec::len);
        all.dedup();
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn it_is_refused_where_there_is_nothing_to_watch() {
        let message = |looks, words: &[&str]| {
            let begun = Live::begin(&mut Script::new(looks), GroupBy(vec![]), &args(words));
            match begun.err().expect("it is refused") {
                Failure::Usage(report) => report.to_string(),
                _ => panic!("it is a mistake of usage"),
            }
        };
        let ended = Polled { ended: Some("nobody writes it".to_owned()), ..Polled::default() };
        assert_eq!(message(vec![(vec![], ended)], &[]), "nobody writes it");
        let going = || vec![(vec![], Polled::default())];
        let said = message(going(), &["--type", "append"]);
        assert_eq!(said, "--type append: this profile has no such I/Os");
        let said = message(going(), &["--interval", "5ms"]);
        assert_eq!(said, "--interval 5ms: an interval is from 100ms to 1h");
        assert!(message(going(), &["--base", "/nowhere"]).starts_with("/nowhere: "));
    }

    #[test]
    fn a_source_that_is_overtaken_is_looked_at_more_often() {
        let looks = [0, 5, 5, 5, 5, 5, 0, 0].map(|lost| (vec![], sampled(0, lost)));
        let mut source = Script::new(looks.to_vec());
        let mut live = live(&mut source, &[]);
        let mut pauses = vec![];
        for _ in 0..7 {
            live.look(&mut source).unwrap_or_else(|_| panic!("it goes on"));
            pauses.push(live.pause.as_millis());
        }
        assert_eq!(pauses, [50, 25, 12, 10, 10, 20, 40]);
        assert_eq!(live.left, None);
    }
}
