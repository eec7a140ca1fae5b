#!/usr/bin/env python3
"""Elastic restarts of two launchers, two ranks each, that act as two machines.

    elastic.py ACCEL_RUN [KILLS]
"""

import contextlib
import random
import re
import signal
import socket
import sys
import time

import rank_runs
import runs

RECIPE = rank_runs.JOB.replace("num_processes: 2,", "num_processes: 4, num_machines: 2, max_restarts: 3, join_timeout: 4 s, ")
RECIPE = RECIPE.replace("every: 4 steps", "every: 2 steps").replace("every: 8 steps", "every: 50 steps")
ELASTIC = ["accelerator.min_machines=1", "accelerator.reduction=canonical"]


class Machines(rank_runs.Scratch):
    """Two launchers in one folder."""

    def __init__(self, binary, steps):
        super().__init__(binary, RECIPE.replace("until: 24 steps", f"until: {steps} steps"))
        self.port = runs.reserved_port()
        self.launchers = {}

    def boot(self, machine, *words, **variables):
        self.launchers[machine] = self.start("job.yaml", f"accelerator.machine_rank={machine}", "accelerator.main_process_ip=127.0.0.1",
                                             f"accelerator.main_process_port={self.port}", *words, **variables)

    def alone(self, *words):
        """The same run on one machine, never stopped."""
        return self.call("job.yaml", "accelerator.num_machines=1", "accelerator.max_restarts=0", *words)

    def running(self):
        return any(process.poll() is None for process in self.launchers.values())

    def wait_for_step(self, step, limit=100):
        start = time.monotonic()
        while self.running() and self.recorded_steps() < step and time.monotonic() - start < limit:
            time.sleep(0.002)

    def ends(self):
        found = {}
        for machine, process in self.launchers.items():
            with contextlib.suppress(Exception):
                _, errors = process.communicate(timeout=200)
                found[machine] = process.returncode, errors
        return found


def check_kills(binary, report, count):
    draw, steps = random.Random(count), 40 + 12 * count
    with Machines(binary, steps) as alone:
        code, errors = alone.alone()
        report.check("a run on one machine", code == 0, errors)
        wanted = alone.end()
    with Machines(binary, steps) as machines:
        start, killed = time.monotonic(), 0
        for machine in (1, 0):
            machines.boot(machine, ACCEL_RUN_JOB_TOKEN="of this job")
        while killed < count and machines.running():
            if killed % 4 == 3:  # while the ranks start again
                time.sleep(draw.random() * 2)
            else:
                machines.wait_for_step(machines.recorded_steps() + 3)
                time.sleep(draw.random() * 0.05)
            ranks = machines.ranks()
            if len(ranks) < 4:
                continue
            with contextlib.suppress(ProcessLookupError):
                rank_runs.send(ranks[draw.randrange(4)], signal.SIGKILL)
                killed += 1
        ends = machines.ends()
        report.check(f"{killed} kills of random ranks: the run comes to its end ({time.monotonic() - start:.0f} s)", killed == count
                     and {code for code, _ in ends.values()} == {0}, str(ends))
        report.check("as the run that was never killed, bit for bit", machines.end() == wanted)
        report.check("nothing is left running", machines.wait_until_gone(2) is not None)


def check_shrink_and_grow(binary, report):
    steps = 400
    with Machines(binary, steps) as alone:
        code, errors = alone.alone(*ELASTIC[1:])
        report.check("a canonical run on one machine", code == 0, errors)
        wanted, ids = alone.end(), alone.ids()
    with Machines(binary, steps) as machines:
        for machine in (0, 1):
            machines.boot(machine, *ELASTIC)
        machines.wait_for_step(10)
        lost = machines.launchers[1]
        lost.kill()
        lost.communicate()
        machines.wait_for_step(machines.recorded_steps() + 40)
        two = len(machines.ranks())
        machines.boot(1, *ELASTIC)
        ends = machines.ends()
        said = ends[0][1]
        report.check("a machine is lost: the run continues on the other", two == 2 and "machine 1 (" in said and "is lost" in said
                     and "training on 1 of 2 machines" in said, f"{two} ranks: {said}")
        report.check("it is taken back", re.search(r"machine 1 \('.*'\) has joined: saving", said) is not None, said)
        report.check("the run comes to its end on both", {code for code, _ in ends.values()} == {0}, str(ends))
        report.check("with the same order of samples", machines.ids() == ids)
        report.check("and with canonical sums the same bits", machines.end() == wanted)


def check_ends(binary, report):
    """Failures that no restart repairs, and a launcher that does not know the token."""
    with Machines(binary, 40) as machines:
        for machine in (0, 1):
            machines.boot(machine, "train.batch=16", ACCEL_RUN_JOB_TOKEN=f"token {machine}")
        _, errors = machines.launchers[1].communicate(timeout=100)
        report.check("another token is refused", machines.launchers[1].returncode == 2
                     and "machine 0 at '127.0.0.1' has another ACCEL_RUN_JOB_TOKEN" in errors, errors)
        ends = machines.ends()[0]
        report.check("and machine 0 names what is missing", ends[0] == 6 and f"refused a process on '{socket.gethostname()}' that does not know the token of this job (ACCEL_RUN_JOB_TOKEN)" in ends[1]
                     and "machine 1 did not join within 4 s" in ends[1], str(ends))


def main():
    binary, report = sys.argv[1], runs.Report()
    check_kills(binary, report, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    check_shrink_and_grow(binary, report)
    check_ends(binary, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
