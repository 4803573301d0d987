//! Drives whose truth is known, and what is found of them.

#[path = "trial/drives.rs"]
mod drives;

#[test]
fn every_seed_gives_a_drive() {
    for seed in drives::OPEN.chain(drives::HELD_OUT) {
        let text = drives::random(seed);
        let drive = mynah_drive_file::parse("random drive", &text, &[]).expect("it is possible");
        assert_eq!(drive.name, format!("random-{seed}"));
        assert_eq!(drives::random(seed), text, "it is the same each time");
    }
}
