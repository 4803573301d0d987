//! What is found of drives whose truth is known: `cargo bench -p mynah-identify --bench score`.

#[path = "../tests/trial/drives.rs"]
mod drives;

use mynah_identify::{Limits, Outcome, Plan, SimulatedDrive, identify};
use mynah_stamp::Span;

fn main() {
    let mut names: Vec<(String, String)> = Vec::new();
    let args: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    for shipped in mynah_drive_file::shipped() {
        names.push((shipped.name.to_owned(), shipped.text.to_owned()));
    }
    for seed in drives::OPEN {
        names.push((format!("random-{seed}"), drives::random(seed)));
    }
    for (name, text) in names {
        if !args.is_empty() && !args.contains(&name) {
            continue;
        }
        let drive = mynah_drive_file::parse(&name, &text, &[]).expect("possible");
        let config = drive.config;
        let g = config.geometry;
        println!("== {name}: {} dies {} ch, {} planes, page {} unit {} read {:?}", g.dies(), g.channels, g.planes_per_die, g.page_bytes, config.mapping.unit_bytes, config.flash.read.in_order().map(|it| it.as_ps() as f64 * 1e-6));
        println!("   fw {} x {:?} cache {:?} {:?}", config.firmware.cores, config.firmware.read, config.cache.as_ref().map(|it| it.mode), config.placement);
        let begin = std::time::Instant::now();
        let mut subject = match SimulatedDrive::filled(config) { Ok(it) => it, Err(error) => { println!("   {error}"); continue } };
        let plan = Plan { limits: Limits { time: Span::from_secs(3600), written_bytes: 0 }, seed: 1 };
        let findings = identify(&mut subject, &mut (), &plan);
        for finding in &findings.findings {
            match &finding.outcome {
                Outcome::Found { value, .. } => println!("   {} = {value} ({})", finding.key, finding.evidence),
                Outcome::NotDetermined { because } => println!("   {} ? {because}", finding.key),
            }
        }
        println!("   {:?} {} requests, {:.3} s virtual, {:.2} s", findings.ended, findings.requests, findings.seconds, begin.elapsed().as_secs_f64());
    }
}
