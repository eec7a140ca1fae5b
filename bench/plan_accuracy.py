#!/usr/bin/env python3
"""Compares the memory estimate of `accel-run plan` with the memory of a run.

    plan_accuracy.py ACCEL_RUN [WORD...]     only cases whose names have all the words

Two things are compared: the plan but for the process itself with a run's peak resident memory less
that of a run of the same kind of model that is as small as can be; and the estimate of the run itself,
the process included, with its peak (`log.plan`). Ends with 1 when one of them is more than
10 % off; the first one is not looked at below 100 MiB, where the process dominates.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

MOST_OFF = 0.10
LEAST_APART = 100 << 20
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# Training alone: a checkpoint is not written.
COMMON = ["train.until=3 steps", "checkpoint.every=never", "checkpoint.at_end=false", "eval.every=never",
          "~data.eval", "~eval", "log.every=1"]

GLYPHS = "{type: synthetic/glyphs, length: 2000}"
TOKENS = "{type: tokens, path: tokens.bin, vocab_size: 5000, max_seq_len: %d}"


def model(text, data):
    return f"model: {text}\ndata: {{train: {data}}}\n"


KINDS = {
    "mlp": (model("{type: mlp, hidden_sizes: [8]}", GLYPHS), [
        ("small", model("{type: mlp, hidden_sizes: [4000, 4000]}", GLYPHS), 512),
        ("medium", model("{type: mlp, hidden_sizes: [8000, 4000, 2000]}", GLYPHS), 512),
        ("wide", model("{type: mlp, hidden_sizes: [12000, 2000]}", GLYPHS), 2000)]),
    "resnet": (model("{type: resnet, embedding_size: 2}", GLYPHS), [
        ("18", model("{type: resnet, depth: 18}", GLYPHS), 64),
        ("34", model("{type: resnet, depth: 34, embedding_size: 32}", GLYPHS), 64),
        ("50", model("{type: resnet, depth: 50, embedding_size: 32}", GLYPHS), 32)]),
    "gpt": (model("{type: gpt, num_layers: 1, num_heads: 1, hidden_size: 8}", TOKENS % 16), [
        ("small", model("{type: gpt, num_layers: 4, num_heads: 4, hidden_size: 256}", TOKENS % 256), 16),
        ("medium", model("{type: gpt, num_layers: 6, num_heads: 8, hidden_size: 512}", TOKENS % 256), 8),
        ("large", model("{type: gpt, num_layers: 8, num_heads: 12, hidden_size: 768}", TOKENS % 128), 8)]),
}
WAYS = {"fp32": [], "bf16": ["accelerator.mixed_precision=bf16"],
        "accumulated": ["train.gradient_accumulation_steps=4"]}
CHECKPOINTED = ["train.activation_checkpointing=blocks"]
TEXTS = ("{type: jsonl, path: texts.jsonl, target: label, tokenizer: %s, max_length: 128}"
         % (Path(__file__).parent.parent / "recipes/tiny/data/reviews_tokenizer.json").absolute())
# Beside those: (kind, name, recipe, overrides). Of a kind that is above, a size may be the recipe.
MORE = [
    ("gpt", "medium checkpointed", "medium", CHECKPOINTED),
    ("gpt", "medium bf16 checkpointed", "medium", WAYS["bf16"] + CHECKPOINTED),
    ("gpt", "medium bf16 accumulated", "medium", WAYS["bf16"] + WAYS["accumulated"]),
    ("gpt", "medium sgd", "medium", ["optimizer.type=sgd"]),
    ("gpt", "medium adafactor", "medium", ["optimizer.type=adafactor"]),
    ("gpt", "medium ema", "medium", ["callbacks=[{type: ema}]"]),
    ("gpt", "medium ranks", "medium", ["accelerator.num_processes=2"]),
    ("gpt", "gpt2 124M", model("{type: gpt, num_layers: 12, num_heads: 12, hidden_size: 768}",
                               "{type: tokens, path: tokens.bin, vocab_size: 50257, max_seq_len: 256}"),
     ["train.batch=1"]),
    ("resnet", "34 checkpointed", "34", CHECKPOINTED),
    ("resnet", "34 ranks", "34", ["accelerator.num_processes=2"]),
    ("resnet", "lenet quickstart", model("{type: lenet, dropout: 0.1}", GLYPHS),
     ["train.batch=64", "train.max_grad_norm=1.0"]),
    ("resnet", "lenet large", model("{type: lenet}", GLYPHS), ["train.batch=1000"]),
    ("mlp", "medium ranks", "medium", ["accelerator.num_processes=2"]),
    ("bert", "base", model("{type: bert, num_layers: 4, num_heads: 8, hidden_size: 512}", TEXTS),
     ["train.batch=16"]),
    ("bert", "base bf16", model("{type: bert, num_layers: 4, num_heads: 8, hidden_size: 512}", TEXTS),
     ["train.batch=16", *WAYS["bf16"]]),
]
SMALLEST = {kind: smallest for kind, (smallest, _) in KINDS.items()}
SMALLEST["bert"] = model("{type: bert, num_layers: 1, num_heads: 1, hidden_size: 8}", TEXTS)


def cases():
    """(kind, name, recipe, overrides)"""
    for kind, (_, sizes) in KINDS.items():
        for size, text, batch in sizes:
            for way, overrides in WAYS.items():
                yield kind, f"{size} {way}", text, [f"train.batch={batch}", *overrides]
    for kind, name, text, overrides in MORE:
        for size, size_text, batch in KINDS[kind][1] if kind in KINDS else []:
            if text == size:
                text, overrides = size_text, [f"train.batch={batch}", *overrides]
                break
        yield kind, name, text, overrides


def planned_bytes(program, recipe, words):
    out = subprocess.run([program, "plan", recipe, *words], check=True, capture_output=True,
                         text=True).stdout
    rows = dict(re.findall(r"^  ([a-z ]+?)  +([0-9.]+ [KMGT]?i?B)$", out, re.MULTILINE))

    def size(row):
        number, unit = rows[row].split()
        return float(number) * UNITS[unit]

    return size("total") - size("the process itself") - size("checkpoint snapshot")


def measured(program, recipe, words, folder):
    """(peak of rank 0, its estimate by the run), in bytes, as `log.plan` prints them."""
    child = subprocess.run([program, recipe, *words, "checkpoint.resume=never"], cwd=folder,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = re.findall(r"memory ([0-9.]+) MiB, planned ([0-9.]+) MiB", child.stdout)
    if child.returncode != 0 or not found:
        sys.exit(f"{recipe}: {child.stdout}")
    return tuple(float(number) * 2**20 for number in found[-1])


def write_data(folder):
    (folder / "tokens.bin").write_bytes(b"".join((i * 7919 % 5000).to_bytes(2, "little")
                                                 for i in range(100_000)))
    line = '{"text": "%s", "label": %d}\n'
    (folder / "texts.jsonl").write_text("".join(line % ("a good film " * 100, i % 2)
                                                for i in range(200)))


def main():
    program = str(Path(sys.argv[1]).absolute())
    words = sys.argv[2:]
    worst = 0
    anyway = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_data(folder)
        for kind, name, text, overrides in cases():
            if not all(word in f"{kind} {name}" for word in words):
                continue
            if kind not in anyway:
                base = folder / f"{kind}-base.yaml"
                base.write_text(SMALLEST[kind])
                anyway[kind], _ = measured(program, base, [*COMMON, "train.batch=2"], folder)
            recipe = folder / f"{kind}-{name}.yaml".replace(" ", "-")
            recipe.write_text(text)
            settings = [*COMMON, *overrides]
            plan = planned_bytes(program, recipe, settings)
            peak, foretold = measured(program, recipe, settings, folder)
            real = peak - anyway[kind]
            off = plan / real - 1
            whole = foretold / peak - 1
            worst = max(worst, abs(off) if real >= LEAST_APART else 0, abs(whole))
            print(f"{kind + ' ' + name:32} planned {plan / 2**20:7.1f} MiB, real {real / 2**20:7.1f}, "
                  f"{off:+6.1%}; with the process {foretold / 2**20:7.1f}, {peak / 2**20:7.1f}, "
                  f"{whole:+6.1%}", flush=True)
    print(f"the worst is {worst:.1%} off")
    return worst > MOST_OFF


if __name__ == "__main__":
    sys.exit(main())
