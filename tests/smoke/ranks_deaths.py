#!/usr/bin/env python3
"""A rank is killed at a collective: all end at once, say where, and the next life resumes exactly.

    ranks_deaths.py ACCEL_RUN [all [STRATEGY...]]

Two ranks make three steps with an evaluation and saves. Before, during and after a collective one
of them kills itself by SIGKILL: at a third of the collectives, or at every one, and each rank. With `all`
the strategies may be named: ddp, which is the default, canonical, local_sgd, power_sgd.
"""

import contextlib
import pathlib
import random
import re
import socket
import sys
import time

import rank_runs

JOB = rank_runs.JOB.replace("until: 24 steps", "until: 3 steps").replace("every: 8 steps", "every: 2 steps")
JOB = JOB.replace("every: 4 steps", "every: 1 steps")
STRATEGIES = {"ddp": "", "canonical": "reduction: canonical, ", "local_sgd": "local_sgd: {every: 2 steps}, ",
              "power_sgd": "ddp: {comm_hook: power_sgd, power_sgd: {start: 2 steps, min_compression_rate: 0.1}}, "}
WHENS = ("before", "during", "after")
LIMIT = 2.0  # seconds from a rank's death until nothing is left
FIRST_LINE = re.compile(
    r"error: rank (?P<rank>\d) was killed by signal 9 \(SIGKILL\)"
    r" (?:at step (?P<step>[123])|before its first step),"
    r" (?P<where>in|(?:in phase '(?:data|training|evaluation|saving)', )?after) collective (?P<sequence>\d+) '(?P<name>[^']+)'"
    r" \(process (?P<pid>\d+) on host '(?P<host>[^']+)'\)$")
HINT = "  hint: resume with: accel-run resume runs/job"


def children_of(process):
    """{rank: process} of a launcher, without a look at all other processes."""
    found = {}
    with contextlib.suppress(OSError):
        for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            environment = rank_runs.environment_of(pid)
            if "RANK" in environment:
                found[int(environment["RANK"])] = (int(pid), int(environment["MASTER_PORT"]))
    return found


def answers(port):
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


class Death:
    """One job in which `rank` is killed; how that went."""

    def __init__(self, scratch, rank, sequence, when):
        self.what = f"kill:{rank}:{sequence}:{when}"
        self.rank, self.sequence, self.when = rank, sequence, when
        process = scratch.start("job.yaml", ACCEL_RUN_FAULT=self.what)
        found = {}
        while len(found) < 2 and process.poll() is None:
            found = children_of(process)
        self.pid, port = found.get(rank, (0, 0))
        while rank_runs.state_of(self.pid) not in ("", "Z", "X"):
            time.sleep(0.0005)
        died = time.monotonic()
        while process.poll() is None and time.monotonic() < died + 120:
            time.sleep(0.0005)
        self.left = scratch.wait_until_gone(5)
        self.seconds = time.monotonic() - died
        self.listens = bool(port) and answers(port)
        if process.poll() is None:
            scratch.end_all()
        _, self.errors = process.communicate()
        self.code = process.returncode
        self.temporary = [path.name for path in scratch.temporary.iterdir()]

    def faults(self):
        if self.code != 5:
            yield f"exit {self.code}"
        if self.left is None or self.seconds > rank_runs.within(LIMIT):
            yield f"gone after {self.seconds:.1f} s"
        if self.listens or self.temporary:
            yield f"left behind: listens {self.listens}, temporary files {self.temporary}"
        lines = self.errors.splitlines()
        output = FIRST_LINE.match(lines[0] if lines else "")
        if not output or lines[1:2] != [HINT]:
            yield "another report"
            return
        if (int(output["rank"]), int(output["pid"]), output["host"]) != (self.rank, self.pid, socket.gethostname()):
            yield f"names another process than {self.pid}"
        # A little later it may have come out of the collective, and into the next one.
        where = {"before": output["where"] == "in", "after": output["where"] != "in", "during": True}[self.when]
        if not where or int(output["sequence"]) - self.sequence not in range(3 if self.when == "during" else 1):
            yield "names another place"


class Straight:
    """The job when nobody is killed."""

    def __init__(self, binary, recipe):
        self.recipe = recipe
        with rank_runs.Scratch(binary, recipe) as scratch:
            code, errors = scratch.call("job.yaml")
            if code != 0:
                raise RuntimeError(errors)
            self.end, self.checkpoints = scratch.end(), scratch.checkpoints()
            self.folder = {path.name for path in scratch.run.iterdir()}


def faults_of(binary, straight, rank, sequence, when):
    """(how many seconds all ended after, what was wrong); None when the job has no such collective."""
    with rank_runs.Scratch(binary, straight.recipe) as scratch:
        death = Death(scratch, rank, sequence, when)
        if death.code == 0:
            return None
        faults = list(death.faults())
        litter = {path.name for path in scratch.path.iterdir()} - {"job.yaml", "runs", "tmp"}
        code, errors = scratch.call("job.yaml")
        if code != 0 or errors:
            faults.append(f"the next life ends with {code}: {errors}")
        elif (scratch.end(), scratch.checkpoints()) != (straight.end, straight.checkpoints):
            faults.append("the next life is not the one it would have been")
        if scratch.staged() or litter | ({path.name for path in scratch.run.iterdir()} - straight.folder):
            faults.append(f"files are left: {scratch.staged()} {litter}")
        return death.seconds, [f"{death.what}: {fault}\n{death.errors}" for fault in faults]


def collectives(binary, recipe):
    """How many the job has."""
    low, high = 1, 128  # one that is there, and one that is not
    while high - low > 1:
        middle = (low + high) // 2
        with rank_runs.Scratch(binary, recipe) as scratch:
            process = scratch.start("job.yaml", ACCEL_RUN_FAULT=f"kill:1:{middle}:before")
            process.communicate()
            low, high = (middle, high) if process.returncode == 5 else (low, middle)
    return low


def chosen(count, every):
    """(rank, collective, when): all there are, or each rank once at a third of the collectives."""
    if every:
        return [(rank, sequence, when) for sequence in range(1, count + 1) for when in WHENS for rank in (0, 1)]
    draw = random.Random(7)
    third = sorted(draw.sample(range(1, count + 1), count // 3))
    return [(rank, sequence, draw.choice(WHENS)) for sequence in third for rank in (0, 1)]


def check_strategy(binary, strategy, every, report):
    start, recipe = time.monotonic(), JOB.replace("accelerator: {", "accelerator: {" + STRATEGIES[strategy])
    straight, count = Straight(binary, recipe), collectives(binary, recipe)
    report.check(f"{strategy}: the job has {count} collectives", count >= 20)
    seconds, faults = [], []
    for rank, sequence, when in chosen(count, every):
        outcome = faults_of(binary, straight, rank, sequence, when)
        if outcome is None:
            faults.append(f"nobody died of kill:{rank}:{sequence}:{when}")
            continue
        seconds.append(outcome[0])
        faults += outcome[1]
    seconds.sort()
    middle, worst = seconds[len(seconds) // 2], seconds[int(len(seconds) * 0.99)]
    print(f"{len(seconds)} deaths in {time.monotonic() - start:.0f} s; all gone after {middle:.3f} s (p50),"
          f" {worst:.3f} s (p99), {seconds[-1]:.3f} s (most)")
    report.check(f"{strategy}: every one ends all at once, is reported, leaves nothing behind and can be resumed exactly",
                 not faults, f"{len(faults)} faults\n" + "\n".join(faults))
    sys.stdout.flush()


def main():
    binary, every = sys.argv[1], sys.argv[2:3] == ["all"]
    report = rank_runs.runs.Report()
    for strategy in sys.argv[3:] or ["ddp"]:
        check_strategy(binary, strategy, every, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
