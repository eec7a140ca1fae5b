#!/usr/bin/env python3
"""The verbs of 'accel-run tokenizer': the examples of docs/tokenizers.md, as they stand there, and what
they say of wrong usage.

    tokenizers.py ACCEL_RUN
"""

import os
import pathlib
import re
import subprocess
import sys

import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]

REFUSED = (
    (["encode", "shells"], 2, "error: there is nothing to encode\n  hint: give a text, or --file with a file\n"),
    (["encode", "shells", "a", "--json-lines"], 2,
     "error: '--json-lines' is about a file\n  hint: give a text, or --file with a file\n"),
    (["encode", "shells", "--file", "shells.txt", "--json-lines"], 3,
     "error: 'shells.txt': line 1 is no JSON string\n"
     "  hint: write each text in quotes, or leave out --json-lines\n"),
    (["decode", "shells", "268"], 2, "error: there is no token 268\n  hint: ids are from 0 to 267\n"),
    (["inspect", "nowhere"], 3, "error: there is no 'nowhere'\n  hint: 'accel-run tokenizer train' makes one\n"),
    (["train", "shells.txt", "--out", "shells"], 2,
     "error: 'shells' exists already\n  hint: give another name; nothing is overwritten\n"),
    (["train", "shells.txt", "--cased", "--out", "new"], 2,
     "error: '--cased' is an option of --model wordpiece\n  hint: leave it out: bpe keeps capitals and accents\n"),
    (["train", "none.txt", "--out", "new"], 3, "error: there is no file 'none.txt'\n  hint: check its name\n"),
    (["train", "shells.txt", "--vocab-size", "9", "--out", "new"], 2,
     "error: a vocabulary of 9 is too small: the 258 single characters and special tokens need more\n"
     "  hint: use --vocab-size 258 or more\n"),
)


def examples():
    """(command, what it prints) of the document, in order."""
    text = (ROOT / "docs/tokenizers.md").read_text()
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for step in block.split("$ ")[1:]:
            yield step.split("\n", 1)


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1]) as scratch:
        path = f"{scratch.binary.parent}{os.pathsep}{os.environ['PATH']}"
        for command, printed in examples():
            done = subprocess.run(command, shell=True, cwd=scratch.path, env=dict(runs.ENVIRONMENT, PATH=path),
                                  text=True, capture_output=True, check=False)
            report.check(f"'{command[:60]}' does what the document says", done.stdout == printed, done)
        for words, code, said in REFUSED:
            report.check(f"'{' '.join(words)}' is refused", scratch.call("tokenizer", *words) == (code, said),
                         scratch.call("tokenizer", *words))
        report.check("what is refused leaves nothing behind", not list(scratch.path.glob("new*")), "")
        (scratch.path / "lines.jsonl").write_text('"she\\nsells"\n"the"\n')
        encoded = subprocess.run([scratch.binary, "tokenizer", "encode", "shells", "--file", "lines.jsonl", "--json-lines",
                                  "--tokens"], cwd=scratch.path, text=True, capture_output=True, check=False).stdout
        report.check("each JSON line is one text", encoded == "s he Ċ s e lls\nthe\n", encoded)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
