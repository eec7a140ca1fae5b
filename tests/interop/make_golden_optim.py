"""Writes golden/{optimizers,schedules,scaler}.json: what PyTorch computes, step by step.

The unit tests of optim and precision hold the C++ side against these files. Tensors are filled by
a formula (see `fill`) that the tests repeat, so only results are stored.
"""

import fnmatch
import json
import math
import pathlib
import sys

import numpy
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "smoke"))  # last: it has names of packages
import processor  # noqa: E402

GOLDEN = pathlib.Path(__file__).parent / "golden"
SHAPES = {"embed.weight": [2, 3], "fc.weight": [4, 3], "fc.bias": [4], "conv.weight": [2, 2, 2, 1]}
STEPS = 4
SKIPPED = (1, "fc.bias")  # a step at which this parameter has no gradient


def fill(shape, seed):
    """Exact in float32: multiples of 1/64 in [-0.75, 0.75]."""
    count = math.prod(shape)
    values = [((i * 37 + seed * 101) % 97 - 48) / 64 for i in range(count)]
    return torch.tensor(values, dtype=torch.float32).reshape(shape)


def numbers(tensor):
    return [float(str(v)) for v in numpy.atleast_1d(tensor.detach().numpy()).ravel()]


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of "Symbolic Discovery of Optimization Algorithms", with torch's options."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(
            params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize)
        )

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = -p.grad if group["maximize"] else p.grad
                average = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                if group["weight_decay"] != 0:
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                direction = average.mul(beta1).add(grad, alpha=1 - beta1).sign_()
                p.add_(direction, alpha=-group["lr"])
                average.mul_(beta2).add_(grad, alpha=1 - beta2)


class Sophia(torch.optim.Optimizer):
    """Algorithm 3 of "Sophia: A Scalable Stochastic Second-order Optimizer", with the estimator of its algorithm 2."""

    def __init__(self, params, lr=1e-4, betas=(0.965, 0.99), rho=0.04, eps=1e-12, weight_decay=0.1):
        super().__init__(params, dict(lr=lr, betas=betas, rho=rho, eps=eps, weight_decay=weight_decay))

    def items(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if not self.state[p]:
                        self.state[p] = {"step": torch.zeros(()), "exp_avg": torch.zeros_like(p),
                                         "hessian": torch.zeros_like(p)}
                    yield group, p, self.state[p]

    @torch.no_grad()
    def update_hessian(self, labels):
        """The gradients are those of the mean loss over so many sampled labels."""
        for group, p, state in self.items():
            beta2 = group["betas"][1]
            state["hessian"].mul_(beta2).addcmul_(p.grad, p.grad, value=(1 - beta2) * labels)

    @torch.no_grad()
    def step(self):
        for group, p, state in self.items():
            state["step"] += 1
            if group["weight_decay"] != 0:
                p.mul_(1 - group["lr"] * group["weight_decay"])
            average = state["exp_avg"].mul_(group["betas"][0]).add_(p.grad, alpha=1 - group["betas"][0])
            divisor = state["hessian"].mul(group["rho"]).clamp_(min=group["eps"])
            p.add_(average.div(divisor).clamp_(-1, 1), alpha=-group["lr"])


CLASSES = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
    "lion": Lion,
    "sophia": Sophia,
    "adafactor": torch.optim.Adafactor,
}
# Of the largest value of a tensor. 0: to the last bit, on a CPU of the kind that ran this script.
# adafactor and muon sum, in an order that depends on the threads; sophia's cases are of another kind of CPU.
TOLERANCE = {"adafactor": 1e-6, "muon": 1e-6, "sophia": 1e-6}

OPTIMIZERS = [
    {"type": "sgd", "lr": 0.1},
    {"type": "sgd", "lr": 0.1, "momentum": 0.9},
    {"type": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    {"type": "sgd", "lr": 0.1, "momentum": 0.8, "dampening": 0.3, "maximize": True},
    {
        "type": "sgd",
        "lr": 0.1,
        "momentum": 0.9,
        "weight_decay": 0.05,
        "groups": [
            {"match": ["*.bias"], "weight_decay": 0.0},
            {"match": ["fc.*", "conv.*"], "lr": 0.02, "momentum": 0.5},
        ],
    },
    {"type": "adam"},
    {"type": "adam", "lr": 0.01, "betas": [0.8, 0.95], "weight_decay": 0.1},
    {"type": "adam", "lr": 0.01, "amsgrad": True, "maximize": True},
    {"type": "adam", "lr": 0.01, "fused": False, "weight_decay": 0.1, "maximize": True},
    {"type": "adamw"},
    {"type": "adamw", "lr": 0.02, "fused": False},
    {"type": "adamw", "lr": 0.02, "fused": False, "amsgrad": True, "betas": [0.8, 0.95]},
    {"type": "adamw", "lr": 0.02, "betas": [0.9, 0.95], "eps": 1e-6, "weight_decay": 0.2},
    {"type": "adamw", "lr": 0.02, "amsgrad": True},
    {
        "type": "adamw",
        "lr": 0.02,
        "groups": [{"match": ["*.bias"], "weight_decay": 0.0, "lr": 0.1}],
    },
    {"type": "adagrad"},
    {
        "type": "adagrad",
        "lr": 0.1,
        "lr_decay": 0.1,
        "weight_decay": 0.1,
        "initial_accumulator_value": 0.5,
        "eps": 1e-8,
    },
    {"type": "rmsprop"},
    {"type": "rmsprop", "alpha": 0.9, "momentum": 0.9, "weight_decay": 0.1},
    {"type": "rmsprop", "centered": True, "eps": 1e-3, "maximize": True},
    {"type": "rmsprop", "centered": True, "momentum": 0.5},
    {"type": "lion"},
    {"type": "lion", "lr": 0.01, "betas": [0.95, 0.98], "weight_decay": 0.1},
    {"type": "sophia", "hessian_interval": 2},
    {"type": "sophia", "lr": 0.01, "betas": [0.9, 0.95], "rho": 0.3, "eps": 1e-6, "weight_decay": 0.2, "hessian_interval": 3},
    {
        "type": "sophia",
        "lr": 0.01,
        "hessian_interval": 1,
        "groups": [{"match": ["*.bias"], "weight_decay": 0.0, "rho": 1.0, "betas": [0.5, 0.5]}],
    },
    {"type": "adafactor"},
    {"type": "adafactor", "lr": 0.5, "weight_decay": 0.1, "d": 1.5, "beta2_decay": -0.5},
    {"type": "muon"},
    {
        "type": "muon",
        "lr": 0.02,
        "weight_decay": 0.01,
        "momentum": 0.9,
        "nesterov": False,
        "ns_steps": 3,
        "adjust_lr_fn": "match_rms_adamw",
        "adamw": {"lr": 0.01, "weight_decay": 0.1},
    },
]


NOT_TORCH = ("type", "groups", "adamw", "match", "fused", "hessian_interval")
LABELS = 24  # of each estimate of the Hessian


def torch_options(recipe):
    options = {k: v for k, v in recipe.items() if k not in NOT_TORCH}
    if recipe.get("type") in ("adam", "adamw"):
        options["fused"] = recipe.get("fused", True) or None  # None: torch's default
    return {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}


def torch_groups(recipe, parameters):
    """The groups as a user would hand them to torch: the recipe's in order, then the rest."""
    left = dict(parameters)
    groups = []
    for group in recipe.get("groups", []):
        taken = [n for m in group["match"] for n in left if fnmatch.fnmatch(n, m)]
        groups.append({"params": [(n, left.pop(n)) for n in taken], **torch_options(group)})
    return groups + [{"params": list(left.items())}]


def make_optimizers(recipe, parameters):
    if recipe["type"] != "muon":
        groups = torch_groups(recipe, parameters)
        return [CLASSES[recipe["type"]](groups, **torch_options(recipe))]
    hidden = {n: p for n, p in parameters.items() if p.ndim == 2 and "embed" not in n}
    others = {n: p for n, p in parameters.items() if n not in hidden}
    return [
        torch.optim.Muon(list(hidden.items()), **torch_options(recipe)),
        torch.optim.AdamW(list(others.items()), fused=True, **recipe.get("adamw", {})),
    ]


def state_of(optimizer):
    groups = []
    for group in optimizer.param_groups:
        hyper = {k: v for k, v in group.items() if k not in ("params", "param_names")}
        if "adjust_lr_fn" in hyper:
            hyper["adjust_lr_fn"] = hyper["adjust_lr_fn"] or "original"
        if isinstance(optimizer, torch.optim.Adafactor):
            hyper["eps"] = (hyper["eps"][0] or torch.finfo(torch.float32).eps, hyper["eps"][1])
        slots = {
            name: {k: numbers(v) for k, v in optimizer.state[p].items() if v is not None}
            for name, p in zip(group["param_names"], group["params"])
        }
        groups.append({"hyper": hyper, "slots": slots})
    return groups


def run_optimizer(recipe):
    shapes = enumerate(SHAPES.items())
    parameters = {name: torch.nn.Parameter(fill(shape, seed)) for seed, (name, shape) in shapes}
    optimizers = make_optimizers(recipe, parameters)
    groups = [g for o in optimizers for g in o.param_groups]
    for group in groups:
        group["initial_lr"] = group["lr"]  # as attaching a scheduler does
    trace = []
    for step in range(STEPS):
        if step % recipe.get("hessian_interval", STEPS + 1) == 0 and recipe["type"] == "sophia":
            for seed, p in enumerate(parameters.values()):
                p.grad = fill(p.shape, 3000 + 10 * step + seed)
            optimizers[0].update_hessian(LABELS)
        for seed, (name, p) in enumerate(parameters.items()):
            grad = fill(p.shape, 1000 + 10 * step + seed)
            p.grad = None if (step, name) == SKIPPED else grad
        for group in groups:
            group["lr"] = group["initial_lr"] * (1 - step / 8)
        for optimizer in optimizers:
            optimizer.step()
        trace.append({name: numbers(p) for name, p in parameters.items()})
    return {
        "recipe": recipe,
        "tolerance": TOLERANCE.get(recipe["type"], 0),
        "trace": trace,
        "state": [g for o in optimizers for g in state_of(o)],
    }


def run_clip(max_norm):
    parameters = [torch.nn.Parameter(fill(s, i)) for i, s in enumerate(SHAPES.values())]
    for seed, p in enumerate(parameters):
        p.grad = fill(p.shape, 2000 + seed)
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    return {
        "max_norm": max_norm,
        "norm": numbers(norm)[0],
        "gradients": {n: numbers(p.grad) for n, p in zip(SHAPES, parameters)},
    }


TOTAL = 40
EPOCH = 10
BASES = [0.1, 0.003]


def torch_curve(make, length):
    """The rates of each group under one of torch's own schedulers."""
    optimizer = torch.optim.SGD(
        [{"params": [torch.zeros(1, requires_grad=True)], "lr": base} for base in BASES]
    )
    scheduler = make(optimizer)
    curve = []
    for _ in range(length):
        curve.append([g["lr"] for g in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return curve


def formula_curve(factor, length):
    return [[base * factor(step) for base in BASES] for step in range(length)]


def warmed(warmup, start, body):
    """Transformers' warm-up from zero, or from `start`, before a curve of TOTAL - warmup steps."""
    climb = formula_curve(lambda s: start + (1 - start) * s / warmup, warmup)
    return climb + body(TOTAL - warmup)


def linear(length):
    return formula_curve(lambda s: max(0.0, (length - s) / max(1, length)), length)


def cosine(cycles):
    def curve(length):
        return formula_curve(
            lambda s: max(0.0, 0.5 * (1 + math.cos(math.pi * cycles * 2 * s / max(1, length)))),
            length,
        )

    return curve


def polynomial(power, end):
    def curve(length):
        return [
            [(b - end) * (1 - s / length) ** power + end for b in BASES] for s in range(length)
        ]

    return curve


def inverse_sqrt(timescale):
    factor = lambda s: 1 / math.sqrt((s + timescale) / timescale)
    return lambda length: formula_curve(factor, length)


def wsd(decay, shape, to):
    def factor(s, length):
        stable = length - decay
        if s < stable:
            return 1.0
        return max(0.0, shape((s - stable) / decay)) * (1 - to) + to

    return lambda length: formula_curve(lambda s: factor(s, length), length)


def drops(places, gamma, first):
    return lambda length: formula_curve(
        lambda s: gamma ** sum(place <= s + first for place in places), length
    )


def transformers_curve(name, warmup, options):
    from transformers import get_scheduler

    return torch_curve(lambda o: get_scheduler(name, o, warmup, TOTAL, options), TOTAL)


def schedule_cases():
    lr = torch.optim.lr_scheduler
    yield {"type": "constant"}, formula_curve(lambda s: 1, TOTAL)
    yield {"type": "constant", "warmup": "10%"}, warmed(
        4, 0, lambda n: formula_curve(lambda s: 1, n)
    )
    yield {"type": "linear"}, torch_curve(
        lambda o: lr.LinearLR(o, start_factor=1, end_factor=0, total_iters=TOTAL), TOTAL
    )
    yield {"type": "linear", "warmup": "6 steps"}, warmed(6, 0, linear)
    yield {"type": "linear", "from": 0.25, "to": 0.75}, torch_curve(
        lambda o: lr.LinearLR(o, start_factor=0.25, end_factor=0.75, total_iters=TOTAL), TOTAL
    )
    yield {"type": "cosine"}, torch_curve(lambda o: lr.CosineAnnealingLR(o, TOTAL), TOTAL)
    yield {"type": "cosine", "min_lr": 0.001}, torch_curve(
        lambda o: lr.CosineAnnealingLR(o, TOTAL, eta_min=0.001), TOTAL
    )
    yield {"type": "cosine", "warmup": "6%"}, warmed(3, 0, cosine(0.5))
    yield {"type": "cosine", "warmup": "1 epochs", "warmup_from": 0.1, "cycles": 1.5}, warmed(
        10, 0.1, cosine(1.5)
    )
    yield {"type": "cosine", "to": 0.1}, formula_curve(
        lambda s: 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * s / TOTAL)), TOTAL
    )
    yield {"type": "cosine", "warmup": "10%", "restarts": 3}, transformers_curve(
        "cosine_with_restarts", 4, {"num_cycles": 3}
    )
    yield {"type": "polynomial", "power": 2}, torch_curve(
        lambda o: lr.PolynomialLR(o, total_iters=TOTAL, power=2), TOTAL
    )
    yield {"type": "polynomial", "power": 0.5, "min_lr": 1e-4, "warmup": 5}, warmed(
        5, 0, polynomial(0.5, 1e-4)
    )
    yield {"type": "step", "every": "1 epochs", "gamma": 0.5}, torch_curve(
        lambda o: lr.StepLR(o, EPOCH, 0.5), TOTAL
    )
    yield {"type": "step", "every": 7, "warmup": 3}, warmed(3, 0, drops(range(7, 99, 7), 0.1, 3))
    yield {"type": "multistep", "milestones": ["50%", "75%"]}, torch_curve(
        lambda o: lr.MultiStepLR(o, [20, 30]), TOTAL
    )
    yield {
        "type": "multistep",
        "milestones": ["1 epochs", "15 steps"],
        "gamma": 0.3,
        "warmup": "10%",
    }, warmed(4, 0, drops([10, 15], 0.3, 4))
    yield {"type": "exponential", "gamma": 0.9, "every": 1}, torch_curve(
        lambda o: lr.ExponentialLR(o, 0.9), TOTAL
    )
    yield {"type": "exponential", "gamma": 0.5, "warmup": 4}, warmed(
        4, 0, lambda n: formula_curve(lambda s: 0.5 ** (s / EPOCH), n)
    )
    yield {"type": "inverse_sqrt", "warmup": 8}, warmed(8, 0, inverse_sqrt(8))
    yield {"type": "inverse_sqrt"}, inverse_sqrt(10000)(TOTAL)
    yield {"type": "inverse_sqrt", "timescale": "20 steps", "warmup": 4}, warmed(
        4, 0, inverse_sqrt(20)
    )
    yield {"type": "wsd"}, wsd(4, lambda p: 0.5 * (1 + math.cos(math.pi * p)), 0)(TOTAL)
    yield {"type": "wsd", "warmup": 6, "decay": "25%", "decay_type": "linear", "to": 0.1}, warmed(
        6, 0, wsd(10, lambda p: 1 - p, 0.1)
    )
    yield {"type": "wsd", "warmup": 4, "decay": 16, "decay_type": "1-sqrt"}, warmed(
        4, 0, wsd(16, lambda p: 1 - math.sqrt(p), 0)
    )
    yield {"type": "one_cycle"}, one_cycle()
    yield {"type": "one_cycle", "anneal_strategy": "linear", "pct_start": 0.5}, one_cycle(
        anneal_strategy="linear", pct_start=0.5
    )
    yield {
        "type": "one_cycle",
        "three_phase": True,
        "pct_start": 0.4,
        "div_factor": 10,
        "final_div_factor": 100,
    }, one_cycle(three_phase=True, pct_start=0.4, div_factor=10, final_div_factor=100)


def one_cycle(**options):
    def make(optimizer):
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=BASES, total_steps=TOTAL, cycle_momentum=False, **options
        )
        scheduler.total_steps += 1  # torch refuses the step call behind the last update
        return scheduler

    return torch_curve(make, TOTAL)


METRICS = [1.0, 0.9, 0.9, 0.95, 0.89995, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.4, 0.41, 0.42, 0.43, 0.44]
PLATEAUS = [
    {"patience": 1},
    {"patience": 0, "factor": 0.5, "cooldown": 2, "min_lr": 0.001},
    {"mode": "max", "patience": 2, "threshold": 0.02, "threshold_mode": "abs"},
]


def run_plateau(options):
    optimizer = torch.optim.SGD(
        [{"params": [torch.zeros(1, requires_grad=True)], "lr": base} for base in BASES]
    )
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    rates = []
    for metric in METRICS:
        scheduler.step(metric)
        rates.append([g["lr"] for g in optimizer.param_groups])
    return {"recipe": {"type": "plateau", **options}, "rates": rates}


GROWTH_INTERVAL = 3
OVERFLOWS = [0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0]  # which steps have an infinite gradient


def run_scaler():
    """Scale, tracker and weight after each step of GradScaler on the CPU."""
    scaler = torch.amp.GradScaler("cpu", growth_interval=GROWTH_INTERVAL)
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.SGD([weight], lr=0.125)
    trace = []
    for step, overflow in enumerate(OVERFLOWS):
        loss = (weight * (step + 1) / 16).sum()
        scaler.scale(loss).backward()
        if overflow:
            weight.grad[1] = math.inf
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        state = scaler.state_dict()
        trace.append(
            {
                "scale": state["scale"],
                "tracker": state["_growth_tracker"],
                "weight": numbers(weight),
            }
        )
    return {"growth_interval": GROWTH_INTERVAL, "overflows": OVERFLOWS, "trace": trace}


def write(name, sections):
    """JSON with one case per line."""

    def rows(value):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(json.dumps(row) for row in value) + "\n]"
        return json.dumps(value)

    body = ",\n".join(f"{json.dumps(key)}: {rows(value)}" for key, value in sections.items())
    (GOLDEN / name).write_text("{\n" + body + "\n}\n")


def main():
    torch.set_num_threads(1)
    GOLDEN.mkdir(exist_ok=True)
    write(
        "optimizers.json",
        {
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "is_intel": processor.kind().startswith("GenuineIntel"),
            "skipped": SKIPPED,
            "cases": [run_optimizer(recipe) for recipe in OPTIMIZERS],
            "clip": [run_clip(max_norm) for max_norm in (0.5, 1.25, 100.0)],
        },
    )
    write(
        "schedules.json",
        {
            "total_steps": TOTAL,
            "steps_per_epoch": EPOCH,
            "bases": BASES,
            "cases": [{"recipe": r, "rates": rates} for r, rates in schedule_cases()],
            "metrics": METRICS,
            "plateaus": [run_plateau(options) for options in PLATEAUS],
        },
    )
    write("scaler.json", run_scaler())


if __name__ == "__main__":
    main()
