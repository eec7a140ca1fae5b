#!/usr/bin/env python3
"""What logging every step to every file tracker costs a run: lenet at batch 128.

    tracker_cost.py ACCEL_RUN [STEPS [PAIRS]]

Runs that do so take turns with runs that log nothing between their middle and their end. Of the second half of each the
processor time of the training thread and the time on the clock are told, and of both the median of the pairs' ratios. On
a machine with other work the processor time is the one to go by.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE = """
model: lenet
data: {train: {type: synthetic/glyphs, length: 8192}}
train: {until: STEPS steps, batch: 128}
accelerator: {num_cpu_threads_per_process: 1}
checkpoint: {every: never, at_end: false}
"""
ALL = ("log.every=1 steps",
       "trackers=[tensorboard, csv, wandb, comet, clearml, swanlab, mlflow, dvclive, trackio]")


def measured(program, recipe, steps, *words):
    """(processor seconds of the main thread, seconds) of the second half of the steps."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([program, recipe, f"log.every={steps // 2} steps", *words], cwd=folder,
                                   stdout=subprocess.PIPE, text=True)
        found = []
        for line in process.stdout:
            if line.startswith((f"step {steps // 2}/", f"step {steps}/")):
                fields = Path(f"/proc/{process.pid}/task/{process.pid}/schedstat").read_text().split()
                found.append((int(fields[0]) / 1e9, time.monotonic()))
        if process.wait() != 0 or len(found) != 2:
            sys.exit(f"{recipe} failed")
        return tuple(found[1][i] - found[0][i] for i in (0, 1))


def main():
    program = str(Path(sys.argv[1]).absolute())
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 9
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder) / "lenet.yaml"
        recipe.write_text(RECIPE.replace("STEPS", str(steps)))
        for pair in range(pairs):
            order = [(), ALL] if pair % 2 == 0 else [ALL, ()]
            found = {bool(words): measured(program, recipe, steps, *words) for words in order}
            ratios.append(tuple(found[True][i] / found[False][i] for i in (0, 1)))
            print(f"processor {found[False][0]:.3f} s without, {found[True][0]:.3f} s with, x {ratios[-1][0]:.4f}; "
                  f"steps {found[False][1]:.3f} s and {found[True][1]:.3f} s, x {ratios[-1][1]:.4f}", flush=True)
    processor, wall = (statistics.median(column) for column in zip(*ratios))
    print(f"logging costs {processor - 1:+.2%} of the training thread's time, {wall - 1:+.2%} of the steps'")
    return processor > 1.01


if __name__ == "__main__":
    sys.exit(main())
