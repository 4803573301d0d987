//! Policies that are written in Python: which block is collected, and which plane a write goes to. A call
//! is made for a whole plane's blocks, or for as many pages as its answer has planes for.

use mynah_lab::policy::{Candidates, Dated, Own, Planes, VictimChoice, WritePlacement};
use mynah_lab::{SimulationError, Step};
use pyo3::prelude::*;
use std::collections::VecDeque;

/// The blocks of a plane that may be collected, a column for each thing that is known of them.
#[pyclass(frozen, get_all, module = "mynah._native")]
pub(crate) struct Blocks {
    block: Vec<u32>,
    valid: Vec<u32>,
    erases: Vec<u32>,
    age: Vec<u64>,
    units_per_block: u32,
    /// Of a block with more valid units nothing is won.
    most_valid: u32,
    /// The block after the one that was collected last.
    turn: u32,
}

/// The planes that a write may go to, in the namespace's order.
#[pyclass(frozen, get_all, name = "Planes", module = "mynah._native")]
pub(crate) struct SeenPlanes {
    has_room: Vec<bool>,
    held: Vec<u32>,
    waiting: Vec<u32>,
    is_idle: Vec<bool>,
    last: usize,
    units_per_page: u32,
}

/// What a policy has raised, in a line.
fn said(error: &PyErr) -> String {
    error.to_string()
}

/// Chooses victims by a call.
struct Victims {
    call: Py<PyAny>,
    dated: Dated,
}

impl VictimChoice for Victims {
    fn dated(&self) -> Dated {
        self.dated
    }

    fn choose(&mut self, blocks: &mut Candidates<'_>) -> Result<Option<u32>, String> {
        let (mut block, mut valid, mut erases, mut age) = (vec![], vec![], vec![], vec![]);
        for it in blocks.iter() {
            block.push(it.block);
            valid.push(it.valid);
            erases.push(it.erases);
            age.push(it.age);
        }
        let units_per_block = blocks.units_per_block();
        let most_valid = (0..units_per_block).rev().find(|&valid| blocks.pays(valid)).unwrap_or(0);
        let turn = blocks.turn();
        let table = Blocks { block, valid, erases, age, units_per_block, most_valid, turn };
        let chosen = Python::attach(|py| self.call.call1(py, (table,))?.extract::<Option<i64>>(py));
        // A number that no block has is refused as one that is no candidate.
        let as_block = |block: i64| u32::try_from(block).unwrap_or(u32::MAX);
        chosen.map(|block| block.map(as_block)).map_err(|error| said(&error))
    }
}

/// Places writes by a call, which says for how many pages.
struct Placement {
    call: Py<PyAny>,
    chosen: VecDeque<i64>,
}

/// One plane, or the planes of so many pages.
#[derive(FromPyObject)]
enum Chosen {
    One(i64),
    Several(Vec<i64>),
}

impl WritePlacement for Placement {
    fn choose(&mut self, planes: &impl Planes) -> Result<usize, String> {
        if self.chosen.is_empty() {
            let all = || 0..planes.count();
            let table = SeenPlanes {
                has_room: all().map(|at| planes.has_room(at)).collect(),
                held: all().map(|at| planes.held(at)).collect(),
                waiting: all().map(|at| planes.waiting(at)).collect(),
                is_idle: all().map(|at| planes.is_idle(at)).collect(),
                last: planes.last(),
                units_per_page: planes.units_per_page(),
            };
            let chosen = Python::attach(|py| self.call.call1(py, (table,))?.extract::<Chosen>(py));
            self.chosen = match chosen.map_err(|error| said(&error))? {
                Chosen::One(plane) => [plane].into(),
                Chosen::Several(planes) => planes.into(),
            };
        }
        let plane = self.chosen.pop_front().ok_or("it gave no plane")?;
        Ok(usize::try_from(plane).unwrap_or(usize::MAX))
    }
}

/// What decides in the drive's stead.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Policies {
    name: String,
    text: String,
    victims: Option<Py<PyAny>>,
    ages: Option<String>,
    placement: Option<Py<PyAny>>,
}

impl Policies {
    /// Runs the simulation on this thread, which does not hold the interpreter.
    pub(crate) fn run(
        self,
        simulation: &mynah_lab::Simulation,
        watch: &mut dyn FnMut(Step<'_>) -> bool,
    ) -> Result<mynah_lab::Measured, SimulationError> {
        let dated = match self.ages.as_deref() {
            Some("filled") => Dated::Filled,
            Some("changed") => Dated::Changed,
            _ => Dated::Never,
        };
        let victims = self.victims.map(|call| Victims { call, dated });
        let placement = self.placement.map(|call| Placement { call, chosen: VecDeque::new() });
        let own = Own::named(&self.name, &self.text);
        match (victims, placement) {
            (Some(victims), Some(placement)) => {
                simulation.run_with_watched(own.victims(victims).placement(placement), watch)
            }
            (Some(victims), None) => simulation.run_with_watched(own.victims(victims), watch),
            (None, Some(placement)) => simulation.run_with_watched(own.placement(placement), watch),
            (None, None) => simulation.run_watched(watch),
        }
    }
}
