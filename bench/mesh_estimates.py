#!/usr/bin/env python3
"""`plan --hardware` beside published training runs: the estimate of their meshes, and their places among all.

    mesh_estimates.py ACCEL_RUN FOLDER [NAME...]

FOLDER is made. Each run of RUNS is planned on its hardware with its number of ranks, and the published mesh is found in
the table. Published: FLOP/s per rank, counted as the publication does, or tokens per second and rank. Nothing is timed
here, so the machine does not matter.
"""

import re
import subprocess
import sys
from pathlib import Path

LLAMA = {
    "8B": "num_layers: 32, num_heads: 32, num_kv_heads: 8, hidden_size: 4096, intermediate_size: 14336",
    "70B": "num_layers: 80, num_heads: 64, num_kv_heads: 8, hidden_size: 8192, intermediate_size: 28672",
    "405B": "num_layers: 126, num_heads: 128, num_kv_heads: 8, hidden_size: 16384, intermediate_size: 53248",
}
GRAND_TETON = ["h100", "memory=94e9", "memory_bandwidth=2.4e12"]


def llama(size, batch, micro_batch, checkpointing):
    return (f"{{type: llama, {LLAMA[size]}, vocab_size: 128256, tie_embeddings: false}}", 8192, batch, micro_batch, checkpointing)


def gpt(layers, heads, width, batch, micro_batch):
    return (f"{{type: gpt, num_layers: {layers}, num_heads: {heads}, hidden_size: {width}, vocab_size: 51200}}", 2048, batch,
            micro_batch, "blocks")


# name: (job, ranks, hardware, published mesh, published figure, its unit). torchtitan: docs/performance.md and benchmarks
# of its repository; Llama 3: arXiv 2407.21783, table 4; Megatron-LM: arXiv 2104.04473, table 1, with the micro-batches of
# examples/sc21 of its repository.
RUNS = {
    "torchtitan 8B": (llama("8B", 64, 1, "none"), 64, ["a100"], "dp_shard 64", 2904, "tokens/s"),
    "torchtitan 70B": (llama("70B", 64, 1, "blocks"), 64, ["a100"], "dp_shard 64", 331, "tokens/s"),
    "torchtitan 405B": (llama("405B", 32, 2, "blocks"), 128, GRAND_TETON, "dp_shard 16 x tp 8", 109, "tokens/s"),
    "torchtitan 70B, 256": (llama("70B", 512, 16, "blocks"), 256, GRAND_TETON, "dp_shard 32 x tp 8", 597, "tokens/s"),
    "torchtitan 405B, 512": (llama("405B", 256, 1, "blocks"), 512, GRAND_TETON, "pp 8 x dp_shard 8 x tp 8", 100, "tokens/s"),
    "Llama 3 405B, 8192": (llama("405B", 2048, 1, "none"), 8192, ["h100"], "pp 16 x dp_shard 64 x tp 8", 430, "TFLOP/s"),
    "Llama 3 405B, 16384": (llama("405B", 2048, 1, "none"), 16384, ["h100"], "pp 16 x dp_shard 128 x tp 8", 400, "TFLOP/s"),
    "Megatron 1.7B": (gpt(24, 24, 2304, 512, 16), 32, ["a100"], "dp_replicate 32", 137, "TFLOP/s"),
    "Megatron 3.6B": (gpt(30, 32, 3072, 512, 16), 64, ["a100"], "dp_replicate 32 x tp 2", 138, "TFLOP/s"),
    "Megatron 7.5B": (gpt(36, 32, 4096, 512, 16), 128, ["a100"], "dp_replicate 32 x tp 4", 142, "TFLOP/s"),
    "Megatron 18.4B": (gpt(40, 48, 6144, 1024, 8), 256, ["a100"], "dp_replicate 32 x tp 8", 135, "TFLOP/s"),
    "Megatron 39.1B": (gpt(48, 64, 8192, 1536, 4), 512, ["a100"], "pp 2 x dp_replicate 32 x tp 8", 138, "TFLOP/s"),
    "Megatron 76.1B": (gpt(60, 80, 10240, 1792, 2), 1024, ["a100"], "pp 4 x dp_replicate 32 x tp 8", 140, "TFLOP/s"),
    "Megatron 145.6B": (gpt(80, 96, 12288, 2304, 2), 1536, ["a100"], "pp 8 x dp_replicate 24 x tp 8", 148, "TFLOP/s"),
}
RECIPE = """
model: MODEL
data: {train: {type: text, path: text.txt, level: bytes, max_seq_len: LENGTH, stride: 16}}
optimizer: {type: adamw, lr: 0.0003}
train: {until: 10 steps, batch: BATCH, micro_batch: SIZE, activation_checkpointing: CHECKPOINTING}
accelerator: {mixed_precision: bf16}
"""
ROW = re.compile(r"^  (\S.*?)  +(\d) +([0-9.e+-]+) s +(\d+) +([0-9.]+) +(\S+ \S+) ", re.MULTILINE)


def plan(binary, folder, name):
    """[(mesh, stage, seconds, tokens/s, TFLOP/s, memory)], the fastest first."""
    (model, length, batch, micro_batch, checkpointing), ranks, hardware = RUNS[name][:3]
    recipe = RECIPE.replace("MODEL", model).replace("LENGTH", str(length)).replace("BATCH", str(batch)).replace("SIZE", str(micro_batch))
    path = folder / f"{name.replace(' ', '_').replace(',', '')}.yaml"
    path.write_text(recipe.replace("CHECKPOINTING", checkpointing))
    done = subprocess.run([binary, "plan", path.name, "--ranks", str(ranks), "--top", "1000", "--hardware", *hardware],
                          cwd=folder, text=True, capture_output=True, check=False)
    (folder / f"{path.stem}.txt").write_text(done.stdout + done.stderr)
    return ROW.findall(done.stdout)


def main():
    binary, folder = (Path(word).absolute() for word in sys.argv[1:3])
    folder.mkdir(parents=True)
    (folder / "text.txt").write_bytes(bytes((i * 7) % 251 for i in range(1 << 18)))
    print("| run | published mesh | published | estimate | place | fastest, and its time over that of the published |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in sys.argv[3:] or RUNS:
        _, ranks, _, mesh, figure, unit = RUNS[name]
        rows = plan(binary, folder, name)
        places = [i for i, row in enumerate(rows) if row[0] == mesh]
        title = f"| {name} on {ranks} | {mesh} | {figure:,} {unit} |"
        if not places:
            print(f"{title} does not fit | | {rows[0][0] + ', stage ' + rows[0][1] if rows else 'none fits'} |", flush=True)
            continue
        row, best = rows[places[0]], rows[0]
        estimate = row[3] if unit == "tokens/s" else row[4]
        print(f"{title} {float(estimate):,.0f} | {places[0] + 1} of {len(rows)} | {best[0]}, stage {best[1]}:"
              f" {float(best[2]) / float(row[2]):.2f} |", flush=True)


if __name__ == "__main__":
    main()
