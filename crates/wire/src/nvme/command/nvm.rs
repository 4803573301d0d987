//! I/O commands of the NVM command set (NVM Command Set 1.0, section 3.2), and Flush (Base 2.0,
//! section 7.1). What writes say of directives is of NVM Command Set 1.2.

use super::directives::Directive;
use super::io_management::{IoManagementReceive, IoManagementSend};
use super::{INVALID_OPCODE, bit, bits};
use crate::nvme::opcode::nvm as opcode;
use crate::nvme::{Status, SubmissionEntry};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NvmCommand {
    /// Flush (Base 2.0, section 7.1).
    Flush,
    /// Write (section 3.2.6).
    Write(BlockCommand),
    /// Read (section 3.2.4).
    Read(BlockCommand),
    /// Write Uncorrectable (section 3.2.7).
    WriteUncorrectable(BlockCommand),
    /// Compare (section 3.2.1).
    Compare(BlockCommand),
    /// Write Zeroes (section 3.2.8).
    WriteZeroes(BlockCommand),
    DatasetManagement(DatasetManagement),
    /// Verify (section 3.2.5).
    Verify(BlockCommand),
    Copy(Copy),
    IoManagementReceive(IoManagementReceive),
    IoManagementSend(IoManagementSend),
}

impl NvmCommand {
    /// Parses an entry of an I/O queue.
    ///
    /// # Errors
    /// The status with which the command has to be completed.
    #[inline]
    pub fn parse(entry: &SubmissionEntry) -> Result<NvmCommand, Status> {
        use NvmCommand as C;
        Ok(match entry.opcode {
            opcode::READ => C::Read(BlockCommand::parse(entry)),
            opcode::WRITE => C::Write(BlockCommand::parse(entry)),
            opcode::FLUSH => C::Flush,
            opcode::WRITE_UNCORRECTABLE => C::WriteUncorrectable(BlockCommand::parse(entry)),
            opcode::COMPARE => C::Compare(BlockCommand::parse(entry)),
            opcode::WRITE_ZEROES => C::WriteZeroes(BlockCommand::parse(entry)),
            opcode::DATASET_MANAGEMENT => C::DatasetManagement(DatasetManagement::parse(entry)),
            opcode::VERIFY => C::Verify(BlockCommand::parse(entry)),
            opcode::COPY => C::Copy(Copy::parse(entry)),
            opcode::IO_MANAGEMENT_RECEIVE => {
                C::IoManagementReceive(IoManagementReceive::parse(entry))
            }
            opcode::IO_MANAGEMENT_SEND => C::IoManagementSend(IoManagementSend::parse(entry)),
            _ => return Err(INVALID_OPCODE),
        })
    }

    /// Writes opcode and fields of an entry.
    pub fn put(&self, entry: &mut SubmissionEntry) {
        use NvmCommand as C;
        let (opcode, blocks) = match self {
            C::Flush => return entry.opcode = opcode::FLUSH,
            C::DatasetManagement(command) => return command.put(entry),
            C::Copy(command) => return command.put(entry),
            C::IoManagementReceive(command) => return command.put(entry),
            C::IoManagementSend(command) => return command.put(entry),
            C::Write(blocks) => (opcode::WRITE, blocks),
            C::Read(blocks) => (opcode::READ, blocks),
            C::WriteUncorrectable(blocks) => (opcode::WRITE_UNCORRECTABLE, blocks),
            C::Compare(blocks) => (opcode::COMPARE, blocks),
            C::WriteZeroes(blocks) => (opcode::WRITE_ZEROES, blocks),
            C::Verify(blocks) => (opcode::VERIFY, blocks),
        };
        entry.opcode = opcode;
        blocks.put(entry);
    }
}

/// Fields of a command about a run of blocks. They are at the same place in all such commands,
/// though not every command uses all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCommand {
    /// SLBA: the first block.
    pub start: u64,
    /// Blocks, 1 to 65,536 (NLB, which counts from 0).
    pub blocks: u32,
    /// DEAC: the blocks may be deallocated.
    pub deallocates: bool,
    /// FUA: what is written is on the medium when the command ends.
    pub force_unit_access: bool,
    /// DTYPE and DSPEC, of what is written.
    pub directive: Directive,
    /// PRINFO and the tags.
    pub protection: Protection,
}

impl BlockCommand {
    #[inline]
    fn parse(entry: &SubmissionEntry) -> BlockCommand {
        let dword12 = entry.dword12.get();
        BlockCommand {
            start: entry.start_lba(),
            blocks: entry.block_count(),
            deallocates: bit(dword12, 25),
            force_unit_access: bit(dword12, 30),
            directive: Directive::parse(entry),
            protection: Protection::parse(entry),
        }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        put_start(entry, self.start);
        entry.dword12.set(
            (self.blocks - 1)
                | u32::from(self.deallocates) << 25
                | u32::from(self.force_unit_access) << 30,
        );
        self.directive.put(entry);
        self.protection.put(entry);
    }
}

/// What a command wants done with protection information (NVM Command Set 1.0, section 5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// PRINFO.
    pub action: ProtectionAction,
    /// ILBRT or EILBRT: reference tag of the first block.
    pub reference_tag: u32,
    /// LBAT or ELBAT.
    pub application_tag: u16,
    /// LBATM or ELBATM: which bits of it are checked.
    pub application_mask: u16,
}

impl Protection {
    #[inline]
    fn parse(entry: &SubmissionEntry) -> Protection {
        let tags = entry.dword15.get();
        Protection {
            action: ProtectionAction::from_bits(bits(entry.dword12.get(), 26, 4)),
            reference_tag: entry.dword14.get(),
            application_tag: tags as u16,
            application_mask: (tags >> 16) as u16,
        }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.dword12.set(entry.dword12.get() | self.action.to_bits() << 26);
        entry.dword14.set(self.reference_tag);
        entry.dword15.set(u32::from(self.application_tag) | u32::from(self.application_mask) << 16);
    }
}

/// PRINFO: what is made, and what is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtectionAction {
    /// PRACT: the controller makes and strips protection information.
    pub strips: bool,
    /// PRCHK: the guard is checked.
    pub guard: bool,
    /// PRCHK: the application tag is checked.
    pub application: bool,
    /// PRCHK: the reference tag is checked.
    pub reference: bool,
}

impl ProtectionAction {
    /// From the four bits of PRINFO.
    #[inline]
    pub fn from_bits(value: u32) -> ProtectionAction {
        ProtectionAction {
            strips: bit(value, 3),
            guard: bit(value, 2),
            application: bit(value, 1),
            reference: bit(value, 0),
        }
    }

    fn to_bits(self) -> u32 {
        u32::from(self.strips) << 3
            | u32::from(self.guard) << 2
            | u32::from(self.application) << 1
            | u32::from(self.reference)
    }
}

/// Dataset Management (NVM Command Set 1.0, section 3.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetManagement {
    /// Ranges, 1 to 256 (NR, which counts from 0).
    pub ranges: u16,
    /// AD: the ranges are deallocated.
    pub deallocates: bool,
}

impl DatasetManagement {
    fn parse(entry: &SubmissionEntry) -> DatasetManagement {
        DatasetManagement {
            ranges: bits(entry.dword10.get(), 0, 8) as u16 + 1,
            deallocates: bit(entry.dword11.get(), 2),
        }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::DATASET_MANAGEMENT;
        entry.dword10.set(u32::from(self.ranges - 1));
        entry.dword11.set(u32::from(self.deallocates) << 2);
    }
}

/// Copy (NVM Command Set 1.0, section 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// SDLBA: the first block that is written.
    pub start: u64,
    /// Source ranges, 1 to 256 (NR, which counts from 0).
    pub ranges: u16,
    /// Descriptor format of the source ranges.
    pub descriptor_format: u8,
    /// PRINFOR: what is done where blocks are read; their tags are in their ranges.
    pub read_protection: ProtectionAction,
    /// PRINFOW and the tags of what is written.
    pub write_protection: Protection,
    /// DTYPE and DSPEC, of what is written.
    pub directive: Directive,
    /// FUA: the data are on the medium when the command ends.
    pub force_unit_access: bool,
}

impl Copy {
    fn parse(entry: &SubmissionEntry) -> Copy {
        let dword12 = entry.dword12.get();
        Copy {
            start: entry.start_lba(),
            ranges: bits(dword12, 0, 8) as u16 + 1,
            descriptor_format: bits(dword12, 8, 4) as u8,
            read_protection: ProtectionAction::from_bits(bits(dword12, 12, 4)),
            write_protection: Protection::parse(entry),
            directive: Directive::parse(entry),
            force_unit_access: bit(dword12, 30),
        }
    }

    fn put(&self, entry: &mut SubmissionEntry) {
        entry.opcode = opcode::COPY;
        put_start(entry, self.start);
        entry.dword12.set(
            u32::from(self.ranges - 1)
                | u32::from(self.descriptor_format) << 8
                | self.read_protection.to_bits() << 12
                | u32::from(self.force_unit_access) << 30,
        );
        self.directive.put(entry);
        self.write_protection.put(entry);
    }
}

fn put_start(entry: &mut SubmissionEntry, start: u64) {
    entry.dword10.set(start as u32);
    entry.dword11.set((start >> 32) as u32);
}
