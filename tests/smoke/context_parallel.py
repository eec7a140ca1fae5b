#!/usr/bin/env python3
"""Context parallelism: training against one process, and resumes on other meshes.

    context_parallel.py ACCEL_RUN RECIPES_FOLDER
"""

import pathlib
import sys

import rank_runs
from rank_runs import check_close, check_killed, check_restored, output_of, records, train

# Samples of odd length, a tied head of 27 rows, an average.
GPT = """
model: {type: gpt, num_layers: 2, num_heads: 4, hidden_size: 32, max_seq_len: 31}
data:
  train: {type: text, path: "FOLDER/tiny/data/rhyme.txt", max_seq_len: 15, limit: 80}
  eval: {type: text, path: "FOLDER/tiny/data/rhyme.txt", max_seq_len: 15, limit: 21}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.002}
scheduler: {type: cosine, warmup: 4 steps}
train: {until: 20 steps, batch: 16, micro_batch: 4, max_grad_norm: 0.5}
accelerator: {num_cpu_threads_per_process: 1}
eval: {every: 10 steps, batch: 4, metrics: [perplexity, accuracy, exact_match]}
callbacks: [{type: ema, decay: 0.9}]
checkpoint: {every: 10 steps}
"""
LLAMA = GPT.replace("type: gpt,", "type: llama, num_kv_heads: 1, qk_norm: true,")
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
        train(scratch, report, f"{model}.yaml", f"{model}-1", *MESHES["1"])
        for mesh in [mesh for mesh in MESHES if "p2" in mesh and "cp" in mesh] + ["sp2", "cp4-ring"]:
            train(scratch, report, f"{model}.yaml", f"{model}-{mesh}", *MESHES[mesh])
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


def check_dropout(scratch, report):
    """Blocks are computed again with the same numbers; a ring has no dropout of attention weights."""
    words = ["model.dropout=0.3", *MESHES["cp2"], "train.until=6 steps", "eval.every=6 steps"]
    train(scratch, report, "gpt.yaml", "dropout", *words)
    train(scratch, report, "gpt.yaml", "dropout-again", *words, "train.activation_checkpointing=blocks")
    found, again = records(scratch, "dropout", "loss"), records(scratch, "dropout-again", "loss")
    report.check("recomputed blocks draw the same numbers", found == again, f"{found} {again}")


def check_reshard(scratch, report):
    """Checkpoints of each mesh are resumed on others, which save what they have restored."""
    pairs = [("cp2", mesh) for mesh in ("1", "dp2", "tp2", "cp2-fsdp2")]
    pairs += [("cp2-fsdp", mesh) for mesh in ("1", "dp2", "tp2", "cp2-dp2-fsdp")]
    pairs += [("tp2", "cp2-fsdp"), ("dp2", "cp2-ring"), ("1", "cp2-fsdp2"), ("cp2-dp2-fsdp", "sp2")]
    for source in sorted({pair[0] for pair in pairs}):
        train(scratch, report, "gpt.yaml", f"from-{source}", *MESHES[source], "train.until=4 steps",
              "checkpoint.every=4 steps")
    for source, mesh in pairs:
        first, name = f"from-{source}", f"{source}-on-{mesh}"
        check_restored(scratch, report, "gpt.yaml", first, name, *MESHES[mesh])


def check_refused(scratch, report, recipes):
    cases = [("bert", recipes / "tiny/reviews_bert.yaml", [*MESHES["cp2"], "accelerator.reduction=bucketed"],
              "'cp' does not support the model 'bert', whose attention reads whole sequences"),
             ("bert", recipes / "tiny/reviews_bert.yaml", [*MESHES["sp2"], "accelerator.reduction=bucketed"],
              "use gpt or llama, or leave 'sp' out"),
             ("task", "gpt.yaml", [*MESHES["cp2"], "task=masked_lm"],
              "'cp' does not support the task 'masked_lm', whose loss reads whole sequences"),
             ("task", "gpt.yaml", [*MESHES["sp2"], "task=masked_lm"], "use causal_lm, or leave 'sp' out"),
             ("sp x tp", "gpt.yaml", [rank_runs.on(8), "accelerator.parallelism.sp=4", "accelerator.parallelism.tp=2"],
              "'sp' 4 x 'tp' 2 does not divide the model's 'num_heads' 4"),
             ("dropout", "gpt.yaml", [*MESHES["cp2-ring"], "model.dropout=0.1"],
              "'cp' does not support dropout of attention weights with 'cp_comm_strategy: ring'"),
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
        for name, recipe in (("gpt", GPT), ("llama", LLAMA)):
            (scratch.path / f"{name}.yaml").write_text(recipe.replace("FOLDER", str(recipes)))
        check_training(scratch, report)
        check_experts(scratch, report)
        check_packed(scratch, report, recipes)
        check_dropout(scratch, report)
        check_reshard(scratch, report)
        check_killed(scratch, report, "gpt.yaml", 4, "model.dropout=0.2", "model.attention_dropout=0",
                     *MESHES["cp2-fsdp2"])
        check_refused(scratch, report, recipes)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
