#!/usr/bin/env python3
"""Trains random recipes straight, then killed and resumed, then from the resolved recipe, and compares.

    random_recipes.py ACCEL_RUN [COUNT [SEED]]

Recipe number SEED + i is drawn by recipe_generator.py; COUNT 1 repeats the recipe of one number. Options
that `validate` refuses must be refused in the house form with exit code 2, and are left out. What is
trained is then stopped up to three times at random moments and resumed until it ends: by SIGKILL, by
SIGTERM, and where there are several ranks by SIGKILL of one of them. The last checkpoint, the lines of steps and evaluations, and the curves of csv, tensorboard,
dvclive and mlflow must be those of the uninterrupted run to the bit. `plan` and `show` accept the recipe, and the resolved recipe
of the run folder trains to the same bits. VERBOSE=1 prints refusals and times, KEEP=FOLDER copies the runs
of each finding there.
"""

import collections
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import curves
import recipe_generator
import runs
from ranks_deaths import children_of

LIMIT = 120  # seconds for one process
ONE_RANK = "one rank"  # is killed, in place of a signal to the launcher
RANK_FAILED, STOPPED = 5, 75  # exit codes
HOUSE = re.compile(r"^(?:\S.*?:\d+:\d+: )?error: \S.*[^.\n]$", re.MULTILINE)


class Finding(Exception):
    """A difference, or an end that no recipe should have."""


class Job:
    """One recipe in a separate folder."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.run = binary, folder, folder / "runs/job"
        self.environment = dict(runs.ENVIRONMENT, TMPDIR=str(folder))

    def start(self, *words):
        return subprocess.Popen([self.binary, *words], cwd=self.folder, env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, process):
        """(exit code, output, errors)."""
        try:
            output, errors = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Finding(f"no end within {LIMIT} s") from None
        return process.returncode, output, errors

    def call(self, *words):
        return self.end(self.start(*words))

    def steps(self):
        """How many lines of steps the record has."""
        try:
            return (self.run / "metrics.jsonl").read_bytes().count(b'"loss_bits"')
        except OSError:
            return 0

    def saved(self):
        folder = self.run / "checkpoints"
        return sorted(int(path.name[11:]) for path in folder.iterdir()) if folder.is_dir() else []


def in_house_form(errors):
    lines = errors.splitlines()
    first = next((line for line in lines if not line.startswith("warning")), "")
    return bool(HOUSE.match(first)) and not first.endswith(".") and "Traceback" not in errors


class End:
    """What equal runs share, of a run folder."""

    def __init__(self, run):
        self.run = run
        lines = (run / "metrics.jsonl").read_text().splitlines()
        self.exact = [line for line in lines if '"loss_bits"' in line or '"eval"' in line]
        self.curves = curves.of(run)
        self.names = sorted(path.name for path in (run / "checkpoints").iterdir())
        self.newest = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name[11:]))
        self.files = {path.name: path.read_bytes() for path in self.newest.iterdir()}
        self.manifest = manifest(self.files.pop("accel_run.json"))


def manifest(content):
    tree = json.loads(content)["manifest"]
    del tree["parts"]["run"]["numbers"]["seconds"]
    for name in [name for name in tree["parts"] if name == "record" or name.startswith("trackers/")]:
        del tree["parts"][name]  # random ids, times and throughput
    return json.dumps({**tree, "recipe": ""}, indent=1, sort_keys=True)


def first_difference(first, second):
    pairs = zip(first, second)
    return next((f"{a}\n          {b}" for a, b in pairs if a != b), f"{len(first)} and {len(second)} lines")


def compare(binary, straight, other, killed_run):
    """Raises a Finding at the first difference. `killed_run`: that of `other`, None where nothing was killed."""
    stopped = killed_run.ends[STOPPED] if killed_run else 0
    if straight.exact != other.exact:
        raise Finding(f"lines of metrics.jsonl: {first_difference(straight.exact, other.exact)}")
    if straight.newest.name != other.newest.name:
        raise Finding(f"{straight.newest.name} and {other.newest.name}")
    done = subprocess.run([binary, "checkpoint", "diff", straight.newest, other.newest], capture_output=True, text=True)
    if done.returncode != 0:
        raise Finding(f"checkpoint diff: {done.stdout}{done.stderr}")
    if straight.manifest != other.manifest:
        raise Finding(f"manifest: {first_difference(straight.manifest.splitlines(), other.manifest.splitlines())}")
    for name in sorted(straight.files.keys() | other.files.keys()):
        if straight.files.get(name) != other.files.get(name):
            raise Finding(f"{name} differs")
    missing, more = set(straight.names) - set(other.names), set(other.names) - set(straight.names)
    # A stop saves as well, and what it saves takes the place of an older one.
    if not stopped and (missing or more):
        raise Finding(f"checkpoints: {straight.names} and {other.names}")
    if difference := curves.difference(straight.curves, other.curves):
        raise Finding(difference)


class KilledRun:
    """A job that is killed and resumed until it ends."""

    def __init__(self, job, draw, steps, ranks):
        self.job, self.draw, self.steps = job, draw, steps
        self.ends = collections.Counter()
        plan = [signal.SIGKILL, signal.SIGTERM, ONE_RANK if ranks > 1 else signal.SIGKILL]
        draw.shuffle(plan)
        for number in plan:
            if self.run_process(number):
                return
        if not self.run_process(None):
            raise Finding("a process without a signal did not end the run")

    def run_process(self, number):
        """Whether the run ended. Signals at a random step, shortly after it is recorded."""
        before = self.job.saved()
        words = ("resume", "runs/job") if before and self.draw.random() < 0.5 else ("job.yaml",)
        process = self.job.start(*words)
        if number:
            self.strike(process, number)
        code, _, errors = self.job.end(process)
        self.ends[code] += 1
        if code not in (0, {signal.SIGTERM: STOPPED, signal.SIGKILL: -9, ONE_RANK: RANK_FAILED}.get(number, 0)):
            if not (number == signal.SIGTERM and code == -signal.SIGTERM and not self.job.run.exists()):
                raise Finding(f"a process that got signal {number} ended with {code}: {errors}")
        if "skipped" in errors or "not guaranteed" in errors:
            raise Finding(f"a warning: {errors}")
        after = self.job.saved()
        if before and (not after or after[-1] < before[-1]):
            raise Finding(f"checkpoints are lost: {before} before, {after} after")
        return code == 0

    def strike(self, process, number):
        at = self.draw.randint(0, self.steps)
        floor, late = self.job.saved()[-1:] or [0], time.monotonic() + LIMIT / 2
        wait = self.draw.random() * self.draw.choice([0, 0.01, 0.05])
        changed = self.stamp()
        while process.poll() is None and time.monotonic() < late:
            # The record of the process before is there until this one has truncated it.
            if self.stamp() != changed and self.job.steps() >= max(at, floor[0]):
                break
            time.sleep(0.0005)
        time.sleep(wait)
        ranks = list(children_of(process).values()) if number == ONE_RANK else []
        with contextlib.suppress(ProcessLookupError):
            if ranks:
                os.kill(self.draw.choice(ranks)[0], signal.SIGKILL)
            elif number != ONE_RANK:
                process.send_signal(number)

    def stamp(self):
        try:
            stat = (self.job.run / "metrics.jsonl").stat()
            return stat.st_ino, stat.st_size, stat.st_mtime_ns
        except OSError:
            return None


def accepted(job, recipe, counts):
    """Writes the recipe with the options of the schema that `validate` accepts."""
    for extras in (True, False) if recipe.extras else (False,):
        (job.folder / "job.yaml").write_text(recipe.text(extras))
        code, output, errors = job.call("validate", "job.yaml")
        if code == 0:
            return True
        counts["refused"] += 1
        if code != 2 or not in_house_form(errors):
            raise Finding(f"validate: exit {code}: {output}{errors}")
        note(f"refused: {errors}")
    return False


def note(text):
    if "VERBOSE" in os.environ:
        print(text, flush=True)


def train_straight(job, counts):
    """Whether the recipe trains; what is wrong with it is said before the first step."""
    code, output, errors = job.call("job.yaml")
    if code == 0:
        return True
    if code == 9 and in_house_form(errors):
        counts["diverged"] += 1
        return False
    late = code == 3 and "batch norm needs several values" in errors  # a last batch of one sample
    if code not in (2, 3) or not in_house_form(errors) or (job.steps() and not late):
        raise Finding(f"straight: exit {code}: {output[-1000:]}{errors}")
    counts["refused by the data"] += 1
    note(f"refused by the data: {errors}")
    return False


def check_printed_recipe(job):
    code, printed, errors = job.call("show", "job.yaml")
    if code != 0:
        raise Finding(f"show: exit {code}: {errors}")
    code, output, errors = job.call("plan", "job.yaml")
    if code != 0:
        raise Finding(f"plan: exit {code}: {output}{errors}")
    (job.folder / "shown.yaml").write_text(printed)
    code, again, errors = job.call("show", "shown.yaml")
    values = [[re.sub(r" +#.*", "", line) for line in text.splitlines()] for text in (printed, again)]
    if code != 0 or values[0] != values[1]:
        raise Finding(f"show of what show printed: exit {code}: {errors}{first_difference(*values)}")


def check(binary, folder, recipe, counts):
    """Raises a Finding."""
    job, draw = Job(binary, folder), random.Random(recipe.number)
    if not accepted(job, recipe, counts) or not train_straight(job, counts):
        return
    check_printed_recipe(job)
    job.run.rename(folder / "straight")
    straight = End(folder / "straight")
    killed_run = KilledRun(job, draw, job_steps(straight), recipe.ranks)
    counts["killed"] += killed_run.ends[-9]
    counts["with a killed rank"] += killed_run.ends[RANK_FAILED]
    counts["stopped"] += killed_run.ends[STOPPED]
    compare(binary, straight, End(job.run), killed_run)
    shutil.rmtree(job.run)
    (folder / "job.yaml").write_text((folder / "straight/recipe.yaml").read_text())
    code, _, errors = job.call("job.yaml")
    if code != 0:
        raise Finding(f"the resolved recipe: exit {code}: {errors}")
    compare(binary, straight, End(job.run), None)
    counts["trained"] += 1


def job_steps(end):
    return sum('"loss_bits"' in line for line in end.exact)


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    # The eight from there on meet most kinds of models, optimizers and strategies.
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 2391
    report, counts, start = runs.Report(), collections.Counter(), time.monotonic()
    schema = subprocess.run([binary, "schema"], capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as scratch:
        data = pathlib.Path(scratch) / "data"
        data.mkdir()
        recipe_generator.write_data(data)
        generator = recipe_generator.Generator(schema, data)
        for number in range(seed, seed + count):
            recipe, folder = generator.recipe(number), pathlib.Path(scratch) / str(number)
            folder.mkdir()
            try:
                check(binary, folder, recipe, counts)
            except Finding as finding:
                report.check(f"recipe {number}", False, f"{finding}\n{(folder / 'job.yaml').read_text()}")
                sys.stdout.flush()
                if "KEEP" in os.environ:
                    shutil.copytree(folder, pathlib.Path(os.environ["KEEP"]) / str(number), dirs_exist_ok=True)
            shutil.rmtree(folder)
            note(f"recipe {number} done after {time.monotonic() - start:.1f} s")
    names = ("trained", "refused", "refused by the data", "diverged", "killed", "with a killed rank", "stopped")
    figures = ", ".join(f"{counts[name]} {name}" for name in names)
    report.check(f"{count} recipes in {time.monotonic() - start:.0f} s: {figures}", report.failed == 0 and counts["trained"] > 0)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
