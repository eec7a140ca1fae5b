#!/usr/bin/env python3
"""Pipeline parallelism of two ranks on this machine: the measured bubble beside the simulated one.

    pipelines.py ACCEL_RUN FOLDER [ROUNDS]

FOLDER is made; pipelines.json is left in it. The measured bubble is the share of a rank's step that is neither
data, forward, backward nor optimizer: waiting for the other rank, and messages. The simulated one is that of the
first screen, for stages of the planned costs, backward passes of twice the time of forward ones, and messages that
take no time. Medians over rounds are printed, with the load of the machine: another load makes the first larger.
"""

import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

RECIPE = """
model: {type: gpt, num_layers: 8, num_heads: 8, hidden_size: 256, vocab_size: 256, tie_embeddings: false}
data:
  train: {type: synthetic/addition, length: 4096}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.001}
train: {until: 12 steps, batch: BATCH, micro_batch: 8}
accelerator: {num_processes: 2, num_cpu_threads_per_process: 1, parallelism: {pp: 2}}
checkpoint: {at_end: false}
"""
COMPUTED = ("data", "forward", "backward", "optimizer")


def measure(binary, folder, schedule, micro_batches, round_number):
    name = f"{schedule}-{micro_batches}-{round_number}"
    (folder / f"{name}.yaml").write_text(RECIPE.replace("BATCH", str(8 * micro_batches)))
    done = subprocess.run([binary, f"{name}.yaml", f"accelerator.pipeline.schedule={schedule}"], cwd=folder, text=True,
                          capture_output=True, check=True)
    simulated = int(re.search(r"bubble (\d+) % of a step", done.stdout).group(1)) / 100
    line = re.search(r"^  time +(.*)$", done.stdout, re.MULTILINE).group(1)
    shares = {phase: int(percent) / 100 for phase, percent in re.findall(r"(\w+) (\d+) %", line)}
    waiting = shares.get("sync", 0)
    computed = sum(shares.get(phase, 0) for phase in COMPUTED)
    return simulated, waiting / (waiting + computed)


def main():
    binary, folder = (Path(word).absolute() for word in sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    folder.mkdir(parents=True)
    found = {}
    for micro_batches in (4, 8):
        for schedule in ("1f1b", "zbh1"):
            results = [measure(binary, folder, schedule, micro_batches, i) for i in range(rounds)]
            simulated, measured = results[0][0], statistics.median(result[1] for result in results)
            found[f"{schedule}, {micro_batches} micro-batches"] = {"simulated": simulated, "measured": measured}
            print(f"{schedule:5} {micro_batches:2} micro-batches: bubble {100 * measured:5.1f} %, simulated "
                  f"{100 * simulated:5.1f} %, load {os.getloadavg()[0]:.1f}")
    (folder / "pipelines.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
