#!/usr/bin/env python3
"""Lets the file calls of a run fail, or kills it at them, one call at a time.

    syscalls.py ACCEL_RUN [EVERY]

A run with two checkpoints is taken up for its last step, which it saves while it rotates the oldest
out. strace makes one call that touches the run folder fail, in each way a call can, or the process
die at it. Then every checkpoint is whole and the newest is there, the error named a path and the
system's reason and the exit code was 7 (4 when it was a checkpoint that could not be read), and the
next life ends as a run that nothing happened to.
EVERY 1 tries all pairs of a call and a mishap, in some minutes; without it every 97th.
"""

import collections
import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time

import runs

SYSCALLS = ("openat", "read", "pread64", "write", "pwrite64", "fsync", "close", "ftruncate", "rename", "mkdir",
            "unlink", "unlinkat", "rmdir", "flock", "statfs", "getdents64", "mmap")
MISHAPS = {name: f"error={name}" for name in ("ENOSPC", "EIO", "EDQUOT", "EROFS", "EMFILE", "EINTR")}
MISHAPS["SIGKILL"] = "signal=SIGKILL"
# The name of a file that is written before it is renamed has the process id: strace cannot find it in another run.
OF_ONE_PROCESS = re.compile(r"\.\d+\.new$")
# In training's way, so that calls come in the same order each time.
RECIPE = runs.JOB.replace("until: 24 steps", "until: 3 steps").replace("keep:", "async: false, keep:")


def traced(scratch, *options):
    """A life of the job under strace: (exit code, standard error)."""
    command = ["strace", "-f", "-y", *options, scratch.binary, "job.yaml"]
    done = subprocess.run(command, cwd=scratch.path, env=runs.ENVIRONMENT, capture_output=True, text=True)
    return done.returncode, done.stderr


def calls_of(scratch):
    """(name, path, number, text) of each call on the run folder, the number counting as strace's `-P path` does:
    by thread, the calls of that name on that path."""
    log = scratch.path / "calls"
    code, errors = traced(scratch, "-o", log, "-e", "trace=" + ",".join(SYSCALLS))
    if code != 0:
        raise RuntimeError(errors)
    numbers, found = collections.Counter(), []
    for line in log.read_text().splitlines():
        thread, _, text = line.partition(" ")
        call = re.match(r"\s*(\w+)\(", text)
        # Not of the result: strace's filter compares arguments.
        path = re.search(f'[<"]({scratch.run}[^>"]*)[>"]', text.rpartition(" = ")[0])
        if call and path and not OF_ONE_PROCESS.search(path[1]):
            numbers[thread, call[1], path[1]] += 1
            found.append((call[1], path[1], numbers[thread, call[1], path[1]],
                          text.strip().replace(str(scratch.path), "")[:90]))
    return found


class Base:
    """A run before its last step, and how it ends when nothing happens."""

    def __init__(self, scratch):
        code, errors = scratch.call("job.yaml", "checkpoint.keep.last=9")
        if code != 0:
            raise RuntimeError(errors)
        self.end = scratch.exact_lines(), scratch.weights()
        self.saved = {step: digests(scratch, step) for step in scratch.checkpoints()}
        shutil.rmtree(scratch.run / "checkpoints/checkpoint_3")
        self.folder = scratch.path / "base"
        shutil.copytree(scratch.run, self.folder)

    def restore(self, scratch):
        shutil.rmtree(scratch.run)
        shutil.copytree(self.folder, scratch.run)


def digests(scratch, step):
    folder = scratch.run / f"checkpoints/checkpoint_{step}"
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.iterdir() if path.name != "accel_run.json"}


def fault_of(scratch, base, mishap, result):
    """What is wrong after a mishap; None when all is as it must be."""
    code, errors = result
    if mishap == "SIGKILL":
        if code == 0:
            return "it was not killed"
    elif code != 0:
        reason = os.strerror(getattr(errno, mishap))
        if code not in (4, 7) or reason not in errors or "runs/job" not in errors:
            return f"exit {code}: {errors}"
    present = scratch.checkpoints()
    if not present or present[-1] < 2:
        return f"only {present} are left"
    damaged = [step for step in present if digests(scratch, step) != base.saved[step]]
    if damaged:
        return f"{damaged} are damaged"
    code, errors = scratch.call("job.yaml")
    if code != 0 or "skipped" in errors:
        return f"the next life: exit {code}: {errors}"
    if (scratch.exact_lines(), scratch.weights()) != base.end or scratch.checkpoints()[-2:] != [2, 3]:
        return "the next life does not end as a run that nothing happened to"
    return "litter in staging/" if any((scratch.run / "staging").iterdir()) else None


def main():
    if not runs.can_trace():
        print("skipped: strace is not here or may not trace")
        return 77
    every = int(sys.argv[2]) if len(sys.argv) > 2 else 97
    report = runs.Report()
    start = time.monotonic()
    with runs.Scratch(sys.argv[1], RECIPE) as scratch:
        base = Base(scratch)
        calls = calls_of(scratch)
        pairs = [(call, mishap) for call in calls for mishap in MISHAPS]
        report.check("the calls of a run are seen", len(calls) > 100, str(len(calls)))
        for (name, path, number, text), mishap in pairs[::every]:
            base.restore(scratch)
            result = traced(scratch, "-qq", "-o", os.devnull, "-P", path, "-e", f"trace={name}", "-e",
                            f"inject={name}:{MISHAPS[mishap]}:when={number}")
            fault = fault_of(scratch, base, mishap, result)
            if fault:
                report.check(f"{mishap} at {text}", False, fault)
        report.check(f"{len(pairs[::every])} of {len(pairs)} mishaps at {len(calls)} calls cost nothing,"
                     f" {time.monotonic() - start:.0f} s", report.failed == 0)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
