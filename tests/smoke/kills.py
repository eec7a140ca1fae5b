#!/usr/bin/env python3
"""Kills a job that saves at every step, again and again, and compares it with one left alone.

    kills.py ACCEL_RUN [KILLS]

SIGKILL at random moments, two in five of them inside a save or rotation: every checkpoint that is
there afterwards is whole, none is lost, and the run in the end is the run it would have been, to the
last bit. SIGTERM and SIGINT: the job saves, says so and exits with 75. A second SIGINT: it stops at
once.
"""

import random
import signal
import sys
import time

import runs

# Large enough that a save takes longer than a step, so that most kills strike inside one.
TORTURED = runs.JOB.replace("hidden: [24]", "hidden: [768, 768]")


def straight(binary):
    with runs.Scratch(binary, TORTURED) as scratch:
        code, errors = scratch.call("job.yaml")
        if code != 0:
            raise RuntimeError(errors)
        return scratch.exact_lines(), scratch.weights()


def wait_until_it_holds_the_lock(scratch, process):
    lock = scratch.run / "run.lock"
    while process.poll() is None:
        if lock.exists() and lock.read_text().startswith(f"process {process.pid} "):
            return
        time.sleep(0.005)


class Lives:
    """A job that is killed up to `most` times on its way to the end."""

    def __init__(self, binary, most, seed, report):
        self.killed, self.inside, self.newest = 0, 0, 0
        self.report = report
        self.draw = random.Random(seed)
        with runs.Scratch(binary, TORTURED) as scratch:
            while self.live(scratch, self.killed < most):
                pass
            self.steps, self.weights = scratch.exact_lines(), scratch.weights()

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
        staging = scratch.run / "staging"
        self.inside += staging.is_dir() and any(staging.iterdir())
        present = scratch.checkpoints()
        if self.newest and (not present or present[-1] < self.newest):
            self.report.check("no checkpoint is lost", False, f"{present} after {self.newest}")
        self.newest = present[-1] if present else self.newest
        if "skipped" in errors:
            self.report.check("every checkpoint is whole", False, errors)
        return True


def torture(binary, kills, report):
    wanted = straight(binary)
    killed, inside, jobs = 0, 0, 0
    while killed < kills:
        lives = Lives(binary, min(kills - killed, 25), jobs, report)
        killed, inside, jobs = killed + lives.killed, inside + lives.inside, jobs + 1
        if (lives.steps, lives.weights) != wanted:
            report.check("a killed run ends as an uninterrupted one", False, f"job {jobs}")
    report.check(f"{jobs} jobs killed {killed} times, {inside} of them inside a save or rotation",
                 inside * 5 >= killed * 2)


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
