#!/usr/bin/env python3
"""Context parallelism: training against one process, and resumes on other meshes.

    context_parallel.py ACCEL_RUN RECIPES_FOLDER
"""

import pathlib
import sys

import rank_runs
import mesh_jobs
from rank_runs import check_close, check_killed, output_of, records, train

# Evaluations have all metrics.
METRICS = "eval.metrics=[perplexity, accuracy, exact_match]"
GPT, LLAMA = mesh_jobs.job(), mesh_jobs.job(mesh_jobs.llama("num_kv_heads: 1, qk_norm: true"))
CP, RING = "accelerator.parallelism.cp=2", "accelerator.parallelism.cp_comm_strategy=ring"
FSDP = "accelerator.fsdp.stage=3"
MESHES = {
    "1": [rank_runs.on(1)],
    "dp2": [rank_runs.on(2)],
    "tp2": [rank_runs.on(2), "accelerator.parallelism.tp=2"],
    "cp2": [rank_runs.on(2), CP],
    "cp2-ring": [rank_runs.on(2), CP, RING],
    "sp2": [rank_runs.on(2), "accelerator.parallelism.sp=2"],
    "cp2-fsdp": [rank_runs.on(2), CP, RING, FSDP],
    "cp2-dp2": [rank_runs.on(4), CP],
    "cp2-fsdp2": [rank_runs.on(4), CP, RING, FSDP],
    "cp2-dp2-fsdp": [rank_runs.on(4), CP, FSDP, "accelerator.parallelism.dp_replicate=2"],
    "cp4-ring": [rank_runs.on(4), "accelerator.parallelism.cp=4", RING],
}
NEARLY = 1e-6


def check_evaluation(scratch, report, wanted, found):
    """Ranks evaluate their positions; metrics are of whole sequences."""
    one, other = (records(scratch, name, "eval") for name in (wanted, found))
    report.check(f"{found}: evaluations are those of {wanted}", len(one) == len(other) == 2 and all(
        a.keys() == b.keys() and all(abs(a[key] - b[key]) <= 2e-6 * max(1, abs(a[key])) for key in a)
        for a, b in zip(one, other)), f"{one} {other}")


def check_training(scratch, report):
    """Every mesh takes the same micro-batches as one process."""
    for model in ("gpt", "llama"):
        train(scratch, report, f"{model}.yaml", f"{model}-1", *MESHES["1"], METRICS)
        meshes = [mesh for mesh in MESHES if "p2" in mesh and "cp" in mesh] + ["sp2", "cp4-ring"]
        for mesh in mesh_jobs.spread(meshes, 1 if model == "gpt" else 3):
            train(scratch, report, f"{model}.yaml", f"{model}-{mesh}", *MESHES[mesh], METRICS)
            check_close(scratch, report, f"{model}-1", f"{model}-{mesh}", NEARLY)
            check_evaluation(scratch, report, f"{model}-1", f"{model}-{mesh}")
        bf16 = "accelerator.mixed_precision=bf16"
        train(scratch, report, f"{model}.yaml", f"{model}-bf16-1", *MESHES["1"], bf16)
        train(scratch, report, f"{model}.yaml", f"{model}-bf16", *MESHES["cp2-ring"], bf16)
        check_close(scratch, report, f"{model}-bf16-1", f"{model}-bf16", 2e-2)


def check_experts(scratch, report):
    """The load-balancing loss, and the bias instead of it, are of whole sequences."""
    moe = ["model={type: llama, num_layers: 2, num_heads: 4, num_kv_heads: 2, hidden_size: 32, intermediate_size: 24, "
           "moe: {num_experts: 4}, router_aux_loss_coef: 0.1}"]
    tp = ["accelerator.parallelism.tp=2", "accelerator.parallelism.sequence_parallel=true"]
    for kind, words in (("moe", moe), ("bias", [*moe, "model.router_aux_loss_coef=0", "model.moe.bias_update_rate=0.003"])):
        train(scratch, report, "gpt.yaml", f"{kind}-1", *MESHES["1"], *words)
        for mesh, more in {"cp2": MESHES["cp2"], "sp2": MESHES["sp2"], "cp2-fsdp2": MESHES["cp2-fsdp2"],
                           "cp2-tp2": [rank_runs.on(4), CP, RING, *tp]}.items():
            train(scratch, report, "gpt.yaml", f"{kind}-{mesh}", *more, *words)
            check_close(scratch, report, f"{kind}-1", f"{kind}-{mesh}", NEARLY)
    pipeline = [rank_runs.on(4), CP, "accelerator.parallelism.pp=2"]
    train(scratch, report, "gpt.yaml", "moe-pp2-cp2", *pipeline, *moe)
    check_close(scratch, report, "moe-1", "moe-pp2-cp2", NEARLY)


def check_packed(scratch, report, recipes):
    packed = ["model!={type: llama, num_layers: 1, num_heads: 2, hidden_size: 32}", "data.train.pack=true", "~expect",
              "train.until=6 steps"]
    for mesh in ("1", "cp2", "cp2-ring", "sp2"):
        train(scratch, report, recipes / "tiny/chat.yaml", f"packed-{mesh}", *MESHES[mesh], *packed)
        check_close(scratch, report, "packed-1", f"packed-{mesh}", NEARLY)


def check_lengths(scratch, report):
    """Rotations that depend on the length of a text are by that of the whole text on every rank."""
    longrope = "short_factor: [1, 1.1, 1.2, 1.3], long_factor: [1, 2, 3, 4]"
    capped = "model.attn_logit_softcapping=0.5"
    for mesh in ("1", "cp2", "sp2"):
        train(scratch, report, "llama.yaml", f"capped-{mesh}", *MESHES[mesh], capped)
        check_close(scratch, report, "capped-1", f"capped-{mesh}", NEARLY)
    for kind, more in (("dynamic", "factor: 2"), ("longrope", longrope)):
        rope = f"model.rope!={{scaling: {kind}, original_max_position_embeddings: 8, {more}}}"
        for mesh in ("1", "cp2-ring", "sp2"):
            train(scratch, report, "llama.yaml", f"{kind}-{mesh}", *MESHES[mesh], rope)
            check_close(scratch, report, f"{kind}-1", f"{kind}-{mesh}", NEARLY)


def check_dropout(scratch, report):
    """Blocks are computed again with the same numbers; a ring has no dropout of attention weights."""
    words = ["model.dropout=0.3", *MESHES["cp2"], "train.until=6 steps", "eval.every=6 steps"]
    train(scratch, report, "gpt.yaml", "dropout", *words)
    for mode in ("blocks", "selective"):
        train(scratch, report, "gpt.yaml", f"dropout-{mode}", *words, f"train.activation_checkpointing={mode}")
        found, again = records(scratch, "dropout", "loss"), records(scratch, f"dropout-{mode}", "loss")
        report.check(f"recomputation draws the same numbers, {mode}", found == again, f"{found} {again}")
    for mode in ("none", "selective"):
        train(scratch, report, "gpt.yaml", f"ring-{mode}", *MESHES["cp2-ring"], "train.until=6 steps",
              f"train.activation_checkpointing={mode}")
    found, again = records(scratch, "ring-none", "loss"), records(scratch, "ring-selective", "loss")
    report.check("the stored attention of a ring has the same bits", found == again, f"{found} {again}")


def check_encoders(scratch, report, recipes):
    """Full attention: padding masks, heads for classes, labels and hidden tokens, and a class token before patches."""
    words = ["~expect", "train.until=6 steps", "eval.every=3 steps", "model.dropout=0", "model.num_layers=2",
             "accelerator.reduction=bucketed", "accelerator.num_cpu_threads_per_process=1"]
    pipeline = [rank_runs.on(4), CP, RING, "accelerator.parallelism.pp=2"]
    tensor = [rank_runs.on(4), CP, "accelerator.parallelism.tp=2"]
    for name, (recipe, more, meshes) in {
            "bert": ("reviews_bert", [], ["cp2", "cp2-ring", "pp2-cp2"]), "labels": ("names", [], ["sp2", "cp2-fsdp2"]),
            "roberta": ("reviews_masked", ["train.micro_batch=5"], ["cp2-ring", "cp2-tp2"]),
            "distilbert": ("reviews_distilbert", [], ["sp2"]), "vit": ("patches", [], ["cp2", "cp2-ring", "sp2"])}.items():
        path = recipes / f"tiny/{recipe}.yaml"
        train(scratch, report, path, f"{name}-1", *MESHES["1"], *words, *more)
        for mesh in meshes:
            train(scratch, report, path, f"{name}-{mesh}", *{"pp2-cp2": pipeline, "cp2-tp2": tensor}.get(mesh, MESHES.get(mesh)),
                  *words, *more)
            check_close(scratch, report, f"{name}-1", f"{name}-{mesh}", NEARLY)
            check_evaluation(scratch, report, f"{name}-1", f"{name}-{mesh}")
    drops = [recipes / "tiny/reviews_bert.yaml", *[word for word in words if "dropout" not in word], "model.dropout=0.3"]
    for name, more in (("encoder-dropout", []), ("encoder-dropout-again", ["train.activation_checkpointing=blocks"])):
        train(scratch, report, drops[0], name, *MESHES["sp2"], *drops[1:], *more)
    found, again = (records(scratch, name, "loss") for name in ("encoder-dropout", "encoder-dropout-again"))
    report.check("recomputed blocks of encoders draw the same numbers", found == again, f"{found} {again}")


def check_refused(scratch, report, recipes):
    mlp = ["model!={type: mlp}", "data!={train: {type: synthetic/glyphs, length: 32}}", "~callbacks", "~eval"]
    cases = [("a model on whole samples", "gpt.yaml", [*MESHES["cp2"], *mlp],
              "'cp' does not support the model 'mlp', which needs whole samples"),
             ("an MLP with sp", "gpt.yaml", [*MESHES["sp2"], *mlp],
              "use gpt, llama, vit or a BERT-style model, or leave 'sp' out"),
             ("a task on whole sequences", recipes / "tiny/dpo_lora.yaml", MESHES["cp2"],
              "'cp' does not support the task 'dpo', whose loss reads whole sequences"),
             ("a task of pairs with sp", recipes / "tiny/dpo_lora.yaml", MESHES["sp2"],
              "use a task of language modeling or classification, or leave 'sp' out"),
             ("a llama with classes", recipes / "tiny/reviews_bert.yaml",
              [*MESHES["cp2"], "accelerator.reduction=bucketed", "model!={type: llama, num_layers: 1, num_classes: 2}"],
              "'cp' and 'sp' do not support 'num_classes' of llama"),
             ("heads of vit", recipes / "tiny/patches.yaml", [rank_runs.on(4), "accelerator.parallelism.sp=4"],
              "'sp' 4 does not divide the model's 'num_heads' 2"),
             ("sp x tp", "gpt.yaml", [rank_runs.on(8), "accelerator.parallelism.sp=4", "accelerator.parallelism.tp=2"],
              "'sp' 4 x 'tp' 2 does not divide the model's 'num_heads' 4"),
             ("dropout", "gpt.yaml", [*MESHES["cp2-ring"], "model.dropout=0.1"],
              "'cp' does not support dropout of attention weights with 'cp_comm_strategy: ring'"),
             ("noise on embeddings", recipes / "tiny/chat.yaml", [*MESHES["cp2"], "task={type: causal_lm, neftune_noise_alpha: 5}"],
              "'cp' does not support 'neftune_noise_alpha' of the task 'causal_lm'"),
             ("noise on embeddings with sp", recipes / "tiny/chat.yaml", [*MESHES["sp2"], "task={type: causal_lm, neftune_noise_alpha: 5}"],
              "hint: leave one of them out, or divide the weights with 'fsdp'"),
             ("capped scores", recipes / "tiny/llama.yaml", [*MESHES["cp2-ring"], "model.attn_logit_softcapping=5"],
              "'cp' does not support capped scores with 'cp_comm_strategy: ring', where no rank has all scores of a token"),
             ("capped scores", recipes / "tiny/llama.yaml", [*MESHES["cp2-ring"], "model.attn_logit_softcapping=5"],
              "hint: leave the model's 'attn_logit_softcapping' out, or set 'cp_comm_strategy: allgather'"),
             ("heads", "gpt.yaml", [rank_runs.on(3), "accelerator.parallelism.sp=3", "train.batch=16"],
              "'sp' 3 does not divide the model's 'num_heads' 4")]
    for name, recipe, words, message in cases:
        code, errors = scratch.call(recipe, "name=refused", *words)
        report.check(f"{name} is refused", code == 2 and message in errors, errors)
    report.check("and nothing is written", not (scratch.path / "runs/refused").exists())
    table = output_of(scratch, "plan", "gpt.yaml", *MESHES["cp2-dp2"])
    report.check("plan prints the mesh and its traffic", "dp_replicate 2 x cp 2: cp communicates most" in table
                 and "keys and values of context parallelism" in table, table)


def main():
    binary, recipes = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(binary) as scratch:
        mesh_jobs.write(scratch, recipes, gpt=GPT, llama=LLAMA)
        check_training(scratch, report)
        check_experts(scratch, report)
        check_packed(scratch, report, recipes)
        check_lengths(scratch, report)
        check_encoders(scratch, report, recipes)
        check_dropout(scratch, report)
        pairs = [("cp2", "1"), ("cp2-fsdp", "dp2"), ("tp2", "cp2-fsdp"), ("dp2", "cp2-ring"), ("1", "cp2-fsdp2"),
                 ("cp2-fsdp2", "tp2"), ("cp2-dp2-fsdp", "sp2"), ("sp2", "cp2-dp2-fsdp"), ("cp2-ring", "cp2-dp2")]
        mesh_jobs.check_reshard(scratch, report, "gpt.yaml", MESHES, mesh_jobs.spread(pairs, 2))
        check_killed(scratch, report, "gpt.yaml", 4, "model.dropout=0.2", "model.attention_dropout=0",
                     *MESHES["cp2-fsdp2"])
        check_refused(scratch, report, recipes)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
