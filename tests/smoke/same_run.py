#!/usr/bin/env python3
"""The verbs that tell whether two runs are the same: diff and verify-resume.

    same_run.py ACCEL_RUN
"""

import signal
import subprocess
import sys
import time

import runs


def tell(scratch, *words):
    """(exit code, all that is printed)."""
    result = subprocess.run([scratch.binary, *words], cwd=scratch.path, text=True, env=runs.ENVIRONMENT,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return result.returncode, result.stdout


def check_verify_resume(scratch, report):
    code, text = tell(scratch, "verify-resume", "job.yaml", "--steps", "6")
    report.check("a killed and resumed run is the straight one", code == 0 and text.splitlines() == [
        "straight: 12 steps", "killed: after the checkpoint at step 6", "resumed: to step 12",
        "bit-identical: every step, every evaluation, the last checkpoint"], text)
    code, text = tell(scratch, "verify-resume", "job.yaml", "--steps", "2", "checkpoint.deadline=1 s")
    report.check("a deadline of the recipe's does not count", code == 0, text)
    report.check("it leaves nothing behind", [path.name for path in scratch.path.iterdir()] == ["job.yaml"])
    code, text = tell(scratch, "verify-resume", "job.yaml", "data.train.lenght=3")
    report.check("a bad recipe is refused", code == 2 and "unknown option 'lenght'" in text, text)
    # What comes later than reading the recipe is found by the life it comes in.
    code, text = tell(scratch, "verify-resume", "job.yaml", "data.train={type: npy, inputs: job.yaml, targets: job.yaml}")
    report.check("a life that fails is shown", code == 3 and "the run failed; it printed:\n" in text
                 and "job.yaml" in text, text)


def check_interrupted(scratch, report):
    """Ctrl-C leaves no runs in the folder for temporary files."""
    temporary = scratch.path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen([scratch.binary, "verify-resume", "job.yaml", "--steps", "100000"], cwd=scratch.path,
                               env=dict(runs.ENVIRONMENT, TMPDIR=str(temporary)), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    while not list(temporary.glob("*/straight/metrics.jsonl")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    text = process.communicate(timeout=600)[0].decode()
    report.check("Ctrl-C leaves nothing behind", process.returncode == 1 and "interrupted" in text
                 and not list(temporary.iterdir()), f"{process.returncode} {text}")


def with_changed_record(scratch, *words):
    """(exit code, output) of a command whose straight run is changed while the resumed one trains."""
    temporary = scratch.path / "changed"
    temporary.mkdir()
    process = subprocess.Popen([scratch.binary, *words], cwd=scratch.path, text=True,
                               env=dict(runs.ENVIRONMENT, TMPDIR=str(temporary)), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    while process.poll() is None and not list(temporary.glob("*/resumed/metrics.jsonl")):
        time.sleep(0.002)
    for record in temporary.glob("*/straight/metrics.jsonl"):
        lines = [line for line in record.read_text().splitlines(keepends=True) if '"step": 2,' not in line and '"step":2,' not in line]
        record.write_text("".join(lines))
    text = process.communicate()[0]
    temporary.rmdir()
    return process.returncode, text


def check_inexact(scratch, report):
    """The three commands that resume a run report the first difference."""
    difference = "step 3 against step 2"
    for words, message in (
            (("smoke", "job.yaml"), f"'job.yaml' resumed at step 2 differs from the straight run: {difference} (straight and resumed)"),
            (("verify-resume", "job.yaml", "--steps", "6"),
             f"'job.yaml' does not resume exactly: {difference} (straight and resumed)"),
            (("test",), f"rank 0: a resumed run differs from the straight run: {difference}")):
        code, text = with_changed_record(scratch, *words)
        report.check(f"{words[0]} reports a difference", code == 1 and f"error: {message}\n" in text, f"{code} {text}")


def check_smoke(scratch, report):
    code, text = tell(scratch, "smoke", "job.yaml")
    report.check("smoke reports its steps", code == 0 and text ==
                 "smoke job.yaml: 4 steps, bit-identical when resumed at step 2\n", text)
    temporary = scratch.path / "stopped"
    temporary.mkdir()
    process = subprocess.Popen([scratch.binary, "smoke", "job.yaml", "train.until=100000 steps"], cwd=scratch.path,
                               env=dict(runs.ENVIRONMENT, TMPDIR=str(temporary)), text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    while not list(temporary.glob("*/straight/metrics.jsonl")):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=600)[1]
    report.check("a signal ends smoke", (process.returncode, errors) == (75, "error: stopped by signal 15\n")
                 and not list(temporary.iterdir()), f"{process.returncode} {errors}")


def check_diff(scratch, report):
    for name, words in {"one": [], "same": [], "other": ["optimizer.lr=0.02"], "short": ["train.until=8 steps"]}.items():
        scratch.call("job.yaml", f"name={name}", *words)
    code, text = tell(scratch, "diff", "runs/one", "runs/same")
    report.check("equal runs", code == 0 and text.splitlines() == [
        "recipe: name is one and same",
        "bit-identical: every step, every evaluation, the checkpoint"], text)
    code, text = tell(scratch, "diff", "runs/one", "runs/other")
    report.check("other learning rates", code == 1 and "recipe: optimizer.lr is 0.01 and 0.02\n" in text
                 and "record: step 1: lr is 0.01 and 0.02\n" in text
                 and "\ncheckpoint at step 24: model layers.0.weight differs in " in text, text)
    scratch.call("job.yaml", "name=silent", "log.every=7 steps")
    code, text = tell(scratch, "diff", "runs/one", "runs/silent")
    report.check("another option alone", code == 1 and "recipe: log.every is 10 steps and 7 steps\n" in text
                 and "bit-identical: " in text, text)
    code, text = tell(scratch, "diff", "runs/one", "runs/short")
    report.check("another length", code == 1 and "step 9 and later are only in the first\n" in text
                 and "checkpoint: the two have none of the same step\n" in text, text)
    code, text = tell(scratch, "diff", "runs/one", "runs")
    report.check("no run folder", code == 2 and "'runs' is not a run folder: it has no recipe.yaml\n" in text, text)


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1]) as scratch:
        check_verify_resume(scratch, report)
        check_interrupted(scratch, report)
        check_inexact(scratch, report)
        check_smoke(scratch, report)
        check_diff(scratch, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
