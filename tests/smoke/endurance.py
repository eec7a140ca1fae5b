#!/usr/bin/env python3
"""A long run with every hook at work: memory and open files stay as they are.

    endurance.py ACCEL_RUN [STEPS]

The run evaluates, saves, logs to files and averages weights all along. Its resident memory and its
descriptors are sampled 60 times. In the last three quarters no descriptor may be added, and memory may
grow by no more than 4 MiB.
"""

import os
import pathlib
import re
import sys
import time

import runs

RECIPE = """
model: {{type: mlp, hidden_sizes: [8], dropout: 0.1}}
data:
  train: {{type: synthetic/glyphs, length: 64, size: 8}}
  eval: {{type: synthetic/glyphs, length: 16, size: 8}}
  transform: [{{type: random_crop, size: 8, padding: 1}}]
optimizer: {{type: adamw, lr: 0.001}}
scheduler: {{type: cosine}}
train: {{until: {steps} steps, batch: 8, micro_batch: 4, max_grad_norm: 1.0}}
accelerator: {{num_cpu_threads_per_process: 1, mixed_precision: fp16}}
eval: {{every: {often} steps}}
checkpoint: {{every: {often} steps, keep: {{last: 2, best: 1}}}}
callbacks: [{{type: ema, decay: 0.9}}]
trackers: [csv, tensorboard, dvclive, mlflow]
log: {{every: 10 steps, histograms: {often} steps, system: true}}
"""
SAMPLES = 60  # so many that some of each half fall between saves
GROWTH = 4 << 20
STEP = re.compile(rb'^\{"step":(\d+),"epoch"', re.MULTILINE)


def last_step(record):
    try:
        with open(record, "rb") as file:
            file.seek(max(0, os.path.getsize(record) - 4096))
            found = STEP.findall(file.read())
    except OSError:
        return 0
    return int(found[-1]) if found else 0


def sample(pid):
    """(resident bytes, descriptors); None when the process is gone."""
    try:
        pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE"), len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, IndexError):
        return None


def samples_of(scratch, steps):
    """[(step, resident bytes, descriptors)], the exit code and the errors of a run."""
    process, found = scratch.start("job.yaml"), []
    process.stdout.close()  # nobody reads the log lines
    while process.poll() is None:
        step = last_step(scratch.run / "metrics.jsonl")
        if step >= steps * (len(found) + 1) // (SAMPLES + 1):
            values = sample(process.pid)
            if values and values[0]:
                found.append((step, *values))
        time.sleep(0.002)
    return found, process.returncode, process.stderr.read()


def main():
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    report = runs.Report()
    with runs.Scratch(sys.argv[1], RECIPE.format(steps=steps, often=max(10, steps // 100))) as scratch:
        start = time.monotonic()
        found, code, errors = samples_of(scratch, steps)
        report.check(f"{steps} steps end well", code == 0, f"{code}: {errors}")
        for step, memory, files in found:
            print(f"step {step}: {memory / (1 << 20):.1f} MiB, {files} descriptors")
        settled = found[len(found) // 4:]
        report.check("memory and descriptors are sampled all along", len(settled) >= SAMPLES // 2, str(len(found)))
        # A save or a flush that is under way has files open of its own.
        first, last = settled[:len(settled) // 2], settled[len(settled) // 2:]
        growth = min(memory for _, memory, _ in last) - min(memory for _, memory, _ in first)
        report.check(f"memory grows by {growth / (1 << 20):.2f} MiB", growth < GROWTH)
        files = [min(files for _, _, files in half) for half in (first, last)]
        report.check(f"descriptors: {files[0]}, then {files[1]}", files[1] <= files[0])
        print(f"{time.monotonic() - start:.0f} s")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
