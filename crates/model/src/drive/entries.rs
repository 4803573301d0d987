//! The ways into a drive that do much, compiled once for the built-in policies.
//!
//! A generic function is compiled where it is used, by that crate's settings. For [`BuiltIn`] these
//! functions are none: they are part of this crate, with all that they inline.

// What they take is the drive's own matter: nobody else implements or calls them.
#![allow(private_interfaces)]

use super::{Drive, InputError};
use crate::cache::warm::Access;
use crate::config::Fault;
use crate::ftl::layout::Layout;
use crate::ftl::precondition::{
    Heat as HeatOfNamespace, Occupancy, PreconditionError, Preconditioned, Writer,
};
use crate::host::front::Step;
use crate::invariant::BrokenInvariant;
use crate::io::{Control, NamespaceId, QueueId, Request, Tag};
use crate::kernel::bytes::StateError;
use crate::keys::{Decision, KeyRequest};
use crate::policy::{
    BuiltIn, CacheAdmission, Heat, Own, PlaneScheduling, PolicySet, VictimChoice, WritePlacement,
};
use mynah_stamp::Time;

macro_rules! entries {
    ($(fn $name:ident(drive: $drive:ty $(, $arg:ident: $of:ty)*) $(-> $back:ty)? = $here:ident;)*) => {
        /// The policies of a drive: [`BuiltIn`] or [`Own`].
        pub trait Policies: PolicySet + Sized {
            $(
                #[doc(hidden)]
                fn $name(drive: $drive $(, $arg: $of)*) $(-> $back)?;
            )*
        }

        impl Policies for BuiltIn {
            $(
                fn $name(drive: $drive $(, $arg: $of)*) $(-> $back)? {
                    drive.$here($($arg),*)
                }
            )*
        }

        impl<V, W, H, A, S> Policies for Own<V, W, H, A, S>
        where
            V: VictimChoice,
            W: WritePlacement,
            H: Heat,
            A: CacheAdmission,
            S: PlaneScheduling,
        {
            $(
                fn $name(drive: $drive $(, $arg: $of)*) $(-> $back)? {
                    drive.$here($($arg),*)
                }
            )*
        }
    };
}

entries! {
    fn advance(drive: &mut Drive<Self>, to: Time) = advance_here;
    fn reach_slowly(drive: &mut Drive<Self>, at: Time) -> Result<(), InputError> = reach_slowly_here;
    fn take_late(drive: &mut Drive<Self>, step: Step) = take_late_here;
    fn send_over_network(
        drive: &mut Drive<Self>, at: Time, queue: u16, request: Request
    ) -> Result<(), InputError> = send_over_network_here;
    fn command(
        drive: &mut Drive<Self>, at: Time, queue: QueueId, request: Request
    ) -> Result<(), InputError> = command_here;
    fn data_arrived(
        drive: &mut Drive<Self>, at: Time, tag: Tag
    ) -> Result<(), InputError> = data_arrived_here;
    fn control(
        drive: &mut Drive<Self>, at: Time, control: Control
    ) -> Result<(), InputError> = control_here;
    fn key_command(
        drive: &mut Drive<Self>, at: Time, queue: QueueId, request: KeyRequest
    ) -> Result<(), InputError> = key_command_here;
    fn submit_key(
        drive: &mut Drive<Self>, at: Time, queue: QueueId, request: KeyRequest
    ) -> Result<(), InputError> = submit_key_here;
    fn decided(
        drive: &mut Drive<Self>, at: Time, tag: Tag, decision: Decision
    ) -> Result<bool, InputError> = decided_here;
    fn fill(
        drive: &mut Drive<Self>, occupancy: &[Occupancy]
    ) -> Result<Preconditioned, PreconditionError> = fill_here;
    fn fill_to_be_written(
        drive: &mut Drive<Self>, occupancy: &[Occupancy], heats: &[(NamespaceId, HeatOfNamespace)]
    ) -> Result<Preconditioned, PreconditionError> = fill_to_be_written_here;
    fn precondition_with(
        drive: &mut Drive<Self>, occupancy: &[Occupancy], heats: &[(NamespaceId, HeatOfNamespace)]
    ) -> Result<Preconditioned, PreconditionError> = precondition_with_here;
    fn begin_writing(drive: &mut Drive<Self>, saturated: bool) -> Writer = begin_writing_here;
    fn write_at_once(
        drive: &mut Drive<Self>, writer: &mut Writer, access: Access
    ) -> u64 = write_at_once_here;
    fn end_writing(drive: &mut Drive<Self>, writer: Writer) -> Option<f64> = end_writing_here;
    fn begin_anew(drive: &mut Drive<Self>, faults: Vec<Fault>) = begin_anew_here;
    fn check(drive: &Drive<Self>) -> Result<(), BrokenInvariant> = check_here;
    fn state_hash(drive: &Drive<Self>) -> u64 = state_hash_here;
    fn save_state(
        drive: &mut Drive<Self>, sink: &mut dyn FnMut(&[u8])
    ) -> Result<(), StateError> = save_state_here;
    fn restore_state(
        drive: &mut Drive<Self>, source: &mut dyn FnMut(&mut [u8]) -> bool
    ) -> Result<(), StateError> = restore_state_here;
    fn layout(drive: &Drive<Self>) -> Layout = layout_here;
}
