#!/usr/bin/env python3
"""Sharded training: every ZeRO stage against data parallel training, and resumes on other meshes.

    sharding.py ACCEL_RUN RECIPES_FOLDER
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import rank_runs

# Tied head, dropout, an average, generated texts, and a last batch that leaves a rank with less.
GPT = """
model: {type: gpt, num_layers: 3, num_heads: 2, hidden_size: 32, dropout: 0.1}
data:
  train: {type: text, path: "FOLDER/tiny/data/rhyme.txt", max_seq_len: 16, limit: 74}
  eval: {type: text, path: "FOLDER/tiny/data/rhyme.txt", max_seq_len: 16, limit: 21}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.002}
scheduler: {type: cosine, warmup: 4 steps}
train: {until: 12 steps, batch: 16, micro_batch: 4, max_grad_norm: 0.5}
accelerator: {num_cpu_threads_per_process: 1}
eval: {every: 6 steps, batch: 4}
callbacks: [{type: ema, decay: 0.9}, {type: generate, prompts: ["the"], max_new_tokens: 8}]
checkpoint: {every: 6 steps}
"""
# Without blocks: its parameters are gathered together.
MLP = """
model: {type: mlp, hidden_sizes: [24, 5], dropout: 0.3}
data:
  train: {type: synthetic/glyphs, length: 83}
  eval: {type: synthetic/glyphs, length: 9}
  loader: {workers: 0}
optimizer: {type: sgd, lr: 0.05, momentum: 0.9}
train: {until: 12 steps, batch: 16, micro_batch: 4}
accelerator: {num_cpu_threads_per_process: 1}
eval: {every: 6 steps, batch: 4}
checkpoint: {every: 6 steps}
"""
# Frozen weights of 291 MiB in blocks of 12 MiB: little else is in memory.
WIDE = """
model: {type: gpt, num_layers: 24, num_heads: 8, hidden_size: 512, vocab_size: 256, lora: {rank: 2}}
data:
  train: {type: text, path: "FOLDER/tiny/data/rhyme.txt", max_seq_len: 16, limit: 8}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.002}
train: {until: 1 steps, batch: 2, micro_batch: 1}
accelerator: {num_cpu_threads_per_process: 1, num_processes: 2, fsdp: {stage: 3}}
checkpoint: {every: 9 steps, at_end: false}
"""
LAST_ONLY = "accelerator.fsdp.sync_each_batch=false"
NEARLY = 2e-6  # relative, of two losses


def stage_words(stage):
    words = [f"accelerator.fsdp.stage={stage}"]
    return words + [LAST_ONLY] if stage > 1 else words


def train(scratch, report, recipe, name, *words):
    code, errors = scratch.call(recipe, f"name={name}", *words)
    report.check(f"{name} trains", code == 0, f"exit {code}: {errors}")


def last_line_of_diff(scratch, one, other):
    output = subprocess.run([scratch.binary, "diff", f"runs/{one}", f"runs/{other}"], cwd=scratch.path,
                            capture_output=True, text=True, check=False)
    return (output.stdout.splitlines() or [output.stderr])[-1]


def check_stages(scratch, report, recipe, what, *words):
    """Two ranks, one reduction per step: sums of two addends have one order."""
    train(scratch, report, recipe, f"{what}-0", rank_runs.on(2), *words)
    for stage in (1, 2, 3):
        name = f"{what}-{stage}"
        train(scratch, report, recipe, name, rank_runs.on(2), *stage_words(stage), *words)
        found = last_line_of_diff(scratch, f"{what}-0", name)
        report.check(f"{what}: stage {stage} gives the bits of data parallel training",
                     found == "bit-identical: every step, every evaluation, the checkpoint", found)


def losses(scratch, name):
    lines = (scratch.path / "runs" / name / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines if '"loss_bits"' in line]


def apart(one, other):
    return max((abs(a - b) / abs(a) for a, b in zip(one, other)), default=1) if len(one) == len(other) else 1


def check_refused(scratch, report):
    code, errors = scratch.call("mlp.yaml", rank_runs.on(2), "accelerator.fsdp.stage=1", "optimizer!={type: adafactor}")
    report.check("an optimizer that needs whole parameters is refused", code == 2 and
                 "'fsdp' does not support the optimizer 'adafactor', which needs whole parameters" in errors, errors)
    report.check("and nothing is written", not (scratch.path / "runs").exists())


def check_small_blocks(scratch, report):
    """Blocks of 12,704 parameters join those of no block."""
    train(scratch, report, "gpt.yaml", "joined", rank_runs.on(2), *stage_words(3),
          "accelerator.fsdp.min_num_params=12705")
    found = last_line_of_diff(scratch, "gpt-0", "joined")
    report.check("joined blocks give the bits of data parallel training",
                 found == "bit-identical: every step, every evaluation, the checkpoint", found)


def check_recipes(scratch, report, recipes):
    """Adapters beside frozen weights, several optimizers, a program from Python, policy gradients, a frozen
    model of the task, weights from a folder."""
    for what in ("lora", "gan", "exported", "reinforce", "distill", "fine_tune"):
        recipe, words = recipes / "tiny" / f"{what}.yaml", [rank_runs.on(2), "train.until=4 steps", "~expect"]
        train(scratch, report, recipe, f"{what}-0", *words)
        train(scratch, report, recipe, f"{what}-3", *words, *stage_words(3))
        found = last_line_of_diff(scratch, f"{what}-0", f"{what}-3")
        report.check(f"{what}: stage 3 gives the bits of data parallel training",
                     found == "bit-identical: every step, every evaluation, the checkpoint", found)


def check_canonical(scratch, report):
    """Sums by one tree: any number of ranks and any stage gives the same bits."""
    words = ["accelerator.reduction=canonical", "train.max_grad_norm=0.05"]
    train(scratch, report, "gpt.yaml", "canonical-1", rank_runs.on(1), *words)
    for ranks, stage, replicas in ((2, 0, 1), (2, 2, 1), (4, 1, 1), (4, 3, 1), (4, 3, 2)):
        name = f"canonical-{ranks}-{stage}-{replicas}"
        more = [f"accelerator.fsdp.stage={stage}"] * (stage > 0)
        more += [f"accelerator.parallelism.dp_replicate={replicas}"] * (replicas > 1)
        train(scratch, report, "gpt.yaml", name, rank_runs.on(ranks), *words, *more)
        found = last_line_of_diff(scratch, "canonical-1", name)
        report.check(f"{name} has the bits of one rank",
                     found == "bit-identical: every step, every evaluation, the checkpoint", found)


def mebibytes(table, row):
    """Of the last column of a plan."""
    number, unit = re.search(rf"^  {row} .* ([0-9.]+) (KiB|MiB|GiB)$", table, re.MULTILINE).groups()
    return float(number) * {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}[unit]


def check_memory(scratch, report):
    """No rank holds the whole model at any time, and the plan says what it holds."""
    table = subprocess.run([scratch.binary, "plan", "wide.yaml", "--ranks", "2"], cwd=scratch.path,
                           env=rank_runs.runs.ENVIRONMENT, capture_output=True, text=True, check=False).stdout
    weights, process, total = (mebibytes(table, row) for row in ("weights", "the process itself", "total"))
    report.check("half of the weights are planned", 144 < weights < 147, table)
    train(scratch, report, "wide.yaml", "wide")
    lines = (scratch.path / "runs" / "wide" / "metrics.jsonl").read_text().splitlines()
    peak = [json.loads(line)["actual"]["memory_mib"] for line in lines if '"actual"' in line][-1]
    report.check(f"peak memory is {peak:.0f} MiB, planned {total:.0f}", 0.9 * total <= peak <= 1.1 * total, table)
    report.check("it is less than the whole model takes", peak < process + 2 * weights, table)


def check_mesh(scratch, report):
    """Replicas of shards; dropout would differ, since each rank has a random stream."""
    words = ["model.dropout=0", "~callbacks", rank_runs.on(4), "train.micro_batch=2"]
    train(scratch, report, "gpt.yaml", "whole", *words)
    for name, more in (("hybrid", ["accelerator.parallelism.dp_replicate=2"]), ("four", [])):
        train(scratch, report, "gpt.yaml", name, *words, *more, "accelerator.fsdp.stage=3")
        far = apart(losses(scratch, "whole"), losses(scratch, name))
        report.check(f"{name}: losses are {far:.1e} from data parallel training", far <= NEARLY)


def check_resume(scratch, report):
    """A checkpoint of stage 3 on two ranks is continued on the same mesh, and on others."""
    first = scratch.path / "runs" / "gpt-3"
    shutil.rmtree(first / "checkpoints" / "checkpoint_12")
    meshes = [(2, 3), (1, 0), (1, 3), (2, 1), (4, 2)]
    for ranks, stage in meshes:
        shutil.copytree(first, scratch.path / "runs" / f"resumed-{ranks}-{stage}")
    for ranks, stage in meshes:
        name = f"resumed-{ranks}-{stage}"
        words = stage_words(stage) if stage else []
        train(scratch, report, "gpt.yaml", name, rank_runs.on(ranks), *words)
    found = last_line_of_diff(scratch, "gpt-0", "resumed-2-3")
    report.check("a resume on the same mesh has the same bits",
                 found == "bit-identical: every step, every evaluation, the checkpoint", found)
    found = last_line_of_diff(scratch, "gpt-0", "resumed-2-1")
    report.check("a resume at another stage has the same bits",
                 found == "bit-identical: every step, every evaluation, the checkpoint", found)


def main():
    binary, recipes = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(binary) as scratch:
        (scratch.path / "gpt.yaml").write_text(GPT.replace("FOLDER", str(recipes)))
        (scratch.path / "mlp.yaml").write_text(MLP)
        (scratch.path / "wide.yaml").write_text(WIDE.replace("FOLDER", str(recipes)))
        check_refused(scratch, report)
        check_stages(scratch, report, "mlp.yaml", "mlp")
        check_stages(scratch, report, "mlp.yaml", "mlp-bf16", "accelerator.mixed_precision=bf16",
                     "optimizer!={type: lion, lr: 0.001}")
        check_stages(scratch, report, "gpt.yaml", "gpt")
        check_stages(scratch, report, "gpt.yaml", "muon", "optimizer!={type: muon, lr: 0.01}")
        check_stages(scratch, report, "gpt.yaml", "checkpointed", "train.activation_checkpointing=blocks",
                     "accelerator.mixed_precision=bf16")
        check_small_blocks(scratch, report)
        check_recipes(scratch, report, recipes)
        check_canonical(scratch, report)
        check_memory(scratch, report)
        check_mesh(scratch, report)
        check_resume(scratch, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
