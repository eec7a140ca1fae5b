#!/usr/bin/env python3
"""Resumes checkpoints of version 0.1.0 and compares with the uninterrupted runs of that version.

    old_checkpoints.py ACCEL_RUN [JOB_SUBSTRING]

Each job of checkpoints_0_1_0 is resumed twice: from its run folder, whose recipe.yaml has the keys of
0.1.0, and from the path of the checkpoint, by the recipe under the current keys as `show` prints it. Its
model is evaluated with the recipe inside the checkpoint. All later lines of metrics.jsonl must be equal to
the bit on the kinds of processor of golden.json; on others, and of RESUMMED jobs, losses and gradient norms must be near.
"""

import concurrent.futures
import json
import pathlib
import re
import shutil
import sys

import golden_losses
import processor
import runs

JOBS = pathlib.Path(__file__).resolve().parent / "checkpoints_0_1_0"
SOURCE = JOBS.parents[2]
MIN_JOBS = 20
# Of a line on another kind of processor. Cosines of the C library differ in the last digit.
EXACT = ("step", "epoch", "samples", "ids")
NEAR = {"lr": 1e-9, "loss": golden_losses.TOLERANCE, "grad_norm": golden_losses.TOLERANCE,
        "eval/loss": golden_losses.TOLERANCE}
# With 16 bits rounding shows sooner. So it does where Adam scales the gradient of a bias before a batch norm, all
# of which is rounding, up to the size of an update.
ROUGH = {"mixture", "parameter_groups", "resnet_fp16", "exported", "torchscript"}
ROUGH_FACTOR = 50
# Jobs whose sums later versions round otherwise, as a minor version may (docs/versions.md): near on all processors.
RESUMMED = {"causal_lm", "fine_tune", "gan", "llama_lora", "masked_lm", "mixture", "packed_chat", "parameter_groups", "phases",
            "ranks_ddp", "ranks_power_sgd", "vit"}
# Refusals of a `limit` of the training data that was the first samples.
LIMITS = {
    "masked_lm": "'data.train.limit' is 50: in the checkpoint it meant the first 50 samples, and now it draws them from "
                 "all\n  hint: write 'head: 50' instead\n",
    "mixture": "'data.train.1.limit' is 20: in the checkpoint it meant the first 20 samples, and now it draws them from "
               "all\n  hint: write 'head: 20' instead\n"}


class Job(runs.Scratch):
    """A scratch folder with a job's recipe, a copy of its checkpoint, and the data of recipes/tiny."""

    def __init__(self, binary, folder):
        super().__init__(binary, (folder / "job.yaml").read_text())
        self.folder = folder
        # Data has paths such as /proc/self/cwd/recipes/tiny/data/bars, which are the same on all machines.
        (self.path / "recipes").symlink_to(SOURCE / "recipes")
        if (folder / "checkpoints").exists():
            shutil.copytree(folder / "checkpoints", self.path / "checkpoints")
            self.checkpoint = f"checkpoints/checkpoint_{step_of(folder)}"

    def output(self, *words):
        """Standard output of a call that must succeed."""
        process = self.start(*words)
        output, errors = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: exit {process.returncode}\n{errors}")
        return output

    def lines(self):
        return [json.loads(line) for line in self.exact_lines()]


def step_of(folder):
    """The step of a job's only checkpoint."""
    (checkpoint,) = (folder / "checkpoints").iterdir()
    return int(checkpoint.name.removeprefix("checkpoint_"))


def resume_run_folder(job):
    """The lines after `resume` of the run folder as 0.1.0 left it."""
    job.run.mkdir(parents=True)
    (job.path / "checkpoints").rename(job.run / "checkpoints")
    shutil.copy(job.folder / "recipe.yaml", job.run)
    job.output("resume", "runs/job")
    return job.lines()


def resume_path(job):
    """The lines of a new run that starts from the checkpoint, by the recipe under the current keys. What was the
    `limit` of a dataset is its `head`, and must be written so."""
    now = job.output("show", "job.yaml")
    (job.path / "current.yaml").write_text(now)
    if job.folder.name in LIMITS:
        process = job.start("current.yaml", f"checkpoint.resume={job.checkpoint}")
        _, errors = process.communicate()
        if process.returncode != 4 or LIMITS[job.folder.name] not in errors:
            raise RuntimeError(f"a limit with another meaning was accepted: {errors}")
    head = re.sub(r"^( +)limit: (\d+)(.*)\n +head: none.*\n", r"\1limit: none\n\1head: \2\3\n", now, flags=re.M)
    (job.path / "current.yaml").write_text(head)
    job.output("current.yaml", f"checkpoint.resume={job.checkpoint}")
    return job.lines()


def evaluate(job):
    """The line that training writes for an evaluation at the checkpoint's step."""
    results = json.loads(job.output("evaluate", "--json", job.checkpoint))
    return [{"step": results["step"], "eval": {key: value for key, value in results.items() if "eval/" in key}}]


def is_equal(want, found):
    return all(found.get(key) == value for key, value in want.items())


def is_near(want, found, factor):
    """Whether two lines agree up to rounding."""
    exact = all(found.get(key) == want.get(key) for key in EXACT)
    want, found = want.get("eval", want), found.get("eval", found)
    return exact and all(golden_losses.distance(found.get(key, -1), want[key]) <= factor * tolerance
                         for key, tolerance in NEAR.items() if key in want)


def difference(wanted, found, is_same):
    """The first line that differs, or ''."""
    for want, line in zip(wanted, found):
        if not is_same(want, line):
            return f"\n  want  {json.dumps(want)}\n  found {json.dumps(line)}"
    return "" if len(wanted) == len(found) else f"{len(wanted)} lines are wanted, {len(found)} found"


def check(binary, folder):
    """The faults of one job, by what was run."""
    golden = json.loads((folder / "golden.json").read_text())
    wanted = None if folder.name in RESUMMED else golden.get(processor.kind())
    factor = ROUGH_FACTOR if folder.name in ROUGH else 1
    is_same = is_equal if wanted else lambda want, line: is_near(want, line, factor)
    wanted = wanted or next(iter(golden.values()))
    step = step_of(folder)
    later = [line for line in wanted if line["step"] > step]
    evaluated = [line for line in wanted if line["step"] == step]
    cases = {"resume RUN": (resume_run_folder, later), "checkpoint.resume=PATH": (resume_path, later)}
    if evaluated:
        cases["evaluate"] = (evaluate, evaluated)
    faults = {}
    for name, (run, want) in cases.items():
        with Job(binary, folder) as job:
            try:
                faults[name] = difference(want, run(job), is_same)
            except RuntimeError as error:
                faults[name] = str(error)
    return {name: fault for name, fault in faults.items() if fault}


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    folders = sorted(path.parent for path in JOBS.glob("*/golden.json") if wanted in path.parent.name)
    report = runs.Report()
    report.check("there are jobs to resume", len(folders) >= (1 if wanted else MIN_JOBS))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for folder, faults in zip(folders, pool.map(lambda folder: check(binary, folder), folders)):
            report.check(folder.name, not faults, "; ".join(f"{name}: {fault}" for name, fault in faults.items()))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
