#!/usr/bin/env python3
"""A run is told what to do while it trains, and a resume does it again.   steering.py BINARY

Orders are obeyed between two steps, written down, and refused when they make no sense. A run that was
changed on its way, killed, and resumed from before or behind the change is the run it would have been.
"""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time

import runs

RECIPE = runs.JOB.replace("until: 24 steps", "until: STEPS steps").replace(
    "eval: {every: 8 steps}", "eval: {every: never}").replace(
    "{every: 1 steps, keep: {last: 2}}", "{every: 20 steps, keep: {last: 1000}, async: false}")


def ask(scratch, *orders, folder="runs/job"):
    process = scratch.start("ctl", folder, *orders)
    out, errors = process.communicate()
    return process.returncode, out.strip(), errors.strip()


def check(condition, what):
    if not condition:
        sys.exit(f"steering: {what}")


def wait_until_open(scratch, process, folder):
    while process.poll() is None and not (folder / "control/open").exists():
        time.sleep(0.005)
    check(process.poll() is None, "the run ended before it took orders")


def step_of(answer):
    return int(answer.split()[-1])


def exact_lines(folder):
    """Those of steps and evaluations; events tell of evaluations too."""
    return [line for line in (folder / "metrics.jsonl").read_text().splitlines()
            if '"loss_bits":' in line or '"eval":' in line]


def steer_a_run(scratch, *words):
    """Starts a run, pauses it, changes it and lets it go on to its end. Returns the step."""
    process = scratch.start("job.yaml", *words)
    wait_until_open(scratch, process, scratch.run)
    box = scratch.run / "control"
    check(stat.S_IMODE(box.stat().st_mode) == 0o700, "others may enter the folder of orders")
    code, out, errors = ask(scratch, "pause")
    check(code == 0 and out.startswith("paused after step "), f"pause: {code} {out} {errors}")
    step = step_of(out)
    code, out, errors = ask(scratch, "lr=0.003", "eval", "train.max_grad_norm=0.5", "save")
    wanted = [f"optimizer.lr was 0.01, is 0.003 after step {step}", f"evaluated after step {step}",
              f"train.max_grad_norm was none, is 0.5 after step {step}", f"saved after step {step}"]
    check(code == 0 and out.splitlines() == wanted, f"orders: {code} {out} {errors}")
    check(step in scratch.checkpoints(), f"no checkpoint after step {step}")
    for seconds in ("-5", "0", "nan"):
        code, out, errors = ask(scratch, "save", "--wait", seconds)
        check(code == 2 and errors == f"error: '--wait' must be above 0 seconds and at most 1e9, not {seconds}\n"
              "  hint: leave it out to wait for 60 seconds", f"--wait {seconds}: {code} {out} {errors}")
    for order, exit_code, text in (
            ("lr=fast", 2, "error: 'lr' wants a number, not 'fast'"),
            ("optimizer.lr=-1", 2, "error: 'lr' must be"),
            ("model.hidden=[8]", 2, "error: 'model.hidden' cannot be changed while a run trains\n"
                                    "  hint: these can: optimizer.lr, "),
            ("sav", 2, "'sav' is no order to a run")):
        code, out, errors = ask(scratch, order)
        check(code == exit_code and text in errors, f"{order}: {code} {out} {errors}")
    code, out, errors = ask(scratch, "eval", "optimizer.lr=0.5", "lr=fast")
    check(code == 2 and errors == "error: 'lr' wants a number, not 'fast'\n  hint: none of the orders is carried out",
          f"several orders, one of them wrong: {code} {out} {errors}")
    code, out, errors = ask(scratch, "stop", "save")
    check(code == 2 and errors == "error: 'stop' has orders behind it\n  hint: let it be the last; none of the orders "
          "is carried out", f"orders behind a stop: {code} {out} {errors}")
    shown = subprocess.run([scratch.binary, "top", "--once", "runs/job"], cwd=scratch.path, env=runs.ENVIRONMENT,
                           capture_output=True, text=True, check=True).stdout
    check(shown.startswith("job  paused  process ") and " left" not in shown, f"a paused run: {shown}")
    code, out, errors = ask(scratch, "lr=0.002", "resume", "lr=0.003")
    check(code == 0 and out.splitlines()[1] == "goes on" and len(out.splitlines()) == 3, f"{code} {out} {errors}")
    code, out, errors = ask(scratch, "resume")
    check(code == 0 and out == "goes on", f"resume: {code} {out} {errors}")
    out, errors = process.communicate()
    check(process.returncode == 0, f"the run: {process.returncode} {out} {errors}")
    code, out, errors = ask(scratch, "save")
    check(code == 1 and "the run in 'runs/job' has ended" in errors, f"ended: {code} {errors}")
    return step


def resume_from(scratch, step, whole, to):
    """Goes on in a copy that has lost what came after its checkpoint of `step`, and compares."""
    copy = scratch.path / f"runs/from{to}"
    shutil.copytree(scratch.run, copy)
    for path in (copy / "checkpoints").iterdir():
        if int(path.name.removeprefix("checkpoint_")) > step:
            shutil.rmtree(path)
    code, errors = scratch.call("resume", f"runs/from{to}")
    check(code == 0, f"resume from {to}: {code} {errors}")
    check(exact_lines(copy) == whole, f"resumed {to} the change, the run is not the one it was")


def replay(binary, steps, words):
    with runs.Scratch(binary, RECIPE.replace("STEPS", str(steps))) as scratch:
        step = steer_a_run(scratch, *words)
        whole = exact_lines(scratch.run)
        before = max((s for s in scratch.checkpoints() if s < step), default=None)
        if before is not None:
            resume_from(scratch, before, whole, "before")
        resume_from(scratch, step, whole, "at")
        behind = [s for s in scratch.checkpoints() if s > step]
        if behind:
            resume_from(scratch, behind[0], whole, "behind")
        return before is not None and behind


def stop_and_crash(binary, words):
    with runs.Scratch(binary, RECIPE.replace("STEPS steps", "1000000 steps")) as scratch:
        process = scratch.start("job.yaml", *words)
        wait_until_open(scratch, process, scratch.run)
        code, out, errors = ask(scratch, "stop")
        check(code == 0 and out.startswith("stops after step "), f"stop: {code} {out} {errors}")
        said, errors = process.communicate()
        check(process.returncode == 0, f"stopped: {process.returncode} {errors}")
        check(f"stopped and saved, as ctl said, at step {step_of(out)}" in said, said)
        check(step_of(out) in scratch.checkpoints(), "what was stopped was not saved")
        process = scratch.start("resume", "runs/job")
        wait_until_open(scratch, process, scratch.run)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        code, out, errors = ask(scratch, "save")
        check(code == 1 and "the run in 'runs/job' has crashed" in errors, f"crashed: {code} {errors}")


def main():
    binary = sys.argv[1]
    # A pause may come before the first checkpoint on a machine this quick.
    for steps, words in ((1500, []), (300, ["accelerator.num_processes=2"])):
        tries = 0
        while not replay(binary, steps, words):
            tries += 1
            check(tries < 5, "no run was paused behind a checkpoint")
        stop_and_crash(binary, words)


if __name__ == "__main__":
    main()
