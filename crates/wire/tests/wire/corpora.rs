//! Replays the fuzz targets' corpora, and mutations of them, with the stable toolchain.

use mynah_wire::fuzzing;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn authentication_messages() {
    replay("authentication_message", fuzzing::authentication_message);
}

#[test]
fn key_lists() {
    replay("key_list", fuzzing::key_list);
}

#[test]
fn queries() {
    replay("query", fuzzing::query);
}

#[test]
fn key_batchs() {
    replay("key_batch", fuzzing::key_batch);
}

#[test]
fn keys() {
    replay("keys", fuzzing::keys);
}

#[test]
fn submission_entries() {
    replay("submission_entry", fuzzing::submission_entry);
}

#[test]
fn target_connections() {
    replay("target_connection", fuzzing::target_connection);
}

#[test]
fn nbd_clients() {
    replay("nbd_client", fuzzing::nbd_client);
}

#[test]
fn nbd_servers() {
    replay("nbd_server", fuzzing::nbd_server);
}

#[test]
fn rdma_pairs() {
    replay("rdma_pair", fuzzing::rdma_pair);
}

#[test]
fn host_streams() {
    replay("host_stream", fuzzing::host_stream);
}

#[test]
fn vfio_user_servers() {
    replay("vfio_user_server", fuzzing::vfio_user_server);
}

#[test]
fn vfio_user_clients() {
    replay("vfio_user_client", fuzzing::vfio_user_client);
}
