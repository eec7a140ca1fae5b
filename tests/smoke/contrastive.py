#!/usr/bin/env python3
"""Dual encoders: ranks, sharding, precision, adapters, resume; pairs of `predict`.

    contrastive.py ACCEL_RUN RECIPES_FOLDER
"""

import json
import pathlib
import sys

import rank_runs
from rank_runs import check_close, diff, output_of, records, train

JOB = """
model:
  type: clip
  text: {num_layers: 2, num_heads: 2, hidden_size: 16, eos_token_id: 3}
  vision: {patch_size: 4, num_layers: 2, num_heads: 2, hidden_size: 24}
  projection_dim: 12
data:
  train: {type: image_text, path: FOLDER/shapes.jsonl, tokenizer: FOLDER/shapes_tokenizer.json, max_length: 6}
  eval: {type: image_text, path: FOLDER/shapes_eval.jsonl, tokenizer: FOLDER/shapes_tokenizer.json, max_length: 6}
  transform: [{type: normalize, mean: [0.2], std: [0.3]}]
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.005}
train: {until: 12 steps, batch: 16, micro_batch: 4, max_grad_norm: 1.0}
accelerator: {num_processes: 1, num_cpu_threads_per_process: 1}
eval: {every: 6 steps}
checkpoint: {every: 6 steps}
"""


def check_ranks(scratch, report):
    train(scratch, report, "job.yaml", "one")
    train(scratch, report, "job.yaml", "two", rank_runs.on(2))
    check_close(scratch, report, "one", "two")
    one, two = (records(scratch, name, "eval") for name in ("one", "two"))
    far = max(abs(a[key] - b[key]) / max(abs(a[key]), 1e-9) for a, b in zip(one, two) for key in a)
    report.check(f"the evaluation of two ranks is {far:.1e} from that of one", len(one) == 2 and far < 1e-4, f"{one} {two}")
    for stage in (2, 3):
        train(scratch, report, "job.yaml", f"zero{stage}", rank_runs.on(2), f"accelerator.fsdp.stage={stage}")
        check_close(scratch, report, "one", f"zero{stage}")
    train(scratch, report, "job.yaml", "checkpointed", "train.activation_checkpointing=blocks")
    check_close(scratch, report, "one", "checkpointed")
    train(scratch, report, "job.yaml", "bf16", "accelerator.mixed_precision=bf16")
    far = rank_runs.apart(records(scratch, "one", "loss"), records(scratch, "bf16", "loss"))
    report.check(f"losses in bf16 are {far:.1e} from those in fp32", 0 < far < 0.05)
    train(scratch, report, "job.yaml", "lora", "model.lora={rank: 2}")


def check_refused(scratch, report):
    for axis in ("tp", "pp", "cp", "sp"):
        code, errors = scratch.call("job.yaml", "name=refused", rank_runs.on(2), f"accelerator.parallelism.{axis}=2")
        report.check(f"{axis} is refused by name", code == 2 and f"'{axis}'" in errors, f"exit {code}: {errors}")


def check_predict(scratch, report, folder):
    lines = output_of(scratch, "predict", "runs/two", "--input", str(folder / "shapes_eval.jsonl")).splitlines()
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    good = len(rows) == 32 and rows[0]["name"].startswith("shapes/")
    for row in rows:
        image, text = row["image_embeds"], row["text_embeds"]
        good = good and len(image) == len(text) == 12
        good = good and abs(sum(a * b for a, b in zip(image, text)) - row["similarity"]) < 1e-5
        good = good and abs(sum(a * a for a in image) - 1) < 1e-5
    report.check("a pair has its embeddings and their similarity", good, lines[:2])


def check_resumed(scratch, report):
    words = ["model.attention_dropout=0.2"]
    train(scratch, report, "job.yaml", "whole", *words)
    train(scratch, report, "job.yaml", "parts", *words, "train.until=6 steps")
    train(scratch, report, "job.yaml", "parts", *words, "--allow", "train.until")
    found = diff(scratch, "runs/whole/checkpoints/checkpoint_12", "runs/parts/checkpoints/checkpoint_12")
    report.check("a resumed run ends with the bits of the whole one", found == "", found)


def main():
    folder = pathlib.Path(sys.argv[2]).resolve() / "tiny/data"
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(sys.argv[1], JOB.replace("FOLDER", str(folder))) as scratch:
        check_ranks(scratch, report)
        check_refused(scratch, report)
        check_resumed(scratch, report)
        check_predict(scratch, report, folder)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
