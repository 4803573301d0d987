//! Translation pages on their way between flash and controller, of mapping tables and of indices of
//! keys alike: which are being read, who waits for them, and which are being written. An update that
//! is wanted while one of the same page is under way is joined to the next.

use crate::number::Mvpn;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

/// What is going on with a page.
#[derive(Clone, Serialize, Deserialize)]
struct Flight<W> {
    /// It is being read, for those who wait or to be changed.
    loading: bool,
    updating: bool,
    /// It has to be updated once more.
    again: bool,
    waiters: Vec<W>,
}

impl<W> Default for Flight<W> {
    fn default() -> Self {
        Flight { loading: false, updating: false, again: false, waiters: vec![] }
    }
}

/// Pages that are being loaded or updated; `W` waits for one.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Flights<W> {
    flights: HashMap<Mvpn, Flight<W>, FxBuildHasher>,
    spare: Vec<Vec<W>>,
}

impl<W> Flights<W> {
    pub(crate) fn new() -> Flights<W> {
        Flights { flights: HashMap::default(), spare: vec![] }
    }

    /// Translation pages in flight.
    pub(crate) fn len(&self) -> usize {
        self.flights.len()
    }

    pub(crate) fn clear(&mut self) {
        self.flights.clear();
    }

    /// Whether a page is on its way to flash, and so in DRAM.
    #[inline]
    pub(crate) fn is_in_dram(&self, page: Mvpn) -> bool {
        self.flights.get(&page).is_some_and(|flight| flight.updating && !flight.loading)
    }

    /// Whether anything is going on with a page.
    pub(crate) fn contains(&self, page: Mvpn) -> bool {
        self.flights.contains_key(&page)
    }

    /// Somebody waits for a page that is not in DRAM; whether it has to be read for that.
    pub(crate) fn wait(&mut self, page: Mvpn, waiter: W) -> bool {
        if let Some(flight) = self.flights.get_mut(&page) {
            flight.waiters.push(waiter);
            return false;
        }
        let mut waiters = self.spare.pop().unwrap_or_default();
        waiters.push(waiter);
        self.flights.insert(page, Flight { loading: true, waiters, ..Flight::default() });
        true
    }

    /// A page is read though nobody waits for it yet; false if something is going on with it.
    pub(crate) fn begin(&mut self, page: Mvpn) -> bool {
        if self.flights.contains_key(&page) {
            return false;
        }
        self.flights.insert(page, Flight { loading: true, ..Flight::default() });
        true
    }

    /// A page has been read: who waited for it, and whether it has to be updated (once more).
    /// Give the list back with [`Flights::give_back`].
    pub(crate) fn loaded(&mut self, page: Mvpn) -> Option<(Vec<W>, bool)> {
        let flight = self.flights.get_mut(&page)?;
        flight.loading = false;
        let waiters = std::mem::take(&mut flight.waiters);
        let again = std::mem::take(&mut flight.again);
        if !flight.updating {
            self.flights.remove(&page);
        }
        Some((waiters, again))
    }

    /// A list of waiters, which is empty, to be used again.
    pub(crate) fn give_back(&mut self, waiters: Vec<W>) {
        self.spare.push(waiters);
    }

    /// A page is to be updated; whether it can be now. `read`: it has to be read first.
    pub(crate) fn update(&mut self, page: Mvpn, read: bool) -> bool {
        let flight = self.flights.entry(page).or_default();
        if flight.updating || flight.loading {
            flight.again = true;
            return false;
        }
        (flight.updating, flight.loading) = (true, read);
        true
    }

    /// A page has been updated; whether it has to be once more.
    pub(crate) fn updated(&mut self, page: Mvpn) -> bool {
        let Some(flight) = self.flights.get_mut(&page) else { return false };
        flight.updating = false;
        let again = std::mem::take(&mut flight.again);
        if !flight.loading {
            self.flights.remove(&page);
        }
        again
    }
}
