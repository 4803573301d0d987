//! Kinds of I/O, by the numbers that profiles of hosts and targets have for them. The first are the
//! kinds of results, in their order, which a test of mynah-analysis checks.

/// What is none of the kinds that results have: the last number.
pub const OTHER_KIND: &str = "other";

/// Names of the kinds; a record's kind is an index of this.
const IO_KINDS: [&str; 11] = [
    "read", "write", "trim", "flush", "store", "update", "retrieve", "delete", "exist", "list",
    OTHER_KIND,
];

pub(crate) const READ: u8 = 0;
pub(crate) const WRITE: u8 = 1;
pub(crate) const TRIM: u8 = 2;
pub(crate) const FLUSH: u8 = 3;
pub(crate) const OTHER: u8 = IO_KINDS.len() as u8 - 1;

/// Kinds of I/O, by the numbers that profiles of hosts and targets have for them.
pub fn io_kinds() -> Vec<String> {
    IO_KINDS.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_names() {
        let numbers = [READ, WRITE, TRIM, FLUSH, OTHER];
        let names = numbers.map(|number| IO_KINDS[usize::from(number)]);
        assert_eq!(names, ["read", "write", "trim", "flush", OTHER_KIND]);
    }
}
