//! By what the I/Os of a profile are told apart.

use mynah_profile::{Head, Header};
use std::fmt;
use std::str::FromStr;

/// Something by which I/Os are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Kind of I/O.
    Type,
    /// Bytes of data.
    Size,
    /// The connection, or the flow of a simulation.
    Session,
    Queue,
    Namespace,
}

impl Dimension {
    pub const ALL: [Dimension; 5] = [
        Dimension::Type,
        Dimension::Size,
        Dimension::Session,
        Dimension::Queue,
        Dimension::Namespace,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Dimension::Type => "type",
            Dimension::Size => "size",
            Dimension::Session => "session",
            Dimension::Queue => "queue",
            Dimension::Namespace => "namespace",
        }
    }

    /// An I/O's value in this dimension.
    fn of(self, head: &Head) -> u64 {
        match self {
            Dimension::Type => head.kind.into(),
            Dimension::Size => head.bytes.into(),
            Dimension::Session => head.connection.into(),
            Dimension::Queue => head.queue.into(),
            Dimension::Namespace => head.namespace.into(),
        }
    }

    /// A value of this dimension for people: a name where the header has one.
    pub(super) fn label(self, header: &Header, number: u64) -> String {
        let named = |names: &[String], what: &str| {
            let name = usize::try_from(number).ok().and_then(|at| names.get(at));
            name.cloned().unwrap_or_else(|| format!("{what} {number}"))
        };
        match self {
            Dimension::Type => named(&header.kinds, "kind"),
            Dimension::Size => mynah_drive_file::units::Bytes(number).to_string(),
            Dimension::Session => named(&header.sessions, "session"),
            Dimension::Queue => format!("queue {number}"),
            Dimension::Namespace => format!("namespace {number}"),
        }
    }
}

/// By which of them, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupBy(pub Vec<Dimension>);

impl Default for GroupBy {
    fn default() -> GroupBy {
        GroupBy(vec![Dimension::Type, Dimension::Size])
    }
}

impl GroupBy {
    /// Values of an I/O in all dimensions: the same for all of its group.
    pub(super) fn key(&self, head: &Head) -> Vec<u64> {
        self.0.iter().map(|dimension| dimension.of(head)).collect()
    }

    /// Name of the group with these values, its labels separated by spaces.
    pub(super) fn name(&self, header: &Header, key: &[u64]) -> String {
        self.labels(header, key).join(" ")
    }

    /// Labels of these values, dimension by dimension.
    pub(super) fn labels(&self, header: &Header, key: &[u64]) -> Vec<String> {
        if self.0.is_empty() {
            return vec!["all".to_owned()];
        }
        let both = self.0.iter().zip(key);
        both.map(|(dimension, &number)| dimension.label(header, number)).collect()
    }
}

/// There is no such dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDimension(String);

impl fmt::Display for UnknownDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Dimension::ALL.map(Dimension::name).join(", ");
        write!(f, "`{}` is none of {names}, or all for one group", self.0)
    }
}

impl std::error::Error for UnknownDimension {}

impl FromStr for GroupBy {
    type Err = UnknownDimension;

    fn from_str(text: &str) -> Result<GroupBy, UnknownDimension> {
        if text == "all" {
            return Ok(GroupBy(vec![]));
        }
        let of = |name: &str| {
            let found = Dimension::ALL.into_iter().find(|it| it.name() == name.trim());
            found.ok_or_else(|| UnknownDimension(name.to_owned()))
        };
        text.split(',').map(of).collect::<Result<_, _>>().map(GroupBy)
    }
}
