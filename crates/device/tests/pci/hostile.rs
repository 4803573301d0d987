//! Guests that keep no rules: whatever they do, the function answers with a status, or fails as
//! a controller may, never answers twice, and works again after a reset.

use crate::shared::{self, read};
use crate::support::*;
use mynah_device::Timing;
use mynah_device::pci::{GuestMemory, Region};
use mynah_stamp::Span;
use mynah_wire::nvme::opcode::admin;
use mynah_wire::nvme::property::offset;
use mynah_wire::nvme::{Status, SubmissionEntry};
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// What the guest does.
#[derive(Clone, Debug)]
enum Act {
    /// A command, with data at two of some addresses, as PRPs or as an SGL.
    Submit {
        queue: u16,
        opcode: u8,
        flags: u8,
        dwords: [u32; 4],
        places: [u8; 2],
        sgl: u8,
    },
    /// Writes a list of addresses or descriptors into one of the pages.
    Scribble {
        page: u8,
        places: Vec<u8>,
        descriptors: bool,
    },
    Doorbell {
        index: u8,
        value: u32,
    },
    Unmap {
        page: u8,
    },
    Map {
        page: u8,
    },
    Register {
        at: u16,
        value: u32,
    },
    Wait {
        us: u16,
    },
    Reset {
        whole: bool,
    },
}

const PAGES: u64 = 8;

fn act() -> impl Strategy<Value = Act> {
    let opcode = prop_oneof![6 => prop_oneof![0..0x1au8, Just(0x7c), Just(0x80)], 1 => any::<u8>()];
    let dword = prop_oneof![5 => 0..40u32, 1 => any::<u32>()];
    let register = prop_oneof![Just(0x14), Just(0x24), Just(0x28), Just(0x30), 0..0x1200u16];
    let configuration = prop_oneof![3 => any::<u32>(), 1 => Just(0x0046_0001), 1 => Just(0)];
    let value = prop_oneof![4 => 0..70u32, 1 => any::<u32>()];
    prop_oneof![
        8 => (
            (0..3u16, opcode, prop_oneof![9 => Just(0u8), 1 => 0..4u8]),
            proptest::array::uniform4(dword),
            any::<[u8; 2]>(),
            prop_oneof![2 => Just(0u8), 1 => any::<u8>()],
        )
            .prop_map(|((queue, opcode, flags), dwords, places, sgl)| Act::Submit {
                queue, opcode, flags, dwords, places, sgl,
            }),
        2 => (any::<u8>(), proptest::collection::vec(any::<u8>(), 1..40), any::<bool>())
            .prop_map(|(page, places, descriptors)| Act::Scribble { page, places, descriptors }),
        1 => (0..12u8, value).prop_map(|(index, value)| Act::Doorbell { index, value }),
        1 => any::<u8>().prop_map(|page| Act::Unmap { page }),
        1 => any::<u8>().prop_map(|page| Act::Map { page }),
        1 => (register, configuration).prop_map(|(at, value)| Act::Register { at, value }),
        3 => (0..500u16).prop_map(|us| Act::Wait { us }),
        1 => any::<bool>().prop_map(|whole| Act::Reset { whole }),
    ]
}

/// One of some addresses: mostly of the pages, sometimes of nothing.
fn address(base: u64, place: u8) -> u64 {
    match place {
        250.. => u64::MAX - 4096 * u64::from(255 - place),
        240..250 => 0,
        _ => base + u64::from(place) % PAGES * PAGE + u64::from(place) / 64 * 1364,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_a_guest_does_is_the_end(
        acts in proptest::collection::vec(act(), 1..60),
        modelled: bool,
        shadow: bool,
    ) {
        let timing = if modelled { Timing::Modelled } else { Timing::Immediate };
        let mut host = Host::with(timing, |_, it| it.shadow_doorbells = shadow, |_| {});
        let base = host.pages(PAGES * PAGE);
        let boot = |host: &mut Host| {
            host.submissions.clear();
            host.completions.clear();
            host.done.clear();
            host.boot(16);
            host.create_pair(1, 8);
            host.create_pair(2, 2);
        };
        host.set_register(offset::CC, 0);
        boot(&mut host);
        let mut waiting: HashSet<(u16, u16)> = HashSet::new();
        // Rings of the guest's own making bring old entries again.
        let mut is_sane = true;
        for act in acts {
            match act {
                Act::Submit { queue, opcode, flags, dwords, places, sgl } => {
                    // Doorbells in such memory ring as they like.
                    is_sane &= opcode != admin::DOORBELL_BUFFER_CONFIG;
                    let mut entry = SubmissionEntry { opcode, flags, ..Default::default() };
                    entry.namespace_id.set(1);
                    let [ten, eleven, twelve, thirteen] = dwords;
                    entry.dword10.set(ten);
                    entry.dword11.set(eleven);
                    entry.dword12.set(twelve);
                    entry.dword13.set(thirteen);
                    entry.set_prps(address(base, places[0]), address(base, places[1]));
                    if sgl > 0 {
                        entry.flags |= 0x40;
                        entry.data.length.set(u32::from(sgl) * 48);
                        (entry.data.reserved, entry.data.kind) = ([0; 3], sgl << 4 & 0x30);
                    }
                    waiting.insert((queue, host.insert(queue, entry)));
                    host.ring(queue);
                }
                Act::Scribble { page, places, descriptors } => {
                    let mut bytes = vec![];
                    for place in places {
                        bytes.extend(address(base, place).to_le_bytes());
                        if descriptors {
                            bytes.extend((u32::from(place) * 16).to_le_bytes());
                            bytes.extend([0, 0, 0, place << 4 & 0x30]);
                        }
                    }
                    let _ = host.memory.write(base + u64::from(page) % PAGES * PAGE, &bytes);
                }
                Act::Doorbell { index, value } => {
                    is_sane = false;
                    host.doorbells[usize::from(index)].store(value, Ordering::Relaxed);
                }
                Act::Unmap { page } => host.memory.unmap(base + u64::from(page) % PAGES * PAGE, 1),
                Act::Map { page } => host.memory.map(base + u64::from(page) % PAGES * PAGE, 1),
                Act::Register { at, value } => {
                    is_sane = false;
                    host.set_register(u32::from(at) & !3, value);
                }
                Act::Wait { us } => host.wait(Span::from_us(us.into())),
                Act::Reset { whole } => {
                    if whole {
                        let now = host.clock();
                        host.function.reset(now, &mut host.subsystem, &host.doorbells);
                        host.write(Region::Configuration, 4, &[6, 0]);
                    } else {
                        host.set_register(offset::CC, 0);
                    }
                    waiting.clear();
                    is_sane = true;
                    boot(&mut host);
                }
            }
            host.turn();
            for done in std::mem::take(&mut host.done) {
                let key = (done.queue_id.get(), done.command_id.get());
                prop_assert!(waiting.remove(&key) || !is_sane, "nobody asked: {done:?}");
            }
        }
        // Formats and sanitizes are over by then.
        host.wait(Span::from_secs(40));
        host.set_register(offset::CC, 0);
        boot(&mut host);
        prop_assert!(!host.function.uses(0, u64::MAX));
        host.set_register(offset::INTMC, u32::MAX);
        let (status, _) = host.fetch(0, shared::identify(1, 0), 4096);
        prop_assert_eq!(status, Status::SUCCESS);
        let (status, _) = host.fetch(1, read(0, 1), 512);
        let fine = [
            Status::SUCCESS,
            Status::INVALID_NAMESPACE,
            Status::UNRECOVERED_READ_ERROR,
            Status::RESERVATION_CONFLICT,
            // Blocks have become larger than the buffer.
            Status::DATA_TRANSFER_ERROR,
        ];
        prop_assert!(fine.contains(&status), "{:?}", status);
    }
}
