#!/usr/bin/env python3
"""Names of other trainers, deprecated names and mistyped verbs: the exact text that each one gets.

    other_names.py ACCEL_RUN RECIPES [--update]

other_names.txt has a line for each name: the section that it is written in, what is written there,
and the error with its hint. --update rewrites the errors. Deprecated names are those of the JSON
Schema; each must resolve to the same recipe as the current name, with a warning at its place.
"""

import concurrent.futures
import json
import pathlib
import re
import sys

import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_suffix(".txt")

# The sections of a small recipe, one line each; "SECTION=TYPE" in the table gives one another type.
RECIPE = {
    "model": "{type: gpt",
    "data": "{train: {type: synthetic/addition}",
    "optimizer": "{type: adamw",
    "scheduler": "{type: cosine",
    "task": "{type: causal_lm",
    "train": "{until: 3 steps",
    "accelerator": "{device: auto",
    "eval": "{at_start: false",
    "checkpoint": "{at_end: true",
    "log": "{images: 0",
}
# Sections inside one; "train_data" is the dataset.
INNER = {"lora": "model", "rope": "model", "loader": "data", "train_data": "data", "keep": "checkpoint",
         "ddp": "accelerator"}


def written(place, line):
    """The recipe with `line` in a section, and the line's number and column."""
    if place in INNER:  # a section inside one
        key = "train" if place == "train_data" else place
        shown = INNER[place]
        sections = dict(RECIPE)
        if key == "train":
            sections[shown] = "{train: {type: jsonl, path: a.jsonl, "
        else:
            sections[shown] += f", {key}: {{"
        before = f"{shown}: {sections[shown]}"
        closing = "}}"
    elif place == "top":
        sections, shown, before, closing = dict(RECIPE), "", "", ""
        sections.pop(line.split(":")[0], None)
    else:
        shown, _, kind = place.partition("=")
        sections = dict(RECIPE)
        if kind:
            sections[shown] = f"{{type: {kind}"
        before, closing = f"{shown}: {sections[shown]}, ", "}"
    rows = [f"{name}: {text}}}" for name, text in sections.items() if name != shown]
    rows.append(before + line + closing)
    return rows, len(before) + 1


def text_of(place, line, message, hint):
    """All that the program prints. The caret is below the key, or below the value that is wrong."""
    rows, column = written(place, line)
    if not message.startswith("unknown option "):
        column += line.index(": ") + 2
        column += line[line.index(": ") + 2] == "["  # an item of a list
    text = f"job.yaml:{len(rows)}:{column}: error: {message}\n    {rows[-1]}\n{' ' * (column + 3)}^\n"
    return text + (f"  hint: {hint}\n" if hint else "")


def rows_of_table():
    for number, row in enumerate(TABLE.read_text().splitlines(), 1):
        if row and not row.startswith("#"):
            yield number, [part.strip() for part in row.split(" | ")]


def asked(binary, place, line):
    with runs.Scratch(binary) as scratch:
        (scratch.path / "a.jsonl").write_text('{"text": "a"}\n')
        (scratch.path / "job.yaml").write_text("\n".join(written(place, line)[0]) + "\n")
        return scratch.call("validate", "job.yaml")


def update(binary):
    lines = TABLE.read_text().splitlines()
    for number, (place, line, *_) in rows_of_table():
        _, errors = asked(binary, place, line)
        message = re.search(r"error: (.*)", errors)
        hint = re.search(r"^  hint: (.*)", errors, re.MULTILINE)
        cells = [place, line, message.group(1) if message else "accepted", hint.group(1) if hint else ""]
        lines[number - 1] = " | ".join(cells).rstrip(" |")
    TABLE.write_text("\n".join(lines) + "\n")


def check_names(binary, report):
    def problem(row):
        place, line, message, *hint = row[1]
        expected = text_of(place, line, message, hint[0] if hint else "")
        code, errors = asked(binary, place, line)
        if (code, errors) == (2, expected):
            return None
        return f"{TABLE.name}:{row[0]}: exit {code}\n--- expected\n{expected}--- printed\n{errors}"

    rows = list(rows_of_table())
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = [each for each in pool.map(problem, rows) if each]
    report.check(f"{len(rows)} names of other trainers", len(rows) >= 60 and not wrong, "\n".join(wrong))


# Where a recipe has a component of a kind.
SECTION = {"model": "model", "task": "task", "dataset_with_weight_limit_head": "data.train"}


def strict(property_):
    """The JSON Schema of values that are no reference and no word."""
    if property_.get("if") == {"type": "array"}:
        return {"type": "array", **property_["then"]}
    if "then" in property_:
        return property_["then"]
    return strict(property_["else"]) if "else" in property_ else property_.get("anyOf", [property_])[0]


def deprecated_names(schema):
    """Yields (kind, component, path, old name, current name, JSON Schema) of each deprecated option, and
    (kind, "", "type", old, current, {}) of each deprecated component."""
    def options(kind, component, path, properties):
        for name, property_ in properties.items():
            if name.endswith(("+", "!")):
                continue
            if property_.get("deprecated"):
                current = re.fullmatch(r"Called '(.*)' now\.", property_["description"]).group(1)
                yield kind, component, path, name, current, property_
                continue
            yield from options(kind, component, path + [name], strict(property_).get("properties", {}))

    yield from options("", "", [], schema["properties"])
    for kind, definition in schema["$defs"].items():
        section = definition.get("else", {})
        for each in section.get("properties", {}).get("type", {}).get("anyOf", []):
            if each.get("deprecated"):
                current = re.fullmatch(r"Called '(.*)' now\.", each["description"]).group(1)
                yield kind, "", [], each["const"], current, {}
        for rule in section.get("allOf", []):
            type_ = rule["if"]["properties"]["type"]
            component = type_["const"] if "const" in type_ else type_["enum"][0]
            yield from options(kind, component, [], rule["then"].get("properties", {}))


def values(property_):
    """Values as a recipe has them; the first that the recipe takes is used."""
    text = json.dumps(strict(property_))
    if '"boolean"' in text and '"string"' not in text:
        return ["true", "false"]
    if '"array"' in text:
        return ["[3]"] if '"integer"' in text else ["['*head*']"]
    if '"integer"' in text:
        return ["8", "1", "2", "16", "48"]
    return ["eval/loss"] if text.startswith('{"type": ["string"') else ["0.25"]


class Recipes:
    """The recipes of the repository, by the components in them."""

    def __init__(self, folder):
        self.texts = {path: path.read_text() for path in sorted(pathlib.Path(folder).resolve().glob("**/*.yaml"))}

    def of(self, component):
        named = re.compile(r"type: " + re.escape(component) + r"\b(?!/)")
        found = [path for path, text in self.texts.items() if not component or named.search(text)]
        # Those with the fewest lines first: they include and override least.
        return sorted(found, key=lambda path: len(self.texts[path]))


# What a section wants besides.
BESIDES = {"lora": "rank: 2", "keep": "best: 1"}
# Datasets that are downloaded.
ABSENT = {"hf"}


class Renamed:
    """One deprecated option in a recipe that has its component."""

    def __init__(self, binary, recipes, renamed):
        self.binary, self.recipes = binary, recipes
        self.kind, self.component, self.path, self.old, self.current, self.property = renamed
        self.section = (SECTION[self.kind].split(".") if self.kind else []) + self.path
        self.name = f"{self.component} {'.'.join(self.section)}.{self.old}"

    def layer(self, *keys):
        """The text of a layer that gives the keys, and the line and column of the last."""
        lines = ["  " * depth + name + ":" for depth, name in enumerate(self.section)]
        margin = "  " * len(self.section)
        lines += [margin + BESIDES[name] for name in self.section if name in BESIDES]
        lines += [f"{margin}{key}: {self.value}" for key in keys]
        return "\n".join(lines) + "\n", 1 + len(lines), 1 + len(margin)

    def show_layer(self, scratch, *keys):
        """What `show` prints of a recipe that includes the base, and the errors."""
        (scratch.path / "job.yaml").write_text(f"include: {self.base}\n" + self.layer(*keys)[0])
        return scratch.start("show", "job.yaml").communicate()

    def argument(self, item, key):
        section = self.section if item is None else ["data", "train", item] + self.path
        return ".".join(section + [key]) + "=" + self.value

    def show_argument(self, scratch, item, key):
        return scratch.start("show", self.base, self.argument(item, key)).communicate()

    def is_taken(self, scratch, item):
        """Whether the base takes the current name with self.value, and shows that it does."""
        if item is None:
            plain, _ = self.show_layer(scratch, "x-nothing")
            text, errors = self.show_layer(scratch, self.current)
        else:
            plain, _ = scratch.start("show", self.base).communicate()
            text, errors = self.show_argument(scratch, item, self.current)
        return text and not errors and text != plain

    def problem(self):
        """What is wrong, or None."""
        with runs.Scratch(self.binary) as scratch:
            items = (None, "0", "1") if self.section[:2] == ["data", "train"] else (None,)
            for self.base in self.recipes.of(self.component):
                text, _ = scratch.start("show", self.base).communicate()
                shown = re.search(rf"^ +{self.current}: (\S+) ", text, re.MULTILINE)
                for item in items:
                    # Of 'auto', whose weights have a value, only that one is right.
                    for self.value in values(self.property) + ([shown.group(1)] if shown else []):
                        if self.is_taken(scratch, item):
                            return self.problem_in_layer(scratch, item) or self.problem_in_argument(scratch, item)
        # 'auto' has the options of all families, and the recipes have weights of a few.
        return None if self.component == "auto" else f"{self.name}: no recipe takes '{self.current}'"

    def problem_in_layer(self, scratch, item):
        if item is not None:  # a layer replaces a list as a whole
            return None
        expected, _ = self.show_layer(scratch, self.current)
        text, line, column = self.layer(self.old)
        warning = (f"job.yaml:{line}:{column}: warning: '{self.old}' is called '{self.current}' now\n"
                   f"    {text.splitlines()[-1]}\n{' ' * (column + 3)}^\n"
                   f"  hint: write '{self.current}: {self.value}'\n")
        found = self.show_layer(scratch, self.old)
        if found != (expected, warning):
            return f"{self.name} in {self.base}:\n--- expected\n{warning}--- printed\n{found[1]}"
        _, errors = self.show_layer(scratch, self.current, self.old)
        both = f": error: '{self.old}' is called '{self.current}' now, and both are given\n"
        return None if both in errors else f"{self.name} in {self.base}, both names:\n{errors}"

    def problem_in_argument(self, scratch, item):
        if BESIDES.keys() & set(self.path):  # another key is wanted too
            return None
        expected, _ = self.show_argument(scratch, item, self.current)
        argument = self.argument(item, self.old)
        warning = (f"argument 3: warning: '{self.old}' is called '{self.current}' now\n    {argument}\n    ^\n"
                   f"  hint: write '{self.argument(item, self.current)}'\n")
        found = self.show_argument(scratch, item, self.old)
        if found == (expected, warning):
            return None
        return f"{self.name} in {self.base}:\n--- expected\n{warning}--- printed\n{found[1]}"


def check_deprecated(binary, recipes, report):
    with runs.Scratch(binary) as scratch:
        process = scratch.start("schema")
        schema = json.loads(process.communicate()[0])
    renamed = list(deprecated_names(schema))
    options = [each for each in renamed if each[5] and each[1] not in ABSENT]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        problems = pool.map(lambda each: Renamed(binary, recipes, each).problem(), options)
        wrong = [problem for problem in problems if problem]
    report.check(f"{len(options)} deprecated options", len(options) >= 60 and not wrong, "\n".join(wrong))
    # Each declaration in the source is in the schema, which this check reads them from.
    declared = set()
    for path in ROOT.glob("*/**/*"):
        if path.suffix in (".cpp", ".h") and path.relative_to(ROOT).parts[0] in ("models", "data", "train"):
            declared |= set(re.findall(r'renamed_from\("(\w+)"\)', path.read_text()))
    missing = declared - {each[3] for each in options}
    report.check(f"all of {len(declared)} deprecated names are in the schema", declared and not missing, str(missing))
    check_components(binary, recipes, [each for each in renamed if not each[5]], report)


def check_components(binary, recipes, renamed, report):
    for kind, _, _, old, current, _ in renamed:
        base = next((path for path in recipes.of(current)), None)
        report.check(f"a recipe has '{current}'", base)
        if not base:
            continue
        text = recipes.texts[base]
        with runs.Scratch(binary) as scratch:
            # In the folder of the recipe, where its data is.
            shown = []
            for name in (current, old):
                copy = scratch.path / base.name
                copy.write_text(re.sub(r"type: " + re.escape(current) + r"\b", "type: " + name, text))
                process = scratch.start("show", copy.name)
                shown.append(process.communicate())
            word = {"dataset_with_weight_limit_head": "dataset"}.get(kind, kind)
            report.check(f"'{old}' is '{current}'", shown[0][0] == shown[1][0] and shown[0][0] and
                         f"warning: the {word} '{old}' is called '{current}' now\n" in shown[1][1] and
                         f"  hint: write '{current}'\n" in shown[1][1] and "warning" not in shown[0][1], shown)


# What is typed, and what is printed with exit code 2.
VERBS = """
vaildate job.yaml | there is no verb 'vaildate' | did you mean 'validate'?
vlaidate job.yaml | there is no verb 'vlaidate' | did you mean 'validate'?
trian job.yaml | there is no verb 'trian' | did you mean 'run'?
train job.yaml | there is no verb 'train' | did you mean 'run'?
fit job.yaml | there is no verb 'fit' | did you mean 'run'?
eval job.yaml | there is no verb 'eval' | did you mean 'evaluate'?
resme runs/a | there is no verb 'resme' | did you mean 'resume'?
describe model gpt | there is no verb 'describe' | did you mean 'explain'?
exlpain model gpt | there is no verb 'exlpain' | did you mean 'explain'?
info | there is no verb 'info' | did you mean 'env'?
verify runs/a | there is no verb 'verify' | did you mean 'verify-resume'?
checkpoints list runs/a | there is no verb 'checkpoints' | did you mean 'checkpoint'?
checkpoint lst runs/a | 'checkpoint' has no verb 'lst' | did you mean 'list'?
checkpoint verfy runs/a | 'checkpoint' has no verb 'verfy' | did you mean 'verify'?
plugin biuld a.cpp | 'plugin' has no verb 'biuld' | did you mean 'build'?
tokenizer trian a.txt | 'tokenizer' has no verb 'trian' | did you mean 'train'?
ls | there is no verb 'ls' | did you mean 'list'?
lst | there is no verb 'lst' | did you mean 'list'?
training job.yaml | there is no verb 'training' | did you mean 'run'?
sft job.yaml | there is no verb 'sft' | did you mean 'run'?
evalute runs/a | there is no verb 'evalute' | did you mean 'evaluate'?
infer runs/a | there is no verb 'infer' | did you mean 'predict'?
sample runs/a | there is no verb 'sample' | did you mean 'generate'?
convert runs/a | there is no verb 'convert' | did you mean 'checkpoint convert'?
inspect runs/a | there is no verb 'inspect' | did you mean 'checkpoint inspect'?
status runs/a | there is no verb 'status' | did you mean 'top'?
logs runs/a | there is no verb 'logs' | did you mean 'top'?
stop runs/a | there is no verb 'stop' | did you mean 'ctl'?
summary runs/a | there is no verb 'summary' | did you mean 'report'?
dry-run job.yaml | there is no verb 'dry-run' | did you mean 'plan'?
estimate job.yaml | there is no verb 'estimate' | did you mean 'plan'?
hpo lr.yaml | there is no verb 'hpo' | did you mean 'sweep'?
tune lr.yaml | there is no verb 'tune' | did you mean 'sweep'?
models | there is no verb 'models' | did you mean 'list'?
init a.yaml | there is no verb 'init' | did you mean 'new'?
pull mnist | there is no verb 'pull' | did you mean 'download'?
help | there is no verb 'help' | did you mean '--help'?
version | there is no verb 'version' | did you mean '--version'?
job.yaml --lr 0.1 | the following argument was not expected: --lr | options of the recipe are key=value, such as optimizer.lr=1e-3; 'accel-run VERB --help' lists the flags
explain train.batch_size | no recipe key or component is named 'train.batch_size' | did you mean 'train.batch'?
explain learning_rate | no recipe key or component is named 'learning_rate' | did you mean 'optimizer.lr'?
explain optimzer.lr | no recipe key or component is named 'optimzer.lr' | did you mean 'optimizer.lr'?
explain model resnet18 | no model is named 'resnet18' | write 'resnet' with 'depth: 18'
explain metric f1_macro | no metric is named 'f1_macro' | write 'f1' with 'average: macro'
explain modle gpt | there is no kind of component named 'modle' | did you mean 'model'?
explain model gtp | no model is named 'gtp' | did you mean 'gpt'?
explain task multi | the task 'multi' is called 'multi_head' now | write 'multi_head'
"""


def check_verbs(binary, report):
    with runs.Scratch(binary) as scratch:
        for row in VERBS.strip().splitlines():
            words, message, hint = row.split(" | ")
            found = scratch.call(*words.split())
            report.check(words, found == (2, f"error: {message}\n  hint: {hint}\n"), found)


def check_explained(binary, report):
    with runs.Scratch(binary) as scratch:
        explained = scratch.start("explain", "model", "llama").communicate()[0]
        report.check("'explain' has deprecated names",
                     "  num_heads: a whole number; at least 1; default 4; deprecated name: heads\n" in explained,
                     explained)
        for words, wanted in EXPLAINED:
            code, out = ask_out(scratch, "explain", *words)
            report.check("explain " + " ".join(words), code == 0 and out.startswith(wanted), out)


# What explains a key and a component, and how its text begins.
EXPLAINED = (
    (["train.batch"], "train.batch\n  a whole number; at least 1; default 32\n  Samples per optimizer step, "),
    (["optimizer.lr"], "optimizer.lr\n  a number; at least 0; default 0.01\n  "),
    (["adamw.lr"], "adamw.lr\n  a number; at least 0; default 0.001\n  Learning rate. "),
    (["model.rope.theta"], "model.rope.theta\n"),
    (["callbacks.0.decay"], "callbacks.0.decay\n"),
    (["data.train.path"], "data.train.path\n"),
    (["checkpoint"], "checkpoint\n  a section\n  Checkpoints: period, retention, resume.\n"),
    (["optimizer"], "optimizer\n"),
    (["adamw"], "optimizer adamw\n  Adam with decoupled weight decay.\n"),
    (["metric"], "metric\n  accuracy "),
    (["optimizer", "adamw"], "optimizer adamw\n  Adam with decoupled weight decay.\n"),
)


def ask_out(scratch, *words):
    process = scratch.start(*words)
    out, _ = process.communicate()
    return process.returncode, out


def check_help(binary, report):
    """Without words the help is printed, whose verbs are in groups and whose first line is the main use."""
    with runs.Scratch(binary) as scratch:
        code, alone = ask_out(scratch)
        report.check("without words: help, and the exit code of a usage error", code == 2, code)
        code, asked_for = ask_out(scratch, "--help")
        report.check("--help", code == 0 and alone == asked_for and
                     "\nUsage: accel-run RECIPE [key=value ...] [OPTIONS]\n" in asked_for, asked_for)
        groups = re.findall(r"^(\S.*):$", asked_for, re.MULTILINE)
        report.check("groups of verbs", groups == ["Options", "Train", "Look at runs", "Write recipes",
                                                   "Use trained models", "Prepare data and this machine"], groups)
        verb = ask_out(scratch, "run", "--help")[1]
        report.check("a verb's own usage", "\nUsage: accel-run run " in verb and "--new " in verb and
                     "--fresh " in verb, verb)
        (scratch.path / "train").mkdir()
        code, errors = scratch.call("train", "job.yaml")
        report.check("a folder is no recipe", errors ==
                     "error: there is no verb 'train'\n  hint: did you mean 'run'?\n", errors)


if __name__ == "__main__":
    if sys.argv[-1] == "--update":
        sys.exit(update(sys.argv[1]))
    checks = runs.Report()
    check_names(sys.argv[1], checks)
    check_deprecated(sys.argv[1], Recipes(sys.argv[2]), checks)
    check_verbs(sys.argv[1], checks)
    check_explained(sys.argv[1], checks)
    check_help(sys.argv[1], checks)
    sys.exit(checks.failed > 0)
