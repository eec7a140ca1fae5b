#!/usr/bin/env python3
"""What trackers cost a run: all file trackers at every step, and servers that are dead, slow, failing or lying.

    tracker_cost.py ACCEL_RUN [STEPS [PAIRS]]

What a step's logging takes of the training thread is measured where it can be seen, in runs of STEPS steps of a tiny
model, one after the other in turn: of the second half of each the time that the thread computed and the time that it
slept, neither of which has in it that other work had the processor. The median of PAIRS differences between such a run
and one without trackers stands beside a step of lenet at batch 128; then come ratios of lenet's own processor time,
which are less certain. The run without logs nothing where trackers write files, and every step where they have a server.
Exit code 1: something costs more than 1 % of a step of lenet.
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/smoke"))

import bad_servers  # noqa: E402

RECIPE = """
model: MODEL
data: {train: {type: synthetic/glyphs, length: 8192}, loader: {workers: 0}}
train: {until: STEPS steps, batch: BATCH}
accelerator: {num_cpu_threads_per_process: 1}
checkpoint: {every: never, at_end: false}
"""
TINY, LENET = ("{type: mlp, hidden_sizes: [8]}", 16), ("lenet", 128)
LENET_STEPS = 240
FILES = "[tensorboard, csv, wandb, comet, clearml, swanlab, mlflow, dvclive, trackio]"
NOTHING, LOGGED = "nothing", "no tracker"


def cases():
    """{name: (the one that it is compared with, words of the command line)}; servers answer until the end."""
    dead = socket.socket()
    dead.bind(("127.0.0.1", 0))  # and does not listen
    urls = {"a dead server": f"http://127.0.0.1:{dead.getsockname()[1]}"}
    for name, reply in bad_servers.REPLIES.items():
        urls[f"a {name} server"] = bad_servers.Server(reply).url
    every = "log.every=1 steps"
    found = {NOTHING: (NOTHING, []), LOGGED: (LOGGED, [every]),
             "all file trackers": (NOTHING, [every, f"trackers={FILES}"])}
    for name, url in urls.items():
        found[name] = (LOGGED, [every, f"trackers=[{{type: mlflow, uri: '{url}'}}]"])
    cases.dead = dead  # open as long as this runs
    return found


def used(process):
    """Seconds that the main thread computed, that it slept, and that all threads computed."""
    now, tasks = time.monotonic(), Path(f"/proc/{process.pid}/task")
    threads = {task.name: [int(word) / 1e9 for word in (task / "schedstat").read_text().split()] for task in tasks.iterdir()}
    computed, queued, _ = threads[str(process.pid)]
    return computed, now - computed - queued, sum(each[0] for each in threads.values())


def per_step(program, folder, work, steps, words):
    """What used() says, for a step of the second half of them."""
    model, batch = work
    recipe = Path(folder) / "job.yaml"
    recipe.write_text(RECIPE.replace("MODEL", model).replace("BATCH", str(batch)).replace("STEPS", str(steps)))
    found = []
    with tempfile.TemporaryDirectory() as runs:
        process = subprocess.Popen([program, recipe, f"log.every={steps // 2} steps", *words], cwd=runs,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in process.stdout:
            if line.startswith((f"step {steps // 2}/", f"step {steps}/")):
                found.append(used(process))
            if len(found) == 2:
                process.kill()  # it would wait for its server
        process.wait()
    if len(found) != 2:
        sys.exit(f"a run with {words} failed")
    return [(last - first) / (steps - steps // 2) for first, last in zip(*found)]


def rounds(program, folder, work, steps, count):
    """{name: what per_step() found in each round}; the order changes from round to round."""
    all_of = cases()
    found = {name: [] for name in all_of}
    for number in range(count):
        names = list(all_of)[number % len(all_of):] + list(all_of)[:number % len(all_of)]
        for name in names:
            found[name].append(per_step(program, folder, work, steps, all_of[name][1]))
        print(f"round {number + 1} of {count} of {work[0]}", file=sys.stderr, flush=True)
    return found, {name: base for name, (base, _) in all_of.items() if base != name}


def middle(ratios):
    """The median, and the quarters below and above it."""
    low, median, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return f"x {median:.3f} ({low:.3f} to {high:.3f})"


def main():
    program = str(Path(sys.argv[1]).absolute())
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        tiny, bases = rounds(program, folder, TINY, steps, pairs)
        lenet, _ = rounds(program, folder, LENET, LENET_STEPS, pairs)
    step = statistics.median(own[0] for own in lenet[NOTHING])
    print(f"a step of lenet takes {step * 1e3:.1f} ms of one thread\n")
    print("| | computing | asleep | of a step of lenet | lenet's training thread | lenet's process |")
    print("| --- | --- | --- | --- | --- | --- |")
    most = 0.0
    for name, base in bases.items():
        computed, asleep = [statistics.median(a[i] - b[i] for a, b in zip(tiny[name], tiny[base])) for i in (0, 1)]
        thread, process = [middle([a[i] / b[i] for a, b in zip(lenet[name], lenet[base])]) for i in (0, 2)]
        share = (computed + max(0.0, asleep)) / step
        print(f"| {name} | {computed * 1e6:.0f} us | {asleep * 1e6:.0f} us | {share:.2%} | {thread} | {process} |")
        most = max(most, share)
    return most > 0.01


if __name__ == "__main__":
    sys.exit(main())
