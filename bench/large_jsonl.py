#!/usr/bin/env python3
"""Memory of a run on JSON Lines that are larger than what it may take.

    large_jsonl.py ACCEL_RUN [GIB] [FOLDER]

Writes GIB (1) of lines into FOLDER, a new one in the temporary folder unless given, trains a small
model on them for a few steps with nothing kept from before, and prints its peak private memory
(RssAnon) and in all (VmHWM, with pages of files that the system takes back when it needs them) that
the process had. Then it resumes a run that was stopped half way, and compares it with one that was not.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

RECIPE = """\
model: {type: bert, num_layers: 1, num_heads: 2, hidden_size: 32}
data: {train: {type: jsonl, path: lines.jsonl, target: label, tokenizer: tokenizer, max_length: 128, cache: kept}}
train: {until: 20 steps, batch: 8}
checkpoint: {every: 10 steps}
accelerator: {num_processes: 1}
"""


def write_lines(path, size):
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(4000)]
    texts = [" ".join(draw.choices(words, k=draw.randint(5, 200))) for _ in range(2000)]
    with open(path, "w") as out:
        written = 0
        while written < size:
            line = json.dumps({"text": draw.choice(texts) + draw.choice(words), "label": draw.randint(0, 1)}) + "\n"
            written += out.write(line)
    return words


def status_of(pid):
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) // 1024 for line in lines if line.endswith(" kB")}


def measured(binary, folder, *words):
    """Runs to the end; seconds, peak private MiB, peak MiB."""
    start = time.monotonic()
    own = whole = 0
    with subprocess.Popen([binary, *words], cwd=folder, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            status = status_of(process.pid)
            own = max(own, status.get("RssAnon", 0))
            whole = max(whole, status.get("VmHWM", 0))
            time.sleep(0.05)
    if process.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {process.returncode}")
    return time.monotonic() - start, own, whole


def losses(folder, name):
    lines = (folder / "runs" / name / "metrics.jsonl").read_text().splitlines()
    return [line["loss_bits"] for line in map(json.loads, lines) if "loss_bits" in line]


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    size = float(sys.argv[2]) if len(sys.argv) > 2 else 1
    folder = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp())
    words = write_lines(folder / "lines.jsonl", size * 2**30)
    (folder / "words.txt").write_text("\n".join(words))
    (folder / "recipe.yaml").write_text(RECIPE)
    subprocess.run([binary, "tokenizer", "train", "words.txt", "--model", "wordpiece", "--vocab-size", "4000", "--out",
                    "tokenizer"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    print(f"{os.path.getsize(folder / 'lines.jsonl') / 2**20:.0f} MiB of lines")
    for what, *arguments in (("the first run", "run", "recipe.yaml", "name=whole"),
                             ("with the tokens kept", "run", "recipe.yaml", "name=half", "train.until=10 steps"),
                             ("resumed", "resume", "runs/half", "train.until=20 steps")):
        seconds, own, everything = measured(binary, folder, *arguments)
        print(f"{what}: {seconds:.0f} s, {own} MiB private, {everything} MiB with pages of files")
    same = losses(folder, "half") == losses(folder, "whole")
    print("the resumed run has", "the same losses" if same else "OTHER LOSSES")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
