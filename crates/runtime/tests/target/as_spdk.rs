//! A host that looks for namespaces as SPDK does (`nvme_ctrlr_process_init` in lib/nvme/nvme_ctrlr.c):
//! an Identify that fails where SPDK does not expect it costs the whole controller.

use crate::client::{Client, blocks_of, fabrics};
use crate::key_value::served;
use mynah_runtime::server::{ServeOptions, Speed};
use mynah_wire::nvme::identify::{IdentifyKeyValueNamespace, IdentifyNamespace, cns, descriptor};
use mynah_wire::nvme::opcode::{self, admin, key_value, nvm};
use mynah_wire::nvme::{CompletionEntry, Status, SubmissionEntry};
use std::net::SocketAddr;
use zerocopy::FromBytes;

/// CSI of the Key Value command set.
const PAIRS: u8 = 1;

/// An admin queue of a controller that was enabled with all command sets it has (CC.CSS 110b).
fn admin(address: SocketAddr) -> (u16, Client) {
    let mut client = Client::open(address, 0).expect("a connection");
    let done = client.connect(0, 0xffff, 31).expect("an answer");
    assert_eq!(done.status(), Status::SUCCESS);
    let mut enable = fabrics(opcode::fabrics::PROPERTY_SET);
    enable.dword11.set(0x14);
    enable.dword12.set(0x46_0061);
    assert_eq!(client.command(enable, &[]).expect("an answer").0.status(), Status::SUCCESS);
    (done.result.get() as u16, client)
}

fn identify(client: &mut Client, what: u8, namespace: u32, set: u8) -> (Status, Vec<u8>) {
    let mut entry = SubmissionEntry { opcode: admin::IDENTIFY, ..Default::default() };
    entry.namespace_id.set(namespace);
    entry.data.length.set(4096);
    entry.dword10.set(what.into());
    entry.dword11.set(u32::from(set) << 24);
    let (done, data) = client.command(entry, &[]).expect("an answer");
    (done.status(), data)
}

/// The set that a namespace says it is of.
fn set_of(descriptors: &[u8]) -> u8 {
    let mut left = descriptors;
    while let [kind, bytes, _, _, rest @ ..] = left {
        let (value, rest) = rest.split_at((*bytes).into());
        match *kind {
            0 => break,
            descriptor::COMMAND_SET => return value[0],
            _ => left = rest,
        }
    }
    0
}

/// Its active namespaces with the set of each.
fn namespaces(client: &mut Client) -> Vec<(u32, u8)> {
    let (status, page) = identify(client, cns::CONTROLLER, 0, 0);
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(page.len(), 4096);
    // An error only says that there is nothing of that kind.
    for set in 0..3 {
        identify(client, cns::COMMAND_SET_CONTROLLER, 0, set);
    }
    let (status, list) = identify(client, cns::ACTIVE_NAMESPACES, 0, 0);
    assert_eq!(status, Status::SUCCESS);
    let ids = list.chunks_exact(4).map(|id| u32::from_le_bytes(id.try_into().unwrap()));
    let ids: Vec<u32> = ids.take_while(|&id| id > 0).collect();
    for &id in &ids {
        let (status, page) = identify(client, cns::NAMESPACE, id, 0);
        assert_eq!(status, Status::SUCCESS, "namespace {id}: SPDK gives the controller up");
        let page = IdentifyNamespace::read_from_bytes(&page).unwrap();
        assert!(page.capacity.get() > 0, "namespace {id}: SPDK takes it for inactive");
        let format = &page.lba_formats[usize::from(page.format & 0xf)];
        assert!(format.data_shift >= 9, "namespace {id}");
    }
    let sets = ids.into_iter().map(|id| {
        let (status, page) = identify(client, cns::NAMESPACE_DESCRIPTORS, id, 0);
        assert_eq!(status, Status::SUCCESS);
        (id, set_of(&page))
    });
    sets.collect()
}

/// A command about the pair of the key `key`.
fn of_pair(opcode: u8, namespace: u32, bytes: u32) -> SubmissionEntry {
    let mut entry = SubmissionEntry { opcode, ..Default::default() };
    entry.namespace_id.set(namespace);
    entry.data.length.set(bytes);
    entry.dword2.set(u32::from_le_bytes(*b"key\0"));
    entry.dword10.set(bytes);
    entry.dword11.set(3);
    entry
}

#[test]
fn a_host_that_asks_as_spdk_does_uses_pairs_and_blocks() {
    served(ServeOptions { speed: Speed::Max, ..ServeOptions::default() }, |up| {
        let (controller, mut admin) = admin(up.addresses[0]);
        let found = namespaces(&mut admin);
        assert_eq!(found, [(1, PAIRS), (2, 0)]);
        let (status, page) = identify(&mut admin, cns::COMMAND_SET_NAMESPACE, 1, PAIRS);
        assert_eq!(status, Status::SUCCESS);
        let page = IdentifyKeyValueNamespace::read_from_bytes(&page).unwrap();
        let most = page.current_format().unwrap().value_bytes_max.get();
        let mut io = Client::io(up.addresses[0], 0, controller).expect("a queue");
        let mut call = |entry, data: &[u8]| io.command(entry, data).expect("connected");
        for bytes in [0, 100, most] {
            let value = vec![7; bytes as usize];
            let (done, _) = call(of_pair(key_value::STORE, 1, bytes), &value);
            assert_eq!(done.status(), Status::SUCCESS, "{bytes}");
            let (done, data): (CompletionEntry, _) =
                call(of_pair(key_value::RETRIEVE, 1, most), &[]);
            assert_eq!(done.status(), Status::SUCCESS, "{bytes}");
            assert!(data == value, "{bytes}");
        }
        // Longer than any value: the host is told so, and keeps its connection. No data are asked for.
        for bytes in [most + 1, 2 * most, u32::MAX] {
            let (done, _) = call(of_pair(key_value::STORE, 1, bytes), &[]);
            let status = done.status();
            assert_eq!((status.code_type(), status.code()), (0, 0x85), "{bytes}: {status:?}");
        }
        // The blocks beside it.
        let mut write = blocks_of(nvm::WRITE, 8, 1);
        write.namespace_id.set(2);
        assert_eq!(call(write, &[3; 4096]).0.status(), Status::SUCCESS);
    });
}
