#!/usr/bin/env python3
"""Writes behind each job of counts.txt what fio does with it, in its null engine.

    tests/data/fio/counts.py tests/data/fio/counts.txt

A line is a job file, with spaces for ends of lines, and behind `=>` for each job the I/Os that read, write
and trim. Only the jobs are read of it.
"""

import json
import subprocess
import sys
import tempfile

NULL = "[global] ioengine=null"


def counts(jobs):
    text = "\n".join(f"{NULL} {jobs}".split()) + "\n"
    with tempfile.NamedTemporaryFile("w", suffix=".fio") as file:
        file.write(text)
        file.flush()
        command = ["fio", "--output-format=json", file.name]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    jobs = json.loads(printed[printed.index("{") :])["jobs"]
    kinds = ("read", "write", "trim")
    each = (" ".join(str(job[kind]["total_ios"]) for kind in kinds) for job in jobs)
    return ", ".join(each)


def main(path):
    with open(path) as file:
        lines = file.read().splitlines()
    out = []
    for line in lines:
        if line and not line.startswith("#"):
            jobs = line.split(" => ")[0].strip()
            line = f"{jobs} => {counts(jobs)}"
        out.append(line)
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n")


main(sys.argv[1])
