#!/usr/bin/env python3
"""What logging every step to every file tracker costs a run: lenet at batch 128.

    tracker_cost.py ACCEL_RUN [STEPS [PAIRS]]

What a step's logging takes of the training thread is measured where it can be seen: runs of a tiny model that log every
step take turns with runs that log nothing between their middle and their end, and the second halves are compared. The
median of that stands beside a step of lenet. Processor time, so that other work on the machine counts little.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RECIPE = """
model: MODEL
data: {train: {type: synthetic/glyphs, length: 8192}}
train: {until: STEPS steps, batch: BATCH}
accelerator: {num_cpu_threads_per_process: 1}
checkpoint: {every: never, at_end: false}
"""
ALL = ("log.every=1 steps",
       "trackers=[tensorboard, csv, wandb, comet, clearml, swanlab, mlflow, dvclive, trackio]")


def step_seconds(program, folder, model, batch, steps, *words):
    """Processor seconds of the main thread for a step, of the second half of them."""
    recipe = Path(folder) / "job.yaml"
    recipe.write_text(RECIPE.replace("MODEL", model).replace("BATCH", str(batch)).replace("STEPS", str(steps)))
    with tempfile.TemporaryDirectory() as runs:
        process = subprocess.Popen([program, recipe, f"log.every={steps // 2} steps", *words], cwd=runs,
                                   stdout=subprocess.PIPE, text=True)
        found = []
        for line in process.stdout:
            if line.startswith((f"step {steps // 2}/", f"step {steps}/")):
                fields = Path(f"/proc/{process.pid}/task/{process.pid}/schedstat").read_text().split()
                found.append(int(fields[0]) / 1e9)
        if process.wait() != 0 or len(found) != 2:
            sys.exit(f"a run of {model} failed")
        return (found[1] - found[0]) / (steps - steps // 2)


def main():
    program = str(Path(sys.argv[1]).absolute())
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    costs = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(pairs):
            order = [(), ALL] if pair % 2 == 0 else [ALL, ()]
            found = {bool(words): step_seconds(program, folder, "{type: mlp, hidden: [8]}", 16, steps, *words)
                     for words in order}
            costs.append(found[True] - found[False])
            print(f"a step of the tiny model {found[False] * 1e6:.0f} us, logged {found[True] * 1e6:.0f} us", flush=True)
        lenet = step_seconds(program, folder, "lenet", 128, 60)
    cost = statistics.median(costs)
    print(f"logging a step takes {cost * 1e6:.0f} us: {cost / lenet:.2%} of a step of lenet, {lenet * 1e3:.1f} ms")
    return cost > 0.01 * lenet


if __name__ == "__main__":
    sys.exit(main())
