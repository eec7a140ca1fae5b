#!/usr/bin/env python3
"""What two ranks on this machine cost, beside Accelerate's DDP in two processes.

    ranks.py ACCEL_RUN PYTHON FOLDER [ROUNDS]

PYTHON has accelerate installed. FOLDER is made; ranks.json is left in it. All sides train the same
model on the same batches with one thread each, and must come to the same losses. They take turns;
medians and ratios are printed. The machine should be idle: each rank waits for one that is held up.

shared: a step of two ranks. apart: the same micro-batch in two processes that know nothing of each
other, so that both cores are as busy. Start-up is from the start of the first process to the end of
the first step.

How much of the exchange of gradients is hidden is read from traces of both our ranks. An exchange
travels from when both ranks have begun it until it is done on a rank; while a rank's training waits
for it meanwhile it shows, and else it is hidden behind the backward pass. Waiting for a rank that has
not begun it yet is counted by itself.
"""

import gzip
import json
import os
import random
import re
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

INTEROP = Path(__file__).resolve().parents[1] / "tests/interop"
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", ACCELERATE_USE_CPU="1", PYTHONPATH=str(INTEROP))
WARM_UP = 3  # steps that are not counted
STARTS = 2  # of each kind in a round

# (model in the recipe, options of models.py, data, batch, steps, learning rate)
WORKS = {
    "char-gpt": ("{type: gpt, num_layers: 4, num_heads: 4, hidden_size: 128}", {"layers": 4, "heads": 4, "width": 128}, "text", 32, 11, 1e-3),
    "lenet": ("{type: lenet}", {"image": [1, 28, 28], "classes": 10}, "images", 128, 13, 1e-3),
    "resnet18": ("{type: resnet, depth: 18, stem: imagenet}", {"depth": 18, "stem": "imagenet", "channels": 1, "classes": 10},
                 "large images", 32, 9, 1e-6),
    "resnet18-28": ("{type: resnet, depth: 18, stem: imagenet}", {"depth": 18, "stem": "imagenet", "channels": 1, "classes": 10},
                    "images", 32, 9, 1e-6),
}
CONTEXT = 128
WINDOWS = 512
LARGE_IMAGES = (512, 64, 64)  # numbers, as wide and high as the steps of suite.py have them
CHARACTERS = [chr(ord("0") + i) for i in range(65)]
DATA = {
    "text": f"{{type: text, path: input.txt, max_seq_len: {CONTEXT}, stride: 1, head: {WINDOWS}}}",
    "images": f"{{type: idx, images: {INTEROP}/data/images.idx.gz, labels: {INTEROP}/data/labels.idx.gz}}",
    "large images": "{type: idx, images: images.idx.gz, labels: labels.idx.gz}",
}

RECIPE = """
seed: 42
model: MODEL
data:
  train: DATA
  loader: {drop_last: true}
optimizer: {type: adamw, lr: LR}
train: {until: STEPS steps, batch: BATCH}
accelerator: {num_cpu_threads_per_process: 1}
checkpoint: {every: never, at_end: false}
log: {every: 1 steps}
"""

# argv: shared, sharded (by FSDP2), apart or reduce; the work as JSON; where the results go.
SCRIPT = '''
import gzip, json, sys, time
import torch
import torch.distributed.fsdp
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.utils.data import DataLoader, TensorDataset
import make_golden_losses as golden
import models, ranks

mode, work, path = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]

def large_images():
    images, labels = (bytearray(gzip.open(name).read()) for name in ("images.idx.gz", "labels.idx.gz"))
    pixels = torch.frombuffer(images, dtype=torch.uint8, offset=16).view(-1, 1, *work["side"])
    return TensorDataset(pixels.float().div(255), torch.frombuffer(labels, dtype=torch.uint8, offset=8).long())

torch.set_num_threads(1)
accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, data_seed=42))
set_seed(42)
if work["data"] == "text":
    text = open("input.txt").read()
    ids = {character: i for i, character in enumerate(sorted(set(text)))}
    tokens = torch.tensor([ids[character] for character in text])
    windows = tokens.unfold(0, work["context"] + 1, 1)[:work["windows"]]
    data = TensorDataset(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())
    model = models.Gpt(len(ids), work["context"], **work["options"])
else:
    data = golden.image_data() if work["data"] == "images" else large_images()
    model = (models.ResNet if "depth" in work["options"] else models.LeNet)(**work["options"])
if mode == "sharded":
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
    for part in (*model.transformer.h, model):
        torch.distributed.fsdp.fully_shard(part, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=work["lr"], fused=True)
loader = DataLoader(data, batch_size=work["batch"] // 2, shuffle=True, drop_last=True, generator=torch.Generator())
size = sum(parameter.numel() for parameter in model.parameters())
optimizer, loader = accelerator.prepare(optimizer, loader)
if mode == "shared":
    model = accelerator.prepare(model)
seconds, losses = [], []

def train():
    start = time.perf_counter()
    for loss in golden.train(accelerator, model, optimizer, loader):
        losses.append(loss.item())
        now = time.perf_counter()
        seconds.append(now - start)
        start = now
        if len(losses) == 1 and accelerator.is_main_process:
            print("first step", flush=True)
        if len(losses) == work["steps"]:
            return

def reduce_alone():
    flat = torch.ones(size)
    for _ in range(work["steps"]):
        torch.distributed.barrier()
        start = time.perf_counter()
        torch.distributed.all_reduce(flat)
        seconds.append(time.perf_counter() - start)

reduce_alone() if mode == "reduce" else train()
both = accelerator.gather(torch.tensor(losses or [0.0], dtype=torch.float64)).view(2, -1).mean(0)
if accelerator.is_main_process:
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    json.dump({"seconds": seconds, "losses": both.tolist(), "memory": int(peak.split()[1]) / 1024}, open(path, "w"))
ranks.leave()
'''


def accelerate_launch(python):
    # The one way to have it start several processes without MPI; scripts choose the CPU themselves.
    return [python, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
            "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]


def torchrun(python):
    return [python, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--rdzv_backend", "c10d",
            "--rdzv_endpoint", "127.0.0.1:0"]


class Bench:
    def __init__(self, binary, python, folder):
        self.binary, self.python, self.folder = binary, python, folder
        self.count = 0
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "script.py").write_text(SCRIPT)
        random.seed(0)
        (folder / "input.txt").write_text("".join(CHARACTERS + random.choices(CHARACTERS, k=20000)))
        count, height, width = LARGE_IMAGES
        for name, sizes, data in (("images", LARGE_IMAGES, random.randbytes(count * height * width)),
                                  ("labels", LARGE_IMAGES[:1], bytes(random.choices(range(10), k=count)))):
            header = struct.pack(f">BBBB{len(sizes)}I", 0, 0, 8, len(sizes), *sizes)
            (folder / f"{name}.idx.gz").write_bytes(gzip.compress(header + data, mtime=0))

    def start(self, command):
        return subprocess.Popen([str(word) for word in command], cwd=self.folder, env=ENVIRONMENT, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process):
        _, errors = process.communicate()
        if process.returncode:
            raise RuntimeError(f"exit {process.returncode}: {errors[-3000:]}")

    def ours(self, recipe, *words):
        """A run under way, and where its record will be."""
        self.count += 1
        (self.folder / f"{self.count}.yaml").write_text(recipe)
        return self.start([self.binary, f"{self.count}.yaml", *words]), self.folder / f"runs/{self.count}/metrics.jsonl"

    def steps_of(self, process, record, batch):
        self.finish(process)
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        speeds = [line["log"]["train/samples_per_second"] for line in lines if "log" in line]
        return [batch / speed for speed in speeds], [line["loss"] for line in lines if "loss_bits" in line]

    def ours_shared(self, name):
        return self.steps_of(*self.ours(recipe_of(WORKS[name]), "accelerator.num_processes=2"), WORKS[name][3])

    def ours_apart(self, name):
        batch = WORKS[name][3] // 2
        both = [self.ours(recipe_of(WORKS[name]), f"train.batch={batch}") for _ in range(2)]
        return [self.steps_of(*one, batch) for one in both][0]

    def exchanges(self, name, *words):
        """What the exchanges of gradients took in the steps that count, of both ranks together."""
        steps = WORKS[name][4]
        process, record = self.ours(recipe_of(WORKS[name]), "accelerator.num_processes=2", f"profile.steps=[{WARM_UP + 1}, {steps}]",
                                    *words)
        self.finish(process)
        return exchanges_of([record.parent / f"profile/steps_{WARM_UP + 1}_to_{steps}/rank_{rank}.json" for rank in range(2)])

    def theirs(self, name, mode, launcher=torchrun):
        result = self.result_of(WORKS[name], mode, launcher)
        return result["seconds"], result["losses"]

    def result_of(self, work, mode, launcher=torchrun):
        _, options, data, batch, steps, lr = work
        words = {"options": options, "data": data, "batch": batch, "steps": steps, "lr": lr, "context": CONTEXT,
                 "windows": WINDOWS,
                 "side": LARGE_IMAGES[1:]}
        self.finish(self.start([*launcher(self.python), "script.py", mode, json.dumps(words), "result.json"]))
        return json.loads((self.folder / "result.json").read_text())

    def seconds_to_first_step(self, side):
        start = time.perf_counter()
        if side == "ours":
            process, _ = self.ours(TINY, "accelerator.num_processes=2")
            wanted = re.compile("step 1/")
        else:
            launcher = {"torchrun": torchrun, "accelerate launch": accelerate_launch}[side]
            process = self.start([*launcher(self.python), "tiny.py"])
            wanted = re.compile("first step")
        while line := process.stdout.readline():
            if wanted.match(line):
                break
        seconds = time.perf_counter() - start
        self.finish(process)
        if not line:
            raise RuntimeError(f"{side} reported no first step")
        return seconds


def overlap(begin, end, spans):
    """Of the time from `begin` to `end`, how much lies in `spans`, which do not overlap."""
    return sum(max(0, min(end, last) - max(begin, first)) for first, last in spans)


def exchanges_of(traces):
    """Seconds that gradients travelled, showed, and that training waited for a late rank; from the traces of all ranks
    of one machine. Steps of all of them, and exchanges."""
    ranks = []
    for path in traces:
        spans = sorted((event["ts"], event["ts"] + event["dur"], event["name"])
                       for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X")
        # Exchanges end in the order in which training starts them.
        starts = [(begin, name) for begin, _, name in spans if name.startswith("start ")]
        ends = [end for _, end, name in spans if name.startswith(("gloo:", "shared_memory:"))]
        if len(starts) != len(ends):
            raise RuntimeError(f"{path} has {len(starts)} exchanges that start and {len(ends)} that end")
        own = [(begin, end) for (begin, name), end in zip(starts, ends) if name == "start gradients"]
        ranks.append({"travels": own, "waits": [span[:2] for span in spans if span[2] == "wait for gradients"],
                      "steps": sum(1 for span in spans if re.fullmatch(r"step \d+", span[2]))})
    counts = {len(rank["travels"]) for rank in ranks} | {len(rank["waits"]) for rank in ranks}
    if len(counts) != 1 or counts == {0}:
        raise RuntimeError(f"the traces do not have the same exchanges: {counts}")
    found = {"travelled": 0.0, "showed": 0.0, "late": 0.0, "steps": sum(rank["steps"] for rank in ranks), "exchanges": 0}
    for rank in ranks:
        for number, (begun, done) in enumerate(rank["travels"]):
            together = min(done, max(other["travels"][number][0] for other in ranks))
            found["travelled"] += (done - together) / 1e6
            found["showed"] += overlap(together, done, rank["waits"]) / 1e6
            found["late"] += overlap(begun, together, [rank["waits"][number]]) / 1e6
            found["exchanges"] += 1
    return found


TINY = """
model: {type: mlp, hidden_sizes: [16]}
data: {train: {type: synthetic/glyphs, length: 64}}
train: {until: 2 steps, batch: 16}
accelerator: {num_cpu_threads_per_process: 1}
checkpoint: {every: never, at_end: false}
log: {every: 1 steps}
"""

TINY_SCRIPT = """
import torch
from accelerate import Accelerator
import ranks
torch.set_num_threads(1)
accelerator = Accelerator(cpu=True)
model = torch.nn.Sequential(torch.nn.Linear(784, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10))
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
for step in range(2):
    accelerator.backward(torch.nn.functional.cross_entropy(model(torch.rand(8, 784)), torch.arange(8)))
    optimizer.step()
    optimizer.zero_grad()
    if step == 0 and accelerator.is_main_process:
        print("first step", flush=True)
ranks.leave()
"""


def recipe_of(work):
    model, _, data, batch, steps, lr = work
    recipe = RECIPE.replace("MODEL", model).replace("DATA", DATA[data])
    return recipe.replace("STEPS", str(steps)).replace("LR", str(lr)).replace("BATCH", str(batch))


def check_losses(name, found, wanted, bound=1e-4):
    """The largest relative difference. Other losses would mean other work."""
    worst = max((abs(a - b) / abs(b) for a, b in zip(found, wanted)), default=0.0)
    if len(found) != len(wanted) or worst > bound:
        raise RuntimeError(f"{name}: the losses are {found} for {wanted}")
    return worst


def measure(bench, rounds):
    """Seconds by (work, kind), and what the exchanges of gradients took by work."""
    seconds, exchanges = {}, {}

    def add(name, kind, values):
        seconds.setdefault((name, kind), []).extend(values)

    for _ in range(rounds):
        for name in WORKS:
            ours, our_losses = bench.ours_shared(name)
            theirs, their_losses = bench.theirs(name, "shared")
            check_losses(name, our_losses, their_losses)
            add(name, "ours, shared", ours[WARM_UP:])
            add(name, "theirs, shared", theirs[WARM_UP:])
            add(name, "ours, apart", bench.ours_apart(name)[0][WARM_UP:])
            add(name, "theirs, apart", bench.theirs(name, "apart")[0][WARM_UP:])
            add(name, "all-reduce", bench.theirs(name, "reduce")[0][WARM_UP:])
            for what, value in bench.exchanges(name).items():
                of = exchanges.setdefault(name, {})
                of[what] = of.get(what, 0) + value
        for _ in range(STARTS):
            for side in ("ours", "torchrun", "accelerate launch"):
                add("start", side, [bench.seconds_to_first_step(side)])
    return seconds, exchanges


def ratios_of(seconds, choose):
    """What the measurement is for, by (work, what), of the times that `choose` takes."""
    time = {key: choose(values) for key, values in seconds.items()}
    found = {}
    for name in WORKS:
        ours, theirs = ({way: time[name, f"{side}, {way}"] for way in ("shared", "apart")} for side in ("ours", "theirs"))
        found[name, "ours / theirs, shared"] = ours["shared"] / theirs["shared"]
        found[name, "ours / theirs, apart"] = ours["apart"] / theirs["apart"]
        for side, of in (("ours", ours), ("theirs", theirs)):
            found[name, f"{side}, shared / apart"] = of["shared"] / of["apart"]
    for side in ("torchrun", "accelerate launch"):
        found["start", f"ours / {side}"] = time["start", "ours"] / time["start", side]
    return found


def main():
    binary, python, folder = (Path(word).absolute() for word in sys.argv[1:4])
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    bench = Bench(binary, python, folder)
    (folder / "tiny.py").write_text(TINY_SCRIPT)
    load = os.getloadavg()[0]
    seconds, exchanges = measure(bench, rounds)
    median = {key: statistics.median(values) for key, values in seconds.items()}
    ratios = {"median": ratios_of(seconds, statistics.median), "least": ratios_of(seconds, min)}
    print(f"2 ranks, 1 thread each, {rounds} rounds; load before and after {load:.1f} and {os.getloadavg()[0]:.1f}")
    print("medians (least to most) in milliseconds")
    for (name, kind), values in seconds.items():
        print(f"  {name:9} {kind:18} {median[name, kind] * 1e3:8.2f}  ({min(values) * 1e3:.2f} to {max(values) * 1e3:.2f})")
    print("ratios of the medians, and of the least, which others on the machine disturb less")
    for (name, what), value in ratios["median"].items():
        print(f"  {name:9} {what:36} {value:8.3f} {ratios['least'][name, what]:8.3f}")
    print("our exchange of gradients, by the profiler's traces of both ranks, in milliseconds a step")
    for name, of in exchanges.items():
        each = {what: of[what] / of["steps"] * 1e3 for what in ("travelled", "showed", "late")}
        print(f"  {name:9} in {of['exchanges'] / of['steps']:.0f} buckets; travels {each['travelled']:.2f}, of which training waits"
              f" {each['showed']:.2f}: {1 - of['showed'] / of['travelled']:.0%} hidden; waits for a late rank {each['late']:.2f}")
    (folder / "ranks.json").write_text(json.dumps(
        {"load": load, "exchanges": exchanges, "seconds": {" ".join(key): value for key, value in median.items()},
         "ratios": {by: {" ".join(key): value for key, value in of.items()} for by, of in ratios.items()}},
        indent=1) + "\n")


if __name__ == "__main__":
    main()
