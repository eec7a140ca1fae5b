#!/usr/bin/env python3
"""Compares the memory that `accel-run plan` tells with what a run takes.

    plan_accuracy.py ACCEL_RUN [WORD...]     only cases whose names have all the words

What is compared is a run's peak resident memory less that of a run of the same kind of model that is
as small as can be: what a process takes anyway is not the plan's. Ends with 1 when a case is more than
10 % off.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MOST_OFF = 0.10
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# Training alone: a checkpoint is not written.
COMMON = ["train.until=3 steps", "checkpoint.every=never", "checkpoint.at_end=false", "eval.every=never",
          "~data.eval", "~eval", "log.every=1"]

GLYPHS = "{type: synthetic/glyphs, length: 2000}"
TOKENS = "{type: tokens, path: tokens.bin, vocab: 5000, context: %d}"


def model(text, data):
    return f"model: {text}\ndata: {{train: {data}}}\n"


KINDS = {
    "mlp": (model("{type: mlp, hidden: [8]}", GLYPHS), [
        ("small", model("{type: mlp, hidden: [4000, 4000]}", GLYPHS), 512),
        ("medium", model("{type: mlp, hidden: [8000, 4000, 2000]}", GLYPHS), 512),
        ("wide", model("{type: mlp, hidden: [12000, 2000]}", GLYPHS), 2000)]),
    "resnet": (model("{type: resnet, width: 2}", GLYPHS), [
        ("18", model("{type: resnet, depth: 18}", GLYPHS), 64),
        ("34", model("{type: resnet, depth: 34, width: 32}", GLYPHS), 64),
        ("50", model("{type: resnet, depth: 50, width: 32}", GLYPHS), 32)]),
    "gpt": (model("{type: gpt, layers: 1, heads: 1, width: 8}", TOKENS % 16), [
        ("small", model("{type: gpt, layers: 4, heads: 4, width: 256}", TOKENS % 256), 16),
        ("medium", model("{type: gpt, layers: 6, heads: 8, width: 512}", TOKENS % 256), 8),
        ("large", model("{type: gpt, layers: 8, heads: 12, width: 768}", TOKENS % 128), 8)]),
}
WAYS = {"fp32": [], "bf16": ["accelerator.mixed_precision=bf16"],
        "accumulated": ["train.gradient_accumulation_steps=4"]}


def planned_bytes(program, recipe, words):
    out = subprocess.run([program, "plan", recipe, *words], check=True, capture_output=True,
                         text=True).stdout
    rows = dict(re.findall(r"^  ([a-z ]+?)  +([0-9.]+ [KMGT]?i?B)$", out, re.MULTILINE))

    def size(row):
        number, unit = rows[row].split()
        return float(number) * UNITS[unit]

    return size("total") - size("the process itself") - size("copy for a checkpoint")


def peak_bytes(program, recipe, words, folder):
    """The largest resident memory of the process: wait4() tells it in KiB."""
    child = subprocess.Popen([program, recipe, *words, "checkpoint.resume=never"], cwd=folder,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out = child.stdout.read()
    _, status, use = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{recipe}: {out}")
    return use.ru_maxrss * 1024


def main():
    program = str(Path(sys.argv[1]).absolute())
    words = sys.argv[2:]
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "tokens.bin").write_bytes(b"".join((i * 7919 % 5000).to_bytes(2, "little")
                                                     for i in range(100_000)))
        for kind, (smallest, sizes) in KINDS.items():
            base = folder / f"{kind}-base.yaml"
            base.write_text(smallest)
            anyway = None
            for size, text, batch in sizes:
                for way, overrides in WAYS.items():
                    name = f"{kind} {size} {way}"
                    if not all(word in name for word in words):
                        continue
                    if anyway is None:
                        anyway = peak_bytes(program, base, [*COMMON, "train.batch=2"], folder)
                    recipe = folder / (name.replace(" ", "-") + ".yaml")
                    recipe.write_text(text)
                    settings = [*COMMON, f"train.batch={batch}", *overrides]
                    plan = planned_bytes(program, recipe, settings)
                    real = peak_bytes(program, recipe, settings, folder) - anyway
                    off = plan / real - 1
                    worst = max(worst, abs(off))
                    print(f"{name:24} planned {plan / 2**20:8.1f} MiB, real {real / 2**20:8.1f} MiB, "
                          f"{off:+.1%}", flush=True)
    print(f"the worst is {worst:.1%} off")
    return worst > MOST_OFF


if __name__ == "__main__":
    sys.exit(main())
