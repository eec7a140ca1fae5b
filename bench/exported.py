"""Speed of exported programs beside the same modules in Python's eager mode, on one thread.

    python bench/exported.py ACCEL_RUN [NAME ...]

The modules are those of tests/interop/exported_models.py. Of each step, what counts is forward, backward
and optimizer; data is not. The two take turns, and the median block of steps stands for each.
"""

import json
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

BLOCK, BLOCKS, TURNS = 20, 6, 2
PHASES = ("time/forward", "time/backward", "time/optimizer")


def ours(binary, folder):
    """Seconds of a step, for each block but the first."""
    shutil.rmtree(folder / "runs", ignore_errors=True)
    words = [f"train.until={BLOCK * BLOCKS} steps", f"log.every={BLOCK} steps"]
    subprocess.run([binary, "job.yaml", *words], cwd=folder, capture_output=True, check=True)
    lines = [json.loads(line) for line in (folder / "runs/job/metrics.jsonl").read_text().splitlines()]
    use = [line["use"] for line in lines if "use" in line]
    return [sum(block[phase] for phase in PHASES) / BLOCK for block in use[1:BLOCKS]]


def python(module, example, task, batches):
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=LR)
    module.train()
    seconds = []
    for _ in range(BLOCKS):
        begin = time.perf_counter()
        for x, y in batches[:BLOCK]:
            optimizer.zero_grad()
            loss = loss_of(logits_of(module, example, x), y, task)
            loss.backward()
            optimizer.step()
            loss.item()
        seconds.append((time.perf_counter() - begin) / BLOCK)
    return seconds[1:]


def compare(binary, folder, name):
    torch.manual_seed(7)
    module, example, vary, task = CASES[name]()
    export_model(module, example, folder / "model.pt2", vary)
    inputs, targets = draw(example, task, BLOCK * BATCH)
    for file in ("inputs", "probe"):
        np.save(folder / f"{file}.npy", inputs.numpy())
    for file in ("targets", "probe_targets"):
        np.save(folder / f"{file}.npy", targets.numpy())
    (folder / "job.yaml").write_text(RECIPE % ("logits" if name == "tagger" else "", TASKS[task]))
    batches = list(zip(inputs.split(BATCH), targets.split(BATCH)))
    here, there = [], []
    for _ in range(TURNS):
        there += python(module, example, task, batches)
        here += ours(binary, folder)
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
