#!/usr/bin/env python3
"""Verbs that only read recipes start without libtorch; the others find it, and the user's search
path is theirs again afterwards.

    start.py ACCEL_RUN
"""

import os
import shutil
import subprocess
import sys

import runs

READING = (["--help"], ["--version"], ["validate", "job.yaml"], ["show", "job.yaml"],
           ["why", "optimizer.lr", "job.yaml"], ["list"], ["explain", "model", "gpt"], ["schema"],
           ["reference", "pages"], ["new", "made.yaml"], ["cp", "builtin:quickstart", "copy.yaml"], ["env"], ["launch", "--help"],
           ["config", "default", "--config_file", "config.yaml"],
           ["plugin", "new", "model", "acme/net"],
           ["tokenizer", "train", "job.yaml", "--vocab-size", "300", "--out", "tokens"])


def opened_libraries(scratch, words, **variables):
    """(exit code, the paths of libtorch that the loader took)."""
    environment = dict(runs.ENVIRONMENT, LD_DEBUG="files", **variables)
    result = subprocess.run([scratch.binary, *words], cwd=scratch.path, env=environment, text=True,
                            capture_output=True, check=False)
    taken = [line.split("calling init: ")[1] for line in result.stderr.splitlines()
             if "calling init: " in line and "libtorch_cpu.so" in line]
    return result.returncode, taken


def check_reading_verbs(binary, report):
    with runs.Scratch(binary) as scratch:
        for words in READING:
            code, taken = opened_libraries(scratch, words)
            report.check(f"'{words[0]}' starts without libtorch",
                         code == 0 and len(taken) == 1 and "/accel-run-stubs/" in taken[0],
                         f"exit {code}, {taken}")


def check_search_path(binary, report):
    with runs.Scratch(binary) as scratch:
        words = ["job.yaml", "name='${env:LD_LIBRARY_PATH}'", "train.until=1 steps"]
        code, taken = opened_libraries(scratch, words, LD_LIBRARY_PATH="mine")
        report.check("training loads libtorch", code == 0 and "/accel-run/" in taken[-1],
                     f"exit {code}, {taken}")
        report.check("and gives the user's search path back", (scratch.path / "runs/mine").is_dir(),
                     os.listdir(scratch.path / "runs"))


def check_missing(binary, report):
    with runs.Scratch(binary) as scratch:
        stub_libraries = scratch.binary.parent / "lib/accel-run-stubs"
        (scratch.path / "lib").mkdir()
        shutil.copytree(stub_libraries, scratch.path / "lib/accel-run-stubs")
        shutil.copy(scratch.binary, scratch.path / "alone")
        scratch.binary = scratch.path / "alone"
        code, errors = scratch.call("job.yaml")
        report.check("a tree without libtorch says so",
                     code == 1 and f"libtorch is not in '{scratch.path}/lib/accel-run'\n"
                     "  hint: reinstall accel-run with its 'lib' folder; beside the wheel: pip install 'torch=="
                     in errors, f"exit {code}\n{errors}")


def main():
    report = runs.Report()
    check_reading_verbs(sys.argv[1], report)
    check_search_path(sys.argv[1], report)
    check_missing(sys.argv[1], report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
