//! What the command says: help, errors, plans. After a change on purpose,
//! `TRYCMD=overwrite cargo test -p mynah --test command snapshots` writes the files anew.

#[test]
fn what_the_command_says() {
    trycmd::TestCases::new().case("tests/cmd/*.md").env("COLUMNS", "100");
}
