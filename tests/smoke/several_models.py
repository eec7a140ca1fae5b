#!/usr/bin/env python3
"""Tasks beyond one model and one loss, stopped in the middle and resumed.

    several_models.py ACCEL_RUN RECIPES_FOLDER

On one rank and on two they end bit for bit as a run left alone, in every file that Accelerate knows;
with a canonical reduction two ranks end as one.
"""

import pathlib
import sys

import runs

FAST = ["data.loader.workers=0", "accelerator.num_cpu_threads_per_process=1"]
# What each leaves in a checkpoint beside model.safetensors and optimizer.bin.
TASKS = {
    "gan": {
        "words": ["train.until=6 steps", "data.train.length=88", "task.generator_every=2", "expect.eval/loss='>= 0'"],
        "canonical": ["model.batch_norm=false", "task.discriminator.batch_norm=false", "train.micro_batch=8"],
        "files": ["model_1.safetensors", "optimizer_1.bin", "scheduler_1.bin", "custom_checkpoint_0.pkl"],
    },
    "reinforce": {
        "words": ["train.until=6 steps", "task.max_episode_steps=20", "expect.eval/loss='>= 0'"],
        "canonical": ["train.micro_batch=4"],
        "files": ["custom_checkpoint_0.pkl"],
    },
    "distill": {"words": ["train.until=6 steps", "data.train.length=88", "expect.eval/accuracy='>= 0'"], "files": []},
    "dpo": {
        "words": ["train.until=6 steps", "data.train.limit=88", "expect.eval/rewards/accuracies='>= 0'"],
        "canonical": ["train.micro_batch=4"],
        "files": [],
    },
    "dpo_lora": {
        "words": ["train.until=6 steps", "train.micro_batch=4", "model.lora.dropout=0.2", "task.dropout=true",
                  "expect.eval/rewards/accuracies='>= 0'"],
        "files": [],
    },
    # The estimate of the divergence is of a micro-batch: ranks have the same ones.
    "kto": {"words": ["train.until=6 steps", "expect.eval/rewards/margins='>= -9'"], "canonical": ["train.micro_batch=4"],
            "files": []},
    "orpo": {"words": ["train.until=6 steps", "expect.eval/rewards/accuracies='>= 0'"], "files": []},
    "multi": {"words": ["train.until=6 steps", "expect.eval/loss='>= 0'"], "files": []},
}


def end_of(scratch, name):
    """The record's steps and the last checkpoint's files."""
    run = scratch.path / "runs" / name
    steps = [line for line in (run / "metrics.jsonl").read_text().splitlines() if '"loss_bits"' in line]
    (folder,) = (run / "checkpoints").glob("checkpoint_6")
    names = ("model*.safetensors", "optimizer*.bin", "scheduler*.bin", "custom_checkpoint_*.pkl", "random_states_*.pkl")
    return steps, {path.name: path.read_bytes() for pattern in names for path in folder.glob(pattern)}


def difference(one, other):
    if one[0] != other[0]:
        return "the steps differ: " + "\n".join(next((a, b) for a, b in zip(one[0], other[0]) if a != b))
    return ", ".join(name for name in one[1].keys() | other[1].keys() if one[1].get(name) != other[1].get(name))


def check_carried(scratch, call, wanted, report):
    """What is converted to Accelerate's layout has all files, and a run resumes from it as from the checkpoint."""
    source = scratch.path / "runs/straight1/checkpoints/checkpoint_6"
    code, errors = scratch.call("checkpoint", "convert", str(source), "theirs", "--to", "accelerate")
    theirs = scratch.path / "theirs"
    same = [(theirs / file).read_bytes() == (source / file).read_bytes()
            for file in wanted if (theirs / file).exists()]
    report.check("all models are converted", code == 0 and same == [True] * len(wanted), errors)
    more = ["train.until=8 steps", "accelerator.num_processes=1", "--allow", "train.until"]
    call("the run resumes", 0, "straight1", *more)
    call("Accelerate's folder resumes", 0, "carried", "checkpoint.resume=theirs", *more[:2])
    ends = [(scratch.path / "runs" / run / "checkpoints/checkpoint_8") for run in ("straight1", "carried")]
    differing = [name for name in ("model.safetensors", "model_1.safetensors", "optimizer.bin", "optimizer_1.bin")
                 if (ends[0] / name).read_bytes() != (ends[1] / name).read_bytes()]
    report.check("and ends with the same weights", not differing, differing)


def check(binary, recipe, task, report):
    with runs.Scratch(binary) as scratch:
        def call(what, wanted, name, *words):
            code, errors = scratch.call(recipe, f"name={name}", *FAST, *task["words"], *words)
            report.check(f"{recipe.stem}: {what}", code == wanted, f"exit {code}, wanted {wanted}: {errors}")

        for count in (1, 2):
            ranks = f"accelerator.num_processes={count}"
            call(f"{count} ranks train", 0, f"straight{count}", ranks)
            call(f"{count} ranks stop", 75, f"halved{count}", ranks, "--stop-after", "3")
            call("the run resumes", 0, f"halved{count}", ranks)
            straight = end_of(scratch, f"straight{count}")
            found = difference(straight, end_of(scratch, f"halved{count}"))
            report.check(f"{recipe.stem}: and ends as the run left alone", not found, found)
            missing = [name for name in task["files"] if name not in straight[1]]
            report.check(f"{recipe.stem}: each part has its file", not missing, missing)
        if "model_1.safetensors" in task["files"]:
            check_carried(scratch, call, task["files"], report)
        if "canonical" not in task:
            return
        canonical = [*task["canonical"], "accelerator.reduction=canonical"]
        for count in (1, 2):
            call(f"{count} ranks train, canonical", 0, f"canonical{count}", f"accelerator.num_processes={count}", *canonical)
        one, two = end_of(scratch, "canonical1"), end_of(scratch, "canonical2")
        for end in (one, two):
            for rank in (0, 1):
                end[1].pop(f"random_states_{rank}.pkl", None)
        report.check(f"{recipe.stem}: two ranks end as one", not difference(one, two), difference(one, two))


def main():
    report = runs.Report()
    for name, task in TASKS.items():
        check(sys.argv[1], pathlib.Path(sys.argv[2]).resolve() / "tiny" / f"{name}.yaml", task, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
