#!/usr/bin/env python3
"""The verbs of 'accel-run tokenizer': the examples of docs/tokenizers.md, as they stand there, and what
they say of wrong usage.

    tokenizers.py ACCEL_RUN
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]

REFUSED = (
    (["encode", "shells"], 2, "error: there is no text to encode\n  hint: give a text, or --file with a file\n"),
    (["encode", "shells", "a", "--json-lines"], 2,
     "error: '--json-lines' needs a file\n  hint: give a text, or --file with a file\n"),
    (["encode", "shells", "--file", "shells.txt", "--json-lines"], 3,
     "error: 'shells.txt': line 1 is not a JSON string\n"
     "  hint: write each text in quotes, or leave out --json-lines\n"),
    (["decode", "shells", "268"], 2, "error: there is no token 268\n  hint: ids are from 0 to 267\n"),
    (["inspect", "nowhere"], 3, "error: no file 'nowhere'\n  hint: 'accel-run tokenizer train' makes one\n"),
    (["train", "shells.txt", "--out", "shells"], 2,
     "error: 'shells' already exists\n  hint: give another name; files are never overwritten\n"),
    (["train", "shells.txt", "--cased", "--out", "new"], 2,
     "error: '--cased' is an option of --model wordpiece\n  hint: leave it out: bpe keeps capitals and accents\n"),
    (["train", "none.txt", "--out", "new"], 3, "error: no file 'none.txt'\n  hint: check its name\n"),
    (["train", "shells.txt", "--vocab-size", "9", "--out", "new"], 2,
     "error: a vocabulary of 9 is too small for 258 single characters and special tokens\n"
     "  hint: use --vocab-size 258 or more\n"),
)


def examples():
    """(command, what it prints) of the document, in order."""
    text = (ROOT / "docs/tokenizers.md").read_text()
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for step in block.split("$ ")[1:]:
            yield step.split("\n", 1)


def check_lengths(scratch, report):
    """What the file says of lengths is reported, and encode does none of it."""
    asking = json.loads((scratch.path / "shells/tokenizer.json").read_text())
    asking["truncation"] = {"direction": "Left", "max_length": 3, "strategy": "OnlyFirst", "stride": 0}
    asking["padding"] = {"strategy": {"Fixed": 9}, "direction": "Left", "pad_to_multiple_of": 8, "pad_id": 1,
                         "pad_type_id": 0, "pad_token": "<|pad|>"}
    (scratch.path / "asking.json").write_text(json.dumps(asking))

    def tokenizer(*words):
        return subprocess.run([scratch.binary, "tokenizer", *words], cwd=scratch.path, text=True, capture_output=True,
                              check=False).stdout

    output = tokenizer("inspect", "asking.json")
    report.check("lengths are reported", output.endswith(
        "truncation  to 3 tokens, only the first text of a pair, on the left; a recipe's 'max_length' takes precedence\n"
        "padding     on the left to 9, rounded up to a multiple of 8, with 1 <|pad|>; a recipe pads on the right and"
        " masks the padding\n"), output)
    report.check("and not done", tokenizer("encode", "asking.json", "she sells shells") == "117 259 261 262 265\n")


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
        check_lengths(scratch, report)
        (scratch.path / "lines.jsonl").write_text('"she\\nsells"\n"the"\n')
        encoded = subprocess.run([scratch.binary, "tokenizer", "encode", "shells", "--file", "lines.jsonl", "--json-lines",
                                  "--tokens"], cwd=scratch.path, text=True, capture_output=True, check=False).stdout
        report.check("each JSON line is one text", encoded == "s he Ċ s e lls\nthe\n", encoded)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
