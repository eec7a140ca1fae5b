#!/usr/bin/env python3
"""A folder as Accelerate writes it, which has neither step nor recipe, is resumed from.

    import_checkpoint.py ACCEL_RUN

A checkpoint of ours without accel_run.json and accel_run.safetensors is such a folder.
"""

import shutil
import sys

import runs

STEP = 12
JOB = runs.JOB.replace("every: 1 steps, keep: {last: 2}", "every: 12 steps, keep: {last: 9}").replace(
    "train: {until", "scheduler: {type: cosine, warmup: 4 steps}\ntrain: {until")


def foreign_folder(scratch):
    scratch.call("job.yaml")
    folder = scratch.path / "theirs"
    shutil.copytree(scratch.run / "checkpoints" / f"checkpoint_{STEP}", folder)
    for path in folder.glob("accel_run.*"):
        path.unlink()
    return folder


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1], JOB) as scratch:
        folder = foreign_folder(scratch)
        straight = scratch.exact_lines()
        words = ["job.yaml", "name=carried", f"checkpoint.resume={folder}"]
        scratch.run = scratch.path / "runs" / "carried"

        code, errors = scratch.call(*words, "optimizer.lr=1")
        report.check("what is unlike is refused", code == 4 and "optimizer.lr: was 0.01, is 1" in errors, errors)
        report.check("before anything is written", not scratch.run.exists())

        code, errors = scratch.call(*words)
        report.check("it is gone on from", code == 0, errors)
        found = scratch.exact_lines()
        report.check("with the same numbers", len(found) >= 24 - STEP and found == straight[-len(found):],
                     "\n".join(found))

        code, errors = scratch.call("resume", "runs/carried", "train.until=26 steps")
        report.check("the run then resumes from its own", code == 0 and scratch.checkpoints()[-1] == 26, errors)
        code, errors = scratch.call(*words)
        report.check("and does not start over", code == 4 and "has the later" in errors, errors)

        code, errors = scratch.call("resume", "runs/carried", "checkpoint.resume=never")
        report.check("resume and never", code == 2 and "contradict each other" in errors, errors)
        code, errors = scratch.call("job.yaml", "name=lost", "checkpoint.resume=nowhere")
        report.check("a path that is not there", code == 4 and "nowhere', which is not an existing folder" in errors,
                     errors)
        code, errors = scratch.call("job.yaml", "name=late", f"checkpoint.resume={folder}", "checkpoint.resume_step=30")
        report.check("a step beyond the end is refused", code == 4 and "the run ends at step 24" in errors
                     and not (scratch.path / "runs/late").exists(), errors)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
