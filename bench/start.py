"""From the start of a process to the end of its first step: the tiny MLP, and GPT-2 124M from a checkpoint.

Times whole processes, in turns, until they report their first step.
"""

import json
import re
import statistics

from sides import HERE, call, peer_result, seconds_to_line
from steps import agrees
from works import recipe_of, works_of, write_data

THREADS = 1
STARTS = 3  # of each side in a round
PEERS = ("eager", "accelerate", "trainer")


def report(name, seconds):
    """Prints one line for each side, with its ratio to ours."""
    ours = statistics.median(seconds["accel-run"])
    for side, values in seconds.items():
        median = statistics.median(values)
        print(f"  {name:8} {side:20} {median:7.3f} s ({min(values):.3f} to {max(values):.3f})"
              + ("" if side == "accel-run" else f"  accel-run takes {ours / median:5.2f} of it"), flush=True)


def taken_in_turns(sides, rounds):
    """Seconds by side; `sides` maps a name to what starts it once and returns its seconds."""
    seconds = {side: [] for side in sides}
    for turn in range(rounds * STARTS):
        for side in sides if turn % 2 == 0 else reversed(list(sides)):
            seconds[side].append(sides[side]())
    return seconds


def peer_command(words, peer, work):
    return [words.python, HERE / "peer.py", peer, json.dumps(work), "result.json"]


def run(words, folder):
    work = dict(works_of(["mlp"], words.short)["mlp"], steps=1, warm_up=0, precision="no", threads=THREADS)
    write_data(folder, {"mlp": work})
    (folder / "tiny.yaml").write_text(recipe_of(work, "fp32", THREADS))
    step = re.compile("step 1/1 ")
    runs = iter(range(10**6))

    def ours():
        return seconds_to_line([words.accel_run, "tiny.yaml", f"name=tiny{next(runs)}"], folder, THREADS, step)

    def theirs(peer):
        return lambda: seconds_to_line(peer_command(words, peer, work), folder, THREADS, re.compile("first step"))

    sides = {"accel-run": ours, **({peer: theirs(peer) for peer in PEERS} if words.python else {})}
    seconds = taken_in_turns(sides, words.rounds)
    report("start", seconds)
    return {"seconds": seconds}


class Resumed:
    """GPT-2 with one step behind it on each side, to be gone on with."""

    def __init__(self, words, folder):
        self.words, self.folder = words, folder
        self.work = dict(works_of(["gpt2-124m"], words.short)["gpt2-124m"], steps=1, warm_up=0, precision="no",
                         threads=THREADS)
        write_data(folder, {"gpt2-124m": self.work})
        recipe = recipe_of(self.work, "fp32", THREADS)
        (folder / "gpt2.yaml").write_text(recipe.replace("at_end: false", "at_end: true"))
        call([words.accel_run, "gpt2.yaml"], folder, THREADS)
        if words.python:
            peer_result(words.python, "accelerate_saves", self.work, folder)

    def ours(self):
        return seconds_to_line([self.words.accel_run, "resume", "runs/gpt2", "train.until=2 steps",
                                "checkpoint.at_end=false"], self.folder, THREADS, re.compile("step 2/2 "))

    def our_loss(self):
        lines = (self.folder / "runs/gpt2/metrics.jsonl").read_text().splitlines()
        return [each["loss"] for each in map(json.loads, lines) if "loss_bits" in each][-1:]

    def theirs(self):
        return seconds_to_line(peer_command(self.words, "accelerate_resumes", self.work), self.folder, THREADS,
                               re.compile("first step"))

    def their_loss(self):
        return json.loads((self.folder / "result.json").read_text())["losses"]


def run_resume(words, folder):
    resumed = Resumed(words, folder)
    sides = {"accel-run": resumed.ours, **({"accelerate": resumed.theirs} if words.python else {})}
    seconds = taken_in_turns(sides, words.rounds)
    report("resume", seconds)
    void = bool(words.python) and not agrees(resumed.our_loss(), resumed.their_loss(), "fp32")
    if void:
        print(f"  VOID: the step behind it has the losses {resumed.our_loss()} and {resumed.their_loss()}")
    return {"seconds": seconds, "void": void}
