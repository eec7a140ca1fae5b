#!/usr/bin/env python3
"""Accelerate's load_state() takes what a task with two models, two optimizers and its own state saved.

    check_several_models.py ACCEL_RUN
"""

import pathlib
import subprocess
import sys
import tempfile

import torch
from accelerate import Accelerator
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Net(torch.nn.Module):
    """The layers of models/dcgan.cpp, by their names there."""

    def __init__(self, layers):
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)


class Registered:
    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def main():
    transposed, straight, norm = torch.nn.ConvTranspose2d, torch.nn.Conv2d, torch.nn.BatchNorm2d
    generator = Net({"conv1": transposed(16, 8, 4, bias=False), "norm1": norm(8),
                     "conv2": transposed(8, 4, 4, bias=False), "norm2": norm(4), "conv3": transposed(4, 1, 4)})
    discriminator = Net({"conv1": straight(1, 4, 4), "conv2": straight(4, 8, 4, bias=False), "norm2": norm(8),
                         "conv3": straight(8, 1, 4)})
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([pathlib.Path(sys.argv[1]).resolve(), ROOT / "recipes/tiny/gan.yaml", "train.until=4 steps",
                        "task.generator_every=2"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        saved = pathlib.Path(folder) / "runs/gan/checkpoints/checkpoint_4"
        accelerator, registered = Accelerator(cpu=True), Registered()
        optimizers = [torch.optim.Adam(model.parameters(), lr=1) for model in (generator, discriminator)]
        schedules = [torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1) for optimizer in optimizers]
        accelerator.prepare(generator, discriminator, *optimizers, *schedules)
        accelerator.register_for_checkpointing(registered)
        accelerator.load_state(str(saved))
        for file, model in (("model.safetensors", generator), ("model_1.safetensors", discriminator)):
            for name, tensor in load_file(saved / file).items():
                assert model.state_dict()[name].equal(tensor), (file, name)
        for optimizer, updates in zip(optimizers, (2, 4)):
            assert optimizer.param_groups[0]["lr"] == 0.002, optimizer
            steps = {float(state["step"]) for state in optimizer.state.values()}
            assert steps == {updates}, (steps, updates)
        assert set(registered.state) == {"generator_loss"}, registered.state
    print("Accelerate takes the state of both models and optimizers")


if __name__ == "__main__":
    main()
