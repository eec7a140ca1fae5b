#!/usr/bin/env python3
"""Checkpoints cross between accel-run and Accelerate, both ways, and training continues as before.

    check_matrix.py ACCEL_RUN [WORD...]     only jobs whose names have all the words, and the parts
                                            named: tied, fsdp, processes, refused

Each cell of the matrix: one side trains, saves and continues; the other side loads what was saved and
continues as well. The losses of both continuations must be the same.
"""

import shutil
import sys
import tempfile
import time

import torch
from safetensors.torch import load_file, save_file

import matrix_fsdp
import matrix_jobs
import matrix_ranks
import matrix_refusals
from matrix_sides import SAVED, TOTAL, Job, Runner, Script


WORST = []  # of each continuation: how far a loss was off


def compare(wanted, found, tolerance):
    """What is wrong with `found`, or nothing."""
    if len(wanted) != len(found) or len(wanted) < 10:
        return f"{len(found)} losses for {len(wanted)}"
    off = [abs(a - b) / abs(b) for a, b in zip(found, wanted)]
    worst = max(off)
    WORST.append(worst)
    if worst <= tolerance:
        return ""
    first = next(i for i, x in enumerate(off) if not x <= tolerance)
    return f"loss {first + 1} is {found[first]!r} for {wanted[first]!r}; the worst is {worst:.1e} off"


def to_python(job, runner):
    wanted = runner.losses(job, "ours")[SAVED:]
    script = Script(job)
    script.load(runner.checkpoint("ours", SAVED), SAVED)
    return (compare(wanted, script.train(TOTAL), job.tolerance)
            or compare_scales(script, runner.checkpoint("ours", TOTAL)))


def to_us(job, runner):
    script = Script(job)
    script.train(SAVED)
    folder = runner.folder / "theirs"
    script.save(folder)
    wanted = script.train(TOTAL)
    found = runner.losses(job, "resumed", f"checkpoint.resume={folder}", *step_words(job))
    return compare(wanted, found, job.tolerance) or compare_scales(script, runner.checkpoint("resumed", TOTAL))


def compare_scales(script, folder):
    """The numbers of both gradient scalers, if there are any."""
    if not script.job.scale:
        return ""
    ours, theirs = torch.load(folder / "scaler.pt"), script.accelerator.scaler.state_dict()
    return "" if ours == theirs else f"the scaler is {ours} for {theirs}"


def step_words(job, processes=1):
    """SGD counts no steps, nor does ReduceLROnPlateau; none counts those that fp16 skipped. Two
    processes may have stepped a scheduler once or twice per step.
    """
    if job.scale:
        return [f"checkpoint.resume_step={SAVED}"]
    counted = "sgd" not in job.optimizer_text or (job.make_schedule and not job.evaluates and processes == 1)
    return [] if counted else [f"checkpoint.resume_step={SAVED}"]


def rename(folder, old, new):
    """As a script whose model registers its tied modules in the other order would save."""
    tensors = load_file(folder / "model.safetensors")
    if old in tensors:
        tensors[new] = tensors.pop(old)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def tied_names(runner):
    """A tied tensor under either name, each way."""
    job = Job("tied", model="gpt-head", optimizer=matrix_jobs.ADAMW, schedule=matrix_jobs.COSINE)
    names = ["transformer.wte.weight", "lm_head.weight"]
    wanted = runner.losses(job, "ours")[SAVED:]
    for old, new in (names, names[::-1]):
        rename(runner.checkpoint("ours", SAVED), old, new)
        script = Script(job)
        script.load(runner.checkpoint("ours", SAVED), SAVED)
        yield f"tied weights as {new} to Python", compare(wanted, script.train(TOTAL), 0)
    script = Script(job)
    script.train(SAVED)
    folder = runner.folder / "theirs"
    script.save(folder)
    wanted = script.train(TOTAL)
    for old, new in (names, names[::-1]):
        rename(folder, old, new)
        found = runner.losses(job, new, f"checkpoint.resume={folder}")
        yield f"tied weights as {new} to accel-run", compare(wanted, found, 0)


def fsdp(runner):
    """Folders of FSDP's, whole and sharded, and one of ours that has been such a one in between."""
    job = Job("fsdp", model="mlp-dropout", optimizer=matrix_jobs.grouped(), schedule=matrix_jobs.COSINE)
    wanted = runner.losses(job, "ours")[SAVED:]
    for source, target, layout in (("runs/ours/checkpoints/checkpoint_10", "shards", "dcp"),
                                   ("shards", "back", "accelerate")):
        runner.convert(source, target, layout)
    script = Script(job)
    script.load(runner.folder / "back", SAVED)
    yield "by way of shards to Python", compare(wanted, script.train(TOTAL), 0)
    script = Script(job)
    script.train(SAVED)
    folder = runner.folder / "theirs"
    script.save(folder)
    wanted = script.train(TOTAL)
    names = {id(tensor): name for name, tensor in script.model.named_parameters()}
    order = [names[id(tensor)] for group in script.optimizers[0].param_groups for tensor in group["params"]]
    for kind in ("whole", "sharded"):
        matrix_fsdp.as_fsdp(folder, runner.folder / kind, order, kind == "sharded")
        found = runner.losses(job, f"from-{kind}", f"checkpoint.resume={runner.folder / kind}")
        yield f"fsdp, {kind}, to accel-run", compare(wanted, found, 0)


def from_processes(runner):
    """Folders that two processes wrote: one rank resumes from them, or two do."""
    theirs = runner.folder / "theirs"
    theirs.mkdir()
    for name, wanted in matrix_ranks.launch("save", theirs).items():
        job = matrix_ranks.JOBS[int(name)]
        for ranks in (2,) if matrix_ranks.draws(job) else (1, 2):
            run = f"resumed{name}-{ranks}"
            found = runner.call(job, run, f"checkpoint.resume={theirs / name}", *step_words(job, processes=2),
                                f"accelerator.num_processes={ranks}")
            output = "not used: 'random_states_1.pkl'" in found.stdout
            good = output if ranks == 1 else found.returncode == 0 and "not used" not in found.stdout
            fault = "" if good else found.stdout + found.stderr
            yield f"{job.name} to {ranks} of accel-run", fault or compare(wanted, runner.recorded(run), job.tolerance)


def to_processes(runner):
    """Folders that one or two ranks wrote: two processes resume from them."""
    ours = runner.folder / "ours"
    ours.mkdir()
    wanted = {}
    for number, job in enumerate(matrix_ranks.JOBS):
        for ranks in (2,) if matrix_ranks.draws(job) else (1, 2):
            if not matrix_ranks.loadable(job):
                continue
            name = f"{number}-{ranks}"
            wanted[name] = runner.losses(job, name, f"accelerator.num_processes={ranks}")[SAVED:]
            shutil.copytree(runner.checkpoint(name, SAVED), ours / name)
    found = matrix_ranks.launch("load", ours)
    for name, losses in wanted.items():
        job = matrix_ranks.JOBS[int(name[0])]
        yield f"{job.name} from {name[2:]} of accel-run", compare(losses, found[name], job.tolerance)


def two_processes(runner):
    yield from from_processes(runner)
    yield from to_processes(runner)


def crossings(runner, words):
    """Yields (name, fault) of the jobs that have all the words in their names."""
    for job in matrix_jobs.jobs():
        if not all(word in job.name for word in words):
            continue
        for way, check in (("to Python", to_python), ("to accel-run", to_us)):
            try:
                yield f"{job.name} {way}", check(job, runner)
            except (RuntimeError, ValueError, KeyError, TypeError) as error:
                yield f"{job.name} {way}", f"{type(error).__name__}: {error}"
            runner.clear()


def main():
    torch.set_num_threads(1)
    words = sys.argv[2:]
    parts = {"tied": tied_names, "fsdp": fsdp, "processes": two_processes, "refused": matrix_refusals.check}
    failed = count = 0
    start = time.monotonic()
    chosen = [lambda runner: crossings(runner, words)]
    chosen += [part for name, part in parts.items() if not words or name in words]
    for part in chosen:
        with tempfile.TemporaryDirectory() as folder:
            for name, fault in part(Runner(sys.argv[1], folder)):
                count += 1
                failed += bool(fault)
                print(f"{'FAILED' if fault else 'ok    '} {name}{': ' + fault if fault else ''}", flush=True)
    if WORST:
        exact = sum(off == 0 for off in WORST)
        print(f"{exact} of {len(WORST)} continuations have the same losses to the last bit; "
              f"the worst of all is {max(WORST):.1e} off")
    print(f"{count} cells, {failed} failed, {time.monotonic() - start:.0f} s")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
