#!/usr/bin/env python3
"""Run folders that are removed, moved, taken over or released during a run.

    lost_folders.py ACCEL_RUN
"""

import os
import shutil
import signal
import sys
import time

import runs

ENDLESS = ("train.until=1000000 steps", "checkpoint.every=5 steps", "log.every=1 steps",
           "trackers=[csv,mlflow,wandb,comet,dvclive,trackio]")
RANKS = "accelerator.num_processes=2"
FILES = "trackers=[csv,mlflow,wandb,comet,dvclive]"


def wait_for(condition):
    end = time.monotonic() + 120
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)


def started(scratch, *words):
    """A process that has saved a checkpoint."""
    process = scratch.start("job.yaml", *ENDLESS, *words)
    wait_for(lambda: process.poll() is not None or scratch.checkpoints())
    return process


def changed_at(path):
    """None while it does not exist."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def ended(process):
    _, errors = process.communicate()
    return process.returncode, "\n".join(runs.besides_overlap(errors))


def check_removed_lock(binary, report):
    with runs.Scratch(binary) as scratch:
        process = started(scratch)
        (scratch.run / "run.lock").unlink()
        wait_for((scratch.run / "run.lock").exists)
        scratch.wait_for_lock(process)
        code, errors = scratch.call("job.yaml", *ENDLESS)
        report.check("a removed lock is taken again", code == 11 and "is in use by process" in errors, f"{code} {errors}")
        process.send_signal(signal.SIGTERM)
        code, errors = ended(process)
        expected = (f"warning: '{scratch.run.resolve()}/run.lock' was removed or replaced during the run: the run folder is "
                    "locked again")
        report.check("with a warning", (code, errors) == (75, expected), f"{code} {errors}")
        (scratch.run / "metrics.jsonl").unlink()
        process = started(scratch)
        record = scratch.run / "metrics.jsonl"
        wait_for(lambda: record.exists() and "loss_bits" in record.read_text())
        record.rename(scratch.run / "old.jsonl")
        newest = scratch.checkpoints()[-1]
        wait_for(lambda: scratch.checkpoints()[-1] > newest + 10)
        process.send_signal(signal.SIGTERM)
        code, errors = ended(process)
        expected = (f"warning: '{scratch.run.resolve()}/metrics.jsonl' was removed or replaced during the run: it lacks the "
                    "steps of this process")
        # The process has said first that the record was missing at its start.
        report.check("a removed record is a warning", (code, errors.splitlines()[1:]) == (75, [expected]), f"{code} {errors}")


def check_taken_over(binary, report):
    with runs.Scratch(binary) as scratch:
        # A process that is stopped inside a write would keep a database locked.
        process = started(scratch, FILES)
        channel = scratch.run / "control" / "open"
        wait_for(channel.exists)
        with runs.stopped(runs.workers_of(process)):
            before = changed_at(channel)
            (scratch.run / "run.lock").unlink()
            other = scratch.start("job.yaml", *ENDLESS, FILES)
            scratch.wait_for_lock(other)
            wait_for(lambda: changed_at(channel) not in (None, before))
        code, errors = ended(process)
        expected = f"' was removed or replaced during the run, and process {other.pid} on host "
        report.check("a run whose folder is taken over ends", code == 11 and expected in errors, f"{code} {errors}")
        report.check("and leaves the commands of the other", channel.exists())
        other.send_signal(signal.SIGTERM)
        code, errors = ended(other)
        report.check("the other one goes on", code == 75, f"{code} {errors}")
        steps = [line.split(",")[0] for line in scratch.exact_lines() if "loss_bits" in line]
        report.check("and has every step once", len(steps) == len(set(steps)), f"{len(steps)} {len(set(steps))}")


def check_removed_folder(binary, report):
    for ranks, name in (("accelerator.num_processes=1", ""), (RANKS, "rank 0: ")):
        with runs.Scratch(binary) as scratch:
            process = started(scratch, ranks)
            with runs.stopped(runs.workers_of(process)):
                shutil.rmtree(scratch.run)
            code, errors = ended(process)
            # A tracker may have missed the folder first, with a warning.
            report.check(f"{ranks}: a removed folder ends the run", code == 7 and
                         f"error: {name}the run folder '{scratch.run.resolve()}' was removed during the run\n" in errors,
                         f"{code} {errors}")
            report.check(f"{ranks}: and is not made again", not scratch.run.exists())
    with runs.Scratch(binary) as scratch:
        process = started(scratch)
        moved = scratch.path.resolve() / "runs" / "moved"
        scratch.run.rename(moved)
        code, errors = ended(process)
        report.check("a moved folder ends the run", code == 7 and errors.endswith(
            f"error: the run folder '{scratch.run.resolve()}' was moved to '{moved}' during the run\n"
            f"  hint: its newest checkpoint is there: accel-run resume {moved}"), f"{code} {errors}")
        report.check("and is not made again", not scratch.run.exists())
        newest = max(int(path.name.removeprefix("checkpoint_")) for path in (moved / "checkpoints").iterdir())
        code, errors = scratch.call("resume", "runs/moved", f"train.until={newest + 1} steps")
        report.check("and can be resumed", code == 0, f"{code} {errors}")


def check_restart(binary, report):
    """A run starts again while the ranks of the killed one still end."""
    for killed in ("the launcher", "rank 0", "rank 1"):
        with runs.Scratch(binary) as scratch:
            process = started(scratch, RANKS)
            ranks = runs.children_of(process.pid)
            os.kill({"the launcher": process.pid, "rank 0": ranks[0], "rank 1": ranks[1]}[killed], signal.SIGKILL)
            code, errors = scratch.call("job.yaml", *ENDLESS, RANKS, "--stop-after", "1")
            report.check(f"{killed} is killed: the run starts again at once", code == 75, f"{code} {errors}")
            process.communicate()


def main():
    report = runs.Report()
    for check in (check_removed_lock, check_taken_over, check_removed_folder, check_restart):
        check(sys.argv[1], report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
