//! Python's side of Mynah: the extension module `mynah._native`, beneath the package in `python/`.
//!
//! It hands words to `mynah-lab` and texts back; what options there are, what they mean and what
//! comes of them is said there. It has no logic of its own but what lies between two languages:
//! errors that become exceptions ([`failure`]), and runs that let go of the interpreter and end
//! when somebody presses Ctrl-C ([`run`]).

mod drive;
mod failure;
mod ledger;
mod machine;
mod policies;
mod result;
mod run;
mod simulation;
mod stepper;
mod stream;
mod sweep;
mod table;

/// A drive's tables are large, and used at random. Python's own memory is not concerned.
#[global_allocator]
static ALLOCATOR: mynah_memory::HugePages = mynah_memory::HugePages;

#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::drive::{Drive, shipped};
    #[pymodule_export]
    use crate::failure::fail;
    #[pymodule_export]
    use crate::ledger::{Ledger, digest, run_key, value_key};
    #[pymodule_export]
    use crate::policies::{Blocks, SeenPlanes};
    #[pymodule_export]
    use crate::result::{blame, compare, compare_json, results, stages, summary};
    #[pymodule_export]
    use crate::run::{Measured, run};
    #[pymodule_export]
    use crate::simulation::{
        Simulation, flow, flow_options, load_experiment, load_fio, load_mqsim, settings,
    };
    #[pymodule_export]
    use crate::stepper::{Completion, Stepper};
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::sweep::{Collected, Stop, Sweep, sweep_text, vary};
    #[pymodule_export]
    use crate::table::{Table, intervals};

    /// The version of the crates that this was built from.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Prepared drives are kept where the command keeps them, if they are small: a script may run thousands
    /// that are all different.
    #[pymodule_init]
    #[allow(clippy::unnecessary_wraps)]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        let states = mynah_lab::StateCache::chosen(None);
        states.into_iter().for_each(|states| states.of_many().use_everywhere());
        Ok(())
    }

    /// The build that results come from.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __build__: &str = mynah_study::ledger::BUILD;
}
