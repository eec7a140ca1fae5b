"""One peer at work: trains what its recipe trains and leaves a result as JSON.

    peer.py PEER WORK RESULT

WORK is JSON (see works.py); the folder holds its data. PEER is accelerate, trainer (Hugging Face's),
eager (plain PyTorch, fused optimizer), compile (torch.compile of the whole step, same optimizer),
roofline (matrix products and nothing else) or count (what a step computes). accelerate_logs also logs to
TensorBoard, accelerate_saves saves its state and accelerate_resumes resumes from it.
"""

import itertools
import json
import os
import sys
import time

import numpy
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, Sampler, TensorDataset

import models  # tests/interop
from works import learning_rate

SEED = 42


class EpochOrder(Sampler):
    """Accelerate's seedable sampler, and accel-run's order."""

    def __init__(self, size):
        self.size, self.epoch = size, 0

    def __len__(self):
        return self.size

    def __iter__(self):
        order = torch.randperm(self.size, generator=torch.Generator().manual_seed(SEED + self.epoch))
        self.epoch += 1
        yield from order.tolist()


def windows(tokens, context, limit):
    cut = torch.stack([tokens[i * context : i * context + context + 1] for i in range(limit)])
    return TensorDataset(cut[:, :-1].contiguous(), cut[:, 1:].contiguous())


def dataset(work):
    name = work["name"]
    if "shape" in work:
        inputs = torch.from_numpy(numpy.load(name + "_x.npy"))
        inputs = inputs.float().div(255) if work["data"] == "images" else inputs
        return TensorDataset(inputs, torch.from_numpy(numpy.load(name + "_y.npy")))
    if work["data"] == "text":
        text = open(name + ".txt").read()
        ids = {character: i for i, character in enumerate(sorted(set(text)))}
        tokens = torch.tensor([ids[character] for character in text])
    else:
        tokens = torch.from_numpy(numpy.fromfile(name + ".bin", numpy.uint16).astype(numpy.int64))
    return windows(tokens, work["options"]["context"], work["samples"])


def bert(options):
    """transformers' model, with the weights that accel-run draws: those of each layer's own start, then a normal."""
    import transformers

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = transformers.BertForSequenceClassification(transformers.BertConfig(
                vocab_size=options["vocab"], max_position_embeddings=options["context"], hidden_size=options["width"],
                num_hidden_layers=options["layers"], num_attention_heads=options["heads"],
                intermediate_size=4 * options["width"], num_labels=options["classes"], hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0))
            drawn = [part for part in self.net.modules() if isinstance(part, (torch.nn.Linear, torch.nn.Embedding))]
            torch.manual_seed(SEED)
            for part in drawn:
                part.reset_parameters()
            for part in drawn:
                torch.nn.init.normal_(part.weight, std=0.02)
                if isinstance(part, torch.nn.Linear):
                    torch.nn.init.zeros_(part.bias)

        def forward(self, tokens):
            return self.net(input_ids=tokens).logits

    return Classifier()


BUILD = dict(models.BUILD, bert=bert)


def prepared(work):
    """The model with accel-run's weights, and batches in its order."""
    torch.set_num_threads(work["threads"])
    torch.manual_seed(SEED)
    model = BUILD[work["model"]](work["options"])
    data = dataset(work)
    loader = DataLoader(data, work["batch"], sampler=EpochOrder(len(data)), drop_last=True, generator=torch.Generator())
    return model, loader


def batches(loader):
    while True:
        yield from loader


def loss_of(model, inputs, targets):
    return F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())


class Clock:
    """Notes when each step ended and its loss, as a log line of each step would."""

    def __init__(self, work):
        self.left, self.losses, self.seconds = work["steps"], [], []
        self.last = time.perf_counter()

    def step(self, loss):
        self.losses.append(float(loss))
        now = time.perf_counter()
        self.seconds.append(now - self.last)
        self.last = now
        if len(self.losses) == 1:
            print("first step", flush=True)
        self.left -= 1
        return self.left > 0

    def result(self):
        return {"seconds": self.seconds, "losses": self.losses}


def accelerate(work, resume=False, save=False, log=None):
    """resume: from what `save` left in the folder "state". log: to this tracker, every step."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, mixed_precision=work["precision"], log_with=log, project_dir="trackers")
    if log:
        accelerator.init_trackers("bench")
    model, loader = prepared(work)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=learning_rate(work)))
    given = batches(loader)
    if resume:
        accelerator.load_state("state")
        next(given)  # of the step before
    clock = Clock(work)
    for inputs, targets in given:
        loss = loss_of(model, inputs, targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if log:
            accelerator.log({"train/loss": float(loss)}, step=len(clock.losses))
        if not clock.step(loss):
            break
    if save:
        accelerator.save_state("state")
    accelerator.end_training()
    return clock.result()


def trainer(work):
    import transformers

    model, loader = prepared(work)

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, inputs, targets):
            return {"loss": loss_of(self.model, inputs, targets)}

    clock = Clock(work)

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            return loader

        def training_step(self, *words, **more):
            self.loss = super().training_step(*words, **more)
            return self.loss

    class Note(transformers.TrainerCallback):
        def on_step_end(self, *_, **__):
            clock.step(trained.loss)

    loader.collate_fn = lambda rows: dict(zip(("inputs", "targets"), map(torch.stack, zip(*rows))))
    arguments = transformers.TrainingArguments(
        "trainer", max_steps=work["steps"], per_device_train_batch_size=work["batch"], learning_rate=learning_rate(work),
        lr_scheduler_type="constant", weight_decay=0.01, max_grad_norm=0, optim="adamw_torch_fused", use_cpu=True,
        bf16=work["precision"] == "bf16", save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True)
    trained = Trainer(Whole(), arguments, callbacks=[Note()])
    trained.train()
    return clock.result()


def plain(work, compiled):
    model, loader = prepared(work)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate(work), fused=True)
    half = work["precision"] == "bf16"

    def step(inputs, targets):
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = loss_of(model, inputs, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    if os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":  # which TorchInductor does not read
        torch._inductor.config.cpp.simdlen = 256
    run = torch.compile(step) if compiled else step
    clock = Clock(work)
    for inputs, targets in batches(loader):
        if not clock.step(run(inputs, targets)):
            return clock.result()


def roofline(work):
    """The most that matrix products reach here, in operations a second: MKL's, which PyTorch takes, or oneDNN's."""
    torch.set_num_threads(work["threads"])
    a = torch.rand(2048, 2048, dtype=torch.bfloat16 if work["precision"] == "bf16" else torch.float32)
    seconds = []
    for product in [lambda: a @ a, lambda: torch.ops.mkldnn._linear_pointwise(a, a, None, "none", [], "")] * 8:
        start = time.perf_counter()
        try:
            product()
        except RuntimeError:  # oneDNN has no product of 16-bit numbers for processors without AVX-512
            continue
        seconds.append(time.perf_counter() - start)
    return {"operations": 2 * 2048**3 / min(seconds)}


def count(work):
    """A step's operations, the parameters, and the most bytes that tensors have at a time, AdamW's moments with them."""
    from torch.profiler import ProfilerActivity, profile
    from torch.utils.flop_counter import FlopCounterMode

    model, loader = prepared(work)
    batch = next(iter(loader))
    with FlopCounterMode(display=False) as counter:
        loss_of(model, *batch).backward()
    model.zero_grad()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        with torch.autocast("cpu", torch.bfloat16, enabled=work["precision"] == "bf16"):
            loss = loss_of(model, *batch)
        loss.backward()
    changes = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    of_step = max(itertools.accumulate(event.nbytes() for event in sorted(changes, key=lambda event: event.start_ns())))
    parameters = sum(p.numel() for p in model.parameters())
    return {"operations": counter.get_total_flops(), "parameters": parameters, "tensors": 3 * 4 * parameters + of_step}


PEERS = {
    "accelerate": accelerate,
    "accelerate_logs": lambda work: accelerate(work, log="tensorboard"),
    "accelerate_saves": lambda work: accelerate(work, save=True),
    "accelerate_resumes": lambda work: accelerate(work, resume=True),
    "trainer": trainer,
    "eager": lambda work: plain(work, False),
    "compile": lambda work: plain(work, True),
    "roofline": roofline,
    "count": count,
}

if __name__ == "__main__":
    with open(sys.argv[3], "w") as out:
        json.dump(PEERS[sys.argv[1]](json.loads(sys.argv[2])), out)
