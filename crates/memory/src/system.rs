//! How much memory there is, and how much of it this process has had, as Linux says it (proc(5)).

/// The largest resident set of this process, in bytes; 0 where the system does not say.
pub fn max_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Memory that may still be used, in bytes; `None` where the system does not say.
pub fn available_bytes() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = |name: &str| {
        let rest = info.lines().find_map(|line| line.strip_prefix(name))?;
        rest.trim_end_matches("kB").trim().parse::<u64>().ok()
    };
    Some((line("MemAvailable:")? + line("SwapFree:").unwrap_or(0)) * 1024)
}
