//! How this crate writes down structures of fixed layout.

/// Declares structures of little-endian fields without padding, and checks their sizes.
macro_rules! structures {
    ($($(#[$attribute:meta])* pub struct $name:ident: $bytes:literal {
        $($(#[$field_attribute:meta])* pub $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$attribute])*
        #[derive(
            Clone,
            Copy,
            Debug,
            PartialEq,
            Eq,
            zerocopy::FromBytes,
            zerocopy::IntoBytes,
            zerocopy::Immutable,
            zerocopy::KnownLayout,
            zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_attribute])* pub $field: $type,)*
        }

        impl $name {
            pub const BYTES: usize = $bytes;
        }

        impl Default for $name {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }

        const _: () = assert!(size_of::<$name>() == $bytes);
    )*};
}

pub(crate) use structures;
