#!/usr/bin/env python3
"""Facts about the keys of public configs: `import` reports each key as expected, refuses a method that it cannot
keep, and names only options and components that exist.   import_configs.py ACCEL_RUN SOURCE_FOLDER

import_configs/TRAINER.jsonl has a config a line: its name, the exit code, its `keys` with their values, and what
becomes of them: `taken`, `nothing` (no effect) and `left`, or `refused` with exit code 2. Values are those of the
config; paths, descriptions and templates are placeholders.
"""

import json
import pathlib
import re
import sys

import runs

# Sections of a recipe, by the kind of their components.
SECTIONS = {"model": ["model"], "dataset": ["data.train", "data.eval"], "optimizer": ["optimizer"],
            "scheduler": ["scheduler"], "task": ["task"], "tracker": ["trackers"], "callback": ["callbacks"],
            "metric": ["eval.metrics"], "transform": ["data.transform"], "reward": ["task.rewards"]}
ENTRY = re.compile(r"^  \S+?:\d+(?::\d+)?: ([^\s:]+(?: [^\s:]+)*?)(?: -> .*|: .*)?$")
HEADING = re.compile(r"^(in the recipe|no effect here|not in the recipe): \d+ of \d+ keys \(\d+ %\)$")
CLASSES = {"in the recipe": "taken", "no effect here": "nothing", "not in the recipe": "left"}


def nested(keys):
    """Dotted keys as a tree."""
    tree = {}
    for key, value in keys.items():
        *path, last = key.split(".")
        section = tree
        for word in path:
            section = section.setdefault(word, {})
        section[last] = value
    return tree


def toml(tree):
    """The tree as TOML: values of one section a line, no lists of sections."""
    lines = []
    for section, keys in tree.items():
        lines.append(f"[{section}]")
        flat = [(key, value) for key, value in keys.items()]
        while flat:
            key, value = flat.pop(0)
            if isinstance(value, dict):
                flat += [(f"{key}.{inner}", item) for inner, item in value.items()]
            elif value is not None:
                lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def classes_of(report):
    """{class: keys} of a report."""
    found, current = {name: [] for name in CLASSES.values()}, None
    for line in report.splitlines():
        heading, entry = HEADING.match(line), ENTRY.match(line)
        if heading:
            current = CLASSES[heading.group(1)]
        elif not line.startswith("  "):
            current = None
        elif current and entry and entry.group(1) not in found[current]:
            found[current].append(entry.group(1))
    return found


def refused_keys(errors):
    return sorted(set(re.findall(r": error: ([^\s:]+(?: [^\s:]+)*?): ", errors)))


def known_names(source):
    """The keys of recipes and the components of each kind, of the generated reference."""
    keys, components = set(), {}
    option = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
    for page in (source / "docs/reference").glob("*.md"):
        text = page.read_text()
        if page.stem == "recipe":
            keys |= set(option.findall(text))
            continue
        parts = re.split(r"^## `(.+)`$", text, flags=re.MULTILINE)
        components[page.stem] = set(parts[1::2])
        for section in SECTIONS[page.stem]:
            keys |= {f"{section}.{name}" for part in parts[2::2] for name in option.findall(part)}
    return keys, components


def untrue_names(text, keys, components, verbs):
    """Names of the text that nothing in the program has."""
    top = {key.split(".")[0] for key in keys}
    wrong = []
    for name in re.findall(r"'([a-z_]+(?:\.[a-z_]+)+)(?:: [^']*)?'", text):
        if name.split(".")[0] in top and name not in keys and not name.startswith("log.jsonl"):
            wrong.append(name)
    for kind, pattern in (("tracker", r"tracker of type ([a-z_]+)"), ("callback", r"callback '([a-z_]+)'"),
                          ("model", r"the model '([a-z_]+)'(?! is)"), ("task", r"the task ([a-z]+(?:_[a-z]+)+|classification)\b")):
        wrong += [f"{kind} {name}" for name in re.findall(pattern, text)
                  if name not in components[kind]]
    for name in re.findall(r"'data\.(?:train|eval)'(?: of| as)? type ([a-z_]+)", text):
        if name not in components["dataset"]:
            wrong.append(f"dataset {name}")
    wrong += [f"accel-run {verb}" for verb in re.findall(r"'accel-run ([a-z]+)", text) if verb not in verbs]
    return wrong


def literals(source):
    """The texts of the importer's source, adjacent literals joined."""
    joined = ""
    for path in sorted((source / "compat/trainers").glob("*.cpp")):
        code = re.sub(r"^\s*(?://|#include).*$", "", path.read_text(), flags=re.MULTILINE)
        joined += re.sub(r'"\s*\n\s*"', "", code)
    return "\n".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', joined))


def check_config(report, scratch, trainer, facts):
    """Runs one import; returns what it printed."""
    tree = nested(facts["keys"])
    path = scratch.path / ("config.toml" if trainer == "torchtitan" else "config.yaml")
    path.write_text(toml(tree) if path.suffix == ".toml" else json.dumps(tree, indent=1))
    (scratch.path / "out.yaml").unlink(missing_ok=True)
    code, errors = scratch.call("import", path.name, "--to", "out.yaml")
    name = f"{trainer}: {facts['name']}"
    report.check(f"{name}: exit code", code == facts["exit"], f"exit {code}\n{errors}")
    report.check(f"{name}: detected", f"{path.name}: a config of {trainer}, recognized by " in errors, errors)
    report.check(f"{name}: written unless refused", (scratch.path / "out.yaml").exists() == (code == 0), errors)
    found = {"refused": refused_keys(errors)} if code == 2 else classes_of(errors)
    for kind, actual in found.items():
        expected = facts.get(kind, [])
        report.check(f"{name}: {kind}", set(actual) == set(expected), f"missing {sorted(set(expected) - set(actual))}, "
                     f"unexpected {sorted(set(actual) - set(expected))}\n{errors}")
    wrong = re.findall(r"error: (unknown option .*|there is no .*)", errors)
    report.check(f"{name}: the recipe has known options only", not wrong, f"{wrong}\n{errors}")
    return errors


def main():
    report = runs.Report()
    source = pathlib.Path(sys.argv[2]).resolve()
    keys, components = known_names(source)
    with runs.Scratch(sys.argv[1]) as scratch:
        help_text = scratch.start("--help").communicate()[0]
        verbs = set(re.findall(r"^ +([a-z-]+)  ", help_text, re.MULTILINE))
        report.check("verbs of the help", {"list", "explain", "export"} <= verbs, help_text)
        texts, total = [literals(source)], 0
        for path in sorted((source / "tests/smoke/import_configs").glob("*.jsonl")):
            lines = path.read_text().splitlines()
            report.check(f"{path.stem}: at least 24 configs", len(lines) >= 24, str(len(lines)))
            for line in lines:
                texts.append(check_config(report, scratch, path.stem, json.loads(line)))
                total += 1
        print(f"{total} configs")
        for name in sorted(set(untrue_names("\n".join(texts), keys, components, verbs))):
            report.check(f"'{name}' exists", False, "an import sentence names it")
        broken = "write 'train.freezing' with a tracker of type wandbb, see 'accel-run explainn'"
        report.check("a wrong name is found", untrue_names(broken, keys, components, verbs) ==
                     ["train.freezing", "tracker wandbb", "accel-run explainn"], broken)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
