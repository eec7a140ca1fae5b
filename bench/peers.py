#!/usr/bin/env python3
"""Steps of accel-run and of its peers at the same work, taking turns in one run.

    peers.py ACCEL_RUN PYTHON FOLDER [--rounds N] [--works NAME,..] [--precisions fp32,bf16] [--threads 1,2]
             [--peers NAME,..]

PYTHON has torch, accelerate and transformers. FOLDER is made; peers.json is left in it. Every side
trains the same model from the same weights on the same batches, and the first losses must agree: a
row whose losses do not is void, and the exit code 1. Medians of all rounds are compared; the machine
should be idle. roofline: a step's matrix products against the fastest ones of this machine.
"""

import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = ("accelerate", "trainer", "eager", "compile")
CHARACTERS = [chr(ord("0") + i) for i in range(65)]
COMPARED = 3  # first losses
TOLERANCE = {"fp32": 1e-4, "bf16": 2e-2}

# steps: in each round; warm_up: of those, not counted (torch.compile compiles in the first).
WORKS = {
    "mlp": {"recipe": "{type: mlp, hidden: [256]}", "model": "mlp", "data": "images", "shape": (1, 28, 28),
            "options": {"inputs": 784, "outputs": 10, "hidden": [256]},
            "batch": 64, "samples": 4096, "steps": 300, "warm_up": 50},
    "cnn": {"recipe": "{type: lenet}", "model": "lenet", "data": "images", "shape": (1, 28, 28),
            "options": {"image": [1, 28, 28], "classes": 10},
            "batch": 128, "samples": 1024, "steps": 16, "warm_up": 4},
    "resnet18": {"recipe": "{type: resnet, depth: 18, stem: imagenet}", "model": "resnet", "data": "images",
                 "shape": (3, 64, 64), "options": {"depth": 18, "stem": "imagenet", "channels": 3, "classes": 10},
                 "batch": 16, "samples": 256, "steps": 12, "warm_up": 3},
    "char-gpt": {"recipe": "{type: gpt, layers: 4, heads: 4, width: 128}", "model": "gpt", "data": "text",
                 "options": {"vocab": 65, "context": 128, "layers": 4, "heads": 4, "width": 128},
                 "batch": 32, "samples": 256, "steps": 10, "warm_up": 3},
    "gpt2-124m": {"recipe": "{type: gpt, layers: 12, heads: 12, width: 768, context: 256, vocab: 50257}",
                  "model": "gpt", "data": "tokens",
                  "options": {"vocab": 50257, "context": 256, "layers": 12, "heads": 12, "width": 768},
                  "batch": 1, "samples": 16, "steps": 6, "warm_up": 2},
}

RECIPE = """
seed: 42
model: MODEL
data: {train: DATA, loader: {drop_last: true}}
optimizer: {type: adamw, lr: 0.001, weight_decay: 0.01}
train: {until: STEPS steps, batch: BATCH}
accelerator: {mixed_precision: PRECISION, num_cpu_threads_per_process: THREADS}
checkpoint: {every: never, at_end: false}
log: {every: 1 steps}
"""


def write_npy(path, kind, shape, content):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content)


def write_data(folder):
    """The same in every run."""
    draw = random.Random(0)
    for name, work in WORKS.items():
        if work["data"] == "images":
            shape = (work["samples"], *work["shape"])
            size = shape[0] * shape[1] * shape[2] * shape[3]
            write_npy(folder / f"{name}_x.npy", "|u1", shape, draw.randbytes(size))
            labels = [draw.randrange(10) for _ in range(shape[0])]
            write_npy(folder / f"{name}_y.npy", "<i8", (shape[0],), struct.pack(f"<{len(labels)}q", *labels))
    (folder / "input.txt").write_text("".join(CHARACTERS + draw.choices(CHARACTERS, k=128 * 256)))
    ids = [draw.randrange(50257) for _ in range(256 * 16 + 1)]
    (folder / "tokens.bin").write_bytes(struct.pack(f"<{len(ids)}H", *ids))


def recipe_data(name):
    work = WORKS[name]
    if work["data"] == "images":
        return f"{{type: npy, scale: true, inputs: {name}_x.npy, targets: {name}_y.npy}}"
    context, limit = work["options"]["context"], work["samples"]
    if work["data"] == "text":
        return f"{{type: text, path: input.txt, context: {context}, limit: {limit}}}"
    return f"{{type: tokens, path: tokens.bin, vocab: 50257, context: {context}, limit: {limit}}}"


class Bench:
    def __init__(self, words):
        self.words, self.count = words, 0
        words.folder.mkdir(parents=True, exist_ok=True)
        write_data(words.folder)

    def call(self, command, threads):
        """Peak memory in MiB."""
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONPATH=str(HERE.parent / "tests/interop"))
        log = self.words.folder / "output.txt"
        with log.open("w") as out:
            process = subprocess.Popen([str(word) for word in command], cwd=self.words.folder, env=environment,
                                       stdout=out, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{command[0]} ended with {process.returncode}: {log.read_text()[-3000:]}")
        return usage.ru_maxrss / 1024

    def ours(self, name, precision, threads):
        work, self.count = WORKS[name], self.count + 1
        recipe = RECIPE.replace("MODEL", work["recipe"]).replace("DATA", recipe_data(name))
        recipe = recipe.replace("STEPS", str(work["steps"])).replace("BATCH", str(work["batch"]))
        recipe = recipe.replace("PRECISION", "no" if precision == "fp32" else precision).replace("THREADS", str(threads))
        (self.words.folder / f"{self.count}.yaml").write_text(recipe)
        memory = self.call([self.words.accel_run, f"{self.count}.yaml"], threads)
        record = self.words.folder / f"runs/{self.count}/metrics.jsonl"
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        speeds = [line["log"]["train/samples_per_second"] for line in lines if "log" in line]
        losses = [line["loss"] for line in lines if "loss_bits" in line]
        return {"seconds": [work["batch"] / speed for speed in speeds], "losses": losses, "memory": memory}

    def theirs(self, peer, name, precision, threads):
        work = dict(WORKS[name], name=name, precision="no" if precision == "fp32" else precision, threads=threads)
        result = self.words.folder / "result.json"
        memory = self.call([self.words.python, HERE / "peer.py", peer, json.dumps(work), result], threads)
        return dict(json.loads(result.read_text()), memory=memory)


def agrees(found, wanted, precision):
    return all(abs(a - b) <= TOLERANCE[precision] * abs(b) for a, b in zip(found[:COMPARED], wanted[:COMPARED]))


def measure(bench, name, precision, threads):
    """One row: {side: {"seconds", "memory", "agrees"}}, all sides in turn."""
    sides = ["accel-run", *bench.words.peers]
    row = {side: {"seconds": [], "memory": 0, "agrees": True} for side in sides}
    for turn in range(bench.words.rounds):
        losses = {}
        for side in sides if turn % 2 == 0 else reversed(sides):
            result = (bench.ours(name, precision, threads) if side == "accel-run"
                      else bench.theirs(side, name, precision, threads))
            row[side]["seconds"] += result["seconds"][WORKS[name]["warm_up"]:]
            row[side]["memory"] = max(row[side]["memory"], result["memory"])
            losses[side] = result["losses"]
        for side in sides:
            row[side]["agrees"] &= agrees(losses[side], losses["accel-run"], precision)
    return row


def shown(row, operations, fastest):
    ours = statistics.median(row["accel-run"]["seconds"])
    lines = []
    for side, of in row.items():
        median, ordered = statistics.median(of["seconds"]), sorted(of["seconds"])
        spread = (ordered[len(ordered) * 3 // 4] - ordered[len(ordered) // 4]) / median
        lines.append(f"  {side:12}{median * 1e3:10.2f} ms  +-{spread * 50:4.1f} %  {of['memory']:7.0f} MiB"
                     f"  {operations / median / fastest:5.0%} of roofline"
                     + (f"  accel-run is {median / ours:5.2f}x as fast" if side != "accel-run" else "")
                     + ("" if of["agrees"] else "  VOID: other losses"))
    return lines


def arguments():
    def names(text):
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("accel_run", type=lambda text: Path(text).resolve())
    parser.add_argument("python", type=lambda text: Path(text).absolute())
    parser.add_argument("folder", type=lambda text: Path(text).absolute())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--works", type=names, default=list(WORKS))
    parser.add_argument("--precisions", type=names, default=["fp32", "bf16"])
    parser.add_argument("--threads", type=names, default=["1", "2"])
    parser.add_argument("--peers", type=names, default=list(PEERS))
    return parser.parse_args()


def main():
    words = arguments()
    bench, rows, void = Bench(words), [], False
    for precision in words.precisions:
        for threads in map(int, words.threads):
            fastest = bench.theirs("roofline", "mlp", precision, threads)["operations"]
            for name in words.works:
                operations = bench.theirs("count", name, "fp32", threads)["operations"]
                load = os.getloadavg()[0]
                row = measure(bench, name, precision, threads)
                void |= not all(side["agrees"] for side in row.values())
                print(f"{name}, {precision}, {threads} thread{'s'[:threads - 1]}; load before {load:.1f}")
                print("\n".join(shown(row, operations, fastest)), flush=True)
                rows.append({"work": name, "precision": precision, "threads": threads, "load": load,
                             "operations": operations, "fastest": fastest, "sides": row})
                (words.folder / "peers.json").write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if void else 0


if __name__ == "__main__":
    sys.exit(main())
