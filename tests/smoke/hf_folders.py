#!/usr/bin/env python3
"""A model continues from a Hugging Face folder, and its export continues from its end.

    hf_folders.py ACCEL_RUN RECIPES_FOLDER
"""

import json
import pathlib
import shutil
import struct
import sys
import zipfile

import runs

JOB = """
model: {type: auto, weights: theirs, dropout: 0, attention_dropout: 0, embedding_dropout: 0}
data:
  train: {type: synthetic/addition, length: 256}
  eval: {type: synthetic/addition, length: 64}
optimizer: {type: adamw, lr: 0.01}
train: {until: 6 steps, batch: 32}
eval: {every: 6 steps, at_start: true}
accelerator: {num_cpu_threads_per_process: 1}
"""


def evaluations(scratch, run):
    lines = (scratch.path / "runs" / run / "metrics.jsonl").read_text().splitlines()
    return [line["eval"]["eval/loss"] for line in map(json.loads, lines) if "eval" in line]


def check_export(scratch, report):
    report.check("it trains", scratch.call("job.yaml") == (0, ""))
    report.check("and learns", evaluations(scratch, "job")[-1] < evaluations(scratch, "job")[0])
    report.check("it is exported", scratch.call("export", "runs/job", "--to", "ours") == (0, ""))
    files = sorted(path.name for path in (scratch.path / "ours").iterdir())
    report.check("with its files", files == ["config.json", "generation_config.json", "model.safetensors"], files)
    config = json.loads((scratch.path / "ours/config.json").read_text())
    report.check("with what the folder had", config["summary_type"] == "cls_index" and config["n_inner"] == 12)
    result = scratch.call("job.yaml", "model.weights=ours", "name=again")
    report.check("it resumes from there", result == (0, ""), result)
    report.check("where it ended", evaluations(scratch, "again")[0] == evaluations(scratch, "job")[-1])
    scratch.call("export", "runs/job", "--to", "shards", "--max-shard-size", "4 KB")
    report.check("in shards", (scratch.path / "shards/model.safetensors.index.json").exists())
    scratch.call("job.yaml", "model.weights=shards", "name=from-shards")
    report.check("which are read", evaluations(scratch, "from-shards") == evaluations(scratch, "again"))


def check_tokenizer(scratch, recipes, report):
    """A tokenizer goes along, under the name that transformers looks for."""
    data = scratch.path / "data"
    shutil.copytree(recipes / "tiny/data", data, ignore=shutil.ignore_patterns("gpt2"))
    (scratch.path / "texts.yaml").write_text((recipes / "tiny/reviews_windows.yaml").read_text())
    own = (data / "reviews_tokenizer.json").read_bytes()
    (data / "merges.txt").write_text("another tokenizer's")
    scratch.call("texts.yaml", "train.until=1 step", "~expect")
    scratch.call("export", "runs/texts", "--to", "file")
    there = {path.name: path.read_bytes() for path in (scratch.path / "file").iterdir()}
    report.check("a tokenizer of any name is exported", there.get("tokenizer.json") == own, sorted(there))
    report.check("as what it is", b"PreTrainedTokenizerFast" in there.get("tokenizer_config.json", b""))
    report.check("without what lies beside it", "merges.txt" not in there)
    (data / "reviews_tokenizer.json").rename(data / "moved.json")
    code, errors = scratch.call("export", "runs/texts", "--to", "without")
    report.check("one that has moved is reported", (code, errors) == (0, f"warning: the tokenizer '{data}/reviews_tokenizer.json' no longer exists: the folder is without it\n"), errors)
    (data / "moved.json").rename(data / "reviews_tokenizer.json")
    (data / "folder").mkdir()
    (data / "folder/tokenizer.json").write_bytes(own)
    (data / "folder/tokenizer_config.json").write_text("{}")
    for kind, path in (("folder", "data/folder"), ("file-within", "data/folder/tokenizer.json")):
        both = [f"data.{split}.tokenizer={path}" for split in ("train", "eval")]
        scratch.call("texts.yaml", "train.until=1 step", "~expect", f"name={kind}", *both)
        scratch.call("export", f"runs/{kind}", "--to", kind)
        there = {path.name: path.read_bytes() for path in (scratch.path / kind).iterdir()}
        report.check(f"so is a {kind}, with what belongs to it", there.get("tokenizer.json") == own
                     and there.get("tokenizer_config.json") == b"{}", sorted(there))


def check_sentencepiece(scratch, recipes, report):
    """A .model file is a tokenizer, and keeps its kind."""
    own = recipes.parent / "tests/unit/text/golden/sentencepiece/unigram.model"
    shutil.copy(own, scratch.path / "data/pieces.model")
    both = [f"data.{split}.tokenizer=data/pieces.model" for split in ("train", "eval")]
    result = scratch.call("texts.yaml", "train.until=1 step", "~expect", "name=pieces", *both)
    report.check("a model of SentencePiece's makes tokens", result == (0, ""), result)
    scratch.call("export", "runs/pieces", "--to", "pieces")
    there = {path.name: path.read_bytes() for path in (scratch.path / "pieces").iterdir()}
    report.check("and goes along", there.get("tokenizer.model") == own.read_bytes() and "tokenizer.json" not in there,
                 sorted(there))
    report.check("for its vocabulary", json.loads(there["config.json"])["vocab_size"] == 200)


def check_labels(scratch, recipes, report):
    """The classes of a head have the names that the data has for them, also where another folder had others."""
    (scratch.path / "names.yaml").write_text((recipes / "tiny/names.yaml").read_text())
    scratch.call("names.yaml", "train.until=1 step", "~expect")
    scratch.call("export", "runs/names", "--to", "labels")
    config = json.loads((scratch.path / "labels/config.json").read_text())
    names = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]
    report.check("labels have names", config["architectures"] == ["BertForTokenClassification"]
                 and config["id2label"] == {str(i): name for i, name in enumerate(names)}
                 and config["label2id"] == {name: i for i, name in enumerate(names)}, config)
    config["id2label"] = {str(i): f"LABEL_{i}" for i in range(len(names))}
    (scratch.path / "labels/config.json").write_text(json.dumps(config))
    result = scratch.call("names.yaml", "train.until=1 step", "~expect", "name=labels",
                          "model!={type: auto, weights: labels}")
    report.check("a head for labels resumes", result[0] == 0 and not runs.besides_overlap(result[1]), result)
    scratch.call("export", "runs/labels", "--to", "again-labels")
    again = json.loads((scratch.path / "again-labels/config.json").read_text())
    report.check("under the data's names", list(again["id2label"].values()) == names, again)


def check_refusals(scratch, report):
    def refused(name, result, code, *words):
        found, errors = result
        report.check(name, found == code and all(word in errors for word in words), f"exit {found}\n{errors}")

    refused("nothing is written over", scratch.call("export", "runs/job", "--to", "ours"), 2,
            "'ours' already exists")
    (scratch.path / "mlp.yaml").write_text(runs.JOB)
    scratch.call("mlp.yaml", "train.until=1 step")
    refused("a model that transformers has not", scratch.call("export", "runs/mlp", "--to", "mlp"), 2,
            "transformers has no model for the type 'mlp'", "there is one for 'bert', 'clip'")
    report.check("and nothing was written", not (scratch.path / "mlp").exists())
    refused("other sizes", scratch.call("job.yaml", "model.num_layers=3", "name=x"), 2,
            "'num_layers' is 3 here and 2 in '")
    shutil.copytree(scratch.path / "theirs", scratch.path / "broken")
    (scratch.path / "broken/model.safetensors").write_bytes(b"no weights")
    refused("a damaged folder", scratch.call("job.yaml", "model.weights=broken", "name=x"), 3,
            "cannot read the weights '")
    report.check("before anything is written", not (scratch.path / "runs/x").exists())


def gguf_tensor(content, name):
    """The dimensions and the type of a tensor, by the bytes of its entry in a GGUF file."""
    entry = content.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name)
    count, = struct.unpack_from("<I", content, entry)
    *dimensions, kind = struct.unpack_from(f"<{count}QI", content, entry + 4)
    return dimensions, kind


def check_gguf_of_gpt(scratch, report):
    """Linear layers [out, in], which folders have transposed, and positions in F32."""
    scratch.call("job.yaml", "train.until=1 step", "name=gpt",
                 "model!={type: gpt, num_layers: 1, num_heads: 2, hidden_size: 32}")
    code, errors = scratch.call("export", "runs/gpt", "--to", "gpt.gguf")
    content = (scratch.path / "gpt.gguf").read_bytes()
    found = [gguf_tensor(content, name) for name in
             ("blk.0.attn_qkv.weight", "blk.0.ffn_down.weight", "blk.0.ffn_down.bias", "position_embd.weight")]
    report.check("a GPT-2 is written", code == 0 and b"gpt2.block_count" in content and found[:3] ==
                 [([32, 96], 1), ([128, 32], 1), ([32], 0)] and found[3][1] == 0, (errors, found))
    (scratch.path / "gpt.gguf").unlink()


def check_gguf(scratch, recipes, report):
    """A file for llama.cpp, or a refusal that leaves none; tests/interop/check_gguf.py reads such files."""
    (scratch.path / "llama.yaml").write_text((recipes / "tiny/llama.yaml").read_text())
    short = ("train.until=1 step", "data.train.length=64", "data.eval.length=8", "~expect", "~eval")
    scratch.call("llama.yaml", *short)
    result = scratch.call("export", "runs/llama", "--to", "model.gguf", "--gguf-type", "q8_0")
    report.check("a GGUF file is written", result == (
        0, "warning: the model has no tokenizer: llama.cpp takes its token ids, and no texts\n"), result)
    content = (scratch.path / "model.gguf").read_bytes()
    report.check("with its architecture", content.startswith(b"GGUF\3\0\0\0") and b"llama.block_count" in content
                 and b"blk.1.ffn_down.weight" in content)
    scratch.call("llama.yaml", *short, "name=big", "optimizer.lr=1000000", "model.intermediate_size=40")
    code, errors = scratch.call("export", "runs/big", "--to", "big.gguf", "--gguf-type", "q8_0")
    report.check("short rows are in F16", code == 2 and "warning: tensors in F16, because the length of their rows is not a"
                 " multiple of Q8_0's block of 32: 'blk.0.ffn_down.weight', 'blk.1.ffn_down.weight'\n" in errors, errors)
    shutil.copyfile(scratch.path / "data/reviews_tokenizer.json", scratch.path / "data/same.json")
    scratch.call("texts.yaml", "train.until=1 step", "~expect", "name=two", "data.eval.tokenizer=data/same.json",
                 "model.type=llama")
    cases = {
        "nothing is written over": (("runs/llama", "--to", "model.gguf"), "'model.gguf' already exists\n"
                                    "  hint: name a file that does not exist: nothing is overwritten"),
        "a target without a name": (("runs/llama", "--to", "", "--format", "gguf"), "the target has no name\n"
                                    "  hint: name a file that does not exist yet"),
        "a type of folders": (("runs/llama", "--to", "no", "--gguf-type", "q8_0"),
                              "'--gguf-type' has no effect on a folder for transformers\n"
                              "  hint: leave it out, or add '--format gguf'"),
        "two tokenizers": (("runs/two", "--to", "no.gguf"), "a GGUF file has one tokenizer, and the recipe names 2: '"),
        "shards of a file": (("runs/llama", "--to", "no", "--format", "gguf", "--max-shard-size", "1 MB"),
                             "'--max-shard-size' splits a folder, and a GGUF file is one"),
        "another activation": (("runs/job", "--to", "no.gguf"), "llama.cpp's models lack what this model has: "
                               "'activation' other than that of gpt2\n"),
        "another model": (("runs/labels", "--to", "no.gguf"), "GGUF files are supported for models of type 'gpt', 'llama' only\n"
                          "  hint: export a folder: '--format transformers'"),
        "a value beyond float16": (("runs/big", "--to", "no.gguf"), "beyond float16's 65504"),
    }
    for name, (words, message) in cases.items():
        code, errors = scratch.call("export", *words)
        report.check(f"refused: {name}", code == 2 and message in errors, f"exit {code}\n{errors}")
    left = [path.name for path in scratch.path.iterdir() if path.name.startswith((".no", "no")) or "gguf" in path.name]
    report.check("and nothing is left of them", left == ["model.gguf"], left)


def check_resume(scratch, report):
    """The checkpoint has the weights, but a run that started elsewhere is another one."""
    scratch.call("job.yaml", "name=more", "train.until=3 steps")
    shutil.copyfile(scratch.path / "ours/model.safetensors", scratch.path / "theirs/model.safetensors")
    code, errors = scratch.call("resume", "runs/more", "train.until=6 steps")
    report.check("other weights to start from are reported", code == 4 and "the model's initial weights have changed since the checkpoint" in errors,
                 errors)
    code, errors = scratch.call("resume", "runs/more", "train.until=6 steps", "--allow", "model.weights")
    report.check("and may be allowed", code == 0, errors)


EXPORTED = """
name: flowers
model: {type: exported, file: flowers.pt2}
data: {train: {type: csv, path: flowers.csv, target: kind, one_hot: {colour: []}}}
optimizer: {type: sgd, lr: 0.1}
train: {until: 3 steps, batch: 8}
"""


def check_exported(scratch, recipes, report):
    """An exported program is the model: another file is another one."""
    for name in ("flowers.pt2", "flowers.csv"):
        shutil.copyfile(recipes / "tiny/data" / name, scratch.path / name)
    (scratch.path / "flowers.yaml").write_text(EXPORTED)
    scratch.call("flowers.yaml")
    with zipfile.ZipFile(recipes / "tiny/data/flowers.pt2") as old, zipfile.ZipFile(scratch.path / "flowers.pt2", "w") as new:
        for name in old.namelist():
            new.writestr(zipfile.ZipInfo("other/" + name.split("/", 1)[1]), old.read(name))
    code, errors = scratch.call("resume", "runs/flowers", "train.until=6 steps")
    report.check("another program is reported", code == 4 and "the model's file has changed since the checkpoint" in errors, errors)
    code, errors = scratch.call("resume", "runs/flowers", "train.until=6 steps", "--allow", "model.file")
    report.check("and may be allowed too", code == 0, errors)


def main():
    binary, recipes = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    report = runs.Report()
    with runs.Scratch(binary, JOB) as scratch:
        shutil.copytree(recipes / "tiny/data/gpt2", scratch.path / "theirs")
        check_export(scratch, report)
        check_tokenizer(scratch, recipes, report)
        check_sentencepiece(scratch, recipes, report)
        check_labels(scratch, recipes, report)
        check_refusals(scratch, report)
        check_gguf_of_gpt(scratch, report)
        check_gguf(scratch, recipes, report)
        check_resume(scratch, report)
        check_exported(scratch, recipes, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
