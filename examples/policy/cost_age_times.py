"""Cost-Age-Times (Chiang and Chang, Journal of Systems and Software 48(3), 1999) beside greedy
collection, under the same skewed writes. In Rust: crates/lab/examples/own_policy.rs.
"""

import time

import mynah

SMALL = {
    "geometry.channels": 2, "geometry.chips_per_channel": 1, "geometry.blocks_per_plane": 64,
    "geometry.pages_per_block": 64, "over_provisioning": "20%", "gc.reserve_blocks": 2,
    "gc.victim": "greedy", "cache.size": "4MiB",
}
WRITER = mynah.Flow("writer", rw="randwrite", bs="16k", iodepth=32, number_ios=800_000,
                    random_distribution="zoned:90/10:10/90")
calls, seconds = 0, 0.0


def cost_age_times(blocks):
    """The block with the least u / (1 - u), over its age, times its erases."""
    global calls, seconds
    began, units, best = time.perf_counter(), blocks.units_per_block, (float("inf"), None)
    most = blocks.most_valid
    for block, valid, erases, age in zip(blocks.block, blocks.valid, blocks.erases, blocks.age):
        if valid <= most:
            best = min(best, (valid / (units - valid) / (age + 1) * (erases + 1), block))
    calls, seconds = calls + 1, seconds + time.perf_counter() - began
    return best[1]


if __name__ == "__main__":
    writes = mynah.Simulation("mqsim", WRITER, set=SMALL, precondition="fill")
    own = mynah.Policies("cost-age-times", victims=cost_age_times, ages="filled")
    for name, policies in (("greedy", None), ("cost-age-times", own)):
        began = time.perf_counter()
        device = writes.run(policies=policies).device
        print(f"{name}: WAF {device.waf:.3f}, erases of a block {device.wear.erases_min} to "
              f"{device.block_erases_max}; {time.perf_counter() - began:.1f} s")
    print(f"{calls} calls, {seconds / calls * 1e6:.1f} us in each")
