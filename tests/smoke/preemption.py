#!/usr/bin/env python3
"""Signals and deadlines: the job saves, says so, exits with 75, and its next life resumes exactly.

    preemption.py ACCEL_RUN

SIGTERM and SIGUSR1 while data is prepared, in the first step, in an evaluation, inside a save, at
any other moment and after the end; SIGINT twice; `checkpoint.deadline` and SLURM_JOB_END_TIME.
"""

import collections
import contextlib
import random
import re
import signal
import sys
import time

import runs

STOPS = (signal.SIGTERM, signal.SIGUSR1)
ATTEMPTS = 5  # to meet every phase of a run
DEADLINES = (3, 15, 60)  # seconds, until one leaves time for a step
# Evaluations that take most of the time, saves longer than steps, and data that takes a while to read.
SLOW = runs.JOB.replace("eval: {type: synthetic/glyphs, length: 32}", "eval: {type: synthetic/glyphs, length: 2048}")
SLOW = SLOW.replace("every: 8 steps", "every: 4 steps").replace("hidden_sizes: [24]", "hidden_sizes: [512, 512]")


def handles_signals(process):
    """Whether the process holds SIGTERM back or has a handler for it: from then on none is lost."""
    try:
        with open(f"/proc/{process.pid}/status") as status:
            masks = dict(line.split(":\t") for line in status if line.startswith(("SigBlk", "SigCgt")))
    except FileNotFoundError:
        return True
    return any(int(mask, 16) >> (signal.SIGTERM - 1) & 1 for mask in masks.values())


def wait_until_it_handles_signals(process):
    while process.poll() is None and not handles_signals(process):
        time.sleep(0.001)


def left_evaluation(scratch):
    """Of the newest checkpoint; there is none before the first step."""
    while steps := scratch.checkpoints()[-1:]:
        try:
            manifest = (scratch.run / f"checkpoints/checkpoint_{steps[0]}/accel_run.json").read_text()
            return '"eval_pending": 1.0' in manifest
        except FileNotFoundError:  # the run has a newer one since, and has removed this one
            continue
    return False


def phase_of(scratch, process):
    """What a job is at: read off before it is sent a signal."""
    if not scratch.holds_lock(process):
        return "preparing data"
    if scratch.staged():
        return "inside a save"
    return "elsewhere"


def stop_anywhere(binary, report):
    """Stopped again and again at random, it still ends as a run left alone, and always by its own exit."""
    with runs.Scratch(binary, SLOW) as scratch:
        scratch.call("job.yaml")
        wanted = scratch.exact_lines(), scratch.weights()
    draw, phases = random.Random(3), collections.Counter()
    for _ in range(ATTEMPTS):
        stop_until_done(binary, report, draw, phases, wanted)
        if every_phase(phases):
            break
    output = ", ".join(f"{count} x {phase}" for phase, count in phases.items())
    report.check(f"it was stopped {output}", every_phase(phases))


def every_phase(phases):
    return {"preparing data", "in an evaluation", "inside a save"} <= set(phases)


def stop_until_done(binary, report, draw, phases, wanted):
    """One run, stopped until it comes to its end; how soon that is depends on the machine."""
    codes = collections.Counter()
    with runs.Scratch(binary, SLOW) as scratch:
        for life in range(200):
            process = scratch.start("job.yaml")
            wait_until_it_handles_signals(process)
            if life % 4 == 0:
                time.sleep(draw.random() * 0.1)
            else:
                scratch.wait_for_lock(process)
                time.sleep(draw.random() * 0.6 * (1 + life / 40))  # a slow machine must come to the end too
            if life % 4 == 1:
                hold_inside_a_save(scratch, process)
            phase = phase_of(scratch, process)
            process.send_signal(STOPS[life % 2])
            process.send_signal(signal.SIGCONT)
            _, errors = process.communicate()
            codes[process.returncode] += 1
            phases["in an evaluation" if left_evaluation(scratch) else phase] += 1
            if process.returncode != 75:
                break
        report.check("a run stopped at any moment exits with 75 until it is done", set(codes) == {0, 75},
                     f"{dict(codes)}: {errors}")
        report.check("and ends as an uninterrupted one", (scratch.exact_lines(), scratch.weights()) == wanted)


def hold_inside_a_save(scratch, process):
    """Halts it there, if it comes to a save before its end."""
    while process.poll() is None:
        if scratch.staged():
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.01)
            if scratch.staged():
                return
            process.send_signal(signal.SIGCONT)
        time.sleep(0.001)


def stop_in_the_first_step(binary, report):
    # A step that takes a second.
    slow = runs.JOB.replace("hidden_sizes: [24]", "hidden_sizes: [2000, 2000]").replace("length: 64", "length: 2048")
    slow = slow.replace("until: 24 steps, batch: 16", "until: 2 steps, batch: 2048, micro_batch: 1024")
    ends = []
    for number in (None, *STOPS):
        with runs.Scratch(binary, slow) as scratch:
            for patience in range(1, 16):
                if not number or scratch.checkpoints():  # none: it came before the step
                    break
                process = scratch.start("job.yaml")
                scratch.wait_for_lock(process)
                time.sleep(0.2 * patience)
                process.send_signal(number)
                process.communicate()
            if number:
                report.check(f"{number.name} in the first step saves after it",
                             process.returncode == 75 and scratch.checkpoints() == [1], str(process.returncode))
            scratch.call("job.yaml")
            ends.append((scratch.exact_lines(), scratch.weights()))
    report.check("and the next life makes the second as if nothing had been", ends[0] == ends[1] == ends[2])


def stop_after_the_end(binary, report):
    """The outcome is known by then and a signal does not change it."""
    codes = collections.Counter()
    for trial in range(20):
        with runs.Scratch(binary) as scratch:
            process = scratch.start("job.yaml", "train.until=2 steps")
            record = scratch.run / "metrics.jsonl"
            while process.poll() is None and not (record.exists() and '"event":"end"' in record.read_text()):
                time.sleep(0.0005)
            time.sleep(0.001 * (trial // 2))
            process.send_signal(STOPS[trial % 2])
            process.communicate()
            codes[process.returncode] += 1
    report.check("a signal behind the end does not change the exit code", set(codes) == {0}, str(dict(codes)))


def lose_the_eval_data(binary, report):
    """An evaluation that was left is given up when the recipe has no data for it any more."""
    with runs.Scratch(binary, SLOW) as scratch:
        scratch.call("job.yaml", "~data.eval", "~eval")
        wanted = scratch.exact_lines(), scratch.weights()
    for patience in range(1, ATTEMPTS + 1):  # a slow machine comes to its evaluation later
        with stopped_in_evaluation(binary, 0.3 * patience) as (scratch, process):
            if not left_evaluation(scratch) and patience < ATTEMPTS:
                continue
            check_lost_eval_data(report, scratch, process, wanted)
            return


@contextlib.contextmanager
def stopped_in_evaluation(binary, seconds):
    """A job that is stopped so long after its third step, and its process."""
    with runs.Scratch(binary, SLOW.replace("length: 2048", "length: 20000")) as scratch:
        process = scratch.start("job.yaml")
        while process.poll() is None and scratch.checkpoints()[-1:] != [3]:
            time.sleep(0.001)
        time.sleep(seconds)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        yield scratch, process


def check_lost_eval_data(report, scratch, process, wanted):
    report.check("a job is stopped in its first evaluation", process.returncode == 75
                 and scratch.checkpoints()[-1] == 4 and left_evaluation(scratch), str(scratch.checkpoints()))
    code, errors = scratch.call("resume", "runs/job", "~data.eval", "~eval")
    report.check("without its eval data it resumes to the end", code == 0 and not left_evaluation(scratch), errors)
    report.check("as a run that never had any", (scratch.exact_lines(), scratch.weights()) == wanted)


def evaluation_of_step_4(scratch):
    """How many lines of step 4 have results, and how many the use of data, which is logged with them."""
    lines = [line for line in (scratch.run / "metrics.jsonl").read_text().splitlines() if line.startswith('{"step":4,')]
    return sum('"eval":' in line for line in lines), sum('"data/share_1":' in line for line in lines)


def keep_the_evaluation_that_was_left(binary, report):
    """The life that makes up for an evaluation saves it: a later one does not evaluate again."""
    dataset = "{type: synthetic/glyphs, length: 64"
    mixed = SLOW.replace("length: 2048", "length: 12000").replace(
        f"train: {dataset}}}", f"train: [{dataset}, weight: 2}}, {dataset}, weight: 1}}]")
    with runs.Scratch(binary, mixed) as scratch:
        process = scratch.start("job.yaml")
        while process.poll() is None and scratch.checkpoints()[-1:] != [3]:
            time.sleep(0.001)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        report.check("a job is stopped in an evaluation again", left_evaluation(scratch), str(scratch.checkpoints()))
        process = scratch.start("resume", "runs/job", "checkpoint.every=never")
        while process.poll() is None and left_evaluation(scratch):
            time.sleep(0.001)
        process.kill()
        process.communicate()
        report.check("the next life saves the evaluation", process.returncode == -signal.SIGKILL
                     and scratch.checkpoints()[-1] == 4, f"{process.returncode}: {scratch.checkpoints()}")
        code, errors = scratch.call("job.yaml", "train.until=5 steps", "--allow", "train.until")
        report.check("it is in the record once", code == 0 and evaluation_of_step_4(scratch) == (1, 1),
                     f"{code}, {evaluation_of_step_4(scratch)}: {errors}")


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


def stop_before_the_deadline(binary, report):
    endless = ["job.yaml", "train.until=1000000 steps", "checkpoint.every=never", "eval.every=never"]
    for seconds in DEADLINES:
        with runs.Scratch(binary) as scratch:
            code, errors = scratch.call(*endless, f"checkpoint.deadline={seconds} s")
            if not scratch.checkpoints() and seconds < DEADLINES[-1]:
                continue  # over before the first step
            said = "the deadline is near" in (scratch.run / "metrics.jsonl").read_text()
            report.check("a run ends before its deadline", code == 75 and said, f"{code}: {errors}")
            report.check("with a checkpoint", len(scratch.checkpoints()) == 1)
            break
    with runs.Scratch(binary) as scratch:
        process = scratch.start(*endless, "checkpoint.deadline=0.1 s")
        output, _ = process.communicate()
        report.check("one that is over at the start makes no step and does not claim a save",
                     process.returncode == 75 and not scratch.checkpoints()
                     and "stopped without a checkpoint (the deadline is near) at step 0" in output, output)
    for seconds in DEADLINES:
        with runs.Scratch(binary) as scratch:
            runs.ENVIRONMENT["SLURM_JOB_END_TIME"] = str(int(time.time()) + seconds)
            code, errors = scratch.call(*endless)
            del runs.ENVIRONMENT["SLURM_JOB_END_TIME"]
            if scratch.checkpoints() or seconds == DEADLINES[-1]:
                report.check("so does a job of Slurm", code == 75 and len(scratch.checkpoints()) == 1, errors)
                break
    with runs.Scratch(binary) as scratch:
        check_scontrol(scratch, report, endless)
    with runs.Scratch(binary) as scratch:
        runs.ENVIRONMENT["SLURM_JOB_END_TIME"] = "soon"
        code, errors = scratch.call(*endless)
        del runs.ENVIRONMENT["SLURM_JOB_END_TIME"]
        report.check("an end that is no time is reported before anything is written",
                     code == 2 and "SLURM_JOB_END_TIME is 'soon'" in errors and not scratch.run.exists(), errors)


def check_scontrol(scratch, report, endless):
    """Slurm before 22.05 has no SLURM_JOB_END_TIME."""
    saved = runs.ENVIRONMENT["PATH"]
    scontrol = scratch.path / "bin" / "scontrol"
    scontrol.parent.mkdir()
    runs.ENVIRONMENT.update(PATH=f"{scontrol.parent}:{saved}", SLURM_JOB_ID="7")
    try:
        # An end that is over and one that is far away: neither depends on how fast the machine is.
        for end, words, code, shown in (("-1 hour", endless, 75, "stopped without a checkpoint (the deadline is near) at step 0"),
                                        ("+1 day", ["job.yaml", "train.until=1 steps"], 0, "1 step")):
            scontrol.write_text("#!/bin/sh\n[ \"$*\" = 'show job 7' ] || exit 1\necho 'JobId=7 JobName=a'\n"
                                f"echo \"   EndTime=$(date -d '{end}' +%Y-%m-%dT%H:%M:%S) Deadline=N/A\"\n")
            scontrol.chmod(0o755)
            process = scratch.start(*words)
            output, errors = process.communicate()
            report.check(f"so does one of an older Slurm, whose end scontrol reports: {end}", process.returncode == code and
                         shown in output and re.search("the Slurm job 7 ends at 20.*, as scontrol reports\n", output),
                         f"{process.returncode} {output} {errors}")
        scontrol.write_text("#!/bin/sh\nexit 1\n")
        process = scratch.start("job.yaml", "name=short", "train.until=1 steps")
        output, errors = process.communicate()
        report.check("and a failure of scontrol is only noted", process.returncode == 0 and
                     "the end of the Slurm job 7 is unknown\n" in output, output + errors)
    finally:
        runs.ENVIRONMENT["PATH"] = saved
        del runs.ENVIRONMENT["SLURM_JOB_ID"]


def stop_at_once(binary, report):
    # A step that takes seconds: the first signal only sets a flag, the second ends the process.
    slow = runs.JOB.replace("hidden_sizes: [24]", "hidden_sizes: [3000, 3000]").replace("length: 64", "length: 8192")
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
    report = runs.Report()
    for number in (signal.SIGTERM, signal.SIGINT):
        ask_to_stop(binary, number, 75, report)
    for check in (stop_at_once, stop_in_the_first_step, stop_anywhere, stop_after_the_end, lose_the_eval_data,
                  keep_the_evaluation_that_was_left, stop_before_the_deadline):
        check(binary, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
