"""Steps of accel-run and of its peers at the same work, taking turns in one run.

Every side trains the same model from the same weights on the same batches, and the first losses must
agree: a row whose losses do not is void. Without Python the golden losses of the short form stand for
the peers. Medians of all rounds are compared. roofline: a step's matrix products against the fastest
ones of this machine. beyond: peak memory beside that of tensors, which a run apart counts: parameters,
AdamW's two moments, and what a step allocates at its peak.
"""

import json
import os
import statistics

from sides import HERE, call, peer_result
from works import recipe_of, mixed_precision, works_of, write_data

COMPARED = 3  # first losses
TOLERANCE = {"fp32": 1e-4, "bf16": 2e-2}
GOLDEN = HERE.parent / "tests/interop/golden/bench.json"
KEPT = 12  # bytes of a parameter and its moments
LOOKED_AT = 3  # the step whose memory is counted


class Steps:
    def __init__(self, words, folder):
        self.words, self.folder, self.count = words, folder, 0
        self.works = works_of(words.works, words.short)
        self.golden = None if words.python else json.loads(GOLDEN.read_text())["losses"]
        write_data(folder, self.works)

    def ours(self, work, precision, threads):
        self.count += 1
        (self.folder / f"{self.count}.yaml").write_text(recipe_of(work, precision, threads))
        memory = call([self.words.accel_run, f"{self.count}.yaml"], self.folder, threads)
        record = self.folder / f"runs/{self.count}/metrics.jsonl"
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        speeds = [line["log"]["train/samples_per_second"] for line in lines if "log" in line]
        losses = [line["loss"] for line in lines if "loss_bits" in line]
        return {"seconds": [work["batch"] / speed for speed in speeds], "losses": losses, "memory": memory}

    def tensors(self, work, precision, threads, parameters):
        """The most bytes that our tensors have at a time."""
        name = f"memory_{work['name']}_{precision}"
        (self.folder / f"{name}.yaml").write_text(recipe_of(dict(work, steps=LOOKED_AT), precision, threads))
        looked = f"profile={{steps: [{LOOKED_AT}, {LOOKED_AT}], memory: true}}"
        call([self.words.accel_run, f"{name}.yaml", looked], self.folder, threads)
        [timeline] = (self.folder / "runs" / name).glob("profile*/**/rank_0_memory.csv")
        return KEPT * parameters + max(int(line.split(",")[2]) for line in timeline.read_text().splitlines()[1:])

    def theirs(self, peer, work, precision, threads):
        work = dict(work, precision=mixed_precision(precision), threads=threads)
        return peer_result(self.words.python, peer, work, self.folder)

    def measure(self, work, precision, threads):
        """One row: {side: {"seconds", "memory", "agrees"}}, all sides in turn."""
        sides = ["accel-run", *(self.words.peers if self.words.python else [])]
        row = {side: {"seconds": [], "memory": 0, "agrees": True} for side in sides}
        for turn in range(self.words.rounds):
            losses = {}
            for side in sides if turn % 2 == 0 else reversed(sides):
                result = (self.ours if side == "accel-run" else lambda *of: self.theirs(side, *of))(work, precision, threads)
                row[side]["seconds"] += result["seconds"][work["warm_up"]:]
                row[side]["memory"] = max(row[side]["memory"], result["memory"])
                losses[side] = result["losses"]
            wanted = self.golden[f"{work['name']}_{precision}"] if self.golden else losses["accel-run"]
            for side in sides:
                row[side]["agrees"] &= agrees(losses[side], wanted, precision)
        return row


def agrees(found, wanted, precision):
    """Whether the first losses do; nan agrees with nothing."""
    found, wanted = found[:COMPARED], wanted[:COMPARED]
    return len(found) == len(wanted) and all(abs(a - b) <= TOLERANCE[precision] * abs(b) for a, b in zip(found, wanted))


def shown(row, size, fastest):
    """Lines of a row's table; of `size` and `fastest` where they are known."""
    ours = statistics.median(row["accel-run"]["seconds"])
    lines = []
    for side, of in row.items():
        median, ordered = statistics.median(of["seconds"]), sorted(of["seconds"])
        spread = (ordered[len(ordered) * 3 // 4] - ordered[len(ordered) // 4]) / median
        line = f"  {side:12}{median * 1e3:10.2f} ms  +-{spread * 50:4.1f} %  {of['memory']:7.0f} MiB"
        if size:
            tensors = size["own_tensors" if side == "accel-run" else "tensors"]
            beyond = of["memory"] - tensors / 2**20
            line += f"  {beyond:7.0f} beyond  {size['operations'] / median / fastest:5.0%} of roofline"
        if side != "accel-run":
            line += f"  accel-run is {median / ours:5.2f}x as fast"
        lines.append(line + ("" if of["agrees"] else "  VOID: other losses"))
    return lines


def summary(rows):
    """Ratios at a glance: each peer's median, and the best peer's, over accel-run's."""
    lines = []
    for row in rows:
        medians = {side: statistics.median(of["seconds"]) for side, of in row["sides"].items() if of["agrees"]}
        ours = medians.pop("accel-run", None)
        if not ours or not medians:
            continue
        ratios = "".join(f"{side} {median / ours:5.2f}  " for side, median in medians.items())
        best = min(medians.values()) / ours
        lines.append(f"  {row['work']:10} {row['precision']} x{row['threads']}  best peer {best:5.2f}  {ratios}")
    return ["how many times as fast accel-run is", *lines] if lines else []


def run(words, folder):
    bench, rows, void = Steps(words, folder), [], False
    for precision in words.precisions:
        for threads in words.threads:
            fastest, size = None, None
            if words.python:
                fastest = bench.theirs("roofline", {}, precision, threads)["operations"]
            for work in bench.works.values():
                if words.python:
                    size = bench.theirs("count", work, precision, threads)
                    size["own_tensors"] = bench.tensors(work, precision, threads, size["parameters"])
                load = os.getloadavg()[0]
                row = bench.measure(work, precision, threads)
                void |= not all(side["agrees"] for side in row.values())
                print(f"{work['name']}, {precision}, {threads} thread{'s'[:threads - 1]}; load before {load:.1f}")
                print("\n".join(shown(row, size, fastest)), flush=True)
                rows.append({"work": work["name"], "precision": precision, "threads": threads, "load": load,
                             "size": size, "fastest": fastest, "sides": row})
    for line in summary(rows):
        print(line)
    return {"rows": rows, "void": void}
