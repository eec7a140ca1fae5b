"""Folders of Accelerate's that do not fit: refused with the reason, and before anything is written.

Each case changes a good folder or the recipe. The exact texts are in tests/unit/loop.
"""

import shutil

import torch
from safetensors.torch import load_file, save_file
from torch.optim import lr_scheduler as lrs

from matrix_jobs import ADAMW, COSINE
from matrix_sides import SAVED, TOTAL, Job, Script


def remove(name):
    return lambda folder: (folder / name).unlink()


def change_model(change):
    def edit(folder):
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return edit


def transpose(tensors):
    tensors["layers.0.weight"] = tensors["layers.0.weight"].t().contiguous()


def spoil_generator(folder):
    path = folder / "random_states_0.pkl"
    states = torch.load(path, weights_only=False)
    states["torch_manual_seed"] = states["torch_manual_seed"][:100].clone()
    torch.save(states, path)


def with_recipe(**options):
    return Job("refused", **{"optimizer": ADAMW, "schedule": COSINE, **options})


def cases():
    """Yields (name, how the folder changes, the job that resumes, words it says)."""
    same, keep = with_recipe(), lambda folder: None
    yield "no optimizer.bin", remove("optimizer.bin"), same, ["has no 'optimizer.bin'", "--allow optimizer.bin"]
    yield "no scheduler.bin", remove("scheduler.bin"), same, ["scheduler: was none", "--allow scheduler"]
    yield "no random states", remove("random_states_0.pkl"), same, [
        "has no 'random_states_0.pkl'", "--allow random_states_0.pkl"]
    yield "no model", remove("model.safetensors"), same, ["neither 'accel_run.json' nor 'model.safetensors'"]
    yield "no scaler.pt", keep, with_recipe(scale='{"init_scale": 1024.0}'), ["has no 'scaler.pt'"]
    yield "a missing tensor", change_model(lambda t: t.pop("layers.0.bias")), same, [
        "the checkpoint's model has no 'layers.0.bias'"]
    yield "an unexpected tensor", change_model(lambda t: t.update(extra=torch.zeros(1))), same, [
        "has 'extra', which this model lacks"]
    yield "a misshapen tensor", change_model(transpose), same, [
        "'layers.0.weight' is [24, 784] in the model but [784, 24] in the checkpoint"]
    yield "a spoilt generator", spoil_generator, same, ["random state does not fit PyTorch's CPU generator"]
    yield "another optimizer", keep, with_recipe(optimizer=("{type: sgd, lr: 0.01, momentum: 0.9}", None)), [
        "is of another optimizer than 'sgd'", "'betas'", "'momentum'"]
    yield "adam for adamw", keep, with_recipe(optimizer=("{type: adam, lr: 0.01}", None)), [
        "is of another optimizer than 'adam'", "decoupled_weight_decay true"]
    yield "another option", keep, with_recipe(optimizer=("{type: adamw, lr: 0.01, weight_decay: 0.5}", None)), [
        "optimizer.weight_decay: was 0.01, is 0.5", "--allow optimizer.weight_decay"]
    yield "another rate", keep, with_recipe(optimizer=("{type: adamw, lr: 0.02}", None)), [
        "optimizer.lr: was 0.01, is 0.02"]
    yield "more groups", keep, with_recipe(
        optimizer=("{type: adamw, lr: 0.01, groups: [{match: '*.bias', weight_decay: 0.01}]}", None)), [
        "has 1 groups, the recipe has 2"]
    yield "more parameters", keep, with_recipe(model="mlp-deeper"), [
        "optimizer.bin' has 4 parameters, the recipe trains 6"]
    yield "another schedule", keep, with_recipe(schedule=("{type: linear}", None)), [
        "scheduler: was LambdaLR, with the rate", "is linear"]


def save(runner, name, job):
    folder = runner.folder / name
    script = Script(job)
    script.train(SAVED)
    script.save(folder)
    return folder


def chained(o):
    return lrs.ChainedScheduler([lrs.LinearLR(o, 0.5, total_iters=4), lrs.ExponentialLR(o, 0.9)])


SCHEDULES = {
    "CyclicLR": lambda o: lrs.CyclicLR(o, 0.001, 0.01, cycle_momentum=False),
    "ChainedScheduler": chained,
    "OneCycleLR, which cycles the momentum as well": lambda o: lrs.OneCycleLR(o, 0.01, total_steps=TOTAL),
}


def check(runner):
    """Yields (name, fault)."""
    for name, make in SCHEDULES.items():
        folder = save(runner, "strange", with_recipe(schedule=("one_cycle", make)))
        yield name, refuse(runner, folder, with_recipe(schedule=("one_cycle", None)), [f"scheduler: was {name}, "])
        shutil.rmtree(folder)
    good = save(runner, "good", with_recipe())
    for name, edit, job, words in cases():
        folder = runner.folder / "changed"
        shutil.copytree(good, folder)
        edit(folder)
        yield name, refuse(runner, folder, job, words)
        shutil.rmtree(folder)


def refuse(runner, folder, job, words):
    """What is wrong with how the job takes the folder, or nothing."""
    done = runner.call(job, "refused", f"checkpoint.resume={folder}", f"checkpoint.resume_step={SAVED}")
    missing = [word for word in words if word not in done.stderr]
    if done.returncode != 4 or missing:
        return f"exit {done.returncode}, {missing} not in {done.stderr}"
    return "it made the run folder" if (runner.folder / "runs" / "refused").exists() else ""
