//! What is built is parsed as it was, whatever the command; and any bytes are parsed to what they
//! would be built from.

use super::*;
use crate::fabrics::Connect;
use crate::nvme::SubmissionEntry;
use crate::nvme::key::{KEY_BYTES_MAX, Key};
use proptest::prelude::*;

fn select() -> impl Strategy<Value = Select> {
    prop_oneof![
        Just(Select::Current),
        Just(Select::Default),
        Just(Select::Saved),
        Just(Select::Supported),
    ]
}

fn priority() -> impl Strategy<Value = QueuePriority> {
    prop_oneof![
        Just(QueuePriority::Urgent),
        Just(QueuePriority::High),
        Just(QueuePriority::Medium),
        Just(QueuePriority::Low),
    ]
}

/// Admin commands with small fields of their own.
fn admin() -> impl Strategy<Value = AdminCommand> {
    use AdminCommand as C;
    let sanitize = (prop_oneof![1u32..=4], 0u32..1 << 29)
        .prop_map(|(action, rest)| C::Sanitize(Sanitize::from_bits(action | rest << 3)));
    prop_oneof![
        any::<u16>().prop_map(C::DeleteSubmissionQueue),
        any::<u16>().prop_map(C::DeleteCompletionQueue),
        Just(C::AsynchronousEventRequest),
        Just(C::KeepAlive),
        (any::<u16>(), any::<u16>())
            .prop_map(|(queue_id, command_id)| C::Abort(Abort { queue_id, command_id })),
        (any::<u8>(), select(), any::<u32>()).prop_map(|(feature, select, which)| {
            C::GetFeatures(GetFeatures { feature, select, which })
        }),
        (any::<u8>(), any::<bool>(), any::<u32>(), any::<u32>()).prop_map(
            |(feature, saves, value, more)| {
                C::SetFeatures(SetFeatures { feature, saves, value, more })
            }
        ),
        (any::<u32>(), any::<u8>(), any::<u8>(), any::<u16>()).prop_map(
            |(dwords, operation, kind, specific)| {
                let bytes = (u64::from(dwords) + 1) * 4;
                C::DirectiveReceive(DirectiveReceive { bytes, operation, kind, specific })
            }
        ),
        (any::<u8>(), any::<u8>(), any::<u16>(), any::<bool>()).prop_map(
            |(operation, kind, specific, enables)| {
                C::DirectiveSend(DirectiveSend { operation, kind, specific, enables })
            }
        ),
        prop_oneof![
            Just(SelfTestCode::Short),
            Just(SelfTestCode::Extended),
            Just(SelfTestCode::Abort),
            (3u8..15).prop_map(SelfTestCode::Reserved),
            Just(SelfTestCode::Reserved(0)),
        ]
        .prop_map(|code| C::DeviceSelfTest(DeviceSelfTest { code })),
        any::<bool>()
            .prop_map(|attaches| { C::NamespaceAttachment(NamespaceAttachment { attaches }) }),
        (any::<u32>(), any::<u32>()).prop_map(|(dwords, offset)| {
            let (bytes, offset) = ((u64::from(dwords) + 1) * 4, u64::from(offset) * 4);
            C::FirmwareImageDownload(FirmwareImageDownload { bytes, offset })
        }),
        (any::<u64>(), any::<u64>()).prop_map(|(shadow, events)| {
            C::DoorbellBufferConfig(DoorbellBufferConfig { shadow, events })
        }),
        sanitize,
        more_admin(),
    ]
}

/// Admin commands with several fields.
fn more_admin() -> impl Strategy<Value = AdminCommand> {
    use AdminCommand as C;
    let queue = (any::<u16>(), 1u32..=65_536, any::<u64>(), any::<bool>());
    prop_oneof![
        (queue.clone(), any::<bool>(), any::<u16>()).prop_map(|(queue, interrupts, vector)| {
            let (queue_id, entries, at, contiguous) = queue;
            C::CreateCompletionQueue(CreateCompletionQueue {
                queue_id,
                entries,
                at,
                contiguous,
                interrupts,
                vector,
            })
        }),
        (queue, priority(), any::<u16>()).prop_map(|(queue, priority, completion_queue_id)| {
            let (queue_id, entries, at, contiguous) = queue;
            C::CreateSubmissionQueue(CreateSubmissionQueue {
                queue_id,
                entries,
                at,
                contiguous,
                priority,
                completion_queue_id,
            })
        }),
        (
            any::<u8>(),
            0u8..128,
            any::<bool>(),
            any::<u32>(),
            any::<u16>(),
            any::<u64>(),
            any::<u8>()
        )
            .prop_map(
                |(page, specific, retains_event, dwords, specific_id, offset, command_set)| {
                    C::GetLogPage(GetLogPage {
                        page,
                        specific,
                        retains_event,
                        bytes: (u64::from(dwords) + 1) * 4,
                        specific_id,
                        offset: offset & !3,
                        command_set,
                    })
                }
            ),
        (any::<u8>(), any::<u16>(), any::<u16>(), any::<u8>()).prop_map(
            |(structure, controller_id, specific_id, command_set)| {
                C::Identify(Identify { structure, controller_id, specific_id, command_set })
            }
        ),
        (
            prop_oneof![
                Just(NamespaceSelect::Create),
                Just(NamespaceSelect::Delete),
                (2u8..16).prop_map(NamespaceSelect::Reserved),
            ],
            any::<u8>()
        )
            .prop_map(|(select, command_set)| {
                C::NamespaceManagement(NamespaceManagement { select, command_set })
            }),
        (
            0u8..8,
            prop_oneof![
                Just(CommitAction::Replace),
                Just(CommitAction::ReplaceAndActivate),
                Just(CommitAction::Activate),
                Just(CommitAction::ActivateNow),
                (4u8..8).prop_map(CommitAction::Other),
            ]
        )
            .prop_map(|(slot, action)| C::FirmwareCommit(FirmwareCommit { slot, action })),
        (
            (0u8..64, any::<bool>(), 0u8..8, any::<bool>()),
            prop_oneof![
                Just(SecureErase::None),
                Just(SecureErase::UserData),
                Just(SecureErase::Cryptographic),
                (3u8..8).prop_map(SecureErase::Reserved),
            ]
        )
            .prop_map(
                |((lba_format, extended, protection, protection_first), secure_erase)| {
                    C::FormatNvm(FormatNvm {
                        lba_format,
                        extended,
                        protection,
                        protection_first,
                        secure_erase,
                    })
                }
            ),
    ]
}

fn action() -> impl Strategy<Value = ProtectionAction> {
    (0u32..16).prop_map(ProtectionAction::from_bits)
}

fn protection() -> impl Strategy<Value = Protection> {
    (action(), any::<u32>(), any::<u16>(), any::<u16>()).prop_map(
        |(action, reference_tag, application_tag, application_mask)| Protection {
            action,
            reference_tag,
            application_tag,
            application_mask,
        },
    )
}

fn blocks() -> impl Strategy<Value = BlockCommand> {
    (any::<u64>(), 1u32..=65_536, any::<bool>(), any::<bool>(), directive(), protection()).prop_map(
        |(start, blocks, deallocates, force_unit_access, directive, protection)| BlockCommand {
            start,
            blocks,
            deallocates,
            force_unit_access,
            directive,
            protection,
        },
    )
}

fn directive() -> impl Strategy<Value = Directive> {
    (0u8..16, any::<u16>()).prop_map(|(kind, specific)| Directive { kind, specific })
}

fn nvm() -> impl Strategy<Value = NvmCommand> {
    use NvmCommand as C;
    prop_oneof![
        Just(C::Flush),
        blocks().prop_map(C::Write),
        blocks().prop_map(C::Read),
        blocks().prop_map(C::WriteUncorrectable),
        blocks().prop_map(C::Compare),
        blocks().prop_map(C::WriteZeroes),
        blocks().prop_map(C::Verify),
        (1u16..=256, any::<bool>()).prop_map(|(ranges, deallocates)| {
            C::DatasetManagement(DatasetManagement { ranges, deallocates })
        }),
        (any::<u8>(), any::<u16>(), any::<u32>()).prop_map(|(operation, specific, dwords)| {
            let bytes = (u64::from(dwords) + 1) * 4;
            C::IoManagementReceive(IoManagementReceive { operation, specific, bytes })
        }),
        (any::<u8>(), any::<u16>()).prop_map(|(operation, specific)| {
            C::IoManagementSend(IoManagementSend { operation, specific })
        }),
        (any::<u64>(), 1u16..=256, 0u8..16, action(), (protection(), directive()), any::<bool>())
            .prop_map(|(start, ranges, descriptor_format, read_protection, written, through)| {
                let (write_protection, directive) = written;
                C::Copy(Copy {
                    start,
                    ranges,
                    descriptor_format,
                    read_protection,
                    write_protection,
                    directive,
                    force_unit_access: through,
                })
            }),
    ]
}

fn key(shortest: usize) -> impl Strategy<Value = Key> {
    proptest::collection::vec(any::<u8>(), shortest..=KEY_BYTES_MAX)
        .prop_map(|bytes| Key::new(&bytes).expect("it is short"))
}

fn key_value() -> impl Strategy<Value = KeyValueCommand> {
    use KeyValueCommand as C;
    let condition = prop_oneof![
        Just(StoreCondition::Always),
        Just(StoreCondition::IfExists),
        Just(StoreCondition::IfAbsent),
    ];
    prop_oneof![
        Just(C::Flush),
        (key(1), any::<u32>(), condition, any::<bool>()).prop_map(
            |(key, bytes, condition, uncompressed)| {
                C::Store(Store { key, bytes, condition, uncompressed })
            }
        ),
        (key(1), any::<u32>(), any::<bool>()).prop_map(|(key, bytes, raw)| C::Retrieve(Retrieve {
            key,
            bytes,
            raw
        })),
        (key(0), any::<u32>()).prop_map(|(start, bytes)| C::List(List { start, bytes })),
        key(1).prop_map(C::Delete),
        key(1).prop_map(C::Exist),
    ]
}

fn samsung_key() -> impl Strategy<Value = SamsungKey> {
    let inline = proptest::collection::vec(any::<u8>(), 4..=16);
    prop_oneof![
        inline.prop_map(|key| SamsungKey::inline(&key).expect("4 to 16 bytes")),
        (any::<u64>(), any::<u64>(), 17usize..=255)
            .prop_map(|(a, b, length)| SamsungKey::at(a, b, length).expect("17 to 255 bytes")),
    ]
}

fn samsung() -> impl Strategy<Value = SamsungCommand> {
    use SamsungCommand as C;
    let condition = prop_oneof![
        Just(StoreCondition::Always),
        Just(StoreCondition::IfExists),
        Just(StoreCondition::IfAbsent),
    ];
    let (key, value, buffer) = (samsung_key, 0..=u32::MAX - 3, (0..1u32 << 30));
    let buffer = buffer.prop_map(|dwords| dwords * 4);
    prop_oneof![
        (key(), value.clone(), condition).prop_map(|(key, bytes, condition)| C::Store {
            key,
            bytes,
            condition
        }),
        (key(), value).prop_map(|(key, bytes)| C::Append { key, bytes }),
        (key(), buffer.clone(), 0u32..1 << 23, any::<bool>()).prop_map(
            |(key, bytes, sector, only_size)| {
                let bytes = if only_size { 0 } else { bytes };
                C::Retrieve { key, bytes, offset: sector * 512, only_size }
            }
        ),
        (key(), any::<bool>()).prop_map(|(key, must_exist)| C::Delete { key, must_exist }),
        key().prop_map(|key| C::Exist { key }),
        any::<([u8; 4], [u8; 4])>().prop_map(|(prefix, mask)| C::OpenIterator { prefix, mask }),
        any::<u8>().prop_map(|handle| C::CloseIterator { handle }),
        (any::<u8>(), buffer).prop_map(|(handle, bytes)| C::ReadIterator { handle, bytes }),
    ]
}

fn reservations() -> impl Strategy<Value = ReservationCommand> {
    use ReservationCommand as C;
    prop_oneof![
        (
            prop_oneof![
                Just(RegisterAction::Register),
                Just(RegisterAction::Unregister),
                Just(RegisterAction::Replace),
                (3u8..8).prop_map(RegisterAction::Reserved),
            ],
            any::<bool>(),
            prop_oneof![
                Just(Persistence::Unchanged),
                Just(Persistence::Reserved),
                Just(Persistence::Off),
                Just(Persistence::On),
            ]
        )
            .prop_map(|(action, ignores_key, persistence)| {
                C::Register(ReservationRegister { action, ignores_key, persistence })
            }),
        (
            prop_oneof![
                Just(AcquireAction::Acquire),
                Just(AcquireAction::Preempt),
                Just(AcquireAction::PreemptAndAbort),
                (3u8..8).prop_map(AcquireAction::Reserved),
            ],
            any::<bool>(),
            any::<u8>()
        )
            .prop_map(|(action, ignores_key, kind)| {
                C::Acquire(ReservationAcquire { action, ignores_key, kind })
            }),
        (
            prop_oneof![
                Just(ReleaseAction::Release),
                Just(ReleaseAction::Clear),
                (2u8..8).prop_map(ReleaseAction::Reserved),
            ],
            any::<bool>(),
            any::<u8>()
        )
            .prop_map(|(action, ignores_key, kind)| {
                C::Release(ReservationRelease { action, ignores_key, kind })
            }),
        (any::<u32>(), any::<bool>()).prop_map(|(dwords, extended)| {
            let bytes = (u64::from(dwords) + 1) * 4;
            C::Report(ReservationReport { bytes, extended })
        }),
    ]
}

fn fabrics() -> impl Strategy<Value = FabricsCommand> {
    use FabricsCommand as C;
    let size = prop_oneof![Just(PropertySize::Four), Just(PropertySize::Eight)];
    let authentication = (any::<u16>(), any::<u8>(), any::<u32>())
        .prop_map(|(specific, protocol, bytes)| Authentication { specific, protocol, bytes });
    prop_oneof![
        (size.clone(), any::<u32>(), any::<u64>()).prop_map(|(size, offset, value)| {
            C::PropertySet(PropertySet { size, offset, value })
        }),
        (size, any::<u32>())
            .prop_map(|(size, offset)| C::PropertyGet(PropertyGet { size, offset })),
        authentication.clone().prop_map(C::AuthenticationSend),
        authentication.prop_map(C::AuthenticationReceive),
        any::<u16>().prop_map(|record_format| C::Disconnect(Disconnect { record_format })),
        (any::<u16>(), any::<u16>(), any::<u16>(), any::<u8>(), any::<u32>()).prop_map(
            |(record_format, queue_id, queue_size, attributes, keep_alive_ms)| {
                C::Connect(Connect {
                    record_format,
                    queue_id,
                    queue_size,
                    attributes,
                    keep_alive_ms,
                })
            }
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn admin_commands_survive_their_entries(command in admin()) {
        let mut entry = SubmissionEntry::default();
        command.put(&mut entry);
        prop_assert_eq!(AdminCommand::parse(&entry), Ok(command));
    }

    #[test]
    fn nvm_commands_survive_their_entries(command in nvm()) {
        let mut entry = SubmissionEntry::default();
        command.put(&mut entry);
        prop_assert_eq!(NvmCommand::parse(&entry), Ok(command));
    }

    #[test]
    fn key_value_commands_survive_their_entries(command in key_value()) {
        let mut entry = SubmissionEntry::default();
        command.put(&mut entry);
        prop_assert_eq!(KeyValueCommand::parse(&entry), Ok(command));
    }

    #[test]
    fn samsung_commands_survive_their_entries(command in samsung()) {
        let mut entry = SubmissionEntry::default();
        command.put(&mut entry);
        prop_assert_eq!(SamsungCommand::parse(&entry), Ok(command));
    }

    #[test]
    fn reservation_commands_survive_their_entries(command in reservations()) {
        let mut entry = SubmissionEntry::default();
        command.put(&mut entry);
        prop_assert_eq!(ReservationCommand::parse(&entry), Some(command));
    }

    #[test]
    fn fabrics_commands_survive_their_entries(command in fabrics()) {
        let mut entry = SubmissionEntry::default();
        command.put(&mut entry);
        prop_assert_eq!(FabricsCommand::parse(&entry), Ok(command));
    }

    #[test]
    fn any_entry_is_parsed_to_what_it_would_be_built_from(bytes in any::<[[u8; 32]; 2]>()) {
        crate::fuzzing::submission_entry(bytes.as_flattened());
    }
}

#[test]
fn every_opcode_is_a_command_of_its_set_or_none() {
    use crate::nvme::opcode::{FABRICS, admin, nvm};
    let count = |is_one: &dyn Fn(&SubmissionEntry) -> bool| {
        let all = (0..=u8::MAX).map(|opcode| SubmissionEntry { opcode, ..Default::default() });
        all.filter(|entry| is_one(entry)).count()
    };
    // A sanitize without an action is refused.
    assert_eq!(count(&|entry| AdminCommand::parse(entry).is_ok()), 20);
    assert_eq!(count(&|entry| NvmCommand::parse(entry).is_ok()), 11);
    // Those but Flush and List need a key.
    let key = |entry: &SubmissionEntry| {
        let mut entry = *entry;
        entry.dword11.set(1);
        KeyValueCommand::parse(&entry).is_ok()
    };
    assert_eq!(count(&|entry| KeyValueCommand::parse(entry).is_ok()), 2);
    assert_eq!(count(&key), 6);
    assert_eq!(count(&|entry| ReservationCommand::parse(entry).is_some()), 4);
    assert_eq!(count(&|entry| FabricsCommand::parse(entry).is_ok()), 1);
    let parse = |opcode| AdminCommand::parse(&SubmissionEntry { opcode, ..Default::default() });
    assert_eq!(parse(admin::SANITIZE), Err(INVALID_FIELD));
    assert_eq!(parse(FABRICS), Err(INVALID_OPCODE));
    let parse = |opcode| NvmCommand::parse(&SubmissionEntry { opcode, ..Default::default() });
    assert_eq!(parse(nvm::FLUSH), Ok(NvmCommand::Flush));
    assert_eq!(parse(FABRICS), Err(INVALID_OPCODE));
}

#[test]
fn what_an_entry_alone_shows_to_be_wrong_is_refused() {
    use crate::nvme::opcode::admin;
    let refused = |opcode, set: &dyn Fn(&mut SubmissionEntry)| {
        let mut entry = SubmissionEntry { opcode, ..Default::default() };
        set(&mut entry);
        AdminCommand::parse(&entry) == Err(INVALID_FIELD)
    };
    // SEL of Get Features and of Namespace Attachment; offsets of Get Log Page that are no whole
    // dwords, or indices (OT).
    assert!(refused(admin::GET_FEATURES, &|entry| entry.dword10.set(4 << 8)));
    assert!(refused(admin::NAMESPACE_ATTACHMENT, &|entry| entry.dword10.set(2)));
    assert!(refused(admin::GET_LOG_PAGE, &|entry| entry.dword12.set(2)));
    assert!(refused(admin::GET_LOG_PAGE, &|entry| entry.dword14.set(1 << 23)));
    assert!(!refused(admin::GET_LOG_PAGE, &|entry| entry.dword13.set(1)));
}

#[test]
fn placement_lies_where_the_specification_puts_it() {
    let mut entry = SubmissionEntry { opcode: 0x01, ..Default::default() };
    entry.dword12.set(0x0020_0007);
    entry.dword13.set(0x8001_0003);
    let Ok(NvmCommand::Write(write)) = NvmCommand::parse(&entry) else { panic!("a write") };
    assert_eq!(write.directive, Directive { kind: 2, specific: 0x8001 });
    // As `nvme fdp status` and `nvme fdp update` put them.
    let entry = |opcode, first: u32, second: u32| {
        let mut entry = SubmissionEntry { opcode, ..Default::default() };
        entry.dword10.set(first);
        entry.dword11.set(second);
        NvmCommand::parse(&entry)
    };
    let status = IoManagementReceive { operation: 1, specific: 0, bytes: 4048 };
    assert_eq!(entry(0x12, 1, 1011), Ok(NvmCommand::IoManagementReceive(status)));
    let update = IoManagementSend { operation: 1, specific: 2 };
    assert_eq!(entry(0x1d, 0x0002_0001, 0), Ok(NvmCommand::IoManagementSend(update)));
    assert_eq!(update.identifiers(), 3);
}

#[test]
fn keys_lie_where_the_specification_puts_them() {
    let mut entry = SubmissionEntry::default();
    let key = Key::new(b"0123456789abcdef").expect("16 bytes");
    let store = |condition, uncompressed| {
        KeyValueCommand::Store(Store { key, bytes: 77, condition, uncompressed })
    };
    store(StoreCondition::IfAbsent, true).put(&mut entry);
    let bytes = zerocopy::IntoBytes::as_bytes(&entry);
    assert_eq!((&bytes[8..16], &bytes[56..64]), (&b"01234567"[..], &b"89abcdef"[..]));
    assert_eq!((bytes[0], entry.dword10.get(), entry.dword11.get()), (0x01, 77, 16 | 6 << 8));
    assert_eq!(key_value_bytes(&entry), 77);
    store(StoreCondition::IfExists, false).put(&mut entry);
    assert_eq!(entry.dword11.get(), 16 | 1 << 8);
}

#[test]
fn keys_that_cannot_be_are_refused() {
    use crate::nvme::opcode::key_value::{DELETE, EXIST, LIST, RETRIEVE, STORE};
    let parse = |opcode, dword11: u32| {
        let mut entry = SubmissionEntry { opcode, ..Default::default() };
        entry.dword11.set(dword11);
        KeyValueCommand::parse(&entry)
    };
    let invalid_key_size = Err(Status::INVALID_KEY_SIZE.do_not_retry());
    for opcode in [STORE, RETRIEVE, DELETE, EXIST] {
        assert_eq!(parse(opcode, 0), invalid_key_size);
    }
    assert!(parse(LIST, 0).is_ok());
    for opcode in [STORE, RETRIEVE, DELETE, EXIST, LIST] {
        assert_eq!(parse(opcode, 17), Err(INVALID_FIELD));
        assert_eq!(parse(opcode, 255), Err(INVALID_FIELD));
    }
    assert_eq!(parse(STORE, 3 | 3 << 8), Err(INVALID_FIELD));
}

#[test]
fn samsung_keys_and_values_lie_where_openmpdk_puts_them() {
    use crate::nvme::samsung::status;
    let mut entry = SubmissionEntry::default();
    let key = SamsungKey::inline(b"0123456789").expect("10 bytes");
    SamsungCommand::Store { key, bytes: 77, condition: StoreCondition::IfAbsent }.put(&mut entry);
    let bytes = zerocopy::IntoBytes::as_bytes(&entry);
    assert_eq!((bytes[0], &bytes[48..58]), (0x81, &b"0123456789"[..]));
    // 20 dwords, of whose last three bytes do not count.
    assert_eq!((entry.dword10.get(), entry.dword11.get()), (20, 9 | 2 << 8 | 3 << 16));
    entry.dword10.set(0);
    assert_eq!(SamsungCommand::parse(&entry), Err(status::INVALID_VALUE_SIZE));
    entry = SubmissionEntry::default();
    let key = SamsungKey::at(0x1234_5678_9abc_def0, 0x1000, 255).expect("255 bytes");
    let retrieve = SamsungCommand::Retrieve { key, bytes: 4096, offset: 512, only_size: false };
    retrieve.put(&mut entry);
    assert_eq!((entry.opcode, entry.dword10.get(), entry.dword11.get()), (0x90, 1024, 254));
    assert_eq!((entry.dword12.get(), entry.dword13.get()), (0x9abc_def0, 0x1234_5678));
    assert_eq!((entry.dword14.get(), entry.dword15.get()), (0x1000, 0));
    assert_eq!(entry.metadata.get(), 512);
    entry.metadata.set(513);
    assert_eq!(SamsungCommand::parse(&entry), Err(status::MISALIGNED_OFFSET));
}

#[test]
fn samsung_commands_that_cannot_be_are_refused() {
    use crate::nvme::opcode::samsung::*;
    use crate::nvme::samsung::status;
    let parse = |opcode, dword11: u32| {
        let mut entry = SubmissionEntry { opcode, ..Default::default() };
        entry.dword11.set(dword11);
        SamsungCommand::parse(&entry)
    };
    for opcode in [STORE, APPEND, RETRIEVE, DELETE, EXIST] {
        for length_minus_one in [0, 2, 255] {
            assert_eq!(parse(opcode, length_minus_one), Err(status::INVALID_KEY_SIZE));
        }
        assert!(parse(opcode, 3).is_ok());
        assert_eq!(parse(opcode, 3 | 0x40 << 8), Err(status::INVALID_OPTION));
    }
    assert_eq!(parse(STORE, 3 | 10 << 8), Err(status::INVALID_OPTION));
    // Neither opened nor closed, both, with values, and such as delete what they return.
    for options in [0, 3, 4, 6, 9, 0x11] {
        assert_eq!(parse(ITERATE, options << 8), Err(status::INVALID_OPTION));
    }
    assert_eq!(parse(0x85, 3), Err(INVALID_OPCODE), "compound commands");
    assert!((0..=u8::MAX).all(|it| has(it) == (parse(it, 3 | 1 << 8) != Err(INVALID_OPCODE))));
}
