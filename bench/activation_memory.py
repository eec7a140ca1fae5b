#!/usr/bin/env python3
"""What `activation_checkpointing` saves of GPT-2 124M's memory, what it costs, and that it changes no loss.

    activation_memory.py ACCEL_RUN FOLDER [DROPOUT]

FOLDER is made. Five steps of AdamW, with GPT-2's dropout by default, one sample of 1024 tokens each,
weights by chance. The peak is that of the process's resident memory (getrusage), the time the
mean of the steps'. Attention with dropout has no fused kernel. Takes two minutes.
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
model: {{type: gpt, num_layers: 12, num_heads: 12, hidden_size: 768, max_seq_len: {CONTEXT}, vocab_size: {VOCAB}, dropout: DROPOUT}}
data: {{train: {{type: tokens, path: tokens.bin, max_seq_len: {CONTEXT}, vocab_size: {VOCAB}}}}}
optimizer: {{type: adamw, lr: 1e-4}}
train: {{until: 5 steps, batch: 1}}
checkpoint: {{every: never, at_end: false}}
"""


def train(job):
    """(peak in MiB, bits of the losses, mean seconds of a step) of a run in a separate process."""
    binary, folder, mode = job
    subprocess.run([binary, "job.yaml", f"name={mode}", f"train.activation_checkpointing={mode}"], cwd=folder,
                   check=True, stdout=subprocess.DEVNULL)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    lines = (folder / "runs" / mode / "metrics.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in lines]
    losses = [line["loss_bits"] for line in lines if "loss_bits" in line]
    return peak, losses, next(line["actual"]["step_seconds"] for line in lines if "actual" in line)


def main():
    binary, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    folder.mkdir(parents=True)
    draw = random.Random(1)
    with open(folder / "tokens.bin", "wb") as file:
        array("H", (draw.randrange(VOCAB) for _ in range(4 * CONTEXT + 1))).tofile(file)
    dropout = sys.argv[3] if len(sys.argv) > 3 else "0.1"
    (folder / "job.yaml").write_text(RECIPE.replace("DROPOUT", dropout))
    found = {}
    for mode in ("none", "selective", "blocks"):
        # A fresh process, whose children are this run alone.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found[mode] = pool.map(train, [(binary, folder, mode)])[0]
        (peak, losses, seconds), none = found[mode], found["none"]
        print(f"{mode}: peak {peak:.0f} MiB ({1 - peak / none[0]:.0%} less), a step {seconds:.3f} s"
              f" ({seconds / none[2]:.2f} x), losses {'the same' if losses == none[1] else 'DIFFER'}")
    return 0 if len({tuple(losses) for _, losses, _ in found.values()}) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
