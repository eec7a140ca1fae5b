"""Checks recipes against the JSON Schema that accel-run prints.

Usage: check_schema.py SCHEMA RECIPE...
Files named *.bad.yaml must be refused, all others taken.
"""

import json
import pathlib
import re
import sys

import jsonschema
import yaml


class Loader(yaml.SafeLoader):
    """YAML 1.2's booleans, as editors read it: `no` and `on` are texts."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for word in ("true", "false"):
    Loader.yaml_implicit_resolvers[word[0]].append(
        ("tag:yaml.org,2002:bool", re.compile(f"^{word}$"))
    )


def main():
    schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    failures = 0
    for path in map(pathlib.Path, sys.argv[2:]):
        error = jsonschema.exceptions.best_match(
            validator.iter_errors(yaml.load(path.read_text(), Loader))
        )
        wanted_bad = path.name.endswith(".bad.yaml")
        if wanted_bad != (error is not None):
            failures += 1
            reason = f"{list(error.absolute_path)}: {error.message[:300]}" if error else "was taken"
            print(f"{path}: {reason}")
    print(f"{len(sys.argv) - 2} recipes checked, {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
