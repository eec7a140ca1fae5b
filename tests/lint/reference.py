#!/usr/bin/env python3
"""The committed reference pages are what the binary writes.   reference.py ACCEL_RUN"""

import subprocess
import sys
import tempfile
from pathlib import Path

import checkout

PAGES = checkout.ROOT / "docs" / "reference"
REMEDY = "run 'build/accel-run reference docs/reference'"


def difference(written, committed):
    """Complaints about two folders of pages, compared by name and by byte."""
    problems = []
    for name in sorted({page.name for folder in (written, committed) for page in folder.glob("*")}):
        new, old = written / name, committed / name
        if not new.exists():
            problems.append(f"docs/reference/{name}: nothing writes this page any more")
        elif not old.exists() or new.read_bytes() != old.read_bytes():
            problems.append(f"docs/reference/{name}: out of date: {REMEDY}")
    return problems


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], "reference", folder], check=True)
        checkout.finish(difference(Path(folder), PAGES))
