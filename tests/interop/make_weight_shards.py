"""Writes how Accelerate's save_model spreads weights over files, as a table and as its indexes.

    python tests/interop/make_weight_shards.py tests/unit/formats/golden

save_model.tsv has for each plan its limit, a line per weight (name, bytes) in the model's order and
a line per file with the weights in it; <plan>.index.json is the index as written.
"""

import sys
import tempfile
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors.torch import load_file

F16, F32, F64 = torch.float16, torch.float32, torch.float64

# Name, limit in thousands of bytes, safetensors or not, and the weights: name, elements, type.
PLANS = [
    ("safe_one", 10, True, [("a", 100, F32), ("b", 200, F64)]),
    ("safe_split", 1, True, [("z", 100, F32), ("y", 150, F32), ("é \"x\"", 150, F16), ("w", 1, F32)]),
    ("safe_large", 1, True, [("a", 100, F32), ("b", 300, F32), ("c", 100, F32), ("d", 126, F64),
                             ("e", 1, F16)]),
    ("safe_exact", 1, True, [("a", 125, F64), ("b", 250, F32), ("c", 500, F16), ("d", 0, F32)]),
    ("torch_one", 10, False, [("a", 100, F32), ("b", 200, F64)]),
    ("torch_split", 1, False, [("z", 100, F32), ("y", 300, F32), ("x", 150, F16), ("w", 100, F32)]),
]


def model_of(weights):
    model = torch.nn.Module()
    for name, elements, dtype in weights:
        model.register_parameter(name, torch.nn.Parameter(torch.zeros(elements, dtype=dtype)))
    return model


def names_in(path, order):
    held = load_file(path) if path.suffix == ".safetensors" else torch.load(path)
    return [name for name in order if name in held]


def main():
    out = Path(sys.argv[1])
    lines = []
    for plan, limit, safe, weights in PLANS:
        lines.append(f"{plan}\tmax\t\t{limit * 1000}")
        lines += [f"{plan}\tweight\t{name}\t{elements * dtype.itemsize}"
                  for name, elements, dtype in weights]
        order = [name for name, _, _ in weights]
        with tempfile.TemporaryDirectory() as folder:
            Accelerator(cpu=True).save_model(model_of(weights), folder, max_shard_size=f"{limit}KB",
                                             safe_serialization=safe)
            for path in sorted(Path(folder).iterdir()):
                if path.suffix == ".json":
                    (out / f"{plan}.index.json").write_bytes(path.read_bytes())
                else:
                    lines.append(f"{plan}\tfile\t{path.name}\t" + "\t".join(names_in(path, order)))
    (out / "save_model.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
