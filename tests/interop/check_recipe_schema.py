"""Checks every shipped recipe, and some odd ones, against the JSON Schema of a build.

    python tests/interop/check_recipe_schema.py ACCEL_RUN
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import yaml
from check_schema import Loader

ROOT = Path(__file__).resolve().parents[2]
DATA = "data: {train: {type: synthetic/addition}}\n"

GOOD = (
    "model: {type: auto, weights: gpt2, dropout: 0, attention_dropout: 0.1, tie_embeddings: true}\n",
    "model: {type: auto, weights: bert, head: tokens, max_seq_len: auto, num_heads: '${vars.heads}'}\n",
    "model: {type: auto, weights: llama, num_kv_heads: 2, rope: {theta: 500000}}\n",
)
# With a part of the message that a validator prints.
BAD = (
    ("model: auto\n", "'auto' is not one of ["),
    ("model: {type: auto, dropout: 0}\n", "'weights' is a required property"),
    ("model: {type: auto, weights: gpt2, dropuot: 0}\n", "'dropuot' does not match"),
    ("model: {type: auto, weights: gpt2, dropout: [1, 2]}\n", ""),
    ("model: {type: auto, weights: gpt2, num_layers: many}\n", ""),
    ("model: {type: auto, weights: llama, rope: {tehta: 500000}}\n", "'tehta' does not match"),
    ("model: {type: lenett}\n", "'lenett' is not one of ["),
    ("model: {type: lenet, dropuot: 0.1}\n", "'dropuot' does not match"),
    ("model: {type: lenet, dropout: high}\n", "'high' is not of type 'number'"),
    ("model: {type: lenet, dropout: 2}\n", "2 is greater than or equal to the maximum of 1"),
    ("model: {type: resnet, stem: small}\n", "'small' is not one of ["),
    ("model: lenet\ncallbacks: [{type: ema, dcay: 0.9}]\n", "'dcay' does not match"),
    ("model: lenet\ntrackers: tensorbord\n", "'tensorbord' is not one of ["),
    ("model: lenet\nscheduler: [{type: linear, for: 10%}, {type: cosin}]\n", "'cosin' is not one of ["),
)


def read(path):
    return tomllib.loads(path.read_text()) if path.suffix == ".toml" else yaml.load(path.read_text(), Loader)


def main():
    printed = subprocess.run([sys.argv[1], "schema"], check=True, capture_output=True, text=True).stdout
    schema = json.loads(printed)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    cases = [(text, yaml.load(text + DATA, Loader), None) for text in GOOD]
    cases += [(text, yaml.load(text + DATA, Loader), message) for text, message in BAD]
    for folder in ("recipes", "tests/smoke", "tests/interop/recipes"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".yaml", ".toml"):
                cases.append((path.relative_to(ROOT), read(path), None))
    failures = 0
    for name, value, wanted in cases:
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        if (wanted is None) != (error is None) or (error and wanted not in error.message):
            failures += 1
            print(f"{name}: " + (f"{list(error.absolute_path)}: {error.message[:300]}" if error else "was taken"))
    print(f"{len(cases)} recipes checked, {failures} wrong")
    return 1 if failures or len(cases) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
