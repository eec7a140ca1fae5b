#!/usr/bin/env python3
"""Training with state in scratch files, and with a frozen base in its folder: the bits of training in memory, kills, full
disks, and the plan.

    offload.py ACCEL_RUN RECIPES_FOLDER
"""

import array
import json
import pathlib
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import time

import rank_runs
from sharding import GPT, last_line_of_diff, mebibytes, output_of, train

SAME = "bit-identical: every step, every evaluation, the checkpoint"
STAGE = "accelerator.fsdp.stage=3"
DISK = ["accelerator.fsdp.offload=disk", "accelerator.fsdp.offload_path=disk"]
# Moments and gradients of 16 blocks of 12 MiB, which memory never holds at once.
DEEP = """
model: {type: gpt, num_layers: 16, num_heads: 8, hidden_size: 512, vocab_size: 256}
data:
  train: {type: text, path: "FOLDER/tiny/data/rhyme.txt", max_seq_len: 16, limit: 8}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.002}
train: {until: 2 steps, batch: 2, max_grad_norm: 1.0}
accelerator: {num_cpu_threads_per_process: 1, fsdp: {stage: 3, offload: disk, offload_path: disk}}
checkpoint: {every: never, at_end: false}
"""
# A frozen base of 16 blocks of 12 MiB, of which memory has room for three.
BASE = """
model: {type: auto, weights: LAYERS, lora: {rank: 2}}
data:
  train: {type: text, path: "FOLDER/tiny/data/rhyme.txt", max_seq_len: 16, limit: 16}
  eval: {type: text, path: "FOLDER/tiny/data/rhyme.txt", max_seq_len: 16, limit: 2}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.002}
train: {until: 4 steps, batch: 4, micro_batch: 2}
accelerator: {num_cpu_threads_per_process: 1}
eval: {every: 2 steps}
checkpoint: {every: 2 steps}
"""
LIMIT_MIB = 48
LIMIT = f"accelerator.max_memory={LIMIT_MIB} MiB"
WIDTH, INNER, VOCABULARY = 512, 1408, 256


def write_llama(folder, layers):
    """A Hugging Face folder in float32 with random weights."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32", "hidden_size": WIDTH,
        "intermediate_size": INNER, "num_hidden_layers": layers, "num_attention_heads": 8, "num_key_value_heads": 8,
        "vocab_size": VOCABULARY, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "hidden_act": "silu", "tie_word_embeddings": False}))
    shapes = {"lm_head.weight": (VOCABULARY, WIDTH), "model.embed_tokens.weight": (VOCABULARY, WIDTH),
              "model.norm.weight": (WIDTH,)}
    for layer in range(layers):
        shapes |= {f"model.layers.{layer}.self_attn.{name}_proj.weight": (WIDTH, WIDTH) for name in "qkvo"}
        shapes |= {f"model.layers.{layer}.mlp.{name}_proj.weight": (INNER, WIDTH) for name in ("gate", "up")}
        shapes |= {f"model.layers.{layer}.mlp.down_proj.weight": (WIDTH, INNER)}
        shapes |= {f"model.layers.{layer}.{name}_layernorm.weight": (WIDTH,) for name in ("input", "post_attention")}
    draw = random.Random(1)
    tile = array.array("f", (draw.gauss(0, 0.04) for _ in range(100000)))
    ones, header, at = array.array("f", [1.0] * WIDTH), {}, 0
    for name, shape in sorted(shapes.items()):
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header)
    text += " " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text.encode())
        for name, item in header.items():
            left = (item["data_offsets"][1] - item["data_offsets"][0]) // 4
            if "norm" in name:
                file.write(ones.tobytes())
                continue
            while left:
                begin = draw.randrange(len(tile))
                part = tile[begin:begin + left]
                file.write(part.tobytes())
                left -= len(part)


def losses(scratch, name):
    """Of steps, by their bits, and of evaluations."""
    lines = (scratch.path / "runs" / name / "metrics.jsonl").read_text().splitlines()
    evaluations = re.findall(r'"eval/loss":([0-9.e-]+)', "\n".join(lines))
    return [json.loads(line)["loss_bits"] for line in lines if '"loss_bits"' in line] + evaluations


def adapter(scratch, name):
    """The exported adapter's bytes."""
    target = scratch.path / "adapters" / name
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        output_of(scratch, "export", f"runs/{name}", "--to", str(target))
    return (target / "adapter_model.safetensors").read_bytes()


def peak_of(scratch, name):
    lines = (scratch.path / "runs" / name / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["actual"]["memory_mib"] for line in lines if '"actual"' in line][-1]


def check_frozen_base(scratch, report, recipes):
    for layers in (1, 16):
        write_llama(scratch.path / f"llama{layers}", layers)
        recipe = BASE.replace("FOLDER", str(recipes)).replace("LAYERS", f"llama{layers}")
        (scratch.path / f"base{layers}.yaml").write_text(recipe)
    words = ["base16.yaml", "log.every=1 steps"]
    train(scratch, report, "base1.yaml", "small")
    train(scratch, report, words[0], "base-memory", *words[1:])
    train(scratch, report, words[0], "base-streamed", *words[1:], LIMIT)
    found = losses(scratch, "base-streamed")
    report.check("a streamed base has the losses of one in memory",
                 len(found) >= 6 and found == losses(scratch, "base-memory"), f"{found} {losses(scratch, 'base-memory')}")
    same = adapter(scratch, "base-memory")
    report.check("and the bits of its adapter", adapter(scratch, "base-streamed") == same)
    train(scratch, report, words[0], "base-selective", *words[1:], LIMIT, "train.activation_checkpointing=selective")
    report.check("with selective checkpointing too", adapter(scratch, "base-selective") == same)
    small, whole, peak = (peak_of(scratch, name) for name in ("small", "base-memory", "base-streamed"))
    # The small run has a block and the rest of the model, too; 16 adapters have 1.2 MiB with their state.
    report.check(f"peak memory is {peak:.0f} MiB; with a block in all {small:.0f}, with all blocks {whole:.0f}",
                 peak < small + LIMIT_MIB + 24 and whole > small + 150)
    shown = output_of(scratch, words[0], "name=shown", LIMIT, "train.until=1 steps")
    said = r"streams    16 blocks of 196\.1 MiB from '\S+/llama16', 3 of them in memory; 1\.0 MiB of other frozen weights"
    report.check("the first screen says what is streamed", re.search(said, shown) and " parameters, as planned" in shown, shown)
    check_frozen_resume(scratch, report, words, same)
    check_frozen_refusals(scratch, report, words)


def check_frozen_resume(scratch, report, words, same):
    train(scratch, report, words[0], "base-resumed", LIMIT, "train.until=2 steps")
    train(scratch, report, words[0], "base-resumed", LIMIT, "--allow", "train.until")
    report.check("a resumed run has the bits of a straight one", adapter(scratch, "base-resumed") == same)
    files = [file for file in (scratch.path / "runs" / "base-resumed").rglob("*") if file.is_file()]
    report.check("checkpoints have no frozen weights", max(file.stat().st_size for file in files) < 8 << 20)
    train(scratch, report, words[0], "base-bf16", *words[1:], "accelerator.mixed_precision=bf16")
    train(scratch, report, words[0], "base-bf16-streamed", *words[1:], "accelerator.mixed_precision=bf16", LIMIT)
    report.check("and in bf16", adapter(scratch, "base-bf16") == adapter(scratch, "base-bf16-streamed"))
    train(scratch, report, words[0], "base-ranks", rank_runs.on(2))
    train(scratch, report, words[0], "base-ranks-streamed", rank_runs.on(2), LIMIT)
    report.check("and of two ranks", adapter(scratch, "base-ranks") == adapter(scratch, "base-ranks-streamed"))
    shown = output_of(scratch, "evaluate", "runs/base-streamed")
    last = f"eval/loss  {losses(scratch, 'base-streamed')[-1][:7]}"
    report.check("an evaluation reads the rest from the folder", last in shown, f"{last}: {shown}")
    code, errors = scratch.call("export", "runs/base-streamed", "--to", "merged", "--merge")
    report.check("an adapter without its base is not merged", code == 2 and
                 "'--merge' needs the frozen weights, and checkpoints of a run with 'accelerator.max_memory' have the "
                 "trained ones only" in errors and "hint: leave it out, and merge the adapter with PEFT" in errors, errors)


def check_frozen_refusals(scratch, report, words):
    before = sorted((scratch.path / "runs").iterdir())
    cases = (
        ("a limit below two blocks", [LIMIT.replace("48", "20")],
         "'max_memory' leaves 19.0 MiB for streamed blocks, and two of them have 24.5 MiB", "hint: allow at least 26138 KiB"),
        ("weights of another type", ["model.weights=half", LIMIT],
         "'model.layers.0.self_attn.q_proj.weight' cannot stay in the folder of 'model.weights', which has it in another "
         "type or layout",
         "hint: give a folder whose weights have the types and layouts that the model trains with"))
    half = scratch.path / "half"
    half.mkdir()
    (half / "config.json").write_text((scratch.path / "llama1" / "config.json").read_text())
    data = (scratch.path / "llama1" / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    parts, at = [], 0
    for item in header.values():
        begin, end = item["data_offsets"]
        whole = data[8 + size + begin:8 + size + end]
        part = b"".join(whole[i + 2:i + 4] for i in range(0, len(whole), 4))
        item["dtype"], item["data_offsets"] = "BF16", [at, at + len(part)]
        parts.append(part)
        at += len(part)
    text = json.dumps(header)
    (half / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text.encode() + b"".join(parts))
    for what, options, message, hint in cases:
        code, errors = scratch.call(words[0], "name=refused", *options)
        report.check(f"{what} is refused", code == 2 and message in errors and hint in errors, errors)
    report.check("before anything is written", sorted((scratch.path / "runs").iterdir()) == before)


def check_bits(scratch, report, recipes):
    for ranks in (1, 2):
        words = [rank_runs.on(ranks), STAGE, "checkpoint.async=false"]
        train(scratch, report, "gpt.yaml", f"memory-{ranks}", *words)
        train(scratch, report, "gpt.yaml", f"disk-{ranks}", *words, *DISK)
        found = last_line_of_diff(scratch, f"memory-{ranks}", f"disk-{ranks}")
        report.check(f"{ranks} ranks have the bits of training in memory", found == SAME, found)
    for what in ("lora", "gan", "distill"):
        recipe = recipes / "tiny" / f"{what}.yaml"
        words = [rank_runs.on(1), STAGE, "train.until=4 steps", "~expect"]
        train(scratch, report, recipe, f"{what}-memory", *words)
        train(scratch, report, recipe, f"{what}-disk", *words, *DISK)
        found = last_line_of_diff(scratch, f"{what}-memory", f"{what}-disk")
        report.check(f"{what} has the bits of training in memory", found == SAME, found)


def check_kill(scratch, report):
    """Scratch files are gone with their processes, and a resume fills new ones."""
    words = [rank_runs.on(2), STAGE, *DISK, "checkpoint.every=2 steps"]
    process = scratch.start("gpt.yaml", "name=killed", *words, "log.every=1 steps")
    ranks, run = scratch.wait_for_ranks(process, 2), scratch.path / "runs" / "killed"
    while process.poll() is None and not any((run / "checkpoints").glob("*")):
        time.sleep(0.002)
    for pid in ranks.values():
        rank_runs.send(pid, signal.SIGKILL)
    process.communicate()
    report.check("killed ranks end the run", process.returncode in (5, 128 + signal.SIGKILL), str(process.returncode))
    report.check("and leave no scratch file", not any((scratch.path / "disk").iterdir()))
    train(scratch, report, "gpt.yaml", "killed", *words)
    found = last_line_of_diff(scratch, "memory-2", "killed")
    report.check("the resumed run has the bits of a straight one", found == SAME, found)


def check_full_disk(scratch, report):
    """Space is reserved before the run folder is touched."""
    before = sorted((scratch.path / "runs").iterdir())
    process = subprocess.run([scratch.binary, "gpt.yaml", "name=full", STAGE, *DISK], cwd=scratch.path, text=True,
                             env=scratch.environment(), capture_output=True, check=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000)))
    full = (r"error: cannot reserve scratch space in 'disk' for offload: File too large; \S+ GiB are reserved, \S+ GiB "
            r"more are needed, \S+ GiB are free")
    report.check("a disk that is too small ends the run", process.returncode == 7 and re.search(full, process.stderr) and
                 "hint: free disk space, set 'accelerator.fsdp.offload_path' to a larger disk" in process.stderr,
                 f"{process.returncode} {process.stderr}")
    report.check("before anything is written", sorted((scratch.path / "runs").iterdir()) == before)
    code, errors = scratch.call("gpt.yaml", "name=none", STAGE, DISK[0], "accelerator.fsdp.offload_path=none")
    report.check("a missing folder is refused", code == 7 and "cannot use 'none' for scratch: No such file" in errors, errors)
    shown = output_of(scratch, "gpt.yaml", "name=cpu", STAGE, "accelerator.fsdp.offload=cpu", "train.until=1 steps")
    report.check("offload to the memory it is in has no effect, which is said",
                 "offload    cpu: no effect, training is on the CPU" in shown, shown)


def check_memory(scratch, report):
    table = subprocess.run([scratch.binary, "plan", "deep.yaml"], cwd=scratch.path, env=rank_runs.runs.ENVIRONMENT,
                           capture_output=True, text=True, check=False).stdout
    total = mebibytes(table, "total")
    # Parameters, gradients and two moments of 50 million parameters.
    report.check("the plan says what is on the disk", re.search(r"scratch file on disk per rank +772 MiB", table), table)
    train(scratch, report, "deep.yaml", "deep")
    lines = (scratch.path / "runs" / "deep" / "metrics.jsonl").read_text().splitlines()
    peak = [json.loads(line)["actual"]["memory_mib"] for line in lines if '"actual"' in line][-1]
    report.check(f"peak memory is {peak:.0f} MiB, planned {total:.0f}", 0.9 * total <= peak <= 1.1 * total, table)
    report.check("it is less than half of the state", peak < 385, table)


def main():
    binary, recipes = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(binary) as scratch:
        (scratch.path / "disk").mkdir()
        (scratch.path / "gpt.yaml").write_text(GPT.replace("FOLDER", str(recipes)))
        (scratch.path / "deep.yaml").write_text(DEEP.replace("FOLDER", str(recipes)))
        check_bits(scratch, report, recipes)
        check_kill(scratch, report)
        check_full_disk(scratch, report)
        check_memory(scratch, report)
        check_frozen_base(scratch, report, recipes)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
