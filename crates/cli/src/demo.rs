//! `mynah demo`: a drive under a mixed workload, explained.

use crate::args::Demo;
use crate::failure::Failure;
use crate::{print, sim};
use mynah_lab::{Simulation, output};

const DRIVE: &str = "enterprise-tlc";
const READER: &str = "rw=randread bs=4k iodepth=16 runtime=1s";
const WRITER: &str = "rw=randwrite bs=16k rate_iops=15000 runtime=1s";

/// Runs the demonstration.
pub(crate) fn run(demo: &Demo) -> Result<bool, Failure> {
    print::out(&format!(
        "Two flows share the drive `{DRIVE}`, which is in steady state, so that every write costs\n\
         garbage collection. For one second of simulated time\n  \
         reader: {READER}\n  writer: {WRITER}\n\n"
    ))?;
    let simulation = Simulation::on(DRIVE)?.flow("reader", READER)?.flow("writer", WRITER)?.seed(1);
    let measured = sim::watched(false, |watch| simulation.run_watched(watch))?;
    output::write(&demo.report, &measured.html())?;
    let path = demo.report.display();
    let run = &measured.result.run;
    print::out(&format!(
        "{}\n{} requests took {:.1} s of one processor, preparing the drive {:.1} s.\n\n\
         {path} has the same with pictures; open it in a browser. Try next:\n  \
         mynah drives show {DRIVE}\n  \
         mynah sim --rw randread --bs 4k --iodepth 1\n  \
         mynah sim --rw randrw --bs 4k --iodepth 32 --set over_provisioning=28%\n  \
         mynah sim --help\n",
        measured.summary(),
        measured.result.requests,
        run.cpu_s,
        run.setup_cpu_s,
    ))?;
    Ok(measured.interrupted)
}
