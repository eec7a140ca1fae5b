#!/usr/bin/env python3
"""The benchmarks' short form: every work's first losses are PyTorch's, an odd one is reported, and other sections work.

    bench_short.py ACCEL_RUN BENCH_FOLDER

How long a step takes is measured, but nothing is asked of it.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

# Those of accel-run alone: the others want Python packages or programs that the tests do not build.
SECTIONS = ("steps", "start", "resume", "checkpoints", "logging")


def suite(bench, binary, folder, *words):
    command = [sys.executable, bench / "suite.py", binary, folder, "--short", *words]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def check(condition, done):
    if not condition:
        sys.exit(f"{done.args}: exit {done.returncode}\n{done.stdout}{done.stderr}")


def main():
    binary, bench = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    sys.path.insert(0, str(bench))
    import steps
    from works import WORKS

    for losses in ([1.0, 2.0, 3.1], [1.0, 2.0], [1.0, float("nan"), 3.0]):
        if steps.agrees(losses, [1.0, 2.0, 3.0], "bf16"):
            sys.exit(f"{losses} counts as [1, 2, 3]")
    with tempfile.TemporaryDirectory() as scratch:
        done = suite(bench, binary, scratch, "--sections", ",".join(SECTIONS))
        check(done.returncode == 0 and "VOID" not in done.stdout, done)
        print(done.stdout)
        found = json.loads((Path(scratch) / "bench.json").read_text())
        check(all(found[section] for section in SECTIONS), done)
        rows = found["steps"]["rows"]
        found = [(row["work"], row["precision"], row["threads"]) for row in rows]
        check(found == [(name, precision, 1) for precision in ("fp32", "bf16") for name in WORKS], done)
        check(len((Path(scratch) / "history.jsonl").read_text().splitlines()) == 1, done)
    with tempfile.TemporaryDirectory() as scratch:
        done = suite(bench, binary, scratch, "--sections", "stairs")
        check(done.returncode == 2 and "'stairs' is none of" in done.stderr, done)


if __name__ == "__main__":
    main()
