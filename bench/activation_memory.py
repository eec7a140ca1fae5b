#!/usr/bin/env python3
"""What `activation_checkpointing: blocks` saves of GPT-2 124M's memory, and that it changes no loss.

    activation_memory.py ACCEL_RUN FOLDER

FOLDER is made. Two steps of AdamW with GPT-2's own dropout, one sample of 1024 tokens each, weights
by chance; the peak is that of the process's resident memory (getrusage). Takes a minute or two.
"""

import json
import multiprocessing
import random
import resource
import subprocess
import sys
from array import array
from pathlib import Path

VOCAB, CONTEXT = 50257, 1024

RECIPE = f"""
model: {{type: gpt, num_layers: 12, num_heads: 12, hidden_size: 768, max_seq_len: {CONTEXT}, vocab_size: {VOCAB}, dropout: 0.1}}
data: {{train: {{type: tokens, path: tokens.bin, max_seq_len: {CONTEXT}, vocab_size: {VOCAB}}}}}
optimizer: {{type: adamw, lr: 1e-4}}
train: {{until: 2 steps, batch: 1}}
checkpoint: {{every: never, at_end: false}}
"""


def train(job):
    """(peak in MiB, bits of the losses) of a run in a separate process."""
    binary, folder, mode = job
    subprocess.run([binary, "job.yaml", f"name={mode}", f"train.activation_checkpointing={mode}"], cwd=folder,
                   check=True, stdout=subprocess.DEVNULL)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    lines = (folder / "runs" / mode / "metrics.jsonl").read_text().splitlines()
    return peak, [line["loss_bits"] for line in map(json.loads, lines) if "loss_bits" in line]


def main():
    binary, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    folder.mkdir(parents=True)
    draw = random.Random(1)
    with open(folder / "tokens.bin", "wb") as file:
        array("H", (draw.randrange(VOCAB) for _ in range(4 * CONTEXT + 1))).tofile(file)
    (folder / "job.yaml").write_text(RECIPE)
    found = {}
    for mode in ("none", "blocks"):
        # A fresh process, whose children are this run alone.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found[mode] = pool.map(train, [(binary, folder, mode)])[0]
        print(f"{mode}: peak {found[mode][0]:.0f} MiB, losses {' '.join(found[mode][1])}")
    saved = 1 - found["blocks"][0] / found["none"][0]
    print(f"{100 * saved:.0f} % less, losses {'the same' if found['none'][1] == found['blocks'][1] else 'DIFFER'}")
    return 0 if found["none"][1] == found["blocks"][1] else 1


if __name__ == "__main__":
    sys.exit(main())
