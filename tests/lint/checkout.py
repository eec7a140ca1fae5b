"""The checkout as the lint checks see it: its files, their text, and how a complaint is printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(os.environ.get("ACCEL_SOURCE_DIR", Path(__file__).resolve().parents[2]))
SKIPPED = 77  # the exit code that CTest counts as skipped
NOT_OURS = ("build/", ".git/", "runs/")


def files(*endings):
    """Paths below ROOT, as text with '/', of the files that git tracks or would track."""
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        names = set(listing.stdout.splitlines())
    else:
        names = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*")}
    return sorted(name for name in names
                  if name.endswith(endings or "") and not name.startswith(NOT_OURS)
                  and (ROOT / name).is_file())


def read(name):
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


def is_binary(name):
    return b"\0" in (ROOT / name).read_bytes()[:8192]


def blank(match):
    """The same number of lines and columns, with nothing in them."""
    return re.sub(r"[^\n]", " ", match.group(0))


_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                   r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def without_text(source):
    """C++ source with comments, strings and characters blanked, so that only code is left."""
    return _TEXT.sub(blank, source)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def git(*words):
    """The output of a git command; empty where it fails."""
    result = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else ""


def merge_base():
    """Where this branch left main; on main itself, the commit before."""
    head = git("rev-parse", "HEAD")
    for branch in ("origin/main", "main"):
        base = git("merge-base", "HEAD", branch)
        if base and base != head:
            return base
    return git("rev-parse", "HEAD^")


def finish(problems):
    """Ends the check: prints the complaints, one per line, and fails when there are any."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} found")
    sys.exit(1 if problems else 0)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)
