#!/usr/bin/env python3
"""Faults of a run's folder are reported before anything is read, written or trained.

    preflight.py ACCEL_RUN

Read-only, forbidden, too small, held by another job; and whose lock is taken over with which words.
"""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import runs

HINT = "\n  hint: use a writable folder with free disk space\n"
# Data that is none: who reads it first ends with 3.
NO_DATA = "data.train={type: npy, inputs: job.yaml, targets: job.yaml}"


def expect(report, name, result, code, text):
    """All output on standard error."""
    report.check(name, result == (code, text), f"exit {result[0]}, wanted {code}\n{result[1]}wanted:\n{text}")


@contextlib.contextmanager
def mounted(scratch, options):
    """A tmpfs at runs/; None where mounting is not allowed."""
    disk = scratch.path / "runs"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True).returncode != 0:
        print(f"skipped a disk with {options}: not allowed to mount a tmpfs")
        yield None
        return
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def check_read_only(binary, report):
    with runs.Scratch(binary) as scratch, mounted(scratch, "size=1m") as disk:
        if disk:
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            expect(report, "a read-only disk is reported before data is read", scratch.call("job.yaml", NO_DATA), 7,
                   f"error: the run folder 'runs/job' cannot be used: '{disk}' is not writable:"
                   f" Read-only file system{HINT}")
            report.check("and nothing is there", not list(disk.iterdir()))


def check_forbidden(binary, report):
    with runs.Scratch(binary) as scratch:
        (scratch.path / "runs").write_text("")
        expect(report, "a file in the folder's place", scratch.call("job.yaml", NO_DATA), 7,
               f"error: the run folder 'runs/job' cannot be used: '{scratch.path}/runs' is not a folder{HINT}")
        (scratch.path / "runs").unlink()
        (scratch.path / "runs").mkdir(mode=0o555)
        scratch.path.chmod(0o755)
        nobody = {"cwd": scratch.path, "env": runs.ENVIRONMENT, "capture_output": True, "text": True}
        if os.geteuid() == 0:
            nobody["user"] = 65534
        with contextlib.suppress(OSError):
            # Only a program that finds libtorch can tell that there is no such run.
            if subprocess.run([scratch.binary, "checkpoint", "list", "runs/none"], **nobody).returncode == 2:
                done = subprocess.run([scratch.binary, "job.yaml", NO_DATA], **nobody)
                expect(report, "a folder one may not write to", (done.returncode, done.stderr), 7,
                       f"error: the run folder 'runs/job' cannot be used: '{scratch.path}/runs' is not"
                       f" writable: Permission denied{HINT}")
                return
        print("skipped a forbidden folder: this user cannot run as another")


def check_small(binary, report):
    # 1.6 MB of parameters, and twice that for AdamW, which has nothing of it before the first step.
    with runs.Scratch(binary, runs.JOB.replace("hidden_sizes: [24]", "hidden_sizes: [512]")) as scratch, \
            mounted(scratch, "size=4m") as disk:
        if disk:
            code, errors = scratch.call("job.yaml")
            report.check("a disk too small for the first save", code == 7 and re.fullmatch(
                r"error: too little disk space for a checkpoint: 49\d+ bytes needed, \d+ free\n"
                r"  hint: free disk space, or move the run to another folder\n", errors), f"{code}: {errors}")
            report.check("is reported before training begins", scratch.exact_lines() == [])
            code, errors = scratch.call("job.yaml", "accelerator={num_processes: 2, fsdp: {stage: 3}}")
            report.check("also where each rank has a half of the state", code == 7 and re.search(
                r"too little disk space for a checkpoint: 49\d+ bytes needed, \d+ free\n", errors), f"{code}: {errors}")
            report.check("before training begins", scratch.exact_lines() == [])
            code, errors = scratch.call("job.yaml", "train.until=1 steps", "checkpoint.on_error=continue")
            report.check("or a warning, as 'checkpoint.on_error' says", code == 0 and
                         "warning: too little disk space for a checkpoint: 49" in errors, f"{code}: {errors}")


def check_no_inodes(binary, report):
    """Space enough, but no room for one more file: found by the save itself."""
    with runs.Scratch(binary) as scratch, mounted(scratch, "size=50m,nr_inodes=29") as disk:
        if disk:
            code, errors = scratch.call("job.yaml", "checkpoint.keep.last=9")
            report.check("a disk that takes no more files", code == 7 and "cannot save checkpoint" in errors
                         and ": No space left on device; it needs " in errors, f"{code}: {errors}")
            present = scratch.checkpoints()
            report.check("keeps its checkpoints and no litter", present and not scratch.staged(), str(present))
            subprocess.run(["mount", "-o", "remount,nr_inodes=200", disk], check=True)
            code, errors = scratch.call("job.yaml")
            report.check("and the next life resumes once there is room", code == 0, errors)


def check_held(binary, report):
    with runs.Scratch(binary) as scratch:
        first = scratch.start("job.yaml", "train.until=100000 steps", "checkpoint.every=never")
        scratch.wait_for_lock(first)
        expect(report, "a job in use is reported before data is read", scratch.call("job.yaml", NO_DATA), 11,
               f"error: run folder 'runs/job' is in use by process {first.pid} on host '{socket.gethostname()}'\n"
               "  hint: wait for it, stop it, or give this run another name\n")
        first.send_signal(signal.SIGTERM)
        first.communicate()
        report.check("a job that ends takes its name out of the lock", (scratch.run / "run.lock").read_text() == "")


def check_stale(binary, report):
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    here, other = socket.gethostname(), "0c5a8c5e-0000-4000-8000-000000000000"
    taken = ("warning: run folder 'runs/job' was locked by process 1 on host 'elsewhere', which did not release"
             " the lock and is assumed dead: if it still runs, stop it\n")
    with runs.Scratch(binary) as scratch:
        for name, host, started, output in (
                ("a killed process", here, boot, ""),
                ("one before the machine was restarted", here, other, ""),
                ("one of another container of this machine", "elsewhere", boot, ""),
                ("one of another machine", "elsewhere", other, taken)):
            scratch.run.mkdir(parents=True, exist_ok=True)
            (scratch.run / "run.lock").write_text(f"process 1 on host '{host}'\nboot {started}\n")
            expect(report, f"the lock of {name} is taken over", scratch.call("job.yaml", "train.until=1 steps"), 0, output)


def check_race(binary, report):
    """Jobs that start at once: one of them runs, and the others say who that is."""
    outcomes = []
    for _ in range(5):
        with runs.Scratch(binary) as scratch:
            jobs = [scratch.start("job.yaml", "train.until=100000 steps", "checkpoint.every=never") for _ in range(4)]
            while sum(job.poll() is None for job in jobs) > 1:
                time.sleep(0.01)
            time.sleep(0.1)
            for job in jobs:
                if job.poll() is None:
                    scratch.wait_for_lock(job)
                    job.send_signal(signal.SIGTERM)
            errors = [job.communicate()[1] for job in jobs]
            outcomes.append(sorted(job.returncode for job in jobs))
            output = sum("is in use by" in text for text in errors)
            if output != 3:
                report.check("each loser of a race names the winner", False, "\n".join(errors))
    report.check("of jobs that start at once one runs", outcomes == [[11, 11, 11, 75]] * 5, str(outcomes))


def main():
    report = runs.Report()
    for check in (check_read_only, check_forbidden, check_small, check_no_inodes, check_held, check_stale, check_race):
        check(sys.argv[1], report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
