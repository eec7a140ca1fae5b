"""Writes golden/models.json: what PyTorch makes of each model for a seed, and its first losses.

`make_golden_models.py --exact FILE` writes a file for this very machine, in which the test then
wants every loss to the last bit: `ACCEL_GOLDEN_MODELS=FILE models_test`.
"""

import argparse
import json
import pathlib
import zlib

import torch
from torch.nn import functional as F

from models import BUILD

STEPS = 3
LR = 0.1

CASES = {
    "linear": {
        "model": {"type": "linear", "inputs": 6, "outputs": 2},
        "task": {"type": "regression"},
        "data": {"input": [6], "target": [2]},
    },
    "mlp": {
        "model": {
            "type": "mlp",
            "inputs": 64,
            "outputs": 5,
            "hidden": [32, 16],
            "activation": "gelu",
            "dropout": 0.2,
        },
        "task": {"type": "classification", "label_smoothing": 0.1},
        "data": {"input": [1, 8, 8], "classes": 5},
    },
    "lenet": {
        "model": {"type": "lenet", "image": [1, 28, 28], "classes": 10, "dropout": 0.5},
        "task": {"type": "classification", "class_weights": [1, 2, 1, 2, 1, 2, 1, 2, 1, 2]},
        "data": {"input": [1, 28, 28], "classes": 10},
    },
    "resnet18": {
        "model": {
            "type": "resnet",
            "depth": 18,
            "stem": "cifar",
            "width": 16,
            "channels": 3,
            "classes": 10,
        },
        "task": {"type": "classification"},
        "data": {"input": [3, 32, 32], "classes": 10},
    },
    "resnet50": {
        "model": {
            "type": "resnet",
            "depth": 50,
            "stem": "imagenet",
            "width": 8,
            "channels": 3,
            "classes": 10,
            "zero_init_residual": True,
        },
        "task": {"type": "classification"},
        "data": {"input": [3, 64, 64], "classes": 10},
    },
    "gpt": {
        "model": {
            "type": "gpt",
            "vocab": 65,
            "context": 16,
            "layers": 2,
            "heads": 4,
            "width": 32,
        },
        "task": {"type": "causal_lm"},
        "data": {"input": [16], "vocab": 65},
    },
    "gpt_dropout": {
        "model": {
            "type": "gpt",
            "vocab": 65,
            "context": 16,
            "layers": 2,
            "heads": 4,
            "width": 32,
            "dropout": 0.1,
        },
        "task": {"type": "causal_lm"},
        "data": {"input": [16], "vocab": 65},
    },
}


def checksum(tensors):
    value = 0
    for tensor in tensors:
        value = zlib.crc32(tensor.detach().contiguous().numpy().tobytes(), value)
    return value


def batch_of(data, size=4):
    """Inputs, then targets, drawn in this order."""
    if "vocab" in data:
        inputs = torch.randint(data["vocab"], (size, *data["input"]))
        targets = torch.randint(data["vocab"], (size, *data["input"]))
        targets[:, :3] = -100
        return inputs, targets
    inputs = torch.randn(size, *data["input"])
    if "classes" in data:
        return inputs, torch.randint(data["classes"], (size,))
    return inputs, torch.randn(size, *data["target"])


def loss_of(task, output, targets):
    if task["type"] == "regression":
        return F.mse_loss(output, targets)
    if task["type"] == "causal_lm":
        return F.cross_entropy(output.flatten(0, 1), targets.flatten(), ignore_index=-100)
    weights = task.get("class_weights")
    return F.cross_entropy(
        output,
        targets,
        weight=torch.tensor(weights, dtype=torch.float32) if weights else None,
        label_smoothing=task.get("label_smoothing", 0.0),
    )


def run(case, seed):
    torch.manual_seed(seed)
    options = {key: value for key, value in case["model"].items() if key != "type"}
    model = BUILD[case["model"]["type"]](options)
    parameters = {
        name: f"{list(value.shape)} {checksum([value]):08x}"
        for name, value in model.named_parameters()
    }
    inputs, targets = batch_of(case["data"])
    losses = []
    for _ in range(STEPS):
        loss = loss_of(case["task"], model(inputs), targets)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(parameter.grad, alpha=-LR)
        losses.append(loss.item())
    return {
        "seed": seed,
        **case,
        "parameters": parameters,
        "losses": losses,
        "trained": f"{checksum(model.parameters()):08x}",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exact", type=pathlib.Path, help="write this file, for this machine")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    golden = {
        "torch": torch.__version__.split("+")[0],
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "exact": arguments.exact is not None,
        "lr": LR,
        "cases": {name: run(case, seed) for seed, (name, case) in enumerate(CASES.items(), 1)},
    }
    path = arguments.exact or pathlib.Path(__file__).parent / "golden" / "models.json"
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
