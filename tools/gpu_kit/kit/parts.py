"""The parts of the kit. Each takes the session and returns its numbers; it raises PartFailed for a finding.

`lines` of a part's numbers are shown as they are; the rest is a table.
"""

import json
import re
import statistics
import struct
import time

from . import works
from .session import KIT, PartFailed

# Without dropout: the generators of devices differ.
TOKENS = "data: {train: {type: synthetic/addition, length: 512}}\n"
IMAGES = "data: {train: {type: synthetic/glyphs, length: 512}}\n"
REST = """
seed: 7
optimizer: {type: adamw, lr: 0.001}
train: {until: 20 steps, batch: 16, max_grad_norm: 1.0}
checkpoint: {every: 10 steps, keep: {last: 2}}
log: {every: 5 steps}
"""
MODELS = {
    "mlp": "model: {type: mlp, hidden_sizes: [64, 32], activation: gelu}\n" + IMAGES,
    "lenet": "model: {type: lenet}\n" + IMAGES,
    "resnet": "model: {type: resnet, depth: 18, embedding_size: 8}\n" + IMAGES,
    "vit": "model: {type: vit, patch_size: 4, num_layers: 2, num_heads: 2, hidden_size: 32}\n" + IMAGES,
    "gpt": "model: {type: gpt, num_layers: 2, num_heads: 2, hidden_size: 32}\n" + TOKENS,
    "llama": "model: {type: llama, num_layers: 2, num_heads: 4, num_kv_heads: 2, hidden_size: 32}\n" + TOKENS,
    "moe": "model: {type: llama, num_layers: 2, num_heads: 4, hidden_size: 32, intermediate_size: 64, moe: {num_experts: 4, "
           "num_experts_per_tok: 2}, router_aux_loss_coef: 0.02}\n" + TOKENS,
    "checkpointed": "model: {type: gpt, num_layers: 2, num_heads: 2, hidden_size: 32}\n" + TOKENS,
}
# AdamW's first steps are the signs of gradients, so that it multiplies the rounding of convolutions: a ResNet's losses on
# one and on two threads of a CPU differ by 7e-4 in 20 steps.
MORE = {
    "checkpointed": ["train.activation_checkpointing=blocks", "train.micro_batch=8"],
    "lenet": ["optimizer!={type: sgd, lr: 0.01, momentum: 0.9}"],
    "resnet": ["optimizer!={type: sgd, lr: 0.0003}"],
}
BOUND = 1e-5
# bf16 and fp8 round at other places on a GPU: the first loss, and those of 20 steps.
FIRST_BOUND, NARROW_BOUND = 1e-3, 2e-2
# Attention has a kernel of its own on the CPU: the others have equal bits on the fake device.
OF_SMALL = ("lenet", "llama", "moe", "checkpointed")
SAME_BITS = ("mlp", "lenet", "resnet")


def environment(session):
    """GPU, driver, limits, versions."""
    output, _ = session.call(session.binary, "env", limit=60)
    lines = [line for line in output.splitlines() if line.strip()]
    numbers = {"gpu": "none"}
    if session.device == "cuda":
        query = "name,driver_version,memory.total,power.limit,clocks.max.sm,clocks.max.mem"
        shown, _ = session.call("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader", limit=30)
        numbers = dict(zip(query.split(","), (value.strip() for value in shown.splitlines()[0].split(","))))
    return {**numbers, "lines": lines}


def relative(found, wanted):
    if len(found) != len(wanted) or not wanted:
        raise PartFailed(f"{len(found)} losses, and {len(wanted)} were wanted")
    return max(abs(a - b) / max(1e-12, abs(b)) for a, b in zip(found, wanted))


def equality(session):
    """20 steps of AdamW, of SGD for convolutions, in fp32 without TF32, against the CPU."""
    numbers, failed = {}, []
    for name, recipe in MODELS.items():
        if session.small and name not in OF_SMALL:
            continue
        words = ["accelerator.kernels=reference", "accelerator.tf32=false", *MORE.get(name, [])]
        try:
            session.train(f"{name}_cpu", recipe + REST, *words, device="cpu")
            session.train(f"{name}_gpu", recipe + REST, *words)
            numbers[name] = relative(session.losses(f"{name}_gpu"), session.losses(f"{name}_cpu"))
            if numbers[name] > BOUND:
                failed.append(f"{name}: losses differ by {numbers[name]:.1e}, at most {BOUND:.0e} is wanted")
            if session.small and name in SAME_BITS and session.bits(f"{name}_gpu") != session.bits(f"{name}_cpu"):
                failed.append(f"{name}: other bits than on the CPU")
        except PartFailed as error:
            failed.append(f"{name}: {error}")
    if failed:
        raise PartFailed("; ".join(failed))
    return {f"{name}: largest difference of losses": value for name, value in numbers.items()}


def fused(session):
    """20 steps of AdamW in fp32 with the fused kernels of the device, against the CPU with PyTorch's."""
    numbers = {}
    for name in ("gpt", "llama"):
        session.train(f"{name}_plain", MODELS[name] + REST, "accelerator.kernels=reference", device="cpu")
        output = session.train(f"{name}_fused", MODELS[name] + REST, "accelerator.kernels=fused", "accelerator.tf32=false",
                               environment=session.environment(**session.kernel_library()))
        numbers[f"{name}: largest difference of losses"] = relative(session.losses(f"{name}_fused"), session.losses(f"{name}_plain"))
        numbers["lines"] = [line for line in output.splitlines() if line.startswith("accelerator.kernels: ")]
    worst = max(value for value in numbers.values() if isinstance(value, float))
    if worst > BOUND:
        raise PartFailed(f"losses differ by {worst:.1e}, at most {BOUND:.0e} is wanted", numbers)
    return numbers


def moved(session):
    """10 steps on the CPU, 10 on the device and 10 on the CPU, against 30 on the CPU."""
    recipe, words = MODELS["gpt"] + REST, ["accelerator.kernels=reference", "accelerator.tf32=false"]
    session.train("straight", recipe, *words, "train.until=30 steps", device="cpu")
    session.train("moved", recipe, *words, "train.until=10 steps", device="cpu")
    for until, device in ((20, "cpu" if session.device == "cpu" else "cuda"), (30, "cpu")):
        session.call(session.binary, "resume", "runs/moved", f"train.until={until} steps", f"accelerator.device={device}",
                     "--allow", "train.until", "--allow", "accelerator.device", limit=120)
    found = relative(session.losses("moved"), session.losses("straight"))
    if found > BOUND:
        raise PartFailed(f"losses differ by {found:.1e}, at most {BOUND:.0e} is wanted")
    return {"largest difference of losses": found}


# Of six blocks of 50 KiB the device has room for about two.
PLACED = {
    "all weights on the device": ["--device", "cuda"],
    "blocks in memory": ["--max-memory", "0=120KiB,cpu=1GiB"],
    "blocks on the disk": ["--max-memory", "0=120KiB,cpu=110KiB"],
}


def inference(session):
    """An evaluation on the device, also where it has no room for the model, against the CPU."""
    if session.device == "cpu":
        return {"skipped": "this compares a device with the CPU"}
    data = TOKENS.replace("length: 512}}", "length: 512}, eval: {type: synthetic/addition, length: 64}}")
    recipe = "model: {type: gpt, num_layers: 6, num_heads: 2, hidden_size: 32}\n" + data + REST
    session.train("inferred", recipe, "accelerator.kernels=reference", "accelerator.tf32=false", device="cpu")

    def loss(*flags):
        output, _ = session.call(session.binary, "evaluate", "runs/inferred", "--json", *flags, limit=60)
        result = next(line for line in output.splitlines() if line.startswith("{"))
        return json.loads(result)["eval/loss"], [line for line in output.splitlines() if line.startswith(("copied", "streamed"))]

    wanted, _ = loss("--device", "cpu")
    numbers = {"lines": []}
    for name, flags in PLACED.items():
        found, lines = loss(*flags)
        numbers[f"{name}: difference of losses"] = abs(found - wanted) / wanted
        numbers["lines"] += lines
    worst = max(value for value in numbers.values() if isinstance(value, float))
    if worst > BOUND:
        raise PartFailed(f"losses differ by {worst:.1e}, at most {BOUND:.0e} is wanted", numbers)
    return numbers


def exact(session):
    """Deterministic mode twice, and a resume in the middle: equal bits."""
    recipe = MODELS["gpt"].replace("hidden_size: 32", "hidden_size: 32, dropout: 0.1") + REST
    words = ["train.deterministic=true"]
    for name in ("once", "twice"):
        session.train(name, recipe, *words)
    if session.bits("once") != session.bits("twice"):
        raise PartFailed("two deterministic runs have other losses")
    session.train("resumed", recipe, *words, "train.until=10 steps")
    session.call(session.binary, "resume", "runs/resumed", "train.until=20 steps", "--allow", "train.until", limit=120)
    if session.bits("resumed") != session.bits("once"):
        raise PartFailed("a resumed run has other losses than the straight one")
    return {"equal bits": "two runs; a resumed and a straight run"}


def kernels(session):
    """Each kernel of libaccel_cuda.so against the CPU and double precision: the unit tests of kernels/cuda."""
    library = session.kernel_library()
    if not library:
        return {"skipped": "this build has no libaccel_cuda.so"}
    found = session.work / "kernels.json"
    found.unlink(missing_ok=True)
    output, code = session.call(KIT / "cuda_kernels_test", f"--gtest_output=json:{found}", limit=120, check=False,
                                environment=session.environment(**library, **session.loader_path()))
    if not found.exists():
        raise PartFailed(f"ended with {code}: {output[-1500:]}")
    suites = json.loads(found.read_text())["testsuites"]
    numbers = {suite["name"]: f"{suite['tests'] - suite['failures']} of {suite['tests']} tests pass" for suite in suites}
    if code:
        lines = [line for line in output.splitlines() if "FAILED" in line or "The difference" in line or "which exceeds" in line]
        raise PartFailed("; ".join(lines[:10]), numbers)
    return numbers


def fp8(session):
    """20 steps of each recipe of fp8, by the products of the GPU, against their emulation on the CPU."""
    numbers, failed = {}, []
    recipe = MODELS["llama"].replace("hidden_size: 32", "hidden_size: 64, intermediate_size: 128") + REST
    for name in ("tensorwise", "rowwise", "rowwise_gw_hp", "delayed"):
        words = ["accelerator.mixed_precision=fp8", f"accelerator.fp8.recipe={name}"]
        try:
            session.train(f"fp8_{name}_cpu", recipe, *words, device="cpu")
            session.train(f"fp8_{name}", recipe, *words)
            found, wanted = session.losses(f"fp8_{name}"), session.losses(f"fp8_{name}_cpu")
            numbers[f"{name}: difference of the first loss"] = relative(found[:1], wanted[:1])
            numbers[f"{name}: largest difference of losses"] = relative(found, wanted)
            if relative(found[:1], wanted[:1]) > FIRST_BOUND or relative(found, wanted) > NARROW_BOUND:
                failed.append(f"{name}: losses differ")
        except PartFailed as error:
            failed.append(f"{name}: {error}")
    if failed:
        raise PartFailed("; ".join(failed), numbers)
    return numbers


def graph(session):
    """Steps of which each is one launch of a CUDA graph: the losses without it, and a resume in the middle."""
    numbers, environment = {}, session.environment(**session.kernel_library())
    for name in ("gpt", "llama", "resnet"):
        recipe = MODELS[name].replace("hidden_size: 32", "hidden_size: 32, dropout: 0.1" if name == "gpt" else "hidden_size: 32")
        words = ["accelerator.mixed_precision=bf16", "train.deterministic=true"]
        session.train(f"{name}_launched", recipe + REST, *words, environment=environment)
        session.train(f"{name}_graph", recipe + REST, *words, "accelerator.cuda_graph=true", environment=environment)
        difference = relative(session.losses(f"{name}_graph"), session.losses(f"{name}_launched"))
        numbers[f"{name}: largest difference of losses"] = difference
        if difference > BOUND:
            raise PartFailed(f"{name}: losses differ by {difference:.1e}", numbers)
    recipe = MODELS["gpt"].replace("hidden_size: 32", "hidden_size: 32, dropout: 0.1") + REST
    words = [*words, "accelerator.cuda_graph=true"]
    session.train("graph_resumed", recipe, *words, "train.until=10 steps", environment=environment)
    session.call(session.binary, "resume", "runs/graph_resumed", "train.until=20 steps", "--allow", "train.until", limit=120,
                 environment=environment)
    if session.bits("graph_resumed") != session.bits("gpt_graph"):
        raise PartFailed("a resumed run has other losses than the straight one", numbers)
    return {**numbers, "equal bits": "a resumed and a straight run"}


def ceilings(session):
    """Copies, matrix products and attention by PyTorch's operators."""
    return session.python("ceilings.py", "cuda" if session.device == "cuda" else "cpu", limit=180)


def seconds_of(record, batch):
    speeds = [line["log"]["train/samples_per_second"] for line in record if "log" in line]
    return [batch / speed for speed in speeds[1:] or speeds]  # the first interval warms up


def speed_of(session, name, numbers):
    work = works.work_of(name, session.small)
    steps = 40 if session.device == "cuda" else 10
    device = "cuda" if session.device == "cuda" else "cpu"
    sides, first = {}, {}
    session.train(name, works.recipe(work, session.work, steps), limit=180)
    record = session.record(name)
    numbers[f"{name}: parameters"] = next(line["plan"]["parameters"] for line in record if "plan" in line)
    sides["accel-run"] = seconds_of(record, work["batch"])
    first["accel-run"] = session.losses(name)[0]
    if work["kind"] in ("gpt", "llama"):
        graph_name = f"{name}_graph"
        session.train(graph_name, works.recipe(work, session.work, steps), "accelerator.cuda_graph=true", limit=180,
                      environment=session.environment(**session.kernel_library()))
        sides["accel-run with a CUDA graph"] = seconds_of(session.record(graph_name), work["batch"])
    started = time.monotonic()
    session.train(f"{name}_start", works.recipe(work, session.work, 1, every=1), limit=120)
    numbers[f"{name}: accel-run's whole run of one step"] = f"{time.monotonic() - started:.1f} s"
    for peer in ("eager",) if session.small else session.peers:
        try:
            found = session.python("peer.py", peer, json.dumps(work), device, steps, limit=240)
            sides[peer], first[peer] = found["seconds"], found["first_loss"]
            numbers[f"{name}: {peer} start to first step"] = f"{found['first_step']:.1f} s"
            numbers[f"{name}: {peer} peak memory"] = f"{found['memory_mib']:,.0f} MiB"
        except PartFailed as error:
            numbers[f"{name}: {peer}"] = f"none: {str(error).strip().splitlines()[-1][-200:]}"
    ours = statistics.median(sides["accel-run"])
    unit = "images" if work["kind"] == "resnet" else "tokens"
    for side, seconds in sides.items():
        middle = statistics.median(seconds)
        text = f"{middle * 1e3:.2f} ms, {works.units(work) / middle:,.0f} {unit}/s"
        operations = works.flops(work, numbers.get(f"{name}: parameters", 0))
        if operations and session.device == "cuda":
            text += f", {operations / middle / 1e12:.0f} TFLOP/s (6N + 12LCT)"
        if not side.startswith("accel-run"):
            text += f"; accel-run is {middle / ours:.2f}x as fast"
        numbers[f"{name}: {side}"] = text
    return work


def speed(session):
    """Steps in bf16 beside PyTorch eager, torch.compile and Accelerate."""
    numbers, failed = {}, []
    for name in session.works[:2] if session.small else session.works:
        if session.left() < 30:
            failed.append(f"{name}: no time left")
            continue
        try:
            speed_of(session, name, numbers)
        except PartFailed as error:
            failed.append(f"{name}: {error}")
    if failed:
        raise PartFailed("; ".join(failed), numbers)
    return numbers


def waits(session):
    """Calls that wait for the device, in a steady step: the difference of a long and a short run."""
    if session.device != "cuda":
        return {"skipped": "this counts calls of CUDA's runtime"}
    work, counts = works.work_of("char-gpt", session.small), {}
    for steps in (20, 60):
        path = session.work / f"waits_{steps}.json"
        session.train(f"waits_{steps}", works.recipe(work, session.work, steps, every=1000), limit=120,
                      environment=session.environment(LD_PRELOAD=str(KIT / "libcount_waits.so"), ACCEL_WAITS=str(path)))
        counts[steps] = json.loads(path.read_text())
    return {f"{name} per step": (counts[60][name] - counts[20][name]) / 40 for name in counts[20]}


def profile(session):
    """Kernels of a step of GPT-2 124M by time."""
    work = works.work_of("gpt2-124m", session.small)
    output = session.train("profiled", works.recipe(work, session.work, 12), "profile.steps=[10, 11]", limit=180)
    lines = output.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("profile of steps")), None)
    if start is None:
        raise PartFailed(f"no table of operators: {output[-500:]}")
    return {"lines": lines[start:start + 40]}


def memory(session):
    """Memory of a run, measured by it and by the driver, beside its plan."""
    numbers = {}
    for name in ("gpt2-124m", "llama-1b"):
        work = works.work_of(name, session.small)
        output = session.train(f"memory_{name}", works.recipe(work, session.work, 10), limit=180)
        compared = [line for line in output.splitlines() if line.startswith("planned and actual")]
        planned, _ = session.call(session.binary, "plan", f"memory_{name}.yaml", limit=120)
        numbers[name] = compared[-1] if compared else "not reported"
        numbers[f"{name}: plan"] = "; ".join(line.strip() for line in planned.splitlines() if "memory" in line)[:300]
    return numbers


def checkpoints(session):
    """Saves and loads of GPT-2 124M with AdamW's state."""
    work = works.work_of("gpt2-124m", session.small)
    recipe = works.recipe(work, session.work, 20).replace("every: never, at_end: false", "every: 10 steps, keep: {last: 1}")
    session.train("saved", recipe, limit=180)
    saves = [line["text"].split("/")[-1] for line in session.record("saved") if line.get("event") == "save"]
    output, _ = session.call(session.binary, "resume", "runs/saved", "train.until=22 steps", "--allow", "train.until", "-v",
                             limit=180)
    folder = max((session.work / "runs/saved/checkpoints").iterdir(), key=lambda path: path.stat().st_mtime)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"size": f"{size / 1e6:,.0f} MB", **{f"save {i + 1}": text for i, text in enumerate(saves)},
            "lines": [line for line in output.splitlines() if re.search(r"load|restor|start  ", line)][:8]}


def too_large(session):
    """A batch that exceeds the device's memory ends with exit code 8 and an error in words, or trains in smaller ones."""
    if session.device != "cuda":
        return {"skipped": "memory of the host has no such limit"}
    work = dict(works.work_of("gpt2-124m", False), batch=1024)
    path = session.work / "too_large.yaml"
    path.write_text(works.recipe(work, session.work, 2))
    output, code = session.call(session.binary, path.name, "accelerator.device=cuda", "train.micro_batch=1024", limit=180,
                                check=False)
    if code not in (0, 8) or (code == 8 and "error: " not in output):
        raise PartFailed(f"ended with {code}: {output[-500:]}")
    return {"exit code": code, "lines": output.splitlines()[-3:]}


PARTS = {
    "environment": environment,
    "equality": equality,
    "devices": moved,
    "inference": inference,
    "exactness": exact,
    "kernels": kernels,
    "fused": fused,
    "fp8": fp8,
    "graph": graph,
    "ceilings": ceilings,
    "speed": speed,
    "waits": waits,
    "profile": profile,
    "memory": memory,
    "checkpoints": checkpoints,
    "out_of_memory": too_large,
}
