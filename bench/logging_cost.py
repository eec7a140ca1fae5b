"""What logging costs a step of the tiny MLP: a line and a tracker's row for every one, beside one in a hundred."""

import json
import statistics

from sides import call, peer_result
from works import recipe_of, works_of, write_data

THREADS = 1
EVERY = {"every 100 steps": ["log.every=100 steps"], "every step": ["log.every=1 steps"],
         "every step, csv": ["log.every=1 steps", "trackers=[csv]"],
         "every step, tensorboard": ["log.every=1 steps", "trackers=[tensorboard]"]}
PEERS = {"accelerate, no log": "accelerate", "accelerate, tensorboard": "accelerate_logs"}


def run(words, folder):
    work = works_of(["mlp"], words.short)["mlp"]
    if not words.short:
        work["steps"] = 1000
    write_data(folder, {"mlp": work})
    (folder / "mlp.yaml").write_text(recipe_of(work, "fp32", THREADS))
    seconds = {}
    runs = 0
    for _ in range(words.rounds):
        for name, options in EVERY.items():
            runs += 1
            call([words.accel_run, "mlp.yaml", f"name=run{runs}", *options], folder, THREADS)
            lines = (folder / f"runs/run{runs}/metrics.jsonl").read_text().splitlines()
            speeds = [each["log"]["train/samples_per_second"] for each in map(json.loads, lines) if "log" in each]
            # The mean, for a cost that comes now and then; the first line has the start in it.
            rest = speeds[len(speeds) // 10:] if len(speeds) > 1 else speeds
            seconds.setdefault(name, []).append(statistics.mean(work["batch"] / speed for speed in rest))
        for name, peer in PEERS.items() if words.python else ():
            result = peer_result(words.python, peer, dict(work, precision="no", threads=THREADS), folder)
            seconds.setdefault(name, []).append(statistics.mean(result["seconds"][work["warm_up"]:]))
    base = {False: statistics.median(seconds["every 100 steps"])}
    if words.python:
        base[True] = statistics.median(seconds["accelerate, no log"])
    for name, values in seconds.items():
        median = statistics.median(values)
        print(f"  {name:26}{median * 1e3:9.3f} ms a step, {(median - base[name in PEERS]) * 1e6:8.1f} us of it for the log")
    return {"seconds": seconds}
