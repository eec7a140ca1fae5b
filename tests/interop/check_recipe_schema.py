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
BAD = (
    "model: auto\n",
    "model: {type: auto, dropout: 0}\n",
    "model: {type: auto, weights: gpt2, dropuot: 0}\n",
    "model: {type: auto, weights: gpt2, dropout: [1, 2]}\n",
    "model: {type: auto, weights: gpt2, num_layers: many}\n",
    "model: {type: auto, weights: llama, rope: {tehta: 500000}}\n",
)


def read(path):
    return tomllib.loads(path.read_text()) if path.suffix == ".toml" else yaml.load(path.read_text(), Loader)


def main():
    printed = subprocess.run([sys.argv[1], "schema"], check=True, capture_output=True, text=True).stdout
    schema = json.loads(printed)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    cases = [(text, yaml.load(text + DATA, Loader), True) for text in GOOD]
    cases += [(text, yaml.load(text + DATA, Loader), False) for text in BAD]
    for folder in ("recipes", "tests/smoke", "tests/interop/recipes"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".yaml", ".toml"):
                cases.append((path.relative_to(ROOT), read(path), True))
    failures = 0
    for name, value, good in cases:
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        if good != (error is None):
            failures += 1
            print(f"{name}: " + (f"{list(error.absolute_path)}: {error.message[:300]}" if error else "was taken"))
    print(f"{len(cases)} recipes checked, {failures} wrong")
    return 1 if failures or len(cases) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
