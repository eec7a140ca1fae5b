#!/usr/bin/env python3
"""Held-out samples and filled values stay the same over resumes, ranks and later use.

    held_out.py ACCEL_RUN
"""

import json
import shutil
import sys

import runs

JOB = """
model: {type: mlp, hidden_sizes: [16], dropout: 0.2}
data:
  train: {type: csv, path: table.csv, target: kind, features: [age, plan, since], one_hot: {plan: []},
          dates: {since: [month, weekday]}, fill: {age: mean, plan: mode, since: median}}
  split: {eval: 20%, seed: 3}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.01}
train: {until: 24 steps, batch: 16}
accelerator: {num_cpu_threads_per_process: 1}
eval: {every: 8 steps}
checkpoint: {every: 1 steps, keep: {last: 20}}
"""


def table(rows=200):
    lines = ["id,age,plan,since,kind"]
    for i in range(rows):
        age = "" if i % 9 == 0 else str(20 + i * 7 % 50)
        plan = "n/a" if i % 13 == 0 else ("basic", "gold", "none")[i % 3]
        since = "" if i % 17 == 0 else f"2024-{1 + i % 12:02}-{1 + i % 28:02}"
        lines.append(f"{i},{age},{plan},{since},{'yes' if i % 4 == 0 else 'no'}")
    return "\n".join(lines) + "\n"


def run(scratch, *words):
    """(exit code, standard output, standard error)."""
    process = scratch.start(*words)
    output, errors = process.communicate()
    return process.returncode, output, errors


def fitted(scratch, name):
    newest = max((scratch.path / "runs" / name / "checkpoints").iterdir(), key=lambda path: int(path.name[11:]))
    manifest = json.loads((newest / "accel_run.json").read_text())["manifest"]
    return manifest["parts"]["data"]["texts"]["fitted"]


def evaluations(path):
    lines = map(json.loads, (path / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line["eval"] for line in lines if "eval" in line}


def check_training(scratch, report):
    code, output, errors = run(scratch, "job.yaml")
    report.check("it trains without a warning", code == 0 and errors == "", errors)
    report.check("the first screen names the held-out samples",
                 "  data       160 samples [6], eval 40, held out 20 % (stratified by class, seed 3)\n" in output, output)
    for line in ("age: 23 of 200 missing, filled with the mean 4", "plan: 16 of 200 missing, filled with the mode '",
                 "since: 12 of 200 missing, filled with the median 2024-"):
        report.check(f"and '{line}...'", f"  missing    {line}" in output, output)
    lines, weights = scratch.exact_lines(), scratch.weights()
    shutil.move(scratch.run, scratch.path / "runs" / "straight")
    code, _, errors = run(scratch, "job.yaml", "--stop-after", "11")
    report.check("it stops", code in (0, 75) and scratch.checkpoints()[-1] == 11, errors)
    code, _, errors = run(scratch, "resume", "runs/job")
    report.check("a resume ends with the same bits", code == 0 and scratch.exact_lines() == lines and
                 scratch.weights() == weights, errors)
    code, output, errors = run(scratch, "job.yaml", "name=ranks", "accelerator.num_processes=2",
                               "accelerator.reduction=canonical", "train.micro_batch=8")
    report.check("two ranks hold out the same samples", code == 0 and "eval 40, held out 20 %" in output and
                 fitted(scratch, "ranks") == fitted(scratch, "straight"), errors + output)


def check_use(scratch, report):
    code, output, errors = run(scratch, "evaluate", "runs/job", "--json")
    found = json.loads(output) if code == 0 else {}
    report.check("evaluate takes the held-out samples", found.get("samples") == 40 and
                 all(found.get(key) == value for key, value in evaluations(scratch.run)[24].items()), output + errors)
    values = json.loads(fitted(scratch, "job"))
    (scratch.path / "new.csv").write_text("age,plan,since\n,gold,2024-05-01\n30,,2024-05-02\n")
    (scratch.path / "same.csv").write_text(f"age,plan,since\n{values['fill']['age']},gold,2024-05-01\n"
                                           f"30,{values['fill']['plan']},2024-05-02\n")
    predicted = [run(scratch, "predict", "runs/job", "--input", name) for name in ("new.csv", "same.csv")]
    report.check("predict fills with the training values", predicted[0][0] == 0 and predicted[0][1] != "" and
                 predicted[0][:2] == predicted[1][:2], str(predicted))
    code, output, errors = run(scratch, "evaluate", "runs/job", "--data", "path=table.csv", "--json")
    report.check("evaluate of a file takes all of it", code == 0 and json.loads(output)["samples"] == 200, errors)
    code, _, errors = run(scratch, "evaluate", "runs/job", "--data", "fill=0")
    report.check("options without a file are refused", code == 2 and errors ==
                 "error: the eval data is held out of the training data, whose options are those of the run\n"
                 "  hint: name a file with --data path=..., inputs=... or images=..., or leave --data out\n", errors)
    code, output, errors = run(scratch, "plan", "job.yaml")
    report.check("plan counts both", code == 0 and "160 samples of [6], eval 40" in output, output + errors)


def check_refusals(scratch, report):
    code, _, errors = run(scratch, "resume", "runs/job", "train.until=30 steps", "--allow", "train.until",
                          "data.loader.workers=1")
    report.check("another length resumes", code == 0, errors)
    text = (scratch.path / "job.yaml").read_text()
    (scratch.path / "job.yaml").write_text(text.replace("seed: 3", "seed: 4"))
    code, _, errors = run(scratch, "job.yaml", "train.until=40 steps")
    report.check("another split is refused", code == 4 and
                 "error: the held-out samples have changed, and some of the new ones were trained on:\n"
                 "  data.split.seed: was 3, is 4\n"
                 "  hint: restore the old values, or add --allow data.split\n" in errors, errors)
    for override in ("data.split.seed=4", "data.split.eval=30%", "data.train.limit=100"):
        code, _, errors = run(scratch, "resume", "runs/job", override)
        report.check(f"so is {override} of a resume", code == 4 and "--allow data." in errors, errors)
    (scratch.path / "job.yaml").write_text(text)
    (scratch.path / "table.csv").write_text(table(210))
    code, _, errors = run(scratch, "job.yaml", "train.until=40 steps", "--allow", "train.until")
    report.check("other data is refused", code == 4 and
                 "error: the training data has changed since the checkpoint\n" in errors, errors)
    code, _, errors = run(scratch, "evaluate", "runs/job")
    report.check("evaluate refuses other data too", code == 3 and errors ==
                 "error: the training data has changed since the checkpoint: other samples would be held out than in "
                 "training\n  hint: restore the old data, or name a file with --data path=...\n", errors)
    (scratch.path / "job.yaml").write_text(text.replace("age, plan, since]", "age, plan, sinse]"))
    code, _, errors = run(scratch, "validate", "job.yaml")
    report.check("validate names a missing column at its place", code == 2 and
                 "job.yaml:4:75: error: 'features' names the column 'sinse', which '" in errors and
                 "  hint: did you mean 'since'?\n" in errors, errors)


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1], JOB) as scratch:
        (scratch.path / "table.csv").write_text(table())
        check_training(scratch, report)
        check_use(scratch, report)
        check_refusals(scratch, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
