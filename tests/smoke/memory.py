#!/usr/bin/env python3
"""The memory of a small training job: nearly all of it is libtorch's.   memory.py ACCEL_RUN

A program of libtorch alone that trains one linear layer has 121 MiB, 58 of them anonymous. Bounds in MiB;
docs/performance.md says what the memory consists of.
"""

import os
import pathlib
import subprocess
import sys
import time

import runs

MOST = 96       # with pages of files; 104 with inferred schemas, 143 with pages of loading and start too
MOST_ANON = 51  # 52.6 with what removes kernels and names their sources, 63 with inferred schemas too


def anonymous(pid):
    """Resident anonymous memory in MiB; 0 when the process is gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1]) as scratch:
        words = ["job.yaml", "train.until=400 steps", "eval.every=never", "checkpoint={every: never, at_end: false}"]
        process = subprocess.Popen([scratch.binary, *words], cwd=scratch.path, env=runs.ENVIRONMENT,
                                   stdout=subprocess.DEVNULL)
        most = 0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            most = max(most, anonymous(process.pid))
            time.sleep(0.002)
        process.returncode = os.waitstatus_to_exitcode(status)
        peak = usage.ru_maxrss / 1024
        report.check("the job ends well", process.returncode == 0, f"exit {process.returncode}")
        report.check(f"the peak is {peak:.1f} MiB", peak <= MOST, f"more than {MOST}")
        report.check(f"anonymous memory is {most:.1f} MiB", 0 < most <= MOST_ANON, f"more than {MOST_ANON}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
