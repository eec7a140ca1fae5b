#!/usr/bin/env python3
"""Whatever happens to a launcher or its ranks at a random moment, nothing is left running.

    ranks_launcher.py ACCEL_RUN [KILLS]

The launcher or the shell above it is killed, a rank is stopped or spins for ever, all or one are
asked to stop, and a rank is killed in a run that may be started again.
"""

import collections
import os
import pathlib
import pty
import random
import re
import signal
import sys
import time

import rank_runs

LONG = rank_runs.JOB.replace("until: 24 steps", "until: 100000 steps")
# Long enough for many stops, short enough to come to an end.
STOPPED = rank_runs.JOB.replace("until: 24 steps", "until: 400 steps").replace("every: 4 steps", "every: 50 steps")
TIMEOUT = 6  # seconds, as the recipe's
GONE_WITHIN = 2
BRIEF = 500_000  # nanoseconds
HANGING = re.compile(
    r"error: rank (?P<missing>\d) (?:did not reach collective (?P<sequence>\d+) '[^']+' within|has been stopped for) 6 s\n"
    r"  rank (?P=missing): (?P<state>stopped|running) [^\n]*\(process (?P<pid>\d+)[^\n]*\)\n"
    r"  rank (?P<other>\d): (?:running at step [^\n]*\(process \d+[^\n]*\)|ended with exit code 6)\n"
    r"  hint: resume with: accel-run resume runs/job\n")


def killed_at_random(scratch, draw):
    """Seconds until nothing was left, None for more than 2."""
    process = scratch.start("job.yaml")
    if draw.random() < 0.5:
        scratch.wait_for_ranks(process, 2)
    if draw.random() < 0.5:
        scratch.wait_for_step(process, 1)
    time.sleep(draw.random() * 0.4)
    process.kill()
    process.communicate()
    return scratch.wait_until_gone(GONE_WITHIN)


def check_orphans(binary, report, kills):
    draw, seconds = random.Random(11), []
    with rank_runs.Scratch(binary, LONG) as scratch:
        for _ in range(kills):
            seconds.append(killed_at_random(scratch, draw))
            scratch.end_all()
        code, errors = scratch.call("job.yaml", "--stop-after", "1")
        report.check("the next life resumes", code == 75, errors)
    late = seconds.count(None)
    most = max((taken for taken in seconds if taken is not None), default=0)
    report.check(f"launcher killed {kills} times: all gone after {most:.3f} s at most", not late, f"{late} times not")


def check_terminal(binary, report):
    """The shell above is killed and its terminal goes with it: SIGHUP, upon which the run saves."""
    with rank_runs.Scratch(binary, LONG) as scratch:
        shell, terminal = pty.fork()
        if shell == 0:
            os.chdir(scratch.path)
            # With a word behind it, so that the shell does not become the launcher.
            os.execvpe("sh", ["sh", "-c", f"'{scratch.binary}' job.yaml; true"], scratch.environment())
        while scratch.recorded_steps() < 1:
            time.sleep(0.01)
        before = scratch.recorded_steps()
        os.kill(shell, signal.SIGKILL)
        os.waitpid(shell, 0)
        os.close(terminal)
        left = scratch.wait_until_gone(GONE_WITHIN)
        report.check("the shell above is killed: all save and end", left is not None
                     and scratch.events()[-1] == "interrupted" and scratch.checkpoints()[-1] >= before, f"{left}")


def check_hang(binary, report, draw, how):
    """A rank is stopped from outside, or spins by itself."""
    rank = draw.randrange(2)
    with rank_runs.Scratch(binary, LONG) as scratch:
        words = ["job.yaml", f"accelerator.timeout={TIMEOUT} s"]
        variables = {"ACCEL_RUN_FAULT": f"spin:{rank}:{draw.randrange(40, 80)}:after"}
        process = scratch.start(*words, **({} if how == "stopped" else variables))
        ranks = scratch.wait_for_ranks(process, 2)
        pid = ranks[rank]
        if how == "stopped":
            scratch.wait_for_step(process, 1)
            time.sleep(draw.random() * 0.2)
            rank_runs.send(pid, signal.SIGSTOP)
            start = time.monotonic()
        else:
            scratch.wait_for_step(process, 1)
            start = time_of_silence(process, ranks[1 - rank])
        while process.poll() is None and time.monotonic() - start < 300:
            time.sleep(0.002)
        took, left = time.monotonic() - start, scratch.wait_until_gone(GONE_WITHIN)
        scratch.end_all()
        _, errors = process.communicate()
        output = HANGING.fullmatch(errors)
        named = output and (int(output["missing"]), int(output["other"]), int(output["pid"])) == (rank, 1 - rank, pid) and (
            output["state"] == ("stopped" if how == "stopped" else "running"))
        report.check(f"rank {rank} {how}: reported after {took:.2f} s", process.returncode == 6 and named
                     and left is not None and took <= TIMEOUT + rank_runs.within(1), f"exit {process.returncode}, left {left}\n{errors}")


def time_of_silence(process, pid):
    """When the main thread of `pid` last computed, once it has not for a second. A rank that waits looks every 50 ms
    whether the others still run."""
    newest, ran = time.monotonic(), 0
    while process.poll() is None and time.monotonic() - newest < 1:
        try:
            now = int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0])
        except FileNotFoundError:  # it has ended
            break
        if now - ran > BRIEF:
            newest = time.monotonic()
        ran = now
        time.sleep(0.002)
    return newest


def check_stops(binary, report, name, count, whom):
    """A signal to save and stop, at random moments, until the run is over."""
    draw, codes, faults = random.Random(count), collections.Counter(), []
    with rank_runs.Scratch(binary, STOPPED) as scratch:
        scratch.call("job.yaml")
        wanted = scratch.end()
    with rank_runs.Scratch(binary, STOPPED) as scratch:
        for life in range(count):
            process, before = scratch.start("job.yaml"), scratch.recorded_steps()
            ranks = scratch.wait_for_ranks(process, 2)
            if life % 3:
                scratch.wait_for_step(process, before + 1)
            time.sleep(draw.random() * 0.1)
            target = process.pid if whom == "launcher" else ranks.get(life % 2)
            if target and rank_runs.state_of(target) not in ("", "Z"):
                rank_runs.send(target, name)
            _, errors = process.communicate()
            codes[process.returncode] += 1
            if scratch.wait_until_gone(GONE_WITHIN) is None:
                faults.append("something still runs")
            if process.returncode not in (0, 75) or errors:
                faults.append(f"exit {process.returncode}: {errors}")
            if scratch.checkpoints() and scratch.call("checkpoint", "verify", "runs/job")[0] != 0:
                faults.append("a checkpoint is not whole")
            if process.returncode != 75:
                break
        scratch.call("job.yaml")
        report.check(f"{name.name} to {whom}: exits {dict(codes)}", not faults and codes[75] > 2, "\n".join(faults))
        report.check("and the run ends as one left alone", scratch.end() == wanted)


def check_second_interrupt(binary, report):
    """A step that takes seconds: the second Ctrl-C does not wait for its end."""
    slow = LONG.replace("hidden_sizes: [24]", "hidden_sizes: [3000, 3000]").replace("length: 88", "length: 8192")
    slow = slow.replace("batch: 16, micro_batch: 4", "batch: 8192, micro_batch: 1024")
    with rank_runs.Scratch(binary, slow) as scratch:
        process = scratch.start("job.yaml")
        while process.poll() is None and not (scratch.run / "metrics.jsonl").exists():
            time.sleep(0.01)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        process.communicate()
        took = time.monotonic() - start
        report.check(f"a second SIGINT ends all after {took:.2f} s", process.returncode == 130 and took < rank_runs.within(1)
                     and scratch.wait_until_gone(1) is not None, f"exit {process.returncode}")


def check_restart(binary, report, rank):
    with rank_runs.Scratch(binary) as scratch:
        scratch.call("job.yaml")
        wanted = scratch.end()
    with rank_runs.Scratch(binary) as scratch:
        process = scratch.start("job.yaml", "accelerator.max_restarts=1")
        ranks = scratch.wait_for_ranks(process, 2)
        scratch.wait_for_step(process, 6)
        rank_runs.send(ranks[rank], signal.SIGKILL)
        _, errors = process.communicate()
        lines = errors.splitlines()
        report.check(f"rank {rank} killed, max_restarts 1: the run comes to its end", process.returncode == 0
                     and len(lines) == 2 and re.match(rf"warning: rank {rank} was killed by signal 9 \(SIGKILL\) at", lines[0])
                     and lines[1] == "warning: restarting all ranks (1 of at most 1 restarts)", errors)
        report.check("which is that of a run left alone", scratch.end() == wanted)


def main():
    binary, kills = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    report, start = rank_runs.runs.Report(), time.monotonic()
    check_orphans(binary, report, kills)
    check_terminal(binary, report)
    draw = random.Random(kills)
    for trial in range(max(2, kills // 10)):
        check_hang(binary, report, draw, ("stopped", "spinning")[trial % 2])
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        check_stops(binary, report, name, max(4, kills // 4), "launcher")
    check_stops(binary, report, signal.SIGTERM, max(4, kills // 4), "one rank")
    check_second_interrupt(binary, report)
    for rank in (0, 1):
        check_restart(binary, report, rank)
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
