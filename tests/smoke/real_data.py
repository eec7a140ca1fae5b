#!/usr/bin/env python3
"""Trains the recipes of real data to the figures they promise.

    real_data.py ACCEL_RUN RECIPES_FOLDER [RECIPE...]

The data lies in $ACCEL_TEST_DATA, or beside the checkout in ../shared/data; without it there is
nothing to test and the exit code is 77.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import runs

FOLDERS = {"mnist": "mnist10k", "shakespeare_char": "tinyshakespeare", "cifar": ".", "sst2": "sst2"}


def tokenizer_for(binary, data, scratch):
    """Trains the tokenizer as the recipe says, and gives what names it."""
    text = pathlib.Path(scratch) / "words.txt"
    lines = (data / "train.tsv").read_text().splitlines()
    text.write_text("".join(line.split("\t")[0] + "\n" for line in lines))
    subprocess.run([binary, "tokenizer", "train", text, "--model", "wordpiece", "--vocab-size", "4000",
                    "--out", "tokenizer"], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    return [f"vars.tokenizer={pathlib.Path(scratch) / 'tokenizer'}"]


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    recipes = pathlib.Path(sys.argv[2]).resolve()
    beside = recipes.parent.parent / "shared" / "data"
    data = pathlib.Path(os.environ.get("ACCEL_TEST_DATA", beside))
    if not data.is_dir():
        print(f"skipped: there is no real data in {data}")
        return 77
    report = runs.Report()
    for name in sys.argv[3:] or FOLDERS:
        folder = FOLDERS[name]
        with tempfile.TemporaryDirectory() as scratch:
            words = tokenizer_for(binary, data / folder, scratch) if name == "sst2" else []
            done = subprocess.run([binary, recipes / f"{name}.yaml", f"vars.data={data / folder}", *words],
                                  cwd=scratch, capture_output=True, text=True)
            ends = [line for line in done.stdout.splitlines() if line.startswith(("expect", "done"))]
            report.check(f"{name}: {'; '.join(ends)}", done.returncode == 0, done.stderr + done.stdout[-800:])
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
