#!/usr/bin/env python3
"""clang-tidy over the product files that changed since the merge base with main, libtorch's users
included.   tidy.py --build DIR [--limit SECONDS] [--jobs 2] [--base COMMIT] [FILE...]

DIR has compile_commands.json without precompiled headers. A file that includes libtorch takes 10 to
40 s: those with the most changed lines come first, and none starts after the limit.
"""

import argparse
import concurrent.futures
import json
import shutil
import subprocess
import sys
import time

import checkout
import layers

TIDY = "clang-tidy-14"


def changed(numstat):
    """Product sources of `git diff --numstat`, those with the most changed lines first. A changed header
    stands for the source of its unit."""
    lines = {}
    for row in numstat.splitlines():
        added, removed, name = row.split("\t")
        if layers.room_of(name) and name.endswith((".h", ".cpp")) and added != "-":
            source = layers.unit_of(name) + ".cpp"
            lines[source] = lines.get(source, 0) + int(added) + int(removed)
    return sorted(lines, key=lambda name: (-lines[name], name))


def compiled(build):
    """Names of the sources in the compile database."""
    entries = json.loads((checkout.ROOT / build / "compile_commands.json").read_text())
    prefix = str(checkout.ROOT) + "/"
    return {entry["file"].removeprefix(prefix) for entry in entries}


def check(build, name):
    """What clang-tidy reports on one file, and whether that is a failure."""
    result = subprocess.run([TIDY, "-p", build, "--quiet", name], cwd=checkout.ROOT, capture_output=True, text=True,
                            check=False)
    return result.stdout + (result.stderr if result.returncode else ""), result.returncode != 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--limit", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--base")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    if not shutil.which(TIDY):
        checkout.skip(f"no {TIDY}")
    known = compiled(options.build)
    names = options.files or changed(checkout.git("diff", "--no-renames", "--numstat", options.base or checkout.merge_base()))
    names = [name for name in names if name in known]
    end = time.monotonic() + options.limit
    failed = done = 0

    def run(name):
        if time.monotonic() > end:
            return None
        return check(options.build, name)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, result in zip(names, pool.map(run, names)):
            if result is None:
                continue
            done += 1
            failed += result[1]
            print(f"{name}\n{result[0]}" if result[1] else name, flush=True)
    print(f"clang-tidy: {done} of {len(names)} changed files checked, {failed} with findings")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
