#!/usr/bin/env python3
"""Pipeline parallelism of two ranks on this machine: the measured bubble beside the simulated one.

    pipelines.py ACCEL_RUN FOLDER [ROUNDS]

FOLDER is made; pipelines.json is left in it. Three bubbles, each the share of its rank's passes and waits that is waiting:
planned, as on the first screen: stages of the planned costs, backward passes of twice the time of forward ones; measured,
from the profiler's traces of both ranks; and simulated from the same traces: the passes take their measured times, and a
message arrives at once. Measured beyond simulated is the cost of messages and of the threads that carry them; simulated
beyond planned that of passes whose times are not as planned. Medians over the steps of all rounds are printed, with the
load of the machine: another load makes the first two larger.
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
FIRST, LAST = 4, 12  # steps that are traced


def events_of(path):
    """(begin, end, name) of a rank's trace, in seconds, by time."""
    return sorted((event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6, event["name"])
                  for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X")


def actions_of(events, rank, step):
    """A rank's passes of a step: its begin, and (seconds, message that it waits for, message that is sent)."""
    begin, end = next((first, last) for first, last, name in events if name == f"step {step}")
    received, sent = ("gradient of stage 0", "activation of stage 1") if rank == 0 else ("activation of stage 1", "gradient of stage 0")
    actions, now = [], begin
    for first, last, name in events:
        if first < begin or first > end:
            continue
        if name.startswith(f"wait for {received}"):
            actions.append((first - now, name.removeprefix("wait for "), None, last - first))
            now = last
        elif name.startswith(f"start {sent}"):
            actions.append((first - now, None, name.removeprefix("start "), 0))
            now = first
        elif name == "start which gradients there are":
            actions.append((first - now, None, None, 0))
            break
    return begin, actions


def simulated_waits(ranks):
    """The waits of each rank when messages arrive at once."""
    arrived, waits = {}, [0.0] * len(ranks)
    times, next_action = [begin for begin, _ in ranks], [0] * len(ranks)
    moved = True
    while moved:
        moved = False
        for rank, (_, actions) in enumerate(ranks):
            while next_action[rank] < len(actions):
                seconds, wanted, sent, _ = actions[next_action[rank]]
                if wanted and wanted not in arrived:
                    break
                times[rank] += seconds
                if wanted:
                    waits[rank] += max(0, arrived[wanted] - times[rank])
                    times[rank] = max(times[rank], arrived[wanted])
                if sent:
                    arrived[sent] = times[rank]
                next_action[rank] += 1
                moved = True
    return waits


def bubbles_of(traces):
    """(measured, simulated) shares of each step, of the rank that waits most."""
    found = []
    events = [events_of(path) for path in traces]
    for step in range(FIRST, LAST + 1):
        ranks = [actions_of(each, rank, step) for rank, each in enumerate(events)]
        computed = [sum(action[0] for action in actions) for _, actions in ranks]
        measured = [sum(action[3] for action in actions) for _, actions in ranks]
        share = [max(wait / (wait + own) for wait, own in zip(waits, computed)) for waits in (measured, simulated_waits(ranks))]
        found.append(tuple(share))
    return found


def measure(binary, folder, schedule, micro_batches, round_number):
    """The planned bubble, and (measured, simulated) of the traced steps."""
    name = f"{schedule}-{micro_batches}-{round_number}"
    (folder / f"{name}.yaml").write_text(RECIPE.replace("BATCH", str(8 * micro_batches)))
    done = subprocess.run([binary, f"{name}.yaml", f"accelerator.pipeline.schedule={schedule}", f"profile.steps=[{FIRST}, {LAST}]"],
                          cwd=folder, text=True, capture_output=True, check=True)
    planned = int(re.search(r"bubble (\d+) % of a step", done.stdout).group(1)) / 100
    traces = [folder / f"runs/{name}/profile/steps_{FIRST}_to_{LAST}/rank_{rank}.json" for rank in range(2)]
    return planned, bubbles_of(traces)


def main():
    binary, folder = (Path(word).absolute() for word in sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    folder.mkdir(parents=True)
    found = {}
    for micro_batches in (4, 8):
        for schedule in ("1f1b", "zbh1"):
            results = [measure(binary, folder, schedule, micro_batches, i) for i in range(rounds)]
            steps = [step for _, found_steps in results for step in found_steps]
            measured, simulated = (statistics.median(values) for values in zip(*steps))
            found[f"{schedule}, {micro_batches} micro-batches"] = {"planned": results[0][0], "simulated": simulated,
                                                                   "measured": measured}
            print(f"{schedule:5} {micro_batches:2} micro-batches: bubble measured {100 * measured:5.1f} %, simulated"
                  f" {100 * simulated:5.1f} %, planned {100 * results[0][0]:5.1f} %, measured / simulated"
                  f" {measured / simulated:.2f}, load {os.getloadavg()[0]:.1f}", flush=True)
    (folder / "pipelines.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
