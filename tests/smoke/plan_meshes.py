#!/usr/bin/env python3
"""`plan` of Llama 3.1 on the meshes of published runs, 64 to 16,384 ranks, beside closed formulas.   plan_meshes.py BINARY

Published: torchtitan's benchmarks and Llama 3 (arXiv 2407.21783, table 4). Sequences have 8,192 tokens. The formulas are for rank 0,
in bytes: a block has h (2 h + 2 kv) + 3 h f + 2 h parameters; a ring collective over n ranks sends (n - 1) / n of its data
per rank, an all-reduce twice that.
"""

import re
import resource
import subprocess
import sys
from pathlib import Path

import runs

SEQUENCE, VOCABULARY, HEAD = 8192, 128256, 128
SIZES = {"8B": (32, 32, 8, 4096, 14336), "70B": (80, 64, 8, 8192, 28672), "405B": (126, 128, 8, 16384, 53248)}
PARAMETERS = {"8B": 8_030_261_248, "70B": 70_553_706_496, "405B": 405_853_388_800}
RECIPE = """
model: {type: llama, num_layers: LAYERS, num_heads: HEADS, num_kv_heads: GROUPS, hidden_size: WIDTH, intermediate_size: INNER,
        vocab_size: 128256, tie_embeddings: false}
data: {train: {type: text, path: text.txt, level: bytes, max_seq_len: 8192, stride: 16}}
optimizer: {type: adamw, lr: 0.0003}
train: {until: 10 steps, batch: BATCH, micro_batch: 1, activation_checkpointing: blocks}
accelerator: {mixed_precision: bf16, parallelism: {MESH}, fsdp: {stage: STAGE}}
"""
# size, pp, dp_shard, tp, stage, samples of a step
MESHES = [("8B", 1, 64, 1, 3, 64), ("70B", 1, 32, 8, 3, 512), ("405B", 8, 8, 8, 1, 256), ("405B", 16, 128, 8, 1, 2048)]
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def plan(scratch, mesh):
    size, pp, shard, tp, stage, batch = mesh
    words = dict(zip(("LAYERS", "HEADS", "GROUPS", "WIDTH", "INNER"), SIZES[size]))
    words |= {"MESH": f"pp: {pp}, dp_shard: {shard}, tp: {tp}", "STAGE": stage, "BATCH": batch}
    text = RECIPE
    for word, value in words.items():
        text = text.replace(word, str(value))
    (scratch.path / "mesh.yaml").write_text(text)
    done = subprocess.run([scratch.binary, "plan", "mesh.yaml", "--ranks", str(pp * shard * tp)], cwd=scratch.path,
                          env=runs.ENVIRONMENT, text=True, capture_output=True, check=False)
    return done.stdout if done.stdout and done.returncode in (0, 8) else sys.exit(f"plan_meshes: {mesh}: {done.returncode} {done.stderr}")


def planned(text, line):
    """Bytes of a line of a part of the plan."""
    found = re.search(rf"^ *{re.escape(line)}  +([0-9.]+) (B|[KMGT]iB)$", text, re.MULTILINE)
    return float(found[1]) * UNITS[found[2]] if found else None


def parameters(size, stages, stage):
    """Of a stage: its blocks, and the input or the head with its norm."""
    _, _, groups, width, inner = SIZES[size]
    block = width * (2 * width + 2 * groups * HEAD) + 3 * width * inner + 2 * width
    ends = (stage == 0) + (stage == len(stages) - 1)
    return stages[stage] * block + ends * VOCABULARY * width + (stage == len(stages) - 1) * width


def check_mesh(scratch, report, mesh):
    size, pp, shard, tp, stage, batch = mesh
    layers, _, _, width, _ = SIZES[size]
    text = plan(scratch, mesh)
    name = f"{size} on pp {pp} x dp_shard {shard} x tp {tp}"

    def near(part, line, formula, bound=0.02):
        value = planned(part, line)
        report.check(f"{name}: {line}", value is not None and abs(value / formula - 1) < bound, f"{value} for {formula}\n{text}")

    report.check(f"{name}: parameters", f" {PARAMETERS[size]:,} parameters\n" in text, text)
    if pp * tp > 1:
        steps = {"tp": (1, tp), "dp_shard": (tp, tp * shard), "pp": (tp * shard, tp * shard * pp)}
        for axis, (first, end) in steps.items():
            neighbours = f"0 and {first}{f' to {end - first}' if end > 2 * first else ''} along {axis}"
            report.check(f"{name}: neighbours", end == first or neighbours in text, f"{neighbours}: {text}")
    traffic, memory = text.split("\nmemory per rank")
    stages = [layers] if pp == 1 else [int(count) for count in re.search(r" stages of ([0-9, ]+) blocks", text)[1].split(",")]
    largest = re.match(r".* \(pp (\d+)", memory)  # none: rank 0
    own, held = (parameters(size, stages, stage) / tp for stage in (0, int(largest[1]) if largest else 0))
    micro_batches, ring, along = batch // shard, (shard - 1) / shard, ", along dp_shard" if tp > 1 else ""
    near(memory, "optimizer state", 8 * held / shard)
    near(memory, "gradients", 4 * held / shard)
    if stage == 3:
        near(memory, "weights", 4 * held / shard)
        # Each micro-batch gathers the weights twice in 16 bits, the input's and the norms' in 32 bits.
        near(traffic, f"parameters{along}", micro_batches * ring * 2 * 2 * own, 0.06)
    else:
        # In 16 bits beside the rank's shard in 32 bits; those of the input, if any, are whole.
        near(memory, "weights", held * (2 + 4 / shard) + (0 if largest else VOCABULARY * width / tp * 2), 0.03)
    near(traffic, f"gradients{along}", (micro_batches if stage == 3 else 1) * ring * 4 * own)
    if tp > 1:
        # Two in the forward pass, two in the backward pass, and one again in a recomputed block: its last has no reader.
        reduced = 2 * (tp - 1) / tp * SEQUENCE * width
        near(traffic, "activations of tensor parallelism, along tp", micro_batches * reduced * (5 * 2 * stages[0] + 4), 0.03)
    if pp > 1:
        near(traffic, "activation of stage 1, along pp", micro_batches * SEQUENCE * width * 4)
        bubble = int(re.search(r", bubble (\d+) % of a step", text)[1]) / 100
        formula = (pp - 1) / (micro_batches + pp - 1)
        report.check(f"{name}: bubble", formula - 0.01 < bubble < formula + 0.1, f"{bubble} for {formula}\n{text}")


def main():
    # Weights of which a plan maps the address space count as data of the process.
    limit = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    report = runs.Report()
    with runs.Scratch(sys.argv[1]) as scratch:
        (scratch.path / "text.txt").write_bytes(bytes(i * 7 % 251 for i in range(1 << 18)))
        for mesh in MESHES:
            check_mesh(scratch, report, mesh)
    return report.failed > 0


if __name__ == "__main__":
    sys.exit(main())
