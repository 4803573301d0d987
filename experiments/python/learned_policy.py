"""A host that learns how many background writes it may keep outstanding.

Foreground reads come one at a time; the host wants nine in ten of them answered within a limit, and
as many background writes done as that allows. In rounds of a fixed time it chooses a depth for the
writes, sees what came of it, and remembers: an epsilon-greedy bandit over depths. Depths that do not
change are run beside it.

    python learned_policy.py --rounds 300
"""

from __future__ import annotations

import argparse
import random

import mynah

DEPTHS = (0, 1, 2, 4, 8, 16, 32)
READ = 4096
WRITE = 16384
DRIVE = mynah.Drive("mqsim", {"geometry.blocks_per_plane": 64, "over_provisioning": "30%"})


class Host:
    """The closed loop: one read at a time, and a given number of writes."""

    def __init__(self, seed: int) -> None:
        self.ssd = mynah.Stepper(DRIVE, {"fg": "urgent", "bg": "low"}, state="steady")
        self.places = random.Random(seed)
        self.writes_out = 0
        self.read()

    def somewhere(self, size: int) -> int:
        return self.places.randrange(self.ssd.capacity() // size) * size

    def read(self) -> None:
        self.ssd.submit("read", self.somewhere(READ), READ, flow="fg")

    def round(self, depth: int, time_ps: int) -> tuple[list[int], int]:
        """Lets a round go by: the latencies of its reads, and how many writes were done."""
        end = self.ssd.now_ps + time_ps
        latencies, written = [], 0
        while self.ssd.now_ps < end:
            while self.writes_out < depth:
                self.ssd.submit("write", self.somewhere(WRITE), WRITE, flow="bg")
                self.writes_out += 1
            done = self.ssd.step()
            assert done is not None
            if done.flow == "fg":
                latencies.append(done.latency_ps)
                self.read()
            else:
                self.writes_out -= 1
                written += 1
        return latencies, written


class Fixed:
    """Always the same depth."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.name = f"depth {depth}"

    def choose(self) -> int:
        return self.depth

    def learn(self, depth: int, reward: float) -> None:
        pass


class Learned:
    """The depth that has paid best, and now and then another."""

    name = "learned"

    def __init__(self, seed: int, explore: float = 0.1, rate: float = 0.2) -> None:
        self.chance = random.Random(seed)
        self.explore, self.rate = explore, rate
        # What was not tried promises most.
        self.worth = dict.fromkeys(DEPTHS, float("inf"))

    def choose(self) -> int:
        if self.chance.random() < self.explore:
            return self.chance.choice(DEPTHS)
        return max(DEPTHS, key=lambda depth: self.worth[depth])

    def learn(self, depth: int, reward: float) -> None:
        before = self.worth[depth]
        self.worth[depth] = reward if before == float("inf") else before + self.rate * (reward - before)


def share_late(latencies: list[int], limit_ps: int) -> float:
    return sum(latency > limit_ps for latency in latencies) / max(1, len(latencies))


def run(policy: Fixed | Learned, rounds: int, time_ps: int, limit_ps: int, seed: int) -> str:
    host = Host(seed)
    reads, written, kept = [], 0, 0
    for _ in range(rounds):
        depth = policy.choose()
        latencies, writes = host.round(depth, time_ps)
        held = share_late(latencies, limit_ps) <= 0.1
        # Writes count where the reads were served; where they were not, the round was lost.
        policy.learn(depth, float(writes) if held else -1.0)
        reads += latencies
        written += writes
        kept += held
    reads.sort()
    p90 = reads[len(reads) * 9 // 10] / 1e6
    seconds = host.ssd.now_ps / 1e12
    return (f"{policy.name:10} {kept / rounds:6.0%} of rounds in time, reads p90 {p90:8.1f} us, "
            f"{written * WRITE / seconds / 2**20:7.1f} MiB/s written")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=300)
    options.add_argument("--round-us", type=int, default=5_000)
    options.add_argument("--limit-us", type=int, default=400, help="what a read may take")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    for policy in [*map(Fixed, DEPTHS), Learned(given.seed)]:
        print(run(policy, given.rounds, given.round_us * 10**6, given.limit_us * 10**6, given.seed))


if __name__ == "__main__":
    main()
