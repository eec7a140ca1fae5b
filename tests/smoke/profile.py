#!/usr/bin/env python3
"""`profile`: traces that open, tables that add up, numbers that stay the same.   profile.py BINARY"""

import collections
import csv
import json
import re
import subprocess
import sys

import runs


def check(condition, what):
    if not condition:
        sys.exit(f"profile: {what}")


def train(scratch, *words):
    done = subprocess.run([scratch.binary, "job.yaml", *words], cwd=scratch.path, env=runs.ENVIRONMENT, text=True,
                          capture_output=True, check=False)
    check(done.returncode == 0, done.stderr)
    return done.stdout


def exact_lines(scratch, name):
    lines = (scratch.path / "runs" / name / "metrics.jsonl").read_text().splitlines()
    return [line for line in lines if '"loss_bits"' in line or '"eval"' in line]


def check_trace(path, steps, evaluated=False):
    """A Chrome trace: spans with a name, a place and a time, those of operators within those of steps, unless
    there was an evaluation."""
    spans = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]
    for span in spans:
        check(isinstance(span["name"], str) and span["ts"] >= 0 and span["dur"] >= 0, span)
        check("pid" in span and "tid" in span, span)
    found = {span["name"]: span for span in spans if re.fullmatch(r"step \d+", span["name"])}
    check(sorted(found) == sorted(f"step {step}" for step in steps), sorted(found))
    matmuls = [span for span in spans if span["name"] == "aten::addmm"]
    check(len(matmuls) >= 2 * len(steps), f"two layers in each step, not {len(matmuls)} products")
    for span in matmuls:
        check(evaluated or any(step["ts"] <= span["ts"] and span["ts"] + span["dur"] <= step["ts"] + step["dur"]
                               for step in found.values()), f"{span} is in no step")
    return spans


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def main():
    with runs.Scratch(sys.argv[1]) as scratch:
        train(scratch, "name=plain")
        out = train(scratch, "name=seen", "profile.steps=[5, 7]", "profile.shapes=true", "profile.memory=true")
        check(exact_lines(scratch, "plain") == exact_lines(scratch, "seen"), "a profile changes the numbers")
        check(not (scratch.path / "runs/plain/profile").exists(), "a profile that nobody asked for")
        check("profile of steps 5 to 7, in runs/seen/profile/steps_5_to_7/rank_0.json\n   self ms    self   total ms" in out, out)
        folder = scratch.path / "runs/seen/profile/steps_5_to_7"
        spans = check_trace(folder / "rank_0.json", (5, 6, 7))
        costs = table(folder / "rank_0_operators.csv")
        own = [float(cost["self_ms"]) for cost in costs]
        check(own == sorted(own, reverse=True) and min(own) >= 0, own)
        addmm = [cost for cost in costs if cost["operator"] == "aten::addmm"]
        calls = sum(int(cost["calls"]) for cost in addmm)
        check(calls == sum(span["name"] == "aten::addmm" for span in spans), f"{calls} calls in the table")
        check(any("[16, 784]" in cost["shapes"] for cost in addmm), addmm)
        # The loader's operators between two steps are in the table too.
        recorded = collections.Counter(re.sub(r"^step \d+$", "(outside of operators)", span["name"])
                                       for span in spans if span.get("cat") != "Trace")
        listed = collections.Counter()
        for cost in costs:
            listed[cost["operator"]] += int(cost["calls"])
            check(float(cost["self_ms"]) <= float(cost["total_ms"]), cost)
        check(listed == recorded, f"the table and the trace differ: {listed - recorded} and {recorded - listed}")
        memory = table(folder / "rank_0_memory.csv")
        check(max(int(row["bytes"]) for row in memory) > 16 * 784 * 4, "a batch is allocated")
        page = (scratch.path / "runs/seen/report.html").read_text()
        check("<h2>Profile of steps 5 to 7</h2>" in page and "aten::addmm" in page, "the report has no profile")
        out = train(scratch, "name=short", "train.until=3 steps", "profile.steps=[2, 50]", "profile.operators=1")
        check("profile of steps 2 to 3, " in out, out)
        check_trace(scratch.path / "runs/short/profile/steps_2_to_3/rank_0.json", (2, 3), evaluated=True)
        train(scratch, "name=ranks", "train.until=3 steps", "profile.steps=2", "accelerator.num_processes=2")
        for rank in (0, 1):
            check_trace(scratch.path / f"runs/ranks/profile/step_2/rank_{rank}.json", (2,))
        train(scratch, "name=short", "train.until=5 steps", "profile.steps=5", "--allow", "profile", "--allow", "train.until")
        for window, steps in (("steps_2_to_3", (2, 3)), ("step_5", (5,))):
            check_trace(scratch.path / f"runs/short/profile/{window}/rank_0.json", steps, evaluated=True)
        page = (scratch.path / "runs/short/report.html").read_text()
        check("<h2>Profile of step 5</h2>" in page and "in profile/: steps 2 to 3<" in page, "the report shows another profile")
        code, errors = scratch.call("job.yaml", "name=late", "train.until=3 steps", "profile.steps=4")
        check(code == 2 and "error: 'profile.steps' begins at step 4, but the run ends at step 3" in errors, errors)
        check(not (scratch.path / "runs/late").exists(), "a run that is refused leaves a folder")
        code, errors = scratch.call("job.yaml", "name=clock", "train.until=0.01 min", "profile.steps=1000000")
        check(code == 0 and "warning: no profile: the run ended after step " in errors
              and ", but 'profile.steps' begins at step 1000000\n" in errors, f"{code} {errors}")
        (scratch.path / "runs/full").mkdir()
        (scratch.path / "runs/full/profile").write_text("no folder can be here")
        train(scratch, "name=full", "train.until=3 steps", "profile.steps=2")


if __name__ == "__main__":
    main()
