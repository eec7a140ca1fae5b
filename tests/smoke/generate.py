#!/usr/bin/env python3
"""A trained language model writes, during its training and after it.

    generate.py ACCEL_RUN RECIPES_FOLDER
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import runs

JOB = """
model: {type: gpt, num_layers: 1, num_heads: 2, hidden_size: 32, dropout: 0.1}
data:
  train: {type: text, path: data/rhyme.txt, level: chars, max_seq_len: 16, stride: 4, to: 0.9}
  eval: {type: text, path: data/rhyme.txt, level: chars, max_seq_len: 16, from: 0.9}
optimizer: {type: adamw, lr: 0.01}
train: {until: 12 steps, batch: 16}
accelerator: {num_cpu_threads_per_process: 1}
eval: {every: 6 steps}
"""
SAMPLES = "callbacks={type: generate, prompts: [the, a], max_new_tokens: 40, every: 6 steps}"


def say(scratch, *words, given=None):
    """(exit code, standard output, standard error)."""
    done = subprocess.run([scratch.binary, "generate", *words], cwd=scratch.path, text=True, input=given or "",
                          env=runs.ENVIRONMENT, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def texts_of(run):
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()
              if '"event":"text"' in line]
    return [(event["step"], event["text"]) for event in events]


def check_sampled_texts(scratch, report):
    """What is written during the training changes nothing of it."""
    report.check("a run trains", scratch.call("job.yaml", "model.dropout=0.2")[0] == 0)
    plain = scratch.exact_lines()
    shutil.rmtree(scratch.path / "runs")
    code, errors = scratch.call("job.yaml", "model.dropout=0.2", SAMPLES)
    report.check("another writes on its way", code == 0, errors)
    report.check("with the same losses", scratch.exact_lines() == plain)
    written = texts_of(scratch.run)
    report.check("at the steps asked for", [step for step, _ in written] == [6, 6, 12, 12], written)
    report.check("behind its prompts", written[2][1].startswith("generated/0: the") and
                 written[3][1].startswith("generated/1: a"), written)
    samples = [text.split(": ", 1)[1] for _, text in written[2:]]
    code, errors = scratch.call("job.yaml", "name=halves", "model.dropout=0.2", SAMPLES, "train.until=6 steps")
    code, errors = scratch.call("resume", "runs/halves", "train.until=12 steps")
    halves = scratch.path / "runs/halves"
    report.check("a resumed run writes the same", code == 0 and texts_of(halves) == written, errors)
    shutil.rmtree(halves)
    return samples


def check_run(scratch, report, samples):
    words = ["runs/job", "--prompt", "the", "--prompt", "a", "--max-new-tokens", "40"]
    code, out, errors = say(scratch, *words)
    report.check("its last checkpoint writes the same", (code, out) == (0, "".join(text + "\n" for text in samples)),
                 out + errors)
    report.check("so does one by name", say(scratch, "runs/job/checkpoints/checkpoint_12", *words[1:])[1] == out)
    report.check("another seed writes something else", say(scratch, *words, "--seed", "7")[1] != out)
    greedy = say(scratch, *words, "--temperature", "0")[1]
    report.check("the likeliest is the likeliest with any seed",
                 greedy == say(scratch, *words, "--top-k", "1", "--seed", "7")[1], greedy)
    report.check("which is the smallest nucleus", greedy == say(scratch, *words, "--top-p", "1e-9")[1])
    (scratch.path / "prompts.txt").write_text("the\na\n")
    report.check("prompts come from a file", say(scratch, "runs/job", "--prompt-file", "prompts.txt",
                                                 "--max-new-tokens", "40")[1] == out)
    report.check("or from standard input", say(scratch, "runs/job", "--prompt-file", "-", "--max-new-tokens", "40",
                                               given="the\na\n")[1] == out)
    report.check("whose lines may end with CRLF", say(scratch, "runs/job", "--prompt-file", "-", "--max-new-tokens", "40",
                                                      given="the\r\na\r\n")[1] == out)
    line = json.loads(say(scratch, *words, "--json")[1].splitlines()[0])
    report.check("as JSON", line == {"prompt": "the", "text": samples[0][3:], "tokens": 40, "end": "length",
                                          "token_ids": line["token_ids"]} and len(line["token_ids"]) == 40, line)
    (scratch.path / "data").rename(scratch.path / "elsewhere")
    report.check("the data need not be there", say(scratch, *words)[:2] == (0, out))
    (scratch.path / "elsewhere").rename(scratch.path / "data")


def check_tokens(scratch, report):
    """By byte and by token, and what is exported writes what the run does."""
    code, errors = scratch.call("job.yaml", "name=bytes", "data.train.level=bytes", "data.eval.level=bytes")
    code, out, errors = say(scratch, "runs/bytes", "--prompt", "the ", "--max-new-tokens", "50")
    report.check("a model of bytes writes", code == 0 and out.startswith("the "), errors)
    (scratch.path / "texts.yaml").write_text((scratch.recipes / "tiny/reviews_windows.yaml").read_text())
    scratch.call("texts.yaml", "train.until=30 steps", "~expect", "callbacks={type: ema, decay: 0.5}", "name=tokens")
    words = ["--prompt", "the film", "--temperature", "0", "--max-new-tokens", "30", "--json"]
    code, out, errors = say(scratch, "runs/tokens", *words)
    report.check("so does one of tokens", code == 0 and json.loads(out)["text"], out + errors)
    code, errors = scratch.call("tokenizer", "train", "data/rhyme.txt", "--vocab-size", "280", "--out", "pairs")
    both = [f"data.{split}.{option}" for split in ("train", "eval") for option in ("level=tokens", "tokenizer=pairs")]
    code, errors = scratch.call("job.yaml", "name=plain", *both)
    code, errors = scratch.call("export", "runs/plain", "--to", "folder")
    report.check("and a folder for transformers", say(scratch, "folder", *words)[1] ==
                 say(scratch, "runs/plain", *words)[1] != "", errors)
    (scratch.path / "folder/generation_config.json").unlink()
    older = json.loads((scratch.path / "folder/config.json").read_text())
    (scratch.path / "folder/config.json").write_text(json.dumps({**older, "repetition_penalty": 1.5}))
    code, out, errors = say(scratch, "folder", *words)
    report.check("which may have its generation config in config.json", code == 0 and
                 "generation config of folder/config.json: repetition_penalty: 1.5\n" in errors and
                 out == say(scratch, "runs/plain", *words, "--repetition-penalty", "1.5")[1], out + errors)
    (scratch.path / "folder/config.json").write_text(json.dumps(older))
    (scratch.path / "all.json").write_text('{"": "disk"}')
    code, out, errors = say(scratch, "folder", *words, "--device-map", "all.json")
    report.check("whose transposed matrices cannot be mapped", code == 2 and not out and
                 "' cannot stay on the disk: its file has another type or layout" in errors, out + errors)
    whole = say(scratch, "folder", *words)[1]
    report.check("but offloaded", say(scratch, "folder", *words, "--device-map", "all.json", "--offload", "own")[1] == whole != "")


def check_config(scratch, report):
    """Generation configs by file and by flag, and batches."""
    words = ["runs/job", "--prompt", "the", "--prompt", "a cat", "--prompt", "o", "--max-new-tokens", "20"]
    alone = say(scratch, *words, "--batch-size", "1")[1]
    report.check("a batch has the texts of its prompts alone",
                 alone.count("\n") >= 3 and say(scratch, *words, "--batch-size", "2", "--prefill-chunk", "2")[1] == alone)
    (scratch.path / "own.json").write_text('{"do_sample": true, "top_k": 3, "max_new_tokens": 6, "stop_strings": "q!"}')
    code, out, errors = say(scratch, "runs/job", "--prompt", "the", "--generation-config", "own.json", "--json")
    report.check("a config of a file is used and printed", code == 0 and json.loads(out)["tokens"] == 6 and
                 "generation config of own.json: do_sample: true, top_k: 3" in errors, out + errors)
    plain = json.loads(say(scratch, "runs/job", "--prompt", "the", "--temperature", "0", "--json")[1])
    stop = plain["text"][4:6]
    line = json.loads(say(scratch, "runs/job", "--prompt", "the", "--temperature", "0", "--json", "--stop", stop)[1])
    report.check("a stop string ends a text", line["end"] == "stop" and line["text"].endswith(stop) and
                 plain["text"].startswith(line["text"]), line)
    beams = say(scratch, "runs/job", "--prompt", "the", "--num-beams", "3", "--max-new-tokens", "8")
    report.check("beam search needs no other flag", beams[0] == 0 and len(beams[1]) == len("the") + 8 + 1, beams)


def talk(scratch, *words, given=""):
    done = subprocess.run([scratch.binary, "chat", *words], cwd=scratch.path, text=True, input=given,
                          env=runs.ENVIRONMENT, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def check_chat(scratch, report):
    """A conversation on pipes."""
    (scratch.path / "chat.yaml").write_text((scratch.recipes / "tiny/chat.yaml").read_text())
    scratch.call("chat.yaml", "train.until=2 steps", "~expect", "~callbacks")
    words = ["runs/chat", "--temperature", "0", "--max-new-tokens", "4"]
    code, out, errors = talk(scratch, *words, given="one more than 3?\n/nope\n/reset\none more than 3?\n")
    lines = out.splitlines()
    report.check("chat answers each message, a new conversation the same",
                 code == 0 and len(lines) == 2 and lines[0] == lines[1], out + errors)
    report.check("and names its commands", "there is no command '/nope'" in errors, errors)
    report.check("its lines may end with CRLF", talk(scratch, *words, given="one more than 3?\r\n/exit\r\na\r\n")[:2] ==
                 (0, lines[0] + "\n"))
    report.check("/exit ends it", talk(scratch, *words, given="/exit\none more than 3?\n")[:2] == (0, ""))
    code, out, errors = talk(scratch, *words, given="one more than 3? " * 30 + "\n")
    report.check("a long conversation is read from its end", code == 0 and
                 re.search(r"warning: the conversation has \d+ tokens; the model reads the last 96", errors), errors)
    code, out, errors = talk(scratch, "runs/job")
    report.check("a model without a tokenizer has no template", code == 2 and
                 "the model of 'runs/job' has no tokenizer, and so no chat template" in errors, errors)


def check_placement(scratch, report):
    """Weights on the disk, and what cannot be placed."""
    words = ["runs/job", "--prompt", "the", "--prompt", "a cat", "--max-new-tokens", "20"]
    whole = say(scratch, *words)[1]
    for name, text in {"disk": '{"": "disk"}', "list": "[1]", "part": '{"transformer.h.0": "cpu"}',
                       "wrong": '{"": "cpu", "transformer.layers": "disk"}', "cpu": '{"": "cpu"}', "norm": '{"": "cpu", "transformer.ln_f": "disk"}',
                       "gpu": '{"": 7}'}.items():
        (scratch.path / f"{name}.json").write_text(text)
    code, out, errors = say(scratch, *words, "--device-map", "disk.json")
    report.check("weights on the disk write the same", code == 0 and out == whole, out + errors)
    report.check("and print where they are and what was read", "device map (disk.json):\n  disk  the model" in errors
                 and re.search(r"streamed .* a pass: predicted .* s, measured .* s; ", errors), errors)
    code, out, errors = say(scratch, *words, "--device-map", "sequential", "--max-memory", "cpu=1GiB")
    report.check("a limit that suffices streams nothing", (code, out) == (0, whole) and "streamed" not in errors, errors)

    def refused(name, flags, *wanted):
        code, out, errors = say(scratch, *words, *flags)
        report.check(name, code == 2 and not out and all(word in errors for word in wanted), f"exit {code}\n{errors}")

    refused("a device of another kind", ["--max-memory", "tpu=1GB"],
            "'--max-memory' has the device 'tpu'", "devices are cpu, disk and the numbers of GPUs")
    refused("a GPU of a file", ["--device-map", "gpu.json"], "'--device-map' has GPU 7, and a process computes on one, GPU 0")
    refused("no size", ["--max-memory", "cpu"], "'--max-memory' has 'cpu', which is not DEVICE=SIZE",
            "give sizes such as '--max-memory cpu=4GiB,disk=20GiB'")
    refused("a size that is none", ["--max-memory", "cpu=much"],
            "'--max-memory' gives 'cpu' the size 'much', which is not a number of bytes")
    refused("a device twice", ["--max-memory", "cpu=1GB,cpu=2GB"], "'--max-memory' has 'cpu' twice")
    refused("no device", ["--max-memory", ","], "'--max-memory' ")
    refused("a file that is not there", ["--device-map", "fast"],
            "'--device-map' is 'fast', which is neither a way to place nor a file",
            "give auto, balanced, balanced_low_0, sequential, or a JSON file")
    refused("a file of another form", ["--device-map", "list.json"], "'list.json' is no device map",
            "give a JSON object of modules and devices")
    refused("a map with gaps", ["--device-map", "part.json"], "the device map has no device for '",
            'name it, or a module around it; "" is the whole model')
    refused("a map of other names", ["--device-map", "wrong.json"],
            "the device map has 'transformer.layers', which the model has not",
            "name modules and tensors as in the model's folder")
    refused("a norm alone on the disk", ["--device-map", "norm.json"],
            "all blocks of the model are on the CPU, and other weights cannot be streamed", "raise 'cpu' in '--max-memory'")
    refused("a map beyond the limit", ["--device-map", "cpu.json", "--max-memory", "cpu=1KiB"],
            " of weights are on the CPU, and '--max-memory' allows 1.00 KiB", "raise a limit")
    refused("too little memory for a block", ["--max-memory", "cpu=1KiB"], "allow 'cpu=50KiB'",
            "'cpu' of '--max-memory' leaves 1.00 KiB for streamed weights, and a block or the head has ")
    refused("too little disk", ["--max-memory", "cpu=1KiB,disk=0"], " of weights are on the disk, and '--max-memory' allows 0 B",
            "raise a limit")
    refused("ranks", ["--max-memory", "cpu=1GiB", "--mesh"],
            "'--device-map', '--max-memory' and '--offload' place the model of one process", "leave them out, or '--mesh'")
    check_offload(scratch, report, refused, words, whole)


def check_offload(scratch, report, refused, words, whole):
    """Weights in an offload folder, written and read."""
    flags = ["--device-map", "disk.json", "--offload", "weights"]
    for name in ("written", "read"):
        code, out, errors = say(scratch, *words, *flags)
        report.check(f"an offload folder that is {name} gives the same", code == 0 and out == whole, out + errors)
    index = json.loads((scratch.path / "weights/index.json").read_text())
    report.check("it has an entry and a file per weight", index and
                 all((scratch.path / f"weights/{name}.dat").exists() for name in index), index)
    refused("an offload folder without weights on the disk", ["--offload", "weights"], "'--offload' needs weights on the disk",
            "give '--max-memory' or '--device-map' with it")
    refused("an offload folder that is not needed", ["--max-memory", "cpu=1GiB", "--offload", "more"],
            "'--offload' has nothing to do: no weights are on the disk", "leave it out, or lower limits in '--max-memory'")
    refused("another folder", ["--device-map", "disk.json", "--offload", "data"],
            "'--offload' is 'data', which has no index.json and is not empty", "name a folder that does not exist")
    report.check("which get no files", not (scratch.path / "more").exists() and not (scratch.path / "data/index.json").exists())


def check_types(scratch, report):
    """Weights and caches of other types, of a run and of a folder, and what cannot act."""
    words = ["runs/job", "--prompt", "the", "--prompt", "a cat", "--max-new-tokens", "20", "--temperature", "0"]
    whole = say(scratch, *words)[1]
    code, out, errors = say(scratch, *words, "--dtype", "fp32", "--cache-dtype", "fp32")
    report.check("fp32 is the default", (code, out) == (0, whole) and
                 re.search(r"^weights: in fp32, 54\.\d KiB\nkey-value cache: fp32, \d", errors), out + errors)
    code, out, errors = say(scratch, *words, "--dtype", "bf16", "--cache-dtype", "int8")
    report.check("half of the bytes are printed", code == 0 and len(out) == len(whole) and
                 "weights: in bf16, 27." in errors and "key-value cache: int8, " in errors, out + errors)
    code, out, errors = say(scratch, *words, "--quantization", "{type: nf4, skip_modules: ['*.c_proj']}", "--num-beams", "2")
    report.check("quantized layers are counted", code == 0 and
                 "weights: 2 linear layers in nf4, others as loaded, " in errors, out + errors)
    done = [subprocess.run([scratch.binary, "evaluate", "runs/job", *flags], cwd=scratch.path, text=True,
                           env=runs.ENVIRONMENT, capture_output=True, check=False)
            for flags in ([], ["--dtype", "bf16"], ["--quantization", "int8", "--dtype", "fp32"])]
    losses = [float(re.search(r"loss +([0-9.]+)", each.stdout)[1]) if not each.returncode else each.stderr for each in done]
    report.check("evaluations are close to those in fp32", all(abs(loss - losses[0]) < 0.02 for loss in losses) and
                 len(set(losses)) == 3, losses)

    def refused(name, flags, *wanted):
        code, out, errors = say(scratch, *words, *flags)
        report.check(name, code == 2 and not out and all(word in errors for word in wanted), f"exit {code}\n{errors}")

    refused("a type that is none", ["--quantization", "nf3"], "--quantization:1:15: error: ", "nf4")
    refused("no type", ["--quantization", "none"], "'--quantization' has no type", "write 'nf4', or leave it out")
    refused("quantized weights on the disk", ["--quantization", "nf4", "--max-memory", "cpu=1GiB"],
            "'--quantization' quantizes weights in memory, and '--device-map' and '--max-memory' place those of the model's files",
            "leave one of them out, or quantize the folder with transformers and bitsandbytes first: from_pretrained() with a "
            "'quantization_config', then save_pretrained()")
    refused("converted weights of a folder", ["--dtype", "bf16", "--max-memory", "cpu=1KiB", "--offload", "more"],
            "'--dtype' converts weights in memory, and '--offload' reads them from a folder", "leave one of them out")
    refused("ranks", ["--dtype", "bf16", "--mesh"], "'--dtype' and '--quantization' convert the model of one process",
            "leave them out, or '--mesh'")
    for flag, value in (("--device-map", "auto"), ("--max-memory", "cpu=1GiB"), ("--offload", "more")):
        code, errors = scratch.call("export", "runs/job", "--to", "placed", flag, value)
        report.check(f"{flag} of an export", code == 2 and not (scratch.path / "placed").exists() and
                     f"'{flag}' has no effect on 'export', which has one weight in memory at a time" in errors, errors)


def check_average(scratch, report):
    """The weights of a run with `ema` are the average: in memory, on the disk and exported."""
    scratch.call("job.yaml", "name=ema", "callbacks={type: ema, decay: 0.9}")

    def loss(*words):
        done = subprocess.run([scratch.binary, "evaluate", "runs/ema", *words], cwd=scratch.path, text=True,
                              env=runs.ENVIRONMENT, capture_output=True, check=False)
        return re.findall(r"loss[^0-9]*([0-9.]+)", done.stdout)[:1], done.stdout + done.stderr

    (whole, said), (disk, other) = loss(), loss("--device-map", "disk.json")
    report.check("weights on the disk are the average too", whole and whole == disk and "streamed" in other, said + other)
    done = subprocess.run([scratch.binary, "export", "runs/ema", "--to", "averaged"], cwd=scratch.path, text=True,
                          env=runs.ENVIRONMENT, capture_output=True, check=False)
    report.check("an export says that it has the average", done.returncode == 0 and
                 "the weights are the average of 'ema', which the run evaluates" in done.stdout, done.stdout + done.stderr)
    trained = (scratch.path / "averaged/model.safetensors").read_bytes()
    checkpoint = next((scratch.path / "runs/ema").rglob("model.safetensors")).read_bytes()
    report.check("and has other bytes than the weights of training", len(trained) > 0 and trained[-4096:] != checkpoint[-4096:])


def check_refusals(scratch, report):
    def refused(name, words, code, *wanted):
        found, _, errors = say(scratch, *words)
        report.check(name, found == code and all(word in errors for word in wanted), f"exit {found}\n{errors}")

    refused("no prompt", ["runs/job"], 2, "there is no prompt", "--prompt-file")
    refused("an empty one", ["runs/job", "--prompt", ""], 2,
            "the prompt is empty, and the model has no start token")
    refused("a character that was never seen", ["runs/job", "--prompt", "the \u20ac"], 2,
            'the model has no token for the character "\u20ac"', "characters of its training text")
    refused("the tokenizer of another model", ["runs/job", "--prompt", "the", "--tokenizer",
                                               scratch.recipes.parent / "tests/unit/text/golden/llama3"], 2,
            "the tokenizer encodes the prompt with token 700, and the model has 22 tokens", "name the tokenizer of this model")
    refused("a file that is not there", ["runs/job", "--prompt-file", "none.txt"], 3, "cannot read the prompts of 'none.txt'")
    refused("no run at all", ["nothing", "--prompt", "a"], 2, "'nothing' is not a folder")
    refused("a folder without a tokenizer", [scratch.recipes / "tiny/data/gpt2", "--prompt", "a"], 3,
            "has no tokenizer.json", "name one with --tokenizer")
    refused("a config that is not there", ["runs/job", "--prompt", "a", "--generation-config", "none.json"], 3,
            "cannot read the generation config 'none.json'")
    refused("a bias that is not JSON", ["runs/job", "--prompt", "a", "--sequence-bias", "[["], 2,
            "--sequence-bias is not JSON: [[")
    refused("a bias of another form", ["runs/job", "--prompt", "a", "--sequence-bias", "[[1, 2]]"], 2,
            "--sequence-bias: 'sequence_bias' is [[1,2]]", "give a list of [[token ids], bias]")
    for flag in (["--length-penalty", "2"], ["--early-stopping", "true"]):
        refused(f"{flag[0]} without beams", ["runs/job", "--prompt", "a", *flag], 2,
                f"'{flag[0]}' cannot act: there is no beam search", "add '--num-beams', or leave it out")
    refused("a temperature below 0", ["runs/job", "--prompt", "a", "--temperature", "-1"], 2, "--temperature")
    (scratch.path / "mlp.yaml").write_text(runs.JOB)
    scratch.call("mlp.yaml", "train.until=1 step")
    refused("a model of pictures", ["runs/mlp", "--prompt", "a"], 2, "the model of 'runs/mlp' is not a language model")
    (scratch.path / "sums.yaml").write_text((scratch.recipes / "tiny/llama.yaml").read_text())
    scratch.call("sums.yaml", "train.until=1 step", "~expect")
    refused("tokens that nothing explains", ["runs/sums", "--prompt", "a"], 2,
            "the training data of 'runs/sums/checkpoints/checkpoint_1' has no tokenizer")
    code, errors = scratch.call("mlp.yaml", "name=x", "callbacks={type: generate, prompts: [a]}")
    report.check("and such a model in training", code == 2 and "'generate' needs a language model" in errors, errors)


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1], JOB) as scratch:
        scratch.recipes = pathlib.Path(sys.argv[2]).resolve()
        shutil.copytree(scratch.recipes / "tiny/data", scratch.path / "data", ignore=shutil.ignore_patterns("gpt2"))
        samples = check_sampled_texts(scratch, report)
        check_run(scratch, report, samples)
        check_config(scratch, report)
        check_placement(scratch, report)
        check_types(scratch, report)
        check_average(scratch, report)
        check_chat(scratch, report)
        check_tokens(scratch, report)
        check_refusals(scratch, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
