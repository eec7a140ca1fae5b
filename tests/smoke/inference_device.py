#!/usr/bin/env python3
"""Inference on a device that stands in for a GPU gives the CPU's results, also where its memory has no room for the model.

    inference_device.py ACCEL_RUN RECIPES_FOLDER HOST_DEVICE_LIBRARY
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import runs

JOB = """
model: {type: gpt, num_layers: 6, num_heads: 2, hidden_size: 32}
data:
  train: {type: text, path: data/rhyme.txt, level: chars, max_seq_len: 16, stride: 4, to: 0.9}
  eval: {type: text, path: data/rhyme.txt, level: chars, max_seq_len: 16, from: 0.9}
optimizer: {type: adamw, lr: 0.01}
train: {until: 6 steps, batch: 16}
accelerator: {num_cpu_threads_per_process: 1, kernels: reference}
"""
PROMPTS = ["--prompt", "the", "--prompt", "a cat", "--max-new-tokens", "20"]
# Of 300 KiB of blocks the GPU has room for one, two or none beside the one that computes.
PLACED = {
    "in its memory": ["--device", "cuda"],
    "with blocks in the host's memory": ["--max-memory", "0=120KiB,cpu=1GiB"],
    "with room for the block that computes alone": ["--device-map", "blocks.json", "--max-memory", "0=60KiB,cpu=1GiB"],
    "with blocks on the disk": ["--max-memory", "0=120KiB,cpu=110KiB"],
    "with the head in the host's memory": ["--device-map", "head.json"],
}


def tell(scratch, library, *words):
    environment = dict(runs.ENVIRONMENT) | ({"ACCEL_HOST_DEVICE": library} if library else {})
    done = subprocess.run([scratch.binary, *words], cwd=scratch.path, text=True, env=environment, capture_output=True,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def is_near(found, wanted):
    """Lines of JSON, or text. Sums have another order where matrices are aligned otherwise in memory."""
    def parts(out):
        return re.split(r"(-?\d+\.\d+)", out)

    return len(parts(found)) == len(parts(wanted)) and all(
        a == b or abs(float(a) - float(b)) <= 1e-5 * abs(float(b))
        for a, b in zip(parts(found)[1::2], parts(wanted)[1::2])) and parts(found)[::2] == parts(wanted)[::2]


def check_results(scratch, report, library):
    predicted = ["predict", "runs/job", "--input", "data/rhyme.txt"]
    for verb in (["generate", "runs/job", *PROMPTS], ["evaluate", "runs/job", "--json"], predicted):
        here = tell(scratch, "", *verb)
        report.check(f"{verb[0]} computes on the CPU", here[0] == 0 and here[1], here)
        for name, flags in PLACED.items():
            code, out, errors = tell(scratch, library, *verb, *flags)
            report.check(f"{verb[0]} gives the same on a GPU {name}",
                         code == 0 and is_near(out, here[1]) and "ACCEL_HOST_DEVICE" in errors,
                         f"{code}\n{out[:300]}\n{errors}")
    code, out, errors = tell(scratch, library, "generate", "runs/job", *PROMPTS, *PLACED["with blocks on the disk"])
    report.check("it says what went to the GPU and what was read", re.search(
        r"copied [\d.]+ KiB to the GPU a pass, [\d.]+ KiB of them there at once\nstreamed .* a pass: predicted ", errors), errors)
    report.check("and where it computes", "\ncomputes on hpu\n" in errors, errors)
    chat = subprocess.run([scratch.binary, "chat", "runs/job", "--device", "cuda"], cwd=scratch.path, text=True, input="",
                          env=dict(runs.ENVIRONMENT, ACCEL_HOST_DEVICE=library), capture_output=True, check=False)
    report.check("chat has the flag too", "ACCEL_HOST_DEVICE" in chat.stderr, chat.stderr)


def check_refusals(scratch, report, library):
    def refused(name, library, flags, *wanted):
        code, out, errors = tell(scratch, library, "generate", "runs/job", *PROMPTS, *flags)
        report.check(name, code == 2 and not out and all(word in errors for word in wanted), f"exit {code}\n{errors}")

    if not os.path.exists("/dev/nvidia0"):
        refused("no GPU", "", ["--device", "cuda"], "'--device' is cuda, and this machine has no GPU", "use cpu")
        refused("a limit without a GPU", "", ["--max-memory", "0=1GiB"],
                "weights are placed on GPU 0, and this machine has no GPU", "use cpu")
    refused("the CPU with weights on the GPU", library, ["--device", "cpu", "--max-memory", "0=1GiB"],
            "'--device' is cpu, and weights are placed on the GPU", "leave '--device' out, or place them on cpu and disk")
    refused("the GPU without weights there", library, ["--device", "cuda", "--max-memory", "cpu=1GiB"],
            "'--device' is cuda, and no weights are placed on the GPU",
            "add a limit of the GPU, such as '--max-memory 0=10GiB,cpu=4GiB'")
    refused("a second GPU", library, ["--max-memory", "1=1GiB"],
            "'--max-memory' has GPU 1, and a process computes on one, GPU 0",
            "name 0, cpu and disk; '--mesh accelerator.parallelism.pp=2' divides a model over GPUs")
    refused("embeddings elsewhere", library, ["--device-map", "table.json"],
            "'transformer.wte.weight' is not on the GPU, and belongs to no block that is copied there",
            "place it on 0, or raise '0' in '--max-memory'")
    refused("no room for a block", library, ["--device-map", "blocks.json", "--max-memory", "0=40KiB,cpu=1GiB"],
            "'0' of '--max-memory' leaves ", "for streamed weights, and a block or the head has ", "allow '0=")
    refused("a map beyond the limit of the GPU", library, ["--device-map", "blocks.json", "--max-memory", "0=1KiB,cpu=1GiB"],
            " of weights are on the GPU, and '--max-memory' allows 1.00 KiB", "raise a limit")
    refused("ranks", "", ["--device", "cuda", "--mesh"], "'--device' is of the model of one process",
            "set accelerator.device=cpu or cuda behind '--mesh'")
    code, out, errors = tell(scratch, "", "plan", "job.yaml", "--max-memory", "0=120KiB,cpu=1GiB")
    report.check("a plan says what goes to a GPU", code == 0 and re.search(
        r"device map \(auto\):\n  0  transformer.wte .*\ncopied to the GPU: [\d.]+ KiB per token, at most [\d.]+ KiB of them there\n$",
        out, re.DOTALL), out + errors)


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1], JOB) as scratch:
        shutil.copytree(pathlib.Path(sys.argv[2]).resolve() / "tiny/data", scratch.path / "data",
                        ignore=shutil.ignore_patterns("gpt2"))
        maps = {"blocks": {"": 0, "transformer.h": "cpu"},
                "head": {"": 0, "transformer.h.1": "disk", "transformer.ln_f": "cpu"},
                "table": {"": 0, "transformer.wte": "cpu"}}
        for name, devices in maps.items():
            (scratch.path / f"{name}.json").write_text(json.dumps(devices))
        report.check("a run trains", scratch.call("job.yaml")[0] == 0)
        check_results(scratch, report, sys.argv[3])
        check_refusals(scratch, report, sys.argv[3])
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
