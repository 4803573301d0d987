//! Experiments on a simulated NVMe SSD.
