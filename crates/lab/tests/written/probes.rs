//! What both drives are asked.

use crate::loads::trace;

/// A name, and a flow that ends.
pub(crate) fn all() -> Vec<(String, String)> {
    let mut all = vec![];
    for bs in [4, 8, 16, 32, 64, 128, 256] {
        for (depth, ios) in [(1, 1500), (32, 4000)] {
            let flow = format!("rw=randread bs={bs}k iodepth={depth} number_ios={ios}");
            all.push((format!("read {bs}k QD {depth}"), flow));
        }
    }
    let others = [
        ("read in order", "rw=read bs=128k iodepth=8 number_ios=2000"),
        ("write", "rw=randwrite bs=4k iodepth=32 number_ios=100000"),
        ("write in order", "rw=write bs=128k iodepth=8 number_ios=1500"),
        ("70/30", "rw=randrw rwmixread=70 bs=4k iodepth=16 number_ios=60000"),
    ];
    all.extend(others.map(|(name, flow)| (name.to_owned(), flow.to_owned())));
    all.push(("wsrch".to_owned(), trace("wsrch-part")));
    all.push(("tpcc".to_owned(), trace("tpcc-part") + " trace_repeat=10"));
    all
}
