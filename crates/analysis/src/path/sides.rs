//! The records of one side, in memory.

use mynah_profile::{CAPSULES_COUNTED, Counts, Head, Header, Problem, Profile, ReadError};
use mynah_stamp::{Span, Time};
use std::path::Path;

/// Most records that are held: some 250 bytes each.
const RECORDS_MAX: usize = 4_000_000;

/// All records of one or more profiles with the same stages.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) header: Header,
    /// What was counted of them all.
    pub(super) counts: Counts,
    heads: Vec<Head>,
    stages: Vec<Span>,
    beside: Vec<u64>,
}

impl Records {
    /// Reads all records of these files, which must have the same stages.
    pub(super) fn read(paths: &[impl AsRef<Path>]) -> Result<Records, Problem> {
        let mut all: Option<Records> = None;
        for path in paths {
            let path = path.as_ref();
            let fail = |error| Problem { path: path.to_owned(), error };
            let profile = Profile::open(path)?;
            let records = all.get_or_insert_with(|| Records {
                header: profile.header().clone(),
                counts: Counts::default(),
                heads: vec![],
                stages: vec![],
                beside: vec![],
            });
            records.add(profile).map_err(fail)?;
        }
        all.ok_or_else(|| Problem {
            path: Default::default(),
            error: ReadError::Damaged("no profile was named".into()),
        })
    }

    /// Adds those of another profile, on the same clock.
    fn add(&mut self, profile: Profile<impl std::io::Read>) -> Result<(), ReadError> {
        let damaged = |what: &str| ReadError::Damaged(what.to_owned());
        let (header, mine) = (profile.header(), &self.header);
        if header.side != mine.side
            || header.stages != mine.stages
            || header.beside != mine.beside
            || header.kinds != mine.kinds
        {
            return Err(damaged("it has other stages than the profile before it"));
        }
        let counts = profile.counts();
        if !counts.add_up() {
            return Err(damaged("its counts do not add up"));
        }
        // Times are counted from the first profile's origin on.
        let same = header.machine == mine.machine && header.clock == mine.clock;
        let both = |mine: bool, other| Some(mine && other?);
        let closed_loop = match self.counts.completed {
            0 => header.closed_loop,
            _ => mine.closed_loop.and_then(|mine| both(mine, header.closed_loop)),
        };
        let period = counted(mine.counted_ns, header.counted_ns, self.counts.completed);
        if self.heads.is_empty() {
            self.header = header.clone();
        } else if !same {
            return Err(damaged("it is of another clock than the profile before it"));
        }
        (self.header.counted_ns, self.header.closed_loop) = (period, closed_loop);
        self.counts.add(&counts);
        let ahead = header.origin_ns.wrapping_sub(self.header.origin_ns).wrapping_mul(1_000);
        let mut records = profile.records();
        while let Some(record) = records.next_record()? {
            if self.heads.len() == RECORDS_MAX {
                return Err(damaged("it has more records than can be joined"));
            }
            let begin = record.head.begin.as_ps().wrapping_add(ahead);
            // What does not add up, or ends after all time, cannot be put into a path.
            let ends = begin.checked_add(record.head.total.as_ps()).is_some();
            if record.residual() != 0 || !ends {
                continue;
            }
            let begin = Time::from_ps(begin);
            self.heads.push(Head { begin, ..record.head });
            self.stages.extend_from_slice(record.stages);
            self.beside.extend_from_slice(record.beside);
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    pub(super) fn head(&self, at: usize) -> &Head {
        &self.heads[at]
    }

    pub(super) fn stages(&self, at: usize) -> &[Span] {
        let width = self.header.stages.len();
        &self.stages[at * width..(at + 1) * width]
    }

    pub(super) fn beside(&self, at: usize) -> &[u64] {
        let width = self.header.beside.len();
        &self.beside[at * width..(at + 1) * width]
    }

    /// Whether a record's number counts its connection's capsules; foreign hosts' records say so.
    pub(super) fn is_counted(&self, at: usize) -> bool {
        let place = self.header.beside.iter().position(|name| name == CAPSULES_COUNTED);
        place.is_none_or(|place| self.beside(at)[place] != 0)
    }

    /// The place of a stage among a record's.
    pub(super) fn stage(&self, name: &str) -> Option<usize> {
        self.header.stages.iter().position(|stage| stage == name)
    }

    /// Numbers of all records, by what identifies an I/O.
    pub(super) fn by_identity(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_unstable_by_key(|&at| (identity(&self.heads[at]), self.heads[at].begin));
        order
    }
}

/// For how long I/Os of several profiles were counted together: that is known of one alone, or of
/// those that were at the same time.
fn counted(before: Option<u64>, more: Option<u64>, completed: u64) -> Option<u64> {
    if completed == 0 { more } else { Some(before?.max(more?)) }
}

/// What identifies an I/O on both sides.
pub(super) fn identity(head: &Head) -> (u16, u16, u32, u16) {
    (head.connection, head.queue, head.nth, head.command_id)
}
