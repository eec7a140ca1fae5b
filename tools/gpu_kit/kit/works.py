"""What is trained: recipes, and the same models for the peers. Sizes are the published ones; small: tiny shapes."""

import array
import random
import struct

# flops: model operations of a token or image in a forward and backward pass, beyond 6 for each parameter:
# 12 L C T of attention, as nanoGPT and PaLM count.
PEERS = ["eager", "compile", "accelerate"]
WORKS = {
    "gpt2-124m": {"kind": "gpt", "layers": 12, "heads": 12, "width": 768, "vocab": 50257, "context": 1024, "batch": 64},
    "char-gpt": {"kind": "gpt", "layers": 6, "heads": 6, "width": 384, "vocab": 65, "context": 256, "batch": 64},
    "resnet50": {"kind": "resnet", "depth": 50, "side": 224, "classes": 1000, "batch": 64},
    "bert-base": {"kind": "bert", "layers": 12, "heads": 12, "width": 768, "vocab": 30522, "context": 128, "batch": 64},
    "llama-1b": {"kind": "llama", "layers": 16, "heads": 32, "kv_heads": 8, "width": 2048, "mlp": 8192, "vocab": 32000,
                 "context": 2048, "batch": 2},
    "gpt2-1.5b": {"kind": "gpt", "layers": 48, "heads": 25, "width": 1600, "vocab": 50257, "context": 1024, "batch": 4},
}
SMALL = {"layers": 2, "heads": 4, "kv_heads": 2, "width": 32, "mlp": 64, "vocab": 512, "context": 16, "batch": 2, "depth": 18,
         "side": 64, "classes": 10}


def work_of(name, small):
    work = dict(WORKS[name], name=name)
    return {key: SMALL.get(key, value) if small else value for key, value in work.items()}


def model(work):
    if work["kind"] == "resnet":
        return f"{{type: resnet, depth: {work['depth']}, stem: imagenet}}"
    text = (f"{{type: {work['kind']}, num_layers: {work['layers']}, num_heads: {work['heads']}, hidden_size: {work['width']}, "
            f"max_seq_len: {work['context']}, vocab_size: {work['vocab']}")
    if work["kind"] == "llama":
        text += f", num_kv_heads: {work['kv_heads']}, intermediate_size: {work['mlp']}"
    if work["kind"] == "bert":
        text += ", num_classes: 2, dropout: 0"
    return text + "}"


def samples(work):
    return 4 * work["batch"]


def write_npy(path, kind, shape, content):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content)


def write_data(work, folder):
    """The dataset of a recipe; the same at each call."""
    draw, name, count = random.Random(work["name"]), work["name"], samples(work)
    if work["kind"] in ("gpt", "llama"):
        tokens = array.array("H", (draw.randrange(work["vocab"]) for _ in range(count * work["context"] + 1)))
        (folder / f"{name}.bin").write_bytes(tokens.tobytes())
        return f"{{type: tokens, path: {name}.bin, vocab_size: {work['vocab']}, max_seq_len: {work['context']}}}"
    if work["kind"] == "bert":
        ids = array.array("q", (draw.randrange(1, work["vocab"]) for _ in range(count * work["context"])))
        write_npy(folder / f"{name}_x.npy", "<i8", (count, work["context"]), ids.tobytes())
        classes, scale = 2, "false"
    else:
        side = work["side"]
        write_npy(folder / f"{name}_x.npy", "|u1", (count, 3, side, side), draw.randbytes(count * 3 * side * side))
        classes, scale = work["classes"], "true"
    labels = array.array("q", (i % classes for i in range(count)))
    labels[-1] = classes - 1  # the highest class is there
    write_npy(folder / f"{name}_y.npy", "<i8", (count,), labels.tobytes())
    return f"{{type: npy, scale: {scale}, inputs: {name}_x.npy, targets: {name}_y.npy}}"


def recipe(work, folder, steps, every=5, precision="bf16"):
    return f"""
seed: 42
model: {model(work)}
data: {{train: {write_data(work, folder)}, loader: {{drop_last: true, workers: 2}}}}
optimizer: {{type: adamw, lr: 1e-4, weight_decay: 0.01}}
train: {{until: {steps} steps, batch: {work['batch']}}}
accelerator: {{mixed_precision: "{precision}"}}
checkpoint: {{every: never, at_end: false}}
log: {{every: {every} steps}}
"""


def units(work):
    """Tokens of a step, or images."""
    return work["batch"] * work.get("context", 1)


def flops(work, parameters):
    """Of a step, as nanoGPT and PaLM count; None for convolutions."""
    if work["kind"] == "resnet":
        return None
    return units(work) * (6 * parameters + 12 * work["layers"] * work["width"] * work["context"])
