#!/usr/bin/env python3
"""Every command in a ```sh block of the documents works, and prints what the document shows.

    examples.py ACCEL_RUN [--update] [DOCUMENT...]

Blocks of one document run in order in a folder of their own, which looks like the checkout. A block
with a file name, such as ```yaml digits.yaml, is written to that file first. `make` lines must name a
target; commands whose dataset is missing are skipped with a message.
sample_output.py says how a block of output names its command; --update writes what was printed.
"""

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import checkout
import messages
import sample_output

_BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)^```$", re.MULTILINE)
_ENTERS_CHECKOUT = re.compile(r"^(?:git clone|cd|sudo|export)\b")
_NEEDS_DATA = re.compile(r"vars\.data=(\S+)")
SECONDS = 300


def commands(text):
    """The commands of a ```sh block, with continued lines joined."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        line = re.sub(r"\s+#.*$", "", line).strip()
        if line and not line.startswith("#"):
            yield line


def write_file(folder, name, content):
    """Writes a file of a document; its folder must not be one of the checkout, which is a link."""
    path = folder / name
    if folder not in path.parent.resolve().parents and path.parent.resolve() != folder:
        return f"'{name}' is a file of the checkout"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(content)
    return None


def make_targets():
    rules = re.findall(r"^([a-z -]+):", checkout.read("Makefile"), re.MULTILINE)
    return {target for rule in rules for target in rule.split()}


def unknown_targets(command):
    words = [word for word in command.split()[1:] if "=" not in word and word[0] != "-"]
    return [word for word in words if word not in make_targets()]


def run(command, folder, binary):
    path = f"{Path(binary).parent}:{os.environ['PATH']}"
    return subprocess.run(["bash", "-ec", command], cwd=folder, env={**os.environ, "PATH": path},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=SECONDS, check=False)


class Document:
    """Runs the commands of one document in `folder` and compares its samples of output."""

    def __init__(self, name, folder, binary):
        self.name, self.folder, self.binary = name, folder, binary
        self.text = checkout.read(name)
        self.printed = {}  # by command
        self.problems = []
        self.fresh = []    # (start, end, text) of samples that are out of date

    def complain(self, line, text):
        self.problems.append(f"{self.name}:{line}: {text}")

    def print_of(self, command):
        if command not in self.printed:
            result = run(command, self.folder, self.binary)
            self.printed[command] = result.stdout
        return self.printed[command]

    def check_command(self, line, command):
        if _ENTERS_CHECKOUT.match(command):
            return
        if command.startswith("make "):
            for word in unknown_targets(command):
                self.complain(line, f"make has no target '{word}'")
            return
        data = _NEEDS_DATA.search(command)
        if data and not (self.folder / data.group(1)).exists():
            print(f"{self.name}:{line}: left out, there is no '{data.group(1)}': {command}")
            return
        result = run(command, self.folder, self.binary)
        self.printed[command] = result.stdout
        if result.returncode:
            tail = "\n".join(result.stdout.splitlines()[-10:])
            self.complain(line, f"exit {result.returncode}: {command}\n{tail}")

    def check_sample(self, line, block, kind, subject):
        if kind == "tested in":
            missing = sample_output.untested(block[2], messages.test_text([checkout.read(file) for file in subject.split(", ")]))
            if missing:
                self.complain(line, f"'{subject}' has no '{missing[0]}'")
            return
        output = self.print_of(subject)
        found = sample_output.differs(kind, block[2], output)
        if found is None:
            return
        fresh = sample_output.updated(block[2], output)
        if fresh is not None:
            self.fresh.append((block.start(2), block.end(2), fresh))
        self.complain(line, f"'{subject}' does not print: {found}\n"
                      + ("  update: tests/lint/examples.py build/accel-run --update " + self.name if fresh is not None
                         else "  correct it by hand; it printed:\n" + output))

    def check(self):
        for block in _BLOCK.finditer(self.text):
            line = checkout.line_of(self.text, block.start()) + 1
            kind, subject = sample_output.kind_of(block[1])
            file = sample_output.file_of(block[1])
            if file:
                refusal = write_file(self.folder, file, block[2])
                if refusal:
                    self.complain(line, refusal)
            elif block[1].strip() == "sh":
                words = list(commands(block[2]))
                for command in words:
                    self.check_command(line, command)
                self.printed["the commands above"] = "".join(self.printed.get(command, "") for command in words)
            elif kind:
                self.check_sample(line, block, kind, subject)

    def update(self):
        for start, end, fresh in reversed(self.fresh):
            self.text = self.text[:start] + fresh + self.text[end:]
        (checkout.ROOT / self.name).write_text(self.text, encoding="utf-8")


def unclassified(name, text):
    """Blocks that do not say what they are."""
    return [f"{name}:{checkout.line_of(text, block.start())}: name the language of this block; of output, the command: "
            "see tests/lint/sample_output.py"
            for block in _BLOCK.finditer(text) if not sample_output.is_classified(block[1])]


def check_document(name, binary, update):
    """The complaints about one document."""
    problems = unclassified(name, checkout.read(name))
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text).resolve()
        for entry in checkout.ROOT.iterdir():
            if entry.name not in (".git", "build", "runs", "dist"):
                (folder / entry.name).symlink_to(entry)
        (folder / "build").mkdir()
        (folder / "build" / "accel-run").symlink_to(binary)
        document = Document(name, folder, binary)
        document.check()
        if update and document.fresh:
            document.update()
    return problems + document.problems


def main(binary, words):
    update, names = "--update" in words, [word for word in words if word != "--update"]
    # Two at once: many commands compute on one core, or wait.
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda name: check_document(name, binary, update), names or checkout.files(".md"))
        checkout.finish([problem for problems in found for problem in problems])


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), sys.argv[2:])
