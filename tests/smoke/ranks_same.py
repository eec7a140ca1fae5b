#!/usr/bin/env python3
"""The same training on 1, 2 and 4 ranks: how far the runs agree.

    ranks_same.py ACCEL_RUN RECIPES_FOLDER

A canonical reduction gives the same bits. A bucketed one sums in another order, which shows in the last digits alone, as long
as no ReLU or maximum of a pool changes its side: models without them are compared over all steps, others over the first ones.
Real data is read where there is some, as real_data.py finds it.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import rank_runs

STEPS, FIRST_STEPS = 100, 8
NEARLY = 1e-5  # relative, of two losses
GPT = """
model: {type: gpt, num_layers: 2, num_heads: 2, hidden_size: 32, dropout: 0.1}
data:
  train: {type: text, path: "${recipe.dir}/tiny/data/rhyme.txt", max_seq_len: 16, stride: 1}
  eval: {type: text, path: "${recipe.dir}/tiny/data/rhyme.txt", max_seq_len: 16}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.002}
scheduler: {type: cosine, warmup: 4 steps}
train: {until: 24 steps, batch: 16, micro_batch: 4, max_grad_norm: 0.5}
accelerator: {num_cpu_threads_per_process: 1}
eval: {every: 8 steps, batch: 8}
checkpoint: {every: 12 steps}
"""
# Without what draws random numbers: every rank of a bucketed run has its own.
NO_FRILLS = ["~data.eval", "~eval", "~expect", "checkpoint!={every: never}", "trackers!=[]",
             "accelerator.num_cpu_threads_per_process=1", "model.dropout=0"]
SMOOTH = "model.activation=gelu"
# (recipe, data, steps, words) by name.
REAL = {"mnist": ("mnist", "mnist10k", FIRST_STEPS, []),
        "mnist-mlp": ("mnist", "mnist10k", STEPS, ["model!={type: mlp, hidden_sizes: [64]}", SMOOTH]),
        "shakespeare_char": ("shakespeare_char", "tinyshakespeare", STEPS, ["model.num_layers=2", "model.hidden_size=64"])}


def train(scratch, report, recipe, name, *words):
    code, errors = scratch.call(recipe, f"name={name}", *words)
    report.check(f"{name} trains", code == 0 and not rank_runs.runs.besides_overlap(errors), f"exit {code}: {errors}")


def check_same_bits(scratch, report, recipe, what, *words):
    """1, 2 and 4 ranks, compared by accel-run itself."""
    for count in (1, 2, 4):
        train(scratch, report, recipe, f"{what}-{count}", rank_runs.CANONICAL, rank_runs.on(count), *words)
    for count in (2, 4):
        output = subprocess.run([scratch.binary, "diff", f"runs/{what}-1", f"runs/{what}-{count}"], cwd=scratch.path,
                              capture_output=True, text=True, check=False)
        report.check(f"{what}: {count} ranks give the bits of one", output.stdout.splitlines() == [
            f"recipe: name is {what}-1 and {what}-{count}", f"recipe: accelerator.num_processes is 1 and {count}",
            "bit-identical: every step, every evaluation, the checkpoint"], output.stdout + output.stderr)


def losses(scratch, name):
    lines = (scratch.path / "runs" / name / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines if '"loss_bits"' in line]


def check_near(scratch, report, recipe, what, steps, *words):
    for count in (1, 2):
        train(scratch, report, recipe, f"{what}-{count}", rank_runs.on(count), f"train.until={steps} steps", *words, *NO_FRILLS)
    one, two = losses(scratch, f"{what}-1"), losses(scratch, f"{what}-2")
    apart = max((abs(a - b) / abs(a) for a, b in zip(one, two)), default=1)
    report.check(f"{what}: the losses of {len(one)} steps on 1 and 2 ranks are {apart:.1e} apart",
                 len(one) == len(two) == steps and apart <= NEARLY)
    report.check(f"{what}: and fall", sum(two[-steps // 8:]) < sum(two[:steps // 8]))


def main():
    binary, recipes = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    data = pathlib.Path(os.environ.get("ACCEL_TEST_DATA", recipes.parent.parent / "shared" / "data"))
    report, start = rank_runs.runs.Report(), time.monotonic()
    with rank_runs.Scratch(binary) as scratch:
        (scratch.path / "gpt.yaml").write_text(GPT.replace("${recipe.dir}", str(recipes)))
        check_same_bits(scratch, report, "job.yaml", "mlp")
        check_same_bits(scratch, report, "job.yaml", "mlp-bf16", "accelerator.mixed_precision=bf16")
        check_same_bits(scratch, report, "gpt.yaml", "gpt")
        check_same_bits(scratch, report, "gpt.yaml", "gpt-bf16", "accelerator.mixed_precision=bf16")
        for name in ("jsonl", "bert"):
            check_same_bits(scratch, report, recipes / "tiny" / f"reviews_{name}.yaml", f"padded-{name}",
                            "train.until=25 steps", "~expect", "accelerator.num_cpu_threads_per_process=1")
        check_near(scratch, report, "job.yaml", "near-mlp", STEPS, SMOOTH)
        check_near(scratch, report, "gpt.yaml", "near-gpt", STEPS)
        for name, (recipe, folder, steps, words) in REAL.items():
            if (data / folder).is_dir():
                check_near(scratch, report, recipes / f"{recipe}.yaml", name, steps, f"vars.data={data / folder}", *words)
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
