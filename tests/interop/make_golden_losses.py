"""Writes golden/losses.json: the first 50 losses of plain Accelerate scripts on the CPU.

The data of these runs is made here too (data/), small and from nothing but integer arithmetic, so
that accel-run reads the very same bytes. Run it with torch and accelerate installed:

    python tests/interop/make_golden_losses.py [--check]

With --check nothing is written; the losses are compared with those in golden/ instead.
"""

import gzip
import json
import pathlib
import struct
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import models

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "smoke"))  # last: it has names of packages
import processor  # noqa: E402

SEED = 42
STEPS = 50
BATCH = 16
SAMPLES = 256
SIDE = 28
CONTEXT = 32
WINDOWS = 192  # whole steps only: Accelerate scales an epoch's short last window differently

MODELS = {
    "mlp": {"inputs": SIDE * SIDE, "outputs": 10, "hidden": [32], "dropout": 0.0},
    "lenet": {"image": [1, SIDE, SIDE], "classes": 10, "dropout": 0.25},
    "gpt": {"vocab": None, "context": CONTEXT, "layers": 2, "heads": 2, "width": 32},
}
OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.001),
    "fused-adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.001, fused=True),
}


def pseudo_random(state):
    """The high bits of a 64-bit linear congruential generator (Knuth's MMIX constants)."""
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33


def make_images():
    """One bright square per picture, placed by its label, with a few specks of noise."""
    draw = pseudo_random(1)
    images, labels = bytearray(), bytearray()
    for _ in range(SAMPLES):
        label = next(draw) % 10
        picture = bytearray(SIDE * SIDE)
        top, left = 3 + 5 * (label // 3), 3 + 7 * (label % 3)
        for row in range(top, top + 6):
            for column in range(left, left + 6):
                picture[row * SIDE + column] = 128 + next(draw) % 128
        for _ in range(20):
            picture[next(draw) % len(picture)] = next(draw) % 256
        images += picture
        labels.append(label)
    return bytes(images), bytes(labels)


def make_text():
    """Sums and their results, a line each."""
    draw = pseudo_random(2)
    lines = []
    for _ in range(700):
        a, b = next(draw) % 100, next(draw) % 100
        lines.append(f"{a}+{b}={a + b}\n")
    return "".join(lines)


def write_data():
    folder = HERE / "data"
    folder.mkdir(exist_ok=True)
    images, labels = make_images()
    header = struct.pack(">HBB", 0, 8, 3) + struct.pack(">III", SAMPLES, SIDE, SIDE)
    for name, content in (
        ("images.idx.gz", header + images),
        ("labels.idx.gz", struct.pack(">HBB", 0, 8, 1) + struct.pack(">I", SAMPLES) + labels),
    ):
        (folder / name).write_bytes(gzip.compress(content, mtime=0))
    (folder / "sums.txt").write_text(make_text())


def image_data():
    images, labels = make_images()
    pixels = torch.tensor(list(images), dtype=torch.uint8).view(SAMPLES, 1, SIDE, SIDE)
    return TensorDataset(pixels.float().div(255), torch.tensor(list(labels)))


def text_data():
    text = make_text()
    ids = {character: i for i, character in enumerate(sorted(set(text)))}
    tokens = torch.tensor([ids[character] for character in text])
    windows = [tokens[i * CONTEXT : i * CONTEXT + CONTEXT + 1] for i in range(WINDOWS)]
    data = TensorDataset(
        torch.stack([w[:-1] for w in windows]), torch.stack([w[1:] for w in windows])
    )
    return data, len(ids)


def train(accelerator, model, optimizer, loader):
    """Epoch after epoch, without end: the loss of each micro-batch, after the update it may have led to."""
    while True:
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                output = model(inputs)
                loss = F.cross_entropy(output.flatten(0, -2), targets.flatten())
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            yield loss.detach()


def losses(model_name, optimizer_name, accumulation):
    """The loss of each of the first 50 optimizer steps."""
    set_seed(SEED)
    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=accumulation,
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, data_seed=SEED),
    )
    options = dict(MODELS[model_name])
    if model_name == "gpt":
        data, options["vocab"] = text_data()
    else:
        data = image_data()
    model = models.BUILD[model_name](options)
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    # A separate generator: else each pass over the loader draws from the one that dropout uses.
    loader = DataLoader(
        data,
        batch_size=BATCH // accumulation,
        shuffle=True,
        drop_last=True,
        generator=torch.Generator(),
    )
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    found, window = [], None
    for loss in train(accelerator, model, optimizer, loader):
        part = loss / accumulation if accumulation > 1 else loss
        window = part if window is None else window + part
        if accelerator.sync_gradients:
            found.append(window.item())
            window = None
        if len(found) == STEPS:
            return found


def keep_or_check(path, found):
    """Enters the losses for this kind of processor, or with --check compares them. Returns the exit status."""
    golden, kind = json.loads(path.read_text()), processor.kind()
    if "--check" not in sys.argv:
        path.write_text(json.dumps({**golden, kind: found}, indent=1) + "\n")
    elif kind not in golden:
        print(f"{path.name} has no losses of '{kind}': call this without --check to enter them")
    elif golden[kind] != found:
        return f"{path.name} is not what Accelerate gives now on '{kind}'"
    return 0


def main():
    torch.set_num_threads(1)
    found = {}
    for model in MODELS:
        for optimizer in OPTIMIZERS:
            for accumulation in (1, 4):
                found[f"{model}_{optimizer}_{accumulation}"] = losses(model, optimizer, accumulation)
    if "--check" not in sys.argv:
        write_data()
    return keep_or_check(HERE / "golden" / "losses.json", found)


if __name__ == "__main__":
    sys.exit(main())
