//! Causes in words, and what to try. What is named there are options of `mynah` and keys of drive
//! files; tests hold that they exist (`every_key_exists` here, the command's tests for options).

use super::cause::Cause;
use mynah_profile::Side;

impl Cause {
    pub const ALL: [Cause; 19] = [
        Cause::Sessions,
        Cause::SendQueue,
        Cause::HostCore,
        Cause::Network,
        Cause::LinkLimit,
        Cause::Buffers,
        Cause::TargetCore,
        Cause::Lateness,
        Cause::Backlog,
        Cause::DriveLimit,
        Cause::MoreLoad,
        Cause::Neighbour,
        Cause::Background,
        Cause::SlowFlash,
        Cause::WriteCache,
        Cause::Mapping,
        Cause::DriveStage,
        Cause::Remote,
        Cause::Other,
    ];

    /// What is the matter, after the name of the place.
    pub fn sentence(self) -> &'static str {
        match self {
            Cause::Sessions => "there are too few queue entries for what arrives",
            Cause::SendQueue => "I/Os wait behind large transfers on their connection",
            Cause::HostCore => "the host's processor is the bottleneck",
            Cause::Network => "the network is the bottleneck",
            Cause::LinkLimit => "the link carries all that it can",
            Cause::Buffers => "write data wait to be asked for",
            Cause::TargetCore => "the target's processor is the bottleneck",
            Cause::Lateness => "the target was late though it had nothing else to do",
            Cause::Backlog => "answers wait until the host takes those before them",
            Cause::DriveLimit => "the drive does all that it can",
            Cause::MoreLoad => "more is asked for",
            Cause::Neighbour => "others ask of the drive what nobody did before",
            Cause::Background => "the drive has more work of its own, as of garbage collection",
            Cause::SlowFlash => "the flash itself takes longer",
            Cause::WriteCache => "writes wait for room in the write cache",
            Cause::Mapping => "entries of the mapping table have to be read from flash",
            Cause::DriveStage => "this stage of the drive takes longer",
            Cause::Remote => "something beyond the host takes longer",
            Cause::Other => "this stage takes longer",
        }
    }

    /// What to try, for one who looks from there.
    pub fn advice(self, side: Side) -> &'static [&'static str] {
        let simulated = side == Side::Simulation;
        match self {
            Cause::Sessions if simulated => {
                &["more queues (--numjobs), or more entries of each (--iodepth, queues.entries)"]
            }
            Cause::Sessions => &[
                "more queues, each with a connection (mynah bench --numjobs)",
                "more entries of each (mynah bench --iodepth, --queue-size)",
            ],
            Cause::SendQueue => {
                &["large I/Os on connections of their own: a job of its own has one (mynah bench \
                 --fio JOB.fio)"]
            }
            Cause::HostCore => &[
                "processors of its own for the load (mynah bench --cpus_allowed), or more of them \
                 (--numjobs)",
                "no digests, if there are any (mynah bench without --header-digest and \
                 --data-digest)",
            ],
            Cause::Network => {
                &["fewer bytes at once (mynah bench --iodepth, --bs), or another address of the \
                 target (mynah serve --tcp)"]
            }
            Cause::LinkLimit => &["a faster link, or less load (mynah bench --rate_iops)"],
            Cause::Buffers => &["fewer or smaller writes at once (mynah bench --iodepth, --bs)"],
            Cause::TargetCore => &[
                "more threads: parts of the drive on a thread each (mynah serve --shards)",
                "a processor of its own (mynah serve --cpus_allowed), and the load elsewhere \
                 (mynah bench --cpus_allowed)",
                "no digests, if there are any (mynah bench without --header-digest and \
                 --data-digest)",
            ],
            Cause::Lateness => &[
                "a target that never sleeps (mynah serve --poll always) on a processor of its own \
                 (--cpus_allowed)",
            ],
            Cause::Backlog => {
                &["a host that takes answers sooner: a processor of its own (mynah bench \
                 --cpus_allowed), more connections (--numjobs)"]
            }
            Cause::DriveLimit => {
                &["a drive that can do more, or less load (--rate_iops, --iodepth)"]
            }
            Cause::MoreLoad => &[
                "fewer I/Os at once (--iodepth), or fewer a second (--rate_iops)",
                "a drive with more dies (geometry.channels, geometry.chips_per_channel, \
                 geometry.dies_per_chip)",
            ],
            Cause::Neighbour => &[
                "less of the other load (its --rate_iops, --iodepth)",
                "a drive that divides its time between flows (scheduler.flin), or parts of it for \
                 each (mynah serve --shards)",
            ],
            Cause::Background => &[
                "more room to collect in (over_provisioning), or fewer writes (--rate_iops)",
                "programs and erases that make way for reads (scheduler.suspend_program, \
                 scheduler.suspend_erase)",
            ],
            Cause::SlowFlash => &[
                "the drive's flash and bus (flash.read, flash.program, bus.rate), and its faults \
                 ([[fault]])",
            ],
            Cause::WriteCache => {
                &["a larger write cache (cache.size), or fewer bytes at once (--iodepth, --bs)"]
            }
            Cause::Mapping => {
                &["a larger cached table (mapping.cmt.size), or I/Os in a smaller region (--size)"]
            }
            Cause::DriveStage => &[
                "more dies or channels where I/Os wait for them (geometry.channels, \
                 geometry.chips_per_channel, geometry.dies_per_chip)",
                "the drive's parts (firmware.cores, link.lanes, link.generation, \
                 queues.fetch_size, cache.dram.rate)",
            ],
            Cause::Remote => &["a profile of the target beside this one (mynah serve --profile)"],
            Cause::Other => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words such as `cache.size` in what is said.
    fn keys(text: &str) -> Vec<&str> {
        let word = |c: char| !(c.is_ascii_alphanumeric() || "._-/".contains(c));
        let dotted = |it: &&str| {
            it.split('.').count() > 1
                && it.split('.').all(|part| {
                    !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c == '_')
                })
        };
        text.split(word)
            .filter(dotted)
            .chain(text.contains("over_provisioning").then_some("over_provisioning"))
            .collect()
    }

    #[test]
    fn every_key_exists() {
        let schema = mynah_drive_file::json_schema();
        let mut seen = 0;
        for cause in Cause::ALL {
            for side in [Side::Simulation, Side::Target] {
                for key in cause.advice(side).iter().flat_map(|text| keys(text)) {
                    seen += 1;
                    assert!(has(&schema, key), "{cause:?}: drive files have no {key}");
                }
            }
        }
        assert!(seen > 20, "{seen}");
        assert!(!has(&schema, "cache.colour"));
    }

    fn has(schema: &serde_json::Value, key: &str) -> bool {
        let mut at = schema;
        for part in key.split('.') {
            at = resolve(schema, at);
            match at.get("properties").and_then(|of| of.get(part)) {
                Some(next) => at = next,
                None => return false,
            }
        }
        true
    }

    /// Behind references, and what may be left out.
    fn resolve<'a>(
        schema: &'a serde_json::Value,
        at: &'a serde_json::Value,
    ) -> &'a serde_json::Value {
        if let Some(path) = at.get("$ref").and_then(|it| it.as_str()) {
            let to = schema.pointer(path.trim_start_matches('#'));
            return resolve(schema, to.expect("a definition"));
        }
        let any = at.get("anyOf").and_then(|it| it.as_array()).into_iter().flatten();
        match any.map(|it| resolve(schema, it)).find(|it| it.get("properties").is_some()) {
            Some(of) => of,
            None => at,
        }
    }
}
