"""What the loop costs beside a bare one of the same model and kernels: time, and heap allocations.

A ratio near 1 means that the loop costs nothing. One bare loop has its batches ready in memory, the other gathers
them from the data, as every loop somehow must. Allocations are those of the thread that trains, in steps
that log nothing: own ones are made by our code, not by libtorch on its behalf.
"""

import json
import subprocess

from sides import environment, program

# (model, batch, steps, workers of the loader)
CASES = [("lenet", 128, 50, 2), ("lenet", 128, 50, 0), ("mlp", 64, 500, 2), ("mlp", 64, 500, 0)]
ALLOCATIONS = [("mlp", 64, 50, 1), ("mlp", 64, 50, 0)]
SHORT_STEPS = 10
THREADS = 2


def last_line(command, folder):
    done = subprocess.run([str(word) for word in command], cwd=folder, env=environment(THREADS), check=True, text=True,
                          stdout=subprocess.PIPE)
    return json.loads(done.stdout.splitlines()[-1])


def run(words, folder):
    rows, counts = [], []
    for model, batch, steps, workers in CASES:
        steps = SHORT_STEPS if words.short else steps
        row = last_line([program(words, "loop_overhead"), model, batch, steps, words.rounds, workers], folder)
        rows.append(row)
        print(f"  {model}, batch {batch}, {workers} workers: loop {row['loop']:.3f} ms a step, bare {row['bare']:.3f} ms,"
              f" ratio {row['ratio']:.3f}; {row['ratio_gathering']:.3f} of one that gathers its batches", flush=True)
    for model, batch, steps, workers in ALLOCATIONS:
        row = last_line([program(words, "loop_allocations"), model, batch, steps, workers], folder)
        counts.append(row)
        print(f"  {model}, {workers} workers: {row['own']:.1f} own allocations a step, {row['own_bare']:.1f} in the bare"
              f" loop; with libtorch's {row['all']:.1f} and {row['all_bare']:.1f}", flush=True)
    return {"rows": rows, "allocations": counts}
