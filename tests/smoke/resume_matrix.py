#!/usr/bin/env python3
"""Resumes a job from every step of a three-epoch run, each time in a new process, and compares.

    resume_matrix.py ACCEL_RUN [CELL_SUBSTRING]

Every cell of {accumulation 1, 4} x {workers 0, 2} x {no, bf16, fp16} trains with dropout,
augmentation, EMA and best-so-far, and saves at each step. From each of those checkpoints the run is
taken up again; every later line of metrics.jsonl and every byte of the final weights must be those
of the uninterrupted run.
"""

import concurrent.futures
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

# 44 samples in steps of 16: each epoch ends in a short window, inside an accumulation of 4 too.
RECIPE = """
model: {{type: mlp, hidden_sizes: [24], dropout: 0.3}}
data:
  train: {{type: synthetic/glyphs, length: 44}}
  eval: {{type: synthetic/glyphs, length: 32}}
  transform: [{{type: random_crop, size: 28, padding: 2}}]
  loader: {{workers: {workers}}}
optimizer: {{type: adamw, lr: 0.01}}
scheduler: {{type: cosine, warmup: 2 steps}}
train: {{until: 3 epochs, batch: 16, micro_batch: {micro}, max_grad_norm: 1.0}}
accelerator: {{mixed_precision: {precision}, num_cpu_threads_per_process: 1}}
eval: {{every: 2 steps, metrics: [accuracy]}}
checkpoint: {{every: 1 steps, keep: {{last: 100, best: 1, by: eval/accuracy}}}}
callbacks: [{{type: ema, decay: 0.9}}, {{type: early_stop, metric: eval/loss, patience: 50}}]
trackers: [csv]
"""
STEPS = 9


def accel_run(*arguments, cwd):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run(arguments, cwd=cwd, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr}")


def exact_lines(run):
    """The lines that equal runs share: those of steps and evaluations."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [line for line in lines if '"loss_bits"' in line or '"eval"' in line]


def weights(run):
    folder = run / "checkpoints" / f"checkpoint_{STEPS}"
    return {name: (folder / name).read_bytes() for name in ("model.safetensors", "optimizer.bin")}


def check_step(binary, straight, scratch, step):
    run = scratch / f"from_{step}"
    checkpoint = f"checkpoints/checkpoint_{step}"
    shutil.copytree(straight / checkpoint, run / checkpoint)
    for name in ("recipe.yaml", "metrics.jsonl", "metrics.csv"):
        shutil.copy(straight / name, run / name)
    accel_run(binary, "resume", run, cwd=scratch)
    for want, found in itertools.zip_longest(exact_lines(straight), exact_lines(run)):
        if want != found:
            return f"from step {step}: want {want}\n                 found {found}"
    if weights(straight) != weights(run):
        return f"from step {step}: the final weights or the optimizer's state differ"
    if (straight / "metrics.csv").read_bytes().count(b"\n") != (run / "metrics.csv").read_bytes().count(b"\n"):
        return f"from step {step}: metrics.csv has other rows"
    shutil.rmtree(run)
    return None


def check_cell(binary, micro, workers, precision):
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        recipe = scratch / "job.yaml"
        recipe.write_text(RECIPE.format(micro=micro, workers=workers, precision=precision))
        accel_run(binary, recipe, cwd=scratch)
        straight = scratch / "runs" / "job"
        faults = [check_step(binary, straight, scratch, step) for step in range(1, STEPS)]
        return [fault for fault in faults if fault]


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    cells = itertools.product((16, 4), (0, 2), ("no", "bf16", "fp16"))
    names = {f"micro {m}, workers {w}, {p}": (m, w, p) for m, w, p in cells}
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        running = {
            name: pool.submit(check_cell, binary, *cell)
            for name, cell in names.items()
            if wanted in name
        }
        for name, result in running.items():
            faults = result.result()
            failed += bool(faults)
            print(f"{name}: " + ("\n  ".join(faults) or f"{STEPS - 1} resumes, all equal to the bit"))
    return 1 if failed or not running else 0


if __name__ == "__main__":
    sys.exit(main())
