#!/usr/bin/env python3
"""Every component has a test that names it and a line in a recipe; README's counts of them are right.

    components.py ACCEL_RUN
"""

import re
import subprocess
import sys

import checkout


def ask(binary, *words):
    return subprocess.run([binary, *words], cwd=checkout.ROOT, capture_output=True, text=True,
                          check=True).stdout.splitlines()


def kinds(binary):
    """Headers of `accel-run list` start in the first column, components are indented."""
    return [line.split()[0].rstrip(":") for line in ask(binary, "list")
            if line and not line[0].isspace()]


def named_as_value(name):
    """Matches the component where a recipe would name it: after a colon, bracket, comma or dash."""
    return re.compile(r"(?:[:\[,=]\s*|^\s*-\s+)[\"']?" + re.escape(name) + r"[\"']?\s*(?:[,}\]#:]|$)",
                      re.MULTILINE)


def named_in_test(name):
    return re.compile(r"(?<![\w/])" + re.escape(name) + r"(?![\w/])")


def joined(folder, *endings):
    return "\n".join(checkout.read(name) for name in checkout.files(*endings)
                     if name.startswith(folder))


def wrong_counts(text, counts):
    """Counts of components in `text`, such as "12 optimizers", which differ from `counts`."""
    found = re.findall(r"\b(\d+) (" + "|".join(counts) + r")s\b", text)
    return [f"README.md says '{number} {kind}s', but there are {counts[kind]}"
            for number, kind in found if int(number) != counts[kind]]


def main(binary):
    recipes = joined("recipes/", ".yaml", ".toml")
    tests = joined("tests/", ".cpp", ".py", ".yaml", ".toml")
    components = {kind: ask(binary, "list", kind, "--names") for kind in kinds(binary)}
    problems = wrong_counts(checkout.read("README.md"), {kind: len(names) for kind, names in components.items()})
    for kind, names in components.items():
        for name in names:
            if not named_as_value(name).search(recipes):
                problems.append(f"no file of recipes/ uses the {kind} '{name}'")
            if not named_in_test(name).search(tests):
                problems.append(f"no file of tests/ names the {kind} '{name}'")
    checkout.finish(problems)


if __name__ == "__main__":
    main(sys.argv[1])
