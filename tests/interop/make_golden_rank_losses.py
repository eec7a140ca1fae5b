"""Writes golden/rank_losses.json: 50 losses of plain Accelerate scripts in two processes on the CPU.

    python tests/interop/make_golden_rank_losses.py [--check]

A loss is the mean over the step's micro-batches of both processes. With --check nothing is written;
the losses are compared with those in golden/ instead.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.utils.data import DataLoader, Subset

import make_golden_losses as golden
import models
import ranks

PROCESSES = 2
# Whole windows at the end of an epoch, for Accelerate scales a short one differently: either its last
# round of micro-batches is filled up with samples of the epoch's start, or it is left out.
SAMPLES = {"filled": {"mlp": 250, "lenet": 250, "gpt": 188}, "dropped": {"mlp": 244, "lenet": 244, "gpt": 180}}
JOBS = [(model, optimizer, accumulation, tail, "no")
        for model in golden.MODELS for optimizer in ("sgd", "adamw") for accumulation in (1, 2) for tail in SAMPLES]
JOBS += [("mlp", "adamw", accumulation, "filled", "bf16") for accumulation in (1, 2)]


def prepared(job):
    """The accelerator, and what it made of model, optimizer and loader."""
    model_name, optimizer_name, accumulation, tail, precision = job
    for state in (AcceleratorState, PartialState, GradientState):
        state._reset_state()
    set_seed(golden.SEED)
    accelerator = Accelerator(
        cpu=True, gradient_accumulation_steps=accumulation, mixed_precision=precision,
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, data_seed=golden.SEED,
                                                  even_batches=True))
    options = dict(golden.MODELS[model_name])
    if model_name == "gpt":
        data, options["vocab"] = golden.text_data()
    else:
        data = golden.image_data()
        options["dropout"] = 0.0
    model = models.BUILD[model_name](options)
    optimizer = golden.OPTIMIZERS[optimizer_name](model.parameters())
    loader = DataLoader(Subset(data, range(SAMPLES[tail][model_name])), shuffle=True, drop_last=tail == "dropped",
                        batch_size=golden.BATCH // accumulation // PROCESSES, generator=torch.Generator())
    return accelerator, *accelerator.prepare(model, optimizer, loader)


def losses(job):
    accelerator, model, optimizer, loader = prepared(job)
    found, window = [], []
    for loss in golden.train(accelerator, model, optimizer, loader):
        window.append(loss)
        if accelerator.sync_gradients:
            found.append(accelerator.gather(torch.stack(window)).double().mean().item())
            window = []
        if len(found) == golden.STEPS:
            return found


def rank(path):
    """One of the processes."""
    torch.set_num_threads(1)
    found = {"_".join(map(str, job)).removesuffix("_no"): losses(job) for job in JOBS}
    if torch.distributed.get_rank() == 0:
        path.write_text(json.dumps(found))
    ranks.leave()


def main():
    path = golden.HERE / "golden" / "rank_losses.json"
    if sys.argv[1:2] == ["--rank"]:
        return rank(Path(sys.argv[2]))
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "losses.json"
        ranks.launch(__file__, "--rank", made, processes=PROCESSES)
        return golden.keep_or_check(path, json.loads(made.read_text()))


if __name__ == "__main__":
    sys.exit(main())
