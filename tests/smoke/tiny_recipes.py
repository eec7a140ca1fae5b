#!/usr/bin/env python3
"""Runs every recipe of recipes/tiny to its end, and small, stopped and resumed.

    tiny_recipes.py ACCEL_RUN RECIPES_FOLDER

Their own `expect` says what the end must be; a warning is a failure.
"""

import pathlib
import subprocess
import sys
import tempfile

import runs


def complaint(binary, scratch, *words):
    done = subprocess.run([binary, *words], cwd=scratch, capture_output=True, text=True)
    if done.returncode != 0:
        return f"exit {done.returncode}\n{done.stdout[-600:]}{done.stderr}"
    return done.stderr


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    folder = pathlib.Path(sys.argv[2]).resolve()
    recipes = sorted((folder / "tiny").glob("*.yaml")) + sorted((folder / "tiny").glob("*.toml"))
    report = runs.Report()
    report.check("there are recipes to run", len(recipes) >= 10)
    for recipe in [*recipes, folder / "quickstart.yaml"]:
        with tempfile.TemporaryDirectory() as scratch:
            if recipe.parent.name == "tiny":
                problem = complaint(binary, scratch, recipe)
                report.check(f"{recipe.name} runs", not problem, problem)
            problem = complaint(binary, scratch, "smoke", recipe)
            report.check(f"{recipe.name} resumes", not problem, problem)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
