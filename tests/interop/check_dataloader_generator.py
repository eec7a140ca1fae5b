#!/usr/bin/env python3
"""Compares runs under dropout with Accelerate scripts of each form that `compat` names.

    check_dataloader_generator.py ACCEL_RUN

The forms differ in whether the DataLoaders have a generator of their own, and in the sampler. A script
trains three epochs and evaluates after each, and every fifth step; the run must have its losses, also
where it resumes from a checkpoint of its own or of the script, and where the script loads the run's.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset

from matrix_sides import BATCH, MODELS, SEED
from make_golden_losses import WINDOWS, text_data

EPOCHS = 3
EVALUATED = 5  # period in steps
HELD = 40  # samples of an evaluation
MID_EPOCH = 7  # neither a multiple of EVALUATED nor an epoch's end
HALVES = 3e-7  # micro-batches: the sums of their losses round differently

OWN = {"name": "own generators", "compat": "{}", "seedable": True, "generator": True}
SHARED = {"name": "no generators", "compat": "{dataloader_generator: shared}", "seedable": True, "generator": False}
RANDOM = {"name": "no generators, RandomSampler", "seedable": False, "generator": False,
          "compat": "{dataloader_generator: shared, use_seedable_sampler: false}"}

# Form, model, micro-batches, workers of the script, bound.
CASES = [
    (OWN, "mlp-dropout", 1, 0, 0.0),
    (SHARED, "mlp-dropout", 1, 0, 0.0),
    (SHARED, "lenet", 4, 0, HALVES),
    (SHARED, "gpt-dropout", 1, 2, 0.0),
    (RANDOM, "lenet", 1, 0, 0.0),
    (RANDOM, "mlp-dropout", 4, 0, HALVES),
    (RANDOM, "gpt-dropout", 1, 2, 0.0),
]


class Script:
    """An Accelerate script of a form, prepared."""

    def __init__(self, form, model, accumulation, workers):
        for state in (AcceleratorState, PartialState, GradientState):
            state._reset_state()
        set_seed(SEED)
        configuration = DataLoaderConfiguration(use_seedable_sampler=True, data_seed=SEED)
        self.accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulation,
                                       dataloader_config=configuration if form["seedable"] else None)
        side = MODELS[model][1]
        data = side["load"]()
        network = side["build"](text_data()[1] if model.startswith("gpt") else None)
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.002)

        def loader(samples, size, **options):
            own = {"generator": torch.Generator()} if form["generator"] else {}
            return DataLoader(samples, batch_size=size, num_workers=workers, **own, **options)

        self.model, self.optimizer, self.loader, self.eval_loader = self.accelerator.prepare(
            network, optimizer, loader(data, BATCH // accumulation, shuffle=True),
            loader(Subset(data, range(HELD)), 16))
        self.accumulation = accumulation
        self.per_epoch = len(self.loader) // accumulation
        self.step = 0

    def evaluate(self):
        self.model.eval()
        with torch.no_grad():
            for inputs, _ in self.eval_loader:
                self.model(inputs)
        self.model.train()

    def train(self, until=None):
        """The losses of the steps from the start of an epoch to `until` or the end."""
        found, window = [], 0
        for epoch in range(self.step // self.per_epoch, EPOCHS):
            self.loader.set_epoch(epoch)
            for inputs, targets in self.loader:
                with self.accelerator.accumulate(self.model):
                    output = self.model(inputs)
                    loss = F.cross_entropy(output.flatten(0, -2), targets.flatten())
                    self.accelerator.backward(loss)
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                window = window + loss.detach() / self.accumulation
                if not self.accelerator.sync_gradients:
                    continue
                found.append(window.item())
                window = 0
                self.step += 1
                if self.step == until and self.step % self.per_epoch:
                    return found
                if self.step % EVALUATED == 0 and self.step % self.per_epoch:
                    self.evaluate()
            self.evaluate()
            if self.step == until:
                return found
        return found


def recipe(form, model, accumulation):
    text, side = MODELS[model]
    held = side["data"].removeprefix("train: ").removesuffix("}").replace(f", head: {WINDOWS}", "")
    return f"""
seed: {SEED}
compat: {form["compat"]}
model: {text}
data:
  {side["data"]}
  eval: {held}, head: {HELD}}}
  loader: {{workers: 2}}
optimizer: {{type: adamw, lr: 0.002, fused: false}}
train: {{until: {EPOCHS} epochs, batch: {BATCH}, gradient_accumulation_steps: {accumulation}}}
accelerator: {{num_cpu_threads_per_process: 1, kernels: reference}}
eval: {{every: [{EVALUATED} steps, 1 epoch]}}
checkpoint: {{every: 1 steps, keep: {{last: 99}}}}
"""


class Run:
    """Runs accel-run in a separate folder."""

    def __init__(self, binary, folder, text):
        self.binary, self.folder = binary, pathlib.Path(folder)
        (self.folder / "job.yaml").write_text(text)

    def call(self, *words):
        return subprocess.run([self.binary, *words], cwd=self.folder, capture_output=True, text=True, check=False)

    def losses(self, name, *words):
        done = self.call("job.yaml", f"name={name}", *words)
        if done.returncode:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr}")
        lines = (self.folder / "runs" / name / "metrics.jsonl").read_text().splitlines()
        return [line["loss"] for line in map(json.loads, lines) if "loss_bits" in line]

    def checkpoint(self, step):
        return self.folder / "runs" / "straight" / "checkpoints" / f"checkpoint_{step}"


def fault(wanted, found, bound):
    if len(wanted) != len(found) or len(wanted) < 16:
        return f"{len(found)} losses for {len(wanted)}"
    off = [abs(a - b) / abs(b) for a, b in zip(found, wanted)]
    if max(off) <= bound:
        return ""
    first = next(i for i, x in enumerate(off) if x > bound)
    return f"loss {first + 1} is {found[first]!r} for {wanted[first]!r}; the worst is {max(off):.1e} off"


def checks(run, case):
    """Yields (what, fault)."""
    form, model, accumulation, workers, bound = case
    script = Script(form, model, accumulation, workers)
    wanted, epoch = script.train(), script.per_epoch
    straight = run.losses("straight")
    yield "equals the script", fault(wanted, straight, bound)
    if form is not OWN:
        other = run.losses("other", "compat.dataloader_generator=own", "compat.use_seedable_sampler=true")
        yield "own generators would not", "" if fault(wanted, other, 1e-4) else "the masks are the same"
    for step in (MID_EPOCH, EVALUATED, epoch, epoch + MID_EPOCH):
        found = run.losses(f"from{step}", f"checkpoint.resume={run.checkpoint(step)}")
        yield f"resumes at step {step}", fault(straight[step:], found, 0.0)
    done = run.call("verify-resume", "job.yaml", "--steps", str(epoch + 1))
    yield "is the same after a kill", done.stdout + done.stderr if done.returncode else ""
    script = Script(form, model, accumulation, workers)
    script.accelerator.load_state(str(run.checkpoint(epoch)))
    script.step = epoch
    yield "the script continues it", fault(wanted[epoch:], script.train(), bound)
    yield from from_script(run, case, wanted, epoch)


def from_script(run, case, wanted, epoch):
    form, model, accumulation, workers, bound = case
    for step in (epoch, MID_EPOCH):
        script = Script(form, model, accumulation, workers)
        script.train(step)
        script.accelerator.save_state(str(run.folder / f"theirs{step}"))
        name, resume = f"theirs{step}", f"checkpoint.resume=theirs{step}"
        if step == MID_EPOCH and form is RANDOM:  # a script does not save the sampler's seed
            done = run.call("job.yaml", f"name={name}", resume)
            yield "refuses the script's in mid-epoch", "" if done.returncode == 4 else done.stdout + done.stderr
        else:
            found = run.losses(name, resume)
            yield f"continues the script's at step {step}", fault(wanted[step:], found, bound)


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    torch.set_num_threads(1)
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for case in CASES:
            form, model, accumulation, *_ = case
            folder = pathlib.Path(scratch) / "case"
            folder.mkdir()
            for what, wrong in checks(Run(binary, folder, recipe(form, model, accumulation)), case):
                print(f"{form['name']}, {model}, {accumulation}: {what}: {wrong or 'ok'}", flush=True)
                failed += bool(wrong)
            shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
