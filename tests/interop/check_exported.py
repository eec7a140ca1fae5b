"""Trains modules exported by tools/export_model.py, some as TorchScript too, and in Python the same.

    python tests/interop/check_exported.py ACCEL_RUN [NAME ...]

Of each module: 20 steps have Python's losses; so have 10, a save and 10 more, and of some that have
layers 20 that compute these again in the backward pass; the weights it ends with load into the Python
module, whose outputs they then are.
"""

import copy
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import numpy as np
import torch
from exported_models import BATCH, CASES, CLASSES, VOCAB
from export_model import export_model
from safetensors.torch import load_file
from torch.nn import functional as F

STEPS, SEED = 20, 42
LR = 0.05

RECIPE = f"""
name: job
seed: {SEED}
model: {{type: %s, file: %s, output: '%s'}}
data:
  train: {{type: npy, inputs: inputs.npy, targets: targets.npy}}
  eval: {{type: npy, inputs: probe.npy, targets: probe_targets.npy}}
  loader: {{shuffle: false}}
task: %s
optimizer: {{type: sgd, lr: {LR}}}
train: {{until: {STEPS} steps, batch: {BATCH}, max_grad_norm: none}}
accelerator: {{num_cpu_threads_per_process: 1, kernels: reference}}
"""

LAYERED = ("tagger", "gpt2", "llama", "bert")
SCRIPTED = ("mlp", "lenet", "resnet18", "unet", "mobilenet", "dilated")
TASKS = {"classes": "classification", "tokens": "causal_lm", "image": "regression"}


def accel_run(binary, folder, *words):
    done = subprocess.run([binary, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"


def draw(example, task, samples):
    """Inputs like the example's first, and targets for them."""
    first = next(iter(example.values()))
    size = (samples, *first.shape[1:])
    inputs = torch.randn(size) if first.is_floating_point() else torch.randint(1, VOCAB, size)
    if task == "classes":
        return inputs, torch.randint(0, CLASSES, (samples,))
    return inputs, torch.randint(0, VOCAB, size) if task == "tokens" else torch.randn(size)


def logits_of(module, example, inputs):
    names = list(example)
    given = {names[0]: inputs}
    for name in names[1:]:
        given[name] = torch.ones_like(inputs)
    out = module(**given)
    return out["logits"] if isinstance(out, dict) else out


def loss_of(logits, targets, task):
    if task == "image":
        return F.mse_loss(logits, targets)
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def train(module, example, task, inputs, targets):
    module.train()
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=LR)
    torch.manual_seed(SEED)
    losses = []
    for x, y in zip(inputs.split(BATCH), targets.split(BATCH)):
        loss = loss_of(logits_of(module, example, x), y, task)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def record(folder, name="job"):
    lines = [json.loads(line) for line in (folder / "runs" / name / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss_bits" in line], lines


def bits(values):
    return struct.pack(f"{len(values)}f", *values)


def weights_in(folder):
    found = sorted((folder / "runs/job/checkpoints").glob("checkpoint_*"))[-1]
    return load_file(found / "model.safetensors")


def load_back(module, weights):
    """Tied weights are kept once."""
    missing, unexpected = module.load_state_dict(weights, strict=False)
    assert not unexpected, unexpected
    own = module.state_dict()
    for name in missing:
        assert any(own[name].data_ptr() == own[other].data_ptr() for other in weights), f"{name} is missing"


def write_model(kind, module, example, vary, folder):
    if kind == "exported":
        export_model(module, example, folder / "model", vary)
    else:
        torch.jit.script(module.train()).save(folder / "model")


def check(binary, folder, name, kind):
    torch.manual_seed(7)
    module, example, vary, task = CASES[name]()
    write_model(kind, module, example, vary, folder)
    inputs, targets = draw(example, task, STEPS * BATCH)
    probe, probe_targets = draw(example, task, BATCH + 1)  # a short batch too
    for file, tensor in (("inputs", inputs), ("targets", targets), ("probe", probe), ("probe_targets", probe_targets)):
        np.save(folder / f"{file}.npy", tensor.numpy())
    named = "logits" if name == "tagger" else ""
    (folder / "job.yaml").write_text(RECIPE % (kind, "model", named, TASKS[task]))

    accel_run(binary, folder, "job.yaml")
    losses, lines = record(folder)
    whole = weights_in(folder)
    (folder / "runs").rename(folder / "whole")
    accel_run(binary, folder, "job.yaml", "train.until=10 steps")
    accel_run(binary, folder, "resume", "runs/job", f"train.until={STEPS} steps")
    resumed, _ = record(folder)
    assert bits(resumed) == bits(losses), "resumed differently"
    halves = weights_in(folder)
    assert all(torch.equal(halves[key], whole[key]) for key in whole), "resumed to other weights"

    if kind == "exported" and name in LAYERED:
        accel_run(binary, folder, "job.yaml", "name=blocks", "train.activation_checkpointing=blocks")
        again, _ = record(folder, "blocks")
        assert bits(again) == bits(losses), "recomputed blocks gave other losses"

    fresh = copy.deepcopy(module)
    expected = train(module, example, task, inputs, targets)
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True))
    load_back(fresh, whole)
    distance = max((a - b).abs().max().item()
                   for a, b in zip(fresh.state_dict().values(), module.state_dict().values(), strict=True)
                   if a.is_floating_point())
    fresh.eval()
    with torch.no_grad():
        theirs = [loss_of(logits_of(fresh, example, x), y, task).item() * len(y)
                  for x, y in zip(probe.split(BATCH), probe_targets.split(BATCH))]
    ours = [line["eval"]["eval/loss"] for line in lines if "eval" in line][-1]
    off = abs(ours - sum(theirs) / len(probe)) / ours
    exact = bits(losses) == bits(expected)
    print(f"{name}, {kind}: {STEPS} losses {'bit-equal' if exact else f'within {worst:.1e}'}, weights within {distance:.1e}, "
          f"evaluation within {off:.1e}, resumed bit-equal", flush=True)
    assert worst < 1e-6 and distance < 1e-6 and off < 1e-6, (losses, expected, ours, theirs)


class Branching(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


def check_branch():
    """A branch on the values of a tensor is named, with the remedy."""
    try:
        export_model(Branching(), {"x": torch.randn(2, 4)}, "never.pt2")
    except SystemExit as error:
        assert "check_exported.py:" in str(error), error
        assert "forward() branches on the values of a tensor" in str(error), error
        assert "torch.cond(predicate, true_fn, false_fn, operands)" in str(error), error
        return
    raise AssertionError("a branch on values was exported")


def main():
    check_branch()
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    for name in sys.argv[2:] or CASES:
        for kind in ("exported", "torchscript") if name in SCRIPTED else ("exported",):
            with tempfile.TemporaryDirectory() as folder:
                check(binary, Path(folder), name, kind)


if __name__ == "__main__":
    main()
