//! `mynah serve`, used by `mynah bench` and by bytes that no good host sends:
//!
//! - `authentication`: hosts that prove who they are;
//! - `bench`: everything that is written comes back over NVMe/TCP, whatever the connection does;
//! - `disks`: files of this machine and NBD exports, loaded;
//! - `key_value`: keys and values, one by one and under load;
//! - `vfio_user`: the same on the PCIe bus;
//! - `several`: several drives in one process, and a drive in parts;
//! - `restart`: a drive comes back from its file, its own state too, or says why not;
//! - `placement`: writes that say which data they belong with;
//! - `pairs`: pairs outlive the process, and what of them is refused;
//! - `store`: a drive says what is wrong with its file, and what was lost;
//! - `profile`: where the time of its I/Os went;
//! - `record`: what was served is simulated again;
//! - `tls`: connections that are encrypted.

mod attach;
mod authentication;
mod bench;
mod disks;
mod doctor;
mod key_value;
mod nvme;
mod pairs;
mod placement;
mod profile;
mod record;
mod restart;
mod several;
mod stall;
mod store;
pub(crate) mod support;
mod task;
mod tls;
mod until_closed;
mod vfio_user;
