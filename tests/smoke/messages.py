#!/usr/bin/env python3
"""Errors and warnings of commands, word for word.   messages.py ACCEL_RUN [--update]

messages.txt has blocks of commands: each block starts in a new folder with `job.yaml`, which `! FILE`
lines add files to. A line `$ COMMAND` is followed by what the command prints to standard error, a line
`% COMMAND` by what it prints to standard output and then to standard error, with SCRATCH for the
folder, and `[N]`, its exit code. --update rewrites what follows the commands.
"""

import pathlib
import re
import shlex
import sys

import runs

TABLE = pathlib.Path(__file__).with_suffix(".txt")


def blocks():
    """Yields (title, head, files, commands): the files by name, and each (mark, command, expected)."""
    for block in re.split(r"^== ", TABLE.read_text(), flags=re.MULTILINE)[1:]:
        title, _, rest = block.partition("\n")
        files = {name: text for name, text in re.findall(r"^! (\S+)\n((?:    .*\n|\n(?=    ))*)", rest, re.MULTILINE)}
        start = re.search(r"^[$%] ", rest, re.MULTILINE).start()
        commands = re.findall(r"^([$%]) (.*)\n((?:(?![$%] ).*\n?)*)", rest[start:], re.MULTILINE)
        yield title, rest[:start], files, commands


def run(scratch, mark, command):
    """What is printed, and the exit code."""
    words = shlex.split(command)
    variables = [word for word in words if re.match(r"[A-Z_]+=", word)]
    process = scratch.start(*words[len(variables):], **dict(word.split("=", 1) for word in variables))
    output, errors = process.communicate()
    printed = (output if mark == "%" else "") + errors
    return printed.replace(str(scratch.path), "SCRATCH") + f"[{process.returncode}]\n"


class Folder(runs.Scratch):
    def start(self, *words, **variables):
        saved = dict(runs.ENVIRONMENT)
        runs.ENVIRONMENT.update(variables)
        try:
            return super().start(*words)
        finally:
            runs.ENVIRONMENT.clear()
            runs.ENVIRONMENT.update(saved)


def main(binary, update):
    report = runs.Report()
    text = TABLE.read_text().partition("== ")[0]
    for title, head, files, commands in blocks():
        text += f"== {title}\n{head}"
        with Folder(binary) as scratch:
            for name, content in files.items():
                (scratch.path / name).parent.mkdir(parents=True, exist_ok=True)
                (scratch.path / name).write_text(re.sub(r"^    ", "", content, flags=re.MULTILINE))
            for mark, command, expected in commands:
                found = run(scratch, mark, command)
                text += f"{mark} {command}\n{found}"
                report.check(f"{title}: {command}", found == expected.rstrip("\n") + "\n",
                             f"\n--- expected\n{expected}--- printed\n{found}")
        text += "\n"
    if update:
        TABLE.write_text(text.rstrip("\n") + "\n")
        return 0
    return report.failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--update" in sys.argv))
