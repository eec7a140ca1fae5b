"""Loads with Accelerate's own load_state what accel-run wrote, and takes a step from there.

Usage: check_load_state.py FOLDER {adamw,sgd}
The folder holds the checkpoint that tests/unit/checkpoint/accelerate_interop_test.cpp writes: a
tensor's values are its first one plus 0, 0.5, 1, ...
"""

import random
import sys

import numpy as np
import torch
from accelerate import Accelerator

SEED = 1234
STEP = 5
LAST_LR = 0.025


def ramp(first, shape):
    count = int(np.prod(shape))
    return (first + 0.5 * torch.arange(count, dtype=torch.float32)).reshape(shape)


def make(kind):
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2, bias=False))
    optimizers = {
        "adamw": lambda: torch.optim.AdamW(net.parameters(), lr=0.5),
        "sgd": lambda: torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9),
    }
    optimizer = optimizers[kind]()
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    return net, optimizer, schedule


def check_model(net):
    firsts = {"0.weight": 1, "0.bias": 2, "1.weight": 3}
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, ramp(firsts[name], tensor.shape)), name


def check_optimizer(kind, optimizer):
    group = optimizer.param_groups[0]
    assert group["lr"] == LAST_LR and group["initial_lr"] == 0.1 and group["weight_decay"] == 0.01
    slots = {"adamw": {"exp_avg": 10, "exp_avg_sq": 20}, "sgd": {"momentum_buffer": 30}}[kind]
    if kind == "adamw":
        assert group["betas"] == (0.8, 0.99)
    for number, parameter in enumerate(group["params"]):
        state = optimizer.state[parameter]
        if kind == "adamw":
            assert state["step"].item() == STEP
        for name, first in slots.items():
            assert torch.equal(state[name], ramp(first + number, parameter.shape)), name


def check_generators():
    found = (torch.get_rng_state(), random.getstate(), np.random.get_state())
    torch.manual_seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)
    assert torch.equal(found[0], torch.get_rng_state()), "PyTorch's generator"
    assert found[1] == random.getstate(), "Python's generator"
    wanted = np.random.get_state()
    assert np.array_equal(found[2][1], wanted[1]) and found[2][2:] == wanted[2:], "NumPy's generator"


def main():
    folder, kind = sys.argv[1:]
    accelerator = Accelerator(cpu=True)
    net, optimizer, schedule = accelerator.prepare(*make(kind))
    accelerator.load_state(folder)
    check_generators()
    check_model(net)
    check_optimizer(kind, optimizer.optimizer)
    assert accelerator.step == 0
    assert schedule.scheduler.last_epoch == STEP and schedule.get_last_lr() == [LAST_LR]
    accelerator.backward(net(torch.ones(4, 3)).sum())
    optimizer.step()
    schedule.step()
    assert schedule.scheduler.last_epoch == STEP + 1
    assert abs(schedule.get_last_lr()[0] - 0.1 / (2 + STEP)) < 1e-12
    assert all(torch.isfinite(p).all() for p in net.parameters())
    print(f"Accelerate resumes from accel-run's {kind} checkpoint")


if __name__ == "__main__":
    main()
