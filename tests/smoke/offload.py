#!/usr/bin/env python3
"""Training with state in scratch files, and with a frozen base in its folder: the bits of training in memory, kills, full
disks, and the plan.

    offload.py ACCEL_RUN RECIPES_FOLDER
"""

import array
import io
import json
import pathlib
import pickle
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import time
import types
import zipfile

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
    write_weights(folder, shapes)


def write_gpt2(folder, layers):
    """The same of a GPT-2, whose matrices in blocks are transposed."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "dtype": "float32", "n_embd": WIDTH, "n_layer": layers,
        "n_head": 8, "n_positions": 64, "vocab_size": VOCABULARY, "activation_function": "gelu_new", "attn_pdrop": 0.0,
        "embd_pdrop": 0.0, "resid_pdrop": 0.0, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}))
    shapes = {"transformer.wte.weight": (VOCABULARY, WIDTH), "transformer.wpe.weight": (64, WIDTH)}
    shapes |= {f"transformer.ln_f.{part}": (WIDTH,) for part in ("weight", "bias")}
    for layer in range(layers):
        block = f"transformer.h.{layer}"
        shapes |= {f"{block}.ln_{i}.{part}": (WIDTH,) for i in (1, 2) for part in ("weight", "bias")}
        for name, inputs, outputs in (("attn.c_attn", 1, 3), ("attn.c_proj", 1, 1), ("mlp.c_fc", 1, 4), ("mlp.c_proj", 4, 1)):
            shapes |= {f"{block}.{name}.weight": (inputs * WIDTH, outputs * WIDTH), f"{block}.{name}.bias": (outputs * WIDTH,)}
    write_weights(folder, shapes)


def write_weights(folder, shapes):
    draw = random.Random(1)
    tile = array.array("f", (draw.gauss(0, 0.04) for _ in range(100000)))
    header, at = {}, 0
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
            if "norm" in name or ".ln_" in name:
                file.write(array.array("f", [1.0] * left).tobytes())
                continue
            while left:
                begin = draw.randrange(len(tile))
                part = tile[begin:begin + left]
                file.write(part.tobytes())
                left -= len(part)


def weights_in(folder):
    """The header and the bytes of the weights."""
    data = (folder / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    return header, {name: data[8 + size + item["data_offsets"][0]:8 + size + item["data_offsets"][1]]
                    for name, item in header.items()}


def write_halves(source, folder):
    """The weights in bfloat16, rounded towards zero."""
    folder.mkdir()
    (folder / "config.json").write_text((source / "config.json").read_text())
    header, weights = weights_in(source)
    at = 0
    for name, item in header.items():
        halves = array.array("H", weights[name])[1::2]
        weights[name] = halves.tobytes()
        item["dtype"], item["data_offsets"] = "BF16", [at, at + len(weights[name])]
        at += len(weights[name])
    text = json.dumps(header)
    (folder / "model.safetensors").write_bytes(
        struct.pack("<Q", len(text)) + text.encode() + b"".join(weights[name] for name in header))


def write_torch(source, folder, turned):
    """The weights as pytorch_model.bin, one of them in the order of its columns."""
    folder.mkdir()
    (folder / "config.json").write_text((source / "config.json").read_text())
    header, weights = weights_in(source)
    torch, utilities = types.ModuleType("torch"), types.ModuleType("torch._utils")
    torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})
    exec("def _rebuild_tensor_v2(*arguments): pass", utilities.__dict__)
    utilities._rebuild_tensor_v2.__module__ = "torch._utils"

    class Tensor:
        def __init__(self, name):
            self.name = name

        def __reduce__(self):
            shape = tuple(header[self.name]["shape"])
            strides = (shape[1], 1) if len(shape) == 2 else (1,)
            return (utilities._rebuild_tensor_v2,
                    (Storage(self.name), 0, shape, strides[::-1] if self.name == turned else strides, False, {}))

    class Storage(str):
        pass

    class Pickler(pickle.Pickler):
        def persistent_id(self, item):
            known = isinstance(item, Storage)
            return ("storage", torch.FloatStorage, str(item), "cpu", len(weights[item]) // 4) if known else None

    sys.modules.update({"torch": torch, "torch._utils": utilities})
    content = io.BytesIO()
    Pickler(content, protocol=2).dump({name: Tensor(name) for name in header})
    del sys.modules["torch"], sys.modules["torch._utils"]
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as file:
        file.writestr("archive/data.pkl", content.getvalue())
        for name, part in weights.items():
            file.writestr(f"archive/data/{name}", part)
        file.writestr("archive/version", "3\n")


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
    check_frozen_conversions(scratch, report, recipes)
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


def check_frozen_conversions(scratch, report, recipes):
    """Blocks whose weights the file has in another type or layout than the model trains with."""
    write_gpt2(scratch.path / "gpt2", 8)
    for source in ("llama16", "gpt2"):
        write_halves(scratch.path / source, scratch.path / f"{source}-half")
    for folder in ("llama16-half", "gpt2", "gpt2-half"):
        recipe = BASE.replace("FOLDER", str(recipes)).replace("LAYERS", folder)
        (scratch.path / f"{folder}.yaml").write_text(recipe)
        words = [f"{folder}.yaml", f"{folder}-memory", "log.every=1 steps"]
        train(scratch, report, *words)
        words[1] = f"{folder}-streamed"
        train(scratch, report, *words, LIMIT)
        found, same = losses(scratch, words[1]), losses(scratch, f"{folder}-memory")
        report.check(f"streamed blocks of {folder} have the losses of those in memory", len(found) >= 6 and found == same,
                     f"{found} {same}")
        report.check("and the bits of the adapter",
                     adapter(scratch, words[1]) == adapter(scratch, f"{folder}-memory"))
        peak, whole = peak_of(scratch, words[1]), peak_of(scratch, f"{folder}-memory")
        blocks, mebibytes_of_blocks = (8, 96) if folder.startswith("gpt2") else (16, 196)
        # Half as much more is that of the activations that checkpointed blocks compute again.
        report.check(f"peak memory is {peak:.0f} MiB, of all blocks {whole:.0f}", peak < whole - 1.2 * mebibytes_of_blocks)
        table = output_of(scratch, "plan", f"{folder}.yaml", "name=planned", LIMIT)
        report.check("the plan says what is streamed", re.search(rf"  streams    {blocks} blocks of \S+ MiB from '\S+/{folder}', 3 of them in memory", table), table)
    train(scratch, report, "gpt2.yaml", "gpt2-resumed", LIMIT, "train.until=2 steps")
    train(scratch, report, "gpt2.yaml", "gpt2-resumed", LIMIT, "--allow", "train.until")
    report.check("a resumed run of GPT-2 has the bits of a straight one",
                 adapter(scratch, "gpt2-resumed") == adapter(scratch, "gpt2-memory"))
    train(scratch, report, "gpt2.yaml", "gpt2-fits", "accelerator.max_memory=1 GiB")
    report.check("and so has one whose blocks all fit", adapter(scratch, "gpt2-fits") == adapter(scratch, "gpt2-memory"))


def check_frozen_refusals(scratch, report, words):
    before = sorted((scratch.path / "runs").iterdir())
    cases = (
        ("a limit below two blocks", [LIMIT.replace("48", "20")],
         "'max_memory' leaves 19.0 MiB for streamed blocks, and two of them have 24.5 MiB", "hint: allow at least 26138 KiB"),
        ("a weight in another order", ["model.weights=turned", LIMIT.replace("48", "30")],
         "'model.layers.0.self_attn.q_proj.weight' cannot be streamed from the folder of 'model.weights': its layout in the "
         "file is not the model's",
         "hint: save the weights as model.safetensors, with save_pretrained()"))
    write_llama(scratch.path / "llama3", 3)
    write_torch(scratch.path / "llama3", scratch.path / "turned", "model.layers.0.self_attn.q_proj.weight")
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
