#!/usr/bin/env python3
"""Writes the checkpoints and golden lines of checkpoints_0_1_0 with an executable of version 0.1.0.

    make_old_checkpoints.py ACCEL_RUN_0_1_0 [JOB_SUBSTRING]

A job without a checkpoint is run to its end: the first checkpoint is kept, and the lines from its step on
are golden. A job with one is resumed, which adds golden lines for this kind of processor.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import old_checkpoints
import processor

VERSION = "accel-run 0.1.0 (f1d8218"  # the last commit of 0.1.0


def write_golden(folder, lines):
    path = folder / "golden.json"
    golden = json.loads(path.read_text()) if path.exists() else {}
    golden[processor.kind()] = lines
    kinds = [f' "{kind}": [\n' + ",\n".join(f"  {json.dumps(line)}" for line in lines) + "\n ]"
             for kind, lines in golden.items()]
    path.write_text("{\n" + ",\n".join(kinds) + "\n}\n")


def train(binary, folder):
    """Keeps the resolved recipe and first checkpoint of an uninterrupted run; returns the lines from there on."""
    with old_checkpoints.Job(binary, folder) as job:
        job.output("job.yaml")
        step = job.checkpoints()[0]
        shutil.copy(job.run / "recipe.yaml", folder)
        name = f"checkpoints/checkpoint_{step}"
        shutil.copytree(job.run / name, folder / name)
        return [line for line in job.lines() if line["step"] > step or line["step"] == step and "eval" in line]


def resume(binary, folder):
    """The same lines from the checkpoint on."""
    lines = []
    for run in (old_checkpoints.evaluate, old_checkpoints.resume_run_folder):
        with old_checkpoints.Job(binary, folder) as job:
            lines += run(job)
    return lines


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if not version.startswith(VERSION):
        sys.exit(f"'{VERSION}...)' is wanted, not '{version}'")
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    for recipe in sorted(old_checkpoints.JOBS.glob(f"*{wanted}*/job.yaml")):
        folder = recipe.parent
        write_golden(folder, (resume if (folder / "checkpoints").exists() else train)(binary, folder))
        print(folder.name)


if __name__ == "__main__":
    main()
