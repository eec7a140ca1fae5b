#!/usr/bin/env python3
"""torchrun starts accel-run's ranks: they train the same run, also when one is killed and all start again.

    check_torchrun.py ACCEL_RUN
"""

import contextlib
import re
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "smoke"))
import rank_runs  # noqa: E402

JOB = rank_runs.JOB.replace("num_processes: 2", "num_processes: auto")
TORCHRUN = Path(sys.executable).with_name("torchrun")


class Scratch(rank_runs.Scratch):
    def torchrun(self, *words):
        return subprocess.Popen([TORCHRUN, "--no-python", "--nproc-per-node", "2", *words], cwd=self.path, text=True,
                                env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def straight(binary):
    with rank_runs.Scratch(binary) as scratch:
        code, errors = scratch.call("job.yaml")
        if code != 0:
            raise RuntimeError(errors)
        return scratch.end()


def check_run(binary, report, wanted):
    with Scratch(binary, JOB) as scratch:
        process = scratch.torchrun(scratch.binary, "job.yaml")
        shown, errors = process.communicate()
        report.check("torchrun trains on two ranks", process.returncode == 0 and "x 2 ranks\n" in shown, errors)
        report.check("as accel-run's own ranks do", scratch.end() == wanted)


def check_restart(binary, report, wanted, rank):
    with Scratch(binary, JOB) as scratch:
        process = scratch.torchrun("--max-restarts", "1", scratch.binary, "job.yaml")
        ranks = scratch.wait_for_ranks(process, 2)
        scratch.wait_for_step(process, 8)
        with contextlib.suppress(KeyError):
            rank_runs.send(ranks[rank], signal.SIGKILL)
        shown, errors = process.communicate()
        lives = re.findall(r"^  start  .*$", shown, re.MULTILINE)
        report.check(f"rank {rank} is killed, torchrun starts both again, and they come to the end",
                     process.returncode == 0 and len(lives) == 2 and "from runs/job/checkpoints" in lives[1],
                     f"exit {process.returncode}\n{shown}{errors}")
        report.check("as a run left alone", scratch.end() == wanted)


def main():
    binary, report = sys.argv[1], rank_runs.runs.Report()
    wanted = straight(binary)
    check_run(binary, report, wanted)
    for rank in (0, 1):
        check_restart(binary, report, wanted, rank)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
