//! Admin commands (Base 2.0, section 5).

use super::directives::{DirectiveReceive, DirectiveSend};
use super::features::{GetFeatures, SetFeatures};
use super::queues::{CreateCompletionQueue, CreateSubmissionQueue, DoorbellBufferConfig};
use super::{INVALID_FIELD, INVALID_OPCODE, bit, bits};
use crate::nvme::opcode::admin as opcode;
use crate::nvme::{Status, SubmissionEntry};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminCommand {
    /// Delete I/O Submission Queue (section 5.7): its identifier.
    DeleteSubmissionQueue(u16),
    CreateSubmissionQueue(CreateSubmissionQueue),
    GetLogPage(GetLogPage),
    /// Delete I/O Completion Queue (section 5.6): its identifier.
    DeleteCompletionQueue(u16),
    CreateCompletionQueue(CreateCompletionQueue),
    Identify(Identify),
    Abort(Abort),
    SetFeatures(SetFeatures),
    GetFeatures(GetFeatures),
    /// Asynchronous Event Request (section 5.2).
    AsynchronousEventRequest,
    NamespaceManagement(NamespaceManagement),
    FirmwareCommit(FirmwareCommit),
    FirmwareImageDownload(FirmwareImageDownload),
    DeviceSelfTest(DeviceSelfTest),
    NamespaceAttachment(NamespaceAttachment),
    /// Keep Alive (section 5.18).
    KeepAlive,
    DirectiveSend(DirectiveSend),
    DirectiveReceive(DirectiveReceive),
    DoorbellBufferConfig(DoorbellBufferConfig),
    FormatNvm(FormatNvm),
    Sanitize(Sanitize),
}

impl AdminCommand {
    /// Parses an entry of an admin queue.
    ///
    /// # Errors
    /// The status with which the command has to be completed.
    pub fn parse(entry: &SubmissionEntry) -> Result<AdminCommand, Status> {
        use AdminCommand as C;
        Ok(match entry.opcode {
            opcode::DELETE_SUBMISSION_QUEUE => C::DeleteSubmissionQueue(entry.dword10.get() as u16),
            opcode::CREATE_SUBMISSION_QUEUE => {
                C::CreateSubmissionQueue(CreateSubmissionQueue::parse(entry))
            }
            opcode::GET_LOG_PAGE => C::GetLogPage(GetLogPage::parse(entry)?),
            opcode::DELETE_COMPLETION_QUEUE => C::DeleteCompletionQueue(entry.dword10.get() as u16),
            opcode::CREATE_COMPLETION_QUEUE => {
                C::CreateCompletionQueue(CreateCompletionQueue::parse(entry))
            }
            opcode::IDENTIFY => C::Identify(Identify::parse(entry)),
            opcode::ABORT => C::Abort(Abort::parse(entry)),
            opcode::SET_FEATURES => C::SetFeatures(SetFeatures::parse(entry)),
            opcode::GET_FEATURES => C::GetFeatures(GetFeatures::parse(entry)?),
            opcode::ASYNCHRONOUS_EVENT_REQUEST => C::AsynchronousEventRequest,
            opcode::NAMESPACE_MANAGEMENT => {
                C::NamespaceManagement(NamespaceManagement::parse(entry))
            }
            opcode::FIRMWARE_COMMIT => C::FirmwareCommit(FirmwareCommit::parse(entry)),
            opcode::FIRMWARE_IMAGE_DOWNLOAD => {
                C::FirmwareImageDownload(FirmwareImageDownload::parse(entry))
            }
            opcode::DEVICE_SELF_TEST => C::DeviceSelfTest(DeviceSelfTest::parse(entry)),
            opcode::NAMESPACE_ATTACHMENT => {
                C::NamespaceAttachment(NamespaceAttachment::parse(entry)?)
            }
            opcode::KEEP_ALIVE => C::KeepAlive,
            opcode::DIRECTIVE_SEND => C::DirectiveSend(DirectiveSend::parse(entry)),
            opcode::DIRECTIVE_RECEIVE => C::DirectiveReceive(DirectiveReceive::parse(entry)),
            opcode::DOORBELL_BUFFER_CONFIG => {
                C::DoorbellBufferConfig(DoorbellBufferConfig::parse(entry))
            }
            opcode::FORMAT_NVM => C::FormatNvm(FormatNvm::parse(entry)),
            opcode::SANITIZE => C::Sanitize(Sanitize::parse(entry)?),
            _ => return Err(INVALID_OPCODE),
        })
    }

    /// Writes opcode and fields of an entry.
    pub fn put(&self, entry: &mut SubmissionEntry) {
        use AdminCommand as C;
        let mut delete = |opcode, id: u16| {
            entry.opcode = opcode;
            entry.dword10.set(id.into());
        };
        match self {
            C::DeleteSubmissionQueue(id) => delete(opcode::DELETE_SUBMISSION_QUEUE, *id),
            C::DeleteCompletionQueue(id) => delete(opcode::DELETE_COMPLETION_QUEUE, *id),
            C::CreateSubmissionQueue(command) => command.put(entry),
            C::GetLogPage(command) => command.put(entry),
            C::CreateCompletionQueue(command) => command.put(entry),
            C::Identify(command) => command.put(entry),
            C::Abort(command) => command.put(entry),
            C::SetFeatures(command) => command.put(entry),
            C::GetFeatures(command) => command.put(entry),
            C::AsynchronousEventRequest => entry.opcode = opcode::ASYNCHRONOUS_EVENT_REQUEST,
            C::NamespaceManagement(command) => command.put(entry),
            C::FirmwareCommit(command) => command.put(entry),
            C::FirmwareImageDownload(command) => command.put(entry),
            C::DeviceSelfTest(command) => command.put(entry),
            C::NamespaceAttachment(command) => command.put(entry),
            C::KeepAlive => entry.opcode = opcode::KEEP_ALIVE,
            C::DirectiveSend(command) => command.put(entry),
            C::DirectiveReceive(command) => command.put(entry),
            C::DoorbellBufferConfig(command) => command.put(entry),
            C::FormatNvm(command) => command.put(entry),
            C::Sanitize(command) => command.put(entry),
        }
    }
}

/// Abort (Base 2.0, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort {
    /// SQID: the queue of the command.
    pub queue_id: u16,
    /// CID: the command.
    pub command_id: u16,
}

impl Abort {
    fn parse(entry: &SubmissionEntry) -> Abort {
        let dword10 = entry.dword10.get();
        Abort { queue_id: dword10 as u16, command_id: (dword10 >> 16) as u16 }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::ABORT;
        entry.dword10.set(u32::from(self.queue_id) | u32::from(self.command_id) << 16);
    }
}

/// Device Self-test (Base 2.0, section 5.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSelfTest {
    /// STC.
    pub code: SelfTestCode,
}

/// What Device Self-test does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfTestCode {
    Short,
    Extended,
    /// Aborts the self-test under way.
    Abort,
    /// Any other code, reserved or vendor specific.
    Reserved(u8),
}

impl SelfTestCode {
    pub fn code(self) -> u8 {
        match self {
            SelfTestCode::Short => 1,
            SelfTestCode::Extended => 2,
            SelfTestCode::Abort => 0xf,
            SelfTestCode::Reserved(code) => code,
        }
    }
}

impl DeviceSelfTest {
    fn parse(entry: &SubmissionEntry) -> DeviceSelfTest {
        let code = match bits(entry.dword10.get(), 0, 4) {
            1 => SelfTestCode::Short,
            2 => SelfTestCode::Extended,
            0xf => SelfTestCode::Abort,
            code => SelfTestCode::Reserved(code as u8),
        };
        DeviceSelfTest { code }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::DEVICE_SELF_TEST;
        entry.dword10.set(self.code.code().into());
    }
}

/// Firmware Commit (Base 2.0, section 5.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirmwareCommit {
    /// FS: the slot; 0: the controller's choice.
    pub slot: u8,
    /// CA.
    pub action: CommitAction,
}

/// What Firmware Commit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitAction {
    /// The downloaded image replaces that in the slot, and is not activated.
    Replace,
    /// The downloaded image replaces that in the slot, and is activated at the next reset.
    ReplaceAndActivate,
    /// The image in the slot is activated at the next reset.
    Activate,
    /// The image is activated at once, without a reset.
    ActivateNow,
    /// An action for boot partitions, or a reserved one.
    Other(u8),
}

impl FirmwareCommit {
    fn parse(entry: &SubmissionEntry) -> FirmwareCommit {
        let dword10 = entry.dword10.get();
        let action = match bits(dword10, 3, 3) {
            0 => CommitAction::Replace,
            1 => CommitAction::ReplaceAndActivate,
            2 => CommitAction::Activate,
            3 => CommitAction::ActivateNow,
            code => CommitAction::Other(code as u8),
        };
        FirmwareCommit { slot: bits(dword10, 0, 3) as u8, action }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::FIRMWARE_COMMIT;
        let action = match self.action {
            CommitAction::Replace => 0,
            CommitAction::ReplaceAndActivate => 1,
            CommitAction::Activate => 2,
            CommitAction::ActivateNow => 3,
            CommitAction::Other(code) => code,
        };
        entry.dword10.set(u32::from(self.slot) | u32::from(action) << 3);
    }
}

/// Firmware Image Download (Base 2.0, section 5.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirmwareImageDownload {
    /// Bytes of the piece (NUMD, which counts dwords from 0).
    pub bytes: u64,
    /// Where in the image it lies (OFST, which counts dwords).
    pub offset: u64,
}

impl FirmwareImageDownload {
    fn parse(entry: &SubmissionEntry) -> FirmwareImageDownload {
        FirmwareImageDownload {
            bytes: (u64::from(entry.dword10.get()) + 1) * 4,
            offset: u64::from(entry.dword11.get()) * 4,
        }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::FIRMWARE_IMAGE_DOWNLOAD;
        entry.dword10.set((self.bytes / 4 - 1) as u32);
        entry.dword11.set((self.offset / 4) as u32);
    }
}

/// Format NVM (Base 2.0, section 5.14; NVM Command Set 1.0, section 4.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatNvm {
    /// LBAFU and LBAFL: index of the LBA format.
    pub lba_format: u8,
    /// MSET: metadata lie behind the data of each block.
    pub extended: bool,
    /// PI: type of protection information; 0: none.
    pub protection: u8,
    /// PIL: it lies in the first bytes of the metadata.
    pub protection_first: bool,
    /// SES.
    pub secure_erase: SecureErase,
}

/// SES: how user data are erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecureErase {
    /// No secure erase is requested.
    None,
    /// User data erase.
    UserData,
    /// Cryptographic erase: the encryption key is deleted.
    Cryptographic,
    /// A reserved code.
    Reserved(u8),
}

impl FormatNvm {
    fn parse(entry: &SubmissionEntry) -> FormatNvm {
        let dword10 = entry.dword10.get();
        FormatNvm {
            lba_format: (bits(dword10, 0, 4) | bits(dword10, 12, 2) << 4) as u8,
            extended: bit(dword10, 4),
            protection: bits(dword10, 5, 3) as u8,
            protection_first: bit(dword10, 8),
            secure_erase: match bits(dword10, 9, 3) {
                0 => SecureErase::None,
                1 => SecureErase::UserData,
                2 => SecureErase::Cryptographic,
                code => SecureErase::Reserved(code as u8),
            },
        }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::FORMAT_NVM;
        let erase = match self.secure_erase {
            SecureErase::None => 0,
            SecureErase::UserData => 1,
            SecureErase::Cryptographic => 2,
            SecureErase::Reserved(code) => code,
        };
        entry.dword10.set(
            u32::from(self.lba_format & 0xf)
                | u32::from(self.extended) << 4
                | u32::from(self.protection) << 5
                | u32::from(self.protection_first) << 8
                | u32::from(erase) << 9
                | u32::from(self.lba_format >> 4) << 12,
        );
    }
}

/// Get Log Page (Base 2.0, section 5.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetLogPage {
    /// LID ([`crate::nvme::log::page`]).
    pub page: u8,
    /// LSP: log specific; its meaning depends on the page.
    pub specific: u8,
    /// RAE: the asynchronous event that the page belongs to is retained.
    pub retains_event: bool,
    /// Bytes to return (NUMD, which counts dwords from 0).
    pub bytes: u64,
    /// LSI: log specific identifier.
    pub specific_id: u16,
    /// LPO: offset of the first byte, a multiple of four.
    pub offset: u64,
    /// CSI: the command set that the page is about.
    pub command_set: u8,
}

impl GetLogPage {
    fn parse(entry: &SubmissionEntry) -> Result<GetLogPage, Status> {
        let (dword10, dword11) = (entry.dword10.get(), entry.dword11.get());
        let offset = u64::from(entry.dword12.get()) | u64::from(entry.dword13.get()) << 32;
        // OT: an offset that is an index; no page here has one.
        if bit(entry.dword14.get(), 23) || !offset.is_multiple_of(4) {
            return Err(INVALID_FIELD);
        }
        let dwords = u64::from(dword10 >> 16) | u64::from(dword11 as u16) << 16;
        Ok(GetLogPage {
            page: dword10 as u8,
            specific: bits(dword10, 8, 7) as u8,
            retains_event: bit(dword10, 15),
            bytes: (dwords + 1) * 4,
            specific_id: (dword11 >> 16) as u16,
            offset,
            command_set: bits(entry.dword14.get(), 24, 8) as u8,
        })
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::GET_LOG_PAGE;
        let dwords = (self.bytes / 4 - 1) as u32;
        entry.dword10.set(
            u32::from(self.page)
                | u32::from(self.specific) << 8
                | u32::from(self.retains_event) << 15
                | dwords << 16,
        );
        entry.dword11.set(dwords >> 16 | u32::from(self.specific_id) << 16);
        entry.dword12.set(self.offset as u32);
        entry.dword13.set((self.offset >> 32) as u32);
        entry.dword14.set(u32::from(self.command_set) << 24);
    }
}

/// Identify (Base 2.0, section 5.17).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identify {
    /// CNS ([`crate::nvme::identify::cns`]).
    pub structure: u8,
    /// CNTID: a controller, where the structure is about one.
    pub controller_id: u16,
    /// CNSSI: CNS specific identifier.
    pub specific_id: u16,
    /// CSI: the command set, where the structure is of one.
    pub command_set: u8,
}

impl Identify {
    fn parse(entry: &SubmissionEntry) -> Identify {
        let (dword10, dword11) = (entry.dword10.get(), entry.dword11.get());
        Identify {
            structure: dword10 as u8,
            controller_id: (dword10 >> 16) as u16,
            specific_id: dword11 as u16,
            command_set: (dword11 >> 24) as u8,
        }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::IDENTIFY;
        entry.dword10.set(u32::from(self.structure) | u32::from(self.controller_id) << 16);
        entry.dword11.set(u32::from(self.specific_id) | u32::from(self.command_set) << 24);
    }
}

/// Namespace Attachment (Base 2.0, section 5.22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceAttachment {
    /// SEL: attaches, or detaches.
    pub attaches: bool,
}

impl NamespaceAttachment {
    fn parse(entry: &SubmissionEntry) -> Result<NamespaceAttachment, Status> {
        match bits(entry.dword10.get(), 0, 4) {
            0 => Ok(NamespaceAttachment { attaches: true }),
            1 => Ok(NamespaceAttachment { attaches: false }),
            _ => Err(INVALID_FIELD),
        }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::NAMESPACE_ATTACHMENT;
        entry.dword10.set(u32::from(!self.attaches));
    }
}

/// Namespace Management (Base 2.0, section 5.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceManagement {
    /// SEL.
    pub select: NamespaceSelect,
    /// CSI: the command set of the namespace.
    pub command_set: u8,
}

/// What Namespace Management does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceSelect {
    Create,
    /// Deletes one namespace, or all of them.
    Delete,
    /// A reserved code.
    Reserved(u8),
}

impl NamespaceManagement {
    fn parse(entry: &SubmissionEntry) -> NamespaceManagement {
        let select = match bits(entry.dword10.get(), 0, 4) {
            0 => NamespaceSelect::Create,
            1 => NamespaceSelect::Delete,
            code => NamespaceSelect::Reserved(code as u8),
        };
        NamespaceManagement { select, command_set: (entry.dword11.get() >> 24) as u8 }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::NAMESPACE_MANAGEMENT;
        let select = match self.select {
            NamespaceSelect::Create => 0,
            NamespaceSelect::Delete => 1,
            NamespaceSelect::Reserved(code) => code,
        };
        entry.dword10.set(select.into());
        entry.dword11.set(u32::from(self.command_set) << 24);
    }
}

/// Sanitize (Base 2.0, section 5.24): its dword 10, all of which the log of the last sanitize has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sanitize(u32);

/// SANACT of Sanitize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SanitizeAction {
    /// Exits failure mode after a failed sanitize.
    ExitFailureMode,
    BlockErase,
    Overwrite,
    /// Crypto erase: changes the media encryption keys.
    CryptoErase,
}

impl Sanitize {
    /// A sanitize with this dword 10.
    pub fn from_bits(bits: u32) -> Sanitize {
        Sanitize(bits)
    }

    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// SANACT; `None` if it is not defined, which no parsed command is.
    pub fn action(self) -> Option<SanitizeAction> {
        Some(match bits(self.0, 0, 3) {
            1 => SanitizeAction::ExitFailureMode,
            2 => SanitizeAction::BlockErase,
            3 => SanitizeAction::Overwrite,
            4 => SanitizeAction::CryptoErase,
            _ => return None,
        })
    }

    /// OWPASS: how often everything is overwritten.
    pub fn passes(self) -> u32 {
        match bits(self.0, 4, 4) {
            0 => 16,
            passes => passes,
        }
    }

    /// NDAS: what was sanitized is to stay allocated.
    pub fn keeps_allocated(self) -> bool {
        bit(self.0, 9)
    }

    fn parse(entry: &SubmissionEntry) -> Result<Sanitize, Status> {
        let command = Sanitize(entry.dword10.get());
        command.action().map(|_| command).ok_or(INVALID_FIELD)
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::SANITIZE;
        entry.dword10.set(self.0);
    }
}
