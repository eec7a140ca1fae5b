#!/usr/bin/env python3
"""Every C++ file is laid out as .clang-format says."""

import shutil
import subprocess

import checkout

VERSION = "14"  # another version lays some constructs out differently


def find_clang_format():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(name)
        if path and f"version {VERSION}." in subprocess.run(
                [path, "--version"], capture_output=True, text=True, check=False).stdout:
            return path
    return None


if __name__ == "__main__":
    formatter = find_clang_format()
    if formatter is None:
        checkout.skip(f"no clang-format {VERSION} here; 'make lint' installs it")
    result = subprocess.run([formatter, "--dry-run", "--Werror", *checkout.files(".h", ".cpp")],
                            cwd=checkout.ROOT, capture_output=True, text=True, check=False)
    checkout.finish([line for line in result.stderr.splitlines() if " error: " in line])
