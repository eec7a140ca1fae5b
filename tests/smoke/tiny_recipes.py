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

# Their texts have so few words that eval samples are in the training data, of which a run warns.
REPETITIVE = {"chat", "grpo", "names", "reviews_bert", "reviews_distilbert", "reviews_grouped", "reviews_jsonl",
              "reviews_masked", "reviews_shards", "tokens"}
OVERLAP = " eval samples are in the training data too: "
# The head of a reward model is not in the folder of the language model.
NEW_HEAD = " and new: 'score.weight'"
# An fp8 run on a CPU says that it is emulated.
EMULATED = "warning: the CPU emulates fp8 "


def complaint(binary, scratch, *words):
    done = subprocess.run([binary, *words], cwd=scratch, capture_output=True, text=True)
    if done.returncode != 0:
        return f"exit {done.returncode}\n{done.stdout[-600:]}{done.stderr}"
    name = pathlib.Path(words[-1]).stem
    expected = OVERLAP if name in REPETITIVE else {"reward": NEW_HEAD, "fp8": EMULATED}.get(name, "\0")
    return "".join(line for line in done.stderr.splitlines(keepends=True) if expected not in line)


def check_words(binary, report, recipe):
    """Words behind the recipes of `smoke` are overrides, and all is checked before anything runs."""
    for words, code, wanted in (
            ((recipe, recipe, "model.none=1"), 2, "argument 4: error: unknown option 'none'\n"),
            ((recipe, "none.yaml"), 2, "error: cannot read the recipe 'none.yaml': "),
            (("a=1", recipe), 2, f"error: '{recipe}' comes after 'a=1'\n  hint: give the recipes first, "),
            (("a=1",), 2, "error: there is no recipe before 'a=1'\n"),
            ((recipe, "train.until=2 steps"), 0, "")):
        with tempfile.TemporaryDirectory() as scratch:
            done = subprocess.run([binary, "smoke", *words], cwd=scratch, capture_output=True, text=True)
            good = done.returncode == code and wanted in done.stderr
            line = f"smoke {recipe}: 2 steps, bit-identical when resumed at step 1\n"
            good = good and done.stdout == (line if code == 0 else "")
            report.check(f"smoke {' '.join(map(str, words))}", good, done.stdout + done.stderr)


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    folder = pathlib.Path(sys.argv[2]).resolve()
    recipes = sorted((folder / "tiny").glob("*.yaml")) + sorted((folder / "tiny").glob("*.toml"))
    report = runs.Report()
    report.check("there are recipes to run", len(recipes) >= 10)
    check_words(binary, report, folder / "tiny/glyphs.yaml")
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
