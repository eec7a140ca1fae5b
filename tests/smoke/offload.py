#!/usr/bin/env python3
"""Training with state in scratch files: the bits of training in memory, kills, full disks, and the plan.

    offload.py ACCEL_RUN RECIPES_FOLDER
"""

import json
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

import rank_runs
from sharding import GPT, last_line_of_diff, mebibytes, output_of, train

SAME = "bit-identical: every step, every evaluation, the checkpoint"
STAGE = "accelerator.fsdp.stage=3"
DISK = ["accelerator.fsdp.offload=disk", "accelerator.fsdp.offload_path=disk"]
# Moments and gradients of 16 blocks of 12 MiB, which memory never holds at once.
DEEP = """
model: {type: gpt, num_layers: 16, num_heads: 8, hidden_size: 512, vocab_size: 256}
data:
  train: {type: text, path: "FOLDER/tiny/data/rhyme.txt", max_seq_len: 16, limit: 8}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.002}
train: {until: 2 steps, batch: 2, max_grad_norm: 1.0}
accelerator: {num_cpu_threads_per_process: 1, fsdp: {stage: 3, offload: disk, offload_path: disk}}
checkpoint: {every: never, at_end: false}
"""


def check_bits(scratch, report, recipes):
    for ranks in (1, 2):
        words = [rank_runs.on(ranks), STAGE, "checkpoint.async=false"]
        train(scratch, report, "gpt.yaml", f"memory-{ranks}", *words)
        train(scratch, report, "gpt.yaml", f"disk-{ranks}", *words, *DISK)
        found = last_line_of_diff(scratch, f"memory-{ranks}", f"disk-{ranks}")
        report.check(f"{ranks} ranks have the bits of training in memory", found == SAME, found)
    for what in ("lora", "gan", "distill"):
        recipe = recipes / "tiny" / f"{what}.yaml"
        words = [rank_runs.on(1), STAGE, "train.until=4 steps", "~expect"]
        train(scratch, report, recipe, f"{what}-memory", *words)
        train(scratch, report, recipe, f"{what}-disk", *words, *DISK)
        found = last_line_of_diff(scratch, f"{what}-memory", f"{what}-disk")
        report.check(f"{what} has the bits of training in memory", found == SAME, found)


def check_kill(scratch, report):
    """Scratch files are gone with their processes, and a resume fills new ones."""
    words = [rank_runs.on(2), STAGE, *DISK, "checkpoint.every=2 steps"]
    process = scratch.start("gpt.yaml", "name=killed", *words, "log.every=1 steps")
    ranks, run = scratch.wait_for_ranks(process, 2), scratch.path / "runs" / "killed"
    while process.poll() is None and not any((run / "checkpoints").glob("*")):
        time.sleep(0.002)
    for pid in ranks.values():
        rank_runs.send(pid, signal.SIGKILL)
    process.communicate()
    report.check("killed ranks end the run", process.returncode in (5, 128 + signal.SIGKILL), str(process.returncode))
    report.check("and leave no scratch file", not any((scratch.path / "disk").iterdir()))
    train(scratch, report, "gpt.yaml", "killed", *words)
    found = last_line_of_diff(scratch, "memory-2", "killed")
    report.check("the resumed run has the bits of a straight one", found == SAME, found)


def check_full_disk(scratch, report):
    """Space is reserved before the run folder is touched."""
    before = sorted((scratch.path / "runs").iterdir())
    process = subprocess.run([scratch.binary, "gpt.yaml", "name=full", STAGE, *DISK], cwd=scratch.path, text=True,
                             env=scratch.environment(), capture_output=True, check=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000)))
    full = (r"error: cannot reserve scratch space in 'disk' for offload: File too large; \S+ GiB are reserved, \S+ GiB "
            r"more are needed, \S+ GiB are free")
    report.check("a disk that is too small ends the run", process.returncode == 7 and re.search(full, process.stderr) and
                 "hint: free disk space, set 'accelerator.fsdp.offload_path' to a larger disk" in process.stderr,
                 f"{process.returncode} {process.stderr}")
    report.check("before anything is written", sorted((scratch.path / "runs").iterdir()) == before)
    code, errors = scratch.call("gpt.yaml", "name=none", STAGE, DISK[0], "accelerator.fsdp.offload_path=none")
    report.check("a missing folder is refused", code == 7 and "cannot use 'none' for scratch: No such file" in errors, errors)
    shown = output_of(scratch, "gpt.yaml", "name=cpu", STAGE, "accelerator.fsdp.offload=cpu", "train.until=1 steps")
    report.check("offload to the memory it is in has no effect, which is said",
                 "offload    cpu: no effect, training is on the CPU" in shown, shown)


def check_memory(scratch, report):
    table = subprocess.run([scratch.binary, "plan", "deep.yaml"], cwd=scratch.path, env=rank_runs.runs.ENVIRONMENT,
                           capture_output=True, text=True, check=False).stdout
    total = mebibytes(table, "total")
    # Parameters, gradients and two moments of 50 million parameters.
    report.check("the plan says what is on the disk", re.search(r"scratch file on disk per rank +772 MiB", table), table)
    train(scratch, report, "deep.yaml", "deep")
    lines = (scratch.path / "runs" / "deep" / "metrics.jsonl").read_text().splitlines()
    peak = [json.loads(line)["actual"]["memory_mib"] for line in lines if '"actual"' in line][-1]
    report.check(f"peak memory is {peak:.0f} MiB, planned {total:.0f}", 0.9 * total <= peak <= 1.1 * total, table)
    report.check("it is less than half of the state", peak < 385, table)


def main():
    binary, recipes = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(binary) as scratch:
        (scratch.path / "disk").mkdir()
        (scratch.path / "gpt.yaml").write_text(GPT.replace("FOLDER", str(recipes)))
        (scratch.path / "deep.yaml").write_text(DEEP.replace("FOLDER", str(recipes)))
        check_bits(scratch, report, recipes)
        check_kill(scratch, report)
        check_full_disk(scratch, report)
        check_memory(scratch, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
