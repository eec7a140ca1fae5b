#!/usr/bin/env python3
"""Folders whose weights are quantized: with a limit on memory, inference has the tokens and training the bits of those without.

    quantized_streaming.py ACCEL_RUN RECIPES_FOLDER
"""

import array
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys

import offload
import rank_runs
from offload import adapter, losses, peak_of
from rank_runs import output_of, train

WIDTH, INNER, VOCABULARY, LAYERS = 1024, 1536, 300, 12
SHAPES = {f"self_attn.{name}_proj": (WIDTH, WIDTH) for name in "qkvo"}
SHAPES |= {f"mlp.{name}_proj": (INNER, WIDTH) for name in ("gate", "up")} | {"mlp.down_proj": (WIDTH, INNER)}
WEIGHTS = sum(rows * columns for rows, columns in SHAPES.values())  # of a block
VECTORS = {f"{name}_layernorm.weight": (WIDTH,) for name in ("input", "post_attention")}
OTHERS = {"lm_head.weight": (VOCABULARY, WIDTH), "model.embed_tokens.weight": (VOCABULARY, WIDTH), "model.norm.weight": (WIDTH,)}
# By name: the quantization_config, and the bits of a weight with its scales.
KINDS = {
    "nf4": ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, 4.5),
    "nf4-double": ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}, 4.127),
    "fp4": ({"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}, 4.5),
    "int8": ({"load_in_8bit": True}, 8.034),
}
BASE = offload.BASE.replace('"FOLDER/tiny/data/rhyme.txt"', "rhyme.txt, level: tokens, tokenizer: pairs").replace("LAYERS", "FOLDER")
DRAW = random.Random(5)
LIMIT_MIB = 22


def numbers(count, size, dtype="F32", signs=(1,)):
    tile = array.array("f", (size * DRAW.uniform(0.5, 1.5) * DRAW.choice(signs) for _ in range(min(count, 100000))))
    values = (tile * (count // len(tile) + 1))[:count]
    return struct.pack(f"<{count}e", *values) if dtype == "F16" else values.tobytes()


def quantized(name, shape, kind):
    """The tensors that bitsandbytes writes for a weight: (type, shape, bytes) by name."""
    count = shape[0] * shape[1]
    if kind == "int8":
        return {f"{name}.weight": ("I8", list(shape), DRAW.randbytes(count)),
                f"{name}.SCB": ("F32", [shape[0]], numbers(shape[0], 0.05)), f"{name}.weight_format": ("U8", [], b"\0")}
    name, blocks = f"{name}.weight", count // 64
    state = {"quant_type": kind[:3], "blocksize": 64, "dtype": "float32", "shape": list(shape)}
    out = {name: ("U8", [count // 2, 1], DRAW.randbytes(count // 2)), f"{name}.quant_map": ("F32", [16], numbers(16, 1))}
    if kind == "nf4-double":
        state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.05}
        scales = (blocks + 255) // 256
        out |= {f"{name}.absmax": ("U8", [blocks], DRAW.randbytes(blocks)),
                f"{name}.nested_absmax": ("F32", [scales], numbers(scales, 0.02)),
                f"{name}.nested_quant_map": ("F32", [256], numbers(256, 1))}
    else:
        out[f"{name}.absmax"] = ("F32", [blocks], numbers(blocks, 0.05))
    text = json.dumps(state).encode()
    return out | {f"{name}.quant_state.bitsandbytes__{kind[:3]}": ("U8", [len(text)], text)}


def write_folder(folder, kind, layers, dtype="F32"):
    """A Llama as transformers and bitsandbytes save it, with random codes; other weights are of `dtype`."""
    section, _ = KINDS[kind]
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": INNER,
        "num_hidden_layers": layers, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": VOCABULARY,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": False, "quantization_config": {"quant_method": "bitsandbytes", **section}}))
    tensors, plain = {}, dict(OTHERS)
    for layer in range(layers):
        for name, shape in SHAPES.items():
            tensors |= quantized(f"model.layers.{layer}.{name}", shape, kind)
        plain |= {f"model.layers.{layer}.{name}": shape for name, shape in VECTORS.items()}
    for name, shape in plain.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        numbers_of = (1, dtype) if "norm" in name else (0.04, dtype, (1, -1))
        tensors[name] = (dtype, list(shape), numbers(count, *numbers_of))
    # In the order of safetensors: wide types first.
    order = {"F32": 0, "F16": 1, "U8": 2, "I8": 3}
    header, at = {}, 0
    names = sorted(tensors, key=lambda name: (order[tensors[name][0]], name))
    for name in names:
        kind_of, shape, data = tensors[name]
        header[name] = {"dtype": kind_of, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header)
    text += " " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text.encode())
        file.writelines(tensors[name][2] for name in names)


class VerbRun:
    """A finished verb: exit code, output and peak memory in MiB."""

    def __init__(self, scratch, *words):
        with open(scratch.path / "out", "w+") as out, open(scratch.path / "errors", "w+") as errors:
            process = subprocess.Popen([scratch.binary, *words], cwd=scratch.path, env=rank_runs.runs.ENVIRONMENT, stdout=out,
                                       stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.code, self.peak = process.returncode, usage.ru_maxrss / 1024
        self.out, self.errors = ((scratch.path / name).read_text() for name in ("out", "errors"))

    def __str__(self):
        return f"exit {self.code}\n{self.out}\n{self.errors}"


PROMPTS = ("the", "she sells sea shells by the shore and more of them")


def generated(scratch, source, *flags):
    """Of a prompt of few rows and of one whose layers are dequantized."""
    words = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
    return VerbRun(scratch, "generate", source, "--tokenizer", "pairs", *words, "--max-new-tokens", "8", "--temperature", "0",
                "--json", *flags)


def check_generation(scratch, report):
    limit = ["--max-memory", f"cpu={LIMIT_MIB}MiB"]
    small = None
    for kind, (_, bits) in KINDS.items():
        write_folder(scratch.path / kind, kind, LAYERS)
        write_folder(scratch.path / f"{kind}-1", kind, 1)
        small = generated(scratch, f"{kind}-1")
        whole, streamed = generated(scratch, kind), generated(scratch, kind, *limit)
        report.check(f"{kind} has the tokens of a run without a limit",
                     whole.code == 0 and streamed.out == whole.out != "" and "streamed " in streamed.errors, f"{whole}{streamed}")
        block = (WEIGHTS * bits / 8 + 8 * WIDTH) / 2**20
        shown = re.search(r"disk  model\.layers(?:\.(\d+) to model\.layers\.11)?  ([\d.]+) MiB", streamed.errors)
        count = LAYERS - int(shown[1] or 0) if shown else 0
        report.check(f"blocks of {kind} are counted as stored", shown and count >= LAYERS - 3 and
                     abs(float(shown[2]) - count * block) < 0.02 * count * block, f"{block} {streamed.errors}")
        report.check(f"peak memory is {streamed.peak:.0f} MiB; with a block in all {small.peak:.0f}, with all {whole.peak:.0f}",
                     streamed.peak < small.peak + LIMIT_MIB + 8 and whole.peak > small.peak + 0.8 * block * (LAYERS - 1))
    (scratch.path / "all.json").write_text('{"": "disk"}')
    mapped = generated(scratch, "nf4", "--device-map", "all.json")
    report.check("so has a map with everything on the disk", mapped.out == generated(scratch, "nf4").out != "", mapped)
    report.check("what has no tensor in the file stays in memory",
                 re.search(r"kept in memory: 1\.31 KiB of vectors that the files have in another type or form\n", mapped.errors), mapped)
    check_least_limit(scratch, report)
    check_halves(scratch, report, limit)
    recipe = BASE.replace("FOLDER", "nf4")
    (scratch.path / "nf4.yaml").write_text(recipe)
    plan = output_of(scratch, "plan", "nf4.yaml", *limit)
    report.check("the plan has the same map", re.search(r"  disk  model\.layers\.\d+ to model\.layers\.11  ", plan) and
                 "predicted: at least " in plan, plan)


def check_least_limit(scratch, report):
    """That of a message: it has the bytes between weights, and is kept."""
    refused = generated(scratch, "nf4-double", "--device-map", "all.json", "--max-memory", "cpu=1MiB")
    report.check("a limit below a block is refused", refused.code == 2 and
                 "for streamed weights, and a block or the head has " in refused.errors, refused)
    least = re.search(r"allow 'cpu=(\d+)KiB'", refused.errors)[1]
    kept = generated(scratch, "nf4-double", "--device-map", "all.json", "--max-memory", f"cpu={least}KiB")
    most = re.search(r"at most ([\d.]+) MiB of them in memory", kept.errors)
    report.check("the least limit is kept", most and float(most[1]) <= int(least) / 1024 + 0.005, kept)


def check_halves(scratch, report, limit):
    """The other weights in float16, as of most folders."""
    write_folder(scratch.path / "halves", "nf4", LAYERS, "F16")
    whole = generated(scratch, "halves")
    (scratch.path / "head.json").write_text(json.dumps(
        {"model.embed_tokens": "cpu", "model.layers": "disk", "model.norm": "cpu", "lm_head": "cpu"}))
    streamed = generated(scratch, "halves", "--device-map", "head.json", *limit)
    report.check("norms in float16 are converted in memory", whole.code == 0 and streamed.out == whole.out != "" and
                 re.search(r"kept in memory: 97\.3 KiB of vectors", streamed.errors), f"{whole}{streamed}")
    head = generated(scratch, "halves", "--device-map", "all.json")
    report.check("a head in float16 is refused", head.code == 2 and "'lm_head.weight' cannot stay on the disk: its file has "
                 "another type or layout" in head.errors, head)
    offloaded = generated(scratch, "halves", "--device-map", "all.json", "--offload", "weights")
    again = generated(scratch, "halves", "--device-map", "all.json", "--offload", "weights")
    report.check("and offloaded", offloaded.out == again.out == whole.out, f"{offloaded}{again}")
    half, mapped = (generated(scratch, "halves", "--dtype", "fp16", *flags) for flags in ([], ["--device-map", "all.json"]))
    report.check("or stays in float16, and scales in float32", half.code == 0 and mapped.out == half.out != "" and
                 "kept in memory: 1.31 KiB of vectors" in mapped.errors, f"{half}{mapped}")


def check_training(scratch, report):
    limit = f"accelerator.max_memory={LIMIT_MIB} MiB"
    for folder in ("nf4", "nf4-double", "int8", "halves"):
        (scratch.path / f"{folder}.yaml").write_text(BASE.replace("FOLDER", folder))
        train(scratch, report, f"{folder}.yaml", f"{folder}-memory", "log.every=1 steps")
        train(scratch, report, f"{folder}.yaml", f"{folder}-streamed", "log.every=1 steps", limit)
        found, same = losses(scratch, f"{folder}-streamed"), losses(scratch, f"{folder}-memory")
        report.check(f"a streamed base of {folder} has the losses of one in memory", len(found) >= 6 and found == same,
                     f"{found} {same}")
        report.check("and the bits of its adapter", adapter(scratch, f"{folder}-streamed") == adapter(scratch, f"{folder}-memory"))
        peak, whole = (peak_of(scratch, f"{folder}-{name}") for name in ("streamed", "memory"))
        report.check(f"peak memory is {peak:.0f} MiB, in memory {whole:.0f}", peak < whole - 20)
    train(scratch, report, "nf4.yaml", "nf4-resumed", limit, "train.until=2 steps")
    train(scratch, report, "nf4.yaml", "nf4-resumed", limit, "--allow", "train.until")
    report.check("a resumed run has the bits of a straight one", adapter(scratch, "nf4-resumed") == adapter(scratch, "nf4-memory"))
    files = [file for file in (scratch.path / "runs/nf4-resumed").rglob("*") if file.is_file()]
    report.check("checkpoints have no frozen weights", max(file.stat().st_size for file in files) < 4 << 20)
    shown = output_of(scratch, "plan", "nf4.yaml", "name=planned", limit)
    report.check("the plan says what is streamed",
                 re.search(r"  streams    12 blocks of 57\.5 MiB from '\S*nf4', 4 of them in memory; 2\.3 MiB of other", shown), shown)
    return [f"runs/{name}" for name in ("nf4-memory", "nf4-streamed")]


def check_runs(scratch, report, sources):
    """Checkpoints with quantized weights, and those whose weights are in the folder."""
    limit = ["--max-memory", f"cpu={LIMIT_MIB}MiB"]
    for source in sources:
        for words in (["evaluate", source, "--json"], ["predict", source, "--input", "rhyme.txt"]):
            whole, streamed = VerbRun(scratch, *words), VerbRun(scratch, *words, *limit)
            report.check(f"{words[0]} of {source} has the results without a limit", whole.code == 0 and
                         streamed.out == whole.out != "" and "streamed " in streamed.errors, f"{whole}{streamed}")
        whole, streamed = generated(scratch, source), generated(scratch, source, *limit)
        report.check("and so has generate", whole.code == 0 and streamed.out == whole.out != "", f"{whole}{streamed}")


def main():
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(sys.argv[1]) as scratch:
        rhyme = pathlib.Path(sys.argv[2]).resolve() / "tiny/data/rhyme.txt"
        (scratch.path / "rhyme.txt").write_text(rhyme.read_text())
        output_of(scratch, "tokenizer", "train", "rhyme.txt", "--vocab-size", "280", "--out", "pairs")
        check_generation(scratch, report)
        check_runs(scratch, report, check_training(scratch, report))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
