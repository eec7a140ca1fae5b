"""What the sides of the comparison train: models, data and recipes. The data is the same in every run."""

import random
import struct

CHARACTERS = [chr(ord("0") + i) for i in range(65)]

# steps: in each round; warm_up: of those, not counted (torch.compile compiles in the first). recipe and
# options say the same model to accel-run and to Python. lr: where it is not 0.001. short: what the short
# form has instead.
WORKS = {
    "mlp": {"recipe": "{type: mlp, hidden_sizes: [256]}", "model": "mlp", "data": "images", "shape": (1, 28, 28),
            "options": {"inputs": 784, "outputs": 10, "hidden": [256]},
            "batch": 64, "samples": 4096, "steps": 300, "warm_up": 50,
            "short": {"samples": 256}},
    "cnn": {"recipe": "{type: lenet}", "model": "lenet", "data": "images", "shape": (1, 28, 28),
            "options": {"image": [1, 28, 28], "classes": 10},
            "batch": 128, "samples": 1024, "steps": 16, "warm_up": 4,
            "short": {"batch": 8, "samples": 32}},
    "resnet18": {"recipe": "{type: resnet, depth: 18, stem: imagenet}", "model": "resnet", "data": "images",
                 "shape": (3, 64, 64), "options": {"depth": 18, "stem": "imagenet", "channels": 3, "classes": 10},
                 "batch": 16, "samples": 256, "steps": 12, "warm_up": 3, "lr": 1e-4,
                 "short": {"recipe": "{type: resnet, depth: 18, stem: imagenet, embedding_size: 8}", "batch": 8, "samples": 24,
                           "options": {"depth": 18, "stem": "imagenet", "channels": 3, "classes": 10, "width": 8}}},
    "char-gpt": {"recipe": "{type: gpt, num_layers: 4, num_heads: 4, hidden_size: 128}", "model": "gpt", "data": "text",
                 "options": {"vocab": 65, "context": 128, "layers": 4, "heads": 4, "width": 128},
                 "batch": 32, "samples": 256, "steps": 10, "warm_up": 3,
                 "short": {"recipe": "{type: gpt, num_layers: 2, num_heads: 4, hidden_size: 32}", "batch": 4, "samples": 12,
                           "options": {"vocab": 65, "context": 16, "layers": 2, "heads": 4, "width": 32}}},
    "gpt2-124m": {"recipe": "{type: gpt, num_layers: 12, num_heads: 12, hidden_size: 768, max_seq_len: 256, vocab_size: 50257}",
                  "model": "gpt", "data": "tokens",
                  "options": {"vocab": 50257, "context": 256, "layers": 12, "heads": 12, "width": 768},
                  "batch": 1, "samples": 16, "steps": 6, "warm_up": 2,
                  "short": {"recipe": "{type: gpt, num_layers: 2, num_heads: 4, hidden_size: 32, max_seq_len: 32, vocab_size: 2048}",
                            "options": {"vocab": 2048, "context": 32, "layers": 2, "heads": 4, "width": 32}}},
    "bert-base": {"recipe": "{type: bert, num_layers: 12, num_heads: 12, hidden_size: 768, max_seq_len: 512, vocab_size: 30522, num_classes: 2,"
                            " dropout: 0}",
                  "model": "bert", "data": "ids", "shape": (128,),
                  "options": {"vocab": 30522, "context": 512, "layers": 12, "heads": 12, "width": 768, "classes": 2},
                  "batch": 8, "samples": 64, "steps": 5, "warm_up": 2, "lr": 2e-5,
                  "short": {"recipe": "{type: bert, num_layers: 2, num_heads: 4, hidden_size: 32, max_seq_len: 64, vocab_size: 512, num_classes: 2,"
                                      " dropout: 0}",
                            "options": {"vocab": 512, "context": 64, "layers": 2, "heads": 4, "width": 32, "classes": 2},
                            "shape": (16,), "batch": 4, "samples": 12}},
}

RECIPE = """
seed: 42
model: MODEL
data: {train: DATA, loader: {drop_last: true}}
optimizer: {type: adamw, lr: LEARNING_RATE, weight_decay: 0.01}
train: {until: STEPS steps, batch: BATCH}
accelerator: {mixed_precision: PRECISION, num_cpu_threads_per_process: THREADS}
checkpoint: {every: never, at_end: false}
log: {every: 1 steps}
"""

SHORT_STEPS = 3


def works_of(names, short):
    """The named works by name; the short form's are small, for a look at their losses alone."""
    small = {"steps": SHORT_STEPS, "warm_up": 0}
    return {name: {**WORKS[name], **(dict(WORKS[name]["short"], **small) if short else {}), "name": name}
            for name in names}


def learning_rate(work):
    return work.get("lr", 1e-3)


def mixed_precision(precision):
    return "no" if precision == "fp32" else precision


def write_npy(path, kind, shape, content):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content)


def write_labelled(folder, work, draw):
    shape = (work["samples"], *work["shape"])
    size = 1
    for length in shape:
        size *= length
    if work["data"] == "images":
        kind, content = "|u1", draw.randbytes(size)
    else:  # 0 is BERT's fill, which transformers never trains
        kind, content = "<i8", struct.pack(f"<{size}q", *(draw.randrange(1, work["options"]["vocab"]) for _ in range(size)))
    labels = [i % work["options"].get("classes", 10) for i in range(shape[0])]  # each class is there
    draw.shuffle(labels)
    write_npy(folder / f"{work['name']}_x.npy", kind, shape, content)
    write_npy(folder / f"{work['name']}_y.npy", "<i8", (shape[0],), struct.pack(f"<{len(labels)}q", *labels))


def write_data(folder, works):
    for name, work in works.items():
        draw = random.Random(name)
        if "shape" in work:
            write_labelled(folder, work, draw)
            continue
        count = work["options"]["context"] * work["samples"] + 1
        if work["data"] == "text":
            (folder / f"{name}.txt").write_text("".join(CHARACTERS + draw.choices(CHARACTERS, k=count)))
        else:
            ids = [draw.randrange(work["options"]["vocab"]) for _ in range(count)]
            (folder / f"{name}.bin").write_bytes(struct.pack(f"<{count}H", *ids))


def recipe_data(work):
    name, options = work["name"], work["options"]
    if "shape" in work:
        scale = str(work["data"] == "images").lower()
        return f"{{type: npy, scale: {scale}, inputs: {name}_x.npy, targets: {name}_y.npy}}"
    cut = f"context: {options['context']}, head: {work['samples']}"
    if work["data"] == "text":
        return f"{{type: text, path: {name}.txt, {cut}}}"
    return f"{{type: tokens, path: {name}.bin, vocab_size: {options['vocab']}, {cut}}}"


def recipe_of(work, precision, threads):
    values = {"MODEL": work["recipe"], "DATA": recipe_data(work), "STEPS": work["steps"], "BATCH": work["batch"],
              "PRECISION": mixed_precision(precision), "THREADS": threads, "LEARNING_RATE": learning_rate(work)}
    recipe = RECIPE
    for name, value in values.items():
        recipe = recipe.replace(name, str(value))
    return recipe
