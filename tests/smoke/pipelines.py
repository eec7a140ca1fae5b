#!/usr/bin/env python3
"""Pipeline parallelism: every schedule against one process, and resumes on other meshes.

    pipelines.py ACCEL_RUN RECIPES_FOLDER
"""

import pathlib
import re
import shutil
import subprocess
import sys

import mesh_jobs
import rank_runs
from mesh_jobs import check_equal
from rank_runs import train

# A last batch of an epoch with fewer micro-batches.
GPT = mesh_jobs.job("{type: gpt, num_layers: 8, num_heads: 2, hidden_size: 32, tie_embeddings: false}", length=16, samples=74)
SCHEDULES = ("gpipe", "1f1b", "interleaved_1f1b", "zbh1", "zbv")
# Experts in some layers, whose load-balancing loss reads those of all stages.
MOE = ("model={type: llama, num_layers: 8, num_heads: 2, hidden_size: 32, intermediate_size: 24, "
       "moe: {num_experts: 4}, router_aux_loss_coef: 0.1}")


def pipeline(ranks, schedule="1f1b", replicas=1):
    return mesh_jobs.mesh(ranks * replicas, schedule=schedule, pp=ranks)


def check_schedules(scratch, report):
    train(scratch, report, "gpt.yaml", "alone", rank_runs.on(1))
    for ranks in (2, 4):
        for schedule in SCHEDULES:
            name = f"{schedule}-{ranks}"
            train(scratch, report, "gpt.yaml", name, *pipeline(ranks, schedule))
            check_equal(scratch, report, "alone", name, f"{name} has the bits of one process")


def check_models(scratch, report):
    """Adapters, several token types, images, a tied head, and ranks that share the batch."""
    for kind, words in (("llama", ["model={type: llama, num_layers: 3, num_heads: 4, num_kv_heads: 2, hidden_size: 32}"]),
                        ("lora", ["model.lora={rank: 2}"]), ("frozen", ['train.freeze=["*.wte.weight", "*.h.1.*"]'])):
        train(scratch, report, "gpt.yaml", f"{kind}-1", rank_runs.on(1), *words)
        train(scratch, report, "gpt.yaml", f"{kind}-2", *pipeline(2), *words)
        check_equal(scratch, report, f"{kind}-1", f"{kind}-2", f"{kind} has the bits of one process")
    for ranks, schedule in mesh_jobs.spread([(2, schedule) for schedule in SCHEDULES] + [(4, "zbh1")], 2):
        words = [MOE, "train.activation_checkpointing=blocks"] if schedule == "gpipe" else [MOE]
        if ranks == 2 and schedule == "gpipe":
            train(scratch, report, "gpt.yaml", "moe-1", rank_runs.on(1), MOE)
        train(scratch, report, "gpt.yaml", f"moe-{schedule}-{ranks}", *pipeline(ranks, schedule), *words)
        check_equal(scratch, report, "moe-1", f"moe-{schedule}-{ranks}",
                    f"the load-balancing loss has the bits of one process with {schedule} on {ranks} ranks")
    train(scratch, report, "gpt.yaml", "data-2", rank_runs.on(2))
    train(scratch, report, "gpt.yaml", "data-2x2", *pipeline(2, "zbh1", replicas=2))
    check_equal(scratch, report, "data-2", "data-2x2", "replicas have the bits of data parallel training")
    for schedule in ("1f1b", "zbv"):
        words = ["model.tie_embeddings=true"]
        if schedule == "1f1b":
            train(scratch, report, "gpt.yaml", "tied", rank_runs.on(1), *words)
        train(scratch, report, "gpt.yaml", f"tied-{schedule}", *pipeline(2, schedule), *words)
        rank_runs.check_close(scratch, report, "tied", f"tied-{schedule}")


def check_verbs(scratch, report):
    """evaluate, predict and generate through the stages print what one process prints."""
    inputs = str(pathlib.Path(sys.argv[2]).resolve() / "tiny/data/rhyme.txt")
    mesh = [*pipeline(2, "zbv"), "accelerator.parallelism.tp=2", rank_runs.on(4)]
    for verb, *words in (["evaluate"], ["evaluate", "--data", "limit=9"], ["predict", "--input", inputs],
                         ["generate", "--prompt", "the", "--prompt", "a", "--prompt", "on", "--max-new-tokens", "12"]):
        alone = rank_runs.output_of(scratch, verb, "runs/1f1b-2", *words)
        report.check(f"{verb} runs in one process", not alone.startswith("exit"), alone)
        for name, overrides in {"its mesh": [], "another mesh": mesh, "replicas": pipeline(2, replicas=2)}.items():
            made = rank_runs.output_of(scratch, verb, "runs/1f1b-2", *overrides, "--mesh", *words)
            report.check(f"{verb} on {name} prints the same", same_text(alone, made), f"{alone}\n{made}")
    shutil.copytree(scratch.path / f"runs/1f1b-2/checkpoints/checkpoint_{mesh_jobs.STEPS}", scratch.path / "alone")
    for words, wanted in ((["evaluate", "alone", "--mesh"], "'--mesh' needs the recipe of the run, but 'alone' is not in its run folder"),
                          (["evaluate", "runs/1f1b-2", "train.until=3 steps"], "'train.until=3 steps' has no effect without '--mesh'"),
                          (["predict", "runs/1f1b-2", "--mesh", "--input", "-"], "'--mesh' does not support standard input")):
        errors = rank_runs.output_of(scratch, *words)
        report.check(f"refused: {wanted}", errors.startswith("exit 2") and wanted in errors, errors)


def same_text(one, other):
    """Numbers may differ in their last digits."""
    words = [re.split(r"([-+]?\d+\.\d+(?:e[-+]\d+)?)", text) for text in (one, other)]
    return len(words[0]) == len(words[1]) and all(
        a == b or (i % 2 == 1 and abs(float(a) - float(b)) <= 2e-5 * max(1, abs(float(a))))
        for i, (a, b) in enumerate(zip(*words)))


def check_texts(scratch, report):
    """The callback `generate` runs through the stages, with a cache for each of a rank's."""
    names = []
    for ranks, schedule in ((1, None), (2, "1f1b"), (2, "zbv"), (4, "interleaved_1f1b")):
        names.append(f"texts-{schedule}")
        train(scratch, report, "gpt.yaml", names[-1], *(pipeline(ranks, schedule) if schedule else [rank_runs.on(1)]),
              "callbacks=[{type: generate, prompts: [the, a], max_new_tokens: 24}]", "model.max_seq_len=16")
    rank_runs.check_texts(scratch, report, *names)


def check_dropout(scratch, report):
    """Its numbers are those of the stage and micro-batch, in whichever order they run."""
    words = ["model.dropout=0.1"]
    for schedule in ("gpipe", "1f1b", "zbh1"):
        train(scratch, report, "gpt.yaml", f"dropout-{schedule}", *pipeline(2, schedule), *words)
    for schedule in ("1f1b", "zbh1"):
        check_equal(scratch, report, "dropout-gpipe", f"dropout-{schedule}", f"dropout is the same with {schedule}")
    first, again = (scratch.path / "runs" / name for name in ("dropout-1f1b", "dropout-again"))
    shutil.copytree(first, again)
    shutil.rmtree(again / "checkpoints" / f"checkpoint_{mesh_jobs.STEPS}")
    train(scratch, report, "gpt.yaml", "dropout-again", *pipeline(2), *words)
    check_equal(scratch, report, "dropout-1f1b", "dropout-again", "a resume on the same mesh has the same bits")


def resume(scratch, report, source, name, *words):
    """Continues a copy of a run from the checkpoint before its last one."""
    shutil.copytree(scratch.path / "runs" / source, scratch.path / "runs" / name)
    shutil.rmtree(scratch.path / "runs" / name / "checkpoints" / f"checkpoint_{mesh_jobs.STEPS}")
    train(scratch, report, "gpt.yaml", name, *words)


def check_resume(scratch, report):
    """Checkpoints do not depend on stages."""
    full = "accelerator.fsdp.state_dict=full"
    train(scratch, report, "gpt.yaml", "full-2", *pipeline(2), full)
    check_equal(scratch, report, "alone", "full-2", "a full checkpoint has the content of one process's")
    run = scratch.path / "runs"
    report.check("full and sharded checkpoints have their files",
                 (run / f"full-2/checkpoints/checkpoint_{mesh_jobs.STEPS}/model.safetensors").exists() and
                 (run / f"1f1b-2/checkpoints/checkpoint_{mesh_jobs.STEPS}/optimizer_0/__1_0.distcp").exists())
    for source in ("1f1b-2", "full-2"):
        resume(scratch, report, source, f"{source}-to-1", rank_runs.on(1))
        resume(scratch, report, source, f"{source}-to-4", *pipeline(4, "zbh1"))
        resume(scratch, report, source, f"{source}-to-data", rank_runs.on(2))
        for target in ("1", "4"):
            check_equal(scratch, report, "alone", f"{source}-to-{target}", f"{source} continues on {target} with equal bits")
    resume(scratch, report, "alone", "alone-to-2", *pipeline(2, "zbv"))
    check_equal(scratch, report, "alone", "alone-to-2", "one process's checkpoint continues on stages with equal bits")
    resume(scratch, report, "alone", "alone-to-data", rank_runs.on(2))
    for source in ("1f1b-2", "full-2"):
        check_equal(scratch, report, "alone-to-data", f"{source}-to-data", f"{source} continues data parallel with equal bits")
    resume(scratch, report, "data-2", "data-to-2", *pipeline(2))
    resume(scratch, report, "data-2", "data-to-1", rank_runs.on(1))
    check_equal(scratch, report, "data-to-1", "data-to-2", "a data parallel checkpoint continues on stages")


def check_plan(scratch, report):
    """The stages of a tied model whose head is as expensive as two blocks, and the schedule."""
    table = subprocess.run([scratch.binary, "plan", "gpt.yaml", "--ranks", "2", *pipeline(2)], cwd=scratch.path,
                           env=rank_runs.runs.ENVIRONMENT, capture_output=True, text=True, check=False)
    found = table.stdout
    report.check("plan shows the stages", re.search(
        r"^pipeline: 1f1b, 2 stages of \d, \d blocks, bubble \d+ % of a step$", found, re.MULTILINE), found + table.stderr)
    report.check("and the state of each rank", re.search(
        r"^  rank 1  blocks \d-7: \S+ KiB of weights, gradients and optimizer state, activations of up to 1 micro-batches$",
        found, re.MULTILINE), found)
    report.check("and draws the schedule", "  rank 0  F0 F1       B0--- F2" in found, found)
    sizes = r"^  (?:weights|gradients|optimizer state) +([\d.]+) KiB$"
    for stage in (1, 2, 3):  # the first two keep whole weights beside the shares
        words = ["plan", "gpt.yaml", "--ranks", "4", *pipeline(2), rank_runs.on(4), f"accelerator.fsdp.stage={stage}"]
        found = rank_runs.output_of(scratch, *words)
        of_rank = re.search(r"^  rank 0  blocks \S+ ([\d.]+) KiB", found, re.MULTILINE)
        state = sum(float(size) for size in re.findall(sizes, found, re.MULTILINE)[:3])
        report.check(f"a stage's state is that of the table with fsdp.stage {stage}",
                     of_rank and abs(float(of_rank[1]) - state) < 0.02 * state, found)
    for schedule in SCHEDULES:
        output = subprocess.run([scratch.binary, "plan", "gpt.yaml", "--ranks", "2", *pipeline(2, schedule)],
                                cwd=scratch.path, env=rank_runs.runs.ENVIRONMENT, capture_output=True, text=True, check=False)
        report.check(f"plan works with {schedule}", output.returncode == 0 and f"pipeline: {schedule}" in output.stdout,
                     output.stdout + output.stderr)


def check_death(scratch, report):
    """The launcher names the message that a rank was in."""
    process = scratch.start("gpt.yaml", "name=killed", *pipeline(2), ACCEL_RUN_FAULT="kill:1:22:before")
    _, errors = process.communicate()
    report.check("a killed rank ends the run", process.returncode == 5 and "rank 1" in errors, errors)
    report.check("the report names stage and micro-batch",
                 re.search(r"(activation|gradient) of stage \d, micro-batch \d", errors) is not None, errors)


def check_refused(scratch, report):
    for words, wanted in (
            (["model!={type: mlp}", "data!={train: {type: synthetic/glyphs, length: 32}}", "~callbacks", "~eval"],
             "the model 'mlp' cannot be divided into pipeline stages: it is no chain of blocks"),
            (["model.num_layers=1"], "2 pipeline stages need as many blocks, but the model 'gpt' has 1"),
            (["accelerator.pipeline.blocks=[5, 2]"], "'blocks' has 7 blocks, at least one in each stage, but the model 'gpt' has 8"),
            (["~train.micro_batch"], "'pp' needs 'train.micro_batch': stages work on different micro-batches"),
            (["accelerator.pipeline.schedule=zbh1", "train.activation_checkpointing=blocks"],
             "'activation_checkpointing' does not support the schedules zbh1 and zbv"),
            ([rank_runs.on(3)], "'parallelism' is dp_replicate 1 x dp_shard 1 x pp 2, but there are 3 ranks")):
        code, errors = scratch.call("gpt.yaml", "name=refused", *pipeline(2), *words)
        report.check(f"refused: {wanted}", code == 2 and wanted in errors, f"exit {code}: {errors}")
    report.check("and nothing is written", not (scratch.path / "runs" / "refused").exists())


def main():
    binary, recipes = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(binary) as scratch:
        mesh_jobs.write(scratch, recipes, gpt=GPT)
        for check in (check_refused, check_plan, check_schedules, check_models, check_texts, check_verbs, check_dropout, check_resume, check_death):
            check(scratch, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
