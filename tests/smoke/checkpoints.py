#!/usr/bin/env python3
"""The verbs that look at checkpoints, at whole ones and at a damaged one.

    checkpoints.py ACCEL_RUN
"""

import pathlib
import shutil
import subprocess
import sys

import runs

THEIRS = pathlib.Path(__file__).resolve().parents[1] / "unit/checkpoint/golden/adamw"


def tell(scratch, *words):
    """(exit code, all that is printed)."""
    result = subprocess.run([scratch.binary, "checkpoint", *words], cwd=scratch.path, text=True,
                            env=runs.ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return result.returncode, result.stdout


def check_whole(scratch, report):
    code, text = tell(scratch, "list", "runs/job")
    report.check("list names each with its step, metrics and health", code == 0 and len(text.splitlines()) == 2
                 and "checkpoint_24  step 24, epoch 6 and 0 steps, 384 samples, eval/" in text
                 and text.count(", whole\n") == 2, text)
    code, text = tell(scratch, "inspect", "runs/job")
    report.check("inspect prints the newest", code == 0 and text.startswith("runs/job/checkpoints/checkpoint_24\n")
                 and "step 24, epoch 6" in text and "4 tensors, 19090 values" in text
                 and "model.safetensors 76" in text, text)
    code, text = tell(scratch, "inspect", THEIRS)
    report.check("inspect prints one of Accelerate's", code == 0
                 and "  written by   Accelerate, in 1 process; the optimizer counts 3 updates\n" in text
                 and "  optimizer    18 tensors, " in text, text)
    shutil.copytree(THEIRS, scratch.path / "theirs")
    (scratch.path / "theirs/notes.txt").write_text("from elsewhere")
    code, text = tell(scratch, "inspect", "theirs")
    report.check("inspect names the files that are not read", code == 0 and "  written by   Accelerate, in 1 process; "
                 "the optimizer counts 3 updates; not read: notes.txt\n" in text, text)
    code, text = tell(scratch, "verify", "runs/job")
    report.check("verify goes through all of a run", code == 0 and text.count(": whole\n") == 2, text)


def check_differences(scratch, report):
    code, text = tell(scratch, "diff", "runs/job", "runs/job/checkpoints/checkpoint_24")
    report.check("a checkpoint equals itself", code == 0 and text == "bit-identical\n", text)
    code, text = tell(scratch, "diff", "runs/job/checkpoints/checkpoint_23", "runs/job")
    report.check("diff prints numbers and tensors", code == 1 and "progress step is 23 and 24\n" in text
                 and "model layers.0.weight differs in " in text, text)
    scratch.call("job.yaml", "name=other", "model.hidden_sizes=[12]")
    code, text = tell(scratch, "diff", "runs/job", "runs/other")
    report.check("and shapes", code == 1 and "model layers.0.weight has shape [24, 784] and [12, 784]\n" in text,
                 text)


def check_rank_differences(scratch, report):
    """Folders without a manifest, so that files may be of another step."""
    scratch.call("job.yaml", "name=ranks", "accelerator.num_processes=2", "train.micro_batch=8", "train.until=3 steps")
    steps = [scratch.path / f"runs/ranks/checkpoints/checkpoint_{step}" for step in (2, 3)]
    for name in ("same", "stale"):
        shutil.copytree(steps[1], scratch.path / name, ignore=shutil.ignore_patterns("accel_run.*"))
    code, text = tell(scratch, "diff", "same", "stale")
    report.check("a copy of two ranks is the same", (code, text) == (0, "bit-identical\n"), text)
    shutil.copy(steps[0] / "random_states_1.pkl", scratch.path / "stale")
    code, text = tell(scratch, "diff", "same", "stale")
    report.check("diff prints the generator of each rank", code == 1 and len(text.splitlines()) == 1
                 and text.startswith("generator of rank 1 differs in "), text)
    code, text = tell(scratch, "diff", steps[0], steps[1])
    report.check("and only the generators that differ", "generator of rank 1 differs in " in text, text)
    scratch.call("job.yaml", "name=first", "train.until=1 steps")
    scratch.call("job.yaml", "name=decay", "train.until=1 steps", "optimizer.weight_decay=0.5", "optimizer.lr=0.02")
    code, text = tell(scratch, "diff", "runs/first", "runs/decay")
    report.check("diff prints options of parameter groups", code == 1
                 and "weight_decay of group 0 is '0.01' and '0.5'\n" in text
                 and "base lr of group 0 is 0.01 and 0.02\n" in text, text)


def check_damaged(scratch, report):
    shutil.copytree(scratch.run, scratch.path / "runs/damaged")
    optimizer = scratch.path / "runs/damaged/checkpoints/checkpoint_24/optimizer.bin"
    content = bytearray(optimizer.read_bytes())
    content[len(content) // 2] ^= 1
    optimizer.write_bytes(content)
    code, text = tell(scratch, "verify", "runs/damaged")
    report.check("verify finds a flipped bit", code == 4 and "checkpoint_23: whole\n" in text
                 and "'optimizer.bin' has checksum " in text, text)
    code, text = tell(scratch, "list", "runs/damaged")
    report.check("list prints it too", code == 0 and "NOT whole: " in text, text)
    code, text = tell(scratch, "inspect", "runs/damaged")
    report.check("inspect refuses it", code == 4 and "is damaged" in text, text)
    for words in (["list", "runs/none"], ["inspect", "runs/none"], ["verify", "job.yaml"]):
        code, text = tell(scratch, *words)
        report.check(f"{words[0]} of {words[1]} is refused", code == 2 and "hint: give " in text, text)


def check_convert(scratch, report):
    """The targets and sources that people give."""
    (scratch.path / "weights.partial").mkdir()
    code, text = tell(scratch, "convert", "runs/job", "weights/", "--to", "bin")
    report.check("a target may end in a slash", code == 0 and text.startswith("weights/\n  pytorch_model.bin  "), text)
    report.check("nothing else is touched", (scratch.path / "weights.partial").is_dir())
    code, text = tell(scratch, "merge", "runs/job", "weights")
    report.check("nothing is written over", code == 2 and "'weights' already exists" in text, text)
    code, text = tell(scratch, "convert", "runs/job", "", "--to", "bin")
    report.check("a target has a name", code == 2 and "the target has no name" in text, text)
    hub = scratch.path / "hub"
    hub.mkdir()
    (hub / "pytorch_model.bin").symlink_to(scratch.path / "weights/pytorch_model.bin")
    code, text = tell(scratch, "convert", "hub", "linked", "--to", "safetensors")
    report.check("files may be links", code == 0, text)
    (scratch.path / "flipped").mkdir()
    content = bytearray((scratch.path / "weights/pytorch_model.bin").read_bytes())
    content[len(content) // 2] ^= 1
    (scratch.path / "flipped/pytorch_model.bin").write_bytes(content)
    code, text = tell(scratch, "merge", "flipped", "merged")
    report.check("a flipped bit is found by the CRC", code == 4 and "its CRC-32 does not match" in text, text)
    report.check("no folder is left", not [path for path in scratch.path.iterdir() if ".new-" in path.name])


def check_best(scratch, report):
    """A best checkpoint comes after all values of its step: a process that resumes there does not log them again."""
    code, errors = scratch.call(
        "job.yaml", "name=best", "train.until=6 steps", "eval.every=2 steps", "checkpoint!={every: never, async: false, "
        "keep: {last: 1, best: 1, metric: eval/loss}}", "data.train=[{type: synthetic/glyphs, length: 48, weight: 2}, "
        "{type: synthetic/glyphs, length: 16, weight: 1}]")
    lines = (scratch.path / "runs/best/metrics.jsonl").read_text().splitlines()
    saves = [i for i, line in enumerate(lines) if '"event":"save"' in line]
    values = [i for i, line in enumerate(lines) if '"data/share_1"' in line]
    report.check("a best checkpoint is saved after the values of its step", code == 0 and saves and values[0] < saves[0],
                 errors + "\n".join(lines))


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1]) as scratch:
        scratch.call("job.yaml")
        for check in (check_whole, check_differences, check_rank_differences, check_damaged, check_convert, check_best):
            check(scratch, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
