//! What a drive decides that others may decide in its stead: which block is collected, where a write
//! goes, which data are hot, what goes past a pSLC cache, and whether a plane's read or program is first.
//!
//! Each decision is a trait. [`BuiltIn`] decides as the configuration says; [`Own`] puts policies of
//! others in its place, one or several. A drive is compiled for its policies, so that a decision is a
//! call that the compiler sees, and the built-in ones cost nothing.
//!
//! What a policy cannot do: choose what is no candidate. That is a [`PolicyError`], which the drive
//! keeps; from then on it decides by itself.
//!
//! ```
//! use mynah_model::policy::{Candidates, Own, VictimChoice};
//!
//! /// The block with the fewest valid units, and of those the least worn.
//! struct LeastWorn;
//!
//! impl VictimChoice for LeastWorn {
//!     fn choose(&mut self, blocks: &mut Candidates<'_>) -> Result<Option<u32>, String> {
//!         Ok(blocks.iter().min_by_key(|it| (it.valid, it.erases)).map(|it| it.block))
//!     }
//! }
//!
//! let own = Own::named("least-worn", "1").victims(LeastWorn);
//! # let _ = own;
//! ```

mod admission;
mod heat;
mod placement;
mod scheduling;
pub(crate) mod victims;

pub use admission::{CacheAdmission, CacheWrite};
pub use heat::Heat;
pub use placement::{Planes, WritePlacement};
pub use scheduling::{PlaneScheduling, Waits};
pub use victims::{Candidate, Candidates, Dated, VictimChoice};

/// Decides as the configuration says.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltIn;

/// A policy has chosen what cannot be chosen, or could not choose.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The block is free, being filled or collected, retired, or not of the plane.
    #[error(
        "the policy `{policy}` chose block {block} of plane {plane} to be collected, which is not \
         among the candidates"
    )]
    NotACandidate { policy: String, plane: u32, block: u32 },
    /// The namespace has no such plane.
    #[error("the policy `{policy}` put a write into plane {chosen} of {planes}, counted from 0")]
    NoSuchPlane { policy: String, chosen: usize, planes: usize },
    /// It said itself that it could not.
    #[error("the policy `{policy}` could not choose: {problem}")]
    Failed { policy: String, problem: String },
}

/// Whose policies a drive has, for what is written of its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    /// Of the name, of what is replaced, and of the text that [`Own::named`] was given.
    pub hash: u64,
    /// What is not decided by the drive itself: `victims`, `placement`, `heat`, `admission`,
    /// `scheduling`.
    pub replaced: Vec<&'static str>,
}

/// A policy for each decision. Whoever writes a policy has it made by [`Own`].
pub trait PolicySet {
    type Victims: VictimChoice;
    type Placement: WritePlacement;
    type Heat: Heat;
    type Admission: CacheAdmission;
    type Scheduling: PlaneScheduling;

    fn victims(&mut self) -> &mut Self::Victims;
    fn placement(&mut self) -> &mut Self::Placement;
    fn heat(&mut self) -> &mut Self::Heat;
    fn admission(&mut self) -> &mut Self::Admission;
    fn scheduling(&mut self) -> &mut Self::Scheduling;

    /// `None` if all is decided by the drive itself.
    fn identity(&self) -> Option<Identity>;

    /// Keeps the first of what a policy has done wrong.
    fn fail(&mut self, wrong: Wrong);

    /// What a policy has done wrong.
    fn error(&self) -> Option<&PolicyError>;
}

/// What a policy has done wrong, without its name.
#[derive(Clone, Debug)]
pub enum Wrong {
    Victim { plane: u32, block: u32 },
    Placement { chosen: usize, planes: usize },
    Failed(String),
}

impl PolicySet for BuiltIn {
    type Victims = BuiltIn;
    type Placement = BuiltIn;
    type Heat = BuiltIn;
    type Admission = BuiltIn;
    type Scheduling = BuiltIn;

    #[inline(always)]
    fn victims(&mut self) -> &mut BuiltIn {
        self
    }

    #[inline(always)]
    fn placement(&mut self) -> &mut BuiltIn {
        self
    }

    #[inline(always)]
    fn heat(&mut self) -> &mut BuiltIn {
        self
    }

    #[inline(always)]
    fn admission(&mut self) -> &mut BuiltIn {
        self
    }

    #[inline(always)]
    fn scheduling(&mut self) -> &mut BuiltIn {
        self
    }

    fn identity(&self) -> Option<Identity> {
        None
    }

    fn fail(&mut self, wrong: Wrong) {
        unreachable!("the drive chooses among what there is: {wrong:?}")
    }

    #[inline(always)]
    fn error(&self) -> Option<&PolicyError> {
        None
    }
}

/// Policies of others in place of some of the drive's.
#[derive(Clone, Debug)]
pub struct Own<V = BuiltIn, W = BuiltIn, H = BuiltIn, A = BuiltIn, S = BuiltIn> {
    name: String,
    text: String,
    victims: V,
    placement: W,
    heat: H,
    admission: A,
    scheduling: S,
    error: Option<PolicyError>,
}

impl Own {
    /// Policies that results call by `name`. `text` is what they are known by beside it: their source
    /// (`include_str!`), or a version and their parameters.
    pub fn named(name: &str, text: &str) -> Own {
        Own {
            name: name.into(),
            text: text.into(),
            victims: BuiltIn,
            placement: BuiltIn,
            heat: BuiltIn,
            admission: BuiltIn,
            scheduling: BuiltIn,
            error: None,
        }
    }
}

impl<V, W, H, A, S> Own<V, W, H, A, S> {
    /// Which block is collected.
    pub fn victims<N: VictimChoice>(self, victims: N) -> Own<N, W, H, A, S> {
        let Own { name, text, placement, heat, admission, scheduling, error, .. } = self;
        Own { name, text, victims, placement, heat, admission, scheduling, error }
    }

    /// Which plane a write goes to.
    pub fn placement<N: WritePlacement>(self, placement: N) -> Own<V, N, H, A, S> {
        let Own { name, text, victims, heat, admission, scheduling, error, .. } = self;
        Own { name, text, victims, placement, heat, admission, scheduling, error }
    }

    /// Which data are hot.
    pub fn heat<N: Heat>(self, heat: N) -> Own<V, W, N, A, S> {
        let Own { name, text, victims, placement, admission, scheduling, error, .. } = self;
        Own { name, text, victims, placement, heat, admission, scheduling, error }
    }

    /// What goes past a pSLC cache.
    pub fn admission<N: CacheAdmission>(self, admission: N) -> Own<V, W, H, N, S> {
        let Own { name, text, victims, placement, heat, scheduling, error, .. } = self;
        Own { name, text, victims, placement, heat, admission, scheduling, error }
    }

    /// Whether a read or a program of a die goes first.
    pub fn scheduling<N: PlaneScheduling>(self, scheduling: N) -> Own<V, W, H, A, N> {
        let Own { name, text, victims, placement, heat, admission, error, .. } = self;
        Own { name, text, victims, placement, heat, admission, scheduling, error }
    }
}

impl<V, W, H, A, S> PolicySet for Own<V, W, H, A, S>
where
    V: VictimChoice,
    W: WritePlacement,
    H: Heat,
    A: CacheAdmission,
    S: PlaneScheduling,
{
    type Victims = V;
    type Placement = W;
    type Heat = H;
    type Admission = A;
    type Scheduling = S;

    fn victims(&mut self) -> &mut V {
        &mut self.victims
    }

    fn placement(&mut self) -> &mut W {
        &mut self.placement
    }

    fn heat(&mut self) -> &mut H {
        &mut self.heat
    }

    fn admission(&mut self) -> &mut A {
        &mut self.admission
    }

    fn scheduling(&mut self) -> &mut S {
        &mut self.scheduling
    }

    fn identity(&self) -> Option<Identity> {
        let parts = [
            (V::OWN, "victims"),
            (W::OWN, "placement"),
            (H::OWN, "heat"),
            (A::OWN, "admission"),
            (S::OWN, "scheduling"),
        ];
        let replaced = parts.into_iter().filter(|(own, _)| *own).map(|(_, name)| name);
        let replaced: Vec<&str> = replaced.collect();
        // FNV-1a, with a separator that is in no text.
        let texts = [self.name.as_str(), &self.text].into_iter().chain(replaced.iter().copied());
        let bytes = texts.flat_map(|text| text.bytes().chain([0xff]));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Some(Identity { name: self.name.clone(), hash, replaced })
    }

    #[cold]
    fn fail(&mut self, wrong: Wrong) {
        let policy = self.name.clone();
        let error = match wrong {
            Wrong::Victim { plane, block } => PolicyError::NotACandidate { policy, plane, block },
            Wrong::Placement { chosen, planes } => {
                PolicyError::NoSuchPlane { policy, chosen, planes }
            }
            Wrong::Failed(problem) => PolicyError::Failed { policy, problem },
        };
        self.error.get_or_insert(error);
    }

    #[inline]
    fn error(&self) -> Option<&PolicyError> {
        self.error.as_ref()
    }
}
