#!/usr/bin/env python3
"""Runs of several ranks, stopped in the middle of an epoch and resumed.

    ranks_resume.py ACCEL_RUN

On as many ranks as before they end bit for bit as a run left alone; on another number the samples
come in the same order, and a canonical reduction keeps the bits too.
"""

import random
import signal
import subprocess
import sys
import time

import rank_runs

# Windows of 24 suit 3 ranks too; the last of an epoch has 16, which 3 ranks cannot share alike.
JOB = rank_runs.JOB.replace("batch: 16, micro_batch: 4", "batch: 24, micro_batch: 2")
MIDDLE = 6  # an epoch has 4 steps
# Steps of some milliseconds, so that a signal meets a run that goes on also when the test itself has to wait.
SLOW = JOB.replace("hidden_sizes: [24]", "hidden_sizes: [768, 768]")


def check_same(scratch, report, what, one, other):
    output = subprocess.run([scratch.binary, "diff", f"runs/{one}", f"runs/{other}"], cwd=scratch.path,
                          capture_output=True, text=True, check=False)
    report.check(f"{what} and ends as the run left alone", output.returncode == 0, output.stdout + output.stderr)


def call(scratch, report, what, wanted, *words):
    code, errors = scratch.call("job.yaml", *words)
    report.check(what, code == wanted, f"exit {code}, wanted {wanted}: {errors}")


def stop_by_signal(scratch, report, draw, name, *words):
    """SIGTERM once in every quarter of the run, wherever it is then."""
    stopped = 0
    scratch.run = scratch.path / "runs" / name
    for step in (1, 6, 12, 18):
        process, before = scratch.start("job.yaml", f"name={name}", *words), scratch.recorded_steps()
        scratch.wait_for_step(process, max(step, before + 1))
        time.sleep(draw.random() * 0.02)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
        if process.returncode == 0:
            break
        report.check(f"{name} is stopped by SIGTERM, at step {scratch.checkpoints()[-1:]}", process.returncode == 75,
                     f"exit {process.returncode}: {errors}")
        stopped += 1
    report.check(f"{name} was stopped {stopped} times", stopped >= 2)


def check_same_world(scratch, report, count):
    words = [rank_runs.on(count)]
    call(scratch, report, f"{count} ranks train", 0, "name=straight", *words)
    call(scratch, report, f"{count} ranks stop", 75, "name=halved", *words, "--stop-after", str(MIDDLE))
    call(scratch, report, "the run resumes", 0, "name=halved", *words)
    check_same(scratch, report, "it resumes at step 6", "straight", "halved")
    stop_by_signal(scratch, report, random.Random(count), "stopped", *words)
    call(scratch, report, "it resumes at last", 0, "name=stopped", *words)
    check_same(scratch, report, "it resumes where signals left it", "straight", "stopped")


# What ranks hold apart is kept for each of them.
APART = {
    "local SGD": ["accelerator.local_sgd.every=4 steps"],  # stopped between two averages
    "PowerSGD": ["accelerator.ddp={comm_hook: power_sgd, power_sgd: {rank: 2, start: 2 steps}}"],
    "batches of their own": ["data.loader={split_batches: false, dispatch_batches: true, even_batches: true}",
                             "train={batch: 8, micro_batch: 4}"],
}


def check_apart(binary, report):
    with rank_runs.Scratch(binary, JOB) as scratch:
        for what, words in APART.items():
            name = what.replace(" ", "_")
            call(scratch, report, f"{what}: 2 ranks train", 0, f"name={name}", *words)
            call(scratch, report, f"{what}: 2 ranks stop", 75, f"name={name}_halved", *words, "--stop-after", str(MIDDLE))
            call(scratch, report, f"{what}: the run resumes", 0, f"name={name}_halved", *words)
            check_same(scratch, report, f"{what}: it resumes at step 6", name, f"{name}_halved")
        call(scratch, report, "one rank resumes the state that two ranks share", 0, "name=local_SGD", rank_runs.on(1),
             "accelerator.local_sgd.every=none", "train.until=26 steps", "--allow", "train.until", "--allow",
             "accelerator.local_sgd.every")
        code, errors = scratch.call("job.yaml", "name=batches_of_their_own", rank_runs.on(1), "train.until=26 steps",
                                    *APART["batches of their own"], "--allow", "train.until")
        report.check("batches that grow with the ranks are of no other number", (code, errors) == (
            4, "error: 'data.loader.split_batches' is false: 1 ranks make another batch than the 2 of the"
            " checkpoint\n  hint: resume with 'accelerator.num_processes' 2\n"), f"exit {code}: {errors}")


def check_stopped_evaluations(binary, report):
    """Ranks that give up an evaluation stop right there: the next life makes it at the same step."""
    slow = JOB.replace("length: 32", "length: 1024").replace("every: 8 steps", "every: 2 steps")
    slow = slow.replace("until: 24 steps", "until: 12 steps").replace("hidden_sizes: [24]", "hidden_sizes: [1024, 1024]")
    draw, left = random.Random(5), 0
    with rank_runs.Scratch(binary, slow) as scratch:
        call(scratch, report, "2 ranks train", 0, "name=straight")
        scratch.run = scratch.path / "runs" / "stopped"
        for _ in range(8):
            process, before = scratch.start("job.yaml", "name=stopped"), scratch.recorded_steps()
            scratch.wait_for_step(process, before + 1)
            time.sleep(draw.random() * 0.3)
            process.send_signal(signal.SIGTERM)
            process.communicate()
            if process.returncode != 75:
                break
            newest = scratch.run / f"checkpoints/checkpoint_{scratch.checkpoints()[-1]}"
            left += '"eval_pending": 1.0' in (newest / "accel_run.json").read_text()
        report.check(f"2 ranks stop, {left} times in an evaluation", left and process.returncode in (0, 75),
                     f"exit {process.returncode}")
        call(scratch, report, "the run resumes", 0, "name=stopped")
        check_same(scratch, report, "it makes those evaluations", "straight", "stopped")


def check_other_world(binary, report, reduction):
    """Saved by 2, taken up by 1, 3 and 4, and by one after the other."""
    words = [f"accelerator.reduction={reduction}"]
    with rank_runs.Scratch(binary, JOB) as scratch:
        call(scratch, report, f"{reduction}: 2 ranks train", 0, "name=straight", *words)
        scratch.run = scratch.path / "runs" / "straight"
        ids, end = scratch.ids(), scratch.end()
        for counts in ((1,), (4,), (1, 4, 2)) + (() if reduction == "canonical" else ((3,),)):
            name = "on" + "-".join(map(str, counts))
            scratch.run = scratch.path / "runs" / name
            call(scratch, report, f"{reduction}: 2 ranks stop", 75, f"name={name}", *words, "--stop-after", str(MIDDLE))
            for life, count in enumerate(counts, 1):
                stop = [] if life == len(counts) else ["--stop-after", str(MIDDLE + 5 * life)]
                call(scratch, report, f"{reduction}: {count} ranks go on", 75 if stop else 0, f"name={name}",
                     rank_runs.on(count), *words, *stop)
            report.check(f"{reduction}, saved by 2, resumed by {counts}: the same samples", scratch.ids() == ids,
                         f"{scratch.ids()}\n{ids}")
            if reduction == "canonical":
                report.check(f"{reduction}, saved by 2, resumed by {counts}: the same bits", scratch.end() == end)


def main():
    report, start = rank_runs.runs.Report(), time.monotonic()
    for count in (1, 2, 3, 4):
        with rank_runs.Scratch(sys.argv[1], SLOW) as scratch:
            check_same_world(scratch, report, count)
    check_apart(sys.argv[1], report)
    check_stopped_evaluations(sys.argv[1], report)
    for reduction in ("bucketed", "canonical"):
        check_other_world(sys.argv[1], report, reduction)
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
