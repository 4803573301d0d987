//! How often something happened, as the kernel counted it: the `hist` file of an event's trigger
//! with keys `ctrl_id,qid` (Linux: `Documentation/trace/histogram.rst`).

/// Most lines that are read: the kernel holds 2,048 by default.
const LINES_MAX: usize = 1 << 16;

/// How many events the kernel counted for one queue of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hits {
    /// The controller's instance.
    pub controller: u32,
    pub queue: u16,
    pub count: u64,
}

/// Reads the counts; `None` if there are none, or the kernel had no room for all.
pub fn hits(text: &str) -> Option<Vec<Hits>> {
    let mut all = vec![];
    let mut is_whole = false;
    for line in text.lines().take(LINES_MAX) {
        let line = line.trim();
        if let Some(dropped) = line.strip_prefix("Dropped:") {
            is_whole = dropped.trim() == "0";
        } else if let Some((keys, count)) = line.split_once('}') {
            let keys = keys.strip_prefix('{')?;
            let key = |name: &str| {
                let mut parts = keys.split(',').filter_map(|part| part.split_once(':'));
                parts.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
            };
            let count = count.split_once("hitcount:")?.1.split_whitespace().next()?;
            all.push(Hits {
                controller: key("ctrl_id")?.parse().ok()?,
                queue: key("qid")?.parse().ok()?,
                count: count.parse().ok()?,
            });
        }
    }
    is_whole.then_some(all)
}
