#!/usr/bin/env python3
"""Kills a job that saves at every step, again and again, and compares it with one left alone.

    kills.py ACCEL_RUN [KILLS]

SIGKILL at random moments, two in five of them inside a save or rotation: every checkpoint that is
there afterwards is whole and of one step, none is lost, and the run in the end is the run it would
have been, to the last bit.
"""

import collections
import contextlib
import hashlib
import json
import random
import signal
import sys
import time

import runs

# Large enough that a save takes longer than a step, so that most kills strike inside one.
TORTURED = runs.JOB.replace("hidden_sizes: [24]", "hidden_sizes: [768, 768]")
KEPT = 2  # as runs.JOB says
# The contents of staging/ show the phase in which a process died.
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
            if len(scratch.checkpoints()) != KEPT:  # also after a kill between the last save and its rotation
                self.faults.append(f"not rotated: {scratch.checkpoints()}")

    def live(self, scratch, kill):
        """False when the job came to its end."""
        process = scratch.start("job.yaml")
        if kill:
            scratch.wait_for_lock(process)
            while self.killed % 4 and process.poll() is None and not self.fresh(scratch):
                time.sleep(0.001)  # three in four once it saves: starting takes long on a busy machine
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

    def fresh(self, scratch):
        """What is in staging/ and was not left there by an earlier death: {name: identity}."""
        entries = {}
        for name in scratch.staged():
            with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                stat = (scratch.run / "staging" / name).stat()
                entries[name] = stat.st_ino, stat.st_ctime_ns
        return {name: identity for name, identity in entries.items() if self.staged.get(name) != identity}

    def note_phase(self, scratch):
        fresh = self.fresh(scratch)
        if fresh:
            self.phases[PHASES[min(fresh).split("_")[0]]] += 1
        self.staged.update(fresh)

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


def main():
    binary = sys.argv[1]
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 25
    report = runs.Report()
    torture(binary, kills, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
