#!/usr/bin/env python3
"""Runs every recipe of recipes/tiny to its end, and small, stopped and resumed.

    tiny_recipes.py ACCEL_RUN RECIPES_FOLDER [--update [RECIPE...]]

Their own `expect` says what the end must be; a warning is a failure. Their first losses and the names of their evaluations
are those of tiny_curves.json, which --update writes: as many losses as other kernels of this processor leave ten times nearer
than the tolerance, since training amplifies rounding.
"""

import concurrent.futures
import json
import os
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

CURVES = pathlib.Path(__file__).with_name("tiny_curves.json")
MOST = 5  # losses of a curve
TOLERANCE, NARROW_TOLERANCE = 1e-4, 1e-2  # relative; of losses below 1 the distance; of mixed precision
MARGIN = 10
# Rounding may change a draw of these, and with it all losses that follow.
SAMPLING = {"grpo", "reinforce"}
# Overrides and environment of other kernels.
OTHERS = [(["accelerator.kernels=reference"], {}),
          ([], {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}),
          (["accelerator.mkl_instructions=native"], {"ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "AUTO"})]


def tolerance_of(recipe):
    return NARROW_TOLERANCE if "mixed_precision" in recipe.read_text() else TOLERANCE


def distance(a, b):
    return abs(a - b) / max(abs(b), 1.0)


def curve_of(scratch):
    """The first losses of the run in this folder, and the metrics of its last evaluation."""
    record, = pathlib.Path(scratch).glob("runs/*/metrics.jsonl")
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss_bits" in line]
    evaluations = [line["eval"] for line in lines if "eval" in line]
    return {"loss": losses[:MOST], "eval": evaluations[-1] if evaluations else {}}


def other_curve(found, wanted, tolerance):
    """How a curve differs from the stored one; "" if it does not."""
    if set(found["eval"]) != set(wanted["eval"]):
        return f"evaluates {sorted(found['eval'])}, not {sorted(wanted['eval'])}"
    for step, (a, b) in enumerate(zip(found["loss"], wanted["loss"]), 1):
        if not distance(a, b) <= tolerance:
            return f"the loss of step {step} is {a}, not {b}"
    return "" if len(found["loss"]) >= len(wanted["loss"]) else f"{len(found['loss'])} losses"


def run_curve(binary, recipe, words=(), environment=()):
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run([binary, recipe, *words], cwd=scratch, capture_output=True, text=True,
                              env=dict(os.environ, **dict(environment)))
        if done.returncode and not words:
            raise SystemExit(f"{recipe.name}: exit {done.returncode}\n{done.stderr}")
        return curve_of(scratch) if not done.returncode else None


def measured(binary, recipe):
    """The curve to store."""
    curve = run_curve(binary, recipe)
    count = 1 if recipe.stem in SAMPLING else len(curve["loss"])
    for words, environment in OTHERS:
        other = run_curve(binary, recipe, words, environment)
        # Reference kernels draw other dropout, and do not exist for every recipe.
        if not other or distance(other["loss"][0], curve["loss"][0]) > tolerance_of(recipe):
            continue
        pairs = zip(curve["loss"][:count], other["loss"])
        count = next((i for i, (a, b) in enumerate(pairs) if distance(a, b) > tolerance_of(recipe) / MARGIN), count)
    # The values of the evaluation are for readers.
    return {"loss": curve["loss"][:count],
            "eval": {name: float(f"{value:.4g}") for name, value in sorted(curve["eval"].items())}}


def update(binary, recipes):
    curves = json.loads(CURVES.read_text()) if CURVES.exists() else {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for recipe, curve in zip(recipes, pool.map(lambda recipe: measured(binary, recipe), recipes)):
            curves[recipe.name] = curve
            print(recipe.name, len(curve["loss"]), "losses", flush=True)
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(curves[name])}" for name in sorted(curves))
    CURVES.write_text("{\n" + lines + "\n}\n")


def check_curve(report, recipe, scratch, curves):
    wanted = curves.pop(recipe.name, None)
    problem = "there is none in tiny_curves.json: write it with --update" if wanted is None else other_curve(
        curve_of(scratch), wanted, tolerance_of(recipe))
    report.check(f"{recipe.name} has its curve", not problem, problem)


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
    if sys.argv[3:4] == ["--update"]:
        named = set(sys.argv[4:])
        return update(binary, [recipe for recipe in recipes if not named or recipe.name in named])
    curves = json.loads(CURVES.read_text())
    report = runs.Report()
    report.check("there are recipes to run", len(recipes) >= 10)
    check_words(binary, report, folder / "tiny/glyphs.yaml")
    for recipe in [*recipes, folder / "quickstart.yaml"]:
        with tempfile.TemporaryDirectory() as scratch:
            if recipe.parent.name == "tiny":
                problem = complaint(binary, scratch, recipe)
                report.check(f"{recipe.name} runs", not problem, problem)
                if not problem:
                    check_curve(report, recipe, scratch, curves)
                    resolved, = pathlib.Path(scratch).glob("runs/*/recipe.yaml")
                    done = subprocess.run([binary, "validate", resolved], capture_output=True, text=True)
                    report.check(f"{recipe.name} has a resolved recipe that is accepted", done.returncode == 0, done.stderr)
            problem = complaint(binary, scratch, "smoke", recipe)
            report.check(f"{recipe.name} resumes", not problem, problem)
    report.check("every curve is of a recipe", not curves or report.failed, sorted(curves))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
