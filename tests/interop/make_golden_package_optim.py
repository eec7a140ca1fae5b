"""Writes golden/package_optimizers.json: what optimizers of other packages compute in 20 steps.

    PYTHONPATH=FOLDER python tests/interop/make_golden_package_optim.py

FOLDER has schedulefree 1.4.1, galore-torch 1.0, bitsandbytes 0.50.2 and timm 1.0.31, installed by
`pip install --no-deps --target FOLDER`.

bitsandbytes runs on the CPU, where its quantization looks codes up in a table of 65,536 values: all below 1.5e-5 of a
block's largest have one code. Here it finds the nearest code, as its CUDA kernels do; all else is its own.
"""

import fnmatch
import importlib.util
import json
import sys
import types

import bitsandbytes
import torch
from bitsandbytes.backends.cpu import ops as bitsandbytes_ops
from galore_torch import GaLoreAdamW
from schedulefree import AdamWScheduleFree

from make_golden_optim import GOLDEN, fill, numbers



def timm_lamb():
    """timm's Lamb without the rest of timm, which needs torchvision."""
    folder = importlib.util.find_spec("timm").submodule_search_locations[0] + "/optim"
    package = types.ModuleType("timm_optim")
    package.__path__ = [folder]
    sys.modules["timm_optim"] = package
    return importlib.import_module("timm_optim.lamb").Lamb


def quantize_nearest(values, codes, largest, out, blocksize):
    flat = torch.nn.functional.pad(values.flatten(), (0, -values.numel() % blocksize)).view(-1, blocksize)
    largest.copy_(flat.abs().amax(1))
    unit = (flat / largest.unsqueeze(1)).flatten()[:values.numel()]
    out.copy_((unit.unsqueeze(1) - codes).abs().argmin(1).view(out.shape))


bitsandbytes_ops._quant_blockwise_fp32_direct = quantize_nearest
Lamb = timm_lamb()
SHAPES = {"embed.weight": [6, 5], "fc.weight": [24, 14], "wide.weight": [5, 9], "fc.bias": [24]}
STEPS = 20
# A step at which this parameter has no gradient; timm counts the steps of a group, not of a parameter.
SKIPPED = (4, "fc.bias")

CASES = [
    {"type": "schedule_free_adamw"},
    {"type": "schedule_free_adamw", "lr": 0.05, "betas": [0.95, 0.99], "warmup_steps": 6, "weight_decay": 0.1},
    {"type": "schedule_free_adamw", "lr": 0.05, "r": 0.5, "weight_lr_power": 0,
     "groups": [{"match": ["*.bias"], "weight_decay": 0.2, "lr": 0.01}]},
    {"type": "adamw_8bit", "min_8bit_size": 32},
    {"type": "adamw_8bit", "lr": 0.02, "betas": [0.8, 0.95], "weight_decay": 0.1, "min_8bit_size": 32, "exclude": []},
    {"type": "galore_adamw", "rank": 3, "update_proj_gap": 4},
    {"type": "galore_adamw", "lr": 0.05, "rank": 4, "update_proj_gap": 7, "scale": 1, "weight_decay": 0.1,
     "proj_type": "reverse_std", "betas": [0.8, 0.95]},
    {"type": "galore_adamw", "rank": 2, "update_proj_gap": 3, "proj_type": "right", "exclude": ["wide*"]},
    {"type": "galore_adamw", "rank": 2, "update_proj_gap": 3, "proj_type": "left"},
    {"type": "lamb"},
    {"type": "lamb", "lr": 0.02, "weight_decay": 0.2, "trust_clip": True, "betas": [0.8, 0.95]},
    {"type": "lamb", "lr": 0.02, "weight_decay": 0, "always_adapt": True, "bias_correction": False},
    {"type": "lamb", "groups": [{"match": ["*.bias"], "weight_decay": 0.0}]},
]
SLOTS = {"state1", "state2", "absmax1", "absmax2", "exp_avg", "exp_avg_sq", "z"}
GALORE = ("rank", "update_proj_gap", "scale", "proj_type")


def options_of(recipe, names=()):
    skipped = {"type", "groups", "match", "exclude", "min_8bit_size", *GALORE}
    options = {k: v for k, v in recipe.items() if k not in skipped or k in names}
    return {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}


def groups_of(recipe, parameters):
    left, groups = dict(parameters), []
    for group in recipe.get("groups", []):
        taken = [n for m in group["match"] for n in left if fnmatch.fnmatch(n, m)]
        groups.append({"params": [left.pop(n) for n in taken], **options_of(group)})
    return groups + [{"params": list(left.values())}]


def make(recipe, parameters):
    kind, options = recipe["type"], options_of(recipe)
    if kind == "schedule_free_adamw":
        return AdamWScheduleFree(groups_of(recipe, parameters), **options)
    if kind == "lamb":
        return Lamb(groups_of(recipe, parameters), max_grad_norm=None, foreach=False, **options)
    excluded = recipe.get("exclude", ["*embed*"])
    chosen = {n for n in parameters if not any(fnmatch.fnmatch(n, m) for m in excluded)}
    if kind == "adamw_8bit":
        manager = bitsandbytes.optim.GlobalOptimManager.get_instance()
        manager.register_parameters(list(parameters.values()))
        for name in set(parameters) - chosen:
            manager.override_config(parameters[name], "optim_bits", 32)
        return bitsandbytes.optim.AdamW8bit(
            groups_of(recipe, parameters), min_8bit_size=recipe["min_8bit_size"], **{"eps": 1e-8, **options})
    projected = {n for n in chosen if parameters[n].ndim == 2}
    galore = {"scale": 0.25, "proj_type": "std", **{k: recipe[k] for k in GALORE if k in recipe}}
    groups = [{"params": [parameters[n] for n in parameters if n in projected], **galore},
              {"params": [parameters[n] for n in parameters if n not in projected]}]
    return GaLoreAdamW(groups, no_deprecation_warning=True, eps=1e-8, **options)


def run(recipe):
    parameters = {n: torch.nn.Parameter(fill(shape, seed)) for seed, (n, shape) in enumerate(SHAPES.items())}
    optimizer = make(recipe, parameters)
    averages = recipe["type"] == "schedule_free_adamw"
    if averages:
        optimizer.train()
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    trace = []
    for step in range(STEPS):
        for seed, (name, p) in enumerate(parameters.items()):
            skipped = (step, name) == SKIPPED and recipe["type"] != "lamb"
            p.grad = None if skipped else fill(p.shape, 1000 + 10 * step + seed)
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * (1 - step / 40)
        optimizer.step()
        if step in (0, 5, STEPS - 1):
            trace.append({"step": step, **{name: numbers(p) for name, p in parameters.items()}})
    state = {}
    for name, p in parameters.items():
        slots = optimizer.state[p]
        state[name] = {k: numbers(v.float()) for k, v in slots.items() if k in SLOTS and v is not None}
    case = {"recipe": recipe, "trace": trace, "state": state}
    if averages:
        optimizer.eval()
        case["evaluation"] = {name: numbers(p) for name, p in parameters.items()}
        case["groups"] = [{k: g[k] for k in ("k", "weight_sum", "lr_max", "scheduled_lr", "train_mode")}
                          for g in optimizer.param_groups]
    return case


if __name__ == "__main__":
    cases = [run(recipe) for recipe in CASES]
    maps = {name: numbers(bitsandbytes.functional.create_dynamic_map(signed)) for name, signed in
            (("signed", True), ("unsigned", False))}
    text = json.dumps({"skipped": SKIPPED, "shapes": SHAPES, "cases": cases, "maps": maps})
    (GOLDEN / "package_optimizers.json").write_text(text.replace('{"recipe"', '\n{"recipe"') + "\n")
