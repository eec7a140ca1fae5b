#!/usr/bin/env python3
"""Every shipped recipe validates.   recipes.py ACCEL_RUN"""

import subprocess
import sys

import checkout


def main(binary):
    problems = []
    for name in checkout.files(".yaml", ".toml"):
        if not name.startswith(("recipes/", "tests/smoke/", "tests/interop/recipes/")):
            continue
        result = subprocess.run([binary, "validate", name], cwd=checkout.ROOT, text=True,
                                stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if result.returncode:
            problems.append(f"{name}: exit {result.returncode}\n{result.stderr.strip()}")
    checkout.finish(problems)


if __name__ == "__main__":
    main(sys.argv[1])
