#!/usr/bin/env python3
"""Compares the first 50 losses of accel-run with those of plain Accelerate scripts.

    golden_losses.py ACCEL_RUN INTEROP_FOLDER {losses,rank_losses}

losses are those of one process, rank_losses those of two: the scripts are make_golden_losses.py and
make_golden_rank_losses.py in tests/interop, their losses in its golden/, by kind of processor. Every bit
must be the same where there are losses of this one's kind; on others the curves must agree to 1e-3 for
as long as those of the kinds there are agree with each other ten times better: some become chaos.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

import processor

OPTIMIZERS = {
    "sgd": "optimizer={type: sgd, lr: 0.05, momentum: 0.9}",
    "adamw": "optimizer={type: adamw, lr: 0.001, fused: false}",
    "fused-adamw": "optimizer={type: adamw, lr: 0.001}",
}
SAMPLES = {"filled": {"mlp": 250, "lenet": 250, "gpt": 188}, "dropped": {"mlp": 244, "lenet": 244, "gpt": 180}}
VANISHING = 1e-2  # of a loss as small as that only the distance counts
TOLERANCE = 1e-3  # on a processor of which there are no losses


def words_of(model, optimizer, accumulation, tail=None, precision="no"):
    """The overrides that a golden curve's name stands for; only those of two processes have a tail."""
    words = [OPTIMIZERS[optimizer], f"train.gradient_accumulation_steps={accumulation}"]
    if tail:
        words += ["accelerator.num_processes=2", "data.loader.even_batches=true", "model.dropout=0.0",
                  f"data.loader.drop_last={str(tail == 'dropped').lower()}",
                  f"data.train.head={SAMPLES[tail][model]}", f"accelerator.mixed_precision={precision}"]
    return words


def losses(binary, recipe, words, scratch):
    command = [binary, recipe, *words, "accelerator.kernels=reference", "name=golden"]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: exit {done.returncode}\n{done.stderr}")
    record = pathlib.Path(scratch) / "runs" / "golden" / "metrics.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    return [line["loss"] for line in lines if "loss_bits" in line]


def distance(a, b):
    return abs(a - b) / max(abs(b), VANISHING)


def steady_steps(curves):
    """How many steps rounding alone leaves these curves together, which are one job's on several processors."""
    apart = (i for i, values in enumerate(zip(*curves)) if any(distance(v, values[0]) > TOLERANCE / 10 for v in values))
    return next(apart, len(curves[0]))


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    folder = pathlib.Path(sys.argv[2]).resolve()
    golden = json.loads((folder / "golden" / f"{sys.argv[3]}.json").read_text())
    kind = processor.kind()
    tolerance = 0.0 if kind in golden else TOLERANCE
    if tolerance:
        print(f"there are no losses of '{kind}': those of other processors are to be near")
    failed = 0
    for name, want in golden.get(kind, next(iter(golden.values()))).items():
        parts = name.split("_")
        with tempfile.TemporaryDirectory() as scratch:
            found = losses(binary, folder / "recipes" / f"{parts[0]}.yaml", words_of(*parts), scratch)
        steps = steady_steps([curves[name] for curves in golden.values()]) if tolerance else len(want)
        worst = max(distance(a, b) for a, b in list(zip(found, want, strict=True))[:steps])
        same = sum(a == b for a, b in zip(found, want))
        good = worst <= tolerance and not math.isnan(worst)
        failed += not good
        print(f"{name}: {'ok' if good else 'FAILED'}: {same} of {len(want)} losses equal to the bit, "
              f"the worst of {steps} is {worst:.1e} off")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
