#!/usr/bin/env python3
"""Encoder-decoders: ranks, sharding, precision and resume; targets of `generate`, `predict` and `evaluate`.

    seq2seq.py ACCEL_RUN RECIPES_FOLDER
"""

import json
import pathlib
import sys

import rank_runs
from rank_runs import check_close, diff, output_of, records, train

JOB = """
model: {type: t5, num_layers: 1, num_decoder_layers: 2, num_heads: 2, hidden_size: 32, head_dim: 12}
task: {type: seq2seq, predict_with_generate: true, generation_num_beams: 2}
data:
  train: {type: text_to_text, path: FOLDER/numbers.jsonl, tokenizer: FOLDER/numbers_tokenizer.json,
          max_source_length: 8, max_target_length: 8, limit: 88}
  eval: {type: text_to_text, path: FOLDER/numbers_eval.jsonl, tokenizer: FOLDER/numbers_tokenizer.json,
         max_source_length: 8, max_target_length: 8, limit: 13}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.005}
train: {until: 12 steps, batch: 16, micro_batch: 4, max_grad_norm: 1.0}
accelerator: {num_processes: 1, num_cpu_threads_per_process: 1}
eval: {every: 6 steps}
checkpoint: {every: 6 steps}
callbacks: [{type: generate, prompts: [four two], max_new_tokens: 6, temperature: 0}]
"""
LOSS_ONLY = "task!={type: seq2seq}"
TP = "accelerator.parallelism.tp=2"


def check_ranks(scratch, report):
    train(scratch, report, "job.yaml", "one")
    train(scratch, report, "job.yaml", "two", rank_runs.on(2))
    check_close(scratch, report, "one", "two")
    rank_runs.check_texts(scratch, report, "one", "two")
    one, two = (records(scratch, name, "eval") for name in ("one", "two"))
    far = max(abs(a[key] - b[key]) / max(abs(a[key]), 1e-9) for a, b in zip(one, two) for key in a)
    report.check(f"the evaluation of two ranks is {far:.1e} from that of one", len(one) == 2 and far < 1e-4, f"{one} {two}")
    train(scratch, report, "job.yaml", "zero2", rank_runs.on(2), "accelerator.fsdp.stage=2")
    check_close(scratch, report, "one", "zero2")
    train(scratch, report, "job.yaml", "zero3", rank_runs.on(2), "accelerator.fsdp.stage=3", LOSS_ONLY)
    check_close(scratch, report, "one", "zero3")
    train(scratch, report, "job.yaml", "checkpointed", "train.activation_checkpointing=blocks", "train.micro_batch=16")
    check_close(scratch, report, "one", "checkpointed")
    train(scratch, report, "job.yaml", "bf16", "accelerator.mixed_precision=bf16")
    far = rank_runs.apart(records(scratch, "one", "loss"), records(scratch, "bf16", "loss"))
    report.check(f"losses in bf16 are {far:.1e} from those in fp32", 0 < far < 0.05)
    train(scratch, report, "job.yaml", "lora", "model.lora={rank: 2}")


def check_tensor_parallel(scratch, report):
    """Ranks that divide heads and vocabulary generate the same targets; another mesh resumes their checkpoint."""
    train(scratch, report, "job.yaml", "tp2", rank_runs.on(2), TP)
    check_close(scratch, report, "one", "tp2")
    rank_runs.check_texts(scratch, report, "one", "tp2")
    one, two = (records(scratch, name, "eval") for name in ("one", "tp2"))
    far = max(abs(a[key] - b[key]) / max(abs(a[key]), 1e-9) for a, b in zip(one, two) for key in a)
    report.check(f"the evaluation of tp 2 is {far:.1e} from that of one", len(two) == 2 and far < 1e-4, f"{one} {two}")
    short = ["train.until=4 steps", "checkpoint.every=4 steps", LOSS_ONLY, "model.dropout=0.2"]
    train(scratch, report, "job.yaml", "tp2-short", rank_runs.on(2), TP, *short)
    rank_runs.check_restored(scratch, report, "job.yaml", "tp2-short", "one-from-tp2", *short[2:])
    rank_runs.check_restored(scratch, report, "job.yaml", "one-from-tp2", "tp2-again", rank_runs.on(2), TP, *short[2:])


def check_refused(scratch, report):
    for word, wanted in (("accelerator.parallelism.sequence_parallel=true", "'sequence_parallel'"),
                         ("accelerator.parallelism.pp=2", "'pp'"),
                         ("accelerator.parallelism.cp=2", "'cp'"), ("accelerator.parallelism.sp=2", "'sp'")):
        more = [TP] if "sequence" in word else []
        code, errors = scratch.call("job.yaml", "name=refused", rank_runs.on(2), word, *more)
        report.check(f"{word} is refused by name", code == 2 and wanted in errors, f"exit {code}: {errors}")
    code, errors = scratch.call("job.yaml", "name=refused", rank_runs.on(2), "accelerator.fsdp.stage=3")
    report.check("sharded weights cannot generate in evaluations",
                 code == 2 and "leave 'predict_with_generate' out" in errors, errors)


def check_meshes_of_verbs(scratch, report, folder):
    lines = (folder / "numbers_eval.jsonl").read_text().splitlines(keepends=True)
    (scratch.path / "few.jsonl").write_text("".join(lines[:13]))
    predict = ["predict", "runs/two", "--mesh", "--input", "few.jsonl"]
    alone = output_of(scratch, "predict", "runs/two", *predict[3:])
    report.check("two ranks predict what one does", output_of(scratch, *predict) == alone and '"row":12' in alone, alone)
    of_tensor = ["predict", "runs/tp2", "--input", "few.jsonl"]
    alone, divided = output_of(scratch, *of_tensor), output_of(scratch, *of_tensor, "--mesh")
    report.check("so do two ranks of tp", alone == divided and '"row":12' in alone, divided)
    errors = output_of(scratch, *predict, "accelerator.fsdp.stage=3", LOSS_ONLY, "eval.metrics!=[perplexity]")
    report.check("sharded weights cannot generate in predict",
                 errors.startswith("exit 2") and "use stage 2" in errors, errors)


def check_resumed(scratch, report):
    words = ["model.dropout=0.2", "data.loader.group_by_length=true"]
    train(scratch, report, "job.yaml", "whole", *words)
    train(scratch, report, "job.yaml", "parts", *words, "train.until=6 steps")
    train(scratch, report, "job.yaml", "parts", *words, "--allow", "train.until")
    found = diff(scratch, "runs/whole/checkpoints/checkpoint_12", "runs/parts/checkpoints/checkpoint_12")
    report.check("a resumed run ends with the bits of the whole one", found == "", found)


def check_verbs(scratch, report, folder):
    train(scratch, report, "job.yaml", "learnt", "train.until=40 epochs", "eval.every=20 epochs", "checkpoint.every=20 epochs",
          "data.train.limit=null", "optimizer.lr=0.01", "scheduler={type: linear, warmup: 10%}")
    scores = records(scratch, "learnt", "eval")[-1]
    report.check("it learns", scores["eval/rougeL"] > 0.8, str(scores))
    rows = [json.loads(line) for line in (folder / "numbers_eval.jsonl").read_text().splitlines()][:13]
    lines = output_of(scratch, "predict", "runs/learnt", "--input", "few.jsonl").splitlines()
    found = [json.loads(line).get("prediction") for line in lines]
    right = sum(a == row["target"] for a, row in zip(found, rows)) / len(rows)
    report.check("predictions are targets", len(found) == 13 and right > 0.5, f"{found}")
    sources = [word for row in rows[:2] for word in ("--prompt", row["source"])]
    beams = [*sources, "--temperature", "0", "--num-beams", "2", "--max-new-tokens", "8"]
    texts = output_of(scratch, "generate", "runs/learnt", *beams)
    report.check("`generate` writes the targets alone", texts.splitlines() == found[:2], texts)
    lines = output_of(scratch, "generate", "runs/learnt", *beams, "--json").splitlines()
    report.check("`generate --json` has the sources too",
                 [json.loads(line)["prompt"] for line in lines] == [row["source"] for row in rows[:2]], str(lines))
    text = output_of(scratch, "evaluate", "runs/learnt", "--json")
    report.check("`evaluate` gives the run's scores", f'"eval/bleu":{scores["eval/bleu"]}' in text.replace(": ", ":"), text)
    report.check("export writes a T5", output_of(scratch, "export", "runs/learnt", "--to", "folder").startswith("exit") is False)
    config = json.loads((scratch.path / "folder/config.json").read_text())
    report.check("its config has transformers' keys", config["d_kv"] == 12 and config["num_decoder_layers"] == 2, str(config))
    generation = json.loads((scratch.path / "folder/generation_config.json").read_text())
    report.check("and its generation config the tokens without which transformers does not begin", generation == {
        "_from_model_config": True, "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}, str(generation))
    texts = output_of(scratch, "generate", "folder", *beams)
    report.check("`generate` of the folder writes the same", texts.splitlines() == found[:2], texts)


def main():
    folder = pathlib.Path(sys.argv[2]).resolve() / "tiny/data"
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(sys.argv[1], JOB.replace("FOLDER", str(folder))) as scratch:
        check_ranks(scratch, report)
        check_tensor_parallel(scratch, report)
        check_refused(scratch, report)
        check_meshes_of_verbs(scratch, report, folder)
        check_resumed(scratch, report)
        check_verbs(scratch, report, folder)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
