#!/usr/bin/env python3
"""Every command in a ```sh block of the documents works.   examples.py ACCEL_RUN

Blocks of one document run in order in one folder of their own, which looks like the checkout.
`make` lines must name a target; what needs a data set that is not here is left out, and said so.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import checkout

_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ENTERS_CHECKOUT = re.compile(r"^(?:git clone|cd|sudo|export)\b")
_NEEDS_DATA = re.compile(r"vars\.data=(\S+)")
SECONDS = 300


def commands(document):
    """Yields (line, command) with continued lines joined."""
    for block in _BLOCK.finditer(document):
        line = checkout.line_of(document, block.start()) + 1
        for text in re.sub(r"\\\n", " ", block.group(1)).splitlines():
            text = re.sub(r"\s+#.*$", "", text).strip()
            if text and not text.startswith("#"):
                yield line, text


def make_targets():
    rules = re.findall(r"^([a-z ]+):", checkout.read("Makefile"), re.MULTILINE)
    return {target for rule in rules for target in rule.split()}


def unknown_targets(command):
    words = [word for word in command.split()[1:] if "=" not in word and word[0] != "-"]
    return [word for word in words if word not in make_targets()]


def run(command, folder, binary):
    path = f"{Path(binary).parent}:{os.environ['PATH']}"
    return subprocess.run(["bash", "-ec", command], cwd=folder, env={**os.environ, "PATH": path},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=SECONDS, check=False)


def problems_in(name, folder, binary):
    found = []
    for line, command in commands(checkout.read(name)):
        if _ENTERS_CHECKOUT.match(command):
            continue
        if command.startswith("make "):
            found += [f"{name}:{line}: make has no target '{word}'"
                      for word in unknown_targets(command)]
            continue
        data = _NEEDS_DATA.search(command)
        if data and not (folder / data.group(1)).exists():
            print(f"{name}:{line}: left out, there is no '{data.group(1)}': {command}")
            continue
        result = run(command, folder, binary)
        if result.returncode:
            tail = "\n".join((result.stdout + result.stderr).splitlines()[-10:])
            found.append(f"{name}:{line}: exit {result.returncode}: {command}\n{tail}")
    return found


def main(binary):
    problems = []
    for name in checkout.files(".md"):
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            for entry in checkout.ROOT.iterdir():
                if entry.name not in (".git", "build", "runs"):
                    (folder / entry.name).symlink_to(entry)
            (folder / "build").mkdir()
            (folder / "build" / "accel-run").symlink_to(binary)
            problems += problems_in(name, folder, binary)
    checkout.finish(problems)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
