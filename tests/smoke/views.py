#!/usr/bin/env python3
"""What can be seen of a run: its report, `report`, `top` and `completion`.   views.py BINARY

A report is one well-formed page that needs nothing else, also after a crash; `top` fits the terminal
it is given and gives it back; the completions offer what the shells' users expect.
"""

import fcntl
import html.parser
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import xml.etree.ElementTree

import runs

SECRET = "planted-s3cret-value"
ELSEWHERE = re.compile(r"https?:|//[a-z]|<script|<link|<iframe|@import|url\(", re.IGNORECASE)
VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(html.parser.HTMLParser):
    """Checks that tags close in order, and remembers titles of charts."""

    def __init__(self, text):
        super().__init__()
        self.open, self.problems, self.titles = [], [], []
        self.feed(text)
        self.close()
        if self.open:
            self.problems.append(f"never closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        if len(names) != len(set(names)):
            self.problems.append(f"<{tag}> has an attribute twice")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> at line {self.getpos()[0]}")

    def handle_data(self, data):
        if self.open[-1:] == ["h3"]:
            self.titles.append(data)


def page_problem(path):
    """What is wrong with a report; empty: nothing."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r'src="data:image/png;base64,[A-Za-z0-9+/=]*"', "", text)
    elsewhere = ELSEWHERE.search(text)
    if elsewhere:
        return f"refers to something else: {text[elsewhere.start() - 40:elsewhere.end() + 40]}"
    problems = Page(text).problems
    if problems:
        return f"is not well formed: {problems}"
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        xml.etree.ElementTree.fromstring(drawing)
    return ""


def check_report(scratch, report):
    environment = dict(runs.ENVIRONMENT, VIEW_SECRET=SECRET)
    words = [scratch.binary, "job.yaml", "log.every=4 steps", "log.images=2",
             "vars.token=${secret:VIEW_SECRET}"]
    done = subprocess.run(words, cwd=scratch.path, env=environment, text=True, capture_output=True)
    report.check("a run ends", done.returncode == 0, done.stderr)
    page = scratch.run / "report.html"
    report.check("with a report, and says where",
                 page.exists() and "report     runs/job/report.html" in done.stdout, done.stdout)
    problem = page_problem(page)
    report.check("which is one whole page", not problem, problem)
    text = page.read_text()
    titles = Page(text).titles
    wanted = {"Loss", "Learning rate", "Gradient norm", "Memory, MiB", "Samples per second"}
    report.check("has the curves", wanted <= set(titles), f"{titles}")
    report.check("the time, the samples, the environment and the recipe",
                 all(part in text for part in ("forward ", "data:image/png;base64,", "<th>torch</th>",
                                               "model:", "# default", ">finished<")))
    everything = b"".join(path.read_bytes() for path in scratch.run.rglob("*") if path.is_file())
    report.check("no file of the run has the secret", SECRET.encode() not in everything)
    report.check("the recipe shows where the secret comes from", "${secret:VIEW_SECRET}" in text)


def check_resumed(scratch, report):
    code, errors = scratch.call("resume", "runs/job", "train.until=30 steps", "optimizer.lr=0.02",
                                "vars.token=none")
    text = (scratch.run / "report.html").read_text()
    report.check("a resumed run's report lists the changes",
                 code == 0 and "optimizer.lr was 0.01, is 0.02" in text and ">resume<" in text, errors)


def check_crash(scratch, report):
    process = scratch.start("job.yaml", "name=killed", "train.until=100000 steps",
                            "log.every=1 steps", "checkpoint.every=never")
    record = scratch.path / "runs" / "killed" / "metrics.jsonl"
    while process.poll() is None and not (record.exists() and record.read_text().count('"log"') > 3):
        time.sleep(0.01)
    code, _ = scratch.call("report", "runs/killed")
    page = record.parent / "report.html"
    report.check("a running run has a report", code == 0 and ">running<" in page.read_text())
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with open(record, "a") as torn:
        torn.write('{"step":99999,"epoch":0,"sam')
    code, errors = scratch.call("report", "runs/killed")
    problem = page_problem(page)
    report.check("so has one that was killed", code == 0 and not problem, errors + problem)
    report.check("which says so", ">crashed<" in page.read_text())
    once = subprocess.run([scratch.binary, "top", "runs/killed"], cwd=scratch.path, text=True,
                          capture_output=True)
    report.check("and so does top", once.stdout.startswith("killed  crashed\n"), once.stdout)


def check_comparison(scratch, report):
    code, errors = scratch.call("report", "runs/job", "runs/killed")
    report.check("several runs need a file", code == 2 and "--output FILE.html" in errors, errors)
    code, errors = scratch.call("report", "runs/job", "runs/killed", "--output", "both.html")
    both = scratch.path / "both.html"
    problem = page_problem(both) if both.exists() else "is missing"
    report.check("and are compared in it", code == 0 and not problem, errors + problem)
    report.check("with the differences of their recipes", "<th>train.until</th>" in both.read_text())


def check_failed_report(scratch, report):
    (scratch.path / "runs" / "barred" / "report.html" / "inside").mkdir(parents=True)
    code, errors = scratch.call("job.yaml", "name=barred", "train.until=2 steps")
    report.check("a report that cannot be written is a warning",
                 code == 0 and "warning: cannot write the report: cannot write" in errors, errors)


class Screen:
    """A program in a pseudo terminal of a size."""

    def __init__(self, scratch, columns, rows, words):
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(scratch.path)
            os.execv(scratch.binary, [str(scratch.binary), *words])
        self.resize(columns, rows)
        self.text = ""

    def resize(self, columns, rows):
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)

    def read_until(self, done):
        """What was shown, once `done` holds of it, or after a minute."""
        limit = time.monotonic() + 600
        while not done(self.text) and time.monotonic() < limit:
            if select.select([self.terminal], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.terminal, 65536).decode(errors="replace")
                except OSError:  # its end is closed
                    break
        return self.text

    def type(self, keys):
        os.write(self.terminal, keys.encode())


def pictures(text):
    """The pictures that were drawn, each as its lines, without what looks and moves."""
    drawn = [part for part in text.split("\x1b[H")[1:] if "\x1b[J" in part]
    plain = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part.split("\x1b[J")[0]) for part in drawn]
    return [[line.rstrip("\r") for line in part.split("\n")] for part in plain]


def check_top(scratch, report, columns):
    screen = Screen(scratch, columns, 24, ["top", "runs/job"])
    text = screen.read_until(lambda shown: any(len(max(part, key=len)) > columns * 3 // 4
                                               for part in pictures(shown)))
    last = pictures(text)[-1] if pictures(text) else [""]
    report.check(f"top fills {columns} columns and no more",
                 columns * 3 // 4 < max(map(len, last)) <= columns and len(last) <= 24, f"{last}")
    report.check("and shows the run", last[0].startswith("job  finished")
                 and any(line.startswith("loss ") for line in last) and last[-1] == "q quits", f"{last}")
    screen.resize(50, 8)
    text = screen.read_until(lambda shown: pictures(shown) and len(pictures(shown)[-1]) <= 8)
    last = pictures(text)[-1]
    report.check("a smaller window has a smaller picture",
                 len(last) <= 8 and max(map(len, last)) <= 50, f"{last}")
    screen.type("q" if columns == 80 else "\x03")
    text = screen.read_until(lambda shown: shown.endswith("\x1b[?1049l"))
    report.check("it ends at a key, and gives the screen back",
                 text.endswith("\x1b[?25h\x1b[?1049l"), repr(text[-40:]))
    _, status = os.waitpid(screen.process, 0)
    report.check("without an error", os.waitstatus_to_exitcode(status) == 0)
    os.close(screen.terminal)


def check_top_once(scratch, report):
    for columns in ("80", "200"):
        done = subprocess.run([scratch.binary, "top", "--once", "runs/job"], cwd=scratch.path, text=True,
                              capture_output=True, env=dict(os.environ, COLUMNS=columns))
        widest = max(map(len, done.stdout.splitlines()))
        report.check(f"top --once prints {columns} columns", done.returncode == 0
                     and int(columns) * 3 // 4 < widest <= int(columns), done.stdout + done.stderr)
    code, errors = scratch.call("top", "checkpoints")
    report.check("a folder that is no run's is refused", code == 2 and errors ==
                 "error: 'checkpoints' is not a run folder: it has no metrics.jsonl\n"
                 "  hint: give the folder that 'run' printed, such as runs/NAME\n", errors)
    for verb in ("top", "report"):
        code, errors = scratch.call(verb, "job")
        report.check(f"{verb} says which folder was meant", code == 2 and errors ==
                     "error: 'job' is not a run folder: it has no metrics.jsonl\n  hint: did you mean 'runs/job'?\n", errors)


BASH = """source script.bash
COMP_LINE=$1; COMP_POINT=${#COMP_LINE}
_accel_run
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(scratch, shell, line):
    """What the shell would offer at the end of `line`."""
    if shell == "bash":
        command = ["bash", "-c", BASH, "bash", line]
    elif shell == "zsh":
        words = " ".join(f"'{word}'" for word in line.split(" ")[1:-1])
        command = ["zsh", "-fc", "compdef() { :; }; source ./script.zsh; "
                   f"_accel_run_offer '{line.split(' ')[-1]}' {words} | tr ' ' '\\n'"]
    else:
        command = ["fish", "-c", f"source script.fish; complete -C '{line}'"]
    done = subprocess.run(command, cwd=scratch.path, text=True, capture_output=True)
    return [word.split("\t")[0] for word in done.stdout.split("\n") if word], done.stderr


def check_completion(scratch, report):
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run([scratch.binary, "completion", shell], text=True, capture_output=True,
                              timeout=600)
        (scratch.path / f"script.{shell}").write_text(done.stdout)
        if not shutil.which(shell):
            print(f"skipped {shell}, which is not installed")
            continue
        cases = [("accel-run ver", "verify-resume"), ("accel-run checkpoint con", "convert"),
                 ("accel-run list opt", "optimizer"), ("accel-run run --al", "--allow"),
                 ("accel-run run a.yaml optimizer.l", "optimizer.lr="),
                 ("accel-run a.yaml train.unt", "train.until=")]
        if shell != "bash":  # which takes what is behind the = for a word of its own
            cases.append(("accel-run a.yaml model.type=ml", "model.type=mlp"))
        else:
            cases.append(("accel-run a.yaml model.type=ml", "mlp"))
            cases.append(("accel-run builtin:quick", "quickstart"))
        for line, wanted in cases:
            found, errors = offered(scratch, shell, line)
            report.check(f"{shell} completes '{line}'", wanted in found and not errors,
                         f"{found[:8]} {errors}")
    done = subprocess.run([scratch.binary, "completion", "tcsh"], text=True, capture_output=True)
    report.check("another shell is refused", done.returncode == 2, done.stderr)


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1]) as scratch:
        check_report(scratch, report)
        for columns in (80, 200):
            check_top(scratch, report, columns)
        check_top_once(scratch, report)
        check_resumed(scratch, report)
        check_crash(scratch, report)
        check_comparison(scratch, report)
        check_failed_report(scratch, report)
        check_completion(scratch, report)
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
