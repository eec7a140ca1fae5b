#!/usr/bin/env python3
"""System calls with one wrapper: rename, open, fsync, dlopen and getenv occur only in its file."""

import re

import checkout
import layers

# What a call looks like in code without strings, where it belongs, and what other files use.
WRAPPED = {
    "rename": (r"(?<![\w>])(?:::|std::|fs::|std::filesystem::)rename\s*\(|\brename\s*\([^;]*c_str\(",
               "core/base/files.cpp", "write_file_atomically(), publish_file() or Files::rename()"),
    "open": (r"(?<![\w>])::open\s*\(|(?<![\w:.>])open\s*\([^;]*\bO_[A-Z]+",
             "core/base/owned_fd.cpp", "open_fd()"),
    "fsync": (r"\bf(?:data)?sync\s*\(", "core/base/owned_fd.cpp", "sync_fd()"),
    "dlopen": (r"\bdlopen\s*\(", "core/base/shared_library.cpp", "SharedLibrary"),
    "getenv": (r"\b(?:secure_)?getenv\s*\(", "core/base/environment.cpp", "environment_variable()"),
}
EXCEPTIONS = {
    # Fills standard input, output and error: without O_CLOEXEC, and at the lowest free number.
    ("open", "runner/launch/launcher.cpp"),
}
_PATTERNS = {call: re.compile(pattern) for call, (pattern, _, _) in WRAPPED.items()}


def problems_in(name, source):
    if layers.room_of(name) is None:
        return []
    code = checkout.without_text(source)
    found = []
    for call, (_, home, instead) in WRAPPED.items():
        if name == home or (call, name) in EXCEPTIONS:
            continue
        for match in _PATTERNS[call].finditer(code):
            line = checkout.line_of(code, match.start())
            found.append(f"{name}:{line}: '{call}' is called in '{home}' only: use {instead}")
    return found


if __name__ == "__main__":
    checkout.finish([problem for name in checkout.files(".h", ".cpp")
                     for problem in problems_in(name, checkout.read(name))])
