#!/usr/bin/env python3
"""Every component has a test that names it and a line in a recipe.   components.py ACCEL_RUN"""

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


def main(binary):
    recipes = joined("recipes/", ".yaml", ".toml")
    tests = joined("tests/", ".cpp", ".py", ".yaml", ".toml")
    problems = []
    for kind in kinds(binary):
        for name in ask(binary, "list", kind, "--names"):
            if not named_as_value(name).search(recipes):
                problems.append(f"no file of recipes/ uses the {kind} '{name}'")
            if not named_in_test(name).search(tests):
                problems.append(f"no file of tests/ names the {kind} '{name}'")
    checkout.finish(problems)


if __name__ == "__main__":
    main(sys.argv[1])
