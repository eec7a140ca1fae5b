#!/usr/bin/env python3
"""What goes wrong ends with the right exit code and words, and costs no checkpoint.

    exit_codes.py ACCEL_RUN
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import runs


def expect(report, name, result, code, *words):
    found, errors = result
    missing = [word for word in words if word not in errors]
    report.check(name, found == code and not missing, f"exit {found}, wanted {code}\n{errors}")


def check_recipes(binary, report):
    with runs.Scratch(binary) as scratch:
        expect(report, "a wrong override names the argument", scratch.call("job.yaml", "modle.hidden_sizes=[3]"), 2,
               "argument 2: error: unknown option 'modle'", "did you mean 'model'?")
        report.check("and nothing was written", not scratch.run.exists())
        expect(report, "a missing recipe", scratch.call("jib.yaml"), 2,
               "error: cannot read the recipe 'jib.yaml': No such file or directory\n  hint: did you mean 'job.yaml'?\n")
        expect(report, "a missing recipe like no other", scratch.call("no_such.yaml"), 2,
               "error: cannot read the recipe 'no_such.yaml': No such file or directory\n"
               "  hint: give an existing recipe file, or write one with 'accel-run new'\n")
        expect(report, "a verb without what it needs", scratch.call("validate"), 2,
               "error: recipe is required\n  hint: 'accel-run --help' lists the verbs, ")
        expect(report, "a metric that is not measured",
               scratch.call("job.yaml", "checkpoint.keep={best: 1, metric: eval/acuracy}"), 2,
               "no metric is named 'eval/acuracy'", "did you mean 'eval/accuracy'?")
        expect(report, "a model that does not fit the data", scratch.call("job.yaml", "model.inputs=100"), 2,
               "100", "784")
        report.check("and still nothing was written", not scratch.run.exists())
        expect(report, "no step in an epoch", scratch.call("job.yaml", "train.batch=128", "data.train.length=127",
                                                           "data.loader.drop_last=true"), 2,
               "argument 4: error: 'drop_last' leaves no batch: ", "has 127 samples for batches of 128",
               "hint: lower 'train.batch', or leave 'drop_last' out")
        report.check("nor now", not scratch.run.exists())
        expect(report, "one step in an epoch", scratch.call("job.yaml", "name=few", "train.batch=128", "train.until=1 step",
                                                            "data.train.length=127"), 0,
               "warning: the batch of 128 samples is larger than the training set of 127: each optimizer step takes the whole "
               "set, one epoch")
        expect(report, "an expectation that is not met", scratch.call("job.yaml", "expect={eval/loss: '< 0'}"), 1)
        missed = scratch.call("job.yaml", "name=missed", "accelerator.num_processes=2", "expect={eval/loss: '< 0'}")
        expect(report, "nor on two ranks", missed, 1)
        report.check("and that is no failure of a rank", "error: " not in missed[1], missed[1])
        expect(report, "errors as JSON", scratch.call("--error-format", "json", "validate", "job.yaml", "modle=3"),
               2, '{"severity": "error", "argument": ')


def check_machine(binary, report):
    """What the program is, and whether it can train here."""
    with runs.Scratch(binary) as scratch:
        process = scratch.start("--version")
        shown, errors = process.communicate()
        report.check("the version names the commit and libtorch", process.returncode == 0 and not errors and
                     re.fullmatch(r"accel-run \d+\.\d+\.\d+ \([^ ,]+, libtorch \d+\.\d+\.\d+\)\n", shown), shown)
        process = scratch.start("test")
        shown, errors = process.communicate()
        report.check("the self-test lists its parts", not errors and re.sub(r"\d+ ms", "N ms", shown) ==
                     "testing 2 processes\n  ok  collectives (N ms)\n  ok  sample order (N ms)\n"
                     "  ok  same weights on all ranks (N ms)\n  ok  canonical reduction equals one process (N ms)\n"
                     "  ok  mixed precision (N ms)\n  ok  checkpoint and resume (N ms)\nthis machine is ready\n",
                     shown + errors)


def check_scaler(binary, report):
    with runs.Scratch(binary) as scratch:
        expect(report, "a run in fp16", scratch.call(
            "job.yaml", "accelerator={mixed_precision: fp16, grad_scaler: {init_scale: 1024}}",
            "train.until=1 steps"), 0)
        manifest = (scratch.run / "checkpoints/checkpoint_1/accel_run.json").read_text()
        report.check("starts with the scale it is reported", '"scale":1024' in manifest.replace(" ", ""))


def check_data(binary, report):
    with runs.Scratch(binary) as scratch:
        expect(report, "missing data",
               scratch.call("job.yaml", "data.train={type: npy, inputs: x.npy, targets: y.npy}"), 2,
               "argument 2: error: 'inputs' is 'x.npy', which does not exist", "'targets' is 'y.npy', which does not exist")
        report.check("and nothing was written", not scratch.run.exists())
        expect(report, "missing data of a run that is planned", scratch.call("plan", "job.yaml", "data.eval.path=x"), 2)
        (scratch.path / "y.npy").write_bytes(b"")
        (scratch.path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': 1}")
        expect(report, "broken data",
               scratch.call("job.yaml", "data.train={type: npy, inputs: x.npy, targets: y.npy}"), 3, "x.npy")


def check_divergence(binary, report):
    with runs.Scratch(binary) as scratch:
        result = scratch.call("job.yaml", "optimizer={type: sgd, lr: 1e30}")
        expect(report, "a loss that is not finite", result, 9, "the loss is nan", "hint: lower 'optimizer.lr'")
        report.check("keeps the checkpoints before it", len(scratch.checkpoints()) >= 1)
        report.check("and is an event of the record", scratch.events()[-1] == "failed")


def check_resume(binary, report):
    with runs.Scratch(binary) as scratch:
        expect(report, "resuming no run", scratch.call("resume", "runs/none"), 2, "'runs/none' is not a run folder")
        scratch.call("job.yaml", "train.until=12 steps")
        expect(report, "a changed rate needs consent", scratch.call("job.yaml", "train.until=12 steps", "optimizer.lr=1"),
               4, "optimizer.lr: was 0.01, is 1", "--allow optimizer.lr")
        expect(report, "another optimizer is impossible",
               scratch.call("job.yaml", "train.until=12 steps", "optimizer={type: sgd}", "--allow", "optimizer"), 4,
               "no longer fits the checkpoint", "optimizer.type: was adamw, is sgd")
        expect(report, "consent is taken",
               scratch.call("job.yaml", "train.until=12 steps", "optimizer.lr=0.02", "--allow", "optimizer.lr"), 0)
        expect(report, "an override of resume is consent", scratch.call("resume", "runs/job", "train.until=14 steps"), 0)
        expect(report, "a run that has ended says so", scratch.call("resume", "runs/job"), 0)
        expect(report, "another seed is other synthetic data", scratch.call("resume", "runs/job", "seed=1"), 4,
               "since the checkpoint: synthetic data depends on 'seed', which was 42 and is 1",
               "hint: keep the seed, or add --allow data")
        expect(report, "other data", scratch.call("resume", "runs/job", "seed=1", "data.train.length=80"), 0)


def weights_of(folder):
    return [(folder / name).read_bytes() for name in ("model.safetensors", "optimizer.bin")]


def check_damage(binary, report):
    with runs.Scratch(binary) as scratch:
        job = ["job.yaml", "train.until=6 steps", "checkpoint.keep.last=3"]
        scratch.call(*job)
        whole = scratch.path / "whole"
        shutil.copytree(scratch.run, whole)
        names = sorted(path.name for path in (whole / "checkpoints/checkpoint_6").iterdir())
        report.check("a checkpoint has the files it should", len(names) == 6, str(names))
        for name in names:
            shutil.rmtree(scratch.run)
            shutil.copytree(whole, scratch.run)
            damaged = scratch.run / "checkpoints/checkpoint_6" / name
            content = bytearray(damaged.read_bytes())
            content[len(content) // 2] ^= 1
            damaged.write_bytes(content)
            expect(report, f"a flipped bit in {name}: an explicit path is refused",
                   scratch.call(*job, "checkpoint.resume=runs/job/checkpoints/checkpoint_6"), 4,
                   f"checkpoint_6' is damaged: '{name}' ", "hint: resume from an older checkpoint of the run")
            expect(report, "and auto falls back to the one before", scratch.call(*job), 0,
                   "warning: skipped step 6: checkpoint '", f"checkpoint_6' is damaged: '{name}' ")
            report.check("from which the run ends as it did", scratch.weights() == weights_of(whole / "checkpoints/checkpoint_6"))
        shutil.rmtree(scratch.run / "checkpoints")
        (scratch.run / "checkpoints" / "checkpoint_3").mkdir(parents=True)
        expect(report, "no usable checkpoint is an error", scratch.call("resume", "runs/job"), 4)


def check_lock(binary, report):
    with runs.Scratch(binary) as scratch:
        first = scratch.start("job.yaml", "train.until=100000 steps", "checkpoint.every=never")
        while not (scratch.run / "metrics.jsonl").exists():
            time.sleep(0.02)
        expect(report, "a second job in the same folder", scratch.call("job.yaml"), 11, str(first.pid))
        first.send_signal(signal.SIGTERM)
        first.communicate()


def check_full_disk(binary, report):
    """Needs the right to mount; else there is nothing to fill."""
    with runs.Scratch(binary, runs.JOB.replace("hidden_sizes: [24]", "hidden_sizes: [512]")) as scratch:
        disk = scratch.path / "runs"
        disk.mkdir()
        mounted = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", disk], capture_output=True).returncode == 0
        if not mounted:
            print("skipped a full disk: not allowed to mount a tmpfs")
            return
        try:
            expect(report, "a full disk", scratch.call("job.yaml", "checkpoint.keep.last=9"), 7,
                   "the disk is too full", "bytes", "free")
            whole = scratch.checkpoints()
            report.check("the checkpoints before it are kept", len(whole) >= 1)
            report.check("nothing half-written is left", not list((scratch.run / "staging").iterdir()))
            expect(report, "unless it is to resume", scratch.call(
                "job.yaml", "checkpoint.keep.last=9", "checkpoint.on_error=continue"), 0,
                "too little disk space for a checkpoint", "training continues ('checkpoint.on_error' is continue)")
            report.check("still with the checkpoints before", scratch.checkpoints() == whole)
            subprocess.run(["mount", "-o", "remount,size=60m", disk], check=True)
            expect(report, "and the run resumes from them",
                   scratch.call("job.yaml", "checkpoint.keep.last=1", f"train.until={whole[-1] + 1} steps",
                                "--allow", "train.until"), 0)
        finally:
            subprocess.run(["umount", disk], check=True)


def main():
    report = runs.Report()
    for check in (check_recipes, check_scaler, check_data, check_divergence, check_resume, check_damage, check_lock, check_full_disk):
        check(sys.argv[1], report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
