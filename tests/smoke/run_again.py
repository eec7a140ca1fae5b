#!/usr/bin/env python3
"""A recipe that changed under the same run name: the commands that the refusal offers, each as printed.

    run_again.py ACCEL_RUN
"""

import os
import re
import shlex
import subprocess
import sys

import runs

RECIPE = runs.JOB.replace("until: 24 steps", "until: 4 steps").replace("every: 8", "every: 4")
RATE = "optimizer.lr=0.02"


def ask(scratch, *words):
    """(exit code, standard output, standard error)."""
    done = subprocess.run([scratch.binary, *words], cwd=scratch.path, text=True, env=runs.ENVIRONMENT,
                          capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def offered(errors):
    """The words of each offered command, and the remark behind it."""
    lines = re.findall(r"^    accel-run (.*?) +# (.*)$", errors, re.MULTILINE)
    return [(shlex.split(command), remark) for command, remark in lines]


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != "run.lock"}


def steps_of(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [line.split(",")[0] for line in lines if '"loss_bits"' in line]


def check_offers(binary, report):
    with runs.Scratch(binary, RECIPE) as scratch:
        folder = scratch.path / "runs"
        code, _, errors = ask(scratch, "job.yaml")
        report.check("the first run", code == 0, errors)
        code, out, errors = ask(scratch, "job.yaml")
        report.check("an unchanged recipe resumes", code == 0 and errors == "" and
                     "nothing to do: the run has already finished at step 4" in out, out + errors)
        before = content(folder / "job")
        code, out, errors = ask(scratch, "job.yaml", RATE, "train.until=6 steps")
        wide = "accel-run job.yaml optimizer.lr=0.02 'train.until=6 steps'"
        expected = ("error: the recipe has changed since the checkpoint:\n"
                    "  optimizer.lr: was 0.01, is 0.02\n"
                    "  train.until: was 4 steps, is 6 steps\n"
                    "  hint: use one of these commands:\n"
                    f"    {wide} --allow optimizer.lr --allow train.until  # resume with the change\n"
                    f"    {wide} --new                                     # a new run in runs/job-2\n"
                    f"    {wide} --fresh                                   # start over; the old run moves to runs/job-old\n")
        report.check("the screen of a changed recipe", (code, errors) == (4, expected), f"{code}\n{errors}")
        report.check("nothing is touched", content(folder / "job") == before)
        commands = [words for words, _ in offered(errors)]
        report.check("three commands", len(commands) == 3, errors)
        if len(commands) != 3:
            return

        code, out, errors = ask(scratch, *commands[1])
        report.check("--new: a numbered run from step 0", code == 0 and "\n  run        runs/job-2\n" in out and
                     len(steps_of(folder / "job-2")) == 6, out + errors)
        report.check("--new: its own name", "name: 'job-2' " in (folder / "job-2/recipe.yaml").read_text())
        report.check("--new: the old run is as it was", content(folder / "job") == before)
        code, out, errors = ask(scratch, "--new", "job.yaml")
        report.check("--new: before the recipe, the next number", code == 0 and "\n  run        runs/job-3\n" in out,
                     out + errors)
        code, out, errors = ask(scratch, "job.yaml", "name=other", "--new")
        report.check("--new: a free name needs no number", code == 0 and "\n  run        runs/other\n" in out, out + errors)

        code, out, errors = ask(scratch, *commands[0])
        report.check("--allow: resumed with the change", code == 0 and "changed: optimizer.lr was 0.01, is 0.02\n" in out
                     and len(steps_of(folder / "job")) == 6, out + errors)
        before = content(folder / "job")
        code, out, errors = ask(scratch, *commands[2])
        report.check("--fresh: started over", code == 0 and out.startswith("kept the old run: runs/job-old\n") and
                     len(steps_of(folder / "job")) == 6 and "  start      at step 0\n" in out, out + errors)
        report.check("--fresh: the old run is whole", content(folder / "job-old") == before)
        code, out, errors = ask(scratch, "job.yaml", "--fresh", "model={type: linear}")
        report.check("--fresh: another model, the next number", code == 0 and
                     out.startswith("kept the old run: runs/job-old-2\n"), out + errors)
        code, out, errors = ask(scratch, "resume", "runs/job-old-2")
        report.check("a run set aside can be resumed", code == 0, out + errors)


def check_impossible(binary, report):
    with runs.Scratch(binary, RECIPE) as scratch:
        ask(scratch, "job.yaml", "name=sizes")
        code, _, errors = ask(scratch, "job.yaml", "name=sizes", "model.hidden_sizes=[9]")
        report.check("other sizes: two commands", code == 4 and "no longer fits the checkpoint" in errors
                     and [words[-1] for words, _ in offered(errors)] == ["--new", "--fresh"], errors)
        ask(scratch, "job.yaml")
        code, _, errors = ask(scratch, "job.yaml", "model.type=linear")
        expected = [(["job.yaml", "model.type=linear", "--new"], "a new run in runs/job-2"),
                    (["job.yaml", "model.type=linear", "--fresh"], "start over; the old run moves to runs/job-old")]
        report.check("another model: two commands", code == 4 and offered(errors) == expected, errors)
        code, _, errors = ask(scratch, "resume", "runs/job", "model.type=linear")
        expected = [(["runs/job/recipe.yaml", "model.type=linear", "--new"], "a new run in runs/job-2")]
        report.check("another model on resume: one command", code == 4 and offered(errors) == expected, errors)
        words = offered(errors)[0][0] if offered(errors) else ["--version"]
        code, out, errors = ask(scratch, *words)
        report.check("which works", code == 0 and "\n  run        runs/job-2\n" in out, out + errors)
        code, _, errors = ask(scratch, "runs/job/recipe.yaml", "--fresh")
        report.check("--fresh does not move its recipe", code == 2 and errors ==
                     "error: '--fresh' moves 'runs/job' away, and 'runs/job/recipe.yaml' is in it\n"
                     "  hint: use --new\n", errors)


def check_free(binary, report):
    """Options that change no numbers, and threads, which change the last digits."""
    with runs.Scratch(binary, RECIPE) as scratch:
        ask(scratch, "job.yaml")
        code, out, errors = ask(scratch, "job.yaml", "log.every=1 steps", "trackers=[csv]",
                                "accelerator.num_cpu_threads_per_process=2")
        report.check("logs, trackers and threads need no consent", code == 0 and
                     "changed: accelerator.num_cpu_threads_per_process was 1, is 2\n" in out, out + errors)
        report.check("other threads are no longer bit-exact", errors ==
                     "warning: a bit-exact resume is not guaranteed: 'threads' was 1 and is 2\n", errors)


def check_moved_state(binary, report):
    """Changes that add or remove state of the optimizer and of callbacks."""
    with runs.Scratch(binary, RECIPE) as scratch:
        ask(scratch, "job.yaml")
        biases = "optimizer.groups=[{match: '*.bias', weight_decay: 0}]"
        for number, (words, line) in enumerate([
                ([biases], ""),
                (["train.freeze=[layers.0.*]"],
                 "the optimizer's state is dropped for 2 parameters: 'layers.0.bias', 'layers.0.weight'\n"),
                (["callbacks=[ema]"], "the callback 'ema' starts without state\n"),
                (["train.freeze=[]", "callbacks=[]"],
                 "the optimizer starts without state for 2 parameters: 'layers.0.bias', 'layers.0.weight'\n")]):
            longer = f"train.until={6 + 2 * number} steps"
            _, _, errors = ask(scratch, "job.yaml", *words, longer)
            commands = offered(errors)
            report.check(f"{words[0]}: needs consent", commands and "--allow" in commands[0][0], errors)
            code, out, errors = ask(scratch, *commands[0][0]) if commands else (1, "", "")
            report.check(f"{words[0]}: the offered command resumes", code == 0 and line in out and
                         f"done at step {6 + 2 * number}" in out, out + errors)
            if number in (0, 1):  # the next one changes this recipe
                recipe = scratch.path / "job.yaml"
                recipe.write_text((scratch.run / "recipe.yaml").read_text())


def check_early_stop(binary, report):
    """The command after an early stop continues the run."""
    recipe = RECIPE.replace("lr: 0.01", "lr: 1e-9").replace("until: 4 steps", "until: 40 steps").replace(
        "eval: {every: 4 steps}", "eval: {every: 1 steps}") + "callbacks: [{type: early_stop, patience: 2}]\n"
    with runs.Scratch(binary, recipe) as scratch:
        code, out, errors = ask(scratch, "job.yaml")
        stopped = re.search(r"^done \(('eval/loss' has not improved on .* in 2 evaluations)\) at step (\d+)", out, re.MULTILINE)
        report.check("a run stops early", code == 0 and stopped, out + errors)
        if not stopped:
            return
        reason, step = stopped.groups()
        code, again, errors = ask(scratch, "resume", "runs/job")
        report.check("a resume says why it does nothing", code == 0 and
                     f"\nnothing to do: the run has already finished ({reason}) at step {step}," in again, again + errors)
        command = "  resume with: accel-run resume runs/job callbacks.0.patience=4"
        report.check("and what continues the run", command in out.splitlines() and command in again.splitlines(), out + again)
        code, out, errors = ask(scratch, "resume", "runs/job", "callbacks.0.patience=4")
        report.check("which does", code == 0 and len(steps_of(scratch.path / "runs/job")) > int(step), out + errors)


def check_stretched(binary, report):
    recipe = RECIPE + "scheduler: {type: cosine}\n"
    with runs.Scratch(binary, recipe) as scratch:
        ask(scratch, "job.yaml")
        code, out, errors = ask(scratch, "resume", "runs/job", "train.until=8 steps")
        report.check("a stretched schedule is reported", code == 0 and
                     "\n  schedule   stretched from 4 to 8 steps: the lr jumps from 0 to 0.005\n" in out, out + errors)
        code, out, errors = ask(scratch, "resume", "runs/job", "train.until=12 steps", "optimizer.lr=0.02")
        report.check("the lr has four digits", re.search(r"^  start .*, lr 0\.005, read in ", out, re.MULTILINE) and
                     "\n  schedule   with the changed recipe the lr jumps from 0 to 0.005\n" in out, out + errors)


def check_ranks(binary, report):
    two = "accelerator.num_processes=2"
    with runs.Scratch(binary, RECIPE) as scratch:
        folder = scratch.path / "runs"
        ask(scratch, "job.yaml", two)
        code, out, errors = ask(scratch, "job.yaml", two, "--new")
        report.check("--new: two ranks, one folder", code == 0 and sorted(os.listdir(folder)) == ["job", "job-2"] and
                     len(steps_of(folder / "job-2")) == 4, out + errors)
        before = content(folder / "job")
        code, out, errors = ask(scratch, "--fresh", "job.yaml", two, RATE)
        report.check("--fresh: two ranks", code == 0 and "kept the old run: runs/job-old\n" in out and
                     sorted(os.listdir(folder)) == ["job", "job-2", "job-old"] and
                     content(folder / "job-old") == before, out + errors)
        code, _, errors = ask(scratch, "job.yaml", two, "optimizer.lr=0.5")
        report.check("the ranks' refusal offers the user's command", code == 4 and
                     [words[-1] for words, _ in offered(errors)] == ["optimizer.lr", "--new", "--fresh"] and
                     offered(errors)[1][0] == ["job.yaml", two, "optimizer.lr=0.5", "--new"], errors)


def main(binary):
    report = runs.Report()
    check_offers(binary, report)
    check_impossible(binary, report)
    check_free(binary, report)
    check_stretched(binary, report)
    check_moved_state(binary, report)
    check_early_stop(binary, report)
    check_ranks(binary, report)
    return report.failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
