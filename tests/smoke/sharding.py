#!/usr/bin/env python3
"""Sharded training: every ZeRO stage against data parallel training, and resumes on other meshes.

    sharding.py ACCEL_RUN RECIPES_FOLDER
"""

import json
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import mesh_jobs
import rank_runs
from mesh_jobs import check_equal
from rank_runs import check_close, diff, last_line_of_diff, output_of, train

# Tied head, dropout, an average, generated texts, and a last batch that leaves a rank with less.
GPT = mesh_jobs.job("{type: gpt, num_layers: 3, num_heads: 2, hidden_size: 32, dropout: 0.1}", length=16, samples=74, steps=12,
                    callbacks=(mesh_jobs.AVERAGE, mesh_jobs.TEXTS))
# Without blocks: its parameters are gathered together.
MLP = """
model: {type: mlp, hidden_sizes: [24, 5], dropout: 0.3}
data:
  train: {type: synthetic/glyphs, length: 83}
  eval: {type: synthetic/glyphs, length: 9}
  loader: {workers: 0}
optimizer: {type: sgd, lr: 0.05, momentum: 0.9}
train: {until: 12 steps, batch: 16, micro_batch: 4}
accelerator: {num_cpu_threads_per_process: 1}
eval: {every: 6 steps, batch: 4}
checkpoint: {every: 6 steps}
"""
# Frozen weights of 291 MiB in blocks of 12 MiB: little else is in memory.
WIDE = """
model: {type: gpt, num_layers: 24, num_heads: 8, hidden_size: 512, vocab_size: 256, lora: {rank: 2}}
data:
  train: {type: text, path: "FOLDER/tiny/data/rhyme.txt", max_seq_len: 16, limit: 8}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.002}
train: {until: 1 steps, batch: 2, micro_batch: 1}
accelerator: {num_cpu_threads_per_process: 1, num_processes: 2, fsdp: {stage: 3}}
checkpoint: {every: 9 steps, at_end: false}
"""
LAST_ONLY = "accelerator.fsdp.sync_each_batch=false"


def stage_words(stage):
    words = [f"accelerator.fsdp.stage={stage}"]
    return words + [LAST_ONLY] if stage > 1 else words


def check_stages(scratch, report, recipe, what, *words):
    """Two ranks, one reduction per step: sums of two addends have one order."""
    train(scratch, report, recipe, f"{what}-0", rank_runs.on(2), *words)
    for stage in (1, 2, 3):
        name = f"{what}-{stage}"
        train(scratch, report, recipe, name, rank_runs.on(2), *stage_words(stage), *words)
        check_equal(scratch, report, f"{what}-0", name, f"{what}: stage {stage} gives the bits of data parallel training")


def check_small_blocks(scratch, report):
    """Blocks of 12,704 parameters join those of no block."""
    train(scratch, report, "gpt.yaml", "joined", rank_runs.on(2), *stage_words(3),
          "accelerator.fsdp.min_num_params=12705")
    check_equal(scratch, report, "gpt-0", "joined", "joined blocks give the bits of data parallel training")


def check_recipes(scratch, report, recipes):
    """Adapters beside frozen weights, several optimizers, a program from Python, policy gradients, a frozen
    model of the task, weights from a folder."""
    for what in ("lora", "gan", "exported", "reinforce", "distill", "fine_tune"):
        recipe, words = recipes / "tiny" / f"{what}.yaml", [rank_runs.on(2), "train.until=4 steps", "~expect"]
        train(scratch, report, recipe, f"{what}-0", *words)
        train(scratch, report, recipe, f"{what}-3", *words, *stage_words(3))
        check_equal(scratch, report, f"{what}-0", f"{what}-3", f"{what}: stage 3 gives the bits of data parallel training")


def check_canonical(scratch, report):
    """Sums by one tree: any number of ranks and any stage gives the same bits."""
    words = ["accelerator.reduction=canonical", "train.max_grad_norm=0.05"]
    train(scratch, report, "gpt.yaml", "canonical-1", rank_runs.on(1), *words)
    for ranks, stage, replicas in ((2, 0, 1), (2, 2, 1), (4, 1, 1), (4, 3, 1), (4, 3, 2)):
        name = f"canonical-{ranks}-{stage}-{replicas}"
        more = [f"accelerator.fsdp.stage={stage}"] * (stage > 0)
        more += [f"accelerator.parallelism.dp_replicate={replicas}"] * (replicas > 1)
        train(scratch, report, "gpt.yaml", name, rank_runs.on(ranks), *words, *more)
        check_equal(scratch, report, "canonical-1", name, f"{name} has the bits of one rank")


def mebibytes(table, row):
    """Of the last column of a plan."""
    number, unit = re.search(rf"^  {row} .* ([0-9.]+) (KiB|MiB|GiB)$", table, re.MULTILINE).groups()
    return float(number) * {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}[unit]


def check_memory(scratch, report):
    """No rank holds the whole model at any time, and the plan says what it holds."""
    table = subprocess.run([scratch.binary, "plan", "wide.yaml", "--ranks", "2"], cwd=scratch.path,
                           env=rank_runs.runs.ENVIRONMENT, capture_output=True, text=True, check=False).stdout
    weights, process, total = (mebibytes(table, row) for row in ("weights", "the process itself", "total"))
    report.check("half of the weights are planned", 144 < weights < 147, table)
    train(scratch, report, "wide.yaml", "wide")
    lines = (scratch.path / "runs" / "wide" / "metrics.jsonl").read_text().splitlines()
    peak = [json.loads(line)["actual"]["memory_mib"] for line in lines if '"actual"' in line][-1]
    report.check(f"peak memory is {peak:.0f} MiB, planned {total:.0f}", 0.9 * total <= peak <= 1.1 * total, table)
    report.check("it is less than the whole model takes", peak < process + 2 * weights, table)


def check_mesh(scratch, report):
    """Replicas of shards; dropout would differ, since each rank has a random stream."""
    words = ["model.dropout=0", "~callbacks", rank_runs.on(4), "train.micro_batch=2"]
    train(scratch, report, "gpt.yaml", "whole", *words)
    for name, more in (("hybrid", ["accelerator.parallelism.dp_replicate=2"]), ("four", [])):
        train(scratch, report, "gpt.yaml", name, *words, *more, "accelerator.fsdp.stage=3")
        check_close(scratch, report, "whole", name)


def check_resume(scratch, report):
    """A checkpoint of stage 3 on two ranks is continued on the same mesh, and on others."""
    first = scratch.path / "runs" / "gpt-3"
    shutil.rmtree(first / "checkpoints" / "checkpoint_12")
    meshes = [(2, 3), (1, 0), (1, 3), (2, 1), (4, 2)]
    for ranks, stage in meshes:
        shutil.copytree(first, scratch.path / "runs" / f"resumed-{ranks}-{stage}")
    for ranks, stage in meshes:
        name = f"resumed-{ranks}-{stage}"
        words = stage_words(stage) if stage else []
        train(scratch, report, "gpt.yaml", name, rank_runs.on(ranks), *words)
    check_equal(scratch, report, "gpt-0", "resumed-2-3", "a resume on the same mesh has the same bits")
    check_equal(scratch, report, "gpt-0", "resumed-2-1", "a resume at another stage has the same bits")


# Odd sizes: rows that 2, 3 and 4 ranks divide unevenly, ranks without rows, and a bias of one value.
RESHARD = """
model: {type: mlp, hidden_sizes: [35, 11, 5, 1, 3], dropout: 0.2}
data:
  train: {type: synthetic/glyphs, length: 60}
  eval: {type: synthetic/glyphs, length: 9}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.01}
train: {until: 5 steps, batch: 12, micro_batch: 1}
accelerator: {num_cpu_threads_per_process: 1}
callbacks: [{type: ema, decay: 0.9}]
checkpoint: {every: 5 steps}
"""
DCP_FILES = ["pytorch_model_fsdp_0/.metadata", "optimizer_0/.metadata", "accel_run_fsdp_0/.metadata",
             "optimizer_0/__3_0.distcp"]


def check_reshard(scratch, report):
    """A checkpoint of four ranks is resumed on other meshes, which save what they have restored."""
    stage_3, full = "accelerator.fsdp.stage=3", "accelerator.fsdp.state_dict=full"
    for name, words in (("four-shards", []), ("four-full", [full])):
        train(scratch, report, "reshard.yaml", name, rank_runs.on(4), stage_3, *words)
    first = "runs/four-shards/checkpoints/checkpoint_5"
    missing = [name for name in DCP_FILES if not (scratch.path / first / name).exists()]
    report.check("each rank writes a file, in Accelerate's folders", not missing, str(missing))
    found = diff(scratch, first, "runs/four-full/checkpoints/checkpoint_5")
    report.check("a sharded and a full checkpoint have the same content", found == "", found)
    hybrid = ["accelerator.parallelism.dp_replicate=2"]
    meshes = {"1-0": [], "1-3": [stage_3], "2-1": ["accelerator.fsdp.stage=1", full], "2-3": [stage_3],
              "3-2": ["accelerator.fsdp.stage=2"], "3-3": [stage_3, full], "4-hybrid": [stage_3, *hybrid]}
    for source in ("four-shards", "four-full"):
        for mesh, words in meshes.items():
            if source == "four-full" and mesh not in ("2-3", "3-2"):
                continue
            name = f"{source}-{mesh}"
            shutil.copytree(scratch.path / "runs" / source, scratch.path / "runs" / name)
            # Another end of the run changes the recipe, so that the state is saved again.
            train(scratch, report, "reshard.yaml", name, rank_runs.on(mesh[0]), *words,
                  "train.until=[5 steps, 9 epochs]", "--allow", "train.until")
            found = diff(scratch, first, f"runs/{name}/checkpoints/checkpoint_5")
            report.check(f"{name} restores and saves equal bits", found == "", found)
            sharded = (scratch.path / "runs" / name / "checkpoints/checkpoint_5/optimizer_0").exists()
            report.check(f"{name} writes the kind that it is to", sharded == (words != [] and full not in words))
    check_continued(scratch, report)
    check_accelerate_folder(scratch, report)
    check_factored(scratch, report)


def check_factored(scratch, report):
    """Adafactor's state is divided by rows, or not at all: statistics of columns, also of one row."""
    stage_3, full, other = "accelerator.fsdp.stage=3", "accelerator.fsdp.state_dict=full", "optimizer!={type: adafactor}"
    train(scratch, report, "reshard.yaml", "factored", rank_runs.on(4), stage_3, other)
    for mesh, words in {"1-0": [], "2-1": ["accelerator.fsdp.stage=1", full], "3-3": [stage_3]}.items():
        name = f"factored-{mesh}"
        shutil.copytree(scratch.path / "runs" / "factored", scratch.path / "runs" / name)
        train(scratch, report, "reshard.yaml", name, rank_runs.on(mesh[0]), *words, other,
              "train.until=[5 steps, 9 epochs]", "--allow", "train.until")
        found = diff(scratch, "runs/factored/checkpoints/checkpoint_5",
                                f"runs/{name}/checkpoints/checkpoint_5")
        report.check(f"{name} restores and saves equal bits", found == "", found)


def check_continued(scratch, report):
    """From a sharded and from a full checkpoint, synchronously saved: the same steps follow."""
    for source in ("four-shards", "four-full"):
        shutil.copytree(scratch.path / "runs" / source, scratch.path / "runs" / f"{source}-on")
        train(scratch, report, "reshard.yaml", f"{source}-on", rank_runs.on(2), "accelerator.fsdp.stage=2",
              "train.until=9 steps", "checkpoint.every=1 steps", "checkpoint.async=false", "checkpoint.keep.last=2",
              "--allow", "train.until")
    check_equal(scratch, report, "four-shards-on", "four-full-on", "both kinds continue with equal bits")
    kept = sorted(path.name for path in (scratch.path / "runs/four-shards-on/checkpoints").iterdir())
    report.check("sharded checkpoints are rotated", kept == ["checkpoint_8", "checkpoint_9"], str(kept))


def check_accelerate_folder(scratch, report):
    """A folder of Accelerate's has whole tensors: each rank takes its rows."""
    code, errors = scratch.call("checkpoint", "convert", "runs/four-full", "theirs", "--to", "accelerate")
    report.check("a checkpoint is converted for Accelerate", code == 0, errors)
    for stage in (0, 1, 3):
        train(scratch, report, "reshard.yaml", f"theirs-{stage}", rank_runs.on(2), "checkpoint.resume=theirs",
              *stage_words(stage), "train.until=9 steps", "checkpoint.resume_step=5")
        found = last_line_of_diff(scratch, "theirs-0", f"theirs-{stage}")
        report.check(f"it is resumed at stage {stage} with equal bits",
                     found.startswith("bit-identical: every step, every evaluation, the checkpoint"), found)


def check_tools(scratch, report):
    """The other verbs on a sharded checkpoint and on a full one of the same state."""
    evaluations = [output_of(scratch, "evaluate", f"runs/four-{kind}").replace(f"four-{kind}", "RUN")
                   for kind in ("shards", "full")]
    report.check("evaluate finds the same", "loss" in evaluations[0] and evaluations[0] == evaluations[1], str(evaluations))
    output_of(scratch, "checkpoint", "merge", "runs/four-shards", "merged")
    output_of(scratch, "checkpoint", "convert", "runs/four-shards", "plain", "--to", "accelerate")
    wanted = scratch.path / "runs/four-full/checkpoints/checkpoint_5/model.safetensors"
    for folder in ("merged", "plain"):
        found = scratch.path / folder / "model.safetensors"
        report.check(f"{folder} weights are those of a full checkpoint",
                     found.exists() and found.read_bytes() == wanted.read_bytes())
    report.check("converted optimizer state has a file", (scratch.path / "plain/optimizer.bin").exists())


def check_damage(scratch, report):
    """One of three ranks finds the damage, and all take the older checkpoint."""
    run = scratch.path / "runs" / "four-shards-on"
    name = "optimizer_0/__1_0.distcp"
    path = run / "checkpoints/checkpoint_9" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    found = output_of(scratch, "checkpoint", "verify", "runs/four-shards-on")
    report.check("verify finds a damaged shard", found.startswith("exit 4"), found)
    code, errors = scratch.call("reshard.yaml", "name=four-shards-on", rank_runs.on(3), "accelerator.fsdp.stage=3",
                                "train.until=9 steps", "checkpoint.every=1 steps", "checkpoint.keep.last=2")
    report.check("a resume takes the checkpoint before", code == 0 and re.search(
        rf"warning: skipped step 9: checkpoint '\S+' is damaged: '{name}' has checksum", errors), errors)
    found = output_of(scratch, "checkpoint", "verify", "runs/four-shards-on")
    report.check("and writes the damaged one again", found.count(": whole") == 2, found)


# Files of some megabytes, so that a kill hits their writing.
ENDLESS = ("model.hidden_sizes=[400, 400]", "~callbacks", "train.until=1000000 steps", "checkpoint.every=2 steps",
           "accelerator.fsdp.stage=3", "checkpoint.keep.last=2")


def is_writing(run, rank):
    return any((run / "staging").glob(f"new_*/optimizer_0/__{rank}_0.distcp"))


def check_whole(scratch, report, name):
    """What a failed rank leaves: whole checkpoints, and a run that continues."""
    run = scratch.path / "runs" / name
    done = subprocess.run([scratch.binary, "checkpoint", "verify", run], cwd=scratch.path, capture_output=True,
                          text=True, check=False)
    report.check(f"{name}: older checkpoints are whole", done.returncode == 0 and ": whole" in done.stdout, done.stdout)
    newest = max(int(path.name.removeprefix("checkpoint_")) for path in (run / "checkpoints").iterdir())
    train(scratch, report, "reshard.yaml", name, rank_runs.on(2), *ENDLESS, f"train.until={newest + 1} steps",
          "--allow", "train.until")


def check_kills(scratch, report):
    """Each rank is killed while it writes its shards; then rank 1 has no more disk space."""
    for rank, saving in ((0, "async=true"), (1, "async=true"), (1, "async=false")):
        name = f"killed-{rank}-{saving.replace('=', '-')}"
        process = scratch.start("reshard.yaml", f"name={name}", rank_runs.on(2), *ENDLESS, f"checkpoint.{saving}")
        ranks, run = scratch.wait_for_ranks(process, 2), scratch.path / "runs" / name
        while process.poll() is None and not any((run / "checkpoints").glob("*")):
            time.sleep(0.005)
        while process.poll() is None and not is_writing(run, rank):
            pass
        rank_runs.send(ranks[rank], signal.SIGKILL)
        _, errors = process.communicate()
        report.check(f"{name}: all ranks end and name it", process.returncode == 5 and f"rank {rank}" in errors, errors)
        check_whole(scratch, report, name)
    # The limit is of shared memory too, which grows with the blocks under way.
    process = scratch.start("reshard.yaml", "name=full-disk", rank_runs.on(2), *ENDLESS, "accelerator.cpu_backend=gloo")
    ranks, run = scratch.wait_for_ranks(process, 2), scratch.path / "runs" / "full-disk"
    while process.poll() is None and not any((run / "checkpoints").glob("*")):
        time.sleep(0.005)
    resource.prlimit(ranks[1], resource.RLIMIT_FSIZE, (1000, 1000))
    _, errors = process.communicate()
    report.check("a rank without disk space ends all ranks",
                 process.returncode == 7 and re.search(
                     r"error: cannot save the checkpoint of step \d+: rank 1: cannot write '\S+__1_0.distcp': "
                     r"File too large\n  hint: older checkpoints are unchanged", errors), errors)
    report.check("and nothing is left of the save", scratch.staged() == [])
    check_whole(scratch, report, "full-disk")


def main():
    binary, recipes = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(binary) as scratch:
        mesh_jobs.write(scratch, recipes, gpt=GPT, wide=WIDE)
        (scratch.path / "mlp.yaml").write_text(MLP)
        check_stages(scratch, report, "mlp.yaml", "mlp")
        check_stages(scratch, report, "mlp.yaml", "mlp-bf16", "accelerator.mixed_precision=bf16",
                     "optimizer!={type: lion, lr: 0.001}")
        check_stages(scratch, report, "gpt.yaml", "gpt")
        check_stages(scratch, report, "gpt.yaml", "muon", "optimizer!={type: muon, lr: 0.01}")
        check_stages(scratch, report, "gpt.yaml", "adafactor", "optimizer!={type: adafactor, lr: 0.01}")
        for mode in ("blocks", "selective"):
            check_stages(scratch, report, "gpt.yaml", mode, f"train.activation_checkpointing={mode}",
                         "accelerator.mixed_precision=bf16")
        check_small_blocks(scratch, report)
        check_recipes(scratch, report, recipes)
        check_canonical(scratch, report)
        check_memory(scratch, report)
        check_mesh(scratch, report)
        check_resume(scratch, report)
        (scratch.path / "reshard.yaml").write_text(RESHARD)
        check_reshard(scratch, report)
        check_tools(scratch, report)
        check_damage(scratch, report)
        check_kills(scratch, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
