//! The power is lost: queues, controllers and commands go, and what was not certain to be on flash
//! is what it was before.

use crate::controllers::Controller;
use crate::subsystem::Subsystem;
use mynah_stamp::Time;

impl Subsystem {
    /// The model has lost its power on its way to `to`, and gets there after the subsystem has
    /// dealt with that.
    #[cold]
    pub(crate) fn lose_power(&mut self, to: Time) {
        loop {
            self.power_lost();
            if !self.run_model(to) {
                return;
            }
        }
    }

    /// Brings back what was replaced by writes that were lost with the power.
    fn power_lost(&mut self) {
        for (pool, unit) in self.model.take_power_loss() {
            self.media.bring_back(self.model.pool_start(pool), unit);
        }
        self.media.forget_replaced();
        for lost in self.model.take_lost_pairs() {
            let mut all = self.namespaces.iter_mut().filter_map(|it| it.any_pairs_mut());
            let pairs = all.find_map(|mut it| (it.pool() == lost.namespace).then_some(it));
            if let (Some(mut pairs), Ok(values)) = (pairs, self.media.values_mut()) {
                pairs.lose(&lost, values);
            }
        }
        for mut pairs in self.namespaces.iter_mut().filter_map(|it| it.any_pairs_mut()) {
            if let Ok(values) = self.media.values_mut() {
                pairs.forget_replaced(values);
            }
        }
        let queues: Vec<u32> = self.queues.iter().map(|(index, _)| index).collect();
        for queue in queues {
            if let Some(slot) = self.queues.get_mut(queue) {
                slot.lose_model();
            }
            self.close(queue, "the drive has lost its power");
        }
        for id in self.controllers.ids() {
            // A function's controller stays, and has failed until it is reset.
            if self.controllers.get(id).is_some_and(Controller::is_guests) {
                self.disable_guest(id);
                if let Some(controller) = self.controllers.get_mut(id) {
                    controller.fail();
                }
            } else if let Some(controller) = self.controllers.remove(id) {
                self.restore_arbitration(controller.features());
            }
        }
        self.drop_commands();
        self.restart_tasks();
        for namespace in self.namespaces.iter_mut() {
            namespace.power_cycled();
        }
        self.health.power_lost();
    }

    /// Drops all commands, as the model has; those with jobs of the store end with these.
    fn drop_commands(&mut self) {
        let jobs = self.commands.forget_all_but_jobs();
        let all: Vec<u32> = self.commands.iter().map(|(index, _)| index).collect();
        for index in all {
            let Some(command) = self.commands.get_mut(index) else { continue };
            if command.lose_power(jobs.get(&index).copied().unwrap_or(0)) {
                self.blocks_ready(index);
            }
        }
        self.commands.forget_waiting();
    }
}
