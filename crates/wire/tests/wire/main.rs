//! Both ends of connections, joined; and the corpora of the fuzz targets.

mod corpora;
mod joined;
mod vfio_user;
