#!/usr/bin/env python3
"""Checkpoints cross between accel-run and Accelerate, both ways, and training goes on as if at home.

    check_matrix.py ACCEL_RUN [WORD...]     only jobs whose names have all the words

Each cell of the matrix: one side trains, saves and goes on; the other side loads what was saved and
goes on as well. The losses of both continuations must be the same.
"""

import sys
import tempfile
import time
from pathlib import Path

import torch

import matrix_jobs
from matrix_sides import SAVED, TOTAL, Runner, Script


def compare(wanted, found, tolerance):
    """What is wrong with `found`, or nothing."""
    if len(wanted) != len(found) or len(wanted) < 10:
        return f"{len(found)} losses for {len(wanted)}"
    off = [abs(a - b) / abs(b) for a, b in zip(found, wanted)]
    worst = max(off)
    if worst <= tolerance:
        return ""
    first = next(i for i, x in enumerate(off) if not x <= tolerance)
    return f"loss {first + 1} is {found[first]!r} for {wanted[first]!r}; the worst is {worst:.1e} off"


def to_python(job, runner):
    wanted = runner.losses(job, "ours")[SAVED:]
    script = Script(job)
    script.load(runner.checkpoint("ours", SAVED), SAVED)
    return compare(wanted, script.train(TOTAL), job.tolerance)


def to_us(job, runner):
    script = Script(job)
    script.train(SAVED)
    folder = runner.folder / "theirs"
    script.save(folder)
    wanted = script.train(TOTAL)
    skipped = job.scale and script.optimizer.scaler.get_scale() and [f"checkpoint.resume_step={SAVED}"]
    found = runner.losses(job, "resumed", f"checkpoint.resume={folder}", *(skipped or job_step(job)))
    return compare(wanted, found, job.tolerance)


def job_step(job):
    """SGD counts no steps and neither does ReduceLROnPlateau or no schedule at all."""
    counted = "sgd" not in job.optimizer_text or (job.make_schedule and not job.evaluates)
    return [] if counted else [f"checkpoint.resume_step={SAVED}"]


def main():
    torch.set_num_threads(1)
    words = sys.argv[2:]
    failed = count = 0
    start = time.monotonic()
    for job in matrix_jobs.jobs():
        if not all(word in job.name for word in words):
            continue
        for way, check in (("to Python", to_python), ("to accel-run", to_us)):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    fault = check(job, Runner(sys.argv[1], folder))
                except (RuntimeError, ValueError, KeyError, TypeError) as error:
                    fault = f"{type(error).__name__}: {error}"
            count += 1
            failed += bool(fault)
            print(f"{'FAILED' if fault else 'ok    '} {job.name} {way}{': ' + fault if fault else ''}", flush=True)
    print(f"{count} cells, {failed} failed, {time.monotonic() - start:.0f} s")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
