#!/usr/bin/env python3
"""Progress, colors, quiet and verbose output on a terminal and in pipes.

    terminal.py BINARY
"""

import os
import re
import subprocess
import sys
import unicodedata

import runs
import views

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Long enough for several redraws, and for an evaluation that takes longer than one.
LONG = ["train.until=4000 steps", "checkpoint.every=never", "log.every=1000 steps", "eval.every=2000 steps"]
VARIABLES = {"TERM": "xterm", "LANG": "C.UTF-8", "LC_ALL": "", "LC_CTYPE": "", "NO_COLOR": "", "CLICOLOR_FORCE": ""}


def on_terminal(scratch, words, columns=80, resize=None):
    """(what was shown, exit code)."""
    screen = views.Screen(scratch, columns, 24, words)
    if resize:
        screen.read_until(lambda text: "\r\x1b[K" in text)
        screen.resize(resize, 24)
    text = screen.read_until(lambda shown: False)
    _, status = os.waitpid(screen.process, 0)
    os.close(screen.terminal)
    return text, os.waitstatus_to_exitcode(status)


def width(text):
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def bars(text):
    """The lines that were drawn over, without colors."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return [part.split("\n")[-1] for part in plain.split("\r\x1b[K")[:-1]]


def check_pipes(scratch, report):
    done = subprocess.run([scratch.binary, "job.yaml", "name=pipe"], cwd=scratch.path, text=True,
                          capture_output=True, env=runs.ENVIRONMENT)
    both = done.stdout + done.stderr
    report.check("a pipe has plain lines", done.returncode == 0 and not set(both) & set("\r\x1b"), both)
    steps = re.findall(r"^step (\d+)/24 ", done.stdout, re.MULTILINE)
    report.check("the first step's line is printed at once", steps == ["1", "10", "20", "24"], done.stdout)
    for words, wanted in ((["--quiet"], "^done at step 24"), (["-q"], "^done at step 24")):
        done = subprocess.run([scratch.binary, "--color", "never", "job.yaml", "name=quiet" + words[0], *words],
                              cwd=scratch.path, text=True, capture_output=True, env=runs.ENVIRONMENT)
        report.check("quiet output is the last screen", re.match(wanted, done.stdout) and "checkpoint " in done.stdout
                     and "step 10/24" not in done.stdout and done.returncode == 0, done.stdout)
    done = subprocess.run([scratch.binary, "job.yaml", "name=verbose", "--verbose"], cwd=scratch.path, text=True,
                          capture_output=True, env=runs.ENVIRONMENT)
    report.check("verbose output has the time of each part", all(re.search(rf"^  {part}: \d+\.\d\d s$", done.stdout, re.M)
                 for part in ("opening the training data", "building the model", "evaluating")), done.stdout)


def check_refused(scratch, report):
    code, errors = scratch.call("job.yaml", "--progress", "bar")
    report.check("a bar in a pipe is refused", code == 2 and errors ==
                 "error: '--progress bar' needs a terminal, and the output is none\n"
                 "  hint: use '--progress lines', or leave it out\n", errors)
    code, errors = scratch.call("job.yaml", "--color", "blue")
    report.check("an unknown choice is refused", code == 2 and "--color" in errors, errors)
    code, errors = scratch.call("job.yaml", "--quiet", "--verbose")
    report.check("quiet and verbose exclude each other", code == 2 and "excludes" in errors, errors)
    report.check("before anything is written", not (scratch.path / "runs" / "job").exists())


def check_colors(scratch, report):
    (scratch.path / "bad.yaml").write_text("modle: {type: mlp}\n")
    code, errors = scratch.call("validate", "bad.yaml", "--color", "always")
    report.check("errors and hints have colors", code == 2 and "\x1b[1mbad.yaml:1:1: \x1b[0m\x1b[1;31merror:\x1b[0m" in errors
                 and "\x1b[36m  hint:\x1b[0m" in errors and "\x1b[1;32m    ^\x1b[0m" in errors, errors)
    code, errors = scratch.call("--error-format", "json", "validate", "bad.yaml", "--color=always")
    report.check("but not as JSON", code == 2 and "\x1b" not in errors, errors)
    code, errors = scratch.call("--progress", "none", "launch", "--num_processes", "1", "--color", "always", "missing.yaml")
    report.check("launch has the options before its recipe", code == 2 and "\x1b" in errors
                 and "missing.yaml" in errors, errors)


def check_bar(scratch, report):
    text, code = on_terminal(scratch, ["job.yaml", "name=bar", *LONG])
    drawn = bars(text)
    report.check("a terminal has a bar", code == 0 and any(re.search(
        r"\d+ % ▕.*▏  [\d,]+/4,000  loss [\d.e-]+  [\d,.]+ steps/s  .*\d:\d\d, \d:\d\d left$", line)
        for line in drawn), f"{code} {drawn[-5:]}")
    report.check("of at most its columns", max(map(width, drawn)) < 80, max(drawn, key=width))
    report.check("its headlines are bold", "\x1b[1maccel-run " in text and "\x1b[1mdone at step" in text, text[-900:])
    rest = text[text.index("done at step"):]
    report.check("and nothing is drawn after the last screen", "\r\x1b[K" not in rest and "▕" not in rest, repr(rest))
    lines = ESCAPE.sub("", re.sub(r"[^\n]*\r\x1b\[K", "", text)).replace("\r", "").splitlines()
    report.check("lines stay whole above it", any(line.startswith("step 2000/4000 ") for line in lines)
                 and not any("▕" in line for line in lines), f"{lines}")
    text, code = on_terminal(scratch, ["job.yaml", "name=narrow", *LONG], resize=40)
    report.check("it follows a resized window", code == 0 and width(bars(text)[-1]) < 40, f"{bars(text)[-3:]}")
    text, code = on_terminal(scratch, ["job.yaml", "name=none", "--progress", "none", "--color", "never", *LONG])
    report.check("and can be left out, as can colors", code == 0 and not ESCAPE.search(text), repr(text[-300:]))
    os.environ["LC_ALL"] = "C"
    os.environ["NO_COLOR"] = "1"
    text, code = on_terminal(scratch, ["job.yaml", "name=ascii", *LONG])
    os.environ.update(VARIABLES)
    report.check("without Unicode the bar is of ASCII", code == 0 and re.search(r"% \[#+\.*\]  [\d,]+/4,000 ", text)
                 and text.isascii(), f"{bars(text)[-3:]}")
    report.check("NO_COLOR is respected", "\x1b[1m" not in text, text[:300])


def check_evaluation(scratch, report):
    words = ["data.eval.length=40000", "train.until=2 steps", "data.eval.type=synthetic/glyphs", "eval.batch=16"]
    text, code = on_terminal(scratch, ["job.yaml", "name=evaluation", *words])
    report.check("an evaluation has a bar of its own", code == 0 and any(re.match(
        r"evaluating +\d+ % ▕.*▏  [\d,]+/2,500 batches ", line) for line in bars(text)), f"{bars(text)[-5:]}")


def check_ranks(scratch, report):
    text, code = on_terminal(scratch, ["job.yaml", "name=ranks", "accelerator.num_processes=2", *LONG])
    drawn = bars(text)
    report.check("rank 0 of several draws the bar", code == 0 and any("/4,000 " in line for line in drawn)
                 and max(map(width, drawn)) < 80, f"{code} {drawn[-5:]}")


def main():
    os.environ.update(VARIABLES, OMP_NUM_THREADS="1")
    runs.ENVIRONMENT.update(VARIABLES)
    report = runs.Report()
    with runs.Scratch(sys.argv[1]) as scratch:
        check_refused(scratch, report)
        check_colors(scratch, report)
        check_pipes(scratch, report)
        check_bar(scratch, report)
        check_evaluation(scratch, report)
        check_ranks(scratch, report)
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
