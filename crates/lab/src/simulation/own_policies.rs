//! A simulation of a drive that decides by policies of others.

use super::{Measured, Simulation, SimulationError, Step};
use crate::runner::{RunError, Runner};
use mynah_model::Policies;

/// What is noted of a drive whose steady state was computed.
const COMPUTED: &str = "the steady state that the drive began in was computed for the victims that \
     the drive's own policy chooses: the run itself, or what it writes before, has to show its own";

impl Simulation {
    /// Runs it on a drive that decides by `policies`, once. [`Simulation::run`] of a built-in policy and
    /// this with the same one from outside have the same result, but for `device.own_policies`.
    ///
    /// # Errors
    /// See [`SimulationError`]: among others [`RunError::Policy`] if a policy chooses what cannot be
    /// chosen, and [`RunError::OwnPolicies`] for what goes with the drive's own policies alone.
    pub fn run_with<P: Policies>(&self, policies: P) -> Result<Measured, SimulationError> {
        self.run_with_watched(policies, &mut |_| true)
    }

    /// The same, and says what it is doing.
    ///
    /// # Errors
    /// See [`Simulation::run_with`].
    pub fn run_with_watched<P: Policies>(
        &self,
        policies: P,
        watch: &mut dyn FnMut(Step<'_>) -> bool,
    ) -> Result<Measured, SimulationError> {
        let Some(own) = policies.identity() else { return self.run_watched(watch) };
        let refused = [
            (self.enclosure.is_some(), "several drives behind a switch have one each"),
            (self.alone, "each flow alone would need them anew, once for each run"),
            (self.record.is_some(), "whoever replays a recording does not have them"),
            (self.save_state.is_some(), "what they know cannot be saved with the drive's state"),
            (self.options.load_state.is_some(), "a saved state does not say what they know"),
        ];
        if let Some((_, problem)) = refused.into_iter().find(|(refused, _)| *refused) {
            return Err(RunError::OwnPolicies { name: own.name, problem }.into());
        }
        watch(Step::Preparing);
        let (config, flows, options) = (self.config.clone(), &self.flows, &self.options);
        let runner = Runner::deciding(config, flows, options, policies)?;
        let mut measured = self.run_on(runner, watch)?;
        if own.replaced.contains(&"victims") && self.options.precondition.is_steady() {
            measured.result.notes.push(COMPUTED.into());
        }
        Ok(measured)
    }
}
