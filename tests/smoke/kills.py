#!/usr/bin/env python3
"""Kills a job that saves at every step, again and again, and compares it with one left alone.

    kills.py ACCEL_RUN [KILLS]

SIGKILL at random moments: every checkpoint that is there afterwards is whole, there is always one
once there was one, and the run in the end is the run it would have been, to the last bit. SIGTERM
and SIGINT: the job saves, says so and exits with 75. A second SIGINT: it stops at once.
"""

import random
import signal
import sys
import time

import runs


def straight(binary):
    with runs.Scratch(binary) as scratch:
        code, errors = scratch.call("job.yaml")
        if code != 0:
            raise RuntimeError(errors)
        return scratch.exact_lines(), scratch.weights()


def kill_until_done(binary, kills, report):
    draw = random.Random(7)
    with runs.Scratch(binary) as scratch:
        killed, newest = 0, 0
        while True:
            process = scratch.start("job.yaml")
            if killed < kills:
                time.sleep(0.3 + draw.random() * 0.4)
                process.kill()
            _, errors = process.communicate()
            if process.returncode == 0:
                break
            if process.returncode != -signal.SIGKILL:
                report.check("a life ends by SIGKILL", False, errors)
                return None
            killed += 1
            present = scratch.checkpoints()
            if newest and (not present or present[-1] < newest):
                report.check("no checkpoint is lost", False, f"{present} after {newest}")
            newest = present[-1] if present else newest
            if "skipped" in errors:
                report.check("every checkpoint is whole", False, errors)
        print(f"{killed} kills, the run ended at step {scratch.checkpoints()[-1]}")
        return scratch.exact_lines(), scratch.weights()


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
    wanted = straight(binary)
    found = kill_until_done(binary, kills, report)
    report.check("the steps are those of an uninterrupted run", found and found[0] == wanted[0])
    report.check("the weights are those of an uninterrupted run", found and found[1] == wanted[1])
    for number in (signal.SIGTERM, signal.SIGINT):
        ask_to_stop(binary, number, 75, report)
    stop_at_once(binary, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
