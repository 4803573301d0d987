//! An index of keys of one's own: two-choice hashing (Azar, Broder, Karlin and Upfal, SIAM Journal on
//! Computing 1999) beside the built-in kinds, under the same load. A crate that depends on
//! `mynah-lab` can hold all of it; Mynah is not changed.
//!
//! `cargo run --release -p mynah-lab --example own_index`
//!
//! A key may be in either of two pages, and goes to the one that has fewer. So pages fill evenly:
//! there are no more of them than the keys need, nothing is split, and a look-up takes one page or
//! two.

use mynah_lab::{
    PageCounts, PairIndex, PairIndexKind, Place, Precondition, Probes, Room, Simulation,
    SimulationError,
};

/// The kind. Pages are filled to this share when there are as many keys as can be.
pub(crate) struct TwoChoice {
    pub(crate) filled: f64,
}

pub(crate) static TWO_CHOICE: TwoChoice = TwoChoice { filled: 0.95 };

impl PairIndexKind for TwoChoice {
    fn name(&self) -> &str {
        "two-choice"
    }

    fn pages(&self, room: Room) -> PageCounts {
        let full = f64::from(room.entries) * self.filled;
        let pages = ((room.keys as f64 / full).ceil() as u64).max(2);
        PageCounts { most: pages, expected: pages }
    }

    fn build(&self, room: Room) -> Box<dyn PairIndex> {
        let pages = self.pages(room).most as usize;
        Box::new(Index { entries: room.entries, counts: vec![0; pages], keys: 0 })
    }

    fn is_hashed(&self) -> bool {
        true
    }
}

/// What is known of an index: how many keys are in each page. Which ones the drive knows, with the
/// place that each has: 0 for its first page, 1 for its second.
struct Index {
    entries: u32,
    counts: Vec<u32>,
    keys: u64,
}

impl Index {
    /// The two pages of a key, by the two halves of its token; never the same.
    fn choices(&self, token: u64) -> [u32; 2] {
        let pages = self.counts.len() as u64;
        let first = ((token >> 32) * pages) >> 32;
        let other = ((token & 0xffff_ffff) * (pages - 1)) >> 32;
        [first as u32, ((first + 1 + other) % pages) as u32]
    }

    fn page(&self, token: u64, place: Place) -> u32 {
        self.choices(token)[usize::from(place)]
    }
}

impl PairIndex for Index {
    fn pages(&self) -> u32 {
        self.counts.len() as u32
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    /// The first page, and the second if the key is there or is in neither.
    fn find(&self, token: u64, place: Option<Place>, probes: &mut Probes) {
        let choices = self.choices(token);
        let looked_at = if place == Some(0) { 1 } else { 2 };
        probes.pages.extend(&choices[..looked_at]);
    }

    fn page_of(&self, token: u64, place: Place) -> Option<u32> {
        Some(self.page(token, place))
    }

    fn keys_of(&self, page: u32) -> u32 {
        self.counts[page as usize]
    }

    fn insert(&mut self, token: u64, probes: &mut Probes) -> Option<Place> {
        let counts = self.choices(token).map(|page| self.counts[page as usize]);
        let place = Place::from(counts[1] < counts[0]);
        if counts[usize::from(place)] == self.entries {
            return None;
        }
        let page = self.page(token, place);
        self.counts[page as usize] += 1;
        self.keys += 1;
        probes.changed.push(page);
        Some(place)
    }

    fn remove(&mut self, token: u64, place: Place, probes: &mut Probes) {
        let page = self.page(token, place);
        self.counts[page as usize] -= 1;
        self.keys -= 1;
        probes.changed.push(page);
    }

    fn clear(&mut self) {
        self.counts.fill(0);
        self.keys = 0;
    }

    fn check(&self, keys: &mut dyn Iterator<Item = (u64, Place)>) -> Result<(), String> {
        let mut counts = vec![0; self.counts.len()];
        keys.for_each(|(token, place)| counts[self.page(token, place) as usize] += 1);
        if counts != self.counts
            || counts.iter().map(|&count| u64::from(count)).sum::<u64>() != self.keys
        {
            return Err("pages count other keys than there are".to_owned());
        }
        Ok(())
    }

    /// Keys and their places say all.
    fn save(&self) -> Vec<u32> {
        vec![]
    }

    fn restore(
        &mut self,
        saved: &[u32],
        keys: &mut dyn Iterator<Item = (u64, Place)>,
    ) -> Result<(), String> {
        self.clear();
        for (token, place) in keys {
            let page = self.page(token, place.min(1)) as usize;
            self.counts[page] += 1;
            self.keys += 1;
            if place > 1 || self.counts[page] > self.entries {
                return Err(format!("page {page} cannot have such keys"));
            }
        }
        if saved.is_empty() { Ok(()) } else { Err("numbers of another index".to_owned()) }
    }
}

/// What a kind of index does under a load.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) kind: &'static str,
    pub(crate) pages: u64,
    pub(crate) lookups: u64,
    pub(crate) hit_ratio: f64,
    pub(crate) reads_per_retrieve: f64,
    pub(crate) mean_us: f64,
}

/// The drive and the load: a quarter of a million keys on a small drive, whose index has DRAM for 32
/// pages.
fn on(kind: &'static str) -> Result<Simulation, SimulationError> {
    let settings = [
        "geometry.channels=4",
        "geometry.blocks_per_plane=40",
        "over_provisioning=30%",
        "kv.index.keys=262144",
        "kv.index.dram=1MiB",
    ];
    let settings: Vec<String> = settings.iter().map(|set| set.to_string()).collect();
    let simulation = Simulation::on_changed("kv-tlc", &settings)?.precondition(Precondition::Fill);
    match kind {
        "two-choice" => simulation.key_index(&TWO_CHOICE),
        _ => simulation.set(&format!("kv.index.kind={kind}")),
    }
}

/// All kinds under the same flow, described in the words of fio.
///
/// # Errors
/// If the drive or the flow is not possible.
pub(crate) fn compare(flow: &str) -> Result<Vec<Row>, SimulationError> {
    let mut rows = vec![];
    for kind in ["dynamic-hash", "hash", "lsm", "two-choice"] {
        let result = on(kind)?.flow("keys", flow)?.run()?.result;
        let device = result.device.expect("one drive ran");
        let counts = device.key_value.expect("it is a key-value drive");
        let mean_ns = result.flows[0].key_value.as_ref().and_then(|it| it.retrieve.lat_ns);
        rows.push(Row {
            kind,
            pages: counts.index_pages,
            lookups: counts.index_lookups,
            hit_ratio: counts.index_hit_ratio.unwrap_or(1.0),
            reads_per_retrieve: counts.flash_reads_per_retrieve.unwrap_or(0.0),
            mean_us: mean_ns.map_or(0.0, |it| it.mean / 1000.0),
        });
    }
    Ok(rows)
}

#[allow(dead_code)]
fn main() -> Result<(), SimulationError> {
    for misses in [0, 100] {
        println!("Retrieves of keys of which {misses} % are not there:");
        println!("| index | pages | look-ups | found in DRAM | flash reads a Retrieve | mean |");
        println!("|---|---|---|---|---|---|");
        let flow = format!(
            "kv=retrieve keys=240k value_size=100 iodepth=4 number_ios=20000 misses={misses}"
        );
        for Row { kind, pages, lookups, hit_ratio, reads_per_retrieve, mean_us } in compare(&flow)?
        {
            println!(
                "| {kind} | {pages} | {lookups} | {:.1} % | {reads_per_retrieve:.3} | {mean_us:.1} us |",
                hit_ratio * 100.0
            );
        }
    }
    Ok(())
}
