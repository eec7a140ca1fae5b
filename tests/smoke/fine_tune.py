#!/usr/bin/env python3
"""Fine-tuning: frozen parts stay, computing twice changes no bit, adapters go out and come back.

    fine_tune.py ACCEL_RUN RECIPES_FOLDER
"""

import json
import pathlib
import shutil
import struct
import sys

import runs

JOB = """
model: {type: auto, weights: theirs}
data:
  train: {type: synthetic/addition, length: 256}
  eval: {type: synthetic/addition, length: 64}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.02}
train: {until: 8 steps, batch: 32}
eval: {every: 8 steps, at_start: true}
accelerator: {num_cpu_threads_per_process: 1}
checkpoint: {every: 4 steps}
"""
# No shape of the adapter's is one of the model's, and no dropout hides where a model continues.
LORA = ["model.lora={rank: 3, alpha: 9, target_modules: '*attn*'}", "model.dropout=0", "model.attention_dropout=0",
        "model.embedding_dropout=0"]


def tensors(path):
    """The bytes of each tensor of a safetensors file, by name."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    body = data[8 + size:]
    header = json.loads(data[8:8 + size])
    return {name: body[slice(*header[name]["data_offsets"])] for name in header if name != "__metadata__"}


def record(scratch, run):
    lines = (scratch.path / "runs" / run / "metrics.jsonl").read_text().splitlines()
    return [line for line in lines if '"loss_bits"' in line or '"eval"' in line]


def evaluations(scratch, run):
    lines = map(json.loads, record(scratch, run))
    return [line["eval"]["eval/loss"] for line in lines if "eval" in line]


def checkpoint(scratch, run, step=8):
    return scratch.path / "runs" / run / "checkpoints" / f"checkpoint_{step}"


def trained(scratch, run):
    """The names of the weights that differ between the run's two checkpoints."""
    first, last = (tensors(checkpoint(scratch, run, step) / "model.safetensors") for step in (4, 8))
    return {name for name in last if first[name] != last[name]}


def check_freezing(scratch, report):
    result = scratch.call("job.yaml", "name=frozen", "train.freeze=['*.mlp.*', '*.wte.*']", "optimizer.layer_decay=0.5")
    report.check("a run with frozen parts ends well", result == (0, ""), result)
    changed = trained(scratch, "frozen")
    report.check("they stay", changed and not [n for n in changed if ".mlp." in n or ".wte." in n], changed)
    code, errors = scratch.call("job.yaml", "name=x", "train.freeze=['*.mlpp.*']")
    report.check("a pattern without a match is reported where it is", code == 2 and "'*.mlpp.*' matches no parameter" in errors,
                 errors)
    code, errors = scratch.call("job.yaml", "name=x", "train.freeze='*'")
    report.check("so is one that leaves nothing", code == 2 and "'freeze' leaves no parameter to train" in errors, errors)
    report.check("before anything is written", not (scratch.path / "runs/x").exists())


def check_recomputing(scratch, report):
    scratch.call("job.yaml", "name=once")
    scratch.call("job.yaml", "name=twice", "train.activation_checkpointing=blocks")
    report.check("computing blocks twice changes no bit", record(scratch, "once") == record(scratch, "twice"))
    weights = [(checkpoint(scratch, run) / "model.safetensors").read_bytes() for run in ("once", "twice")]
    report.check("of the weights either", weights[0] == weights[1])
    (scratch.path / "mlp.yaml").write_text(runs.JOB)
    code, errors = scratch.call("mlp.yaml", "name=x", "train.activation_checkpointing=blocks")
    alone = scratch.call("job.yaml", "name=x", "train.activation_cpu_offload=true")
    report.check("offload without recomputation is refused", alone[0] == 2 and
                 "'activation_cpu_offload' wants 'activation_checkpointing', which is none" in alone[1], alone)
    scratch.call("job.yaml", "name=offloaded", "train.activation_checkpointing=blocks", "train.activation_cpu_offload=true")
    about = next(line["about"] for line in map(json.loads, (scratch.path / "runs/offloaded/metrics.jsonl").open())
                 if "about" in line)
    report.check("a run on the CPU says that it does not offload",
                 about.get("offload") == "activations: no effect, training is on the CPU", about)
    report.check("a model without blocks is reported", code == 2 and "the model 'mlp' has no blocks" in errors, errors)


def check_adapter(scratch, report):
    result = scratch.call("job.yaml", "name=lora", *LORA)
    report.check("an adapter is trained", result == (0, ""), result)
    changed = trained(scratch, "lora")
    report.check("and nothing else", len(changed) == 8 and all(".lora_" in name for name in changed), changed)
    end = evaluations(scratch, "lora")[-1]
    report.check("it learns", end < evaluations(scratch, "lora")[0])

    result = scratch.call("export", "runs/lora", "--to", "adapter")
    files = sorted(path.name for path in (scratch.path / "adapter").glob("*"))
    report.check("it is exported alone", files == ["adapter_config.json", "adapter_model.safetensors"], (result, files))
    again = [*LORA[1:], "model.lora={adapter: adapter}"]
    scratch.call("job.yaml", "name=again", *again)
    report.check("and continues where it ended", evaluations(scratch, "again")[0] == end)

    scratch.call("export", "runs/lora", "--to", "merged", "--merge")
    scratch.call("job.yaml", "name=merged", *LORA[1:], "model.weights=merged")
    difference = abs(evaluations(scratch, "merged")[0] - end)
    report.check("merged it computes the same", difference < 1e-5, difference)


def check_resume(scratch, report):
    """From the middle of a run, with dropout in the adapter, blocks computed twice and two ranks."""
    words = ["model.lora={rank: 2, dropout: 0.3}", "train.activation_checkpointing=blocks", "train.freeze=['*.h.0.*']",
             "accelerator.num_processes=2"]
    scratch.call("job.yaml", "name=straight", *words)
    scratch.call("job.yaml", "name=resumed", *words, "train.until=4 steps")
    result = scratch.call("resume", "runs/resumed", "train.until=8 steps", "--allow", "train.until")
    report.check("an adapter's run is resumed", result[0] == 0, result)
    files = ("model.safetensors", "optimizer.bin")
    same = [(checkpoint(scratch, "straight") / f).read_bytes() == (checkpoint(scratch, "resumed") / f).read_bytes()
            for f in files]
    report.check("bit for bit", same == [True, True], same)


def check_casting(scratch, report):
    """Adapters beside weights in fp8 and bf16, cast per layer: trained, resumed, merged and evaluated."""
    for storage in ("fp8_e4m3", "bf16"):
        words = [*LORA, f"model.quantization={{type: {storage}}}"]
        straight, resumed = f"straight-{storage}", f"resumed-{storage}"
        result = scratch.call("job.yaml", f"name={straight}", *words)
        report.check(f"an adapter beside {storage} is trained", result == (0, "") and
                     evaluations(scratch, straight)[-1] < evaluations(scratch, straight)[0], result)
        scratch.call("job.yaml", f"name={resumed}", *words, "train.until=4 steps")
        result = scratch.call("resume", f"runs/{resumed}", "train.until=8 steps", "--allow", "train.until")
        same = [(checkpoint(scratch, straight) / f).read_bytes() == (checkpoint(scratch, resumed) / f).read_bytes()
                for f in ("model.safetensors", "optimizer.bin")]
        report.check("and resumed bit for bit", result[0] == 0 and same == [True, True], (result, same))
        merged = f"merged-{storage}"
        result = scratch.call("export", f"runs/{straight}", "--to", merged, "--merge")
        scratch.call("job.yaml", f"name={merged}", *LORA[1:], f"model.weights={merged}")
        difference = abs(evaluations(scratch, merged)[0] - evaluations(scratch, straight)[-1])
        report.check("merged it computes the same", difference < 1e-5, (result, difference))


def check_program(scratch, report):
    """An exported program's adapter, taken out and put in again."""
    (scratch.path / "flowers.yaml").write_text((scratch.recipes / "tiny/exported.yaml").read_text())
    shutil.copytree(scratch.recipes / "tiny/data", scratch.path / "data", dirs_exist_ok=True)
    words = ["train.until=8 steps", "eval.every=8 steps", "eval.at_start=true", "checkpoint.every=4 steps", "~expect"]
    result = scratch.call("flowers.yaml", "name=program", "model.lora={rank: 2, alpha: 8, modules_to_save: 'body.1.*'}", *words)
    report.check("a program's adapter is trained", result == (0, ""), result)
    result = scratch.call("export", "runs/program", "--to", "flowers")
    files = sorted(path.name for path in (scratch.path / "flowers").glob("*"))
    report.check("and exported alone", files == ["adapter_config.json", "adapter_model.safetensors"], (result, files))
    still = ["optimizer={type: sgd, lr: 1e-30}"]  # changes no bit
    result = scratch.call("flowers.yaml", "name=still", "model.lora={adapter: flowers}", *words, *still)
    one, other = (tensors(checkpoint(scratch, run) / "model.safetensors") for run in ("program", "still"))
    # The checkpoint has the additional trained module with its running statistics.
    statistics = ("body.1.running_mean", "body.1.running_var", "body.1.num_batches_tracked")
    differing = [name for name in one if one[name] != other[name] and name not in statistics]
    report.check("it continues where it ended", result == (0, "") and not differing, (result, differing))
    report.check("as its evaluation reports", evaluations(scratch, "still")[0] == evaluations(scratch, "program")[-1])
    scratch.call("flowers.yaml", "name=onward", "model.lora={adapter: flowers}", *words)
    scratch.call("flowers.yaml", "name=halved", "model.lora={adapter: flowers}", *words, "--stop-after", "4")
    result = scratch.call("resume", "runs/halved")
    weights = [(checkpoint(scratch, run) / "model.safetensors").read_bytes() for run in ("onward", "halved")]
    report.check("resumed it ends as the run left alone", result[0] == 0 and weights[0] == weights[1], result)
    code, errors = scratch.call("export", "runs/program", "--to", "x", "--merge")
    report.check("but is not merged here", code == 2 and "transformers has no model for an exported program" in errors
                 and not (scratch.path / "x").exists(), errors)


CLASSIFIER = """
model: {type: auto, weights: masked, num_labels: auto}
task: classification
data:
  train: {type: jsonl, path: RECIPES/tiny/data/reviews.jsonl, target: label, max_length: 24,
          tokenizer: RECIPES/tiny/data/reviews_tokenizer.json}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.01}
train: {until: 8 steps, batch: 8}
accelerator: {num_cpu_threads_per_process: 1}
checkpoint: {every: 2 steps}
"""


def check_new_head(scratch, report):
    """A head that the folder lacks is initialized once: a resumed run has that of the checkpoint."""
    masked = str(scratch.recipes / "tiny/reviews_masked.yaml")
    scratch.call(masked, "name=masked", "train.until=2 steps", "~eval", "~expect", "~data.eval")
    result = scratch.call("export", "runs/masked", "--to", "masked")
    recipe = CLASSIFIER.replace("RECIPES", str(scratch.recipes)).replace(", num_labels: auto", "")
    (scratch.path / "classes.yaml").write_text(recipe)
    whole = scratch.call("classes.yaml", "name=headed")
    report.check("a folder without the head is fine-tuned", whole[0] == 0 and whole[1].count("masked' and new: 'classifier.") == 1,
                 (result, whole))
    scratch.call("classes.yaml", "name=reheaded", "--stop-after", "4")
    code, errors = scratch.call("resume", "runs/reheaded")
    weights = [(checkpoint(scratch, run) / "model.safetensors").read_bytes() for run in ("headed", "reheaded")]
    report.check("and resumed", code == 0 and "and new" not in errors and weights[0] == weights[1], errors)


def check_refusals(scratch, report):
    for name, words, text in (
            ("nothing to merge", ["runs/once", "--to", "x", "--merge"], "'--merge' merges an adapter, and this model has none"),
            ("nothing to cut", ["runs/lora", "--to", "x", "--max-shard-size", "1 KB"], "an adapter is one file")):
        code, errors = scratch.call("export", *words)
        report.check(f"{name} is reported", code == 2 and text in errors, errors)
    report.check("nothing is written then", not (scratch.path / "x").exists())


def main():
    binary, recipes = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    report = runs.Report()
    with runs.Scratch(binary, JOB) as scratch:
        shutil.copytree(recipes / "tiny/data/gpt2", scratch.path / "theirs")
        check_freezing(scratch, report)
        check_recomputing(scratch, report)
        check_adapter(scratch, report)
        check_resume(scratch, report)
        check_casting(scratch, report)
        scratch.recipes = recipes
        check_program(scratch, report)
        check_new_head(scratch, report)
        check_refusals(scratch, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
