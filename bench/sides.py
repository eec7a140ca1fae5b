"""How the benchmarks start accel-run and its peers."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
INTEROP = HERE.parent / "tests/interop"


def environment(threads):
    return dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONPATH=str(INTEROP))


def program(words, name):
    """A separate benchmark, built beside accel-run when it is first needed: `make build` leaves it out."""
    build = words.accel_run.resolve().parent
    path = build / "bench" / name
    if not path.exists():
        subprocess.run(["cmake", "--build", build, "--target", name], check=True, stdout=sys.stderr)
    return path


def call(command, folder, threads):
    """Runs it in `folder`; peak memory in MiB. Its output goes to output.txt there."""
    log = folder / "output.txt"
    with log.open("w") as out:
        process = subprocess.Popen([str(word) for word in command], cwd=folder, env=environment(threads), stdout=out,
                                   stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {log.read_text()[-3000:]}")
    return usage.ru_maxrss / 1024


def peer_result(python, peer, work, folder):
    """What peer.py left, and its peak memory in MiB."""
    result = folder / "result.json"
    memory = call([python, HERE / "peer.py", peer, json.dumps(work), result], folder, work["threads"])
    return dict(json.loads(result.read_text()), memory=memory)


def seconds_to_line(command, folder, threads, wanted):
    """From the start of a process to the first line of its output that `wanted` matches; it must end well."""
    start = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], cwd=folder, env=environment(threads), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output, seconds = "", None
    for line in process.stdout:
        output += line
        if seconds is None and wanted.search(line):
            seconds = time.perf_counter() - start
    if process.wait() or seconds is None:
        raise RuntimeError(f"{command[0]} ended with {process.returncode} and reported no first step: {output[-3000:]}")
    return seconds
