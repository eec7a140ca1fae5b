#!/usr/bin/env python3
"""docs/architecture.md names every file that replaces or changes something of the whole process."""

import re

import checkout
import layers

GUIDE = "docs/architecture.md"
SECTION = "## Process-wide replacements"

# Calls and definitions with an effect on the whole process, in code without strings.
PATTERNS = {
    "the CPU allocator": r"\bSet(?:CPU)?Allocator\s*\(",
    "kernels of ATen": r"\bTORCH_LIBRARY_IMPL\s*\(|\btorch::Library::IMPL\b|\bLibrary::IMPL\b"
                       r"|\bregister_cpu_overrides\s*\(",
    "the autograd engine": r"\bset_default_engine_stub\s*\(",
    "a signal handler or mask": r"\bsigaction\s*\(|(?<![\w.>])(?:std::|::)?signal\s*\("
                                r"|\b(?:pthread_sigmask|sigprocmask|signalfd)\s*\(",
    "the terminate handler": r"\bset_(?:terminate|new_handler|unexpected)\s*\(",
    "work at exit": r"\b(?:at_quick_exit|atexit|on_exit)\s*\(",
    "a function of MKL": r"\bmkl_\w+\s*\(",
    "memory functions of MKL": r"\bshare_heap_with_mkl\s*\(",
    "registration of libtorch's kernels": r"\bDispatcher::registerImpl\s*\(",
    "settings of malloc": r"\bmallopt\s*\(",
    "operator new": r"\boperator (?:new|delete)(?:\[\])?\s*\([^;{]*\)\s*(?:noexcept\s*)?\{",
    "an environment variable": r"\b(?:un)?setenv\s*\(|\bputenv\s*\(|\bclearenv\s*\(",
    "the program": r"\b(?:execvp?e?|execlp?e?|fexecve)\s*\(",
    "a preloaded library": r"\bLD_PRELOAD\b",
    "a stub library": r"make_stub_library\.py",
    "settings of libtorch": r"\bFLAGS_caffe2_\w+\s*=|\bset_num_(?:interop_)?threads\s*\("
                            r"|\bsetDeterministic\w*\s*\(|\bsetAllow\w+\s*\(|\bsetBenchmarkCuDNN\s*\("
                            r"|\bset_warning_handler\s*\(",
    "settings of OpenMP": r"\bomp_set_\w+\s*\(",
    "settings of the process": r"\bprctl\s*\(|\bdup2\s*\(|\bumask\s*\(|\bsetrlimit\s*\(|\bsched_setaffinity\s*\("
                               r"|\b(?:setlocale|locale::global)\s*\(|\bf(?:esetround|eenableexcept)\s*\("
                               r"|(?<![\w.>])chdir\s*\(",
}
_PATTERNS = {effect: re.compile(pattern) for effect, pattern in PATTERNS.items()}


def named_files(guide):
    """The files in the table's second column."""
    section = guide.partition(f"\n{SECTION}\n")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ")]
    return {name for row in rows for name in re.findall(r"`([\w./]+\.\w+)`", row[2])}


def problems_in(name, source, named):
    # Strings hold a library's or variable's name, which these effects need.
    texts = source if name.endswith(".cmake") else checkout.without_text(source)
    units = {layers.unit_of(each) for each in named}
    found = []
    for effect, pattern in _PATTERNS.items():
        match = pattern.search(texts)
        if match and layers.unit_of(name) not in units:
            found.append(f"{name}:{checkout.line_of(texts, match.start())}: '{match.group(0).strip()}' changes"
                         f" {effect} for the whole process: name the file in the table of {GUIDE}")
    return found


def main():
    named = named_files(checkout.read(GUIDE))
    problems = [f"{GUIDE}: the table '{SECTION[3:]}' is empty"] if not named else []
    for name in checkout.files(".h", ".cpp", ".c", ".cmake"):
        if layers.room_of(name) or name.startswith("cmake/"):
            problems += problems_in(name, checkout.read(name), named)
    problems += [f"{GUIDE}: the table '{SECTION[3:]}' names '{name}', which does not exist"
                 for name in sorted(named) if not (checkout.ROOT / name).is_file()]
    checkout.finish(problems)


if __name__ == "__main__":
    main()
