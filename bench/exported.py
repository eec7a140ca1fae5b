"""What a step of exported programs costs beside the same modules in Python's eager mode.

    python bench/exported.py ACCEL_RUN [NAME ...]

The modules are those of tests/interop/exported_models.py, on one thread. Seconds are the processor's, so
that other work on the machine does not count. Of accel-run they are all that a step takes: data, record
and loop too, as the difference between a long and a short run; of Python those of forward, backward,
optimizer and reading the loss. The two take turns, and the median turn stands for each.
"""

import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/interop"), str(ROOT / "tools")]

import numpy as np
import torch
from check_exported import LR, RECIPE, TASKS, draw, logits_of, loss_of
from exported_models import BATCH, CASES
from export_model import export_model

BATCHES, TURNS = 100, 3
SHORT = 20
SECONDS = 1.5  # of the long run, about


def used_by_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_seconds(binary, folder, steps):
    shutil.rmtree(folder / "runs", ignore_errors=True)
    before = used_by_children()
    words = [f"train.until={steps} steps", "eval.every=never", "log.every=100 steps"]
    subprocess.run([binary, "job.yaml", *words], cwd=folder, capture_output=True, check=True)
    return used_by_children() - before


def ours(binary, folder, steps):
    short = run_seconds(binary, folder, SHORT)
    return (run_seconds(binary, folder, SHORT + steps) - short) / steps


def python(module, example, task, batches, steps):
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=LR)
    module.train()
    begin = time.process_time()
    for step in range(steps):
        x, y = batches[step % len(batches)]
        optimizer.zero_grad()
        loss = loss_of(logits_of(module, example, x), y, task)
        loss.backward()
        optimizer.step()
        loss.item()
    return (time.process_time() - begin) / steps


def compare(binary, folder, name):
    torch.manual_seed(7)
    module, example, vary, task = CASES[name]()
    export_model(module, example, folder / "model", vary)
    inputs, targets = draw(example, task, BATCHES * BATCH)
    for file, tensor in (("inputs", inputs), ("probe", inputs), ("targets", targets), ("probe_targets", targets)):
        np.save(folder / f"{file}.npy", tensor.numpy())
    (folder / "job.yaml").write_text(RECIPE % ("exported", "model", "logits" if name == "tagger" else "", TASKS[task]))
    batches = list(zip(inputs.split(BATCH), targets.split(BATCH)))
    steps = max(100, int(SECONDS / python(module, example, task, batches, 20)))
    here, there = [], []
    for _ in range(TURNS):
        there.append(python(module, example, task, batches, steps))
        here.append(ours(binary, folder, steps))
    mine, theirs = statistics.median(here), statistics.median(there)
    print(f"{name:12} {1e3 * mine:8.3f} ms  Python {1e3 * theirs:8.3f} ms  ratio {theirs / mine:.2f}", flush=True)
    return theirs / mine


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
