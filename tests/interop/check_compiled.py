"""Trains modules that tools/export_model.py --aoti compiled, and in Python's eager mode the same.

    python tests/interop/check_compiled.py ACCEL_RUN [NAME ...]

Of each module: 20 steps have Python's losses within 1e-5; so have 10, a save and 10 more to the last bit;
the weights it ends with load into the Python module, which then evaluates to the same loss. Of one with
dropout, whose random numbers are TorchInductor's, the resume alone is compared.
"""

import copy
import os
import sys
import tempfile
from pathlib import Path

import check_exported as exported
import numpy as np
import torch
from compile_model import compile_model
from exported_models import BATCH, CASES, CLASSES, ConvNorm, images_of_sequence
from export_model import export_programs
from torch import nn

CLOSE = 1e-5


def norms():
    """Batch norms of many values each: a deep network with few magnifies what is rounded otherwise."""
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, CLASSES))
    return images_of_sequence(nn.Sequential(ConvNorm(3, 8), ConvNorm(8, 16, stride=2), pool))


MODULES = {"norms": norms, **{name: CASES[name] for name in ("dilated", "llama", "mlp")}}
DROPS = ("mlp",)


def train_here(binary, folder):
    exported.accel_run(binary, folder, "job.yaml")
    losses, lines = exported.record(folder)
    whole = exported.weights_in(folder)
    (folder / "runs").rename(folder / "whole")
    exported.accel_run(binary, folder, "job.yaml", "train.until=10 steps")
    exported.accel_run(binary, folder, "resume", "runs/job", f"train.until={exported.STEPS} steps")
    resumed, _ = exported.record(folder)
    assert exported.bits(resumed) == exported.bits(losses), "resumed differently"
    halves = exported.weights_in(folder)
    assert all(torch.equal(halves[key], whole[key]) for key in whole), "resumed to other weights"
    return losses, whole, [line["eval"]["eval/loss"] for line in lines if "eval" in line][-1]


def evaluated(module, example, task, data):
    module.eval()
    with torch.no_grad():
        parts = [exported.loss_of(exported.logits_of(module, example, x), y, task).item() * len(y)
                 for x, y in zip(*(tensor.split(BATCH) for tensor in data))]
    return sum(parts) / len(data[0])


def check(binary, folder, name):
    torch.manual_seed(7)
    module, example, vary, task = MODULES[name]()
    compile_model(module, export_programs(module, example, vary), folder / "model")
    inputs, targets = exported.draw(example, task, exported.STEPS * BATCH)
    probe = exported.draw(example, task, BATCH + 1)  # a short batch too
    for file, tensor in (("inputs", inputs), ("targets", targets), ("probe", probe[0]), ("probe_targets", probe[1])):
        np.save(folder / f"{file}.npy", tensor.numpy())
    recipe = exported.RECIPE % ("aoti", "model", "", exported.TASKS[task])
    (folder / "job.yaml").write_text(recipe.replace(", output: ''", "").replace("kernels: reference", "kernels: fused"))
    losses, weights, ours = train_here(binary, folder)

    fresh = copy.deepcopy(module)
    expected = exported.train(module, example, task, inputs, targets)
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True))
    exported.load_back(fresh, weights)
    off = abs(ours - evaluated(fresh, example, task, probe)) / ours
    print(f"{name}: {exported.STEPS} losses within {worst:.1e}, evaluation within {off:.1e}, resumed bit-equal",
          flush=True)
    assert off < CLOSE and (worst < CLOSE or name in DROPS), (losses, expected)


def main():
    binary = Path(sys.argv[1]).resolve()
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    torch.set_num_threads(1)
    for name in sys.argv[2:] or MODULES:
        with tempfile.TemporaryDirectory() as folder:
            check(binary, Path(folder), name)


if __name__ == "__main__":
    main()
