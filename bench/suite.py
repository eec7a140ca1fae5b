#!/usr/bin/env python3
"""Measures accel-run beside its peers.   make bench [SECTIONS=steps,start] [ROUNDS=3] [SHORT=1]

    suite.py ACCEL_RUN FOLDER [--python PYTHON] [--sections NAME,..] [--rounds N] [--short]
             [--works NAME,..] [--precisions fp32,bf16] [--threads 1,2] [--peers NAME,..]

PYTHON has torch, accelerate and transformers; without it accel-run is measured alone and its losses are
compared with golden ones. FOLDER is made; bench.json is left in it, a line of history.jsonl is added, and what
a section works with is in a folder of its name, emptied first.
--short: small works, for their losses alone. The machine should be idle. Exit code 1: losses that differ.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import checkpoints
import kernels
import loader
import logging_cost
import loop
import start
import steps
from sides import HERE
from works import WORKS


def beside(name, peer):
    """The section of a script that only compares."""
    def run(words, folder):
        if not words.python:
            print(f"  left out: it compares with {peer}, and there is no --python")
            return {}
        subprocess.run([sys.executable, HERE / f"{name}.py", words.accel_run, words.python, folder, str(words.rounds)],
                       check=True)
        return json.loads((folder / f"{name}.json").read_text())

    return run


SECTIONS = {"steps": steps.run, "start": start.run, "resume": start.run_resume, "checkpoints": checkpoints.run_section,
            "loader": loader.run, "ranks": beside("ranks", "Accelerate"), "sharded": beside("sharded", "FSDP2"),
            "inference": beside("inference", "transformers"),
            "logging": logging_cost.run, "loop": loop.run, "kernels": kernels.run}
PEERS = ("accelerate", "trainer", "eager", "compile")


def names(known):
    def parse(text):
        given = text.split(",")
        for name in given:
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(known)}")
        return given

    return parse


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("accel_run", type=lambda text: Path(text).resolve())
    parser.add_argument("folder", type=lambda text: Path(text).absolute())
    parser.add_argument("--python", type=lambda text: Path(text).absolute())
    parser.add_argument("--sections", type=names(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--works", type=names(WORKS), default=list(WORKS))
    parser.add_argument("--precisions", type=names(("fp32", "bf16")), default=["fp32", "bf16"])
    parser.add_argument("--threads", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--peers", type=names(PEERS), default=list(PEERS))
    words = parser.parse_args()
    words.rounds = words.rounds or (1 if words.short else 3)
    words.threads = words.threads or ([1] if words.short else [1, 2])
    if not words.python and not words.short and "steps" in words.sections:
        parser.error("without --python there are losses to compare with for --short alone")
    return words


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()


def circumstances(words):
    """What a figure must be read with."""
    git = subprocess.run(["git", "-C", str(HERE), "describe", "--always", "--dirty"],
                         capture_output=True, text=True, check=False)
    return {"time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "commit": git.stdout.strip(), "processor": processor(), "cores": os.cpu_count(), "short": words.short,
            "rounds": words.rounds, "load": os.getloadavg()[0]}


def main():
    words = arguments()
    words.folder.mkdir(parents=True, exist_ok=True)
    result = circumstances(words)
    for name in words.sections:
        folder = words.folder / name
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier run
        folder.mkdir()
        print(f"== {name}", flush=True)
        result[name] = SECTIONS[name](words, folder)
        (words.folder / "bench.json").write_text(json.dumps(result, indent=1) + "\n")
    with (words.folder / "history.jsonl").open("a") as history:
        history.write(json.dumps(result) + "\n")
    return 1 if any(result[name].get("void") for name in words.sections) else 0


if __name__ == "__main__":
    sys.exit(main())
