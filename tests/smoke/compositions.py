#!/usr/bin/env python3
"""Pipelines with tensor, context and sharded data parallelism: training against one process, and resumes on other meshes.

    compositions.py ACCEL_RUN RECIPES_FOLDER
"""

import pathlib
import sys

import rank_runs
from rank_runs import check_close, check_killed, output_of, train
import mesh_jobs
from mesh_jobs import check_equal

MODEL = mesh_jobs.GPT.replace("num_layers: 2", "num_layers: 4")
GPT = mesh_jobs.job(MODEL)
LLAMA = mesh_jobs.job(MODEL.replace(
    "type: gpt,", "type: llama, num_kv_heads: 1, intermediate_size: 35, qk_norm: true, mlp_bias: true,"))
SEQUENCE, ONE_SUM = "accelerator.parallelism.sequence_parallel=true", "accelerator.fsdp.sync_each_batch=false"
RING, STAGES = "accelerator.parallelism.cp_comm_strategy=ring", "accelerator.pipeline.stages_per_rank=2"


def mesh(ranks, schedule=None, stage=0, **sizes):
    return mesh_jobs.mesh(ranks, stage, schedule, **sizes)


MESHES = {
    "1": mesh(1),
    "dp4": mesh(4),
    "fsdp2": mesh(2, stage=3),
    "fsdp4": mesh(4, stage=3),
    "tp4": mesh(4, tp=4),
    "pp2-tp2": mesh(4, pp=2, tp=2),
    "pp2-tp2-full": [*mesh(4, pp=2, tp=2), "accelerator.fsdp.state_dict=full"],
    "pp2-fsdp2": mesh(4, stage=3, pp=2),
    "pp2-zero1": mesh(4, stage=1, pp=2),
    "pp4": mesh(4, "zbh1", pp=4),
    "tp2-fsdp2": mesh(4, stage=3, tp=2),
    "cp2-tp2": [*mesh(4, cp=2, tp=2), SEQUENCE],
    "pp2-cp2": mesh(4, pp=2, cp=2),
    "pp2-cp2-fsdp": [*mesh(4, stage=3, pp=2, cp=2), RING],
    "pp2-cp2-tp2": [*mesh(8, "interleaved_1f1b", pp=2, cp=2, tp=2), STAGES, SEQUENCE, RING],
    "pp2-cp2-tp2-fsdp": [*mesh(8, stage=3, pp=2, cp=2, tp=2), SEQUENCE],
}


def check_sharded(scratch, report):
    """A pipeline whose stages are sharded has the bits of sharding alone with one reduction per step."""
    words = ["model.tie_embeddings=false"]
    train(scratch, report, "gpt.yaml", "fsdp-2", *MESHES["fsdp2"], ONE_SUM, *words)
    for stage in (1, 2, 3):
        for schedule in ("1f1b", "zbv") if stage == 3 else ("1f1b",):
            name = f"stage-{stage}-{schedule}"
            train(scratch, report, "gpt.yaml", name, *mesh(4, schedule, stage, pp=2), *words)
            check_equal(scratch, report, "fsdp-2", name, f"{name} has the bits of sharding alone")
    train(scratch, report, "gpt.yaml", "fsdp-2-each", *MESHES["fsdp2"], *words)
    train(scratch, report, "gpt.yaml", "each", *mesh(4, "zbh1", 3, pp=2), "accelerator.fsdp.sync_each_batch=true", *words)
    check_equal(scratch, report, "fsdp-2-each", "each", "reductions of each micro-batch have the same bits too")
    train(scratch, report, "gpt.yaml", "bf16-fsdp-2", *MESHES["fsdp2"], ONE_SUM, "accelerator.mixed_precision=bf16", *words)
    train(scratch, report, "gpt.yaml", "bf16-stage-3", *MESHES["pp2-fsdp2"], "accelerator.mixed_precision=bf16", *words)
    check_equal(scratch, report, "bf16-fsdp-2", "bf16-stage-3", "bf16 has the bits of sharding alone")


def check_divided(scratch, report):
    """Every composition takes the same micro-batches as one process."""
    for model in ("gpt", "llama"):
        train(scratch, report, f"{model}.yaml", f"{model}-1", *MESHES["1"])
        meshes = {"pp2-tp2": MESHES["pp2-tp2"], "pp2-tp2-sequence": [*mesh(4, "zbh1", pp=2, tp=2), SEQUENCE],
                  "pp2-fsdp2": MESHES["pp2-fsdp2"]}
        meshes |= {name: words for name, words in MESHES.items() if "cp2" in name}
        meshes |= {"sp2-tp2": mesh(4, sp=2, tp=2), "pp2-sp2": [*mesh(4, "zbv", pp=2, sp=2)],
                   "cp2-tp2-fsdp": [*mesh(4, stage=2, cp=2, tp=2), RING]}
        if model == "gpt":
            meshes["pp2-cp2-dp2"] = [*mesh(8, stage=1, pp=2, cp=2), "accelerator.parallelism.dp_replicate=2"]
            meshes["pp2-cp2-blocks"] = [*MESHES["pp2-cp2-fsdp"], "train.activation_checkpointing=blocks"]
            meshes["pp2-tp2-fsdp2"] = [*mesh(8, stage=3, pp=2, tp=2), SEQUENCE]
            meshes["pp2-tp2-blocks"] = [*MESHES["pp2-tp2"], "train.activation_checkpointing=blocks"]
            meshes["pp2-tp2-selective"] = [*MESHES["pp2-tp2"], SEQUENCE, "train.activation_checkpointing=selective"]
            meshes["pp2-hsdp"] = mesh(8, stage=2, pp=2, dp_replicate=2, dp_shard=2)
        for name, words in mesh_jobs.spread(meshes.items(), 1 if model == "gpt" else 3):
            # A rank of four with other samples has one micro-batch of a step.
            train(scratch, report, f"{model}.yaml", f"{model}-{name}", *words)
            check_close(scratch, report, f"{model}-1", f"{model}-{name}")
    train(scratch, report, "gpt.yaml", "bf16-1", *MESHES["1"], "accelerator.mixed_precision=bf16")
    train(scratch, report, "gpt.yaml", "bf16-2x2", *MESHES["pp2-tp2"], "accelerator.mixed_precision=bf16")
    check_close(scratch, report, "bf16-1", "bf16-2x2", 2e-2)


def check_reshard(scratch, report):
    """Checkpoints of each mesh are resumed on others, which save what they have restored."""
    pairs = [("pp2-tp2", "1"), ("pp2-tp2", "dp4"), ("1", "pp2-tp2"), ("pp2-fsdp2", "fsdp4"), ("fsdp4", "pp2-fsdp2"),
             ("pp2-tp2", "tp4"), ("tp4", "pp2-tp2"), ("pp2-tp2", "pp2-fsdp2"), ("pp2-fsdp2", "tp2-fsdp2"),
             ("tp2-fsdp2", "pp2-tp2"), ("pp2-zero1", "pp4"), ("pp2-tp2-full", "pp2-zero1"), ("pp2-fsdp2", "pp2-tp2-full")]
    cut = ["cp2-tp2", "pp2-cp2", "pp2-cp2-fsdp", "pp2-cp2-tp2", "pp2-cp2-tp2-fsdp"]
    pairs += list(zip(cut, ["1", "cp2-tp2", "pp2-cp2-tp2", "fsdp4", "pp2-tp2"]))
    pairs += list(zip(["1", "fsdp4", "tp4", "pp2-tp2", "pp2-fsdp2"], cut))
    mesh_jobs.check_reshard(scratch, report, "gpt.yaml", MESHES, mesh_jobs.spread(pairs, 2))


def check_all_killed(scratch, report):
    """A run that is killed continues bit for bit on its mesh, dropout included."""
    check_killed(scratch, report, "gpt.yaml", 4, "model.dropout=0.2", *MESHES["pp2-tp2"], SEQUENCE, rank=3,
                 says="rank 3 (pp 1, tp 1) was killed")
    check_killed(scratch, report, "gpt.yaml", 8, "model.dropout=0.2", *MESHES["pp2-cp2-tp2-fsdp"], name="killed-8",
                 rank=6, says="rank 6 (pp 1, cp 1, tp 0) was killed")


CONFIGS = {
    "megatron": """
distributed_type: MEGATRON_LM
num_processes: 4
use_cpu: true
megatron_lm_config: {megatron_lm_tp_degree: 2, megatron_lm_pp_degree: 2, megatron_lm_sequence_parallelism: true}
""",
    "parallelism": """
distributed_type: MULTI_CPU
num_processes: 4
use_cpu: true
parallelism_config: {parallelism_config_cp_size: 2, parallelism_config_tp_size: 2}
""",
}


def check_test(scratch, report):
    """`accel-run test` trains and resumes on the mesh of a config of Accelerate."""
    for name, wanted in (("megatron", "pp 2 x tp 2"), ("parallelism", "cp 2 x tp 2")):
        (scratch.path / f"{name}.yaml").write_text(CONFIGS[name])
        found = output_of(scratch, "test", "--config", f"{name}.yaml")
        report.check(f"test runs on {wanted}", f"testing the mesh of '{name}.yaml': {wanted}" in found
                     and found.rstrip().endswith("this machine is ready"), found)


def main():
    binary, recipes = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(binary) as scratch:
        mesh_jobs.write(scratch, recipes, gpt=GPT, llama=LLAMA)
        for check in (check_sharded, check_divided, check_reshard, check_all_killed, check_test):
            check(scratch, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
