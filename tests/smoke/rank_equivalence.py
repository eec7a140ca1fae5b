#!/usr/bin/env python3
"""However a batch is shared by ranks and micro-batches, training is the same but for rounding.

    rank_equivalence.py ACCEL_RUN

Every run is compared with that of one process that takes each batch whole: the loss and gradient
norm of each step, the samples it took, and the weights at the end.
"""

import json
import random
import struct
import sys
from array import array

import runs

TOLERANCE = 1e-6  # relative and absolute, as Accelerate's own test of training
HOOK_TOLERANCE = 1e-2  # the same of gradients that travel in half precision

LINE = """
model: {type: linear}
task: regression
data:
  train: {type: synthetic/regression, length: LENGTH, noise: 0.1}
  loader: {workers: 0}
optimizer: {type: sgd, lr: 0.1}
train: {until: 3 epochs, batch: 24}
accelerator: {num_cpu_threads_per_process: 1}
checkpoint: {every: never, at_end: true}
"""

TOKENS = """
model: {type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16}
task: causal_lm
data:
  train: {type: npy, inputs: inputs.npy, targets: targets.npy}
  loader: {workers: 0, shuffle: false}
optimizer: {type: sgd, lr: 0.5}
train: {until: 3 epochs, batch: 24}
accelerator: {num_cpu_threads_per_process: 1}
checkpoint: {every: never, at_end: true}
"""
SAMPLES = 58  # the last step of an epoch holds 10
CONTEXT = 12
VOCABULARY = 11
MASKED = -100


def close(found, wanted, tolerance=TOLERANCE):
    return len(found) == len(wanted) > 0 and all(
        abs(a - b) <= tolerance * (1 + abs(b)) for a, b in zip(found, wanted))


def weights(scratch):
    """All weights at the end, as one list."""
    newest = scratch.run / "checkpoints" / f"checkpoint_{scratch.checkpoints()[-1]}"
    data = (newest / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return array("f", data[8 + size:]).tolist()


class Run:
    """What came of a recipe with `words`."""

    def __init__(self, recipe, words, prepare):
        with runs.Scratch(sys.argv[1], recipe) as scratch:
            prepare(scratch.path)
            self.code, self.errors = scratch.call("job.yaml", *words)
            if self.code != 0:
                return
            lines = [json.loads(line) for line in scratch.exact_lines()]
            steps = [line for line in lines if "eval" not in line]
            self.results = [line["eval"] for line in lines if "eval" in line]
            self.evaluations = [line["eval"]["eval/loss"] for line in lines if "eval" in line]
            self.losses = [step["loss"] for step in steps]
            self.norms = [step["grad_norm"] for step in steps]
            self.samples = [(step["samples"], step["ids"]) for step in steps]
            self.weights = weights(scratch)

    def fault(self, wanted):
        """How it differs from another, or nothing."""
        if self.code != 0:
            return self.errors
        if self.samples != wanted.samples:
            return "other samples"
        for name in ("losses", "norms", "weights"):
            if not close(getattr(self, name), getattr(wanted, name)):
                return f"{name} {getattr(self, name)} for {getattr(wanted, name)}"
        return ""


def nothing(_):
    pass


def check_line(report):
    # Whole batches alone; a last one of 11 samples; of a single sample, so that ranks go without.
    for length in (96, 83, 49):
        recipe = LINE.replace("LENGTH", str(length))
        wanted = Run(recipe, [], nothing)
        for world, accumulation in ((1, 2), (1, 3), (1, 8), (2, 1), (2, 2), (2, 4), (3, 1), (3, 2), (3, 4)):
            words = [f"accelerator.num_processes={world}", f"train.gradient_accumulation_steps={accumulation}"]
            fault = Run(recipe, words, nothing).fault(wanted)
            report.check(f"a line through {length} points, {world} ranks, {accumulation} accumulated", not fault, fault)


def npy(path, rows):
    shape = (len(rows), len(rows[0]))
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    data = array("q", (value for row in rows for value in row))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data.tobytes())


def write_tokens(folder):
    """Targets of which each sample has another share masked: none of it to all of it."""
    draw = random.Random(5)
    inputs = [[draw.randrange(VOCABULARY) for _ in range(CONTEXT)] for _ in range(SAMPLES)]
    targets = [[3 * value % VOCABULARY for value in row] for row in inputs]
    for i, row in enumerate(targets):
        masked = CONTEXT if i % 24 < 4 else i * 7 % (CONTEXT + 1)  # a whole micro-batch of 4 and of 2
        row[:masked] = [MASKED] * masked
    npy(folder / "inputs.npy", inputs)
    npy(folder / "targets.npy", targets)


def check_tokens(report):
    wanted = Run(TOKENS, [], write_tokens)
    report.check("tokens that are partly masked are learned", wanted.code == 0 and wanted.losses[-1] < wanted.losses[0],
                 wanted.errors)
    for world, micro_batch in ((1, 4), (2, 12), (2, 4), (2, 2), (3, 8), (3, 4), (3, 2)):
        words = [f"accelerator.num_processes={world}", f"train.micro_batch={micro_batch}"]
        fault = Run(TOKENS, words, write_tokens).fault(wanted)
        report.check(f"masked tokens, {world} ranks, micro-batches of {micro_batch}", not fault, fault)


def check_hooks(report):
    """With a rate of 1 the first step changes the weights by the gradients."""
    recipe = LINE.replace("LENGTH", "24")
    words = ["optimizer.lr=1", "train.until=1 steps"]
    for world in (2, 3):
        words[2:] = [f"accelerator.num_processes={world}"]
        plain = Run(recipe, words, nothing)
        for hook in ("fp16", "bf16"):
            found = Run(recipe, [*words, f"accelerator.ddp.comm_hook={hook}"], nothing)
            good = (found.code == 0 and close(found.weights, plain.weights, HOOK_TOLERANCE)
                    and not close(found.weights, plain.weights))
            report.check(f"gradients of {world} ranks travel as {hook}", good,
                         f"{found.errors} {getattr(found, 'weights', '')} for {plain.weights}")


RESNET = """
model: {type: resnet, embedding_size: 4}
data:
  train: {type: synthetic/glyphs, length: 21}
  loader: {workers: 0}
optimizer: {type: sgd, lr: 0.01}
train: {until: 4 steps, batch: 16}
accelerator: {num_cpu_threads_per_process: 1, sync_batch_norm: true}
checkpoint: {every: never, at_end: true}
"""


def check_batch_norm(report):
    """The last batch of an epoch has 5 samples: 3 and 2 of two ranks, and 2, 2 and 1 of three."""
    wanted = Run(RESNET, [], nothing)
    for words in (["accelerator.num_processes=2", "data.loader.dispatch_batches=true"],
                  ["accelerator.num_processes=2"], ["accelerator.num_processes=2", "accelerator.fsdp={stage: 2, state_dict: full}"]):
        fault = Run(RESNET, words, nothing).fault(wanted)
        report.check(f"batch norm over ranks, uneven at the end: {' '.join(words)}", not fault, fault)
    wanted = Run(RESNET, ["train.batch=12", "data.train.length=17"], nothing)
    words = ["train.batch=12", "data.train.length=17", "accelerator.num_processes=3"]
    fault = Run(RESNET, words, nothing).fault(wanted)
    report.check("and over three", not fault, fault)


def check_local_sgd(report):
    """Plain descent averaged after every update is descent by the mean of the gradients."""
    recipe = LINE.replace("LENGTH", "96")
    wanted = Run(recipe, [], nothing)
    local = ["accelerator.num_processes=2", "accelerator.local_sgd.every=1 steps"]
    found = Run(recipe, local, nothing)
    good = found.code == 0 and close(found.losses, wanted.losses) and close(found.weights, wanted.weights)
    report.check("weights averaged after every update", good, found.errors)
    apart = Run(recipe, [*local[:1], "accelerator.local_sgd.every=4 steps"], nothing)
    report.check("and less often", apart.code == 0 and not close(apart.weights, wanted.weights)
                 and close(apart.weights, wanted.weights, HOOK_TOLERANCE), apart.errors)
    # The average over time is that of the weights all ranks have: of one process, here.
    over_time = ["data.eval={type: synthetic/regression, length: 24}", "eval.every=4 steps", "callbacks=[{type: ema, decay: 0.5}]"]
    wanted = Run(recipe, over_time, nothing)
    found = Run(recipe, [*local, *over_time], nothing)
    good = found.code == 0 and len(found.evaluations) == 3 and close(found.evaluations, wanted.evaluations)
    report.check("and averaged over time besides", good, found.errors)


def check_sample_metrics(report):
    """Metrics over all samples have the same bits, also where the last batch is short."""
    recipe = LINE.replace("LENGTH", "48").replace("lr: 0.1", "lr: 0")
    words = ["data.eval={type: synthetic/regression, length: 25, noise: 0.5}", "eval.every=2 steps",
             "eval.metrics=[r2, pearson, spearman]"]
    wanted = Run(recipe, words, nothing)
    for more in (["train.micro_batch=8"], ["accelerator.num_processes=3"],
                 ["accelerator.num_processes=2", "accelerator.fsdp.stage=3", "accelerator.fsdp.state_dict=full",
                  "data.loader.even_batches=false"]):
        found = Run(recipe, [*words, *more], nothing)
        names = ["r2", "pearson", "spearman"]
        good = found.code == 0 and [[each[f"eval/{name}"] for name in names] for each in found.results] == \
            [[each[f"eval/{name}"] for name in names] for each in wanted.results] and len(found.results) == 3
        report.check(f"metrics over all samples: {' '.join(more)}", good, f"{found.errors}{wanted.results} {found.results}")


def main():
    report = runs.Report()
    check_sample_metrics(report)
    check_line(report)
    check_tokens(report)
    check_hooks(report)
    check_batch_norm(report)
    check_local_sgd(report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
