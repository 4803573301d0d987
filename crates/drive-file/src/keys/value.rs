//! Values of keys as people write them, and as the model has them.

use super::declare::{Declared, no_keys};
use crate::at::At;
use crate::check::Check;
use crate::units::{
    Bandwidth, BitRate, Bytes, Duration, Energy, Fraction, Frequency, Power, TransferRate,
};
use mynah_stamp::Span;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt::{self, Display};

/// A value as a drive file has it.
pub(crate) trait Value: Clone + PartialOrd + Display {
    /// Reads the text of a declaration.
    fn parse(text: &'static str) -> Self;
    /// As TOML writes it, quotes included.
    fn toml(&self) -> String;
    /// Notes what no key of this kind can be.
    fn check(_: &At<Self>, _: &mut Check<'_>) {}
}

/// A value that stands for an `M` of the model.
pub(crate) trait Models<M>: Value {
    /// The model's value, or the largest that the model can hold.
    fn into_model(self) -> Result<M, M>;
    fn from_model(model: &M) -> Self;
}

pub(crate) fn quoted(value: impl Display) -> String {
    toml::Value::String(value.to_string()).to_string()
}

/// A value that TOML has itself, or one with a unit, and the types that the model has for it.
macro_rules! value {
    ($type:ident, $toml:expr, $from:expr, $into:expr $(, $check:expr)?; $($model:ty)|+) => {
        impl Value for $type {
            fn parse(text: &'static str) -> $type {
                text.parse().unwrap_or_else(|_| panic!("a declaration says `{text}`"))
            }
            fn toml(&self) -> String {
                $toml(self)
            }
            $(
                fn check(at: &At<$type>, check: &mut Check<'_>) {
                    $check(at, check);
                }
            )?
        }
        no_keys!($type);
        $(
            impl Models<$model> for $type {
                #[allow(irrefutable_let_patterns, reason = "not every type is narrowed")]
                fn into_model(self) -> Result<$model, $model> {
                    $into(self).try_into().map_err(|_| <$model>::MAX)
                }
                fn from_model(model: &$model) -> $type {
                    $from((*model).into())
                }
            }
        )+
    };
}

/// A quantity: in quotes, and what it holds is the model's.
macro_rules! quantity {
    ($type:ident $(, $check:expr)?; $($model:ty)|+) => {
        value!($type, quoted, $type, |it: $type| it.0 $(, $check)?; $($model)|+);
    };
}

value!(u32, u32::to_string, |it| it, |it| it; u8 | u16 | u32);
value!(u64, u64::to_string, |it| it, |it| it; u64);
quantity!(Bytes; u32 | u64);
quantity!(TransferRate; u32);
quantity!(Bandwidth; u64);
quantity!(BitRate; u64);
quantity!(Frequency; u64);
quantity!(Energy; u64);
quantity!(Power; u64);
quantity!(Fraction; f64);
quantity!(Duration, |at: &At<Duration>, check: &mut Check<'_>| check.time(*at.get(), at.span()); Span);

impl Value for bool {
    fn parse(text: &'static str) -> bool {
        text.parse().unwrap_or_else(|_| panic!("a declaration says `{text}`"))
    }
    fn toml(&self) -> String {
        self.to_string()
    }
}
no_keys!(bool);

impl Models<bool> for bool {
    fn into_model(self) -> Result<bool, bool> {
        Ok(self)
    }
    fn from_model(model: &bool) -> bool {
        *model
    }
}

/// A width in bits, of which the model has the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct Width(pub(crate) u32);

impl Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Value for Width {
    fn parse(text: &'static str) -> Width {
        Width(u32::parse(text))
    }
    fn toml(&self) -> String {
        self.to_string()
    }
}
no_keys!(Width);

impl Models<u32> for Width {
    fn into_model(self) -> Result<u32, u32> {
        Ok((self.0 / 8).max(1))
    }
    fn from_model(bytes: &u32) -> Width {
        Width(bytes * 8)
    }
}

impl Check<'_> {
    /// The model's value of a key that is given, within its range.
    pub(super) fn value<T: Models<M>, M>(&mut self, at: &At<T>, declared: Declared) -> M {
        T::check(at, self);
        let value = at.get();
        let [least, most] = [declared.least, declared.most].map(|text| text.map(T::parse));
        let range = match (least, most) {
            (Some(least), Some(most)) if *value < least || *value > most => {
                Some(format!("from {least} to {most}"))
            }
            (Some(least), None) if *value < least => Some(format!("at least {least}")),
            _ => None,
        };
        let is_in_range = range.is_none();
        if let Some(range) = range {
            let message = format!("`{}` must be {range}, not {value}", self.key(at));
            self.wrong(message, at, "out of range", None);
        }
        value.clone().into_model().unwrap_or_else(|largest| {
            if is_in_range {
                let message = format!("`{}` must be less than 4GiB, not {value}", self.key(at));
                self.wrong(message, at, "too large", None);
            }
            largest
        })
    }
}
