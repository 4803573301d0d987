//! Shutdown of a controller (CC.SHN; Base 2.0, section 3.6): it is complete when the power may go.

use crate::controllers::NOBODY;
use crate::output::CommandKind;
use crate::slots::NONE;
use crate::subsystem::Subsystem;
use crate::subsystem::commands::{Step, Work};
use mynah_model::io::{NamespaceId, Operation};

impl Subsystem {
    /// A host shuts its controller down: what is in the drive's cache goes to flash, and what the
    /// store has on its way to stable storage.
    pub(crate) fn shut_down(&mut self, id: u16) {
        let Some(controller) = self.controllers.get_mut(id) else { return };
        if !controller.is_io() || self.model.drive().has_lost_power() {
            return controller.end_shutdown();
        }
        controller.begin_shutdown();
        let admin_queue = controller.admin_queue();
        // A host without I/O queues has written nothing.
        let flow = match controller.flow() {
            NOBODY => self.controllers.admin_flow(),
            flow => flow,
        };
        self.health.shut_down_normally();
        // Over fabrics the model does not know admin queues until then.
        if self.queues.get(admin_queue).is_some_and(|slot| !slot.is_modelled()) {
            self.create_model_queue(admin_queue, flow);
        }
        let mut command = self.new_command(NONE, CommandKind::Admin);
        command.set_work(Work::ShutDown(id));
        let pools = (1..).map(NamespaceId);
        for pool in pools.take_while(|&pool| self.model.drive().namespace_sectors(pool).is_some()) {
            let operation = Operation::Flush;
            command.add_step(Step::whole(operation, pool));
        }
        let runs: Vec<_> = command.steps().map(|step| self.model.pool_bytes(step.pool)).collect();
        let index = self.insert(command);
        if let Some(controller) = self.controllers.get_mut(id) {
            controller.shut_down_by(index);
        }
        self.makes_certain(index, &runs);
        let ready = self.flush_store();
        self.wait_for(index, ready);
        self.start(index);
    }
}
