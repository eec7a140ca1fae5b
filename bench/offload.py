#!/usr/bin/env python3
"""Training with its state on the disk: the bytes per second of a step beside those of plain direct I/O.

    offload.py ACCEL_RUN FOLDER [ROUNDS] [LAYERS HEADS HIDDEN]

FOLDER is made, on the disk to be measured; offload.json is left in it. A GPT (default: GPT-2 XL, 48 25 1600, which
takes 24 GiB of disk) is trained in turns with a loop that reads and writes a file in the same proportions. Both use
4 threads and pieces of 8 MiB, past the page cache. Medians and their ratio are printed, and the peak memory of the run.
"""

import itertools
import json
import mmap
import os
import statistics
import subprocess
import sys
import threading
import time
from array import array
from pathlib import Path

RECIPE = """
model: {type: gpt, num_layers: LAYERS, num_heads: HEADS, hidden_size: HIDDEN}
data:
  train: {type: tokens, path: tokens.bin, vocab_size: 50257, max_seq_len: 128}
optimizer: {type: adamw, lr: 0.0001}
train: {until: 3 steps, batch: 1}
accelerator: {device: cpu, fsdp: {stage: 3, offload: disk, offload_path: .}}
checkpoint: {at_end: false}
"""
# Per parameter in fp32, as docs/sharding.md has it: forward and backward read 8, the gradient is written with 4, AdamW
# reads 16 and writes 12.
READ, WRITTEN = 24, 16
PIECE, THREADS, FILE = 8 << 20, 4, 8 << 30


def plain_bandwidth(path):
    """Bytes per second of direct reads and writes, READ to WRITTEN, over a file of FILE bytes."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
    try:
        os.posix_fallocate(fd, 0, FILE)
        pieces, lock, moved = iter(range(FILE // PIECE)), threading.Lock(), []

        def work():
            buffer = mmap.mmap(-1, PIECE)
            buffer[:] = os.urandom(PIECE)
            while True:
                with lock:
                    piece = next(pieces, None)
                if piece is None:
                    return
                moved.append(os.preadv(fd, [buffer], piece * PIECE))
                if piece * WRITTEN // READ != (piece + 1) * WRITTEN // READ:
                    moved.append(os.pwritev(fd, [buffer], piece * PIECE))

        begin = time.monotonic()
        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(moved) / (time.monotonic() - begin)
    finally:
        os.close(fd)
        os.unlink(path)


def trained(binary, folder, name):
    """The report of a run: parameters, seconds of a step, MiB of memory."""
    subprocess.run([binary, "run.yaml", f"name={name}"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    record = folder / "runs" / name / "metrics.jsonl"
    return [json.loads(line)["actual"] for line in record.read_text().splitlines() if '"actual"' in line][-1]


def main():
    binary, folder = (Path(word).absolute() for word in sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    shape = sys.argv[4:7] or ["48", "25", "1600"]
    folder.mkdir(parents=True)
    recipe = RECIPE
    for word, value in zip(("LAYERS", "HEADS", "HIDDEN"), shape):
        recipe = recipe.replace(word, value)
    (folder / "run.yaml").write_text(recipe)
    with open(folder / "tokens.bin", "wb") as file:
        array("H", itertools.islice(itertools.cycle(range(0, 50257, 7)), 4096)).tofile(file)
    plain, steps = [], []
    for number in range(rounds):
        plain.append(plain_bandwidth(folder / "plain.bin"))
        steps.append(trained(binary, folder, f"round{number}"))
    parameters = steps[0]["parameters"]
    rate = statistics.median(parameters * (READ + WRITTEN) / step["step_seconds"] for step in steps)
    disk = statistics.median(plain)
    found = {"parameters": parameters, "step_seconds": [step["step_seconds"] for step in steps], "plain": plain,
             "rate": rate, "share": rate / disk, "memory_mib": max(step["memory_mib"] for step in steps)}
    (folder / "offload.json").write_text(json.dumps(found, indent=1))
    print(f"{parameters / 1e6:.0f} million parameters, adamw: a step moves {rate / 1e9:.2f} GB/s, plain direct I/O "
          f"{disk / 1e9:.2f} GB/s: {found['share']:.2f}; memory {found['memory_mib']:.0f} MiB; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
