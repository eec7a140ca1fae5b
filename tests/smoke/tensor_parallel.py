#!/usr/bin/env python3
"""Tensor parallelism: training against one process, and resumes on other meshes.

    tensor_parallel.py ACCEL_RUN RECIPES_FOLDER
"""

import pathlib
import sys

import rank_runs
import mesh_jobs
from rank_runs import check_close, check_killed, check_restored, check_texts, output_of, records, train

# Fused projections, an average, generated texts, packed sequences of odd length.
GPT = mesh_jobs.job(callbacks=(mesh_jobs.AVERAGE, mesh_jobs.TEXTS))
# Fewer key heads than queries, an inner size that two ranks divide unevenly, an untied head.
LLAMA = mesh_jobs.job(mesh_jobs.llama("num_kv_heads: 1, intermediate_size: 35, qk_norm: true, mlp_bias: true"),
                      callbacks=(mesh_jobs.AVERAGE, mesh_jobs.TEXTS))
TP, SEQUENCE = "accelerator.parallelism.tp=2", "accelerator.parallelism.sequence_parallel=true"
# Overrides by the name of a mesh.
MESHES = {
    "1": [rank_runs.on(1)],
    "dp2": [rank_runs.on(2)],
    "fsdp2": [rank_runs.on(2), "accelerator.fsdp.stage=3"],
    "tp2": [rank_runs.on(2), TP],
    "tp2-full": [rank_runs.on(2), TP, "accelerator.fsdp.state_dict=full"],
    "tp4": [rank_runs.on(4), "accelerator.parallelism.tp=4"],
    "tp2-dp2": [rank_runs.on(4), TP],
    "tp2-fsdp2": [rank_runs.on(4), TP, "accelerator.fsdp.stage=3"],
    "tp2-zero1": [rank_runs.on(4), TP, "accelerator.fsdp.stage=1"],
}


def check_training(scratch, report):
    """Every mesh takes the same micro-batches as one process."""
    for model in ("gpt", "llama"):
        for precision, bound in (("no", rank_runs.NEARLY), ("bf16", 2e-2)):
            words, name = [f"accelerator.mixed_precision={precision}"], f"{model}-{precision}"
            train(scratch, report, f"{model}.yaml", f"{name}-1", rank_runs.on(1), *words)
            meshes = {"tp2": [], "tp2-sequence": [SEQUENCE]}
            if precision == "no":
                meshes |= {"tp2-dp2": [], "tp2-fsdp2": [], "tp2-zero1": [SEQUENCE], "tp4": [SEQUENCE]}
            for mesh, more in mesh_jobs.spread(meshes.items(), 1 if model == "gpt" else 2):
                train(scratch, report, f"{model}.yaml", f"{name}-{mesh}",
                      *MESHES[mesh.removesuffix("-sequence")], *words, *more)
                check_close(scratch, report, f"{name}-1", f"{name}-{mesh}", bound)
    check_texts(scratch, report, "gpt-no-1", "gpt-no-tp2")


def check_dropout(scratch, report):
    """Ranks keep whole weights equal, and blocks are computed again with the same numbers."""
    words = ["model.dropout=0.3", *MESHES["tp2"], SEQUENCE, "train.until=6 steps", "eval.every=6 steps"]
    train(scratch, report, "gpt.yaml", "dropout", *words)
    train(scratch, report, "gpt.yaml", "dropout-again", *words, "train.activation_checkpointing=blocks")
    found, again = records(scratch, "dropout", "loss"), records(scratch, "dropout-again", "loss")
    report.check("recomputed blocks draw the same numbers", found == again, f"{found} {again}")
    train(scratch, report, "gpt.yaml", "dropout-whole", *[word for word in words if word != SEQUENCE])


def check_encoders(scratch, report, recipes):
    """The BERT kinds and vit: heads for classes, hidden tokens and images; adapters; dropout."""
    calm = ["~expect", "train.until=10 steps", "train.micro_batch=4", "train.batch=8", "model.dropout=0",
            "accelerator.reduction=bucketed", "optimizer.lr=0.001"]
    cases = {"bert": ("reviews_bert", []), "roberta": ("reviews_masked", []), "distilbert": ("reviews_distilbert", []),
             "electra": ("reviews_electra", []), "deberta": ("reviews_deberta", []),
             "vit": ("patches", []), "vit-lora": ("patches", ["model.lora={rank: 2}"])}
    pipeline = [rank_runs.on(4), TP, "accelerator.parallelism.pp=2", "accelerator.fsdp.stage=0"]
    for name, (recipe, words) in cases.items():
        path, words = recipes / f"tiny/{recipe}.yaml", [*calm, "model.num_layers=2", *words]
        train(scratch, report, path, f"{name}-1", *MESHES["1"], *words)
        for mesh, more in {"tp2": MESHES["tp2"], "tp2-fsdp2": MESHES["tp2-fsdp2"], "tp2-pp2": pipeline}.items():
            if mesh != "tp2" and name not in ("roberta", "vit"):
                continue
            train(scratch, report, path, f"{name}-{mesh}", *more, *words)
            check_close(scratch, report, f"{name}-1", f"{name}-{mesh}")
    words = [*calm[:-3], *calm[-2:], *MESHES["tp2"], "model.dropout=0.3"]
    for name, more in (("encoder-dropout", []), ("encoder-dropout-again", ["train.activation_checkpointing=blocks"])):
        train(scratch, report, recipes / "tiny/reviews_bert.yaml", name, *words, *more)
    found, again = (records(scratch, name, "loss") for name in ("encoder-dropout", "encoder-dropout-again"))
    report.check("recomputed blocks of encoders draw the same numbers", found == again, f"{found} {again}")
    code, errors = scratch.call(recipes / "tiny/patches.yaml", "name=refused", *MESHES["tp2"], SEQUENCE)
    report.check("encoders do not divide the sequence",
                 code == 2 and "'sequence_parallel' does not support the model 'vit'" in errors, errors)


def check_llama_restored(scratch, report):
    """Shares of other layers: repeated key heads, rows that ranks divide unevenly."""
    train(scratch, report, "llama.yaml", "llama-tp4", *MESHES["tp4"], "train.until=4 steps", "checkpoint.every=4 steps")
    check_restored(scratch, report, "llama.yaml", "llama-tp4", "llama-tp4-on-tp2", *MESHES["tp2"])
    check_restored(scratch, report, "llama.yaml", "llama-tp4-on-tp2", "llama-tp2-on-tp2-fsdp2", *MESHES["tp2-fsdp2"])


def check_whole_state(scratch, report):
    """Optimizers with state of whole parameters: blocks of 256 elements, subspaces of gradients."""
    for name, optimizer in (("8bit", "{type: adamw_8bit, min_8bit_size: 64, lr: 0.002}"),
                            ("galore", "{type: galore_adamw, rank: 4, update_proj_gap: 3, lr: 0.002}")):
        words = [f"optimizer!={optimizer}", "train.until=4 steps", "checkpoint.every=4 steps"]
        train(scratch, report, "gpt.yaml", f"{name}-1", *MESHES["1"], *words)
        train(scratch, report, "gpt.yaml", f"{name}-tp2-fsdp2", *MESHES["tp2-fsdp2"], *words)
        check_close(scratch, report, f"{name}-1", f"{name}-tp2-fsdp2", 1e-2)
        check_restored(scratch, report, "gpt.yaml", f"{name}-tp2-fsdp2", f"{name}-on-1", *MESHES["1"], words[0])
        check_restored(scratch, report, "gpt.yaml", f"{name}-on-1", f"{name}-on-tp2", *MESHES["tp2"], words[0])


def check_tools(scratch, report, recipes):
    """Other verbs on a checkpoint of two ranks, LoRA, and what is refused."""
    found = output_of(scratch, "evaluate", "runs/from-tp2")
    report.check("evaluate takes it in one process", "loss" in found, found)
    found = output_of(scratch, "generate", "runs/from-tp2", "--prompt", "the", "--max-new-tokens", "4")
    report.check("so does generate", not found.startswith("exit"), found)
    table = output_of(scratch, "plan", "gpt.yaml", *MESHES["tp2-dp2"])
    report.check("plan prints the mesh and its traffic", "dp_replicate 2 x tp 2: tp communicates most" in table
                 and "activations of tensor parallelism" in table and "4 ranks" in table, table)
    lora = [recipes / "tiny/lora.yaml", "train.until=6 steps", "~expect", "model.lora.dropout=0",
            *(f"model.{name}=0" for name in ("dropout", "attention_dropout", "embedding_dropout"))]
    train(scratch, report, *lora[:1], "lora-1", rank_runs.on(1), *lora[1:])
    train(scratch, report, *lora[:1], "lora-tp2", *MESHES["tp2"], *lora[1:])
    check_close(scratch, report, "lora-1", "lora-tp2")
    packed = ["model!={type: llama, num_layers: 1, num_heads: 2, hidden_size: 32}", "data.train.pack=true", "~expect",
              "train.until=6 steps"]
    for name, mesh in (("packed-1", MESHES["1"]), ("packed-tp2", [*MESHES["tp2"], SEQUENCE])):
        train(scratch, report, recipes / "tiny/chat.yaml", name, *mesh, *packed)
    check_close(scratch, report, "packed-1", "packed-tp2")
    code, errors = scratch.call(recipes / "tiny/glyphs.yaml", "name=refused", *MESHES["tp2"], "model!={type: mlp}")
    report.check("a model without a plan is refused",
                 code == 2 and "'tp' does not support the model 'mlp', which has no plan for it" in errors, errors)
    code, errors = scratch.call("gpt.yaml", "name=refused", *MESHES["tp2"],
                                "model!={type: llama, mlp_bias: true, moe: {num_experts: 2}}")
    report.check("so are biases of experts", code == 2
                 and "error: 'tp' does not support 'mlp_bias' with 'moe'" in errors, errors)
    code, errors = scratch.call(recipes / "tiny/dpo_lora.yaml", "name=refused", *MESHES["tp2"])
    report.check("so is a task on whole logits", code == 2
                 and "'tp' does not support the task 'dpo', which needs whole logits of whole sequences" in errors
                 and "hint: divide the weights with 'fsdp', or leave 'tp' out" in errors, errors)
    report.check("and nothing is written", not (scratch.path / "runs/refused").exists())


def main():
    binary, recipes = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(binary) as scratch:
        mesh_jobs.write(scratch, recipes, gpt=GPT, llama=LLAMA)
        check_training(scratch, report)
        check_dropout(scratch, report)
        check_encoders(scratch, report, recipes)
        mesh_jobs.check_reshard(scratch, report, "gpt.yaml", MESHES, [*mesh_jobs.spread(mesh_jobs.cycle(MESHES), 2), ("tp2", "1"), ("1", "tp2")])
        mesh_jobs.check_factored(scratch, report, "llama.yaml", MESHES, [
            ("1", "tp2"), ("tp2", "tp2-fsdp2"), ("tp2-fsdp2", "tp4"), ("tp4", "tp2-full"), ("tp2-full", "1")])
        check_llama_restored(scratch, report)
        check_whole_state(scratch, report)
        check_killed(scratch, report, "gpt.yaml", 4, "model.dropout=0.2", *MESHES["tp2-fsdp2"], SEQUENCE)
        check_killed(scratch, report, "gpt.yaml", 4, *MESHES["tp2-fsdp2"], "optimizer!={type: adafactor}", name="factored-killed")
        check_tools(scratch, report, recipes)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
