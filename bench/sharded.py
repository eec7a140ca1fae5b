#!/usr/bin/env python3
"""Sharded training of two ranks on this machine, beside PyTorch's FSDP2.

    sharded.py ACCEL_RUN PYTHON FOLDER [ROUNDS]

PYTHON has torch and accelerate installed. FOLDER is made; sharded.json is left in it. Both sides train the same
models on the same batches with one thread per rank, divide the same blocks, free their parameters after the
forward pass, and must come to the same losses. They take turns; medians and ratios are printed. Memory is the
peak of rank 0; "beyond tensors" is without its half of parameters, gradients and two moments.
"""

import json
import os
import statistics
import sys
from pathlib import Path

import ranks

BOUND = 1e-6  # of the relative difference of two losses
# As in ranks.py.
WORKS = {
    "small": ranks.WORKS["char-gpt"],
    "wide": ("{type: gpt, num_layers: 8, num_heads: 8, hidden_size: 512}",
             {"layers": 8, "heads": 8, "width": 512}, "text", 8, 8, 1e-4),
}


def ours(bench, work):
    process, record = bench.ours(ranks.recipe_of(work), "accelerator.num_processes=2", "accelerator.fsdp.stage=3")
    seconds, losses = bench.steps_of(process, record, work[3])
    actual = [json.loads(line)["actual"] for line in record.read_text().splitlines() if '"actual"' in line][-1]
    return {"seconds": seconds, "losses": losses, "memory": actual["memory_mib"], "parameters": actual["parameters"]}


def main():
    binary, python, folder = (Path(word).absolute() for word in sys.argv[1:4])
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    bench = ranks.Bench(binary, python, folder)
    found = {}
    for name, work in WORKS.items():
        seconds, worst = {"ours": [], "theirs": []}, 0.0
        for _ in range(rounds):
            mine, fsdp2 = ours(bench, work), bench.result_of(work, "sharded")
            worst = max(worst, ranks.check_losses(name, mine["losses"], fsdp2["losses"], BOUND))
            seconds["ours"] += mine["seconds"][ranks.WARM_UP:]
            seconds["theirs"] += fsdp2["seconds"][ranks.WARM_UP:]
        tensors = mine["parameters"] * 16 / 2 / (1 << 20)
        beyond = {"ours": mine["memory"] - tensors, "theirs": fsdp2["memory"] - tensors}
        time = {side: statistics.median(values) for side, values in seconds.items()}
        found[name] = {
            "FSDP2 / ours, time of a step": time["theirs"] / time["ours"],
            "FSDP2 / ours, least time": min(seconds["theirs"]) / min(seconds["ours"]),
            "ours / FSDP2, memory beyond tensors": beyond["ours"] / beyond["theirs"],
        }
        print(f"{name}: {mine['parameters']:,} parameters, stage 3, 2 ranks, {rounds} rounds, load {os.getloadavg()[0]:.1f}")
        print(f"  step, ms: ours {time['ours'] * 1e3:.1f}, FSDP2 {time['theirs'] * 1e3:.1f}; memory, MiB: ours"
              f" {mine['memory']:.0f}, FSDP2 {fsdp2['memory']:.0f}, of it tensors {tensors:.0f}; losses within {worst:.1e}")
        for what, value in found[name].items():
            print(f"  {what:36} {value:8.3f}")
    (folder / "sharded.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
