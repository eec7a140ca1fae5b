"""What checkpoints of GPT-2 124M with AdamW cost, beside Accelerate's and beside dd.

The two sides take turns. The folder is on the disk that is measured.
"""

import json
import os
import random
import re
import shutil
import statistics
import subprocess
from array import array

from sides import INTEROP

CONTEXT = 128
STEPS = 8
SAVE_EVERY = 2
FULL = {"layers": 12, "heads": 12, "width": 768}
SHORT = {"layers": 2, "heads": 4, "width": 32}

RECIPE = f"""
name: gpt2
model: {{type: gpt, SIZES, max_seq_len: 1024, vocab_size: 50257}}
data:
  train: {{type: tokens, path: tokens.bin, max_seq_len: {CONTEXT}, vocab_size: 50257}}
  loader: {{workers: 0}}
optimizer: {{type: adamw, lr: 0.0001}}
train: {{until: {STEPS} steps, batch: 1}}
checkpoint: {{every: {SAVE_EVERY} steps, keep: {{last: 1, best: 0}}, resume: auto}}
"""

ACCELERATE = """
import json, shutil, sys, time
import torch
from accelerate import Accelerator
sys.path.insert(0, sys.argv[1])
from models import Gpt
accelerator = Accelerator(cpu=True)
model = Gpt(50257, 1024, **json.loads(sys.argv[2]))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
model, optimizer = accelerator.prepare(model, optimizer)
for parameter in model.parameters():
    parameter.grad = torch.full_like(parameter, 1e-3)
optimizer.step()
for i in range(3):
    shutil.rmtree("accelerate", ignore_errors=True)
    start = time.perf_counter()
    accelerator.save_state("accelerate")
    print("save", time.perf_counter() - start)
for i in range(3):
    start = time.perf_counter()
    accelerator.load_state("accelerate")
    print("load", time.perf_counter() - start)
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE,
                          **options).stdout


def ours(binary, folder):
    """Seconds by kind: of a save, of training waiting for it, of a load, and of a save in its way."""
    seconds = {"save": [], "stall": [], "load": [], "synchronous": []}
    for words, kind in ((["checkpoint.async=false"], "synchronous"), ([], "save")):
        shutil.rmtree(folder / "runs", ignore_errors=True)
        run(binary, "gpt2.yaml", *words, cwd=folder)
        for line in (folder / "runs/gpt2/metrics.jsonl").read_text().splitlines():
            event = json.loads(line)
            if event.get("event") == "save":
                whole, stall = re.findall(r"(\d+) ms", event["text"])
                seconds[kind].append(int(whole) / 1e3)
                # The last one has no training left to hide behind.
                if kind == "save" and event["step"] < STEPS:
                    seconds["stall"].append(int(stall) / 1e3)
    for more in range(1, 4):
        output = run(binary, "resume", "runs/gpt2", f"train.until={STEPS + more} steps", "checkpoint.every=never",
                   "checkpoint.at_end=false", cwd=folder, stderr=subprocess.STDOUT)
        seconds["load"].append(int(re.search(r"read in (\d+) ms", output)[1]) / 1e3)
    return seconds


def accelerate(python, folder, sizes):
    seconds = {"save": [], "load": []}
    for line in run(python, "-c", ACCELERATE, INTEROP, json.dumps(sizes), cwd=folder, stderr=subprocess.DEVNULL).splitlines():
        kind, value = line.split()
        seconds[kind].append(float(value))
    return seconds


def dd(folder, megabytes):
    target = folder / "dd"
    output = run("dd", "if=/dev/zero", f"of={target}", "bs=1M", f"count={megabytes}", "conv=fsync",
               env=dict(os.environ, LC_ALL="C"), stderr=subprocess.STDOUT)
    target.unlink()
    return float(re.search(r"([0-9.]+) s,", output)[1])


def measured(words, folder, sizes):
    """Seconds by side and kind, and the bytes of a checkpoint."""
    seconds, size = {}, 0
    for _ in range(words.rounds):
        sides = {"ours": ours(words.accel_run, folder)}
        size = sum(path.stat().st_size for path in folder.glob("runs/gpt2/checkpoints/*/**/*") if path.is_file())
        if words.python:
            sides["accelerate"] = accelerate(words.python, folder, sizes)
        sides["dd"] = {"write": [dd(folder, max(1, size // 1_000_000))]}
        for side, kinds in sides.items():
            for kind, values in kinds.items():
                seconds.setdefault(f"{side} {kind}", []).extend(values)
    return seconds, size


def run_section(words, folder):
    sizes = SHORT if words.short else FULL
    random.seed(0)
    tokens = array("H", (random.randrange(50257) for _ in range(CONTEXT * 64 + 1)))
    (folder / "tokens.bin").write_bytes(tokens.tobytes())
    text = ", ".join(f"{name}: {value}" for name, value in sizes.items())
    (folder / "gpt2.yaml").write_text(RECIPE.replace("SIZES", text))
    seconds, size = measured(words, folder, sizes)
    median = {kind: statistics.median(values) for kind, values in seconds.items()}
    print(f"checkpoint of {size / 1e9:.2f} GB; medians (least to most) in seconds")
    for kind, values in seconds.items():
        speed = f"  {size / median[kind] / 1e9:6.2f} GB/s" if median[kind] and "stall" not in kind else ""
        print(f"  {kind:20} {median[kind]:7.3f}  ({min(values):.3f} to {max(values):.3f}){speed}")
    pairs = {"training waits / Accelerate's save": ("ours stall", "accelerate save"),
             "dd / a save in training's way": ("dd write", "ours synchronous"),
             "load / Accelerate's": ("ours load", "accelerate load")}
    for name, (above, below) in pairs.items():
        if median.get(below):
            print(f"  ratio, {name:36}{median[above] / median[below]:.3f}")
    return {"seconds": seconds, "bytes": size}
