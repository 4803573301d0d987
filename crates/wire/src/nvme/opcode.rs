//! Command opcodes: admin (Base 2.0, figure 138), NVM (NVM Command Set 1.0, figure 12), key-value
//! (Key Value Command Set 1.0, figure 5), Samsung's key-value set and Fabrics (Base 2.0, figure 538).

/// The opcode of every Fabrics command.
pub const FABRICS: u8 = 0x7f;

pub mod admin {
    pub const DELETE_SUBMISSION_QUEUE: u8 = 0x00;
    pub const CREATE_SUBMISSION_QUEUE: u8 = 0x01;
    pub const GET_LOG_PAGE: u8 = 0x02;
    pub const DELETE_COMPLETION_QUEUE: u8 = 0x04;
    pub const CREATE_COMPLETION_QUEUE: u8 = 0x05;
    pub const IDENTIFY: u8 = 0x06;
    pub const ABORT: u8 = 0x08;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0a;
    pub const ASYNCHRONOUS_EVENT_REQUEST: u8 = 0x0c;
    pub const NAMESPACE_MANAGEMENT: u8 = 0x0d;
    pub const FIRMWARE_COMMIT: u8 = 0x10;
    pub const FIRMWARE_IMAGE_DOWNLOAD: u8 = 0x11;
    pub const DEVICE_SELF_TEST: u8 = 0x14;
    pub const NAMESPACE_ATTACHMENT: u8 = 0x15;
    pub const KEEP_ALIVE: u8 = 0x18;
    pub const DIRECTIVE_SEND: u8 = 0x19;
    pub const DIRECTIVE_RECEIVE: u8 = 0x1a;
    pub const DOORBELL_BUFFER_CONFIG: u8 = 0x7c;
    pub const FORMAT_NVM: u8 = 0x80;
    pub const SANITIZE: u8 = 0x84;
}

/// The opcodes of the NVM command set, as constants and as an enum.
macro_rules! nvm_commands {
    ($($name:ident $variant:ident = $opcode:literal,)*) => {
        pub mod nvm {
            $(pub const $name: u8 = $opcode;)*
        }

        /// The opcode of an NVM command. A `match` on it has to be exhaustive, so the compiler
        /// finds what has to know of a new command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum NvmOpcode {
            $($variant = $opcode,)*
        }

        impl NvmOpcode {
            /// The command that has this opcode, if one has.
            #[inline]
            pub const fn of(opcode: u8) -> Option<NvmOpcode> {
                match opcode {
                    $($opcode => Some(NvmOpcode::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

nvm_commands! {
    FLUSH Flush = 0x00,
    WRITE Write = 0x01,
    READ Read = 0x02,
    WRITE_UNCORRECTABLE WriteUncorrectable = 0x04,
    COMPARE Compare = 0x05,
    WRITE_ZEROES WriteZeroes = 0x08,
    DATASET_MANAGEMENT DatasetManagement = 0x09,
    VERIFY Verify = 0x0c,
    RESERVATION_REGISTER ReservationRegister = 0x0d,
    RESERVATION_REPORT ReservationReport = 0x0e,
    RESERVATION_ACQUIRE ReservationAcquire = 0x11,
    IO_MANAGEMENT_RECEIVE IoManagementReceive = 0x12,
    RESERVATION_RELEASE ReservationRelease = 0x15,
    COPY Copy = 0x19,
    IO_MANAGEMENT_SEND IoManagementSend = 0x1d,
}

/// Key-value commands. Those about reservations are the NVM ones.
pub mod key_value {
    pub const FLUSH: u8 = 0x00;
    pub const STORE: u8 = 0x01;
    pub const RETRIEVE: u8 = 0x02;
    pub const LIST: u8 = 0x06;
    pub const DELETE: u8 = 0x10;
    pub const EXIST: u8 = 0x14;
}

/// Commands of Samsung's key-value command set.
pub mod samsung {
    pub const STORE: u8 = 0x81;
    pub const APPEND: u8 = 0x83;
    pub const RETRIEVE: u8 = 0x90;
    pub const DELETE: u8 = 0xa1;
    pub const ITERATE: u8 = 0xb1;
    pub const READ_ITERATOR: u8 = 0xb2;
    pub const EXIST: u8 = 0xb3;

    /// Whether an opcode is one of them.
    pub const fn has(opcode: u8) -> bool {
        matches!(opcode, STORE | APPEND | RETRIEVE | DELETE | ITERATE | READ_ITERATOR | EXIST)
    }
}

/// Mynah's own I/O commands, about profiles ([`super::query`]).
pub mod query {
    /// Stores the program in the data; its handle is in the completion's dword 0.
    pub const STORE_PROGRAM: u8 = 0xc1;
    /// Runs instructions, and returns the answer.
    pub const RUN: u8 = 0xc2;

    /// Whether an opcode is one of them.
    pub const fn has(opcode: u8) -> bool {
        matches!(opcode, STORE_PROGRAM | RUN)
    }
}

/// Types of Fabrics commands.
pub mod fabrics {
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
    pub const AUTHENTICATION_SEND: u8 = 0x05;
    pub const AUTHENTICATION_RECEIVE: u8 = 0x06;
    pub const DISCONNECT: u8 = 0x08;
}
