#!/usr/bin/env python3
"""Expert parallelism: training against one process, and resumes on other meshes.

    expert_parallel.py ACCEL_RUN RECIPES_FOLDER
"""

import pathlib
import sys

import rank_runs
import mesh_jobs
from rank_runs import check_close, check_killed, check_texts, diff, output_of, records, train

# Experts of one token each, so that some get none; an average, generated texts, clipping and a short last batch.
MODEL = mesh_jobs.llama("num_kv_heads: 2, intermediate_size: 24, router_aux_loss_coef: 0.02, "
                        "moe: {num_experts: 8, num_experts_per_tok: 1, norm_topk_prob: false, shared_expert_intermediate_size: 12}")
MOE = mesh_jobs.job(MODEL, samples=74, callbacks=(mesh_jobs.AVERAGE, mesh_jobs.TEXTS))
NEARLY = 1e-6  # relative, of two losses


def on(ranks, experts=1, stage=0, *more):
    """The overrides of a mesh."""
    return mesh_jobs.mesh(ranks, stage, ep=experts, more=more)


# Overrides by the name of a mesh.
MESHES = {
    "1": on(1),
    "dp2": on(2),
    "fsdp2": on(2, stage=3),
    "ep2": on(2, 2),
    "ep2-full": on(2, 2, 0, "fsdp.state_dict=full"),
    "ep4": on(4, 4),
    "ep2-dp2": on(4, 2),
    "ep2-zero1": on(4, 2, 1),
    "ep2-zero2": on(4, 2, 2),
    "ep2-fsdp2": on(4, 2, 3),
    "ep2-fsdp2-full": on(4, 2, 3, "fsdp.state_dict=full"),
    "ep4-fsdp2": on(4, 4, 3, "parallelism.dp_shard=2"),
    "tp2": on(2, 1, 0, "parallelism.tp=2"),
    "tp2-ep2": on(4, 2, 0, "parallelism.tp=2", "parallelism.sequence_parallel=true"),
    "tp2-ep2-fsdp2": on(4, 2, 3, "parallelism.tp=2"),
    "pp2-ep2": on(4, 2, 0, "parallelism.pp=2"),
    "pp2-ep2-fsdp2": on(8, 2, 3, "parallelism.pp=2", "pipeline.schedule=zbh1"),
    "pp2-ep4-fsdp2": on(8, 4, 3, "parallelism.pp=2", "parallelism.dp_shard=2"),
    "cp2-ep2": on(2, 2, 0, "parallelism.cp=2", "parallelism.cp_comm_strategy=ring"),
    "cp2-ep2-fsdp2": on(4, 2, 3, "parallelism.cp=2"),
    "sp2-ep4": on(4, 4, 0, "parallelism.sp=2"),
}


def check_training(scratch, report):
    """Every mesh takes the same micro-batches as one process."""
    train(scratch, report, "moe.yaml", "1", *MESHES["1"])
    meshes = [mesh for mesh in MESHES if ("ep" in mesh or "tp" in mesh) and "full" not in mesh]
    for mesh in meshes:
        train(scratch, report, "moe.yaml", mesh, *MESHES[mesh])
        check_close(scratch, report, "1", mesh, NEARLY)
    check_texts(scratch, report, "1", "ep2", "pp2-ep2")
    for kind, words in (("bf16", ["accelerator.mixed_precision=bf16"]),
                        ("recomputed", ["train.activation_checkpointing=blocks"]),
                        ("selective", ["train.activation_checkpointing=selective"]),
                        ("lora", ['model.lora={rank: 2, target_modules: ["*.q_proj", "*.gate_proj", "*.down_proj"]}']),
                        ("bias", ["model.moe.bias_update_rate=0.01", "data.loader.even_batches=false"]),
                        ("frozen", ['train.freeze=["*.experts.3.*", "*.experts.4.*"]'])):
        train(scratch, report, "moe.yaml", f"{kind}-1", *MESHES["1"], *words)
        for mesh in mesh_jobs.spread(("ep2-fsdp2", "ep2"), 2):
            train(scratch, report, "moe.yaml", f"{kind}-{mesh}", *MESHES[mesh], *words)
            check_close(scratch, report, f"{kind}-1", f"{kind}-{mesh}", 2e-2 if kind == "bf16" else NEARLY)


def check_balance(scratch, report):
    """The bias is in checkpoints and the same on every mesh; loads are multiples of an equal load."""
    words = ["model.moe.bias_update_rate=0.003", "model.router_aux_loss_coef=0", "log.every=1 step",
             "train.until=20 steps", "checkpoint.every=20 steps"]
    train(scratch, report, "moe.yaml", "load-1", *MESHES["1"], *words)
    train(scratch, report, "moe.yaml", "load-ep2-dp2", *MESHES["ep2-dp2"], *words)
    train(scratch, report, "moe.yaml", "load-pp2-ep2", *MESHES["pp2-ep2"], *words, "train.activation_checkpointing=blocks")
    train(scratch, report, "moe.yaml", "load-free", *MESHES["1"], *words, "model.moe.bias_update_rate=1e-9")
    metrics = {name: records(scratch, name, "log") for name in ("load-1", "load-ep2-dp2", "load-pp2-ep2", "load-free")}
    loads = {name: [[of[f"train/expert_load/{expert}"] for expert in range(8)]
                    for of in all_of if "train/expert_load/0" in of] for name, all_of in metrics.items()}
    report.check("loads of each step are those of one process",
                 loads["load-1"] == loads["load-ep2-dp2"] == loads["load-pp2-ep2"] and len(loads["load-1"]) == 20, str(loads))
    highest = {name: sum(max(of) for of in all_of[10:]) for name, all_of in loads.items()}
    report.check("the bias evens them", highest["load-1"] < 0.9 * highest["load-free"], str(highest))
    for other in ("load-ep2-dp2", "load-pp2-ep2"):
        found = diff(scratch, *(f"runs/{name}/checkpoints/checkpoint_20" for name in ("load-1", other)))
        report.check(f"so is the bias of {other}", "e_score_correction_bias" not in found, found)


def check_unused(scratch, report):
    """With one token of each sample, most experts have none in a step."""
    words = ["data.train.max_seq_len=2", "data.eval.max_seq_len=2", "train.batch=4", "train.micro_batch=1",
             "eval.batch=1", "callbacks=[]"]
    for mesh in ("1", "ep4", "ep2-fsdp2"):
        train(scratch, report, "moe.yaml", f"short-{mesh}", *MESHES[mesh], *words)
    for mesh in ("ep4", "ep2-fsdp2"):
        check_close(scratch, report, "short-1", f"short-{mesh}", NEARLY)


def check_tools(scratch, report, recipes):
    """Other verbs on a checkpoint of two ranks, and what is refused."""
    found = output_of(scratch, "evaluate", "runs/from-ep2")
    report.check("evaluate takes it in one process", "loss" in found, found)
    found = output_of(scratch, "generate", "runs/from-ep2", "--prompt", "the", "--max-new-tokens", "4")
    report.check("so does generate", not found.startswith("exit"), found)
    table = output_of(scratch, "plan", "moe.yaml", *MESHES["ep2-dp2"])
    report.check("plan prints the experts of a rank and their traffic",
                 "4 of 8 experts of a layer per rank, each on 2 ranks; ranks 0 and 1 exchange tokens" in table
                 and "tokens of experts" in table, table)
    for words, wanted in (
            ([*on(2, 3)], "'ep' 3 does not divide the 2 data parallel ranks"),
            ([*on(4, 3, 0, "parallelism.cp=2")], "'ep' 3 does not divide the 4 data parallel and context parallel ranks"),
            ([*on(4, 3, 0, "parallelism.cp=2")], "hint: use a divisor of dp_replicate x dp_shard x cp x sp"),
            ([*on(6, 2, 0, "parallelism.cp=3")], "'ep' 2 is neither a divisor nor a multiple of dp_shard x cp x sp, 3"),
            ([*on(3, 3)], "'ep' 3 does not divide the model's 'num_experts' 8"),
            ([*on(6, 2, 3, "parallelism.dp_shard=3")], "'ep' 2 is neither a divisor nor a multiple of 'dp_shard' 3"),
            ([*on(2, 2), "model!={type: gpt, num_layers: 1, num_heads: 2, hidden_size: 32}"],
             "'ep' has no effect: the model 'gpt' has no experts"),
            ([*on(2, 2, 3), 'accelerator.fsdp.ignored=["*.experts.1.*"]'],
             "'ignored' does not support parameters of experts with 'ep', such as "
             "'model.layers.0.mlp.experts.1.gate_proj.weight'"),
            ([*on(2, 2), "accelerator.reduction=canonical"], "'ep' does not support 'reduction' canonical")):
        words = [*words, "train.batch=12", "train.micro_batch=1"]
        code, errors = scratch.call("moe.yaml", "name=refused", *words)
        report.check(f"refused: {wanted}", code == 2 and "error: " in errors and wanted in errors, errors)
    report.check("and nothing is written", not (scratch.path / "runs/refused").exists())


def main():
    binary, recipes = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(binary) as scratch:
        mesh_jobs.write(scratch, recipes, moe=MOE)
        check_training(scratch, report)
        check_balance(scratch, report)
        check_unused(scratch, report)
        mesh_jobs.check_reshard(scratch, report, "moe.yaml", MESHES, [*mesh_jobs.spread(mesh_jobs.cycle(MESHES), 2), ("ep2", "1"), ("1", "ep2")])
        mesh_jobs.check_factored(scratch, report, "moe.yaml", MESHES, [
            ("1", "ep2-fsdp2"), ("ep2-fsdp2", "pp2-ep2"), ("pp2-ep2", "tp2-ep2-fsdp2"), ("tp2-ep2-fsdp2", "1")])
        check_killed(scratch, report, "moe.yaml", 4, "model.attention_dropout=0.2", *MESHES["ep2-fsdp2"])
        check_killed(scratch, report, "moe.yaml", 4, "model.attention_dropout=0.2", *MESHES["pp2-ep2"], name="killed-stages",
                     rank=2, says="rank 2 (pp 1, dp_replicate 0) was killed")
        check_tools(scratch, report, recipes)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
