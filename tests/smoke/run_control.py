#!/usr/bin/env python3
"""Commands to a running process, and their replay after a resume.   run_control.py BINARY

Commands are applied between two steps and recorded; invalid ones are refused. A run that was changed,
killed, and resumed from before or after the change computes the same as without the kill.
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


def ask(scratch, *commands, folder="runs/job"):
    process = scratch.start("ctl", folder, *commands)
    out, errors = process.communicate()
    return process.returncode, out.strip(), errors.strip()


def check(condition, what):
    if not condition:
        sys.exit(f"run_control: {what}")


def wait_until_open(scratch, process, folder):
    while process.poll() is None and not (folder / "control/open").exists():
        time.sleep(0.005)
    check(process.poll() is None, "the run ended before it accepted commands")


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
    check(stat.S_IMODE(box.stat().st_mode) == 0o700, "others may enter the folder of commands")
    code, out, errors = ask(scratch, "pause")
    check(code == 0 and out.startswith("paused after step "), f"pause: {code} {out} {errors}")
    step = step_of(out)
    code, out, errors = ask(scratch, "lr=0.003", "eval", "train.max_grad_norm=0.5", "save")
    wanted = [f"optimizer.lr was 0.01, is 0.003 after step {step}", f"evaluated after step {step}",
              f"train.max_grad_norm was none, is 0.5 after step {step}", f"saved after step {step}"]
    check(code == 0 and out.splitlines() == wanted, f"commands: {code} {out} {errors}")
    check(step in scratch.checkpoints(), f"no checkpoint after step {step}")
    for seconds in ("-5", "0", "nan"):
        code, out, errors = ask(scratch, "save", "--wait", seconds)
        check(code == 2 and errors == f"error: '--wait' must be above 0 seconds and at most 1e9, not {seconds}\n"
              "  hint: leave it out to wait for 60 seconds", f"--wait {seconds}: {code} {out} {errors}")
    for command, exit_code, text in (
            ("lr=fast", 2, "error: 'lr' wants a number, not 'fast'"),
            ("optimizer.lr=-1", 2, "error: 'lr' must be"),
            ("model.hidden_sizes=[8]", 2, "error: 'model.hidden_sizes' cannot be changed during training\n"
                                    "  hint: the options that can be changed: optimizer.lr, "),
            ("foo=1", 2, "error: no recipe has 'foo'\n  hint: the options that can be changed: optimizer.lr, "),
            ("sav", 2, "'sav' is not a command to a run")):
        code, out, errors = ask(scratch, command)
        check(code == exit_code and text in errors, f"{command}: {code} {out} {errors}")
    code, out, errors = ask(scratch, "eval", "optimizer.lr=0.5", "lr=fast")
    check(code == 2 and errors == "error: 'lr' wants a number, not 'fast'\n  hint: none of the commands is applied",
          f"several commands, one of them wrong: {code} {out} {errors}")
    code, out, errors = ask(scratch, "stop", "save")
    check(code == 2 and errors == "error: 'stop' is followed by other commands\n  hint: make it the last; none of the commands is applied", f"commands after a stop: {code} {out} {errors}")
    shown = subprocess.run([scratch.binary, "top", "--once", "runs/job"], cwd=scratch.path, env=runs.ENVIRONMENT,
                           capture_output=True, text=True, check=True).stdout
    check(shown.startswith("job  paused  process ") and " left" not in shown, f"a paused run: {shown}")
    # The second 'resume' meets a run that goes on; alone it might come after its end.
    code, out, errors = ask(scratch, "lr=0.002", "resume", "lr=0.003", "resume")
    check(code == 0 and out.splitlines()[1::2] == ["resumed"] * 2 and len(out.splitlines()) == 4,
          f"{code} {out} {errors}")
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
        check(f"stopped and saved (stopped by command) at step {step_of(out)}" in said, said)
        check(step_of(out) in scratch.checkpoints(), "what was stopped was not saved")
        process = scratch.start("resume", "runs/job")
        wait_until_open(scratch, process, scratch.run)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        code, out, errors = ask(scratch, "save")
        check(code == 1 and "the run in 'runs/job' has crashed" in errors, f"crashed: {code} {errors}")


def give_up_waiting(binary):
    """A run that does not answer in time, before and after it has taken the command."""
    with runs.Scratch(binary, RECIPE.replace("STEPS steps", "1000000 steps")) as scratch:
        process = scratch.start("job.yaml")
        wait_until_open(scratch, process, scratch.run)
        os.kill(process.pid, signal.SIGSTOP)
        hint = ("  hint: a step, an evaluation or a save may take long: watch it with 'accel-run top runs/job', "
                "or give '--wait' more seconds")
        code, out, errors = ask(scratch, "save", "--wait", "0.2")
        check(code == 6 and errors == "error: the run did not start 'save' in time; the command is withdrawn\n" + hint,
              f"a stopped run: {code} {out} {errors}")
        waiting = scratch.start("ctl", "runs/job", "save", "--wait", "2")
        while not (posted := [path for path in (scratch.run / "control").iterdir() if path.suffix == ".command"]):
            time.sleep(0.005)
        posted[0].unlink()  # as the run does when it takes the command
        out, errors = waiting.communicate()
        check(waiting.returncode == 6 and errors.strip() == "error: the run has not finished 'save' in time\n" + hint,
              f"a run that is busy: {waiting.returncode} {out} {errors}")
        process.kill()
        os.kill(process.pid, signal.SIGCONT)
        process.communicate()


def other_user(binary):
    """Commands of another user, and a folder that is removed while `ctl` waits for the answer."""
    with runs.Scratch(binary, RECIPE.replace("STEPS steps", "1000000 steps")) as scratch:
        process = scratch.start("job.yaml")
        wait_until_open(scratch, process, scratch.run)
        scratch.path.chmod(0o755)

        def ask_as_nobody():
            done = subprocess.run([binary, "ctl", "runs/job", "save"], cwd=scratch.path, env=runs.ENVIRONMENT, user=65534,
                                  group=65534, extra_groups=[], capture_output=True, text=True, check=False)
            return done.returncode, done.stderr

        try:
            if os.geteuid() != 0:
                raise PermissionError("this needs root")
            code, errors = ask_as_nobody()
            check(code == 7 and errors.startswith("error: the run in 'runs/job' belongs to user 'root' and takes no commands of user ")
                  and errors.endswith("\n  hint: give the command as the user who started the run\n"), f"another user: {code} {errors}")
            scratch.run.chmod(0o700)
            code, errors = ask_as_nobody()
            check((code, errors) == (7, "error: cannot read 'runs/job/metrics.jsonl': Permission denied\n"
                                        "  hint: it belongs to another user, or to a folder of one\n"),
                  f"a private folder: {code} {errors}")
        except PermissionError as error:
            print(f"skipped: another user's commands: {error}")
        os.kill(process.pid, signal.SIGSTOP)
        waiting = scratch.start("ctl", "runs/job", "save")
        while not any(path.suffix == ".command" for path in (scratch.run / "control").iterdir()):
            time.sleep(0.005)
        shutil.rmtree(scratch.run)
        out, errors = waiting.communicate()
        check((waiting.returncode, errors) == (7, "error: the run folder 'runs/job' was removed or moved before the run answered\n"
                                                  "  hint: give the folder where it is now\n"), f"{waiting.returncode} {errors}")
        process.kill()
        os.kill(process.pid, signal.SIGCONT)
        process.communicate()
        code, out, errors = ask(scratch, "save")
        check(code == 2 and errors.startswith("error: 'runs/job' is not a run folder"), f"no folder: {code} {errors}")


def main():
    binary = sys.argv[1]
    # A pause may come before the first checkpoint on a machine this quick.
    for steps, words in ((3000, []), (1500, ["accelerator.num_processes=2"])):
        tries = 0
        while not replay(binary, steps, words):
            tries += 1
            check(tries < 5, "no run was paused behind a checkpoint")
        stop_and_crash(binary, words)
    give_up_waiting(binary)
    other_user(binary)


if __name__ == "__main__":
    main()
