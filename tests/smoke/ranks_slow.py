#!/usr/bin/env python3
"""A rank that computes slowly is named, in the log, the record and the report.   ranks_slow.py ACCEL_RUN

Rank 1 is stopped and let go again many times a second, as if it had a fifth of a core: wherever it is
when it is stopped, it is the one that the other waits for.
"""

import json
import re
import signal
import sys
import threading
import time

import rank_runs

STOPPED, RUNNING = 0.04, 0.01  # seconds in turns
STEPS = 100  # after so many a slow rank is reported
LINE = re.compile(r"rank 1 is slow: (\d+) ms of computation per step, median (\d+) ms; all ranks wait for it")
# A step's work is long beside what ranks tell each other.
JOB = rank_runs.JOB.replace("hidden_sizes: [24]", "hidden_sizes: [512, 512]").replace("until: 24 steps", f"until: {STEPS} steps")
JOB = JOB.replace("batch: 16, micro_batch: 4", "batch: 64").replace("every: 8 steps", "every: 1000 steps")
JOB = JOB.replace("every: 4 steps", "every: never").replace("length: 88", "length: 256")


def slow_down(pid, ended):
    while not ended.is_set():
        for sent, seconds in ((signal.SIGSTOP, STOPPED), (signal.SIGCONT, RUNNING)):
            try:
                rank_runs.send(pid, sent)
            except ProcessLookupError:
                return
            time.sleep(seconds)


def main():
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(sys.argv[1], JOB) as scratch:
        launcher = scratch.start("job.yaml")
        slow = scratch.wait_for_ranks(launcher, 2).get(1)
        scratch.wait_for_step(launcher, 1)
        ended = threading.Event()
        slower = threading.Thread(target=slow_down, args=(slow, ended))
        slower.start()
        output, errors = launcher.communicate()
        ended.set()
        slower.join()
        report.check("the run is done", launcher.returncode == 0, errors)
        found = LINE.search(output)
        report.check("the log names the slow rank", bool(found), output)
        report.check("which took longer", bool(found) and int(found[1]) > int(found[2]), found and found[0])
        lines = [json.loads(line) for line in (scratch.run / "metrics.jsonl").read_text().splitlines()]
        slow = [line["text"] for line in lines if line.get("event") == "slow"]
        report.check("the record has it once", bool(found) and slow == [found[0]], str(slow))
        page = (scratch.run / "report.html").read_text()
        report.check("and so has the report", "rank 1 is slow: " in page)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
