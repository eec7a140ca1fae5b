#!/usr/bin/env python3
"""evaluate gives the numbers of the training, and predict what the model makes of each row.

    apply.py ACCEL_RUN RECIPES_FOLDER
"""

import csv
import json
import pathlib
import shutil
import subprocess
import sys

import runs

TABLE = """
model: {type: mlp, hidden_sizes: [16]}
data:
  train: {type: csv, path: data/flowers.csv, target: kind, one_hot: {colour: [red, white, blue]}}
  eval: {type: csv, path: data/flowers.csv, target: kind, one_hot: {colour: [red, white, blue]}, head: 48}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.02}
train: {until: 30 steps, batch: 16}
eval: {every: 10 steps}
"""


def ask(scratch, *words, given=""):
    """(exit code, standard output, standard error)."""
    done = subprocess.run([scratch.binary, *words], cwd=scratch.path, text=True, input=given,
                          env=runs.ENVIRONMENT, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def own_evaluations(run):
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line["eval"] for line in lines if "eval" in line}


def check_same(scratch, report, name, run, step):
    """The same bits as the run's own evaluation at that step."""
    code, out, errors = ask(scratch, "evaluate", f"{run}/checkpoints/checkpoint_{step}", "--json")
    found = json.loads(out) if code == 0 else {}
    wanted = own_evaluations(scratch.path / run)[step]
    report.check(f"evaluate is the training's own: {name}", {key: found.get(key) for key in wanted} == wanted
                 and found.get("step") == step, f"{found} {wanted} {errors}")


def check_evaluate(scratch, report):
    every = ["checkpoint.every=8 steps", "checkpoint.keep.last=9"]
    scratch.call("job.yaml", *every, "callbacks={type: ema, decay: 0.9}")
    check_same(scratch, report, "the last step", "runs/job", 24)
    check_same(scratch, report, "an earlier one, by an average of weights", "runs/job", 8)
    code, out, _ = ask(scratch, "evaluate", "runs/job")
    report.check("in words too", code == 0 and out.startswith("runs/job/checkpoints/checkpoint_24: 32 samples\n"
                                                              "  eval/accuracy  "), out)
    scratch.call("job.yaml", "name=ranks", "accelerator.num_processes=2", "train.until=8 steps")
    check_same(scratch, report, "of two ranks", "runs/ranks", 8)
    shutil.copy(scratch.recipes / "tiny/rhyme_text.yaml", scratch.path)
    scratch.call("rhyme_text.yaml", "train.until=5 steps", "~expect")
    check_same(scratch, report, "in bf16", "runs/rhyme_text", 5)


def check_table(scratch, report):
    (scratch.path / "table.yaml").write_text(TABLE)
    code, errors = scratch.call("table.yaml")
    report.check("a table trains", code == 0, errors)
    rows = list(csv.DictReader((scratch.path / "data/flowers.csv").open()))
    code, out, errors = ask(scratch, "evaluate", "runs/table", "--data", "path=data/flowers.csv", "--json")
    accuracy = json.loads(out)["eval/accuracy"] if code == 0 else None
    report.check("it is evaluated on the whole file", code == 0 and json.loads(out)["samples"] == len(rows), errors)
    code, _, errors = ask(scratch, "predict", "runs/table", "--input", "data/flowers.csv", "--output", "out.jsonl",
                          "--probabilities")
    found = [json.loads(line) for line in (scratch.path / "out.jsonl").read_text().splitlines()]
    right = sum(row["kind"] == line["class"] for row, line in zip(rows, found, strict=True))
    report.check("predict is as often right", right / len(rows) == accuracy, f"{right} of {len(rows)}, {accuracy}")
    report.check("row by row", [line["row"] for line in found] == list(range(len(rows))))
    report.check("probabilities sum to 1", all(abs(sum(line["probabilities"].values()) - 1) < 1e-5 and
                                               max(line["probabilities"].values()) == line["probability"]
                                               for line in found))
    text = "petal,sepal,colour\n" + "".join(f"{row['petal']},{row['sepal']},{row['colour']}\n" for row in rows)
    code, out, errors = ask(scratch, "predict", "runs/table", "--input", "-", given=text)
    same = [(json.loads(line)["class"], json.loads(line)["probability"]) for line in out.splitlines()]
    report.check("without targets, from standard input", same == [(line["class"], line["probability"]) for line in found],
                 errors)
    code, errors = scratch.call("table.yaml", "name=vectors", "task=regression", "data.transform=[one_hot]")
    report.check("classes as one-hot vectors train", code == 0, errors)
    outputs = [ask(scratch, "predict", "runs/vectors", "--input", "data/flowers.csv"),
               ask(scratch, "predict", "runs/vectors", "--input", "-", given=text)]
    lengths = [[len(json.loads(line)["prediction"]) for line in out.splitlines()] for _, out, _ in outputs]
    report.check("predict needs no one-hot targets", outputs[0][1] == outputs[1][1] and lengths[0] == [2] * len(rows),
                 f"{outputs[0][2]}{outputs[1][2]}")
    code, _, errors = ask(scratch, "predict", "runs/table", "--input", "-", given="petal,colour\n1,red\n")
    report.check("a refusal names standard input", code == 3 and "standard input lacks the column 'sepal' of the training data" in errors, errors)
    scratch.call("table.yaml", "name=open", "train.until=2 steps", "data.train.one_hot={colour: []}",
                 "data.eval.one_hot={colour: []}")
    code, out, errors = ask(scratch, "predict", "runs/open", "--input", "data/flowers.csv")
    report.check("categories are those of the training data", code == 0 and len(out.splitlines()) == len(rows), errors)
    code, _, errors = ask(scratch, "predict", "runs/table", "--input", "data/flowers.csv", "--data", "one_hot.colour=[]")
    report.check("categories must be known", code == 2 and "'one_hot' has no values for 'colour'" in errors, errors)
    code, out, errors = ask(scratch, "predict", "runs/open", "--input", "data/flowers.csv",
                            "--data", "one_hot.colour=[red, white, blue]")
    report.check("and can be given", code == 0 and len(out.splitlines()) == len(rows), errors)


OWN_LLAMA = """
model: {type: llama, num_layers: 1, qk_norm: true, mlp_bias: true}
data: {train: {type: synthetic/addition, length: 64}}
train: {until: 2 steps, batch: 16}
log: {plan: false}
"""


def check_export(scratch, report):
    """Models that transformers lacks are named at the start; a model of characters has no tokenizer to miss."""
    code, out, errors = ask(scratch, "export", "runs/rhyme_text", "--to", "rhyme")
    report.check("a model of bytes is exported without a warning", code == 0 and errors == "", out + errors)
    (scratch.path / "own.yaml").write_text(OWN_LLAMA)
    code, out, errors = ask(scratch, "own.yaml")
    report.check("what transformers has no model for: stated at the start", code == 0 and
                 "\n  export     not possible: transformers has no model with these options together: 'qk_norm', "
                 "'mlp_bias'; docs/models.md has a table of the options of each family\n" in out, out + errors)
    code, out, errors = ask(scratch, "own.yaml", "name=experts", "model={type: llama, moe: {num_experts: 2, norm_topk_prob: false}}")
    report.check("also with experts", code == 0 and
                 "\n  export     not possible: transformers has no model with these options together: 'moe', "
                 "'qk_norm', 'mlp_bias'; " in out, out + errors)
    small = ("model={type: resnet, embedding_size: 4}", "train.until=2 steps", "log.plan=false", "~eval")
    code, out, errors = ask(scratch, "job.yaml", "name=small", *small)
    report.check("a ResNet of small images: its code is announced at the start", code == 0 and
                 "\n  export     with the model's code: transformers loads the folder with trust_remote_code=True\n" in out,
                 out + errors)
    code, out, errors = ask(scratch, "export", "runs/small", "--to", "small")
    report.check("it is exported with its code", code == 0 and out.endswith(
        "transformers loads it with trust_remote_code=True: the .py file has the model's code\n") and
        "modeling_small_image_resnet.py" in out, out + errors)
    code, out, errors = ask(scratch, "job.yaml", "name=again", "model!={type: auto, weights: small}", "train.until=1 steps",
                            "log.plan=false", "eval!={at_start: true}")
    report.check("and loads here", code == 0, out + errors)
    code, out, errors = ask(scratch, "evaluate", "runs/small", "--json")
    loaded = own_evaluations(scratch.path / "runs/again")[0]
    report.check("with the same evaluation", code == 0 and json.loads(out).items() >= loaded.items(), f"{out} {loaded}")
    code, out, errors = ask(scratch, "job.yaml", "name=large", *small, "model.stem=imagenet")
    report.check("one with the large stem needs no code", code == 0 and "\n  export " not in out, out + errors)
    code, out, errors = ask(scratch, "export", "runs/large", "--to", "large")
    report.check("and is exported", code == 0, out + errors)


def check_images(scratch, report):
    """One image, a folder and standard input; also for models that were trained on another format."""
    image = scratch.path / "data/bars/lying/0.png"
    shutil.copy(image, scratch.path / "bar.png")
    code, one, errors = ask(scratch, "predict", "runs/bars_images", "--input", "bar.png")
    line = json.loads(one) if code == 0 else {}
    report.check("a single image", code == 0 and line.get("name") == "bar.png" and line["class"] in ("lying", "upright"),
                 one + errors)
    with image.open("rb") as given:
        done = subprocess.run([scratch.binary, "predict", "runs/bars_images", "--input", "-"], cwd=scratch.path,
                              stdin=given, env=runs.ENVIRONMENT, capture_output=True, check=False)
    found = json.loads(done.stdout) if done.returncode == 0 else {}
    report.check("an image from standard input", found == {key: line[key] for key in line if key != "name"} != {},
                 done.stdout.decode() + done.stderr.decode())
    code, _, errors = ask(scratch, "predict", "runs/bars_images", "--input", "data/flowers.csv")
    report.check("a table is no image", code == 3 and "is not an image, a folder of images or a .tar of them\n" in errors, errors)
    code, _, errors = ask(scratch, "predict", "runs/bars_images", "--input", "-", given="a,b\n")
    report.check("nor on standard input", code == 3 and
                 errors.startswith("error: standard input is not an image, a folder of images or a .tar of them\n"), errors)
    code, out, errors = ask(scratch, "predict", "runs/job", "--input", "flat")
    report.check("a run on drawn digits reads images", code == 0 and len(out.splitlines()) == 2 and errors ==
                 "reading images: --data type=image_folder --data grayscale=true --data 'size=[28, 28]'\n", out + errors)
    code, out, errors = ask(scratch, "predict", "runs/job", "--input", "data/flowers.csv")
    report.check("but no table", (code, errors) == (2,
                 "error: the dataset 'synthetic/glyphs' of the recipe does not read 'data/flowers.csv'\n"
                 "  hint: add --data type=... for the format of the input, such as type=csv\n"), errors)


def check_arrays(scratch, report):
    """A .npy file of inputs needs no file of targets."""
    shutil.copy(scratch.recipes / "tiny/sums_npy.yaml", scratch.path)
    code, errors = scratch.call("sums_npy.yaml", "train.until=2 steps", "~expect")
    report.check("arrays train", code == 0, errors)
    code, out, errors = ask(scratch, "predict", "runs/sums_npy", "--input", "data/points.npy")
    report.check("predict reads the inputs alone", code == 0 and '"prediction"' in out, out + errors)


def check_tags(scratch, report):
    """Words without tags get some, each word one."""
    shutil.copy(scratch.recipes / "tiny/names.yaml", scratch.path)
    code, errors = scratch.call("names.yaml")
    report.check("names train", code == 0, errors)
    given = ({"tokens": ["Maria", "Lopez", "lives", "in", "Oslo"]}, {"tokens": ["nobody", "likes", "tea"]})
    code, out, errors = ask(scratch, "predict", "runs/names", "--input", "-", given="\n".join(map(json.dumps, given)))
    tags = [json.loads(line)["tags"] for line in out.splitlines()]
    report.check("each word has a tag", code == 0 and tags == [["B-PER", "I-PER", "O", "O", "B-LOC"], ["O"] * 3],
                 out + errors)


def check_kinds(scratch, report):
    """Images, numbers and texts."""
    for name in ("bars_images", "regression", "reviews_jsonl"):
        shutil.copy(scratch.recipes / f"tiny/{name}.yaml", scratch.path)
        code, errors = scratch.call(f"{name}.yaml", "train.until=6 steps", "~expect", "eval.every=6 steps")
        report.check(f"{name} trains", code == 0, errors)
    flat = scratch.path / "flat"
    flat.mkdir()
    for number in (0, 1):
        shutil.copy(scratch.path / f"data/bars/lying/{number}.png", flat / f"image {number}.png")
    code, out, errors = ask(scratch, "predict", "runs/bars_images", "--input", "flat")
    lines = [json.loads(line) for line in out.splitlines()]
    report.check("images of no class", code == 0 and [line["name"] for line in lines] == ["image 0.png", "image 1.png"]
                 and all(line["class"] in ("lying", "upright") for line in lines), out + errors)
    code, out, errors = ask(scratch, "predict", "runs/reviews_jsonl", "--input", "-", given='{"text": "a fine film"}\n')
    line = json.loads(out) if code == 0 else {}
    report.check("how likely a text is", line.get("tokens", 0) > 1 and line["loss"] > 0, out + errors)
    check_images(scratch, report)
    check_tags(scratch, report)
    code, out, errors = ask(scratch, "predict", "runs/bars_images", "--input", "data/flowers.csv")
    report.check("images are no table", code == 3, errors)


def check_hub(scratch, report):
    """A run on a folder of the hub is used on folders, on files, on lines and on files of other kinds."""
    (scratch.path / "hub/data").mkdir(parents=True)
    for split, name in (("train", "reviews"), ("test", "reviews_eval")):
        shutil.copy(scratch.path / f"data/{name}.jsonl", scratch.path / f"hub/data/{split}.jsonl")
    part = "{type: hf, path: hub, target: label, tokenizer: data/reviews_tokenizer.json, max_length: 24"
    (scratch.path / "hub.yaml").write_text(
        "model: {type: bert, num_layers: 1, num_heads: 2, hidden_size: 32}\ntask: classification\n"
        f"data: {{train: {part}}}, eval: {part}, split: test}}}}\ntrain: {{until: 6 steps, batch: 20}}\n")
    code, errors = scratch.call("hub.yaml")
    report.check("a dataset of the hub trains", code == 0, errors)
    reported = (scratch.path / "data/reviews_eval.jsonl").read_text()
    rows = [json.loads(line)["text"] for line in reported.splitlines()]
    (scratch.path / "reviews.tsv").write_text("text\n" + "\n".join(rows) + "\n")
    kept = None
    for name, words, given in (
            ("folder", ["--input", "hub"], ""), ("file", ["--input", "hub/data/test.jsonl"], ""),
            ("lines", ["--input", "-"], reported), ("table", ["--input", "reviews.tsv", "--data", "type=tsv", "--data", "header=true"], "")):
        code, out, errors = ask(scratch, "predict", "runs/hub", *words, given=given)
        kept = kept or out
        report.check(f"predict reads a {name}", code == 0 and out == kept and len(out.splitlines()) == len(rows), errors)
    code, out, errors = ask(scratch, "predict", "runs/hub", "--input", "hub", "--data", "split=train")
    report.check("and another split", code == 0 and len(out.splitlines()) == 200, errors)


def check_refusals(scratch, report):
    def refused(name, words, code, *wanted):
        found, _, errors = ask(scratch, *words)
        report.check(name, found == code and all(word in errors for word in wanted), f"exit {found}\n{errors}")

    refused("nothing is written over", ["predict", "runs/table", "--input", "data/flowers.csv", "--output", "out.jsonl"],
            2, "'out.jsonl' already exists")
    refused("other columns", ["predict", "runs/table", "--input", "data/flowers.csv", "--data", "features=[petal, colour]",
                              "--output", "x.jsonl"], 3, "but the model was trained on")
    report.check("leave nothing", not list(scratch.path.glob("x.jsonl*")))
    refused("no such input", ["predict", "runs/table", "--input", "data/flowers.cvs"], 3,
            "error: '--input' is 'data/flowers.cvs', which does not exist\n  hint: did you mean 'flowers.csv'?\n")
    refused("a folder for a file", ["predict", "runs/table", "--input", "data"], 3,
            "error: '--input' is 'data', which is a folder, not a file\n  hint: give a file in it, such as 'flowers.csv'\n")
    check_moved(scratch, refused)
    refused("an option that is none", ["evaluate", "runs/table", "--data", "pth=x"], 2, "unknown option 'pth'")
    scratch.call("job.yaml", "name=alone", "train.until=1 step", "~data.eval", "~eval")
    refused("no eval data", ["evaluate", "runs/alone"], 2, "the recipe of 'runs/alone' has no eval data")
    refused("a folder that is no checkpoint", ["evaluate", "data"], 4, "'data' is no checkpoint of accel-run: ")


def check_moved(scratch, refused):
    """Data that has gone is asked for by the flag that names it."""
    (scratch.path / "data/flowers.csv").rename(scratch.path / "data/moved.csv")
    refused("eval data that has gone", ["evaluate", "runs/table"], 3, "error: eval data: 'path' is "
            "'data/flowers.csv', which does not exist\n  hint: give the new path: --data path=...\n")
    (scratch.path / "data/moved.csv").rename(scratch.path / "data/flowers.csv")
    (scratch.path / "data/reviews_tokenizer.json").rename(scratch.path / "data/moved.json")
    reported = "error: 'tokenizer' is 'data/reviews_tokenizer.json', which does not exist\n  hint: "
    refused("a tokenizer that has gone", ["predict", "runs/reviews_jsonl", "--input", "data/reviews.jsonl"], 3,
            reported + "give the new path: --data tokenizer=...\n")
    refused("of a model that writes too", ["generate", "runs/reviews_jsonl", "--prompt", "a"], 3,
            reported + "name one with --tokenizer\n")


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1]) as scratch:
        scratch.recipes = pathlib.Path(sys.argv[2]).resolve()
        shutil.copytree(scratch.recipes / "tiny/data", scratch.path / "data", ignore=shutil.ignore_patterns("gpt2"))
        check_evaluate(scratch, report)
        check_export(scratch, report)
        check_table(scratch, report)
        check_kinds(scratch, report)
        check_arrays(scratch, report)
        check_hub(scratch, report)
        check_refusals(scratch, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
