#!/usr/bin/env python3
"""No unfinished work and nothing of one machine in the repository."""

import re

import checkout

# Split, so that this file does not name what it forbids.
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE = re.compile(r"(?<![\w.])/(?:home|Users|work|root|mnt)/\w")
CREDENTIAL = re.compile(r"\b(?:ghp_|hf_|AKIA|sk-)[A-Za-z0-9]{16,}|-----BEGIN [A-Z ]*PRIVATE KEY")
GOLDEN = ("tests/",)  # a golden file may hold such a path as data


def problems_in(name, text):
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            found.append(f"{name}:{number}: unfinished work: {line.strip()}")
        if MACHINE.search(line) and not name.startswith(GOLDEN):
            found.append(f"{name}:{number}: a path of one machine: {line.strip()}")
        if CREDENTIAL.search(line):
            found.append(f"{name}:{number}: this looks like a credential")
    return found


if __name__ == "__main__":
    checkout.finish([problem for name in checkout.files() if not checkout.is_binary(name)
                     for problem in problems_in(name, checkout.read(name))])
