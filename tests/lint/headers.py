#!/usr/bin/env python3
"""Every header compiles alone, and nothing includes a header that takes seconds to compile.

    headers.py                                        what the text of the sources shows
    headers.py --torch LIBTORCH --all                 compiles every header, with 2 s of a core for each
    headers.py --torch LIBTORCH --changed --limit 240 compiles those that changed since the merge base with
        main, then those that include them, the nearest first; none starts after the limit, in seconds
"""

import argparse
import re
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import checkout

HEAVY = re.compile(r"^#include <(torch/(?:torch|types|all|extension)\.h|ATen/(?:ATen|Functions)\.h)>",
                   re.MULTILINE)
# What may include torch/nn, torch/optim and torch/csrc; elsewhere tensors are ATen/core/Tensor.h and
# single operators.
HEAVY_LAYERS = ("kernels/", "parallel/", "models/", "train/tasks/", "infer/model_texts.cpp",
                "train/loop/step_profile.cpp", "accel/", "tests/", "bench/", "plugins/")
MODULES = re.compile(r"^#include <((?:torch/nn|torch/csrc|torch/optim)/[^>]+)>", re.MULTILINE)
FIRST_INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]', re.MULTILINE)
OWN_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
PART_OF_ANOTHER = re.compile(r"^// Included by [\w/.]+; never include it alone\.$", re.MULTILINE)


def includes_problems(name, source):
    found = [f"{name}:{checkout.line_of(source, match.start())}: '{match.group(1)}' is too heavy:"
             " include the operators or layers used" for match in HEAVY.finditer(source)]
    if not name.startswith(HEAVY_LAYERS):
        found += [f"{name}:{checkout.line_of(source, match.start())}: '{match.group(1)}' is not for"
                  " this layer: use ATen/core/Tensor.h and ATen/ops"
                  for match in MODULES.finditer(source)]
    return found


def own_header_problems(sources):
    """A .cpp that opens with its own header proves that the header compiles alone."""
    found = []
    for name, source in sources.items():
        header = name.removesuffix(".cpp") + ".h"
        first = FIRST_INCLUDE.search(source)
        if name.endswith(".cpp") and header in sources and first and first.group(1) != header:
            found.append(f"{name}:{checkout.line_of(source, first.start())}:"
                         f" the first include must be '{header}'")
    return found


def headers_of(sources):
    return [name for name, source in sources.items() if name.endswith(".h") and not PART_OF_ANOTHER.search(source)]


def with_includers(changed, sources):
    """Changed headers, then those that include them, directly and through others."""
    includers = {}
    for name, source in sources.items():
        for included in OWN_INCLUDE.findall(source):
            includers.setdefault(included, []).append(name)
    found = dict.fromkeys(name for name in changed if name in sources)
    for name in (queue := list(found)):
        for includer in includers.get(name, []):
            if includer not in found:
                found[includer] = None
                queue.append(includer)
    return list(found)


def compile_alone(name, command, scratch):
    stub = scratch / (name.replace("/", "_") + ".cpp")
    text = f'#include "{name}"\n'
    if not stub.exists() or stub.read_text() != text:
        stub.write_text(text)
    result = subprocess.run([*command, "-c", str(stub), "-o", str(stub.with_suffix(".o"))],
                            capture_output=True, text=True, check=False)
    errors = [line for line in result.stderr.splitlines() if "error:" in line] or ["error"]
    return [f"{name}: does not compile alone: {errors[0]}"] if result.returncode else []


def check_alone(names, options):
    """Compiles the headers until the limit; complaints, and how many were compiled."""
    command = [options.compiler, "-std=c++20", "-O0", "-I", str(checkout.ROOT)]
    if shutil.which("ccache"):
        command.insert(0, "ccache")
    for folder in ("include", "include/torch/csrc/api/include"):
        command += ["-isystem", str(options.torch / folder)]
    end = time.monotonic() + options.limit

    def run(name):
        return None if time.monotonic() > end else compile_alone(name, command, options.scratch)

    options.scratch.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=2) as pool:
        results = [found for found in pool.map(run, names) if found is not None]
    print(f"headers: {len(results)} of {len(names)} compiled alone")
    return sum(results, [])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--torch", type=Path, help="an unpacked libtorch")
    parser.add_argument("--scratch", type=Path, default=Path("build/headers"))
    parser.add_argument("--limit", type=float, default=float("inf"))
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true")
    which.add_argument("--changed", action="store_true")
    options = parser.parse_args()

    sources = {name: checkout.read(name) for name in checkout.files(".h", ".cpp")}
    problems = [problem for name, source in sources.items()
                for problem in includes_problems(name, source)]
    problems += own_header_problems(sources)
    headers = headers_of(sources)
    if options.changed:
        changed = checkout.git("diff", "--no-renames", "--name-only", checkout.merge_base()).splitlines()
        headers = with_includers(changed, {name: sources[name] for name in headers})
    if options.all or options.changed:
        problems += check_alone(headers, options)
    checkout.finish(problems)


if __name__ == "__main__":
    main()
