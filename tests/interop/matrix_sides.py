"""Both sides of check_matrix.py: one job as an Accelerate script and as a recipe.

Each side trains SAVED steps, saves, and continues to TOTAL; either can also start from a folder of the
other's. All return the losses of the steps that they did themselves.
"""

import json
import os
import pathlib
import shutil
import subprocess

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import make_golden_losses as golden
import models

HERE = pathlib.Path(__file__).resolve().parent
SEED = 42
BATCH = 16
SAVED = 10
TOTAL = 22  # an epoch ends between the two

IMAGES = f"train: {{type: idx, images: {HERE}/data/images.idx.gz, labels: {HERE}/data/labels.idx.gz}}"
TEXT = f"train: {{type: text, path: {HERE}/data/sums.txt, max_seq_len: {golden.CONTEXT}, head: {golden.WINDOWS}}}"


class HeadedGpt(models.Gpt):
    """A GPT whose head is a separate module that shares the embedding's weight."""

    def __init__(self, vocab, context, width, **options):
        super().__init__(vocab, context, width=width, **options)
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight


def image_side(build):
    return {"data": IMAGES, "load": golden.image_data, "build": lambda _: build()}


def text_side(kind, **options):
    def load():
        return golden.text_data()[0]

    def build(vocab):
        return kind(vocab=vocab, context=golden.CONTEXT, layers=1, heads=2, width=16, **options)

    return {"data": TEXT, "load": load, "build": build}


SIDE = golden.SIDE
MODELS = {
    "mlp": ("{type: mlp, hidden_sizes: [24]}", image_side(lambda: models.Mlp(SIDE * SIDE, 10, [24]))),
    "mlp-deeper": ("{type: mlp, hidden_sizes: [24, 8]}", image_side(lambda: models.Mlp(SIDE * SIDE, 10, [24, 8]))),
    "mlp-dropout": ("{type: mlp, hidden_sizes: [24], dropout: 0.3}",
                    image_side(lambda: models.Mlp(SIDE * SIDE, 10, [24], dropout=0.3))),
    "lenet": ("{type: lenet, filters: [4, 6], hidden_size: 16, dropout: 0.25}",
              image_side(lambda: models.LeNet([1, SIDE, SIDE], 10, [4, 6], 16, 0.25))),
    "resnet": ("{type: resnet, depth: 18, embedding_size: 4}",
               image_side(lambda: models.ResNet(18, "small", 1, 10, width=4))),
    "gpt": ("{type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16}", text_side(models.Gpt)),
    "gpt-dropout": ("{type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16, dropout: 0.2}",
                    text_side(models.Gpt, dropout=0.2)),
    "gpt-head": ("{type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16}", text_side(HeadedGpt)),
}


def sgd(named):
    return [torch.optim.SGD([p for _, p in named], lr=0.05)]


class Job:
    """What both sides train. `optimizer` and `schedule` are pairs: recipe text, maker.

    Makers get the named parameters, and return a list of optimizers, or one optimizer.
    """

    def __init__(self, name, model="mlp", optimizer=None, schedule=None, **options):
        self.name = name
        self.model_text, self.side = MODELS[model]
        self.optimizer_text, self.make_optimizer = optimizer or ("{type: sgd, lr: 0.05}", sgd)
        self.schedule_text, self.make_schedule = schedule or ("constant", None)
        self.accumulation = options.pop("accumulation", 1)
        self.scale = options.pop("scale", None)  # of fp16
        self.evaluates = options.pop("evaluates", None)  # period in steps
        self.binary = options.pop("binary", False)  # pytorch_model.bin
        self.tolerance = options.pop("tolerance", 0.0)
        self.split = options.pop("split", False)  # one batch for all processes
        assert not options, options

    def recipe(self):
        every = f"{self.evaluates} steps" if self.evaluates else "never"
        eval_data = f"\n  eval: {self.side['data'].removeprefix('train: ')[:-1]}, head: 16}}" if self.evaluates else ""
        precision = f", mixed_precision: fp16, grad_scaler: {self.scale}" if self.scale else ""
        return f"""
seed: {SEED}
model: {self.model_text}
data:
  {self.side['data']}{eval_data}
  loader: {{workers: 0, drop_last: true}}
optimizer: {self.optimizer_text}
scheduler: {self.schedule_text}
train: {{until: {TOTAL} steps, batch: {BATCH}, gradient_accumulation_steps: {self.accumulation}}}
accelerator: {{num_cpu_threads_per_process: 1, kernels: reference{precision}}}
eval: {{every: {every}}}
checkpoint: {{every: {SAVED} steps, at_end: true, async: false, keep: {{last: 9}}}}
"""


class Script:
    """The Accelerate script of a job, prepared."""

    def __init__(self, job):
        for state in (AcceleratorState, PartialState, GradientState):
            state._reset_state()
        set_seed(SEED)
        self.job = job
        self.accelerator = Accelerator(
            cpu=True, gradient_accumulation_steps=job.accumulation,
            dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, data_seed=SEED,
                                                      split_batches=job.split))
        if job.scale:  # Accelerate makes none on the CPU, but uses the one it has
            self.accelerator.scaler = torch.amp.GradScaler("cpu", **json.loads(job.scale))
        ranks = 1 if job.split else self.accelerator.num_processes
        vocab = golden.text_data()[1] if job.side["data"] is TEXT else None
        model = job.side["build"](vocab)
        optimizers = job.make_optimizer(list(model.named_parameters()))
        schedules = [job.make_schedule(o) for o in optimizers] if job.make_schedule else []
        # A separate generator: else each pass over the loader draws from the one dropout uses.
        loader = DataLoader(job.side["load"](), batch_size=BATCH // job.accumulation // ranks, shuffle=True,
                            drop_last=True, generator=torch.Generator())
        self.model, self.loader = self.accelerator.prepare(model, loader)
        self.optimizers = [self.accelerator.prepare(o) for o in optimizers]
        self.schedules = [self.accelerator.prepare(s) for s in schedules]
        self.step = 0

    def loss(self, inputs, targets):
        with torch.autocast("cpu", dtype=torch.float16, enabled=bool(self.job.scale)):
            output = self.model(inputs)
            return F.cross_entropy(output.flatten(0, -2), targets.flatten())

    def update(self):
        for optimizer in self.optimizers:
            optimizer.step()
        for schedule in self.schedules:
            if not self.job.evaluates:
                schedule.step()
            elif (self.step + 1) % self.job.evaluates == 0 and self.accelerator.sync_gradients:
                schedule.step(0.0)
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def train(self, until):
        """The losses of the steps from here to `until`, at any place of any epoch."""
        found, window = [], None
        per_epoch = len(self.loader) // self.job.accumulation
        while self.step < until:
            self.loader.set_epoch(self.step // per_epoch)
            skipped = self.step % per_epoch * self.job.accumulation
            for inputs, targets in self.accelerator.skip_first_batches(self.loader, skipped):
                with self.accelerator.accumulate(self.model):
                    loss = self.loss(inputs, targets)
                    self.accelerator.backward(loss)
                    self.update()
                part = loss.detach() / self.job.accumulation if self.job.accumulation > 1 else loss.detach()
                window = part if window is None else window + part
                if self.accelerator.sync_gradients:
                    found.append(self.accelerator.reduce(window, "mean").item())
                    window = None
                    self.step += 1
                if self.step == until:
                    break
        return found

    def save(self, folder):
        self.accelerator.save_state(str(folder), safe_serialization=not self.job.binary)

    def load(self, folder, step):
        self.accelerator.load_state(str(folder))
        self.step = step


class Runner:
    """Runs accel-run in a separate folder."""

    def __init__(self, binary, folder):
        self.binary, self.folder = pathlib.Path(binary).resolve(), pathlib.Path(folder)
        self.environment = dict(os.environ, OMP_NUM_THREADS="1")

    def call(self, job, name, *words):
        (self.folder / "job.yaml").write_text(job.recipe())
        return subprocess.run([self.binary, "job.yaml", f"name={name}", *words], cwd=self.folder,
                              capture_output=True, text=True, env=self.environment, check=False)

    def convert(self, source, target, layout):
        subprocess.run([self.binary, "checkpoint", "convert", source, target, "--to", layout], cwd=self.folder,
                       check=True, capture_output=True, env=self.environment)

    def losses(self, job, name, *words):
        done = self.call(job, name, *words)
        if done.returncode:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr}")
        return self.recorded(name)

    def recorded(self, name):
        lines = (self.folder / "runs" / name / "metrics.jsonl").read_text().splitlines()
        return [line["loss"] for line in map(json.loads, lines) if "loss_bits" in line]

    def checkpoint(self, name, step):
        return self.folder / "runs" / name / "checkpoints" / f"checkpoint_{step}"

    def clear(self):
        for folder in self.folder.iterdir():
            if folder.is_dir():
                shutil.rmtree(folder)
