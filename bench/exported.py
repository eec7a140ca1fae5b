"""What a step of exported programs costs beside the same modules in Python's eager mode.

    python bench/exported.py ACCEL_RUN [NAME ...]

The modules are those of tests/interop/exported_models.py, on one thread. Seconds are the processor's, so
that other work on the machine counts little; ratios of those of the clock stand behind. Of accel-run they
are all that a step takes: data, record and loop too, as the difference between a long and a short run; of
Python those of forward, backward, optimizer and reading the loss. The two take turns, each gives a ratio,
and the median stands for all.
"""

import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/interop"), str(ROOT / "tools")]

import numpy as np
import torch
from check_exported import LR, RECIPE, TASKS, draw, logits_of, loss_of
from exported_models import BATCH, CASES
from export_model import export_model

BATCHES, TURNS = 100, 5
SHORT = 20
SECONDS = 1.5  # of the long run, about

Seconds = namedtuple("Seconds", "processor clock")


def spent(function, who):
    """What a call takes, of this process or of those that it starts."""
    before, begin = resource.getrusage(who), time.perf_counter()
    function()
    end, after = time.perf_counter(), resource.getrusage(who)
    return Seconds(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, end - begin)


def run_seconds(binary, folder, steps):
    shutil.rmtree(folder / "runs", ignore_errors=True)
    words = [f"train.until={steps} steps", "eval.every=never", "log.every=100 steps"]
    return spent(lambda: subprocess.run([binary, "job.yaml", *words], cwd=folder, capture_output=True, check=True),
                 resource.RUSAGE_CHILDREN)


def ours(binary, folder, steps):
    short = run_seconds(binary, folder, SHORT)
    long = run_seconds(binary, folder, SHORT + steps)
    return Seconds(*((b - a) / steps for a, b in zip(short, long)))


def python(module, example, task, batches, steps):
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=LR)
    module.train()

    def train():
        for step in range(steps):
            x, y = batches[step % len(batches)]
            optimizer.zero_grad()
            loss = loss_of(logits_of(module, example, x), y, task)
            loss.backward()
            optimizer.step()
            loss.item()

    return Seconds(*(value / steps for value in spent(train, resource.RUSAGE_SELF)))


def in_turns(theirs, mine):
    """Median seconds of a step here and there, and of the ratios of turns."""
    turns = [(mine(), theirs()) for _ in range(TURNS)]
    here, there = (statistics.median(turn[side].processor for turn in turns) for side in (0, 1))
    return here, there, *(statistics.median(b[i] / a[i] for a, b in turns) for i in (0, 1))


def write_job(folder, name, case, kind):
    """The job's files; returns its batches."""
    _, example, _, task = case
    inputs, targets = draw(example, task, BATCHES * BATCH)
    for file, tensor in (("inputs", inputs), ("probe", inputs), ("targets", targets), ("probe_targets", targets)):
        np.save(folder / f"{file}.npy", tensor.numpy())
    recipe = RECIPE % (kind, "model", "logits" if name == "tagger" else "", TASKS[task])
    (folder / "job.yaml").write_text(recipe.replace(", output: ''", "").replace("kernels: reference", "kernels: fused"))
    return list(zip(inputs.split(BATCH), targets.split(BATCH)))


def compare(binary, folder, name):
    torch.manual_seed(7)
    module, example, vary, task = case = CASES[name]()
    export_model(module, example, folder / "model", vary)
    batches = write_job(folder, name, case, "exported")
    steps = max(100, int(SECONDS / python(module, example, task, batches, 20).processor))
    # Of a module that Python is slow with, so few would be lost among what a start takes.
    own_steps = max(steps, int(SECONDS / max(1e-4, ours(binary, folder, 200).processor)))
    mine, theirs, ratio, clock = in_turns(lambda: python(module, example, task, batches, steps),
                                          lambda: ours(binary, folder, own_steps))
    print(f"{name:12} {1e3 * mine:8.3f} ms  Python {1e3 * theirs:8.3f} ms  ratio {ratio:.2f}, by the clock {clock:.2f}",
          flush=True)
    return ratio


def main():
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    ratios = []
    for name in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            ratios.append(compare(binary, Path(folder), name))
    print(f"Python takes {min(ratios):.2f} to {max(ratios):.2f} times as long, {statistics.median(ratios):.2f} in the middle")


if __name__ == "__main__":
    main()
