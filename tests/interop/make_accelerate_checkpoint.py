"""Writes checkpoints with Accelerate's own save_state, and what they hold as a table.

    python tests/interop/make_accelerate_checkpoint.py tests/unit/checkpoint/golden

Folders: adamw, with a schedule and the model as safetensors; sgd, with momentum and the model as
pytorch_model.bin. <folder>.tsv has a line per tensor: part, name, shape, CRC-32 of its bytes; and
one per learning rate: part, number, value in hexadecimal.
"""

import sys
import zlib
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

STEPS = 3


def model():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


def train(accelerator, optimizer_class, **options):
    net = model()
    optimizer = optimizer_class(net.parameters(), **options)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    net, optimizer, schedule = accelerator.prepare(net, optimizer, schedule)
    for _ in range(STEPS):
        loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 3)), torch.randint(2, (8,)))
        accelerator.backward(loss)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return net, optimizer, schedule


def tensor_line(part, name, tensor):
    shape = "[" + ", ".join(str(size) for size in tensor.shape) + "]"
    crc = zlib.crc32(tensor.detach().contiguous().numpy().tobytes())
    return f"{part}\t{name}\t{shape}\t{crc}"


def table(net, optimizer, schedule):
    names = [name for name, _ in net.named_parameters()]
    lines = [tensor_line("model", name, tensor) for name, tensor in sorted(net.state_dict().items())]
    for index, slots in optimizer.state_dict()["state"].items():
        lines += [tensor_line("optimizer", f"{names[index]}.{slot}", tensor)
                  for slot, tensor in slots.items()]
    lines.append(tensor_line("rng", "cpu", torch.get_rng_state()))
    lines += [f"lr\t0\t{rate.hex()}" for rate in schedule.get_last_lr()]
    return "\n".join(lines) + "\n"


def write(folder, name, safe, optimizer_class, **options):
    set_seed(42)
    accelerator = Accelerator(cpu=True)
    trained = train(accelerator, optimizer_class, **options)
    accelerator.save_state(str(folder / name), safe_serialization=safe)
    (folder / f"{name}.tsv").write_text(table(*trained))


def main():
    folder = Path(sys.argv[1])
    write(folder, "adamw", True, torch.optim.AdamW, lr=1e-3, betas=(0.8, 0.99))
    write(folder, "sgd", False, torch.optim.SGD, lr=0.1, momentum=0.9)


if __name__ == "__main__":
    main()
