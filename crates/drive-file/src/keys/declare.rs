//! How a key of a drive file is declared: once.
//!
//! A section is a `section!` of its keys. Each says, in one place, what it is (its documentation is
//! the reference's), its type and unit, its default and range as people would write them, when it
//! has an effect, and which field of the model it sets. From that follow the type that is read, the
//! JSON Schema and the reference, the checks and their messages, the model's configuration, the
//! settings that `show` prints and hashes are made of, and what is refused since it would change
//! nothing.
//!
//! ```text
//! section! {
//!     /// Submission and completion queues.
//!     Queues => model::Queues {
//!         /// Entries in each submission and completion queue.
//!         entries: Maybe<u32> = "1024", in "2" to "65536", is entries;
//!         /// Commands of high priority in a round.
//!         high_weight: Maybe<u32> = "4", in "1" to "256", when WEIGHTED,
//!             shows |queues, _| weights(queues).map(|it| it.high);
//!     }
//!     with |queues, check, _file| { arbitration: queues.arbitration(check) }
//! }
//! ```
//!
//! - `At<T>` has to be there. `Maybe<T>` with a default is always something; without one it is an
//!   `Option` of the model.
//! - `when NEED`: the [`Need`]s of a key. Where one does not hold the key is not shown, and refused
//!   if it is given, unless an override has taken its effect; then it is as if it were not there.
//!   `when NEED if PREDICATE` refuses only values of which the predicate holds.
//! - `is FIELD`: the field of the model that it sets and is shown from.
//! - `shows CLOSURE` gives the model's value, if the drive has the key; `writes CLOSURE` its text;
//!   `inner CLOSURE` the model of a section within. Each is given the drive's whole
//!   configuration as well.
//! - `shapes Never` or `shapes Paced`, of a key, or of a section after its model: see [`Shapes`].
//! - `with` has the fields of the model that take more than one key; the method `lower` gives all.
//! - `key as "text"` is called otherwise in files.

use super::File;
use super::value::{Models, Value};
use crate::at::At;
use crate::check::Check;
use crate::document::Document;
use mynah_model::config::Config;
use std::ops::Range;

/// What must hold for a key to have an effect.
pub(crate) struct Need {
    /// Whether it holds for a drive.
    pub(crate) holds: fn(&Config) -> bool,
    /// What of a file may be the reason that it does not.
    pub(crate) cause: fn(&File) -> Option<Range<usize>>,
    /// Why the key has no effect where it does not hold, after a colon.
    pub(crate) why: &'static str,
    /// What to do about it.
    pub(crate) help: &'static str,
}

/// All that has to hold for a key.
pub(crate) type Needs = &'static [&'static Need];

/// Whether the state that a drive is prepared into (filled, or computed as steady) depends on a key. What
/// does not is shared by drives that differ in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shapes {
    #[default]
    Always,
    /// In a steady state of which it is known how fast it is written: the times of the flash and its bus
    /// say how much of the time a plane collects then.
    Paced,
    /// It says how long something takes, or in which order; what is where does not follow from it.
    Never,
}

/// The texts of a key's declaration.
#[derive(Clone, Copy)]
pub(crate) struct Declared {
    pub(crate) default: Option<&'static str>,
    pub(crate) least: Option<&'static str>,
    /// Not without `least`.
    pub(crate) most: Option<&'static str>,
}

/// A key with a default, where a field of a section's type is read.
pub(crate) struct Defaulted;
/// A key without one.
pub(crate) struct Bare;

/// The field of a section for a key, read as an `M` of the model. `Kind` is [`Defaulted`] or
/// [`Bare`].
pub(crate) trait Key<M, Kind> {
    /// The model's value; what is wrong with it is noted.
    fn read(&self, check: &mut Check<'_>, declared: Declared) -> M;
    /// The value as drive files have it, if the drive has the key.
    fn text(model: &M) -> Option<String>;
}

impl<T: Models<M>, M> Key<M, Bare> for At<T> {
    fn read(&self, check: &mut Check<'_>, declared: Declared) -> M {
        check.value(self, declared)
    }
    fn text(model: &M) -> Option<String> {
        Some(T::from_model(model).toml())
    }
}

impl<T: Models<M>, M> Key<Option<M>, Bare> for Option<At<T>> {
    fn read(&self, check: &mut Check<'_>, declared: Declared) -> Option<M> {
        self.as_ref().map(|at| check.value(at, declared))
    }
    fn text(model: &Option<M>) -> Option<String> {
        model.as_ref().map(|model| T::from_model(model).toml())
    }
}

impl<T: Models<M>, M> Key<M, Defaulted> for Option<At<T>> {
    fn read(&self, check: &mut Check<'_>, declared: Declared) -> M {
        match self {
            Some(at) => check.value(at, declared),
            None => {
                let text = declared.default.expect("the key has a default");
                T::parse(text).into_model().unwrap_or_else(|largest| largest)
            }
        }
    }
    fn text(model: &M) -> Option<String> {
        Some(T::from_model(model).toml())
    }
}

/// A field of a section: a value, a section within, or a list of either.
pub(crate) trait Field {
    /// What it holds.
    type Inner;
    /// Where it was written.
    fn place(&self) -> Option<Range<usize>>;
    fn inner(&self) -> Option<&Self::Inner>;
    /// Calls `visit` with each section within.
    fn each_inner(&mut self, visit: &mut dyn FnMut(&mut Self::Inner));
    /// Makes the file as if it were not there.
    fn clear(&mut self);
}

impl<T> Field for At<T> {
    type Inner = T;
    fn place(&self) -> Option<Range<usize>> {
        Some(self.span())
    }
    fn inner(&self) -> Option<&T> {
        Some(self.get())
    }
    fn each_inner(&mut self, visit: &mut dyn FnMut(&mut T)) {
        visit(self.get_mut());
    }
    fn clear(&mut self) {
        unreachable!("what has to be there always has an effect");
    }
}

impl<T> Field for Option<At<T>> {
    type Inner = T;
    fn place(&self) -> Option<Range<usize>> {
        self.as_ref().map(At::span)
    }
    fn inner(&self) -> Option<&T> {
        self.as_ref().map(At::get)
    }
    fn each_inner(&mut self, visit: &mut dyn FnMut(&mut T)) {
        if let Some(at) = self {
            visit(at.get_mut());
        }
    }
    fn clear(&mut self) {
        *self = None;
    }
}

impl<T> Field for Vec<At<T>> {
    type Inner = T;
    fn place(&self) -> Option<Range<usize>> {
        self.first().map(At::span)
    }
    fn inner(&self) -> Option<&T> {
        self.first().map(At::get)
    }
    fn each_inner(&mut self, visit: &mut dyn FnMut(&mut T)) {
        for at in self {
            visit(at.get_mut());
        }
    }
    fn clear(&mut self) {
        Vec::clear(self);
    }
}

/// What a field may hold.
pub(crate) trait Part {
    /// Calls `visit` with each key within.
    fn keys(&mut self, visit: &mut dyn FnMut(&mut dyn Given, Needs));
}

/// A key that may be given.
pub(crate) trait Given {
    fn place(&self) -> Option<Range<usize>>;
    fn clear(&mut self);
    /// Calls `visit` with each key of the sections within.
    fn keys(&mut self, visit: &mut dyn FnMut(&mut dyn Given, Needs));
}

impl<F: Field<Inner: Part>> Given for F {
    fn place(&self) -> Option<Range<usize>> {
        Field::place(self)
    }
    fn clear(&mut self) {
        Field::clear(self);
    }
    fn keys(&mut self, visit: &mut dyn FnMut(&mut dyn Given, Needs)) {
        self.each_inner(&mut |inner| inner.keys(visit));
    }
}

/// A section of which the model has a part.
pub(crate) trait Section {
    type Model;
    /// Of the keys that do not say it themselves.
    const SHAPES: Shapes;
    /// Writes the keys of `model`, each after `prefix`.
    fn show(model: &Self::Model, prefix: &str, config: &Config, out: &mut Settings);
}

/// A key of a drive file and its value as TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Dotted path; elements of arrays are numbered.
    pub(crate) path: String,
    /// As TOML writes it, quotes included.
    pub(crate) value: String,
    pub(crate) shapes: Shapes,
}

/// Settings, in the order of a drive file.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) list: Vec<Setting>,
    /// Of the next one.
    pub(crate) shapes: Shapes,
}

impl Settings {
    pub(crate) fn put(&mut self, path: impl Into<String>, value: String) {
        let shapes = std::mem::take(&mut self.shapes);
        self.list.push(Setting { path: path.into(), value, shapes });
    }
}

/// The text of what a closure takes from the model.
pub(crate) fn shown<F, S, M>(
    model: &S,
    config: &Config,
    value: impl Fn(&S, &Config) -> Option<M>,
) -> Option<String>
where
    F: Field<Inner: Models<M>>,
{
    Some(F::Inner::from_model(&value(model, config)?).toml())
}

/// As [`shown`], where the closure gives the text.
pub(crate) fn written<S>(
    model: &S,
    config: &Config,
    text: impl Fn(&S, &Config) -> Option<String>,
) -> Option<String> {
    text(model, config)
}

/// Shows the section within that a closure takes from the model.
pub(crate) fn show_inner<F, S>(
    model: &S,
    value: impl for<'a> Fn(&'a S, &'a Config) -> Option<&'a <F::Inner as Section>::Model>,
    prefix: &str,
    config: &Config,
    out: &mut Settings,
) where
    F: Field<Inner: Section>,
{
    if let Some(inner) = value(model, config) {
        F::Inner::show(inner, prefix, config, out);
    }
}

/// Keys of `file` that have no effect on the drive that it describes: they are taken out. Gives the
/// place and need of those that nothing above them has taken the effect of.
pub(crate) fn take_without_effect(
    document: &Document<'_>,
    file: &mut File,
    config: &Config,
) -> (bool, Vec<(Range<usize>, &'static Need)>) {
    let causes = file.clone();
    let (mut taken, mut refused) = (false, vec![]);
    let layer = |span: &Range<usize>| document.layer(span);
    take(file, &[], &mut |given, needs| {
        let Some(need) = needs.iter().find(|need| !(need.holds)(config)) else { return false };
        let Some(place) = latest(given, &layer) else { return false };
        taken = true;
        let is_later = |cause: Range<usize>| layer(&cause) > layer(&place);
        if !(need.cause)(&causes).is_some_and(is_later) {
            refused.push((place, *need));
        }
        true
    });
    (taken, refused)
}

/// Takes out the keys of which `is_idle` says so.
fn take(
    given: &mut dyn Given,
    needs: Needs,
    is_idle: &mut dyn FnMut(&mut dyn Given, Needs) -> bool,
) {
    if is_idle(given, needs) {
        given.clear();
    } else {
        given.keys(&mut |inner, needs| take(inner, needs, is_idle));
    }
}

/// Where a key was written, or what of its section was written after the rest of it.
fn latest(given: &mut dyn Given, layer: &dyn Fn(&Range<usize>) -> usize) -> Option<Range<usize>> {
    let mut place = given.place()?;
    given.keys(&mut |inner, _| {
        if let Some(inner) = latest(inner, layer).filter(|inner| layer(inner) > layer(&place)) {
            place = inner;
        }
    });
    Some(place)
}

/// Declares a section; see the module.
macro_rules! section {
    (
        $(#[$meta:meta])*
        $name:ident $(=> $model:ty)? $(, shapes $of_all:ident)? {
            $(
                $(#[$about:meta])*
                $key:ident $(as $text:literal)? : $type:ty
                $(= $default:literal)?
                $(, in $least:literal $(to $most:literal)?)?
                $(, shapes $shapes:ident)?
                $(, when $($need:ident)|+ $(if $matters:expr)?)?
                $(, is $field:ident)?
                $(, shows $shows:expr)?
                $(, writes $writes:expr)?
                $(, inner $inner:expr)?
                ;
            )+
        }
        $(with |$section:ident, $check:ident, $file:ident| { $($rest:tt)* })?
    ) => {
        #[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
        $(#[$meta])*
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            $(
                $(#[$about])*
                $(#[doc = $crate::keys::section!(@range $least $($most)?)])?
                $(#[doc = concat!("Default: ", $default, ".")])?
                $(#[serde(rename = $text)])?
                pub(crate) $key: $type,
            )+
        }

        #[allow(dead_code, reason = "not every key is read by itself")]
        impl $name {
            $(
                pub(crate) fn $key<M>(&self, check: &mut $crate::check::Check<'_>) -> M
                where
                    $type: $crate::keys::declare::Key<M, $crate::keys::section!(@kind $($default)?)>,
                {
                    let declared = $crate::keys::declare::Declared {
                        default: $crate::keys::section!(@text $($default)?),
                        least: $crate::keys::section!(@text $($least)?),
                        most: $crate::keys::section!(@text $($($most)?)?),
                    };
                    $crate::keys::declare::Key::read(&self.$key, check, declared)
                }
            )+
        }

        impl $crate::keys::declare::Field for $name {
            type Inner = $name;
            fn place(&self) -> Option<std::ops::Range<usize>> {
                None
            }
            fn inner(&self) -> Option<&$name> {
                Some(self)
            }
            fn each_inner(&mut self, visit: &mut dyn FnMut(&mut $name)) {
                visit(self);
            }
            fn clear(&mut self) {}
        }

        impl $crate::keys::declare::Part for $name {
            fn keys(
                &mut self,
                visit: &mut dyn FnMut(&mut dyn $crate::keys::declare::Given, $crate::keys::declare::Needs),
            ) {
                $(
                    #[allow(unused_mut, unused_assignments, reason = "few keys have needs")]
                    {
                        let mut needs: $crate::keys::declare::Needs = &[];
                        $(
                            static NEEDS: $crate::keys::declare::Needs = &[$(&$need),+];
                            needs = NEEDS;
                            $(
                                let given = $crate::keys::declare::Field::inner(&self.$key);
                                if !given.is_none_or($matters) {
                                    needs = &[];
                                }
                            )?
                        )?
                        visit(&mut self.$key, needs);
                    }
                )+
            }
        }

        $crate::keys::section! { @section [$($model)?] [$($of_all)?] $name
            $({
                $key, $type, [$($text)?], [$($shapes)?] [$($default)?],
                [[$($($need)+)?] [$($($matters)?)?]],
                [$(is $field)? $(shows $shows)? $(writes $writes)? $(inner $inner)?]
            })+
        }

        $crate::keys::section! { @lower [$($section, $check, $file, { $($rest)* })?] $name
            $({ $key, [$($field)?] })+
        }
    };

    (@section [] [] $name:ident $($keys:tt)+) => {};
    (@section [$model:ty] [$($shapes:ident)?] $name:ident $($keys:tt)+) => {
        impl $crate::keys::declare::Section for $name {
            type Model = $model;
            const SHAPES: $crate::keys::declare::Shapes =
                $crate::keys::section!(@shapes $($shapes)?);
            #[allow(unused_variables, reason = "a section may have no values of its own")]
            fn show(
                model: &$model,
                prefix: &str,
                config: &mynah_model::config::Config,
                out: &mut $crate::keys::declare::Settings,
            ) {
                $crate::keys::section! { @show model prefix config out $($keys)+ }
            }
        }
    };

    (@lower [] $name:ident $($keys:tt)+) => {};
    (@lower [$section:ident, $check:ident, $file:ident, { $($rest:tt)* }] $name:ident
        $({ $key:ident, [$($field:ident)?] })+
    ) => {
        impl $name {
            pub(crate) fn lower(
                &self,
                $check: &mut $crate::check::Check<'_>,
                $file: &$crate::keys::File,
            ) -> <$name as $crate::keys::declare::Section>::Model {
                type Model = <$name as $crate::keys::declare::Section>::Model;
                let $section = self;
                Model { $($($field: $section.$key($check),)?)+ $($rest)* }
            }
        }
    };

    (@shapes) => { $crate::keys::declare::Shapes::Always };
    (@shapes $shapes:ident) => { $crate::keys::declare::Shapes::$shapes };
    (@of_key) => { Self::SHAPES };
    (@of_key $shapes:ident) => { $crate::keys::declare::Shapes::$shapes };
    (@kind) => { $crate::keys::declare::Bare };
    (@kind $default:literal) => { $crate::keys::declare::Defaulted };
    (@text) => { None };
    (@text $text:literal) => { Some($text) };
    (@range $least:literal) => { concat!("At least ", $least, ".") };
    (@range $least:literal $most:literal) => { concat!("From ", $least, " to ", $most, ".") };
    (@name $key:ident) => { stringify!($key) };
    (@name $key:ident $text:literal) => { $text };

    (@holds $config:ident [$($need:ident)*] []) => { true $(&& ($need.holds)($config))* };
    (@holds $config:ident [$($need:ident)*] [$matters:expr]) => { true };

    (@show $model:ident $prefix:ident $config:ident $out:ident
        $({
            $key:ident, $type:ty, [$($text:literal)?], [$($shapes:ident)?] [$($default:literal)?],
            [$($needs:tt)*], [$($what:tt)*]
        })+
    ) => {
        $(
            if $crate::keys::section!(@holds $config $($needs)*) {
                let name = $crate::keys::section!(@name $key $($text)?);
                let path = format!("{}.{name}", $prefix);
                $out.shapes = $crate::keys::section!(@of_key $($shapes)?);
                $crate::keys::section! {
                    @value $model $config $out path $type, [$($default)?], $($what)*
                }
            }
        )+
    };
    (@value $model:ident $config:ident $out:ident $path:ident $type:ty, [$($default:literal)?], ) => {
        let _ = $path;
    };
    (@value $model:ident $config:ident $out:ident $path:ident $type:ty, [$($default:literal)?],
        is $field:ident
    ) => {
        type Kind = $crate::keys::section!(@kind $($default)?);
        if let Some(value) = <$type as $crate::keys::declare::Key<_, Kind>>::text(&$model.$field) {
            $out.put($path, value);
        }
    };
    (@value $model:ident $config:ident $out:ident $path:ident $type:ty, [$($default:literal)?],
        shows $value:expr
    ) => {
        if let Some(value) = $crate::keys::declare::shown::<$type, _, _>($model, $config, $value) {
            $out.put($path, value);
        }
    };
    (@value $model:ident $config:ident $out:ident $path:ident $type:ty, [$($default:literal)?],
        writes $value:expr
    ) => {
        if let Some(value) = $crate::keys::declare::written($model, $config, $value) {
            $out.put($path, value);
        }
    };
    (@value $model:ident $config:ident $out:ident $path:ident $type:ty, [$($default:literal)?],
        inner $value:expr
    ) => {
        $crate::keys::declare::show_inner::<$type, _>($model, $value, &$path, $config, $out);
    };
}
pub(crate) use section;

/// Types of fields that hold no keys.
macro_rules! no_keys {
    ($($type:ty),+ $(,)?) => { $(
        impl $crate::keys::declare::Part for $type {
            fn keys(
                &mut self,
                _: &mut dyn FnMut(&mut dyn $crate::keys::declare::Given, $crate::keys::declare::Needs),
            ) {
            }
        }
    )+ };
}
pub(crate) use no_keys;
