"""The jobs of check_matrix.py: every optimizer and schedule that accel-run and PyTorch both have.

A tolerance of 0 wants the bits of every loss. Another one says why it is there.
"""

import math

import torch
from torch.optim import lr_scheduler as lrs

from matrix_sides import TOTAL, Job

LR = 0.01
# PyTorch computes these rates from the ones before them, accel-run from the step: they differ by
# units in the last place of a double, and with them now and then a weight by one of a float.
CHAINED = 1e-6
# accel-run's fused kernels against PyTorch's loop over tensors, which round the same sums otherwise.
ROUNDED = 1e-6
WARMUP = 5


def optimizer(text, kind, **options):
    return f"{{{text}}}", lambda named: [kind([p for _, p in named], **options)]


def optimizers():
    """Yields (name, (recipe, maker), tolerance)."""
    o = torch.optim
    yield "sgd", optimizer("type: sgd, lr: 0.05", o.SGD, lr=0.05), 0
    yield "sgd-momentum", optimizer("type: sgd, lr: 0.05, momentum: 0.9", o.SGD, lr=0.05, momentum=0.9), 0
    yield "sgd-nesterov", optimizer("type: sgd, lr: 0.05, momentum: 0.9, nesterov: true, weight_decay: 0.01",
                                    o.SGD, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01), 0
    yield "sgd-dampening", optimizer("type: sgd, lr: 0.05, momentum: 0.8, dampening: 0.1",
                                     o.SGD, lr=0.05, momentum=0.8, dampening=0.1), 0
    yield "sgd-maximize", optimizer("type: sgd, lr: 0.0005, momentum: 0.5, maximize: true",
                                    o.SGD, lr=0.0005, momentum=0.5, maximize=True), 0
    for name, kind in (("adam", o.Adam), ("adamw", o.AdamW)):
        text = f"type: {name}, lr: 0.01"
        yield name, optimizer(f"{text}, fused: false", kind, lr=LR), 0
        yield f"{name}-fused", optimizer(text, kind, lr=LR, fused=True), 0
        yield f"{name}-amsgrad", optimizer(f"{text}, fused: false, amsgrad: true, betas: [0.8, 0.99]", kind, lr=LR,
                                           amsgrad=True, betas=(0.8, 0.99)), 0
        yield f"{name}-maximize", optimizer(
            f"type: {name}, lr: 0.0001, weight_decay: 0.1, fused: false, maximize: true", kind, lr=1e-4,
            weight_decay=0.1, maximize=True), 0
    yield "rmsprop", optimizer("type: rmsprop, lr: 0.001", o.RMSprop, lr=0.001), 0
    yield "rmsprop-centered", optimizer("type: rmsprop, lr: 0.001, centered: true, momentum: 0.5, weight_decay: 0.01",
                                        o.RMSprop, lr=0.001, centered=True, momentum=0.5, weight_decay=0.01), 0
    yield "rmsprop-maximize", optimizer("type: rmsprop, lr: 0.0001, maximize: true, alpha: 0.9",
                                        o.RMSprop, lr=0.0001, maximize=True, alpha=0.9), 0
    yield "adagrad", optimizer("type: adagrad, lr: 0.05, lr_decay: 0.1, initial_accumulator_value: 0.1", o.Adagrad,
                               lr=0.05, lr_decay=0.1, initial_accumulator_value=0.1, fused=True), 0
    yield "adagrad-loop", optimizer("type: adagrad, lr: 0.05", o.Adagrad, lr=0.05), ROUNDED
    yield "muon", muon(), 0
    yield "adafactor", optimizer("type: adafactor, lr: 0.01, weight_decay: 0.1", o.Adafactor, lr=LR,
                                 weight_decay=0.1), ROUNDED


def grouped():
    """Biases without decay and with a rate of their own."""
    def make(named):
        biases = [p for name, p in named if name.endswith(".bias")]
        others = [p for name, p in named if not name.endswith(".bias")]
        return [torch.optim.AdamW([{"params": biases, "weight_decay": 0.0, "lr": 0.02}, {"params": others}], lr=LR)]

    return ("{type: adamw, lr: 0.01, fused: false, groups: [{match: '*.bias', weight_decay: 0, lr: 0.02}]}", make)


def muon():
    """Two optimizers of PyTorch's: its Muon takes nothing but matrices."""
    def make(named):
        return [torch.optim.Muon([p for _, p in named if p.dim() == 2], lr=0.02),
                torch.optim.AdamW([p for _, p in named if p.dim() != 2], lr=0.001)]

    return "{type: muon, lr: 0.02, adamw: {lr: 0.001, fused: false}}", make


def warmed(start, then):
    """A recipe's `warmup` as PyTorch writes it."""
    def make(o):
        first = lrs.LinearLR(o, start_factor=start, total_iters=WARMUP)
        return lrs.SequentialLR(o, [first, then(o)], [WARMUP])

    return make


def by_lambda(factor):
    return lambda o: lrs.LambdaLR(o, factor)


def warmed_lambda(rest):
    """transformers' get_..._schedule_with_warmup are LambdaLRs of this form."""
    left = TOTAL - WARMUP
    return by_lambda(lambda step: step / WARMUP if step < WARMUP else rest((step - WARMUP) / left))


def schedules():
    """Yields (name, (recipe, maker), tolerance)."""
    n = TOTAL
    yield "none", ("constant", None), 0
    yield "constant", ("constant", lambda o: lrs.ConstantLR(o, factor=1.0, total_iters=0)), 0
    yield "constant-warmup", ("{type: constant, warmup: 5 steps, warmup_from: 0.25}",
                              lambda o: lrs.LinearLR(o, start_factor=0.25, total_iters=WARMUP)), CHAINED
    yield "linear", ("{type: linear, to: 0.1}", lambda o: lrs.LinearLR(o, 1.0, 0.1, n)), CHAINED
    yield "linear-warmup-lambda", ("{type: linear, warmup: 5 steps}", warmed_lambda(lambda done: 1 - done)), CHAINED
    yield "cosine", ("{type: cosine, min_lr: 0.001}", lambda o: lrs.CosineAnnealingLR(o, n, eta_min=0.001)), CHAINED
    yield "cosine-warmup", ("{type: cosine, warmup: 5 steps, warmup_from: 0.1}",
                            warmed(0.1, lambda o: lrs.CosineAnnealingLR(o, n - WARMUP))), CHAINED
    yield "cosine-warmup-lambda", ("{type: cosine, warmup: 5 steps}", warmed_lambda(
        lambda done: 0.5 * (1 + math.cos(math.pi * done)))), CHAINED
    yield "exponential", ("{type: exponential, gamma: 0.9, every: 1 steps}", lambda o: lrs.ExponentialLR(o, 0.9)), CHAINED
    yield "step", ("{type: step, every: 6 steps, gamma: 0.5}", lambda o: lrs.StepLR(o, 6, 0.5)), CHAINED
    yield "multistep", ("{type: multistep, milestones: [4 steps, 12 steps, 15 steps], gamma: 0.5}",
                        lambda o: lrs.MultiStepLR(o, [4, 12, 15], 0.5)), CHAINED
    yield "polynomial", ("{type: polynomial, power: 2}", lambda o: lrs.PolynomialLR(o, n, 2.0)), CHAINED
    for shape in ("cos", "linear"):
        yield f"one-cycle-{shape}", (f"{{type: one_cycle, anneal_strategy: {shape}}}",
                                     lambda o, shape=shape: lrs.OneCycleLR(
                                         o, LR, total_steps=n, anneal_strategy=shape, cycle_momentum=False)), CHAINED
    yield "inverse-sqrt-lambda", ("{type: inverse_sqrt, timescale: 8 steps}",
                                  by_lambda(lambda step: 1 / math.sqrt((step + 8) / 8))), CHAINED
    yield "wsd-lambda", ("{type: wsd, decay: 6 steps, decay_type: linear}",
                         by_lambda(lambda step: min(1.0, 1 - (step - (n - 6)) / 6))), CHAINED
    yield "phases", ("[{type: constant, for: 5 steps}, {type: cosine}]", lambda o: lrs.SequentialLR(
        o, [lrs.ConstantLR(o, 1.0, 0), lrs.CosineAnnealingLR(o, n - 5)], [5])), CHAINED
    yield "restarts", ("[{type: cosine, for: 11 steps}, {type: cosine}]",
                       lambda o: lrs.CosineAnnealingWarmRestarts(o, 11)), CHAINED


PLATEAU = ("{type: plateau, factor: 0.5, patience: 1, threshold: 1e9, threshold_mode: abs}",
           lambda o: lrs.ReduceLROnPlateau(o, factor=0.5, patience=1, threshold=1e9, threshold_mode="abs"))
ADAMW = optimizer("type: adamw, lr: 0.01, fused: false", torch.optim.AdamW, lr=LR)
MOMENTUM = optimizer("type: sgd, lr: 0.05, momentum: 0.9", torch.optim.SGD, lr=0.05, momentum=0.9)


COSINE = ("{type: cosine}", by_lambda(lambda step: 0.5 * (1 + math.cos(math.pi * step / TOTAL))))


def jobs():
    for name, made, tolerance in optimizers():
        yield Job(f"optimizer {name}", optimizer=made, tolerance=tolerance,
                  schedule=("{type: linear, to: 0.1}", by_lambda(lambda step: 0.1 + 0.9 * (TOTAL - step) / TOTAL)))
    yield Job("optimizer groups", optimizer=grouped(), schedule=COSINE)
    for name, made, tolerance in schedules():
        yield Job(f"schedule {name}", optimizer=ADAMW, schedule=made, tolerance=tolerance)
    yield Job("schedule plateau", optimizer=ADAMW, schedule=PLATEAU, evaluates=3)
    for model in ("mlp-dropout", "lenet", "resnet", "gpt", "gpt-dropout", "gpt-head"):
        for binary in (False, True):
            yield Job(f"model {model}{' .bin' if binary else ''}", model=model, optimizer=ADAMW, binary=binary,
                      schedule=COSINE)
    yield Job("accumulation", model="mlp-dropout", optimizer=ADAMW, accumulation=4,
              schedule=COSINE)
    scaler = '{"init_scale": 1024.0, "growth_factor": 3.0, "growth_interval": 4}'
    yield Job("scaler", optimizer=MOMENTUM, scale=scaler, schedule=COSINE)
    # The first steps overflow: the step is not the number of updates any more.
    yield Job("scaler that skips", optimizer=ADAMW, scale='{"init_scale": 4e6, "growth_interval": 4}',
              schedule=COSINE)
