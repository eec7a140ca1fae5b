#!/usr/bin/env python3
"""What a resume finds in a run folder: record, origins, pipes, checkpoints too many or renamed.

    run_folder.py ACCEL_RUN
"""

import json
import os
import pathlib
import shutil
import sys

import runs

SHORT = ["train.until=6 steps", "checkpoint.keep.last=3"]
LONG = ["train.until=10 steps", "log.every=4 steps"]


def lines_of(run):
    return (run / "metrics.jsonl").read_text().splitlines(keepends=True)


def check_record(scratch, report):
    """A record that lost lines since the checkpoint is resumed, and the loss is printed."""
    code, errors = scratch.call("job.yaml", *SHORT)
    report.check("a run trains", code == 0, errors)
    kept = scratch.path / "kept"
    shutil.copytree(scratch.run, kept)
    record = "the record 'PATH/metrics.jsonl' does not match the checkpoint at step 6: "
    whole = lines_of(kept)
    steps = [i for i, line in enumerate(whole) if '"loss_bits"' in line]
    cases = {
        "whole": (whole, None),
        "truncated": (whole[:steps[2]], record + "4 missing steps; the rest is kept"),
        "damaged": (whole[:steps[2]] + [whole[steps[2]][:20] + "\n"] + whole[steps[2] + 1:],
                    record + "1 damaged line, 1 missing step; the rest is kept"),
        "missing": (None, "the record 'PATH/metrics.jsonl' is missing: it starts again after step 6"),
    }
    for name, (lines, wanted) in cases.items():
        shutil.rmtree(scratch.run)
        shutil.copytree(kept, scratch.run)
        (scratch.run / "metrics.jsonl").unlink()
        if lines is not None:
            (scratch.run / "metrics.jsonl").write_text("".join(lines))
        code, errors = scratch.call("resume", "runs/job", "train.until=10 steps")
        warnings = [line for line in errors.splitlines() if "the record" in line]
        found = ["warning: " + wanted.replace("PATH", str(scratch.run.resolve()))] if wanted else []
        report.check(f"a {name} record is resumed", (code, warnings) == (0, found), errors)
    code, errors = scratch.call("resume", "runs/job", "train.until=12 steps")
    report.check("the next resume finds it whole", code == 0 and "the record" not in errors, errors)
    shutil.rmtree(kept)


def check_readers(scratch, report):
    lines = lines_of(scratch.run)
    lines.insert(2, '{"step":7,"lo\n')
    (scratch.run / "metrics.jsonl").write_text("".join(lines))
    code, errors = scratch.call("diff", "runs/job", "runs/job")
    report.check("diff counts damaged lines", code == 0 and
                 "warning: 'runs/job/metrics.jsonl' has damaged lines, which are not compared: 1\n" in errors, errors)
    code, errors = scratch.call("report", "runs/job", "--output", "page.html")
    page = (scratch.path / "page.html").read_text()
    report.check("so does the report", "1 damaged line of the record is left out" in page, errors)


def check_pipes(scratch, report):
    """A pipe in place of a file would block for ever."""
    for name in ("metrics.jsonl", "recipe.yaml", "control.jsonl", "logs/rank-0.log"):
        pipe = scratch.run / name
        pipe.rename(scratch.path / "aside") if pipe.exists() else None
        os.mkfifo(pipe)
        for words in (["job.yaml", *SHORT], ["resume", "runs/job"]):
            code, errors = scratch.call(*words)
            report.check(f"{words[0]} refuses a pipe named {name}",
                         code == 7 and f"runs/job/{name}' is not a regular file\n  hint: remove it" in errors,
                         f"{code} {errors}")
        pipe.unlink()
        if (scratch.path / "aside").exists():
            (scratch.path / "aside").rename(pipe)


def origins(scratch):
    """The origin of each option in the saved recipe."""
    lines = (scratch.run / "recipe.yaml").read_text().splitlines()
    pairs = [line.split(" # ") for line in lines if " # " in line]
    return {pair[0].split(":")[0].strip(): pair[-1] for pair in pairs}


def check_origins(scratch, report):
    shutil.rmtree(scratch.run)
    scratch.call("job.yaml", *SHORT)
    first = origins(scratch)
    report.check("origins of a run", (first["lr"], first["until"], first["seed"]) ==
                 ("job.yaml:7", "argument 2", "default"), first)
    for until in ("8", "10"):
        code, errors = scratch.call("resume", "runs/job", f"train.until={until} steps")
        found = origins(scratch)
        changed = {key for key in first if found.get(key) != first[key]}
        report.check(f"a resume to step {until} keeps them", code == 0 and changed <= {"until"} and
                     found["until"].startswith("argument "), (changed, found["until"], errors))
    scratch.call("resume", "runs/job")
    report.check("also without arguments", {key: value for key, value in origins(scratch).items() if key != "until"} ==
                 {key: value for key, value in first.items() if key != "until"}, origins(scratch))


def check_checkpoints(scratch, report):
    shutil.rmtree(scratch.run)
    scratch.call("job.yaml", *SHORT)
    report.check("three checkpoints", scratch.checkpoints() == [4, 5, 6], scratch.checkpoints())
    folder = scratch.run / "checkpoints"
    shutil.copytree(folder / "checkpoint_4", scratch.path / "kept")
    scratch.call("resume", "runs/job", "checkpoint.keep.last=2")
    shutil.move(scratch.path / "kept", folder / "checkpoint_4")  # as after a kill before the rotation
    code, errors = scratch.call("resume", "runs/job")
    report.check("one too many is deleted at the start", (code, scratch.checkpoints()) == (0, [5, 6]), errors)
    (folder / "checkpoint_5").rename(folder / "checkpoint_99")
    code, errors = scratch.call("resume", "runs/job", "train.until=8 steps")
    report.check("the manifest's step counts", code == 0 and
                 f"warning: '{folder.resolve()}/checkpoint_99' is at step 5 by its manifest: its name is ignored\n" in errors,
                 errors)
    report.check("and the rotation's", scratch.checkpoints() == [7, 8], scratch.checkpoints())


def check_means(scratch, report):
    """The logged means of a run that resumes inside an interval are the straight run's."""
    def logged(run):
        entries = [json.loads(line) for line in (scratch.path / "runs" / run / "metrics.jsonl").read_text().splitlines()]
        return [(entry["step"], entry["log"]["train/loss"], entry["log"]["train/grad_norm"])
                for entry in entries if "train/loss" in entry.get("log", {})]

    scratch.call("job.yaml", "name=straight", *LONG)
    scratch.call("job.yaml", "name=parts", *LONG, "--stop-after", "6")
    code, errors = scratch.call("resume", "runs/parts")
    report.check("means over an interval are those of the straight run", code == 0 and
                 logged("parts") == logged("straight") != [], (errors, logged("parts"), logged("straight")))


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1]) as scratch:
        scratch.path = pathlib.Path(scratch.name).resolve()
        scratch.run = scratch.path / "runs" / "job"
        check_record(scratch, report)
        check_readers(scratch, report)
        check_pipes(scratch, report)
        check_origins(scratch, report)
        check_checkpoints(scratch, report)
        check_means(scratch, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
