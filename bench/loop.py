"""What the loop costs beside a bare one of the same model and kernels.

A ratio near 1 means that the loop costs nothing.
"""

import json
import subprocess
import sys

# (model, batch, steps, workers of the loader)
CASES = [("lenet", 128, 50, 2), ("lenet", 128, 50, 0), ("mlp", 64, 500, 2), ("mlp", 64, 500, 0)]
SHORT_STEPS = 10


def run(words, folder):
    binary = words.accel_run.parent / "bench/loop_overhead"
    if not binary.exists():
        sys.exit(f"there is no '{binary}': build the target 'bench'")
    rows = []
    for model, batch, steps, workers in CASES:
        command = [binary, model, batch, SHORT_STEPS if words.short else steps, words.rounds, workers]
        done = subprocess.run([str(word) for word in command], cwd=folder, check=True, text=True, stdout=subprocess.PIPE)
        row = json.loads(done.stdout.splitlines()[-1])
        rows.append(row)
        print(f"  {model}, batch {batch}, {workers} workers: loop {row['loop']:.3f} ms a step, bare {row['bare']:.3f} ms,"
              f" ratio {row['ratio']:.3f}", flush=True)
    return {"rows": rows}
