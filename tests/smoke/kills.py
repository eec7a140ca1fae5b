#!/usr/bin/env python3
"""Kills a job that saves at every step, again and again, and compares it with one left alone.

    kills.py ACCEL_RUN [KILLS]

SIGKILL at random moments, two in five of them inside a save or rotation: every checkpoint that is
there afterwards is whole and of one step, none is lost, and the run in the end is the run it would
have been, to the last bit. SIGTERM, SIGINT and SIGUSR1 at any moment: the job saves, says so and
exits with 75. A second SIGINT: it stops at once.
"""

import collections
import hashlib
import json
import random
import signal
import sys
import time

import runs

# Large enough that a save takes longer than a step, so that most kills strike inside one.
TORTURED = runs.JOB.replace("hidden: [24]", "hidden: [768, 768]")
KEPT = 2  # as runs.JOB says
# What staging/ holds tells what a process was at when it died.
PHASES = {"new": "writing a save", "old": "replacing a save", "trash": "rotating one out"}


def digests(folder):
    """Of the files of a checkpoint that equal runs share: all but the manifest, which has times in it."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.iterdir() if path.name != "accel_run.json"}


def straight(binary):
    """How the job ends, and the digests of its checkpoint of each step, when nobody kills it."""
    with runs.Scratch(binary, TORTURED) as scratch:
        code, errors = scratch.call("job.yaml", "checkpoint.keep.last=100")
        if code != 0:
            raise RuntimeError(errors)
        saved = {step: digests(scratch.run / f"checkpoints/checkpoint_{step}") for step in scratch.checkpoints()}
        return (scratch.exact_lines(), scratch.weights()), saved


def wait_until_it_holds_the_lock(scratch, process):
    lock = scratch.run / "run.lock"
    while process.poll() is None:
        if lock.exists() and lock.read_text().startswith(f"process {process.pid} "):
            return
        time.sleep(0.005)


class Lives:
    """A job that is killed up to `most` times on its way to the end."""

    def __init__(self, binary, most, seed, saved):
        self.killed, self.phases, self.faults = 0, collections.Counter(), []
        self.saved = saved  # the digests of each step's checkpoint
        self.present = []  # at the last death
        self.staged = {}
        self.draw = random.Random(seed)
        with runs.Scratch(binary, TORTURED) as scratch:
            while self.live(scratch, self.killed < most):
                pass
            self.end = scratch.exact_lines(), scratch.weights()

    def live(self, scratch, kill):
        """False when the job came to its end."""
        process = scratch.start("job.yaml")
        if kill:
            wait_until_it_holds_the_lock(scratch, process)
            time.sleep(self.draw.random() * 0.4)
            process.kill()
        _, errors = process.communicate()
        if process.returncode == 0:
            return False
        if process.returncode != -signal.SIGKILL:
            raise RuntimeError(f"a life ended by {process.returncode}: {errors}")
        self.killed += 1
        self.note_phase(scratch)
        if "skipped" in errors:
            self.faults.append(f"not whole: {errors}")
        self.look_for_losses(scratch)
        self.look_for_damage(scratch)
        return True

    def note_phase(self, scratch):
        """Counts what this death left in staging/, and not what an earlier one had left there."""
        folder = scratch.run / "staging"
        entries = {path.name: path.stat() for path in folder.iterdir()} if folder.is_dir() else {}
        staged = {name: (stat.st_ino, stat.st_ctime_ns) for name, stat in entries.items()}
        fresh = [name for name, identity in staged.items() if self.staged.get(name) != identity]
        if fresh:
            self.phases[PHASES[min(fresh).split("_")[0]]] += 1
        self.staged = staged

    def look_for_losses(self, scratch):
        before, self.present = self.present, scratch.checkpoints()
        claimed = saves_in_record(scratch.run / "metrics.jsonl")
        newest = self.present[-1] if self.present else 0
        if newest < max(before[-1:] + claimed, default=0) or len(self.present) < min(len(before), KEPT):
            self.faults.append(f"lost: {self.present} after {before}, the record claims {claimed[-1:]}")

    def look_for_damage(self, scratch):
        for step in self.present:
            if digests(scratch.run / f"checkpoints/checkpoint_{step}") != self.saved[step]:
                self.faults.append(f"not the checkpoint of step {step}")
        code, errors = scratch.call("checkpoint", "verify", "runs/job") if self.present else (0, "")
        if code != 0:
            self.faults.append(f"not whole: {errors}")


def saves_in_record(path):
    """The steps whose checkpoints the run has claimed so far; a torn last line is none."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line)["step"] for line in lines if '"event":"save"' in line]


def torture(binary, kills, report):
    wanted, saved = straight(binary)
    killed, jobs, phases, faults = 0, 0, collections.Counter(), []
    start = time.monotonic()
    while killed < kills:
        lives = Lives(binary, min(kills - killed, 25), jobs, saved)
        killed, jobs, phases = killed + lives.killed, jobs + 1, phases + lives.phases
        faults += lives.faults
        if lives.end != wanted:
            faults.append(f"job {jobs} does not end as an uninterrupted one")
    inside = sum(phases.values())
    how = ", ".join(f"{count} while {phase}" for phase, count in sorted(phases.items()))
    report.check("no checkpoint is invalid, lost or mixed, and every job ends as one left alone", not faults,
                 "\n".join(faults))
    report.check(f"{jobs} jobs killed {killed} times in {time.monotonic() - start:.0f} s, {inside} of them inside"
                 f" a save or rotation ({how})", inside * 5 >= killed * 2)


def ask_to_stop(binary, number, expected, report):
    """Signals a running job, then lets it finish in a second life."""
    with runs.Scratch(binary) as scratch:
        process = scratch.start("job.yaml", "train.until=2000 steps", "checkpoint.every=never")
        while not (scratch.run / "metrics.jsonl").exists():
            time.sleep(0.02)
        time.sleep(0.1)
        process.send_signal(number)
        _, errors = process.communicate()
        name = signal.Signals(number).name
        report.check(f"{name} exits with {expected}", process.returncode == expected,
                     f"{process.returncode}: {errors}")
        report.check(f"{name} leaves a checkpoint", len(scratch.checkpoints()) == 1)
        report.check(f"{name} is an event of the record", scratch.events()[-1] == "interrupted")


def stop_in_evaluations(binary, report):
    """Evaluations that take most of the time are left, and made up for by the next life."""
    slow = runs.JOB.replace("type: synthetic/glyphs, length: 32", "type: synthetic/glyphs, length: 2048")
    slow = slow.replace("every: 8 steps", "every: 4 steps")
    with runs.Scratch(binary, slow) as scratch:
        scratch.call("job.yaml")
        wanted = scratch.exact_lines(), scratch.weights()
    draw, left = random.Random(3), 0
    with runs.Scratch(binary, slow) as scratch:
        while True:
            process = scratch.start("job.yaml")
            wait_until_it_holds_the_lock(scratch, process)
            time.sleep(draw.random() * 0.6)
            process.send_signal(signal.SIGUSR1)
            _, errors = process.communicate()
            if process.returncode == -signal.SIGUSR1:
                continue  # it came behind the end of the run
            if process.returncode != 75:
                break
            for step in scratch.checkpoints()[-1:]:  # none when it came before the first step
                manifest = scratch.run / f"checkpoints/checkpoint_{step}/accel_run.json"
                left += '"eval_pending": 1.0' in manifest.read_text()
        report.check("a run stopped by SIGUSR1 ends as an uninterrupted one", process.returncode == 0 and
                     (scratch.exact_lines(), scratch.weights()) == wanted, errors)
        report.check("and was stopped inside evaluations", left > 0)


def stop_before_the_deadline(binary, report):
    endless = ["job.yaml", "train.until=1000000 steps", "checkpoint.every=never", "eval.every=never"]
    with runs.Scratch(binary) as scratch:
        code, errors = scratch.call(*endless, "checkpoint.deadline=3 s")
        said = "its deadline is near" in (scratch.run / "metrics.jsonl").read_text()
        report.check("a run ends before its deadline", code == 75 and said, f"{code}: {errors}")
        report.check("with a checkpoint", len(scratch.checkpoints()) == 1)
    with runs.Scratch(binary) as scratch:
        process = scratch.start(*endless, "checkpoint.deadline=0.1 s")
        told, _ = process.communicate()
        report.check("one that is over at the start makes no step and does not claim a save",
                     process.returncode == 75 and not scratch.checkpoints()
                     and "stopped without a checkpoint, as its deadline is near, at step 0" in told, told)
    with runs.Scratch(binary) as scratch:
        runs.ENVIRONMENT["SLURM_JOB_END_TIME"] = str(int(time.time()) + 3)
        code, errors = scratch.call(*endless)
        del runs.ENVIRONMENT["SLURM_JOB_END_TIME"]
        report.check("so does a job of Slurm", code == 75 and len(scratch.checkpoints()) == 1, errors)


def stop_at_once(binary, report):
    # A step that takes seconds: the first signal only sets a flag, the second ends the process.
    slow = runs.JOB.replace("hidden: [24]", "hidden: [3000, 3000]").replace("length: 64", "length: 8192")
    slow = slow.replace("batch: 16", "batch: 8192, micro_batch: 1024")
    with runs.Scratch(binary, slow) as scratch:
        process = scratch.start("job.yaml")
        while not (scratch.run / "metrics.jsonl").exists():
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate()
        report.check("a second SIGINT ends the process", process.returncode == -signal.SIGINT,
                     str(process.returncode))


def main():
    binary = sys.argv[1]
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 25
    report = runs.Report()
    torture(binary, kills, report)
    for number in (signal.SIGTERM, signal.SIGINT):
        ask_to_stop(binary, number, 75, report)
    stop_at_once(binary, report)
    stop_in_evaluations(binary, report)
    stop_before_the_deadline(binary, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
