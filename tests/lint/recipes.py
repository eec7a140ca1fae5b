#!/usr/bin/env python3
"""Every shipped recipe validates, and every config under a recipe.   recipes.py ACCEL_RUN

That data which is not in the repository is missing is no fault of a recipe's.
"""

import json
import os
import subprocess
import sys

import checkout


SMALL = "recipes/tiny/regression.yaml"
# What a config leaves to the machine it is used on.
MACHINE = {"MACHINE_RANK": "1", "MAIN_ADDRESS": "10.0.0.1"}


def is_no_fault(line):
    output = json.loads(line)
    message = output["message"]
    missing = message.endswith(("', which does not exist", "', which is not on this machine"))
    return missing or message.startswith("the data set '") or output["severity"] == "warning"


def main(binary):
    problems = []
    for name in checkout.files(".yaml", ".toml"):
        if name.startswith(("recipes/", "tests/smoke/", "tests/interop/recipes/")):
            words = [name]
        elif name.startswith("configs/"):
            words = [SMALL, "--config", name]
        else:
            continue
        result = subprocess.run([binary, "--error-format", "json", "validate", *words], cwd=checkout.ROOT, text=True,
                                stdin=subprocess.DEVNULL, capture_output=True, check=False,
                                env={**os.environ, **MACHINE})
        output = result.stderr.splitlines()
        if result.returncode and not (output and all(map(is_no_fault, output))):
            problems.append(f"{name}: exit {result.returncode}\n{result.stderr.strip()}")
    checkout.finish(problems)


if __name__ == "__main__":
    main(sys.argv[1])
