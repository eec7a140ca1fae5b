"""The part of check_matrix.py that runs in two processes over gloo.

    torchrun --nproc_per_node 2 matrix_ranks.py {save,load} FOLDER

save: each of JOBS is trained, saved in FOLDER/<number> and trained on. load: each goes on from
FOLDER/<number>. The losses, means over both ranks, go to FOLDER/<number>.json.
"""

import json
import math
import sys
from pathlib import Path

import torch

import ranks
from matrix_jobs import ADAMW, COSINE, MOMENTUM
from matrix_sides import SAVED, TOTAL, Job, Script

# Each rank's half of the sums is added first.
HALVES = 1e-6
# Accelerate steps a schedule once per process, so scripts size theirs for that.
STEPS = 2 * TOTAL
JOBS = [
    Job("2 processes", optimizer=ADAMW, tolerance=HALVES, schedule=(
        "{type: cosine}", lambda o: torch.optim.lr_scheduler.LambdaLR(
            o, lambda step: 0.5 * (1 + math.cos(math.pi * step / STEPS))))),
    Job("2 processes, .bin", optimizer=ADAMW, binary=True, tolerance=HALVES, schedule=(
        "{type: cosine}", lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS))),
    Job("2 processes, no count", optimizer=MOMENTUM, tolerance=HALVES, schedule=(
        "{type: step, every: 7 steps}", lambda o: torch.optim.lr_scheduler.StepLR(o, 14))),
    Job("2 processes, split batches", model="gpt", optimizer=ADAMW, split=True, tolerance=HALVES, schedule=COSINE),
]


def launch(mode, folder):
    """Runs this script in two processes. Returns the losses by number."""
    ranks.launch(__file__, mode, folder)
    return {int(path.stem): json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))}


def main():
    mode, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    for number, job in enumerate(JOBS):
        if mode == "load" and not job.split:
            continue
        script = Script(job)
        if mode == "save":
            script.train(SAVED)
            script.save(folder / str(number))
        else:
            script.load(folder / str(number), SAVED)
        losses = script.train(TOTAL)
        if script.accelerator.is_main_process:
            (folder / f"{number}.json").write_text(json.dumps(losses))
    ranks.leave()


if __name__ == "__main__":
    main()
