"""What became of the guest's scenarios, over as many boots as it took.

It knows nothing of QEMU: it reads what a guest says (`Reader`), decides what runs in the next boot (`run_all`) and
counts (`report`). tests/guest/self-test tries it without a guest.
"""
import re
import sys

# So often is done again what QEMU did not get through, or what did not even begin.
CRASHES_MAX = 2
# So often a scenario may have its guest killed.
KILLS_MAX = 8


class NoGuest(Exception):
    """No boot came to a scenario."""


class Part:
    """What one boot has said of a scenario."""

    def __init__(self, name, began_s):
        # `status` is known if the scenario has come to its end in this boot.
        self.name, self.began_s, self.ended_s, self.status, self.lines = name, began_s, began_s, None, []


class Reader:
    """Takes the output of a boot apart as it comes: a line with a scenario's name, its checks, and a line
    `  (N s)` or `  (N s, status N)` when it ends."""

    END = re.compile(r"  \((\d+) s(?:, status (\d+))?\)$")

    def __init__(self, names, now_s):
        self.names, self.parts, self.rest, self.moved_s = set(names), [], "", now_s

    def take(self, text, now_s):
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            under_way = self.under_way()
            if line in self.names and not under_way:
                self.parts.append(Part(line, now_s))
                self.moved_s = now_s
            elif under_way:
                under_way.lines.append(line)
                if end := self.END.match(line):
                    under_way.ended_s, under_way.status = now_s, int(end[2] or 0)
                    self.moved_s = now_s

    def end(self, now_s):
        """The boot is over: what was not a whole line becomes one."""
        if self.rest:
            self.take("\n", now_s)
        if under_way := self.under_way():
            under_way.ended_s = now_s

    def under_way(self):
        """The scenario that has begun and not come to its end."""
        return self.parts[-1] if self.parts and self.parts[-1].status is None else None

    def stands_still(self, now_s, bound_s, pause_s):
        """Why the boot has to be ended: a scenario takes longer than it may, or between two of them (also before the
        first and after the last) nothing happens."""
        under_way, for_s = self.under_way(), now_s - self.moved_s
        if under_way and for_s > bound_s(under_way.name):
            return f"it took more than {bound_s(under_way.name)} s"
        if not under_way and for_s > pause_s:
            return f"nothing came for {pause_s} s"
        return None


class Attempt:
    """A scenario from its start to its end; of several parts if its guest was killed on purpose."""

    def __init__(self, name):
        self.name, self.seconds, self.passed, self.failed, self.skipped = name, 0, 0, [], []

    def add(self, part):
        self.seconds += part.ended_s - part.began_s
        open_check = False
        for line in part.lines:
            # What was seen follows a check that failed.
            if line.startswith("      ") and open_check:
                self.failed[-1] += f"\n{line}"
                continue
            open_check = line.startswith("  NOT OK ")
            if open_check:
                self.failed.append(line[2:])
            elif line.startswith("  ok "):
                self.passed += 1
            elif line.startswith("  skipped "):
                self.skipped.append(line[2:])
        if part.status and not self.failed:
            self.failed.append(f"NOT OK it ended with status {part.status}, and named no check")
        if part.status == 0 and not (self.passed or self.failed or self.skipped):
            self.failed.append("NOT OK it checks something")

    def broke_off(self, why):
        self.failed.append(f"NOT OK it comes to its end: {why}")

    def checks(self):
        return self.passed + len(self.failed)

    def said(self):
        """Its failed checks with what was seen, as lines."""
        return "".join(f"\n    {line}" for text in self.failed for line in text.split("\n"))


class End:
    """How a boot ended. `why` is a text for people; `crash` is true if QEMU broke, which is not what is tested, and
    `killed` the scenario that wanted its guest killed, which goes on in the next boot."""

    def __init__(self, why, crash=False, killed=None):
        self.why, self.crash, self.killed = why, crash, killed


def run_once(names, boot, say):
    """Runs each scenario once, in as many boots as that takes; an attempt each. `boot(names, fresh)` boots a guest for
    these scenarios and returns its Reader and its End; `fresh` is false where it goes on with what a boot before
    has left."""
    attempts, left, crashes, kills, fresh = {}, list(names), 0, 0, True
    while left:
        reader, end = boot(left, fresh)
        for part in reader.parts:
            attempts.setdefault(part.name, Attempt(part.name)).add(part)
        left = left[sum(part.status is not None for part in reader.parts):]
        under_way = reader.under_way()
        fresh = not (end.killed and under_way and under_way.name == end.killed and kills < KILLS_MAX)
        kills = 0 if fresh else kills + 1
        if not left or not fresh:
            continue
        failed_before = left[0] in attempts and attempts[left[0]].failed
        if (end.crash or not reader.parts) and crashes < CRASHES_MAX and not failed_before:
            # QEMU is not what is tested here, and that of a moving suite is young. What failed before it crashed is.
            crashes += 1
            attempts.pop(left[0], None)
            say(f"{left[0]} again, since {end.why}")
        elif not reader.parts and not attempts:
            raise NoGuest(end.why)
        else:
            attempts.setdefault(left[0], Attempt(left[0])).broke_off(end.why)
            left.pop(0)
    return attempts


def run_all(names, boot, say):
    """Runs the scenarios, and those that failed once more in a fresh boot. The attempts at each, in their order."""
    tried = {name: [attempt] for name, attempt in run_once(names, boot, say).items()}
    again = [name for name in names if tried[name][-1].failed]
    if again:
        say(f"once more, in a fresh boot: {' '.join(again)}")
        try:
            for name, attempt in run_once(again, boot, say).items():
                if not attempt.passed and not attempt.failed:
                    attempt.failed.append("NOT OK it checks what failed at first: it skipped it")
                tried[name].append(attempt)
        except NoGuest as error:
            say(f"there was no fresh boot: {error}")
    return tried


def counted(attempt):
    return f"{len(attempt.failed)} of {attempt.checks()} checks"


def verdict(attempts):
    """What is to be said of a scenario that did not pass at once."""
    first, last = attempts[0], attempts[-1]
    if not first.failed:
        return ""
    if len(attempts) == 1:
        return f"failed ({counted(first)})"
    if not last.failed:
        return f"failed at first ({counted(first)}), passed in a fresh boot"
    return f"failed at first ({counted(first)}), and in a fresh boot ({counted(last)})"


def report(tried, note="", out=sys.stdout):
    """Prints what became of each scenario, then the line that scripts read; whether all passed. Each scenario counts by
    its last attempt."""
    passed = failed = skipped = 0
    print(f"{'scenario':<16} {'checks':>6} {'failed':>6} {'skipped':>7} {'seconds':>7}", file=out)
    for name, attempts in tried.items():
        last = attempts[-1]
        passed, failed, skipped = passed + last.passed, failed + len(last.failed), skipped + len(last.skipped)
        seconds = " + ".join(f"{attempt.seconds:.0f}" for attempt in attempts)
        print(f"{name:<16} {last.checks():>6} {len(last.failed):>6} {len(last.skipped):>7} {seconds:>7}  "
              f"{verdict(attempts)}".rstrip(), file=out)
    for name, attempts in tried.items():
        if verdict(attempts):
            print(f"{name}: {verdict(attempts)}", file=out)
        for boot, attempt in zip(("at first", "in a fresh boot"), attempts):
            if attempt.failed:
                print(f"  {boot}:{attempt.said()}", file=out)
    print(f"{len(tried)} scenarios{note}", file=out)
    print(f"{passed} passed, {failed} failed, {skipped} skipped", file=out, flush=True)
    return passed > 0 and failed == 0
