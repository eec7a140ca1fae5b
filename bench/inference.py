#!/usr/bin/env python3
"""Tokens per second of `generate` beside transformers and llama.cpp, in turns.

    inference.py ACCEL_RUN PYTHON FOLDER [ROUNDS] [--models gpt2-124m,llama-1.1b]
                 [--types fp32,bf16,int8,nf4,int8-bf16,nf4-bf16,int8-head,nf4-head,nf4-bf16-head] [--batches 1,8]
                 [--parts speed,start,load] [--tokens N]

PYTHON has torch, transformers, bitsandbytes and cyllama (llama.cpp's binding; without it its side is left out). FOLDER is
made; inference.json is left in it. Models have random weights. Steps after the prompts are timed: a step reads each
weight once and adds a token to each text of the batch. The limit is the time in which memory is read: the bytes of the
layers and the head by the bandwidth that PyTorch's sum reaches. int8-bf16 and nf4-bf16 compute in bf16 instead of fp32, as
bitsandbytes does on processors with AVX512_BF16 in both cases. llama.cpp has Q8_0 for int8 and Q4_0 for nf4, with 8.5
and 4.5 bits per weight, also of the head and the embedding; types with -head quantize the head on all sides.
"""

import argparse
import codecs
import json
import os
import statistics
import subprocess
import threading
import time
from pathlib import Path

from sides import HERE, environment

THREADS, PROMPT = 2, 16
TOKENS = {"gpt2-124m": 96, "llama-1.1b": 32}
BITS = {"fp32": 32, "bf16": 16, "int8": 8, "nf4": 4.5}
TYPES = ["fp32", "bf16", "int8", "nf4", "int8-bf16", "nf4-bf16", "int8-head", "nf4-head", "nf4-bf16-head"]


def bits_of_head(kind):
    weights, *more = kind.split("-")
    return BITS[weights] if "head" in more else 16 if "bf16" in kind else 32


def flags_of(kind):
    weights, *more = kind.split("-")
    flags = ["--dtype", "bf16"] if "bf16" in kind else []
    if weights in ("int8", "nf4"):
        flags += ["--quantization", f"{{type: {weights}, head: true}}" if "head" in more else weights]
    return flags


def peer(python, *words):
    """The result of inference_peer.py; None where it cannot do it, with its last line of output."""
    done = subprocess.run([str(word) for word in (python, HERE / "inference_peer.py", *words)], text=True,
                          capture_output=True, env=environment(THREADS), check=False)
    if done.returncode:
        print(f"  left out: {' '.join(map(str, words))[:60]}: {done.stderr.strip().splitlines()[-1]}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def prompts(count):
    return ["".join(chr(0x4E00 + 10 + row + i) for i in range(PROMPT)) for row in range(count)]


def times_of_tokens(accel_run, folder, flags, batch, tokens):
    """When the new tokens of the first text were printed, after the start of the process."""
    command = [str(accel_run), "generate", str(folder), "--batch-size", str(batch), "--max-new-tokens", str(tokens),
               "--temperature", "0", *flags]
    for prompt in prompts(batch):
        command += ["--prompt", prompt]
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(THREADS))
    errors = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read().decode()))
    reader.start()
    decoder, times = codecs.getincrementaldecoder("utf-8")(), []
    while piece := os.read(process.stdout.fileno(), 65536):
        now = time.perf_counter() - begin
        times += [now] * len(decoder.decode(piece))
    reader.join()
    if process.wait():
        raise RuntimeError(f"{' '.join(command[:3])} ended with {process.returncode}: {errors[0][-2000:]}")
    return times[PROMPT:PROMPT + tokens]


def ours(words, folder, kind, batch, tokens):
    """Seconds per step; None where the program has no flag for the type."""
    flags = flags_of(kind)
    if flags and flags[0] not in words.help:
        print(f"  left out: accel-run has no {flags[0]}")
        return None
    # The first token of a text comes before the prompts of the texts after it are read.
    times = times_of_tokens(words.accel_run, folder, flags, batch, tokens + 2)[1:]
    return (times[-1] - times[0]) / (len(times) - 1)


def speed_of(words, name, kind, batch):
    folder, tokens = words.folder / name, words.tokens or TOKENS[name]
    job = {"folder": str(folder), "type": kind, "batch": batch, "prompt": PROMPT, "tokens": tokens, "threads": THREADS,
           "file": str(words.folder / f"{name}-{kind.split('-')[0]}.gguf")}
    sides = {"accel-run": lambda: ours(words, folder, kind, batch, tokens)}
    for side in ("transformers", "llama_cpp") if name.startswith("llama") else ("transformers",):
        if side == "llama_cpp" and not Path(job["file"]).exists():
            if peer(words.python, "gguf", folder, kind, job["file"]) is None:
                continue
        sides[side] = lambda side=side: (peer(words.python, side, json.dumps(job)) or {}).get("seconds")
    seconds = {side: [] for side in sides}
    for _ in range(words.rounds):
        for side, call in sides.items():
            if (found := call()) is not None:
                seconds[side].append(found)
    return {side: statistics.median(values) for side, values in seconds.items() if values}


def measure_speed(words, result):
    result["bandwidth"] = peer(words.python, "bandwidth")["bytes_per_second"]
    print(f"  memory: {result['bandwidth'] / 1e9:.1f} GB/s, {THREADS} threads")
    result["speed"] = []
    for name in words.models:
        sizes = peer(words.python, "make", name, words.folder / name)
        for kind in words.types:
            read = (sizes["linear"] * BITS[kind.split("-")[0]] + sizes["head"] * bits_of_head(kind)) / 8
            for batch in words.batches:
                seconds = speed_of(words, name, kind, batch)
                rates = {side: batch / value for side, value in seconds.items()}
                limit = batch * result["bandwidth"] / read
                result["speed"].append({"model": name, "type": kind, "batch": batch, "rates": rates, "limit": limit})
                shown = "   ".join(f"{side} {rate:7.1f}" for side, rate in rates.items())
                share = f"{rates['accel-run'] / limit:.0%} of the limit" if "accel-run" in rates else ""
                print(f"  {name:11}{kind:13} batch {batch}: tokens/s  {shown}   {share}", flush=True)


def measure_start(words, result):
    folder = words.folder / "gpt2-124m"
    if not folder.exists():
        peer(words.python, "make", "gpt2-124m", folder)
    seconds = {"accel-run": [], "transformers": []}
    for _ in range(max(3, words.rounds)):
        seconds["accel-run"].append(times_of_tokens(words.accel_run, folder, [], 1, 1)[0])
        begin = time.perf_counter()
        peer(words.python, "first", folder)
        seconds["transformers"].append(time.perf_counter() - begin)
    result["first_token"] = {side: statistics.median(values) for side, values in seconds.items()}
    print("  first token of gpt2-124m: " + ", ".join(f"{side} {value:.2f} s" for side, value in result["first_token"].items()))


def private_mib(words, name):
    """The largest private memory until the first token."""
    folder = words.folder / name
    peer(words.python, "make", name, folder)
    command = [str(words.accel_run), "generate", str(folder), "--max-new-tokens", "1", "--temperature", "0", "--prompt",
               prompts(1)[0]]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(THREADS))
    private = 0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        for line in status.splitlines():
            if line.startswith("RssAnon"):
                private = max(private, int(line.split()[1]) / 1024)
        time.sleep(0.002)
    return private


def measure_load(words, result):
    """Memory beside the mapped file of 1 GB of weights, and that of the process with a model of 1 MB."""
    private, process = private_mib(words, "llama-1gb"), private_mib(words, "llama-small")
    size = sum(file.stat().st_size for file in (words.folder / "llama-1gb").glob("*.safetensors"))
    result["load"] = {"bytes": size, "private_mib": private, "process_mib": process}
    print(f"  {size / 1e9:.2f} GB of weights: {private:.0f} MiB of memory beside the mapped file, {process:.0f} of them "
          f"also with a model of 1 MB")


PARTS = {"speed": measure_speed, "start": measure_start, "load": measure_load}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("accel_run", type=lambda text: Path(text).resolve())
    parser.add_argument("python", type=lambda text: Path(text).absolute())
    parser.add_argument("folder", type=lambda text: Path(text).absolute())
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    for name, default in (("models", list(TOKENS)), ("types", TYPES), ("parts", list(PARTS))):
        parser.add_argument(f"--{name}", type=lambda text: text.split(","), default=default)
    parser.add_argument("--batches", type=lambda text: list(map(int, text.split(","))), default=[1, 8])
    parser.add_argument("--tokens", type=int, help="new tokens of each text")
    words = parser.parse_args()
    words.folder.mkdir(parents=True, exist_ok=True)
    words.help = subprocess.run([words.accel_run, "generate", "--help"], text=True, capture_output=True, check=True).stdout
    result = {}
    for name in words.parts:
        PARTS[name](words, result)
        (words.folder / "inference.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
