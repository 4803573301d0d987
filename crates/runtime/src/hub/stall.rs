//! Finds out that the drive has stopped: commands are outstanding in it, and for a second of its own
//! clock it has completed none.
//!
//! It is asked now and then with what the drive has counted, and says what there is to be told. Only
//! the drive's own work counts: commands that wait for their host, for bytes in a file or for an
//! event are not outstanding in the drive ([`Progress::under_way`]), and a drive without power waits
//! for nobody. Where the model is not asked, nothing is outstanding in it. The clock is the drive's,
//! as far as it has come: what a slow clock, or a machine that stood still, does to the host's time
//! is no stop of the drive.

use mynah_lab::runner::{MORE_ROOM, NO_GAIN};
use mynah_model::Progress;
use mynah_stamp::{Span, Time};
use std::fmt;

/// A drive that has completed nothing for so long has stopped.
const PATIENCE: Span = Span::from_secs(1);
/// Between two looks, on the drive's clock.
const LOOK_INTERVAL: Span = Span::from_ms(100);
/// On the host's clock, between two stops that are told of.
const TOLD_INTERVAL: Span = Span::from_secs(60);

/// A time in which the drive completed nothing though commands waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// When it began, on the drive's clock: at a look, and so up to a tenth of a second after the
    /// last completion.
    pub since: Time,
    pub lasts: Span,
    /// Commands outstanding.
    pub commands: u64,
    /// Flash pages programmed since.
    pub programmed: u64,
    /// Those of them that garbage collection and the mapping table programmed.
    pub programmed_for_itself: u64,
    /// Blocks that garbage collection has finished since.
    pub blocks_collected: u64,
}

impl Stall {
    fn between(since: Time, before: &Progress, at: Time, now: &Progress) -> Stall {
        Stall {
            since,
            lasts: at.saturating_since(since),
            commands: now.under_way,
            programmed: now.programmed.saturating_sub(before.programmed),
            programmed_for_itself: now
                .programmed_for_itself
                .saturating_sub(before.programmed_for_itself),
            blocks_collected: now.blocks_collected.saturating_sub(before.blocks_collected),
        }
    }

    /// Whether the drive has stopped.
    pub fn is_stop(&self) -> bool {
        self.lasts >= PATIENCE
    }

    /// Why it stopped and what helps, where what it does for itself keeps it from its commands.
    fn cause(&self) -> Option<String> {
        // Hosts' data that are programmed are not garbage: a long flush, say.
        let for_hosts = self.programmed.saturating_sub(self.programmed_for_itself);
        if self.programmed_for_itself <= for_hosts {
            return None;
        }
        let why = match self.blocks_collected {
            0 => "garbage collection holds it up, and has not won a block back yet",
            _ => NO_GAIN,
        };
        Some(format!("{why}; {MORE_ROOM}"))
    }
}

/// What the drive did meanwhile, and why.
impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.programmed {
            0 => write!(f, "has programmed nothing")?,
            pages => {
                let (pages, blocks) =
                    (counted(pages, "page"), counted(self.blocks_collected, "block"));
                write!(f, "has programmed {pages} and collected {blocks}")?;
            }
        }
        match self.cause() {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

/// Notices when the drive completes nothing though commands wait.
#[derive(Debug, Default)]
pub struct Stalls {
    /// When to look next, on the drive's clock.
    next_look: Time,
    /// The last look at which none was under way or one had ended since the look before, and what
    /// the drive had done by then.
    moved: (Time, Progress),
    /// The stop that goes on, and whether somebody was told.
    current: Option<(Stall, bool)>,
    /// When somebody was told last that the drive has stopped, on the host's clock.
    told_at: Option<Time>,
    count: u64,
    /// The longest of those before.
    longest: Option<Stall>,
}

impl Stalls {
    /// When to look next, on the drive's clock.
    #[inline]
    pub fn next_look(&self) -> Time {
        self.next_look
    }

    /// How often the drive has stopped.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// For how long it has completed nothing though commands wait, at `at` on its clock; `None` if
    /// it has just completed something, or none waits.
    pub fn stall(&self, at: Time, progress: &Progress) -> Option<Stall> {
        let (since, before) = &self.moved;
        let is_waiting = progress.under_way > 0 && before.under_way > 0;
        (is_waiting && progress.ended == before.ended)
            .then(|| Stall::between(*since, before, at, progress))
    }

    /// The drive's clock has come to `at`, the host's to `wall`. What there is to be told.
    pub fn look(&mut self, wall: Time, at: Time, progress: Progress) -> Option<String> {
        self.next_look = at + LOOK_INTERVAL;
        let Some(stall) = self.stall(at, &progress) else {
            let (_, before) = std::mem::replace(&mut self.moved, (at, progress));
            return self.ended(at, progress.ended != before.ended);
        };
        match &mut self.current {
            Some((current, _)) => {
                *current = stall;
                None
            }
            None if stall.is_stop() => self.began(wall, stall),
            None => None,
        }
    }

    fn began(&mut self, wall: Time, stall: Stall) -> Option<String> {
        self.count += 1;
        let tells = self.told_at.is_none_or(|at| wall.saturating_since(at) >= TOLD_INTERVAL);
        self.current = Some((stall, tells));
        if !tells {
            return None;
        }
        self.told_at = Some(wall);
        let often = match self.count {
            1 => String::new(),
            count => format!(" ({count} times by now)"),
        };
        let Stall { since, lasts, commands, .. } = stall;
        let commands = waiting(commands);
        Some(format!(
            "the drive has stopped{often}: {commands}, and none has been completed for {lasts} of \
             the drive's time, since {since}, in which it {stall}"
        ))
    }

    /// The drive goes on, with a completion or because no command waits any more.
    fn ended(&mut self, at: Time, completed: bool) -> Option<String> {
        let (stall, told) = self.current.take()?;
        let stall = Stall { lasts: at.saturating_since(stall.since), ..stall };
        self.longest = Some(longer(self.longest, stall));
        let lasted = format!("it had stopped for {} of its time", stall.lasts);
        told.then(|| match completed {
            true => format!("the drive completes commands again: {lasted}"),
            // They went with the power, say.
            false => format!("no command waits for the drive any more: {lasted}"),
        })
    }

    /// What a result says of it; `None` if the drive has never stopped.
    pub fn note(&self) -> Option<String> {
        let current = self.current.map(|(stall, _)| stall);
        let longest = match current {
            Some(current) => longer(self.longest, current),
            None => self.longest?,
        };
        let often = match self.count {
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        let ended = match current {
            Some(_) => " and had not gone on when serving ended",
            None => "",
        };
        let Stall { since, lasts, commands, .. } = longest;
        let waiting = waiting(commands);
        Some(format!(
            "the drive stopped {often}{ended}; the longest stop began at {since} of its clock and \
             lasted {lasts}: {waiting}, and meanwhile it {longest}"
        ))
    }
}

fn longer(before: Option<Stall>, other: Stall) -> Stall {
    before.filter(|before| before.lasts >= other.lasts).unwrap_or(other)
}

fn counted(count: u64, of: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {of}{plural}")
}

/// As in "32 commands wait".
pub fn waiting(commands: u64) -> String {
    let verb = if commands == 1 { "waits" } else { "wait" };
    format!("{} {verb}", counted(commands, "command"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive as somebody who looks at it sees it.
    #[derive(Default)]
    struct World {
        stalls: Stalls,
        progress: Progress,
        now: Time,
        /// The host's clock goes so many times as fast as the drive's.
        wall_rate: u64,
    }

    impl World {
        fn new() -> World {
            World { wall_rate: 1, ..World::default() }
        }

        /// Looks whenever it is time, for so long; what was told.
        fn pass(&mut self, span: Span) -> Vec<String> {
            let end = self.now + span;
            let mut told = Vec::new();
            while self.stalls.next_look() <= end {
                self.now = self.now.max(self.stalls.next_look());
                let wall = Time::from_ps(self.now.as_ps() * self.wall_rate);
                told.extend(self.stalls.look(wall, self.now, self.progress));
            }
            self.now = end;
            told
        }

        fn stall(&self) -> Option<Stall> {
            self.stalls.stall(self.now, &self.progress)
        }

        /// Commands wait for 3 s while the drive does this on flash; what is told of it.
        fn stop(&mut self, programmed: u64, for_itself: u64, blocks: u64) -> Vec<String> {
            self.progress.under_way = 32;
            self.pass(Span::from_ms(100));
            self.progress.programmed += programmed;
            self.progress.programmed_for_itself += for_itself;
            self.progress.blocks_collected += blocks;
            self.pass(Span::from_secs(3))
        }

        fn go_on(&mut self) -> Vec<String> {
            self.progress.ended += 1;
            self.pass(Span::from_ms(100))
        }
    }

    #[test]
    fn a_stop_is_told_once_and_so_is_its_end() {
        let mut world = World::new();
        world.pass(Span::from_secs(2));
        world.progress.under_way = 32;
        assert!(world.pass(Span::from_ms(1050)).is_empty(), "a second has not passed");
        assert!(world.stall().is_some_and(|stall| !stall.is_stop()));
        (world.progress.programmed, world.progress.programmed_for_itself) = (500, 480);
        world.progress.blocks_collected = 3;
        let told = world.pass(Span::from_ms(100));
        assert_eq!(
            told,
            [format!(
                "the drive has stopped: 32 commands wait, and none has been completed for 1s of \
                 the drive's time, since 2.1s, in which it has programmed 500 pages and collected \
                 3 blocks: {NO_GAIN}; {MORE_ROOM}"
            )]
        );
        assert!(world.pass(Span::from_secs(500)).is_empty(), "it was said");
        let stall = world.stall().expect("it goes on");
        assert!(stall.is_stop() && stall.commands == 32, "{stall:?}");
        assert!(stall.lasts > Span::from_secs(500), "{stall:?}");
        let note = world.stalls.note().expect("a note");
        assert!(note.contains("stopped once and had not gone on when serving ended"), "{note}");
        let told = world.go_on();
        let again = "the drive completes commands again: it had stopped for 501.1s of its time";
        assert_eq!(told, [again]);
        assert!(world.stall().is_some_and(|stall| !stall.is_stop()), "they wait for the next");
        world.progress.ended += 1;
        assert_eq!(world.stall(), None, "it has just completed one");
        let note = world.stalls.note().expect("a note");
        assert!(
            note.starts_with("the drive stopped once; the longest stop began at 2.1s"),
            "{note}"
        );
        assert!(note.contains("lasted 501.1s: 32 commands wait") && note.ends_with(MORE_ROOM));
    }

    #[test]
    fn a_drive_that_completes_or_has_nothing_to_do_has_not_stopped() {
        let mut world = World::new();
        assert!(world.pass(Span::from_secs(100)).is_empty(), "nothing is under way");
        world.progress.under_way = 1;
        for _ in 0..50 {
            assert!(world.pass(Span::from_ms(900)).is_empty());
            world.progress.ended += 1;
        }
        // They wait for their host now and then.
        for under_way in [0, 1].repeat(50) {
            world.progress.under_way = under_way;
            assert!(world.pass(Span::from_ms(900)).is_empty());
        }
        assert_eq!((world.stalls.count(), world.stalls.note()), (0, None));
    }

    /// One long step of the clock, in which the model completed nothing or something.
    #[test]
    fn a_clock_that_leaps_is_believed_as_far_as_the_drive_has_come() {
        let look = |ended| {
            let mut stalls = Stalls::default();
            let before = Progress { ended: 7, under_way: 2, ..Progress::default() };
            stalls.look(Time::ZERO, Time::ZERO, before);
            let leap = Time::ZERO + Span::from_secs(9);
            stalls.look(leap, leap, Progress { ended, ..before })
        };
        assert_eq!(look(8), None);
        assert!(look(7).is_some_and(|told| told.contains("for 9s of the drive's time")));
    }

    #[test]
    fn stops_are_told_of_once_a_minute_and_all_are_counted() {
        let mut world = World::new();
        let mut told = 0;
        for _ in 0..100 {
            told += world.stop(0, 0, 0).len();
            world.go_on();
        }
        // 320 s in all: the first, and whichever comes a minute after the one before.
        assert_eq!((told, world.stalls.count()), (6, 100));
        assert!(world.stalls.note().unwrap().starts_with("the drive stopped 100 times;"));
        // The minute is the host's, whatever clock the drive has.
        let mut slow = World { wall_rate: 100, ..World::new() };
        slow.stop(0, 0, 0);
        slow.go_on();
        let again = slow.stop(0, 0, 0);
        assert!(again[0].starts_with("the drive has stopped (2 times by now): 32"), "{again:?}");
        assert_eq!(slow.go_on().len(), 1);
    }

    #[test]
    fn an_end_is_told_only_of_what_was_told() {
        let mut world = World::new();
        assert_eq!((world.stop(0, 0, 0).len(), world.go_on().len()), (1, 1));
        assert_eq!((world.stop(0, 0, 0).len(), world.go_on().len()), (0, 0));
        assert_eq!(world.stalls.count(), 2);
    }

    #[test]
    fn collection_is_named_where_it_is_the_reason() {
        let why = |programmed, for_itself, blocks| {
            World::new().stop(programmed, for_itself, blocks).remove(0)
        };
        let nothing = why(0, 0, 0);
        assert!(nothing.ends_with("in which it has programmed nothing"), "{nothing}");
        let flush = why(1000, 400, 5);
        assert!(flush.ends_with("programmed 1000 pages and collected 5 blocks"), "{flush}");
        let first = why(1, 1, 0);
        assert!(
            first.contains("1 page and collected 0 blocks: garbage collection holds"),
            "{first}"
        );
        assert!(first.ends_with(MORE_ROOM), "{first}");
        assert!(why(1000, 1000, 1).contains(&format!("1 block: {NO_GAIN}; {MORE_ROOM}")));
    }

    #[test]
    fn who_waits_no_more_has_not_been_served() {
        let mut world = World::new();
        world.stop(0, 0, 0);
        world.progress.under_way = 0;
        let told = world.pass(Span::from_ms(100));
        let over = "no command waits for the drive any more: it had stopped for 3.2s of its time";
        assert_eq!(told, [over]);
    }
}
