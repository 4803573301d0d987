//! Which processors a thread may run on.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::{fmt, fs, io, thread};

/// A set of processors, as fio's `cpus_allowed` writes it: `0,2-3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(Vec<usize>);

/// What is wrong with a set of processors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpusError {
    /// It is no list of numbers and ranges.
    #[error("`{0}` is not a list of processors; write numbers and ranges, as in 1 or 0,2-3")]
    Form(String),
    /// This process may not use it, or it is not there.
    #[error("there is no processor {cpu} here, or it must not be used; there are {there}")]
    Missing {
        /// The processor.
        cpu: usize,
        /// Those that can be used.
        there: String,
    },
}

impl FromStr for Cpus {
    type Err = CpusError;

    fn from_str(text: &str) -> Result<Cpus, CpusError> {
        let cpus = list_of(text)?;
        let present = usable().map_err(|_| CpusError::Form(text.to_owned()))?;
        match cpus.iter().find(|cpu| !present.contains(cpu)) {
            None => Ok(Cpus(cpus)),
            Some(&cpu) => {
                let there: Vec<_> = present.iter().map(usize::to_string).collect();
                Err(CpusError::Missing { cpu, there: there.join(", ") })
            }
        }
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus: Vec<_> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&cpus.join(","))
    }
}

impl Cpus {
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Those that the calling thread may use.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn usable() -> io::Result<Cpus> {
        usable().map(Cpus)
    }

    /// The one processor that the `number`-th of several threads gets: they take turns, as with
    /// fio's `cpus_allowed_policy=split`.
    pub fn split(&self, number: usize) -> Cpus {
        Cpus(self.0.get(number % self.0.len().max(1)).copied().into_iter().collect())
    }

    /// Keeps the calling thread on these processors, and threads that it starts from now on.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn keep_to(&self) -> io::Result<()> {
        let mut set = CpuSet::new();
        self.0.iter().for_each(|&cpu| set.set(cpu));
        Ok(sched_setaffinity(None, &set)?)
    }
}

/// The numbers of a list, in order.
fn list_of(text: &str) -> Result<Vec<usize>, CpusError> {
    let wrong = || CpusError::Form(text.to_owned());
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= CpuSet::MAX_CPU {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// How many processors a program may keep busy without asking: all that it was confined to (as
/// with `taskset`), else all but one, since its peer may well be on this machine and wants one too.
pub(crate) fn cores_to_spare() -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let online = fs::read_to_string("/sys/devices/system/cpu/online");
    let online = online.ok().and_then(|list| list_of(list.trim()).ok());
    match (usable(), online) {
        (Ok(usable), Some(online)) => spare(cores, usable.len(), online.len()),
        _ => cores - 1,
    }
}

/// Of `cores` that there is time on, where `usable` of `online` ones may be used.
fn spare(cores: usize, usable: usize, online: usize) -> usize {
    cores - usize::from(usable >= online)
}

/// The processors that the calling thread may use.
fn usable() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_was_confined_to_processors_may_keep_them_all_busy() {
        assert_eq!(spare(2, 2, 2), 1);
        assert_eq!(spare(1, 1, 2), 1);
        assert_eq!(spare(1, 1, 1), 0);
        // Confined in time only, as in a container.
        assert_eq!(spare(3, 8, 8), 2);
    }

    #[test]
    fn lists_are_read_and_kept_to() {
        let first = usable().unwrap()[0];
        let cpus: Cpus = format!("{first},{first}-{first}").parse().unwrap();
        assert_eq!((cpus.count(), &cpus.0[..]), (1, &[first][..]));
        std::thread::spawn(move || {
            cpus.keep_to().unwrap();
            assert_eq!(usable().unwrap(), [first]);
        })
        .join()
        .unwrap();
        assert_eq!(Cpus(vec![0, 2, 3]).to_string(), "0,2,3");
        assert_eq!(list_of("2-3,0\n".trim()), Ok(vec![0, 2, 3]));
        for text in ["", "a", "1-", "3-2", "1,,2", "-1", "99999"] {
            assert!(matches!(text.parse::<Cpus>(), Err(CpusError::Form(_))), "{text}");
        }
        let error = "1023".parse::<Cpus>().unwrap_err();
        assert!(error.to_string().starts_with("there is no processor 1023 here"), "{error}");
    }
}
